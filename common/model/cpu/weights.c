#include "common/model/cpu/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHE_LINE 64u
#define LAZY_BYTES ((size_t)1 << 20) // so much or more is left untouched
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_PAGE_WASTE 4u // a last huge page may leave unused at most this part of a matrix

// ---- memory ----

void *or_zeroed(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    const size_t unit = bytes >= LAZY_BYTES ? (size_t)sysconf(_SC_PAGESIZE) : CACHE_LINE;
    bytes = (bytes / unit + 1) * unit;
    void *memory = aligned_alloc(unit, bytes);
    // Pages that are given back come as zeros when they are written.
    const bool gives_back = memory != NULL && unit > CACHE_LINE;
    if (memory != NULL && !(gives_back && madvise(memory, bytes, MADV_DONTNEED) == 0)) {
        memset(memory, 0, bytes);
    }
    return memory;
}

// Return the bytes of a matrix that lie in huge pages. The last page is one, too, where the memory that this costs is
// small beside the matrix.
static size_t huge_bytes(size_t bytes)
{
    size_t whole = bytes / HUGE_PAGE * HUGE_PAGE;
    size_t left_over = whole + HUGE_PAGE - bytes;
    return left_over <= bytes / HUGE_PAGE_WASTE ? whole + HUGE_PAGE : whole;
}

// A matrix's memory, not written yet. A large one asks for huge pages: what streams through it then waits less for
// address translation.
static void *matrix_memory(size_t bytes)
{
    void *memory = NULL;
    size_t huge = huge_bytes(bytes);
    if (posix_memalign(&memory, huge > 0 ? HUGE_PAGE : CACHE_LINE, huge > bytes ? huge : bytes) !=
        0) {
        return NULL;
    }
    if (huge > 0) {
        madvise(memory, huge, MADV_HUGEPAGE); // a wish: without them all works too
    }
    return memory;
}

// ---- types ----

static const struct {
    or_tensor_type_t type;
    or_quant_t quant;
} quants[] = {
    {OR_TENSOR_Q8_0, OR_QUANT_Q8_0},       {OR_TENSOR_Q4_0, OR_QUANT_Q4_0},
    {OR_TENSOR_Q4_1, OR_QUANT_Q4_1},       {OR_TENSOR_Q5_0, OR_QUANT_Q5_0},
    {OR_TENSOR_Q5_1, OR_QUANT_Q5_1},       {OR_TENSOR_Q2_K, OR_QUANT_Q2_K},
    {OR_TENSOR_Q3_K, OR_QUANT_Q3_K},       {OR_TENSOR_Q4_K, OR_QUANT_Q4_K},
    {OR_TENSOR_Q5_K, OR_QUANT_Q5_K},       {OR_TENSOR_Q6_K, OR_QUANT_Q6_K},
    {OR_TENSOR_IQ4_NL, OR_QUANT_IQ4_NL},   {OR_TENSOR_IQ4_XS, OR_QUANT_IQ4_XS},
    {OR_TENSOR_MXFP4, OR_QUANT_MXFP4},     {OR_TENSOR_IQ3_S, OR_QUANT_IQ3_S},
    {OR_TENSOR_IQ3_XXS, OR_QUANT_IQ3_XXS}, {OR_TENSOR_IQ2_S, OR_QUANT_IQ2_S},
    {OR_TENSOR_IQ2_XS, OR_QUANT_IQ2_XS},   {OR_TENSOR_IQ2_XXS, OR_QUANT_IQ2_XXS},
};

bool or_tensor_quant(uint32_t type, or_quant_t *quant)
{
    for (size_t i = 0; i < sizeof quants / sizeof quants[0]; i++) {
        if (quants[i].type == type) {
            *quant = quants[i].quant;
            return true;
        }
    }
    return false;
}

// ---- matrices ----

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

typedef struct {
    const or_gguf_tensor_t *tensor;
    const or_matrix_t *matrix;
    size_t row_bytes;    // in the file
    size_t matrix_bytes; // there from expert to expert
    size_t from_bytes;   // where in a row of the file a panel begins
    uint32_t units;      // of a panel: inputs, blocks or super-blocks
} packing_t;

// `rows` rows, the first of them at `from`; fewer than 16 leave lanes of zeros.
static void pack_floats(const packing_t *packing, const unsigned char *from, uint32_t rows,
                        void *panel)
{
    const or_matrix_t *m = packing->matrix;
    if (rows < OR_PANEL) {
        memset(panel, 0, m->panel_bytes);
    }
    for (uint32_t lane = 0; lane < rows; lane++) {
        const unsigned char *row = from + lane * packing->row_bytes;
        if (m->by_rows) {
            size_t bytes = packing->units * sizeof(uint16_t);
            memcpy((char *)panel + lane * bytes, row, bytes);
        } else if (m->type == OR_TENSOR_F32) {
            pack_32_bits(row, packing->units, (float *)panel + lane);
        } else {
            pack_16_bits(row, packing->units, (uint16_t *)panel + lane);
        }
    }
}

