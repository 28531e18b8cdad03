// kernels-bench [seconds per line] - the time of each kernel on shapes of the demonstration target.
//
// Prints for the table picked (OUTRIDER_KERNELS chooses) the time of a call, the memory it names a
// second and its floating point operations a second. One thread. The working set of one call stays
// in a cache, as the demonstration models do.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

#define K_MAX 768u
#define OUTPUTS_MAX 4096u
#define WEIGHTS_MAX (OUTPUTS_MAX * 256u)
#define BLOCKS_MAX (WEIGHTS_MAX / (OR_PANEL * OR_QUANT_BLOCK)) // of panels
#define ROWS_MAX 64u
#define HEAD_DIM 64u
#define BLOCK (HEAD_DIM * OR_KV_BLOCK)
#define CONTEXT 256u

typedef struct {
    const or_kernels_t *kernels;
    float *weights;   // WEIGHTS_MAX
    uint16_t *halves; // and bfloats
    or_q8_panel_block_t *q8_blocks;
    or_q4_panel_block_t *q4_blocks;
    float *x;       // ROWS_MAX x K_MAX, and quantised:
    int8_t *quants; // of the same shape
    float *scales;
    int32_t *sums;
    float *y; // ROWS_MAX x OUTPUTS_MAX
    uint32_t k;
    uint32_t outputs;
    uint32_t rows;
} bench_t;

typedef struct {
    const char *name;
    void (*call)(bench_t *);
    double weight_bytes;
    double activation_bytes;
} matmul_line_t;

typedef struct {
    const char *name;
    void (*call)(bench_t *);
    uint32_t n;
    double bytes;
    double flops;
} vector_line_t;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Seconds a call takes, over at least `seconds`.
static double time_of(void (*call)(bench_t *), bench_t *bench, double seconds)
{
    call(bench);
    double start = now();
    for (unsigned long calls = 0, batch = 1;; batch *= 2) {
        for (unsigned long i = 0; i < batch; i++) {
            call(bench);
        }
        calls += batch;
        double elapsed = now() - start;
        if (elapsed >= seconds) {
            return elapsed / (double)calls;
        }
    }
}

static void report(const bench_t *bench, const char *name, const char *shape, double seconds,
                   double bytes, double flops)
{
    printf("%-5s %-17s %-20s %10.2f us %8.2f GB/s %8.2f GFLOP/s\n", bench->kernels->name, name,
           shape, 1e6 * seconds, 1e-9 * bytes / seconds, 1e-9 * flops / seconds);
}

static void call_matmul_f16(bench_t *b)
{
    b->kernels->matmul_f16(b->halves, (size_t)b->k * OR_PANEL, b->outputs / OR_PANEL, b->k, b->x,
                           b->k, b->rows, b->y, b->outputs);
}

static void call_matmul_f32(bench_t *b)
{
    b->kernels->matmul_f32(b->weights, (size_t)b->k * OR_PANEL, b->outputs / OR_PANEL, b->k, b->x,
                           b->k, b->rows, b->y, b->outputs);
}

static void call_matmul_bf16(bench_t *b)
{
    b->kernels->matmul_bf16(b->halves, (size_t)b->k * OR_PANEL, b->outputs / OR_PANEL, b->k, b->x,
                            b->k, b->rows, b->y, b->outputs);
}

static void call_matmul_q8_0(bench_t *b)
{
    uint32_t blocks = b->k / OR_QUANT_BLOCK;
    const or_q8_rows_t x = {b->quants, b->scales, b->sums, blocks};
    b->kernels->matmul_q8_0(b->q8_blocks, blocks, b->outputs / OR_PANEL, blocks, &x, b->rows, b->y,
                            b->outputs);
}

static void call_matmul_q4_0(bench_t *b)
{
    uint32_t blocks = b->k / OR_QUANT_BLOCK;
    const or_q8_rows_t x = {b->quants, b->scales, b->sums, blocks};
    b->kernels->matmul_q4_0(b->q4_blocks, blocks, b->outputs / OR_PANEL, blocks, &x, b->rows, b->y,
                            b->outputs);
}

static void call_quantize(bench_t *b)
{
    b->kernels->quantize_row(b->x, K_MAX / OR_QUANT_BLOCK, b->quants, b->scales, b->sums);
}

