// Goal: a drafter with another vocabulary is met: its vocabulary is asked for and believed only if it is
// what was announced, the drafter hears the text in its own tokens, and only ids of the target's reach
// the verifier.
// Method: the real coordinator, the test as a drafter that has the demonstration's byte-level vocabulary
// of 1,024 tokens (target: SentencePiece, 4,096).
#include "common/text/tokenizer.h"
#include "common/text/vocab/string_cost.h"
#include "coordinator/coordinator_test_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    world_t *world;
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    uint8_t *packed;
    size_t packed_bytes, unpacked_bytes;
} stranger_t;

static stranger_t stranger;

static int setup(void **state)
{
    assert_int_equal(world_setup(state), 0);
    stranger = (stranger_t){.world = *state};
    assert_int_equal(or_gguf_open(test_model("tales-bpe-1m-f16.gguf"), &stranger.gguf), OR_OK);
    assert_int_equal(or_vocab_load(stranger.gguf, &stranger.vocab), OR_OK);
    assert_int_equal(or_vocab_pack(stranger.gguf, &stranger.packed, &stranger.packed_bytes,
                                   &stranger.unpacked_bytes),
                     OR_OK);
    return 0;
}

static int teardown(void **state)
{
    free(stranger.packed);
    or_vocab_destroy(&stranger.vocab);
    or_gguf_close(&stranger.gguf);
    return world_teardown(state);
}

static void join_stranger(world_t *w)
{
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER,
                      .vocab_hash = or_vocab_hash(stranger.vocab),
                      .vocab_size = or_vocab_size(stranger.vocab)});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

static void say(world_t *w, or_message_t message)
{
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 5);
}

static void send_vocabulary(world_t *w, size_t bytes)
{
    say(w, (or_message_t){.type = OR_MSG_VOCABULARY,
                          .body.vocabulary = {.hash = or_vocab_hash(stranger.vocab),
                                              .unpacked_bytes = (uint32_t)stranger.unpacked_bytes,
                                              .packed = stranger.packed,
                                              .packed_bytes = (uint32_t)bytes}});
}

static void only_what_was_announced_is_believed(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    assert_int_equal(w->heard[0].vocab_requests, 1);
    assert_int_equal(w->heard[0].asked_hash, or_vocab_hash(stranger.vocab));
    send_vocabulary(w, stranger.packed_bytes / 2);
    assert_int_equal(w->heard[0].vocab_requests, 2);
    or_gguf_t *other;
    uint8_t *packed;
    size_t packed_bytes, unpacked_bytes;
    assert_int_equal(or_gguf_open(test_model("tales-6m-f16.gguf"), &other), OR_OK);
    assert_int_equal(or_vocab_pack(other, &packed, &packed_bytes, &unpacked_bytes), OR_OK);
    say(w, (or_message_t){.type = OR_MSG_VOCABULARY,
                          .body.vocabulary = {.hash = or_vocab_hash(stranger.vocab),
                                              .unpacked_bytes = (uint32_t)unpacked_bytes,
                                              .packed = packed,
                                              .packed_bytes = (uint32_t)packed_bytes}});
    assert_int_equal(w->heard[0].vocab_requests, 3);
    ask(w, usual_request(2)); // nobody waits for a drafter that nobody knows
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->heard[0].opens, 0);
    send_vocabulary(w, 3);
    assert_non_null(strstr(w->refusal, "vocabulary"));
    free(packed);
    or_gguf_close(&other);
}

static void an_answer_that_is_lost_is_asked_for_again(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    run(w, 1500);
    assert_int_equal(w->heard[0].vocab_requests, 2);
    send_vocabulary(w, stranger.packed_bytes);
    run(w, 3000);
    assert_int_equal(w->heard[0].vocab_requests, 2);
    send_vocabulary(w, stranger.packed_bytes); // a late copy
    assert_string_equal(w->refusal, "");
}

static void a_drafter_that_never_answers_is_turned_away(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    run(w, 9000);
    assert_string_equal(w->refusal, "");
    assert_int_equal(w->heard[0].vocab_requests, 8);
    run(w, 2000);
    assert_non_null(strstr(w->refusal, "never came"));
}

// "Once upon a time" in the drafter's own tokens, and where the target's completion stands.
static void assert_hears_the_text(world_t *w, const char *text)
{
    char *heard;
    size_t length;
    const heard_t *it = &w->heard[0];
    assert_int_equal(
        or_detokenize(stranger.vocab, (const int32_t *)it->text, it->length, &heard, &length),
        OR_OK);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(heard, text, length);
    assert_int_equal(or_prefix_hash(0, it->text, it->length), it->hash);
    free(heard);
}

static or_generate_request_t text_request(or_vocab_method_t method)
{
    or_generate_request_t request = usual_request(3);
    request.prompt = (const uint8_t *)"Once upon a time";
    request.prompt_bytes = 16;
    request.vocab_method = method;
    return request;
}

