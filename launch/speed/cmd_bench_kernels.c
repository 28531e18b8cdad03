// outrider bench kernels - how near each kernel comes to what the machine can do: the memory's read bandwidth,
// and the multipliers' peak.
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/options/options.h"
#include "common/model/model.h"
#include "launch/bench/bench_progress.h"
#include "launch/commands.h"
#include "launch/speed/bench_timer.h"
#include "launch/speed/kernel_bench.h"

#define CEILING_SECONDS 0.03 // each time
#define CEILING_EVERY 4u     // lines

typedef struct {
    float seconds;
    uint32_t threads;
    char *filter;
    bool json;
} config_t;

static const or_option_t table[] = {
    {"seconds", NULL, OR_OPTION_FLOAT, offsetof(config_t, seconds), "S",
     "how long each line is measured"},
    {"filter", NULL, OR_OPTION_STRING, offsetof(config_t, filter), "WORD",
     "only kernels and types with this in their names, as attention or Q4_K"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N",
     "threads of the lines from memory; 0: one a CPU it may use"},
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider bench kernels",
    .summary = "each kernel's time, beside what the machine can do at most",
    .usage = "[options]",
    .table = table,
    .examples =
        "Examples:\n"
        "  outrider bench kernels --filter Q8_0\n"
        "  OUTRIDER_KERNELS=avx2 outrider bench kernels --json\n\n"
        "Ceilings are measured between the lines, the best of each counts: reading memory on all "
        "threads, and\nthe multiply-adds and products of bytes of one thread. Lines from \"cache\" "
        "are of one thread's processor\ntime, lines from \"memory\" of all threads at once, by the "
        "wall clock;\nonly these have a share of the memory's ceiling. Operations on bytes count "
        "as FLOP, too.\n",
};

typedef struct {
    const or_kernels_t *kernels;
    uint32_t threads;
    or_kernel_bench_t *bench;
    or_kernel_case_t cases[OR_KERNEL_CASES_MAX];
    uint32_t count;
    or_ceiling_figures_t ceilings;
} run_t;

// ---- figures ----

// Of the memory's bandwidth, for lines from memory.
static double read_share(const run_t *run, const or_kernel_case_t *it)
{
    return it->bytes / it->seconds / run->ceilings.read_bytes_per_s;
}

// Of the peak of as many threads as it runs on; NAN where nothing is multiplied.
static double peak_share(const run_t *run, const or_kernel_case_t *it)
{
    double peak = it->line->peak == OR_PEAK_DOT     ? run->ceilings.dots_per_s
                  : it->line->peak == OR_PEAK_FLOAT ? run->ceilings.flops_per_s
                                                    : (double)NAN;
    return it->operations / it->seconds / (peak * (it->memory ? run->threads : 1));
}

// ---- output ----

static void print_table(const run_t *run)
{
    printf("kernels %s, %" PRIu32 " thread%s; read %.1f GB/s in all, multiply-add %.1f GFLOP/s and "
           "dot %.1f GFLOP/s a thread\n\n",
           run->kernels->name, run->threads, run->threads == 1 ? "" : "s",
           1e-9 * run->ceilings.read_bytes_per_s, 1e-9 * run->ceilings.flops_per_s,
           1e-9 * run->ceilings.dots_per_s);
    printf("%-16s %-6s %-18s %-6s %11s %8s %6s %8s %6s\n", "kernel", "type", "rows x shape", "from",
           "us", "GB/s", "read", "GFLOP/s", "peak");
    for (uint32_t i = 0; i < run->count; i++) {
        const or_kernel_case_t *it = &run->cases[i];
        char shape[48];
        int length = snprintf(shape, sizeof shape, "%" PRIu32 " x %" PRIu32, it->rows, it->inputs);
        if (it->outputs > 0) {
            snprintf(shape + length, sizeof shape - (size_t)length, " -> %" PRIu32, it->outputs);
        }
        printf("%-16s %-6s %-18s %-6s %11.2f %8.2f", it->line->kernel, it->line->type, shape,
               it->memory ? "memory" : "cache", 1e6 * it->seconds, 1e-9 * it->bytes / it->seconds);
        if (it->memory) {
            printf(" %5.0f%%", 100 * read_share(run, it));
        } else {
            printf(" %6s", "-");
        }
        if (it->line->peak == OR_PEAK_NONE) {
            printf(" %8s %6s\n", "-", "-");
        } else {
            printf(" %8.2f %5.1f%%\n", 1e-9 * it->operations / it->seconds,
                   100 * peak_share(run, it));
        }
    }
}

