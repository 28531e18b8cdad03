// Rotations: the base of their frequencies, the part of a head that is rotated, and how frequencies are scaled.
//
// transformers has written this in two forms. Today's is "rope_parameters", an object with "rope_theta" and "rope_type", or
// one such object for each kind of layer. The older one has "rope_theta" and "rope_local_base_freq" beside "rope_scaling",
// whose "rope_type" was "type" at first.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launch/model/convert/config.h"

#define TURN 6.283185307179586
#define STILL 1e30f        // what divides the frequency of a pair that is not rotated
#define LOCAL_BASE 10000.0 // of layers with a window that have a table of their own

// Rotations of one kind of layer. `scaling` has the numbers of its kind.
typedef struct {
    or_json_t scaling; // its object may be NULL
    or_gguf_string_t type;
    double base, rotated;
} rope_t;

static bool is_type(const rope_t *rope, const char *type)
{
    return rope->type.length == strlen(type) &&
           memcmp(rope->type.bytes, type, rope->type.length) == 0;
}

static or_status_t fail_scaling(const rope_t *rope, const or_hf_config_t *config, const char *why)
{
    return or_fail(OR_ERR_UNSUPPORTED, "%s: rotations are scaled by \"%.*s\", %s %s",
                   rope->scaling.path, rope->type.length > 32 ? 32 : (int)rope->type.length,
                   rope->type.bytes, why, config->family->name);
}

// ---- reading ----

static or_status_t read_scaling(or_json_t from, rope_t *rope)
{
    rope->scaling = from;
    rope->type = (or_gguf_string_t){"default", strlen("default")};
    or_status_t status = or_json_get_string(from, "type", &rope->type);
    return status != OR_OK ? status : or_json_get_string(from, "rope_type", &rope->type);
}

// Read the rotations of layers without a window from `main`, and of the others, where they have their own, from `local`.
static or_status_t read_today(or_json_t parameters, rope_t *main, rope_t *local)
{
    or_json_t full, sliding;
    or_status_t status = or_json_get_object(parameters, "full_attention", &full);
    status =
        status != OR_OK ? status : or_json_get_object(parameters, "sliding_attention", &sliding);
    if (status != OR_OK) {
        return status;
    }
    or_json_t own = full.object != NULL ? full : parameters;
    status = read_scaling(own, main);
    status = status != OR_OK ? status : or_json_get_number(own, "rope_theta", &main->base);
    status =
        status != OR_OK ? status : or_json_get_number(own, "partial_rotary_factor", &main->rotated);
    status = status != OR_OK ? status : read_scaling(sliding, local);
    return status != OR_OK ? status : or_json_get_number(sliding, "rope_theta", &local->base);
}

static or_status_t read_before(or_json_t json, rope_t *main, rope_t *local)
{
    or_json_t scaling;
    const or_json_t none = {json.path, NULL};
    or_status_t status = or_json_get_object(json, "rope_scaling", &scaling);
    status = status != OR_OK ? status : read_scaling(scaling, main);
    status = status != OR_OK ? status : read_scaling(none, local);
    status = status != OR_OK ? status : or_json_get_number(json, "rope_theta", &main->base);
    return status != OR_OK ? status
                           : or_json_get_number(json, "rope_local_base_freq", &local->base);
}

// Layers with a window have the others' base where the family has no table for them.
static or_status_t settle_local_base(const or_hf_config_t *config, const char *path,
                                     const rope_t *main, rope_t *local)
{
    bool has_table = config->arch->has_local_rope;
    if (local->base == 0) {
        local->base = has_table ? LOCAL_BASE : main->base;
    }
    return has_table || local->base == main->base
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s: layers with a window are rotated by a base of %g and the others by "
                         "%g, which this version does not do in %s",
                         path, local->base, main->base, config->family->name);
}

static or_status_t read_ropes(or_json_t json, const or_hf_family_t *family, rope_t *main,
                              rope_t *local)
{
    or_json_t parameters;
    *main = (rope_t){.base = family->rope_base, .rotated = family->rotated};
    *local = (rope_t){.base = 0};
    or_status_t status = or_json_get_object(json, "rope_parameters", &parameters);
    status = status != OR_OK ? status
                             : or_json_get_number(json, "partial_rotary_factor", &main->rotated);
    if (status != OR_OK) {
        return status;
    }
    return parameters.object != NULL ? read_today(parameters, main, local)
                                     : read_before(json, main, local);
}

// ---- factors of frequencies ----

static or_status_t need_positive(or_json_t from, const char *key, double *value)
{
    or_status_t status = or_json_need_number(from, key, value);
    return status == OR_OK && !(*value > 0)
               ? or_fail(OR_ERR_FORMAT, "%s: \"%s\" is not positive", from.path, key)
               : status;
}

