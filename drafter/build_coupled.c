// coupled - the tree that the target, sharing our noise, most likely follows (DESIGN.md section 6;
// ALGORITHMS.md section 1).
//
// The weight of a guess is the product of softmax(s / tau) along its path, s the perturbed scores;
// the tree is the n guesses of largest weight. A child never weighs more than its parent, so the
// best n of the guesses known so far only lose members to better ones, and the best of those not
// yet expanded is sure to stay. Expanding that one alone, again and again, is the textbook's way: n
// passes of one row. We expand all that weigh nearly as much with it, a pass a round, until no
// expansion could change the set. The tree is the same. Measured on tales-1m with 16 to 1,024
// nodes: 1.1 rows a node and about a pass a level, where expanding the whole set in each round
// takes 2 to 6 rows a node.
#include "drafter/builder_internal.h"

// Guesses whose weight is above e^-1 of the best unexpanded one's are expanded with it
#define NEARLY 1.0

// Does guess a belong before b? Equal weights: the shallower, so that a parent comes before its
// children.
static bool before(const or_build_guess_t *a, const or_build_guess_t *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->depth < b->depth);
}

// chosen[0..count) as a heap with the worst guess on top: let the one at `hole` sink to its place.
static void sink(or_builder_t *builder, uint32_t count, uint32_t hole)
{
    uint32_t *heap = builder->chosen;
    const or_build_guess_t *guesses = builder->guesses;
    uint32_t moved = heap[hole];
    for (uint32_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && before(&guesses[heap[child]], &guesses[heap[child + 1]])) {
            child++;
        }
        if (!before(&guesses[moved], &guesses[heap[child]])) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

static void rise(or_builder_t *builder, uint32_t hole)
{
    uint32_t *heap = builder->chosen;
    uint32_t moved = heap[hole];
    while (hole > 0) {
        uint32_t above = (hole - 1) / 2;
        if (!before(&builder->guesses[heap[above]], &builder->guesses[moved])) {
            break;
        }
        heap[hole] = heap[above];
        hole = above;
    }
    heap[hole] = moved;
}

// Can a guess of this weight, deeper than all of equal weight, still enter the set?
static bool may_enter(const or_builder_t *builder, uint32_t count, double weight)
{
    return count < builder->nodes_wanted || weight > builder->guesses[builder->chosen[0]].weight;
}

// Offer the children of an expanded guess to the set. A child that enters a full set takes the
// place of the worst guess in it, which has no descendants there, and is not the parent: no child
// weighs more than that.
static void offer_children(or_builder_t *builder, uint32_t parent, uint32_t *count)
{
    const or_build_list_t *list = &builder->lists[parent];
    double weight = builder->guesses[parent].weight;
    for (uint32_t rank = 0; rank < list->count; rank++) {
        if (!may_enter(builder, *count, weight + list->weights[rank])) {
            return;
        }
        if (*count < builder->nodes_wanted) {
            uint32_t guess = ++*count;
            or_build_put(builder, guess, parent, rank);
            builder->chosen[guess - 1] = guess;
            rise(builder, guess - 1);
        } else {
            or_build_put(builder, builder->chosen[0], parent, rank);
            sink(builder, *count, 0);
        }
    }
}

// Could the children of this guess of the set enter it?
static bool is_expandable(const or_builder_t *builder, const or_build_guess_t *guess,
                          uint32_t count)
{
    return !guess->expanded && guess->depth < builder->depth_limit &&
           may_enter(builder, count, guess->weight);
}

// Put the guesses to expand next into builder->batch; returns how many. Those that only probably
// stay may use up slots, as long as one is left for each node that must be expanded: from then on
// the best alone.
static uint32_t choose_batch(or_builder_t *builder, uint32_t count)
{
    const or_build_guess_t *best = NULL;
    uint32_t best_guess = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_build_guess_t *guess = &builder->guesses[builder->chosen[i]];
        if (is_expandable(builder, guess, count) && (best == NULL || before(guess, best))) {
            best = guess;
            best_guess = builder->chosen[i];
        }
    }
    if (best == NULL) {
        return 0;
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_build_guess_t *guess = &builder->guesses[builder->chosen[i]];
        if (is_expandable(builder, guess, count) && guess->weight >= best->weight - NEARLY) {
            builder->batch[found++] = builder->chosen[i];
        }
    }
    if (builder->slots_used + found + builder->nodes_wanted > builder->slots_max) {
        builder->batch[0] = best_guess;
        found = 1;
    }
    return found;
}

// The heap of the worst becomes a list from best to worst.
static void sort_best_first(or_builder_t *builder, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t worst = builder->chosen[0];
        builder->chosen[0] = builder->chosen[left - 1];
        sink(builder, left - 1, 0);
        builder->chosen[left - 1] = worst;
    }
}

or_status_t or_build_coupled(or_builder_t *builder, uint32_t *count)
{
    *count = 0;
    offer_children(builder, OR_BUILD_ROOT, count);
    for (;;) {
        uint32_t batch_count = choose_batch(builder, *count);
        if (batch_count == 0) {
            break;
        }
        or_status_t status = or_build_expand(builder, builder->batch, batch_count);
        if (status != OR_OK) {
            return status;
        }
        for (uint32_t i = 0; i < batch_count; i++) {
            if (builder->guesses[builder->batch[i]].expanded) { // and not replaced since
                offer_children(builder, builder->batch[i], count);
            }
        }
    }
    sort_best_first(builder, *count);
    return OR_OK;
}