static void pack_panels(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const packing_t *packing = context;
    const or_matrix_t *m = packing->matrix;
    for (uint32_t panel = begin; panel < end; panel++) {
        uint64_t expert = panel / or_span_length(m->panels);
        uint64_t first = (uint64_t)(m->panels.begin + panel % or_span_length(m->panels)) * OR_PANEL;
        uint64_t left = m->outputs - first;
        uint32_t rows = left < OR_PANEL ? (uint32_t)left : OR_PANEL;
        const unsigned char *from = (const unsigned char *)packing->tensor->data +
                                    expert * packing->matrix_bytes + first * packing->row_bytes +
                                    packing->from_bytes;
        char *to = (char *)m->memory + panel * m->panel_bytes;
        if (m->quantised) {
            or_quant_pack(m->quant, from, packing->row_bytes, rows, packing->units, to);
        } else {
            pack_floats(packing, from, rows, to);
        }
    }
}

or_span_t or_panels_of(or_span_t outputs)
{
    uint32_t begin = outputs.begin / OR_PANEL;
    return (or_span_t){begin,
                       outputs.begin == outputs.end ? begin : (outputs.end - 1) / OR_PANEL + 1};
}

// Return the elements, blocks or super-blocks of a panel that hold some of the inputs.
static or_span_t units_of(const or_matrix_t *m)
{
    uint32_t elements = or_gguf_tensor_block(m->type).elements;
    uint32_t begin = m->inputs.begin / elements;
    bool none = m->inputs.begin == m->inputs.end;
    return (or_span_t){begin, none ? begin : (m->inputs.end - 1) / elements + 1};
}

static size_t unit_bytes_of(const or_matrix_t *m)
{
    return m->quantised ? or_quant_unit_bytes(m->quant)
                        : (size_t)or_gguf_tensor_block(m->type).bytes * OR_PANEL;
}

or_matrix_t or_matrix_describe(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs)
{
    or_matrix_t m = {.type = (or_tensor_type_t)tensor->type,
                     .outputs = (uint32_t)tensor->dims[1],
                     .panels = or_panels_of(outputs),
                     .inputs = inputs,
                     .experts = (uint32_t)tensor->dims[2]};
    m.quantised = or_tensor_quant(tensor->type, &m.quant);
    if (m.quantised) {
        uint32_t elements = or_gguf_tensor_block(m.type).elements;
        m.first_block = inputs.begin % elements / OR_QUANT_BLOCK;
    }
    m.panel_bytes = or_span_length(units_of(&m)) * unit_bytes_of(&m);
    m.expert_bytes = or_span_length(m.panels) * m.panel_bytes;
    m.bytes = m.experts * m.expert_bytes;
    return m;
}

static or_status_t pack(or_workers_t *workers, const or_gguf_tensor_t *tensor, or_span_t outputs,
                        or_span_t inputs, bool by_rows, or_matrix_t *matrix)
{
    or_matrix_t m = or_matrix_describe(tensor, outputs, inputs);
    m.by_rows = by_rows;
    or_span_t units = units_of(&m);
    packing_t packing = {.tensor = tensor,
                         .matrix = &m,
                         .row_bytes = tensor->bytes / (tensor->dims[1] * tensor->dims[2]),
                         .from_bytes = (size_t)units.begin * or_gguf_tensor_block(m.type).bytes,
                         .units = or_span_length(units)};
    packing.matrix_bytes =
        tensor->matrix_stride > 0 ? (size_t)tensor->matrix_stride : m.outputs * packing.row_bytes;
    if (m.bytes == 0) {
        *matrix = m;
        return OR_OK;
    }
    m.memory = matrix_memory(m.bytes);
    if (m.memory == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for tensor %.*s (%u x %u)",
                       (int)tensor->name.length, tensor->name.bytes, or_span_length(inputs),
                       or_span_length(outputs));
    }
    or_workers_run(workers, m.experts * or_span_length(m.panels), or_workers_grain(m.panel_bytes),
                   pack_panels, &packing);
    *matrix = m;
    return OR_OK;
}

or_status_t or_matrix_pack(or_workers_t *workers, const or_gguf_tensor_t *tensor, or_span_t outputs,
                           or_span_t inputs, or_matrix_t *matrix)
{
    return pack(workers, tensor, outputs, inputs, false, matrix);
}

