#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "launch/model/convert/convert_plan_internal.h"

#define HEAD "lm_head.weight"

// ---- one tensor ----

static or_status_t add(or_convert_plan_t *plan, const or_convert_item_t *item)
{
    if (plan->count == plan->capacity) {
        uint64_t capacity = 2 * plan->capacity + 64;
        or_convert_item_t *items = reallocarray(plan->items, capacity, sizeof *items);
        if (items == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a list of %" PRIu64 " tensors",
                           capacity);
        }
        plan->items = items;
        plan->capacity = capacity;
    }
    plan->items[plan->count] = *item;
    plan->items[plan->count++].matrices = item->matrices > 0 ? item->matrices : 1;
    return OR_OK;
}

// A vector may be the only row of a matrix.
static bool fits_vector(const or_safetensor_t *tensor, uint32_t width)
{
    return (tensor->dim_count == 1 && tensor->dims[0] == width) ||
           (tensor->dim_count == 2 && tensor->dims[0] == 1 && tensor->dims[1] == width);
}

static or_status_t check_shape(const or_convert_plan_t *plan, const or_convert_item_t *item,
                               uint64_t source)
{
    const or_safetensor_t *tensor = or_checkpoint_at(plan->checkpoint, source);
    const char *path = or_checkpoint_path_of(plan->checkpoint, source);
    uint64_t rows = (uint64_t)item->first_row + item->rows;
    uint64_t outer = item->is_transposed ? item->width : rows;
    uint64_t inner = item->is_transposed ? rows : item->width;
    bool fits = item->is_vector ? fits_vector(tensor, item->width)
                                : tensor->dim_count == 2 && tensor->dims[0] == outer &&
                                      tensor->dims[1] == inner;
    if (!fits) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: tensor %.96s has %u dimensions, [%" PRIu64 ", %" PRIu64
                       "]; the config makes it [%" PRIu64 ", %" PRIu64 "]",
                       path, tensor->name, tensor->dim_count, tensor->dims[0], tensor->dims[1],
                       item->is_vector ? inner : outer, item->is_vector ? 1 : inner);
    }
    return or_plan_is_readable(plan, source)
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s: tensor %.96s is of dtype %s; F32, F16 and BF16 are read", path,
                         tensor->name, tensor->dtype);
}

or_status_t or_plan_find_tensor(or_convert_plan_t *plan, const char *theirs, uint64_t *source)
{
    *source = or_checkpoint_find(plan->checkpoint, theirs);
    if (*source == or_checkpoint_count(plan->checkpoint)) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_checkpoint_folder(plan->checkpoint),
                       theirs);
    }
    plan->used[*source] = true;
    return or_plan_find_scales(plan, theirs, *source);
}

// Find a tensor of the checkpoint and check its shape.
static or_status_t find_source(or_convert_plan_t *plan, const or_convert_item_t *item,
                               const char *theirs, uint64_t *source)
{
    or_status_t status = or_plan_find_tensor(plan, theirs, source);
    return status != OR_OK ? status : check_shape(plan, item, *source);
}

or_status_t or_plan_add_found(or_convert_plan_t *plan, or_convert_item_t *item)
{
    item->tensor = or_checkpoint_at(plan->checkpoint, item->source);
    or_tensor_type_t own = item->is_packed                  ? OR_TENSOR_MXFP4
                           : plan->scales[item->source] > 0 ? OR_TENSOR_BF16
                                                            : item->tensor->type;
    bool is_router = or_weight_is_router((or_gguf_string_t){item->name, strlen(item->name)});
    or_tensor_type_t type = plan->type != NULL && !is_router ? *plan->type : own;
    bool keeps_f32 = item->is_vector || item->type == OR_TENSOR_F32;
    item->type = keeps_f32 ? OR_TENSOR_F32 : or_weight_type_for(type, item->width);
    return add(plan, item);
}

// Add a tensor of the checkpoint, under its name there.
static or_status_t add_named(or_convert_plan_t *plan, const char *theirs, or_convert_item_t *item)
{
    or_status_t status = find_source(plan, item, theirs, &item->source);
    return status != OR_OK ? status : or_plan_add_found(plan, item);
}