static json_t *json_line(const run_t *run, const or_kernel_case_t *it)
{
    static const char *const peaks[] = {NULL, "multiply_add", "dot"};
    bool made = it->line->peak != OR_PEAK_NONE;
    return json_pack("{s:s, s:o, s:I, s:I, s:o, s:s, s:I, s:f, s:f, s:o, s:o, s:o, s:o}", //
                     "kernel", it->line->kernel,                                          //
                     "type",
                     it->line->type[0] != '\0' ? json_string(it->line->type) : json_null(), //
                     "rows", (json_int_t)it->rows, "inputs", (json_int_t)it->inputs,        //
                     "outputs", it->outputs > 0 ? json_integer(it->outputs) : json_null(),  //
                     "from", it->memory ? "memory" : "cache",                               //
                     "threads", (json_int_t)(it->memory ? run->threads : 1),                //
                     "us", 1e6 * it->seconds,                                               //
                     "bytes_per_s", it->bytes / it->seconds, "read_share",
                     it->memory ? json_real(read_share(run, it)) : json_null(),                   //
                     "flops_per_s", made ? json_real(it->operations / it->seconds) : json_null(), //
                     "peak", made ? json_string(peaks[it->line->peak]) : json_null(),             //
                     "peak_share", made ? json_real(peak_share(run, it)) : json_null());
}

static or_status_t print_json(const run_t *run)
{
    json_t *lines = json_array();
    for (uint32_t i = 0; i < run->count; i++) {
        json_array_append_new(lines, json_line(run, &run->cases[i]));
    }
    bool whole = lines != NULL && json_array_size(lines) == run->count;
    json_t *root = json_pack("{s:s, s:I, s:{s:f, s:f, s:f}, s:o}", "kernels", run->kernels->name,
                             "threads", (json_int_t)run->threads, "ceilings", "read_bytes_per_s",
                             run->ceilings.read_bytes_per_s, "multiply_add_flops_per_s",
                             run->ceilings.flops_per_s, "dot_flops_per_s", run->ceilings.dots_per_s,
                             "lines", lines);
    if (root != NULL && whole) {
        json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
    json_decref(root);
    return root != NULL && whole ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
}

// ---- the command ----

// The ceilings come again and again between the lines, so that a quiet moment is among them.
static or_status_t run_cases(run_t *run, double seconds)
{
    or_bench_progress_t progress;
    or_status_t status = OR_OK;
    or_bench_progress_init(&progress, run->count, or_clock_monotonic());
    for (uint32_t i = 0; status == OR_OK && i < run->count; i++) {
        or_kernel_case_t *it = &run->cases[i];
        or_bench_progress_show(&progress, i, it->line->kernel);
        if (i % CEILING_EVERY == 0) {
            status = or_kernel_bench_ceilings(run->bench, CEILING_SECONDS, &run->ceilings);
        }
        if (status == OR_OK) {
            status = or_kernel_bench_run(run->bench, it, seconds);
        }
    }
    or_bench_progress_clear(&progress);
    return status;
}

static or_status_t prepare(const config_t *config, run_t *run)
{
    or_cpus_t cpus = or_cpus_allowed();
    uint32_t usable = or_cpus_count(&cpus);
    uint32_t most = usable < OR_TIMER_THREADS_MAX ? usable : OR_TIMER_THREADS_MAX;
    run->threads = config->threads > 0 ? config->threads : most;
    run->count = or_kernel_cases(config->filter, run->cases);
    if (run->threads > OR_TIMER_THREADS_MAX) {
        return or_fail(OR_ERR_INVALID, "-t/--threads: %" PRIu32 " is over %u", run->threads,
                       OR_TIMER_THREADS_MAX);
    }
    if (!(config->seconds > 0 && config->seconds <= 60)) {
        return or_fail(OR_ERR_INVALID, "--seconds: more than 0, at most 60");
    }
    if (run->count == 0) {
        return or_fail(OR_ERR_INVALID,
                       "--filter: no kernel and no type has '%s' in its name; try matmul, Q8_0 or "
                       "attention",
                       config->filter);
    }
    return OR_OK;
}

int or_command_bench_kernels(int argc, char **argv)
{
    config_t config = {.seconds = 0.1f};
    or_options_next_t next;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("bench kernels", OR_EXIT_USAGE);
    }
    int code = OR_EXIT_USAGE;
    run_t *run = calloc(1, sizeof *run);
    status = run != NULL ? prepare(&config, run) : or_fail(OR_ERR_NO_MEMORY, "no memory");
    if (status == OR_OK) {
        code = OR_EXIT_FAILURE;
        status = or_model_pick_kernels(&run->kernels);
    }
    if (status == OR_OK) {
        status = or_kernel_bench_create(run->kernels, run->threads, &run->bench);
    }
    if (status == OR_OK) {
        status = run_cases(run, (double)config.seconds);
    }
    if (status == OR_OK && config.json) {
        status = print_json(run);
    } else if (status == OR_OK) {
        print_table(run);
    }
    if (run != NULL) {
        or_kernel_bench_destroy(&run->bench);
    }
    free(run);
    or_options_free(&program, &config, NULL);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("bench kernels", code);
}
