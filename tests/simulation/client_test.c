// Goal: a client that was told to come back leaves nothing behind that was admitted after all, and says
// when it has the end of its text, so that the coordinator may forget it. One whose coordinator fell silent
// calls it for as long as it was told to, and shows the session's token when it is back. Who has enough is heard, or goes.
// Method: the real client with a user (one slot) on a network in memory, the test as its coordinator.
#include <stdio.h>
#include <string.h>

#include "proto/net/requests.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define RECONNECT_S 40
#define SILENCE_MS 10500
#define REQUESTS_MAX 64u

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *channel, *edge; // the edge's is the client's
    or_link_t *hub;
    or_requests_t *client;
    or_peer_t peer;
    uint64_t requests[REQUESTS_MAX]; // numbers, as they came
    uint32_t request_count;
    uint64_t cancelled[4]; // sessions
    uint32_t cancel_count;
    uint32_t ends; // the client gave out
    uint32_t notes;
    char note[64]; // the last of them
    uint32_t resumes;
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // that the last of them showed
    uint32_t token_bytes, offset;
    or_status_t status; // the client's last
} world_t;

static int set_up(void **state)
{
    static world_t world;
    world_t *w = &world;
    const or_network_faults_t none = {0};
    const or_requests_config_t config = {
        .endpoint = "memory", .busy_wait_s = 60, .reconnect_wait_s = RECONNECT_S};
    const or_generate_request_t request = {.prompt = (const uint8_t *)"a", .prompt_bytes = 1};
    memset(w, 0, sizeof *w);
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&w->clock, 1, &none, &w->network), OR_OK);
    assert_int_equal(or_network_hub(w->network, &w->channel), OR_OK);
    assert_int_equal(or_link_create(w->channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
    assert_int_equal(or_network_edge(w->network, &w->edge), OR_OK);
    assert_int_equal(or_requests_create(w->edge, &w->clock.clock, &config, 1, &w->client), OR_OK);
    or_requests_begin(w->client, 0, &request);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_t *w = *state;
    or_requests_destroy(&w->client);
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->channel);
    or_network_destroy(&w->network);
    return 0;
}

static void welcome(world_t *w)
{
    const or_message_t message = {
        .type = OR_MSG_WELCOME,
        .body.welcome = {
            .software = "test", .heartbeat_ms = 1000, .owner = "", .model = "", .arith_id = ""}};
    assert_int_equal(or_link_send(w->hub, w->peer, &message), OR_OK);
}

static void take(world_t *w, or_peer_t from, const or_message_t *message)
{
    w->peer = from;
    if (message->type == OR_MSG_HELLO) {
        welcome(w);
    } else if (message->type == OR_MSG_GENERATE_REQUEST) {
        assert_true(w->request_count < REQUESTS_MAX);
        w->requests[w->request_count++] = message->body.generate_request.request;
    } else if (message->type == OR_MSG_RESUME) {
        const or_resume_t *resume = &message->body.resume;
        w->resumes++;
        w->offset = resume->offset;
        w->token_bytes = resume->token_bytes;
        memcpy(w->token, resume->token, resume->token_bytes < 16 ? resume->token_bytes : 16);
    } else if (message->type == OR_MSG_CANCEL) {
        assert_true(w->cancel_count < 4);
        w->cancelled[w->cancel_count++] = message->session.value;
    }
}

static void take_given(world_t *w, const or_generate_delta_t *delta)
{
    w->ends += delta->finish != OR_FINISH_NONE;
    if (delta->note[0] != '\0') {
        w->notes++;
        snprintf(w->note, sizeof w->note, "%s", delta->note);
    }
}

static void run(world_t *w, uint32_t ms)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    uint32_t slot;
    for (uint32_t i = 0; i <= ms; i++) {
        while (or_link_receive(w->hub, &event, &from, &message) == OR_OK) {
            if (event == OR_LINK_MESSAGE) {
                take(w, from, &message);
                or_message_fini(&message);
            }
        }
        or_link_tick(w->hub);
        w->status = or_requests_next(w->client, w->clock.now_ns, &slot, &message);
        if (w->status == OR_OK) {
            take_given(w, &message.body.generate_delta);
            or_message_fini(&message);
        }
        w->clock.now_ns += OR_NS_PER_MS;
    }
}

