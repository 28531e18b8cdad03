#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_growth.h"
#include "common/model/model_internal.h"

static or_status_t check_row(const or_model_t *model, const or_model_row_t *row, uint32_t index)
{
    if (row->sequence == NULL || row->sequence->cache != model->cache) {
        return or_fail(OR_ERR_INVALID, "row %u has no sequence of this model", index);
    }
    if (row->token < 0 || (uint32_t)row->token >= model->shape.vocab_size) {
        return or_fail(OR_ERR_INVALID, "row %u: token %d is not in the vocabulary of %u", index,
                       row->token, model->shape.vocab_size);
    }
    return OR_OK;
}

static or_status_t plan_prefix_row(or_pass_row_t *row)
{
    or_kv_sequence_t *sequence = row->sequence;
    uint32_t position = sequence->length + sequence->pending;
    if (position >= sequence->positions_max) {
        return or_fail(OR_ERR_FULL, "%u positions exceed the context of %u", position + 1,
                       sequence->positions_max);
    }
    sequence->pending++;
    row->position = position;
    row->committed = position + 1;
    return OR_OK;
}

// Slots belong to one committed length. Where this pass's prefix rows change it, the next epoch
// begins with this pass.
static or_status_t plan_tree_row(or_pass_row_t *row, uint32_t parent, uint32_t index)
{
    or_kv_sequence_t *sequence = row->sequence;
    uint64_t epoch = sequence->epoch + (sequence->pending > 0);
    uint32_t committed = sequence->length + sequence->pending;
    if (row->slot >= sequence->slots_max) {
        return or_fail(OR_ERR_INVALID, "row %u: slot %u is not one of the sequence's %u", index,
                       row->slot, sequence->slots_max);
    }
    if (or_kv_slot_is_live(sequence, row->slot, epoch)) {
        return or_fail(OR_ERR_INVALID,
                       "row %u: slot %u holds another node; accept or drop it first", index,
                       row->slot);
    }
    uint32_t depth = 0;
    if (parent != OR_KV_NO_SLOT) {
        if (!or_kv_slot_is_live(sequence, parent, epoch)) {
            return or_fail(OR_ERR_INVALID, "row %u: parent slot %u holds no node", index, parent);
        }
        depth = sequence->slots[parent].depth + 1;
    }
    if (depth >= sequence->positions_max - committed) {
        return or_fail(OR_ERR_FULL, "row %u: a node at position %u exceeds the context of %u",
                       index, committed + depth, sequence->positions_max);
    }
    row->replaced = sequence->slots[row->slot];
    row->position = committed + depth;
    row->committed = committed;
    sequence->slots[row->slot] = (or_kv_slot_t){parent, depth, epoch};
    sequence->has_slots = true;
    return OR_OK;
}

or_status_t or_model_adopt(or_model_t *model, const or_model_row_t *row)
{
    or_pass_row_t planned = {.sequence = row->sequence, .token = row->token, .slot = row->slot};
    or_status_t status = check_row(model, row, 0);
    return status != OR_OK ? status : plan_tree_row(&planned, row->parent_slot, 0);
}

// The pages of all prefix rows, or none: where they run out no sequence has taken any, and no shared
// page was copied. Each sequence is counted at its first prefix row.
static or_status_t take_pages(const or_model_t *model, uint32_t count)
{
    uint64_t missing = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_pass_row_t *row = &model->rows[i];
        if (row->slot == OR_KV_NO_SLOT && row->position == row->sequence->length) {
            missing += or_kv_pages_missing(row->sequence, row->position + row->sequence->pending);
        }
    }
    or_status_t status = or_kv_pages_check(model->cache, missing);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        const or_pass_row_t *row = &model->rows[i];
        if (row->slot == OR_KV_NO_SLOT) {
            or_kv_pages_take(row->sequence, row->position + 1);
        }
    }
    return status;
}

