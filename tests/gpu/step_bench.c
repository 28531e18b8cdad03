// step_bench - what the target's steps cost on a GPU, beside the rate at which it copies memory.
//
//     step_bench              a model of the shape of Llama 3 8B, of random BF16 weights
//     step_bench canonical    in canonical arithmetic alone, which is that of the CPU
//     step_bench q8_0, q4_k   likewise, of weights of that type
//     step_bench tensor       by tensor cores alone, which have their own
//     step_bench tiny         a model of no size, to see that this works
//
// A step is a tree's pass through all layers and the head of its rows; logits stay on the device, where the
// contenders are found. What a part costs is what a step without it takes less. Times are the median of many steps,
// of fewer where they are slow, by the clock of the host. Goals are compared with ceilings of the same run. Exit 77:
// no GPU; 1: something could not be measured.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/gpu/bench_support.h"
#include "tests/gpu/random_model.h"

#define ROWS_MOST 256u
#define WARM_UP 3u // a step is launched, recorded and replayed before it is timed
#define REPEATS_MOST 50u
#define REPEATS_LEAST 3u
#define MEDIAN_MS 2000.0 // what one may take, about: all, and so the goals, fit into a minute

typedef struct {
    or_model_shape_t target;
    uint32_t context; // of a step
    uint32_t repeats;
    size_t copy_bytes;
} plan_t;

static const plan_t whole = {
    .target = {.layers = 32,
               .width = 4096,
               .heads = 32,
               .kv_heads = 8,
               .ffn = 14336,
               .vocab_size = 128256,
               .context = 4096},
    .context = 2048,
    .repeats = REPEATS_MOST,
    .copy_bytes = (size_t)1 << 30,
};

static const plan_t tiny = {
    .target = {.layers = 1,
               .width = 32,
               .heads = 2,
               .kv_heads = 1,
               .ffn = 32,
               .vocab_size = 100,
               .context = 96},
    .context = 24,
    .repeats = 1,
    .copy_bytes = (size_t)1 << 20,
};

// ---- parts of a step that can be left out ----

static struct {
    bool products;
    bool attention;
    bool download;
} without;

static int products_or_not(or_cuda_t *cuda, or_cuda_float_t type, const void *panels,
                           size_t panel_stride, uint32_t panel_count, const float *x,
                           size_t x_stride, uint32_t rows, const or_cuda_parts_t *to)
{
    return without.products ? OR_CUDA_OK
                            : or_gpu_functions()->matmul_floats(cuda, type, panels, panel_stride,
                                                                panel_count, x, x_stride, rows, to);
}

static int quants_or_not(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                         uint32_t panel_count, const or_q8_block_t *x, size_t x_stride,
                         uint32_t rows, const or_cuda_parts_t *to)
{
    return without.products ? OR_CUDA_OK
                            : or_gpu_functions()->matmul_quants(cuda, type, panels, panel_bytes,
                                                                panel_count, x, x_stride, rows, to);
}

static int beside_or_not(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrices,
                         uint32_t count, size_t panel_bytes, const or_q8_block_t *x,
                         size_t x_stride, uint32_t rows, const or_cuda_parts_t *to)
{
    return without.products ? OR_CUDA_OK
                            : or_gpu_functions()->matmul_quants_beside(
                                  cuda, type, matrices, count, panel_bytes, x, x_stride, rows, to);
}

static int sum_or_not(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                      uint32_t panel_count, const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                      const or_cuda_parts_t *to, bool over, float *y, size_t y_stride, uint32_t n)
{
    return without.products
               ? OR_CUDA_OK
               : or_gpu_functions()->sum_quants(cuda, type, panels, panel_bytes, panel_count, x,
                                                x_stride, rows, to, over, y, y_stride, n);
}

static int tensor_or_not(or_cuda_tensor_t *tensor, const or_cuda_tensor_matrix_t *matrix,
                         const or_cuda_rows_t *x, uint32_t rows, const or_cuda_parts_t *to)
{
    return without.products ? OR_CUDA_OK
                            : or_gpu_functions()->matmul_tensor(tensor, matrix, x, rows, to);
}

static int attention_or_not(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                            const or_cuda_seen_t *seen, uint32_t rows, const float *query,
                            size_t query_stride, const or_cuda_heads_t *heads,
                            const or_cuda_attention_t *attention, float *scores,
                            size_t scores_stride, const or_cuda_rows_t *to)
{
    return without.attention
               ? OR_CUDA_OK
               : or_gpu_functions()->attention(cuda, kv, layer, seen, rows, query, query_stride,
                                               heads, attention, scores, scores_stride, to);
}

static int download_or_not(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return without.download ? OR_CUDA_OK : or_gpu_functions()->download(cuda, to, from, bytes);
}

// ---- a model ----

typedef struct {
    test_gguf_t file;
    or_gguf_t *gguf;
    or_gpu_functions_t functions;
    or_model_t *model;
    or_kv_sequence_t *text;
    uint32_t context;
} bench_t;

