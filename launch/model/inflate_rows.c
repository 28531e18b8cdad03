#include "launch/model/inflate_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/rng.h"
#include "common/model/cpu/weights.h"
#include "common/model/ranks/shards.h"
#include "kernels/kernels.h"

#define SUPER_COLUMNS (OR_INFLATE_SUPER * OR_SHARD_FFN_UNIT)
#define BANK_ROWS 4096u // random rows, of which new ones are taken: to make each anew takes long
#define SPREAD 0.035f   // of random weights; a root mean square of 0.02
#define NORM_SPREAD 0.1f

typedef enum {
    KEPT,       // as it was
    MORE_ROWS,  // and random rows for new FFN columns
    MORE_ZEROS, // and zeros for new FFN columns
    ZEROS,
    RANDOM,
    RANDOM_NORM,
    RANDOM_BIAS,
} role_t;

typedef struct {
    char name[96];
    const or_gguf_tensor_t *source; // itself, or one like it
    role_t role;
    or_tensor_type_t type; // in the result
    uint32_t dim_count;
    uint64_t dims[4];
} tensor_t;

struct or_inflate_rows {
    const or_gguf_t *gguf;
    const or_inflate_plan_t *plan;
    uint64_t seed;
    tensor_t *tensors;
    size_t count;
    size_t current; // that is written
    float *buffers; // of a row of `buffer_floats`, a worker each
    size_t buffer_floats;
    uint8_t *old_rows; // one as it would have been without new columns, a worker each
    size_t old_row_bytes;
    uint8_t *bank; // of bank_type, BANK_ROWS rows of bank_width
    or_tensor_type_t bank_type;
    uint64_t bank_width;
};

// ---- the list ----

static or_tensor_type_t type_of(const or_gguf_tensor_t *source, const or_tensor_type_t *type)
{
    return type != NULL && or_weight_is_matrix(source) ? or_weight_type_for(*type, source->dims[0])
                                                       : (or_tensor_type_t)source->type;
}

static tensor_t *append(or_inflate_rows_t *rows, const or_gguf_tensor_t *source, role_t role,
                        const or_tensor_type_t *type)
{
    tensor_t *tensor = &rows->tensors[rows->count++];
    *tensor = (tensor_t){.source = source,
                         .role = role,
                         .type = type_of(source, type),
                         .dim_count = source->dim_count};
    snprintf(tensor->name, sizeof tensor->name, "%.*s", (int)source->name.length,
             source->name.bytes);
    memcpy(tensor->dims, source->dims, sizeof tensor->dims);
    return tensor;
}

static role_t role_of(const or_arch_tensor_t *t, const or_inflate_plan_t *plan, bool is_new)
{
    bool adds =
        t->offset == offsetof(or_layer_t, output) || t->offset == offsetof(or_layer_t, down);
    if (!is_new) {
        return plan->ffn == plan->old_ffn ? KEPT
               : t->inputs == OR_DIM_FFN  ? MORE_ZEROS
               : t->outputs == OR_DIM_FFN ? MORE_ROWS
                                          : KEPT;
    }
    if (t->outputs != OR_DIM_ONE) {
        return adds ? ZEROS : RANDOM;
    }
    return t->offset == offsetof(or_layer_t, attention_norm) ||
                   t->offset == offsetof(or_layer_t, ffn_norm)
               ? RANDOM_NORM
               : RANDOM_BIAS;
}

static or_status_t find_source(const or_gguf_t *gguf, const or_model_shape_t *shape,
                               const or_arch_tensor_t *t, uint32_t layer,
                               const or_gguf_tensor_t **source)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, t->suffix);
    *source = or_gguf_find_tensor(gguf, name);
    if (*source == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_gguf_path(gguf), name);
    }
    if ((*source)->dims[0] != or_arch_dim(shape, t->inputs) ||
        (*source)->dims[1] != or_arch_dim(shape, t->outputs) ||
        (*source)->elements != (*source)->dims[0] * (*source)->dims[1]) {
        return or_fail(OR_ERR_FORMAT, "tensor %s of %s has not the shape its metadata tell", name,
                       or_gguf_path(gguf));
    }
    return OR_OK;
}

