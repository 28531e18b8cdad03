#include "common/model/kept_experts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/model/expert_slots.h"
#include "common/model/model_internal.h"
#include "common/model/spans.h"

#define PAGE ((uint64_t)OR_PACKED_ALIGNMENT)
#define MATRICES 3u
#define NO_LAYER UINT32_MAX
// Experts of the next layer are read ahead where its rows take so many times as many as there are. Routing has favourites: at 4 times
// only 61 % were taken of a skewed one, so that reading all of them cost more than waiting for those.
#define AHEAD_TIMES 8u

// Experts of a layer that are read together.
typedef struct {
    uint32_t layer; // NO_LAYER: nothing is read
    or_spans_t spans;
    or_packed_reading_t *readings; // [MATRICES * experts]
    uint32_t *first;               // [MATRICES * experts] span of each
    uint32_t count;                // of readings
} batch_t;

struct or_kept_experts {
    or_model_t *model;
    or_packed_reader_t *reader;
    or_expert_slots_t *slots;
    or_expert_layout_t layout;
    uint32_t layers, experts, slot_count;
    unsigned char *memory; // [slot_count][layout.bytes]
    void **places;         // [layers][MATRICES][experts]
    bool *fresh;           // [layers][experts] read in this pass
    batch_t now, ahead;
    uint32_t *every;             // [experts] the numbers of all
    bool reads_ahead;            // in this pass
    or_model_kept_t all, before; // until now, and when this pass began
};

// ---- the layout of a slot ----

static or_matrix_t *matrix_of(or_model_t *model, uint32_t layer, uint32_t which)
{
    or_layer_t *l = &model->layers[layer];
    or_matrix_t *const matrices[MATRICES] = {&l->expert_gate, &l->expert_up, &l->expert_down};
    return matrices[which];
}

// A layer without experts, and a rank without a part of them, have nothing here.
static bool is_here(const or_matrix_t *matrix)
{
    return matrix->experts > 1 && matrix->memory != NULL && matrix->bytes > 0;
}

// Return the pages from the first to the last that the expert's part of a matrix has some of, gaps included.
static uint64_t extent_of(const or_matrix_t *matrix, uint32_t expert, uintptr_t base)
{
    const uint32_t panels = or_span_length(matrix->panels);
    const uint64_t part = matrix->bytes / matrix->experts / panels;
    const uint64_t at = (uintptr_t)matrix->memory - base + expert * matrix->expert_bytes;
    const uint64_t end = at + (panels - 1) * matrix->panel_bytes + part;
    return (end + PAGE - 1) / PAGE * PAGE - at / PAGE * PAGE;
}

or_expert_layout_t or_kept_experts_layout(const or_model_t *model)
{
    const uintptr_t base = (uintptr_t)or_packed_begin(model->packed);
    or_expert_layout_t layout = {0};
    for (uint32_t m = 0; m < MATRICES; m++) {
        uint64_t most = 0;
        for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
            const or_matrix_t *matrix = matrix_of((or_model_t *)model, i, m);
            for (uint32_t e = 0; is_here(matrix) && e < matrix->experts; e++) {
                const uint64_t extent = extent_of(matrix, e, base);
                most = extent > most ? extent : most;
            }
        }
        layout.offsets[m] = layout.bytes;
        layout.bytes += most;
    }
    return layout;
}

uint32_t or_kept_experts_slots_min(const or_model_t *model)
{
    const uint64_t taken = (uint64_t)model->rows_max * model->shape.experts_used;
    return taken < model->shape.experts ? (uint32_t)taken : model->shape.experts;
}

uint64_t or_kept_experts_count(const or_model_t *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        count += or_experts_is_dense(&model->layers[i]) ? 0 : model->shape.experts;
    }
    return count;
}

// ---- reading ----

static void **place_of(const or_kept_experts_t *k, uint32_t matrix, or_expert_id_t id)
{
    return &k->places[((size_t)id.layer * MATRICES + matrix) * k->experts + id.expert];
}

static bool *fresh_of(const or_kept_experts_t *k, or_expert_id_t id)
{
    return &k->fresh[(size_t)id.layer * k->experts + id.expert];
}

