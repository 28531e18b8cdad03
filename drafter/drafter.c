#include "drafter/drafter.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/version.h"
#include "drafter/drafter_internal.h"

#define SAVE_NS (60 * 1000000000LL) // measured acceptance is written this often

or_hello_t or_drafter_hello(const or_drafter_config_t *config, const or_gguf_t *gguf,
                            const or_model_t *model, const or_vocab_t *vocab)
{
    return (or_hello_t){
        .role = OR_ROLE_DRAFTER,
        .software = "outrider " OR_VERSION,
        .arith_id = or_model_arith_id(model),
        .vocab_hash = or_vocab_hash(vocab),
        .vocab_size = or_vocab_size(vocab),
        .model = basename(or_gguf_path(gguf)),
        .model_hash = or_gguf_fingerprint(gguf),
        .owner = config->owner != NULL ? config->owner : "",
        .context_max = or_model_context(model),
        .nodes_max = config->nodes_max,
        .sessions_max = config->sessions_max,
    };
}

static or_status_t load(or_drafter_t *drafter)
{
    const or_drafter_config_t *config = &drafter->config;
    bool foreign;
    or_status_t status = or_calibrations_load(&drafter->calibrations, config->models,
                                              config->acceptance_file, &foreign);
    if (status == OR_OK && foreign) {
        or_log(
            OR_LOG_WARN,
            "%s was measured with other draft models or by an older version: it is not used, and "
            "will be written anew; give each draft model a file of its own",
            config->acceptance_file);
    }
    return status;
}

static or_dsession_t *find(const or_drafter_t *drafter, or_session_id_t id)
{
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        if (drafter->sessions[i].id.value == id.value) {
            return &drafter->sessions[i];
        }
    }
    return NULL;
}

// Is there no place for a new session, and may what waits for one at work be that it is over?
static bool may_have_a_place_soon(const or_drafter_t *drafter)
{
    bool soon = false;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        const or_dsession_t *session = &drafter->sessions[i];
        if (session->id.value == 0) {
            return false;
        }
        soon = soon || (session->at_work && or_edge_holds(&drafter->edge, session->id));
    }
    return soon;
}

// Return true if the message is about a session that must stay as it is. A coordinator that has waited for long repeats its
// prefix: that is no reason to let others wait.
static bool must_wait(const void *role, const or_message_t *message)
{
    const or_dsession_t *session =
        message->session.value != 0 ? find(role, message->session) : NULL;
    if (session == NULL && message->type == OR_MSG_OPEN_SESSION) {
        return may_have_a_place_soon(role);
    }
    bool repeats = session != NULL && message->type == OR_MSG_PREFIX &&
                   or_dsession_repeats(session, &message->body.prefix);
    return session != NULL && session->at_work && !repeats;
}

or_status_t or_drafter_create(const or_drafter_config_t *config, or_model_t *model,
                              const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                              or_drafter_t **drafter_p)
{
    or_drafter_t *drafter = calloc(1, sizeof *drafter);
    or_dsession_t *sessions = calloc(config->sessions_max, sizeof *sessions);
    if (drafter == NULL || sessions == NULL) {
        free(drafter);
        free(sessions);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the drafter");
    }
    drafter->config = *config;
    drafter->shared = (or_dshared_t){.model = model,
                                     .vocab = vocab,
                                     .clock = clock,
                                     .nodes_max = config->nodes_max,
                                     .calibrations = &drafter->calibrations,
                                     .maps = &drafter->maps,
                                     .targets = &drafter->targets,
                                     .more_models = config->more_models,
                                     .more_count = config->more_count};
    or_edge_init(&drafter->edge, link);
    drafter->edge.must_wait = must_wait;
    drafter->sessions = sessions;
    drafter->saved_ns = or_clock_now(clock);
    or_status_t status = or_together_create(&drafter->together);
    if (status == OR_OK && config->acceptance_file != NULL) {
        status = load(drafter);
    }
    if (status != OR_OK) {
        or_drafter_destroy(&drafter);
        return status;
    }
    *drafter_p = drafter;
    return OR_OK;
}