// The type of matrices that may be any; add_named chooses.
#define ANY_TYPE OR_TENSOR_F16

// ---- tensors outside layers ----

static or_status_t add_outer(const or_plan_names_t *names, const char *ours, const char *theirs,
                             or_convert_item_t item)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", names->outer, theirs);
    snprintf(item.name, sizeof item.name, "%s", ours);
    return add_named(names->plan, name, &item);
}

// Find out whether the checkpoint's names have the family's prefix.
static or_plan_names_t find_prefix(or_convert_plan_t *plan)
{
    const or_hf_family_t *family = plan->config->family;
    uint64_t none = or_checkpoint_count(plan->checkpoint);
    char name[128];
    snprintf(name, sizeof name, "%s%s", family->outer, family->embedding);
    bool lacks_it = or_checkpoint_find(plan->checkpoint, name) == none &&
                    or_checkpoint_find(plan->checkpoint, family->embedding) != none;
    return (or_plan_names_t){plan, lacks_it ? "" : family->outer};
}

static or_status_t add_embeddings(const or_plan_names_t *names)
{
    const or_hf_config_t *config = names->plan->config;
    const or_model_shape_t *shape = &config->shape;
    or_status_t status = add_outer(
        names, config->arch->embedding, config->family->embedding,
        (or_convert_item_t){.rows = shape->vocab_size, .width = shape->width, .type = ANY_TYPE});
    if (status == OR_OK && config->family->positions != NULL) {
        status = add_outer(names, config->arch->positions, config->family->positions,
                           (or_convert_item_t){.rows = shape->context,
                                               .width = shape->width,
                                               .first_row = config->family->positions_before,
                                               .type = OR_TENSOR_F32});
    }
    return status;
}

// What makes the layers' own inputs.
static or_status_t add_inputs(const or_plan_names_t *names)
{
    const or_hf_config_t *config = names->plan->config;
    const or_hf_family_t *family = config->family;
    const or_model_shape_t *shape = &config->shape;
    const uint32_t all = shape->layers * shape->layer_input;
    if (shape->layer_input == 0) {
        return OR_OK;
    }
    or_status_t status =
        add_outer(names, config->arch->input_embedding, family->input_embedding,
                  (or_convert_item_t){.rows = shape->vocab_size, .width = all, .type = ANY_TYPE});
    status =
        status != OR_OK
            ? status
            : add_outer(names, config->arch->input_projection, family->input_projection,
                        (or_convert_item_t){.rows = all, .width = shape->width, .type = ANY_TYPE});
    return status != OR_OK
               ? status
               : add_outer(names, config->arch->input_norm, family->input_norm,
                           (or_convert_item_t){
                               .rows = 1, .width = shape->layer_input, .is_vector = true});
}

static or_status_t add_ropes(or_convert_plan_t *plan)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < OR_ROPE_TENSORS_MAX; i++) {
        const or_rope_tensor_t *rope = &plan->config->ropes[i];
        or_convert_item_t item = {.values = rope->values,
                                  .rows = 1,
                                  .width = rope->count,
                                  .is_vector = true,
                                  .type = OR_TENSOR_F32};
        if (rope->name != NULL) {
            snprintf(item.name, sizeof item.name, "%s", rope->name);
            status = add(plan, &item);
        }
    }
    return status;
}

