// The model runs a row for each path of the drafter's tokens that prints the beginning p of a
// longer token of the target: for each p as many as there are ways to cut it into tokens of the
// drafter that its distributions have. Were each of its n tokens in a distribution with the chance c, these would be
//
//     rows = sum over k of W(k) c^k           W(k)    = sum over all p of w(p, k)
//                                             w(p, k) = ways to cut p into k tokens
//                                                     = sum over the tokens y that p ends with
//                                                       of w(p without y, k - 1)
//
// which one walk over the target's sorted strings adds up. Tokens at random have c = distribution_entries /
// n; likely ones begin and continue words more often. With LIKELY times that the figures for our
// small models come within a factor of two of what is counted: 138, 309 and 12 rows for 74, 235 and
// 7.
#include "common/text/vocab/string_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/vocab/token_trie.h"

#define LIKELY 4.0

// Counting takes time in proportion to the cube of a string's length. Real vocabularies take
// less than a tenth of this limit, which is about a second. A vocabulary that needs more was
// made to.
#define WORK_MAX 2e9
#define WALK_WORK 64 // a step in a trie, in additions

// The drafter's tokens that may still print the bytes of a string from `from` on.
typedef struct {
    uint32_t from;
    or_trie_state_t state;
} begun_t;

// A string of the target, and what is known of its beginnings, by their length in bytes.
typedef struct {
    const or_token_trie_t *draft;
    uint32_t side;     // bytes of the longest string, + 1
    const char *bytes; // of the string walked last
    uint32_t length;
    double *ways;          // [side][side] w of a beginning, by tokens
    begun_t *begun;        // [side][side] at its end
    uint32_t *begun_count; // [side]
    double *all;           // W
    double work;           // so far, in additions
} walk_t;

static void add_ways(double *to, const double *from, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        to[k] += from[k];
    }
}

// Compute w of the beginning of `to` bytes; shorter ones are known.
static void cut(walk_t *walk, uint32_t to)
{
    const begun_t *before = walk->begun + (size_t)(to - 1) * walk->side;
    begun_t *begun = walk->begun + (size_t)to * walk->side;
    double *ways = walk->ways + (size_t)to * walk->side;
    uint32_t count = 0;
    memset(ways, 0, (to + 1) * sizeof *ways);
    walk->work += (double)walk->begun_count[to - 1] * WALK_WORK;
    for (uint32_t i = 0; i < walk->begun_count[to - 1]; i++) {
        begun_t on = before[i];
        if (or_token_trie_walk(walk->draft, &on.state, (uint8_t)walk->bytes[to - 1])) {
            begun[count++] = on;
            if (or_token_trie_token(walk->draft, on.state) != OR_TOKEN_NONE) {
                add_ways(ways + 1, walk->ways + (size_t)on.from * walk->side, on.from + 1);
                walk->work += on.from + 1;
            }
        }
    }
    begun[count++] = (begun_t){to, or_token_trie_start(walk->draft)};
    walk->begun_count[to] = count;
}

static void count_beginning(walk_t *walk, uint32_t bytes)
{
    add_ways(walk->all, walk->ways + (size_t)bytes * walk->side, bytes + 1);
}

static uint32_t common_bytes(const char *a, uint32_t a_length, const char *b, uint32_t b_length)
{
    uint32_t common = 0;
    while (common < a_length && common < b_length && a[common] == b[common]) {
        common++;
    }
    return common;
}

// Count all beginnings that the string before did not have. That string is counted too if this
// one continues it. This string itself is not counted yet.
static void walk_on(walk_t *walk, const char *bytes, uint32_t length)
{
    uint32_t common = common_bytes(walk->bytes, walk->length, bytes, length);
    if (common > 0 && common == walk->length) {
        count_beginning(walk, common);
    }
    walk->bytes = bytes;
    walk->length = length;
    for (uint32_t to = common + 1; to <= length; to++) {
        cut(walk, to);
        if (to < length) {
            count_beginning(walk, to);
        }
    }
}

