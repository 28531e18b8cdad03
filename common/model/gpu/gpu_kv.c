// K and V in a device's memory, laid out as the host's (kv_cache_internal.h); and the tables by which the kernels of a pass
// find them.
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

// ---- tables ----
//
// Where each row's K and V go, and what it sees:
//
//     tables   positions [rows]   tokens [rows]   seen [rows]   page table of a sequence   chain of a row   page table ...
//
// A page table is the numbers of pages, and behind them those of their frames if layers have any.
//
// Tables live until nothing on the device needs them any more: those of a pass until the next one, which waits
// first; those of accepted paths lie behind them, as many as find room.

#define ALIGNMENT 16u

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t pages_for(uint32_t positions)
{
    return positions / OR_KV_PAGE + (positions % OR_KV_PAGE != 0);
}

size_t or_gpu_page_table_bytes(uint32_t pages, bool has_frames)
{
    return (has_frames ? 2 : 1) * (size_t)pages * sizeof(uint32_t);
}

static size_t path_bytes(uint32_t count, bool has_frames)
{
    return aligned((size_t)count * sizeof(uint32_t)) +
           aligned(or_gpu_page_table_bytes(pages_for(count) + 1, has_frames));
}

// Each row may be of another sequence, and see a whole context or the longest path.
size_t or_gpu_tables_bytes(const or_model_t *model)
{
    size_t rows = model->rows_max;
    uint32_t path = model->context < OR_TREE_POSITIONS_MAX ? model->context : OR_TREE_POSITIONS_MAX;
    bool has_frames = model->window_slack > 0;
    size_t row = aligned(or_gpu_page_table_bytes(pages_for(model->context), has_frames)) +
                 aligned(path * sizeof(uint32_t));
    size_t pass =
        2 * aligned(rows * sizeof(uint32_t)) + aligned(rows * sizeof(or_cuda_seen_t)) + rows * row;
    return pass + path_bytes(path, has_frames);
}

// Take `bytes` of the tables on the host, for which there must be room.
static void *put(or_gpu_tables_t *tables, size_t bytes)
{
    void *at = tables->host + tables->used;
    tables->used += aligned(bytes);
    return at;
}

static const void *on_device(const or_gpu_tables_t *tables, const void *host)
{
    return tables->device + ((const uint8_t *)host - tables->host);
}

// Send all that was written since the last call.
static void send(or_gpu_t *gpu)
{
    or_gpu_tables_t *tables = &gpu->tables;
    or_gpu_keep(gpu,
                gpu->functions->upload(gpu->cuda, tables->device + tables->sent,
                                       tables->host + tables->sent, tables->used - tables->sent));
    tables->sent = tables->used;
}

void or_gpu_tables_clear(or_gpu_t *gpu)
{
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    gpu->tables.used = 0;
    gpu->tables.sent = 0;
}

or_cuda_page_table_t or_gpu_write_page_table(const or_kv_sequence_t *sequence, uint32_t first,
                                             uint32_t count, uint32_t *to, const uint32_t *read_at)
{
    const or_kv_frames_t *frames = sequence->cache->frames;
    const uint32_t *pages = sequence->pages + first;
    memcpy(to, pages, count * sizeof *to);
    for (uint32_t i = 0; frames != NULL && i < count; i++) {
        bool is_kept = first + i >= sequence->kept_from;
        to[count + i] = is_kept ? frames->frame_of[pages[i]] : OR_KV_NO_FRAME;
    }
    return (or_cuda_page_table_t){.pages = read_at,
                                  .frames = frames != NULL ? read_at + count : NULL};
}

static or_cuda_page_table_t put_page_table(or_gpu_tables_t *tables,
                                           const or_kv_sequence_t *sequence, uint32_t first,
                                           uint32_t count)
{
    bool has_frames = sequence->cache->frames != NULL;
    uint32_t *table = put(tables, or_gpu_page_table_bytes(count, has_frames));
    return or_gpu_write_page_table(sequence, first, count, table, on_device(tables, table));
}

static void put_chain(or_gpu_tables_t *tables, const or_pass_row_t *row, or_cuda_seen_t *seen)
{
    size_t count = row->position - row->committed + 1;
    uint32_t *chain = put(tables, count * sizeof *chain);
    seen->chain_count = or_pass_chain(row, chain);
    seen->chain = on_device(tables, chain);
}