static or_status_t add_output(const or_plan_names_t *names)
{
    const or_hf_config_t *config = names->plan->config;
    const or_arch_t *arch = config->arch;
    char name[64];
    or_convert_item_t item = {.rows = 1,
                              .width = config->shape.width,
                              .is_vector = true,
                              .is_less_one = config->family->norms_less_one};
    snprintf(name, sizeof name, "%s.weight", config->family->norm);
    or_status_t status = add_outer(names, arch->output_norm, name, item);
    if (status == OR_OK && arch->output_norm_bias != NULL) {
        item.is_less_one = false;
        snprintf(name, sizeof name, "%s.bias", config->family->norm);
        status = add_outer(names, arch->output_norm_bias, name, item);
    }
    if (status == OR_OK && arch->head_bias != NULL) {
        or_convert_item_t bias = {.rows = 1, .width = config->shape.vocab_size, .is_vector = true};
        snprintf(bias.name, sizeof bias.name, "%s", arch->head_bias);
        status = add_named(names->plan, "lm_head.bias", &bias);
    }
    if (status != OR_OK || config->is_tied) {
        return status;
    }
    or_convert_item_t head = {
        .rows = config->shape.vocab_size, .width = config->shape.width, .type = ANY_TYPE};
    snprintf(head.name, sizeof head.name, "%s", arch->head);
    return add_named(names->plan, HEAD, &head);
}

// ---- tensors of layers ----

bool or_plan_is_suffix(const or_arch_tensor_t *row, const char *module)
{
    size_t length = strlen(module);
    return strncmp(row->suffix, module, length) == 0 && row->suffix[length] == '.';
}

// The heads whose rows move, of tensors that are rotated as pairs of neighbours.
static uint32_t heads_of(const or_hf_config_t *config, const or_arch_tensor_t *row)
{
    return !config->family->pairs_halves      ? 0
           : or_plan_is_suffix(row, "attn_q") ? config->shape.heads
           : or_plan_is_suffix(row, "attn_k") ? config->shape.kv_heads
                                              : 0;
}

// The outputs of a tensor, or its elements if it is a vector: all parts of a fused one.
static uint32_t outputs_of(const or_model_shape_t *shape, const or_arch_tensor_t *row)
{
    uint32_t outputs = 0;
    for (const or_dim_t *dim = row->fused; dim != NULL && *dim != OR_DIM_ONE; dim++) {
        outputs += or_arch_dim(shape, *dim);
    }
    bool vector = row->outputs == OR_DIM_ONE;
    return row->fused != NULL ? outputs : or_arch_dim(shape, vector ? row->inputs : row->outputs);
}

// Return what the new file has of a row of the table in a layer.
static or_convert_item_t item_of(const or_hf_config_t *config, const or_hf_tensor_t *tensor,
                                 const or_arch_tensor_t *row)
{
    static const char ending[] = "_norm.weight";
    const or_hf_family_t *family = config->family;
    const or_model_shape_t own = or_arch_layer_shape(&config->shape, tensor->layer);
    const or_model_shape_t *shape = &own;
    const size_t length = strlen(row->suffix), end = sizeof ending - 1;
    const bool is_norm = length > end && strcmp(row->suffix + length - end, ending) == 0;
    const bool vector = row->outputs == OR_DIM_ONE;
    const bool grouped = family->groups_heads && or_plan_is_suffix(row, "attn_qkv");
    const uint32_t outputs = outputs_of(shape, row);
    or_convert_item_t item = {.rows = vector ? 1 : outputs,
                              .width = vector ? outputs : or_arch_dim(shape, row->inputs),
                              .matrices = or_arch_matrices(shape, row),
                              .is_vector = vector,
                              .type = ANY_TYPE,
                              .heads = heads_of(config, row),
                              .groups = grouped ? shape->kv_heads : 0,
                              .head_rows = shape->head_dim,
                              .is_transposed = !vector && family->has_inputs_first,
                              .is_less_one = is_norm && family->norms_less_one};
    snprintf(item.name, sizeof item.name, "blk.%u.%s", tensor->layer, row->suffix);
    return item;
}

or_status_t or_plan_find_name(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                              char *name, size_t capacity, bool *has)
{
    const or_convert_plan_t *plan = names->plan;
    char theirs[OR_CONVERT_NAME_BYTES];
    *has = false;
    for (uint32_t choice = 0;
         !*has && or_hf_layer_name(plan->config->family, tensor, choice, theirs, sizeof theirs);
         choice++) {
        char other[128];
        snprintf(other, sizeof other, "%s%s", names->outer, theirs);
        *has = or_checkpoint_find(plan->checkpoint, other) < or_checkpoint_count(plan->checkpoint);
        if (choice == 0 || *has) {
            snprintf(name, capacity, "%s", other);
        }
    }
    return name[0] != '\0' ? OR_OK
                           : or_fail(OR_ERR_UNSUPPORTED, "no name of %s is known for tensors %s",
                                     plan->config->family->architecture, tensor->suffix);
}

