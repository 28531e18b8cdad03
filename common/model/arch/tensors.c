#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

typedef struct {
    char text[64];
} tensor_name_t;

static tensor_name_t layer_tensor_name(uint32_t layer, const char *suffix)
{
    tensor_name_t name;
    snprintf(name.text, sizeof name.text, "blk.%u.%s", layer, suffix);
    return name;
}

// The tensor, if it has this shape and a type we compute with. outputs 1: a vector of floats.
static or_status_t find(const or_gguf_t *gguf, const char *name, uint32_t inputs, uint32_t outputs,
                        const or_gguf_tensor_t **tensor_p)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, name);
    if (tensor == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_gguf_path(gguf), name);
    }
    if (tensor->dims[0] != inputs || tensor->dims[1] != outputs || tensor->dims[2] != 1 ||
        tensor->dims[3] != 1) {
        return or_fail(OR_ERR_FORMAT,
                       "tensor %s of %s has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                       "]; its metadata make it [%u, %u, 1, 1]",
                       name, or_gguf_path(gguf), tensor->dims[0], tensor->dims[1], tensor->dims[2],
                       tensor->dims[3], inputs, outputs);
    }
    bool vector = outputs == 1;
    bool quantised = or_gguf_tensor_block(tensor->type).elements > 1;
    if (tensor->data == NULL || (vector && quantised)) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tensor %s of %s is of type %s; this version computes with %s", name,
                       or_gguf_path(gguf), or_gguf_tensor_type_name(tensor->type),
                       vector ? "F32, F16 and BF16 there" : OR_TENSOR_TYPES_TEXT);
    }
    *tensor_p = tensor;
    return OR_OK;
}

static or_status_t load_vector(or_model_t *model, const char *name, uint32_t length,
                               float **vector_p)
{
    const or_gguf_tensor_t *tensor;
    or_status_t status = find(model->gguf, name, length, 1, &tensor);
    if (status != OR_OK) {
        return status;
    }
    float *vector = or_zeroed(length, sizeof *vector);
    if (vector == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for tensor %s", name);
    }
    or_tensor_read_row(tensor, 0, length, vector);
    or_gguf_release(model->gguf, tensor);
    model->weight_bytes += length * sizeof *vector;
    *vector_p = vector;
    return OR_OK;
}

// A vector of a layer, or the output norm: where the layers run.
static or_status_t load_layer_vector(or_model_t *model, const char *name, uint32_t length,
                                     float **vector_p)
{
    or_status_t status = load_vector(model, name, length, vector_p);
    return status != OR_OK ? status : or_gpu_take_floats(model->gpu, vector_p, length);
}

static or_status_t load_matrix(or_model_t *model, const char *name, or_span_t outputs,
                               or_span_t inputs, or_matrix_t *matrix)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(model->gguf, name);
    or_status_t status = or_gpu_tensor_takes(model->gpu, tensor)
                             ? or_matrix_pack_rows(model->workers, tensor, outputs, inputs, matrix)
                             : or_matrix_pack(model->workers, tensor, outputs, inputs, matrix);
    if (status == OR_OK) {
        or_gguf_release(model->gguf, tensor); // its pages of the file are not needed any more
        model->weight_bytes += matrix->bytes;
    }
    return status;
}

// Load the factors that divide the frequencies of rotation, if the file has them.
static or_status_t load_rope_factors(or_model_t *model)
{
    const char *name = model->arch->rope_factors;
    uint32_t count = model->shape.head_dim / 2;
    if (name == NULL || or_gguf_find_tensor(model->gguf, name) == NULL) {
        return OR_OK;
    }
    or_status_t status = load_vector(model, name, count, &model->rope_factors);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        float factor = model->rope_factors[i];
        if (!isfinite(factor) || factor <= 0) {
            return or_fail(OR_ERR_FORMAT, "tensor %s of %s has the number %g; all must be positive",
                           name, or_gguf_path(model->gguf), (double)factor);
        }
    }
    return status;
}

static or_span_t times(or_span_t span, uint32_t factor)
{
    return (or_span_t){span.begin * factor, span.end * factor};
}

// Return the part of a dimension that this rank has.
static or_span_t share_of(const or_model_t *model, or_dim_t dim)
{
    switch (dim) {
    case OR_DIM_QUERY:
        return times(model->share.heads, model->shape.head_dim);
    case OR_DIM_KV:
        return times(model->share.kv_heads, model->shape.head_dim);
    case OR_DIM_FFN:
        return model->share.ffn;
    case OR_DIM_WIDTH:
    case OR_DIM_ONE:
        break;
    }
    return (or_span_t){0, or_arch_dim(&model->shape, dim)};
}

