// The number of pages of a model's KV cache, and of frames where layers with a window keep the last positions only.
//
//     pages      |################################|   one text of the full context, or several
//     frames     |######|                             of layers with a window: what each sequence may need at a time
//
// A sequence needs frames for its window, the slack, and the rows of one pass. Whatever the budget, one sequence gets
// those, unless pages with all layers for the whole context cost no more.
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

// The first page and the last may be seen in part, and a shared one may have to be copied.
#define PAGES_BESIDE 3u

#define CACHE_F32_MOST ((uint64_t)1 << 30) // bytes of one text

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t pages_for(uint64_t positions)
{
    return (positions + OR_KV_PAGE - 1) / OR_KV_PAGE;
}

// ---- what pages and frames cost ----

typedef struct {
    uint64_t page_bytes;  // without the frame
    uint64_t frame_bytes; // of the layers here
    uint64_t frames_each; // of a sequence; 0: there are none
    uint64_t pages_each;  // of a text of the full context
} cost_t;

// Return the frames that a sequence needs at a time.
static uint64_t frames_of_one(uint32_t window, uint32_t slack, uint32_t rows_max)
{
    return pages_for((uint64_t)window + slack + rows_max) + PAGES_BESIDE;
}

// Return the bytes of one page of a layer, with the heads of this rank, of which it may have none, or with all.
static uint64_t layer_bytes(const or_model_t *model, const or_layer_t *layer, bool all_heads)
{
    or_kv_shape_t shape = model->cache_shape;
    if (&model->layers[layer->kv_layer] != layer) {
        return 0; // it attends to another's
    }
    shape.layers = 1;
    shape.kv_heads =
        all_heads ? model->shape.heads / layer->group : or_span_length(layer->kv_heads);
    shape.head_dim = layer->head_dim;
    shape.each = NULL;
    return or_kv_page_bytes(&shape);
}

static cost_t cost_of(const or_model_t *model, bool all_heads)
{
    cost_t cost = {.pages_each = pages_for(model->context)};
    uint64_t frames_each = frames_of_one(model->shape.window, model->window_slack, model->rows_max);
    bool has_frames = model->window_slack > 0 && frames_each < cost.pages_each;
    for (uint32_t i = 0; i < model->cache_shape.layers; i++) {
        const or_layer_t *layer = &model->layers[i];
        const bool bounded = has_frames && layer->window > 0;
        *(bounded ? &cost.frame_bytes : &cost.page_bytes) += layer_bytes(model, layer, all_heads);
    }
    cost.frames_each = has_frames ? frames_each : 0;
    return cost;
}

typedef struct {
    uint64_t pages, frames;
} room_t;

// Return what there is room for in so many bytes. Frames of `sequences` get half of them, or what the pages of as many full
// contexts leave. Where pages are that few all have frames.
static room_t room_within(const cost_t *cost, uint64_t bytes, uint64_t sequences)
{
    uint64_t together = bytes / most(cost->page_bytes + cost->frame_bytes, 1);
    if (cost->frames_each == 0) {
        return (room_t){together, 0};
    }
    const uint64_t asked = sequences * cost->frames_each, all_pages = sequences * cost->pages_each;
    if (cost->page_bytes == 0 && together >= cost->frames_each) { // all layers have windows
        return (room_t){all_pages, least(asked, together)};
    }
    const uint64_t kept = least(bytes / 2, all_pages * cost->page_bytes);
    uint64_t frames = least(asked, (bytes - kept) / most(cost->frame_bytes, 1));
    frames = most(frames, cost->frames_each);
    if (frames >= together) {
        return (room_t){together, together};
    }
    return (room_t){(bytes - frames * cost->frame_bytes) / most(cost->page_bytes, 1), frames};
}

