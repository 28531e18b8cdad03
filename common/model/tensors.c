#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
                       vector ? "F32, F16 and BF16 there" : "F32, F16, BF16, Q8_0 and Q4_0");
    }
    *tensor_p = tensor;
    return OR_OK;
}

static or_status_t load_vector(const or_gguf_t *gguf, const char *name, uint32_t length,
                               float **vector_p)
{
    const or_gguf_tensor_t *tensor;
    or_status_t status = find(gguf, name, length, 1, &tensor);
    if (status != OR_OK) {
        return status;
    }
    float *vector = or_zeroed(length, sizeof *vector);
    if (vector == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for tensor %s", name);
    }
    or_tensor_read_row(tensor, 0, length, vector);
    *vector_p = vector;
    return OR_OK;
}

static or_status_t load_matrix(const or_gguf_t *gguf, const char *name, uint32_t inputs,
                               uint32_t outputs, or_matrix_t *matrix)
{
    const or_gguf_tensor_t *tensor;
    or_status_t status = find(gguf, name, inputs, outputs, &tensor);
    return status != OR_OK ? status : or_matrix_pack(tensor, matrix);
}

// What divides the frequencies of rotation, where the file has it.
static or_status_t load_rope_factors(or_model_t *model)
{
    const char *name = model->arch->rope_factors;
    uint32_t count = model->shape.head_dim / 2;
    if (name == NULL || or_gguf_find_tensor(model->gguf, name) == NULL) {
        return OR_OK;
    }
    or_status_t status = load_vector(model->gguf, name, count, &model->rope_factors);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        float factor = model->rope_factors[i];
        if (!isfinite(factor) || factor <= 0) {
            return or_fail(OR_ERR_FORMAT, "tensor %s of %s has the number %g; all must be positive",
                           name, or_gguf_path(model->gguf), (double)factor);
        }
    }
    return status;
}

static or_status_t load_layer(or_model_t *model, uint32_t index)
{
    char *layer = (char *)&model->layers[index];
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        tensor_name_t name = layer_tensor_name(index, t->suffix);
        uint32_t inputs = or_arch_dim(&model->shape, t->inputs);
        or_status_t status =
            t->outputs == OR_DIM_ONE
                ? load_vector(model->gguf, name.text, inputs, (float **)(layer + t->offset))
                : load_matrix(model->gguf, name.text, inputs,
                              or_arch_dim(&model->shape, t->outputs),
                              (or_matrix_t *)(layer + t->offset));
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
    uint64_t known =
        2 + (or_gguf_find_tensor(model->gguf, arch->head) != NULL) + (model->rope_factors != NULL);
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

or_status_t or_tensors_load(or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_gguf_t *gguf = model->gguf;
    const or_model_shape_t *shape = &model->shape;
    or_status_t status =
        find(gguf, arch->embedding, shape->width, shape->vocab_size, &model->embedding);
    status = status != OR_OK
                 ? status
                 : load_vector(gguf, arch->output_norm, shape->width, &model->output_norm);
    status = status != OR_OK ? status : load_rope_factors(model);
    if (status != OR_OK) {
        return status;
    }
    bool tied = or_gguf_find_tensor(gguf, arch->head) == NULL;
    status = load_matrix(gguf, tied ? arch->embedding : arch->head, shape->width, shape->vocab_size,
                         &model->head);
    if (status != OR_OK) {
        return status;
    }
    model->layers = or_zeroed(shape->layers, sizeof *model->layers);
    if (model->layers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u layers", shape->layers);
    }
    for (uint32_t i = 0; i < shape->layers; i++) {
        status = load_layer(model, i);
        if (status != OR_OK) {
            return status;
        }
    }
    return refuse_unknown_tensors(model);
}

static void free_layer(const or_arch_t *arch, char *layer)
{
    for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
        if (t->outputs == OR_DIM_ONE) {
            free(*(float **)(layer + t->offset));
        } else {
            or_matrix_free((or_matrix_t *)(layer + t->offset));
        }
    }
}

void or_tensors_free(or_model_t *model)
{
    for (uint32_t i = 0; model->layers != NULL && i < model->shape.layers; i++) {
        free_layer(model->arch, (char *)&model->layers[i]);
    }
    free(model->layers);
    or_matrix_free(&model->head);
    free(model->rope_factors);
    free(model->output_norm);
}
