#include "common/model/streamed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/gguf/packed_reader.h"
#include "common/model/model_internal.h"

#define PAGE ((uint64_t)OR_PACKED_ALIGNMENT)
#define BUFFERS 2u
#define NO_LAYER UINT32_MAX

// Parts of the file, in a list that grows.
typedef struct {
    or_packed_span_t *spans;
    uint32_t count, room;
    uint64_t bytes; // of all spans
} spans_t;

// A layer of the stage, and where this rank's parts of it are.
typedef struct {
    spans_t common; // what all rows read
    spans_t all;    // and the experts
    uint64_t matrix_bytes;
    uintptr_t base; // where its matrices say that the file's first byte is
    bool on_disk;
} layer_t;

typedef struct {
    unsigned char *memory;
    uint32_t layer; // that is read into it
    bool whole;     // with its experts
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
    uint32_t turn;         // the buffer of the layer on disk that is entered now or next
    uint32_t entered;      // layer; NO_LAYER: none
    bool whole;            // layers are read with all of their experts
    bool *has;             // [experts] those of the entered layer that are there
    spans_t wanted;        // of experts
};

// ---- where a layer is ----

static bool add_span(spans_t *list, uint64_t begin, uint64_t end)
{
    if (list->count == list->room) {
        uint32_t room = 2 * list->room + 16;
        or_packed_span_t *spans = realloc(list->spans, room * sizeof *spans);
        if (spans == NULL) {
            return false;
        }
        list->spans = spans;
        list->room = room;
    }
    begin = begin / PAGE * PAGE;
    end = (end + PAGE - 1) / PAGE * PAGE;
    list->spans[list->count++] = (or_packed_span_t){begin, end - begin};
    return true;
}

// A part of the inputs is a piece of every panel; a part of the outputs is some whole panels of every expert.
static bool add_matrix(spans_t *list, uintptr_t base, const or_matrix_t *m)
{
    const uint32_t panels = or_span_length(m->panels);
    const uint64_t part = panels > 0 ? m->bytes / m->experts / panels : 0; // of a panel
    const bool whole = part == m->panel_bytes;
    bool added = true;
    for (uint32_t e = 0; part > 0 && e < m->experts; e++) {
        uint64_t at = (uintptr_t)m->memory - base + e * m->expert_bytes;
        for (uint32_t p = 0; added && p < (whole ? 1 : panels); p++, at += m->panel_bytes) {
            added = add_span(list, at, at + (whole ? panels * part : part));
        }
    }
    return added;
}

static int compare_spans(const void *a, const void *b)
{
    const or_packed_span_t *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

// Order the spans and join those that touch each other.
static void join_spans(spans_t *list)
{
    uint32_t count = 0;
    if (list->count > 0) {
        qsort(list->spans, list->count, sizeof *list->spans, compare_spans);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const or_packed_span_t span = list->spans[i];
        or_packed_span_t *last = count > 0 ? &list->spans[count - 1] : NULL;
        if (last == NULL || span.at > last->at + last->bytes) {
            list->spans[count++] = span;
        } else if (span.at + span.bytes > last->at + last->bytes) {
            last->bytes = span.at + span.bytes - last->at;
        }
    }
    list->count = count;
    list->bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        list->bytes += list->spans[i].bytes;
    }
}

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
    layer->matrix_bytes += matrix->bytes;
    return add_matrix(&layer->all, layer->base, matrix) &&
                   (is_chosen(s, layer, matrix) || add_matrix(&layer->common, layer->base, matrix))
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
        join_spans(&layer->common);
        join_spans(&layer->all);
    }
    return status;
}

// ---- which layers stay ----

// With `kept` of `count` layers in memory, is this one of them? They lie evenly.
static bool is_kept(uint32_t index, uint32_t kept, uint32_t count)
{
    return (uint64_t)(index + 1) * kept / count != (uint64_t)index * kept / count;
}

