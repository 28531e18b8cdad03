// vocab-bench DRAFT.gguf TARGET.gguf [rounds] - what it costs that a drafter and its target have
// other vocabularies.
//
// Prints milliseconds for the map between the two, and medians: microseconds a node for a tree
// whose tokens have counterparts (tli), each node with a distribution of 32 tokens to put in order again;
// microseconds a path for a tree that goes over as text (slem), each node being the end of one; and
// microseconds a round for the drafter's view of the text (shadow), three tokens a round. The text
// is the sample that overlap is measured on. One thread, processor time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/math/rng.h"
#include "common/text/tokenizer.h"
#include "coordinator/vocab/shadow.h"
#include "coordinator/vocab/slem.h"
#include "coordinator/vocab/vocab_trees.h"

enum { ROUNDS_MAX = 10000, NODES = 16, DEPTH = 8, TOKENS_A_ROUND = 3 };

typedef struct {
    or_vocab_t *draft, *target;
    or_vocab_pair_t *pair;
    int32_t *draft_ids, *target_ids; // of the sample text
    size_t draft_count, target_count;
    int32_t *shared; // drafter's tokens that the target has
    uint32_t shared_count;
    or_rng_key_t key;
    int rounds;
    double times[ROUNDS_MAX];
} bench_t;

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // the machine may be busy
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(bench_t *bench)
{
    qsort(bench->times, (size_t)bench->rounds, sizeof *bench->times, ascending);
    return bench->times[bench->rounds / 2];
}

static uint32_t random_below(const bench_t *bench, int round, uint32_t draw, uint64_t n)
{
    return (uint32_t)(or_rng_draw(bench->key, OR_RNG_TEST, (uint32_t)round, draw, 0) % n);
}

// -- tli
// -------------------------------------------------------------------------------------------------

// A chain of any shared tokens and, for each, a distribution of others.
typedef struct {
    uint32_t tokens[NODES], back[NODES], dist_index[NODES], draw_order[NODES];
    uint32_t dist_tokens[NODES][OR_DISTRIBUTION_ENTRIES],
        dist_weights[NODES][OR_DISTRIBUTION_ENTRIES];
    or_reduced_distribution_t dists[NODES];
} drafted_t;

static or_draft_tree_t draft_with_dists(const bench_t *bench, int round, drafted_t *drafted)
{
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t k = 0; k < OR_DISTRIBUTION_ENTRIES; k++) {
            uint32_t any =
                random_below(bench, round, i * OR_DISTRIBUTION_ENTRIES + k, bench->shared_count);
            drafted->dist_tokens[i][k] = (uint32_t)bench->shared[any];
            drafted->dist_weights[i][k] = OR_DISTRIBUTION_TOTAL / OR_DISTRIBUTION_ENTRIES;
        }
        drafted->tokens[i] = drafted->dist_tokens[i][0];
        drafted->back[i] = 1;
        drafted->dist_index[i] = i;
        drafted->draw_order[i] = 0;
        drafted->dists[i] = (or_reduced_distribution_t){
            drafted->dist_tokens[i], drafted->dist_weights[i], OR_DISTRIBUTION_ENTRIES};
    }
    return (or_draft_tree_t){
        .tokens = drafted->tokens,
        .back = drafted->back,
        .count = NODES,
        .dist_index = drafted->dist_index,
        .dist_index_count = NODES,
        .draw_order = drafted->draw_order,
        .draw_order_count = NODES,
        .dists = drafted->dists,
        .dist_count = NODES,
    };
}

static or_status_t bench_tli(bench_t *bench)
{
    static drafted_t drafted;
    or_vocab_trees_t *trees = NULL;
    or_draft_tree_t to;
    or_status_t status = or_vocab_trees_create(&trees);
    for (int round = 0; status == OR_OK && round < bench->rounds; round++) {
        or_draft_tree_t from = draft_with_dists(bench, round, &drafted);
        double start = now_us();
        status =
            or_vocab_map_tree(trees, bench->pair, OR_VOCAB_TLI, OR_ACCEPT_RECURSIVE, &from, &to);
        bench->times[round] = (now_us() - start) / NODES;
    }
    or_vocab_trees_destroy(&trees);
    if (status == OR_OK) {
        printf("tli %.2f us a node, ", median(bench));
    }
    return status;
}

// -- slem
// -------------------------------------------------------------------------------------------------

// The text from a place on as a chain of the drafter's tokens, with any token beside each.
static or_status_t draft_text(const bench_t *bench, int round, size_t place, or_token_tree_t *tree)
{
    or_status_t status = OR_OK;
    uint32_t node = 0;
    or_token_tree_reset(tree, 0);
    for (uint32_t i = 0; status == OR_OK && i < DEPTH; i++) {
        uint32_t parent = node;
        uint32_t any = random_below(bench, round, i, or_vocab_size(bench->draft));
        status = or_token_tree_add(tree, parent, bench->draft_ids[place + i], &node);
        if (status == OR_OK) {
            status = or_token_tree_add(tree, parent, (int32_t)any, NULL);
        }
    }
    return status;
}