// Save the calibrations. A file that cannot be written is worth a warning and no more: drafting goes on.
static void save(or_drafter_t *drafter)
{
    if (drafter->config.acceptance_file == NULL || !drafter->learned) {
        return;
    }
    if (or_calibrations_save(&drafter->calibrations, drafter->config.models,
                             drafter->config.acceptance_file) != OR_OK) {
        or_log(OR_LOG_WARN, "measured acceptance is not saved: %s", or_error_text());
    }
    drafter->learned = false;
    drafter->saved_ns = or_clock_now(drafter->shared.clock);
}

void or_drafter_destroy(or_drafter_t **drafter_p)
{
    or_drafter_t *drafter = *drafter_p;
    if (drafter == NULL) {
        return;
    }
    save(drafter);
    or_together_destroy(&drafter->together);
    or_edge_fini(&drafter->edge);
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_close(&drafter->sessions[i]);
    }
    or_maps_fini(&drafter->maps);
    or_targets_fini(&drafter->targets);
    free((void *)drafter->vocabulary.packed);
    free(drafter->sessions);
    free(drafter);
    *drafter_p = NULL;
}

// Return the session without a tree to build that was not heard of for longest.
static or_dsession_t *least_recent(or_drafter_t *drafter)
{
    or_dsession_t *oldest = NULL;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_t *session = &drafter->sessions[i];
        if (session->id.value != 0 && !session->wanted && !session->at_work &&
            (oldest == NULL || session->used_ns < oldest->used_ns)) {
            oldest = session;
        }
    }
    return oldest;
}

// Ask for what the session cannot be opened without: a map or a vocabulary.
static void ask_for_what_lacks(or_drafter_t *drafter, or_session_id_t id,
                               const or_open_session_t *open)
{
    if (open->accept_rule == OR_ACCEPT_SLRS) {
        const or_message_t message = {
            .type = OR_MSG_VOCAB_REQUEST, .session = id, .body.vocab_request = {open->target_hash}};
        or_edge_send(&drafter->edge, &message);
    } else {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_NEED_MAP, 0, or_error_text());
    }
}

static void on_open(or_drafter_t *drafter, or_session_id_t id, const or_open_session_t *open)
{
    or_dsession_t *open_here = id.value != 0 ? find(drafter, id) : NULL;
    if (id.value == 0 ||
        (open_here != NULL && or_dsession_is_as(open_here, &drafter->shared, open))) {
        return; // a repeated open changes nothing
    }
    if (open_here != NULL) { // we have it from before a cut, and another part of it is ours now
        or_dsession_close(open_here);
    }
    or_dsession_t fresh = {0};
    or_status_t status = or_dsession_open(&fresh, &drafter->shared, id, open);
    if (status == OR_ERR_NOT_FOUND) {
        ask_for_what_lacks(drafter, id, open);
        return;
    }
    if (status != OR_OK) {
        or_edge_warn(&drafter->edge, id, "refused", or_error_text());
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_REFUSED, 0, or_error_text());
        return;
    }
    or_dsession_t *place = find(drafter, (or_session_id_t){0});
    place = place != NULL ? place : least_recent(drafter);
    if (place == NULL) {
        or_dsession_close(&fresh);
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_BUSY, 0,
                           "every session of this drafter is at work");
        return;
    }
    or_dsession_close(place); // whoever was there is replayed by its coordinator if it comes back
    *place = fresh;
    place->used_ns = or_clock_now(drafter->shared.clock);
    or_log_of(OR_LOG_DEBUG, (or_log_subject_t){.session = id.value}, "opened");
}

