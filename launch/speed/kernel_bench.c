#include "launch/speed/kernel_bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/math/rng.h"
#include "kernels/ceilings.h"
#include "launch/generate/output.h"
#include "launch/progress.h"
#include "launch/speed/memory_read.h"

#define CHUNK 8u // panels that a thread takes at a time from memory
#define LINE_BYTES 64u
#define READ_LINES 16384u // at a time: a MiB
#define CEILING_ROUNDS 2000u
#define CEILING_SECONDS 0.03 // each time
#define CEILING_EVERY 4u     // cases: a quiet moment is among them
#define BATCHES 7u           // of threads together
#define BATCHES_MAX 64       // of a thread alone

typedef struct {
    const or_kernels_t *kernels;
    const or_ceilings_t *ceilings;
    uint32_t threads;
    uint8_t *area; // of weights, much larger than the caches
    size_t area_bytes;
    const or_kernel_line_t *filled; // what lies in the area
    uint32_t filled_inputs, filled_panels;
    float *x, *y; // y: [threads][OR_KERNEL_ROWS_MAX][OR_KERNEL_Y_STRIDE]
    or_q8_block_t *x_quant;
    or_q8_block_t y_quant[OR_KERNEL_X_BLOCKS];
    uint16_t halves[OR_KERNEL_INPUTS_MAX];
    or_kernel_job_t jobs[OR_KERNEL_THREADS_MAX];
    uint32_t places[OR_KERNEL_THREADS_MAX]; // in each thread's part of the area
    uint32_t part;                          // panels, or MiBs, of a thread's part
    const or_kernel_line_t *line;
    uint32_t roof_groups; // of the roof that is measured
    bool roof_minima;
} bench_t;

// ---- memory ----

// Fill the inputs with ordinary numbers: denormals and NaNs take their own time on some processors.
static void fill_inputs(bench_t *bench)
{
    or_rng_key_t key = or_rng_key(1, 0);
    for (uint32_t i = 0; i < OR_KERNEL_ROWS_MAX * OR_KERNEL_X_STRIDE; i++) {
        bench->x[i] = (float)(or_rng_uniform(or_rng_draw(key, OR_RNG_TEST, 0, i, 0)) - 0.5);
    }
    for (size_t i = 0; i < OR_KERNEL_INPUTS_MAX; i++) {
        bench->halves[i] = or_f32_to_f16(bench->x[i]);
    }
    for (size_t row = 0; row < OR_KERNEL_ROWS_MAX; row++) {
        bench->kernels->quantize_row(bench->x + row * OR_KERNEL_X_STRIDE,
                                     OR_KERNEL_INPUTS_MAX / OR_QUANT_BLOCK,
                                     bench->x_quant + row * OR_KERNEL_X_BLOCKS);
    }
}

// Make one panel of a line's type from the inputs.
static or_status_t make_panel(const bench_t *bench, const or_kernel_line_t *line, uint32_t inputs,
                              uint8_t *panel)
{
    size_t count = (size_t)inputs * OR_PANEL;
    if (line->peak == OR_PEAK_FLOAT) {
        for (size_t i = 0; i < count; i++) {
            uint16_t half = or_f32_to_f16(bench->x[i]);
            memcpy(panel + i * (size_t)line->bytes,
                   line->bytes == 4 ? (const void *)&bench->x[i] : &half, (size_t)line->bytes);
        }
        return OR_OK;
    }
    uint32_t units = inputs / (or_quant_unit_blocks(line->quant) * OR_QUANT_BLOCK);
    size_t row_bytes = (size_t)units * or_quant_file_bytes(line->quant);
    uint8_t *rows = malloc(OR_PANEL * row_bytes);
    if (rows == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a panel");
    }
    for (size_t i = 0; i < OR_PANEL; i++) {
        or_quant_encode(line->quant, bench->x + i * inputs, NULL, units, rows + i * row_bytes);
    }
    or_quant_pack(line->quant, rows, row_bytes, OR_PANEL, units, panel);
    free(rows);
    return OR_OK;
}

