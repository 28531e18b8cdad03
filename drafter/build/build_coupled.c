// coupled - the tree that the target, sharing our noise, most likely follows (docs/design.md section 6;
// docs/algorithms.md section 1).
//
// The weight of a guess is the product of softmax(s / tau) along its path, s the perturbed scores;
// the tree is the n guesses of largest weight. A child never weighs more than its parent, so the
// best n of the guesses known so far only lose members to better ones, and the best of those not
// yet expanded is sure to stay. Expanding that one alone, again and again, is the textbook's way: n
// passes of one row. We expand all that weigh nearly as much with it, a pass a round, until no
// expansion could change the set. The tree is the same. Measured on tales-1m with 16 to 1,024
// nodes and e^-1 as nearly: 1.1 rows a node and about a pass a level, where expanding the whole set in
// each round takes 2 to 6 rows a node. With e^-2 a pass has 1.2 times the rows, and there are fewer: tales-1m
// at 2 ms a pass before a target of 40 ms writes 0 (16 nodes), 3 (64) and 8 percent (256) faster.
//
// A tree that grows on (builder.h) has more guesses than its round asks for, deeper ones too, and is
// kept when the text goes on. Whatever it has, the n best that the round may have are among them: a
// deeper guess never takes the place of one of these. Weights that were given stay; a new tau is for the
// guesses that come after.
#include <math.h>
#include <string.h>

#include "common/base/math/math.h"
#include "drafter/build/builder_internal.h"

// Return true if guess a belongs before b. Of equal weights the shallower comes first, so that a parent comes before
// its children.
static bool before(const or_build_guess_t *a, const or_build_guess_t *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->depth < b->depth);
}

static const or_build_guess_t *at(const or_builder_t *builder, uint32_t place)
{
    return &builder->guesses[builder->chosen[place]];
}

// Return true if the round's tree may have guesses of this depth.
static bool is_for_round(const or_builder_t *builder, uint32_t depth)
{
    return depth <= builder->depth_limit;
}

// Insert the first unused guess into the tree, behind the guesses that are as good, so that siblings stay in the
// order of their ranks.
static void insert(or_builder_t *builder)
{
    uint32_t guess = builder->chosen[builder->set_count];
    uint32_t low = 0, high = builder->set_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (before(&builder->guesses[guess], at(builder, middle))) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    memmove(&builder->chosen[low + 1], &builder->chosen[low],
            (builder->set_count - low) * sizeof *builder->chosen);
    builder->chosen[low] = guess;
    builder->set_count++;
    builder->round_count += is_for_round(builder, builder->guesses[guess].depth);
}

static void spare_slot(or_builder_t *builder, or_build_guess_t *guess)
{
    if (guess->slot != OR_KV_NO_SLOT) {
        builder->spare_slots[builder->spare_slot_count++] = guess->slot;
        guess->slot = OR_KV_NO_SLOT;
    }
    guess->expanded = false;
}

// Take a guess without descendants out of the tree: the last of its siblings there.
static void evict(or_builder_t *builder, uint32_t place)
{
    uint32_t number = builder->chosen[place];
    or_build_guess_t *guess = &builder->guesses[number];
    memmove(&builder->chosen[place], &builder->chosen[place + 1],
            (builder->set_count - place - 1) * sizeof *builder->chosen);
    builder->chosen[--builder->set_count] = number;
    builder->round_count -= is_for_round(builder, guess->depth);
    builder->guesses[guess->parent].children--;
    if (guess->slot != OR_KV_NO_SLOT) {
        or_kv_sequence_drop_slot(builder->job->sequence, guess->slot);
    }
    spare_slot(builder, guess);
}

// Return the place of the guess that is evicted to make room at `depth`: the least likely one that the round does not
// need; set_count if there is none.
static uint32_t worst(const or_builder_t *builder, uint32_t depth)
{
    uint32_t round_count = builder->round_count + is_for_round(builder, depth);
    uint32_t place = builder->set_count;
    while (place-- > 0) {
        if (round_count > builder->nodes_wanted ||
            !is_for_round(builder, at(builder, place)->depth)) {
            return place;
        }
    }
    return builder->set_count;
}

// Make room for a guess of this weight and depth, which is deeper than all of equal weight. The evicted guess has no
// descendants in the tree and is not its parent, because no child weighs more than its parent.
static bool make_room(or_builder_t *builder, double weight, uint32_t depth)
{
    if (builder->set_count < builder->room) {
        return true;
    }
    uint32_t place = worst(builder, depth);
    bool needed = is_for_round(builder, depth) && builder->round_count < builder->nodes_wanted;
    if (place == builder->set_count || (!needed && weight <= at(builder, place)->weight)) {
        return false;
    }
    evict(builder, place);
    return true;
}

