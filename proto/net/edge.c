#include "proto/net/edge.h"

#include <stdio.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "proto/zmq/channel_zmq.h"

#define MESSAGES_A_TURN 64
#define WARNINGS_A_MINUTE 10u

void or_edge_init(or_edge_t *edge, or_link_t *link)
{
    *edge = (or_edge_t){.link = link};
}

void or_edge_fini(or_edge_t *edge)
{
    while (edge->held_count > 0) {
        or_message_fini(&edge->held[--edge->held_count]);
    }
}

void or_edge_send(or_edge_t *edge, const or_message_t *message)
{
    if (or_link_send(edge->link, OR_PEER_HUB, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "%s not sent: %s", or_message_type_name(message->type),
               or_error_text());
    }
}

void or_edge_send_error(or_edge_t *edge, or_session_id_t session, uint64_t round,
                        or_wire_error_t code, uint32_t length, const char *text)
{
    const or_message_t message = {
        .type = OR_MSG_ERROR,
        .session = session,
        .body.error = {.code = code, .text = text, .round = round, .length = length},
    };
    or_edge_send(edge, &message);
}

// Begin a new minute, and tell how many warnings of the last one were left out.
static void begin_minute(or_edge_t *edge, int64_t now)
{
    if (edge->unwarned > 0) {
        or_log(OR_LOG_WARN, "%u more warnings about the coordinator were not written",
               edge->unwarned);
    }
    edge->warned_ns = now;
    edge->warned = edge->unwarned = 0;
}

void or_edge_warn(or_edge_t *edge, or_session_id_t session, const char *what, const char *why)
{
    int64_t now = or_clock_now(or_link_clock(edge->link));
    if (now - edge->warned_ns >= 60 * OR_NS_PER_S) {
        begin_minute(edge, now);
    }
    if (edge->warned == WARNINGS_A_MINUTE) {
        edge->unwarned++;
        return;
    }
    edge->warned++;
    or_log_of(OR_LOG_WARN, (or_log_subject_t){.session = session.value}, "%s: %s", what, why);
}

static void on_error(or_edge_t *edge, const or_message_t *message)
{
    const or_error_t *error = &message->body.error;
    bool final = error->code == OR_WIRE_REFUSED || error->code == OR_WIRE_VERSION;
    if (message->session.value == 0 && final) {
        snprintf(edge->refused, sizeof edge->refused, "%s", error->text);
        return;
    }
    or_edge_warn(edge, (or_session_id_t){0}, "the coordinator says", error->text);
}

// Handle a message. `again`: there was a welcome already. A coordinator that comes late answers every Hello that
// waited.
static void on_message(or_edge_t *edge, void (*take)(void *, const or_message_t *), void *role,
                       const or_message_t *message, bool again)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        or_log(again ? OR_LOG_DEBUG : OR_LOG_INFO, "welcomed by %s",
               message->body.welcome.software);
        break;
    case OR_MSG_ERROR:
        on_error(edge, message);
        break;
    default:
        take(role, message);
    }
}

bool or_edge_holds(const or_edge_t *edge, or_session_id_t session)
{
    for (uint32_t i = 0; i < edge->held_count; i++) {
        if (edge->held[i].session.value == session.value) {
            return true;
        }
    }
    return false;
}

// A message must wait for those that came before it about its session.
static bool waits(const or_edge_t *edge, const void *role, const or_message_t *message)
{
    return edge->must_wait != NULL &&
           (or_edge_holds(edge, message->session) || edge->must_wait(role, message));
}

// Take the messages that need not wait any more.
static void take_held(or_edge_t *edge, void (*take)(void *, const or_message_t *), void *role)
{
    uint32_t count = edge->held_count;
    edge->held_count = 0; // and from now on those that wait still
    for (uint32_t i = 0; i < count; i++) {
        or_message_t message = edge->held[i];
        if (waits(edge, role, &message)) {
            edge->held[edge->held_count++] = message;
        } else {
            on_message(edge, take, role, &message, true);
            or_message_fini(&message);
        }
    }
}

void or_edge_drain(or_edge_t *edge, void (*take)(void *, const or_message_t *), void *role)
{
    take_held(edge, take, role);
    for (int i = 0; i < MESSAGES_A_TURN && edge->held_count < OR_EDGE_HELD_MAX; i++) {
        or_link_event_t event;
        or_peer_t from;
        or_message_t message = {0};
        bool welcomed = or_link_welcomed(edge->link);
        if (or_link_receive(edge->link, &event, &from, &message) != OR_OK) {
            return;
        }
        if (event != OR_LINK_MESSAGE) {
            or_log(OR_LOG_WARN, "the coordinator is silent; calling it again");
        } else if (waits(edge, role, &message)) {
            edge->held[edge->held_count++] = message;
        } else {
            on_message(edge, take, role, &message, welcomed);
            or_message_fini(&message);
        }
    }
}