// Check that the experts of a tensor are all of one type: the new file has one for all.
static or_status_t check_types(const or_convert_plan_t *plan, const or_convert_item_t *item)
{
    const or_safetensor_t *first = or_checkpoint_at(plan->checkpoint, item->experts[0]);
    for (uint32_t e = 1; e < item->matrices; e++) {
        const or_safetensor_t *other = or_checkpoint_at(plan->checkpoint, item->experts[e]);
        if (strcmp(other->dtype, first->dtype) != 0) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: tensor %.96s is of dtype %s, and tensor %.96s of %s",
                           or_checkpoint_folder(plan->checkpoint), first->name, first->dtype,
                           other->name, other->dtype);
        }
    }
    return OR_OK;
}

// Add a tensor of all experts. Each is one of the checkpoint.
static or_status_t add_experts(const or_plan_names_t *names, or_hf_tensor_t tensor,
                               or_convert_item_t *item)
{
    or_convert_plan_t *plan = names->plan;
    or_status_t status = OR_OK;
    item->experts = calloc(item->matrices, sizeof *item->experts);
    if (item->experts == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a list of %u experts", item->matrices);
    }
    for (; status == OR_OK && tensor.expert < item->matrices; tensor.expert++) {
        char name[128] = "";
        bool has;
        status = or_plan_find_name(names, &tensor, name, sizeof name, &has);
        status =
            status != OR_OK ? status : find_source(plan, item, name, &item->experts[tensor.expert]);
    }
    item->source = item->experts[0];
    status = status != OR_OK ? status : check_types(plan, item);
    status = status != OR_OK ? status : or_plan_add_found(plan, item);
    if (status != OR_OK) {
        free(item->experts);
    }
    return status;
}

static bool is_of_experts(const or_arch_tensor_t *row)
{
    return row->inputs == OR_DIM_EXPERT_FFN || row->outputs == OR_DIM_EXPERT_FFN ||
           row->inputs == OR_DIM_EXPERT_WIDTH;
}

static bool is_of_heads(const or_arch_tensor_t *row)
{
    return row->inputs == OR_DIM_HEAD_PLAIN || row->outputs == OR_DIM_HEAD_VALUE;
}

static or_status_t add_row(const or_plan_names_t *names, uint32_t layer,
                           const or_arch_tensor_t *row)
{
    const or_hf_tensor_t tensor = {.layer = layer, .suffix = row->suffix};
    or_convert_item_t item = item_of(names->plan->config, &tensor, row);
    if (is_of_experts(row)) {
        const or_hf_family_t *family = names->plan->config->family;
        return family->stacks_experts || family->stacks_as_gguf
                   ? or_plan_add_stacked(names, &tensor, row, &item)
                   : add_experts(names, tensor, &item);
    }
    if (is_of_heads(row)) {
        return or_plan_add_heads(names, &tensor, row, &item);
    }
    char name[128] = "";
    bool has;
    or_status_t status = or_plan_find_name(names, &tensor, name, sizeof name, &has);
    return status != OR_OK || (row->optional && !has) ? status
                                                      : add_named(names->plan, name, &item);
}

// K and V of a layer that attends to another's may be there all the same.
static or_status_t leave_out(const or_plan_names_t *names, uint32_t layer,
                             const or_arch_tensor_t *row)
{
    const or_hf_tensor_t tensor = {.layer = layer, .suffix = row->suffix};
    char name[128] = "";
    bool has = false;
    uint64_t source;
    or_status_t status = or_plan_find_name(names, &tensor, name, sizeof name, &has);
    return status == OR_OK && has ? or_plan_find_tensor(names->plan, name, &source) : status;
}