// Do two layers lie alike, so that they take the same bytes of a buffer?
static bool lie_alike(const spans_t *a, const spans_t *b)
{
    bool alike = a->count == b->count;
    for (uint32_t i = 0; alike && i < a->count; i++) {
        alike = a->spans[i].at - a->spans[0].at == b->spans[i].at - b->spans[0].at &&
                a->spans[i].bytes == b->spans[i].bytes;
    }
    return alike;
}

// Mark the layers on disk if `kept` of them are in memory, and return the bytes that all layers then take.
static uint64_t mark_layers(or_streamed_t *s, uint32_t kept)
{
    uint64_t in_memory = 0;
    const spans_t *first = NULL;
    bool alike = true;
    s->buffer_bytes = s->buffer_room = 0;
    s->on_disk = 0;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        layer_t *layer = &s->layers[i];
        const spans_t *spans = &layer->all;
        layer->on_disk = spans->count > 0 && !is_kept(i, kept, s->layer_count);
        if (!layer->on_disk) {
            in_memory += spans->bytes;
            continue;
        }
        const or_packed_span_t *last = &spans->spans[spans->count - 1];
        const uint64_t room = last->at + last->bytes - spans->spans[0].at;
        first = first == NULL ? spans : first;
        alike = alike && lie_alike(first, spans);
        s->on_disk++;
        s->buffer_bytes = spans->bytes > s->buffer_bytes ? spans->bytes : s->buffer_bytes;
        s->buffer_room = room > s->buffer_room ? room : s->buffer_room;
    }
    s->buffer_bytes = alike ? s->buffer_bytes : s->buffer_room; // by and by all of it is touched
    return in_memory + BUFFERS * s->buffer_bytes;
}

// Keep as many layers as there is room for beside what is no layer's.
static or_status_t choose_layers(or_streamed_t *s, uint64_t memory, bool strict)
{
    uint64_t others = s->model->weight_bytes;
    uint32_t kept = s->layer_count;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        others -= s->layers[i].matrix_bytes;
    }
    uint64_t needed = others + mark_layers(s, kept);
    while (needed > memory && kept > 0) {
        needed = others + mark_layers(s, --kept);
    }
    return needed <= memory || !strict
               ? OR_OK
               : or_fail(
                     OR_ERR_INVALID,
                     "--weights-memory: two layers at a time, the output and all vectors take at "
                     "least %" PRIu64 "K here; give that, or more ranks",
                     (needed + 1023) / 1024);
}

// What stays in memory is compared by the file's own threads.
static or_status_t compare_kept(or_streamed_t *s)
{
    const or_model_t *model = s->model;
    spans_t kept = {0};
    bool added = model->head.memory == NULL || !model->head.borrowed ||
                 add_matrix(&kept, (uintptr_t)or_packed_begin(model->packed), &model->head);
    for (uint32_t i = 0; i < s->layer_count; i++) {
        const spans_t *spans = &s->layers[i].all;
        for (uint32_t j = 0; added && !s->layers[i].on_disk && j < spans->count; j++) {
            const or_packed_span_t *span = &spans->spans[j];
            added = add_span(&kept, span->at, span->at + span->bytes);
        }
    }
    or_status_t status = added ? or_packed_compare_only(model->packed, kept.spans, kept.count,
                                                        or_workers_count(model->workers))
                               : or_fail(OR_ERR_NO_MEMORY, "no memory for the places of layers");
    free(kept.spans);
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
    return (uintptr_t)buffer->memory - s->layers[buffer->layer].all.spans[0].at;
}

static or_packed_reading_t reading_of(uintptr_t base, const spans_t *spans)
{
    return (or_packed_reading_t){
        .spans = spans->spans,
        .count = spans->count,
        .to = (unsigned char *)(base + (spans->count > 0 ? spans->spans[0].at : 0))};
}

