// Goal: tokens that a model's file suppresses have a bias of minus infinity in every text's terms, beside the client's biases. A request names who reads its
// answer only where that is known. A stop string that waited for the end of the text ends it.
// A verdict that takes a guess outside the target's vocabulary does not fit.
// Method: a vocabulary that suppresses some of its tokens; the terms that a request becomes.
#include "coordinator/session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

#define TOKENS 1500u
#define ANGLE 9 // the token that prints the beginning of a mark

// The tokens 3, 4, 5 and so on are suppressed.
static or_vocab_t *make_vocab(uint32_t suppressed)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    int32_t ids[TOKENS];
    test_gguf_init(&file, 3, 0, 5);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gpt2");
    test_gguf_put_string_entry(&file, "tokenizer.ggml.pre", "gpt-2");
    test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, TOKENS);
    for (uint32_t i = 0; i < TOKENS; i++) {
        char piece[16];
        snprintf(piece, sizeof piece, i == ANGLE ? "<th" : "t%u", i);
        test_gguf_put_string(&file, piece);
        ids[i] = (int32_t)i + 3;
    }
    test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, 0);
    test_gguf_put_array_key(&file, "tokenizer.ggml.suppress_tokens", OR_GGUF_I32, suppressed);
    test_gguf_put(&file, ids, suppressed * sizeof *ids);
    assert_int_equal(or_gguf_open_bytes("file", file.bytes, file.count, &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return vocab;
}

// A request whose prompt is two tokens.
static or_generate_request_t plain_request(void)
{
    static const uint32_t prompt[] = {1, 2};
    return (or_generate_request_t){.max_tokens = 4,
                                   .sampling = or_sampling_default(),
                                   .prompt_tokens = prompt,
                                   .prompt_token_count = 2,
                                   .draft_method = OR_DRAFT_COUPLED,
                                   .accept_rule = OR_ACCEPT_COUPLED,
                                   .draft_nodes = 1,
                                   .draft_depth = 1};
}

static or_status_t ask(const or_vocab_t *vocab, const or_generate_request_t *request,
                       or_csession_t **session_p)
{
    const or_session_target_t target = {.vocab = vocab};
    return or_csession_create(&target, (or_session_id_t){1}, (or_peer_t){0}, "ada", request,
                              session_p);
}

static or_status_t make_session(const or_vocab_t *vocab, const or_logit_bias_t *bias,
                                uint32_t count, or_csession_t **session_p)
{
    or_generate_request_t request = plain_request();
    request.sampling.bias = bias;
    request.sampling.bias_count = count;
    return ask(vocab, &request, session_p);
}

static void suppressed_tokens_are_banned(void **state)
{
    (void)state;
    static const or_logit_bias_t own[] = {{7, 1.5F}, {4, 9}};
    or_csession_t *session = NULL;
    or_vocab_t *vocab = make_vocab(2);
    assert_int_equal(make_session(vocab, own, 2, &session), OR_OK);
    const or_sampling_t *sampling = &session->terms.open.sampling;
    assert_int_equal(sampling->bias_count, 4);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sampling->bias[i].id, own[i].id);
        assert_true(sampling->bias[i].bias == own[i].bias);
        assert_int_equal(sampling->bias[2 + i].id, 3 + i);
        assert_true(sampling->bias[2 + i].bias == -INFINITY); // whatever the client adds
    }
    or_csession_destroy(&session);
    or_vocab_destroy(&vocab);
}

static void without_them_only_the_clients_biases_are_there(void **state)
{
    (void)state;
    or_csession_t *session = NULL;
    or_vocab_t *vocab = make_vocab(0);
    assert_int_equal(make_session(vocab, NULL, 0, &session), OR_OK);
    assert_int_equal(session->terms.open.sampling.bias_count, 0);
    assert_true(or_sampling_is_plain(&session->terms.open.sampling));
    or_csession_destroy(&session);
    or_vocab_destroy(&vocab);
}

static void too_many_together_are_refused(void **state)
{
    (void)state;
    static or_logit_bias_t own[5];
    or_csession_t *session = NULL;
    or_vocab_t *vocab = make_vocab(OR_BIASES_MAX - 4);
    assert_int_equal(make_session(vocab, own, 4, &session), OR_OK);
    assert_int_equal(session->terms.open.sampling.bias_count, OR_BIASES_MAX);
    or_csession_destroy(&session);
    assert_int_equal(make_session(vocab, own, 5, &session), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "that the model suppresses"));
    or_vocab_destroy(&vocab);
}

