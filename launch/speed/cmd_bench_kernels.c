// outrider bench kernels - how near each kernel comes to what the machine can do: the memory's read bandwidth,
// and the multipliers' peak.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cpus.h"
#include "common/model/model.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/speed/kernel_bench.h"

#define HEAD_DIM 64u

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
        "threads, and,\nof one thread, multiply-adds, products of bytes, and these as canonical "
        "arithmetic has them, each block\nof 32 with a type's own scales and minima: the roof. "
        "Lines from \"cache\" "
        "are of one thread's processor time, lines from\n\"memory\" of all threads at once, by the "
        "wall clock; only these have a share of the memory's ceiling.\nOperations on bytes count "
        "as FLOP, too.\n",
};

// ---- the kernels ----

static void call_matmul_f32(const or_kernel_job_t *j)
{
    j->kernels->matmul_f32((const float *)(const void *)j->panels, j->panel_bytes / sizeof(float),
                           j->panel_count, j->inputs, j->x, OR_KERNEL_X_STRIDE, j->rows, j->y,
                           OR_KERNEL_Y_STRIDE);
}

static void call_matmul_f16(const or_kernel_job_t *j)
{
    j->kernels->matmul_f16((const uint16_t *)(const void *)j->panels,
                           j->panel_bytes / sizeof(uint16_t), j->panel_count, j->inputs, j->x,
                           OR_KERNEL_X_STRIDE, j->rows, j->y, OR_KERNEL_Y_STRIDE);
}

static void call_matmul_bf16(const or_kernel_job_t *j)
{
    j->kernels->matmul_bf16((const uint16_t *)(const void *)j->panels,
                            j->panel_bytes / sizeof(uint16_t), j->panel_count, j->inputs, j->x,
                            OR_KERNEL_X_STRIDE, j->rows, j->y, OR_KERNEL_Y_STRIDE);
}

static void call_matmul_quants(const or_kernel_job_t *j)
{
    const or_quant_panels_t w = {.type = j->quant,
                                 .panels = j->panels,
                                 .panel_bytes = j->panel_bytes,
                                 .count = j->panel_count,
                                 .blocks = j->inputs / OR_QUANT_BLOCK};
    j->kernels->matmul_quants(&w, j->x_quant, OR_KERNEL_X_BLOCKS, j->rows, j->y,
                              OR_KERNEL_Y_STRIDE);
}

static void call_quantize_row(const or_kernel_job_t *j)
{
    j->kernels->quantize_row(j->x, j->inputs / OR_QUANT_BLOCK, j->y_quant);
}

static void call_rmsnorm(const or_kernel_job_t *j)
{
    j->kernels->rmsnorm(j->x, j->x + OR_KERNEL_X_STRIDE, j->inputs, 1e-5f, j->y);
}

static void call_rope_pairs(const or_kernel_job_t *j)
{
    j->kernels->rope_pairs(j->y, j->x, j->x + OR_KERNEL_X_STRIDE, j->inputs);
}

static void call_rope_halves(const or_kernel_job_t *j)
{
    j->kernels->rope_halves(j->y, j->x, j->x + OR_KERNEL_X_STRIDE, j->inputs);
}

static void call_swiglu(const or_kernel_job_t *j)
{
    j->kernels->swiglu(j->y, j->x, j->inputs);
}

static void call_add(const or_kernel_job_t *j)
{
    j->kernels->add(j->y, j->x, j->inputs);
}

static void call_softmax(const or_kernel_job_t *j)
{
    j->kernels->softmax(j->y, 0, j->inputs);
}

// Queries lie before the block, which is of floats, of halves, or of bytes with scales that are floats.
static const float *floats_of_block(const or_kernel_job_t *j)
{
    return j->x + OR_KERNEL_ROWS_MAX * HEAD_DIM;
}

static or_kv_block_t quants_of_block(const or_kernel_job_t *j)
{
    return (or_kv_block_t){.numbers = j->x_quant, .type = OR_KV_Q8_0, .scales = floats_of_block(j)};
}

