// What a question about psi costs, guessed from the vocabularies alone.
//
// The model runs a row for each path of the drafter's tokens that prints the beginning p of a
// longer token of the target: for each p as many as there are ways to cut it into tokens of the
// drafter that its laws have. Were each of its n tokens in a law with the chance c, these would be
//
//     rows = sum over all p of f(p)      f(p) = sum over the ways to cut p into k tokens of c^k
//                                             = sum over the tokens y that p ends with of c f(p without y)
//
// which one walk over the target's sorted strings adds up. Tokens at random have c = law_entries /
// n; likely ones begin and continue words more often. With LIKELY times that the figures for our
// small models come within a factor of two of what is counted: 138, 309 and 12 rows for 74, 235 and
// 7.
#include <stdlib.h>
#include <string.h>

#include "drafter/strings.h"

#define LIKELY 4.0

// A string of the target, and what is known of its beginnings.
typedef struct {
    const or_token_trie_t *draft;
    double chance;
    uint32_t side;     // bytes of the longest string, + 1
    const char *bytes; // of the string walked last
    uint32_t length;
    double *cuts;            // [side] f of its beginnings, by their bytes
    or_trie_state_t *states; // [side][side] of the drafter, after its bytes from .. to - 1
} walk_t;

// f of the beginning of `to` bytes; shorter ones are known.
static double cut(walk_t *walk, uint32_t to)
{
    double sum = 0;
    walk->states[(size_t)to * walk->side + to] = or_token_trie_start(walk->draft);
    for (uint32_t from = 0; from < to; from++) {
        or_trie_state_t *state = &walk->states[(size_t)from * walk->side + to];
        *state = state[-1];
        if (state->first == state->end ||
            !or_token_trie_walk(walk->draft, state, (uint8_t)walk->bytes[to - 1])) {
            *state = (or_trie_state_t){0};
        } else if (or_token_trie_token(walk->draft, *state) != OR_TOKEN_NONE) {
            sum += walk->chance * walk->cuts[from];
        }
    }
    return sum;
}

static uint32_t common_bytes(const char *a, uint32_t a_length, const char *b, uint32_t b_length)
{
    uint32_t common = 0;
    while (common < a_length && common < b_length && a[common] == b[common]) {
        common++;
    }
    return common;
}

// f of all beginnings that the string before did not have, and of that string if this one goes on
// from it. Of the string itself nothing is counted yet.
static double walk_on(walk_t *walk, const char *bytes, uint32_t length)
{
    uint32_t common = common_bytes(walk->bytes, walk->length, bytes, length);
    double sum = common > 0 && common == walk->length ? walk->cuts[common] : 0;
    walk->bytes = bytes;
    walk->length = length;
    for (uint32_t to = common + 1; to <= length; to++) {
        walk->cuts[to] = cut(walk, to);
        sum += to < length ? walk->cuts[to] : 0;
    }
    return sum;
}

or_status_t or_strings_cost(const or_token_trie_t *draft, const or_token_trie_t *target,
                            uint32_t law_entries, double *rows)
{
    if (or_strings_nodes(target, 1) == 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "slrs takes targets whose tokens are not too long; this one's longest has "
                       "%u bytes: use --vocab-map tli",
                       or_token_trie_widest(target));
    }
    uint32_t count = or_token_trie_count(draft);
    double likely = LIKELY * law_entries;
    walk_t walk = {.draft = draft,
                   .chance = likely < count ? likely / count : 1,
                   .side = or_token_trie_widest(target) + 1,
                   .bytes = ""};
    walk.cuts = calloc(walk.side, sizeof *walk.cuts);
    walk.states = calloc((size_t)walk.side * walk.side, sizeof *walk.states);
    if (walk.cuts == NULL || walk.states == NULL) {
        free(walk.cuts);
        free(walk.states);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to estimate what slrs costs");
    }
    walk.cuts[0] = 1;
    walk.states[0] = or_token_trie_start(draft);
    double sum = 0;
    for (uint32_t i = 0; i < or_token_trie_count(target); i++) {
        uint32_t length;
        const char *bytes =
            or_vocab_bytes(or_token_trie_vocab(target), or_token_trie_at(target, i), &length);
        sum += walk_on(&walk, bytes, length);
    }
    free(walk.cuts);
    free(walk.states);
    *rows = sum;
    return OR_OK;
}