// Append a layer of the result; a new one is made like `like`.
static or_status_t append_layer(or_inflate_rows_t *rows, const or_arch_t *arch,
                                const or_model_shape_t *shape, const or_tensor_type_t *type,
                                uint32_t layer, uint32_t like, bool is_new)
{
    for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
        const or_gguf_tensor_t *source;
        or_status_t status = find_source(rows->gguf, shape, t, like, &source);
        if (status != OR_OK) {
            return status;
        }
        tensor_t *tensor = append(rows, source, role_of(t, rows->plan, is_new), type);
        snprintf(tensor->name, sizeof tensor->name, "blk.%" PRIu32 ".%s", layer, t->suffix);
        if (t->inputs == OR_DIM_FFN) {
            tensor->dims[0] = rows->plan->ffn;
        }
        if (t->outputs == OR_DIM_FFN) {
            tensor->dims[1] = rows->plan->ffn;
        }
    }
    return OR_OK;
}

static bool is_of_layer(const or_gguf_tensor_t *tensor)
{
    return tensor->name.length > 4 && memcmp(tensor->name.bytes, "blk.", 4) == 0;
}

static or_status_t check_types(const or_inflate_rows_t *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const or_gguf_tensor_t *source = rows->tensors[i].source;
        if (source->data == NULL || source->dims[0] > UINT32_MAX) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "tensor %s of %s is of type %s, which cannot be read",
                           rows->tensors[i].name, or_gguf_path(rows->gguf),
                           or_gguf_tensor_type_name(source->type));
        }
        if (!or_weight_type_is_written(rows->tensors[i].type)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "tensor %s of %s is of type %s, which is read, not written; say --type "
                           "with another one",
                           rows->tensors[i].name, or_gguf_path(rows->gguf),
                           or_gguf_tensor_type_name(source->type));
        }
    }
    return OR_OK;
}

static or_status_t list(or_inflate_rows_t *rows, const or_arch_t *arch,
                        const or_model_shape_t *shape, const or_tensor_type_t *type)
{
    uint32_t like = 0;
    or_status_t status = OR_OK;
    for (uint64_t i = 0; i < or_gguf_tensor_count(rows->gguf); i++) {
        const or_gguf_tensor_t *source = or_gguf_tensor(rows->gguf, i);
        if (!is_of_layer(source)) {
            append(rows, source, KEPT, type);
        }
    }
    for (uint32_t layer = 0; status == OR_OK && layer < rows->plan->layers; layer++) {
        uint32_t old = or_inflate_layer(rows->plan, layer);
        like = old != OR_INFLATE_NEW ? old : like;
        status = append_layer(rows, arch, shape, type, layer, like, old == OR_INFLATE_NEW);
    }
    return status != OR_OK ? status : check_types(rows);
}

or_status_t or_inflate_rows_create(const or_gguf_t *gguf, const or_arch_t *arch,
                                   const or_model_shape_t *shape, const or_inflate_plan_t *plan,
                                   const or_tensor_type_t *type, uint64_t seed,
                                   or_inflate_rows_t **rows_p)
{
    size_t layer_tensors = 0;
    while (arch->layer_tensors[layer_tensors].suffix != NULL) {
        layer_tensors++;
    }
    or_inflate_rows_t *rows = calloc(1, sizeof *rows);
    if (rows == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the list of tensors");
    }
    *rows = (or_inflate_rows_t){.gguf = gguf, .plan = plan, .seed = seed};
    rows->tensors =
        calloc(or_gguf_tensor_count(gguf) + plan->layers * layer_tensors, sizeof *rows->tensors);
    or_status_t status = rows->tensors == NULL
                             ? or_fail(OR_ERR_NO_MEMORY, "no memory for the list of tensors")
                             : list(rows, arch, shape, type);
    if (status != OR_OK) {
        or_inflate_rows_destroy(&rows);
        return status;
    }
    *rows_p = rows;
    return OR_OK;
}

void or_inflate_rows_destroy(or_inflate_rows_t **rows_p)
{
    or_inflate_rows_t *rows = *rows_p;
    if (rows == NULL) {
        return;
    }
    free(rows->bank);
    free(rows->old_rows);
    free(rows->buffers);
    free(rows->tensors);
    free(rows);
    *rows_p = NULL;
}

or_status_t or_inflate_rows_add(const or_inflate_rows_t *rows, or_gguf_writer_t *writer)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < rows->count; i++) {
        const tensor_t *tensor = &rows->tensors[i];
        or_gguf_string_t name = {tensor->name, strlen(tensor->name)};
        status =
            or_gguf_writer_add_tensor(writer, name, tensor->dim_count, tensor->dims, tensor->type);
    }
    return status;
}

