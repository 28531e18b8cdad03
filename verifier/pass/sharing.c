// Prefixes that are computed once for an owner: from sessions and texts at rest that begin with the same
// tokens (compared, not only hashed), and by waiting for somebody who computes them right now.
#include <string.h>

#include "verifier/verifier_internal.h"

static bool same_owner(const or_vsession_t *a, const or_vsession_t *b)
{
    return strcmp(a->terms.open.owner, b->terms.open.owner) == 0;
}

// Positions of `other`, the first `cached` of which are there, that are the same in the prefix of
// `session`: if they are more than `beyond`, else 0.
static uint32_t common_with(const or_vsession_t *session, const or_vsession_t *other,
                            uint32_t cached, uint32_t beyond)
{
    if (other->id.value == 0 || other == session || !same_owner(session, other)) {
        return 0;
    }
    return or_common_tokens(session->log.tokens, session->log.length - 1, other->log.tokens, cached,
                            beyond);
}

// Whole pages are shared; of the last one a copy is made where a page is free.
static bool is_worth_it(const or_verifier_t *verifier, uint32_t length, uint32_t cached)
{
    return length / OR_KV_PAGE * OR_KV_PAGE > cached ||
           or_kv_cache_pages_free(or_model_cache(verifier->model)) > 0;
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
        or_texts_find(verifier->texts, session->terms.open.owner, session->log.tokens,
                      session->log.length - 1, length, &length);
    donor = at_rest != NULL ? at_rest : donor;
    if (donor != NULL && is_worth_it(verifier, length, cached)) {
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
