#include "common/model/streamed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/gguf/packed_reader.h"
#include "common/model/model_internal.h"
#include "common/model/spans.h"

#define BUFFERS 2u
#define NO_LAYER UINT32_MAX

// A layer of the stage, and where this rank's parts of it are.
typedef struct {
    or_spans_t common; // what all rows read
    or_spans_t chosen; // the experts
    uint64_t matrix_bytes, common_bytes;
    uintptr_t base; // where its matrices say that the file's first byte is
    bool on_disk;   // what is common
} layer_t;

typedef struct {
    unsigned char *memory;
    uint32_t layer; // that is read into it
    or_packed_reading_t reading;
} buffer_t;

struct or_streamed {
    or_model_t *model;
    or_packed_reader_t *reader;
    layer_t *layers;
    uint32_t layer_count;
    uint32_t on_disk; // of these
    buffer_t buffers[BUFFERS];
    size_t buffer_room;    // addresses of each
    uint64_t buffer_bytes; // that are used of them
    uint64_t in_memory;    // bytes of what is common of the layers that are not on disk
    uint32_t turn;         // the buffer of the layer on disk that is entered now or next
    uint32_t entered;      // layer; NO_LAYER: none
    or_expert_layout_t layout;
    uint32_t slots; // of experts; 0: all are in memory, mapped, or there are none
    or_kept_experts_t *kept;
};

// ---- where a layer is ----

// The matrices of a layer, one after the other.
typedef or_status_t each_t(or_streamed_t *s, layer_t *layer, const char *name, or_matrix_t *matrix);

static or_status_t each_matrix(or_streamed_t *s, uint32_t index, each_t *each)
{
    or_model_t *model = s->model;
    char *layer = (char *)&model->layers[index];
    or_status_t status = OR_OK;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors;
         status == OR_OK && t->suffix != NULL; t++) {
        or_matrix_t *matrix = (or_matrix_t *)(layer + t->offset);
        if (t->outputs != OR_DIM_ONE &&
            or_arch_layer_has(&model->shape, t, model->share.layers.begin + index) &&
            matrix->memory != NULL) {
            status = each(s, &s->layers[index], t->suffix, matrix);
        }
    }
    return status;
}

// Experts are read once they are chosen. Latent attention has a matrix for each head, too, but all rows read all of these.
static bool is_chosen(const or_streamed_t *s, const layer_t *layer, const or_matrix_t *matrix)
{
    const or_layer_t *of = &s->model->layers[layer - s->layers];
    return matrix->experts > 1 &&
           (matrix == &of->expert_gate || matrix == &of->expert_up || matrix == &of->expert_down);
}

static or_status_t find_matrix(or_streamed_t *s, layer_t *layer, const char *name,
                               or_matrix_t *matrix)
{
    const or_packed_t *packed = s->model->packed;
    if (!matrix->borrowed) {
        return or_fail(OR_ERR_FORMAT,
                       "%s lacks a matrix %s; `outrider model pack --force` makes it anew",
                       or_packed_path(packed), name);
    }
    const bool chosen = is_chosen(s, layer, matrix);
    layer->matrix_bytes += matrix->bytes;
    layer->common_bytes += chosen ? 0 : matrix->bytes;
    return or_spans_add_matrix(chosen ? &layer->chosen : &layer->common, layer->base, matrix)
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for the places of a layer");
}

static or_status_t find_layers(or_streamed_t *s)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < s->layer_count; i++) {
        layer_t *layer = &s->layers[i];
        layer->base = (uintptr_t)or_packed_begin(s->model->packed);
        status = each_matrix(s, i, find_matrix);
        or_spans_join(&layer->common, 0);
        or_spans_join(&layer->chosen, 0);
    }
    s->layout = status == OR_OK ? or_kept_experts_layout(s->model) : (or_expert_layout_t){0};
    return status;
}

// ---- which layers stay ----

// With `kept` of `count` layers in memory, is this one of them? They lie evenly.
static bool is_kept(uint32_t index, uint32_t kept, uint32_t count)
{
    return (uint64_t)(index + 1) * kept / count != (uint64_t)index * kept / count;
}