// Answer a request. Session 0 means that there is no place.
static void answer(world_t *w, uint64_t request, uint64_t session, uint32_t finish)
{
    const or_message_t delta = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = {session},
        .body.generate_delta = {.request = request,
                                .finish = finish,
                                .error = session == 0 ? "busy" : "",
                                .error_code = session == 0 ? OR_WIRE_BUSY : 0,
                                .retry_ms = session == 0 ? 500 : 0,
                                .arith_id = "",
                                .note = "",
                                .vocab_map = "",
                                .vocab_why = ""}};
    assert_int_equal(or_link_send(w->hub, w->peer, &delta), OR_OK);
    run(w, 3);
}

// The network repeated the client's request; one copy found no place, the other did.
static void what_was_admitted_after_all_is_cancelled(void **state)
{
    world_t *w = *state;
    run(w, 5);
    assert_int_equal(w->request_count, 1);
    answer(w, w->requests[0], 0, OR_FINISH_ERROR);
    run(w, 600);
    assert_int_equal(w->request_count, 2);
    assert_true(w->requests[1] != w->requests[0]);
    answer(w, w->requests[0], 41, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 1);
    assert_int_equal(w->cancelled[0], 41);
    answer(w, w->requests[0], 41, OR_FINISH_CANCELLED); // the answer to that
    answer(w, w->requests[1], 43, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 1);
    answer(w, w->requests[1], 43, OR_FINISH_LENGTH);
    assert_int_equal(w->ends, 1);
}

static void an_end_that_arrived_is_acknowledged(void **state)
{
    world_t *w = *state;
    run(w, 5);
    answer(w, w->requests[0], 41, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 0);
    answer(w, w->requests[0], 41, OR_FINISH_LENGTH);
    assert_int_equal(w->ends, 1);
    assert_int_equal(w->cancel_count, 1);
    assert_int_equal(w->cancelled[0], 41);
}

static const uint8_t secret[OR_SESSION_TOKEN_BYTES] = "secret of sixtee";

// Begin the text of session 41: two tokens and its secret.
static void begin_text(world_t *w)
{
    static const uint32_t ids[2] = {7, 8};
    run(w, 5);
    const or_message_t delta = {.type = OR_MSG_GENERATE_DELTA,
                                .session = {41},
                                .body.generate_delta = {.request = w->requests[0],
                                                        .tokens = ids,
                                                        .count = 2,
                                                        .token = secret,
                                                        .token_bytes = sizeof secret,
                                                        .error = "",
                                                        .arith_id = "",
                                                        .note = "",
                                                        .vocab_map = "",
                                                        .vocab_why = ""}};
    assert_int_equal(or_link_send(w->hub, w->peer, &delta), OR_OK);
    run(w, 3);
}

// Kill the hub. The clock goes on, and the client with it.
static void kill_hub(world_t *w)
{
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->channel);
}

static void wait_alone(world_t *w, uint32_t ms)
{
    or_message_t message;
    uint32_t slot;
    for (uint32_t i = 0; i < ms && (w->status == OR_OK || w->status == OR_ERR_AGAIN); i++) {
        w->status = or_requests_next(w->client, w->clock.now_ns, &slot, &message);
        w->clock.now_ns += OR_NS_PER_MS;
    }
}