int64_t or_edge_report(or_edge_t *edge, int64_t now, uint32_t every_ms,
                       void (*fill)(const void *role, or_stats_t *stats), const void *role)
{
    if (every_ms == 0 || !or_link_welcomed(edge->link)) {
        return OR_TIME_NEVER;
    }
    if (now >= edge->report_due_ns) {
        or_message_t message = {.type = OR_MSG_STATS, .body.stats = {.model = "", .choice = ""}};
        fill(role, &message.body.stats);
        or_edge_send(edge, &message);
        edge->report_due_ns = now + every_ms * OR_NS_PER_MS;
    }
    return edge->report_due_ns;
}

const char *or_edge_refused(const or_edge_t *edge)
{
    return edge->refused[0] != '\0' ? edge->refused : NULL;
}

static void say_ready(const or_edge_process_t *process, const or_gpu_place_t *place,
                      const char *endpoint)
{
    if (place->why_not != NULL && !place->missed) { // else it was warned of
        or_log(OR_LOG_INFO, "no GPU can be used here: %s", place->why_not);
    }
    or_log(OR_LOG_INFO, "%s" OR_EDGE_READY "%s, kernels %s, calling %s",
           or_gguf_path(process->gguf), or_gpu_where(process->model).text,
           or_model_kernels(process->model), endpoint);
}

// A model may have rows beyond its vocabulary, not the other way round.
static or_status_t check_vocab(const or_edge_process_t *process)
{
    uint32_t tokens = or_vocab_size(process->vocab);
    uint32_t rows = or_model_shape(process->model)->vocab_size;
    return tokens <= rows ? OR_OK
                          : or_fail(OR_ERR_FORMAT,
                                    "%s has %u tokens and an embedding for %u of them: convert the "
                                    "model again",
                                    or_gguf_path(process->gguf), tokens, rows);
}

or_status_t or_edge_process_open(const char *path, const or_model_options_t *options,
                                 const or_gpu_place_t *place, const char *endpoint,
                                 const or_key_options_t *keys, or_edge_process_t *process)
{
    memset(process, 0, sizeof *process);
    or_connect_keys_t connect = {0};
    or_status_t status = or_keys_for_connecting(endpoint, keys, &connect);
    if (status == OR_OK) {
        status = or_gguf_open(path, &process->gguf);
    }
    if (status == OR_OK) {
        status = or_vocab_load(process->gguf, &process->vocab);
    }
    if (status == OR_OK) {
        status = or_gpu_place_load(place, process->gguf, options, &process->model);
    }
    if (status == OR_OK) {
        status = check_vocab(process);
    }
    if (status == OR_OK) {
        status = or_channel_zmq_connect(endpoint, &connect, &process->channel);
    }
    or_key_pair_wipe(&connect.own);
    if (status == OR_OK) {
        say_ready(process, place, endpoint);
    }
    return status;
}

or_status_t or_edge_process_greet(or_edge_process_t *process, const or_hello_t *hello)
{
    or_hello_t greeting = *hello;
    greeting.machine = or_gpu_where(process->model).on_gpu ? 0 : or_cpus_machine();
    return or_link_create(process->channel, or_clock_monotonic(), &greeting, OR_LINK_HEARTBEAT_MS,
                          &process->link);
}

// Log that a connection has ended when it does, not when the silence has lasted.
static void watch_connection(const or_edge_process_t *process, uint64_t *last)
{
    uint64_t connection = or_channel_connection(process->channel);
    if (*last != 0 && connection == 0) {
        or_log(OR_LOG_WARN, "the connection to the coordinator is lost; calling it again");
    }
    *last = connection;
}

or_status_t or_edge_process_run(or_edge_process_t *process, int64_t (*turn)(void *),
                                const char *(*refused)(const void *), void *role)
{
    uint64_t connection = 0;
    while (or_interrupt_count() == 0) {
        int64_t due = turn(role);
        watch_connection(process, &connection);
        const char *sentence = refused(role);
        if (sentence != NULL) {
            return or_fail(OR_ERR_MISMATCH, "refused: %s", sentence);
        }
        if (or_model_is_lost(process->model)) {
            return OR_ERR_IO; // the sentence is there
        }
        or_link_wait(process->link, due);
    }
    const or_message_t good_bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "stopped"}};
    (void)or_link_send(process->link, OR_PEER_HUB, &good_bye); // lost, it costs a silence
    return OR_OK;
}

void or_edge_process_close(or_edge_process_t *process)
{
    or_link_destroy(&process->link);
    or_channel_destroy(&process->channel);
    or_model_destroy(&process->model);
    or_vocab_destroy(&process->vocab);
    or_gguf_close(&process->gguf);
}
