// product_bench - what the products of a model's matrices cost on a GPU, each by itself, beside the rate at which it
// copies memory.
//
//     product_bench          the matrices of Llama 3 8B and of a drafter of 100M
//     product_bench tiny     matrices of no size, to see that this works
//
// A matrix is multiplied many times in one recording, each time at another place of a memory that no cache holds. A
// time is that of one product, launch included. The last columns are all products of a step: layers, and head. Exit
// 77: no GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/gpu/bench_support.h"
#include "tests/support/test_support.h"

#define MATRICES_MAX 6u
#define LAUNCHES 24u
#define ROWS_MOST 64u

typedef struct {
    const char *name;
    uint32_t outputs;
    uint32_t inputs;
    uint32_t parts;
    uint32_t of_step; // how often a step multiplies by one like it
} matrix_t;

typedef struct {
    const char *name;
    size_t pool_bytes;
    matrix_t matrices[MATRICES_MAX];
} plan_t;

static const plan_t whole[] = {
    {.name = "8B",
     .pool_bytes = (size_t)2 << 30,
     .matrices = {{"query", 4096, 4096, 1, 32},
                  {"key", 1024, 4096, 1, 64},
                  {"output", 4096, 4096, 8, 32},
                  {"gate", 14336, 4096, 1, 64},
                  {"down", 4096, 14336, 8, 32},
                  {"head", 128256, 4096, 1, 1}}},
    {.name = "100M",
     .pool_bytes = (size_t)2 << 30,
     .matrices = {{"query", 768, 768, 1, 12},
                  {"key", 256, 768, 1, 24},
                  {"output", 768, 768, 8, 12},
                  {"gate", 2048, 768, 1, 24},
                  {"down", 768, 2048, 8, 12},
                  {"head", 32000, 768, 1, 1}}},
};

static const plan_t tiny = {.name = "tiny",
                            .pool_bytes = (size_t)1 << 20,
                            .matrices = {{"query", 32, 256, 1, 1}, {"down", 16, 2048, 8, 1}}};

static const struct {
    const char *name;
    bool quantised;
    or_cuda_float_t type;
    or_quant_t quant;
} types[] = {
    {"BF16", false, OR_CUDA_BF16, 0}, {"F16", false, OR_CUDA_F16, 0},
    {"Q8_0", true, 0, OR_QUANT_Q8_0}, {"Q4_K", true, 0, OR_QUANT_Q4_K},
    {"Q6_K", true, 0, OR_QUANT_Q6_K}, {"Q4_0", true, 0, OR_QUANT_Q4_0},
};

typedef struct {
    or_cuda_t *cuda;
    char *pool;
    size_t pool_bytes;
    void *x; // floats or blocks, of the widest rows
    float *y;
} bench_t;

// ---- memory ----

// Random numbers of one magnitude as bfloats, and good as any other type's bytes.
static void fill(bench_t *bench, void *to, size_t bytes)
{
    const size_t some = (size_t)1 << 20;
    uint16_t *numbers = malloc(some);
    uint64_t random = 1;
    bench_require(numbers != NULL, "no memory");
    for (size_t i = 0; i < some / sizeof *numbers; i++) {
        numbers[i] = (uint16_t)((test_random(&random) & 0x807F) | 120 << 7);
    }
    for (size_t done = 0; done < bytes; done += some) {
        const size_t left = bytes - done;
        bench_require(or_cuda_upload(bench->cuda, (char *)to + done, numbers,
                                     left < some ? left : some) == OR_CUDA_OK,
                      "an upload");
    }
    free(numbers);
}

static void *filled(bench_t *bench, size_t bytes)
{
    void *at = NULL;
    bench_require(or_cuda_alloc(bench->cuda, bytes, &at) == OR_CUDA_OK, "no memory on the GPU");
    fill(bench, at, bytes);
    return at;
}

// ---- a product ----

static size_t panel_bytes(size_t type, const matrix_t *m)
{
    if (!types[type].quantised) {
        return (size_t)m->inputs * OR_PANEL * sizeof(uint16_t);
    }
    return m->inputs / (OR_QUANT_BLOCK * or_quant_unit_blocks(types[type].quant)) *
           or_quant_unit_bytes(types[type].quant);
}

static void multiply(bench_t *bench, size_t type, const matrix_t *m, uint32_t rows, size_t offset)
{
    const uint32_t unit = types[type].quantised ? OR_QUANT_BLOCK : 1;
    const uint32_t count = m->inputs / m->parts / unit;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
    for (uint32_t s = 0; s < m->parts; s++) {
        spans[s] = (or_cuda_span_t){s * count, count};
    }
    const or_cuda_parts_t to = {.spans = spans,
                                .count = m->parts,
                                .y = bench->y,
                                .y_stride = m->outputs,
                                .part_stride = (size_t)rows * m->outputs};
    const uint32_t panels = m->outputs / OR_PANEL;
    int status = types[type].quantised
                     ? or_cuda_matmul_quants(bench->cuda, types[type].quant, bench->pool + offset,
                                             panel_bytes(type, m), panels, bench->x,
                                             m->inputs / OR_QUANT_BLOCK, rows, &to)
                     : or_cuda_matmul_floats(bench->cuda, types[type].type, bench->pool + offset,
                                             (size_t)m->inputs * OR_PANEL, panels, bench->x,
                                             m->inputs, rows, &to);
    bench_require(status == OR_CUDA_OK, "a product");
}

