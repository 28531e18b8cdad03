// Goal: a coordinator takes no more than it has places for; what waits begins in a fair order, what
// finds no room is told when to come back, and what nobody wants any more is freed at once; owners have
// their own drafters and shares; whoever asks hears how things stand.
// Method: the real coordinator with two places (or three, one an owner) and three that wait, a verifier
// that holds its answers back while sessions pile up, and clients of two owners.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

// Verifier and a client of owner a; the other client, of owner b, is w->second's place.
static void join_owners(world_t *w, edge_t *b)
{
    const or_hello_t verifier = {.role = OR_ROLE_VERIFIER,
                                 .vocab_hash = or_vocab_hash(w->vocab),
                                 .model_hash = TARGET,
                                 .context_max = 256};
    join(w, &w->verifier, verifier);
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "a"});
    run(w, 5);
    join_beside(w, b, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "b"});
}

static void ask_plain(world_t *w, edge_t *edge, uint64_t id, uint32_t tokens_wanted)
{
    or_generate_request_t request = usual_request(tokens_wanted);
    request.plain = true;
    request.request = id;
    ask_through(edge, request);
    run(w, 2);
}

static void run_hearing(world_t *w, edge_t *edge, uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        run(w, 0);
        hear_as_client(w, edge);
    }
}

// Return the place of a request among those that ended.
static uint32_t place_of(const world_t *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->ended; i++) {
        if (w->order[i] == id) {
            return i;
        }
    }
    fail_msg("request %u did not end", (unsigned)id);
    return 0;
}

static void cancel(world_t *w, edge_t *edge, or_session_id_t session)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = "enough"}};
    assert_int_equal(or_link_send(edge->link, OR_PEER_HUB, &message), OR_OK);
    run(w, 0);
}

// An operator does: owners are not shown what others do.
static const or_stats_t *ask_stats(world_t *w)
{
    const or_message_t message = {.type = OR_MSG_STATS_REQUEST};
    edge_t operator= {0};
    uint32_t before = w->stats_count;
    join_beside(w, &operator,(or_hello_t){.role = OR_ROLE_CLIENT});
    assert_int_equal(or_link_send(operator.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 2);
    hear_as_client(w, &operator);
    assert_int_equal(w->stats_count, before + 1);
    leave(&operator);
    return &w->stats;
}

static void a_full_queue_says_when_to_come_back(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    for (uint64_t id = 1; id <= 6; id++) {
        ask_plain(w, &w->client, id, 2);
    }
    assert_int_equal(w->verifier_opens, 2);
    assert_int_equal(w->ended, 1); // the sixth, at once
    assert_int_equal(w->order[0], 6);
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    assert_non_null(strstr(w->error, "busy: 3 requests wait; retry after"));
    assert_in_range(w->retry_ms, 500, 30000);
    assert_int_equal(ask_stats(w)->waiting, 3);
    assert_int_equal(w->stats.busy, 1);
    assert_int_equal(w->stats.started, 5);
    w->slow = false;
    run(w, 2100);
    assert_int_equal(w->ended, 6);
    assert_true(place_of(w, 3) < place_of(w, 4)); // of one owner: as they came
    assert_true(place_of(w, 4) < place_of(w, 5));
    assert_int_equal(ask_stats(w)->waiting, 0);
    leave(&b);
}

// Both places are a's. At the end of a round one of its texts makes way for b's, and goes on later; no word is lost.
static void an_owner_with_all_places_gives_some_away(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    ask_plain(w, &w->client, 1, 40);
    ask_plain(w, &w->client, 2, 40);
    ask_plain(w, &b, 3, 2);
    run(w, 100);
    assert_int_equal(w->verifier_opens, 2);
    w->slow = false;
    run_hearing(w, &b, 3000);
    assert_int_equal(w->ended, 3);
    assert_int_equal(w->order[0], 3);
    assert_int_equal(w->verifier_opens, 4); // b's, and the text that stepped aside, again
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.completion_tokens, 40);
    leave(&b);
}

