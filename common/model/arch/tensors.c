#include "common/model/arch/tensors_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

or_tensor_name_t or_tensor_name(uint32_t layer, const char *suffix)
{
    or_tensor_name_t name;
    snprintf(name.text, sizeof name.text, "blk.%u.%s", layer, suffix);
    return name;
}

or_status_t or_tensor_check_type(const or_gguf_t *gguf, const char *name,
                                 const or_gguf_tensor_t *tensor, bool is_vector)
{
    bool is_quantised = or_gguf_tensor_block(tensor->type).elements > 1;
    return tensor->data != NULL && !(is_vector && is_quantised)
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "tensor %s of %s is of type %s; this version computes with %s", name,
                         or_gguf_path(gguf), or_gguf_tensor_type_name(tensor->type),
                         is_vector ? "F32, F16 and BF16 there" : OR_TENSOR_TYPES_TEXT);
}

or_status_t or_tensor_find(const or_gguf_t *gguf, const char *name, uint32_t inputs,
                           uint32_t outputs, uint32_t matrices, const or_gguf_tensor_t **tensor_p)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, name);
    if (tensor == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_gguf_path(gguf), name);
    }
    if (tensor->dims[0] != inputs || tensor->dims[1] != outputs || tensor->dims[2] != matrices ||
        tensor->dims[3] != 1) {
        return or_fail(OR_ERR_FORMAT,
                       "tensor %s of %s has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                       "]; its metadata make it [%u, %u, %u, 1]",
                       name, or_gguf_path(gguf), tensor->dims[0], tensor->dims[1], tensor->dims[2],
                       tensor->dims[3], inputs, outputs, matrices);
    }
    *tensor_p = tensor;
    return or_tensor_check_type(gguf, name, tensor, outputs == 1);
}

// ---- parts of fused tensors ----

or_tensor_part_t or_tensor_part(const or_model_shape_t *shape, const or_arch_tensor_t *t)
{
    uint32_t length = or_arch_dim(shape, t->outputs != OR_DIM_ONE ? t->outputs : t->inputs);
    or_tensor_part_t part = {0, length, length};
    if (t->fused == NULL) {
        return part;
    }
    part.total = 0;
    for (uint32_t i = 0; t->fused[i] != OR_DIM_ONE; i++) {
        part.begin = i == t->part ? part.total : part.begin;
        part.total += or_arch_dim(shape, t->fused[i]);
    }
    return part;
}

bool or_tensor_find_part(const or_model_t *model, uint32_t layer, const or_arch_tensor_t *t,
                         or_gguf_tensor_t *tensor)
{
    const or_gguf_tensor_t *whole =
        or_gguf_find_tensor(model->gguf, or_tensor_name(layer, t->suffix).text);
    if (whole == NULL || !or_arch_layer_has(&model->shape, t, layer)) {
        return false;
    }
    const or_model_shape_t shape = or_arch_layer_shape(&model->shape, layer);
    const or_tensor_part_t part = or_tensor_part(&shape, t);
    *tensor = *whole;
    if (t->fused != NULL) {
        const uint64_t matrices = whole->dims[2];
        const uint64_t unit_bytes = whole->bytes / matrices / part.total;
        tensor->dims[t->outputs != OR_DIM_ONE ? 1 : 0] = part.length;
        tensor->elements = whole->elements / part.total * part.length;
        tensor->data = (const char *)whole->data + part.begin * unit_bytes;
        tensor->bytes = matrices * part.length * unit_bytes;
        tensor->matrix_stride = matrices > 1 ? part.total * unit_bytes : 0;
    }
    return true;
}

static or_status_t load_vector(or_model_t *model, const or_gguf_tensor_t *tensor, float **vector_p)
{
    uint32_t length = (uint32_t)tensor->elements;
    float *vector = or_zeroed(length, sizeof *vector);
    if (vector == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a tensor of %u elements", length);
    }
    or_tensor_read_row(tensor, 0, length, vector);
    or_gguf_release(model->gguf, tensor);
    model->weight_bytes += length * sizeof *vector;
    *vector_p = vector;
    return OR_OK;
}

// A vector of a layer, of the head, or of inputs: where passes run.
static or_status_t load_layer_vector(or_model_t *model, const or_gguf_tensor_t *tensor,
                                     float **vector_p)
{
    or_status_t status = load_vector(model, tensor, vector_p);
    return status != OR_OK ? status
                           : or_gpu_take_floats(model->gpu, vector_p, (uint32_t)tensor->elements);
}