// ---- random rows ----

static void fill_random(or_rng_key_t key, uint64_t row, float middle, float spread, uint32_t width,
                        float *weights)
{
    for (uint32_t i = 0; i < width; i += 4) {
        const uint32_t counter[4] = {(uint32_t)row, (uint32_t)(row >> 32), i, 0};
        uint32_t bits[4];
        or_philox(key, counter, bits);
        for (uint32_t j = 0; j < 4 && i + j < width; j++) {
            weights[i + j] = middle + spread * (float)(int32_t)bits[j] * 0x1p-31f;
        }
    }
}

static void make_bank_row(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    or_inflate_rows_t *rows = context;
    float *buffer = rows->buffers + worker * rows->buffer_floats;
    uint32_t width = (uint32_t)rows->bank_width;
    uint64_t row_bytes = or_weight_row_bytes(rows->bank_type, width);
    for (uint32_t row = begin; row < end; row++) {
        fill_random(or_rng_key(rows->seed, UINT64_MAX), row, 0, SPREAD, width, buffer);
        or_weight_row_write(rows->bank_type, buffer, NULL, width, rows->bank + row * row_bytes);
    }
}

// Fill the bank with random rows for this tensor, if it needs any.
static or_status_t fill_bank(or_inflate_rows_t *rows, or_workers_t *workers, const tensor_t *tensor)
{
    uint64_t width = tensor->dims[0];
    if ((tensor->role != RANDOM && tensor->role != MORE_ROWS) ||
        (rows->bank != NULL && rows->bank_type == tensor->type && rows->bank_width == width)) {
        return OR_OK;
    }
    free(rows->bank);
    rows->bank = malloc(BANK_ROWS * or_weight_row_bytes(tensor->type, width));
    if (rows->bank == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for random rows");
    }
    rows->bank_type = tensor->type;
    rows->bank_width = width;
    or_workers_run(workers, BANK_ROWS, 1, make_bank_row, rows);
    return OR_OK;
}

static void take_from_bank(const or_inflate_rows_t *rows, uint64_t row, void *out)
{
    const uint32_t counter[4] = {(uint32_t)row, (uint32_t)(row >> 32), 0, 0};
    uint32_t bits[4];
    uint64_t row_bytes = or_weight_row_bytes(rows->bank_type, rows->bank_width);
    or_philox(or_rng_key(rows->seed, rows->current), counter, bits);
    memcpy(out, rows->bank + bits[0] % BANK_ROWS * row_bytes, row_bytes);
}

// ---- old rows ----

// Convert a row of the source to the type of the result.
static void convert(const or_gguf_tensor_t *source, or_tensor_type_t type, uint64_t row,
                    float *buffer, void *out)
{
    or_tensor_type_t from = (or_tensor_type_t)source->type;
    uint32_t width = (uint32_t)source->dims[0];
    uint64_t row_bytes = or_weight_row_bytes(from, width);
    const char *bytes = (const char *)source->data + row * row_bytes;
    if (from == type) {
        memcpy(out, bytes, row_bytes);
        return;
    }
    or_weight_row_read(from, bytes, width, buffer);
    or_weight_row_write(type, buffer, NULL, width, out);
}

// Make the 32 weights from 32 * block on zeros, whatever the type; the row is no shorter.
static void clear_block(or_tensor_type_t type, void *row, uint32_t block)
{
    or_quant_t quant;
    or_tensor_block_t unit = or_gguf_tensor_block(type);
    if (!or_tensor_quant(type, &quant)) {
        size_t bytes = (size_t)unit.bytes * OR_QUANT_BLOCK;
        memset((char *)row + block * bytes, 0, bytes);
        return;
    }
    uint32_t blocks = or_quant_unit_blocks(quant);
    or_quant_clear(quant, block % blocks, (char *)row + (size_t)(block / blocks) * unit.bytes);
}

