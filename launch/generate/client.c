#include "launch/generate/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "common/base/version.h"
#include "proto/zmq/channel_zmq.h"

#define CONNECT_PATIENCE_NS (10 * OR_NS_PER_S) // for the first Welcome
#define SILENCE_PATIENCE_S 5                   // without a coordinator, after that, at least
#define REPEAT_NS (2 * OR_NS_PER_S)            // nothing new for so long: ask again
#define WELCOMES_NS (200 * OR_NS_PER_MS)       // of Welcomes in so short a time one counts
#define WAITING_TOLD_NS (10 * OR_NS_PER_S) // between lines about a coordinator that is not there
#define HEARTBEAT_MAX_MS 60000u            // as the link believes it
#define CALLED_NS (2 * OR_NS_PER_S)        // for a call at least, however late its loss was noticed
// What answers a greeting by closing the connection may be about to come or to go; for longer it is not.
// A key that was authorised just now is let in within a second.
#define TROUBLE_NS (3 * OR_NS_PER_S / 2)

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
    // The session's secret: with it the text goes on wherever the coordinator is found again.
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    bool has_token;
    uint32_t reconnect_wait_s;
    uint32_t heartbeat_ms; // as it said
    uint64_t connection;   // as or_channel_connection last had it
    int64_t lost_ns;       // since when it is not there; means something while give_up_at_ns does
    int64_t trouble_ns;    // since when there is trouble connecting; OR_TIME_NEVER: there is none
    int64_t welcomed_ns;   // when a Welcome last made us ask
    int64_t repeat_at_ns;  // when to ask again; OR_TIME_NEVER before the first Welcome
    int64_t give_up_at_ns; // OR_TIME_NEVER while the coordinator is there
    int64_t tell_at_ns;    // when to say that it is still waited for; OR_TIME_NEVER
};

or_status_t or_client_create(const char *endpoint, const or_client_config_t *config,
                             const or_generate_request_t *request, or_client_t **client_p)
{
    or_channel_t *channel = NULL;
    or_status_t status = or_channel_zmq_connect(endpoint, config->keys, &channel);
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
    client->reconnect_wait_s = config->reconnect_wait_s > SILENCE_PATIENCE_S
                                   ? config->reconnect_wait_s
                                   : SILENCE_PATIENCE_S;
    client->welcomed_ns = or_clock_now(clock) - WELCOMES_NS;
    client->heartbeat_ms = OR_LINK_HEARTBEAT_MS;
    client->lost_ns = or_clock_now(clock);
    client->trouble_ns = client->tell_at_ns = OR_TIME_NEVER;
    client->repeat_at_ns = OR_TIME_NEVER;
    client->give_up_at_ns = or_clock_now(client->clock) + CONNECT_PATIENCE_NS;
    or_status_t status =
        or_link_create(client->channel, client->clock, &hello, OR_LINK_HEARTBEAT_MS, &client->link);
    if (status != OR_OK) {
        or_client_destroy(&client);
        return status;
    }
    or_link_set_padding(client->link, !config->no_padding);
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
        message.body.resume =
            (or_resume_t){.request = client->request.request,
                          .offset = client->tokens,
                          .text_offset = client->text_bytes,
                          .token = client->has_token ? client->token : NULL,
                          .token_bytes = client->has_token ? sizeof client->token : 0};
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
    client->begun = client->has_token = false;
    client->resting = true;
    client->repeat_at_ns = again_ns;
    return true;
}

// Is it an answer to come back later?
static bool is_busy(const or_generate_delta_t *delta)
{
    return delta->finish == OR_FINISH_ERROR && delta->error_code == OR_WIRE_BUSY &&
           delta->retry_ms > 0;
}

// A text that has begun is kept for us: the same is asked for again. One that is kept for a client that is away takes no
// Cancel: who does not want it any more leaves it to its time.
static or_status_t wait_for_the_rest(or_client_t *client, const or_generate_delta_t *delta)
{
    if (client->cancelled) {
        return or_fail(OR_ERR_CANCELLED, "cancelled");
    }
    client->repeat_at_ns = or_clock_now(client->clock) + delta->retry_ms * OR_NS_PER_MS;
    return OR_ERR_AGAIN;
}

// About a request that was given up for another: where it found a place after all, it writes for nobody.
static void take_old_delta(or_client_t *client, or_session_id_t session,
                           const or_generate_delta_t *delta)
{
    if (session.value != 0 && delta->finish == OR_FINISH_NONE) {
        send_cancel(client, session, "asked for anew");
    }
}

// Who still writes has not heard that we do not want it any more: another coordinator than the one that was told, or one
// that kept the text for us while we were away.
static void take_session(or_client_t *client, or_session_id_t session, bool goes_on)
{
    client->session = session;
    if (client->cancelled && goes_on && session.value != 0) {
        send_cancel(client, session, "interrupted by the user");
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
    if (is_busy(delta) && client->has_token && message->session.value == 0) {
        return wait_for_the_rest(client, delta);
    }
    if (is_busy(delta) && client->tokens == 0 && rest(client, delta)) {
        return OR_ERR_AGAIN;
    }
    client->begun = true;
    take_session(client, message->session, delta->finish == OR_FINISH_NONE);
    if (delta->token_bytes == sizeof client->token) {
        memcpy(client->token, delta->token, sizeof client->token);
        client->has_token = true;
    }
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
    bool waits = client->tokens == 0 && delta->note[0] != '\0'; // and why
    bool news =
        delta->count > 0 || delta->text_bytes > 0 || delta->finish != OR_FINISH_NONE || waits;
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

// After a long silence they come in crowds, as our greetings went.
static void take_welcome(or_client_t *client, const or_welcome_t *welcome)
{
    int64_t now = or_clock_now(client->clock);
    client->give_up_at_ns = client->tell_at_ns = client->trouble_ns = OR_TIME_NEVER;
    if (welcome->heartbeat_ms != 0) {
        client->heartbeat_ms =
            welcome->heartbeat_ms < HEARTBEAT_MAX_MS ? welcome->heartbeat_ms : HEARTBEAT_MAX_MS;
    }
    if (!client->resting && now - client->welcomed_ns >= WELCOMES_NS) {
        client->welcomed_ns = now;
        ask(client);
    }
}

static or_status_t take_message(or_client_t *client, or_message_t *message)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        take_welcome(client, &message->body.welcome);
        return OR_ERR_AGAIN;
    case OR_MSG_GENERATE_DELTA:
        return take_delta(client, message);
    case OR_MSG_ERROR:
        return take_error(client, &message->body.error);
    default:
        return OR_ERR_AGAIN;
    }
}

