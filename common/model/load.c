// Loading a model, step by step, and giving it back.
#include "common/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "common/base/version.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/load_packed.h"
#include "common/model/model_internal.h"

#define ROWS_MOST 65536u
#define KEPT_PART 128 // of a device's memory, about what a program's own kernels keep after a load

static or_status_t parse_cache_type(const char *option, const char *name, or_kv_type_t *type)
{
    *type = OR_KV_BY_MODEL;
    if (name == NULL || strcmp(name, "auto") == 0 || or_kv_type_parse(name, type) == OR_OK) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID, "%s: %s", option, or_error_text());
}

or_status_t or_model_cache_types_parse(const char *keys, const char *values,
                                       or_model_options_t *options)
{
    or_status_t status = parse_cache_type("-ctk/--cache-type-k", keys, &options->cache_type_k);
    return status != OR_OK
               ? status
               : parse_cache_type("-ctv/--cache-type-v", values, &options->cache_type_v);
}

static or_kv_type_t cache_type(const or_model_t *model, or_kv_type_t asked)
{
    return asked == OR_KV_BY_MODEL ? or_model_cache_type(&model->shape) : asked;
}

static or_status_t check_cache_types(const or_kv_shape_t *shape)
{
    const or_kv_type_t types[] = {shape->key_type, shape->value_type};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (or_kv_type_name(types[i]) == NULL) {
            return or_fail(OR_ERR_INVALID, "there is no cache type %d", (int)types[i]);
        }
    }
    return OR_OK;
}

static void name_products(const or_model_t *model, char *name, size_t bytes)
{
    const or_gpu_t *gpu = model->gpu;
    if (gpu == NULL || gpu->tensor == NULL) {
        snprintf(name, bytes, "%s", OR_ARITH_ID);
        return;
    }
    char cores[OR_CUDA_TENSOR_NAME];
    gpu->functions->tensor_name(gpu->tensor, cores);
    snprintf(name, bytes, "tensor-2/%s/%s", gpu->tensor_type == OR_TENSOR_F16 ? "f16" : "bf16",
             cores);
}

static void name_arithmetic(or_model_t *model)
{
    const struct {
        char cache;
        or_kv_type_t type;
    } types[] = {{'k', model->cache_shape.key_type}, {'v', model->cache_shape.value_type}};
    name_products(model, model->arith_id, sizeof model->arith_id);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].type != OR_KV_F32) {
            size_t length = strlen(model->arith_id);
            snprintf(model->arith_id + length, sizeof model->arith_id - length, "/%c-%s",
                     types[i].cache, or_kv_type_name(types[i].type));
        }
    }
}

static or_status_t apply_options(or_model_t *model, const or_model_options_t *options)
{
    model->context = options->context_max != 0 ? options->context_max : model->shape.context;
    if (model->context > model->shape.context) {
        return or_fail(OR_ERR_INVALID,
                       "a context of %u was asked for, but %s allows %u; ask for less",
                       model->context, or_gguf_path(model->gguf), model->shape.context);
    }
    model->rows_max = options->rows_max != 0 ? options->rows_max : OR_ROWS_DEFAULT;
    if (model->rows_max > ROWS_MOST) {
        return or_fail(OR_ERR_INVALID, "%u rows a pass are too many; at most %u", model->rows_max,
                       ROWS_MOST);
    }
    or_status_t status = or_model_pick_kernels(&model->kernels);
    if (status != OR_OK) {
        return status;
    }
    model->cache_shape.key_type = cache_type(model, options->cache_type_k);
    model->cache_shape.value_type = cache_type(model, options->cache_type_v);
    return check_cache_types(&model->cache_shape);
}

// ---- room for the cache ----