// Add the readings of an expert to a batch, into its slot. The batch has room for all experts of a layer.
static void add_readings(or_kept_experts_t *k, batch_t *batch, or_expert_id_t id, uint32_t slot)
{
    const uintptr_t base = (uintptr_t)or_packed_begin(k->model->packed);
    for (uint32_t m = 0; m < MATRICES; m++) {
        or_matrix_t matrix = *matrix_of(k->model, id.layer, m);
        if (!is_here(&matrix)) {
            continue;
        }
        matrix.places = NULL; // where it is in the file
        matrix = or_matrix_expert(&matrix, id.expert);
        unsigned char *to = k->memory + slot * k->layout.bytes + k->layout.offsets[m];
        const uint32_t first = batch->spans.count;
        const bool added = or_spans_add_matrix(&batch->spans, base, &matrix);
        assert(added);
        (void)added;
        or_spans_join(&batch->spans, first);
        batch->first[batch->count] = first;
        batch->readings[batch->count++] =
            (or_packed_reading_t){.count = batch->spans.count - first, .to = to};
        *place_of(k, m, id) = to + ((uintptr_t)matrix.memory - base) % PAGE;
    }
}

static void forget(or_kept_experts_t *k, or_expert_id_t id)
{
    for (uint32_t m = 0; id.layer != OR_EXPERT_NO_SLOT && m < MATRICES; m++) {
        *place_of(k, m, id) = NULL;
    }
}

// Hold an expert, and add it to what is read if it has no slot.
static void hold(or_kept_experts_t *k, batch_t *batch, or_expert_id_t id)
{
    or_expert_id_t replaced;
    if (or_expert_slots_find(k->slots, id) != OR_EXPERT_NO_SLOT) {
        or_expert_slots_hold(k->slots, id);
        return;
    }
    const uint32_t slot = or_expert_slots_take(k->slots, id, &replaced);
    assert(slot != OR_EXPERT_NO_SLOT); // or_kept_experts_slots_min
    forget(k, replaced);
    add_readings(k, batch, id, slot);
    *fresh_of(k, id) = true;
    k->all.read++;
}

// Begin to read those of these experts that are missing. First all that are there are held, so that none of them is replaced.
static void begin_batch(or_kept_experts_t *k, batch_t *batch, uint32_t layer,
                        const uint32_t *chosen, uint32_t count, bool urgent)
{
    batch->layer = layer;
    batch->count = batch->spans.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_expert_id_t id = {layer, chosen[i]};
        if (or_expert_slots_find(k->slots, id) != OR_EXPERT_NO_SLOT) {
            hold(k, batch, id);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        hold(k, batch, (or_expert_id_t){layer, chosen[i]});
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        or_packed_reading_t *reading = &batch->readings[i];
        reading->spans = batch->spans.spans + batch->first[i];
        or_packed_reader_begin(k->reader, reading, urgent);
    }
}

static or_status_t await_batch(or_kept_experts_t *k, batch_t *batch)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; batch->layer != NO_LAYER && i < batch->count; i++) {
        or_status_t one = or_packed_reader_wait(k->reader, &batch->readings[i]);
        status = status != OR_OK ? status : one;
    }
    batch->layer = NO_LAYER;
    return status;
}

// ---- a pass ----

or_status_t or_kept_experts_begin(or_kept_experts_t *k, uint32_t rows)
{
    if (k == NULL) {
        return OR_OK;
    }
    // If the last pass ended early its experts have slots by now, so that nobody would ask for them again.
    or_status_t ahead = await_batch(k, &k->ahead);
    or_expert_slots_begin(k->slots);
    memset(k->fresh, 0, (size_t)k->layers * k->experts * sizeof *k->fresh);
    k->before = k->all;
    k->reads_ahead =
        k->slot_count >= 2 * (uint64_t)k->experts &&
        (uint64_t)rows * k->model->shape.experts_used >= AHEAD_TIMES * (uint64_t)k->experts;
    return ahead;
}

// Read all experts of the next layer that has some, behind what is needed now.
static void read_ahead(or_kept_experts_t *k, uint32_t layer)
{
    do {
        layer++;
    } while (layer < k->layers && or_experts_is_dense(&k->model->layers[layer]));
    if (layer < k->layers) {
        begin_batch(k, &k->ahead, layer, k->every, k->experts, false);
    }
}

static void count_needed(or_kept_experts_t *k, uint32_t layer, const uint32_t *chosen,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const or_expert_id_t id = {layer, chosen[i]};
        if (or_expert_slots_use(k->slots, id)) {
            k->all.needed++;
            k->all.found +=
                or_expert_slots_find(k->slots, id) != OR_EXPERT_NO_SLOT && !*fresh_of(k, id);
        }
    }
}

or_status_t or_kept_experts_need(or_kept_experts_t *k, uint32_t layer, const uint32_t *chosen,
                                 uint32_t count)
{
    or_status_t ahead = await_batch(k, &k->ahead); // of this layer
    if (ahead != OR_OK) {
        return ahead;
    }
    count_needed(k, layer, chosen, count);
    begin_batch(k, &k->now, layer, chosen, count, true);
    or_status_t status = await_batch(k, &k->now);
    if (status == OR_OK && k->reads_ahead) {
        read_ahead(k, layer);
    }
    return status;
}