static void attend_scores(const or_kernel_job_t *j, const or_kv_block_t *keys)
{
    j->kernels->attention_scores(j->x, HEAD_DIM, j->rows, keys, j->inputs, 0.125f, j->y,
                                 OR_KV_BLOCK);
}

static void attend_values(const or_kernel_job_t *j, const or_kv_block_t *values)
{
    j->kernels->attention_values(j->x, OR_KV_BLOCK, j->rows, values, j->inputs, OR_KV_BLOCK, j->y,
                                 HEAD_DIM);
}

static void call_attention_scores(const or_kernel_job_t *j)
{
    attend_scores(j, &(or_kv_block_t){.numbers = floats_of_block(j)});
}

static void call_attention_scores_f16(const or_kernel_job_t *j)
{
    attend_scores(j, &(or_kv_block_t){.numbers = j->halves, .type = OR_KV_F16});
}

static void call_attention_scores_q8_0(const or_kernel_job_t *j)
{
    const or_kv_block_t keys = quants_of_block(j);
    attend_scores(j, &keys);
}

static void call_attention_values(const or_kernel_job_t *j)
{
    attend_values(j, &(or_kv_block_t){.numbers = floats_of_block(j)});
}

static void call_attention_values_f16(const or_kernel_job_t *j)
{
    attend_values(j, &(or_kv_block_t){.numbers = j->halves, .type = OR_KV_F16});
}

static void call_attention_values_q8_0(const or_kernel_job_t *j)
{
    const or_kv_block_t values = quants_of_block(j);
    attend_values(j, &values);
}

static void call_widen_f16(const or_kernel_job_t *j)
{
    j->kernels->widen_f16(j->halves, j->inputs, j->y);
}

static void call_widen_q8_0(const or_kernel_job_t *j)
{
    j->kernels->widen_q8_0(j->halves, (const int8_t *)j->x_quant, j->inputs, j->y);
}

static void call_widen_q8_0_keys(const or_kernel_job_t *j)
{
    j->kernels->widen_q8_0_keys(j->halves, (const int8_t *)j->x_quant, j->inputs, j->y);
}

// The bytes of quantised types are computed from their units.
static const or_kernel_line_t matmul_lines[] = {
    {"matmul_f32", "F32", call_matmul_f32, OR_PEAK_FLOAT, 0, 4, 2},
    {"matmul_f16", "F16", call_matmul_f16, OR_PEAK_FLOAT, 0, 2, 2},
    {"matmul_bf16", "BF16", call_matmul_bf16, OR_PEAK_FLOAT, 0, 2, 2},
#define QUANTS(id, name)                                                                           \
    {                                                                                              \
        "matmul_quants", name, call_matmul_quants, OR_PEAK_DOT, id, 0, 2                           \
    }
    QUANTS(OR_QUANT_Q8_0, "Q8_0"),
    QUANTS(OR_QUANT_Q4_0, "Q4_0"),
    QUANTS(OR_QUANT_IQ4_NL, "IQ4_NL"),
    QUANTS(OR_QUANT_Q5_0, "Q5_0"),
    QUANTS(OR_QUANT_Q4_1, "Q4_1"),
    QUANTS(OR_QUANT_Q5_1, "Q5_1"),
    QUANTS(OR_QUANT_Q4_K, "Q4_K"),
    QUANTS(OR_QUANT_Q5_K, "Q5_K"),
    QUANTS(OR_QUANT_Q2_K, "Q2_K"),
    QUANTS(OR_QUANT_Q3_K, "Q3_K"),
    QUANTS(OR_QUANT_Q6_K, "Q6_K"),
    QUANTS(OR_QUANT_IQ4_XS, "IQ4_XS"),
    QUANTS(OR_QUANT_MXFP4, "MXFP4"),
#undef QUANTS
};

