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

uint32_t or_pass_chain(const or_pass_row_t *row, uint32_t *chain)
{
    uint32_t count = row->position - row->committed + 1;
    uint32_t slot = row->slot;
    for (uint32_t i = count; i-- > 0;) {
        chain[i] = slot;
        slot = row->sequence->slots[slot].parent;
    }
    return count;
}

void or_pass_undo(or_model_t *model, uint32_t count)
{
    undo(model, count, count);
    // The pass may have written over nodes of the epoch before.
    for (uint32_t i = 0; i < count; i++) {
        or_kv_slots_forget(model->rows[i].sequence);
    }
}

void or_pass_commit(or_model_t *model, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        or_kv_sequence_t *sequence = model->rows[i].sequence;
        if (sequence->pending > 0) {
            sequence->length += sequence->pending;
            sequence->epoch++;
            sequence->pending = 0;
        }
    }
    model->row_count = count;
}