or_status_t or_matrix_pack_rows(or_workers_t *workers, const or_gguf_tensor_t *tensor,
                                or_span_t outputs, or_span_t inputs, or_matrix_t *matrix)
{
    return pack(workers, tensor, outputs, inputs, true, matrix);
}

// ---- matrices of a packed file ----

or_matrix_t or_matrix_map(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs,
                          const void *panels)
{
    const or_span_t all_outputs = {0, (uint32_t)tensor->dims[1]};
    const or_span_t all_inputs = {0, (uint32_t)tensor->dims[0]};
    const or_matrix_t whole = or_matrix_describe(tensor, all_outputs, all_inputs);
    or_matrix_t m = or_matrix_describe(tensor, outputs, inputs);
    m.panel_bytes = whole.panel_bytes;
    m.expert_bytes = whole.expert_bytes;
    m.borrowed = true;
    if (m.bytes > 0) {
        m.memory = (char *)(uintptr_t)panels + m.panels.begin * m.panel_bytes +
                   units_of(&m).begin * unit_bytes_of(&m);
    }
    return m;
}

typedef struct {
    const or_matrix_t *from, *to;
} copying_t;

static void copy_panels(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const copying_t *copying = context;
    const or_matrix_t *from = copying->from;
    const or_matrix_t *to = copying->to;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t expert = i / or_span_length(to->panels);
        uint32_t panel = i % or_span_length(to->panels);
        memcpy((char *)to->memory + expert * to->expert_bytes + panel * to->panel_bytes,
               (const char *)from->memory + expert * from->expert_bytes + panel * from->panel_bytes,
               to->panel_bytes);
    }
}

or_status_t or_matrix_copy(or_workers_t *workers, const or_matrix_t *mapped, or_matrix_t *matrix)
{
    or_matrix_t m = *mapped;
    m.borrowed = false;
    m.panel_bytes = or_span_length(units_of(&m)) * unit_bytes_of(&m);
    m.expert_bytes = or_span_length(m.panels) * m.panel_bytes;
    if (m.bytes > 0) {
        m.memory = matrix_memory(m.bytes);
        if (m.memory == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a matrix of %zu bytes", m.bytes);
        }
        copying_t copying = {mapped, &m};
        or_workers_run(workers, m.experts * or_span_length(m.panels),
                       or_workers_grain(m.panel_bytes), copy_panels, &copying);
    }
    *matrix = m;
    return OR_OK;
}

void or_matrix_free(or_matrix_t *matrix)
{
    if (!matrix->borrowed) {
        free(matrix->memory);
    }
    *matrix = (or_matrix_t){0};
}

or_matrix_t or_matrix_expert(const or_matrix_t *matrix, uint32_t expert)
{
    or_matrix_t one = *matrix;
    one.bytes = matrix->bytes / matrix->experts;
    if (matrix->places != NULL) {
        one.memory = matrix->places[expert];
    } else if (matrix->memory != NULL) {
        one.memory = (char *)matrix->memory + expert * matrix->expert_bytes;
    }
    one.places = NULL;
    one.experts = 1;
    return one;
}

// ---- activations ----

or_status_t or_activations_init(or_activations_t *activations, size_t rows, size_t width,
                                bool quantised)
{
    or_activations_t a = {.stride = or_row_stride(width),
                          .row_blocks = (uint32_t)(width / OR_QUANT_BLOCK),
                          .blocks_stride = width / OR_QUANT_BLOCK | 1};
    a.bytes = rows * a.stride * sizeof *a.values;
    a.values = or_zeroed(rows * a.stride, sizeof *a.values);
    if (quantised) {
        a.bytes += rows * a.blocks_stride * sizeof *a.blocks;
        a.blocks = or_zeroed(rows * a.blocks_stride, sizeof *a.blocks);
    }
    if (a.values == NULL || (quantised && a.blocks == NULL)) {
        or_activations_fini(&a);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu rows of %zu activations", rows, width);
    }
    *activations = a;
    return OR_OK;
}

void or_activations_fini(or_activations_t *activations)
{
    free(activations->blocks);
    free(activations->values);
    *activations = (or_activations_t){0};
}

// ---- rows ----

void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out)
{
    uint64_t rows = tensor->elements / width;
    const unsigned char *data = (const unsigned char *)tensor->data + row * (tensor->bytes / rows);
    or_quant_t quant;
    uint16_t half;
    if (or_tensor_quant(tensor->type, &quant)) {
        or_quant_decode(quant, data, width / or_gguf_tensor_block(tensor->type).elements, out);
        return;
    }
    if (tensor->type == OR_TENSOR_F32) {
        memcpy(out, data, width * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        memcpy(&half, data + i * sizeof half, sizeof half);
        out[i] = tensor->type == OR_TENSOR_F16 ? or_f16_to_f32(half) : or_bf16_to_f32(half);
    }
}
