// Goal: every request gets its own text, each token once and in order with what belongs to it, and one end,
// whatever the network loses, repeats and reorders; ends of all kinds free the slot; what is left can be resumed.
// Method: a small coordinator on the network in memory writes texts that are a function of the seed,
// a few tokens a delta, and repeats from where a Resume says. The client's side is driven as a load test
// drives it; every delta is compared with the function.
#include "proto/net/requests.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define SLOTS 8u
#define TEXTS_MAX 64u
#define TOKENS 40u
#define BUSY_SEED 999u
#define STEP_NS OR_NS_PER_MS
#define PATIENCE_STEPS 200000

// A text as the coordinator writes it.
typedef struct {
    uint64_t request, seed;
    uint32_t length, told; // told: tokens sent so far
    uint32_t finish;
    bool away; // its reader is
} text_t;

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel;
    or_link_t *hub;
    or_peer_t client;
    text_t texts[TEXTS_MAX];
    uint32_t text_count, repeated_requests, cancels, questions;
    uint32_t busy_resumes; // so many are told to come back
    or_requests_t *requests;
    uint64_t random;
} fixture_t;

static uint32_t token_of(uint64_t seed, uint32_t at)
{
    return (uint32_t)(seed * 1000 + at);
}

// ---- the coordinator ----

static void tell(fixture_t *fixture, text_t *text, uint32_t count)
{
    uint32_t tokens[TOKENS];
    uint8_t bytes[TOKENS], origins[TOKENS], secret[OR_SESSION_TOKEN_BYTES] = {1};
    uint64_t ends[TOKENS];
    or_token_logprob_t logprobs[TOKENS];
    uint32_t left = text->length - text->told;
    count = count < left ? count : left;
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = token_of(text->seed, text->told + i);
        bytes[i] = (uint8_t)('a' + tokens[i] % 26);
        origins[i] = tokens[i] % 2;
        ends[i] = text->told + i + 1;
        logprobs[i] = (or_token_logprob_t){.token = tokens[i]};
    }
    secret[1] = (uint8_t)(text - fixture->texts);
    bool whole = text->told + count == text->length;
    if (whole && text->finish == OR_FINISH_NONE) {
        text->finish = OR_FINISH_LENGTH;
    }
    const or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = {1 + (uint64_t)(text - fixture->texts)},
        .body.generate_delta = {.request = text->request,
                                .offset = text->told,
                                .tokens = tokens,
                                .count = count,
                                .text = bytes,
                                .text_bytes = count,
                                .text_offset = text->told,
                                .token = secret,
                                .token_bytes = text->told == 0 ? sizeof secret : 0,
                                .logprobs = logprobs,
                                .logprob_count = count,
                                .origins = origins,
                                .origin_count = count,
                                .token_ends = ends,
                                .token_end_count = count,
                                .finish = whole || text->finish == OR_FINISH_CANCELLED
                                              ? text->finish
                                              : (uint32_t)OR_FINISH_NONE},
    };
    text->told += count;
    or_link_send(fixture->hub, fixture->client, &message);
}

static text_t *find(fixture_t *fixture, uint64_t request)
{
    for (uint32_t i = 0; i < fixture->text_count; i++) {
        if (fixture->texts[i].request == request) {
            return &fixture->texts[i];
        }
    }
    return NULL;
}

static void refuse(fixture_t *fixture, uint64_t request)
{
    const or_message_t message = {.type = OR_MSG_GENERATE_DELTA,
                                  .body.generate_delta = {.request = request,
                                                          .finish = OR_FINISH_ERROR,
                                                          .error_code = OR_WIRE_BUSY,
                                                          .error = "busy",
                                                          .retry_ms = 70}};
    or_link_send(fixture->hub, fixture->client, &message);
}

static text_t *find_resumed(fixture_t *fixture, const or_resume_t *resume)
{
    if (resume->token_bytes == 0) {
        return find(fixture, resume->request);
    }
    assert_int_equal(resume->token_bytes, OR_SESSION_TOKEN_BYTES);
    assert_int_equal(resume->token[0], 1);
    assert_true(resume->token[1] < fixture->text_count);
    return &fixture->texts[resume->token[1]];
}

