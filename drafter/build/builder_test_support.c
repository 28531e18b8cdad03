#include "drafter/build/builder_test_support.h"

#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"

#define CHOICES_MAX 1024

const double markov[VOCAB][VOCAB] = {
    {0.30, 0.25, 0.20, 0.13, 0.07, 0.05, 0.00}, {0.05, 0.05, 0.50, 0.20, 0.10, 0.10, 0.00},
    {0.40, 0.10, 0.10, 0.10, 0.10, 0.20, 0.00}, {0.16, 0.16, 0.17, 0.17, 0.17, 0.17, 0.00},
    {0.00, 0.70, 0.00, 0.30, 0.00, 0.00, 0.00}, {0.00, 0.00, 1.00, 0.00, 0.00, 0.00, 0.00},
    {0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 1.00},
};

static or_gguf_t *gguf;
static or_vocab_t *vocab; // its widths only
or_builder_t *builder;
or_token_tree_t *tree;
or_belief_t belief;
or_calibration_t calibration;
uint32_t passes, rows;
static const int32_t history[] = {ROOT_TOKEN};

// ---- in the model's place ----

or_distribution_t dist_after(int32_t token)
{
    static int32_t ids[VOCAB];
    static double scores[VOCAB];
    uint32_t count = 0;
    for (int32_t next = 0; next < VOCAB; next++) {
        if (markov[token][next] > 0) {
            ids[count] = next;
            scores[count++] = log(markov[token][next]);
        }
    }
    return (or_distribution_t){.ids = ids, .scores = scores, .count = count};
}

void list_after(int32_t token, or_build_list_t *list)
{
    or_distribution_t dist = dist_after(token);
    list->count = 0;
    for (uint32_t i = 0; i < dist.count; i++) {
        uint32_t at = list->count++;
        for (; at > 0 && list->weights[at - 1] < dist.scores[i]; at--) {
            list->weights[at] = list->weights[at - 1];
            list->ids[at] = list->ids[at - 1];
        }
        list->weights[at] = dist.scores[i];
        list->ids[at] = dist.ids[i];
    }
}

static void read_guess(or_builder_t *b, uint32_t guess)
{
    assert_false(b->guesses[guess].expanded);
    b->guesses[guess].expanded = true;
    if (b->job->drawn) {
        or_distribution_t dist = dist_after(b->guesses[guess].token);
        or_build_distribution_set(b, guess, &dist);
    } else {
        list_after(b->guesses[guess].token, &b->lists[guess]);
    }
}

static or_status_t start(or_builder_t *b)
{
    read_guess(b, OR_BUILD_ROOT);
    return OR_OK;
}

static or_status_t expand(or_builder_t *b, const uint32_t *guesses, uint32_t count)
{
    passes++;
    rows += count;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(b->guesses[b->guesses[guesses[i]].parent].expanded);
        read_guess(b, guesses[i]);
    }
    return OR_OK;
}

// Passes every question on, counts the draws, and has seen no choice before.
typedef struct {
    or_chooser_t chooser;
    or_keyed_chooser_t keyed;
    or_choice_t seen[CHOICES_MAX];
    uint32_t asked, draws;
} witness_t;

static void note(witness_t *witness, or_choice_t at)
{
    assert_true(witness->asked < CHOICES_MAX);
    assert_int_equal(at.purpose, OR_RNG_DRAFT);
    assert_true(at.draw < 1u << 24);
    for (uint32_t i = 0; i < witness->asked; i++) {
        assert_false(witness->seen[i].node == at.node && witness->seen[i].draw == at.draw);
    }
    witness->seen[witness->asked++] = at;
}

static uint32_t noted_draw(or_chooser_t *chooser, or_choice_t at, const double *weights,
                           uint32_t count)
{
    witness_t *witness = (witness_t *)chooser;
    note(witness, at);
    witness->draws++;
    return witness->keyed.chooser.draw(&witness->keyed.chooser, at, weights, count);
}

static double noted_uniform(or_chooser_t *chooser, or_choice_t at)
{
    witness_t *witness = (witness_t *)chooser;
    note(witness, at);
    return witness->keyed.chooser.uniform(&witness->keyed.chooser, at);
}

int fake_setup(void **state)
{
    (void)state;
    const or_build_source_t source = {
        .vocab_size = VOCAB, .positions = 64, .start = start, .expand = expand};
    or_belief_init(&belief);
    if (or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf) != OR_OK ||
        or_vocab_load(gguf, &vocab) != OR_OK ||
        or_builder_create_over(&source, vocab, NODES, 8, &builder) != OR_OK ||
        or_token_tree_create(NODES, &tree) != OR_OK) {
        print_error("%s\n", or_error_text());
        return -1;
    }
    return 0;
}

int fake_teardown(void **state)
{
    (void)state;
    or_token_tree_destroy(&tree);
    or_builder_destroy(&builder);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

or_build_job_t job_of(or_draft_method_t method, or_accept_rule_t rule, or_shape_t shape)
{
    or_build_job_t job = {.history = history,
                          .history_count = 1,
                          .sampling = or_sampling_default(),
                          .draft_temperature = 1,
                          .shape = shape,
                          .calibration = &calibration,
                          .nodes_max = NODES,
                          .depth_max = 12,
                          .belief = &belief};
    job.sampling.temperature = rule == OR_ACCEPT_GREEDY ? 0 : 1;
    or_build_job_suit(&job, method, rule);
    job.noisy = false; // lists are without noise here
    return job;
}

uint32_t build(or_draft_method_t method, or_build_job_t job, uint64_t round)
{
    static witness_t witness;
    witness =
        (witness_t){.chooser = {.draw = noted_draw, .uniform = noted_uniform},
                    .keyed = or_keyed_chooser((or_rng_key_t){99}, round, (or_rng_key_t){0}, NULL)};
    job.chooser = &witness.chooser;
    passes = rows = 0;
    if (or_builder_build(builder, method, &job, tree) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return witness.draws;
}

uint32_t children_of(uint32_t node, bool distinct)
{
    uint32_t count = 0;
    for (uint32_t child = or_token_tree_first_child(tree, node); child != 0;
         child = or_token_tree_next_sibling(tree, child)) {
        count += !distinct ||
                 or_token_tree_find_child(tree, node, or_token_tree_tokens(tree)[child]) == child;
    }
    return count;
}

bool is_repeated(uint32_t node)
{
    uint32_t parent = or_token_tree_parents(tree)[node];
    return node != 0 &&
           or_token_tree_find_child(tree, parent, or_token_tree_tokens(tree)[node]) != node;
}

void assert_draws(or_accept_rule_t rule)
{
    const or_draws_t *draws = or_builder_draws(builder);
    assert_non_null(draws);
    if (rule != OR_ACCEPT_NAIVE && or_draws_check(draws, tree, rule, VOCAB) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
        uint32_t tokens[VOCAB], weights[VOCAB];
        uint32_t parent = or_token_tree_parents(tree)[node];
        or_distribution_t dist = dist_after(or_token_tree_tokens(tree)[parent]);
        uint32_t count = or_distribution_reduce(&dist, VOCAB, tokens, weights);
        const or_reduced_distribution_t *sent = &draws->dists[draws->dist_index[node - 1]];
        assert_int_equal(sent->count, count);
        assert_memory_equal(sent->tokens, tokens, count * sizeof *tokens);
        assert_memory_equal(sent->weights, weights, count * sizeof *weights);
    }
}
