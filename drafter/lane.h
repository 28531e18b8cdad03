// lane - one draft model's part in a session: its KV cache, its builder, its tree. A session has one
// lane; with method multi, one for each of the drafter's models.
#pragma once

#include "common/model/model.h"
#include "drafter/build/builder.h"
#include "proto/wire/token_log.h"

typedef struct {
    or_model_t *model; // borrowed
    or_kv_sequence_t *kv;
    or_builder_t *builder;
    or_token_tree_t *tree;
    uint64_t caught_up; // passes that catching up took so far
} or_lane_t;

// OR_ERR_NO_MEMORY; or_lane_close in any case. Arguments as or_builder_create's.
or_status_t or_lane_open(or_lane_t *lane, or_model_t *model, const or_vocab_t *vocab,
                         uint32_t nodes, uint32_t distribution_entries);
void or_lane_close(or_lane_t *lane);

// Forget K and V of all tokens from `length` on, and of the last tree.
void or_lane_truncate(or_lane_t *lane, uint32_t length);

// Compute K and V of every committed token, in passes of the model's size; the last one ends with the
// root, whose row is *root_row. OR_ERR_FULL: no pages.
or_status_t or_lane_catch_up(or_lane_t *lane, const or_token_log_t *log, uint32_t *root_row);

// Forward passes of the model so far: to catch up, and for trees.
uint64_t or_lane_passes(const or_lane_t *lane);

// The log of `length` tokens will go on with this path of the lane's tree: keep its K and V as far as
// they were computed. What was not, is computed when the lane catches up.
or_status_t or_lane_keep(or_lane_t *lane, uint32_t length, const uint32_t *path, uint32_t count);

// The log of `length` tokens goes on with these: a growing tree (builder.h) follows, and teaches `belief`.
// Keeps K and V of those that it had run, and of its guesses that are still possible.
or_status_t or_lane_follow(or_lane_t *lane, or_belief_t *belief, uint32_t length,
                           const int32_t *tokens, uint32_t count);
