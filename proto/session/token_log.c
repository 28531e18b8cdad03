#include "proto/session/token_log.h"

#include <stdlib.h>
#include <string.h>

or_status_t or_token_log_init(or_token_log_t *log, uint32_t capacity)
{
    if (capacity == 0) {
        capacity = 1;
    }
    int32_t *tokens = calloc(capacity, sizeof *tokens);
    if (tokens == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a log of %u tokens", capacity);
    }
    *log = (or_token_log_t){.tokens = tokens, .capacity = capacity};
    return OR_OK;
}

void or_token_log_fini(or_token_log_t *log)
{
    free(log->tokens);
    *log = (or_token_log_t){0};
}

static or_status_t grow(or_token_log_t *log, uint64_t needed)
{
    if (needed <= log->capacity) {
        return OR_OK;
    }
    uint64_t capacity = log->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    int32_t *tokens =
        capacity <= UINT32_MAX ? realloc(log->tokens, capacity * sizeof *tokens) : NULL;
    if (tokens == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a log of %llu tokens",
                       (unsigned long long)needed);
    }
    log->tokens = tokens;
    log->capacity = (uint32_t)capacity;
    return OR_OK;
}

or_status_t or_token_log_append(or_token_log_t *log, const int32_t *tokens, uint32_t count)
{
    or_status_t status = grow(log, (uint64_t)log->length + count);
    if (status != OR_OK) {
        return status;
    }
    memmove(log->tokens + log->length, tokens, count * sizeof *tokens); // may be in place already
    log->hash = or_prefix_hash(log->hash, (const uint32_t *)log->tokens + log->length, count);
    log->length += count;
    return OR_OK;
}

or_status_t or_token_log_apply(or_token_log_t *log, const or_prefix_t *prefix, uint32_t vocab_size,
                               uint32_t *kept)
{
    if (prefix->start > log->length) {
        return or_fail(OR_ERR_MISMATCH, "prefix starts at %u, we hold %u tokens", prefix->start,
                       log->length);
    }
    if ((uint64_t)prefix->start + prefix->count == 0) {
        return or_fail(OR_ERR_INVALID, "a prefix without a token");
    }
    if ((uint64_t)prefix->start + prefix->count > log->capacity) {
        return or_fail(OR_ERR_FULL, "prefix of %llu tokens, there is room for %u",
                       (unsigned long long)prefix->start + prefix->count, log->capacity);
    }
    for (uint32_t i = 0; i < prefix->count; i++) {
        if (prefix->tokens[i] >= vocab_size) {
            return or_fail(OR_ERR_INVALID, "prefix token %u is not in the vocabulary of %u",
                           prefix->tokens[i], vocab_size);
        }
    }
    uint64_t hash = or_prefix_hash(0, (const uint32_t *)log->tokens, prefix->start);
    hash = or_prefix_hash(hash, prefix->tokens, prefix->count);
    if (hash != prefix->hash) {
        return or_fail(OR_ERR_MISMATCH, "prefix hash differs at length %u",
                       prefix->start + prefix->count);
    }
    uint32_t same = prefix->start;
    uint32_t length = prefix->start + prefix->count;
    while (same < length && same < log->length &&
           (uint32_t)log->tokens[same] == prefix->tokens[same - prefix->start]) {
        same++;
    }
    if (prefix->count > 0) {
        memcpy(log->tokens + prefix->start, prefix->tokens, prefix->count * sizeof *log->tokens);
    }
    log->length = length;
    log->hash = hash;
    *kept = same;
    return OR_OK;
}

or_prefix_t or_token_log_prefix(const or_token_log_t *log, uint32_t start, uint64_t round)
{
    return (or_prefix_t){
        .start = start,
        .tokens = (const uint32_t *)log->tokens + start,
        .count = log->length - start,
        .hash = log->hash,
        .round = round,
    };
}
