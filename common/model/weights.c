#include "common/model/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64u

void *or_zeroed(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = (bytes / CACHE_LINE + 1) * CACHE_LINE;
    void *memory = aligned_alloc(CACHE_LINE, bytes);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

bool or_matrix_is_quantised(const or_matrix_t *matrix)
{
    return matrix->type == OR_TENSOR_Q8_0 || matrix->type == OR_TENSOR_Q4_0;
}

// Bytes of the 16 outputs of a panel for one input, or for one block of inputs.
static size_t panel_unit_bytes(or_tensor_type_t type)
{
    switch (type) {
    case OR_TENSOR_F16:
    case OR_TENSOR_BF16:
        return OR_PANEL * sizeof(uint16_t);
    case OR_TENSOR_Q8_0:
        return sizeof(or_q8_panel_block_t);
    case OR_TENSOR_Q4_0:
        return sizeof(or_q4_panel_block_t);
    case OR_TENSOR_F32:
        break;
    }
    return OR_PANEL * sizeof(float);
}

// The file's data may be unaligned, hence the copies.
static void pack_16_bits(const unsigned char *row, uint32_t inputs, uint16_t *out)
{
    for (uint32_t i = 0; i < inputs; i++) {
        memcpy(&out[(size_t)i * OR_PANEL], row + (size_t)i * sizeof *out, sizeof *out);
    }
}

static void pack_32_bits(const unsigned char *row, uint32_t inputs, float *out)
{
    for (uint32_t i = 0; i < inputs; i++) {
        memcpy(&out[(size_t)i * OR_PANEL], row + (size_t)i * sizeof *out, sizeof *out);
    }
}

// The inputs that are here of a row of the file, into lane `lane` of a panel.
static void pack_row(const or_matrix_t *m, const unsigned char *row, void *panel, uint32_t lane)
{
    or_tensor_block_t block = or_gguf_tensor_block(m->type);
    const unsigned char *from = row + (size_t)m->inputs.begin / block.elements * block.bytes;
    uint32_t inputs = m->inputs.end - m->inputs.begin;
    switch (m->type) {
    case OR_TENSOR_F32:
        pack_32_bits(from, inputs, (float *)panel + lane);
        break;
    case OR_TENSOR_F16:
    case OR_TENSOR_BF16:
        pack_16_bits(from, inputs, (uint16_t *)panel + lane);
        break;
    case OR_TENSOR_Q8_0:
        or_pack_q8_0(from, inputs / OR_QUANT_BLOCK, panel, lane);
        break;
    case OR_TENSOR_Q4_0:
        or_pack_q4_0(from, inputs / OR_QUANT_BLOCK, panel, lane);
        break;
    }
}

or_span_t or_panels_of(or_span_t outputs)
{
    uint32_t begin = outputs.begin / OR_PANEL;
    return (or_span_t){begin,
                       outputs.begin == outputs.end ? begin : (outputs.end - 1) / OR_PANEL + 1};
}

or_status_t or_matrix_pack(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs,
                           or_matrix_t *matrix)
{
    or_matrix_t m = {
        .type = (or_tensor_type_t)tensor->type, .panels = or_panels_of(outputs), .inputs = inputs};
    size_t units = (inputs.end - inputs.begin) / or_gguf_tensor_block(m.type).elements;
    size_t panel_bytes = units * panel_unit_bytes(m.type);
    uint32_t panel_count = m.panels.end - m.panels.begin;
    m.panel_stride = or_matrix_is_quantised(&m) ? units : units * OR_PANEL;
    m.bytes = panel_count * panel_bytes;
    if (m.bytes == 0) {
        *matrix = m;
        return OR_OK;
    }
    m.memory = or_zeroed(panel_count, panel_bytes);
    if (m.memory == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for tensor %.*s (%u x %u)",
                       (int)tensor->name.length, tensor->name.bytes, inputs.end - inputs.begin,
                       outputs.end - outputs.begin);
    }
    size_t row_bytes = tensor->bytes / tensor->dims[1];
    for (uint32_t panel = 0; panel < panel_count; panel++) {
        size_t first = (size_t)(m.panels.begin + panel) * OR_PANEL;
        for (uint32_t lane = 0; lane < OR_PANEL && first + lane < tensor->dims[1]; lane++) {
            const unsigned char *row =
                (const unsigned char *)tensor->data + (first + lane) * row_bytes;
            pack_row(&m, row, (char *)m.memory + panel * panel_bytes, lane);
        }
    }
    *matrix = m;
    return OR_OK;
}

