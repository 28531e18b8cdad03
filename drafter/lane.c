#include "drafter/lane.h"

#include "common/base/inline.h"
#include "drafter/together.h"

#define ROWS_MAX 64u // of one pass

or_status_t or_lane_open(or_lane_t *lane, or_model_t *model, const or_vocab_t *vocab,
                         uint32_t nodes, uint32_t distribution_entries)
{
    *lane = (or_lane_t){.model = model};
    or_status_t status = or_token_tree_create(nodes, &lane->tree);
    if (status == OR_OK) {
        status = or_builder_create(model, vocab, nodes, distribution_entries, &lane->builder);
    }
    if (status == OR_OK) {
        status = or_model_open_sequence(model, or_builder_slots(lane->builder), &lane->kv);
    }
    return status;
}

void or_lane_close(or_lane_t *lane)
{
    or_kv_sequence_close(&lane->kv);
    or_builder_destroy(&lane->builder);
    or_token_tree_destroy(&lane->tree);
}

void or_lane_truncate(or_lane_t *lane, uint32_t length)
{
    or_builder_forget(lane->builder);
    or_kv_sequence_drop_slots(lane->kv);
    if (length < or_kv_sequence_length(lane->kv)) {
        or_kv_sequence_truncate(lane->kv, length);
    }
}

static uint32_t rows_of_a_pass(const or_lane_t *lane)
{
    return or_min_u32(or_model_rows_max(lane->model), ROWS_MAX);
}

// Run the next tokens of the log, as many as go into a pass. *row: the last one's.
static or_status_t run_next(or_lane_t *lane, const or_token_log_t *log, uint32_t *row)
{
    or_model_row_t rows[ROWS_MAX];
    uint32_t from = or_kv_sequence_length(lane->kv);
    uint32_t count = or_min_u32(log->length - from, rows_of_a_pass(lane));
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (or_model_row_t){lane->kv, log->tokens[from + i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    uint32_t first;
    or_status_t status = or_together_forward(lane->model, rows, count, &first);
    if (status == OR_OK) {
        lane->caught_up++;
        *row = first + count - 1;
    }
    return status;
}

or_status_t or_lane_read(or_lane_t *lane, const or_token_log_t *log, bool *read)
{
    uint32_t row;
    *read = or_kv_sequence_length(lane->kv) + rows_of_a_pass(lane) < log->length;
    return *read ? run_next(lane, log, &row) : OR_OK;
}

or_status_t or_lane_catch_up(or_lane_t *lane, const or_token_log_t *log, uint32_t *root_row)
{
    or_status_t status = OR_OK;
    if (or_kv_sequence_length(lane->kv) >= log->length) { // the root's logits are gone
        or_kv_sequence_truncate(lane->kv, log->length - 1);
    }
    while (status == OR_OK && or_kv_sequence_length(lane->kv) < log->length) {
        status = run_next(lane, log, root_row);
    }
    return status;
}

uint64_t or_lane_passes(const or_lane_t *lane)
{
    return lane->caught_up + or_builder_passes(lane->builder);
}

// If the pages went to another session since the tree was built, nothing can be kept.
or_status_t or_lane_keep(or_lane_t *lane, uint32_t length, const uint32_t *path, uint32_t count)
{
    uint32_t slots[OR_TREE_NODES_MAX];
    uint32_t kept = 0;
    bool root_cached = or_kv_sequence_length(lane->kv) == length;
    while (root_cached && kept < count) {
        uint32_t slot = or_builder_slot(lane->builder, path[kept]);
        if (slot == OR_KV_NO_SLOT) {
            break;
        }
        slots[kept++] = slot;
    }
    or_status_t status = or_kv_sequence_accept(lane->kv, slots, kept);
    if (status == OR_ERR_FULL) { // no page to move them to: catching up makes room
        or_kv_sequence_drop_slots(lane->kv);
        status = OR_OK;
    }
    return status;
}

or_status_t or_lane_follow(or_lane_t *lane, or_belief_t *belief, uint32_t length,
                           const int32_t *tokens, uint32_t count)
{
    uint32_t slots[OR_TREE_NODES_MAX];
    if (or_kv_sequence_length(lane->kv) != length) { // the pages went to another session
        or_builder_forget(lane->builder);
    }
    uint32_t kept = or_builder_follow(lane->builder, belief, tokens, count, slots);
    or_status_t status = kept == count ? or_kv_sequence_accept_root(lane->kv, slots, count)
                                       : or_kv_sequence_accept(lane->kv, slots, kept);
    if (status == OR_ERR_FULL) { // no page to move them to: catching up makes room
        or_builder_forget(lane->builder);
        or_kv_sequence_drop_slots(lane->kv);
        status = OR_OK;
    }
    return status;
}
