#include "verifier/verifier.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/version.h"
#include "proto/edge.h"
#include "verifier/session.h"

struct or_verifier {
    or_verifier_config_t config;
    or_model_t *model;
    const or_vocab_t *vocab;
    or_edge_t edge;
    const or_clock_t *clock;
    or_judge_t *judge;
    or_vsession_t *sessions; // config.sessions_max places
    uint64_t arrivals;       // trees queued so far: the order of service
};

or_hello_t or_verifier_hello(const or_verifier_config_t *config, const or_gguf_t *gguf,
                             const or_model_t *model, const or_vocab_t *vocab)
{
    return (or_hello_t){
        .role = OR_ROLE_VERIFIER,
        .software = "outrider " OR_VERSION,
        .arith_id = OR_ARITH_ID,
        .vocab_hash = or_vocab_hash(vocab),
        .vocab_size = or_vocab_size(vocab),
        .model = basename(or_gguf_path(gguf)),
        .model_hash = or_gguf_fingerprint(gguf),
        .owner = "",
        .context_max = or_model_context(model),
        .nodes_max = config->nodes_max,
        .sessions_max = config->sessions_max,
    };
}

or_status_t or_verifier_create(const or_verifier_config_t *config, or_model_t *model,
                               const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                               or_verifier_t **verifier_p)
{
    or_verifier_t *verifier = calloc(1, sizeof *verifier);
    if (verifier == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the verifier");
    }
    verifier->config = *config;
    if (config->prefill_rows == 0 || config->prefill_rows > or_model_rows_max(model)) {
        verifier->config.prefill_rows = or_model_rows_max(model);
    }
    verifier->model = model;
    verifier->vocab = vocab;
    or_edge_init(&verifier->edge, link);
    verifier->clock = clock;
    verifier->sessions = calloc(config->sessions_max, sizeof *verifier->sessions);
    or_status_t status =
        verifier->sessions != NULL
            ? or_judge_create(model, vocab, clock, config->nodes_max, &verifier->judge)
            : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", config->sessions_max);
    if (status != OR_OK) {
        or_verifier_destroy(&verifier);
        return status;
    }
    *verifier_p = verifier;
    return OR_OK;
}

void or_verifier_destroy(or_verifier_t **verifier_p)
{
    or_verifier_t *verifier = *verifier_p;
    if (verifier == NULL) {
        return;
    }
    for (uint32_t i = 0; verifier->sessions != NULL && i < verifier->config.sessions_max; i++) {
        or_vsession_close(&verifier->sessions[i]);
    }
    free(verifier->sessions);
    or_judge_destroy(&verifier->judge);
    free(verifier);
    *verifier_p = NULL;
}

static or_vsession_t *find(or_verifier_t *verifier, or_session_id_t id)
{
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        if (verifier->sessions[i].id.value == id.value) {
            return &verifier->sessions[i];
        }
    }
    return NULL;
}

// Of the sessions at rest, the one unheard of for longest; where none is, of those that wait for psi:
// the answer may never come, and one that loses its place is replayed. NULL if all have a tree in the
// queue.
static or_vsession_t *least_recent(or_verifier_t *verifier)
{
    or_vsession_t *oldest = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        bool queued = session->waiting && session->question.state != OR_QUESTION_ASKED;
        if (session->id.value == 0 || queued) {
            continue;
        }
        bool better = oldest == NULL || (oldest->waiting && !session->waiting) ||
                      (oldest->waiting == session->waiting && session->used_ns < oldest->used_ns);
        if (better) {
            oldest = session;
        }
    }
    return oldest;
}

// Who gives its pages to `hungry`: the one at rest for longest, else the one that will be served
// last. NULL if nobody has any.
static or_vsession_t *page_donor(or_verifier_t *verifier, const or_vsession_t *hungry)
{
    or_vsession_t *donor = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value == 0 || session == hungry ||
            or_kv_sequence_length(session->kv) == 0) {
            continue;
        }
        bool better = donor == NULL || (donor->waiting && !session->waiting);
        if (!better && donor->waiting == session->waiting) {
            better = session->waiting ? session->waiting_since > donor->waiting_since
                                      : session->used_ns < donor->used_ns;
        }
        if (better) {
            donor = session;
        }
    }
    return donor;
}

