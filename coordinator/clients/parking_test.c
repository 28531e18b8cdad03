// Goal: a text outlives its client's connection: whoever has its token, and the key and owner that asked for it,
// gets the rest, each token once; nobody else does, and learns nothing by trying. What waits for its client takes
// nobody's place, not for ever, and not in any number.
// Method: the real coordinator, clients that fall silent and others that show tokens.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/clients/parking_test_support.h"

static int set_up_narrow(void **state)
{
    return parking_setup_sized(state, 2, 5);
}

static int set_up_short_queue(void **state)
{
    return parking_setup_sized(state, 2, 2);
}

// Two keys of one owner may come in, each with one text at a time.
static int set_up_keys(void **state)
{
    int failed = parking_setup(state);
    world_t *w = *state;
    w->config.keyring = open_test_keyring();
    authorize_two_keys(w, 1);
    begin_anew(w);
    return failed;
}

static int tear_down_keys(void **state)
{
    world_t *w = *state;
    or_keyring_t *keyring = w->config.keyring;
    int failed = world_teardown(state);
    close_test_keyring(&keyring);
    return failed;
}

// ---- away and back ----

static void a_cut_line_costs_no_token(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0};
    join_target(w);
    enter(w, &before, "a");
    ask_for_a_part(w, &before, 1);
    leave(&before.edge);
    run(w, SILENCE_MS);
    assert_int_equal(w->verifier_cancels, 1); // its place is free
    assert_int_equal(ask_stats(w)->parked, 1);
    assert_int_equal(w->stats.waiting, 0);
    assert_int_equal(w->stats.cancelled, 0);
    w->slow = false;
    run(w, 5000); // nothing is written for nobody
    enter(w, &after, "a");
    uint32_t opens = w->verifier_opens;
    resume(w, &after, &before);
    run_hearing(w, &after, 50);
    assert_whole(&after);
    assert_int_equal(after.resumes, 1);
    assert_int_equal(w->verifier_opens, opens + 1);
    assert_int_equal(ask_stats(w)->parked, 0);
    assert_int_equal(w->stats.resumed, 1);
    leave(&after.edge);
}

// A new connection while the old one is not known to be dead.
static void who_shows_the_token_is_the_client_from_then_on(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0};
    join_target(w);
    enter(w, &before, "a");
    ask_for_a_part(w, &before, 1);
    enter(w, &after, "a");
    resume(w, &after, &before);
    leave(&before.edge); // its end is not the text's
    for (int i = 0; i < SILENCE_MS; i += 500) {
        run_hearing(w, &after, 500);
    }
    assert_int_equal(ask_stats(w)->parked, 0);
    w->slow = false;
    run_hearing(w, &after, 11000); // the verifier is asked again
    assert_whole(&after);
    assert_int_equal(w->verifier_opens, 1);
    leave(&after.edge);
}

static void what_waited_waits_on_when_its_client_is_back(void **state)
{
    world_t *w = *state;
    client_t first = {0}, second = {0}, waiting = {0}, back = {0};
    join_target(w);
    enter(w, &first, "a");
    enter(w, &second, "a");
    enter(w, &waiting, "b");
    ask_for_a_part(w, &first, 1);
    ask_for_a_part(w, &second, 2);
    ask_for(w, &waiting, 3, WANTED);
    assert_int_equal(waiting.count, 0);
    assert_int_equal(ask_stats(w)->waiting, 1);
    leave(&waiting.edge);
    for (int i = 0; i < SILENCE_MS; i += 100) {
        run_hearing(w, &first, 50);
        run_hearing(w, &second, 50);
    }
    assert_int_equal(ask_stats(w)->parked, 1);
    assert_int_equal(w->stats.waiting, 0);
    enter(w, &back, "b");
    resume(w, &back, &waiting);
    assert_int_equal(ask_stats(w)->waiting, 1); // both places are taken
    assert_int_equal(w->verifier_opens, 2);
    w->slow = false;
    send_cancel(w, &first, first.session);
    run_hearing(w, &back, 100);
    assert_whole(&back);
    leave(&first.edge);
    leave(&second.edge);
    leave(&back.edge);
}

