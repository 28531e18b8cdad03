// Goal: our own HTTP face asks for many owners and is believed when it says for whom, and nobody else is; it may ask for
// thousands of texts at once, lets go of one without losing it, and is refused what makes no sense.
// Method: the real coordinator and a client that the network calls inside, beside one that it does not.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/noise.h"
#include "coordinator/coordinator_test_support.h"

#define CROWD 1200u
#define UNLUCKY 4000u
#define LITTLE_STACK (128u << 10) // for each of them 32 bytes

static or_session_id_t latest; // of a text that a delta was about
static uint8_t token[OR_SESSION_TOKEN_BYTES];
static uint32_t busy, whole;

static void look(world_t *w, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    (void)w;
    if (message->type != OR_MSG_GENERATE_DELTA) {
        return;
    }
    latest = message->session;
    if (delta->token_bytes > 0) {
        memcpy(token, delta->token, sizeof token);
    }
    busy += delta->error_code == OR_WIRE_BUSY;
    whole += delta->finish == OR_FINISH_LENGTH;
}

static void join_target(world_t *w)
{
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    run(w, 5);
}

static void join_face(world_t *w, bool inside)
{
    w->look = look;
    busy = whole = 0;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "hello"});
    or_network_set_inside(w->client.channel, inside);
    run(w, 5);
}

static or_generate_request_t request_of(uint64_t id, const char *owner)
{
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    request.request = id;
    request.owner = owner;
    return request;
}

static void an_owner_is_believed_of_our_own_face_alone(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, true);
    ask(w, request_of(1, "alice"));
    run(w, 5);
    assert_string_equal(w->verifier_owner, "alice");
    ask(w, request_of(2, NULL));
    run(w, 5);
    assert_string_equal(w->verifier_owner, "");
    leave(&w->client);
    join_face(w, false);
    ask(w, request_of(3, "alice"));
    run(w, 5);
    assert_string_equal(w->verifier_owner, "hello");
}

static void an_owner_with_too_long_a_name_is_refused(void **state)
{
    world_t *w = *state;
    char name[100];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    join_target(w);
    join_face(w, true);
    ask(w, request_of(1, name));
    run(w, 5);
    assert_int_equal(w->end.error_code, OR_WIRE_INVALID);
}

static void ask_crowd(world_t *w)
{
    for (uint64_t id = 1; id <= CROWD; id++) {
        ask(w, request_of(id, NULL));
        if (id % 300 == 0) {
            run(w, 0);
        }
    }
    run(w, 200);
}

static int crowd_setup(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.waiting_max = 2 * CROWD;
    return world_setup_with(state, config);
}

static void a_crowd_may_come_through_it_at_once(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, true);
    ask_crowd(w);
    assert_int_equal(busy, 0);
    assert_int_equal(whole, CROWD);
}

static int narrow_setup(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.sessions_max = 2;
    config.waiting_max = 4;
    return world_setup_with(state, config);
}

// It acknowledges an end when its reader has it: until then ends may take all places, of which the oldest then makes
// room, one after the other.
static void ends_that_are_still_read_turn_nobody_away(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, true);
    for (uint64_t id = 1; id <= 40; id++) {
        ask(w, request_of(id, NULL));
        run(w, 5);
    }
    assert_int_equal(busy, 0);
    assert_int_equal(whole, 40);
}

static int unlucky_setup(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.waiting_max = UNLUCKY;
    return world_setup_with(state, config);
}

static uint32_t count_waiting(world_t *w)
{
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &question), OR_OK);
    run(w, 5);
    return w->stats.waiting;
}

static void *run_in_thread(void *world)
{
    run(world, 50);
    return NULL;
}

static void run_with_little_stack(world_t *w)
{
    pthread_t thread;
    pthread_attr_t little;
    assert_int_equal(pthread_attr_init(&little), 0);
    assert_int_equal(pthread_attr_setstacksize(&little, LITTLE_STACK), 0);
    assert_int_equal(pthread_create(&thread, &little, run_in_thread, w), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&little), 0);
}

// A verifier comes at last, and takes no prompt of more than two tokens. One after the other hears of it, and no end
// stands on the end of another: there is little room for that.
static void a_crowd_that_cannot_begin_ends(void **state)
{
    world_t *w = *state;
    join_face(w, true);
    for (uint64_t id = 1; id <= UNLUCKY; id++) {
        ask(w, request_of(id, NULL));
        if (id % 300 == 0) {
            run(w, 0);
        }
    }
    assert_int_equal(count_waiting(w), UNLUCKY);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .context_max = 3,
                      .model_hash = TARGET});
    run_with_little_stack(w);
    assert_int_equal(count_waiting(w), 0);
}

