// A builder over a model: its memory, the passes that run guesses, and the reading of their distributions.
#include <math.h>
#include <stdlib.h>

#include "common/base/inline.h"
#include "common/base/math/math.h"
#include "common/base/parts.h"
#include "drafter/build/builder_internal.h"
#include "drafter/together.h"

// Tokens believed e^8 times less than the best one are left out of lists and sums. At tau 0.6 they are some 6 percent
// of the whole, about the same at every node, and nine tenths of the logarithms. At a large tau the drafter knows
// little, and more than 8 nats of it are not worth their logarithms.
#define WINDOW_TAUS 8.0
#define WINDOW_MAX 8.0

#define LOGIT_BYTES (4u << 20) // of the rows whose logits are taken at once; at least one row is

static double window_of(double tau)
{
    return tau < WINDOW_MAX / WINDOW_TAUS ? WINDOW_TAUS * tau : WINDOW_MAX;
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

// Make the list of children from all their scores; `best` is the largest.
static void fill_list(or_build_list_t *list, const int32_t *ids, const double *scores,
                      uint32_t count, double best, double tau)
{
    double total = 0;
    list->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] >= best - window_of(tau)) {
            total += or_exp((scores[i] - best) / tau);
            insert_sorted(list, ids[i], scores[i]);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        list->weights[i] = (list->scores[i] - best) / tau - or_ln(total);
    }
}

static double best_score(const or_distribution_t *dist)
{
    double best = dist->scores[0];
    for (uint32_t i = 1; i < dist->count; i++) {
        best = dist->scores[i] > best ? dist->scores[i] : best;
    }
    return best;
}

// List the tokens that may not be guessed, once for all rows of the tree: going through the map for each row takes
// four to thirty times as long. (A model may have rows beyond its vocabulary, for tokens that no text has.)
static void list_banned(or_builder_t *builder)
{
    const int32_t *map = builder->job->map;
    uint32_t known = or_min_u32(or_vocab_size(builder->vocab), builder->source.vocab_size);
    uint32_t count = 0;
    for (uint32_t i = 0; map != NULL && i < known; i++) {
        builder->banned[count] = i; // without a branch: an allowed token is overwritten by the next
        count += map[i] < 0;
    }
    for (uint32_t i = known; i < builder->source.vocab_size; i++) {
        builder->banned[count++] = i;
    }
    builder->banned_count = count;
    for (builder->any_token = 0; or_build_is_banned(builder, builder->any_token);) {
        builder->any_token++;
    }
}

// Make the guess's list from the distribution after it, or from its contenders: add noise and take the best.
static void read_dist(or_builder_t *builder, uint32_t guess, const or_distribution_t *dist)
{
    const or_build_job_t *job = builder->job;
    const double *scores = dist->scores;
    double best;
    builder->guesses[guess].expanded = true;
    if (job->drawn) {
        or_build_distribution_set(builder, guess, dist);
        return;
    }
    if (job->noisy) {
        best = or_noise_perturb(job->noise_key, builder->guesses[guess].place, dist->ids,
                                dist->scores, dist->count, or_vocab_noise_keys(builder->vocab),
                                window_of(builder->tau), builder->perturbed);
        scores = builder->perturbed;
    } else {
        best = best_score(dist);
    }
    fill_list(&builder->lists[guess], dist->ids, scores, dist->count, best, builder->tau);
}

// Make the guess's list from its logits. Penalties see the path.
static void read_guess(or_builder_t *builder, uint32_t guess, float *logits)
{
    const or_build_guess_t *at = &builder->guesses[guess];
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = builder->guesses[above].parent) {
        const or_build_guess_t *node = &builder->guesses[above];
        builder->history[builder->history_count + node->depth - 1] = node->token;
    }
    for (uint32_t i = 0; i < builder->banned_count; i++) {
        logits[builder->banned[i]] = -INFINITY;
    }
    or_distribution_t dist =
        or_sampler_distribution(builder->sampler, &builder->sampling, logits, builder->history,
                                builder->history_count + at->depth);
    if (or_build_is_banned(builder, dist.ids[0])) { // the sampling banned all others
        dist.ids = &builder->any_token;
    }
    read_dist(builder, guess, &dist);
}

// Read the logits of rows first .. first + count - 1 of the last pass, which belong to these guesses.
static or_status_t read_logits(or_builder_t *builder, uint32_t first, const uint32_t *guesses,
                               uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t part = or_min_u32(count - done, builder->logit_rows);
        or_status_t status = or_model_logits(builder->model, first + done, part, builder->logits);
        if (status != OR_OK) {
            return status;
        }
        for (uint32_t i = 0; i < part; i++) {
            read_guess(builder, guesses[done + i],
                       builder->logits + i * builder->source.vocab_size);
        }
        done += part;
    }
    return OR_OK;
}