static or_status_t find_sharers(const or_model_t *model, uint32_t *sharers)
{
    or_cuda_description_t device = {0}; // its uuid is no GPU's
    *sharers = 1;
    if (or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    if (model->gpu != NULL) {
        or_gpu_keep(model->gpu, model->gpu->functions->describe(model->gpu->index, &device));
    }
    return or_lockstep_alike(model->ranks, device.uuid, sizeof device.uuid, sharers);
}

// ---- several ranks ----

// Write this host's name into zeroed bytes.
static void name_host(char *host, size_t bytes)
{
    if (gethostname(host, bytes - 1) != 0) {
        snprintf(host, bytes, "unknown");
    }
}

static or_status_t greet_ranks(const or_model_t *model)
{
    or_lockstep_greeting_t greeting = {.version = OR_VERSION};
    name_host(greeting.host, sizeof greeting.host);
    return or_ranks_is_alone(model->ranks) ? OR_OK : or_lockstep_greet(model->ranks, &greeting);
}

// Fill in what all ranks compare: context and rows, arithmetic, file and host; and the pages that this rank has room
// for.
static or_status_t fill_card(const or_model_t *model, uint32_t pages, or_lockstep_card_t *card)
{
    bool reads = false;
    *card = (or_lockstep_card_t){
        .shape = (uint64_t)model->context << 32 | model->rows_max,
        .room = pages,
    };
    snprintf(card->arith_id, sizeof card->arith_id, "%s", model->arith_id);
    name_host(card->host, sizeof card->host);
    or_status_t status =
        or_lockstep_is_reader(model->ranks, card->host, or_gguf_identity(model->gguf), &reads);
    card->file = reads ? or_gguf_fingerprint(model->gguf) : 0;
    return status;
}

// Layers with a window give up the same on all ranks.
static or_status_t agree_on_windows(or_model_t *model, const or_model_options_t *options)
{
    uint64_t slack = options->window_slack > 0 ? options->window_slack : OR_WINDOW_SLACK;
    if (model->shape.window == 0) {
        return OR_OK;
    }
    or_status_t status =
        or_ranks_is_alone(model->ranks) ? OR_OK : or_lockstep_least(model->ranks, &slack);
    model->window_slack = (uint32_t)slack;
    return status;
}

// Make of the room on this rank what all ranks have.
static or_status_t agree_on_room(const or_model_t *model, or_cache_room_t *room)
{
    or_lockstep_card_t card;
    uint64_t pages = room->pages, frames = room->frames;
    or_status_t status = fill_card(model, room->pages, &card);
    status = status != OR_OK ? status : or_lockstep_agree(model->ranks, &card, &pages);
    if (status == OR_OK && model->window_slack > 0) {
        status = or_lockstep_least(model->ranks, &frames);
    }
    *room = (or_cache_room_t){(uint32_t)pages, (uint32_t)(frames < pages ? frames : pages)};
    return status;
}

// Create the cache with as many pages as the rank with the least room can hold.
static or_status_t create_cache(or_model_t *model, const or_model_options_t *options,
                                uint32_t sharers)
{
    or_cache_room_t room = or_cache_room(model, options, sharers);
    or_status_t status = or_ranks_is_alone(model->ranks) ? OR_OK : agree_on_room(model, &room);
    if (status != OR_OK) {
        return status;
    }
    if (room.pages == 0) {
        return or_fail(OR_ERR_INVALID,
                       "a KV cache of %" PRIu64 " bytes holds not one page of %u tokens; give more",
                       options->cache_bytes, OR_KV_PAGE);
    }
    // A sequence cannot be longer than all of the pool.
    uint64_t positions = (uint64_t)room.pages * OR_KV_PAGE;
    if (positions < model->context) {
        or_log(OR_LOG_INFO,
               "%s: texts have at most %" PRIu64 " tokens, for which there is memory (-c, "
               "--kv-cache-size), of the %u that the model was made for",
               or_gguf_path(model->gguf), positions, model->context);
        model->context = (uint32_t)positions;
    }
    return or_cache_create(model, &room);
}

// Reserve memory of the device for the slots of as many sequences as the rank with the least room can have, so that
// none lacks room later.
static or_status_t reserve_slots(or_model_t *model, const or_model_options_t *options,
                                 uint32_t sharers)
{
    uint32_t wanted = options->sequences_max > 0 ? options->sequences_max : OR_SEQUENCES_DEFAULT;
    bool reserves = model->gpu != NULL && options->slots_max > 0;
    uint64_t count = reserves
                         ? or_gpu_slots_reserve(model->gpu, options->slots_max, wanted, sharers)
                         : UINT32_MAX;
    or_status_t status =
        or_ranks_is_alone(model->ranks) ? OR_OK : or_lockstep_least(model->ranks, &count);
    if (status != OR_OK) {
        return status;
    }
    if (count == 0) {
        return or_fail(OR_ERR_NO_MEMORY,
                       "no memory on a GPU for one tree of %u nodes; choose smaller trees "
                       "(--draft-nodes-max, OUTRIDER_DRAFT_NODES_MAX), a smaller KV cache "
                       "(--kv-cache-size) or context (-c)",
                       options->slots_max);
    }
    if (reserves) {
        or_gpu_slots_keep(model->gpu, (uint32_t)count);
    }
    model->slots_max = count < UINT32_MAX ? options->slots_max : 0;
    model->sequences_max = (uint32_t)count;
    return OR_OK;
}

// Load what a device must have in any case; the layers get the room that is left.
static or_status_t load_all_but_layers(or_model_t *model)
{
    or_status_t status = or_tensors_load(model);
    status = status != OR_OK ? status : or_gpu_prepare_products(model);
    status = status != OR_OK ? status : or_rope_fill(model);
    return status != OR_OK ? status : or_buffers_create(model);
}

// Describe K and V to the cache: each layer, where they have heads of their own.
static or_status_t describe_cache(or_model_t *model)
{
    const uint32_t layers = or_span_length(model->share.layers);
    model->cache_shape.layers = layers;
    model->cache_shape.kv_heads = or_span_length(model->share.kv_heads);
    model->cache_shape.head_dim = model->shape.head_dim;
    if (!model->arch->tells_layers) {
        return OR_OK;
    }
    model->cache_heads = calloc(layers, sizeof *model->cache_heads);
    if (model->cache_heads == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the heads of %u layers", layers);
    }
    for (uint32_t i = 0; i < layers; i++) {
        const or_layer_t *layer = &model->layers[i];
        const uint32_t kept = layer->kv_layer == i ? or_span_length(layer->kv_heads) : 0;
        model->cache_heads[i] = (or_kv_heads_t){kept, layer->head_dim};
    }
    model->cache_shape.each = model->cache_heads;
    return OR_OK;
}

static or_status_t load_layers(or_model_t *model, const or_model_options_t *options)
{
    or_status_t status = describe_cache(model);
    if (status == OR_OK && model->gpu != NULL) {
        status = or_gpu_layers_plan(model, options->gpu->host_layers,
                                    or_cache_least_bytes(model, options));
    }
    status = status != OR_OK ? status : or_tensors_load_layers(model);
    return status != OR_OK || model->gpu != NULL ? status : or_steps_create(model);
}

// Wait until every rank has come here.
static or_status_t await_ranks(const or_model_t *model)
{
    uint64_t here = 1;
    return or_ranks_is_alone(model->ranks) ? OR_OK : or_lockstep_least(model->ranks, &here);
}

// Take the memory that texts need: first pages on all ranks that share it, then slots.
static or_status_t create_room(or_model_t *model, const or_model_options_t *options,
                               uint32_t sharers)
{
    or_status_t status = create_cache(model, options, sharers);
    status = status != OR_OK ? status : await_ranks(model);
    return status != OR_OK ? status : reserve_slots(model, options, sharers);
}

static or_status_t create_workers(const or_model_options_t *options, or_workers_t **workers)
{
    const or_workers_options_t wanted = {options->threads, options->pins, options->poll};
    return or_workers_create(&wanted, workers);
}

// ---- all of it ----

// Load the weights, and then take the room that they leave.
static or_status_t load_weights(or_model_t *model, const or_model_options_t *options)
{
    uint32_t sharers;
    or_status_t status = find_sharers(model, &sharers);
    status = status != OR_OK ? status : agree_on_windows(model, options);
    const uint64_t memory = status == OR_OK ? or_load_weights_memory(model, options, sharers) : 0;
    status = status != OR_OK ? status : or_load_packed(model, options, memory);
    status = status != OR_OK ? status : load_all_but_layers(model);
    status = status != OR_OK ? status : load_layers(model, options);
    status = status != OR_OK ? status : or_load_streamed(model, options, memory);
    status = status != OR_OK ? status : or_load_check_packed(model);
    return status != OR_OK ? status : create_room(model, options, sharers);
}

static or_status_t load(or_model_t *model, const or_model_options_t *options)
{
    or_status_t status = or_arch_find(model->gguf, &model->arch);
    status = status != OR_OK
                 ? status
                 : or_arch_read(model->arch, model->gguf, &model->shape, &model->numbers);
    status = status != OR_OK ? status : apply_options(model, options);
    status = status != OR_OK ? status : or_tensors_check(model);
    status = status != OR_OK ? status : or_share_cut(model);
    status = status != OR_OK ? status : greet_ranks(model);
    status = status != OR_OK ? status : create_workers(options, &model->workers);
    status = status != OR_OK || options->gpu == NULL ? status : or_gpu_open(model, options->gpu);
    status = status != OR_OK
                 ? status
                 : or_gpu_peers_create(model, options->gpu != NULL && options->gpu->no_peers);
    if (status == OR_OK) {
        name_arithmetic(model);
    }
    status = status != OR_OK ? status : load_weights(model, options);
    return status != OR_OK || or_ranks_is_alone(model->ranks)
               ? status
               : or_lockstep_create(model, &model->lockstep);
}

// *began_with: if it fails, how much of its device was free before; 0 if it did not come to that.
static or_status_t load_new(const or_gguf_t *gguf, const or_model_options_t *options,
                            uint64_t *began_with, or_model_t **model_p)
{
    *began_with = 0;
    or_model_t *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a model");
    }
    model->gguf = gguf;
    model->ranks = options->ranks != NULL ? options->ranks : or_ranks_single();
    or_status_t status = load(model, options);
    if (status != OR_OK) {
        *began_with = model->gpu != NULL ? model->gpu->opened_with : 0;
        or_model_destroy(&model);
        return status;
    }
    *model_p = model;
    return OR_OK;
}

