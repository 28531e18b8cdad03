// Experts: how many there are, how a row chooses, and what stands beside them.
#include <stdio.h>

#include "launch/model/convert/config.h"

// ---- reading ----

static or_status_t read_shared(or_json_t json, const or_hf_expert_counts_t *keys,
                               or_model_shape_t *shape)
{
    uint32_t count = 0;
    if (keys->shared_ffn != NULL) {
        return or_hf_read_count(json, keys->shared_ffn, OR_HF_DIM_MAX, &shape->shared_ffn);
    }
    if (keys->shared_count == NULL) {
        return OR_OK;
    }
    or_status_t status =
        or_hf_read_count(json, keys->shared_count, OR_HF_DIM_MAX / shape->ffn, &count);
    shape->shared_ffn = count * shape->ffn;
    return status;
}

// Count the first layers of the kind "dense", behind which all are "sparse".
static or_status_t read_kinds(or_json_t json, const char *key, or_model_shape_t *shape)
{
    const json_t *kinds = json_object_get(json.object, key);
    shape->dense_layers = 1;
    if (!or_json_has(json, key)) {
        return OR_OK;
    }
    if (json_array_size(kinds) != shape->layers) {
        return or_fail(OR_ERR_FORMAT, "%s: \"%s\" does not list %u layers", json.path, key,
                       shape->layers);
    }
    shape->dense_layers = 0;
    for (uint32_t i = 0; i < shape->layers; i++) {
        const bool dense = or_json_is(json_array_get(kinds, i), "dense");
        if (!(dense && shape->dense_layers == i) &&
            !or_json_is(json_array_get(kinds, i), "sparse")) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: \"%s\" makes layer %u another than a sparse one, or a dense one "
                           "among the first, which this version does not run",
                           json.path, key, i);
        }
        shape->dense_layers += dense;
    }
    return OR_OK;
}

static or_status_t read_dense(or_json_t json, const or_hf_family_t *family, or_model_shape_t *shape)
{
    const char *key = family->experts->dense_layers;
    const char *kinds = family->experts->layer_kinds;
    or_status_t status = key != NULL     ? or_json_need_u32(json, key, &shape->dense_layers)
                         : kinds != NULL ? read_kinds(json, kinds, shape)
                                         : OR_OK;
    if (status != OR_OK || shape->dense_layers == 0) {
        return status;
    }
    return shape->dense_layers > shape->layers
               ? or_fail(OR_ERR_FORMAT, "%s: \"%s\" is %u, of %u layers", json.path,
                         key != NULL ? key : kinds, shape->dense_layers, shape->layers)
               : or_hf_read_count(json, family->counts->ffn, OR_HF_DIM_MAX, &shape->dense_ffn);
}

// DeepSeek V2 has groups where "topk_method" says so, V3 in any case; one group is none.
static or_status_t read_groups(or_json_t json, const or_hf_family_t *family,
                               or_model_shape_t *shape)
{
    const json_t *method = json_object_get(json.object, "topk_method");
    if (!family->gates_by_sigmoid && !or_json_is(method, "group_limited_greedy")) {
        return OR_OK;
    }
    uint32_t groups = 0, used = 0;
    or_status_t status = or_hf_read_count(json, "n_group", shape->experts, &groups);
    status = status != OR_OK ? status : or_hf_read_count(json, "topk_group", groups, &used);
    if (status == OR_OK && groups > 1) {
        shape->expert_groups = groups;
        shape->expert_groups_used = used;
    }
    return status == OR_OK && shape->experts % groups != 0
               ? or_fail(OR_ERR_FORMAT, "%s: %u experts are not %u groups of equal size", json.path,
                         shape->experts, groups)
               : status;
}

// transformers normalises by default where sigmoids choose.
static or_status_t read_routing(or_json_t json, const or_hf_config_t *config,
                                or_model_shape_t *shape)
{
    const or_hf_family_t *family = config->family;
    shape->routes_by_sigmoid = family->gates_by_sigmoid;
    shape->normalises_experts = config->arch->normalises_experts;
    if (!family->tells_routing) {
        return OR_OK;
    }
    shape->normalises_experts = family->gates_by_sigmoid;
    or_status_t status = or_json_get_bool(json, "norm_topk_prob", &shape->normalises_experts);
    return status != OR_OK ? status : read_groups(json, family, shape);
}