// Offer the tree those children of an expanded guess that it does not have.
static void offer_children(or_builder_t *builder, uint32_t parent)
{
    or_build_guess_t *above = &builder->guesses[parent];
    const or_build_list_t *list = &builder->lists[parent];
    while (above->children < list->count) {
        uint32_t rank = above->children;
        if (!make_room(builder, above->weight + list->weights[rank], above->depth + 1)) {
            return;
        }
        or_build_put(builder, builder->chosen[builder->set_count], parent, rank);
        above->children++;
        insert(builder);
    }
}

void or_build_best_begin(or_builder_t *builder)
{
    for (uint32_t i = 0; i < builder->nodes_max; i++) {
        builder->chosen[i] = i + 1;
        builder->guesses[i + 1].expanded = false;
    }
    builder->set_count = builder->round_count = 0;
    builder->settled = true;
    offer_children(builder, OR_BUILD_ROOT);
}

// Return the weight at or below which no guess has a child among the best `nodes` up to this depth.
static double bar(const or_builder_t *builder, uint32_t nodes, uint32_t depth)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < builder->set_count; i++) {
        seen += at(builder, i)->depth <= depth;
        if (seen == nodes) {
            return at(builder, i)->weight;
        }
    }
    return -INFINITY;
}

static uint32_t choose(or_builder_t *builder, uint32_t nodes, uint32_t depth, uint32_t most,
                       double nearly)
{
    double least = bar(builder, nodes, depth);
    uint32_t found = 0;
    for (uint32_t i = 0; i < builder->set_count && found < most; i++) {
        const or_build_guess_t *guess = at(builder, i);
        if (guess->weight <= least) {
            break;
        }
        if (!guess->expanded && guess->depth < depth) {
            least = found == 0 ? fmax(least, guess->weight - nearly) : least;
            builder->batch[found++] = builder->chosen[i];
        }
    }
    return found;
}

static or_status_t expand(or_builder_t *builder, uint32_t batch_count)
{
    or_status_t status = or_build_expand(builder, builder->batch, batch_count);
    for (uint32_t i = 0; status == OR_OK && i < batch_count; i++) {
        if (builder->guesses[builder->batch[i]].expanded) { // and not evicted since
            offer_children(builder, builder->batch[i]);
        }
    }
    return status;
}

uint32_t or_build_best_pick(or_builder_t *builder)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < builder->set_count && count < builder->nodes_wanted; i++) {
        if (is_for_round(builder, at(builder, i)->depth)) {
            builder->picked[count++] = builder->chosen[i];
        }
    }
    return count;
}

static double believed(const or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += or_exp(builder->guesses[guesses[i]].weight);
    }
    return sum;
}

// Return true if it is worth another pass to expand the batch, when the round's tree has taken `passes`.
static bool pays(or_builder_t *builder, uint32_t batch_count, uint32_t passes)
{
    if (builder->job->pass_cost <= 0) {
        return true;
    }
    double tokens = 1 + believed(builder, builder->picked, or_build_best_pick(builder));
    return OR_BUILD_CHILDREN_SHARE * believed(builder, builder->batch, batch_count) >=
           or_build_pass_share(builder->job, passes) * tokens;
}

// Choose a batch for the round, whose tree has taken `passes`; return 0 if none pays.
static uint32_t next_batch(or_builder_t *builder, uint32_t passes)
{
    uint32_t count = choose(builder, builder->nodes_wanted, builder->depth_limit,
                            builder->nodes_wanted, OR_BUILD_NEARLY);
    return count > 0 && pays(builder, count, passes) ? count : 0;
}

static or_status_t finish(or_builder_t *builder)
{
    uint32_t passes = 1; // the root's; then those that are asked for, wherever they run
    uint32_t count = next_batch(builder, passes);
    or_status_t status =
        count > 0 ? or_build_foresee(builder, or_build_best_pick(builder), OR_BUILD_CHILDREN)
                  : OR_OK;
    while (status == OR_OK && count > 0) {
        status = expand(builder, count);
        count = status == OR_OK ? next_batch(builder, ++passes) : 0;
    }
    or_build_forget_ahead(builder);
    return status;
}

