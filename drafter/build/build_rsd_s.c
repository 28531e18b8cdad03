// rsd-s - stochastic beam search: at each level the W likeliest of all perturbed sequences (RSD, Jeon
// et al. 2024; Kool et al. 2019).
//
// A sequence's value is its log-probability perturbed by Gumbel noise, and a parent's is the largest
// of its children's. So we go top down, as Maddison et al. 2014 do: the best child of a parent has its
// parent's value; the next one's is a Gumbel with the mass that is left, cut off at the value before
// it; and only then is drawn which token it is, from what is left of the distribution. The same beam as by
// perturbing every token, and it is plain to see that no guess is kept for being the token it is.
//
// Where the rule shares the target's noise, or decodes greedily, a child's value is what is believed
// of its path, and the beam takes the W best.
#include "common/base/math/math.h"
#include "drafter/build/builder_internal.h"

#define VALUE_DRAW (1U << 20) // choices about values, beside those about tokens

typedef struct {
    uint32_t guess;
    double next; // value of its next child
    bool open;   // it has one
} parent_t;

// Return a Gumbel variate of this location, cut off at `bound`. It is computed from the larger term, so that nothing
// overflows.
static double gumbel_below(double location, double bound, double uniform)
{
    double exponential = -or_ln(uniform);
    if (bound < location) {
        return bound - or_ln(1 + exponential * or_exp(bound - location));
    }
    return location - or_ln(exponential + or_exp(location - bound));
}

// Return the value of the next child of `parent`; `before` is the value of the last child, or the parent's own.
static double value_of_next(const or_builder_t *builder, uint32_t parent, double before)
{
    const or_build_guess_t *guess = &builder->guesses[parent];
    if (!builder->job->drawn) {
        return guess->weight + builder->lists[parent].weights[guess->children];
    }
    if (guess->children == 0) {
        return before;
    }
    or_chooser_t *chooser = builder->job->chooser;
    or_choice_t at = {OR_RNG_DRAFT, parent, VALUE_DRAW + guess->children};
    double location =
        guess->weight + or_ln(builder->dists[parent].left_total / OR_DISTRIBUTION_TOTAL);
    return gumbel_below(location, before, chooser->uniform(chooser, at));
}

static void look_ahead(const or_builder_t *builder, parent_t *parent, double before)
{
    parent->open = or_build_has_next(builder, parent->guess);
    if (parent->open) {
        parent->next = value_of_next(builder, parent->guess, before);
    }
}

static parent_t *best_parent(parent_t *parents, uint32_t count)
{
    parent_t *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (parents[i].open && (best == NULL || parents[i].next > best->next)) {
            best = &parents[i];
        }
    }
    return best;
}

// Make the W best children of all parents the tree's next guesses, best first.
static void take_level(or_builder_t *builder, parent_t *parents, uint32_t parent_count,
                       uint32_t width, double *values, uint32_t *count)
{
    for (uint32_t taken = 0; taken < width && *count < builder->nodes_wanted; taken++) {
        parent_t *parent = best_parent(parents, parent_count);
        if (parent == NULL) {
            return;
        }
        uint32_t guess = *count + 1;
        or_build_next(builder, guess, parent->guess);
        values[guess] = parent->next;
        builder->chosen[(*count)++] = guess;
        look_ahead(builder, parent, parent->next);
    }
}

or_status_t or_build_rsd_s(or_builder_t *builder, uint32_t *count)
{
    const or_shape_t *shape = &builder->job->shape;
    uint32_t levels = or_shape_levels(shape, OR_DRAFT_RSD_S, builder->depth_limit);
    parent_t parents[OR_TREE_NODES_MAX];
    double values[OR_TREE_NODES_MAX + 1];
    uint32_t parent_count = 1;
    parents[0].guess = OR_BUILD_ROOT;
    values[OR_BUILD_ROOT] = 0;
    *count = 0;
    for (uint32_t level = 0; level < levels && level < builder->depth_limit; level++) {
        uint32_t before = *count;
        for (uint32_t i = 0; i < parent_count; i++) {
            look_ahead(builder, &parents[i], values[parents[i].guess]);
        }
        take_level(builder, parents, parent_count, shape->widths[0], values, count);
        if (level + 1 == levels || level + 1 == builder->depth_limit ||
            *count == builder->nodes_wanted) {
            break;
        }
        parent_count = *count - before;
        for (uint32_t i = 0; i < parent_count; i++) {
            parents[i].guess = before + 1 + i;
            builder->batch[i] = before + 1 + i;
        }
        or_status_t status = or_build_expand(builder, builder->batch, parent_count);
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}