// Return the microseconds of one product.
static double time_product(bench_t *bench, size_t type, const matrix_t *m, uint32_t rows)
{
    const size_t bytes = panel_bytes(type, m) * (m->outputs / OR_PANEL);
    const size_t apart = (bytes + 4095) / 4096 * 4096;
    const size_t places = bench->pool_bytes / apart;
    or_cuda_recording_t *recording = NULL;
    float ms = 0;
    bool done = or_cuda_record_begin(bench->cuda) == OR_CUDA_OK;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        // Small ones far apart, so that a replay finds nothing in a cache.
        multiply(bench, type, m, rows,
                 i * (places / LAUNCHES > 0 ? places / LAUNCHES : 1) % places * apart);
    }
    done = done && or_cuda_record_end(bench->cuda, &recording) == OR_CUDA_OK &&
           or_cuda_replay(bench->cuda, recording) == OR_CUDA_OK &&
           or_cuda_mark(bench->cuda, 0) == OR_CUDA_OK &&
           or_cuda_replay(bench->cuda, recording) == OR_CUDA_OK &&
           or_cuda_mark(bench->cuda, 1) == OR_CUDA_OK &&
           or_cuda_elapsed(bench->cuda, 0, 1, &ms) == OR_CUDA_OK;
    bench_require(done, "products");
    or_cuda_recording_free(&recording);
    return 1e3 * (double)ms / LAUNCHES;
}

// ---- tables ----

static void print_rows(bench_t *bench, const plan_t *plan, size_t type, uint32_t rows,
                       double copying)
{
    double step_us = 0, step_bytes = 0;
    printf("| %s | %u |", types[type].name, rows);
    for (size_t i = 0; i < MATRICES_MAX && plan->matrices[i].name != NULL; i++) {
        const matrix_t *m = &plan->matrices[i];
        double us = time_product(bench, type, m, rows);
        printf(" %.1f |", us);
        step_us += us * m->of_step;
        step_bytes += (double)panel_bytes(type, m) * (m->outputs / OR_PANEL) * m->of_step;
    }
    double rate = 1e-3 * step_bytes / step_us;
    printf(" %.3f | %.0f %% |\n", 1e-3 * step_us, 100 * rate / copying);
}

static void measure(const plan_t *plan, double copying)
{
    static const uint32_t rows[] = {1, 4, 8, 16, ROWS_MOST};
    bench_t bench = {.pool_bytes = plan->pool_bytes};
    bench_require(or_cuda_open(0, &bench.cuda) == OR_CUDA_OK, "the GPU cannot be opened");
    size_t x_bytes = 0, y_floats = 0;
    printf("\n%s\n\n| weights | rows |", plan->name);
    for (size_t i = 0; i < MATRICES_MAX && plan->matrices[i].name != NULL; i++) {
        const matrix_t *m = &plan->matrices[i];
        const size_t floats = (size_t)ROWS_MOST * m->parts * m->outputs;
        const size_t bytes = (size_t)ROWS_MOST * m->inputs * sizeof(float);
        x_bytes = bytes > x_bytes ? bytes : x_bytes;
        y_floats = floats > y_floats ? floats : y_floats;
        printf(" %s, us |", m->name);
    }
    printf(" step, ms | of copying |\n|---|---|---|---|---|---|---|---|---|---|\n");
    bench.pool = filled(&bench, bench.pool_bytes);
    bench.x = filled(&bench, x_bytes);
    bench.y = filled(&bench, y_floats * sizeof(float));
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            print_rows(&bench, plan, type, rows[i], copying);
        }
    }
    or_cuda_free(bench.cuda, bench.y);
    or_cuda_free(bench.cuda, bench.x);
    or_cuda_free(bench.cuda, bench.pool);
    or_cuda_close(&bench.cuda);
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && strcmp(argv[1], "tiny") == 0;
    const size_t copy_bytes = (size_t)1 << (small ? 20 : 30);
    or_cuda_description_t device;
    bench_begin(&device);
    double copying = 2 * bench_copy_rate(or_cuda_copy, false, copy_bytes);
    printf("%s; copying %zu MiB within it: %.0f GB/s, read and written\n", device.name,
           copy_bytes >> 20, copying);
    for (size_t i = 0; i < (small ? 1 : sizeof whole / sizeof whole[0]); i++) {
        measure(small ? &tiny : &whole[i], copying);
    }
    return bench_exit_code();
}
