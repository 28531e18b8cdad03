// thief - a client that got hold of another's session token, over a real socket, for
// test_security.py.
//
//     thief ENDPOINT SERVER_KEY OWNERS_KEY_FILE THIEFS_KEY_FILE
//
// The owner asks for a text and is told its token. While it is written the thief, with a key that
// is authorised, too, shows that token, and tokens that are nearly it, to be given the text, and
// cancels it. Prints what came of it, as a line of JSON.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "proto/net/link.h"
#include "proto/zmq/channel_zmq.h"

#define TOKENS 400u
#define PATIENCE_NS (20 * OR_NS_PER_S)
#define THEFT_NS (2 * OR_NS_PER_S)

typedef struct {
    or_channel_t *channel;
    or_link_t *link;
    or_session_id_t session; // of the first delta
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    uint32_t token_bytes;
    uint64_t tokens, text_bytes, refusals; // it was told
    uint32_t finish;
} client_t;

static int64_t now_ns(void)
{
    return or_clock_now(or_clock_monotonic());
}

static or_status_t join(const char *endpoint, const char *server_key, const char *key_file,
                        client_t *client)
{
    const or_hello_t hello = {
        .role = OR_ROLE_CLIENT, .software = "thief", .arith_id = "", .model = "", .owner = ""};
    const or_key_options_t options = {.mode = "on", .key_file = key_file, .server_key = server_key};
    or_connect_keys_t keys;
    or_status_t status = or_keys_for_connecting(endpoint, &options, &keys);
    if (status == OR_OK) {
        status = or_channel_zmq_connect(endpoint, &keys, &client->channel);
    }
    if (status == OR_OK) {
        status = or_link_create(client->channel, or_clock_monotonic(), &hello, OR_LINK_HEARTBEAT_MS,
                                &client->link);
    }
    return status;
}

static void leave(client_t *client)
{
    or_link_destroy(&client->link);
    or_channel_destroy(&client->channel);
}

static void take(client_t *client, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    client->refusals += message->type == OR_MSG_ERROR;
    if (message->type != OR_MSG_GENERATE_DELTA) {
        return;
    }
    client->tokens += delta->count;
    client->text_bytes += delta->text_bytes;
    client->refusals += delta->finish == OR_FINISH_ERROR;
    client->finish = delta->finish;
    client->session = message->session;
    if (delta->token_bytes == sizeof client->token) {
        memcpy(client->token, delta->token, sizeof client->token);
        client->token_bytes = delta->token_bytes;
    }
}

static void turn(client_t *client)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message = {0};
    while (or_link_receive(client->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            take(client, &message);
            or_message_fini(&message);
        }
    }
    or_link_tick(client->link);
    or_link_wait(client->link, now_ns() + 5 * OR_NS_PER_MS);
}

static bool is_told_the_token(const client_t *client)
{
    return client->token_bytes > 0;
}

static bool has_ended(const client_t *client)
{
    return client->finish != OR_FINISH_NONE;
}

static bool is_welcome(const client_t *client)
{
    return or_link_welcomed(client->link);
}

static or_status_t wait_for(client_t *client, bool (*reached)(const client_t *), const char *what)
{
    int64_t end = now_ns() + PATIENCE_NS;
    while (!reached(client)) {
        if (now_ns() > end) {
            return or_fail(OR_ERR_TIMEOUT, "in vain: %s", what);
        }
        turn(client);
    }
    return OR_OK;
}

static or_status_t ask(client_t *client)
{
    static const char prompt[] = "Once upon a time";
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST,
                            .body.generate_request = {.request = 1,
                                                      .prompt = (const uint8_t *)prompt,
                                                      .prompt_bytes = sizeof prompt - 1,
                                                      .max_tokens = TOKENS,
                                                      .ignore_end = true,
                                                      .plain = true,
                                                      .sampling = or_sampling_default(),
                                                      .draft_method = OR_DRAFT_COUPLED,
                                                      .accept_rule = OR_ACCEPT_COUPLED,
                                                      .draft_nodes = 8,
                                                      .draft_depth = 8}};
    return or_link_send(client->link, OR_PEER_HUB, &message);
}

static void show_token(client_t *client, const uint8_t *token, uint64_t request)
{
    const or_message_t resume = {
        .type = OR_MSG_RESUME,
        .body.resume = {.request = request, .token = token, .token_bytes = OR_SESSION_TOKEN_BYTES}};
    (void)or_link_send(client->link, OR_PEER_HUB, &resume);
}

// The token, a hundred more that are nearly it, the owner's number for it, and the session's.
static void steal(client_t *client, const client_t *owner)
{
    const or_message_t cancel = {
        .type = OR_MSG_CANCEL, .session = owner->session, .body.cancel = {.reason = "mine"}};
    const or_message_t by_number = {.type = OR_MSG_RESUME, .body.resume = {.request = 1}};
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    memcpy(token, owner->token, sizeof token);
    show_token(client, token, 1);
    for (uint32_t i = 0; i < 100; i++) {
        token[i % sizeof token] ^= (uint8_t)(1u << i / sizeof token);
        show_token(client, token, 2 + i);
    }
    (void)or_link_send(client->link, OR_PEER_HUB, &by_number);
    (void)or_link_send(client->link, OR_PEER_HUB, &cancel);
}

static or_status_t play(char **argv, client_t *owner, client_t *thief)
{
    or_status_t status = join(argv[1], argv[2], argv[3], owner);
    if (status == OR_OK) {
        status = join(argv[1], argv[2], argv[4], thief);
    }
    if (status == OR_OK) {
        status = wait_for(owner, is_welcome, "the owner's welcome");
    }
    if (status == OR_OK) {
        status = wait_for(thief, is_welcome, "the thief's welcome");
    }
    if (status == OR_OK) {
        status = ask(owner);
    }
    if (status == OR_OK) {
        status = wait_for(owner, is_told_the_token, "the token");
    }
    if (status != OR_OK) {
        return status;
    }
    steal(thief, owner);
    for (int64_t end = now_ns() + THEFT_NS; now_ns() < end;) {
        turn(thief);
        turn(owner);
    }
    return wait_for(owner, has_ended, "the end of the owner's text");
}

int main(int argc, char **argv)
{
    client_t owner = {0}, thief = {0};
    if (argc != 5) {
        fprintf(stderr, "usage: thief ENDPOINT SERVER_KEY OWNERS_KEY_FILE THIEFS_KEY_FILE\n");
        return 2;
    }
    or_log_init("thief", OR_LOG_WARN);
    or_status_t status = play(argv, &owner, &thief);
    if (status == OR_OK) {
        printf("{\"owner_tokens\":%" PRIu64 ",\"owner_finish\":%" PRIu32
               ",\"stolen_tokens\":%" PRIu64 ",\"stolen_bytes\":%" PRIu64 ",\"refusals\":%" PRIu64
               "}\n",
               owner.tokens, owner.finish, thief.tokens, thief.text_bytes, thief.refusals);
    } else {
        fprintf(stderr, "thief: %s\n", or_error_text());
    }
    leave(&thief);
    leave(&owner);
    return status == OR_OK ? 0 : 1;
}
