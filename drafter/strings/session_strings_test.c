// Goal: a session that drafts strings travels in the target's tokens, says what its text may go on
// with, and loses nothing by it: neither by questions nor by losses of pages in between. Method: a
// drafter with byte-level tokens for a target with SentencePiece ones. Text by text the chain must
// be what the drafter drew; answers must add up, agree with the chain's own psi and come again bit
// for bit; what the drafter draws next must be what a session draws that never was asked.
#include "drafter/session.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define ROUNDS 12

static or_gguf_t *gguf, *target_gguf;
static or_vocab_t *vocab;
static or_model_t *model;
static or_calibrations_t calibrations;
static or_targets_t targets;
static or_dshared_t shared;
static uint64_t target_hash;

static void put_target(void)
{
    or_vocab_t *target;
    uint8_t *packed;
    size_t bytes, unpacked;
    assert_int_equal(or_vocab_load(target_gguf, &target), OR_OK);
    assert_int_equal(or_vocab_pack(target_gguf, &packed, &bytes, &unpacked), OR_OK);
    target_hash = or_vocab_hash(target);
    or_vocabulary_t vocabulary = {target_hash ^ 1, (uint32_t)unpacked, packed, (uint32_t)bytes};
    assert_int_equal(or_targets_put(&targets, vocab, &vocabulary), OR_ERR_MISMATCH);
    assert_null(or_targets_take(&targets, target_hash ^ 1));
    vocabulary.hash = target_hash;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(or_targets_put(&targets, vocab, &vocabulary), OR_OK);
    }
    free(packed);
    or_vocab_destroy(&target);
}

