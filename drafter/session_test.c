// Goal: what a drafter keeps in its cache from round to round is what it would compute anew; what
// does not fit changes nothing.
// Method: a long session is driven by random verdicts, replays and losses of pages; after each its
// next tree must be that of a session that was opened just now and given the whole prefix. Chains
// at temperature 1 show a wrong K or V at once: they follow the model's own law, with nothing
// learnt on the way.
#include "drafter/session.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "tests/support/test_support.h"

#define STEPS 80
#define PROMPT 3

static or_gguf_t *gguf;
static or_vocab_t *vocab;
static or_model_t *model;
static or_dshared_t shared;

static int setup(void **state)
{
    (void)state;
    const or_model_options_t options = {.threads = 1, .pages_max = 64};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    shared = (or_dshared_t){model, vocab, or_clock_monotonic(), 64};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

static or_open_session_t terms(void)
{
    or_open_session_t open = {.sampling = or_sampling_default(),
                              .accept_rule = OR_ACCEPT_COUPLED,
                              .draft_method = OR_DRAFT_CHAIN,
                              .draft_nodes = 6,
                              .draft_depth = 6,
                              .draft_temperature = 1,
                              .noise_key = 42,
                              .prompt_length = PROMPT};
    open.sampling.temperature = 1;
    return open;
}

// A session that holds `log` and is about to draft `round`.
static void open_with(or_dsession_t *session, const or_token_log_t *log, uint64_t round)
{
    const or_open_session_t open = terms();
    const or_prefix_t prefix = or_token_log_prefix(log, 0, round);
    bool again = true;
    memset(session, 0, sizeof *session);
    assert_int_equal(or_dsession_open(session, &shared, (or_session_id_t){1}, &open), OR_OK);
    assert_int_equal(or_dsession_prefix(session, &shared, &prefix, &again), OR_OK);
    assert_false(again);
}

// Draft, and compare with a session that never knew anything but the prefix.
static void draft_as_anew(or_dsession_t *session)
{
    or_dsession_t anew;
    assert_int_equal(or_dsession_draft(session, &shared), OR_OK);
    open_with(&anew, &session->log, session->round);
    assert_int_equal(or_dsession_draft(&anew, &shared), OR_OK);
    uint32_t count = or_token_tree_count(session->tree);
    assert_int_equal(count, or_token_tree_count(anew.tree));
    assert_memory_equal(or_token_tree_tokens(session->tree), or_token_tree_tokens(anew.tree),
                        (count + 1) * sizeof(int32_t));
    or_dsession_close(&anew);
}

// The verdict that accepts the first `accepted` nodes of the session's chain, and then `next`.
static or_verdict_t verdict_on(const or_dsession_t *session, uint32_t *path, uint32_t accepted,
                               uint32_t next)
{
    uint64_t hash = session->log.hash;
    for (uint32_t i = 0; i < accepted; i++) {
        path[i] = i + 1;
        hash =
            or_prefix_hash(hash, (const uint32_t *)&or_token_tree_tokens(session->tree)[i + 1], 1);
    }
    return (or_verdict_t){.round = session->round,
                          .base_length = session->log.length,
                          .accepted = path,
                          .accepted_count = accepted,
                          .next = next,
                          .hash = or_prefix_hash(hash, &next, 1)};
}

static void take_verdict(or_dsession_t *session, uint32_t accepted, uint32_t next)
{
    uint32_t path[8];
    const or_verdict_t verdict = verdict_on(session, path, accepted, next);
    assert_int_equal(or_dsession_verdict(session, &shared, &verdict), OR_OK);
    assert_int_equal(session->log.hash, verdict.hash);
}

// The coordinator tells another story from some token on.
static void take_replay(or_dsession_t *session, uint64_t *random)
{
    uint32_t tokens[512];
    uint32_t start = (uint32_t)test_below(random, session->log.length - PROMPT) + PROMPT;
    uint32_t count = 1 + (uint32_t)test_below(random, 4);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = 300 + (uint32_t)test_below(random, 3000);
    }
    uint64_t hash = or_prefix_hash(0, (const uint32_t *)session->log.tokens, start);
    const or_prefix_t prefix = {.start = start,
                                .tokens = tokens,
                                .count = count,
                                .hash = or_prefix_hash(hash, tokens, count),
                                .round = session->round + 1};
    bool again = true;
    assert_int_equal(or_dsession_prefix(session, &shared, &prefix, &again), OR_OK);
    assert_false(again);
}

