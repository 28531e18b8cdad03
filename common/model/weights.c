#include "common/model/weights.h"

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

static size_t element_bytes(uint32_t type)
{
    return type == OR_TENSOR_F16 ? sizeof(uint16_t) : sizeof(float);
}

// The file's data may be unaligned, hence the copies.
static void pack_f16(const unsigned char *row, uint32_t inputs, uint16_t *out)
{
    for (uint32_t i = 0; i < inputs; i++) {
        memcpy(&out[(size_t)i * OR_PANEL], row + (size_t)i * sizeof *out, sizeof *out);
    }
}

static void pack_f32(const unsigned char *row, uint32_t inputs, float *out)
{
    for (uint32_t i = 0; i < inputs; i++) {
        memcpy(&out[(size_t)i * OR_PANEL], row + (size_t)i * sizeof *out, sizeof *out);
    }
}

or_status_t or_matrix_pack(const or_gguf_tensor_t *tensor, or_matrix_t *matrix)
{
    or_matrix_t m = {.type = (or_tensor_type_t)tensor->type,
                     .inputs = (uint32_t)tensor->dims[0],
                     .outputs = (uint32_t)tensor->dims[1]};
    size_t element = element_bytes(m.type);
    m.panel_count = m.outputs / OR_PANEL + (m.outputs % OR_PANEL != 0);
    size_t panel_elements = (size_t)m.inputs * OR_PANEL;
    m.panels = or_zeroed(panel_elements * m.panel_count, element);
    if (m.panels == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for tensor %.*s (%u x %u)",
                       (int)tensor->name.length, tensor->name.bytes, m.inputs, m.outputs);
    }
    for (uint32_t n = 0; n < m.outputs; n++) {
        const unsigned char *row = (const unsigned char *)tensor->data + n * m.inputs * element;
        size_t first = n / OR_PANEL * panel_elements + n % OR_PANEL;
        if (m.type == OR_TENSOR_F16) {
            pack_f16(row, m.inputs, (uint16_t *)m.panels + first);
        } else {
            pack_f32(row, m.inputs, (float *)m.panels + first);
        }
    }
    *matrix = m;
    return OR_OK;
}

void or_matrix_free(or_matrix_t *matrix)
{
    free(matrix->panels);
    matrix->panels = NULL;
}

or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, const float *x,
                        size_t x_stride, float *y, size_t y_stride)
{
    return (or_product_t){.matrix = matrix,
                          .panel_begin = begin / OR_PANEL,
                          .panel_end = end / OR_PANEL + (end % OR_PANEL != 0),
                          .input_begin = 0,
                          .input_end = matrix->inputs,
                          .x = x,
                          .x_stride = x_stride,
                          .y = y,
                          .y_stride = y_stride};
}

typedef struct {
    const or_kernels_t *kernels;
    const or_product_t *products;
    uint32_t count;
    uint32_t rows;
} product_list_t;

static void run_product(const or_kernels_t *kernels, const or_product_t *p, uint32_t begin,
                        uint32_t end, uint32_t rows)
{
    const or_matrix_t *m = p->matrix;
    size_t stride = (size_t)m->inputs * OR_PANEL;
    size_t first = begin * stride + (size_t)p->input_begin * OR_PANEL;
    uint32_t inputs = p->input_end - p->input_begin;
    const float *x = p->x + p->input_begin;
    float *y = p->y + (size_t)begin * OR_PANEL;
    if (m->type == OR_TENSOR_F16) {
        kernels->matmul_f16((const uint16_t *)m->panels + first, stride, end - begin, inputs, x,
                            p->x_stride, rows, y, p->y_stride);
    } else {
        kernels->matmul_f32((const float *)m->panels + first, stride, end - begin, inputs, x,
                            p->x_stride, rows, y, p->y_stride);
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
        uint32_t after = first + (p->panel_end - p->panel_begin);
        uint32_t from = begin > first ? begin : first;
        uint32_t to = end < after ? end : after;
        if (from < to) {
            run_product(list->kernels, p, p->panel_begin + (from - first),
                        p->panel_begin + (to - first), list->rows);
        }
        first = after;
    }
}

void or_products_run(const or_kernels_t *kernels, or_workers_t *workers,
                     const or_product_t *products, uint32_t count, uint32_t rows)
{
    product_list_t list = {kernels, products, count, rows};
    uint64_t multiply_adds = 0;
    uint32_t panels = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = products[i].panel_end - products[i].panel_begin;
        panels += n;
        multiply_adds +=
            (uint64_t)n * OR_PANEL * rows * (products[i].input_end - products[i].input_begin);
    }
    if (panels == 0) {
        return;
    }
    or_workers_run(workers, panels, or_workers_grain(multiply_adds / panels), run_panels, &list);
}

void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out)
{
    const unsigned char *data =
        (const unsigned char *)tensor->data + row * width * element_bytes(tensor->type);
    if (tensor->type == OR_TENSOR_F32) {
        memcpy(out, data, width * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        uint16_t half;
        memcpy(&half, data + i * sizeof half, sizeof half);
        out[i] = or_f16_to_f32(half);
    }
}