or_status_t or_tensor_packed_name(const or_model_t *model, const or_gguf_tensor_t *tensor,
                                  char name[OR_PACKED_NAME_BYTES])
{
    or_status_t status = or_packed_name(tensor, 0, name);
    if (status == OR_OK) {
        const or_gguf_tensor_t *whole = or_gguf_find_tensor(model->gguf, name);
        uint64_t offset = (uint64_t)((const char *)tensor->data - (const char *)whole->data);
        status = or_packed_name(tensor, offset, name);
    }
    return status;
}

// Return all panels of a matrix in the packed file; NULL: they are not there.
static const void *find_packed(const or_model_t *model, const or_gguf_tensor_t *tensor)
{
    char name[OR_PACKED_NAME_BYTES];
    if (model->packed == NULL || or_gpu_tensor_takes(model->gpu, tensor) ||
        or_tensor_packed_name(model, tensor, name) != OR_OK) {
        return NULL;
    }
    const or_span_t outputs = {0, (uint32_t)tensor->dims[1]};
    const or_span_t inputs = {0, (uint32_t)tensor->dims[0]};
    return or_packed_find(model->packed, name, or_matrix_describe(tensor, outputs, inputs).bytes);
}

// A GPU gets a copy of its own, as it takes what is packed from the host.
static or_status_t map_matrix(or_model_t *model, const or_gguf_tensor_t *tensor, or_span_t outputs,
                              or_span_t inputs, const void *panels, or_matrix_t *matrix)
{
    const or_matrix_t mapped = or_matrix_map(tensor, outputs, inputs, panels);
    if (model->gpu != NULL) {
        return or_matrix_copy(model->workers, &mapped, matrix);
    }
    *matrix = mapped;
    return OR_OK;
}

static or_status_t load_matrix(or_model_t *model, const or_gguf_tensor_t *tensor, or_span_t outputs,
                               or_span_t inputs, or_matrix_t *matrix)
{
    const void *panels = find_packed(model, tensor);
    or_status_t status = panels != NULL ? map_matrix(model, tensor, outputs, inputs, panels, matrix)
                         : or_gpu_tensor_takes(model->gpu, tensor)
                             ? or_matrix_pack_rows(model->workers, tensor, outputs, inputs, matrix)
                             : or_matrix_pack(model->workers, tensor, outputs, inputs, matrix);
    if (status == OR_OK) {
        or_gguf_release(model->gguf, tensor); // its pages of the file are not needed any more
        model->weight_bytes += matrix->bytes;
        model->mapped_bytes += matrix->borrowed ? matrix->bytes : 0;
    }
    return status;
}

// ---- rotations ----

// Return the table of factors that the file's context asks for; NULL if there is none.
static const char *factors_name(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    if (arch->rope_factors_long == NULL) {
        return arch->rope_factors;
    }
    return model->shape.context > model->numbers.rope_original ? arch->rope_factors_long
                                                               : arch->rope_factors_short;
}

// Load the factors that divide the frequencies of rotation, if the file has them.
static or_status_t load_rope_factors(or_model_t *model)
{
    const char *name = factors_name(model);
    uint32_t count = model->numbers.rope_dims / 2;
    if (name == NULL || or_gguf_find_tensor(model->gguf, name) == NULL) {
        return OR_OK;
    }
    const or_gguf_tensor_t *tensor;
    or_status_t status = or_tensor_find(model->gguf, name, count, 1, 1, &tensor);
    status = status != OR_OK ? status : load_vector(model, tensor, &model->rope_factors);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        float factor = model->rope_factors[i];
        if (!isfinite(factor) || factor <= 0) {
            return or_fail(OR_ERR_FORMAT, "tensor %s of %s has the number %g; all must be positive",
                           name, or_gguf_path(model->gguf), (double)factor);
        }
    }
    return status;
}

// ---- layers ----

static or_span_t times(or_span_t span, uint32_t factor)
{
    return (or_span_t){span.begin * factor, span.end * factor};
}