void or_gpu_tables_of_pass(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_tables_t *tables = &gpu->tables;
    uint32_t *positions = put(tables, rows * sizeof *positions);
    int32_t *tokens = put(tables, rows * sizeof *tokens);
    or_cuda_seen_t *seen = put(tables, rows * sizeof *seen);
    uint32_t positions_max = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const or_pass_row_t *row = &model->rows[i];
        const or_kv_sequence_t *sequence = row->sequence;
        bool as_before = i > 0 && sequence == model->rows[i - 1].sequence;
        positions[i] = row->position;
        tokens[i] = row->token;
        seen[i] = (or_cuda_seen_t){
            .table = as_before ? seen[i - 1].table
                               : put_page_table(tables, sequence, 0, sequence->page_count),
            .committed = row->committed,
            .position = row->position,
            .slots = sequence->slot_bytes,
            .slots_max = sequence->slots_max,
            .slot = row->slot};
        if (row->slot != OR_KV_NO_SLOT) {
            put_chain(tables, row, &seen[i]);
        }
        positions_max = row->position >= positions_max ? row->position + 1 : positions_max;
    }
    gpu->positions_max = or_gpu_steps_round(positions_max);
    gpu->positions = on_device(tables, positions);
    gpu->tokens = on_device(tables, tokens);
    gpu->seen = on_device(tables, seen);
    send(gpu);
}

// A sequence's pages from position `length` on, and slots.
typedef struct {
    or_cuda_page_table_t table;
    const uint32_t *slots;
} path_t;

// Write and send what moving `count` slots to the positions behind length looks up, for a launch that is asked for now.
static path_t put_path(or_gpu_t *gpu, const or_kv_sequence_t *sequence, const uint32_t *slots,
                       uint32_t count)
{
    or_gpu_tables_t *tables = &gpu->tables;
    if (tables->bytes - tables->used < path_bytes(count, sequence->cache->frames != NULL)) {
        or_gpu_tables_clear(gpu);
    }
    uint32_t first = sequence->length / OR_KV_PAGE;
    uint32_t page_count = pages_for(sequence->length + count) - first;
    or_cuda_page_table_t table = put_page_table(tables, sequence, first, page_count);
    uint32_t *path = put(tables, count * sizeof *path);
    memcpy(path, slots, count * sizeof *path);
    send(gpu);
    return (path_t){table, on_device(tables, path)};
}

// ---- memory of slots (or_gpu_slots_t) ----

static size_t bytes_of(const or_gpu_t *gpu, uint32_t slots_max)
{
    return gpu->functions->slots_bytes(&gpu->kv, slots_max);
}

// Make room in the list for one more part, so that giving it back cannot fail.
static bool make_room(or_gpu_slots_t *slots)
{
    void **parts = realloc(slots->parts, (slots->room + (size_t)1) * sizeof *parts);
    if (parts == NULL) {
        return false;
    }
    slots->parts = parts;
    slots->room++;
    return true;
}

static bool take_new(or_gpu_t *gpu, void **at_p)
{
    return make_room(&gpu->slots) && or_gpu_alloc(gpu, gpu->slots.bytes, at_p) == OR_OK;
}

uint32_t or_gpu_slots_reserve(or_gpu_t *gpu, uint32_t slots_max, uint32_t wanted, uint32_t sharers)
{
    or_gpu_slots_t *slots = &gpu->slots;
    slots->bytes = bytes_of(gpu, slots_max);
    if (slots->bytes == 0) {
        return wanted; // this rank keeps no K and V
    }
    slots->reserved = true;
    uint64_t most = or_gpu_free_bytes(gpu) / 2 / sharers / slots->bytes;
    most = most > 0 ? most : 1;
    void *at;
    while (slots->kept < wanted && slots->kept < most && take_new(gpu, &at)) {
        slots->parts[slots->kept++] = at;
    }
    return slots->kept;
}

void or_gpu_slots_keep(or_gpu_t *gpu, uint32_t count)
{
    or_gpu_slots_t *slots = &gpu->slots;
    while (slots->kept > count) {
        or_gpu_give(gpu, slots->parts[--slots->kept]);
    }
}