static void a_long_session_drafts_as_a_new_one(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    int32_t prompt[PROMPT] = {1, 458, 1112};
    or_token_log_t log;
    or_dsession_t session;
    assert_int_equal(or_token_log_init(&log, 8), OR_OK);
    assert_int_equal(or_token_log_append(&log, prompt, PROMPT), OR_OK);
    open_with(&session, &log, 1);
    draft_as_anew(&session);
    for (int step = 0; step < STEPS; step++) {
        uint32_t next = 300 + (uint32_t)test_below(&random, 3000);
        switch (test_below(&random, 6)) {
        case 0: // a plain round while our tree was late
            take_verdict(&session, 0, next);
            break;
        case 1: // two rounds that did not wait for us
            take_verdict(&session, 0, next);
            take_verdict(&session, 0, next + 1);
            break;
        case 2:
            take_replay(&session, &random);
            break;
        case 3: // the pages went to another session, then the tree was judged
            or_kv_sequence_truncate(session.kv, 0);
            take_verdict(&session, (uint32_t)test_below(&random, 7), next);
            break;
        default:
            take_verdict(&session, (uint32_t)test_below(&random, 7), next);
        }
        draft_as_anew(&session);
    }
    or_dsession_close(&session);
    or_token_log_fini(&log);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    int32_t prompt[PROMPT] = {1, 458, 1112};
    uint32_t path[8];
    bool again;
    or_token_log_t log;
    or_dsession_t session;
    assert_int_equal(or_token_log_init(&log, 8), OR_OK);
    assert_int_equal(or_token_log_append(&log, prompt, PROMPT), OR_OK);
    open_with(&session, &log, 1);
    draft_as_anew(&session);
    or_verdict_t verdict = verdict_on(&session, path, 2, 5);
    verdict.hash++;
    assert_int_equal(or_dsession_verdict(&session, &shared, &verdict), OR_ERR_MISMATCH);
    verdict = verdict_on(&session, path, 2, 5);
    path[1] = 4; // not the child of the first
    assert_int_equal(or_dsession_verdict(&session, &shared, &verdict), OR_ERR_MISMATCH);
    path[1] = 4000; // not a node
    assert_int_equal(or_dsession_verdict(&session, &shared, &verdict), OR_ERR_MISMATCH);
    verdict = verdict_on(&session, path, 2, 4096); // not a token
    assert_int_equal(or_dsession_verdict(&session, &shared, &verdict), OR_ERR_MISMATCH);
    verdict = verdict_on(&session, path, 0, 5);
    verdict.round = 9;
    assert_int_equal(or_dsession_verdict(&session, &shared, &verdict), OR_ERR_MISMATCH);
    const or_prefix_t nothing = {.round = 2};
    assert_int_equal(or_dsession_prefix(&session, &shared, &nothing, &again), OR_ERR_INVALID);
    assert_int_equal(session.log.length, PROMPT);
    take_verdict(&session, 3, 7); // and the right one is taken after all that
    draft_as_anew(&session);
    or_dsession_close(&session);
    or_token_log_fini(&log);
}

static void the_same_prefix_again_asks_for_the_tree_again(void **state)
{
    (void)state;
    int32_t prompt[PROMPT] = {1, 458, 1112};
    bool again = false;
    or_token_log_t log;
    or_dsession_t session;
    assert_int_equal(or_token_log_init(&log, 8), OR_OK);
    assert_int_equal(or_token_log_append(&log, prompt, PROMPT), OR_OK);
    open_with(&session, &log, 1);
    draft_as_anew(&session);
    const or_prefix_t prefix = or_token_log_prefix(&log, 0, 1);
    assert_int_equal(or_dsession_prefix(&session, &shared, &prefix, &again), OR_OK);
    assert_true(again);
    take_verdict(&session, 1, 9);
    assert_int_equal(or_dsession_prefix(&session, &shared, &prefix, &again), OR_OK); // old news
    assert_false(again);
    assert_int_equal(session.log.length, PROMPT + 2);
    or_dsession_close(&session);
    or_token_log_fini(&log);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_session_drafts_as_a_new_one),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(the_same_prefix_again_asks_for_the_tree_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