// With one place each nobody steps aside, however many wait.
static void places_shared_fairly_stay(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    ask_plain(w, &w->client, 1, 40);
    ask_plain(w, &b, 2, 40);
    ask_plain(w, &w->client, 3, 10);
    ask_plain(w, &b, 4, 10);
    run(w, 100);
    w->slow = false;
    run_hearing(w, &b, 3000);
    assert_int_equal(w->ended, 4);
    assert_int_equal(w->verifier_opens, 4);
    leave(&b);
}

static void who_has_least_at_work_begins_first(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    ask_plain(w, &w->client, 1, 2);
    ask_plain(w, &w->client, 2, 40);
    ask_plain(w, &w->client, 3, 2);
    ask_plain(w, &w->client, 4, 2);
    ask_plain(w, &b, 5, 2);
    w->slow = false;
    run_hearing(w, &b, 2100);
    assert_int_equal(w->ended, 5);
    assert_true(place_of(w, 5) < place_of(w, 3)); // though it came later
    assert_true(place_of(w, 3) < place_of(w, 4));
    leave(&b);
}

// The owner that waits most makes room for one that waits less, and for nobody else.
static void a_full_queue_drops_from_its_longest_part(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    for (uint64_t id = 1; id <= 5; id++) {
        ask_plain(w, &w->client, id, 2);
    }
    ask_plain(w, &b, 6, 2);
    assert_int_equal(w->ended, 1);
    assert_int_equal(w->order[0], 5); // the latest
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    assert_in_range(w->retry_ms, 500, 30000);
    ask_plain(w, &b, 7, 2); // now it would have as many as the other
    hear_as_client(w, &b);
    assert_int_equal(w->ended, 2);
    assert_int_equal(w->order[1], 7);
    w->slow = false;
    run_hearing(w, &b, 2100);
    assert_int_equal(w->ended, 7);
    assert_int_equal(w->verifier_opens, 6); // one of a's gave its place to b for a while
    leave(&b);
}

static void an_owner_has_its_share_of_places(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    ask_plain(w, &w->client, 1, 2);
    ask_plain(w, &w->client, 2, 2);
    assert_int_equal(w->verifier_opens, 1);
    assert_string_equal(w->verifier_owner, "a");
    ask_plain(w, &b, 3, 2);
    assert_int_equal(w->verifier_opens, 2);
    assert_string_equal(w->verifier_owner, "b");
    w->slow = false;
    run_hearing(w, &b, 2100);
    assert_int_equal(w->ended, 3);
    leave(&b);
}