// Mark the layers on disk if `kept` of them are in memory, and find what buffers take: by and by all pages are touched that some
// layer on disk has there. false: no memory.
static bool mark_layers(or_streamed_t *s, uint32_t kept)
{
    or_spans_t touched = {0};
    bool added = true;
    s->on_disk = 0;
    s->in_memory = 0;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        layer_t *layer = &s->layers[i];
        const or_spans_t *spans = &layer->common;
        layer->on_disk = spans->count > 0 && !is_kept(i, kept, s->layer_count);
        s->on_disk += layer->on_disk;
        s->in_memory += layer->on_disk ? 0 : spans->bytes;
        for (uint32_t j = 0; added && layer->on_disk && j < spans->count; j++) {
            const uint64_t at = spans->spans[j].at - spans->spans[0].at;
            added = or_spans_add(&touched, at, at + spans->spans[j].bytes);
        }
    }
    or_spans_join(&touched, 0);
    const or_packed_span_t *last = touched.count > 0 ? &touched.spans[touched.count - 1] : NULL;
    s->buffer_bytes = touched.bytes;
    s->buffer_room = last != NULL ? last->at + last->bytes : 0;
    or_spans_fini(&touched);
    return added;
}

// Return the bytes that all layers take as they are marked, but for experts.
static uint64_t marked_bytes(const or_streamed_t *s)
{
    return s->in_memory + BUFFERS * s->buffer_bytes;
}

// Return the bytes of all experts, mapped.
static uint64_t bytes_of_experts(const or_streamed_t *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        bytes += s->layers[i].chosen.bytes;
    }
    return bytes;
}

static or_status_t no_places(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of layers");
}

static or_status_t too_small(const or_streamed_t *s, uint64_t least)
{
    return or_fail(OR_ERR_INVALID,
                   "--weights-memory: two layers at a time%s, the output and all vectors take at "
                   "least %" PRIu64 "K here; give that, or more ranks",
                   s->slots > 0 ? ", the experts of one" : "", (least + 1023) / 1024);
}

// Mark as many layers as there is room for beside `others`, and find what is needed then; of none of them if even that is too much.
// *least_p is the least that some number of layers needs.
static or_status_t mark_most(or_streamed_t *s, uint64_t others, uint64_t memory, uint64_t *needed_p,
                             uint64_t *least_p)
{
    *needed_p = *least_p = UINT64_MAX;
    for (uint32_t kept = s->layer_count + 1; *needed_p > memory && kept > 0; kept--) {
        if (!mark_layers(s, kept - 1)) {
            return no_places();
        }
        *needed_p = others + marked_bytes(s);
        *least_p = *needed_p < *least_p ? *needed_p : *least_p;
    }
    return OR_OK;
}

// Keep as many layers as there is room for beside what is no layer's. All rows read what is common of layers: that has the first
// claim, and experts get what it leaves, at least what one layer of a pass can take.
static or_status_t choose_layers(or_streamed_t *s, uint64_t memory, bool strict)
{
    const uint64_t slots_min = or_kept_experts_slots_min(s->model);
    const uint64_t slots_max = or_kept_experts_count(s->model);
    uint64_t others = s->model->weight_bytes, needed, least;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        others -= s->layers[i].matrix_bytes;
    }
    if (!mark_layers(s, s->layer_count)) {
        return no_places();
    }
    if (s->layout.bytes > 0 && others + marked_bytes(s) + bytes_of_experts(s) > memory) {
        s->slots = (uint32_t)slots_min;
        others += slots_min * s->layout.bytes;
    } else {
        others += bytes_of_experts(s);
    }
    or_status_t status = mark_most(s, others, memory, &needed, &least);
    if (status != OR_OK || (needed > memory && strict)) {
        return status != OR_OK ? status : too_small(s, least);
    }
    if (s->slots > 0 && needed < memory) {
        const uint64_t slots = slots_min + (memory - needed) / s->layout.bytes;
        s->slots = (uint32_t)(slots < slots_max ? slots : slots_max);
    }
    return OR_OK;
}

// Add spans to those that stay in memory.
static bool add_kept(or_spans_t *kept, const or_spans_t *spans)
{
    bool added = true;
    for (uint32_t i = 0; added && i < spans->count; i++) {
        const or_packed_span_t *span = &spans->spans[i];
        added = or_spans_add(kept, span->at, span->at + span->bytes);
    }
    return added;
}

