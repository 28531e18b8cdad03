// The news of a growing tree for the coordinator: guesses that it does not know yet, as a tree on a path.
#include "drafter/build/builder_internal.h"

static uint32_t above(const or_builder_t *builder, uint32_t guess, uint32_t depth)
{
    while (builder->guesses[guess].depth > depth) {
        guess = builder->guesses[guess].parent;
    }
    return guess;
}

// Return the deepest common ancestor of the first `count` picked guesses. Everything below it is unknown to the
// receiver.
static uint32_t base_of(const or_builder_t *builder, uint32_t count)
{
    uint32_t base = builder->guesses[builder->picked[0]].parent;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t other = builder->guesses[builder->picked[i]].parent;
        base = above(builder, base, builder->guesses[other].depth);
        other = above(builder, other, builder->guesses[base].depth);
        while (base != other) {
            base = builder->guesses[base].parent;
            other = builder->guesses[other].parent;
        }
    }
    return base;
}

static void take_path(const or_builder_t *builder, uint32_t base, or_build_news_t *news)
{
    news->depth = builder->guesses[base].depth;
    for (uint32_t guess = base; guess != OR_BUILD_ROOT; guess = builder->guesses[guess].parent) {
        news->path[builder->guesses[guess].depth - 1] = builder->guesses[guess].token;
    }
}

// Make a tree of the first `count` picked guesses on their base, with the guesses between, which come first.
// OR_ERR_FULL: more nodes than the tree has room for.
static or_status_t connect(or_builder_t *builder, uint32_t count, or_build_news_t *news)
{
    uint32_t *node_of = builder->batch; // by guess; UINT32_MAX: to be added
    uint32_t base = base_of(builder, count);
    for (uint32_t i = 0; i < builder->set_count; i++) {
        node_of[builder->chosen[i]] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t guess = builder->picked[i]; guess != base;
             guess = builder->guesses[guess].parent) {
            node_of[guess] = UINT32_MAX;
        }
    }
    or_token_tree_reset(news->tree, builder->guesses[base].token);
    node_of[base] = 0;
    for (uint32_t i = 0; i < builder->set_count; i++) {
        uint32_t guess = builder->chosen[i];
        if (node_of[guess] == UINT32_MAX) {
            uint32_t parent = node_of[builder->guesses[guess].parent];
            or_status_t status = or_token_tree_add(news->tree, parent,
                                                   builder->guesses[guess].token, &node_of[guess]);
            if (status != OR_OK) {
                return status;
            }
        }
    }
    take_path(builder, base, news);
    return OR_OK;
}

// Tell of the best picked guesses, as many as there is room for.
static or_status_t tell(or_builder_t *builder, uint32_t count, or_build_news_t *news)
{
    or_token_tree_reset(news->tree, builder->guesses[OR_BUILD_ROOT].token);
    news->depth = 0;
    or_status_t status = count > 0 ? connect(builder, count, news) : OR_OK;
    while (status == OR_ERR_FULL && count > 1) { // one alone needs no others
        count /= 2;
        status = connect(builder, count, news);
    }
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        builder->guesses[builder->picked[i]].told = true;
    }
    return status;
}

or_status_t or_builder_tell_round(or_builder_t *builder, or_build_news_t *news)
{
    uint32_t of_round = or_build_best_pick(builder);
    uint32_t count = 0;
    for (uint32_t i = 0; i < of_round; i++) {
        if (!builder->guesses[builder->picked[i]].told) {
            builder->picked[count++] = builder->picked[i];
        }
    }
    return tell(builder, count, news);
}

// Return true if a guess that does not exist yet may belong before those that follow this one.
static bool is_open(const or_builder_t *builder, const or_build_guess_t *guess)
{
    const or_build_guess_t *last = &builder->guesses[builder->chosen[builder->set_count - 1]];
    return !guess->expanded && guess->depth < builder->grow_depth &&
           (builder->set_count < builder->room || guess->weight > last->weight);
}

or_status_t or_builder_tell_more(or_builder_t *builder, uint32_t least, uint32_t most,
                                 or_build_news_t *news)
{
    uint32_t known = 0, count = 0;
    for (uint32_t i = 0; i < builder->set_count; i++) {
        known += builder->guesses[builder->chosen[i]].told;
    }
    for (uint32_t i = 0; i < builder->set_count && known + count < most; i++) {
        const or_build_guess_t *guess = &builder->guesses[builder->chosen[i]];
        if (!guess->told) {
            builder->picked[count++] = builder->chosen[i];
        }
        if (is_open(builder, guess)) {
            break;
        }
    }
    return tell(builder, count >= least ? count : 0, news);
}

void or_builder_untell(or_builder_t *builder)
{
    for (uint32_t i = 0; i < builder->set_count; i++) {
        builder->guesses[builder->chosen[i]].told = false;
    }
}
