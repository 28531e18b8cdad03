#include "drafter/build/builder.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "drafter/build/builder_internal.h"

#define LOGIT_BYTES (4u << 20) // of the rows whose logits are taken at once; at least one row is

typedef struct {
    or_draft_method_t method;
    or_status_t (*build)(or_builder_t *builder, uint32_t *count);
} method_row_t;

#define METHOD_ROW(constant, number, name, builder, rules, nature, traits)                         \
    {OR_DRAFT_##constant, or_build_##builder},
static const method_row_t methods[] = {OR_DRAFT_METHODS(METHOD_ROW)};

static const method_row_t *find_row(or_draft_method_t method)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].method == method) {
            return &methods[i];
        }
    }
    return NULL;
}

bool or_build_is_drawn(or_draft_method_t method, or_accept_rule_t rule)
{
    return or_accept_rule_uses_distributions(rule) || rule == OR_ACCEPT_SLRS ||
           (rule == OR_ACCEPT_NAIVE && or_draft_method_has(method, OR_DRAFT_SAMPLES));
}

void or_build_job_suit(or_build_job_t *job, or_draft_method_t method, or_accept_rule_t rule)
{
    job->noisy = rule == OR_ACCEPT_COUPLED && job->sampling.temperature > 0 &&
                 !or_draft_method_has(method, OR_DRAFT_NOISELESS);
    job->drawn = or_build_is_drawn(method, rule);
    job->replaced = job->drawn && or_draft_method_has(method, OR_DRAFT_REPLACES);
    job->repeats = or_accept_rule_counts_repeats(rule);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool allocate(or_builder_t *builder)
{
    size_t entries = (size_t)builder->nodes_max + 1;
    size_t row_bytes = builder->source.vocab_size * sizeof *builder->logits;
    builder->logit_rows = row_bytes < LOGIT_BYTES ? (uint32_t)(LOGIT_BYTES / row_bytes) : 1;
    builder->logits = calloc(builder->logit_rows, row_bytes);
    builder->perturbed = calloc((size_t)builder->source.vocab_size, sizeof *builder->perturbed);
    builder->history = calloc(builder->source.positions, sizeof *builder->history);
    builder->guesses = calloc(entries, sizeof *builder->guesses);
    builder->lists = calloc(entries, sizeof *builder->lists);
    builder->chosen = calloc(entries, sizeof *builder->chosen);
    builder->batch = calloc(entries, sizeof *builder->batch);
    builder->picked = calloc(entries, sizeof *builder->picked);
    builder->spare_slots = calloc((size_t)builder->slots_max + 1, sizeof *builder->spare_slots);
    builder->tree_guesses = calloc(entries, sizeof *builder->tree_guesses);
    return builder->logits != NULL && builder->perturbed != NULL && builder->history != NULL &&
           builder->guesses != NULL && builder->lists != NULL && builder->chosen != NULL &&
           builder->batch != NULL && builder->picked != NULL && builder->spare_slots != NULL &&
           builder->tree_guesses != NULL && or_build_distributions_create(builder);
}

or_status_t or_builder_create_over(const or_build_source_t *source, const or_vocab_t *vocab,
                                   uint32_t nodes_max, uint32_t distribution_entries,
                                   or_builder_t **builder_p)
{
    or_builder_t *builder = calloc(1, sizeof *builder);
    if (builder == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a tree builder");
    }
    builder->source = *source;
    builder->vocab = vocab;
    builder->nodes_max = nodes_max;
    builder->distribution_entries = distribution_entries;
    // Some of the guesses that are run ahead turn out not to belong to the tree.
    builder->slots_max =
        nodes_max + (source->foresee != NULL ? min_u32(nodes_max, OR_GROWTH_NODES_MAX) : 0);
    if (or_sampler_create(source->vocab_size, &builder->sampler) != OR_OK || !allocate(builder)) {
        or_builder_destroy(&builder);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a builder of trees of %u nodes", nodes_max);
    }
    *builder_p = builder;
    return OR_OK;
}

void or_builder_destroy(or_builder_t **builder_p)
{
    or_builder_t *builder = *builder_p;
    if (builder == NULL) {
        return;
    }
    or_sampler_destroy(&builder->sampler);
    free(builder->logits);
    free(builder->perturbed);
    free(builder->rows);
    free(builder->banned);
    free(builder->history);
    free(builder->guesses);
    free(builder->lists);
    free(builder->chosen);
    free(builder->batch);
    free(builder->picked);
    free(builder->spare_slots);
    free(builder->tree_guesses);
    or_build_distributions_free(builder);
    free(builder);
    *builder_p = NULL;
}

uint32_t or_builder_slots(const or_builder_t *builder)
{
    return builder->slots_max;
}

void or_build_put(or_builder_t *builder, uint32_t guess, uint32_t parent, uint32_t rank)
{
    const or_build_guess_t *above = &builder->guesses[parent];
    const or_build_list_t *list = &builder->lists[parent];
    uint32_t width = or_vocab_widths(builder->vocab)[list->ids[rank]];
    builder->guesses[guess] = (or_build_guess_t){
        .token = list->ids[rank],
        .parent = parent,
        .rank = rank,
        .depth = above->depth + 1,
        .slot = OR_KV_NO_SLOT,
        .weight = above->weight + list->weights[rank],
        .p = or_exp(list->weights[rank]),
        .place = or_noise_advance(above->place, width),
    };
}

// A tree may be as deep as the context leaves positions.
void or_build_take_job(or_builder_t *builder, const or_build_job_t *job)
{
    uint32_t positions = builder->source.positions;
    builder->job = job;
    builder->sampling = job->sampling;
    builder->sampling.temperature = job->draft_temperature;
    builder->tau = builder->fixed_tau > 0 ? builder->fixed_tau : or_belief_tau(job->belief);
    builder->nodes_wanted = min_u32(job->nodes_max, builder->nodes_max);
    builder->history_count = min_u32(job->history_count, positions);
    builder->depth_limit = min_u32(job->depth_max, positions - builder->history_count);
    memcpy(builder->history, job->history + (job->history_count - builder->history_count),
           builder->history_count * sizeof *builder->history);
}

// A job for a new tree, of which there is the root so far.
static void open_job(or_builder_t *builder, const method_row_t *row, const or_build_job_t *job)
{
    builder->fixed_tau = or_draft_method_has(row->method, OR_DRAFT_NOISELESS) ? 1 : 0;
    or_build_take_job(builder, job);
    builder->room = builder->nodes_wanted;
    builder->grow_depth = builder->depth_limit;
    builder->rooted = false;
    builder->tree_count = 0;
    builder->tree_drawn = job->drawn;
    builder->guesses[OR_BUILD_ROOT] = (or_build_guess_t){
        .token = job->history[job->history_count - 1], .slot = OR_KV_NO_SLOT, .place = job->place};
    builder->slots_used = 0;
    builder->spare_slot_count = 0;
    builder->crowded = false;
    builder->lists[OR_BUILD_ROOT].count = 0;
}

or_status_t or_build_make_tree(or_builder_t *builder, const uint32_t *chosen, uint32_t count,
                               or_token_tree_t *tree)
{
    uint32_t *node_of = builder->batch; // by guess; no longer needed for expanding
    uint32_t renumbered[OR_TREE_NODES_MAX + 1];
    node_of[OR_BUILD_ROOT] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_build_guess_t *guess = &builder->guesses[chosen[i]];
        or_status_t status =
            or_token_tree_add(tree, node_of[guess->parent], guess->token, &node_of[chosen[i]]);
        if (status != OR_OK) {
            return status;
        }
    }
    or_token_tree_depth_first(tree, renumbered);
    builder->tree_guesses[0] = OR_BUILD_ROOT;
    for (uint32_t i = 0; i < count; i++) {
        builder->tree_guesses[renumbered[node_of[chosen[i]]]] = chosen[i];
    }
    builder->tree_count = count;
    return OR_OK;
}