static void a_verifier_without_a_place_is_asked_again_in_time(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->busy = 2;
    ask_plain(w, &w->client, 1, 3);
    run(w, 290);
    assert_int_equal(w->verifier_opens, 1); // not at every tree it does not know
    run(w, 20);
    assert_int_equal(w->verifier_opens, 2);
    run(w, 560); // twice as long
    assert_int_equal(w->verifier_opens, 2);
    run(w, 50);
    assert_int_equal(w->verifier_opens, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

// A verifier that is told of a text is sent all of it. One that wants to be told again after a millisecond, over and over, is
// not: after 0.25, 0.5, 1, 2, 4 and 8 seconds, then every 10.
static void a_verifier_that_is_always_busy_is_told_of_a_text_seldom(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->busy = 100000;
    w->busy_ms = 1;
    ask_plain(w, &w->client, 1, 3);
    run(w, 200);
    assert_int_equal(w->verifier_opens, 1);
    run(w, 19800);
    assert_in_range(w->verifier_opens, 6, 7);
    w->busy = 0;
    run(w, 11000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void what_nobody_wants_is_freed_at_once(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->slow = true;
    ask(w, usual_request(4));
    run(w, 2);
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 4);
    run(w, 2);
    assert_int_equal(w->trees, 1);
    or_session_id_t running = w->session;
    ask_plain(w, &w->client, 2, 2);
    or_session_id_t third = next_session(w);
    ask_plain(w, &w->client, 3, 2); // waits
    ask_plain(w, &w->client, 4, 2); // waits
    cancel(w, &w->client, third);
    assert_int_equal(w->ended, 1);
    assert_int_equal(w->order[0], 3);
    assert_int_equal(w->verifier_cancels, 0); // it was never told of it
    cancel(w, &w->client, running);
    assert_int_equal(w->verifier_cancels, 1);
    assert_int_equal(w->heard[0].cancels, 1);
    assert_int_equal(w->verifier_opens, 3); // the fourth took its place
    assert_int_equal(ask_stats(w)->cancelled, 2);
    assert_int_equal(w->stats.waiting, 0);
}

static void a_client_that_is_gone_holds_no_place_waiting_or_not(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    ask_plain(w, &b, 1, 2);
    ask_plain(w, &w->client, 2, 2);
    ask_plain(w, &b, 3, 2);
    assert_int_equal(w->verifier_opens, 2);
    leave(&b);
    run(w, 11000); // a silence
    assert_int_equal(ask_stats(w)->parked, 2);
    assert_int_equal(w->verifier_opens, 2);
    assert_int_equal(w->verifier_cancels, 1);
    assert_int_equal(w->stats.waiting, 0);
}

static void a_new_verifier_gets_all_that_is_live(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->slow = true;
    ask_plain(w, &w->client, 1, 3);
    ask_plain(w, &w->client, 2, 3);
    ask_plain(w, &w->client, 3, 3);
    leave(&w->verifier);
    w->slow = false;
    w->verifier_opens = 0;
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    run(w, 100);
    assert_int_equal(w->ended, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->verifier_opens, 3);
}

static void a_drafter_serves_its_owner_alone(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    const or_hello_t drafter = {
        .role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab), .owner = "b"};
    join(w, &w->drafter, drafter);
    run(w, 5);
    ask(w, usual_request(3));
    run(w, 10);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH); // plainly, at once
    assert_int_equal(w->heard[0].opens, 0);
    assert_non_null(strstr(w->note, "other owners"));
    or_generate_request_t request = usual_request(3);
    request.request = 2;
    ask_through(&b, request);
    run(w, 10);
    assert_int_equal(w->heard[0].opens, 1);
    assert_string_equal(w->verifier_owner, "b");
    assert_string_equal(w->drafter_owner, ""); // not its business
    leave(&b);
}

// It gets no more sessions than it holds, and the next as soon as one is over.
static void a_drafter_gets_no_more_sessions_than_it_said(void **state)
{
    world_t *w = *state;
    uint64_t hash = or_vocab_hash(w->vocab);
    join_usual(w);
    leave(&w->drafter);
    run(w, 11000); // a silence
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash, .sessions_max = 1});
    run(w, 5);
    w->slow = true;
    ask(w, usual_request(40));
    run(w, 2);
    or_session_id_t first = w->session;
    or_session_id_t second = next_session(w);
    or_generate_request_t request = usual_request(20);
    request.request = 2;
    ask(w, request);
    run(w, 2);
    assert_int_equal(w->heard[0].opens, 1);
    assert_int_equal(w->verifier_opens, 2); // plainly, at once
    cancel(w, &w->client, first);
    w->slow = false;
    run(w, 1100); // the verifier is asked again
    assert_int_equal(w->heard[0].opens, 2);
    assert_int_equal(w->session.value, second.value);
}

static void who_decodes_plainly_for_lack_of_a_place_is_told(void **state)
{
    world_t *w = *state;
    uint64_t hash = or_vocab_hash(w->vocab);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = hash, .model_hash = TARGET});
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash, .sessions_max = 1});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    ask(w, usual_request(40));
    run(w, 2);
    or_generate_request_t request = usual_request(3);
    request.request = 2;
    ask(w, request);
    run(w, 10);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "as many sessions as it takes"));
}

