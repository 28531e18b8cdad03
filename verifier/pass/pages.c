// Which sessions give pages when the pool is short, in this order:
//
//     texts at rest             the least recently used first: no session waits for them
//     sessions that are idle    not heard of for a second and with nothing in the queue, the longest first
//     younger sessions          than the one that asks, the youngest first
//
// No session takes from an older one that is at work. So of those that want more than there is the oldest always gets
// on, and two never take the same pages from each other in turns. A session with rows in the pass that is being
// composed keeps its pages.
#include "verifier/verifier_internal.h"

#define IDLE_NS OR_NS_PER_S // a round trip and a draft take less

static bool is_queued(const or_vsession_t *session)
{
    return session->waiting && session->question.state != OR_QUESTION_ASKED;
}

static bool is_idle(const or_verifier_t *verifier, const or_vsession_t *session)
{
    return !is_queued(session) && session->used_ns <= or_clock_now(verifier->clock) - IDLE_NS;
}

static bool may_give(const or_verifier_t *verifier, const or_vsession_t *session,
                     const or_vsession_t *asking)
{
    return session->id.value != 0 && session != asking && session->pass != verifier->pass &&
           or_kv_sequence_pages(session->kv) > 0 &&
           (is_idle(verifier, session) || session->opened > asking->opened);
}

static or_vsession_t *find_giver(or_verifier_t *verifier, const or_vsession_t *asking)
{
    or_vsession_t *idle = NULL;
    or_vsession_t *youngest = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        if (!may_give(verifier, session, asking)) {
            continue;
        }
        if (is_idle(verifier, session) && (idle == NULL || session->used_ns < idle->used_ns)) {
            idle = session;
        }
        if (session->opened > asking->opened &&
            (youngest == NULL || session->opened > youngest->opened)) {
            youngest = session;
        }
    }
    return idle != NULL ? idle : youngest;
}

// Return the most pages that could be free if all sessions that may give gave all. Pages that one of the others holds
// alone stay, and of the shared pages at least as many as the session with most of them holds.
static uint32_t pages_within_reach(const or_verifier_t *verifier, const or_vsession_t *asking)
{
    uint32_t alone = 0;
    uint32_t shared_most = 0;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value == 0 || may_give(verifier, session, asking)) {
            continue;
        }
        uint32_t own = or_kv_sequence_pages_own(session->kv);
        uint32_t shared = or_kv_sequence_pages(session->kv) - own;
        alone += own;
        shared_most = shared > shared_most ? shared : shared_most;
    }
    return or_kv_cache_pages(or_model_cache(verifier->model)) - alone - shared_most;
}

// The same of frames, where layers with a window have them (kv_cache.h).
static uint32_t frames_within_reach(const or_verifier_t *verifier, const or_vsession_t *asking)
{
    uint32_t frames = or_kv_cache_frames(or_model_cache(verifier->model));
    uint32_t shared_most = 0;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value == 0 || may_give(verifier, session, asking)) {
            continue;
        }
        uint32_t own;
        uint32_t shared = or_kv_sequence_frames(session->kv, &own) - own;
        frames -= own;
        shared_most = shared > shared_most ? shared : shared_most;
    }
    return frames - shared_most;
}

// Return true if enough pages are within reach, so that no session gives in vain.
static bool is_within_reach(const or_verifier_t *verifier, const or_vsession_t *asking,
                            uint32_t positions)
{
    uint32_t wanted = (positions + OR_KV_PAGE - 1) / OR_KV_PAGE;
    uint32_t held = or_kv_sequence_pages(asking->kv);
    bool has_frames = or_kv_cache_frames(or_model_cache(verifier->model)) > 0;
    return wanted <= held ||
           (wanted - held <= pages_within_reach(verifier, asking) &&
            (!has_frames || wanted - held <= frames_within_reach(verifier, asking)));
}

// Take pages from a session. The pages that it shares come first in a text and free nothing, so they stay, unless all
// are shared, or layers with a window have given up what goes on from there.
static void take_from(or_verifier_t *verifier, or_vsession_t *giver)
{
    uint32_t own = or_kv_sequence_pages_own(giver->kv);
    uint32_t shared = own > 0 ? or_kv_sequence_pages(giver->kv) - own : 0;
    const or_message_t message = {
        .type = OR_MSG_KV_EVICTED,
        .session = giver->id,
        .body.kv_evicted.kept_length = or_vsession_evict(giver, shared * OR_KV_PAGE),
    };
    or_edge_send(&verifier->edge, &message);
    verifier->stats.evictions++;
}

bool or_verifier_take_pages(or_verifier_t *verifier, or_vsession_t *session, uint32_t positions)
{
    while (or_kv_sequence_reserve(session->kv, positions) != OR_OK) {
        if (!is_within_reach(verifier, session, positions)) {
            return false;
        }
        if (or_texts_drop(verifier->texts)) {
            continue;
        }
        or_vsession_t *giver = find_giver(verifier, session);
        if (giver == NULL) {
            return false;
        }
        take_from(verifier, giver);
    }
    return true;
}

int64_t or_verifier_next_idle_ns(const or_verifier_t *verifier)
{
    int64_t now = or_clock_now(verifier->clock);
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        int64_t idle = session->used_ns + IDLE_NS;
        if (session->id.value != 0 && !is_queued(session) && idle > now) {
            next = idle < next ? idle : next;
        }
    }
    return next;
}