static or_status_t grow(or_builder_t *builder, const method_row_t *row, uint32_t *count)
{
    *count = 0;
    if (builder->nodes_wanted == 0 || builder->depth_limit == 0) {
        return OR_OK;
    }
    bool asks_model = or_draft_method_has(row->method, OR_DRAFT_ASKS_MODEL);
    or_status_t status = asks_model ? builder->source.start(builder) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    return builder->job->strings != NULL ? or_build_strings(builder, count)
                                         : row->build(builder, count);
}

or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree)
{
    const method_row_t *row = find_row(method);
    if (row == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "draft method %u is not known to this drafter",
                       (unsigned)method);
    }
    uint32_t count;
    open_job(builder, row, job);
    or_token_tree_reset(tree, builder->guesses[OR_BUILD_ROOT].token);
    or_status_t status = grow(builder, row, &count);
    if (status == OR_OK) {
        status = or_build_make_tree(builder, builder->chosen, count, tree);
    }
    if (status == OR_OK && builder->tree_drawn) {
        or_build_record_draws(builder, tree);
    }
    builder->job = NULL;
    return status;
}

or_status_t or_builder_root(or_builder_t *builder, or_draft_method_t method,
                            const or_build_job_t *job)
{
    open_job(builder, find_row(method), job);
    builder->room = builder->nodes_max;
    builder->grow_depth = builder->source.positions - builder->history_count;
    or_status_t status = builder->source.start(builder);
    if (status == OR_OK) {
        or_build_best_begin(builder);
        builder->rooted = true;
    }
    builder->job = NULL;
    return status;
}