static void a_crowd_of_one_client_is_told_to_come_back(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, false);
    ask_crowd(w);
    assert_true(busy > 0);
    assert_int_equal(busy + whole, CROWD);
}

// Two places, both of them a's: one makes way for b's at the end of its round, and the next that is free is b's, too.
static void owners_behind_it_have_their_turns(void **state)
{
    world_t *w = *state;
    static const char *const owners[] = {"a", "a", "a", "b", "b"};
    static const uint64_t order[] = {4, 5, 1, 3, 2};
    join_target(w);
    join_face(w, true);
    w->slow = true;
    for (uint64_t id = 1; id <= 5; id++) {
        ask(w, request_of(id, owners[id - 1]));
        run(w, 5);
    }
    w->slow = false;
    run(w, 1500);
    assert_int_equal(w->ended, 5);
    assert_memory_equal(w->order, order, sizeof order);
}

// ---- coming and going ----

static void keep(world_t *w, or_session_id_t session)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = "away", .keep = true}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 5);
}

static void resume(world_t *w, uint64_t id, const char *owner)
{
    const or_message_t message = {
        .type = OR_MSG_RESUME,
        .body.resume = {
            .request = id, .token = token, .token_bytes = sizeof token, .owner = owner}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 20);
}

static void what_is_let_go_is_kept_for_its_owner(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, true);
    w->slow = true;
    ask(w, request_of(1, "alice"));
    run(w, 5);
    assert_int_equal(w->verifier_opens, 1);
    keep(w, latest);
    assert_int_equal(w->verifier_cancels, 1); // its place is free at once
    w->slow = false;
    resume(w, 2, "bob");
    assert_int_equal(w->end.error_code, OR_WIRE_UNKNOWN_SESSION);
    resume(w, 3, "alice");
    assert_int_equal(w->end.request, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.resumes, 1);
}

static void send_resume(world_t *w, uint64_t id)
{
    const or_message_t message = {
        .type = OR_MSG_RESUME,
        .body.resume = {.request = id, .token = token, .token_bytes = sizeof token}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
}

// A few bytes ask for a whole text, so many at once get one answer, under whatever numbers; but each of the face's
// requests is another client's.
static void a_burst_of_questions_for_a_text_has_one_answer(void **state)
{
    world_t *w = *state;
    join_target(w);
    for (int inside = 0; inside <= 1; inside++) {
        join_face(w, inside);
        ask(w, request_of(1, NULL));
        run(w, 300);
        assert_int_equal(whole, 1);
        for (uint64_t i = 0; i < 20; i++) {
            send_resume(w, 1);
        }
        run(w, 5);
        assert_int_equal(whole, 2);
        for (uint64_t i = 0; i < 20; i++) {
            send_resume(w, 2 + i);
        }
        run(w, 5);
        assert_int_equal(whole, inside ? 22 : 2);
        run(w, 300);
        send_resume(w, 50);
        run(w, 5);
        assert_int_equal(whole, inside ? 23 : 3);
        leave(&w->client);
    }
}

static void what_has_ended_is_kept_too(void **state)
{
    world_t *w = *state;
    join_target(w);
    join_face(w, true);
    ask(w, request_of(1, "alice"));
    run(w, 5);
    assert_int_equal(whole, 1);
    keep(w, latest);
    run(w, 40000); // longer than an end waits for who is there
    resume(w, 3, "alice");
    assert_int_equal(whole, 2);
    assert_int_equal(w->end.count, 2);
}

static void another_client_cannot_let_go_of_it(void **state)
{
    world_t *w = *state;
    edge_t other = {0};
    join_target(w);
    join_face(w, true);
    w->slow = true;
    ask(w, request_of(1, "alice"));
    run(w, 5);
    join_beside(w, &other, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "alice"});
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = latest, .body.cancel = {.reason = "", .keep = true}};
    assert_int_equal(or_link_send(other.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 5);
    assert_int_equal(w->verifier_cancels, 0);
    leave(&other);
}

// ---- what is asked for ----

static void a_conversation_needs_a_template_and_no_prompt(void **state)
{
    world_t *w = *state;
    static const or_chat_message_t messages[] = {
        {.role = "user", .content = (const uint8_t *)"Hello", .content_bytes = 5}};
    join_target(w);
    join_face(w, true);
    or_generate_request_t request = request_of(1, NULL);
    request.messages = messages;
    request.message_count = 1;
    ask(w, request); // which adds three tokens of a prompt
    run(w, 5);
    assert_int_equal(w->end.error_code, OR_WIRE_INVALID);
    assert_non_null(strstr(w->error, "not both"));
    const or_message_t message = {.type = OR_MSG_GENERATE_REQUEST,
                                  .body.generate_request = request};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 5);
    assert_string_equal(w->error, w->config.chat_trouble);
}