// While a layer is packed the system fetches the next one, if it is not in memory already.
static void expect_layer(const or_model_t *model, uint32_t index)
{
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        tensor_name_t name = layer_tensor_name(index, t->suffix);
        or_gguf_expect(model->gguf, or_gguf_find_tensor(model->gguf, name.text));
    }
}

static or_layer_t *layer_of(const or_model_t *model, uint32_t index)
{
    return &model->layers[index - model->share.layers.begin];
}

static void describe_layer(const or_model_t *model, uint32_t index)
{
    char *layer = (char *)layer_of(model, index);
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        if (t->outputs != OR_DIM_ONE) {
            tensor_name_t name = layer_tensor_name(index, t->suffix);
            *(or_matrix_t *)(layer + t->offset) =
                or_matrix_describe(or_gguf_find_tensor(model->gguf, name.text),
                                   share_of(model, t->outputs), share_of(model, t->inputs));
        }
    }
}

static or_status_t load_layer_matrix(or_model_t *model, uint32_t index, const or_arch_tensor_t *t,
                                     or_matrix_t *matrix)
{
    or_status_t status =
        load_matrix(model, layer_tensor_name(index, t->suffix).text, share_of(model, t->outputs),
                    share_of(model, t->inputs), matrix);
    return status != OR_OK
               ? status
               : or_gpu_layers_take(model->gpu, index - model->share.layers.begin, matrix);
}

static or_status_t load_layer(or_model_t *model, uint32_t index)
{
    char *layer = (char *)layer_of(model, index);
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        or_status_t status =
            t->outputs == OR_DIM_ONE
                ? load_layer_vector(model, layer_tensor_name(index, t->suffix).text,
                                    or_arch_dim(&model->shape, t->inputs),
                                    (float **)(layer + t->offset))
                : load_layer_matrix(model, index, t, (or_matrix_t *)(layer + t->offset));
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}

static bool is_name(or_gguf_string_t string, const char *name)
{
    return string.length == strlen(name) && memcmp(string.bytes, name, string.length) == 0;
}

static bool is_known(const or_model_t *model, or_gguf_string_t string)
{
    const or_arch_t *arch = model->arch;
    if (is_name(string, arch->embedding) || is_name(string, arch->output_norm) ||
        is_name(string, arch->head) ||
        (arch->rope_factors != NULL && is_name(string, arch->rope_factors))) {
        return true;
    }
    for (uint32_t layer = 0; layer < model->shape.layers; layer++) {
        for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
            if (is_name(string, layer_tensor_name(layer, t->suffix).text)) {
                return true;
            }
        }
    }
    return false;
}

// A tensor without a place in the graph (a bias, an expert, a table of frequencies) would be left
// out of the sum in silence.
static or_status_t refuse_unknown_tensors(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    bool has_factors =
        arch->rope_factors != NULL && or_gguf_find_tensor(model->gguf, arch->rope_factors) != NULL;
    uint64_t known = 2 + (or_gguf_find_tensor(model->gguf, arch->head) != NULL) + has_factors;
    for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
        known += model->shape.layers;
    }
    if (or_gguf_tensor_count(model->gguf) == known) {
        return OR_OK; // names are unique and every known one was found
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(model->gguf); i++) {
        or_gguf_string_t name = or_gguf_tensor(model->gguf, i)->name;
        if (!is_known(model, name)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "tensor %.*s of %s has no place in this version's %s graph",
                           name.length > 64 ? 64 : (int)name.length, name.bytes,
                           or_gguf_path(model->gguf), arch->name);
        }
    }
    return OR_OK;
}

static or_status_t check_layer(const or_model_t *model, uint32_t index)
{
    const or_gguf_tensor_t *tensor;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        or_status_t status = find(model->gguf, layer_tensor_name(index, t->suffix).text,
                                  or_arch_dim(&model->shape, t->inputs),
                                  or_arch_dim(&model->shape, t->outputs), &tensor);
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}