// Return how many frames there is room for beside so many pages, and at least those of one sequence.
static uint64_t frames_beside(const cost_t *cost, uint64_t pages, uint64_t bytes,
                              uint64_t sequences)
{
    uint64_t taken = pages * cost->page_bytes;
    uint64_t left = bytes > taken ? (bytes - taken) / most(cost->frame_bytes, 1) : 0;
    return most(cost->frames_each, least(left, sequences * cost->frames_each));
}

// ---- the room there is ----

// Return the bytes that pages may take. On the CPU, untouched pages cost nothing, but a promise of more than the
// machine has would fail at the worst moment: all its ranks together get a quarter of its memory. Weights that are mapped
// count as available, but want to stay, as do the buffers of those on disk and of passes, which are not written yet. On a
// GPU pages are taken at once: they get half of what the weights left, as slots of sequences follow.
static uint64_t affordable_bytes(const or_model_t *model, uint32_t sharers)
{
    if (model->gpu != NULL) {
        return or_gpu_free_bytes(model->gpu) / 2;
    }
    const uint64_t available = or_memory_available();
    const uint64_t wanted = sharers * (model->mapped_bytes + or_pass_bytes_here(model) +
                                       or_streamed_buffer_bytes(model->streamed));
    return available > wanted ? (available - wanted) / 4 : 0;
}

// Return three quarters of what is there, where or_cache_room gives pages a quarter of the host's memory, or half of a
// device's.
static uint64_t three_quarters(const or_model_t *model, uint64_t bytes)
{
    return model->gpu != NULL ? bytes + bytes / 2 : 3 * bytes;
}

// Return the pages of the sequences that were asked for, as far as they can be afforded, and at least those of one
// full context. Where nobody asked for that context the host's memory must have room for it, in three of its quarters.
static room_t affordable_room(const or_model_t *model, const or_model_options_t *options,
                              const cost_t *cost, uint64_t bytes)
{
    uint64_t sequences = options->sequences_max > 0 ? options->sequences_max : OR_SEQUENCES_DEFAULT;
    room_t room = room_within(cost, bytes, sequences);
    uint64_t pages_each = cost->pages_each;
    const uint64_t most_bytes = three_quarters(model, bytes);
    if (options->context_max == 0 && model->gpu == NULL) {
        pages_each = least(pages_each, most(room_within(cost, most_bytes, 1).pages, 1));
    }
    room.pages = least(room.pages, cost->pages_each * sequences);
    return room.pages >= pages_each
               ? room
               : (room_t){pages_each, frames_beside(cost, pages_each, most_bytes, sequences)};
}

static or_cache_room_t find_room(const or_model_t *model, const or_model_options_t *options,
                                 uint64_t bytes)
{
    cost_t cost = cost_of(model, false);
    room_t room = {options->pages_max, options->pages_max};
    if (options->cache_bytes > 0) {
        const cost_t stage = cost_of(model, true);
        room = room_within(&stage, options->cache_bytes, most(options->sequences_max, 1));
    } else if (options->pages_max == 0) {
        room = affordable_room(model, options, &cost, bytes);
    }
    uint32_t pages = (uint32_t)least(room.pages, UINT32_MAX);
    return (or_cache_room_t){pages, cost.frames_each > 0 ? (uint32_t)least(room.frames, pages) : 0};
}

or_cache_room_t or_cache_room(const or_model_t *model, const or_model_options_t *options,
                              uint32_t sharers)
{
    return find_room(model, options, affordable_bytes(model, sharers) / sharers);
}

uint64_t or_cache_least_bytes(const or_model_t *model, const or_model_options_t *options)
{
    const cost_t cost = cost_of(model, false);
    const or_cache_room_t room = find_room(model, options, 0);
    return room.pages * cost.page_bytes + room.frames * cost.frame_bytes;
}

// ---- the cache ----