static void on_resume(fixture_t *fixture, const or_resume_t *resume)
{
    text_t *text = find_resumed(fixture, resume);
    assert_non_null(text);
    assert_string_equal(resume->owner, "ada");
    assert_int_equal(resume->offset, resume->text_offset);
    if (fixture->busy_resumes > 0) {
        fixture->busy_resumes--;
        refuse(fixture, resume->request);
        return;
    }
    text->request = resume->request;
    text->told = resume->offset;
    text->away = false;
    tell(fixture, text, 0);
}

static void on_cancel(fixture_t *fixture, uint64_t session, const or_cancel_t *cancel)
{
    assert_in_range(session, 1, fixture->text_count); // 0 would be a good-bye
    text_t *text = &fixture->texts[session - 1];
    if (cancel->keep) {
        text->away = true;
        return;
    }
    fixture->cancels++;
    text->finish = OR_FINISH_CANCELLED;
    tell(fixture, text, 0);
}

// The first question is not heard.
static void on_question(fixture_t *fixture, const or_stats_request_t *question)
{
    if (++fixture->questions == 1) {
        return;
    }
    or_message_t answer = {.type = OR_MSG_STATS};
    answer.body.stats.started = question->events_after;
    if (question->metrics) {
        answer.type = OR_MSG_METRICS;
        answer.body.metrics = (or_metrics_text_t){(const uint8_t *)"up 1\n", 5};
    }
    or_link_send(fixture->hub, fixture->client, &answer);
}

static void on_generate(fixture_t *fixture, const or_generate_request_t *request)
{
    if (request->seed == BUSY_SEED) {
        refuse(fixture, request->request);
        return;
    }
    text_t *text = find(fixture, request->request);
    if (text != NULL) {
        fixture->repeated_requests++;
        text->told = 0;
        return;
    }
    assert_true(fixture->text_count < TEXTS_MAX);
    fixture->texts[fixture->text_count++] =
        (text_t){.request = request->request, .seed = request->seed, .length = request->max_tokens};
}

static void on_message(fixture_t *fixture, const or_message_t *message)
{
    or_message_t welcome = {.type = OR_MSG_WELCOME};
    switch (message->type) {
    case OR_MSG_HELLO:
        assert_string_equal(message->body.hello.owner, "somebody");
        welcome.body.welcome.heartbeat_ms = 1000;
        or_link_send(fixture->hub, fixture->client, &welcome);
        break;
    case OR_MSG_GENERATE_REQUEST:
        on_generate(fixture, &message->body.generate_request);
        break;
    case OR_MSG_RESUME:
        on_resume(fixture, &message->body.resume);
        break;
    case OR_MSG_CANCEL:
        on_cancel(fixture, message->session.value, &message->body.cancel);
        break;
    case OR_MSG_STATS_REQUEST:
        on_question(fixture, &message->body.stats_request);
        break;
    default:
        break;
    }
}

static void turn_coordinator(fixture_t *fixture)
{
    or_link_event_t event;
    or_message_t message;
    while (or_link_receive(fixture->hub, &event, &fixture->client, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            on_message(fixture, &message);
            or_message_fini(&message);
        }
    }
    or_link_tick(fixture->hub);
    for (uint32_t i = 0; i < fixture->text_count; i++) {
        text_t *text = &fixture->texts[i];
        if (text->told < text->length && text->finish != OR_FINISH_CANCELLED && !text->away) {
            tell(fixture, text, (uint32_t)test_below(&fixture->random, 4));
        }
    }
}

// ---- the client's side ----

static int set_up(void **context)
{
    const or_network_faults_t none = {.delay_min_ns = STEP_NS, .delay_max_ns = STEP_NS};
    or_channel_t *channel;
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->random = test_seed();
    or_virtual_clock_init(&fixture->clock, OR_NS_PER_S);
    const or_clock_t *clock = &fixture->clock.clock;
    assert_int_equal(or_network_create(&fixture->clock, fixture->random, &none, &fixture->network),
                     OR_OK);
    assert_int_equal(or_network_hub(fixture->network, &fixture->hub_channel), OR_OK);
    assert_int_equal(or_link_create(fixture->hub_channel, clock, NULL, 1000, &fixture->hub), OR_OK);
    assert_int_equal(or_network_edge(fixture->network, &channel), OR_OK);
    assert_int_equal(or_requests_create(channel, clock,
                                        &(or_requests_config_t){.owner = "somebody"}, SLOTS,
                                        &fixture->requests),
                     OR_OK);
    *context = fixture;
    return 0;
}

