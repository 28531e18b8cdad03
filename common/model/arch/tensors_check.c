// A file has every tensor of its family, of the right shapes, and no other.
#include "common/model/arch/tensors_internal.h"

#include <stdio.h>
#include <string.h>

// ---- names ----

// The names outside layers; NULL where the family has none.
#define OUTER_NAMES 12u

typedef struct {
    const char *names[OUTER_NAMES];
} outer_names_t;

static outer_names_t outer_names(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const bool has_inputs = model->shape.layer_input > 0;
    return (outer_names_t){
        {arch->embedding, arch->output_norm, arch->head, arch->positions, arch->output_norm_bias,
         arch->rope_factors, arch->rope_factors_long, arch->rope_factors_short, arch->head_bias,
         has_inputs ? arch->input_embedding : NULL, has_inputs ? arch->input_projection : NULL,
         has_inputs ? arch->input_norm : NULL}};
}

static bool is_name(or_gguf_string_t string, const char *name)
{
    return string.length == strlen(name) && memcmp(string.bytes, name, string.length) == 0;
}

static bool is_known(const or_model_t *model, or_gguf_string_t string)
{
    const or_arch_t *arch = model->arch;
    const outer_names_t outer = outer_names(model);
    for (uint32_t i = 0; i < OUTER_NAMES; i++) {
        if (outer.names[i] != NULL && is_name(string, outer.names[i])) {
            return true;
        }
    }
    for (uint32_t layer = 0; layer < model->shape.layers; layer++) {
        for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
            if ((or_arch_layer_has(&model->shape, t, layer) || t->layers == OR_WITH_OWN_KV) &&
                is_name(string, or_tensor_name(layer, t->suffix).text)) {
                return true;
            }
        }
    }
    return false;
}

// A layer that attends to K and V of another one may have its own in the file all the same.
static bool is_unread(const or_model_t *model, uint32_t layer, const or_arch_tensor_t *t)
{
    return t->layers == OR_WITH_OWN_KV &&
           or_gguf_find_tensor(model->gguf, or_tensor_name(layer, t->suffix).text) != NULL;
}

static uint64_t count_known(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const outer_names_t outer = outer_names(model);
    uint64_t known = 0;
    for (uint32_t i = 0; i < OUTER_NAMES; i++) {
        known += outer.names[i] != NULL && or_gguf_find_tensor(model->gguf, outer.names[i]) != NULL;
    }
    for (uint32_t layer = 0; layer < model->shape.layers; layer++) {
        for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
            or_gguf_tensor_t tensor;
            bool has = or_arch_layer_has(&model->shape, t, layer);
            bool counts = has && (t->fused == NULL || t->part == 0); // once for all its parts
            known += counts && (!t->optional || or_tensor_find_part(model, layer, t, &tensor));
            known += !has && is_unread(model, layer, t);
        }
    }
    return known;
}

// A tensor without a place in the graph (a bias, an expert, a table of frequencies) would be left
// out of the sum in silence.
static or_status_t refuse_unknown_tensors(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    if (or_gguf_tensor_count(model->gguf) == count_known(model)) {
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

// A bias that may be there needs the weights that it belongs to: without them no operation reads it.
static bool has_weights(const or_model_t *model, uint32_t layer, const or_arch_tensor_t *t)
{
    or_tensor_name_t name = or_tensor_name(layer, t->suffix);
    char *end = strrchr(name.text, '.');
    if (strcmp(end, ".bias") != 0) {
        return true;
    }
    snprintf(end, sizeof ".weight", ".weight");
    return or_gguf_find_tensor(model->gguf, name.text) != NULL;
}

static or_status_t check_layer_tensor(const or_model_t *model, uint32_t index,
                                      const or_arch_tensor_t *t)
{
    const or_gguf_tensor_t *tensor;
    const or_tensor_name_t name = or_tensor_name(index, t->suffix);
    if (t->optional && or_gguf_find_tensor(model->gguf, name.text) == NULL) {
        return OR_OK;
    }
    if (t->optional && !has_weights(model, index, t)) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s has tensor %s without its weights",
                       or_gguf_path(model->gguf), name.text);
    }
    const or_model_shape_t shape = or_arch_layer_shape(&model->shape, index);
    const uint32_t total = or_tensor_part(&shape, t).total;
    const uint32_t matrices = or_arch_matrices(&shape, t);
    if (t->outputs != OR_DIM_ONE) {
        return or_tensor_find(model->gguf, name.text, or_arch_dim(&shape, t->inputs), total,
                              matrices, &tensor);
    }
    or_status_t status = or_tensor_find(model->gguf, name.text, total, matrices, 1, &tensor);
    return status != OR_OK ? status : or_tensor_check_type(model->gguf, name.text, tensor, true);
}

static or_status_t check_layer(const or_model_t *model, uint32_t index)
{
    or_status_t status = OR_OK;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors;
         status == OR_OK && t->suffix != NULL; t++) {
        status = or_arch_layer_has(&model->shape, t, index) ? check_layer_tensor(model, index, t)
                                                            : OR_OK;
    }
    return status;
}

static or_status_t check_inputs(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_model_shape_t *shape = &model->shape;
    const uint32_t all = shape->layers * shape->layer_input;
    const or_gguf_tensor_t *tensor;
    if (shape->layer_input == 0) {
        return OR_OK;
    }
    or_status_t status =
        or_tensor_find(model->gguf, arch->input_embedding, all, shape->vocab_size, 1, &tensor);
    status = status != OR_OK ? status
                             : or_tensor_find(model->gguf, arch->input_projection, shape->width,
                                              all, 1, &tensor);
    return status != OR_OK
               ? status
               : or_tensor_find(model->gguf, arch->input_norm, shape->layer_input, 1, 1, &tensor);
}

or_status_t or_tensors_check(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_model_shape_t *shape = &model->shape;
    const struct {
        const char *name;
        uint32_t outputs;
        bool optional;
    } outer[] = {{arch->embedding, shape->vocab_size, false},
                 {arch->output_norm, 1, false},
                 {arch->output_norm_bias, 1, false},
                 {arch->positions, shape->context, false},
                 {arch->head, shape->vocab_size, true}};
    const or_gguf_tensor_t *tensor;
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof outer / sizeof *outer; i++) {
        const char *name = outer[i].name;
        bool wanted =
            name != NULL && !(outer[i].optional && or_gguf_find_tensor(model->gguf, name) == NULL);
        status = wanted
                     ? or_tensor_find(model->gguf, name, shape->width, outer[i].outputs, 1, &tensor)
                     : OR_OK;
    }
    if (status == OR_OK && arch->head_bias != NULL) {
        status = or_tensor_find(model->gguf, arch->head_bias, shape->vocab_size, 1, 1, &tensor);
    }
    status = status != OR_OK ? status : check_inputs(model);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        status = check_layer(model, i);
    }
    return status != OR_OK ? status : refuse_unknown_tensors(model);
}
