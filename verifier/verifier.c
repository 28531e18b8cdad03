#include "verifier/verifier.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/version.h"
#include "verifier/verifier_internal.h"

#define TEXTS_AT_REST 64u // as many as a crowd leaves behind; pages bound them before that
#define BUSY_RETRY_MS 1000u

or_hello_t or_verifier_hello(const or_verifier_config_t *config, const or_gguf_t *gguf,
                             const or_model_t *model, const or_vocab_t *vocab)
{
    return (or_hello_t){
        .role = OR_ROLE_VERIFIER,
        .software = "outrider " OR_VERSION,
        .arith_id = or_model_arith_id(model),
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

// A whole tree has to fit a pass, whatever config.batch_rows says.
static or_status_t set_batch_rows(or_verifier_t *verifier)
{
    or_verifier_config_t *config = &verifier->config;
    uint32_t rows_max = or_model_rows_max(verifier->model);
    if (config->nodes_max + 1 > rows_max) {
        return or_fail(OR_ERR_INVALID,
                       "trees of %u nodes need passes of %u rows; the model takes %u",
                       config->nodes_max, config->nodes_max + 1, rows_max);
    }
    if (config->batch_rows == 0 || config->batch_rows > rows_max) {
        config->batch_rows = rows_max;
    }
    if (config->crowd_rows == 0 || config->crowd_rows > config->batch_rows) {
        config->crowd_rows = config->batch_rows;
    }
    return or_batch_init(&verifier->batch, config->sessions_max, rows_max);
}

static or_status_t create_parts(or_verifier_t *verifier)
{
    const or_verifier_config_t *config = &verifier->config;
    verifier->sessions = calloc(config->sessions_max, sizeof *verifier->sessions);
    verifier->expected = calloc(config->sessions_max, sizeof *verifier->expected);
    if (verifier->sessions == NULL || verifier->expected == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", config->sessions_max);
    }
    or_status_t status = set_batch_rows(verifier);
    if (status == OR_OK) {
        status = or_judge_create(verifier->model, verifier->vocab, verifier->clock,
                                 config->nodes_max, &verifier->judge);
    }
    if (status == OR_OK) {
        status = or_scheduler_create(config->sessions_max, &verifier->scheduler);
    }
    if (status == OR_OK) {
        status = or_texts_create(verifier->model, TEXTS_AT_REST, &verifier->texts);
    }
    return status;
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
    verifier->model = model;
    verifier->vocab = vocab;
    verifier->clock = clock;
    or_edge_init(&verifier->edge, link);
    or_linger_init(&verifier->linger);
    or_status_t status = create_parts(verifier);
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
    or_texts_destroy(&verifier->texts);
    or_scheduler_destroy(&verifier->scheduler);
    or_judge_destroy(&verifier->judge);
    or_batch_fini(&verifier->batch);
    for (uint32_t i = 0; verifier->sessions != NULL && i < verifier->config.sessions_max; i++) {
        or_vsession_close(&verifier->sessions[i]);
    }
    free(verifier->expected);
    free(verifier->sessions);
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

// Return the session to give up for a new one: the one at rest that was not heard of for longest. If none is at rest,
// one that waits for psi, whose answer may never come and which is replayed. NULL if all have a tree in the queue.
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

// Free a session's place. Its cached positions may serve others.
static void end(or_verifier_t *verifier, or_vsession_t *session)
{
    if (session->id.value == 0) {
        return;
    }
    if (!verifier->config.no_prefix_sharing) {
        or_texts_keep(verifier->texts, session);
    }
    or_scheduler_leave(verifier->scheduler, (uint32_t)(session - verifier->sessions));
    or_vsession_close(session);
}

void or_verifier_fail(or_verifier_t *verifier, or_vsession_t *session)
{
    or_log_of(OR_LOG_ERROR, (or_log_subject_t){.session = session->id.value}, "%s",
              or_error_text());
    or_edge_send_error(&verifier->edge, session->id, session->waiting ? session->waiting_round : 0,
                       OR_WIRE_FAILED, 0, or_error_text());
    end(verifier, session);
}

static void send_busy(or_verifier_t *verifier, or_session_id_t id)
{
    const or_message_t message = {
        .type = OR_MSG_ERROR,
        .session = id,
        .body.error = {.code = OR_WIRE_BUSY,
                       .text = "every session of this verifier is at work",
                       .retry_ms = BUSY_RETRY_MS},
    };
    or_edge_send(&verifier->edge, &message);
}

static void refuse(or_verifier_t *verifier, or_session_id_t id)
{
    or_edge_warn(&verifier->edge, id, "refused", or_error_text());
    or_edge_send_error(&verifier->edge, id, 0, OR_WIRE_REFUSED, 0, or_error_text());
}

static void on_open(or_verifier_t *verifier, or_session_id_t id, const or_open_session_t *open)
{
    if (id.value == 0 || find(verifier, id) != NULL) {
        return; // a repeated open changes nothing
    }
    or_vsession_t *place = find(verifier, (or_session_id_t){0});
    place = place != NULL ? place : least_recent(verifier);
    if (place == NULL) {
        send_busy(verifier, id);
        return;
    }
    or_vsession_t fresh = {0};
    or_status_t status = or_vsession_open(&fresh, verifier->judge, id, open);
    if (status == OR_ERR_FULL && place->id.value != 0) {
        end(verifier, place); // the slots that it needs
        status = or_vsession_open(&fresh, verifier->judge, id, open);
    }
    if (status != OR_OK) {
        refuse(verifier, id);
        return;
    }
    end(verifier, place); // whoever was there is replayed by its coordinator if it comes back
    if (or_scheduler_join(verifier->scheduler, (uint32_t)(place - verifier->sessions),
                          fresh.terms.open.owner) != OR_OK) {
        or_vsession_close(&fresh);
        refuse(verifier, id);
        return;
    }
    *place = fresh;
    place->opened = ++verifier->opened;
    place->used_ns = or_clock_now(verifier->clock);
    or_log_of(OR_LOG_DEBUG, (or_log_subject_t){.session = id.value}, "opened");
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

void or_verifier_send_verdict(or_verifier_t *verifier, const or_vsession_t *session)
{
    const or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = session->verdict};
    or_edge_send(&verifier->edge, &message);
}

void or_verifier_send_psi_request(or_verifier_t *verifier, const or_vsession_t *session)
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
    } else if (fate == OR_TREE_QUEUED) {
        or_linger_came(&verifier->linger, &session->way, or_clock_now(verifier->clock));
    } else if (fate == OR_TREE_REPEAT) {
        or_verifier_send_verdict(verifier, session);
    } else if (fate == OR_TREE_ASKS) {
        or_verifier_send_psi_request(verifier, session);
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
        end(verifier, session);
        break;
    default:
        or_edge_send_error(&verifier->edge, session->id, 0, OR_WIRE_INVALID, 0,
                           "a verifier does not take this message");
    }
}

// The figures that the verifier reports: what it counted, and what it holds now.
static void fill_stats(const void *role, or_stats_t *stats)
{
    const or_verifier_t *verifier = role;
    const char *model = stats->model;
    const or_kv_cache_t *cache = or_model_cache(verifier->model);
    const or_ranks_t *ranks = or_model_ranks(verifier->model);
    *stats = verifier->stats;
    stats->model = model;
    stats->queue = or_scheduler_ready_count(verifier->scheduler);
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        stats->sessions += verifier->sessions[i].id.value != 0;
    }
    stats->pages = or_kv_cache_pages(cache);
    stats->pages_free = or_kv_cache_pages_unused(cache);
    stats->pages_shared = or_kv_cache_pages_shared(cache);
    stats->page_positions = OR_KV_PAGE;
    stats->page_bytes =
        stats->pages > 0 ? or_model_memory(verifier->model).cache / stats->pages : 0;
    stats->ranks = (uint32_t)ranks->size;
    stats->stages = (uint32_t)or_ranks_stages(ranks);
    const or_model_kept_t kept = or_model_kept_of_all(verifier->model);
    stats->experts_needed = kept.needed;
    stats->experts_found = kept.found;
    stats->experts_read = kept.read;
}

int64_t or_verifier_turn(or_verifier_t *verifier)
{
    if (verifier->broken[0] != '\0') {
        return OR_TIME_NEVER;
    }
    or_edge_drain(&verifier->edge, on_message, verifier);
    int64_t due = or_link_tick(verifier->edge.link);
    bool worked = or_verifier_work(verifier, &due);
    int64_t stats_due = or_edge_report(&verifier->edge, or_clock_now(verifier->clock),
                                       verifier->config.stats_ms, fill_stats, verifier);
    if (worked) {
        return or_clock_now(verifier->clock);
    }
    return stats_due < due ? stats_due : due;
}

const char *or_verifier_refused(const or_verifier_t *verifier)
{
    return or_edge_refused(&verifier->edge);
}

const char *or_verifier_broken(const or_verifier_t *verifier)
{
    return verifier->broken[0] != '\0' ? verifier->broken : NULL;
}