static void read_layer(or_streamed_t *s, buffer_t *buffer, uint32_t layer)
{
    const layer_t *l = &s->layers[layer];
    buffer->layer = layer;
    buffer->whole = s->whole;
    buffer->reading = reading_of(base_of(s, buffer), s->whole ? &l->all : &l->common);
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
    matrix->memory = (void *)((uintptr_t)matrix->memory - layer->base + base);
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
        memset(s->has, buffer->whole, s->model->shape.experts * sizeof *s->has);
    }
    s->entered = layer;
    return OR_OK;
}

void or_streamed_expect(or_streamed_t *s, uint32_t rows)
{
    if (s != NULL) {
        const or_model_shape_t *shape = &s->model->shape;
        s->whole = (uint64_t)rows * shape->experts_used >= shape->experts;
    }
}

or_status_t or_streamed_experts(or_streamed_t *s, const uint32_t *chosen, uint32_t count)
{
    if (s == NULL || s->entered == NO_LAYER || !s->layers[s->entered].on_disk) {
        return OR_OK;
    }
    const or_layer_t *layer = &s->model->layers[s->entered];
    const or_matrix_t *const matrices[] = {&layer->expert_gate, &layer->expert_up,
                                           &layer->expert_down};
    const uintptr_t base = s->layers[s->entered].base;
    bool added = true;
    s->wanted.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < 3 && !s->has[chosen[i]] && matrices[j]->experts > 1; j++) {
            const or_matrix_t expert = or_matrix_expert(matrices[j], chosen[i]);
            added = added && add_matrix(&s->wanted, base, &expert);
        }
        s->has[chosen[i]] = true;
    }
    if (!added) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of experts");
    }
    join_spans(&s->wanted);
    or_packed_reading_t reading = reading_of(base, &s->wanted);
    or_packed_reader_begin(s->reader, &reading, true);
    return or_packed_reader_wait(s->reader, &reading);
}

// ---- life ----

// Pages that no layer uses take no memory. Huge pages would fill the gaps between a rank's parts.
static or_status_t create_buffers(or_streamed_t *s)
{
    const bool dense = s->buffer_room == s->buffer_bytes;
    for (uint32_t i = 0; i < BUFFERS; i++) {
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
    if (status == OR_OK) {
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
    bool *has = calloc(model->shape.experts + 1, sizeof *has);
    if (s == NULL || layers == NULL || has == NULL) {
        free(has);
        free(layers);
        free(s);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of %u layers", count);
    }
    *s = (or_streamed_t){
        .model = model, .layers = layers, .layer_count = count, .entered = NO_LAYER, .has = has};
    or_status_t status = find_layers(s);
    status = status != OR_OK ? status : choose_layers(s, memory, strict);
    status = status != OR_OK ? status : compare_kept(s);
    status = status != OR_OK || s->on_disk == 0 ? status : begin(s);
    if (status != OR_OK || s->on_disk == 0) {
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
    for (uint32_t i = 0; i < BUFFERS; i++) {
        if (s->buffers[i].memory != NULL) {
            munmap(s->buffers[i].memory, s->buffer_room);
        }
    }
    for (uint32_t i = 0; i < s->layer_count; i++) {
        free(s->layers[i].common.spans);
        free(s->layers[i].all.spans);
    }
    free(s->wanted.spans);
    free(s->has);
    free(s->layers);
    free(s);
    *streamed_p = NULL;
}

uint32_t or_streamed_layers(const or_streamed_t *s)
{
    return s == NULL ? 0 : s->on_disk;
}

uint64_t or_streamed_bytes(const or_streamed_t *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; s != NULL && i < s->layer_count; i++) {
        bytes += s->layers[i].on_disk ? s->layers[i].matrix_bytes : 0;
    }
    return bytes;
}

uint64_t or_streamed_buffer_bytes(const or_streamed_t *s)
{
    return s == NULL ? 0 : BUFFERS * s->buffer_bytes;
}