// Fill the area with copies of one panel: no cache knows that they are the same.
static or_status_t fill_area(bench_t *bench, const or_kernel_case_t *it)
{
    size_t panel_bytes = it->panel_bytes;
    uint32_t panels =
        it->memory ? (uint32_t)(bench->area_bytes / panel_bytes) : it->outputs / OR_PANEL;
    if (bench->filled == it->line && bench->filled_inputs == it->inputs &&
        bench->filled_panels >= panels) {
        return OR_OK;
    }
    bench->filled = NULL;
    or_status_t status = make_panel(bench, it->line, it->inputs, bench->area);
    if (status != OR_OK) {
        return status;
    }
    for (size_t i = 1; i < panels; i++) {
        memcpy(bench->area + i * panel_bytes, bench->area, panel_bytes);
    }
    bench->filled = it->line;
    bench->filled_inputs = it->inputs;
    bench->filled_panels = panels;
    return OR_OK;
}

// Allocate all memory and fill the inputs. OR_ERR_UNSUPPORTED if the ceilings of these kernels are not known.
static or_status_t prepare(bench_t *bench, const or_kernels_t *kernels, uint32_t threads)
{
    bench->kernels = kernels;
    bench->threads = threads;
    bench->ceilings = or_ceilings_find(kernels->name);
    bench->area = or_memory_area(&bench->area_bytes);
    bench->x = malloc((size_t)OR_KERNEL_ROWS_MAX * OR_KERNEL_X_STRIDE * sizeof *bench->x);
    bench->x_quant = aligned_alloc(LINE_BYTES, (size_t)OR_KERNEL_ROWS_MAX * OR_KERNEL_X_BLOCKS *
                                                   sizeof *bench->x_quant);
    bench->y = calloc((size_t)threads * OR_KERNEL_ROWS_MAX * OR_KERNEL_Y_STRIDE, sizeof *bench->y);
    if (bench->area == NULL || bench->x == NULL || bench->x_quant == NULL || bench->y == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the benchmark: it wants %zu MB",
                       bench->area_bytes >> 20);
    }
    if (bench->ceilings == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "the ceilings of kernels '%s' are not known",
                       kernels->name);
    }
    memset(bench->area, 1, bench->area_bytes);
    fill_inputs(bench);
    return OR_OK;
}

// ---- timing ----

// A piece of work is done again and again; `thread` counts from 0.
typedef void (*work_t)(void *context, uint32_t thread);

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double time_batch(work_t work, void *context, uint64_t calls)
{
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < calls; i++) {
        work(context, 0);
    }
    return now(CLOCK_THREAD_CPUTIME_ID) - start;
}

// Return the processor time of a call on this thread alone, in seconds: the median of several batches that take about
// `seconds` in all. Other users of the processor do not count, nor does the first call.
static double time_alone(work_t work, void *context, double seconds)
{
    double times[BATCHES_MAX];
    uint64_t calls = 1;
    uint32_t batches = 0;
    work(context, 0);
    double end = now(CLOCK_MONOTONIC) + seconds;
    while (batches == 0 || (batches < BATCHES_MAX && now(CLOCK_MONOTONIC) < end)) {
        double elapsed = time_batch(work, context, calls);
        if (elapsed < seconds / BATCHES_MAX && now(CLOCK_MONOTONIC) < end) {
            calls *= 2;
            batches = 0;
        } else {
            times[batches++] = elapsed / (double)calls;
        }
    }
    return or_output_median(times, batches);
}

typedef struct {
    work_t work;
    void *context;
    uint32_t index;
    double end; // of the batch, for all its threads
    pthread_t thread;
    double calls_a_second;
} member_t;

static void *work_until_the_end(void *argument)
{
    member_t *member = argument;
    double start = now(CLOCK_MONOTONIC);
    double time;
    uint64_t calls = 0;
    do {
        member->work(member->context, member->index);
        calls++;
        time = now(CLOCK_MONOTONIC);
    } while (time < member->end);
    member->calls_a_second = (double)calls / (time - start);
    return NULL;
}