or_status_t or_cache_create(or_model_t *model, const or_cache_room_t *room)
{
    const or_kv_memory_t *memory = model->gpu != NULL ? &model->gpu->kv_memory : &or_kv_memory_host;
    if (room->frames == 0) {
        return or_kv_cache_create_in(memory, &model->cache_shape, NULL, room->pages, &model->cache);
    }
    bool *is_bounded = calloc(model->cache_shape.layers, sizeof *is_bounded);
    if (is_bounded == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a model's windows");
    }
    for (uint32_t i = 0; i < model->cache_shape.layers; i++) {
        is_bounded[i] = model->layers[i].window > 0;
    }
    const or_kv_windows_t windows = {model->shape.window, model->window_slack, room->frames,
                                     is_bounded};
    or_status_t status =
        or_kv_cache_create_in(memory, &model->cache_shape, &windows, room->pages, &model->cache);
    free(is_bounded);
    return status;
}

// ---- from the shape alone ----

// The K and V that all layers keep, as two caches whose layers are alike: of those that keep whole texts, and of those that have a
// window.
typedef struct {
    or_kv_shape_t whole, bounded;
} caches_t;

static caches_t caches_of(const or_model_shape_t *shape, or_kv_type_t type)
{
    const bool other_heads = shape->window_head_dim > 0;
    caches_t caches = {.whole = {.layers = shape->layers - shape->window_layers,
                                 .kv_heads = shape->kv_heads,
                                 .head_dim = shape->head_dim,
                                 .key_type = type,
                                 .value_type = type}};
    caches.bounded = caches.whole;
    caches.bounded.layers = shape->window_layers;
    caches.bounded.kv_heads = other_heads ? shape->window_kv_heads : shape->kv_heads;
    caches.bounded.head_dim = other_heads ? shape->window_head_dim : shape->head_dim;
    for (uint32_t i = shape->layers - shape->shared_kv_layers; i < shape->layers; i++) {
        (or_arch_is_windowed(shape, i) ? &caches.bounded : &caches.whole)->layers--;
    }
    return caches;
}

or_kv_type_t or_model_cache_type(const or_model_shape_t *shape)
{
    const caches_t caches = caches_of(shape, OR_KV_F32);
    const uint64_t page = or_kv_page_bytes(&caches.whole) + or_kv_page_bytes(&caches.bounded);
    return page / OR_KV_PAGE * shape->context > CACHE_F32_MOST ? OR_KV_F16 : OR_KV_F32;
}

uint64_t or_model_cache_bytes(const or_model_shape_t *shape)
{
    const caches_t caches = caches_of(shape, or_model_cache_type(shape));
    uint64_t pages = pages_for(shape->context);
    uint64_t frames = frames_of_one(shape->window, OR_WINDOW_SLACK, OR_ROWS_DEFAULT);
    return or_kv_page_bytes(&caches.whole) * pages +
           or_kv_page_bytes(&caches.bounded) * least(frames, pages);
}

uint64_t or_model_pass_bytes(const or_model_shape_t *shape)
{
    const uint64_t experts = shape->experts_used > 0 ? shape->experts_used : 1;
    const uint64_t middle = most(experts * shape->ffn, most(shape->dense_ffn, shape->shared_ffn));
    const uint64_t heads = (uint64_t)shape->heads * most(shape->query_dim, shape->value_dim);
    const uint64_t latent = (uint64_t)shape->heads * shape->latent;
    // What is projected and what becomes of it, the stream, and what quantised weights want of what they multiply.
    const uint64_t floats = 2 * (middle + heads + latent) + 3 * (uint64_t)shape->width;
    const uint64_t blocks = (middle + heads + latent + shape->width) / OR_QUANT_BLOCK;
    return OR_ROWS_DEFAULT * (floats * sizeof(float) + blocks * sizeof(or_q8_block_t)) +
           OR_LOGITS_ROWS * (uint64_t)shape->vocab_size * sizeof(float);
}

uint64_t or_pass_bytes_here(const or_model_t *model)
{
    return or_model_pass_bytes(&model->shape) / (uint64_t)model->ranks->size;
}