const or_draws_t *or_builder_draws(const or_builder_t *builder)
{
    return builder->tree_drawn ? &builder->draws : NULL;
}

uint64_t or_builder_passes(const or_builder_t *builder)
{
    return builder->passes;
}

uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node)
{
    return builder->guesses[builder->tree_guesses[node]].slot;
}

void or_build_believe(const or_builder_t *builder, or_belief_t *belief, uint32_t guess,
                      int32_t token)
{
    const or_build_list_t *list = &builder->lists[guess];
    if (!builder->guesses[guess].expanded || builder->tree_drawn) {
        return; // nothing was believed about what follows it
    }
    uint32_t rank = 0;
    while (rank < list->count && list->ids[rank] != token) {
        rank++;
    }
    or_belief_learn(belief, list->scores, list->count, rank);
}

// Teach `calibration` what became of a node's children, in the order they were put, up to the one that was taken.
static void calibrate_at(const or_builder_t *builder, or_calibration_t *calibration, uint32_t node,
                         int32_t token)
{
    uint32_t parent = builder->tree_guesses[node];
    uint32_t rank = 0;
    double mass = 1;
    bool taken = false;
    for (uint32_t i = node + 1; i <= builder->tree_count && !taken; i++) {
        const or_build_guess_t *child = &builder->guesses[builder->tree_guesses[i]];
        if (child->parent == parent) {
            double share = or_build_share(builder, builder->tree_guesses[i], &mass);
            taken = child->token == token;
            or_calibration_learn(calibration, rank++, share, taken);
        }
    }
}

void or_builder_learn(const or_builder_t *builder, or_belief_t *belief,
                      or_calibration_t *calibration, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i <= accepted_count && node <= builder->tree_count; i++) {
        bool last = i == accepted_count;
        if (!last && accepted[i] > builder->tree_count) {
            return;
        }
        int32_t token = last ? next : builder->guesses[builder->tree_guesses[accepted[i]]].token;
        or_build_believe(builder, belief, builder->tree_guesses[node], token);
        if (calibration != NULL) {
            calibrate_at(builder, calibration, node, token);
        }
        node = last ? node : accepted[i];
    }
}
