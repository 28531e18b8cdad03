// Goal: no claimed distributions and draws of a peer pass that a ratio rule could not judge exactly, and
// any distribution of ours reduces to one that passes.
// Method: read a tree, its distributions and its draws from the input and check them. Judge what passes a
// second time, slowly and by the words of distribution.h and draws.h alone. Then store it; it must not
// change. The distributions' numbers, read as scores, are reduced.
#include "common/decode/draws.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

enum { NODES_MAX = 16, DISTS_MAX = 4, ENTRIES_MAX = 12 };

typedef struct {
    uint32_t tokens[ENTRIES_MAX], weights[ENTRIES_MAX];
    uint32_t count;
} distribution_t;

typedef struct {
    or_accept_rule_t rule;
    uint32_t vocab_size, dist_count, count;
    distribution_t dists[DISTS_MAX];
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX], dist_index[NODES_MAX], order[NODES_MAX];
} claim_t;

// Weights that add up are unlikely to be guessed, so a bit makes the last one what is missing.
static void read_dist(fuzz_input_t *input, distribution_t *dist)
{
    uint8_t shape = fuzz_byte(input);
    uint32_t total = 0;
    dist->count = shape % 128 % (ENTRIES_MAX + 1);
    for (uint32_t i = 0; i < dist->count; i++) {
        dist->tokens[i] = fuzz_number(input);
        dist->weights[i] = fuzz_number(input);
        total += i + 1 < dist->count ? dist->weights[i] : 0;
    }
    if (shape >= 128 && dist->count > 0) {
        dist->weights[dist->count - 1] = OR_DISTRIBUTION_TOTAL - total;
    }
}

static void read_claim(const uint8_t *data, size_t size, claim_t *claim)
{
    fuzz_input_t input = {data, size};
    *claim = (claim_t){.rule = (or_accept_rule_t)fuzz_byte(&input),
                       .vocab_size = fuzz_number(&input),
                       .dist_count = fuzz_byte(&input) % (DISTS_MAX + 1)};
    for (uint32_t i = 0; i < claim->dist_count; i++) {
        read_dist(&input, &claim->dists[i]);
    }
    for (; claim->count < NODES_MAX && input.left > 0; claim->count++) {
        claim->tokens[claim->count] = (int32_t)fuzz_number(&input);
        claim->back[claim->count] = fuzz_number(&input);
        claim->dist_index[claim->count] = fuzz_number(&input);
        claim->order[claim->count] = fuzz_number(&input);
    }
}

static bool is_dist(const distribution_t *dist, uint32_t vocab_size)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        bool ascends = i == 0 || dist->tokens[i] > dist->tokens[i - 1];
        if (!ascends || dist->tokens[i] >= vocab_size || dist->weights[i] == 0) {
            return false;
        }
        total += dist->weights[i];
    }
    return total == OR_DISTRIBUTION_TOTAL;
}

static bool has_token(const distribution_t *dist, int32_t token)
{
    for (uint32_t i = 0; i < dist->count; i++) {
        if (dist->tokens[i] == (uint32_t)token) {
            return true;
        }
    }
    return false;
}

// Does a rule count how often siblings were drawn, so that they may repeat (methods.h)?
static bool takes_repeats(or_accept_rule_t rule)
{
    return rule == OR_ACCEPT_MULTI_ROUND || rule == OR_ACCEPT_KSEQ || rule == OR_ACCEPT_OTM;
}

// Check what a rule needs of node i + 1 that passed the draws check. Only multi-round judges
// siblings of several models, each by its own distribution.
static void assert_judgeable(const claim_t *claim, uint32_t i)
{
    uint32_t parent = i + 1 - claim->back[i];
    uint32_t older = 0; // siblings
    assert(claim->dist_index[i] < claim->dist_count);
    assert(has_token(&claim->dists[claim->dist_index[i]], claim->tokens[i]));
    for (uint32_t j = 0; j < i; j++) {
        if (j + 1 - claim->back[j] == parent) {
            older++;
            assert(claim->dist_index[j] == claim->dist_index[i] ||
                   claim->rule == OR_ACCEPT_MULTI_ROUND);
            assert(claim->tokens[j] != claim->tokens[i] || takes_repeats(claim->rule));
        }
    }
    assert(claim->order[i] == older);
    assert(older == 0 || (claim->rule != OR_ACCEPT_SPS && claim->rule != OR_ACCEPT_BLOCK));
}