static int tear_down(void **context)
{
    fixture_t *fixture = *context;
    or_requests_destroy(&fixture->requests);
    or_link_destroy(&fixture->hub);
    or_channel_destroy(&fixture->hub_channel);
    or_network_destroy(&fixture->network);
    free(fixture);
    return 0;
}

// One millisecond. OR_OK if a delta came.
static or_status_t step(fixture_t *fixture, uint32_t *slot, or_message_t *message)
{
    turn_coordinator(fixture);
    fixture->clock.now_ns += STEP_NS;
    return or_requests_next(fixture->requests, fixture->clock.now_ns, slot, message);
}

static or_generate_request_t make_request(uint64_t seed, uint32_t tokens)
{
    return (or_generate_request_t){.prompt = (const uint8_t *)"x",
                                   .prompt_bytes = 1,
                                   .seed = seed,
                                   .has_seed = true,
                                   .max_tokens = tokens,
                                   .owner = "ada"};
}

static void begin(fixture_t *fixture, uint32_t slot, uint64_t seed, uint32_t tokens)
{
    const or_generate_request_t request = make_request(seed, tokens);
    or_requests_begin(fixture->requests, slot, &request);
    assert_false(or_requests_is_idle(fixture->requests, slot));
}

// The next tokens of a text, from *at on, with all that belongs to them.
static void check_delta(const or_generate_delta_t *delta, uint64_t seed, uint32_t *at)
{
    assert_int_equal(delta->offset, *at);
    assert_int_equal(delta->text_bytes, delta->count);
    assert_int_equal(delta->logprob_count, delta->count);
    assert_int_equal(delta->origin_count, delta->count);
    assert_int_equal(delta->token_end_count, delta->count);
    for (uint32_t i = 0; i < delta->count; i++) {
        uint32_t token = token_of(seed, (*at)++);
        assert_int_equal(delta->tokens[i], token);
        assert_int_equal(delta->logprobs[i].token, token);
        assert_int_equal(delta->origins[i], token % 2);
        assert_int_equal(delta->token_ends[i], *at);
    }
}

// Every slot writes `rounds` texts, one after the other.
static void write_texts(fixture_t *fixture, uint32_t rounds)
{
    uint32_t written[SLOTS] = {0}, at[SLOTS] = {0};
    uint32_t ended = 0;
    for (int i = 0; i < PATIENCE_STEPS && ended < SLOTS * rounds; i++) {
        uint32_t slot = 0;
        or_message_t message;
        for (slot = 0; slot < SLOTS; slot++) {
            if (or_requests_is_idle(fixture->requests, slot) && written[slot] < rounds) {
                begin(fixture, slot, 100 * slot + ++written[slot], TOKENS - slot);
                at[slot] = 0;
            }
        }
        or_status_t status = step(fixture, &slot, &message);
        if (status != OR_OK) {
            assert_int_equal(status, OR_ERR_AGAIN);
            continue;
        }
        const or_generate_delta_t *delta = &message.body.generate_delta;
        check_delta(delta, 100 * slot + written[slot], &at[slot]);
        if (delta->finish != OR_FINISH_NONE) {
            assert_int_equal(delta->finish, OR_FINISH_LENGTH);
            assert_int_equal(at[slot], TOKENS - slot);
            assert_true(or_requests_is_idle(fixture->requests, slot));
            ended++;
        }
        or_message_fini(&message);
    }
    assert_int_equal(ended, SLOTS * rounds);
}

static void texts_do_not_mix(void **context)
{
    fixture_t *fixture = *context;
    write_texts(fixture, 4);
    assert_int_equal(fixture->text_count, 4 * SLOTS); // nobody was asked twice
    assert_int_equal(fixture->repeated_requests, 0);
}

static void a_bad_network_changes_nothing(void **context)
{
    fixture_t *fixture = *context;
    const or_network_faults_t bad = {
        .lose = 0.2, .repeat = 0.2, .delay_min_ns = STEP_NS, .delay_max_ns = 20 * STEP_NS};
    or_network_set_faults(fixture->network, &bad);
    write_texts(fixture, 4);
    assert_int_equal(fixture->text_count, 4 * SLOTS);
}

