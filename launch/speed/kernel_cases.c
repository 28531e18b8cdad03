#include "launch/speed/kernel_cases.h"

#include <stdio.h>
#include <string.h>

#define HEAD_DIM 64u

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
    j->kernels->softmax(j->y, j->inputs);
}

static void call_attention_scores(const or_kernel_job_t *j)
{
    j->kernels->attention_scores(j->x, HEAD_DIM, j->rows, j->x + OR_KERNEL_ROWS_MAX * HEAD_DIM,
                                 j->inputs, 0.125f, j->y, OR_KV_BLOCK);
}

static void call_attention_values(const or_kernel_job_t *j)
{
    j->kernels->attention_values(j->x, OR_KV_BLOCK, j->rows, j->x + OR_KERNEL_ROWS_MAX * HEAD_DIM,
                                 j->inputs, OR_KV_BLOCK, j->y, HEAD_DIM);
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

// Quantised types get their bytes from their units.
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
#undef QUANTS
};

// An exp counts as 20 operations, a division or a root as one. Those of attention are per input, that is a
// dimension of the head, and row, that is a query.
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
    {"attention_scores", "", call_attention_scores, OR_PEAK_FLOAT, 0, 4 * OR_KV_BLOCK,
     2 * OR_KV_BLOCK},
    {"attention_values", "", call_attention_values, OR_PEAK_FLOAT, 0, 4 * OR_KV_BLOCK,
     2 * OR_KV_BLOCK},
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

size_t or_kernel_panel_bytes(const or_kernel_line_t *line, uint32_t inputs)
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
    double row_bytes =
        line->peak == OR_PEAK_FLOAT ? 4.0 * inputs : (double)(blocks * sizeof(or_q8_block_t));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        add_case(list, &(or_kernel_case_t){
                           .line = line,
                           .rows = rows[i],
                           .inputs = inputs,
                           .outputs = outputs,
                           .memory = memory,
                           .bytes = (double)(or_kernel_panel_bytes(line, inputs) * panels) +
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

uint32_t or_kernel_cases(const char *filter, or_kernel_case_t cases[OR_KERNEL_CASES_MAX])
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