// An exp counts as 20 operations, a division or a root as one. Those of attention are per input, that is a
// dimension of the head, and row, that is a query. A number of Q8_0 has a part of a scale, which is a float.
static const or_kernel_line_t vector_lines[] = {
    {"quantize_row", "", call_quantize_row, OR_PEAK_FLOAT, 0, 6, 6},
    {"rmsnorm", "", call_rmsnorm, OR_PEAK_FLOAT, 0, 12, 4},
    {"rope_pairs", "", call_rope_pairs, OR_PEAK_FLOAT, 0, 12, 3},
    {"rope_halves", "", call_rope_halves, OR_PEAK_FLOAT, 0, 12, 3},
    {"swiglu", "", call_swiglu, OR_PEAK_FLOAT, 0, 12, 23},
    {"add", "", call_add, OR_PEAK_FLOAT, 0, 12, 1},
    {"softmax", "", call_softmax, OR_PEAK_FLOAT, 0, 8, 24},
    {"widen_f16", "", call_widen_f16, OR_PEAK_NONE, 0, 6, 0},
    {"widen_q8_0", "", call_widen_q8_0, OR_PEAK_FLOAT, 0, 5, 1},
    {"widen_q8_0_keys", "", call_widen_q8_0_keys, OR_PEAK_FLOAT, 0, 5 * OR_KV_BLOCK, OR_KV_BLOCK},
#define ATTENTION(kernel, type, call, number_bytes)                                                \
    {                                                                                              \
        kernel, type, call, OR_PEAK_FLOAT, 0, (number_bytes)*OR_KV_BLOCK, 2 * OR_KV_BLOCK          \
    }
    ATTENTION("attention_scores", "F32", call_attention_scores, 4),
    ATTENTION("attention_scores", "F16", call_attention_scores_f16, 2),
    ATTENTION("attention_scores", "Q8_0", call_attention_scores_q8_0, 1.125),
    ATTENTION("attention_values", "F32", call_attention_values, 4),
    ATTENTION("attention_values", "F16", call_attention_values_f16, 2),
    ATTENTION("attention_values", "Q8_0", call_attention_values_q8_0, 1.125),
#undef ATTENTION
};

// ---- the cases ----

typedef struct {
    const char *filter;
    or_kernel_case_t *cases;
    uint32_t count;
} list_t;

static void add_case(list_t *list, const or_kernel_case_t *it)
{
    char name[64];
    snprintf(name, sizeof name, "%s %s", it->line->kernel, it->line->type);
    if (list->count < OR_KERNEL_CASES_MAX &&
        (list->filter == NULL || strcasestr(name, list->filter) != NULL)) {
        list->cases[list->count++] = *it;
    }
}

static size_t count_panel_bytes(const or_kernel_line_t *line, uint32_t inputs)
{
    if (line->peak == OR_PEAK_FLOAT) {
        return (size_t)(line->bytes * inputs * OR_PANEL);
    }
    uint32_t unit_inputs = or_quant_unit_blocks(line->quant) * OR_QUANT_BLOCK;
    return inputs / unit_inputs * or_quant_unit_bytes(line->quant);
}

static void add_matmul(list_t *list, const or_kernel_line_t *line, uint32_t inputs,
                       uint32_t outputs, bool memory)
{
    static const uint32_t rows[] = {1, 4, 16, 64, 512};
    const size_t blocks = inputs / OR_QUANT_BLOCK;
    const size_t panels = outputs / OR_PANEL;
    const size_t panel_bytes = count_panel_bytes(line, inputs);
    double row_bytes =
        line->peak == OR_PEAK_FLOAT ? 4.0 * inputs : (double)(blocks * sizeof(or_q8_block_t));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        add_case(list, &(or_kernel_case_t){
                           .line = line,
                           .rows = rows[i],
                           .inputs = inputs,
                           .outputs = outputs,
                           .memory = memory,
                           .panel_bytes = panel_bytes,
                           .bytes = (double)(panel_bytes * panels) +
                                    rows[i] * (row_bytes + 4.0 * outputs),
                           .operations = line->operations * inputs * outputs * rows[i],
                       });
    }
}

static void add_vector(list_t *list, const or_kernel_line_t *line, uint32_t inputs, uint32_t rows)
{
    add_case(list, &(or_kernel_case_t){.line = line,
                                       .rows = rows,
                                       .inputs = inputs,
                                       .bytes = line->bytes * inputs,
                                       .operations = line->operations * inputs * rows});
}