static void start_hub(world_t *w)
{
    assert_int_equal(or_network_hub(w->network, &w->channel), OR_OK);
    assert_int_equal(or_link_create(w->channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
}

static void a_coordinator_that_is_back_is_shown_the_token(void **state)
{
    world_t *w = *state;
    begin_text(w);
    for (int restarts = 1; restarts <= 2; restarts++) { // for each it waits as long
        uint32_t before = w->resumes;
        kill_hub(w);
        wait_alone(w, (RECONNECT_S - 5) * 1000);
        assert_int_equal(w->status, OR_ERR_AGAIN);
        start_hub(w);
        run(w, 1500);
        for (int i = 0; i < 5; i++) { // one for each greeting that had waited
            welcome(w);
        }
        run(w, 10);
        assert_in_range(w->resumes, before + 1, before + 2);
        assert_int_equal(w->token_bytes, sizeof secret);
        assert_memory_equal(w->token, secret, sizeof secret);
        assert_int_equal(w->offset, 2);
    }
    assert_int_equal(w->request_count, 1); // never asked for anew
}

static void one_that_never_was_is_given_up_sooner(void **state)
{
    world_t *w = *state;
    kill_hub(w);
    wait_alone(w, 12000);
    assert_int_equal(w->status, OR_ERR_TIMEOUT);
    start_hub(w);
}

static void one_that_stays_away_is_given_up_in_time(void **state)
{
    world_t *w = *state;
    begin_text(w);
    kill_hub(w);
    wait_alone(w, RECONNECT_S * 1000 -
                      1500); // counted from the last message, not from the time it was missed
    assert_int_equal(w->status, OR_ERR_AGAIN);
    wait_alone(w, 3000);
    assert_int_equal(w->status, OR_ERR_UNREACHABLE);
    assert_non_null(strstr(or_error_text(), "silent for 40 s"));
    start_hub(w);
}

// Silence is noticed after ten seconds, but a connection that ends is noticed at once.
static void a_connection_that_ends_is_noticed_at_once(void **state)
{
    world_t *w = *state;
    begin_text(w);
    or_network_cut(w->edge);
    wait_alone(w, RECONNECT_S * 1000 - 500);
    assert_int_equal(w->status, OR_ERR_AGAIN);
    wait_alone(w, 1000);
    assert_int_equal(w->status, OR_ERR_UNREACHABLE);
    assert_non_null(strstr(or_error_text(), "silent for 40 s"));
}

static void who_has_enough_of_a_lost_connection_goes_at_once(void **state)
{
    world_t *w = *state;
    begin_text(w);
    or_network_cut(w->edge);
    wait_alone(w, 5);
    or_requests_cancel(w->client, 0);
    wait_alone(w, 2);
    assert_int_equal(w->status, OR_ERR_CANCELLED);
}

static void one_that_is_mended_goes_on(void **state)
{
    world_t *w = *state;
    begin_text(w);
    or_network_cut(w->edge);
    wait_alone(w, 3000);
    or_network_mend(w->edge);
    run(w, 1500);
    assert_in_range(w->resumes, 1, 2);
    run(w, RECONNECT_S * 1000);
    assert_int_equal(w->status, OR_ERR_AGAIN);
}

// A request that waits brings no token, but its reason is news all the same.
static void why_it_waits_is_given_out(void **state)
{
    world_t *w = *state;
    run(w, 5);
    const or_message_t delta = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = {41},
        .body.generate_delta = {.request = w->requests[0], .note = "no verifier is connected yet"}};
    assert_int_equal(or_link_send(w->hub, w->peer, &delta), OR_OK);
    run(w, 3);
    assert_int_equal(w->notes, 1);
    assert_string_equal(w->note, "no verifier is connected yet");
}

static void who_has_enough_need_not_wait_for_it(void **state)
{
    world_t *w = *state;
    begin_text(w);
    kill_hub(w);
    wait_alone(w, SILENCE_MS);
    or_requests_cancel(w->client, 0);
    wait_alone(w, 2);
    assert_int_equal(w->status, OR_ERR_CANCELLED);
    start_hub(w);
}

// Say that the text is kept but has no place now.
static void say_busy(world_t *w)
{
    const or_message_t busy = {.type = OR_MSG_GENERATE_DELTA,
                               .body.generate_delta = {.request = w->requests[0],
                                                       .finish = OR_FINISH_ERROR,
                                                       .error = "busy",
                                                       .error_code = OR_WIRE_BUSY,
                                                       .retry_ms = 500}};
    assert_int_equal(or_link_send(w->hub, w->peer, &busy), OR_OK);
}

// The coordinator kept the text for a client that was away, and did not hear its request.
static void what_goes_on_all_the_same_is_told_again(void **state)
{
    world_t *w = *state;
    begin_text(w);
    say_busy(w);
    run(w, 5);
    or_requests_cancel(w->client, 0);
    run(w, 600);
    assert_int_equal(w->resumes, 1);
    uint32_t before = w->cancel_count;
    answer(w, w->requests[0], 41, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, before + 1);
    assert_int_equal(w->cancelled[before], 41);
    answer(w, w->requests[0], 41, OR_FINISH_CANCELLED);
    assert_int_equal(w->ends, 1);
}

// A request that has no place is told to come after a millisecond, over and over: it comes with the whole prompt.
static void who_is_always_told_to_come_at_once_takes_its_time(void **state)
{
    world_t *w = *state;
    uint32_t asked = 0;
    for (int ms = 0; ms < 20000 && asked < REQUESTS_MAX; ms += 2) {
        if (w->request_count > asked) {
            asked = w->request_count;
            const or_message_t busy = {.type = OR_MSG_GENERATE_DELTA,
                                       .body.generate_delta = {.request = w->requests[asked - 1],
                                                               .finish = OR_FINISH_ERROR,
                                                               .error = "busy",
                                                               .error_code = OR_WIRE_BUSY,
                                                               .retry_ms = 1}};
            assert_int_equal(or_link_send(w->hub, w->peer, &busy), OR_OK);
        }
        run(w, 1); // which takes two
    }
    assert_in_range(asked, 4, 8); // 0.25, 0.5, 1, 2, 4 and 8 seconds after each other
}

static void who_has_enough_does_not_wait_for_a_place(void **state)
{
    world_t *w = *state;
    begin_text(w);
    or_requests_cancel(w->client, 0);
    say_busy(w);
    wait_alone(w, 10);
    assert_int_equal(w->status, OR_ERR_CANCELLED);
}

// The next coordinator did not hear of the cancellation.
static void what_was_cancelled_is_cancelled_there_too(void **state)
{
    world_t *w = *state;
    begin_text(w);
    kill_hub(w);
    or_requests_cancel(w->client, 0); // while nobody has noticed
    wait_alone(w, 2000);
    start_hub(w);
    run(w, 1500);
    uint32_t before = w->cancel_count;
    answer(w, w->requests[0], 43, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, before + 1);
    assert_int_equal(w->cancelled[before], 43);
}

// The rest of a text has no place at once. It is asked for again as the rest, not as a new text.
static void a_coordinator_that_is_busy_is_asked_for_the_rest_again(void **state)
{
    world_t *w = *state;
    begin_text(w);
    run(w, 2100); // nothing new
    assert_int_equal(w->resumes, 1);
    answer(w, w->requests[0], 0, OR_FINISH_ERROR); // busy: after half a second
    run(w, 400);
    assert_int_equal(w->resumes, 1);
    run(w, 200);
    assert_int_equal(w->resumes, 2);
    assert_int_equal(w->request_count, 1);
    assert_int_equal(w->ends, 0);
}

// This holds also for a text without any word yet: its place in the queue is kept.
static void what_was_taken_in_is_not_asked_for_anew(void **state)
{
    static const uint8_t token[OR_SESSION_TOKEN_BYTES] = "a token";
    world_t *w = *state;
    run(w, 5);
    const or_message_t accepted = {.type = OR_MSG_GENERATE_DELTA,
                                   .session = {41},
                                   .body.generate_delta = {.request = w->requests[0],
                                                           .error = "",
                                                           .arith_id = "",
                                                           .note = "",
                                                           .vocab_map = "",
                                                           .vocab_why = "",
                                                           .token = token,
                                                           .token_bytes = sizeof token}};
    assert_int_equal(or_link_send(w->hub, w->peer, &accepted), OR_OK);
    run(w, 2100);
    assert_int_equal(w->resumes, 1);
    answer(w, w->requests[0], 0, OR_FINISH_ERROR);
    run(w, 600);
    assert_int_equal(w->resumes, 2);
    assert_int_equal(w->request_count, 1);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_admitted_after_all_is_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_is_always_told_to_come_at_once_takes_its_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_arrived_is_acknowledged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_coordinator_that_is_back_is_shown_the_token, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_never_was_is_given_up_sooner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_stays_away_is_given_up_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_that_ends_is_noticed_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_has_enough_of_a_lost_connection_goes_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_mended_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(why_it_waits_is_given_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_enough_need_not_wait_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_goes_on_all_the_same_is_told_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_enough_does_not_wait_for_a_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_cancelled_is_cancelled_there_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_taken_in_is_not_asked_for_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_coordinator_that_is_busy_is_asked_for_the_rest_again,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