// Add a matrix that is no layer's.
static bool add_whole(const or_model_t *model, or_spans_t *kept, const or_matrix_t *matrix)
{
    return matrix->memory == NULL || !matrix->borrowed ||
           or_spans_add_matrix(kept, (uintptr_t)or_packed_begin(model->packed), matrix);
}

// Parts that stay in memory are compared by the file's own threads.
static or_status_t compare_kept(or_streamed_t *s)
{
    const or_model_t *model = s->model;
    or_spans_t kept = {0};
    bool added =
        add_whole(model, &kept, &model->head) && add_whole(model, &kept, &model->inputs.projection);
    for (uint32_t i = 0; i < s->layer_count; i++) {
        const layer_t *layer = &s->layers[i];
        added = added && (layer->on_disk || add_kept(&kept, &layer->common)) &&
                (s->slots > 0 || add_kept(&kept, &layer->chosen));
    }
    or_status_t status = added ? or_packed_compare_only(model->packed, kept.spans, kept.count,
                                                        or_workers_count(model->workers))
                               : no_places();
    or_spans_fini(&kept);
    return status;
}

// ---- reading ----

static uint32_t next_on_disk(const or_streamed_t *s, uint32_t layer)
{
    do {
        layer = (layer + 1) % s->layer_count;
    } while (!s->layers[layer].on_disk);
    return layer;
}

// Return the address of the file's first byte, if this buffer has a layer.
static uintptr_t base_of(const or_streamed_t *s, const buffer_t *buffer)
{
    return (uintptr_t)buffer->memory - s->layers[buffer->layer].common.spans[0].at;
}

static void read_layer(or_streamed_t *s, buffer_t *buffer, uint32_t layer)
{
    const or_spans_t *spans = &s->layers[layer].common;
    buffer->layer = layer;
    buffer->reading =
        (or_packed_reading_t){.spans = spans->spans, .count = spans->count, .to = buffer->memory};
    or_packed_reader_begin(s->reader, &buffer->reading, false);
}

// Read from this layer on, whatever was read before.
static void read_from(or_streamed_t *s, uint32_t layer)
{
    for (uint32_t i = 0; i < BUFFERS; i++) {
        or_packed_reader_wait(s->reader, &s->buffers[i].reading);
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        read_layer(s, &s->buffers[i], layer);
        layer = next_on_disk(s, layer);
    }
    s->turn = 0;
}

static or_status_t move_matrix(or_streamed_t *s, layer_t *layer, const char *name,
                               or_matrix_t *matrix)
{
    (void)name;
    const uintptr_t base = base_of(s, &s->buffers[s->turn]);
    if (!is_chosen(s, layer, matrix)) {
        matrix->memory = (void *)((uintptr_t)matrix->memory - layer->base + base);
    }
    return OR_OK;
}

void or_streamed_leave(or_streamed_t *s)
{
    if (s == NULL || s->entered == NO_LAYER) {
        return;
    }
    if (s->layers[s->entered].on_disk) {
        // The other buffer has the next one, or will have.
        const uint32_t next = s->buffers[(s->turn + 1) % BUFFERS].layer;
        read_layer(s, &s->buffers[s->turn], next_on_disk(s, next));
        s->turn = (s->turn + 1) % BUFFERS;
    }
    or_kept_experts_let_go(s->kept, s->entered);
    s->entered = NO_LAYER;
}

or_status_t or_streamed_enter(or_streamed_t *s, uint32_t layer)
{
    if (s == NULL || s->entered == layer) {
        return OR_OK;
    }
    or_streamed_leave(s);
    if (s->layers[layer].on_disk) {
        if (s->buffers[s->turn].layer != layer) {
            read_from(s, layer); // the last pass ended early
        }
        buffer_t *buffer = &s->buffers[s->turn];
        or_status_t status = or_packed_reader_wait(s->reader, &buffer->reading);
        if (status != OR_OK) {
            return status;
        }
        each_matrix(s, layer, move_matrix);
        s->layers[layer].base = base_of(s, buffer);
    }
    s->entered = layer;
    return OR_OK;
}