void or_matrix_free(or_matrix_t *matrix)
{
    free(matrix->memory);
    *matrix = (or_matrix_t){0};
}

or_status_t or_activations_init(or_activations_t *activations, size_t rows, size_t width,
                                bool quantised)
{
    or_activations_t a = {.stride = (width + OR_PANEL - 1) / OR_PANEL * OR_PANEL,
                          .blocks_stride = width / OR_QUANT_BLOCK};
    a.bytes = rows * a.stride * sizeof *a.values;
    a.values = or_zeroed(rows * a.stride, sizeof *a.values);
    if (quantised) {
        a.bytes += rows * a.blocks_stride * (OR_QUANT_BLOCK + sizeof *a.scales + sizeof *a.sums);
        a.quants = or_zeroed(rows * a.blocks_stride, OR_QUANT_BLOCK);
        a.scales = or_zeroed(rows * a.blocks_stride, sizeof *a.scales);
        a.sums = or_zeroed(rows * a.blocks_stride, sizeof *a.sums);
    }
    if (a.values == NULL ||
        (quantised && (a.quants == NULL || a.scales == NULL || a.sums == NULL))) {
        or_activations_fini(&a);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu rows of %zu activations", rows, width);
    }
    *activations = a;
    return OR_OK;
}

void or_activations_fini(or_activations_t *activations)
{
    free(activations->sums);
    free(activations->scales);
    free(activations->quants);
    free(activations->values);
    *activations = (or_activations_t){0};
}

or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, float *y,
                        size_t y_stride)
{
    return (or_product_t){.matrix = matrix,
                          .panels = or_panels_of((or_span_t){begin, end}),
                          .inputs = matrix->inputs,
                          .y = y,
                          .y_stride = y_stride};
}

typedef struct {
    const or_kernels_t *kernels;
    or_activations_t *x;
    uint32_t first;
    uint32_t rows;
    const or_product_t *products;
    uint32_t count;
    uint32_t block_begin; // what the quantised products read of a row
    uint32_t block_end;
} product_list_t;

// `panel` counts the matrix's panels from the first that is here, `input` its inputs likewise.
static void run_floats(const product_list_t *list, const or_product_t *p, uint32_t panel,
                       uint32_t panels, float *y)
{
    const or_matrix_t *m = p->matrix;
    uint32_t input = p->inputs.begin - m->inputs.begin;
    size_t at = panel * m->panel_stride + (size_t)input * OR_PANEL;
    uint32_t inputs = p->inputs.end - p->inputs.begin;
    const float *x = list->x->values + list->first * list->x->stride + input;
    if (m->type == OR_TENSOR_F32) {
        list->kernels->matmul_f32((const float *)m->memory + at, m->panel_stride, panels, inputs, x,
                                  list->x->stride, list->rows, y, p->y_stride);
    } else if (m->type == OR_TENSOR_F16) {
        list->kernels->matmul_f16((const uint16_t *)m->memory + at, m->panel_stride, panels, inputs,
                                  x, list->x->stride, list->rows, y, p->y_stride);
    } else {
        list->kernels->matmul_bf16((const uint16_t *)m->memory + at, m->panel_stride, panels,
                                   inputs, x, list->x->stride, list->rows, y, p->y_stride);
    }
}

// Blocks of inputs that a quantised product reads, counted from the first that is here.
static or_span_t blocks_of(const or_product_t *p)
{
    uint32_t first = p->matrix->inputs.begin;
    assert(first % OR_QUANT_BLOCK == 0 && p->inputs.begin % OR_QUANT_BLOCK == 0 &&
           p->inputs.end % OR_QUANT_BLOCK == 0);
    return (or_span_t){(p->inputs.begin - first) / OR_QUANT_BLOCK,
                       (p->inputs.end - first) / OR_QUANT_BLOCK};
}

static void run_quantised(const product_list_t *list, const or_product_t *p, uint32_t panel,
                          uint32_t panels, float *y)
{
    const or_matrix_t *m = p->matrix;
    or_span_t blocks = blocks_of(p);
    size_t at = panel * m->panel_stride + blocks.begin;
    size_t x_at = list->first * list->x->blocks_stride + blocks.begin;
    or_q8_rows_t x = {.quants = list->x->quants + x_at * OR_QUANT_BLOCK,
                      .scales = list->x->scales + x_at,
                      .sums = list->x->sums + x_at,
                      .blocks_stride = list->x->blocks_stride};
    if (m->type == OR_TENSOR_Q8_0) {
        list->kernels->matmul_q8_0((const or_q8_panel_block_t *)m->memory + at, m->panel_stride,
                                   panels, blocks.end - blocks.begin, &x, list->rows, y,
                                   p->y_stride);
    } else {
        list->kernels->matmul_q4_0((const or_q4_panel_block_t *)m->memory + at, m->panel_stride,
                                   panels, blocks.end - blocks.begin, &x, list->rows, y,
                                   p->y_stride);
    }
}