static void the_text_arrives_in_its_own_tokens(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    w->slow = true;
    ask(w, text_request(OR_VOCAB_TLI));
    run(w, 5);
    const heard_t *it = &w->heard[0];
    assert_int_equal(it->opens, 1);
    assert_int_equal(it->terms.vocab_method, OR_VOCAB_TLI);
    assert_int_equal(it->terms.target_hash, 0);
    assert_hears_the_text(w, "Once upon a time");
    assert_true(it->placed);
    assert_int_equal(it->byte_offset, 0);
    // The map is sent to who asks for it, with a second opening.
    say(w, (or_message_t){.type = OR_MSG_ERROR,
                          .session = w->session,
                          .body.error = {.code = OR_WIRE_NEED_MAP, .text = "which map?"}});
    assert_int_equal(it->maps, 1);
    assert_int_equal(it->opens, 2);
    assert_int_equal(it->map_hash, it->terms.map_hash);
    assert_int_equal(it->map_count, or_vocab_size(stranger.vocab));
}

// The drafter's token for " the", and one that the target does not have.
static uint32_t find_token(const char *bytes)
{
    for (uint32_t id = 0; id < or_vocab_size(stranger.vocab); id++) {
        uint32_t length;
        const char *printed = or_vocab_bytes(stranger.vocab, (int32_t)id, &length);
        if (length == strlen(bytes) && memcmp(printed, bytes, length) == 0) {
            return id;
        }
    }
    fail_msg("the drafter has no \"%s\"", bytes);
    return 0;
}

static void guess(world_t *w, uint32_t token)
{
    const heard_t *it = &w->heard[0];
    const uint32_t back[] = {1};
    draft(w, it->round, it->length, it->hash, &token, back, 1);
    run(w, 5);
}

static void trees_reach_the_verifier_in_its_own_ids(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    ask(w, text_request(OR_VOCAB_TLI));
    run(w, 5);
    guess(w, find_token(" the"));
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 1);
    or_message_t tree;
    assert_int_equal(or_message_decode(w->frames[1], w->frame_bytes[1], &tree), OR_OK);
    uint32_t length;
    const char *bytes = or_vocab_bytes(w->vocab, (int32_t)tree.body.draft_tree.tokens[0], &length);
    assert_int_equal(length, 4);
    assert_memory_equal(bytes, " the", 4);
    or_message_fini(&tree);
    assert_string_equal(w->note, "");
}

static void ids_of_nobody_cost_the_session_not_the_text(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    ask(w, text_request(OR_VOCAB_TLI));
    run(w, 5);
    guess(w, or_vocab_size(stranger.vocab));
    run(w, 20);
    assert_int_equal(w->nodes, 0);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "dismissed"));
}

static void whoever_wants_the_same_gets_no_other(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    ask(w, text_request(OR_VOCAB_SAME));
    run(w, 20);
    assert_int_equal(w->heard[0].opens, 0);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "vocabular"));
}

// ---- strings (slrs) ----

static or_generate_request_t string_request(uint32_t distribution_entries)
{
    or_generate_request_t request = text_request(OR_VOCAB_AUTO);
    request.accept_rule = OR_ACCEPT_SLRS;
    request.draft_method = OR_DRAFT_CHAIN;
    request.sampling.temperature = 1;
    request.distribution_entries = distribution_entries;
    return request;
}

static void strings_are_drafted_where_an_answer_is_cheap(void **state)
{
    (void)state;
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    w->slow = true;
    ask(w, string_request(0));
    run(w, 5);
    assert_int_equal(w->heard[0].opens, 1);
    assert_int_equal(w->heard[0].terms.target_hash, or_vocab_hash(w->vocab));
    assert_hears_the_text(w, "Once upon a time");
}

static void strings_that_cost_too_much_are_refused_with_the_figure(void **state)
{
    world_t *w = *state;
    char text[128];
    or_string_cost_t cost;
    assert_int_equal(or_string_cost_count(stranger.vocab, w->vocab, &cost), OR_OK);
    snprintf(text, sizeof text, "about %.6g model rows for one answer, 4096 are the most",
             round(or_string_cost_rows(&cost, 200)));
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    ask(w, string_request(200));
    run(w, 20);
    assert_int_equal(w->heard[0].opens, 0);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, text));
    assert_non_null(strstr(w->note, "--distribution-entries 100, or --vocab-map tli"));
}

static void say_error(world_t *w, or_wire_error_t code)
{
    say(w, (or_message_t){.type = OR_MSG_ERROR,
                          .session = w->session,
                          .body.error = {.code = code, .text = "?"}});
}

// A drafter whose map was lost asks for the session and then, at once, for its map.
static void a_lost_map_is_sent_again_whatever_else_was(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    w->slow = true;
    ask(w, text_request(OR_VOCAB_TLI));
    run(w, 5);
    for (uint32_t i = 1; i <= 2; i++) {
        say_error(w, OR_WIRE_UNKNOWN_SESSION);
        say_error(w, OR_WIRE_NEED_MAP);
        assert_int_equal(w->heard[0].maps, i);
        run(w, 1000);
    }
}

