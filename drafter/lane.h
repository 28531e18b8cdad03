// lane - one draft model's part in a session: its KV cache, its builder, its tree. A session has one lane; with
// method multi it has one for each of the drafter's models. One thread.
#pragma once

#include "common/model/model.h"
#include "drafter/build/builder.h"
#include "proto/session/token_log.h"

typedef struct {
    or_model_t *model; // borrowed
    or_kv_sequence_t *kv;
    or_builder_t *builder;
    or_token_tree_t *tree;
    uint64_t caught_up; // forward passes spent on catching up so far
} or_lane_t;

// Open a lane; the arguments are as or_builder_create's. Errors are its and or_model_open_sequence's; call
// or_lane_close in any case.
or_status_t or_lane_open(or_lane_t *lane, or_model_t *model, const or_vocab_t *vocab,
                         uint32_t nodes, uint32_t distribution_entries);
void or_lane_close(or_lane_t *lane);

// Forget K and V of all tokens from `length` on, and of the last tree.
void or_lane_truncate(or_lane_t *lane, uint32_t length);

// Compute K and V of as many committed tokens as a pass takes, if more are missing. *read: they were. OR_ERR_FULL: no pages.
or_status_t or_lane_read(or_lane_t *lane, const or_token_log_t *log, bool *read);

// Compute K and V of every committed token, in passes of the model's size; the last one ends with the
// root, whose row is *root_row. OR_ERR_FULL: no pages.
or_status_t or_lane_catch_up(or_lane_t *lane, const or_token_log_t *log, uint32_t *root_row);

// Return the forward passes of the model so far: those that caught up, and those for trees.
uint64_t or_lane_passes(const or_lane_t *lane);

// Keep the K and V, as far as they were computed, of a path of the lane's tree along which the log of `length` tokens
// will go on. The rest is computed when the lane catches up.
or_status_t or_lane_keep(or_lane_t *lane, uint32_t length, const uint32_t *path, uint32_t count);

// Let a growing tree (builder.h) follow the tokens with which the log of `length` tokens goes on, and teach `belief`.
// Keeps the K and V of tokens that it had run, and of guesses that are still possible.
or_status_t or_lane_follow(or_lane_t *lane, or_belief_t *belief, uint32_t length,
                           const int32_t *tokens, uint32_t count);
