// Goal: a drafter that is fed by prefixes, as one with another vocabulary is, drafts what one fed by
// verdicts drafts, computes no more, and learns the same; it keeps to the map of its session.
// Method: two sessions of a kind go through the same rounds, one with verdicts, the other with the
// tails of the text; their trees, caches and all they learnt must be equal. Boundaries that are
// tokenised again are compared with a session that was opened just now. A map must do what a bias of
// -infinity on every token it lacks does, which is another piece of code.
#include "drafter/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define PROMPT 3
#define ROUNDS 40
#define NODES 10

static const int32_t prompt[PROMPT] = {1, 458, 1112};

static or_gguf_t *gguf, *second_gguf;
static or_vocab_t *vocab;
static or_model_t *model, *second; // of one vocabulary
static uint32_t vocab_size;
static or_maps_t maps;

// A session and what it would share with others of its process.
typedef struct {
    or_dshared_t shared;
    or_calibrations_t calibrations;
    or_dsession_t session;
} party_t;

static party_t fed, tailed;

static int setup(void **state)
{
    (void)state;
    const or_model_options_t options = {.threads = 1, .pages_max = 64};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    assert_int_equal(or_gguf_open(test_model("tales-6m-f16.gguf"), &second_gguf), OR_OK);
    assert_int_equal(or_model_load(second_gguf, &options, &second), OR_OK);
    vocab_size = or_vocab_size(vocab);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_maps_fini(&maps);
    or_model_destroy(&second);
    or_gguf_close(&second_gguf);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

// ---- parties ----

static or_open_session_t terms(or_draft_method_t method, or_accept_rule_t rule)
{
    or_open_session_t open = {.sampling = or_sampling_default(),
                              .accept_rule = rule,
                              .draft_method = method,
                              .draft_nodes = NODES,
                              .draft_depth = 6,
                              .draft_temperature = 1,
                              .noise_key = 42,
                              .draft_key = 43,
                              .distribution_entries = OR_DISTRIBUTION_ENTRIES,
                              .prompt_length = PROMPT};
    open.sampling.temperature = rule == OR_ACCEPT_GREEDY ? 0 : 1;
    return open;
}

static or_status_t try_open(party_t *party, const or_open_session_t *open)
{
    memset(party, 0, sizeof *party);
    party->shared = (or_dshared_t){.model = model,
                                   .vocab = vocab,
                                   .clock = or_clock_monotonic(),
                                   .nodes_max = 64,
                                   .calibrations = &party->calibrations,
                                   .maps = &maps,
                                   .more_models = &second,
                                   .more_count = 1};
    return or_dsession_open(&party->session, &party->shared, (or_session_id_t){1}, open);
}

static void take_prefix(party_t *party, const or_prefix_t *prefix)
{
    bool again = true;
    assert_int_equal(or_dsession_prefix(&party->session, &party->shared, prefix, &again), OR_OK);
    assert_false(again);
    assert_true(party->session.wanted);
}

static void take_verdict(party_t *party, const or_verdict_t *verdict)
{
    assert_int_equal(or_dsession_verdict(&party->session, &party->shared, verdict), OR_OK);
}

// A session that holds `tokens` and is about to draft `round`.
static void open_with(party_t *party, const or_open_session_t *open, const int32_t *tokens,
                      uint32_t count, uint64_t round)
{
    const or_prefix_t prefix = {.tokens = (const uint32_t *)tokens,
                                .count = count,
                                .hash = or_prefix_hash(0, (const uint32_t *)tokens, count),
                                .round = round};
    assert_int_equal(try_open(party, open), OR_OK);
    take_prefix(party, &prefix);
}

static void draft(party_t *party)
{
    assert_int_equal(or_dsession_draft(&party->session, &party->shared), OR_OK);
}

static void assert_same_trees(const or_dsession_t *a, const or_dsession_t *b)
{
    uint32_t count = or_token_tree_count(a->tree);
    assert_int_equal(count, or_token_tree_count(b->tree));
    assert_memory_equal(or_token_tree_tokens(a->tree), or_token_tree_tokens(b->tree),
                        (count + 1) * sizeof(int32_t));
    assert_memory_equal(or_token_tree_parents(a->tree), or_token_tree_parents(b->tree),
                        (count + 1) * sizeof(uint32_t));
}

static void draft_as_anew(party_t *party, const or_open_session_t *open)
{
    static party_t anew;
    const or_token_log_t *log = &party->session.log;
    draft(party);
    open_with(&anew, open, log->tokens, log->length, party->session.round);
    draft(&anew);
    assert_same_trees(&party->session, &anew.session);
    or_dsession_close(&anew.session);
}

// ---- what became of a tree ----

typedef struct {
    uint32_t path[NODES];
    uint32_t tokens[NODES + 1]; // those of the path, then `next`
    uint32_t accepted;
    int32_t next;
    uint64_t hash; // with all of them
} outcome_t;

static uint32_t some_child(const or_token_tree_t *tree, uint32_t node, uint64_t *random)
{
    uint32_t found = or_token_tree_first_child(tree, node);
    uint32_t next = found != 0 ? or_token_tree_next_sibling(tree, found) : 0;
    return next != 0 && test_below(random, 3) == 0 ? next : found;
}

// Down to `depth` levels of the tree, then a token that is not in it.
static outcome_t outcome_of(const or_dsession_t *session, uint32_t depth, uint64_t *random)
{
    outcome_t outcome = {0};
    const or_token_tree_t *tree = session->tree;
    uint32_t node = 0;
    for (uint32_t child = some_child(tree, 0, random); child != 0 && outcome.accepted < depth;
         child = some_child(tree, node, random)) {
        node = or_token_tree_find_child(tree, node, or_token_tree_tokens(tree)[child]);
        outcome.tokens[outcome.accepted] = (uint32_t)or_token_tree_tokens(tree)[node];
        outcome.path[outcome.accepted++] = node;
    }
    do {
        outcome.next = (int32_t)test_below(random, vocab_size);
    } while (or_token_tree_find_child(tree, node, outcome.next) != 0);
    outcome.tokens[outcome.accepted] = (uint32_t)outcome.next;
    outcome.hash = or_prefix_hash(session->log.hash, outcome.tokens, outcome.accepted + 1);
    return outcome;
}

static or_verdict_t verdict_of(const or_dsession_t *session, const outcome_t *outcome)
{
    return (or_verdict_t){.round = session->round,
                          .base_length = session->log.length,
                          .accepted = outcome->path,
                          .accepted_count = outcome->accepted,
                          .next = (uint32_t)outcome->next,
                          .hash = outcome->hash};
}

static or_prefix_t tail_of(const or_dsession_t *session, const outcome_t *outcome)
{
    return (or_prefix_t){.start = session->log.length,
                         .tokens = outcome->tokens,
                         .count = outcome->accepted + 1,
                         .hash = outcome->hash,
                         .round = session->round + 1,
                         .judged = true,
                         .accepted = outcome->accepted,
                         .next = outcome->next};
}

static void assert_same_state(void)
{
    const or_dsession_t *a = &fed.session, *b = &tailed.session;
    assert_int_equal(a->log.length, b->log.length);
    assert_int_equal(a->round, b->round);
    for (uint32_t i = 0; i < a->lane_count; i++) {
        assert_int_equal(or_kv_sequence_length(a->lanes[i].kv),
                         or_kv_sequence_length(b->lanes[i].kv));
    }
    assert_memory_equal(&a->belief, &b->belief, sizeof a->belief);
    assert_memory_equal(&fed.calibrations, &tailed.calibrations, sizeof fed.calibrations);
}

// ---- tails of the text ----

static void go_through_rounds(or_draft_method_t method, or_accept_rule_t rule)
{
    uint64_t random = test_seed();
    const or_open_session_t open = terms(method, rule);
    uint32_t kept = 0;
    open_with(&fed, &open, prompt, PROMPT, 1);
    open_with(&tailed, &open, prompt, PROMPT, 1);
    for (int round = 0; round < ROUNDS; round++) {
        draft(&fed);
        draft(&tailed);
        assert_same_trees(&fed.session, &tailed.session);
        assert_int_equal(fed.session.passes, tailed.session.passes);
        const outcome_t outcome =
            outcome_of(&fed.session, (uint32_t)test_below(&random, 7), &random);
        const or_verdict_t verdict = verdict_of(&fed.session, &outcome);
        const or_prefix_t tail = tail_of(&tailed.session, &outcome);
        uint32_t before = tailed.session.log.length;
        take_verdict(&fed, &verdict);
        take_prefix(&tailed, &tail);
        assert_same_state();
        kept += or_kv_sequence_length(tailed.session.lanes[0].kv) - before;
    }
    assert_true(method == OR_DRAFT_NGRAM || kept > ROUNDS / 2); // guesses that were not run again
    or_dsession_close(&fed.session);
    or_dsession_close(&tailed.session);
}

static void tails_do_what_verdicts_do(void **state)
{
    (void)state;
    go_through_rounds(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    go_through_rounds(OR_DRAFT_CHAIN, OR_ACCEPT_BLOCK);
    go_through_rounds(OR_DRAFT_SEQUOIA, OR_ACCEPT_RECURSIVE);
    go_through_rounds(OR_DRAFT_MULTI, OR_ACCEPT_MULTI_ROUND);
}

// The coordinator did not wait for our tree, but the text went along it, some rounds long.
static void a_late_tree_is_of_use(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const or_open_session_t open = terms(OR_DRAFT_CHAIN, OR_ACCEPT_COUPLED);
    open_with(&tailed, &open, prompt, PROMPT, 1);
    draft(&tailed);
    for (uint32_t depth = 0; depth <= 6; depth++) {
        const or_belief_t belief = tailed.session.belief;
        const outcome_t outcome = outcome_of(&tailed.session, depth, &random);
        or_prefix_t tail = tail_of(&tailed.session, &outcome);
        tail.round += depth;
        tail.judged = depth == 1; // of another tree than ours, then
        uint32_t before = tailed.session.log.length;
        take_prefix(&tailed, &tail);
        assert_int_equal(or_kv_sequence_length(tailed.session.lanes[0].kv),
                         before + (depth < 6 ? depth : 5)); // the last guess was never run
        assert_memory_equal(&belief, &tailed.session.belief, sizeof belief);
        draft_as_anew(&tailed, &open);
    }
    or_dsession_close(&tailed.session);
}

// The last tokens are tokenised again, as longer text asks for: what lies before is not recomputed,
// and the tree, which stood on another text, is of no use even where its tokens come again.
static void a_boundary_is_tokenised_again(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const or_open_session_t open = terms(OR_DRAFT_CHAIN, OR_ACCEPT_COUPLED);
    open_with(&tailed, &open, prompt, PROMPT, 1);
    draft(&tailed);
    for (int round = 0; round < ROUNDS; round++) {
        outcome_t outcome = outcome_of(&tailed.session, 3, &random);
        const or_token_log_t *log = &tailed.session.log;
        uint32_t back = 1 + (uint32_t)test_below(&random, 3);
        uint32_t start = log->length - back;
        uint32_t common = (uint32_t)test_below(&random, back); // sent, though it is not new
        uint32_t tokens[NODES];
        uint32_t count = 0;
        for (; count < common; count++) {
            tokens[count] = (uint32_t)log->tokens[start + count];
        }
        tokens[count++] = ((uint32_t)log->tokens[start + common] + 1) % vocab_size;
        for (uint32_t i = 0; i < outcome.accepted; i++) {
            tokens[count++] = outcome.tokens[i];
        }
        uint64_t hash = or_prefix_hash(0, (const uint32_t *)log->tokens, start);
        const or_prefix_t prefix = {.start = start,
                                    .tokens = tokens,
                                    .count = count,
                                    .hash = or_prefix_hash(hash, tokens, count),
                                    .round = tailed.session.round + 1};
        take_prefix(&tailed, &prefix);
        assert_int_equal(or_kv_sequence_length(tailed.session.lanes[0].kv), start + common);
        draft_as_anew(&tailed, &open);
    }
    or_dsession_close(&tailed.session);
}

// ---- judgements ----

static void what_does_not_fit_teaches_nothing(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const or_open_session_t open = terms(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    for (int fault = 0; fault < 6; fault++) {
        open_with(&tailed, &open, prompt, PROMPT, 1);
        if (fault != 0) {
            draft(&tailed);
        }
        const outcome_t outcome = outcome_of(&tailed.session, 1, &random);
        or_prefix_t tail = tail_of(&tailed.session, &outcome);
        const or_belief_t belief = tailed.session.belief;
        or_status_t expected = OR_OK;
        bool again;
        switch (fault) {
        case 0: // there was no tree
            break;
        case 1: // a path that the tokens do not show
            tail.accepted++;
            break;
        case 2:
            tail.accepted = UINT32_MAX;
            break;
        case 3: // of another round
            tail.round++;
            break;
        case 4:
            tail.next = (int32_t)vocab_size;
            expected = OR_ERR_INVALID;
            break;
        default:
            tail.next = OR_PREFIX_NO_TOKEN - 1;
            expected = OR_ERR_INVALID;
        }
        assert_int_equal(or_dsession_prefix(&tailed.session, &tailed.shared, &tail, &again),
                         expected);
        assert_memory_equal(&belief, &tailed.session.belief, sizeof belief);
        assert_int_equal(tailed.session.log.length,
                         expected == OR_OK ? PROMPT + tail.count : PROMPT);
        or_dsession_close(&tailed.session);
    }
}

// "No token of yours" teaches what a token that no list has teaches, and only once.
static void a_foreign_token_is_in_no_list(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const or_open_session_t open = terms(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    open_with(&fed, &open, prompt, PROMPT, 1);
    open_with(&tailed, &open, prompt, PROMPT, 1);
    draft(&fed);
    draft(&tailed);
    outcome_t outcome = outcome_of(&fed.session, 0, &random);
    outcome.next = 0; // <unk>, which the model never writes
    outcome.tokens[0] = 0;
    outcome.hash = or_prefix_hash(fed.session.log.hash, outcome.tokens, 1);
    const or_verdict_t verdict = verdict_of(&fed.session, &outcome);
    or_prefix_t tail = tail_of(&tailed.session, &outcome);
    const or_belief_t before = tailed.session.belief;
    bool again;
    tail.next = OR_PREFIX_NO_TOKEN;
    take_verdict(&fed, &verdict);
    take_prefix(&tailed, &tail);
    assert_same_state();
    assert_memory_not_equal(&before, &tailed.session.belief, sizeof before);
    assert_int_equal(or_dsession_prefix(&tailed.session, &tailed.shared, &tail, &again), OR_OK);
    draft(&tailed);
    assert_int_equal(or_dsession_prefix(&tailed.session, &tailed.shared, &tail, &again), OR_OK);
    assert_true(again);
    assert_memory_equal(&fed.session.belief, &tailed.session.belief, sizeof before);
    or_dsession_close(&fed.session);
    or_dsession_close(&tailed.session);
}

// Fewer guesses were accepted than the text shows: what came after them is `next`, also where the tree
// has it.
static void only_what_was_accepted_counts(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const or_open_session_t open = terms(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    open_with(&fed, &open, prompt, PROMPT, 1);
    open_with(&tailed, &open, prompt, PROMPT, 1);
    draft(&fed);
    draft(&tailed);
    outcome_t outcome = outcome_of(&fed.session, 2, &random);
    assert_int_equal(outcome.accepted, 2);
    outcome.accepted = 1;
    outcome.next = (int32_t)outcome.tokens[1];
    outcome.hash = or_prefix_hash(fed.session.log.hash, outcome.tokens, 2);
    const or_verdict_t verdict = verdict_of(&fed.session, &outcome);
    const or_prefix_t tail = tail_of(&tailed.session, &outcome);
    take_verdict(&fed, &verdict);
    take_prefix(&tailed, &tail);
    assert_memory_equal(&fed.session.belief, &tailed.session.belief, sizeof fed.session.belief);
    draft(&fed);
    draft(&tailed);
    assert_same_trees(&fed.session, &tailed.session);
    or_dsession_close(&fed.session);
    or_dsession_close(&tailed.session);
}

// ---- places ----

// The place is what the sender says, wherever the prompt ended; a verdict moves it on.
static void the_place_is_the_senders(void **state)
{
    (void)state;
    or_open_session_t open = terms(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    const uint32_t *widths = or_vocab_widths(vocab);
    const int32_t text[] = {1, 458, 1112, 731};
    bool again = false;
    open_with(&fed, &open, text, 4, 1); // the fourth token is completion
    draft(&fed);
    open.prompt_length = 1; // in whose tokens?
    assert_int_equal(try_open(&tailed, &open), OR_OK);
    or_prefix_t prefix = {.tokens = (const uint32_t *)text,
                          .count = 4,
                          .hash = fed.session.log.hash,
                          .round = 1,
                          .placed = true,
                          .byte_offset = widths[731]};
    take_prefix(&tailed, &prefix);
    draft(&tailed);
    assert_same_trees(&fed.session, &tailed.session);
    assert_int_equal(or_dsession_prefix(&tailed.session, &tailed.shared, &prefix, &again), OR_OK);
    assert_true(again);

    uint64_t random = test_seed();
    const outcome_t outcome = outcome_of(&fed.session, 2, &random);
    const or_verdict_t verdict = verdict_of(&fed.session, &outcome);
    take_verdict(&fed, &verdict);
    take_verdict(&tailed, &verdict);
    draft(&fed);
    draft(&tailed);
    assert_same_trees(&fed.session, &tailed.session);

    or_prefix_t elsewhere = or_token_log_prefix(&tailed.session.log, 0, tailed.session.round);
    elsewhere.placed = true;
    elsewhere.byte_offset = 1000;
    elsewhere.zero_width = 2;
    take_prefix(&tailed, &elsewhere); // the same text, but the tree was built for another place
    const or_noise_place_t place = or_dsession_place(&tailed.session, &tailed.shared);
    assert_int_equal(place.byte_offset, 1000);
    assert_int_equal(place.zero_width, 2);
    draft(&tailed);
    uint32_t count = or_token_tree_count(fed.session.tree);
    assert_true(count != or_token_tree_count(tailed.session.tree) ||
                memcmp(or_token_tree_tokens(fed.session.tree),
                       or_token_tree_tokens(tailed.session.tree),
                       (count + 1) * sizeof(int32_t)) != 0);
    or_dsession_close(&fed.session);
    or_dsession_close(&tailed.session);
}

// ---- maps ----

// Have a map of the tokens for which `lacks` is false; returns its hash.
static uint64_t put_map(bool (*lacks)(uint32_t token))
{
    int32_t *to = malloc(vocab_size * sizeof *to);
    assert_non_null(to);
    for (uint32_t i = 0; i < vocab_size; i++) {
        to[i] = lacks(i) ? OR_TOKEN_NONE : 0;
    }
    const or_vocab_map_t map = {.from_hash = or_vocab_hash(vocab),
                                .to = to,
                                .count = vocab_size,
                                .map_hash = or_vocab_map_hash(to, vocab_size)};
    assert_int_equal(or_maps_put(&maps, vocab, &map), OR_OK);
    free(to);
    return map.map_hash;
}

static bool lacks_most(uint32_t token)
{
    return token % 3 != 1;
}

// The target lacks as many tokens as there may be biases.
static bool lacks_many(uint32_t token)
{
    return token < OR_BIASES_MAX / 2 * 3 && lacks_most(token);
}

static bool lacks_all_but_731(uint32_t token)
{
    return token != 731;
}

static bool lacks_all(uint32_t token)
{
    (void)token;
    return true;
}

static void assert_same_draws(const or_draws_t *a, const or_draws_t *b)
{
    assert_int_equal(a->dist_count, b->dist_count);
    for (uint32_t i = 0; i < a->dist_count; i++) {
        uint32_t count = a->dists[i].count;
        assert_int_equal(count, b->dists[i].count);
        assert_memory_equal(a->dists[i].tokens, b->dists[i].tokens, count * sizeof(uint32_t));
        assert_memory_equal(a->dists[i].weights, b->dists[i].weights, count * sizeof(uint32_t));
    }
}

static void assert_kept_to_map(const or_dsession_t *session)
{
    for (uint32_t node = 1; node <= or_token_tree_count(session->tree); node++) {
        assert_false(lacks_many((uint32_t)or_token_tree_tokens(session->tree)[node]));
    }
}

// Every legal pair, with a filter: what is left is renormalised before any filter.
static void a_map_is_a_bias(void **state)
{
    (void)state;
    or_logit_bias_t *bias = malloc(vocab_size * sizeof *bias);
    uint32_t bias_count = 0;
    for (uint32_t i = 0; i < vocab_size; i++) {
        if (lacks_many(i)) {
            bias[bias_count++] = (or_logit_bias_t){(int32_t)i, -INFINITY};
        }
    }
    uint64_t map_hash = put_map(lacks_many);
    for (uint32_t method = OR_DRAFT_COUPLED; method < OR_DRAFT_NGRAM; method++) {
        for (uint32_t rule = OR_ACCEPT_COUPLED; rule <= OR_ACCEPT_LENIENT; rule++) {
            or_open_session_t open = terms((or_draft_method_t)method, (or_accept_rule_t)rule);
            if (or_methods_check(method, rule, open.sampling.temperature) != OR_OK) {
                continue;
            }
            open.sampling.top_k = 8;
            open.vocab_method = OR_VOCAB_TLI;
            open.map_hash = map_hash;
            open_with(&tailed, &open, prompt, PROMPT, 1);
            open.vocab_method = OR_VOCAB_SAME;
            open.map_hash = 0;
            open.sampling.bias = bias;
            open.sampling.bias_count = bias_count;
            open_with(&fed, &open, prompt, PROMPT, 1);
            draft(&fed);
            draft(&tailed);
            assert_true(or_token_tree_count(tailed.session.tree) > 0);
            assert_kept_to_map(&tailed.session);
            assert_same_trees(&fed.session, &tailed.session);
            if (or_accept_rule_uses_distributions(rule)) {
                assert_same_draws(or_merge_draws(fed.session.merge),
                                  or_merge_draws(tailed.session.merge));
            }
            or_dsession_close(&fed.session);
            or_dsession_close(&tailed.session);
        }
    }
    free(bias);
}

// A looked-up text goes on as far as its tokens may be guessed.
static void lookups_keep_to_the_map(void **state)
{
    (void)state;
    const int32_t text[] = {4, 7, 8, 10, 4}; // 8 is not in the map
    or_open_session_t open = terms(OR_DRAFT_NGRAM, OR_ACCEPT_COUPLED);
    open.map_hash = put_map(lacks_most);
    open_with(&tailed, &open, text, 5, 1);
    draft(&tailed);
    assert_int_equal(or_token_tree_count(tailed.session.tree), 1);
    assert_int_equal(or_token_tree_tokens(tailed.session.tree)[1], 7);
    or_dsession_close(&tailed.session);
}

// If a bias bans what the map leaves, guesses are bad, but none is banned by the map.
static void no_token_outside_is_ever_guessed(void **state)
{
    (void)state;
    const or_logit_bias_t bias = {731, -INFINITY};
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_KSEQ};
    for (int i = 0; i < 6; i++) {
        or_open_session_t open = terms(methods[i / 2], i < 2 ? OR_ACCEPT_COUPLED : OR_ACCEPT_NAIVE);
        open.map_hash = put_map(lacks_all_but_731);
        open.sampling.bias = &bias;
        open.sampling.bias_count = (uint32_t)i % 2;
        open_with(&tailed, &open, prompt, PROMPT, 1);
        draft(&tailed);
        assert_true(or_token_tree_count(tailed.session.tree) > 0);
        for (uint32_t node = 1; node <= or_token_tree_count(tailed.session.tree); node++) {
            assert_int_equal(or_token_tree_tokens(tailed.session.tree)[node], 731);
        }
        or_dsession_close(&tailed.session);
    }
}

static void a_session_holds_its_map(void **state)
{
    (void)state;
    or_open_session_t open = terms(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    open.vocab_method = OR_VOCAB_TLI;
    assert_int_equal(try_open(&tailed, &open), OR_ERR_INVALID); // which one?
    open.map_hash = 12345;
    assert_int_equal(try_open(&tailed, &open), OR_ERR_NOT_FOUND);
    open.map_hash = put_map(lacks_all);
    assert_int_equal(try_open(&tailed, &open), OR_ERR_INVALID);
    open.map_hash = put_map(lacks_most);
    assert_int_equal(try_open(&tailed, &open), OR_OK);
    assert_int_equal(tailed.session.map->kept.users, 1);
    or_dsession_close(&tailed.session);
    open.vocab_method = 99;
    assert_int_equal(try_open(&tailed, &open), OR_ERR_UNSUPPORTED);
    open.vocab_method = OR_VOCAB_TLI;
    open.draft_shape = (const uint32_t[]){0};
    open.draft_shape_count = 1;
    assert_int_equal(try_open(&tailed, &open), OR_ERR_INVALID);
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        assert_int_equal(maps.places[i].kept.users, 0);
    }
}

// ---- budgets ----

// Draft and let the target take nothing; the next tree may have `nodes` and be `depth` levels deep.
static uint32_t draft_on_budget(party_t *party, uint32_t nodes, uint32_t depth, bool by_verdict)
{
    or_dsession_t *session = &party->session;
    assert_int_equal(or_dsession_draft(session, &party->shared), OR_OK);
    uint32_t count = or_token_tree_count(session->tree);
    uint32_t next = 5;
    uint64_t hash = or_prefix_hash(session->log.hash, &next, 1);
    if (by_verdict) {
        const or_verdict_t verdict = {.round = session->round,
                                      .base_length = session->log.length,
                                      .next = next,
                                      .hash = hash,
                                      .draft_nodes = nodes,
                                      .draft_depth = depth};
        take_verdict(party, &verdict);
    } else {
        const or_prefix_t prefix = {.round = session->round + 1,
                                    .start = session->log.length,
                                    .tokens = &next,
                                    .count = 1,
                                    .hash = hash,
                                    .next = OR_PREFIX_NO_TOKEN,
                                    .draft_nodes = nodes,
                                    .draft_depth = depth};
        take_prefix(party, &prefix);
    }
    return count;
}

// A budget lasts until it is changed, and never exceeds what the session began with.
static void a_budget_is_kept_to(void **state)
{
    (void)state;
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_TOPK, OR_DRAFT_DYSPEC,
                                                OR_DRAFT_CHAIN};
    for (size_t i = 0; i < 2 * sizeof methods / sizeof *methods; i++) {
        or_draft_method_t method = methods[i / 2];
        or_accept_rule_t rule = method == OR_DRAFT_COUPLED ? OR_ACCEPT_COUPLED : OR_ACCEPT_NAIVE;
        bool by_verdict = i % 2 == 0;
        or_open_session_t open = terms(method, rule);
        party_t party;
        open_with(&party, &open, prompt, PROMPT, 1);
        uint32_t all = draft_on_budget(&party, 3, 0, by_verdict);
        assert_true(all > 3);
        assert_in_range(draft_on_budget(&party, 1, 0, by_verdict), 1, 3);
        assert_int_equal(draft_on_budget(&party, 1000, 0, by_verdict), 1);
        assert_in_range(draft_on_budget(&party, 0, 0, by_verdict), 4, NODES);
        assert_in_range(draft_on_budget(&party, 0, 0, by_verdict), 4, NODES);
        or_dsession_close(&party.session);
    }
}

static uint32_t depth_of_tree(const party_t *party)
{
    const or_token_tree_t *t = party->session.tree;
    uint32_t deepest = 0;
    for (uint32_t i = 1; i <= or_token_tree_count(t); i++) {
        uint32_t depth = or_token_tree_depths(t)[i];
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

// The same holds for levels; a chain shows how many it has.
static void a_tree_is_as_deep_as_told(void **state)
{
    (void)state;
    for (int by_verdict = 0; by_verdict < 2; by_verdict++) {
        or_open_session_t open = terms(OR_DRAFT_CHAIN, OR_ACCEPT_NAIVE);
        static const uint32_t told[] = {2, 1, 1000, 0, 0}, deep[] = {6, 2, 1, 6, 6};
        party_t party;
        open_with(&party, &open, prompt, PROMPT, 1);
        for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
            draft_on_budget(&party, 0, told[i], by_verdict == 1);
            assert_int_equal(depth_of_tree(&party), deep[i]);
        }
        or_dsession_close(&party.session);
    }
}

// A shape is built whole: part of it would be another one.
static void a_shape_is_not_cut(void **state)
{
    (void)state;
    or_open_session_t open = terms(OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE);
    party_t party;
    open_with(&party, &open, prompt, PROMPT, 1);
    uint32_t all = draft_on_budget(&party, 2, 0, true);
    assert_true(all > 2);
    assert_int_equal(draft_on_budget(&party, 0, 0, true), all);
    or_dsession_close(&party.session);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_do_what_verdicts_do),
        cmocka_unit_test(a_late_tree_is_of_use),
        cmocka_unit_test(a_boundary_is_tokenised_again),
        cmocka_unit_test(what_does_not_fit_teaches_nothing),
        cmocka_unit_test(a_foreign_token_is_in_no_list),
        cmocka_unit_test(only_what_was_accepted_counts),
        cmocka_unit_test(the_place_is_the_senders),
        cmocka_unit_test(a_map_is_a_bias),
        cmocka_unit_test(lookups_keep_to_the_map),
        cmocka_unit_test(no_token_outside_is_ever_guessed),
        cmocka_unit_test(a_session_holds_its_map),
        cmocka_unit_test(a_budget_is_kept_to),
        cmocka_unit_test(a_tree_is_as_deep_as_told),
        cmocka_unit_test(a_shape_is_not_cut),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
