// Goal: psi is the probability that the drafter's text goes on with a token of the target, exactly,
// and the chain is drawn by it. Method: vocabularies made by hand, whose tokens overlap as strings,
// and a drafter whose distributions are sixteenths that differ after every text, in the model's place. Psi
// is compared with an enumeration of everything that the drafter could draw, which knows no
// frontier, no batches and no trie; where paths are short all numbers are exact. The chain's distribution is
// found by taking every draw in turn.
#include "drafter/strings/strings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/text/text_test_support.h"
#include "drafter/strings/strings_internal.h"
#include "tests/support/test_support.h"

#define DRAFT_MAX 300
#define TARGET_MAX 16
#define DEPTH 3u
#define ENTRIES 10u
#define LONGEST 7 // letters of a word
#define LONG_TARGET (5 + (1u << LONGEST))
#define WORDS (6 * 6 * 6 * 6) // of four letters

// ---- vocabularies ----

// Types: 1 text, 2 unknown, 3 control, 4 user-defined.
#define ROLES                                                                                      \
    {"<unk>", 0, 2}, {"<s>", 0, 3},                                                                \
    {                                                                                              \
        "</s>", 0, 3                                                                               \
    }

static const test_token_t overlapping[] = {ROLES,        {"a", 0, 1},  {"b", 0, 1}, {"c", 0, 1},
                                           {"ab", 0, 1}, {"bc", 0, 1}, {"ca", 0, 1}};
static const test_token_t joined[] = {ROLES,         {"a", 0, 1},    {"b", 0, 1},
                                      {"c", 0, 1},   {"ab", 0, 1},   {"abc", 0, 1},
                                      {"cab", 0, 1}, {"bcab", 0, 1}, {"aa", 0, 1}};
// No "b" and no "c" alone: some texts are outside. "aab" is not reached by way of a token "aa".
static const test_token_t gaps[] = {ROLES, {"a", 0, 1}, {"aab", 0, 1}, {"cb", 0, 1}, {"bb", 0, 1}};
// Tokens that print nothing: <x> is in one target, <y> in none.
static const test_token_t marked[] = {ROLES,        {"a", 0, 1},   {"b", 0, 1},
                                      {"ab", 0, 1}, {"<x>", 0, 3}, {"<y>", 0, 3}};
static const test_token_t marked_target[] = {
    ROLES, {"a", 0, 1}, {"b", 0, 1}, {"aba", 0, 1}, {"<x>", 0, 3}};
static const test_token_t letters[] = {ROLES, {"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1}};

typedef struct {
    const test_token_t *draft, *target;
    uint32_t draft_count, target_count;
    uint32_t paths; // 1: the drafter has one way to print any text
} pair_t;
#define COUNT(table) (uint32_t)(sizeof(table) / sizeof *(table))
#define PAIR(draft, target, paths)                                                                 \
    {                                                                                              \
        draft, target, COUNT(draft), COUNT(target), paths                                          \
    }
static const pair_t pairs[] = {
    PAIR(overlapping, joined, 2),   PAIR(overlapping, gaps, 2), PAIR(joined, overlapping, 2),
    PAIR(marked, marked_target, 2), PAIR(letters, joined, 1),   PAIR(joined, letters, 2),
};

// ---- the drafter ----

static struct {
    or_vocab_t *draft, *target;
    or_token_trie_t *trie;
    int32_t to_target[DRAFT_MAX];
    or_builder_t *builder;
    or_strings_t *strings;
    or_belief_t belief;
    uint64_t seed;
    uint32_t parts; // of a distribution: a power of two
    bool uneven;    // and then weights of 16 bits
    uint32_t rows;  // that were run
    int32_t history[1];
} world;

// The distribution after a text of the drafter's tokens: some of them, by chance.
static uint32_t dist_of(const int32_t *text, uint32_t length, uint32_t *tokens, uint32_t *weights)
{
    uint64_t state = world.seed;
    for (uint32_t i = 0; i < length; i++) {
        state = test_random(&state) ^ (uint64_t)text[i];
    }
    uint32_t size = or_vocab_size(world.draft);
    uint32_t parts[DRAFT_MAX] = {0};
    for (uint32_t i = 0; i < world.parts; i++) { // token 0 is <unk>, and rare; 1 and 2 are roles
        uint64_t token = test_below(&state, 4 * size);
        parts[token == 0 ? 0 : 1 + token % (size - 1)]++;
    }
    uint32_t count = 0;
    for (uint32_t id = 0; id < size && count < ENTRIES; id++) {
        if (parts[id] > 0) {
            tokens[count] = id;
            weights[count++] = parts[id] * (OR_DISTRIBUTION_TOTAL / world.parts);
        }
    }
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += weights[i];
    }
    weights[0] += OR_DISTRIBUTION_TOTAL - total; // what did not fit
    for (uint32_t i = 1; world.uneven && i < count; i++) {
        uint32_t moved = (uint32_t)test_below(&state, OR_DISTRIBUTION_TOTAL / world.parts);
        weights[i] -= moved;
        weights[0] += moved;
    }
    return count;
}

static void read_guess(or_builder_t *b, uint32_t guess)
{
    int32_t text[OR_TREE_NODES_MAX], ids[ENTRIES];
    uint32_t tokens[ENTRIES], weights[ENTRIES];
    double scores[ENTRIES];
    or_build_guess_t *at = &b->guesses[guess];
    assert_false(at->expanded);
    at->expanded = true;
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = b->guesses[above].parent) {
        text[b->guesses[above].depth - 1] = b->guesses[above].token;
    }
    uint32_t count = dist_of(text, at->depth, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)tokens[i];
        scores[i] = or_ln(weights[i]);
    }
    or_build_distribution_set(b, guess,
                              &(or_distribution_t){.ids = ids, .scores = scores, .count = count});
    assert_memory_equal(b->dists[guess].weights, weights, count * sizeof *weights);
}

