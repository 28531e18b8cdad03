// Goal: a verifier whose model runs on a device gives the CPU's verdicts for the rule "recursive", and no logits come
// over where temperature is all that makes a distribution of them.
// Method: the emulated device and the CPU judge the same trees, round after round. A scout on the CPU draws them as a
// drafter would that has the target's own distributions, cut short, so some guesses are accepted and some are not. The
// model counts the rows whose whole logits it fetched.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "common/model/model_draws.h"
#include "proto/wire/message.h"
#include "tests/support/test_support.h"
#include "verifier/session.h"

#define SKIPPED 77 // what CTest takes for it
#define PROMPT 3u
#define NODES_FEW 12u
#define NODES_MANY 72u // more than whose logits a device has anyway
#define NODES_MAX 80u
#define ROUNDS 4u
#define ENTRIES 8u
#define ROOT UINT32_MAX

static const uint32_t prompt[PROMPT] = {1, 458, 1112};
// Tokens that the model often writes.
static const uint32_t stops[] = {4037, 13,   264,  4041, 284, 4044, 280,  281,
                                 302,  4048, 4025, 291,  261, 335,  4028, 299};

typedef struct {
    or_model_t *model;
    or_judge_t *judge;
    or_vsession_t text;
} side_t;

// A tree as it travels.
typedef struct {
    uint32_t tokens[NODES_MAX], back[NODES_MAX], dist_index[NODES_MAX], order[NODES_MAX];
    uint32_t dist_tokens[NODES_MAX + 1][OR_DISTRIBUTION_ENTRIES_MAX];
    uint32_t dist_weights[NODES_MAX + 1][OR_DISTRIBUTION_ENTRIES_MAX];
    or_reduced_distribution_t dists[NODES_MAX + 1];
    uint32_t count, dist_count;
} guesses_t;

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    uint64_t rng;
    side_t cpu, gpu;
    side_t cramped; // a device without room for the logits of many rows
    or_model_t *scout;
    or_kv_sequence_t *scouted;
    or_sampler_t *sampler;
    float *logits;
    guesses_t guesses;
    uint32_t accepted, rejected, stopped;
} bench_t;

static uint32_t below(bench_t *b, uint32_t n)
{
    return (uint32_t)test_below(&b->rng, n);
}

// ---- a device without room ----

static size_t bytes_most = SIZE_MAX;

static int alloc_some(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return bytes <= bytes_most ? or_gpu_functions()->alloc(cuda, bytes, at_p) : 1;
}

// ---- the bench ----

static void load(const bench_t *b, const or_gpu_choice_t *gpu, or_model_t **model)
{
    const or_model_options_t options = {
        .threads = 1, .context_max = 256, .rows_max = NODES_MAX + PROMPT, .gpu = gpu};
    assert_int_equal(or_model_load(b->gguf, &options, model), OR_OK);
}

static void open_side(const bench_t *b, const or_gpu_choice_t *gpu, side_t *side)
{
    load(b, gpu, &side->model);
    assert_int_equal(
        or_judge_create(side->model, b->vocab, or_clock_monotonic(), NODES_MAX, &side->judge),
        OR_OK);
}

static void open_cramped_side(bench_t *b)
{
    static or_gpu_functions_t functions;
    const or_gpu_choice_t choice = {.functions = &functions};
    functions = *or_gpu_functions();
    functions.alloc = alloc_some;
    load(b, &choice, &b->cramped.model);
    bytes_most = (size_t)NODES_MAX * or_vocab_size(b->vocab) * sizeof(float);
    assert_int_equal(or_judge_create(b->cramped.model, b->vocab, or_clock_monotonic(), NODES_MAX,
                                     &b->cramped.judge),
                     OR_OK);
    bytes_most = SIZE_MAX;
}

static void close_side(side_t *side)
{
    or_judge_destroy(&side->judge);
    or_model_destroy(&side->model);
}

static int open_bench(void **state)
{
    static bench_t bench;
    bench_t *b = &bench;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    memset(b, 0, sizeof *b);
    b->rng = test_seed();
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &b->gguf), OR_OK);
    assert_int_equal(or_vocab_load(b->gguf, &b->vocab), OR_OK);
    open_side(b, NULL, &b->cpu);
    open_side(b, &choice, &b->gpu);
    open_cramped_side(b);
    load(b, NULL, &b->scout);
    assert_int_equal(or_sampler_create(or_vocab_size(b->vocab), &b->sampler), OR_OK);
    b->logits = calloc(or_model_shape(b->scout)->vocab_size, sizeof *b->logits);
    assert_non_null(b->logits);
    *state = b;
    return 0;
}

static int close_bench(void **state)
{
    bench_t *b = *state;
    free(b->logits);
    or_sampler_destroy(&b->sampler);
    or_model_destroy(&b->scout);
    close_side(&b->cramped);
    close_side(&b->gpu);
    close_side(&b->cpu);
    or_vocab_destroy(&b->vocab);
    or_gguf_close(&b->gguf);
    return 0;
}

