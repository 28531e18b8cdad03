// Goal: a client that asks for it hears of each token where it came from, where its text ends and how probable it was, again if it
// asks again, and sees what was judged, once; who does not ask hears nothing of it, and the text is the same.
// Method: the real coordinator; the test's verifier sends logprobs with its verdicts, forged ones too, and the
// client's deltas are looked at one by one.
#include <math.h>
#include <string.h>

#include "coordinator/coordinator_test_support.h"

#define WANTED 6u

// The details that the client was told, by token.
static struct {
    uint32_t deltas, trees, tree_nodes, tree_accepted;
    uint32_t origin_count, logprob_count;
    uint8_t origins[64];
    uint64_t ends[64];
    float logprobs[64];
    uint64_t text_bytes;
} told;

static uint32_t asked; // logprobs of the verifier's verdicts; 0: none
static float claimed;  // what each of them says

static void look(world_t *w, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    (void)w;
    if (message->type != OR_MSG_GENERATE_DELTA) {
        return;
    }
    told.deltas++;
    told.text_bytes = delta->text_offset + delta->text_bytes;
    for (uint32_t i = 0; i < delta->origin_count; i++) {
        told.origins[delta->offset + i] = delta->origins[i];
        told.ends[delta->offset + i] = delta->token_ends[i];
        told.origin_count = delta->offset + i + 1;
    }
    for (uint32_t i = 0; i < delta->logprob_count; i++) {
        assert_int_equal(delta->logprobs[i].token, delta->tokens[i]);
        told.logprobs[delta->offset + i] = delta->logprobs[i].logprob;
        told.logprob_count = delta->offset + i + 1;
    }
    if (delta->tree != NULL) {
        told.trees++;
        told.tree_nodes = delta->tree->count;
        told.tree_accepted = delta->tree_accepted_count;
    }
}

static void alter(world_t *w, or_verdict_t *verdict)
{
    static or_token_logprob_t logprobs[NODES + 1];
    (void)w;
    if (asked == 0) {
        return;
    }
    for (uint32_t i = 0; i <= verdict->accepted_count; i++) {
        uint32_t token = i < verdict->accepted_count ? tokens[verdict->accepted[i] - 1] : 5;
        logprobs[i] = (or_token_logprob_t){.token = token, .logprob = claimed};
    }
    verdict->logprobs = logprobs;
    verdict->logprob_count = verdict->accepted_count + 1;
}

static void begin(world_t *w)
{
    memset(&told, 0, sizeof told);
    asked = 0;
    claimed = -0.25F;
    w->alter = alter;
    w->look = look;
    join_usual(w);
}

// A tree of three nodes, two of which are accepted; the rest is plain.
static void write_with_a_tree(world_t *w, or_generate_request_t request)
{
    ask(w, request);
    run(w, 5);
    w->path_count = 2;
    w->path[0] = 1;
    w->path[1] = 2;
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 3);
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->written_count, WANTED);
}

static void origins_ends_and_the_tree_come_where_they_are_asked_for(void **state)
{
    world_t *w = *state;
    begin(w);
    or_generate_request_t request = usual_request(WANTED);
    request.details = true;
    write_with_a_tree(w, request);
    const uint8_t origins[WANTED] = {1, 1, 0, 0, 0, 0};
    assert_int_equal(told.origin_count, WANTED);
    assert_memory_equal(told.origins, origins, sizeof origins);
    for (uint32_t i = 1; i < WANTED; i++) {
        assert_true(told.ends[i] >= told.ends[i - 1]);
    }
    assert_int_equal(told.ends[WANTED - 1], told.text_bytes);
    assert_int_equal(told.trees, 1); // of all rounds one had guesses
    assert_int_equal(told.tree_nodes, 3);
    assert_int_equal(told.tree_accepted, 2);
    assert_int_equal(told.logprob_count, 0);
    assert_int_equal(w->end.stats.drafted, 3);
    assert_int_equal(w->end.stats.accepted, 2);
}

static const uint32_t nowhere[] = {2, 7};

static void forge_path(world_t *w, or_verdict_t *verdict)
{
    (void)w;
    if (verdict->accepted_count > 0) {
        verdict->accepted = nowhere;
        verdict->accepted_count = 2;
    }
}

// A client may take the path for numbers of the tree's nodes.
static void a_path_that_is_not_in_the_tree_is_not_told(void **state)
{
    world_t *w = *state;
    begin(w);
    w->alter = forge_path;
    or_generate_request_t request = usual_request(WANTED);
    request.details = true;
    ask(w, request);
    run(w, 5);
    w->path_count = 1;
    w->path[0] = 1;
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 3);
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "whose path is not in the tree"));
    assert_int_equal(told.trees, 0);
}

static void who_does_not_ask_hears_nothing_of_it(void **state)
{
    world_t *w = *state;
    begin(w);
    write_with_a_tree(w, usual_request(WANTED));
    assert_true(told.deltas > 1);
    assert_int_equal(told.origin_count + told.logprob_count + told.trees, 0);
    assert_int_equal(w->verifier_terms.logprobs, 0);
}

static void what_is_repeated_is_complete_but_for_the_tree(void **state)
{
    world_t *w = *state;
    begin(w);
    asked = 1;
    or_generate_request_t request = usual_request(WANTED);
    request.details = true;
    request.logprobs = 1;
    write_with_a_tree(w, request);
    assert_int_equal(w->verifier_terms.logprobs, 1);
    assert_int_equal(w->drafter_terms.logprobs, 0); // it has no use for them
    assert_int_equal(told.logprob_count, WANTED);
    memset(&told, 0, sizeof told);
    ask(w, request);
    run(w, 5);
    assert_int_equal(told.deltas, 1);
    assert_int_equal(told.origin_count, WANTED);
    assert_int_equal(told.origins[1], 1);
    assert_int_equal(told.logprob_count, WANTED);
    assert_true(told.logprobs[3] == claimed);
    assert_int_equal(told.trees, 0);
}

static void a_verifier_that_sends_none_leaves_none(void **state)
{
    world_t *w = *state;
    begin(w);
    or_generate_request_t request = usual_request(WANTED);
    request.logprobs = 6;
    write_with_a_tree(w, request);
    assert_int_equal(w->verifier_terms.logprobs, 6);
    assert_int_equal(told.logprob_count, 0);
}

static void logprobs_that_make_no_sense_end_the_text(void **state)
{
    world_t *w = *state;
    begin(w);
    asked = 1;
    claimed = NAN;
    or_generate_request_t request = usual_request(WANTED);
    request.plain = true;
    request.logprobs = 1;
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->written_count, 0);
}

static void too_many_are_refused(void **state)
{
    world_t *w = *state;
    begin(w);
    or_generate_request_t request = usual_request(WANTED);
    request.logprobs = OR_LOGPROBS_MAX + 2;
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->end.error_code, OR_WIRE_INVALID);
    assert_non_null(strstr(w->error, "20 at most"));
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(origins_ends_and_the_tree_come_where_they_are_asked_for,
                                        world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_path_that_is_not_in_the_tree_is_not_told, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(who_does_not_ask_hears_nothing_of_it, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(what_is_repeated_is_complete_but_for_the_tree, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(a_verifier_that_sends_none_leaves_none, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(logprobs_that_make_no_sense_end_the_text, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(too_many_are_refused, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