// List the cases whose "kernel type" has `filter` in it, in any case of letters (NULL: all), with those of a type next to each
// other. Returns how many there are.
static uint32_t list_cases(const char *filter, or_kernel_case_t cases[OR_KERNEL_CASES_MAX])
{
    list_t list = {.filter = filter, .cases = cases};
    for (size_t i = 0; i < sizeof matmul_lines / sizeof matmul_lines[0]; i++) {
        const or_kernel_line_t *line = &matmul_lines[i];
        add_matmul(&list, line, 256, 768, false);
        add_matmul(&list, line, 2048, 128, false);
        add_matmul(&list, line, 2048, 5632, true);
        add_matmul(&list, line, 5632, 2048, true);
    }
    for (size_t i = 0; i < sizeof vector_lines / sizeof vector_lines[0]; i++) {
        const or_kernel_line_t *line = &vector_lines[i];
        bool head = strncmp(line->kernel, "rope", 4) == 0 || strstr(line->kernel, "keys") != NULL;
        if (strncmp(line->kernel, "attention", 9) == 0) {
            add_vector(&list, line, HEAD_DIM, 1);
            add_vector(&list, line, HEAD_DIM, 8);
            add_vector(&list, line, HEAD_DIM, 32);
        } else if (head) {
            add_vector(&list, line, HEAD_DIM, 1);
        } else {
            add_vector(&list, line, 256, 1);
            add_vector(&list, line, 2048, 1);
        }
    }
    return list.count;
}

typedef struct {
    const or_kernels_t *kernels;
    uint32_t threads;
    or_kernel_case_t cases[OR_KERNEL_CASES_MAX];
    uint32_t count;
    or_ceiling_figures_t ceilings;
} run_t;

// ---- figures ----

// Return the share of the memory's bandwidth, for lines from memory; NAN for others.
static double read_share(const run_t *run, const or_kernel_case_t *it)
{
    double peak = it->memory ? run->ceilings.read_bytes_per_s : (double)NAN;
    return it->bytes / it->seconds / peak;
}

// Return the share of the peak of as many threads as it runs on; NAN where nothing is multiplied.
static double peak_share(const run_t *run, const or_kernel_case_t *it)
{
    double peak = it->line->peak == OR_PEAK_DOT     ? run->ceilings.dots_per_s
                  : it->line->peak == OR_PEAK_FLOAT ? run->ceilings.flops_per_s
                                                    : (double)NAN;
    return it->operations / it->seconds / (peak * (it->memory ? run->threads : 1));
}

// Return the canonical roof of one thread, for products of quantised weights; NAN for others.
static double roof_of(const run_t *run, const or_kernel_case_t *it)
{
    bool roofed = it->line->peak == OR_PEAK_DOT;
    return roofed ? or_kernel_roof(&run->ceilings, it->line->quant) : (double)NAN;
}

static double roof_share(const run_t *run, const or_kernel_case_t *it)
{
    return it->operations / it->seconds / (roof_of(run, it) * (it->memory ? run->threads : 1));
}

// ---- output ----

static void print_table(const run_t *run)
{
    printf("kernels %s, %" PRIu32 " thread%s; read %.1f GB/s in all, multiply-add %.1f GFLOP/s, "
           "dot %.1f GFLOP/s and canonical roof of Q8_0 %.1f GFLOP/s a thread\n\n",
           run->kernels->name, run->threads, run->threads == 1 ? "" : "s",
           1e-9 * run->ceilings.read_bytes_per_s, 1e-9 * run->ceilings.flops_per_s,
           1e-9 * run->ceilings.dots_per_s, 1e-9 * or_kernel_roof(&run->ceilings, OR_QUANT_Q8_0));
    printf("%-16s %-6s %-18s %-6s %11s %8s %6s %8s %6s %6s\n", "kernel", "type", "rows x shape",
           "from", "us", "GB/s", "read", "GFLOP/s", "peak", "roof");
    for (uint32_t i = 0; i < run->count; i++) {
        const or_kernel_case_t *it = &run->cases[i];
        char shape[48];
        int length = snprintf(shape, sizeof shape, "%" PRIu32 " x %" PRIu32, it->rows, it->inputs);
        if (it->outputs > 0) {
            snprintf(shape + length, sizeof shape - (size_t)length, " -> %" PRIu32, it->outputs);
        }
        printf("%-16s %-6s %-18s %-6s %11.2f %8.2f", it->line->kernel, it->line->type, shape,
               it->memory ? "memory" : "cache", 1e6 * it->seconds, 1e-9 * it->bytes / it->seconds);
        or_output_share(stdout, read_share(run, it));
        if (it->line->peak == OR_PEAK_NONE) {
            printf(" %8s", "-");
        } else {
            printf(" %8.2f", 1e-9 * it->operations / it->seconds);
        }
        or_output_share(stdout, peak_share(run, it));
        or_output_share(stdout, roof_share(run, it));
        printf("\n");
    }
}