// ---- guesses ----

static void scout_row(bench_t *b, int32_t token, uint32_t slot, uint32_t parent_slot)
{
    const or_model_row_t row = {b->scouted, token, slot, parent_slot};
    assert_int_equal(or_model_forward(b->scout, &row, 1), OR_OK);
}

// All of the text, its last token too.
static void scout_text(bench_t *b)
{
    const or_token_log_t *log = &b->cpu.text.log;
    for (uint32_t i = or_kv_sequence_length(b->scouted); i < log->length; i++) {
        scout_row(b, log->tokens[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT);
    }
}

// The target's distribution behind the row that the scout ran last, cut short.
static void scout_dist(bench_t *b, uint32_t entries)
{
    guesses_t *g = &b->guesses;
    uint32_t at = g->dist_count++;
    assert_int_equal(or_model_logits(b->scout, 0, 1, b->logits), OR_OK);
    or_distribution_t dist =
        or_sampler_distribution(b->sampler, &b->cpu.text.terms.open.sampling, b->logits, NULL, 0);
    uint32_t count =
        or_distribution_reduce(&dist, entries, g->dist_tokens[at], g->dist_weights[at]);
    g->dists[at] = (or_reduced_distribution_t){g->dist_tokens[at], g->dist_weights[at], count};
}

static void add_child(bench_t *b, uint32_t parent, uint32_t token, uint32_t order)
{
    guesses_t *g = &b->guesses;
    uint32_t node = g->count++;
    g->tokens[node] = token;
    g->back[node] = parent == ROOT ? node + 1 : node - parent;
    g->dist_index[node] = g->dist_count - 1;
    g->order[node] = order;
}

// Tokens of the distribution that was scouted last, from a random one on.
static void add_children(bench_t *b, uint32_t parent, uint32_t count)
{
    const or_reduced_distribution_t *dist = &b->guesses.dists[b->guesses.dist_count - 1];
    uint32_t first = below(b, dist->count);
    for (uint32_t i = 0; i < count && i < dist->count; i++) {
        add_child(b, parent, dist->tokens[(first + i) % dist->count], i);
    }
}

static void guess(bench_t *b, uint32_t nodes)
{
    guesses_t *g = &b->guesses;
    g->count = g->dist_count = 0;
    scout_text(b);
    scout_dist(b, ENTRIES);
    add_children(b, ROOT, nodes == NODES_MANY ? 4 : below(b, 5));
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t parent = i - g->back[i]; // ROOT wraps around
        scout_row(b, (int32_t)g->tokens[i], i, parent == ROOT ? OR_KV_NO_SLOT : parent);
        if (g->count + 3 <= nodes) {
            scout_dist(b, ENTRIES);
            add_children(b, i, 1 + below(b, 3));
        }
    }
}

static void guess_few(bench_t *b)
{
    guess(b, NODES_FEW);
}

static void guess_many(bench_t *b)
{
    guess(b, NODES_MANY);
    assert_in_range(b->guesses.count, NODES_MANY - 2, NODES_MANY);
}

static void guess_wide(bench_t *b)
{
    b->guesses.count = b->guesses.dist_count = 0;
    scout_text(b);
    scout_dist(b, OR_DISTRIBUTION_ENTRIES_MAX);
    add_children(b, ROOT, NODES_MAX);
    assert_int_equal(b->guesses.count, NODES_MAX);
}

// ---- rounds ----