// Layers behind the last that guess tokens to come. Their number has two names.
static or_status_t read_guess_layers(or_json_t json, or_hf_config_t *config)
{
    static const char *const keys[] = {"num_nextn_predict_layers", "num_mtp_layers"};
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof keys / sizeof *keys; i++) {
        status = or_json_get_u32(json, keys[i], &config->guess_layers);
    }
    return status;
}

or_status_t or_hf_experts_read(or_json_t json, or_hf_config_t *config)
{
    const or_hf_expert_counts_t *keys = config->family->experts;
    or_model_shape_t *shape = &config->shape;
    if (keys == NULL) {
        return OR_OK;
    }
    const char *key = or_json_has(json, keys->experts) ? keys->experts : keys->experts_before;
    or_status_t status = or_hf_read_count(json, key, OR_EXPERTS_MAX, &shape->experts);
    shape->fuses_experts = config->family->stacks_as_gguf;
    status = status != OR_OK
                 ? status
                 : or_hf_read_count(json, keys->used, shape->experts, &shape->experts_used);
    status = status != OR_OK ? status : read_shared(json, keys, shape);
    status = status != OR_OK ? status : read_dense(json, config->family, shape);
    status = status != OR_OK ? status : read_routing(json, config, shape);
    return status != OR_OK || !config->family->gates_by_sigmoid ? status
                                                                : read_guess_layers(json, config);
}

// ---- writing ----

static or_status_t write_shared(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    if (shape->shared_ffn == 0 || !config->arch->has_shared_expert) {
        return OR_OK; // or it is the size of the usual network
    }
    return config->family->experts->shared_count != NULL
               ? or_hf_set_u32(config, writer, "expert_shared_count",
                               shape->shared_ffn / shape->ffn)
               : or_hf_set_u32(config, writer, "expert_shared_feed_forward_length",
                               shape->shared_ffn);
}

static or_status_t write_routing(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    const uint32_t softmax = 1, sigmoid = 2; // GGUF's numbers
    char key[96];
    if (!config->family->tells_routing && !config->family->gates_by_sigmoid) {
        return OR_OK;
    }
    snprintf(key, sizeof key, "%s.expert_weights_norm", config->family->name);
    or_status_t status = or_gguf_writer_set_bool(writer, key, shape->normalises_experts);
    status = status != OR_OK ? status
                             : or_hf_set_u32(config, writer, "expert_gating_func",
                                             shape->routes_by_sigmoid ? sigmoid : softmax);
    if (status == OR_OK && shape->expert_groups > 0) {
        status = or_hf_set_u32(config, writer, "expert_group_count", shape->expert_groups);
        status = status != OR_OK ? status
                                 : or_hf_set_u32(config, writer, "expert_group_used_count",
                                                 shape->expert_groups_used);
    }
    return status;
}

// Write the counts of experts, and the size of the network of layers without them, if the config has it.
or_status_t or_hf_experts_write(or_json_t json, const or_hf_config_t *config,
                                or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    uint32_t ffn = shape->ffn;
    if (config->family->experts == NULL) {
        return or_hf_set_u32(config, writer, "feed_forward_length", ffn);
    }
    or_status_t status = or_json_get_u32(json, config->family->counts->ffn, &ffn);
    status = status != OR_OK ? status : or_hf_set_u32(config, writer, "feed_forward_length", ffn);
    status =
        status != OR_OK ? status : or_hf_set_u32(config, writer, "expert_count", shape->experts);
    status = status != OR_OK
                 ? status
                 : or_hf_set_u32(config, writer, "expert_used_count", shape->experts_used);
    if (status == OR_OK && config->arch->ffn_key != NULL) {
        status = or_hf_set_u32(config, writer, config->arch->ffn_key, shape->ffn);
    }
    if (status == OR_OK && (config->family->experts->dense_layers != NULL ||
                            config->family->experts->layer_kinds != NULL)) {
        status = or_hf_set_u32(config, writer, "leading_dense_block_count", shape->dense_layers);
    }
    status = status != OR_OK ? status : write_shared(config, writer);
    return status != OR_OK ? status : write_routing(config, writer);
}
