// Goal: a verifier whose model runs on a device gives the CPU's verdicts, and of rows where only the winner counts
// no logits come over.
// Method: the emulated device and the CPU judge the same random trees, of two sessions in one pass. A scout on the CPU
// has written the texts before, one plain step after the other, so some guesses are right; verdicts are compared
// with each other and with its text. The model counts the rows whose whole logits it fetched. The device's clock
// moves by a millisecond whenever it is looked at.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "common/model/model_draws.h"
#include "proto/wire/message.h"
#include "tests/support/test_support.h"
#include "verifier/session.h"

#define SKIPPED 77 // what CTest takes for it
#define TEXTS 2u
#define PROMPT 3u
#define LENGTH 14u // tokens that are written
#define NODES 12u
#define ROWS (TEXTS * (PROMPT + NODES + 1))

static const uint32_t prompt[PROMPT] = {1, 458, 1112};

typedef struct {
    or_model_t *model;
    or_judge_t *judge;
    or_vsession_t texts[TEXTS];
} side_t;

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    uint64_t rng;
    side_t cpu, gpu, scout;
    int32_t written[TEXTS][LENGTH]; // by the scout
    uint32_t accepted;
} bench_t;

// A tree as it travels; its first nodes are a path of right guesses.
typedef struct {
    uint32_t tokens[NODES], back[NODES];
    uint32_t count;
} guesses_t;

static uint32_t below(bench_t *b, uint32_t n)
{
    return (uint32_t)test_below(&b->rng, n);
}

static int64_t tick(const or_clock_t *clock)
{
    static int64_t now_ns;
    (void)clock;
    return now_ns += OR_NS_PER_MS;
}

static const or_clock_t ticking = {.now_ns = tick};

// ---- sides ----

static void open_side(const bench_t *b, const or_gpu_choice_t *gpu, side_t *side)
{
    const or_model_options_t options = {
        .threads = 1, .context_max = 64, .rows_max = ROWS, .gpu = gpu};
    assert_int_equal(or_model_load(b->gguf, &options, &side->model), OR_OK);
    const or_clock_t *clock = gpu != NULL ? &ticking : or_clock_monotonic();
    assert_int_equal(or_judge_create(side->model, b->vocab, clock, NODES, &side->judge), OR_OK);
}

static void close_side(side_t *side)
{
    or_judge_destroy(&side->judge);
    or_model_destroy(&side->model);
}

static int open_bench(void **state)
{
    static bench_t bench;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    memset(&bench, 0, sizeof bench);
    bench.rng = test_seed();
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &bench.gguf), OR_OK);
    assert_int_equal(or_vocab_load(bench.gguf, &bench.vocab), OR_OK);
    open_side(&bench, NULL, &bench.cpu);
    open_side(&bench, NULL, &bench.scout);
    open_side(&bench, &choice, &bench.gpu);
    *state = &bench;
    return 0;
}

static int close_bench(void **state)
{
    bench_t *b = *state;
    close_side(&b->gpu);
    close_side(&b->scout);
    close_side(&b->cpu);
    or_vocab_destroy(&b->vocab);
    or_gguf_close(&b->gguf);
    return 0;
}

// ---- sessions ----

