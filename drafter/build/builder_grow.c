// Trees that grow on while their round is in flight: how a best-first tree (build_coupled.c) is continued,
// follows the text, and is told of.
#include <math.h>

#include "drafter/build/builder_internal.h"

// How often the next root has been run when its round comes, tales-1m before tales-6m (coupled, 16 nodes):
// 0.51 with room for 64 guesses, 0.66 for 128, 0.77 for 256, 0.85 for 512, 0.88 for 1,024; with 64 nodes 0.72
// for 512 and 0.82 for 1,024. Each doubling doubles the rows that a round costs.
#define GROWING_FACTOR 32u
#define GROWING_MIN 512u

// Of one pass of growing: a tree that is due waits for no more.
#define GROWING_ROWS 32u

uint32_t or_build_growing_nodes(uint32_t nodes_max)
{
    uint32_t nodes = nodes_max < OR_TREE_NODES_MAX / GROWING_FACTOR ? GROWING_FACTOR * nodes_max
                                                                    : OR_TREE_NODES_MAX;
    return nodes > GROWING_MIN ? nodes : GROWING_MIN;
}

bool or_build_grows(or_draft_method_t method, or_accept_rule_t rule)
{
    return or_draft_method_has(method, OR_DRAFT_GROWS) && !or_build_is_drawn(method, rule);
}

bool or_builder_stands(const or_builder_t *builder, const or_build_job_t *job)
{
    const or_build_guess_t *root = &builder->guesses[OR_BUILD_ROOT];
    return builder->rooted && root->token == job->history[job->history_count - 1] &&
           root->place.byte_offset == job->place.byte_offset &&
           root->place.zero_width == job->place.zero_width;
}

void or_builder_forget(or_builder_t *builder)
{
    builder->rooted = false;
    builder->set_count = 0;
}

// Go on with the tree that stands.
static void resume(or_builder_t *builder, const or_build_job_t *job)
{
    uint32_t nodes = builder->nodes_wanted;
    uint32_t depth = builder->depth_limit;
    or_build_take_job(builder, job);
    builder->grow_depth = builder->source.positions - builder->history_count;
    if (!builder->settled || builder->nodes_wanted != nodes || builder->depth_limit != depth) {
        or_build_best_settle(builder);
    }
}

or_status_t or_builder_finish(or_builder_t *builder, const or_build_job_t *job,
                              or_token_tree_t *tree)
{
    resume(builder, job);
    or_status_t status = or_build_best_finish(builder);
    builder->job = NULL;
    or_token_tree_reset(tree, builder->guesses[OR_BUILD_ROOT].token);
    if (status != OR_OK) {
        or_builder_forget(builder); // some guess may have a slot and nothing there
        return status;
    }
    return or_build_make_tree(builder, builder->picked, or_build_best_pick(builder), tree);
}

or_status_t or_builder_grow(or_builder_t *builder, const or_build_job_t *job, bool *grew)
{
    resume(builder, job);
    uint32_t batch_count =
        or_build_best_choose(builder, builder->room, builder->grow_depth, GROWING_ROWS, INFINITY);
    or_status_t status = or_build_best_expand(builder, batch_count);
    builder->job = NULL;
    if (status != OR_OK) {
        or_builder_forget(builder); // as above
    }
    *grew = batch_count > 0;
    return status;
}

uint32_t or_builder_grown(const or_builder_t *builder)
{
    return builder->set_count;
}

static uint32_t find_child(const or_builder_t *builder, uint32_t parent, int32_t token)
{
    for (uint32_t i = 0; i < builder->set_count; i++) {
        const or_build_guess_t *guess = &builder->guesses[builder->chosen[i]];
        if (guess->parent == parent && guess->token == token) {
            return builder->chosen[i];
        }
    }
    return OR_BUILD_ROOT; // nobody's child
}

uint32_t or_builder_follow(or_builder_t *builder, or_belief_t *belief, const int32_t *tokens,
                           uint32_t count, uint32_t slots[OR_TREE_NODES_MAX])
{
    uint32_t guess = OR_BUILD_ROOT;
    uint32_t kept = 0;
    while (builder->rooted && kept < count) {
        or_build_believe(builder, belief, guess, tokens[kept]);
        guess = find_child(builder, guess, tokens[kept]);
        if (!builder->guesses[guess].expanded || guess == OR_BUILD_ROOT) {
            break;
        }
        slots[kept++] = builder->guesses[guess].slot;
    }
    if (kept < count) {
        or_builder_forget(builder);
    } else if (count > 0) {
        or_build_best_reroot(builder, guess);
    }
    return kept;
}

// ---- telling ----

static uint32_t above(const or_builder_t *builder, uint32_t guess, uint32_t depth)
{
    while (builder->guesses[guess].depth > depth) {
        guess = builder->guesses[guess].parent;
    }
    return guess;
}

// The deepest guess that all picked ones stand on, which somebody knows who knows none of them.
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

// The first `count` picked guesses on their base, with those between, which come first. OR_ERR_FULL: more
// nodes than the tree has room for.
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

// Tell of as many of the picked guesses as there is room for, the best ones.
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

// May a guess that is yet to come belong before those that follow this one?
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