static or_status_t walk_all(const or_token_trie_t *draft, const or_token_trie_t *target,
                            double *all)
{
    uint32_t side = or_token_trie_widest(target) + 1;
    walk_t walk = {.draft = draft, .side = side, .bytes = "", .all = all};
    walk.ways = malloc((size_t)side * side * sizeof *walk.ways);
    walk.begun = malloc((size_t)side * side * sizeof *walk.begun);
    walk.begun_count = malloc(side * sizeof *walk.begun_count);
    or_status_t status = OR_OK;
    if (walk.ways == NULL || walk.begun == NULL || walk.begun_count == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory to estimate what slrs costs");
        goto done;
    }
    walk.ways[0] = 1;
    walk.begun[0] = (begun_t){0, or_token_trie_start(draft)};
    walk.begun_count[0] = 1;
    for (uint32_t i = 0; i < or_token_trie_count(target) && walk.work <= WORK_MAX; i++) {
        uint32_t length;
        const char *bytes =
            or_vocab_bytes(or_token_trie_vocab(target), or_token_trie_at(target, i), &length);
        walk_on(&walk, bytes, length);
    }
    if (walk.work > WORK_MAX) {
        all[1] = INFINITY;
    }

done:
    free(walk.ways);
    free(walk.begun);
    free(walk.begun_count);
    return status;
}

or_status_t or_string_cost_count(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_string_cost_t *cost)
{
    or_token_trie_t *draft_trie = NULL;
    or_token_trie_t *target_trie = NULL;
    or_string_cost_t counted = {0};
    or_status_t status = or_token_trie_create(draft, &draft_trie);
    if (status == OR_OK) {
        status = or_token_trie_create(target, &target_trie);
    }
    if (status == OR_OK) {
        counted.draft_tokens = or_token_trie_count(draft_trie);
        counted.widest = or_token_trie_widest(target_trie);
    }
    if (counted.widest > 0 && counted.widest <= OR_STRING_BYTES_MAX) {
        status = walk_all(draft_trie, target_trie, counted.ways);
    }
    or_token_trie_destroy(&target_trie);
    or_token_trie_destroy(&draft_trie);
    if (status == OR_OK) {
        *cost = counted;
    }
    return status;
}

double or_string_cost_rows(const or_string_cost_t *cost, uint32_t distribution_entries)
{
    double likely = LIKELY * distribution_entries;
    double chance = likely < cost->draft_tokens ? likely / cost->draft_tokens : 1;
    double rows = 0;
    for (uint32_t k = OR_STRING_BYTES_MAX; k > 0; k--) { // Horner; nothing is cut into 0 tokens
        rows = (rows + cost->ways[k]) * chance;
    }
    return rows;
}

static or_status_t refuse_rows(const or_string_cost_t *cost, uint32_t distribution_entries)
{
    double rows = round(or_string_cost_rows(cost, distribution_entries));
    uint32_t fewer = distribution_entries / 2;
    while (fewer > 0 && or_string_cost_rows(cost, fewer) > OR_STRING_ROWS_MAX) {
        fewer /= 2;
    }
    if (fewer == 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "string-level rejection would take about %.6g model rows for one answer, "
                       "%g are the most: use --vocab-map tli --accept coupled",
                       rows, OR_STRING_ROWS_MAX);
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "string-level rejection would take about %.6g model rows for one answer, %g are "
                   "the most: use --distribution-entries %u, or --vocab-map tli --accept coupled",
                   rows, OR_STRING_ROWS_MAX, fewer);
}

or_status_t or_string_cost_check(const or_string_cost_t *cost, uint32_t distribution_entries)
{
    if (cost->widest == 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "string-level rejection needs a target whose tokens print something");
    }
    if (cost->widest > OR_STRING_BYTES_MAX) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "string-level rejection takes targets whose tokens have at most %u bytes; "
                       "this one's longest has %u: use --vocab-map tli --accept coupled",
                       OR_STRING_BYTES_MAX, cost->widest);
    }
    if (isinf(cost->ways[1])) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "string-level rejection takes no vocabularies with so many ways to cut long "
                       "tokens into others: use --vocab-map tli --accept coupled");
    }
    return or_string_cost_rows(cost, distribution_entries) > OR_STRING_ROWS_MAX
               ? refuse_rows(cost, distribution_entries)
               : OR_OK;
}