static void prefill(bench_t *bench)
{
    or_model_row_t rows[ROWS_MOST];
    for (uint32_t i = 0; i < ROWS_MOST; i++) {
        rows[i] = (or_model_row_t){bench->text, (int32_t)i % 100, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    for (uint32_t left = bench->context; left > 0;) {
        uint32_t count = left < ROWS_MOST ? left : ROWS_MOST;
        bench_require(or_model_forward(bench->model, rows, count) == OR_OK, "a prefix");
        left -= count;
    }
}

static void close_bench(bench_t *bench)
{
    or_kv_sequence_close(&bench->text);
    or_model_destroy(&bench->model);
    or_gguf_close(&bench->gguf);
    test_gguf_fini(&bench->file);
}

// False if there can be none on tensor cores; why is said.
static bool open_bench(bench_t *bench, const or_model_shape_t *shape, or_tensor_type_t type,
                       bool tensor, uint32_t context)
{
    *bench = (bench_t){.functions = *or_gpu_functions(), .context = context};
    bench->functions.matmul_floats = products_or_not;
    bench->functions.matmul_quants = quants_or_not;
    bench->functions.matmul_quants_beside = beside_or_not;
    bench->functions.sum_quants = sum_or_not;
    bench->functions.matmul_tensor = tensor_or_not;
    bench->functions.attention = attention_or_not;
    bench->functions.download = download_or_not;
    const or_gpu_choice_t choice = {.functions = &bench->functions, .tensor = tensor};
    const or_model_options_t options = {.rows_max = ROWS_MOST,
                                        .sequences_max = 1,
                                        .cache_type_k = OR_KV_F16,
                                        .cache_type_v = OR_KV_F16,
                                        .gpu = &choice};
    random_model_open(shape, type, false, &bench->file, &bench->gguf);
    or_status_t status = or_model_load(bench->gguf, &options, &bench->model);
    if (status != OR_OK && tensor) {
        close_bench(bench);
        return false;
    }
    bench_require(status == OR_OK, "the model");
    bench_require(or_model_open_sequence(bench->model, ROWS_MOST, &bench->text) == OR_OK, "a text");
    prefill(bench);
    return true;
}

// Node `index` of a tree in which each has two children; node 0 is the next token of the text.
static or_model_row_t node_row(const bench_t *bench, uint32_t index)
{
    uint32_t parent = index > 0 ? (index - 1) / 2 : 0;
    return (or_model_row_t){.sequence = bench->text,
                            .token = (int32_t)index,
                            .slot = index > 0 ? index - 1 : OR_KV_NO_SLOT,
                            .parent_slot = parent > 0 ? parent - 1 : OR_KV_NO_SLOT};
}

// ---- steps ----

static void run_step(bench_t *bench, uint32_t nodes)
{
    or_model_row_t rows[ROWS_MOST];
    for (uint32_t i = 0; i < nodes; i++) {
        rows[i] = node_row(bench, i);
    }
    bench_require(or_model_forward(bench->model, rows, nodes) == OR_OK, "a step");
    bench_require(or_gpu_run_head(bench->model, 0, nodes) == OR_OK, "the head");
}

// The text is as before.
static double time_once(bench_t *bench, uint32_t nodes)
{
    double begin = bench_now_ms();
    run_step(bench, nodes);
    double end = bench_now_ms();
    or_kv_sequence_truncate(bench->text, bench->context);
    return end - begin;
}

// The median time of so many steps at the most.
static double time_of(bench_t *bench, uint32_t nodes, uint32_t most)
{
    double times[REPEATS_MOST];
    double all_ms = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < WARM_UP; i++) {
        time_once(bench, nodes);
    }
    while (count < most && (count < REPEATS_LEAST || all_ms < MEDIAN_MS)) {
        times[count] = time_once(bench, nodes);
        all_ms += times[count++];
    }
    return bench_median(times, count);
}

typedef struct {
    double whole_ms;
    double products_ms;
    double attention_ms;
    double launched_ms; // kernel by kernel
} step_times_t;

static double time_without(bench_t *bench, bool *part, uint32_t nodes, uint32_t repeats)
{
    or_gpu_steps_forget(bench->model);
    *part = true;
    double ms = time_of(bench, nodes, repeats);
    *part = false;
    or_gpu_steps_forget(bench->model);
    return ms;
}

static step_times_t time_step(bench_t *bench, uint32_t nodes, uint32_t repeats)
{
    step_times_t times = {.whole_ms = time_of(bench, nodes, repeats)};
    bench->model->gpu->steps.off[OR_GPU_PASS] = true;
    times.launched_ms = time_of(bench, nodes, repeats);
    bench->model->gpu->steps.off[OR_GPU_PASS] = false;
    times.products_ms = times.whole_ms - time_without(bench, &without.products, nodes, repeats);
    times.attention_ms = times.whole_ms - time_without(bench, &without.attention, nodes, repeats);
    return times;
}

// ---- tables ----

static void print_shape(const char *what, const bench_t *bench, or_tensor_type_t type)
{
    const or_model_shape_t *shape = or_model_shape(bench->model);
    printf("\n%s, %s: %u layers of width %u, %u of %u heads of %u, FFN %u, vocabulary %u, "
           "%.2f GB of weights in %s; context %u\n",
           what, or_model_arith_id(bench->model), shape->layers, shape->width, shape->heads,
           shape->kv_heads, shape->head_dim, shape->ffn, shape->vocab_size,
           1e-9 * (double)or_model_memory(bench->model).weights, or_gguf_tensor_type_name(type),
           bench->context);
}

static double rate_of(const bench_t *bench, double ms)
{
    return 1e-6 * (double)or_model_memory(bench->model).weights / ms;
}

static double rest_of(const step_times_t *t)
{
    return t->whole_ms - t->products_ms - t->attention_ms;
}

static void print_step(const char *name, const bench_t *bench, const step_times_t *t,
                       double plain_ms, double copying)
{
    double rate = rate_of(bench, t->whole_ms);
    double rest_ms = rest_of(t);
    printf("| %s | %.3f | %.2f | %.0f | %.0f %% | %.1f %% | %.1f %% | %.1f %% | %.3f |\n", name,
           t->whole_ms, t->whole_ms / plain_ms, rate, 100 * rate / copying,
           100 * t->products_ms / t->whole_ms, 100 * t->attention_ms / t->whole_ms,
           100 * rest_ms / t->whole_ms, t->launched_ms);
}

// ---- goals ----

enum { PLAIN, TREE_OF_16, TREE_OF_64, STEPS };

static const struct {
    const char *name;
    uint32_t nodes;
} steps[STEPS] = {{"plain step", 1}, {"tree of 16 nodes", 16}, {"tree of 64 nodes", 64}};

enum { BANDWIDTH, TREE, REST, GOALS };

static const char *const goals[GOALS] = {
    [BANDWIDTH] = "a plain step reads its weights at 80 % of copying or more",
    [TREE] = "a tree of 64 nodes takes 1.15 plain steps or less",
    [REST] = "less than 10 % of a step is neither products nor attention",
};

static void judge_steps(const bench_t *bench, const step_times_t times[STEPS], double copying)
{
    const char *arith = or_model_arith_id(bench->model);
    double share = rate_of(bench, times[PLAIN].whole_ms) / copying;
    double plain_steps = times[TREE_OF_64].whole_ms / times[PLAIN].whole_ms;
    double most = 0;
    for (size_t i = 0; i < STEPS; i++) {
        double rest = rest_of(&times[i]) / times[i].whole_ms;
        most = rest > most ? rest : most;
    }
    puts("");
    bench_judge(share >= 0.8, goals[BANDWIDTH], "%.0f %%, %s", 100 * share, arith);
    bench_judge(plain_steps <= 1.15, goals[TREE], "%.2f, %s", plain_steps, arith);
    bench_judge(most < 0.1, goals[REST], "%.1f %% of the worst, %s", 100 * most, arith);
}

static void cannot_measure(const char *why)
{
    printf("\ntarget by tensor cores: %s\n\n", why);
    for (size_t i = 0; i < GOALS; i++) {
        bench_cannot_judge(goals[i], "no tensor cores");
    }
}

static void measure_target(const plan_t *plan, or_tensor_type_t type, bool tensor, double copying)
{
    bench_t bench;
    if (!open_bench(&bench, &plan->target, type, tensor, plan->context)) {
        cannot_measure(or_error_text());
        return;
    }
    print_shape("target", &bench, type);
    printf("\n| step | ms | plain steps | weights, GB/s | of copying | products | attention | rest "
           "| launched one by one, ms |\n|---|---|---|---|---|---|---|---|---|\n");
    without.download = true;
    step_times_t times[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        times[i] = time_step(&bench, steps[i].nodes, plan->repeats);
        print_step(steps[i].name, &bench, &times[i], times[PLAIN].whole_ms, copying);
    }
    without.download = false;
    judge_steps(&bench, times, copying);
    close_bench(&bench);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const plan_t *plan = strcmp(word, "tiny") == 0 ? &tiny : &whole;
    or_cuda_description_t device;
    bench_begin(&device);
    double copying = 2 * bench_copy_rate(or_cuda_copy, false, plan->copy_bytes);
    printf("%s; copying %zu MiB within it: %.0f GB/s, read and written\n", device.name,
           plan->copy_bytes >> 20, copying);
    const or_tensor_type_t type = strcmp(word, "q8_0") == 0   ? OR_TENSOR_Q8_0
                                  : strcmp(word, "q4_k") == 0 ? OR_TENSOR_Q4_K
                                                              : OR_TENSOR_BF16;
    if (strcmp(word, "tensor") != 0) {
        measure_target(plan, type, false, copying);
    }
    if (strcmp(word, "canonical") != 0 && type == OR_TENSOR_BF16) {
        measure_target(plan, type, true, copying);
    }
    return bench_exit_code();
}