// Does a load with these options depend on how much of a device is free?
static bool plans_by_room(const or_model_options_t *options)
{
    bool alone = options->ranks == NULL || or_ranks_is_alone(options->ranks);
    return options->gpu != NULL && alone &&
           (options->gpu->host_layers == OR_GPU_LAYERS_FIT ||
            (options->pages_max == 0 && options->cache_bytes == 0));
}

// Is less of the device's memory free than before the load that failed? If not, another load would fail as that one
// did.
static bool is_taken(const or_gguf_t *gguf, const or_gpu_choice_t *choice, uint64_t before)
{
    uint64_t now;
    if (before == 0 || choice->functions->free_bytes(choice->index, &now) != OR_CUDA_OK ||
        now >= before - before / KEPT_PART) {
        return false;
    }
    or_log(OR_LOG_WARN,
           "%s: others took %" PRIu64 " MiB of the GPU's memory meanwhile: loading it again "
           "with what is left",
           or_gguf_path(gguf), (before - now) >> 20);
    return true;
}

// Programs that load on a device at the same time each count its free memory as theirs. One that finds it gone
// makes do with what is left.
or_status_t or_model_load(const or_gguf_t *gguf, const or_model_options_t *options,
                          or_model_t **model_p)
{
    uint64_t began_with;
    or_status_t status = load_new(gguf, options, &began_with, model_p);
    bool again = status == OR_ERR_NO_MEMORY && plans_by_room(options) &&
                 is_taken(gguf, options->gpu, began_with);
    return again ? load_new(gguf, options, &began_with, model_p) : status;
}

void or_model_destroy(or_model_t **model_p)
{
    or_model_t *model = *model_p;
    if (model == NULL) {
        return;
    }
    or_lockstep_destroy(&model->lockstep);
    or_kv_cache_destroy(&model->cache);
    free(model->cache_heads);
    or_buffers_free(model);
    or_workers_destroy(&model->workers);
    or_steps_free(model);
    or_rope_free(model);
    or_tensors_free(model);
    or_streamed_destroy(&model->streamed);
    or_packed_close(&model->packed);
    or_gpu_close(&model->gpu);
    free(model);
    *model_p = NULL;
}