// An end that its client may have missed is kept from other clients of its owner for a while, not from its own.
static void an_end_is_kept_until_its_client_can_have_asked_for_it(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_usual(w);
    join_beside(w, &b, (or_hello_t){.role = OR_ROLE_CLIENT});
    for (uint64_t id = 1; id <= 9; id++) { // seven places
        ask_plain(w, &w->client, id, 1);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    }
    ask_plain(w, &b, 20, 1);
    hear_as_client(w, &b);
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    assert_true(w->retry_ms > 0);
    const or_message_t resume = {.type = OR_MSG_RESUME, .body.resume = {.request = 3}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &resume), OR_OK);
    run(w, 2);
    assert_int_equal(w->end.request, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    run_hearing(w, &b, 10000);
    ask_plain(w, &b, 21, 1);
    hear_as_client(w, &b);
    assert_int_equal(w->end.request, 21);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&b);
}

static void resume_request(world_t *w, uint64_t id)
{
    const or_message_t resume = {.type = OR_MSG_RESUME, .body.resume = {.request = id}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &resume), OR_OK);
    run(w, 2);
    assert_int_equal(w->end.request, id);
}

// Not for other owners: of the one that keeps most the oldest goes.
static void an_owner_that_keeps_many_ends_makes_room(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    for (uint64_t id = 1; id <= 7; id++) { // all places
        ask_plain(w, &w->client, id, 1);
    }
    for (uint64_t id = 20; id <= 22; id++) { // the later ones take its own ends' place
        ask_plain(w, &b, id, 1);
        hear_as_client(w, &b);
        assert_int_equal(w->end.request, id);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    }
    resume_request(w, 1);
    assert_int_equal(w->end.error_code, OR_WIRE_UNKNOWN_SESSION);
    resume_request(w, 2);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&b);
}

// The context of the test's verifier is 64.
static void ask_at_length(world_t *w, uint64_t id, uint32_t count, const char *text)
{
    static const uint32_t prompt[100];
    or_generate_request_t request = usual_request(1);
    request.plain = true;
    request.request = id;
    request.prompt_tokens = prompt;
    request.prompt_token_count = count;
    request.prompt = (const uint8_t *)text;
    request.prompt_bytes = text != NULL ? (uint32_t)strlen(text) : 0;
    ask_through(&w->client, request);
    run(w, 2);
}

// Prompts that cannot fit are refused at once, those that are far too long before they are cut into tokens, and
// nothing is kept for them.
static void what_cannot_fit_costs_nobody_a_place(void **state)
{
    static char text[20001];
    world_t *w = *state;
    memset(text, 'x', sizeof text - 1);
    join_usual(w);
    for (uint64_t id = 1; id <= 20; id++) {
        ask_at_length(w, id, 64, NULL);
        assert_int_equal(w->end.request, id);
        assert_int_equal(w->end.error_code, OR_WIRE_CONTEXT);
        assert_int_equal(w->end_session.value, 0);
    }
    assert_non_null(strstr(w->error, "the prompt has 64 tokens and the context holds 64"));
    ask_at_length(w, 30, 0, text);
    assert_int_equal(w->end.error_code, OR_WIRE_CONTEXT);
    assert_non_null(strstr(w->error, "at least"));
    text[200] = '\0'; // in reach of the longest tokens
    ask_at_length(w, 31, 0, text);
    assert_int_equal(w->end.error_code, OR_WIRE_CONTEXT);
    assert_null(strstr(w->error, "at least"));
    text[20] = '\0';
    ask_at_length(w, 32, 0, text);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    ask_at_length(w, 33, 63, NULL);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(ask_stats(w)->started, 2);
}

// The failure is found out when the verifier comes: the client is told, and the session is gone.
static void what_failed_before_its_first_word_is_not_kept(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    ask_at_length(w, 1, 90, NULL);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    run(w, 5);
    assert_int_equal(w->end.request, 1);
    assert_int_equal(w->end.error_code, OR_WIRE_CONTEXT);
    resume_request(w, 1);
    assert_int_equal(w->end.error_code, OR_WIRE_UNKNOWN_SESSION);
}