static or_status_t add_tensor(or_hf_config_t *config, const char *name, uint32_t count)
{
    or_rope_tensor_t *tensor = config->ropes;
    tensor += tensor->name != NULL ? 1 : 0;
    tensor->values = calloc(count, sizeof(float));
    if (tensor->values == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for factors of rotations");
    }
    tensor->name = name;
    tensor->count = count;
    return OR_OK;
}

// Llama 3's rule: slow frequencies are divided by a factor, fast ones kept, with a ramp in between.
static or_status_t add_llama3(const rope_t *rope, uint32_t dims, or_hf_config_t *config)
{
    double factor = 0, low = 0, high = 0, original = 0;
    if (config->arch->rope_factors == NULL) {
        return fail_scaling(rope, config, "which this version does not do for");
    }
    or_status_t status = need_positive(rope->scaling, "factor", &factor);
    status = status != OR_OK ? status : need_positive(rope->scaling, "low_freq_factor", &low);
    status = status != OR_OK ? status : need_positive(rope->scaling, "high_freq_factor", &high);
    status = status != OR_OK
                 ? status
                 : need_positive(rope->scaling, "original_max_position_embeddings", &original);
    if (status == OR_OK && !(high > low)) {
        return or_fail(OR_ERR_FORMAT, "%s: \"high_freq_factor\" is not above \"low_freq_factor\"",
                       rope->scaling.path);
    }
    status = status != OR_OK ? status : add_tensor(config, config->arch->rope_factors, dims / 2);
    for (uint32_t i = 0; status == OR_OK && i < dims / 2; i++) {
        double turns = original * pow(rope->base, -2.0 * i / dims) / TURN;
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        config->ropes[0].values[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return status;
}

// The first part of a head's pairs is rotated, by frequencies that are those of all of it; the others stand still.
static or_status_t add_proportional(const rope_t *rope, uint32_t dims, or_hf_config_t *config)
{
    const uint32_t rotated = (uint32_t)(rope->rotated * dims / 2);
    double factor = 1;
    if (!config->arch->tells_layers) {
        return fail_scaling(rope, config, "which this version does not do for");
    }
    or_status_t status = or_json_has(rope->scaling, "factor")
                             ? need_positive(rope->scaling, "factor", &factor)
                             : OR_OK;
    status = status != OR_OK ? status : add_tensor(config, config->arch->rope_factors, dims / 2);
    for (uint32_t i = 0; status == OR_OK && i < dims / 2; i++) {
        config->ropes[0].values[i] = i < rotated ? (float)factor : STILL;
    }
    return status;
}

static or_status_t add_list(const rope_t *rope, const char *key, const char *name, uint32_t dims,
                            or_hf_config_t *config)
{
    const json_t *list = json_object_get(rope->scaling.object, key);
    if (json_array_size(list) != dims / 2) {
        return or_fail(OR_ERR_FORMAT, "%s: \"%s\" does not list %u factors", rope->scaling.path,
                       key, dims / 2);
    }
    or_rope_tensor_t *tensor =
        config->ropes[0].name == NULL ? &config->ropes[0] : &config->ropes[1];
    or_status_t status = add_tensor(config, name, dims / 2);
    for (uint32_t i = 0; status == OR_OK && i < dims / 2; i++) {
        const json_t *value = json_array_get(list, i);
        tensor->values[i] = (float)json_number_value(value);
        if (!json_is_number(value) || !isfinite(tensor->values[i]) || tensor->values[i] <= 0) {
            return or_fail(OR_ERR_FORMAT, "%s: \"%s\" has a factor that is no positive number",
                           rope->scaling.path, key);
        }
    }
    return status;
}

// Two lists of factors, and how much queries and keys grow with the context.
static or_status_t add_longrope(or_json_t json, const rope_t *rope, uint32_t dims,
                                or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_arch_t *arch = config->arch;
    uint32_t original = 0;
    if (arch->rope_factors_long == NULL) {
        return fail_scaling(rope, config, "which this version does not do for");
    }
    or_status_t status =
        or_json_get_u32(rope->scaling, "original_max_position_embeddings", &original);
    status = status == OR_OK && original == 0
                 ? or_json_need_u32(json, "original_max_position_embeddings", &original)
                 : status;
    if (status == OR_OK && original < 2) {
        return or_fail(OR_ERR_FORMAT, "%s: \"original_max_position_embeddings\" is %u", json.path,
                       original);
    }
    double times = (double)config->shape.context / (original > 0 ? original : 1);
    double growth = times > 1 ? sqrt(1 + log(times) / log(original)) : 1;
    status =
        status != OR_OK ? status : or_json_get_number(rope->scaling, "attention_factor", &growth);
    const char *own = times > 1 ? "long_mscale" : "short_mscale"; // Phi's with experts
    status = status != OR_OK ? status : or_json_get_number(rope->scaling, own, &growth);
    status = status != OR_OK ? status
                             : add_list(rope, "long_factor", arch->rope_factors_long, dims, config);
    status = status != OR_OK
                 ? status
                 : add_list(rope, "short_factor", arch->rope_factors_short, dims, config);
    status = status != OR_OK
                 ? status
                 : or_hf_set_u32(config, writer, "rope.scaling.original_context_length", original);
    return status != OR_OK ? status
                           : or_hf_set_f32(config, writer, "rope.scaling.attn_factor", growth);
}

// ---- scaling by metadata ----

static or_status_t write_linear(const rope_t *rope, const or_hf_config_t *config,
                                or_gguf_writer_t *writer)
{
    double factor = 0;
    or_status_t status = need_positive(rope->scaling, "factor", &factor);
    status =
        status != OR_OK ? status : or_hf_set_string(config, writer, "rope.scaling.type", "linear");
    return status != OR_OK ? status : or_hf_set_f32(config, writer, "rope.scaling.factor", factor);
}

// A number of YaRN's that is written where the config has it.
static or_status_t write_optional(const rope_t *rope, const char *key, const char *suffix,
                                  const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    double value = 0;
    if (!or_json_has(rope->scaling, key)) {
        return OR_OK;
    }
    or_status_t status = need_positive(rope->scaling, key, &value);
    return status != OR_OK ? status : or_hf_set_f32(config, writer, suffix, value);
}

static or_status_t check_yarn(const rope_t *rope, const or_hf_config_t *config)
{
    static const char *const others[] = {"mscale", "mscale_all_dim"};
    bool truncates = true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (or_json_has(rope->scaling, others[i]) && !config->family->queries_grow &&
            !config->family->has_latent) {
            return or_fail(OR_ERR_UNSUPPORTED, "%s: \"%s\" of yarn is not known to this version",
                           rope->scaling.path, others[i]);
        }
    }
    or_status_t status = or_json_get_bool(rope->scaling, "truncate", &truncates);
    return status == OR_OK && truncates == config->arch->yarn_cuts_pairs
               ? or_fail(OR_ERR_UNSUPPORTED,
                         "%s: \"truncate\" of yarn is %s, which this version does otherwise in %s",
                         rope->scaling.path, truncates ? "true" : "false", config->family->name)
               : status;
}

// Write what scores of latent attention grow by, of which GGUF has a tenth. Rotations must not grow.
static or_status_t write_score_growth(const rope_t *rope, const or_hf_config_t *config,
                                      or_gguf_writer_t *writer)
{
    double first = 0, second = 0;
    or_status_t status = need_positive(rope->scaling, "mscale", &first);
    status = status != OR_OK ? status : need_positive(rope->scaling, "mscale_all_dim", &second);
    return status == OR_OK && first != second
               ? or_fail(OR_ERR_UNSUPPORTED,
                         "%s: \"mscale\" of yarn is %g and \"mscale_all_dim\" %g; in %s this "
                         "version knows equal ones",
                         rope->scaling.path, first, second, config->family->name)
           : status != OR_OK
               ? status
               : or_hf_set_f32(config, writer, "rope.scaling.yarn_log_multiplier", 0.1 * second);
}

// Write what divides YaRN's growth. The engine takes what multiplies it, "mscale", to be 1.
static or_status_t write_mscale(const rope_t *rope, const or_hf_config_t *config,
                                or_gguf_writer_t *writer)
{
    double first = 0, second = 0;
    or_status_t status = or_json_get_number(rope->scaling, "mscale", &first);
    status =
        status != OR_OK ? status : or_json_get_number(rope->scaling, "mscale_all_dim", &second);
    if (status != OR_OK || first == 0 || second == 0) {
        return status; // transformers takes neither if one is not there
    }
    return first != 1 || second < 0
               ? or_fail(OR_ERR_UNSUPPORTED, "%s: \"mscale\" of yarn is %g; this version knows 1",
                         rope->scaling.path, first)
               : or_hf_set_f32(config, writer, "rope.scaling.yarn_log_multiplier", second);
}

// The engine multiplies the growth that YaRN's factor makes by "attn_factor"; a config says the product.
static or_status_t write_yarn(const rope_t *rope, const or_hf_config_t *config,
                              or_gguf_writer_t *writer)
{
    double factor = 0, growth = 0;
    uint32_t original = config->shape.context;
    or_status_t status = check_yarn(rope, config);
    status = status != OR_OK ? status : need_positive(rope->scaling, "factor", &factor);
    status = status != OR_OK
                 ? status
                 : or_json_get_u32(rope->scaling, "original_max_position_embeddings", &original);
    status =
        status != OR_OK ? status : or_json_get_number(rope->scaling, "attention_factor", &growth);
    status =
        status != OR_OK ? status : or_hf_set_string(config, writer, "rope.scaling.type", "yarn");
    status =
        status != OR_OK ? status : or_hf_set_f32(config, writer, "rope.scaling.factor", factor);
    status = status != OR_OK
                 ? status
                 : or_hf_set_u32(config, writer, "rope.scaling.original_context_length", original);
    status = status != OR_OK
                 ? status
                 : write_optional(rope, "beta_fast", "rope.scaling.yarn_beta_fast", config, writer);
    status = status != OR_OK
                 ? status
                 : write_optional(rope, "beta_slow", "rope.scaling.yarn_beta_slow", config, writer);
    if (status == OR_OK && or_json_has(rope->scaling, "attention_factor") && !(growth > 0)) {
        return or_fail(OR_ERR_FORMAT, "%s: \"attention_factor\" is not positive",
                       rope->scaling.path);
    }
    if (status == OR_OK && config->family->has_latent) {
        return growth > 0 ? fail_scaling(rope, config, "with \"attention_factor\", not known for")
                          : write_score_growth(rope, config, writer);
    }
    if (status != OR_OK || growth <= 0) {
        return status != OR_OK ? status : write_mscale(rope, config, writer);
    }
    double usual = factor > 1 ? 0.1 * log(factor) + 1 : 1;
    return or_hf_set_f32(config, writer, "rope.scaling.attn_factor", growth / usual);
}

static or_status_t write_scaling(or_json_t json, const rope_t *rope, uint32_t dims,
                                 or_hf_config_t *config, or_gguf_writer_t *writer)
{
    if (is_type(rope, "default")) {
        return OR_OK;
    }
    if (is_type(rope, "linear")) {
        return write_linear(rope, config, writer);
    }
    if (is_type(rope, "yarn")) {
        return write_yarn(rope, config, writer);
    }
    if (is_type(rope, "llama3")) {
        return add_llama3(rope, dims, config);
    }
    if (is_type(rope, "proportional")) {
        return add_proportional(rope, dims, config);
    }
    if (is_type(rope, "longrope") || is_type(rope, "su")) {
        return add_longrope(json, rope, dims, config, writer);
    }
    return fail_scaling(rope, config, "which is not known for");
}

// Write how queries grow with their position.
static or_status_t write_query_growth(const rope_t *rope, const or_hf_config_t *config,
                                      or_gguf_writer_t *writer)
{
    double growth = 0;
    uint32_t original = 0;
    if (!config->family->queries_grow) {
        return OR_OK;
    }
    or_status_t status = or_json_need_number(rope->scaling, "llama_4_scaling_beta", &growth);
    status = status != OR_OK
                 ? status
                 : or_json_need_u32(rope->scaling, "original_max_position_embeddings", &original);
    if (status != OR_OK || growth == 0) {
        return status;
    }
    status = or_hf_set_f32(config, writer, "attention.temperature_scale", growth);
    return status != OR_OK
               ? status
               : or_hf_set_u32(config, writer, "rope.scaling.original_context_length", original);
}

or_status_t or_hf_rope_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config)
{
    const or_hf_family_t *family = config->family;
    rope_t main, local;
    if (config->arch->rope == OR_ROPE_NONE) {
        return OR_OK;
    }
    or_status_t status = read_ropes(json, family, &main, &local);
    status = status != OR_OK ? status : settle_local_base(config, json.path, &main, &local);
    if (status != OR_OK) {
        return status;
    }
    if (!(main.rotated > 0 && main.rotated <= 1) ||
        (main.rotated < 1 && !family->may_rotate_parts && !is_type(&main, "proportional"))) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: \"partial_rotary_factor\" is %g, which this version does not do in %s",
                       json.path, main.rotated, family->name);
    }
    if (family->needs_scaling && main.scaling.object == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s does not say how rotations are scaled (\"rope_scaling\")", json.path);
    }
    if (!is_type(&local, "default")) {
        return fail_scaling(&local, config, "in layers with a window, which is not known for");
    }
    const double part = is_type(&main, "proportional") ? 1 : main.rotated;
    uint32_t dims = (uint32_t)((config->shape.head_dim - config->shape.latent) * part);
    if (dims == 0 || dims % 2 != 0 || !(main.base > 1) || !(local.base > 1)) {
        return or_fail(OR_ERR_FORMAT, "%s: %u elements of a head are rotated, with a base of %g",
                       json.path, dims, main.base);
    }
    status = or_hf_set_f32(config, writer, "rope.freq_base", main.base);
    status = status != OR_OK ? status : or_hf_set_u32(config, writer, "rope.dimension_count", dims);
    if (status == OR_OK && config->arch->has_local_rope) {
        status = or_hf_set_f32(config, writer, "rope.freq_base_swa", local.base);
    }
    status = status != OR_OK ? status : write_query_growth(&main, config, writer);
    return status != OR_OK ? status : write_scaling(json, &main, dims, config, writer);
}