static json_t *json_line(const run_t *run, const or_kernel_case_t *it)
{
    static const char *const peaks[] = {NULL, "multiply_add", "dot"};
    bool made = it->line->peak != OR_PEAK_NONE;
    bool roofed = it->line->peak == OR_PEAK_DOT;
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:o, s:s, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", //
        "kernel", it->line->kernel,                                                    //
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
        "peak_share", made ? json_real(peak_share(run, it)) : json_null(),           //
        "roof_flops_per_s", roofed ? json_real(roof_of(run, it)) : json_null(), "roof_share",
        roofed ? json_real(roof_share(run, it)) : json_null());
}

static or_status_t print_json(const run_t *run)
{
    json_t *lines = json_array();
    for (uint32_t i = 0; i < run->count; i++) {
        json_array_append_new(lines, json_line(run, &run->cases[i]));
    }
    bool whole = lines != NULL && json_array_size(lines) == run->count;
    json_t *root = json_pack(
        "{s:s, s:I, s:{s:f, s:f, s:f, s:f}, s:o}", "kernels", run->kernels->name, "threads",
        (json_int_t)run->threads, "ceilings", "read_bytes_per_s", run->ceilings.read_bytes_per_s,
        "multiply_add_flops_per_s", run->ceilings.flops_per_s, "dot_flops_per_s",
        run->ceilings.dots_per_s, "canonical_roof_flops_per_s",
        or_kernel_roof(&run->ceilings, OR_QUANT_Q8_0), "lines", lines);
    if (!whole) {
        json_decref(root);
        root = NULL;
    }
    return or_output_json(root, OR_OUTPUT_DIGITS);
}

// ---- the command ----

static or_status_t prepare(const config_t *config, run_t *run)
{
    or_cpus_t cpus = or_cpus_allowed();
    uint32_t usable = or_cpus_count(&cpus);
    uint32_t most = usable < OR_KERNEL_THREADS_MAX ? usable : OR_KERNEL_THREADS_MAX;
    run->threads = config->threads > 0 ? config->threads : most;
    run->count = list_cases(config->filter, run->cases);
    if (run->threads > OR_KERNEL_THREADS_MAX) {
        return or_fail(OR_ERR_INVALID, "-t/--threads: %" PRIu32 " is over %u", run->threads,
                       OR_KERNEL_THREADS_MAX);
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

static int run_command(int argc, char **argv)
{
    config_t config = {.seconds = 0.1f};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    run_t *run = calloc(1, sizeof *run);
    or_status_t status =
        run != NULL ? prepare(&config, run) : or_fail(OR_ERR_NO_MEMORY, "no memory");
    if (status == OR_OK) {
        code = OR_EXIT_FAILURE;
        status = or_model_pick_kernels(&run->kernels);
    }
    if (status == OR_OK) {
        status = or_kernel_bench(run->kernels, run->threads, (double)config.seconds, run->cases,
                                 run->count, &run->ceilings);
    }
    if (status == OR_OK && config.json) {
        status = print_json(run);
    } else if (status == OR_OK) {
        print_table(run);
    }
    free(run);
    return or_command_end(&program, &config, NULL, status, code);
}

const or_command_t or_bench_kernels_command = {
    "kernels", run_command, "each kernel beside what this machine can do at most"};