// Return the part that this rank has of a dimension of a layer with this shape.
static or_span_t share_of(const or_model_t *model, const or_model_shape_t *shape, or_dim_t dim)
{
    switch (dim) {
    case OR_DIM_QUERY:
        return times(model->share.heads, shape->head_dim);
    case OR_DIM_KV:
        return times(or_share_kv_heads(&model->share, shape), shape->head_dim);
    case OR_DIM_LATENT_QUERY:
        return times(model->share.heads, shape->query_dim);
    case OR_DIM_LATENT_VALUE:
        return times(model->share.heads, shape->value_dim);
    case OR_DIM_FFN:
        return or_share_ffn(&model->share, shape->ffn);
    case OR_DIM_EXPERT_FFN:
        return model->share.ffn;
    case OR_DIM_SHARED_FFN:
        return model->share.shared_ffn;
    case OR_DIM_DENSE_FFN:
        return model->share.dense_ffn;
    case OR_DIM_WIDTH:
    case OR_DIM_EXPERT_WIDTH:
    case OR_DIM_EXPERTS:
    case OR_DIM_HEADS:
    case OR_DIM_HEAD:
    case OR_DIM_ALL_QUERY:
    case OR_DIM_ALL_KV:
    case OR_DIM_QUERY_LATENT:
    case OR_DIM_LATENT:
    case OR_DIM_HEAD_PLAIN:
    case OR_DIM_HEAD_VALUE:
    case OR_DIM_LAYER_INPUT:
    case OR_DIM_ONE:
        break;
    }
    return (or_span_t){0, or_arch_dim(shape, dim)};
}

// While a layer is packed the system fetches the next one, if it is not in memory already.
static void expect_layer(const or_model_t *model, uint32_t index)
{
    if (model->packed != NULL) {
        return; // its matrices are read there
    }
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        or_tensor_name_t name = or_tensor_name(index, t->suffix);
        const or_gguf_tensor_t *tensor = or_gguf_find_tensor(model->gguf, name.text);
        if (tensor != NULL) {
            or_gguf_expect(model->gguf, tensor);
        }
    }
}

static or_layer_t *layer_of(const or_model_t *model, uint32_t index)
{
    return &model->layers[index - model->share.layers.begin];
}

static void describe_layer(const or_model_t *model, uint32_t index)
{
    const or_arch_numbers_t *numbers = &model->numbers;
    const or_model_shape_t shape = or_arch_layer_shape(&model->shape, index);
    or_layer_t *layer = layer_of(model, index);
    layer->window = or_arch_window(model->arch, &shape, numbers, index);
    layer->rope = or_arch_rope(model->arch, &shape, numbers, index);
    layer->rope_dims = layer->rope == OR_ROPE_LOCAL ? numbers->rope_local_dims : numbers->rope_dims;
    layer->head_dim = shape.head_dim;
    layer->value_dim = shape.value_dim;
    layer->group = shape.heads / shape.kv_heads;
    layer->kv_heads = or_share_kv_heads(&model->share, &shape);
    layer->kv_layer = or_arch_kv_layer(&shape, index) - model->share.layers.begin;
    layer->ffn_size = shape.ffn;
    layer->ffn = or_share_ffn(&model->share, shape.ffn);
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        or_gguf_tensor_t tensor;
        if (t->outputs != OR_DIM_ONE && or_tensor_find_part(model, index, t, &tensor)) {
            *(or_matrix_t *)((char *)layer + t->offset) = or_matrix_describe(
                &tensor, share_of(model, &shape, t->outputs), share_of(model, &shape, t->inputs));
        }
    }
}

static or_status_t load_layer_matrix(or_model_t *model, uint32_t index, const or_arch_tensor_t *t,
                                     const or_gguf_tensor_t *tensor)
{
    or_matrix_t *matrix = (or_matrix_t *)((char *)layer_of(model, index) + t->offset);
    const or_model_shape_t shape = or_arch_layer_shape(&model->shape, index);
    or_status_t status = load_matrix(model, tensor, share_of(model, &shape, t->outputs),
                                     share_of(model, &shape, t->inputs), matrix);
    return status != OR_OK
               ? status
               : or_gpu_layers_take(model->gpu, index - model->share.layers.begin, matrix);
}

static or_status_t load_layer(or_model_t *model, uint32_t index)
{
    char *layer = (char *)layer_of(model, index);
    or_status_t status = OR_OK;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors;
         status == OR_OK && t->suffix != NULL; t++) {
        or_gguf_tensor_t tensor;
        if (or_tensor_find_part(model, index, t, &tensor)) {
            status = t->outputs == OR_DIM_ONE
                         ? load_layer_vector(model, &tensor, (float **)(layer + t->offset))
                         : load_layer_matrix(model, index, t, &tensor);
        }
    }
    return status;
}

// ---- all of them ----

const or_gguf_tensor_t *or_tensor_head(const or_model_t *model)
{
    const or_gguf_tensor_t *head = or_gguf_find_tensor(model->gguf, model->arch->head);
    return head != NULL ? head : or_gguf_find_tensor(model->gguf, model->arch->embedding);
}

