#include "drafter/builder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math.h"
#include "drafter/builder_internal.h"

#define LOGIT_BYTES (4u << 20) // of the rows whose logits are taken at once; at least one row is

// Tokens believed e^8 times less than the best one are left out of lists and sums. At tau 0.6 that
// is some 6 percent of the whole, about the same at every node, and nine tenths of the logarithms.
#define WINDOW_TAUS 8.0

static const struct {
    or_draft_method_t method;
    or_status_t (*build)(or_builder_t *builder, uint32_t *count);
} methods[] = {
    {OR_DRAFT_COUPLED, or_build_coupled},
    {OR_DRAFT_CHAIN, or_build_chain},
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static size_t vocabulary(const or_builder_t *builder)
{
    return or_model_shape(builder->model)->vocab_size;
}

static bool allocate(or_builder_t *builder)
{
    size_t entries = (size_t)builder->nodes_max + 1;
    size_t row_bytes = vocabulary(builder) * sizeof *builder->logits;
    builder->logit_rows = row_bytes < LOGIT_BYTES ? (uint32_t)(LOGIT_BYTES / row_bytes) : 1;
    builder->logits = calloc(builder->logit_rows, row_bytes);
    builder->perturbed = calloc(vocabulary(builder), sizeof *builder->perturbed);
    builder->rows = calloc(or_model_rows_max(builder->model), sizeof *builder->rows);
    builder->history = calloc(or_model_context(builder->model), sizeof *builder->history);
    builder->guesses = calloc(entries, sizeof *builder->guesses);
    builder->lists = calloc(entries, sizeof *builder->lists);
    builder->chosen = calloc(entries, sizeof *builder->chosen);
    builder->batch = calloc(entries, sizeof *builder->batch);
    builder->tree_guesses = calloc(entries, sizeof *builder->tree_guesses);
    return builder->logits != NULL && builder->perturbed != NULL && builder->rows != NULL &&
           builder->history != NULL && builder->guesses != NULL && builder->lists != NULL &&
           builder->chosen != NULL && builder->batch != NULL && builder->tree_guesses != NULL;
}

or_status_t or_builder_create(or_model_t *model, const or_vocab_t *vocab, uint32_t nodes_max,
                              or_builder_t **builder_p)
{
    or_builder_t *builder = calloc(1, sizeof *builder);
    if (builder == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a tree builder");
    }
    builder->model = model;
    builder->vocab = vocab;
    builder->nodes_max = nodes_max;
    builder->slots_max = 2 * nodes_max;
    if (or_sampler_create((uint32_t)vocabulary(builder), &builder->sampler) != OR_OK ||
        !allocate(builder)) {
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
    free(builder->history);
    free(builder->guesses);
    free(builder->lists);
    free(builder->chosen);
    free(builder->batch);
    free(builder->tree_guesses);
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
        .depth = above->depth + 1,
        .slot = OR_KV_NO_SLOT,
        .weight = above->weight + list->weights[rank],
        .place = or_noise_advance(above->place, width),
    };
}

static void insert_sorted(or_build_list_t *list, int32_t id, double score)
{
    if (list->count == OR_BUILD_CHILDREN && score <= list->scores[list->count - 1]) {
        return;
    }
    uint32_t at = list->count < OR_BUILD_CHILDREN ? list->count++ : list->count - 1;
    for (; at > 0 && list->scores[at - 1] < score; at--) {
        list->scores[at] = list->scores[at - 1];
        list->ids[at] = list->ids[at - 1];
    }
    list->scores[at] = score;
    list->ids[at] = id;
}

// Make the list of children from all their scores, the best of which is given.
static void fill_list(or_build_list_t *list, const int32_t *ids, const double *scores,
                      uint32_t count, double best, double tau)
{
    double total = 0;
    list->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] >= best - WINDOW_TAUS * tau) {
            total += or_exp((scores[i] - best) / tau);
            insert_sorted(list, ids[i], scores[i]);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        list->weights[i] = (list->scores[i] - best) / tau - or_ln(total);
    }
}

static double best_score(const or_law_t *law)
{
    double best = law->scores[0];
    for (uint32_t i = 1; i < law->count; i++) {
        best = law->scores[i] > best ? law->scores[i] : best;
    }
    return best;
}

// From the logits after an expanded guess to its list: law (penalties see the path), noise, the
// best of it.
static void read_guess(or_builder_t *builder, uint32_t guess, const float *logits)
{
    const or_build_job_t *job = builder->job;
    const or_build_guess_t *at = &builder->guesses[guess];
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = builder->guesses[above].parent) {
        const or_build_guess_t *node = &builder->guesses[above];
        builder->history[builder->history_count + node->depth - 1] = node->token;
    }
    or_law_t law = or_sampler_law(builder->sampler, &builder->sampling, logits, builder->history,
                                  builder->history_count + at->depth);
    const double *scores = law.scores;
    double best;
    if (job->noisy) {
        best = or_noise_perturb(job->noise_key, at->place, law.ids, law.scores, law.count,
                                or_vocab_noise_keys(builder->vocab), WINDOW_TAUS * builder->tau,
                                builder->perturbed);
        scores = builder->perturbed;
    } else {
        best = best_score(&law);
    }
    fill_list(&builder->lists[guess], law.ids, scores, law.count, best, builder->tau);
    builder->guesses[guess].expanded = true;
}

