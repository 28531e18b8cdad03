// draft_bench - what a drafter's trees cost on a GPU, built as a drafter builds them (drafter/build/builder.h).
//
//     draft_bench         a model of 100M of random BF16 weights
//     draft_bench tiny    a model of no size, to see that this works
//
// A tree begins with the pass of the last committed token. The first of a text is grown level by level by the host,
// later ones on the device where that can be, in passes of more rows than they have guesses. Times are the median of
// many trees, by the clock of the host; beside them stands what reading the weights takes as often as there are
// passes, at the rate of copies in the same run. Exit 77: no GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "common/model/model_draws.h"
#include "drafter/build/builder.h"
#include "tests/gpu/bench_support.h"
#include "tests/gpu/random_model.h"

#define NODES 16u
#define ROWS_MOST 256u
#define WARM_UP 5u
#define REPEATS_MOST 50u
#define GOAL_MS 3.0

typedef struct {
    or_model_shape_t drafter;
    uint32_t context; // of the text before the tree, its last token included
    uint32_t repeats;
    size_t copy_bytes;
} plan_t;

static const plan_t whole = {.drafter = {.layers = 12,
                                         .width = 768,
                                         .heads = 12,
                                         .kv_heads = 4,
                                         .ffn = 2048,
                                         .vocab_size = 32000,
                                         .context = 4096},
                             .context = 2048,
                             .repeats = REPEATS_MOST,
                             .copy_bytes = (size_t)1 << 30};

static const plan_t tiny = {.drafter = {.layers = 1,
                                        .width = 32,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .ffn = 32,
                                        .vocab_size = 100,
                                        .context = 96},
                            .context = 24,
                            .repeats = 1,
                            .copy_bytes = (size_t)1 << 20};

typedef struct {
    test_gguf_t file;
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_builder_t *builder;
    or_kv_sequence_t *text;
    or_token_tree_t *tree;
    or_belief_t belief;
    int32_t *history; // [context]
    uint32_t context;
} bench_t;

// All but the last token.
static void prefill(const bench_t *bench)
{
    or_model_row_t rows[ROWS_MOST];
    for (uint32_t done = 0; done + 1 < bench->context;) {
        uint32_t left = bench->context - 1 - done;
        uint32_t count = left < ROWS_MOST ? left : ROWS_MOST;
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = (or_model_row_t){bench->text, bench->history[done + i], OR_KV_NO_SLOT,
                                       OR_KV_NO_SLOT};
        }
        bench_require(or_model_forward(bench->model, rows, count) == OR_OK, "a prefix");
        done += count;
    }
}

static void open_bench(bench_t *bench, const plan_t *plan)
{
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    const or_model_options_t options = {.rows_max = ROWS_MOST,
                                        .sequences_max = 1,
                                        .cache_type_k = OR_KV_F16,
                                        .cache_type_v = OR_KV_F16,
                                        .gpu = &choice};
    *bench = (bench_t){.context = plan->context};
    or_belief_init(&bench->belief);
    random_model_open(&plan->drafter, OR_TENSOR_BF16, true, &bench->file, &bench->gguf);
    bench->history = calloc(plan->context, sizeof *bench->history);
    bench_require(bench->history != NULL, "no memory");
    for (uint32_t i = 0; i < plan->context; i++) {
        bench->history[i] = 1 + (int32_t)i % 97;
    }
    bool opened =
        or_model_load(bench->gguf, &options, &bench->model) == OR_OK &&
        or_vocab_load(bench->gguf, &bench->vocab) == OR_OK &&
        or_builder_create(bench->model, bench->vocab, NODES, 0, &bench->builder) == OR_OK &&
        or_token_tree_create(NODES, &bench->tree) == OR_OK &&
        or_model_open_sequence(bench->model, or_builder_slots(bench->builder), &bench->text) ==
            OR_OK;
    bench_require(opened, "the drafter");
    prefill(bench);
}