static void on_open(or_verifier_t *verifier, or_session_id_t id, const or_open_session_t *open)
{
    if (id.value == 0 || find(verifier, id) != NULL) {
        return; // a repeated open changes nothing
    }
    or_vsession_t fresh = {0};
    or_status_t status = or_vsession_open(&fresh, verifier->judge, id, open);
    if (status != OR_OK) {
        or_log(OR_LOG_WARN, "session %llx refused: %s", (unsigned long long)id.value,
               or_error_text());
        or_edge_send_error(&verifier->edge, id, 0, OR_WIRE_REFUSED, 0, or_error_text());
        return;
    }
    or_vsession_t *place = find(verifier, (or_session_id_t){0});
    place = place != NULL ? place : least_recent(verifier);
    if (place == NULL) {
        or_vsession_close(&fresh);
        or_edge_send_error(&verifier->edge, id, 0, OR_WIRE_BUSY, 0,
                           "every session of this verifier is at work");
        return;
    }
    or_vsession_close(place); // whoever was there is replayed by its coordinator if it comes back
    *place = fresh;
    place->used_ns = or_clock_now(verifier->clock);
    or_log(OR_LOG_DEBUG, "session %llx opened", (unsigned long long)id.value);
}

static void on_prefix(or_verifier_t *verifier, or_vsession_t *session, const or_prefix_t *prefix)
{
    or_status_t status = or_vsession_prefix(session, verifier->judge, prefix);
    if (status == OR_ERR_MISMATCH) {
        or_edge_send_error(&verifier->edge, session->id, prefix->round, OR_WIRE_NEED_PREFIX, 0,
                           or_error_text());
    } else if (status != OR_OK) {
        or_edge_send_error(&verifier->edge, session->id, prefix->round,
                           status == OR_ERR_FULL ? OR_WIRE_CONTEXT : OR_WIRE_INVALID, 0,
                           or_error_text());
    }
}

static void send_verdict(or_verifier_t *verifier, const or_vsession_t *session)
{
    const or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = session->verdict};
    or_edge_send(&verifier->edge, &message);
}

static void send_psi_request(or_verifier_t *verifier, const or_vsession_t *session)
{
    const or_message_t message = {.type = OR_MSG_PSI_REQUEST,
                                  .session = session->id,
                                  .body.psi_request = or_vsession_psi_request(session)};
    or_edge_send(&verifier->edge, &message);
}

static void on_psi(or_verifier_t *verifier, or_vsession_t *session, const or_psi_reply_t *reply)
{
    if (or_vsession_psi(session, reply) != OR_OK) {
        or_edge_send_error(&verifier->edge, session->id, reply->round, OR_WIRE_INVALID, 0,
                           or_error_text());
    }
}

static void on_tree(or_verifier_t *verifier, or_vsession_t *session, const or_draft_tree_t *tree)
{
    or_tree_fate_t fate = OR_TREE_STALE;
    or_status_t status = or_vsession_tree(session, verifier->judge, tree, &fate);
    if (status == OR_ERR_MISMATCH) {
        or_edge_send_error(&verifier->edge, session->id, tree->round, OR_WIRE_NEED_PREFIX,
                           session->log.length, or_error_text());
    } else if (status != OR_OK) {
        or_edge_send_error(&verifier->edge, session->id, tree->round, OR_WIRE_INVALID, 0,
                           or_error_text());
    } else if (fate == OR_TREE_REPEAT) {
        send_verdict(verifier, session);
    } else if (fate == OR_TREE_ASKS) {
        send_psi_request(verifier, session);
    } else if (fate == OR_TREE_QUEUED) {
        session->waiting_since = ++verifier->arrivals;
    }
}