static or_status_t start(or_builder_t *b)
{
    read_guess(b, OR_BUILD_ROOT);
    return OR_OK;
}

static or_status_t expand(or_builder_t *b, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(b->guesses[b->guesses[guesses[i]].parent].expanded);
        read_guess(b, guesses[i]);
        b->guesses[guesses[i]].slot = b->slots_used++;
        assert_true(b->slots_used <= or_builder_slots(b));
    }
    world.rows += count;
    return OR_OK;
}

static or_vocab_t *make(const test_token_t *tokens, uint32_t count)
{
    or_vocab_t *vocab = NULL;
    unsigned wish = TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS | TEST_WITHOUT_SPACE;
    if (test_make_vocab(tokens, count, wish, &vocab) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return vocab;
}

static void open_world(const pair_t *pair)
{
    world.draft = make(pair->draft, pair->draft_count);
    world.target = make(pair->target, pair->target_count);
    assert_int_equal(or_token_trie_create(world.target, &world.trie), OR_OK);
    for (uint32_t i = 0; i < pair->draft_count; i++) {
        world.to_target[i] = OR_TOKEN_NONE;
        for (uint32_t j = 0; j < pair->target_count; j++) {
            if (strcmp(pair->draft[i].piece, pair->target[j].piece) == 0) {
                world.to_target[i] = (int32_t)j;
            }
        }
    }
    const or_build_source_t source = {
        .vocab_size = pair->draft_count, .positions = 4096, .start = start, .expand = expand};
    uint32_t nodes = or_strings_nodes(world.trie, DEPTH);
    or_belief_init(&world.belief);
    assert_int_equal(or_builder_create_over(&source, world.draft, nodes, ENTRIES, &world.builder),
                     OR_OK);
    assert_int_equal(
        or_strings_create(world.draft, world.to_target, world.trie, DEPTH, &world.strings), OR_OK);
    world.rows = 0;
    world.parts = 16;
    world.uneven = false;
}

static void close_world(void)
{
    or_strings_destroy(&world.strings);
    assert_null(world.strings);
    or_builder_destroy(&world.builder);
    or_token_trie_destroy(&world.trie);
    or_vocab_destroy(&world.target);
    or_vocab_destroy(&world.draft);
}

static or_build_job_t job_of(or_chooser_t *chooser, uint32_t depth)
{
    or_build_job_t job = {.history = world.history,
                          .history_count = 1,
                          .sampling = or_sampling_default(),
                          .draft_temperature = 1,
                          .chooser = chooser,
                          .nodes_max = DEPTH,
                          .depth_max = depth,
                          .strings = world.strings,
                          .belief = &world.belief};
    or_build_job_suit(&job, OR_DRAFT_CHAIN, OR_ACCEPT_SLRS);
    assert_true(job.drawn);
    return job;
}

// Draw a chain; what it reads in the target's tokens is in `tree`.
static void draw_chain(or_chooser_t *chooser, uint32_t depth, or_token_tree_t *tree)
{
    or_token_tree_t *own;
    or_build_job_t job = job_of(chooser, depth);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &own), OR_OK);
    assert_int_equal(or_builder_build(world.builder, OR_DRAFT_CHAIN, &job, own), OR_OK);
    or_token_tree_reset(tree, 0);
    assert_int_equal(or_strings_fill(world.strings, tree), OR_OK);
    or_token_tree_destroy(&own);
}