// Measure how often a second all threads together do the work. A thread takes far less time to start than a batch lasts.
static or_status_t run_batch(member_t *members, uint32_t threads, double seconds,
                             double *calls_a_second)
{
    double end = now(CLOCK_MONOTONIC) + seconds;
    uint32_t started = 0;
    int error = 0;
    while (error == 0 && started < threads) {
        member_t *member = &members[started];
        member->end = end;
        error = pthread_create(&member->thread, NULL, work_until_the_end, member);
        started += error == 0;
    }
    *calls_a_second = 0;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
        *calls_a_second += members[i].calls_a_second;
    }
    return error == 0 ? OR_OK : or_fail(OR_ERR_IO, "cannot start a thread: %s", strerror(error));
}

// Measure the seconds between two calls' ends, whichever of the threads they run on: less than a call takes. This is for what
// all cores share, the memory. It is the median of several batches, each with threads of its own.
static or_status_t time_together(uint32_t threads, work_t work, void *context, double seconds,
                                 double *seconds_a_call)
{
    member_t members[OR_KERNEL_THREADS_MAX];
    double rates[BATCHES];
    for (uint32_t i = 0; i < threads; i++) {
        members[i] = (member_t){.work = work, .context = context, .index = i};
    }
    for (uint32_t i = 0; i < BATCHES; i++) {
        or_status_t status = run_batch(members, threads, seconds / BATCHES, &rates[i]);
        if (status != OR_OK) {
            return status;
        }
    }
    *seconds_a_call = 1 / or_output_median(rates, BATCHES);
    return OR_OK;
}

// ---- running ----

static void call_once(void *context, uint32_t thread)
{
    bench_t *bench = context;
    bench->line->call(&bench->jobs[thread]);
}

// Multiply with the next panels of the thread's part of the area.
static void call_chunk(void *context, uint32_t thread)
{
    bench_t *bench = context;
    or_kernel_job_t *job = &bench->jobs[thread];
    uint32_t *place = &bench->places[thread];
    job->panels = bench->area + (thread * (size_t)bench->part + *place) * job->panel_bytes;
    bench->line->call(job);
    *place = *place + 2 * CHUNK <= bench->part ? *place + CHUNK : 0;
}

static void prepare_jobs(bench_t *bench, const or_kernel_case_t *it)
{
    for (uint32_t i = 0; i < bench->threads; i++) {
        bench->places[i] = 0;
        bench->jobs[i] =
            (or_kernel_job_t){.kernels = bench->kernels,
                              .quant = it->line->quant,
                              .panels = bench->area,
                              .panel_bytes = it->panel_bytes,
                              .panel_count = it->memory ? CHUNK : it->outputs / OR_PANEL,
                              .inputs = it->inputs,
                              .rows = it->rows,
                              .x = bench->x,
                              .x_quant = bench->x_quant,
                              .y_quant = bench->y_quant,
                              .halves = bench->halves,
                              .y = bench->y + (size_t)i * OR_KERNEL_ROWS_MAX * OR_KERNEL_Y_STRIDE};
    }
}

// Time a case for about `seconds`, or for one call that takes longer.
static or_status_t run_case(bench_t *bench, or_kernel_case_t *it, double seconds)
{
    or_status_t status = it->outputs > 0 ? fill_area(bench, it) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    bench->line = it->line;
    prepare_jobs(bench, it);
    // Kernels that work in place would drift to denormals or infinity. From zero they stay at zero, at the same cost.
    memset(bench->y, 0, (size_t)OR_KERNEL_ROWS_MAX * OR_KERNEL_Y_STRIDE * sizeof *bench->y);
    if (it->memory) {
        double chunk_seconds;
        bench->part = (bench->filled_panels - CHUNK) / bench->threads;
        status = time_together(bench->threads, call_chunk, bench, seconds, &chunk_seconds);
        if (status == OR_OK) {
            it->seconds = chunk_seconds * it->outputs / (CHUNK * OR_PANEL);
        }
    } else {
        it->seconds = time_alone(call_once, bench, seconds);
    }
    return status;
}

