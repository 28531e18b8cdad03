#include "coordinator/clients/annotations.h"

#include <math.h>
#include <stdlib.h>

#define CAPACITY_MIN 64u

void or_annotations_init(or_annotations_t *annotations, bool details, uint32_t logprobs)
{
    *annotations = (or_annotations_t){.details = details, .asked = logprobs};
}

void or_annotations_fini(or_annotations_t *annotations)
{
    free(annotations->origins);
    free(annotations->ends);
    free(annotations->logprobs);
    free(annotations->top_tokens);
    free(annotations->top_logprobs);
    *annotations = (or_annotations_t){0};
}

static uint32_t best_of(const or_annotations_t *annotations)
{
    return annotations->asked > 0 ? annotations->asked - 1 : 0;
}

// ---- room ----

// The array with room for so many bytes; as it was, and *done false, if there is no memory.
static void *resize(void *array, size_t bytes, bool *done)
{
    void *larger = bytes > 0 ? realloc(array, bytes) : array;
    *done = *done && (larger != NULL || bytes == 0);
    return larger != NULL ? larger : array;
}

// The best tokens have moved.
static void point_to_tops(or_annotations_t *annotations)
{
    uint32_t best = best_of(annotations);
    for (uint32_t i = 0; best > 0 && i < annotations->count; i++) {
        annotations->logprobs[i].top_tokens = annotations->top_tokens + (size_t)i * best;
        annotations->logprobs[i].top_logprobs = annotations->top_logprobs + (size_t)i * best;
    }
}

static or_status_t reserve(or_annotations_t *annotations)
{
    if (annotations->count < annotations->capacity) {
        return OR_OK;
    }
    or_annotations_t *a = annotations;
    size_t capacity = a->capacity > 0 ? 2 * (size_t)a->capacity : CAPACITY_MIN;
    size_t details = a->details ? capacity : 0;
    size_t logprobs = a->asked > 0 ? capacity : 0;
    size_t tops = logprobs * best_of(a);
    bool done = true;
    a->origins = resize(a->origins, details * sizeof *a->origins, &done);
    a->ends = resize(a->ends, details * sizeof *a->ends, &done);
    a->logprobs = resize(a->logprobs, logprobs * sizeof *a->logprobs, &done);
    a->top_tokens = resize(a->top_tokens, tops * sizeof *a->top_tokens, &done);
    a->top_logprobs = resize(a->top_logprobs, tops * sizeof *a->top_logprobs, &done);
    point_to_tops(a);
    if (!done) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for what is known of %zu tokens", capacity);
    }
    a->capacity = (uint32_t)capacity;
    return OR_OK;
}

// ---- tokens ----

static void add_logprob(or_annotations_t *annotations, const or_token_logprob_t *logprob)
{
    uint32_t best = best_of(annotations);
    size_t first = (size_t)annotations->count * best;
    uint32_t *tokens = best > 0 ? annotations->top_tokens + first : NULL; // or there are none
    float *logprobs = best > 0 ? annotations->top_logprobs + first : NULL;
    or_token_logprob_t *to = &annotations->logprobs[annotations->count];
    *to = (or_token_logprob_t){.logprob = NAN};
    if (logprob != NULL) {
        *to = *logprob;
        for (uint32_t i = 0; i < logprob->top_count; i++) {
            tokens[i] = logprob->top_tokens[i];
            logprobs[i] = logprob->top_logprobs[i];
        }
    }
    to->top_tokens = tokens;
    to->top_logprobs = logprobs;
}

or_status_t or_annotations_add(or_annotations_t *annotations, bool guessed, uint64_t end,
                               const or_token_logprob_t *logprob)
{
    if (!annotations->details && annotations->asked == 0) {
        return OR_OK;
    }
    or_status_t status = reserve(annotations);
    if (status != OR_OK) {
        return status;
    }
    if (annotations->details) {
        annotations->origins[annotations->count] = guessed;
        annotations->ends[annotations->count] = end;
    }
    if (annotations->asked > 0) {
        add_logprob(annotations, logprob);
    }
    annotations->count++;
    return OR_OK;
}

void or_annotations_finish(or_annotations_t *annotations, uint64_t text_bytes)
{
    if (!annotations->details || annotations->count == 0) {
        return;
    }
    annotations->ends[annotations->count - 1] = text_bytes;
    for (uint32_t i = annotations->count - 1; i > 0 && annotations->ends[i - 1] > text_bytes; i--) {
        annotations->ends[i - 1] = text_bytes;
    }
}

static bool all_known(const or_token_logprob_t *logprobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(logprobs[i].logprob)) {
            return false;
        }
    }
    return true;
}

size_t or_annotations_bytes(const or_annotations_t *annotations)
{
    size_t top = annotations->asked > 0 ? annotations->asked - 1 : 0;
    size_t details = sizeof *annotations->origins + sizeof *annotations->ends;
    size_t logprobs = sizeof *annotations->logprobs +
                      top * (sizeof *annotations->top_tokens + sizeof *annotations->top_logprobs);
    return annotations->capacity *
           ((annotations->details ? details : 0) + (annotations->asked > 0 ? logprobs : 0));
}

void or_annotations_put(const or_annotations_t *annotations, uint32_t offset, uint32_t count,
                        or_generate_delta_t *delta)
{
    if (count == 0 || count > annotations->count || offset > annotations->count - count) {
        return;
    }
    if (annotations->details) {
        delta->origins = annotations->origins + offset;
        delta->token_ends = annotations->ends + offset;
        delta->origin_count = delta->token_end_count = count;
    }
    if (annotations->asked > 0 && all_known(annotations->logprobs + offset, count)) {
        delta->logprobs = annotations->logprobs + offset;
        delta->logprob_count = count;
    }
}

// ---- what the verifier says ----

// A probability may be 0; nothing else that is infinite is a logprob.
static bool is_logprob(float value)
{
    return !isnan(value) && value < INFINITY;
}

static bool is_sound(const or_token_logprob_t *logprob, uint32_t best, uint32_t vocab_size)
{
    bool sound = is_logprob(logprob->logprob) && logprob->top_count <= best;
    for (uint32_t i = 0; sound && i < logprob->top_count; i++) {
        sound = logprob->top_tokens[i] < vocab_size && is_logprob(logprob->top_logprobs[i]);
    }
    return sound;
}

or_status_t or_annotations_check(uint32_t asked, const or_verdict_t *verdict,
                                 const uint32_t *tree_tokens, uint32_t vocab_size)
{
    if (verdict->logprob_count == 0) {
        return OR_OK;
    }
    if (asked == 0 || verdict->logprob_count != verdict->accepted_count + 1) {
        return or_fail(OR_ERR_MISMATCH, "a verdict of %u tokens with %u logprobs",
                       verdict->accepted_count + 1, verdict->logprob_count);
    }
    for (uint32_t i = 0; i < verdict->logprob_count; i++) {
        const or_token_logprob_t *logprob = &verdict->logprobs[i];
        uint32_t token =
            i < verdict->accepted_count ? tree_tokens[verdict->accepted[i] - 1] : verdict->next;
        if (logprob->token != token || !is_sound(logprob, asked - 1, vocab_size)) {
            return or_fail(OR_ERR_MISMATCH, "a verdict with logprobs that make no sense");
        }
    }
    return OR_OK;
}