// ---- psi by enumeration ----

// A drawn text: bytes, and at their end perhaps a token that prints nothing.
typedef struct {
    int32_t path[64];
    uint32_t drawn;
    char text[128];
    uint32_t length;
    int32_t mark;
} drawn_t;

// Which token does the text from `from` on begin with? False: more must be drawn to know. By
// looking at every token of the target.
static bool read_token(const drawn_t *drawn, uint32_t from, int32_t *token, uint32_t *bytes)
{
    const char *rest = drawn->text + from;
    uint32_t length = drawn->length - from;
    bool longer = false;
    *token = OR_TOKEN_NONE;
    *bytes = 0;
    for (uint32_t id = 0; id < or_vocab_size(world.target); id++) {
        uint32_t width;
        const char *string = or_vocab_bytes(world.target, (int32_t)id, &width);
        if (width > length) {
            longer = longer || memcmp(string, rest, length) == 0;
        } else if (width > *bytes && memcmp(string, rest, width) == 0) {
            *token = (int32_t)id;
            *bytes = width;
        }
    }
    if (longer && drawn->mark == OR_TOKEN_NONE) {
        return false;
    }
    if (length == 0 && drawn->mark != OR_TOKEN_NONE) {
        *token = world.to_target[drawn->mark];
    }
    return true;
}

static void put(drawn_t *drawn, int32_t token)
{
    uint32_t width;
    const char *bytes = or_vocab_bytes(world.draft, token, &width);
    drawn->path[drawn->drawn++] = token;
    memcpy(drawn->text + drawn->length, bytes, width);
    drawn->length += width;
    drawn->mark = width > 0 ? OR_TOKEN_NONE : token;
}

// Add the probability of all that may follow to the token that it makes; outside is the last entry.
static void enumerate(const drawn_t *drawn, uint32_t from, double mass, double *psi)
{
    int32_t token;
    uint32_t bytes;
    if (read_token(drawn, from, &token, &bytes)) {
        psi[token != OR_TOKEN_NONE ? (uint32_t)token : or_vocab_size(world.target)] += mass;
        return;
    }
    uint32_t tokens[ENTRIES], weights[ENTRIES];
    uint32_t count = dist_of(drawn->path, drawn->drawn, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        drawn_t next = *drawn;
        put(&next, (int32_t)tokens[i]);
        enumerate(&next, from, mass * weights[i] / OR_DISTRIBUTION_TOTAL, psi);
    }
}

// Return where the chain's position `node` begins in the drawn text.
static uint32_t place_of(uint32_t node, drawn_t *drawn)
{
    uint32_t from = 0;
    *drawn = (drawn_t){.mark = OR_TOKEN_NONE};
    for (uint32_t position = 0; position < node; position++) {
        int32_t token;
        uint32_t bytes;
        while (!read_token(drawn, from, &token, &bytes)) {
            put(drawn, world.builder->guesses[drawn->drawn + 1].token);
        }
        from += bytes;
        if (bytes == 0) {
            drawn->mark = OR_TOKEN_NONE;
        }
    }
    return from;
}

// ---- tests ----

