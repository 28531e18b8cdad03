#include "launch/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/version.h"
#include "proto/channel_zmq.h"

#define CONNECT_PATIENCE_NS (10 * OR_NS_PER_S) // for the first Welcome
#define SILENCE_PATIENCE_NS (5 * OR_NS_PER_S)  // without a coordinator, after that
#define REPEAT_NS (2 * OR_NS_PER_S)            // nothing new for so long: ask again

struct or_client {
    or_channel_t *channel;
    or_link_t *link;
    const or_clock_t *clock;
    const char *endpoint;
    or_generate_request_t request;
    or_session_id_t session; // the coordinator's, from its first delta
    bool begun;              // a delta has come: resume from now on, never ask anew
    bool cancelled;
    bool ended; // the last delta was given out
    uint32_t busy_wait_s;
    int64_t busy_until_ns; // give up on a busy coordinator then; 0: it has not been busy
    bool resting;          // it was busy: ask again at repeat_at_ns
    uint32_t tokens;       // what is here
    uint64_t text_bytes;
    int64_t repeat_at_ns;  // when to ask again; OR_TIME_NEVER before the first Welcome
    int64_t give_up_at_ns; // OR_TIME_NEVER while the coordinator is there
};

or_status_t or_client_create(const char *endpoint, const or_client_config_t *config,
                             const or_generate_request_t *request, or_client_t **client_p)
{
    or_channel_t *channel = NULL;
    or_status_t status = or_channel_zmq_connect(endpoint, &channel);
    if (status != OR_OK) {
        return status;
    }
    return or_client_create_on(channel, or_clock_monotonic(), endpoint, config, request, client_p);
}

or_status_t or_client_create_on(or_channel_t *channel, const or_clock_t *clock,
                                const char *endpoint, const or_client_config_t *config,
                                const or_generate_request_t *request, or_client_t **client_p)
{
    const or_hello_t hello = {.role = OR_ROLE_CLIENT,
                              .software = "outrider " OR_VERSION,
                              .arith_id = "",
                              .model = "",
                              .owner = config->owner != NULL ? config->owner : ""};
    or_client_t *client = calloc(1, sizeof *client);
    if (client == NULL) {
        or_channel_destroy(&channel);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a client");
    }
    client->channel = channel;
    client->clock = clock;
    client->endpoint = endpoint;
    client->request = *request;
    client->request.request = or_rng_system_seed();
    client->busy_wait_s = config->busy_wait_s;
    client->repeat_at_ns = OR_TIME_NEVER;
    client->give_up_at_ns = or_clock_now(client->clock) + CONNECT_PATIENCE_NS;
    or_status_t status =
        or_link_create(client->channel, client->clock, &hello, OR_LINK_HEARTBEAT_MS, &client->link);
    if (status != OR_OK) {
        or_client_destroy(&client);
        return status;
    }
    *client_p = client;
    return OR_OK;
}

void or_client_destroy(or_client_t **client_p)
{
    or_client_t *client = *client_p;
    if (client != NULL) {
        if (client->begun && !client->ended && !client->cancelled) {
            or_client_cancel(client);
        }
        or_link_destroy(&client->link);
        or_channel_destroy(&client->channel);
        free(client);
        *client_p = NULL;
    }
}

static void send_cancel(or_client_t *client, or_session_id_t session, const char *reason)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = reason}};
    if (or_link_send(client->link, OR_PEER_HUB, &message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "cancelling: %s", or_error_text());
    }
}

// Say what we want: the whole request, or what is missing of it.
static void ask(or_client_t *client)
{
    if (client->cancelled && !client->begun) {
        return; // it was never asked for, and is not wanted any more
    }
    client->resting = false;
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST, .session = client->session};
    if (client->begun) {
        message.type = OR_MSG_RESUME;
        message.body.resume = (or_resume_t){.request = client->request.request,
                                            .offset = client->tokens,
                                            .text_offset = client->text_bytes};
    } else {
        message.body.generate_request = client->request;
    }
    // Whatever the reason a send fails for, asking again later is the answer.
    if (or_link_send(client->link, OR_PEER_HUB, &message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "asking the coordinator: %s", or_error_text());
    }
    client->repeat_at_ns = or_clock_now(client->clock) + REPEAT_NS;
}

void or_client_cancel(or_client_t *client)
{
    client->cancelled = true;
    send_cancel(client, client->session, "interrupted by the user");
}

// The coordinator has no place for it now. True: it will be asked again, by another number, so that the
// answer to the old one is not taken for one to the new.
static bool rest(or_client_t *client, const or_generate_delta_t *delta)
{
    int64_t now = or_clock_now(client->clock);
    int64_t again_ns = now + delta->retry_ms * OR_NS_PER_MS;
    bool first = client->busy_until_ns == 0;
    if (first) {
        client->busy_until_ns = now + client->busy_wait_s * OR_NS_PER_S;
    }
    if (again_ns > client->busy_until_ns || client->cancelled) {
        return false;
    }
    if (first) {
        or_log(OR_LOG_WARN, "the coordinator is %s; asking again for up to %" PRIu32 " s",
               delta->error, client->busy_wait_s);
    }
    client->request.request = or_rng_system_seed();
    client->session = (or_session_id_t){0};
    client->begun = false;
    client->resting = true;
    client->repeat_at_ns = again_ns;
    return true;
}