static void settle(or_builder_t *builder)
{
    uint32_t count = builder->set_count;
    uint32_t expanded = 0;
    builder->set_count = builder->round_count = 0;
    while (builder->set_count < count) {
        insert(builder);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (at(builder, i)->expanded) {
            builder->batch[expanded++] = builder->chosen[i];
        }
    }
    offer_children(builder, OR_BUILD_ROOT);
    for (uint32_t i = 0; i < expanded; i++) {
        if (builder->guesses[builder->batch[i]].expanded) { // and not evicted since
            offer_children(builder, builder->batch[i]);
        }
    }
    builder->settled = true;
}

static bool stands_on(const or_builder_t *builder, uint32_t guess, uint32_t root)
{
    do {
        guess = builder->guesses[guess].parent;
    } while (guess != root && guess != OR_BUILD_ROOT);
    return guess == root;
}

// Put the tree's guesses below `root` first, in the order they had; return how many there are.
static uint32_t part(or_builder_t *builder, uint32_t root)
{
    uint32_t *gone = builder->batch;
    uint32_t kept = 0, gone_count = 0;
    for (uint32_t i = 0; i < builder->set_count; i++) {
        uint32_t guess = builder->chosen[i];
        if (stands_on(builder, guess, root)) {
            builder->chosen[kept++] = guess;
        } else {
            gone[gone_count++] = guess;
        }
    }
    memcpy(&builder->chosen[kept], gone, gone_count * sizeof *gone);
    return kept;
}

static void reroot(or_builder_t *builder, uint32_t root)
{
    or_build_guess_t *guesses = builder->guesses;
    uint32_t levels = guesses[root].depth;
    uint32_t kept = part(builder, root);
    for (uint32_t i = kept; i < builder->set_count; i++) {
        spare_slot(builder, &guesses[builder->chosen[i]]);
    }
    builder->lists[OR_BUILD_ROOT] = builder->lists[root];
    guesses[OR_BUILD_ROOT] = (or_build_guess_t){.token = guesses[root].token,
                                                .expanded = true,
                                                .slot = OR_KV_NO_SLOT,
                                                .children = guesses[root].children,
                                                .place = guesses[root].place};
    for (uint32_t i = 0; i < kept; i++) { // parents first: they weigh more
        or_build_guess_t *guess = &guesses[builder->chosen[i]];
        guess->parent = guess->parent == root ? OR_BUILD_ROOT : guess->parent;
        guess->depth -= levels;
        guess->weight =
            guesses[guess->parent].weight + builder->lists[guess->parent].weights[guess->rank];
    }
    builder->set_count = kept;
    builder->settled = false;
    builder->crowded = false;
}

or_status_t or_build_best_first(or_builder_t *builder, uint32_t *count)
{
    or_build_best_begin(builder);
    or_status_t status = finish(builder);
    *count = builder->set_count;
    return status;
}

// ---- a tree that grows on while its round is in flight ----

// The share of rounds in which the next root had been run before, tales-1m drafting for tales-6m (coupled, 16 nodes):
// 0.51 with room for 64 guesses, 0.66 for 128, 0.77 for 256, 0.85 for 512, 0.88 for 1,024; with 64 nodes 0.72 for 512
// and 0.82 for 1,024. Each doubling doubles the rows that a round costs.
#define GROWING_FACTOR 32u
#define GROWING_MIN 512u

// The most rows of one pass of growing, so that a tree that is due does not wait for long.
#define GROWING_ROWS 32u

uint32_t or_build_growing_nodes(uint32_t nodes_max)
{
    uint32_t nodes = nodes_max < OR_TREE_NODES_MAX / GROWING_FACTOR ? GROWING_FACTOR * nodes_max
                                                                    : OR_TREE_NODES_MAX;
    return nodes > GROWING_MIN ? nodes : GROWING_MIN;
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

// Prepare the standing tree for this job.
static void resume(or_builder_t *builder, const or_build_job_t *job)
{
    uint32_t nodes = builder->nodes_wanted;
    uint32_t depth = builder->depth_limit;
    or_build_take_job(builder, job);
    builder->grow_depth = builder->source.positions - builder->history_count;
    if (!builder->settled || builder->nodes_wanted != nodes || builder->depth_limit != depth) {
        settle(builder);
    }
}

or_status_t or_builder_finish(or_builder_t *builder, const or_build_job_t *job,
                              or_token_tree_t *tree)
{
    resume(builder, job);
    or_status_t status = finish(builder);
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
        choose(builder, builder->room, builder->grow_depth, GROWING_ROWS, INFINITY);
    or_status_t status = expand(builder, batch_count);
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
        reroot(builder, guess);
    }
    return kept;
}