static void assert_stores(const or_draws_t *draws, uint32_t count)
{
    static or_draws_store_t store; // kept, so that small draws follow large ones
    or_status_t status = or_draws_store(&store, draws, count);
    assert(status == OR_OK && store.draws.dist_count == draws->dist_count);
    assert(memcmp(store.draws.dist_index, draws->dist_index, count * sizeof(uint32_t)) == 0);
    assert(memcmp(store.draws.order, draws->order, count * sizeof(uint32_t)) == 0);
    for (uint32_t i = 0; i < draws->dist_count; i++) {
        const or_reduced_distribution_t *kept = &store.draws.dists[i], *dist = &draws->dists[i];
        assert(kept->count == dist->count);
        assert(memcmp(kept->tokens, dist->tokens, dist->count * sizeof(uint32_t)) == 0);
        assert(memcmp(kept->weights, dist->weights, dist->count * sizeof(uint32_t)) == 0);
    }
}

// Draw without replacement until nothing is left.
static void assert_empties(const or_reduced_distribution_t *dist)
{
    or_distribution_left_t left;
    double total = OR_DISTRIBUTION_TOTAL;
    or_distribution_left_init(&left, dist);
    for (uint32_t i = 0; i < dist->count; i++) {
        assert(or_distribution_find(dist, dist->tokens[i]) == i);
        assert(left.total == total);
        or_distribution_left_remove(&left, i);
        total -= dist->weights[i];
    }
    assert(left.total == 0);
}

static void assert_reduces(const distribution_t *from)
{
    int32_t ids[ENTRIES_MAX];
    double scores[ENTRIES_MAX];
    uint32_t tokens[ENTRIES_MAX], weights[ENTRIES_MAX];
    for (uint32_t i = 0; i < from->count; i++) {
        ids[i] = (int32_t)i;
        scores[i] = (int32_t)from->weights[i] / 64.0;
    }
    const or_distribution_t dist = {.ids = ids, .scores = scores, .count = from->count};
    for (uint32_t entries = 1; entries <= from->count; entries++) {
        or_reduced_distribution_t reduced = {tokens, weights, 0};
        reduced.count = or_distribution_reduce(&dist, entries, tokens, weights);
        assert(reduced.count <= entries);
        assert(or_distribution_check(&reduced, from->count) == OR_OK);
        assert_empties(&reduced);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static or_token_tree_t *tree;
    static claim_t claim;
    or_reduced_distribution_t dists[DISTS_MAX];
    read_claim(data, size, &claim);
    if (tree == NULL) {
        or_status_t created = or_token_tree_create(NODES_MAX, &tree);
        assert(created == OR_OK);
    }
    for (uint32_t i = 0; i < claim.dist_count; i++) {
        const distribution_t *dist = &claim.dists[i];
        dists[i] = (or_reduced_distribution_t){dist->tokens, dist->weights, dist->count};
        assert((or_distribution_check(&dists[i], claim.vocab_size) == OR_OK) ==
               is_dist(dist, claim.vocab_size));
        assert_reduces(dist);
    }
    const or_draws_t draws = {claim.dist_index, claim.order, dists, claim.dist_count};
    if (or_token_tree_set(tree, 0, claim.tokens, claim.back, claim.count, claim.vocab_size, true) !=
        OR_OK) {
        return 0;
    }
    if (or_draws_check(&draws, tree, claim.rule, claim.vocab_size) == OR_OK) {
        for (uint32_t i = 0; i < claim.count; i++) {
            assert_judgeable(&claim, i);
        }
        assert_stores(&draws, claim.count);
    } else {
        assert(or_error_text()[0] != '\0');
    }
    return 0;
}