// Free all parts, because they have another size.
static void change_size(or_gpu_t *gpu, size_t bytes)
{
    or_gpu_slots_free(gpu);
    gpu->slots.bytes = bytes;
}

static bool take_part(or_gpu_t *gpu, uint32_t slots_max, void **at_p)
{
    or_gpu_slots_t *slots = &gpu->slots;
    size_t bytes = bytes_of(gpu, slots_max);
    *at_p = NULL;
    if (bytes == 0) {
        return true;
    }
    if (!slots->reserved && bytes != slots->bytes) {
        change_size(gpu, bytes);
    }
    if (bytes <= slots->bytes && slots->kept > 0) {
        *at_p = slots->parts[--slots->kept];
        return true;
    }
    return !slots->reserved && take_new(gpu, at_p);
}

static void give_part(or_gpu_t *gpu, uint32_t slots_max, void *at)
{
    or_gpu_slots_t *slots = &gpu->slots;
    bool fits = slots->reserved || bytes_of(gpu, slots_max) == slots->bytes;
    if (at != NULL && fits && slots->kept < slots->room) {
        slots->parts[slots->kept++] = at;
    } else {
        or_gpu_give(gpu, at);
    }
}

void or_gpu_slots_free(or_gpu_t *gpu)
{
    or_gpu_slots_t *slots = &gpu->slots;
    or_gpu_slots_keep(gpu, 0);
    free(slots->parts);
    *slots = (or_gpu_slots_t){0};
}

// ---- a layer ----

static or_cuda_kv_layer_t describe_layer(const or_kv_cache_t *cache, uint32_t layer)
{
    const or_kv_frames_t *frames = cache->frames;
    const or_kv_place_t *place = &cache->places[layer];
    return (or_cuda_kv_layer_t){
        .kv_heads = place->heads.kv_heads,
        .head_dim = place->heads.head_dim,
        .pages = (place->in_frame ? frames->bytes : cache->pages) + place->before,
        .page_bytes = place->in_frame ? frames->frame_bytes : cache->page_bytes,
        .slot_before = place->slot_before,
        .in_frames = place->in_frame};
}

or_cuda_kv_t or_gpu_kv_of_layer(const or_model_t *model, uint32_t layer)
{
    const or_cuda_kv_layer_t own = describe_layer(model->cache, layer);
    or_cuda_kv_t kv = model->gpu->kv;
    kv.layers = 1;
    kv.kv_heads = own.kv_heads;
    kv.head_dim = own.head_dim;
    kv.pages = own.pages;
    kv.page_bytes = own.page_bytes;
    kv.slot_before = own.slot_before;
    kv.in_frames = own.in_frames;
    return kv;
}

// ---- pages and slots (or_kv_memory_t) ----

static const or_cuda_kv_type_t types[] = {
    [OR_KV_F32] = OR_CUDA_KV_F32, [OR_KV_F16] = OR_CUDA_KV_F16, [OR_KV_Q8_0] = OR_CUDA_KV_Q8_0};

static or_gpu_t *gpu_of(const or_kv_cache_t *cache)
{
    return cache->memory->owner;
}

// The bytes of a K block and a V block.
static size_t block_bytes(const or_kv_place_t *place)
{
    return place->key_bytes + place->value_bytes;
}

