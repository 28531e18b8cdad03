// Prefixes that are computed once for an owner. They are taken from sessions and from texts at rest that begin with the
// same tokens (compared, not only hashed), or waited for while another session computes them.
#include <stdlib.h>
#include <string.h>

#include "verifier/verifier_internal.h"

// ---- texts at rest ----

// Return the number of leading tokens that two texts have in common, if it is more than `beyond`; else 0.
static uint32_t common_tokens(const int32_t *a, uint32_t a_count, const int32_t *b,
                              uint32_t b_count, uint32_t beyond)
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

// Return the sequence of the owner's text that begins with most of these tokens, more than `beyond`, and in *length how
// many of its positions are the same. NULL if there is none that a text can go on from. The text counts as used.
static const or_kv_sequence_t *find_text(or_texts_t *texts, const char *owner,
                                         const int32_t *tokens, uint32_t count, uint32_t beyond,
                                         uint32_t *length)
{
    text_t *best = NULL;
    for (uint32_t i = 0; i < texts->texts_max; i++) {
        text_t *text = &texts->texts[i];
        if (text->kv == NULL || strcmp(text->owner, owner) != 0) {
            continue;
        }
        uint32_t there = or_kv_sequence_length(text->kv);
        uint32_t common = common_tokens(text->tokens, there, tokens, count, beyond);
        if (or_kv_sequence_usable(text->kv, there, common) > 0) {
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

void or_texts_keep(or_texts_t *texts, const or_vsession_t *session)
{
    const char *owner = session->terms.open.owner;
    uint32_t length = or_kv_sequence_length(session->kv);
    uint32_t known;
    if (length == 0 ||
        find_text(texts, owner, session->log.tokens, length, length - 1, &known) != NULL) {
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
    // There was no page for its end, and no window reaches what is before.
    if (or_kv_sequence_length(fresh.kv) == 0) {
        forget(&fresh);
        return;
    }
    *free_place(texts) = fresh;
}

// ---- sharing ----

static bool same_owner(const or_vsession_t *a, const or_vsession_t *b)
{
    return strcmp(a->terms.open.owner, b->terms.open.owner) == 0;
}

// Return the positions of `other`, once the first `cached` of them are there, that are the same in the prefix of
// `session`, if they are more than `beyond` and a text can go on from them; else 0.
static uint32_t common_with(const or_vsession_t *session, const or_vsession_t *other,
                            uint32_t cached, uint32_t beyond)
{
    if (other->id.value == 0 || other == session || !same_owner(session, other)) {
        return 0;
    }
    uint32_t common = common_tokens(session->log.tokens, session->log.length - 1, other->log.tokens,
                                    cached, beyond);
    return or_kv_sequence_usable(other->kv, cached, common);
}

// Return true if sharing is worth it: whole pages are shared, and the last one is copied if a page is free.
static bool is_worth_it(const or_verifier_t *verifier, const or_kv_sequence_t *donor,
                        uint32_t length, uint32_t cached)
{
    uint32_t whole = length / OR_KV_PAGE * OR_KV_PAGE;
    return or_kv_cache_pages_free(or_model_cache(verifier->model)) > 0 ||
           or_kv_sequence_usable(donor, or_kv_sequence_length(donor), whole) > cached;
}

void or_verifier_share(or_verifier_t *verifier, or_vsession_t *session)
{
    if (verifier->config.no_prefix_sharing) {
        return;
    }
    uint32_t cached = or_kv_sequence_length(session->kv);
    uint32_t length = cached;
    const or_kv_sequence_t *donor = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *other = &verifier->sessions[i];
        uint32_t common = other->kv == NULL ? 0
                                            : common_with(session, other,
                                                          or_kv_sequence_length(other->kv), length);
        if (common > 0) {
            length = common;
            donor = other->kv;
        }
    }
    const or_kv_sequence_t *at_rest =
        find_text(verifier->texts, session->terms.open.owner, session->log.tokens,
                  session->log.length - 1, length, &length);
    donor = at_rest != NULL ? at_rest : donor;
    if (donor != NULL && is_worth_it(verifier, donor, length, cached)) {
        or_kv_sequence_share(session->kv, donor, length);
        uint32_t reused = or_kv_sequence_length(session->kv) - cached;
        verifier->stats.reused_rows += reused;
        session->reused += reused;
    }
}

bool or_verifier_is_computed(const or_verifier_t *verifier, const or_vsession_t *session,
                             uint32_t rows)
{
    uint32_t cached = or_kv_sequence_length(session->kv);
    uint32_t enough =
        rows < OR_KV_PAGE ? rows : OR_KV_PAGE; // else waiting costs more than it saves
    for (uint32_t i = 0; i < verifier->batch.part_count && !verifier->config.no_prefix_sharing;
         i++) {
        const or_part_t *part = &verifier->batch.parts[i];
        uint32_t reaches = or_kv_sequence_length(part->session->kv) + part->prefix_rows;
        uint32_t common =
            part->prefix_rows == 0 ? 0 : common_with(session, part->session, reaches, cached);
        if (common > 0 && common - cached >= enough) {
            return true;
        }
    }
    return false;
}