// Is it an answer to come back later, rather than to a text that has begun?
static bool is_busy(const or_client_t *client, const or_generate_delta_t *delta)
{
    return delta->finish == OR_FINISH_ERROR && delta->error_code == OR_WIRE_BUSY &&
           delta->retry_ms > 0 && client->tokens == 0;
}

// About a request that was given up for another: where it found a place after all, it writes for nobody.
static void take_old_delta(or_client_t *client, or_session_id_t session,
                           const or_generate_delta_t *delta)
{
    if (session.value != 0 && delta->finish == OR_FINISH_NONE) {
        send_cancel(client, session, "asked for anew");
    }
}

// Leave in the delta only what is new. OR_ERR_AGAIN if that is nothing, or if something before it
// is missing.
static or_status_t take_delta(or_client_t *client, or_message_t *message)
{
    or_generate_delta_t *delta = &message->body.generate_delta;
    if (delta->request != client->request.request) {
        take_old_delta(client, message->session, delta);
        return OR_ERR_AGAIN;
    }
    if (is_busy(client, delta) && rest(client, delta)) {
        return OR_ERR_AGAIN;
    }
    client->begun = true;
    client->session = message->session;
    if (delta->offset > client->tokens || delta->text_offset > client->text_bytes) {
        ask(client);
        return OR_ERR_AGAIN;
    }
    client->repeat_at_ns = or_clock_now(client->clock) + REPEAT_NS;
    uint32_t old_tokens = client->tokens - delta->offset;
    uint64_t old_bytes = client->text_bytes - delta->text_offset;
    old_tokens = old_tokens < delta->count ? old_tokens : delta->count;
    old_bytes = old_bytes < delta->text_bytes ? old_bytes : delta->text_bytes;
    delta->tokens += old_tokens;
    delta->count -= old_tokens;
    delta->offset += old_tokens;
    delta->text += old_bytes;
    delta->text_bytes -= (uint32_t)old_bytes;
    delta->text_offset += old_bytes;
    client->tokens += delta->count;
    client->text_bytes += delta->text_bytes;
    client->ended = delta->finish != OR_FINISH_NONE;
    if (client->ended && client->session.value != 0) {
        send_cancel(client, client->session, "all is here"); // the coordinator may forget it
    }
    bool news = delta->count > 0 || delta->text_bytes > 0 || delta->finish != OR_FINISH_NONE;
    return news ? OR_OK : OR_ERR_AGAIN;
}

static or_status_t take_error(or_client_t *client, const or_error_t *error)
{
    switch (error->code) {
    case OR_WIRE_BUSY:
        or_log(OR_LOG_INFO, "coordinator busy: %s", error->text);
        client->repeat_at_ns = or_clock_now(client->clock) + error->retry_ms * OR_NS_PER_MS;
        return OR_ERR_AGAIN;
    case OR_WIRE_UNKNOWN_SESSION:
        if (client->cancelled) {
            return or_fail(OR_ERR_CANCELLED, "cancelled");
        }
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator no longer knows this request: %s",
                       error->text);
    case OR_WIRE_VERSION:
    case OR_WIRE_REFUSED:
        return or_fail(OR_ERR_MISMATCH, "the coordinator says: %s", error->text);
    default:
        return or_fail(OR_ERR_INVALID, "the coordinator says: %s", error->text);
    }
}

static or_status_t take_message(or_client_t *client, or_message_t *message)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        client->give_up_at_ns = OR_TIME_NEVER;
        if (!client->resting) {
            ask(client);
        }
        return OR_ERR_AGAIN;
    case OR_MSG_GENERATE_DELTA:
        return take_delta(client, message);
    case OR_MSG_ERROR:
        return take_error(client, &message->body.error);
    default:
        return OR_ERR_AGAIN;
    }
}

// Everything that waits, up to the first thing the caller must see.
static or_status_t receive(or_client_t *client, or_message_t *message)
{
    or_link_event_t event;
    or_peer_t from;
    or_status_t status;
    while ((status = or_link_receive(client->link, &event, &from, message)) == OR_OK) {
        if (event == OR_LINK_PEER_LOST) {
            or_log(OR_LOG_WARN, "no word from the coordinator at %s; trying to reach it again",
                   client->endpoint);
            client->give_up_at_ns = or_clock_now(client->clock) + SILENCE_PATIENCE_NS;
            continue;
        }
        status = take_message(client, message);
        if (status == OR_OK) {
            return OR_OK;
        }
        or_message_fini(message);
        if (status != OR_ERR_AGAIN) {
            return status;
        }
    }
    return status;
}

static or_status_t give_up(const or_client_t *client)
{
    if (client->begun) {
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator at %s has been silent for %d s",
                       client->endpoint, (int)(SILENCE_PATIENCE_NS / OR_NS_PER_S));
    }
    return or_fail(OR_ERR_TIMEOUT,
                   "no coordinator answers at %s; is it running, and is the endpoint right?",
                   client->endpoint);
}

or_status_t or_client_next(or_client_t *client, int64_t deadline_ns, or_message_t *message)
{
    or_status_t status = receive(client, message);
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    if (client->cancelled && client->resting) {
        return or_fail(OR_ERR_CANCELLED, "cancelled"); // nobody there knows of it
    }
    int64_t now = or_clock_now(client->clock);
    if (now >= client->give_up_at_ns) {
        return give_up(client);
    }
    if (now >= client->repeat_at_ns && or_link_welcomed(client->link)) {
        ask(client);
    }
    int64_t due = or_link_tick(client->link);
    or_link_wait(client->link, due < deadline_ns ? due : deadline_ns);
    return receive(client, message);
}
