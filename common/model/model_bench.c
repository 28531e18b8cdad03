// model-bench MODEL THREADS [rows ...] - milliseconds a pass after a context of 100 positions, head
// included, the best and the median of some passes.
//
// For each number of rows: a chain; and a tree as a best-first drafter grows it, in the order its
// nodes were found and depth first, with the blocks of 32 x 32 that its ancestor mask has (DySpec,
// appendix C).
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/decode/tree_blocks.h"
#include "common/model/model.h"
#include "kernels/kernels.h"

#define CONTEXT 100u
#define ROWS_MAX 1024u
#define PASSES 21u
#define CHILDREN 8u // most of a node
#define SHARE 0.6   // of the likeliest child; each next one has that share of what is left

static int fail(void)
{
    fprintf(stderr, "model-bench: %s\n", or_error_text());
    return 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static or_status_t time_pass(or_model_t *model, or_kv_sequence_t *sequence,
                             const or_token_tree_t *tree, float *logits, double *ms)
{
    static or_model_row_t rows[ROWS_MAX];
    uint32_t count = or_token_tree_count(tree);
    const uint32_t *parents = or_token_tree_parents(tree);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = parents[i + 1];
        rows[i] = (or_model_row_t){sequence, (int32_t)(i % or_model_shape(model)->vocab_size), i,
                                   parent == 0 ? OR_KV_NO_SLOT : parent - 1};
    }
    int64_t start = or_clock_now(or_clock_monotonic());
    or_status_t status = or_model_forward(model, rows, count);
    status = status != OR_OK ? status : or_model_logits(model, 0, count, logits);
    *ms = (double)(or_clock_now(or_clock_monotonic()) - start) / OR_NS_PER_MS;
    or_kv_sequence_drop_slots(sequence);
    return status;
}

static or_status_t time_tree(or_model_t *model, or_kv_sequence_t *sequence,
                             const or_token_tree_t *tree, const char *what, float *logits)
{
    double ms[PASSES];
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < PASSES; i++) {
        status = time_pass(model, sequence, tree, logits, &ms[i]);
    }
    qsort(ms, PASSES, sizeof *ms, by_value);
    or_tree_blocks_t blocks = or_tree_blocks(tree, OR_KV_BLOCK);
    printf("kernels %s rows %u %-12s best %.3f ms median %.3f ms, %u of %u blocks\n",
           or_model_kernels(model), or_token_tree_count(tree), what, ms[0], ms[PASSES / 2],
           blocks.visited, blocks.lower);
    return status;
}

static void grow_chain(or_token_tree_t *tree, uint32_t count)
{
    or_token_tree_reset(tree, 0);
    for (uint32_t i = 0; i < count; i++) {
        or_token_tree_add(tree, i, (int32_t)i, NULL);
    }
}

// Best first: each time the likeliest child that is not there yet.
static void grow_best_first(or_token_tree_t *tree, uint32_t count)
{
    static double weight[ROWS_MAX + 1], next[ROWS_MAX + 1];
    static uint32_t children[ROWS_MAX + 1];
    or_token_tree_reset(tree, 0);
    weight[0] = 1;
    for (uint32_t node = 0; node < count; node++) {
        next[node] = weight[node] * SHARE;
        children[node] = 0;
        uint32_t best = 0;
        for (uint32_t i = 1; i <= node; i++) {
            best = next[i] > next[best] ? i : best;
        }
        weight[node + 1] = next[best];
        next[best] = ++children[best] < CHILDREN ? next[best] * (1 - SHARE) : 0;
        or_token_tree_add(tree, best, (int32_t)node, NULL);
    }
}

static or_status_t run(or_model_t *model, or_kv_sequence_t *sequence, or_token_tree_t *tree,
                       int count, char **words, float *logits)
{
    or_model_row_t prefix[CONTEXT];
    for (uint32_t i = 0; i < CONTEXT; i++) {
        prefix[i] = (or_model_row_t){sequence, (int32_t)i, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    or_status_t status = or_model_forward(model, prefix, CONTEXT);
    for (int w = 0; status == OR_OK && w < count; w++) {
        uint32_t rows = (uint32_t)strtoul(words[w], NULL, 10);
        rows = rows > ROWS_MAX ? ROWS_MAX : rows;
        uint32_t room = or_model_context(model) - CONTEXT;
        grow_chain(tree, rows < room ? rows : room);
        status = time_tree(model, sequence, tree, "chain", logits);
        if (status == OR_OK) {
            grow_best_first(tree, rows);
            status = time_tree(model, sequence, tree, "as found", logits);
        }
        if (status == OR_OK) {
            or_token_tree_depth_first(tree, NULL);
            status = time_tree(model, sequence, tree, "depth first", logits);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: model-bench MODEL THREADS ROWS ...\n");
        return 2;
    }
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    or_token_tree_t *tree = NULL;
    float *logits = NULL;
    int exit_code = 1;
    if (or_gguf_open(argv[1], &gguf) != OR_OK) {
        return fail();
    }
    or_model_options_t options = {.threads = (uint32_t)strtoul(argv[2], NULL, 10),
                                  .rows_max = ROWS_MAX};
    if (or_model_load(gguf, &options, &model) != OR_OK ||
        or_model_open_sequence(model, ROWS_MAX, &sequence) != OR_OK ||
        or_token_tree_create(ROWS_MAX, &tree) != OR_OK) {
        fail();
        goto done;
    }
    logits = malloc((size_t)ROWS_MAX * or_model_shape(model)->vocab_size * sizeof *logits);
    if (logits == NULL || run(model, sequence, tree, argc - 3, argv + 3, logits) != OR_OK) {
        fail();
        goto done;
    }
    exit_code = 0;
done:
    free(logits);
    or_token_tree_destroy(&tree);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return exit_code;
}