static void on_prefix(or_drafter_t *drafter, or_dsession_t *session, const or_prefix_t *prefix)
{
    bool again = false;
    or_status_t status = or_dsession_prefix(session, &drafter->shared, prefix, &again);
    if (status == OR_ERR_MISMATCH) {
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_NEED_PREFIX, 0, or_error_text());
    } else if (status != OR_OK) {
        or_edge_send_error(&drafter->edge, session->id, 0,
                           status == OR_ERR_FULL ? OR_WIRE_CONTEXT : OR_WIRE_INVALID, 0,
                           or_error_text());
    } else if (again) {
        or_dsession_tell_again(session);
        or_drafter_send_tree(drafter, session);
    } else {
        or_dsession_heard(session, session->used_ns);
    }
}

static void on_verdict(or_drafter_t *drafter, or_dsession_t *session, const or_verdict_t *verdict)
{
    if (or_dsession_verdict(session, &drafter->shared, verdict) != OR_OK) {
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_NEED_PREFIX, session->log.length,
                           or_error_text());
    } else {
        drafter->learned = drafter->learned || session->calibration != NULL;
    }
}

static void on_psi_request(or_drafter_t *drafter, or_dsession_t *session,
                           const or_psi_request_t *request)
{
    or_status_t status = or_dsession_ask(session, request);
    if (status != OR_OK) {
        or_edge_send_error(&drafter->edge, session->id, request->round,
                           status == OR_ERR_MISMATCH ? OR_WIRE_NEED_PREFIX : OR_WIRE_INVALID,
                           status == OR_ERR_MISMATCH ? session->log.length : 0, or_error_text());
    }
}

// Handle a message about an open session.
static void on_session_message(or_drafter_t *drafter, const or_message_t *message)
{
    or_dsession_t *session = message->session.value != 0 ? find(drafter, message->session) : NULL;
    if (session == NULL) {
        if (message->type == OR_MSG_PREFIX || message->type == OR_MSG_VERDICT ||
            message->type == OR_MSG_PSI_REQUEST) {
            or_edge_send_error(&drafter->edge, message->session, 0, OR_WIRE_UNKNOWN_SESSION, 0,
                               "open the session first");
        }
        return;
    }
    session->used_ns = or_clock_now(drafter->shared.clock);
    switch (message->type) {
    case OR_MSG_PREFIX:
        on_prefix(drafter, session, &message->body.prefix);
        break;
    case OR_MSG_VERDICT:
        on_verdict(drafter, session, &message->body.verdict);
        break;
    case OR_MSG_PSI_REQUEST:
        on_psi_request(drafter, session, &message->body.psi_request);
        break;
    case OR_MSG_CANCEL:
        or_dsession_close(session);
        break;
    default:
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_INVALID, 0,
                           "a drafter does not take this message");
    }
}

// ---- vocabularies, and maps between them ----

static or_status_t pack_vocabulary(or_drafter_t *drafter)
{
    if (drafter->vocabulary.packed != NULL) {
        return OR_OK;
    }
    if (drafter->config.gguf == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "this drafter has no file to send its vocabulary from");
    }
    uint8_t *packed;
    size_t packed_bytes, unpacked_bytes;
    or_status_t status =
        or_vocab_pack(drafter->config.gguf, &packed, &packed_bytes, &unpacked_bytes);
    if (status == OR_OK) {
        drafter->vocabulary =
            (or_vocabulary_t){or_vocab_hash(drafter->shared.vocab), (uint32_t)unpacked_bytes,
                              packed, (uint32_t)packed_bytes};
    }
    return status;
}

static void on_vocab_request(or_drafter_t *drafter, or_session_id_t id, uint64_t hash)
{
    if (hash != or_vocab_hash(drafter->shared.vocab)) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_INVALID, 0,
                           "this drafter has another vocabulary than the one asked for");
        return;
    }
    if (pack_vocabulary(drafter) != OR_OK) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_FAILED, 0, or_error_text());
        return;
    }
    const or_message_t message = {
        .type = OR_MSG_VOCABULARY, .session = id, .body.vocabulary = drafter->vocabulary};
    or_edge_send(&drafter->edge, &message);
}