static void open_text(side_t *side, const or_open_session_t *terms)
{
    const or_prefix_t prefix = {
        .tokens = prompt, .count = PROMPT, .hash = or_prefix_hash(0, prompt, PROMPT), .round = 1};
    side->text = (or_vsession_t){0};
    if (or_vsession_open(&side->text, side->judge, (or_session_id_t){1}, terms) != OR_OK ||
        or_vsession_prefix(&side->text, side->judge, &prefix) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void judge(side_t *side, const guesses_t *g)
{
    or_vsession_t *text = &side->text;
    or_model_row_t rows[NODES_MAX + PROMPT];
    const or_draft_tree_t tree = {.round = text->round + 1,
                                  .base_length = text->log.length,
                                  .base_hash = text->log.hash,
                                  .tokens = g->tokens,
                                  .back = g->back,
                                  .count = g->count,
                                  .dist_index = g->dist_index,
                                  .dist_index_count = g->count,
                                  .draw_order = g->order,
                                  .draw_order_count = g->count,
                                  .dists = g->dists,
                                  .dist_count = g->dist_count};
    or_tree_fate_t fate;
    if (or_vsession_tree(text, side->judge, &tree, &fate) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    uint32_t first = or_vsession_prefill_left(text);
    or_vsession_put_prefix(text, first, rows);
    or_vsession_put_tree(text, rows + first);
    assert_int_equal(or_model_forward(side->model, rows, first + text->tree_rows), OR_OK);
    or_judge_renew(side->judge, first + text->tree_rows);
    assert_int_equal(or_vsession_judge(text, side->judge, first, 0), OR_OK);
}

static void compare(bench_t *b, const side_t *device)
{
    const or_verdict_t *a = &device->text.verdict;
    const or_verdict_t *c = &b->cpu.text.verdict;
    assert_int_equal(a->accepted_count, c->accepted_count);
    assert_memory_equal(a->accepted, c->accepted, a->accepted_count * sizeof *a->accepted);
    assert_int_equal(a->next, c->next);
    assert_int_equal(a->finish, c->finish);
    assert_int_equal(a->hash, c->hash);
    b->accepted += a->accepted_count;
    b->rejected += a->accepted_count == 0 && b->guesses.count > 0;
    b->stopped += a->finish == OR_FINISH_STOP;
}

// A text on these terms; returns how many rows came over whole.
static uint64_t check_on(bench_t *b, side_t *device, const or_open_session_t *terms,
                         void (*guess_tree)(bench_t *b), uint32_t rounds)
{
    uint64_t before = or_model_whole_rows(device->model);
    open_text(&b->cpu, terms);
    open_text(device, terms);
    assert_int_equal(or_model_open_sequence(b->scout, NODES_MAX, &b->scouted), OR_OK);
    for (uint32_t round = 0; round < rounds; round++) {
        guess_tree(b);
        judge(&b->cpu, &b->guesses);
        judge(device, &b->guesses);
        compare(b, device);
    }
    or_kv_sequence_close(&b->scouted);
    or_vsession_close(&device->text);
    or_vsession_close(&b->cpu.text);
    return or_model_whole_rows(device->model) - before;
}

static uint64_t check(bench_t *b, const or_open_session_t *terms, void (*guess_tree)(bench_t *b),
                      uint32_t rounds)
{
    return check_on(b, &b->gpu, terms, guess_tree, rounds);
}

static or_open_session_t terms_of(bench_t *b, float temperature)
{
    or_open_session_t terms = {.sampling = or_sampling_default(),
                               .accept_rule = OR_ACCEPT_RECURSIVE,
                               .draft_method = OR_DRAFT_RSD_C,
                               .draft_nodes = NODES_MAX,
                               .draft_depth = NODES_MAX,
                               .draft_temperature = 1,
                               .private_key = test_random(&b->rng),
                               .prompt_length = PROMPT};
    terms.sampling.temperature = temperature;
    return terms;
}

// ---- tests ----

static void the_path_is_the_same_and_comes_alone(void **state)
{
    bench_t *b = *state;
    static const float temperatures[] = {1, 0.8F, 0.4F, 1.5F};
    for (uint32_t i = 0; i < test_runs(4); i++) {
        or_open_session_t terms = terms_of(b, temperatures[i % 4]);
        terms.stop_ids = stops;
        terms.stop_count = i % 2 == 0 ? sizeof stops / sizeof *stops : 0;
        assert_int_equal(check(b, &terms, guess_few, ROUNDS), 0);
    }
    assert_true(b->accepted > 0);
    assert_true(b->rejected > 0);
    assert_true(b->stopped > 0);
}

static void so_is_that_of_a_large_tree(void **state)
{
    bench_t *b = *state;
    or_open_session_t terms = terms_of(b, 1);
    assert_int_equal(check(b, &terms, guess_many, ROUNDS / 2), 0);
    terms = terms_of(b, 1.5F);
    assert_int_equal(check(b, &terms, guess_wide, 1), 0);
}

static void a_tree_too_large_for_the_device_is_judged_here(void **state)
{
    bench_t *b = *state;
    or_open_session_t terms = terms_of(b, 1.5F);
    assert_true(check_on(b, &b->cramped, &terms, guess_wide, 1) > 0);
    assert_int_equal(check_on(b, &b->cramped, &terms, guess_few, 1), 0);
}

static void distributions_that_are_more_than_logits_are_judged_here(void **state)
{
    bench_t *b = *state;
    or_open_session_t terms = terms_of(b, 1);
    terms.sampling.top_p = 0.9F;
    assert_true(check(b, &terms, guess_few, 1) > 0);
    terms = terms_of(b, 1);
    terms.sampling.repeat_penalty = 1.2F;
    assert_true(check(b, &terms, guess_few, 1) > 0);
    terms = terms_of(b, 0);
    assert_true(check(b, &terms, guess_few, 1) > 0);
    terms = terms_of(b, 1);
    terms.logprobs = 2;
    assert_true(check(b, &terms, guess_few, 1) > 0);
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_the_same_and_comes_alone),
        cmocka_unit_test(so_is_that_of_a_large_tree),
        cmocka_unit_test(a_tree_too_large_for_the_device_is_judged_here),
        cmocka_unit_test(distributions_that_are_more_than_logits_are_judged_here),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
