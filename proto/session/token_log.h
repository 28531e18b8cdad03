// token_log - committed tokens with their rolling prefix hash: the coordinator's truth and every
// peer's shadow of it.
//
//     tokens  1 458 1112 731 261 631 | 284 631 4037      prompt | completion
//     hash    H(length), or_prefix_hash folded from 0
//
// One thread. Appending beyond the reserved capacity reallocates. Peers reserve once, so theirs never does.
#pragma once

#include "proto/wire/message.h"

typedef struct {
    int32_t *tokens; // owned; `capacity` entries
    uint32_t length;
    uint32_t capacity;
    uint64_t hash;
} or_token_log_t;

// Make an empty log with room for `capacity` tokens. OR_ERR_NO_MEMORY.
or_status_t or_token_log_init(or_token_log_t *log, uint32_t capacity);
void or_token_log_fini(or_token_log_t *log);

// Add tokens at the end. OR_ERR_NO_MEMORY leaves the log as it was.
or_status_t or_token_log_append(or_token_log_t *log, const int32_t *tokens, uint32_t count);

// Make the log equal to a Prefix. *kept leading tokens stayed the same, and a KV cache may keep these. Nothing changes on
// failure. OR_ERR_MISMATCH: the prefix starts beyond our length, or the hash of the whole would differ. OR_ERR_INVALID:
// nothing would be left, or an id is not in [0, vocab_size). OR_ERR_FULL: it is longer than `capacity`.
or_status_t or_token_log_apply(or_token_log_t *log, const or_prefix_t *prefix, uint32_t vocab_size,
                               uint32_t *kept);

// Return the Prefix message that carries tokens start .. length - 1. It borrows the log.
or_prefix_t or_token_log_prefix(const or_token_log_t *log, uint32_t start, uint64_t round);