// ---- ceilings ----

static void multiply_add(void *context, uint32_t thread)
{
    const bench_t *bench = context;
    float sum;
    (void)thread;
    bench->ceilings->multiply_add(CEILING_ROUNDS, &sum);
}

static void dot(void *context, uint32_t thread)
{
    const bench_t *bench = context;
    int32_t sum;
    (void)thread;
    bench->ceilings->dot(CEILING_ROUNDS, &sum);
}

static void multiply_blocks(void *context, uint32_t thread)
{
    const bench_t *bench = context;
    float sum;
    (void)thread;
    bench->ceilings->blocks(bench->roof_groups, bench->roof_minima, CEILING_ROUNDS, &sum);
}

static void read_next(void *context, uint32_t thread)
{
    bench_t *bench = context;
    uint32_t *place = &bench->places[thread];
    uint64_t sum;
    size_t lines = (thread * (size_t)bench->part + *place) * READ_LINES;
    bench->ceilings->read(bench->area + lines * LINE_BYTES, READ_LINES, &sum);
    *place = *place + 1 < bench->part ? *place + 1 : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double or_kernel_roof(const or_ceiling_figures_t *ceilings, or_quant_t type)
{
    return ceilings->roofs[or_quant_block_groups(type) - 1][or_quant_has_minima(type)];
}

static void measure_roofs(bench_t *bench, double seconds, or_ceiling_figures_t *best)
{
    const double operations = (double)bench->ceilings->ops_a_block_round * CEILING_ROUNDS;
    for (uint32_t groups = 1; groups <= 2; groups++) {
        for (uint32_t minima = 0; minima < 2; minima++) {
            double *roof = &best->roofs[groups - 1][minima];
            bench->roof_groups = groups;
            bench->roof_minima = minima == 1;
            *roof = larger(*roof, operations / time_alone(multiply_blocks, bench, seconds));
        }
    }
}

// Measure the ceilings, for about `seconds` each, and keep the best of what `best` had and now has.
static or_status_t measure_ceilings(bench_t *bench, double seconds, or_ceiling_figures_t *best)
{
    double each;
    bench->part = (uint32_t)(bench->area_bytes / (READ_LINES * LINE_BYTES)) / bench->threads;
    memset(bench->places, 0, sizeof bench->places);
    or_status_t status = time_together(bench->threads, read_next, bench, seconds, &each);
    if (status != OR_OK) {
        return status;
    }
    best->read_bytes_per_s = larger(best->read_bytes_per_s, (double)READ_LINES * LINE_BYTES / each);
    each = time_alone(multiply_add, bench, seconds);
    best->flops_per_s =
        larger(best->flops_per_s, (double)bench->ceilings->flops_a_round * CEILING_ROUNDS / each);
    each = time_alone(dot, bench, seconds);
    best->dots_per_s =
        larger(best->dots_per_s, (double)bench->ceilings->ops_a_round * CEILING_ROUNDS / each);
    measure_roofs(bench, seconds, best);
    return OR_OK;
}

or_status_t or_kernel_bench(const or_kernels_t *kernels, uint32_t threads, double seconds,
                            or_kernel_case_t *cases, uint32_t count, or_ceiling_figures_t *best)
{
    or_progress_t progress;
    bench_t *bench = calloc(1, sizeof *bench);
    if (bench == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the benchmark");
    }
    or_status_t status = prepare(bench, kernels, threads);
    or_progress_init(&progress, count, false);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        or_progress_show(&progress, i, cases[i].line->kernel);
        if (i % CEILING_EVERY == 0) {
            status = measure_ceilings(bench, CEILING_SECONDS, best);
        }
        status = status != OR_OK ? status : run_case(bench, &cases[i], seconds);
    }
    or_progress_clear(&progress);
    free(bench->y);
    free(bench->x_quant);
    free(bench->x);
    free(bench->area);
    free(bench);
    return status;
}