static int chat_setup(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    assert_int_equal(or_chat_by_name("vicuna", &config.chat), OR_OK);
    return world_setup_with(state, config);
}

static void a_conversation_is_written_as_the_template_has_it(void **state)
{
    world_t *w = *state;
    static const or_chat_message_t messages[] = {
        {.role = "user", .content = (const uint8_t *)"Hello", .content_bytes = 5}};
    static const or_chat_turn_t turns[] = {{.role = "user", .content = "Hello", .length = 5}};
    int32_t *ids;
    size_t count;
    assert_int_equal(
        or_chat_tokenize(w->config.chat, w->vocab, OR_THINKING_USUAL, turns, 1, &ids, &count),
        OR_OK);
    join_target(w);
    join_face(w, true);
    or_message_t said = {.type = OR_MSG_GENERATE_REQUEST,
                         .body.generate_request = request_of(1, NULL)};
    said.body.generate_request.messages = messages;
    said.body.generate_request.message_count = 1;
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &said), OR_OK);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.prompt_tokens, count);
    assert_int_equal(w->verifier_prompt_length, count);
    assert_memory_equal(w->verifier_prompt, ids, count * sizeof *ids);
    free(ids);
}

// Each turn takes a token at least: so many need no template, and no time to be written by it.
static void turns_that_cannot_fit_are_not_written(void **state)
{
    world_t *w = *state;
    static or_chat_message_t messages[64]; // the context holds as many tokens
    join_target(w);
    join_face(w, true);
    for (uint32_t i = 0; i < 64; i++) {
        messages[i] = (or_chat_message_t){.role = i % 2 == 0 ? "user" : "assistant",
                                          .content = (const uint8_t *)""};
    }
    or_message_t said = {.type = OR_MSG_GENERATE_REQUEST,
                         .body.generate_request = request_of(1, NULL)};
    said.body.generate_request.messages = messages;
    said.body.generate_request.message_count = 64;
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &said), OR_OK);
    run(w, 5);
    assert_int_equal(w->end.error_code, OR_WIRE_CONTEXT);
    assert_non_null(strstr(w->error, "has at least 64 tokens and the context holds 64"));
}

// Each choice has noise and keys of its own; the first one's are those of a request that names none.
static void choices_share_a_seed_and_nothing_else(void **state)
{
    world_t *w = *state;
    uint64_t noise[3], private[3];
    join_target(w);
    join_face(w, true);
    for (uint32_t choice = 0; choice < 3; choice++) {
        or_generate_request_t request = request_of(choice + 1, NULL);
        request.sampling.temperature = 1;
        request.seed = 4711;
        request.choice = choice;
        ask(w, request);
        run(w, 5);
        noise[choice] = w->verifier_terms.noise_key;
        private[choice] = w->verifier_terms.private_key;
        assert_int_equal(w->end.seed, 4711);
        assert_true(noise[choice] == or_noise_key(4711, choice).value);
    }
    assert_true(private[0] == or_rng_key(4711, UINT64_C(0x7072697661746500)).value);
    assert_true(private[1] != private[0] && private[2] != private[0] && private[1] != private[2]);
    assert_true(noise[1] != noise[0] && noise[2] != noise[1]);
}

#define USUAL(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)
#define CROWDED(test) cmocka_unit_test_setup_teardown(test, crowd_setup, world_teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        USUAL(an_owner_is_believed_of_our_own_face_alone),
        USUAL(an_owner_with_too_long_a_name_is_refused),
        CROWDED(a_crowd_may_come_through_it_at_once),
        CROWDED(a_crowd_of_one_client_is_told_to_come_back),
        cmocka_unit_test_setup_teardown(ends_that_are_still_read_turn_nobody_away, narrow_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(a_crowd_that_cannot_begin_ends, unlucky_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(owners_behind_it_have_their_turns, world_setup_narrow,
                                        world_teardown),
        USUAL(what_is_let_go_is_kept_for_its_owner),
        USUAL(a_burst_of_questions_for_a_text_has_one_answer),
        USUAL(what_has_ended_is_kept_too),
        USUAL(another_client_cannot_let_go_of_it),
        USUAL(a_conversation_needs_a_template_and_no_prompt),
        cmocka_unit_test_setup_teardown(a_conversation_is_written_as_the_template_has_it,
                                        chat_setup, world_teardown),
        cmocka_unit_test_setup_teardown(turns_that_cannot_fit_are_not_written, chat_setup,
                                        world_teardown),
        USUAL(choices_share_a_seed_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