void or_kept_experts_let_go(or_kept_experts_t *k, uint32_t layer)
{
    if (k != NULL) {
        or_expert_slots_let_go(k->slots, layer);
    }
}

// ---- life ----

static bool create_batch(or_kept_experts_t *k, batch_t *batch)
{
    uint64_t spans = 0;
    for (uint32_t i = 0; i < k->layers; i++) {
        uint64_t of_layer = 0;
        for (uint32_t m = 0; m < MATRICES; m++) {
            const or_matrix_t *matrix = matrix_of(k->model, i, m);
            of_layer += is_here(matrix) ? or_spans_of_matrix(matrix) : 0;
        }
        spans = of_layer > spans ? of_layer : spans;
    }
    batch->layer = NO_LAYER;
    batch->readings = calloc(MATRICES * (size_t)k->experts, sizeof *batch->readings);
    batch->first = calloc(MATRICES * (size_t)k->experts, sizeof *batch->first);
    return batch->readings != NULL && batch->first != NULL && spans <= UINT32_MAX &&
           or_spans_reserve(&batch->spans, (uint32_t)spans);
}

// Huge pages are a wish; from small ones a disk is read at less than half its speed.
static bool create_memory(or_kept_experts_t *k)
{
    const size_t bytes = k->slot_count * k->layout.bytes;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    k->memory = memory;
    return true;
}

static void place_layers(or_kept_experts_t *k)
{
    for (uint32_t e = 0; e < k->experts; e++) {
        k->every[e] = e;
    }
    for (uint32_t i = 0; i < k->layers; i++) {
        for (uint32_t m = 0; m < MATRICES; m++) {
            or_matrix_t *matrix = matrix_of(k->model, i, m);
            matrix->places = is_here(matrix) ? place_of(k, m, (or_expert_id_t){i, 0}) : NULL;
        }
    }
}

or_status_t or_kept_experts_create(or_model_t *model, const or_expert_layout_t *layout,
                                   uint32_t slots, or_packed_reader_t *reader,
                                   or_kept_experts_t **kept_p)
{
    or_kept_experts_t *k = calloc(1, sizeof *k);
    if (k == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of %" PRIu32 " experts", slots);
    }
    *k = (or_kept_experts_t){.model = model,
                             .reader = reader,
                             .layout = *layout,
                             .layers = or_span_length(model->share.layers),
                             .experts = model->shape.experts,
                             .slot_count = slots};
    k->all.slots = slots;
    k->all.experts = (uint32_t)or_kept_experts_count(model);
    const size_t all = (size_t)k->layers * k->experts;
    k->places = calloc(MATRICES * all, sizeof *k->places);
    k->fresh = calloc(all, sizeof *k->fresh);
    k->every = calloc(k->experts, sizeof *k->every);
    or_status_t status = or_expert_slots_create(k->layers, k->experts, slots, &k->slots);
    if (status == OR_OK &&
        (k->places == NULL || k->fresh == NULL || k->every == NULL || !create_batch(k, &k->now) ||
         !create_batch(k, &k->ahead) || !create_memory(k))) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for %" PRIu32 " experts", slots);
    }
    if (status != OR_OK) {
        or_kept_experts_destroy(&k);
        return status;
    }
    place_layers(k);
    *kept_p = k;
    return OR_OK;
}

static void destroy_batch(batch_t *batch)
{
    or_spans_fini(&batch->spans);
    free(batch->readings);
    free(batch->first);
}

void or_kept_experts_destroy(or_kept_experts_t **kept_p)
{
    or_kept_experts_t *k = *kept_p;
    if (k == NULL) {
        return;
    }
    if (k->memory != NULL) {
        munmap(k->memory, k->slot_count * k->layout.bytes);
    }
    destroy_batch(&k->now);
    destroy_batch(&k->ahead);
    or_expert_slots_destroy(&k->slots);
    free(k->every);
    free(k->fresh);
    free(k->places);
    free(k);
    *kept_p = NULL;
}

// ---- figures ----

or_model_kept_t or_kept_experts_of_all(const or_kept_experts_t *k)
{
    return k == NULL ? (or_model_kept_t){0} : k->all;
}

or_model_kept_t or_kept_experts_of_pass(const or_kept_experts_t *k)
{
    or_model_kept_t pass = or_kept_experts_of_all(k);
    if (k != NULL) {
        pass.needed -= k->before.needed;
        pass.found -= k->before.found;
        pass.read -= k->before.read;
    }
    return pass;
}