static void run_product(const product_list_t *list, const or_product_t *p, uint32_t begin,
                        uint32_t end)
{
    uint32_t panel = begin - p->matrix->panels.begin;
    float *y = p->y + (size_t)panel * OR_PANEL;
    if (or_matrix_is_quantised(p->matrix)) {
        run_quantised(list, p, panel, end - begin, y);
    } else {
        run_floats(list, p, panel, end - begin, y);
    }
}

// Items are the panels of all products, one product after the other.
static void run_panels(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const product_list_t *list = context;
    uint32_t first = 0;
    for (uint32_t i = 0; i < list->count && first < end; i++) {
        const or_product_t *p = &list->products[i];
        uint32_t after = first + (p->panels.end - p->panels.begin);
        uint32_t from = begin > first ? begin : first;
        uint32_t to = end < after ? end : after;
        if (from < to) {
            run_product(list, p, p->panels.begin + (from - first), p->panels.begin + (to - first));
        }
        first = after;
    }
}

static void quantise_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const product_list_t *list = context;
    or_activations_t *x = list->x;
    uint32_t blocks = list->block_end - list->block_begin;
    for (size_t row = list->first + begin; row < list->first + end; row++) {
        size_t at = row * x->blocks_stride + list->block_begin;
        list->kernels->quantize_row(
            x->values + row * x->stride + (size_t)list->block_begin * OR_QUANT_BLOCK, blocks,
            x->quants + at * OR_QUANT_BLOCK, x->scales + at, x->sums + at);
    }
}

// Once for all products: they read the same rows.
static void quantise(or_workers_t *workers, product_list_t *list)
{
    list->block_begin = UINT32_MAX;
    list->block_end = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const or_product_t *p = &list->products[i];
        if (or_matrix_is_quantised(p->matrix)) {
            or_span_t blocks = blocks_of(p);
            list->block_begin = blocks.begin < list->block_begin ? blocks.begin : list->block_begin;
            list->block_end = blocks.end > list->block_end ? blocks.end : list->block_end;
        }
    }
    if (list->block_begin < list->block_end) {
        uint64_t values = (list->block_end - list->block_begin) * OR_QUANT_BLOCK;
        or_workers_run(workers, list->rows, or_workers_grain(values), quantise_rows, list);
    }
}

void or_products_run(const or_kernels_t *kernels, or_workers_t *workers, or_activations_t *x,
                     uint32_t first, uint32_t rows, const or_product_t *products, uint32_t count)
{
    product_list_t list = {.kernels = kernels,
                           .x = x,
                           .first = first,
                           .rows = rows,
                           .products = products,
                           .count = count};
    uint64_t multiply_adds = 0;
    uint32_t panels = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_product_t *p = &products[i];
        uint32_t n = p->panels.end - p->panels.begin;
        panels += n;
        multiply_adds += (uint64_t)n * OR_PANEL * rows * (p->inputs.end - p->inputs.begin);
    }
    if (panels == 0) {
        return;
    }
    quantise(workers, &list);
    or_workers_run(workers, panels, or_workers_grain(multiply_adds / panels), run_panels, &list);
}

void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out)
{
    uint64_t rows = tensor->elements / width;
    const unsigned char *data = (const unsigned char *)tensor->data + row * (tensor->bytes / rows);
    uint16_t half;
    switch ((or_tensor_type_t)tensor->type) {
    case OR_TENSOR_F32:
        memcpy(out, data, width * sizeof *out);
        break;
    case OR_TENSOR_F16:
        for (uint32_t i = 0; i < width; i++) {
            memcpy(&half, data + i * sizeof half, sizeof half);
            out[i] = or_f16_to_f32(half);
        }
        break;
    case OR_TENSOR_BF16:
        for (uint32_t i = 0; i < width; i++) {
            memcpy(&half, data + i * sizeof half, sizeof half);
            out[i] = or_bf16_to_f32(half);
        }
        break;
    case OR_TENSOR_Q8_0:
        or_dequantize_q8_0(data, width / OR_QUANT_BLOCK, out);
        break;
    case OR_TENSOR_Q4_0:
        or_dequantize_q4_0(data, width / OR_QUANT_BLOCK, out);
        break;
    }
}