// Move the columns of one shard, super-block by super-block, to where the plan has them.
static void spread_shard(const or_inflate_plan_t *plan, or_tensor_type_t type, uint32_t shard,
                         const uint8_t *from, uint8_t *to)
{
    uint32_t units = (plan->old_ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    or_span_t span = or_shard_span(shard, units);
    uint64_t super_bytes = or_weight_row_bytes(type, SUPER_COLUMNS);
    uint32_t first = span.begin / OR_INFLATE_SUPER;
    uint32_t supers = plan->ffn / OR_SHARDS / SUPER_COLUMNS; // of a shard of the result
    for (uint32_t super = first; super * OR_INFLATE_SUPER < span.end; super++) {
        uint32_t left = plan->old_ffn - super * SUPER_COLUMNS;
        uint32_t target = shard * supers + super - first;
        memcpy(to + target * super_bytes, from + super * super_bytes,
               left < SUPER_COLUMNS ? or_weight_row_bytes(type, left) : super_bytes);
        for (uint32_t u = 0; u < OR_INFLATE_SUPER; u++) {
            uint32_t unit = super * OR_INFLATE_SUPER + u;
            if (unit < span.begin || unit >= span.end) {
                clear_block(type, to, target * OR_INFLATE_SUPER + u);
            }
        }
    }
}

static void spread_columns(const or_inflate_plan_t *plan, or_tensor_type_t type,
                           const uint8_t *from, uint8_t *to)
{
    uint32_t units = (plan->old_ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    memset(to, 0, or_weight_row_bytes(type, plan->ffn));
    for (uint32_t s = 0; s < OR_SHARDS; s++) {
        or_span_t span = or_shard_span(s, units);
        if (span.begin < span.end) {
            spread_shard(plan, type, s, from, to);
        }
    }
}

// ---- the work ----

static void make_row(void *context, uint32_t worker, uint64_t row, void *out)
{
    or_inflate_rows_t *rows = context;
    const tensor_t *tensor = &rows->tensors[rows->current];
    float *buffer = rows->buffers + worker * rows->buffer_floats;
    uint8_t *old_row = rows->old_rows + worker * rows->old_row_bytes;
    uint32_t width = (uint32_t)tensor->dims[0];
    uint64_t old = row;
    switch (tensor->role) {
    case MORE_ROWS:
        old = or_inflate_column(rows->plan, (uint32_t)row);
        if (old == OR_INFLATE_NEW) {
            take_from_bank(rows, row, out);
            return;
        }
        convert(tensor->source, tensor->type, old, buffer, out);
        return;
    case KEPT:
        convert(tensor->source, tensor->type, row, buffer, out);
        return;
    case MORE_ZEROS:
        convert(tensor->source, tensor->type, row, buffer, old_row);
        spread_columns(rows->plan, tensor->type, old_row, out);
        return;
    case ZEROS:
        memset(out, 0, or_weight_row_bytes(tensor->type, width));
        return;
    case RANDOM:
        take_from_bank(rows, row, out);
        return;
    case RANDOM_NORM:
    case RANDOM_BIAS:
        fill_random(or_rng_key(rows->seed, rows->current), row, tensor->role == RANDOM_NORM ? 1 : 0,
                    tensor->role == RANDOM_NORM ? NORM_SPREAD : SPREAD, width, buffer);
        or_weight_row_write(tensor->type, buffer, NULL, width, out);
        return;
    }
}

static or_status_t make_buffers(or_inflate_rows_t *rows, uint32_t workers)
{
    for (size_t i = 0; i < rows->count; i++) {
        size_t floats = rows->tensors[i].source->dims[0];
        rows->buffer_floats = floats > rows->buffer_floats ? floats : rows->buffer_floats;
    }
    rows->old_row_bytes = rows->buffer_floats * sizeof(float); // of whatever type
    rows->buffers = calloc(workers, rows->buffer_floats * sizeof(float));
    rows->old_rows = calloc(workers, rows->old_row_bytes);
    return rows->buffers != NULL && rows->old_rows != NULL
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for rows of %zu", rows->buffer_floats);
}

or_status_t or_inflate_rows_write(or_inflate_rows_t *rows, or_weight_writer_t *weights)
{
    or_status_t status = make_buffers(rows, or_workers_count(weights->workers));
    for (rows->current = 0; status == OR_OK && rows->current < rows->count; rows->current++) {
        const tensor_t *tensor = &rows->tensors[rows->current];
        or_gguf_string_t name = {tensor->name, strlen(tensor->name)};
        uint64_t count = 1;
        for (uint32_t d = 1; d < tensor->dim_count; d++) {
            count *= tensor->dims[d];
        }
        status = fill_bank(rows, weights->workers, tensor);
        status = status != OR_OK
                     ? status
                     : or_weight_writer_run(weights, name, count,
                                            or_weight_row_bytes(tensor->type, tensor->dims[0]),
                                            make_row, rows);
    }
    return status;
}