static void an_end_that_was_missed_is_kept(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0};
    join_target(w);
    enter(w, &before, "a");
    ask_for_a_part(w, &before, 1);
    w->slow = false;
    run(w, 1100);
    leave(&before.edge); // the text has ended, and it has not heard of it
    run(w, 50000);
    enter(w, &after, "a");
    resume(w, &after, &before);
    run_hearing(w, &after, 5);
    assert_whole(&after);
    send_cancel(w, &after, after.session); // all is here
    resume(w, &after, &before);
    assert_unknown(&after);
    leave(&after.edge);
}

static void who_stays_away_is_waited_for_no_longer(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0};
    join_target(w);
    enter(w, &before, "a");
    ask_for_a_part(w, &before, 1);
    leave(&before.edge);
    run(w, RESUME_MS - 2000);
    assert_int_equal(ask_stats(w)->parked, 1);
    run(w, 2000 + SILENCE_MS);
    assert_int_equal(ask_stats(w)->parked, 0);
    assert_int_equal(w->stats.cancelled, 1);
    enter(w, &after, "a");
    resume(w, &after, &before);
    assert_unknown(&after);
    leave(&after.edge);
}

static void a_good_bye_ends_what_was_asked(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    send_cancel(w, &client, (or_session_id_t){0});
    assert_int_equal(ask_stats(w)->parked, 0);
    assert_int_equal(w->stats.cancelled, 1);
    assert_int_equal(w->verifier_cancels, 1);
    leave(&client.edge);
}

// Nine places: half of them is four.
static void not_more_is_parked_than_half_of_all_places(void **state)
{
    world_t *w = *state;
    client_t client = {0}, back = {0}, last;
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    client_t first = client;
    for (uint64_t id = 2; id <= 7; id++) {
        ask_for(w, &client, id, WANTED);
    }
    last = client;
    assert_int_equal(ask_stats(w)->waiting, 5);
    leave(&client.edge);
    run(w, SILENCE_MS);
    assert_int_equal(ask_stats(w)->parked, 4);
    assert_int_equal(w->stats.waiting, 0);
    assert_int_equal(w->stats.cancelled, 3);
    enter(w, &back, "a");
    w->slow = false;
    resume(w, &back, &first); // parked last: it had begun
    run_hearing(w, &back, 50);
    assert_whole(&back);
    resume(w, &back, &last);
    run_hearing(w, &back, 50);
    assert_whole(&back);
    leave(&back.edge);
}

// At most sixty-four of one owner are parked, however much room there is.
static void an_owner_parks_a_part_of_them(void **state)
{
    world_t *w = *state;
    client_t many = {0}, other = {0};
    join_target(w);
    w->slow = true;
    enter(w, &other, "b");
    ask_for(w, &other, 100, WANTED);
    enter(w, &many, "a");
    for (uint64_t id = 1; id <= 70; id++) {
        ask_for(w, &many, id, WANTED);
    }
    leave(&other.edge);
    run(w, 1500);
    leave(&many.edge);
    run(w, SILENCE_MS);
    assert_int_equal(ask_stats(w)->parked, 65);
    assert_int_equal(w->stats.cancelled, 6);
}

// Four may be parked. Of two owners that park more the first go, not the one that parked first of all.
static void owners_that_park_much_push_out_their_own(void **state)
{
    static const char *const names[] = {"b", "c"};
    world_t *w = *state;
    client_t quiet = {0}, back = {0}, many[2] = {0};
    join_target(w);
    enter(w, &quiet, "a");
    ask_for_a_part(w, &quiet, 1);
    leave(&quiet.edge);
    run(w, SILENCE_MS);
    for (uint32_t i = 0; i < 2; i++) {
        enter(w, &many[i], names[i]);
        for (uint64_t id = 1; id <= 3; id++) {
            ask_for(w, &many[i], 10 * (i + 1) + id, WANTED);
        }
        leave(&many[i].edge);
        run(w, SILENCE_MS);
    }
    assert_int_equal(ask_stats(w)->parked, 4);
    assert_int_equal(w->stats.cancelled, 3);
    w->slow = false;
    enter(w, &back, "a");
    resume(w, &back, &quiet);
    run_hearing(w, &back, 50);
    assert_whole(&back);
    leave(&back.edge);
}