// An end that its own client has received makes room at once.
static void an_end_that_arrived_makes_room(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    for (uint64_t id = 1; id <= 9; id++) {
        ask_plain(w, &w->client, id, 1);
        cancel(w, &w->client, w->end_session);
    }
    ask_plain(w, &b, 20, 1);
    hear_as_client(w, &b);
    assert_int_equal(w->end.request, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&b);
}

static void a_flood_of_requests_is_told_to_come_back(void **state)
{
    world_t *w = *state;
    edge_t b = {0};
    join_owners(w, &b);
    w->slow = true;
    for (uint64_t id = 1; id <= 1200; id++) {
        or_generate_request_t request = usual_request(1);
        request.plain = true;
        request.request = id;
        ask_through(&w->client, request);
        if (id % 100 == 0) {
            run(w, 0);
        }
    }
    assert_string_equal(w->error, "busy: too many requests at once from one client; retry after "
                                  "0.5 s");
    assert_in_range(w->retry_ms, 500, 1000);
    ask_plain(w, &b, 1700, 1);
    run_hearing(w, &b, 5);
    assert_in_range(w->end.request, 3, 5); // the other is heard as ever: this one made room for it
    assert_non_null(strstr(w->error, "requests wait"));
    leave(&b);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    world_t *w = *state;
    char name[65];
    memset(name, 'x', 64);
    name[64] = '\0';
    join(w, &w->drafter,
         (or_hello_t){
             .role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab), .owner = name});
    run(w, 5);
    assert_non_null(strstr(w->refusal, "at most 63 bytes"));
}

static void whoever_asks_hears_how_things_stand(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    assert_int_equal(ask_stats(w)->verifiers, 0);
    leave(&w->client);
    join_usual(w);
    const or_message_t figures = {.type = OR_MSG_STATS,
                                  .body.stats = {.passes = 5,
                                                 .batched = 11,
                                                 .ranks = 4,
                                                 .evictions = 2,
                                                 .busy = 99, // not the verifier's to say
                                                 .waiting = 99,
                                                 .model = "x"}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &figures), OR_OK);
    run(w, 1);
    const or_stats_t *stats = ask_stats(w);
    assert_int_equal(stats->verifiers, 1);
    assert_int_equal(stats->drafters, 1);
    assert_int_equal(stats->passes, 5);
    assert_int_equal(stats->batched, 11);
    assert_int_equal(stats->ranks, 4);
    assert_int_equal(stats->evictions, 2);
    assert_int_equal(stats->busy, 0);
    assert_int_equal(stats->waiting, 0);
}

#define NARROW(test) cmocka_unit_test_setup_teardown(test, world_setup_narrow, world_teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        NARROW(a_full_queue_says_when_to_come_back),
        NARROW(an_owner_with_all_places_gives_some_away),
        NARROW(places_shared_fairly_stay),
        NARROW(who_has_least_at_work_begins_first),
        NARROW(a_full_queue_drops_from_its_longest_part),
        cmocka_unit_test_setup_teardown(an_owner_has_its_share_of_places, world_setup_shared,
                                        world_teardown),
        NARROW(a_verifier_without_a_place_is_asked_again_in_time),
        NARROW(a_verifier_that_is_always_busy_is_told_of_a_text_seldom),
        NARROW(what_nobody_wants_is_freed_at_once),
        NARROW(a_client_that_is_gone_holds_no_place_waiting_or_not),
        NARROW(a_new_verifier_gets_all_that_is_live),
        NARROW(a_drafter_serves_its_owner_alone),
        NARROW(a_drafter_gets_no_more_sessions_than_it_said),
        NARROW(who_decodes_plainly_for_lack_of_a_place_is_told),
        NARROW(an_end_is_kept_until_its_client_can_have_asked_for_it),
        NARROW(an_owner_that_keeps_many_ends_makes_room),
        NARROW(what_cannot_fit_costs_nobody_a_place),
        NARROW(what_failed_before_its_first_word_is_not_kept),
        NARROW(an_end_that_arrived_makes_room),
        NARROW(a_flood_of_requests_is_told_to_come_back),
        NARROW(a_name_that_is_too_long_is_refused),
        NARROW(whoever_asks_hears_how_things_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