// Whole ones, rounded: what was to be 6 s is not told as 5.
static int seconds(int64_t ns)
{
    return (int)((ns + OR_NS_PER_S / 2) / OR_NS_PER_S);
}

// Say (again) that the coordinator is waited for.
static void tell_wait(or_client_t *client)
{
    int64_t now = or_clock_now(client->clock);
    const char *trouble = or_channel_zmq_trouble(client->channel);
    or_log(OR_LOG_WARN,
           "no word from the coordinator at %s for %d s%s%s; trying to reach it for %d s more",
           client->endpoint, seconds(now - client->lost_ns), trouble[0] != '\0' ? ": " : "",
           trouble, seconds(client->give_up_at_ns - now));
    client->tell_at_ns = now + WAITING_TOLD_NS;
}

// The same coordinator may come back, or this machine at another address. It was last heard `ago_ns` ago.
static void lose(or_client_t *client, int64_t ago_ns)
{
    int64_t now = or_clock_now(client->clock);
    if (client->give_up_at_ns != OR_TIME_NEVER) {
        return; // it never was there, or is waited for already
    }
    client->lost_ns = now - ago_ns;
    client->give_up_at_ns = client->lost_ns + client->reconnect_wait_s * OR_NS_PER_S;
    if (client->give_up_at_ns < now + CALLED_NS) {
        client->give_up_at_ns = now + CALLED_NS;
    }
    if (ago_ns > 0) {
        tell_wait(client);
        return;
    }
    or_log(OR_LOG_WARN,
           "the connection to the coordinator at %s is lost; trying to reach it for %d s",
           client->endpoint, seconds(client->give_up_at_ns - now));
    client->tell_at_ns = now + WAITING_TOLD_NS;
}

// A connection that ends says at once what silence says after a while.
static void watch_connection(or_client_t *client)
{
    uint64_t connection = or_channel_connection(client->channel);
    if (client->connection != 0 && connection == 0) {
        lose(client, 0);
    }
    client->connection = connection;
}

// Everything that waits, up to the first thing the caller must see.
static or_status_t receive(or_client_t *client, or_message_t *message)
{
    or_link_event_t event;
    or_peer_t from;
    or_status_t status;
    while ((status = or_link_receive(client->link, &event, &from, message)) == OR_OK) {
        if (event == OR_LINK_PEER_LOST) {
            lose(client, (int64_t)client->heartbeat_ms * OR_LINK_SILENCE * OR_NS_PER_MS);
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
    const char *trouble = or_channel_zmq_trouble(client->channel);
    if (client->begun) {
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator at %s has been silent for %d s%s%s",
                       client->endpoint, seconds(or_clock_now(client->clock) - client->lost_ns),
                       trouble[0] != '\0' ? ": " : "", trouble);
    }
    if (trouble[0] != '\0') {
        return or_fail(OR_ERR_TIMEOUT, "no coordinator answers: %s", trouble);
    }
    return or_fail(OR_ERR_TIMEOUT,
                   "no coordinator answers at %s; is it running, and is the endpoint right?",
                   client->endpoint);
}

// Is there no use in calling any longer? What is wrong with a first connection is left a little time to mend. In
// the middle of a text only a coordinator that says no to our key will say it again; else it may be coming back.
static bool is_over(or_client_t *client, int64_t now)
{
    if (client->give_up_at_ns == OR_TIME_NEVER ||
        or_channel_zmq_trouble(client->channel)[0] == '\0') {
        client->trouble_ns = OR_TIME_NEVER;
    } else if (client->trouble_ns == OR_TIME_NEVER) {
        client->trouble_ns = now;
    }
    bool troubled = client->trouble_ns != OR_TIME_NEVER;
    bool first = !client->begun && client->repeat_at_ns == OR_TIME_NEVER;
    bool lasting = troubled && now - client->trouble_ns >= TROUBLE_NS;
    return now >= client->give_up_at_ns ||
           (lasting && (first || or_channel_zmq_is_refused(client->channel)));
}

or_status_t or_client_next(or_client_t *client, int64_t deadline_ns, or_message_t *message)
{
    or_status_t status = receive(client, message);
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    watch_connection(client);
    bool alone = client->resting || client->tell_at_ns != OR_TIME_NEVER;
    if (client->cancelled && alone) {
        return or_fail(OR_ERR_CANCELLED, "cancelled"); // nobody there knows of it
    }
    int64_t now = or_clock_now(client->clock);
    if (is_over(client, now)) {
        return give_up(client);
    }
    if (now >= client->tell_at_ns) {
        tell_wait(client);
    }
    if (now >= client->repeat_at_ns && or_link_welcomed(client->link)) {
        ask(client);
    }
    int64_t due = or_link_tick(client->link);
    or_link_wait(client->link, due < deadline_ns ? due : deadline_ns);
    return receive(client, message);
}