static void call_rmsnorm(bench_t *b)
{
    b->kernels->rmsnorm(b->x, b->weights, 256, 1e-5f, b->y);
}

static void call_rope(bench_t *b)
{
    b->kernels->rope_pairs(b->y, b->weights, b->weights, HEAD_DIM);
}

static void call_rope_halves(bench_t *b)
{
    b->kernels->rope_halves(b->y, b->weights, b->weights, HEAD_DIM);
}

static void call_swiglu(bench_t *b)
{
    b->kernels->swiglu(b->y, b->x, 768);
}

static void call_add(bench_t *b)
{
    b->kernels->add(b->y, b->x, 256);
}

static void call_sum_shards(bench_t *b)
{
    b->kernels->sum_shards(b->x, 256, 256, b->y);
}

static void call_scores(bench_t *b)
{
    b->kernels->attention_scores(b->x, b->weights, HEAD_DIM, 0.125f, b->y);
}

static void call_softmax(bench_t *b)
{
    b->kernels->softmax(b->y, CONTEXT);
}

static void call_values(bench_t *b)
{
    b->kernels->attention_values(b->x, b->weights, HEAD_DIM, OR_KV_BLOCK, b->y);
}

static void call_widen_f16(bench_t *b)
{
    b->kernels->widen_f16(b->halves, BLOCK, b->y);
}

static void call_widen_q8_0_keys(bench_t *b)
{
    b->kernels->widen_q8_0_keys(b->halves, b->quants, HEAD_DIM, b->y);
}

static const matmul_line_t matmul_lines[] = {
    {"matmul_f32", call_matmul_f32, 4, 4},
    {"matmul_f16", call_matmul_f16, 2, 4},
    {"matmul_bf16", call_matmul_bf16, 2, 4},
    {"matmul_q8_0", call_matmul_q8_0, 34.0 / 32, 40.0 / 32},
    {"matmul_q4_0", call_matmul_q4_0, 18.0 / 32, 40.0 / 32},
};

// An exp counts as 20 operations, a division or a root as one.
static const vector_line_t vector_lines[] = {
    {"quantize_row", call_quantize, K_MAX, K_MAX * 5.25, K_MAX * 6},
    {"rmsnorm", call_rmsnorm, 256, 256 * 12, 256 * 4},
    {"rope_pairs", call_rope, HEAD_DIM, HEAD_DIM * 12, HEAD_DIM * 3},
    {"rope_halves", call_rope_halves, HEAD_DIM, HEAD_DIM * 12, HEAD_DIM * 3},
    {"swiglu", call_swiglu, 768, 768 * 12, 768 * 23},
    {"add", call_add, 256, 256 * 12, 256},
    {"sum_shards", call_sum_shards, 256, 256 * 36, 256 * 7},
    {"attention_scores", call_scores, HEAD_DIM, 4 * BLOCK, 2 * BLOCK},
    {"softmax", call_softmax, CONTEXT, CONTEXT * 8, CONTEXT * 24},
    {"attention_values", call_values, HEAD_DIM, 4 * BLOCK, 2 * BLOCK},
    {"widen_f16", call_widen_f16, BLOCK, 6 * BLOCK, 0},
    {"widen_q8_0_keys", call_widen_q8_0_keys, BLOCK, 5 * BLOCK, BLOCK},
};

static void bench_matmul(const bench_t *shape, const matmul_line_t *line, double seconds)
{
    bench_t bench = *shape;
    double weights = (double)bench.k * bench.outputs;
    double bytes = line->weight_bytes * weights +
                   bench.rows * (line->activation_bytes * bench.k + 4.0 * bench.outputs);
    char text[48];
    snprintf(text, sizeof text, "%u x %u -> %u", bench.rows, bench.k, bench.outputs);
    report(&bench, line->name, text, time_of(line->call, &bench, seconds), bytes,
           2.0 * weights * bench.rows);
}

static void bench_matmuls(bench_t *bench, double seconds)
{
    static const uint32_t shapes[][2] = {{256, 256}, {256, 768}, {768, 256}, {256, 4096}};
    static const uint32_t rows[] = {1, 2, 3, 4, 8, 16, 64};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            bench->k = shapes[s][0];
            bench->outputs = shapes[s][1];
            bench->rows = rows[r];
            for (size_t i = 0; i < sizeof matmul_lines / sizeof matmul_lines[0]; i++) {
                bench_matmul(bench, &matmul_lines[i], seconds);
            }
        }
    }
}