static void on_message(void *role, const or_message_t *message)
{
    or_verifier_t *verifier = role;
    if (message->type == OR_MSG_OPEN_SESSION) {
        on_open(verifier, message->session, &message->body.open_session);
        return;
    }
    or_vsession_t *session = message->session.value != 0 ? find(verifier, message->session) : NULL;
    if (session == NULL) {
        if (message->type == OR_MSG_DRAFT_TREE) { // the Prefix before it needs no answer of its own
            or_edge_send_error(&verifier->edge, message->session, 0, OR_WIRE_UNKNOWN_SESSION, 0,
                               "open the session first");
        }
        return;
    }
    session->used_ns = or_clock_now(verifier->clock);
    switch (message->type) {
    case OR_MSG_PREFIX:
        on_prefix(verifier, session, &message->body.prefix);
        break;
    case OR_MSG_DRAFT_TREE:
        on_tree(verifier, session, &message->body.draft_tree);
        break;
    case OR_MSG_PSI_REPLY:
        on_psi(verifier, session, &message->body.psi_reply);
        break;
    case OR_MSG_CANCEL:
        or_vsession_close(session);
        break;
    default:
        or_edge_send_error(&verifier->edge, session->id, 0, OR_WIRE_INVALID, 0,
                           "a verifier does not take this message");
    }
}

// First come first served among trees; where none waits, prefill whatever prefix is not cached yet.
static or_vsession_t *next_work(or_verifier_t *verifier)
{
    or_vsession_t *best = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value == 0 || session->question.state == OR_QUESTION_ASKED) {
            continue;
        }
        bool better =
            best == NULL || (session->waiting && !best->waiting) ||
            (session->waiting == best->waiting && session->waiting_since < best->waiting_since);
        bool prefill = or_vsession_needs_prefill(session) && !session->parked;
        if ((session->waiting || prefill) && better) {
            best = session;
        }
    }
    return best;
}

static or_status_t run(or_verifier_t *verifier, or_vsession_t *session)
{
    if (or_vsession_needs_prefill(session)) {
        return or_vsession_prefill(session, verifier->judge, verifier->config.prefill_rows);
    }
    or_status_t status = or_vsession_judge(session, verifier->judge);
    if (status == OR_OK) {
        send_verdict(verifier, session);
        or_log(OR_LOG_TRACE, "session %llx round %llu accepted %u",
               (unsigned long long)session->id.value, (unsigned long long)session->round,
               session->verdict.accepted_count);
    } else if (status == OR_ERR_AGAIN) {
        send_psi_request(verifier, session);
        return OR_OK;
    }
    return status;
}

// One pass. Where the page pool is full, others give theirs; their prefixes are computed again when
// they are served.
static void work(or_verifier_t *verifier, or_vsession_t *session)
{
    or_status_t status = run(verifier, session);
    while (status == OR_ERR_FULL) {
        or_vsession_t *donor = page_donor(verifier, session);
        if (donor == NULL) {
            break;
        }
        or_kv_sequence_truncate(donor->kv, 0);
        donor->parked = !donor->waiting;
        status = run(verifier, session);
    }
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "session %llx: %s", (unsigned long long)session->id.value,
               or_error_text());
        or_edge_send_error(&verifier->edge, session->id, session->waiting_round, OR_WIRE_FAILED, 0,
                           or_error_text());
        or_vsession_close(session);
    }
}

int64_t or_verifier_turn(or_verifier_t *verifier)
{
    or_edge_drain(&verifier->edge, on_message, verifier);
    int64_t due = or_link_tick(verifier->edge.link);
    or_vsession_t *session = next_work(verifier);
    if (session == NULL) {
        return due;
    }
    work(verifier, session);
    return or_clock_now(verifier->clock);
}

const char *or_verifier_refused(const or_verifier_t *verifier)
{
    return or_edge_refused(&verifier->edge);
}