// Return true if contenders are enough to make lists. They are not if guesses are drawn from whole distributions, if
// tokens are banned or their scores depend on the path, or if a row of this tree had too many: others will, too, and
// asking twice takes longer.
static bool contenders_do(const or_builder_t *builder)
{
    return or_model_has_contenders(builder->model) && !builder->crowded && !builder->job->drawn &&
           builder->job->map == NULL && or_sampling_is_plain(&builder->sampling);
}

static or_contest_t contest_at(const or_builder_t *builder, uint32_t guess)
{
    return (or_contest_t){.sampling = &builder->sampling,
                          .key = builder->job->noise_key,
                          .place = builder->guesses[guess].place,
                          .noisy = builder->job->noisy,
                          .window = window_of(builder->tau)};
}

// Return how many rows with too many contenders come first.
static uint32_t count_crowded(const or_distribution_t *dists, uint32_t count)
{
    uint32_t crowded = 0;
    while (crowded < count && dists[crowded].count == 0) {
        crowded++;
    }
    return crowded;
}

// Read contenders instead of logits, but for rows that have too many.
static or_status_t read_contenders(or_builder_t *builder, uint32_t first, const uint32_t *guesses,
                                   uint32_t count)
{
    or_contest_t contests[OR_CONTESTS_MAX] = {0};
    or_distribution_t dists[OR_CONTESTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        contests[i] = contest_at(builder, guesses[i]);
    }
    or_status_t status = or_model_contenders(builder->model, first, count, contests, dists);
    for (uint32_t i = 0; status == OR_OK && i < count;) {
        uint32_t crowded = count_crowded(dists + i, count - i);
        if (crowded == 0) {
            read_dist(builder, guesses[i], &dists[i]);
            i++;
        } else {
            builder->crowded = true;
            status = read_logits(builder, first + i, guesses + i, crowded);
            i += crowded;
        }
    }
    return status;
}

// Fill the lists or distributions of guesses, which are rows first .. first + count - 1 of the last pass.
static or_status_t read_rows(or_builder_t *builder, uint32_t first, const uint32_t *guesses,
                             uint32_t count)
{
    if (!contenders_do(builder)) {
        return read_logits(builder, first, guesses, count);
    }
    or_status_t status = OR_OK;
    for (uint32_t done = 0; status == OR_OK && done < count; done += OR_CONTESTS_MAX) {
        uint32_t part = or_min_u32(count - done, OR_CONTESTS_MAX);
        status = read_contenders(builder, first + done, guesses + done, part);
    }
    return status;
}

// Return the row of a guess that has its slot.
static or_model_row_t row_of(const or_builder_t *builder, uint32_t guess)
{
    const or_build_guess_t *this = &builder->guesses[guess];
    return (or_model_row_t){.sequence = builder->job->sequence,
                            .token = this->token,
                            .slot = this->slot,
                            .parent_slot = builder->guesses[this->parent].slot};
}

static or_status_t expand_with_model(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t part = or_min_u32(count - done, or_model_rows_max(builder->model));
        for (uint32_t i = 0; i < part; i++) {
            builder->guesses[guesses[done + i]].slot = or_build_take_slot(builder);
            builder->rows[i] = row_of(builder, guesses[done + i]);
        }
        uint32_t first;
        or_status_t status = or_together_forward(builder->model, builder->rows, part, &first);
        if (status == OR_OK) {
            builder->passes++;
            status = read_rows(builder, first, guesses + done, part);
        }
        if (status != OR_OK) {
            return status;
        }
        done += part;
    }
    return OR_OK;
}

static or_status_t foresee_with_model(or_builder_t *builder, or_growth_t *growth, or_grown_t *grown)
{
    if (!contenders_do(builder)) {
        return OR_OK;
    }
    growth->sequence = builder->job->sequence;
    growth->contest = contest_at(builder, OR_BUILD_ROOT);
    return or_together_grow(builder->model, growth, grown);
}

static or_status_t adopt_with_model(or_builder_t *builder, uint32_t guess,
                                    const or_distribution_t *dist)
{
    const or_model_row_t row = row_of(builder, guess);
    or_status_t status = or_model_adopt(builder->model, &row);
    if (status == OR_OK) {
        read_dist(builder, guess, dist);
    }
    return status;
}

static or_status_t start_with_model(or_builder_t *builder)
{
    const uint32_t root = OR_BUILD_ROOT;
    or_kv_sequence_drop_slots(builder->job->sequence);
    list_banned(builder);
    return read_rows(builder, builder->job->root_row, &root, 1);
}

// ---- memory ----