static bool layer_has(const or_model_t *model, uint32_t layer, or_tensor_type_t type)
{
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        or_gguf_tensor_t tensor;
        if (t->outputs != OR_DIM_ONE && or_tensor_find_part(model, layer, t, &tensor) &&
            tensor.type == (uint32_t)type) {
            return true;
        }
    }
    return false;
}

bool or_tensors_have(const or_model_t *model, or_tensor_type_t type)
{
    bool has = or_tensor_head(model)->type == (uint32_t)type;
    for (uint32_t i = 0; !has && i < model->shape.layers; i++) {
        has = layer_has(model, i, type);
    }
    return has;
}

static bool is_quantised(const or_model_t *model, uint32_t layer, const or_arch_tensor_t *t)
{
    or_gguf_tensor_t tensor;
    return or_tensor_find_part(model, layer, t, &tensor) &&
           or_gguf_tensor_block(tensor.type).elements > 1;
}

bool or_tensors_quantised(const or_model_t *model, size_t offset)
{
    bool quantised = false;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        for (uint32_t i = 0; t->offset == offset && i < model->shape.layers; i++) {
            quantised = quantised || is_quantised(model, i, t);
        }
    }
    return quantised;
}

// The output norm and the head: the embedding where the file has no other.
static or_status_t load_head(or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_gguf_tensor_t *norm = or_gguf_find_tensor(model->gguf, arch->output_norm);
    or_status_t status = load_layer_vector(model, norm, &model->output_norm);
    if (status == OR_OK && arch->output_norm_bias != NULL) {
        status = load_layer_vector(model, or_gguf_find_tensor(model->gguf, arch->output_norm_bias),
                                   &model->output_norm_bias);
    }
    if (status == OR_OK && arch->head_bias != NULL) {
        status = load_layer_vector(model, or_gguf_find_tensor(model->gguf, arch->head_bias),
                                   &model->head_bias);
    }
    status = status != OR_OK
                 ? status
                 : load_matrix(model, or_tensor_head(model), model->share.vocab,
                               share_of(model, &model->shape, OR_DIM_WIDTH), &model->head);
    return status != OR_OK ? status
                           : or_gpu_take(model->gpu, &model->head.memory, model->head.bytes);
}

// Tensors that make the inputs of this stage's layers.
static or_status_t load_inputs(or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    const or_span_t outputs = times(model->share.layers, model->shape.layer_input);
    or_layer_inputs_t *inputs = &model->inputs;
    inputs->embedding = or_gguf_find_tensor(model->gguf, arch->input_embedding);
    or_status_t status =
        load_layer_vector(model, or_gguf_find_tensor(model->gguf, arch->input_norm), &inputs->norm);
    status =
        status != OR_OK
            ? status
            : load_matrix(model, or_gguf_find_tensor(model->gguf, arch->input_projection), outputs,
                          share_of(model, &model->shape, OR_DIM_WIDTH), &inputs->projection);
    return status != OR_OK
               ? status
               : or_gpu_take(model->gpu, &inputs->projection.memory, inputs->projection.bytes);
}

or_status_t or_tensors_load(or_model_t *model)
{
    const or_span_t layers = model->share.layers;
    if (model->share.embeds || model->shape.layer_input > 0) {
        model->embedding = or_gguf_find_tensor(model->gguf, model->arch->embedding);
        model->positions = model->arch->positions == NULL
                               ? NULL
                               : or_gguf_find_tensor(model->gguf, model->arch->positions);
    }
    model->layers = or_zeroed(or_span_length(layers), sizeof *model->layers);
    if (model->layers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u layers", or_span_length(layers));
    }
    or_status_t status = load_rope_factors(model);
    for (uint32_t i = layers.begin; i < layers.end; i++) {
        describe_layer(model, i);
    }
    status = status != OR_OK || model->shape.layer_input == 0 ? status : load_inputs(model);
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
        if (!or_arch_layer_has(&model->shape, t, model->share.layers.begin + index)) {
            continue; // another row has this place
        }
        if (t->outputs == OR_DIM_ONE) {
            or_gpu_give(model->gpu, *(float **)(layer + t->offset));
        } else if (!((or_matrix_t *)(layer + t->offset))->borrowed) {
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
    if (!model->head.borrowed) {
        or_gpu_give(model->gpu, model->head.memory);
    }
    or_gpu_give(model->gpu, model->output_norm);
    or_gpu_give(model->gpu, model->output_norm_bias);
    or_gpu_give(model->gpu, model->head_bias);
    free(model->rope_factors);
    or_gpu_give(model->gpu, model->inputs.norm);
    if (!model->inputs.projection.borrowed) {
        or_gpu_give(model->gpu, model->inputs.projection.memory);
    }
}