// Committed text and drafted text are from two places of the sample: how well they fit is no
// matter.
static or_status_t bench_slem(bench_t *bench)
{
    or_slem_t *slem = NULL;
    or_token_tree_t *drafted = NULL;
    or_token_tree_t *tree = NULL;
    or_status_t status = or_slem_create(bench->pair, &slem);
    if (status == OR_OK) {
        status = or_token_tree_create(NODES, &drafted);
    }
    if (status == OR_OK) {
        status = or_token_tree_create(OR_TREE_NODES_MAX, &tree);
    }
    for (int round = 0; status == OR_OK && round < bench->rounds; round++) {
        size_t place = (size_t)round * 7 % (bench->draft_count - DEPTH);
        uint32_t count = 1 + (uint32_t)((size_t)round * 7 % bench->target_count);
        status = draft_text(bench, round, place, drafted);
        double start = now_us();
        if (status == OR_OK) {
            status = or_slem_translate(slem, bench->target_ids, count, drafted, OR_TREE_NODES_MAX,
                                       OR_TREE_NODES_MAX, tree);
        }
        bench->times[round] = (now_us() - start) / NODES;
    }
    or_token_tree_destroy(&tree);
    or_token_tree_destroy(&drafted);
    or_slem_destroy(&slem);
    if (status == OR_OK) {
        printf("slem %.2f us a path, ", median(bench));
    }
    return status;
}

// -- shadow
// -------------------------------------------------------------------------------------------------

// Follows the text to its end, then begins again.
static or_status_t bench_shadow(bench_t *bench)
{
    or_shadow_t *shadow = NULL;
    or_status_t status = or_shadow_create(bench->pair, &shadow);
    uint32_t known = 0;
    uint32_t changed;
    for (int round = 0; status == OR_OK && round < bench->rounds; round++) {
        if (known + TOKENS_A_ROUND > bench->target_count) {
            known = 0;
            or_shadow_destroy(&shadow);
            status = or_shadow_create(bench->pair, &shadow);
        }
        known += TOKENS_A_ROUND;
        double start = now_us();
        if (status == OR_OK) {
            status = or_shadow_follow(shadow, bench->target_ids, known, &changed);
        }
        bench->times[round] = now_us() - start;
    }
    or_shadow_destroy(&shadow);
    if (status == OR_OK) {
        printf("shadow %.2f us a round\n", median(bench));
    }
    return status;
}

// -- the pair
// -------------------------------------------------------------------------------------------------

static or_status_t load(const char *path, or_vocab_t **vocab, int32_t **ids, size_t *count)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open(path, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, vocab);
    }
    or_gguf_close(&gguf);
    return status == OR_OK ? or_tokenize(*vocab, or_vocab_sample_text, strlen(or_vocab_sample_text),
                                         0, ids, count)
                           : status;
}

static or_status_t pair_up(bench_t *bench)
{
    double start = now_us();
    or_status_t status = or_vocab_pair_create(bench->draft, bench->target, &bench->pair);
    if (status != OR_OK) {
        return status;
    }
    double ms = 1e-3 * (now_us() - start);
    uint32_t size = or_vocab_size(bench->draft);
    bench->shared = malloc(size * sizeof *bench->shared);
    if (bench->shared == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u tokens", size);
    }
    for (uint32_t id = 0; id < size; id++) {
        if (bench->pair->to_target[id] != OR_TOKEN_NONE) {
            bench->shared[bench->shared_count++] = (int32_t)id;
        }
    }
    printf("%u x %u tokens, %u shared: map %.0f ms, ", size, or_vocab_size(bench->target),
           bench->shared_count, ms);
    return bench->shared_count > 0 ? OR_OK : or_fail(OR_ERR_UNSUPPORTED, "no token is shared");
}

int main(int argc, char **argv)
{
    static bench_t bench = {.rounds = 1001};
    bench.key = or_rng_key(1, 2);
    if (argc > 3) {
        bench.rounds = (int)strtol(argv[3], NULL, 10);
    }
    if (argc < 3 || bench.rounds < 1 || bench.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: vocab-bench DRAFT.gguf TARGET.gguf [rounds, at most %d]\n",
                ROUNDS_MAX);
        return EXIT_FAILURE;
    }
    or_status_t status = load(argv[1], &bench.draft, &bench.draft_ids, &bench.draft_count);
    if (status == OR_OK) {
        status = load(argv[2], &bench.target, &bench.target_ids, &bench.target_count);
    }
    or_status_t (*const parts[])(bench_t *) = {pair_up, bench_tli, bench_slem, bench_shadow};
    for (size_t i = 0; status == OR_OK && i < sizeof parts / sizeof *parts; i++) {
        status = parts[i](&bench);
    }
    if (status != OR_OK) {
        fprintf(stderr, "vocab-bench: %s\n", or_error_text());
    }
    free(bench.shared);
    free(bench.target_ids);
    free(bench.draft_ids);
    or_vocab_pair_destroy(&bench.pair);
    or_vocab_destroy(&bench.target);
    or_vocab_destroy(&bench.draft);
    return status == OR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