static bool each_array(or_builder_t *builder, or_parts_t *each)
{
    const size_t vocab_size = builder->source.vocab_size;
    const size_t guesses = (size_t)builder->nodes_max + 1;
    const size_t entries = guesses * builder->distribution_entries;
    const or_part_t parts[] = {
        OR_PART(builder->logits, (size_t)builder->logit_rows * vocab_size),
        OR_PART(builder->perturbed, vocab_size),
        OR_PART(builder->rows, builder->model != NULL ? or_model_rows_max(builder->model) : 0),
        OR_PART(builder->banned, builder->model != NULL ? vocab_size : 0),
        OR_PART(builder->history, builder->source.positions),
        OR_PART(builder->guesses, guesses),
        OR_PART(builder->lists, guesses),
        OR_PART(builder->chosen, guesses),
        OR_PART(builder->batch, guesses),
        OR_PART(builder->picked, guesses),
        OR_PART(builder->spare_slots, (size_t)builder->slots_max + 1),
        OR_PART(builder->tree_guesses, guesses),
        OR_PART(builder->dists, entries > 0 ? guesses : 0),
        OR_PART(builder->dist_numbers, 2 * entries),
        OR_PART(builder->dist_left, entries),
        OR_PART(builder->dist_index, entries > 0 ? guesses : 0),
        OR_PART(builder->draw_order, entries > 0 ? guesses : 0),
        OR_PART(builder->drawn_dists, entries > 0 ? guesses : 0),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

static bool allocate(or_builder_t *builder)
{
    size_t row_bytes = builder->source.vocab_size * sizeof *builder->logits;
    builder->logit_rows = row_bytes < LOGIT_BYTES ? (uint32_t)(LOGIT_BYTES / row_bytes) : 1;
    if (!each_array(builder, or_parts_take)) {
        return false;
    }
    for (size_t i = 0; builder->dists != NULL && i <= builder->nodes_max; i++) {
        builder->dists[i].tokens = builder->dist_numbers + 2 * i * builder->distribution_entries;
        builder->dists[i].weights = builder->dists[i].tokens + builder->distribution_entries;
        builder->dists[i].left = builder->dist_left + i * builder->distribution_entries;
    }
    return true;
}

static or_status_t create(const or_build_source_t *source, or_model_t *model,
                          const or_vocab_t *vocab, uint32_t nodes_max,
                          uint32_t distribution_entries, or_builder_t **builder_p)
{
    or_builder_t *builder = calloc(1, sizeof *builder);
    if (builder == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a tree builder");
    }
    builder->source = *source;
    builder->model = model;
    builder->vocab = vocab;
    builder->nodes_max = nodes_max;
    builder->distribution_entries = distribution_entries;
    // Some guesses that run ahead turn out not to belong to the tree.
    builder->slots_max =
        nodes_max + (source->foresee != NULL ? or_min_u32(nodes_max, OR_GROWTH_NODES_MAX) : 0);
    if (or_sampler_create(source->vocab_size, &builder->sampler) != OR_OK || !allocate(builder)) {
        or_builder_destroy(&builder);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a builder of trees of %u nodes", nodes_max);
    }
    *builder_p = builder;
    return OR_OK;
}

or_status_t or_builder_create_over(const or_build_source_t *source, const or_vocab_t *vocab,
                                   uint32_t nodes_max, uint32_t distribution_entries,
                                   or_builder_t **builder_p)
{
    return create(source, NULL, vocab, nodes_max, distribution_entries, builder_p);
}

void or_builder_destroy(or_builder_t **builder_p)
{
    or_builder_t *builder = *builder_p;
    if (builder == NULL) {
        return;
    }
    or_sampler_destroy(&builder->sampler);
    each_array(builder, or_parts_free);
    free(builder);
    *builder_p = NULL;
}

uint32_t or_builder_slots(const or_builder_t *builder)
{
    return builder->slots_max;
}

// ---- over a model ----

or_status_t or_builder_prepare(or_model_t *model, const or_vocab_t *vocab)
{
    uint32_t count = or_vocab_size(vocab);
    or_status_t status = or_model_set_noise_keys(model, or_vocab_noise_keys(vocab), count);
    return status != OR_OK ? status : or_model_prepare_growth(model, or_vocab_widths(vocab), count);
}

or_status_t or_builder_create(or_model_t *model, const or_vocab_t *vocab, uint32_t nodes_max,
                              uint32_t distribution_entries, or_builder_t **builder_p)
{
    or_build_source_t source = {.vocab_size = or_model_shape(model)->vocab_size,
                                .positions = or_model_context(model),
                                .start = start_with_model,
                                .expand = expand_with_model,
                                .adopt = adopt_with_model};
    or_status_t status = or_builder_prepare(model, vocab);
    if (status != OR_OK) {
        return status;
    }
    source.foresee = or_model_can_grow(model) ? foresee_with_model : NULL;
    return create(&source, model, vocab, nodes_max, distribution_entries, builder_p);
}