or_status_t or_streamed_expect(or_streamed_t *s, uint32_t rows)
{
    return s == NULL ? OR_OK : or_kept_experts_begin(s->kept, rows);
}

or_status_t or_streamed_experts(or_streamed_t *s, const uint32_t *chosen, uint32_t count)
{
    return s == NULL || s->kept == NULL ? OR_OK
                                        : or_kept_experts_need(s->kept, s->entered, chosen, count);
}

// ---- life ----

// Pages that no layer uses take no memory. Huge pages would fill the gaps between a rank's parts.
static or_status_t create_buffers(or_streamed_t *s)
{
    const bool dense = s->buffer_room == s->buffer_bytes;
    for (uint32_t i = 0; i < BUFFERS && s->on_disk > 0; i++) {
        void *memory = mmap(NULL, s->buffer_room, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a layer of %zu bytes", s->buffer_room);
        }
        madvise(memory, s->buffer_room, dense ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); // a wish
        s->buffers[i].memory = memory;
    }
    return OR_OK;
}

static or_status_t begin(or_streamed_t *s)
{
    or_status_t status = create_buffers(s);
    status = status != OR_OK ? status : or_packed_reader_create(s->model->packed, &s->reader);
    if (status == OR_OK && s->slots > 0) {
        status = or_kept_experts_create(s->model, &s->layout, s->slots, s->reader, &s->kept);
    }
    if (status == OR_OK && s->on_disk > 0) {
        read_from(s, next_on_disk(s, s->layer_count - 1));
    }
    return status;
}

or_status_t or_streamed_create(or_model_t *model, uint64_t memory, bool strict,
                               or_streamed_t **streamed_p)
{
    or_streamed_t *s = calloc(1, sizeof *s);
    const uint32_t count = or_span_length(model->share.layers);
    layer_t *layers = calloc(count, sizeof *layers);
    if (s == NULL || layers == NULL) {
        free(layers);
        free(s);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of %u layers", count);
    }
    *s = (or_streamed_t){
        .model = model, .layers = layers, .layer_count = count, .entered = NO_LAYER};
    or_status_t status = find_layers(s);
    status = status != OR_OK ? status : choose_layers(s, memory, strict);
    status = status != OR_OK ? status : compare_kept(s);
    const bool none = s->on_disk == 0 && s->slots == 0;
    status = status != OR_OK || none ? status : begin(s);
    if (status != OR_OK || none) {
        or_streamed_destroy(&s);
    }
    *streamed_p = s;
    return status;
}

void or_streamed_destroy(or_streamed_t **streamed_p)
{
    or_streamed_t *s = *streamed_p;
    if (s == NULL) {
        return;
    }
    or_packed_reader_destroy(&s->reader);
    or_kept_experts_destroy(&s->kept);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        if (s->buffers[i].memory != NULL) {
            munmap(s->buffers[i].memory, s->buffer_room);
        }
    }
    for (uint32_t i = 0; i < s->layer_count; i++) {
        or_spans_fini(&s->layers[i].common);
        or_spans_fini(&s->layers[i].chosen);
    }
    free(s->layers);
    free(s);
    *streamed_p = NULL;
}

// Is some of the layer read in passes?
static bool is_streamed(const or_streamed_t *s, uint32_t layer)
{
    return s->layers[layer].on_disk || (s->slots > 0 && s->layers[layer].chosen.count > 0);
}

uint32_t or_streamed_layers(const or_streamed_t *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; s != NULL && i < s->layer_count; i++) {
        count += is_streamed(s, i);
    }
    return count;
}

uint64_t or_streamed_bytes(const or_streamed_t *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; s != NULL && i < s->layer_count; i++) {
        const layer_t *layer = &s->layers[i];
        bytes += layer->on_disk ? layer->common_bytes : 0;
        bytes += s->slots > 0 ? layer->matrix_bytes - layer->common_bytes : 0;
    }
    return bytes;
}

uint64_t or_streamed_buffer_bytes(const or_streamed_t *s)
{
    return s == NULL ? 0 : BUFFERS * s->buffer_bytes + s->slots * s->layout.bytes;
}

const or_kept_experts_t *or_streamed_kept(const or_streamed_t *s)
{
    return s == NULL ? NULL : s->kept;
}