// Read the logits of rows first .. first + count - 1 of the last pass, which are the guesses'.
static or_status_t read_rows(or_builder_t *builder, uint32_t first, const uint32_t *guesses,
                             uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t part = min_u32(count - done, builder->logit_rows);
        or_status_t status = or_model_logits(builder->model, first + done, part, builder->logits);
        if (status != OR_OK) {
            return status;
        }
        for (uint32_t i = 0; i < part; i++) {
            read_guess(builder, guesses[done + i], builder->logits + i * vocabulary(builder));
        }
        done += part;
    }
    return OR_OK;
}

or_status_t or_build_expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t part = min_u32(count - done, or_model_rows_max(builder->model));
        for (uint32_t i = 0; i < part; i++) {
            or_build_guess_t *guess = &builder->guesses[guesses[done + i]];
            guess->slot = builder->slots_used++;
            builder->rows[i] = (or_model_row_t){
                .sequence = builder->job->sequence,
                .token = guess->token,
                .slot = guess->slot,
                .parent_slot = builder->guesses[guess->parent].slot,
            };
        }
        or_status_t status = or_model_forward(builder->model, builder->rows, part);
        if (status == OR_OK) {
            status = read_rows(builder, 0, guesses + done, part);
        }
        if (status != OR_OK) {
            return status;
        }
        done += part;
    }
    return OR_OK;
}

// A tree may be as deep as the context leaves positions.
static void open_job(or_builder_t *builder, const or_build_job_t *job)
{
    uint32_t context = or_model_context(builder->model);
    builder->job = job;
    builder->sampling = job->sampling;
    builder->sampling.temperature = job->draft_temperature;
    builder->tau = or_belief_tau(job->belief);
    builder->nodes_wanted = min_u32(job->nodes_max, builder->nodes_max);
    builder->history_count = min_u32(job->history_count, context);
    builder->depth_limit = min_u32(job->depth_max, context - builder->history_count);
    builder->tree_count = 0;
    builder->guesses[OR_BUILD_ROOT] = (or_build_guess_t){
        .token = job->history[job->history_count - 1], .slot = OR_KV_NO_SLOT, .place = job->place};
    or_kv_sequence_drop_slots(job->sequence);
    builder->slots_used = 0;
    builder->lists[OR_BUILD_ROOT].count = 0;
    memcpy(builder->history, job->history + (job->history_count - builder->history_count),
           builder->history_count * sizeof *builder->history);
}

// The chosen guesses as a tree, and which node is which.
static or_status_t finish_tree(or_builder_t *builder, uint32_t count, or_token_tree_t *tree)
{
    uint32_t *node_of = builder->batch; // by guess; no longer needed for expanding
    uint32_t renumbered[OR_TREE_NODES_MAX + 1];
    node_of[OR_BUILD_ROOT] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_build_guess_t *guess = &builder->guesses[builder->chosen[i]];
        or_status_t status = or_token_tree_add(tree, node_of[guess->parent], guess->token,
                                               &node_of[builder->chosen[i]]);
        if (status != OR_OK) {
            return status;
        }
    }
    or_token_tree_depth_first(tree, renumbered);
    builder->tree_guesses[0] = OR_BUILD_ROOT;
    for (uint32_t i = 0; i < count; i++) {
        builder->tree_guesses[renumbered[node_of[builder->chosen[i]]]] = builder->chosen[i];
    }
    builder->tree_count = count;
    return OR_OK;
}

static or_status_t grow(or_builder_t *builder, or_draft_method_t method, uint32_t *count)
{
    *count = 0;
    if (method == OR_DRAFT_NONE || builder->nodes_wanted == 0 || builder->depth_limit == 0) {
        return OR_OK;
    }
    const uint32_t root = OR_BUILD_ROOT;
    or_status_t status = read_rows(builder, builder->job->root_row, &root, 1);
    if (status != OR_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].method == method) {
            return methods[i].build(builder, count);
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED, "draft method %u is not known to this version",
                   (unsigned)method);
}

or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree)
{
    uint32_t count;
    open_job(builder, job);
    or_token_tree_reset(tree, builder->guesses[OR_BUILD_ROOT].token);
    or_status_t status = grow(builder, method, &count);
    if (status == OR_OK) {
        status = finish_tree(builder, count, tree);
    }
    builder->job = NULL;
    return status;
}

uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node)
{
    return builder->guesses[builder->tree_guesses[node]].slot;
}

static void learn_at(const or_builder_t *builder, or_belief_t *belief, uint32_t node, int32_t token)
{
    uint32_t guess = builder->tree_guesses[node];
    const or_build_list_t *list = &builder->lists[guess];
    if (!builder->guesses[guess].expanded) {
        return; // a leaf: nothing was believed about what follows it
    }
    uint32_t rank = 0;
    while (rank < list->count && list->ids[rank] != token) {
        rank++;
    }
    or_belief_learn(belief, list->scores, list->count, rank);
}

void or_builder_learn(or_builder_t *builder, or_belief_t *belief, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < accepted_count && accepted[i] <= builder->tree_count; i++) {
        learn_at(builder, belief, node, builder->guesses[builder->tree_guesses[accepted[i]]].token);
        node = accepted[i];
    }
    learn_at(builder, belief, node, next);
}
