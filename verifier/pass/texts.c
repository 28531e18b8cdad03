#include "verifier/pass/texts.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char *owner;
    int32_t *tokens;      // of the positions that are cached
    or_kv_sequence_t *kv; // NULL: this place is free
    uint64_t used;        // order of use
} text_t;

struct or_texts {
    or_model_t *model;
    uint32_t texts_max;
    text_t *texts;
    uint64_t uses;
};

or_status_t or_texts_create(or_model_t *model, uint32_t texts_max, or_texts_t **texts_p)
{
    or_texts_t *texts = calloc(1, sizeof *texts);
    if (texts == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for texts at rest");
    }
    texts->model = model;
    texts->texts_max = texts_max;
    texts->texts = calloc(texts_max, sizeof *texts->texts);
    if (texts->texts == NULL) {
        free(texts);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u texts at rest", texts_max);
    }
    *texts_p = texts;
    return OR_OK;
}

static void forget(text_t *text)
{
    or_kv_sequence_close(&text->kv);
    free(text->tokens);
    free(text->owner);
    *text = (text_t){0};
}

void or_texts_destroy(or_texts_t **texts_p)
{
    or_texts_t *texts = *texts_p;
    if (texts == NULL) {
        return;
    }
    for (uint32_t i = 0; i < texts->texts_max; i++) {
        forget(&texts->texts[i]);
    }
    free(texts->texts);
    free(texts);
    *texts_p = NULL;
}

static text_t *least_recent(const or_texts_t *texts)
{
    text_t *oldest = NULL;
    for (uint32_t i = 0; i < texts->texts_max; i++) {
        text_t *text = &texts->texts[i];
        if (text->kv != NULL && (oldest == NULL || text->used < oldest->used)) {
            oldest = text;
        }
    }
    return oldest;
}

bool or_texts_drop(or_texts_t *texts)
{
    text_t *oldest = least_recent(texts);
    if (oldest == NULL) {
        return false;
    }
    forget(oldest);
    return true;
}

static text_t *free_place(or_texts_t *texts)
{
    for (uint32_t i = 0; i < texts->texts_max; i++) {
        if (texts->texts[i].kv == NULL) {
            return &texts->texts[i];
        }
    }
    text_t *place = least_recent(texts);
    forget(place);
    return place;
}

void or_texts_keep(or_texts_t *texts, const or_vsession_t *session)
{
    const char *owner = session->terms.open.owner;
    uint32_t length = or_kv_sequence_length(session->kv);
    uint32_t known;
    if (length == 0 ||
        or_texts_find(texts, owner, session->log.tokens, length, length - 1, &known) != NULL) {
        return;
    }
    text_t fresh = {.used = ++texts->uses};
    fresh.owner = strdup(owner);
    fresh.tokens = malloc(length * sizeof *fresh.tokens);
    if (fresh.owner == NULL || fresh.tokens == NULL ||
        or_model_open_sequence(texts->model, 0, &fresh.kv) != OR_OK) {
        forget(&fresh);
        return;
    }
    memcpy(fresh.tokens, session->log.tokens, length * sizeof *fresh.tokens);
    or_kv_sequence_share(fresh.kv, session->kv, length);
    *free_place(texts) = fresh;
}

const or_kv_sequence_t *or_texts_find(or_texts_t *texts, const char *owner, const int32_t *tokens,
                                      uint32_t count, uint32_t beyond, uint32_t *length)
{
    text_t *best = NULL;
    for (uint32_t i = 0; i < texts->texts_max; i++) {
        text_t *text = &texts->texts[i];
        if (text->kv == NULL || strcmp(text->owner, owner) != 0) {
            continue;
        }
        uint32_t common =
            or_common_tokens(text->tokens, or_kv_sequence_length(text->kv), tokens, count, beyond);
        if (common > 0) {
            beyond = common;
            best = text;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    best->used = ++texts->uses;
    *length = beyond;
    return best->kv;
}

uint32_t or_common_tokens(const int32_t *a, uint32_t a_count, const int32_t *b, uint32_t b_count,
                          uint32_t beyond)
{
    uint32_t most = a_count < b_count ? a_count : b_count;
    if (most <= beyond || a[beyond] != b[beyond]) {
        return 0; // most are told apart here
    }
    uint32_t same = 0;
    while (same < most && a[same] == b[same]) {
        same++;
    }
    return same > beyond ? same : 0;
}