static void ask(bool cold, uint32_t node, const uint32_t *tokens, uint32_t count,
                or_strings_distribution_t *dist)
{
    or_build_job_t job = job_of(NULL, DEPTH);
    if (or_strings_ask(world.strings, world.builder, &job, cold, node, tokens, count, dist) !=
        OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void check_dist(const or_strings_distribution_t *dist, const double *psi)
{
    double total = dist->outside;
    uint32_t at = 0;
    for (uint32_t id = 0; id < or_vocab_size(world.target); id++) {
        if (psi[id] > 0) {
            assert_true(at < dist->count);
            assert_int_equal(dist->tokens[at], id);
            assert_true(dist->psi[at] == psi[id]);
            total += dist->psi[at++];
        }
    }
    assert_int_equal(at, dist->count);
    assert_true(dist->outside == psi[or_vocab_size(world.target)]);
    assert_true(total == 1);
}

// Check one chain: at every node the distribution, parts of it, and the chain's own psi.
static void check_chain(const or_token_tree_t *tree, uint64_t *random)
{
    for (uint32_t node = 0; node < or_token_tree_count(tree); node++) {
        drawn_t drawn;
        double psi[TARGET_MAX + 1] = {0}, before[TARGET_MAX];
        uint32_t wanted[TARGET_MAX], count = 0;
        or_strings_distribution_t dist;
        uint32_t from = place_of(node, &drawn);
        enumerate(&drawn, from, 1, psi);
        ask(false, node, NULL, 0, &dist);
        check_dist(&dist, psi);
        memcpy(before, dist.psi, dist.count * sizeof *before);
        uint32_t all = dist.count;
        ask(test_below(random, 2) == 0, node, NULL, 0, &dist); // again, and after a loss
        assert_int_equal(dist.count, all);
        assert_memory_equal(dist.psi, before, all * sizeof *before);
        for (uint32_t id = 0; id < or_vocab_size(world.target); id++) {
            if (test_below(random, 2) == 0) {
                wanted[count++] = id;
            }
        }
        if (count > 0) {
            ask(false, node, wanted, count, &dist);
            for (uint32_t i = 0, at = 0; i < count; i++) {
                if (psi[wanted[i]] > 0) {
                    assert_int_equal(dist.tokens[at], wanted[i]);
                    assert_true(dist.psi[at++] == psi[wanted[i]]);
                }
            }
        }
        int32_t token = or_token_tree_tokens(tree)[node + 1];
        bool outside = (uint32_t)token == or_vocab_size(world.target);
        assert_true(or_strings_psi(world.strings)[node] == (outside ? 0 : psi[token]));
        assert_true(!outside || node + 1 == or_token_tree_count(tree));
        assert_true(psi[token] > 0);
    }
}

static void psi_is_the_sum_over_all_paths(void **state)
{
    (void)state;
    or_token_tree_t *tree;
    uint64_t random = test_seed();
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    for (uint32_t i = 0; i < COUNT(pairs); i++) {
        uint32_t outside = 0;
        open_world(&pairs[i]);
        for (uint32_t round = 0; round < 40; round++) {
            world.seed = test_random(&random);
            or_keyed_chooser_t chooser =
                or_keyed_chooser((or_rng_key_t){world.seed}, round, (or_rng_key_t){0}, NULL);
            draw_chain(&chooser.chooser, DEPTH, tree);
            check_chain(tree, &random);
            uint32_t count = or_token_tree_count(tree);
            bool ended = or_token_tree_tokens(tree)[count] == (int32_t)pairs[i].target_count;
            assert_true(ended || count == DEPTH);
            outside += ended;
        }
        assert_true(pairs[i].target != gaps || outside > 0);
        close_world();
    }
    or_token_tree_destroy(&tree);
}

// Takes every draw in turn, the last one first, with their probability.
typedef struct {
    or_chooser_t chooser;
    uint32_t taken[64], ways[64];
    uint32_t depth, made;
    double probability;
} turns_t;

static uint32_t next_turn(or_chooser_t *chooser, or_choice_t at, const double *weights,
                          uint32_t count)
{
    turns_t *turns = (turns_t *)chooser;
    assert_int_equal(at.purpose, OR_RNG_DRAFT);
    assert_true(turns->made < 64);
    if (turns->made == turns->depth) {
        turns->taken[turns->depth++] = 0;
    }
    turns->ways[turns->made] = count;
    uint32_t index = turns->taken[turns->made++];
    turns->probability *= weights[index] / OR_DISTRIBUTION_TOTAL;
    return index;
}

static bool more_turns(turns_t *turns)
{
    while (turns->depth > 0 &&
           turns->taken[turns->depth - 1] + 1 == turns->ways[turns->depth - 1]) {
        turns->depth--;
    }
    if (turns->depth == 0) {
        return false;
    }
    turns->taken[turns->depth - 1]++;
    return true;
}

// The chain of two tokens: of the first one psi, of the second one its mean over what was drawn
// beyond the first; all exact, or nearly where paths are long.
static void check_drawn_dist(or_token_tree_t *tree)
{
    turns_t turns = {.chooser = {.draw = next_turn}};
    double first[TARGET_MAX + 1] = {0}, pair[TARGET_MAX + 1][TARGET_MAX + 1] = {{0}};
    double expected[TARGET_MAX + 1][TARGET_MAX + 1] = {{0}};
    uint32_t size = or_vocab_size(world.target);
    do {
        turns.made = 0;
        turns.probability = 1;
        draw_chain(&turns.chooser, 2, tree);
        const int32_t *tokens = or_token_tree_tokens(tree);
        first[tokens[1]] += turns.probability;
        if (or_token_tree_count(tree) == 2) {
            pair[tokens[1]][tokens[2]] += turns.probability;
            drawn_t drawn;
            uint32_t from = place_of(1, &drawn);
            double psi[TARGET_MAX + 1] = {0};
            enumerate(&drawn, from, 1, psi);
            for (uint32_t id = 0; id <= size; id++) {
                expected[tokens[1]][id] += turns.probability * psi[id];
            }
        }
    } while (more_turns(&turns));
    drawn_t nothing = {.mark = OR_TOKEN_NONE};
    double psi[TARGET_MAX + 1] = {0};
    enumerate(&nothing, 0, 1, psi);
    for (uint32_t id = 0; id <= size; id++) {
        assert_true(fabs(first[id] - psi[id]) < 1e-13);
        for (uint32_t after = 0; after <= size; after++) {
            assert_true(fabs(pair[id][after] - expected[id][after]) < 1e-13);
        }
    }
}

static void the_chain_is_drawn_by_psi(void **state)
{
    (void)state;
    or_token_tree_t *tree;
    uint64_t random = test_seed();
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    for (uint32_t i = 0; i < COUNT(pairs); i++) {
        open_world(&pairs[i]);
        for (uint32_t round = 0; round < 3; round++) {
            world.seed = test_random(&random);
            check_drawn_dist(tree);
        }
        close_world();
    }
    or_token_tree_destroy(&tree);
}

// A token of four letters that the drafter prints letter by letter: one path, and it is the chain's
// own.
static void a_drafter_of_letters_has_one_path(void **state)
{
    (void)state;
    static const test_token_t word[] = {
        ROLES, {"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1}, {"abca", 0, 1}};
    const pair_t pair = PAIR(letters, word, 1);
    or_token_tree_t *tree;
    uint64_t random = test_seed();
    uint32_t words = 0;
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    open_world(&pair);
    for (uint32_t round = 0; round < 12000; round++) {
        world.seed = test_random(&random);
        world.rows = 0;
        or_keyed_chooser_t chooser =
            or_keyed_chooser((or_rng_key_t){world.seed}, round, (or_rng_key_t){0}, NULL);
        draw_chain(&chooser.chooser, 1, tree);
        if (or_token_tree_tokens(tree)[1] == 6) {
            const or_build_distribution_t *dists = world.builder->dists;
            double p = 1;
            words++;
            for (uint32_t i = 0; i < 4; i++) {
                const or_reduced_distribution_t dist = {dists[i].tokens, dists[i].weights,
                                                        dists[i].count};
                p *= dist.weights[or_distribution_find(
                         &dist, (uint32_t)world.builder->guesses[i + 1].token)] /
                     (double)OR_DISTRIBUTION_TOTAL;
            }
            assert_true(or_strings_psi(world.strings)[0] == p);
            assert_int_equal(world.rows, 3); // nothing was run that the chain had not
        }
    }
    assert_true(words > 0);
    close_world();
    or_token_tree_destroy(&tree);
}

// So many open paths that they are followed in several batches.
static void many_paths_are_followed_in_batches(void **state)
{
    (void)state;
    static char names[WORDS][8];
    static test_token_t target[3 + WORDS];
    static const test_token_t draft[] = {ROLES,       {"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1},
                                         {"d", 0, 1}, {"e", 0, 1}, {"f", 0, 1}, {"ab", 0, 1}};
    uint32_t draft_count = COUNT(draft), target_count = 3;
    memcpy(target, draft, 3 * sizeof *target);
    for (uint32_t i = 0; i < WORDS; i++) { // all words of four letters
        snprintf(names[i], sizeof names[i], "%c%c%c%c", 'a' + i / 216, 'a' + i / 36 % 6,
                 'a' + i / 6 % 6, 'a' + i % 6);
        target[target_count++] = (test_token_t){names[i], 0, 1};
    }
    const pair_t pair = {draft, target, draft_count, target_count, 2};
    static double psi[3 + WORDS + 1];
    open_world(&pair);
    world.parts = 64;
    world.seed = test_seed();
    or_token_tree_t *tree;
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    or_keyed_chooser_t chooser =
        or_keyed_chooser((or_rng_key_t){world.seed}, 1, (or_rng_key_t){0}, NULL);
    draw_chain(&chooser.chooser, 1, tree);
    or_strings_distribution_t dist;
    drawn_t nothing = {.mark = OR_TOKEN_NONE};
    memset(psi, 0, sizeof psi);
    enumerate(&nothing, 0, 1, psi);
    world.rows = 0;
    ask(false, 0, NULL, 0, &dist);
    assert_true(world.rows > world.builder->nodes_max);
    double total = dist.outside;
    for (uint32_t i = 0; i < dist.count; i++) {
        assert_true(dist.psi[i] == psi[dist.tokens[i]]);
        total += dist.psi[i];
    }
    assert_true(total == 1);
    or_token_tree_destroy(&tree);
    close_world();
}

// Leave the builder the nodes that one path takes, and a few: batches are cut otherwise.
static void cut_batches(uint64_t *random)
{
    uint32_t least = world.strings->drawn + or_token_trie_widest(world.trie);
    world.builder->nodes_max = least + 1 + (uint32_t)test_below(random, 7);
}

// One node: its guess's psi is the same in every answer, and another token's is too.
static void check_same_bits(const or_token_tree_t *tree, uint32_t node, uint64_t *random)
{
    static double all[LONG_TARGET + 1], sums[LONG_TARGET + 1];
    uint32_t nodes_max = world.builder->nodes_max;
    uint32_t guess = (uint32_t)or_token_tree_tokens(tree)[node + 1];
    or_strings_distribution_t dist;
    drawn_t drawn;
    memset(all, 0, sizeof all);
    memset(sums, 0, sizeof sums);
    uint32_t from = place_of(node, &drawn);
    enumerate(&drawn, from, 1, sums);
    ask(false, node, NULL, 0, &dist);
    for (uint32_t i = 0; i < dist.count; i++) {
        all[dist.tokens[i]] = dist.psi[i];
        assert_true(fabs(dist.psi[i] - sums[dist.tokens[i]]) < 1e-14 * dist.psi[i]);
    }
    assert_true(or_strings_psi(world.strings)[node] == all[guess]);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t other = (uint32_t)test_below(random, or_vocab_size(world.target));
        uint32_t wanted[] = {guess < other ? guess : other, guess < other ? other : guess};
        cut_batches(random);
        ask(i == 2, node, wanted, guess == other ? 1 : 2, &dist);
        for (uint32_t j = 0; j < dist.count; j++) {
            assert_true(dist.psi[j] == all[dist.tokens[j]]);
        }
        assert_true(dist.count > 0);
    }
    world.builder->nodes_max = nodes_max;
}

// The guess's psi travels before the question, the others' after it, and the verifier compares
// them. All words of seven letters, each by up to 21 paths of four to seven tokens, whose masses
// take more bits than a double has: what was asked for besides, and how many paths fit a batch, may
// not show.
static void psi_has_the_same_bits_in_every_answer(void **state)
{
    (void)state;
    static char names[LONG_TARGET][LONGEST + 1];
    static test_token_t target[LONG_TARGET];
    static const test_token_t draft[] = {ROLES,        {"a", 0, 1},  {"b", 0, 1}, {"aa", 0, 1},
                                         {"ab", 0, 1}, {"ba", 0, 1}, {"bb", 0, 1}};
    uint32_t count = 3;
    memcpy(target, draft, 3 * sizeof *target);
    for (uint32_t i = 0; count < LONG_TARGET; i++) { // both letters, and all longest words
        uint32_t length = i < 2 ? 1 : LONGEST;
        for (uint32_t at = 0; at < length; at++) {
            names[i][at] = (i < 2 ? i : i - 2) >> at & 1 ? 'b' : 'a';
        }
        target[count++] = (test_token_t){names[i], 0, 1};
    }
    const pair_t pair = {draft, target, COUNT(draft), count, 2};
    uint64_t random = test_seed();
    or_token_tree_t *tree;
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    open_world(&pair);
    world.parts = 64;
    world.uneven = true;
    for (uint32_t round = 0; round < 20; round++) {
        world.seed = test_random(&random);
        or_keyed_chooser_t chooser =
            or_keyed_chooser((or_rng_key_t){world.seed}, round, (or_rng_key_t){0}, NULL);
        draw_chain(&chooser.chooser, DEPTH, tree);
        for (uint32_t node = 0; node < or_token_tree_count(tree); node++) {
            if (or_token_tree_tokens(tree)[node + 1] < (int32_t)count) {
                check_same_bits(tree, node, &random);
            }
        }
    }
    or_token_tree_destroy(&tree);
    close_world();
}

// A target whose token the drafter can print in more ways than can be run. What went before, and what
// comes after, is not hurt.
static void a_question_without_end_is_given_up(void **state)
{
    (void)state;
    static const test_token_t runs[] = {ROLES, {"a", 0, 1}, {"b", 0, 1}, {"aa", 0, 1}};
    static const test_token_t run[] = {
        ROLES, {"a", 0, 1}, {"b", 0, 1}, {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, 1}};
    const pair_t pair = PAIR(runs, run, 2);
    const uint32_t b = 4, longest = 5;
    or_token_tree_t *tree;
    or_strings_distribution_t dist;
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    open_world(&pair);
    world.parts = 64;
    world.seed = 11; // the chain is no run itself
    or_keyed_chooser_t chooser = or_keyed_chooser((or_rng_key_t){1}, 1, (or_rng_key_t){0}, NULL);
    draw_chain(&chooser.chooser, 1, tree);
    ask(false, 0, &b, 1, &dist);
    assert_int_equal(dist.count, 1);
    double psi = dist.psi[0];
    or_build_job_t job = job_of(NULL, 1);
    world.rows = 0;
    assert_int_equal(
        or_strings_ask(world.strings, world.builder, &job, false, 0, &longest, 1, &dist),
        OR_ERR_UNSUPPORTED);
    assert_in_range(world.rows, 4096, 65536);
    ask(false, 0, &b, 1, &dist);
    assert_int_equal(dist.count, 1);
    assert_true(dist.psi[0] == psi);
    or_token_tree_destroy(&tree);
    close_world();
}

static void wrong_questions_are_refused(void **state)
{
    (void)state;
    or_token_tree_t *tree;
    or_strings_distribution_t dist;
    assert_int_equal(or_token_tree_create(DEPTH, &tree), OR_OK);
    open_world(&pairs[0]);
    world.seed = 1;
    or_keyed_chooser_t chooser = or_keyed_chooser((or_rng_key_t){1}, 1, (or_rng_key_t){0}, NULL);
    draw_chain(&chooser.chooser, DEPTH, tree);
    or_build_job_t job = job_of(NULL, DEPTH);
    const uint32_t bad[][2] = {{4, 3}, {3, 3}, {3, COUNT(joined)}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(
            or_strings_ask(world.strings, world.builder, &job, false, 0, bad[i], 2, &dist),
            OR_ERR_INVALID);
    }
    assert_int_equal(or_strings_ask(world.strings, world.builder, &job, false,
                                    or_token_tree_count(tree), NULL, 0, &dist),
                     OR_ERR_INVALID);
    or_token_tree_destroy(&tree);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(psi_is_the_sum_over_all_paths),
        cmocka_unit_test(the_chain_is_drawn_by_psi),
        cmocka_unit_test(a_drafter_of_letters_has_one_path),
        cmocka_unit_test(many_paths_are_followed_in_batches),
        cmocka_unit_test(psi_has_the_same_bits_in_every_answer),
        cmocka_unit_test(a_question_without_end_is_given_up),
        cmocka_unit_test(wrong_questions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