or_status_t or_tensors_check(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_model_shape_t *shape = &model->shape;
    const or_gguf_tensor_t *tensor;
    or_status_t status =
        find(model->gguf, arch->embedding, shape->width, shape->vocab_size, &tensor);
    status =
        status != OR_OK ? status : find(model->gguf, arch->output_norm, shape->width, 1, &tensor);
    if (status == OR_OK && or_gguf_find_tensor(model->gguf, arch->head) != NULL) {
        status = find(model->gguf, arch->head, shape->width, shape->vocab_size, &tensor);
    }
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        status = check_layer(model, i);
    }
    return status != OR_OK ? status : refuse_unknown_tensors(model);
}

// The embedding, too, where it is the head.
static const or_gguf_tensor_t *find_head(const or_model_t *model)
{
    const or_gguf_tensor_t *head = or_gguf_find_tensor(model->gguf, model->arch->head);
    return head != NULL ? head : or_gguf_find_tensor(model->gguf, model->arch->embedding);
}

static bool layer_has(const or_model_t *model, uint32_t layer, or_tensor_type_t type)
{
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        tensor_name_t name = layer_tensor_name(layer, t->suffix);
        if (t->outputs != OR_DIM_ONE &&
            or_gguf_find_tensor(model->gguf, name.text)->type == (uint32_t)type) {
            return true;
        }
    }
    return false;
}

bool or_tensors_have(const or_model_t *model, or_tensor_type_t type)
{
    bool has = find_head(model)->type == (uint32_t)type;
    for (uint32_t i = 0; !has && i < model->shape.layers; i++) {
        has = layer_has(model, i, type);
    }
    return has;
}

bool or_tensors_quantised(const or_model_t *model, size_t offset)
{
    const or_arch_tensor_t *t = model->arch->layer_tensors;
    while (t->offset != offset) {
        t++;
    }
    bool quantised = false;
    for (uint32_t i = 0; i < model->shape.layers; i++) {
        tensor_name_t name = layer_tensor_name(i, t->suffix);
        const or_gguf_tensor_t *tensor = or_gguf_find_tensor(model->gguf, name.text);
        quantised = quantised || or_gguf_tensor_block(tensor->type).elements > 1;
    }
    return quantised;
}

// The output norm and the head: the embedding where the file has no other.
static or_status_t load_head(or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    bool tied = or_gguf_find_tensor(model->gguf, arch->head) == NULL;
    or_status_t status =
        load_layer_vector(model, arch->output_norm, model->shape.width, &model->output_norm);
    status = status != OR_OK
                 ? status
                 : load_matrix(model, tied ? arch->embedding : arch->head, model->share.vocab,
                               share_of(model, OR_DIM_WIDTH), &model->head);
    return status != OR_OK ? status
                           : or_gpu_take(model->gpu, &model->head.memory, model->head.bytes);
}

or_status_t or_tensors_load(or_model_t *model)
{
    const or_span_t layers = model->share.layers;
    if (model->share.embeds) {
        model->embedding = or_gguf_find_tensor(model->gguf, model->arch->embedding);
    }
    model->layers = or_zeroed(or_span_length(layers), sizeof *model->layers);
    if (model->layers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u layers", or_span_length(layers));
    }
    or_status_t status = load_rope_factors(model);
    for (uint32_t i = layers.begin; i < layers.end; i++) {
        describe_layer(model, i);
    }
    return status == OR_OK && model->share.has_head ? load_head(model) : status;
}

or_status_t or_tensors_load_layers(or_model_t *model)
{
    const or_span_t layers = model->share.layers;
    or_status_t status = OR_OK;
    expect_layer(model, layers.begin);
    for (uint32_t i = layers.begin; status == OR_OK && i < layers.end; i++) {
        if (i + 1 < layers.end) {
            expect_layer(model, i + 1);
        }
        status = load_layer(model, i);
    }
    return status;
}

static void free_layer(const or_model_t *model, uint32_t index)
{
    char *layer = (char *)&model->layers[index];
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        if (t->outputs == OR_DIM_ONE) {
            or_gpu_give(model->gpu, *(float **)(layer + t->offset));
        } else {
            or_gpu_layers_give(model->gpu, index, (or_matrix_t *)(layer + t->offset));
        }
    }
}

void or_tensors_free(or_model_t *model)
{
    uint32_t layers = or_span_length(model->share.layers);
    for (uint32_t i = 0; model->layers != NULL && i < layers; i++) {
        free_layer(model, i);
    }
    free(model->layers);
    or_gpu_give(model->gpu, model->head.memory);
    or_gpu_give(model->gpu, model->output_norm);
    free(model->rope_factors);
}
