#include "coordinator/clients/parking_test_support.h"

#include <stdio.h>
#include <string.h>

int parking_setup_sized(void **state, uint32_t sessions_max, uint32_t waiting_max)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.resume_ms = RESUME_MS;
    config.sessions_max = sessions_max;
    config.waiting_max = waiting_max;
    int failed = world_setup_with(state, config);
    world_t *w = *state;
    w->judges = true;
    return failed;
}

int parking_setup(void **state)
{
    return parking_setup_sized(state, 64, 256);
}

// A verifier, and who asks for figures.
void join_target(world_t *w)
{
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET,
                      .sessions_max = w->config.sessions_max});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

const or_stats_t *ask_stats(world_t *w)
{
    const or_message_t message = {.type = OR_MSG_STATS_REQUEST};
    uint32_t before = w->stats_count;
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 1);
    assert_int_equal(w->stats_count, before + 1);
    return &w->stats;
}

or_key_pair_t two_keys[2];

void authorize_two_keys(world_t *w, uint32_t sessions_max)
{
    for (int i = 0; i < 2; i++) {
        or_key_grant_t grant = {.owner = "a", .roles = OR_KEY_CLIENT, .sessions_max = sessions_max};
        assert_int_equal(or_key_pair_create(&two_keys[i]), OR_OK);
        memcpy(grant.key, two_keys[i].public_key, sizeof grant.key);
        snprintf(grant.name, sizeof grant.name, "key-%d", i);
        assert_int_equal(or_keyring_authorize(w->config.keyring, &grant), OR_OK);
    }
}

void begin_anew(world_t *w)
{
    or_coordinator_destroy(&w->coordinator);
    assert_int_equal(
        or_coordinator_create(&w->config, w->vocab, w->hub, &w->clock.clock, &w->coordinator),
        OR_OK);
}

void enter_as(world_t *w, client_t *client, const char *public_key)
{
    join(w, &client->edge, (or_hello_t){.role = OR_ROLE_CLIENT});
    or_network_set_key(client->edge.channel, public_key);
    run_hearing(w, client, 5);
}

void enter(world_t *w, client_t *client, const char *owner)
{
    join_beside(w, &client->edge, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = owner});
}

// Nothing comes twice, nothing is left out.
static void take_delta(client_t *client, or_session_id_t session, const or_generate_delta_t *delta)
{
    client->session = session;
    client->finish = delta->finish;
    client->error_code = delta->error_code;
    client->resumes = delta->stats.resumes;
    client->resumed_tokens = delta->stats.resumed_tokens;
    snprintf(client->error, sizeof client->error, "%s", delta->error);
    if (session.value == 0) {
        return; // there is no such text
    }
    assert_true(client->seed == 0 || delta->seed == client->seed);
    client->seed = delta->seed;
    assert_int_equal(delta->offset, client->count);
    assert_int_equal(delta->text_offset, client->text_bytes);
    assert_int_equal(delta->token_bytes, delta->offset == 0 ? OR_SESSION_TOKEN_BYTES : 0);
    if (delta->token_bytes > 0) {
        memcpy(client->token, delta->token, sizeof client->token);
    }
    for (uint32_t i = 0; i < delta->count; i++) {
        client->tokens[client->count++] = delta->tokens[i];
    }
    for (uint32_t i = 0; i < delta->text_bytes && client->text_bytes + i < sizeof client->text;
         i++) {
        client->text[client->text_bytes + i] = delta->text[i];
    }
    client->text_bytes += delta->text_bytes;
    client->change_count = delta->part_change_count;
    for (uint32_t i = 0; i < delta->part_change_count; i++) {
        client->changes[i] = delta->part_changes[i];
    }
}

static void hear(client_t *client)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message = {0};
    while (or_link_receive(client->edge.link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            if (message.type == OR_MSG_GENERATE_DELTA &&
                message.body.generate_delta.request == client->request) {
                take_delta(client, message.session, &message.body.generate_delta);
            }
            or_message_fini(&message);
        }
    }
    or_link_tick(client->edge.link);
}

void run_hearing(world_t *w, client_t *client, uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        run(w, 0);
        hear(client);
    }
}

void ask_for(world_t *w, client_t *client, uint64_t id, uint32_t wanted)
{
    or_generate_request_t request = usual_request(wanted);
    request.plain = true;
    request.has_seed = false; // whatever it is, it stays
    request.request = client->request = id;
    client->count = 0;
    client->text_bytes = client->seed = 0;
    ask_through(&client->edge, request);
    run_hearing(w, client, 1);
}

// Another connection of who has `before`: the rest, please.
void resume(world_t *w, client_t *client, const client_t *before)
{
    edge_t edge = client->edge;
    *client = *before;
    client->edge = edge;
    client->finish = OR_FINISH_NONE;
    const or_message_t message = {.type = OR_MSG_RESUME,
                                  .body.resume = {.request = client->request,
                                                  .offset = client->count,
                                                  .text_offset = client->text_bytes,
                                                  .token = client->token,
                                                  .token_bytes = sizeof client->token}};
    assert_int_equal(or_link_send(client->edge.link, OR_PEER_HUB, &message), OR_OK);
    run_hearing(w, client, 2);
}

void send_cancel(world_t *w, client_t *client, or_session_id_t session)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = "test"}};
    assert_int_equal(or_link_send(client->edge.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 2);
}

void assert_whole(const client_t *client)
{
    assert_int_equal(client->finish, OR_FINISH_LENGTH);
    assert_int_equal(client->count, WANTED);
    for (uint32_t i = 0; i < WANTED; i++) {
        assert_int_equal(client->tokens[i], word_at(3 + i)); // behind the prompt
    }
}

void assert_unknown(const client_t *client)
{
    assert_int_equal(client->finish, OR_FINISH_ERROR);
    assert_int_equal(client->error_code, OR_WIRE_UNKNOWN_SESSION);
}

// A text that stands still somewhere in the middle.
void ask_for_a_part(world_t *w, client_t *client, uint64_t id)
{
    w->slow = false;
    ask_for(w, client, id, WANTED);
    while (client->count == 0) {
        run_hearing(w, client, 1);
    }
    w->slow = true;
    run_hearing(w, client, 3);
    assert_in_range(client->count, 1, WANTED - 1);
    assert_int_equal(client->finish, OR_FINISH_NONE);
}