// The queue of two is full of texts that are half written: who comes then makes none of them begin anew.
static void what_has_begun_is_not_told_to_ask_anew(void **state)
{
    world_t *w = *state;
    client_t halves[2] = {0}, others = {0}, late = {0};
    join_target(w);
    for (uint32_t i = 0; i < 2; i++) {
        enter(w, &halves[i], "a");
        ask_for_a_part(w, &halves[i], 1 + i);
        leave(&halves[i].edge);
    }
    run(w, SILENCE_MS);
    enter(w, &others, "c");
    ask_for(w, &others, 3, WANTED);
    or_session_id_t first = others.session;
    ask_for(w, &others, 4, WANTED);
    for (uint32_t i = 0; i < 2; i++) {
        enter(w, &halves[i], "a");
        resume(w, &halves[i], &halves[i]);
    }
    assert_int_equal(ask_stats(w)->waiting, 2);
    enter(w, &late, "b");
    ask_for(w, &late, 5, WANTED);
    assert_int_equal(late.finish, OR_FINISH_ERROR);
    assert_int_equal(late.error_code, OR_WIRE_BUSY);
    assert_int_equal(ask_stats(w)->waiting, 2);
    w->slow = false;
    send_cancel(w, &others, first);
    for (uint32_t i = 0; i < 2; i++) {
        run_hearing(w, &halves[i], 100);
        assert_whole(&halves[i]);
        leave(&halves[i].edge);
    }
    leave(&others.edge);
    leave(&late.edge);
}

// A parked session counts when it comes back: parking is no way around a key's limit.
static void a_key_s_limit_holds_for_what_comes_back(void **state)
{
    world_t *w = *state;
    client_t parked = {0}, client = {0};
    join_target(w);
    enter_as(w, &parked, two_keys[0].public_key);
    ask_for_a_part(w, &parked, 1);
    leave(&parked.edge);
    run(w, SILENCE_MS);
    enter_as(w, &client, two_keys[0].public_key);
    ask_for(w, &client, 2, WANTED);
    or_session_id_t other = client.session;
    run_hearing(w, &client, RESUME_MS - SILENCE_MS - 5000);
    resume(w, &client, &parked);
    assert_int_equal(client.finish, OR_FINISH_ERROR);
    assert_int_equal(client.error_code, OR_WIRE_BUSY);
    assert_non_null(strstr(client.error, "your key allows 1 at a time"));
    run_hearing(w, &client, 20000); // who asks is not away
    assert_int_equal(ask_stats(w)->parked, 1);
    w->slow = false;
    send_cancel(w, &client, other);
    resume(w, &client, &parked);
    run_hearing(w, &client, 50);
    assert_whole(&client);
    leave(&client.edge);
}

// ---- whose it is ----

static void a_token_alone_is_not_enough(void **state)
{
    world_t *w = *state;
    client_t owner = {0}, thief = {0}, guess;
    join_target(w);
    enter(w, &owner, "a");
    enter(w, &thief, "b");
    ask_for_a_part(w, &owner, 1);
    resume(w, &thief, &owner);
    assert_unknown(&thief);
    char said[512];
    memcpy(said, thief.error, sizeof said);
    assert_int_equal(ask_stats(w)->refused, 1);
    guess = owner;
    guess.token[3] ^= 1;
    resume(w, &thief, &guess);
    assert_unknown(&thief);
    assert_string_equal(thief.error, said); // who tries learns nothing
    assert_int_equal(ask_stats(w)->refused, 1);
    leave(&owner.edge);
    run(w, SILENCE_MS);
    leave(&thief.edge);
    enter(w, &thief, "b");
    resume(w, &thief, &owner); // nor while its owner is away
    assert_unknown(&thief);
    assert_int_equal(ask_stats(w)->refused, 2);
    w->slow = false;
    enter(w, &owner, "a");
    resume(w, &owner, &owner);
    run_hearing(w, &owner, 50);
    assert_whole(&owner);
    leave(&owner.edge);
    leave(&thief.edge);
}