static void cancelling_frees_the_slot(void **context)
{
    fixture_t *fixture = *context;
    or_message_t message;
    uint32_t slot;
    begin(fixture, 0, 1, TOKENS);
    begin(fixture, 1, 2, TOKENS);
    or_requests_cancel(fixture->requests, 0); // before it was even sent
    uint32_t finish[2] = {0};
    for (int i = 0; i < 1000; i++) {
        if (step(fixture, &slot, &message) == OR_OK) {
            finish[slot] |= message.body.generate_delta.finish;
            or_message_fini(&message);
        }
    }
    assert_int_equal(finish[0], OR_FINISH_CANCELLED);
    assert_int_equal(finish[1], OR_FINISH_LENGTH);
    assert_int_equal(fixture->cancels, 3); // this one, and that both ends are here
    assert_true(or_requests_is_idle(fixture->requests, 0));
}

static void busy_is_told_with_its_pause(void **context)
{
    fixture_t *fixture = *context;
    or_message_t message;
    uint32_t slot = SLOTS;
    begin(fixture, 3, BUSY_SEED, TOKENS);
    or_status_t status = OR_ERR_AGAIN;
    for (int i = 0; i < 100 && status == OR_ERR_AGAIN; i++) {
        status = step(fixture, &slot, &message);
    }
    assert_int_equal(status, OR_OK);
    assert_int_equal(slot, 3);
    assert_int_equal(message.body.generate_delta.error_code, OR_WIRE_BUSY);
    assert_int_equal(message.body.generate_delta.retry_ms, 70);
    assert_true(or_requests_is_idle(fixture->requests, 3));
    or_message_fini(&message);
}

// Deltas of `slot` until its text has at least `tokens`; its secret is left in `secret`.
static void read_some(fixture_t *fixture, uint32_t slot, uint64_t seed, uint32_t tokens,
                      uint32_t *at, uint8_t secret[OR_SESSION_TOKEN_BYTES])
{
    or_message_t message;
    uint32_t index;
    for (int i = 0; i < PATIENCE_STEPS && *at < tokens; i++) {
        if (step(fixture, &index, &message) != OR_OK) {
            continue;
        }
        const or_generate_delta_t *delta = &message.body.generate_delta;
        assert_int_equal(index, slot);
        check_delta(delta, seed, at);
        if (delta->token_bytes > 0) {
            memcpy(secret, delta->token, OR_SESSION_TOKEN_BYTES);
        }
        or_message_fini(&message);
    }
    assert_true(*at >= tokens);
}

static void pass(fixture_t *fixture, int steps)
{
    or_message_t message;
    uint32_t slot;
    for (int i = 0; i < steps; i++) {
        assert_int_equal(step(fixture, &slot, &message), OR_ERR_AGAIN);
    }
}

static void a_text_that_was_left_goes_on_in_another_slot(void **context)
{
    fixture_t *fixture = *context;
    uint8_t secret[OR_SESSION_TOKEN_BYTES] = {0};
    const or_generate_request_t request = make_request(7, TOKENS);
    uint32_t at = 0;
    begin(fixture, 0, 7, TOKENS);
    read_some(fixture, 0, 7, 10, &at, secret);
    or_requests_leave(fixture->requests, 0);
    assert_true(or_requests_is_idle(fixture->requests, 0));
    pass(fixture, 100);
    assert_true(fixture->texts[0].away);
    assert_int_equal(fixture->cancels, 0);
    fixture->busy_resumes = 2; // it is not taken up at once
    or_requests_resume(fixture->requests, 5, &request, secret, at, at);
    assert_false(or_requests_is_idle(fixture->requests, 5));
    read_some(fixture, 5, 7, TOKENS, &at, secret);
    assert_int_equal(at, TOKENS);
    assert_int_equal(fixture->text_count, 1);
    assert_int_equal(fixture->busy_resumes, 0);
    assert_true(or_requests_is_idle(fixture->requests, 5));
}

static void a_text_that_was_left_before_it_began_is_cancelled(void **context)
{
    fixture_t *fixture = *context;
    uint32_t at = 0;
    uint8_t secret[OR_SESSION_TOKEN_BYTES];
    begin(fixture, 1, 2, TOKENS); // the connection is there when this one has ended
    read_some(fixture, 1, 2, TOKENS, &at, secret);
    begin(fixture, 0, 1, TOKENS);
    or_requests_leave(fixture->requests, 0);
    pass(fixture, 100);
    assert_int_equal(fixture->text_count, 2);
    assert_int_equal(fixture->texts[1].finish, OR_FINISH_CANCELLED);
    assert_true(fixture->texts[1].told < TOKENS);
}

