#include "coordinator/vocab/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/text/tokenizer.h"

// A tail that never settles (a run of spaces, say) is cut after so many bytes, so that no round
// pays for all of it: there the drafter's tokens are not quite its tokenizer's, and the text is the
// same.
#define TAIL_BYTES_MAX 4096u

struct or_shadow {
    const or_vocab_pair_t *pair; // borrowed
    int32_t begin;               // put first, unless the target's own first token is it
    or_detok_t detok;            // the target's tokens as text
    uint32_t followed;           // target tokens taken so far
    // The drafter's tokens: of text that is settled, then those of the tail.
    or_token_log_t log;
    uint32_t settled;
    uint64_t settled_hash;
    char *tail; // the text whose tokens may still change
    size_t tail_bytes;
    size_t tail_room;
    bool continues; // the tail does: text before it is settled
    // The log's length before the call, and how far the tokens are as they were.
    uint32_t old_length;
    uint32_t unchanged;
};

// A begin token is put before a text even if the drafter's file does not ask for it: where there is
// one, documents were told apart by it in training. Token by token nothing is added that the target
// does not have, unless only the drafter wants one.
static int32_t begin_token(const or_vocab_pair_t *pair)
{
    bool wanted =
        !pair->bijective || (or_vocab_adds_bos(pair->draft) && !or_vocab_adds_bos(pair->target));
    return wanted ? or_vocab_bos(pair->draft) : OR_TOKEN_NONE;
}

or_status_t or_shadow_create(const or_vocab_pair_t *pair, or_shadow_t **shadow_p)
{
    or_shadow_t *shadow = calloc(1, sizeof *shadow);
    if (shadow == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a drafter's view of a text");
    }
    or_status_t status = or_token_log_init(&shadow->log, 256);
    if (status != OR_OK) {
        or_shadow_destroy(&shadow);
        return status;
    }
    shadow->pair = pair;
    shadow->begin = begin_token(pair);
    or_detok_init(&shadow->detok, pair->target, true, true);
    *shadow_p = shadow;
    return OR_OK;
}

void or_shadow_destroy(or_shadow_t **shadow_p)
{
    if (*shadow_p != NULL) {
        free((*shadow_p)->tail);
        or_token_log_fini(&(*shadow_p)->log);
        free(*shadow_p);
        *shadow_p = NULL;
    }
}

const or_token_log_t *or_shadow_log(const or_shadow_t *shadow)
{
    return &shadow->log;
}

// -- the drafter's tokens
// ---------------------------------------------------------------------------------------------

// Behind the log's end its memory still holds what was there before the call: compared here, and
// then overwritten.
static or_status_t put(or_shadow_t *shadow, const int32_t *ids, size_t count)
{
    const or_token_log_t *log = &shadow->log;
    for (size_t i = 0; i < count && shadow->unchanged == log->length + i; i++) {
        if (shadow->unchanged < shadow->old_length && log->tokens[shadow->unchanged] == ids[i]) {
            shadow->unchanged++;
        }
    }
    return or_token_log_append(&shadow->log, ids, (uint32_t)count);
}

static void settle(or_shadow_t *shadow)
{
    shadow->settled = shadow->log.length;
    shadow->settled_hash = shadow->log.hash;
}

static void forget_unsettled(or_shadow_t *shadow)
{
    shadow->old_length = shadow->log.length;
    shadow->unchanged = shadow->settled;
    shadow->log.length = shadow->settled;
    shadow->log.hash = shadow->settled_hash;
}

// After a failure: the next call takes all again.
static void start_over(or_shadow_t *shadow)
{
    shadow->followed = 0;
    shadow->tail_bytes = 0;
    shadow->continues = false;
    shadow->log.length = 0;
    shadow->log.hash = 0;
    settle(shadow);
    or_detok_init(&shadow->detok, shadow->pair->target, true, true);
}