static void on_vocab_map(or_drafter_t *drafter, or_session_id_t id, const or_vocab_map_t *map)
{
    or_status_t status = or_maps_put(&drafter->maps, drafter->shared.vocab, map);
    if (status == OR_OK) {
        return;
    }
    or_wire_error_t code = status == OR_ERR_MISMATCH  ? OR_WIRE_NEED_MAP
                           : status == OR_ERR_INVALID ? OR_WIRE_INVALID
                                                      : OR_WIRE_BUSY;
    or_edge_warn(&drafter->edge, id, "vocabulary map refused", or_error_text());
    or_edge_send_error(&drafter->edge, id, 0, code, 0, or_error_text());
}

static void on_vocabulary(or_drafter_t *drafter, or_session_id_t id,
                          const or_vocabulary_t *vocabulary)
{
    or_status_t status = or_targets_put(&drafter->targets, drafter->shared.vocab, vocabulary);
    if (status == OR_OK) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_UNKNOWN_SESSION, 0,
                           "the target's vocabulary is here: open the session again");
        return;
    }
    or_wire_error_t code = status == OR_ERR_FULL ? OR_WIRE_BUSY : OR_WIRE_REFUSED;
    or_edge_warn(&drafter->edge, id, "vocabulary refused", or_error_text());
    or_edge_send_error(&drafter->edge, id, 0, code, 0, or_error_text());
}

// ---- messages ----

static void on_message(void *role, const or_message_t *message)
{
    or_drafter_t *drafter = role;
    switch (message->type) {
    case OR_MSG_OPEN_SESSION:
        on_open(drafter, message->session, &message->body.open_session);
        break;
    case OR_MSG_VOCAB_REQUEST:
        on_vocab_request(drafter, message->session, message->body.vocab_request.hash);
        break;
    case OR_MSG_VOCAB_MAP:
        on_vocab_map(drafter, message->session, &message->body.vocab_map);
        break;
    case OR_MSG_VOCABULARY:
        on_vocabulary(drafter, message->session, &message->body.vocabulary);
        break;
    default:
        on_session_message(drafter, message);
    }
}

// The figures that the drafter reports.
static void fill_stats(const void *role, or_stats_t *stats)
{
    const or_drafter_t *drafter = role;
    const or_kv_cache_t *cache = or_model_cache(drafter->shared.model);
    stats->model_us = drafter->model_us;
    stats->passes = or_together_passes(drafter->together);
    stats->pages = or_kv_cache_pages(cache);
    stats->pages_free = or_kv_cache_pages_unused(cache);
    stats->page_positions = OR_KV_PAGE;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        stats->sessions += drafter->sessions[i].id.value != 0;
    }
}

int64_t or_drafter_turn(or_drafter_t *drafter)
{
    const or_clock_t *clock = drafter->shared.clock;
    if (or_clock_now(clock) < drafter->busy_until_ns) {
        int64_t due = or_link_tick(drafter->edge.link);
        return due < drafter->busy_until_ns ? due : drafter->busy_until_ns;
    }
    or_drafter_read(drafter);
    or_edge_drain(&drafter->edge, on_message, drafter);
    int64_t stats_due = or_edge_report(&drafter->edge, or_clock_now(clock),
                                       drafter->config.stats_ms, fill_stats, drafter);
    int64_t due = or_link_tick(drafter->edge.link);
    due = stats_due < due ? stats_due : due;
    if (or_clock_now(clock) - drafter->saved_ns >= SAVE_NS) {
        save(drafter);
    }
    return or_drafter_work(drafter) ? or_clock_now(clock) : due;
}

const char *or_drafter_refused(const or_drafter_t *drafter)
{
    return or_edge_refused(&drafter->edge);
}
