// The children of a guess, one after the other: the best of its list, or draws from its distribution.
#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "drafter/build/builder_internal.h"

void or_build_distribution_set(or_builder_t *builder, uint32_t guess, const or_distribution_t *dist)
{
    or_build_distribution_t *reduced = &builder->dists[guess];
    reduced->count = or_distribution_reduce(dist, builder->distribution_entries, reduced->tokens,
                                            reduced->weights);
    reduced->left_total = OR_DISTRIBUTION_TOTAL;
    for (uint32_t i = 0; i < reduced->count; i++) {
        reduced->left[i] = reduced->weights[i];
    }
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

bool or_build_has_next(const or_builder_t *builder, uint32_t parent)
{
    if (builder->job->drawn) {
        return builder->dists[parent].left_total > 0;
    }
    return builder->guesses[parent].children < builder->lists[parent].count;
}

static void draw_child(or_builder_t *builder, uint32_t guess, uint32_t parent)
{
    or_chooser_t *chooser = builder->job->chooser;
    const or_build_guess_t *above = &builder->guesses[parent];
    or_build_distribution_t *dist = &builder->dists[parent];
    or_choice_t at = {OR_RNG_DRAFT, parent, above->children};
    uint32_t index = chooser->draw(chooser, at, dist->left, dist->count);
    int32_t token = (int32_t)dist->tokens[index];
    double p = (double)dist->weights[index] / OR_DISTRIBUTION_TOTAL;
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
        dist->left[index] = 0;
        dist->left_total -= dist->weights[index];
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
    uint32_t dist_of[OR_TREE_NODES_MAX + 1];
    uint32_t dist_count = 0;
    for (uint32_t node = 1; node <= builder->tree_count; node++) {
        uint32_t parent = parents[node];
        if (children[parent] == 0) {
            const or_build_distribution_t *dist = &builder->dists[builder->tree_guesses[parent]];
            builder->drawn_dists[dist_count] =
                (or_reduced_distribution_t){dist->tokens, dist->weights, dist->count};
            dist_of[parent] = dist_count++;
        }
        builder->dist_index[node - 1] = dist_of[parent];
        builder->draw_order[node - 1] = children[parent]++;
    }
    builder->draws =
        (or_draws_t){builder->dist_index, builder->draw_order, builder->drawn_dists, dist_count};
}