// Undo rows of which the first `tree_rows_end` may have taken a slot.
static void undo(or_model_t *model, uint32_t count, uint32_t tree_rows_end)
{
    for (uint32_t i = tree_rows_end; i-- > 0;) {
        or_pass_row_t *row = &model->rows[i];
        if (row->slot != OR_KV_NO_SLOT) {
            row->sequence->slots[row->slot] = row->replaced;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        model->rows[i].sequence->pending = 0;
        or_kv_pages_trim(model->rows[i].sequence);
    }
}

or_status_t or_pass_plan(or_model_t *model, const or_model_row_t *rows, uint32_t count)
{
    if (count == 0 || count > model->rows_max) {
        return or_fail(OR_ERR_INVALID, "a pass takes 1 to %u rows, not %u", model->rows_max, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        or_status_t status = check_row(model, &rows[i], i);
        if (status != OR_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        model->rows[i] = (or_pass_row_t){
            .sequence = rows[i].sequence, .token = rows[i].token, .slot = rows[i].slot};
    }
    for (uint32_t i = 0; i < count; i++) {
        or_status_t status =
            rows[i].slot == OR_KV_NO_SLOT ? plan_prefix_row(&model->rows[i]) : OR_OK;
        if (status != OR_OK) {
            undo(model, count, 0);
            return status;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        or_status_t status = rows[i].slot == OR_KV_NO_SLOT
                                 ? OR_OK
                                 : plan_tree_row(&model->rows[i], rows[i].parent_slot, i);
        if (status != OR_OK) {
            undo(model, count, i);
            return status;
        }
    }
    or_status_t status = take_pages(model, count);
    if (status != OR_OK) {
        undo(model, count, count);
    }
    return status;
}

void or_pass_undo(or_model_t *model, uint32_t count)
{
    undo(model, count, count);
    // The pass may have written over nodes of the epoch before.
    for (uint32_t i = 0; i < count; i++) {
        or_kv_slots_forget(model->rows[i].sequence);
    }
}

static void commit(or_model_t *model, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        or_kv_sequence_t *sequence = model->rows[i].sequence;
        if (sequence->pending > 0) {
            or_kv_sequence_grow(sequence, sequence->pending);
            sequence->epoch++;
            sequence->pending = 0;
        }
    }
    model->row_count = count;
}

or_status_t or_pass_run(or_model_t *model, uint32_t count)
{
    model->row_count = 0; // the last pass's rows are written over
    or_status_t status =
        model->gpu != NULL ? or_gpu_run_layers(model, count) : or_forward_run(model, count);
    if (status != OR_OK) {
        or_pass_undo(model, count);
        return status;
    }
    commit(model, count);
    return OR_OK;
}

or_status_t or_pass_check_rows(const or_model_t *model, uint32_t first, uint32_t count)
{
    if (first > model->row_count || count > model->row_count - first) {
        return or_fail(OR_ERR_INVALID, "the last pass had %u rows; rows %u to %u were asked for",
                       model->row_count, first, first + count);
    }
    return OR_OK;
}

static uint32_t sequences_with_slots(const or_kv_cache_t *cache)
{
    uint32_t count = 0;
    for (const or_kv_sequence_t *s = cache->first; s != NULL; s = s->next) {
        count += s->slots_max > 0;
    }
    return count;
}

or_status_t or_model_open_sequence(or_model_t *model, uint32_t slots_max,
                                   or_kv_sequence_t **sequence_p)
{
    uint32_t most = model->slots_max > 0 ? model->slots_max : OR_TREE_POSITIONS_MAX;
    if (slots_max > most) {
        return or_fail(OR_ERR_INVALID, "%u slots for tree nodes: at most %u are possible",
                       slots_max, most);
    }
    if (slots_max > 0 && sequences_with_slots(model->cache) >= model->sequences_max) {
        return or_fail(OR_ERR_FULL,
                       "the GPU has room for trees of %u texts, and all are taken; give fewer "
                       "--sessions-max, or make room with a smaller --draft-nodes-max "
                       "(OUTRIDER_DRAFT_NODES_MAX)",
                       model->sequences_max);
    }
    return or_kv_sequence_open(model->cache, model->context, slots_max, sequence_p);
}