// Puts the tokens of the tail, those that cannot change any more as settled: all if nothing
// follows.
static or_status_t put_tail(or_shadow_t *shadow, bool ends)
{
    if (shadow->tail_bytes == 0) {
        return OR_OK;
    }
    int32_t *ids = NULL;
    size_t count;
    or_settled_t settled;
    unsigned flags = shadow->continues ? OR_TOKENIZE_CONTINUES : 0;
    or_status_t status = or_tokenize_growing(shadow->pair->draft, shadow->tail, shadow->tail_bytes,
                                             flags, &ids, &count, &settled);
    if (status != OR_OK) {
        return status;
    }
    if (ends || shadow->tail_bytes - settled.bytes > TAIL_BYTES_MAX) {
        settled = (or_settled_t){shadow->tail_bytes, count};
    }
    status = put(shadow, ids, settled.tokens);
    if (status == OR_OK && settled.bytes > 0) {
        settle(shadow);
        shadow->continues = true;
        shadow->tail_bytes -= settled.bytes;
        memmove(shadow->tail, shadow->tail + settled.bytes, shadow->tail_bytes);
    }
    if (status == OR_OK) {
        status = put(shadow, ids + settled.tokens, count - settled.tokens);
    }
    free(ids);
    return status;
}

// -- the target's tokens
// ----------------------------------------------------------------------------------------------

static or_status_t take_text(or_shadow_t *shadow, int32_t token)
{
    uint32_t width;
    const char *bytes = or_detok_bytes(&shadow->detok, token, &width);
    if (!or_array_reserve(&shadow->tail, &shadow->tail_room, shadow->tail_bytes, width, 1)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu bytes of text",
                       2 * (shadow->tail_bytes + width));
    }
    if (width > 0) {
        memcpy(shadow->tail + shadow->tail_bytes, bytes, width);
        shadow->tail_bytes += width;
    }
    return OR_OK;
}

// No token of the drafter's crosses one that goes over as it is.
static or_status_t take_as_it_is(or_shadow_t *shadow, int32_t token)
{
    or_status_t status = put_tail(shadow, true);
    if (status == OR_OK) {
        status = put(shadow, &token, 1);
    }
    if (status == OR_OK) {
        settle(shadow);
    }
    return status;
}

static or_status_t take(or_shadow_t *shadow, int32_t token)
{
    const or_vocab_pair_t *pair = shadow->pair;
    int32_t drafts = pair->to_draft[token];
    if (shadow->followed == 0 && shadow->begin != OR_TOKEN_NONE && drafts != shadow->begin) {
        or_status_t status = take_as_it_is(shadow, shadow->begin);
        if (status != OR_OK) {
            return status;
        }
    }
    shadow->followed++;
    bool as_it_is = pair->bijective || or_vocab_kind(pair->target, token) == OR_TOKEN_SPECIAL;
    if (!as_it_is) {
        return take_text(shadow, token);
    }
    return drafts != OR_TOKEN_NONE ? take_as_it_is(shadow, drafts) : OR_OK;
}

// A drafter has to be sent something: not settled, so that the first text replaces it.
static or_status_t put_something(or_shadow_t *shadow)
{
    const or_vocab_t *draft = shadow->pair->draft;
    int32_t token =
        or_vocab_bos(draft) != OR_TOKEN_NONE ? or_vocab_bos(draft) : or_vocab_eos(draft);
    if (token == OR_TOKEN_NONE) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "the drafter's vocabulary has no token for an empty text: no begin and no "
                       "end token; begin with a prompt");
    }
    return put(shadow, &token, 1);
}

or_status_t or_shadow_follow(or_shadow_t *shadow, const int32_t *tokens, uint32_t count,
                             uint32_t *changed)
{
    or_status_t status = OR_OK;
    forget_unsettled(shadow);
    while (status == OR_OK && shadow->followed < count) {
        status = take(shadow, tokens[shadow->followed]);
    }
    if (status == OR_OK) {
        status = put_tail(shadow, false);
    }
    if (status == OR_OK && shadow->log.length == 0) {
        status = put_something(shadow);
    }
    if (status != OR_OK) {
        start_over(shadow);
        return status;
    }
    *changed = shadow->unchanged;
    return OR_OK;
}