static or_status_t add_layers(const or_plan_names_t *names)
{
    const or_hf_config_t *config = names->plan->config;
    or_status_t status = OR_OK;
    for (uint32_t layer = 0; status == OR_OK && layer < config->shape.layers; layer++) {
        const or_arch_tensor_t *row = config->arch->layer_tensors;
        for (; status == OR_OK && row->suffix != NULL; row++) {
            bool has = row->part == 0 && or_arch_layer_has(&config->shape, row, layer);
            status = has                             ? add_row(names, layer, row)
                     : row->layers == OR_WITH_OWN_KV ? leave_out(names, layer, row)
                                                     : OR_OK;
        }
    }
    return status;
}

// ---- all of it ----

// Is it of a layer that only guesses tokens to come?
static bool is_of_guesses(const or_plan_names_t *names, const char *name)
{
    const or_hf_config_t *config = names->plan->config;
    char prefix[64];
    int length = snprintf(prefix, sizeof prefix, "%s%s", names->outer, config->family->layers);
    if (config->guess_layers == 0 || strncmp(name, prefix, (size_t)length) != 0) {
        return false;
    }
    unsigned long layer = strtoul(name + length, NULL, 10);
    return layer >= config->shape.layers && layer - config->shape.layers < config->guess_layers;
}

static or_status_t check_unused(const or_plan_names_t *names)
{
    const or_convert_plan_t *plan = names->plan;
    const or_checkpoint_t *checkpoint = plan->checkpoint;
    uint64_t of_guesses = 0, of_towers = 0;
    for (uint64_t i = 0; i < or_checkpoint_count(checkpoint); i++) {
        const char *name = or_checkpoint_at(checkpoint, i)->name;
        bool is_copy = plan->config->is_tied && strcmp(name, HEAD) == 0;
        bool is_unread = plan->config->quantised.kind == OR_HF_FP8 && or_hf_is_of_activations(name);
        if (plan->used[i] || is_copy || is_unread || or_hf_is_ignored(plan->config->family, name)) {
            continue;
        }
        if (or_hf_is_of_tower(plan->config->family, name)) {
            of_towers++;
            continue;
        }
        if (!is_of_guesses(names, name)) {
            return or_fail(OR_ERR_UNSUPPORTED, "%s: tensor %.96s has no place in %s",
                           or_checkpoint_path_of(checkpoint, i), name, plan->config->family->name);
        }
        of_guesses++;
    }
    if (of_guesses > 0) {
        or_log(OR_LOG_INFO, "%s: %" PRIu64 " tensors of layers that only guess tokens are left out",
               or_checkpoint_folder(checkpoint), of_guesses);
    }
    if (of_towers > 0) {
        or_log(OR_LOG_INFO,
               "%s: %" PRIu64 " tensors for images and sounds are left out; the file is the model "
               "of text alone",
               or_checkpoint_folder(checkpoint), of_towers);
    }
    return OR_OK;
}

or_status_t or_convert_plan(or_convert_plan_t *plan)
{
    plan->used = calloc(or_checkpoint_count(plan->checkpoint) + 1, sizeof *plan->used);
    plan->scales = calloc(or_checkpoint_count(plan->checkpoint) + 1, sizeof *plan->scales);
    if (plan->used == NULL || plan->scales == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a list of tensors");
    }
    const or_plan_names_t names = find_prefix(plan);
    or_status_t status = add_embeddings(&names);
    status = status != OR_OK ? status : add_inputs(&names);
    status = status != OR_OK ? status : add_ropes(plan);
    status = status != OR_OK ? status : add_layers(&names);
    status = status != OR_OK ? status : add_output(&names);
    return status != OR_OK ? status : check_unused(&names);
}

void or_convert_plan_fini(or_convert_plan_t *plan)
{
    for (uint64_t i = 0; i < plan->count; i++) {
        free(plan->items[i].experts);
    }
    free(plan->items);
    free(plan->used);
    free(plan->scales);
    plan->items = NULL;
    plan->scales = NULL;
    plan->used = NULL;
    plan->count = 0;
}