// Also who may have the text needs all of its token.
static void every_byte_of_a_token_counts(void **state)
{
    world_t *w = *state;
    client_t owner = {0}, guesser = {0};
    join_target(w);
    enter(w, &owner, "a");
    enter(w, &guesser, "a");
    ask_for_a_part(w, &owner, 1);
    for (uint32_t i = 0; i < OR_SESSION_TOKEN_BYTES; i++) {
        client_t guess = owner;
        guess.token[i] ^= 0x80;
        resume(w, &guesser, &guess);
        assert_unknown(&guesser);
    }
    leave(&owner.edge);
    leave(&guesser.edge);
}

// Two keys of one owner: what one asked for is not the other's.
static void a_token_with_another_key_is_refused(void **state)
{
    world_t *w = *state;
    client_t owner = {0}, thief = {0};
    join_target(w);
    enter_as(w, &owner, two_keys[0].public_key);
    enter_as(w, &thief, two_keys[1].public_key);
    ask_for_a_part(w, &owner, 1);
    resume(w, &thief, &owner);
    assert_unknown(&thief);
    leave(&owner.edge);
    run(w, SILENCE_MS);
    enter_as(w, &owner, two_keys[0].public_key);
    w->slow = false;
    resume(w, &owner, &owner);
    run_hearing(w, &owner, 50);
    assert_whole(&owner);
    leave(&owner.edge);
    leave(&thief.edge);
}

#define PLAIN(test) cmocka_unit_test_setup_teardown(test, parking_setup, world_teardown)
#define NARROW(test) cmocka_unit_test_setup_teardown(test, set_up_narrow, world_teardown)

// Drafters that draw for one text draw with keys that nobody had, also after its client was away.
static void no_draft_key_is_given_twice(void **state)
{
    world_t *w = *state;
    client_t before = {.request = 1}, after = {0};
    or_generate_request_t request = usual_request(WANTED);
    const or_hello_t hello = {.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)};
    uint64_t keys[4];
    request.request = before.request;
    request.draft_method = OR_DRAFT_MULTI;
    request.has_seed = true; // the keys come from it
    w->slow = true;
    join_target(w);
    join(w, &w->drafter, hello);
    join(w, &w->second, hello);
    enter(w, &before, "a");
    run(w, 5);
    ask_through(&before.edge, request);
    run_hearing(w, &before, 5);
    keys[0] = w->heard[0].terms.draft_key;
    keys[1] = w->heard[1].terms.draft_key;
    leave(&before.edge);
    run(w, SILENCE_MS);
    assert_int_equal(ask_stats(w)->parked, 1);
    enter(w, &after, "a");
    resume(w, &after, &before);
    run_hearing(w, &after, 5);
    assert_int_equal(w->heard[0].opens, 2);
    assert_int_equal(w->heard[1].opens, 2);
    keys[2] = w->heard[0].terms.draft_key;
    keys[3] = w->heard[1].terms.draft_key;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            assert_true(keys[i] != keys[j]);
        }
    }
    leave(&after.edge);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        PLAIN(a_cut_line_costs_no_token),
        PLAIN(who_shows_the_token_is_the_client_from_then_on),
        NARROW(what_waited_waits_on_when_its_client_is_back),
        PLAIN(an_end_that_was_missed_is_kept),
        PLAIN(who_stays_away_is_waited_for_no_longer),
        PLAIN(a_good_bye_ends_what_was_asked),
        NARROW(not_more_is_parked_than_half_of_all_places),
        PLAIN(an_owner_parks_a_part_of_them),
        NARROW(owners_that_park_much_push_out_their_own),
        cmocka_unit_test_setup_teardown(what_has_begun_is_not_told_to_ask_anew, set_up_short_queue,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(a_key_s_limit_holds_for_what_comes_back, set_up_keys,
                                        tear_down_keys),
        PLAIN(a_token_alone_is_not_enough),
        PLAIN(every_byte_of_a_token_counts),
        cmocka_unit_test_setup_teardown(a_token_with_another_key_is_refused, set_up_keys,
                                        tear_down_keys),
        PLAIN(no_draft_key_is_given_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