static void open_text(side_t *side, uint32_t t, const or_open_session_t *terms)
{
    const or_prefix_t prefix = {
        .tokens = prompt, .count = PROMPT, .hash = or_prefix_hash(0, prompt, PROMPT), .round = 1};
    or_vsession_t *text = &side->texts[t];
    *text = (or_vsession_t){0};
    if (or_vsession_open(text, side->judge, (or_session_id_t){t + 1}, terms) != OR_OK ||
        or_vsession_prefix(text, side->judge, &prefix) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void queue(side_t *side, uint32_t t, const guesses_t *guesses)
{
    or_vsession_t *text = &side->texts[t];
    const or_draft_tree_t tree = {.round = text->round + 1,
                                  .base_length = text->log.length,
                                  .base_hash = text->log.hash,
                                  .tokens = guesses->tokens,
                                  .back = guesses->back,
                                  .count = guesses->count};
    or_tree_fate_t fate;
    if (or_vsession_tree(text, side->judge, &tree, &fate) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    assert_int_equal(fate, OR_TREE_QUEUED);
}

// A pass with the trees of all texts, behind what is left of their prompts, and its judgements.
static void judge(side_t *side)
{
    or_model_row_t rows[ROWS];
    uint32_t count = 0, first[TEXTS];
    for (uint32_t t = 0; t < TEXTS; t++) {
        uint32_t left = or_vsession_prefill_left(&side->texts[t]);
        or_vsession_put_prefix(&side->texts[t], left, rows + count);
        count += left;
    }
    for (uint32_t t = 0; t < TEXTS; t++) {
        first[t] = count;
        or_vsession_put_tree(&side->texts[t], rows + count);
        count += side->texts[t].tree_rows;
    }
    assert_int_equal(or_model_forward(side->model, rows, count), OR_OK);
    or_judge_renew(side->judge, count);
    for (uint32_t t = 0; t < TEXTS; t++) {
        or_vsession_put_contests(&side->texts[t], side->judge, first[t]);
    }
    for (uint32_t t = 0; t < TEXTS; t++) {
        assert_int_equal(or_vsession_judge(&side->texts[t], side->judge, first[t], 0), OR_OK);
    }
}

static void assert_same_verdicts(const bench_t *b, uint32_t t)
{
    const or_verdict_t *a = &b->gpu.texts[t].verdict;
    const or_verdict_t *c = &b->cpu.texts[t].verdict;
    assert_int_equal(a->accepted_count, c->accepted_count);
    assert_memory_equal(a->accepted, c->accepted, a->accepted_count * sizeof *a->accepted);
    assert_int_equal(a->next, c->next);
    assert_int_equal(a->finish, c->finish);
    assert_int_equal(a->hash, c->hash);
}

// ---- texts ----

static void write_texts(bench_t *b)
{
    const guesses_t none = {.count = 0};
    for (uint32_t i = 0; i < LENGTH; i++) {
        for (uint32_t t = 0; t < TEXTS; t++) {
            queue(&b->scout, t, &none);
        }
        judge(&b->scout);
        for (uint32_t t = 0; t < TEXTS; t++) {
            b->written[t][i] = (int32_t)b->scout.texts[t].verdict.next;
        }
    }
}

// One that is nowhere in the tree: siblings differ.
static uint32_t another_token(bench_t *b, const guesses_t *guesses)
{
    uint32_t token = below(b, or_vocab_size(b->vocab));
    for (uint32_t i = 0; i < guesses->count; i++) {
        if (guesses->tokens[i] == token) {
            return another_token(b, guesses);
        }
    }
    return token;
}

// Some tokens of the text as it goes on from `at`, and random ones below the root or any of them.
static guesses_t guess(bench_t *b, uint32_t t, uint32_t at)
{
    guesses_t guesses = {.count = 0};
    uint32_t right = below(b, 5);
    right = right < LENGTH - at ? right : LENGTH - at;
    for (uint32_t i = 0; i < right; i++) {
        guesses.tokens[guesses.count] = (uint32_t)b->written[t][at + i];
        guesses.back[guesses.count++] = 1;
    }
    for (uint32_t wrong = below(b, NODES - right); wrong > 0; wrong--) {
        guesses.tokens[guesses.count] = another_token(b, &guesses);
        guesses.back[guesses.count] = 1 + below(b, guesses.count + 1);
        guesses.count++;
    }
    return guesses;
}

static void check_text(const bench_t *b, uint32_t t)
{
    const or_token_log_t *log = &b->gpu.texts[t].log;
    uint32_t count = log->length - PROMPT < LENGTH ? log->length - PROMPT : LENGTH;
    assert_memory_equal(log->tokens + PROMPT, b->written[t], count * sizeof(int32_t));
}

// Two texts on these terms; returns how many rows came over whole.
static uint64_t check(bench_t *b, const or_open_session_t terms[TEXTS])
{
    uint64_t before = or_model_whole_rows(b->gpu.model);
    for (uint32_t t = 0; t < TEXTS; t++) {
        open_text(&b->cpu, t, &terms[t]);
        open_text(&b->gpu, t, &terms[t]);
        open_text(&b->scout, t, &terms[t]);
    }
    write_texts(b);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t t = 0; t < TEXTS; t++) {
            uint32_t at = b->cpu.texts[t].log.length - PROMPT;
            guesses_t guesses = guess(b, t, at < LENGTH ? at : LENGTH);
            queue(&b->cpu, t, &guesses);
            queue(&b->gpu, t, &guesses);
        }
        judge(&b->cpu);
        judge(&b->gpu);
        for (uint32_t t = 0; t < TEXTS; t++) {
            assert_same_verdicts(b, t);
            check_text(b, t);
            b->accepted += b->cpu.texts[t].verdict.accepted_count;
        }
    }
    for (uint32_t t = 0; t < TEXTS; t++) {
        or_vsession_close(&b->cpu.texts[t]);
        or_vsession_close(&b->gpu.texts[t]);
        or_vsession_close(&b->scout.texts[t]);
    }
    return or_model_whole_rows(b->gpu.model) - before;
}

// ---- terms ----

static or_open_session_t terms_of(bench_t *b, or_accept_rule_t rule)
{
    or_open_session_t terms = {.sampling = or_sampling_default(),
                               .accept_rule = rule,
                               .draft_method = or_accept_rule_usual_method(rule),
                               .draft_nodes = NODES,
                               .draft_depth = NODES,
                               .draft_temperature = 1,
                               .noise_key = test_random(&b->rng),
                               .private_key = test_random(&b->rng),
                               .prompt_length = PROMPT};
    terms.sampling.temperature = rule == OR_ACCEPT_GREEDY ? 0 : 1;
    return terms;
}

static or_open_session_t random_terms(bench_t *b)
{
    static const or_accept_rule_t rules[] = {OR_ACCEPT_COUPLED, OR_ACCEPT_NAIVE, OR_ACCEPT_GREEDY};
    static const float temperatures[] = {0, 0.3F, 0.6F, 0.8F, 1};
    static const uint32_t top_ks[] = {0, 1, 5, 40};
    or_accept_rule_t rule = rules[below(b, 3)];
    or_open_session_t terms = terms_of(b, rule);
    terms.sampling.temperature = rule == OR_ACCEPT_GREEDY ? 0 : temperatures[below(b, 5)];
    terms.sampling.top_k = top_ks[below(b, 4)];
    terms.sampling.top_p = below(b, 2) == 0 ? 1 : 0.6F;
    terms.sampling.min_p = below(b, 2) == 0 ? 0 : 0.05F;
    return terms;
}

// ---- tests ----

static void the_winner_is_the_same_and_comes_alone(void **state)
{
    bench_t *b = *state;
    for (uint32_t i = test_runs(3); i > 0; i--) {
        const or_open_session_t terms[TEXTS] = {random_terms(b), random_terms(b)};
        assert_int_equal(check(b, terms), 0);
    }
    assert_true(b->accepted > 0);
}

// So flat a distribution that top-p keeps thousands of tokens.
static void what_the_device_leaves_open_is_decided_here(void **state)
{
    bench_t *b = *state;
    or_open_session_t terms[TEXTS] = {terms_of(b, OR_ACCEPT_COUPLED), terms_of(b, OR_ACCEPT_NAIVE)};
    terms[0].sampling.temperature = 100;
    terms[0].sampling.top_p = 0.9F;
    assert_true(check(b, terms) > 0);
}

static void who_needs_the_logits_has_them(void **state)
{
    bench_t *b = *state;
    const or_logit_bias_t bias = {631, 2};
    or_open_session_t terms[TEXTS] = {terms_of(b, OR_ACCEPT_COUPLED), terms_of(b, OR_ACCEPT_NAIVE)};
    terms[0].sampling.repeat_penalty = 1.3F;
    terms[1].sampling.bias = &bias;
    terms[1].sampling.bias_count = 1;
    assert_true(check(b, terms) > 0);
    terms[0] = terms_of(b, OR_ACCEPT_COUPLED);
    terms[1] = terms_of(b, OR_ACCEPT_GREEDY);
    terms[1].logprobs = 3;
    assert_true(check(b, terms) > 0);
}

// The contenders of both texts' rows are found at once, when the first is judged: within a look at the clock and the
// next.
static void time_is_shared_by_rows(void **state)
{
    bench_t *b = *state;
    const or_open_session_t terms = terms_of(b, OR_ACCEPT_GREEDY);
    uint32_t rows = 0;
    for (uint32_t t = 0; t < TEXTS; t++) {
        guesses_t guesses = {.count = 0};
        for (uint32_t i = 0; i < 2 * t + 1; i++) {
            guesses.tokens[guesses.count] = another_token(b, &guesses);
            guesses.back[guesses.count++] = 1;
        }
        open_text(&b->gpu, t, &terms);
        queue(&b->gpu, t, &guesses);
        rows += b->gpu.texts[t].tree_rows;
    }
    judge(&b->gpu);
    for (uint32_t t = 0; t < TEXTS; t++) {
        or_vsession_t *text = &b->gpu.texts[t];
        assert_int_equal(text->verdict.forward_us, OR_NS_PER_MS / rows * text->tree_rows / 1000);
        or_vsession_close(text);
    }
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_winner_is_the_same_and_comes_alone),
        cmocka_unit_test(what_the_device_leaves_open_is_decided_here),
        cmocka_unit_test(who_needs_the_logits_has_them),
        cmocka_unit_test(time_is_shared_by_rows),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