// Who names a reader has a prompt that was written out before, and names one that is known.
static void a_reader_is_known_and_stands_for_a_conversation(void **state)
{
    (void)state;
    static const or_chat_message_t messages[] = {{.role = "user"}};
    or_vocab_t *vocab = make_vocab(0);
    or_csession_t *session = NULL;
    or_generate_request_t request = plain_request();
    request.reader = "qwen3";
    assert_int_equal(ask(vocab, &request, &session), OR_OK);
    or_csession_destroy(&session);
    request.reader = "\xFF%s";
    assert_int_equal(ask(vocab, &request, &session), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "not known here"));
    request.reader = "qwen3";
    request.prompt_token_count = 0;
    request.messages = messages;
    request.message_count = 1;
    assert_int_equal(ask(vocab, &request, &session), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "not both"));
    assert_null(session);
    request.reader = NULL;
    request.message_count = 0;
    request.prompt_token_count = 2;
    request.thinking = OR_THINKING_HIGH + 1;
    assert_int_equal(ask(vocab, &request, &session), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "no way of thinking"));
    or_vocab_destroy(&vocab);
}

// The format of calls is known, and belongs to a conversation.
static void a_format_of_calls_is_known(void **state)
{
    (void)state;
    or_vocab_t *vocab = make_vocab(0);
    or_csession_t *session = NULL;
    or_generate_request_t request = plain_request();
    request.calls = "kimi-k2"; // whatever the reader is, its marks have room beside
    request.reader = "harmony";
    assert_int_equal(ask(vocab, &request, &session), OR_OK);
    assert_int_equal(session->text.reader.mark_count, 4 + 5);
    or_csession_destroy(&session);
    request.reader = "";
    assert_int_equal(ask(vocab, &request, &session), OR_ERR_INVALID);
    request.reader = "qwen3";
    request.calls = "\xFF%s";
    assert_int_equal(ask(vocab, &request, &session), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "read calls of tools is not known here"));
    assert_null(session);
    or_vocab_destroy(&vocab);
}

// A mark around a thought might have come of the last token's text, so it was not known before the end that it has the stop
// string.
static void a_stop_string_that_waited_is_why_the_text_ends(void **state)
{
    (void)state;
    static const int32_t written[] = {8, ANGLE};
    static const or_wire_bytes_t stop = {(const uint8_t *)"<", 1};
    static const or_finish_t ends[] = {OR_FINISH_LENGTH, OR_FINISH_CANCELLED};
    or_vocab_t *vocab = make_vocab(0);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        or_csession_t *session = NULL;
        or_generate_request_t request = plain_request();
        request.reader = "qwen3";
        request.stop = &stop;
        request.stop_count = 1;
        assert_int_equal(ask(vocab, &request, &session), OR_OK);
        assert_int_equal(or_csession_restore(session, written, 2, ends[i]), OR_OK);
        assert_int_equal(session->finish,
                         ends[i] == OR_FINISH_LENGTH ? OR_FINISH_STOP : OR_FINISH_CANCELLED);
        assert_int_equal(session->text.released, 2);
        assert_memory_equal(session->text.bytes, "t8", 2);
        or_csession_destroy(&session);
    }
    or_vocab_destroy(&vocab);
}

// Trees may have guesses that the target has no token for, which it rejects. Whoever takes one is no target.
static void a_guess_of_another_vocabulary_is_never_taken(void **state)
{
    (void)state;
    or_vocab_t *vocab = make_vocab(0);
    or_csession_t *session = NULL;
    or_generate_request_t request = plain_request();
    request.draft_method = OR_DRAFT_CHAIN;
    request.accept_rule = OR_ACCEPT_SPS;
    request.vocab_method = OR_VOCAB_UNION;
    assert_int_equal(ask(vocab, &request, &session), OR_OK);
    for (uint32_t token = TOKENS - 1; token <= TOKENS; token++) {
        static const uint32_t path = 1;
        or_verdict_t verdict = {.round = 1,
                                .base_length = 2,
                                .accepted = &path,
                                .accepted_count = 1,
                                .next = 7,
                                .hash = or_prefix_hash(session->log.hash, &token, 1)};
        verdict.hash = or_prefix_hash(verdict.hash, &verdict.next, 1);
        session->tree.tokens[0] = token;
        session->tree.back[0] = 1;
        session->tree.count = 1;
        assert_int_equal(or_csession_check_verdict(session, &verdict, TOKENS),
                         token < TOKENS ? OR_OK : OR_ERR_MISMATCH);
    }
    or_csession_destroy(&session);
    or_vocab_destroy(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suppressed_tokens_are_banned),
        cmocka_unit_test(without_them_only_the_clients_biases_are_there),
        cmocka_unit_test(too_many_together_are_refused),
        cmocka_unit_test(a_reader_is_known_and_stands_for_a_conversation),
        cmocka_unit_test(a_format_of_calls_is_known),
        cmocka_unit_test(a_stop_string_that_waited_is_why_the_text_ends),
        cmocka_unit_test(a_guess_of_another_vocabulary_is_never_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