static int setup(void **state)
{
    (void)state;
    const or_model_options_t options = {.threads = 1, .pages_max = 64};
    assert_int_equal(or_gguf_open(test_model("tales-bpe-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_gguf_open(test_model("tales-6m-f16.gguf"), &target_gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    shared = (or_dshared_t){.model = model,
                            .vocab = vocab,
                            .clock = or_clock_monotonic(),
                            .nodes_max = 64,
                            .calibrations = &calibrations,
                            .targets = &targets};
    put_target();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_targets_fini(&targets);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&target_gguf);
    or_gguf_close(&gguf);
    return 0;
}

static or_open_session_t terms(void)
{
    or_open_session_t open = {.sampling = or_sampling_default(),
                              .accept_rule = OR_ACCEPT_SLRS,
                              .draft_method = OR_DRAFT_CHAIN,
                              .draft_nodes = 5,
                              .draft_depth = 5,
                              .draft_temperature = 1,
                              .draft_key = 43,
                              .distribution_entries = OR_DISTRIBUTION_ENTRIES,
                              .prompt_length = 1,
                              .vocab_method = OR_VOCAB_SLRS,
                              .target_hash = target_hash};
    open.sampling.temperature = 1;
    return open;
}

static void open_with(or_dsession_t *session, const or_token_log_t *log, uint64_t round)
{
    const or_open_session_t open = terms();
    const or_prefix_t prefix = or_token_log_prefix(log, 0, round);
    bool again;
    memset(session, 0, sizeof *session);
    if (or_dsession_open(session, &shared, (or_session_id_t){1}, &open) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    assert_int_equal(or_dsession_prefix(session, &shared, &prefix, &again), OR_OK);
}

static void begin_text(or_dsession_t *session)
{
    int32_t root = or_vocab_eos(vocab); // which this model's texts begin after
    or_token_log_t log;
    assert_int_equal(or_token_log_init(&log, 4), OR_OK);
    assert_int_equal(or_token_log_append(&log, &root, 1), OR_OK);
    open_with(session, &log, 1);
    or_token_log_fini(&log);
}

// The chain prints what the drafter's own tokens print, up to what was drawn beyond it.
static void check_text(const or_dsession_t *session)
{
    const or_vocab_t *target = session->slrs.target->vocab;
    const int32_t *own = or_token_tree_tokens(session->tree);
    const int32_t *sent = or_token_tree_tokens(session->slrs.chain);
    char own_text[1024], text[1024];
    uint32_t own_length = 0, length = 0, width;
    for (uint32_t i = 1; i <= or_token_tree_count(session->tree); i++) {
        const char *bytes = or_vocab_bytes(vocab, own[i], &width);
        memcpy(own_text + own_length, bytes, width);
        own_length += width;
    }
    for (uint32_t i = 1; i <= or_token_tree_count(session->slrs.chain); i++) {
        assert_true(sent[i] <= (int32_t)or_vocab_size(target));
        if (sent[i] < (int32_t)or_vocab_size(target)) {
            const char *bytes = or_vocab_bytes(target, sent[i], &width);
            memcpy(text + length, bytes, width);
            length += width;
        }
    }
    assert_true(length <= own_length && length > 0);
    assert_memory_equal(text, own_text, length);
}

static void ask(or_dsession_t *session, uint32_t node, const uint32_t *tokens, uint32_t count,
                or_psi_reply_t *reply)
{
    const or_psi_request_t request = {.round = session->round,
                                      .base_length = session->log.length,
                                      .base_hash = session->log.hash,
                                      .node = node,
                                      .tokens = tokens,
                                      .count = count};
    assert_int_equal(or_dsession_ask(session, &request), OR_OK);
    assert_true(or_dsession_is_asked(session));
    assert_int_equal(or_dsession_answer(session, &shared, reply), OR_OK);
    assert_false(or_dsession_is_asked(session));
    assert_int_equal(reply->round, session->round);
    assert_int_equal(reply->node, node);
}

static double psi_of(const or_psi_reply_t *reply, uint32_t token)
{
    for (uint32_t i = 0; i < reply->count; i++) {
        if (reply->tokens[i] == token) {
            return reply->psi[i];
        }
    }
    return 0;
}

// All that may follow one node, and the same questions again: for one token, and without the pages.
static void check_answers(or_dsession_t *session, uint32_t node)
{
    static double all[8192];
    or_psi_reply_t reply;
    double total = 0;
    uint32_t size = or_vocab_size(session->slrs.target->vocab);
    uint32_t token = (uint32_t)or_token_tree_tokens(session->slrs.chain)[node + 1];
    double psi = or_strings_psi(session->slrs.strings)[node];
    ask(session, node, NULL, 0, &reply);
    for (uint32_t i = 0; i < reply.count; i++) {
        assert_true(i == 0 || reply.tokens[i] > reply.tokens[i - 1]);
        assert_true(reply.tokens[i] < size && reply.psi[i] > 0 && reply.psi[i] <= 1);
        all[i] = reply.psi[i];
        total += reply.psi[i];
    }
    uint32_t count = reply.count;
    assert_true(total < 1 + 1e-12 && (total > .9 || token == size)); // the rest is outside
    if (token == size) {
        assert_true(psi == 0 && total < 1);
        return;
    }
    assert_true(psi_of(&reply, token) == psi);
    or_dsession_drop_pages(session);
    ask(session, node, NULL, 0, &reply);
    assert_int_equal(reply.count, count);
    assert_memory_equal(reply.psi, all, count * sizeof *all);
    ask(session, node, &token, 1, &reply);
    assert_int_equal(reply.count, 1);
    assert_true(reply.psi[0] == psi);
}

static void check_same_chain(const or_dsession_t *a, const or_dsession_t *b)
{
    uint32_t count = or_token_tree_count(a->slrs.chain);
    assert_int_equal(count, or_token_tree_count(b->slrs.chain));
    assert_memory_equal(or_token_tree_tokens(a->slrs.chain), or_token_tree_tokens(b->slrs.chain),
                        (count + 1) * sizeof(int32_t));
    assert_memory_equal(or_strings_psi(a->slrs.strings), or_strings_psi(b->slrs.strings),
                        count * sizeof(double));
}

// The text goes on with a part of what was drawn.
static void go_on(or_dsession_t *session, uint32_t kept)
{
    or_token_log_t log;
    const int32_t *own = or_token_tree_tokens(session->tree);
    uint32_t count = or_token_tree_count(session->tree);
    assert_int_equal(or_token_log_init(&log, session->log.length + count + 1), OR_OK);
    assert_int_equal(or_token_log_append(&log, session->log.tokens, session->log.length), OR_OK);
    assert_int_equal(or_token_log_append(&log, own + 1, kept < count ? kept : count), OR_OK);
    const or_prefix_t prefix = or_token_log_prefix(&log, session->log.length, session->round + 1);
    bool again;
    assert_int_equal(or_dsession_prefix(session, &shared, &prefix, &again), OR_OK);
    or_token_log_fini(&log);
}

static void a_chain_survives_its_questions(void **state)
{
    (void)state;
    or_dsession_t session;
    begin_text(&session);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        or_dsession_t anew;
        or_psi_reply_t reply;
        assert_int_equal(or_dsession_draft(&session, &shared), OR_OK);
        open_with(&anew, &session.log, session.round);
        assert_int_equal(or_dsession_draft(&anew, &shared), OR_OK);
        check_same_chain(&session, &anew);
        or_dsession_close(&anew);
        check_text(&session);
        uint32_t count = or_token_tree_count(session.slrs.chain);
        assert_true(count > 0);
        if (round % 2 == 0) {
            check_answers(&session, round % count);
        } else { // its K and V are still there, and are kept
            ask(&session, round % count, NULL, 0, &reply);
        }
        uint32_t kept = 1 + round % 4;
        uint32_t length = session.log.length;
        go_on(&session, kept);
        if (round % 2 == 1 && session.log.length == length + kept) {
            assert_true(or_kv_sequence_length(session.lanes[0].kv) + 1 >= session.log.length);
        }
    }
    or_dsession_close(&session);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    or_dsession_t session = {0};
    or_open_session_t open = terms();
    or_psi_reply_t reply;
    open.target_hash ^= 1;
    assert_int_equal(or_dsession_open(&session, &shared, (or_session_id_t){1}, &open),
                     OR_ERR_NOT_FOUND);
    open = terms();
    open.distribution_entries = OR_DISTRIBUTION_ENTRIES_MAX; // thousands of rows for one answer
    assert_int_equal(or_dsession_open(&session, &shared, (or_session_id_t){1}, &open),
                     OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "--distribution-entries"));
    begin_text(&session);
    or_psi_request_t request = {
        .round = 1, .base_length = session.log.length, .base_hash = session.log.hash};
    assert_int_equal(or_dsession_ask(&session, &request), OR_OK); // before there is a chain
    assert_false(or_dsession_is_asked(&session));
    assert_int_equal(or_dsession_draft(&session, &shared), OR_OK);
    assert_true(or_dsession_is_asked(&session));
    assert_int_equal(or_dsession_answer(&session, &shared, &reply), OR_OK);
    request.node = 99;
    assert_int_equal(or_dsession_ask(&session, &request), OR_OK);
    assert_int_equal(or_dsession_answer(&session, &shared, &reply), OR_ERR_INVALID);
    assert_false(or_dsession_is_asked(&session));
    request.node = 0;
    request.base_hash ^= 1;
    assert_int_equal(or_dsession_ask(&session, &request), OR_ERR_MISMATCH);
    request.base_hash ^= 1;
    request.round = 2;
    assert_int_equal(or_dsession_ask(&session, &request), OR_ERR_MISMATCH);
    request.round = 0; // long ago: nobody waits for it
    assert_int_equal(or_dsession_ask(&session, &request), OR_OK);
    assert_false(or_dsession_is_asked(&session));
    or_dsession_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_survives_its_questions),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