static void a_hash_of_nothing_is_no_hash_of_the_targets(void **state)
{
    world_t *w = *state;
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = 0, .vocab_size = 1024});
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    assert_int_equal(w->heard[0].vocab_requests, 1);
    ask(w, usual_request(2));
    run(w, 20);
    assert_int_equal(w->heard[0].opens, 0);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void request_target(world_t *w, or_session_id_t session)
{
    say(w, (or_message_t){.type = OR_MSG_VOCAB_REQUEST,
                          .session = session,
                          .body.vocab_request = {.hash = or_vocab_hash(w->vocab)}});
}

static void the_targets_vocabulary_is_for_who_drafts_by_it(void **state)
{
    world_t *w = *state;
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    w->slow = true;
    ask(w, string_request(0));
    run(w, 5);
    request_target(w, (or_session_id_t){0});
    assert_int_equal(w->heard[0].vocabularies, 0);
    request_target(w, w->session);
    request_target(w, w->session); // the first one is on its way
    assert_int_equal(w->heard[0].vocabularies, 1);
    run(w, 1000);
    request_target(w, w->session);
    assert_int_equal(w->heard[0].vocabularies, 2);
}

// A guess has been rejected, and what the target writes instead hangs on its drafter's word.
static void reject_a_guess(world_t *w)
{
    join_stranger(w);
    send_vocabulary(w, stranger.packed_bytes);
    w->slow = true;
    ask(w, string_request(0));
    run(w, 5);
    const uint32_t token = 5, back = 1;
    const double psi = 0.5;
    const heard_t *it = &w->heard[0];
    say(w, (or_message_t){.type = OR_MSG_DRAFT_TREE,
                          .session = w->session,
                          .body.draft_tree = {.round = it->round,
                                              .base_length = it->length,
                                              .base_hash = it->hash,
                                              .tokens = &token,
                                              .back = &back,
                                              .count = 1,
                                              .psi = &psi,
                                              .psi_count = 1}});
    assert_int_equal(w->nodes, 1);
    const or_message_t request = {.type = OR_MSG_PSI_REQUEST,
                                  .session = w->session,
                                  .body.psi_request = {.round = it->round}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &request), OR_OK);
    run(w, 5);
    assert_int_equal(it->psi_requests, 1);
}

// The drafter's answer about the guess makes no sense, and a plain step would be biased now.
static void refused_probabilities_end_the_text(void **state)
{
    world_t *w = *state;
    reject_a_guess(w);
    const or_message_t refusal = {
        .type = OR_MSG_ERROR,
        .session = w->session,
        .body.error = {.code = OR_WIRE_INVALID, .text = "no", .round = w->heard[0].round}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &refusal), OR_OK);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "probabilities"));
    assert_int_equal(w->trees, 1); // and none without the guess
}

// A rejection takes longer than an acceptance, so who leaves whenever a token is slow would have rejections drawn
// anew: the round goes on to its verdict without its client.
static void who_leaves_during_a_question_changes_no_answer(void **state)
{
    world_t *w = *state;
    reject_a_guess(w);
    leave(&w->client);
    run(w, 12000); // its silence has been noticed
    assert_int_equal(w->verifier_cancels, 0);
    assert_int_equal(w->heard[0].cancels, 0);
    assert_int_equal(w->heard[0].round, 1);
    assert_true(w->trees > 1); // the same one, again and again
    assert_int_equal(w->nodes, w->trees);
    w->slow = false;
    run(w, 12000); // the target is asked again, and answers: now the text is parked
    assert_int_equal(w->verifier_cancels, 1);
    assert_int_equal(w->heard[0].cancels, 1);
    uint32_t trees = w->trees;
    run(w, 12000);
    assert_int_equal(w->trees, trees);
}

// The same where another target takes the place of the one that asked, and cannot take the guess.
static void another_target_in_a_question_ends_the_text(void **state)
{
    world_t *w = *state;
    reject_a_guess(w);
    leave(&w->verifier);
    uint32_t trees = w->trees;
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET,
                      .context_max = 4});
    run(w, 100);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "another verifier"));
    assert_int_equal(w->trees, trees);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_was_announced_is_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_lost_is_asked_for_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drafter_that_never_answers_is_turned_away, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_text_arrives_in_its_own_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(trees_reach_the_verifier_in_its_own_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_of_nobody_cost_the_session_not_the_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(whoever_wants_the_same_gets_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(strings_are_drafted_where_an_answer_is_cheap, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(strings_that_cost_too_much_are_refused_with_the_figure,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_map_is_sent_again_whatever_else_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_hash_of_nothing_is_no_hash_of_the_targets, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_targets_vocabulary_is_for_who_drafts_by_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refused_probabilities_end_the_text, setup, teardown),
        cmocka_unit_test_setup_teardown(who_leaves_during_a_question_changes_no_answer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_target_in_a_question_ends_the_text, setup,
                                        teardown),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