static void bench_vectors(bench_t *bench, double seconds)
{
    for (size_t i = 0; i < sizeof vector_lines / sizeof vector_lines[0]; i++) {
        const vector_line_t *line = &vector_lines[i];
        // The kernels in place would drift to denormals or infinity; from zero they stay there, at
        // the same cost.
        memset(bench->y, 0, (size_t)ROWS_MAX * OUTPUTS_MAX * sizeof *bench->y);
        char shape[16];
        snprintf(shape, sizeof shape, "%u", line->n);
        report(bench, line->name, shape, time_of(line->call, bench, seconds), line->bytes,
               line->flops);
    }
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

// Ordinary numbers everywhere: denormals and NaNs take their own time on some processors.
static void fill(bench_t *bench)
{
    uint32_t random = 1;
    for (size_t i = 0; i < WEIGHTS_MAX; i++) {
        bench->weights[i] = (float)next(&random) * 0x1p-24f - 0.5f;
        bench->halves[i] = or_f32_to_f16(bench->weights[i]);
    }
    uint8_t row[2 + OR_QUANT_BLOCK] = {0x00, 0x20}; // 2^-7, of Q8_0 and of Q4_0
    for (size_t i = 0; i < (size_t)BLOCKS_MAX * OR_PANEL; i++) {
        for (size_t j = 2; j < sizeof row; j++) {
            row[j] = (uint8_t)next(&random);
        }
        or_pack_q8_0(row, 1, &bench->q8_blocks[i / OR_PANEL], i % OR_PANEL);
        or_pack_q4_0(row, 1, &bench->q4_blocks[i / OR_PANEL], i % OR_PANEL);
    }
    memcpy(bench->x, bench->weights, (size_t)ROWS_MAX * K_MAX * sizeof *bench->x);
    or_kernels_ref.quantize_row(bench->x, ROWS_MAX * K_MAX / OR_QUANT_BLOCK, bench->quants,
                                bench->scales, bench->sums);
}

static bool has_memory(const bench_t *bench)
{
    return bench->weights != NULL && bench->halves != NULL && bench->q8_blocks != NULL &&
           bench->q4_blocks != NULL && bench->x != NULL && bench->quants != NULL &&
           bench->scales != NULL && bench->sums != NULL && bench->y != NULL;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.05;
    const size_t activations = (size_t)ROWS_MAX * K_MAX;
    bench_t bench = {
        .weights = malloc(WEIGHTS_MAX * sizeof(float)),
        .halves = malloc(WEIGHTS_MAX * sizeof(uint16_t)),
        .q8_blocks = malloc(BLOCKS_MAX * sizeof(or_q8_panel_block_t)),
        .q4_blocks = malloc(BLOCKS_MAX * sizeof(or_q4_panel_block_t)),
        .x = malloc(activations * sizeof(float)),
        .quants = malloc(activations),
        .scales = malloc(activations / OR_QUANT_BLOCK * sizeof(float)),
        .sums = malloc(activations / OR_QUANT_BLOCK * sizeof(int32_t)),
        .y = malloc((size_t)ROWS_MAX * OUTPUTS_MAX * sizeof(float)),
    };
    int status = EXIT_FAILURE;
    if (!has_memory(&bench)) {
        fprintf(stderr, "kernels-bench: out of memory\n");
        goto done;
    }
    bench.kernels = or_kernels_pick();
    if (bench.kernels == NULL) {
        fprintf(stderr, "kernels-bench: OUTRIDER_KERNELS names no kernels that run here; try: %s\n",
                or_kernels_names());
        goto done;
    }
    fill(&bench);
    bench_matmuls(&bench, seconds);
    bench_vectors(&bench, seconds);
    status = EXIT_SUCCESS;
done:
    free(bench.y);
    free(bench.sums);
    free(bench.scales);
    free(bench.quants);
    free(bench.x);
    free(bench.q4_blocks);
    free(bench.q8_blocks);
    free(bench.halves);
    free(bench.weights);
    return status;
}
