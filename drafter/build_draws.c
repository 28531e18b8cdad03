// The children of a guess, one after the other: the best of its list, or draws from its law.
#include <stdlib.h>
#include <string.h>

#include "common/base/math.h"
#include "drafter/builder_internal.h"

bool or_build_laws_create(or_builder_t *builder)
{
    size_t guesses = (size_t)builder->nodes_max + 1;
    size_t entries = guesses * builder->law_entries;
    if (entries == 0) {
        return true;
    }
    builder->laws = calloc(guesses, sizeof *builder->laws);
    builder->law_numbers = calloc(2 * entries, sizeof *builder->law_numbers);
    builder->law_left = calloc(entries, sizeof *builder->law_left);
    builder->law_index = calloc(guesses, sizeof *builder->law_index);
    builder->draw_order = calloc(guesses, sizeof *builder->draw_order);
    builder->drawn_laws = calloc(guesses, sizeof *builder->drawn_laws);
    if (builder->laws == NULL || builder->law_numbers == NULL || builder->law_left == NULL ||
        builder->law_index == NULL || builder->draw_order == NULL || builder->drawn_laws == NULL) {
        return false;
    }
    for (size_t i = 0; i < guesses; i++) {
        builder->laws[i].tokens = builder->law_numbers + 2 * i * builder->law_entries;
        builder->laws[i].weights = builder->laws[i].tokens + builder->law_entries;
        builder->laws[i].left = builder->law_left + i * builder->law_entries;
    }
    return true;
}

void or_build_laws_free(or_builder_t *builder)
{
    free(builder->laws);
    free(builder->law_numbers);
    free(builder->law_left);
    free(builder->law_index);
    free(builder->draw_order);
    free(builder->drawn_laws);
}

void or_build_law_set(or_builder_t *builder, uint32_t guess, const or_law_t *law)
{
    or_build_law_t *reduced = &builder->laws[guess];
    reduced->count = or_law_reduce(law, builder->law_entries, reduced->tokens, reduced->weights);
    reduced->left_total = OR_LAW_TOTAL;
    for (uint32_t i = 0; i < reduced->count; i++) {
        reduced->left[i] = reduced->weights[i];
    }
}

bool or_build_has_next(const or_builder_t *builder, uint32_t parent)
{
    if (builder->job->drawn) {
        return builder->laws[parent].left_total > 0;
    }
    return builder->guesses[parent].children < builder->lists[parent].count;
}

static void draw_child(or_builder_t *builder, uint32_t guess, uint32_t parent)
{
    or_chooser_t *chooser = builder->job->chooser;
    const or_build_guess_t *above = &builder->guesses[parent];
    or_build_law_t *law = &builder->laws[parent];
    or_choice_t at = {OR_RNG_DRAFT, parent, above->children};
    uint32_t index = chooser->draw(chooser, at, law->left, law->count);
    int32_t token = (int32_t)law->tokens[index];
    double p = (double)law->weights[index] / OR_LAW_TOTAL;
    builder->guesses[guess] = (or_build_guess_t){
        .token = token,
        .parent = parent,
        .depth = above->depth + 1,
        .slot = OR_KV_NO_SLOT,
        .weight = above->weight + or_ln(p),
        .p = p,
        .place = or_noise_advance(above->place, or_vocab_widths(builder->vocab)[token]),
    };
    if (!builder->job->replaced) {
        law->left[index] = 0;
        law->left_total -= law->weights[index];
    }
}

bool or_build_next(or_builder_t *builder, uint32_t guess, uint32_t parent)
{
    if (!or_build_has_next(builder, parent)) {
        return false;
    }
    if (builder->job->drawn) {
        draw_child(builder, guess, parent);
    } else {
        or_build_put(builder, guess, parent, builder->guesses[parent].children);
    }
    builder->guesses[parent].children++;
    return true;
}

uint32_t or_build_first(const or_builder_t *builder, uint32_t guess)
{
    const or_build_guess_t *this = &builder->guesses[guess];
    for (uint32_t i = 1; builder->job->replaced && i < guess; i++) {
        if (builder->guesses[i].parent == this->parent &&
            builder->guesses[i].token == this->token) {
            return i;
        }
    }
    return guess;
}

bool or_build_repeats(const or_builder_t *builder, uint32_t guess)
{
    return or_build_first(builder, guess) != guess;
}

double or_build_share(const or_builder_t *builder, uint32_t guess, double *mass)
{
    double p = builder->guesses[guess].p;
    double share = p < *mass ? p / *mass : 1; // lists round
    *mass -= p;
    return share;
}

void or_build_record_draws(or_builder_t *builder, const or_token_tree_t *tree)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    uint32_t children[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t law_of[OR_TREE_NODES_MAX + 1];
    uint32_t law_count = 0;
    for (uint32_t node = 1; node <= builder->tree_count; node++) {
        uint32_t parent = parents[node];
        if (children[parent] == 0) {
            const or_build_law_t *law = &builder->laws[builder->tree_guesses[parent]];
            builder->drawn_laws[law_count] =
                (or_reduced_law_t){law->tokens, law->weights, law->count};
            law_of[parent] = law_count++;
        }
        builder->law_index[node - 1] = law_of[parent];
        builder->draw_order[node - 1] = children[parent]++;
    }
    builder->draws =
        (or_draws_t){builder->law_index, builder->draw_order, builder->drawn_laws, law_count};
}