static void close_bench(bench_t *bench)
{
    free(bench->history);
    or_kv_sequence_close(&bench->text);
    or_token_tree_destroy(&bench->tree);
    or_builder_destroy(&bench->builder);
    or_vocab_destroy(&bench->vocab);
    or_model_destroy(&bench->model);
    or_gguf_close(&bench->gguf);
    test_gguf_fini(&bench->file);
}

// ---- trees ----

static void build(bench_t *bench, or_draft_method_t method, uint64_t seed)
{
    or_build_job_t job = {.sequence = bench->text,
                          .history = bench->history,
                          .history_count = bench->context,
                          .noise_key = or_noise_key(seed, 0),
                          .sampling = or_sampling_default(),
                          .draft_temperature = RANDOM_MODEL_TEMPERATURE,
                          .nodes_max = NODES,
                          .depth_max = NODES,
                          .belief = &bench->belief};
    const or_model_row_t root = {bench->text, bench->history[bench->context - 1], OR_KV_NO_SLOT,
                                 OR_KV_NO_SLOT};
    or_build_job_suit(&job, method, OR_ACCEPT_COUPLED);
    bench_require(or_model_forward(bench->model, &root, 1) == OR_OK, "a root");
    bench_require(or_builder_build(bench->builder, method, &job, bench->tree) == OR_OK, "a tree");
}

// Prints a line, and returns the median time. The text is as before.
static double measure(bench_t *bench, const char *name, or_draft_method_t method,
                      const plan_t *plan, double copying)
{
    double times[REPEATS_MOST];
    uint64_t passes = 0, rows = 0;
    for (uint32_t i = 0; i < WARM_UP + plan->repeats; i++) {
        if (i == WARM_UP) {
            passes = or_builder_passes(bench->builder);
            rows = or_model_whole_rows(bench->model);
        }
        double begin = bench_now_ms();
        build(bench, method, i);
        double end = bench_now_ms();
        if (i >= WARM_UP) {
            times[i - WARM_UP] = end - begin;
        }
        or_kv_sequence_truncate(bench->text, bench->context - 1);
    }
    double ms = bench_median(times, plan->repeats);
    double of_tree = (double)(or_builder_passes(bench->builder) - passes) / plan->repeats;
    double whole_rows = (double)(or_model_whole_rows(bench->model) - rows) / plan->repeats;
    double bytes = (double)or_model_memory(bench->model).weights * (1 + of_tree);
    printf("| %s | %.3f | 1 + %.1f | %.3f | %.1f |\n", name, ms, of_tree, 1e-6 * bytes / copying,
           whole_rows);
    return ms;
}

int main(int argc, char **argv)
{
    const plan_t *plan = argc > 1 && strcmp(argv[1], "tiny") == 0 ? &tiny : &whole;
    or_cuda_description_t device;
    bench_t bench;
    bench_begin(&device);
    double copying = 2 * bench_copy_rate(or_cuda_copy, false, plan->copy_bytes);
    open_bench(&bench, plan);
    printf("%s; a drafter of %.2f GB in BF16, %s; context %u; copying at %.0f GB/s\n\n",
           device.name, 1e-9 * (double)or_model_memory(bench.model).weights,
           or_model_arith_id(bench.model), plan->context, copying);
    printf("| tree of %u nodes | ms | passes | reading weights, ms | whole rows of logits |\n"
           "|---|---|---|---|---|\n",
           NODES);
    double tree_ms = measure(&bench, "best first (coupled)", OR_DRAFT_COUPLED, plan, copying);
    (void)measure(&bench, "chain", OR_DRAFT_CHAIN, plan, copying);
    puts("");
    bench_judge(tree_ms < GOAL_MS, "a draft tree of 16 nodes takes less than 3 ms", "%.2f ms",
                tree_ms);
    close_bench(&bench);
    return bench_exit_code();
}