static void a_resumed_text_can_be_cancelled_at_once(void **context)
{
    fixture_t *fixture = *context;
    uint8_t secret[OR_SESSION_TOKEN_BYTES] = {0};
    const or_generate_request_t request = make_request(7, TOKENS);
    or_message_t message;
    uint32_t at = 0, slot = SLOTS;
    begin(fixture, 0, 7, TOKENS);
    read_some(fixture, 0, 7, 10, &at, secret);
    or_requests_leave(fixture->requests, 0);
    or_requests_resume(fixture->requests, 1, &request, secret, at, at);
    or_requests_cancel(fixture->requests,
                       1); // its session is not known: nothing may be sent for it
    uint32_t finish = OR_FINISH_NONE;
    for (int i = 0; i < PATIENCE_STEPS && finish == OR_FINISH_NONE; i++) {
        if (step(fixture, &slot, &message) == OR_OK) {
            finish = message.body.generate_delta.finish;
            or_message_fini(&message);
        }
    }
    assert_int_equal(slot, 1);
    assert_int_equal(finish, OR_FINISH_CANCELLED);
}

static void a_text_that_is_held_stays_until_it_is_read(void **context)
{
    fixture_t *fixture = *context;
    uint8_t secret[OR_SESSION_TOKEN_BYTES];
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t at = 0;
        begin(fixture, 0, 7 + round, TOKENS);
        or_requests_hold(fixture->requests, 0);
        read_some(fixture, 0, 7 + round, TOKENS, &at, secret);
        pass(fixture, 5000);
        assert_false(or_requests_is_idle(fixture->requests, 0));
        assert_int_equal(fixture->cancels, 0);
        if (round == 0) {
            or_requests_leave(fixture->requests, 0);
        } else {
            or_requests_cancel(fixture->requests, 0);
        }
        assert_true(or_requests_is_idle(fixture->requests, 0));
        pass(fixture, 10);
        assert_int_equal(fixture->cancels, round);
        assert_int_equal(fixture->texts[round].away, round == 0);
    }
}

// The next answer, and how many steps it took.
static int await_figures(fixture_t *fixture, or_message_t *message)
{
    uint32_t slot = 0;
    int steps = 0;
    while (step(fixture, &slot, message) == OR_ERR_AGAIN && steps < PATIENCE_STEPS) {
        steps++;
    }
    assert_int_equal(slot, OR_REQUESTS_NO_SLOT);
    return steps;
}

static void figures_are_asked_for_until_they_come(void **context)
{
    fixture_t *fixture = *context;
    or_message_t message;
    or_requests_ask_stats(fixture->requests, false, 42); // the first one is not heard
    int steps = await_figures(fixture, &message);
    assert_in_range(steps, 1000, 1100);
    assert_int_equal(message.type, OR_MSG_STATS);
    assert_int_equal(message.body.stats.started, 42);
    or_message_fini(&message);
    or_requests_ask_stats(fixture->requests, true, 0);
    or_requests_ask_stats(fixture->requests, true, 0); // it is open
    assert_in_range(await_figures(fixture, &message), 1, 10);
    assert_int_equal(message.type, OR_MSG_METRICS);
    assert_memory_equal(message.body.metrics.text, "up 1\n", 5);
    or_message_fini(&message);
    pass(fixture, 3000);
    assert_int_equal(fixture->questions, 3);
}

static void a_coordinator_that_is_not_there(void **context)
{
    fixture_t *fixture = *context;
    const or_network_faults_t cut = {.lose = 1, .delay_min_ns = STEP_NS, .delay_max_ns = STEP_NS};
    or_message_t message;
    uint32_t slot;
    or_network_set_faults(fixture->network, &cut);
    begin(fixture, 0, 1, TOKENS);
    or_status_t status = OR_ERR_AGAIN;
    int steps = 0;
    while (status == OR_ERR_AGAIN && steps++ < PATIENCE_STEPS) {
        status = step(fixture, &slot, &message);
    }
    assert_int_equal(status, OR_ERR_TIMEOUT);
    assert_in_range(steps, 9000, 11000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_do_not_mix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bad_network_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelling_frees_the_slot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(busy_is_told_with_its_pause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_was_left_goes_on_in_another_slot, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_was_left_before_it_began_is_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_resumed_text_can_be_cancelled_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_is_held_stays_until_it_is_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(figures_are_asked_for_until_they_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_coordinator_that_is_not_there, set_up, tear_down),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