// The most of them that a layer has.
static size_t block_bytes_max(const or_kv_cache_t *cache)
{
    size_t most = 0;
    for (uint32_t i = 0; i < cache->shape.layers; i++) {
        const size_t bytes = block_bytes(&cache->places[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

// Tell the device where each layer lies, if some have heads of their own or are in frames.
static bool take_places(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    const uint32_t layers = cache->shape.layers;
    if (cache->shape.each == NULL && cache->frames == NULL) {
        return true;
    }
    or_cuda_kv_layer_t *each = calloc(layers + 1ull, sizeof *each);
    for (uint32_t i = 0; each != NULL && i < layers; i++) {
        each[i] = describe_layer(cache, i);
        const uint32_t heads = each[i].kv_heads;
        gpu->kv.kv_heads = heads > gpu->kv.kv_heads ? heads : gpu->kv.kv_heads;
    }
    void *at = each;
    bool taken = each != NULL && or_gpu_take(gpu, &at, layers * sizeof *each) == OR_OK;
    gpu->kv.each = taken ? at : NULL;
    gpu->kv.slot_bytes = or_kv_slot_bytes(&cache->shape);
    return taken;
}

static bool take_memory(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    or_kv_frames_t *frames = cache->frames;
    or_status_t status =
        or_gpu_alloc(gpu, cache->pages_max * cache->page_bytes, &cache->allocation);
    cache->pages = cache->allocation;
    if (status == OR_OK && frames != NULL) {
        status = or_gpu_alloc(gpu, frames->frames_max * frames->frame_bytes, &frames->allocation);
        frames->bytes = frames->allocation;
    }
    gpu->kv_block = malloc(block_bytes_max(cache) + 1);
    return status == OR_OK && gpu->kv_block != NULL;
}

static void give_pages(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    or_gpu_give(gpu, (void *)gpu->kv.each);
    if (cache->frames != NULL) {
        or_gpu_give(gpu, cache->frames->allocation);
    }
    or_gpu_give(gpu, cache->allocation);
    free(gpu->kv_block);
}

static bool take_pages(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    const or_kv_shape_t *shape = &cache->shape;
    bool taken = take_memory(cache);
    gpu->kv = (or_cuda_kv_t){.key_type = types[shape->key_type],
                             .value_type = types[shape->value_type],
                             .layers = shape->layers,
                             .kv_heads = shape->kv_heads,
                             .head_dim = shape->head_dim,
                             .pages = cache->pages,
                             .page_bytes = cache->page_bytes};
    if (!taken || !take_places(cache)) {
        give_pages(cache);
        return false;
    }
    return true;
}

static bool take_slots(or_kv_sequence_t *sequence)
{
    void *at;
    bool taken = take_part(gpu_of(sequence->cache), sequence->slots_max, &at);
    sequence->slot_bytes = at;
    return taken;
}

static void give_slots(or_kv_sequence_t *sequence)
{
    give_part(gpu_of(sequence->cache), sequence->slots_max, sequence->slot_bytes);
}

static void copy(or_gpu_t *gpu, uint8_t *pages, size_t page_bytes, uint32_t from, uint32_t to)
{
    or_gpu_keep(gpu, gpu->functions->copy(gpu->cuda, pages + to * page_bytes,
                                          pages + from * page_bytes, page_bytes));
}

static void copy_page(or_kv_cache_t *cache, uint32_t from, uint32_t to)
{
    or_gpu_t *gpu = gpu_of(cache);
    const or_kv_frames_t *frames = cache->frames;
    copy(gpu, cache->pages, cache->page_bytes, from, to);
    if (frames != NULL) {
        copy(gpu, frames->bytes, frames->frame_bytes, frames->frame_of[from], frames->frame_of[to]);
    }
}

// The path's tables begin with the page of position `length`.
static void move_slots(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    or_gpu_t *gpu = gpu_of(sequence->cache);
    if (count == 0) {
        return;
    }
    path_t path = put_path(gpu, sequence, slots, count);
    or_gpu_keep(gpu, gpu->functions->accept(gpu->cuda, &gpu->kv, &path.table,
                                            sequence->length % OR_KV_PAGE, sequence->slot_bytes,
                                            sequence->slots_max, path.slots, count));
}

static uint8_t *block(const or_kv_cache_t *cache, uint32_t page, uint32_t layer, uint32_t head)
{
    or_gpu_t *gpu = gpu_of(cache);
    const size_t bytes = block_bytes(&cache->places[layer]);
    const uint8_t *from = or_kv_block(cache, page, layer, head);
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, gpu->kv_block, from, bytes));
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return gpu->kv_block;
}

or_kv_memory_t or_gpu_kv_memory(or_gpu_t *gpu)
{
    return (or_kv_memory_t){.owner = gpu,
                            .take_pages = take_pages,
                            .take_slots = take_slots,
                            .give_pages = give_pages,
                            .give_slots = give_slots,
                            .copy_page = copy_page,
                            .move_slots = move_slots,
                            .block = block};
}
