#include "launch/model/inflate_plan.h"

#include <inttypes.h>
#include <math.h>

#include "common/model/ranks/shards.h"

#define SUPER_COLUMNS (OR_INFLATE_SUPER * OR_SHARD_FFN_UNIT)
#define FFN_STEP (OR_SHARDS * SUPER_COLUMNS) // a super-block more for each shard
#define FFN_MAX (1u << 20)
#define LAYERS_USUAL_MIN 24u // of a model of some hundred million parameters
#define LAYERS_USUAL_MAX 48u
#define LAYERS_MAX 512u
#define CLOSE 0.03   // from what was asked for: near enough not to look on
#define FARTHEST 0.2 // beyond this it is another size

// A model with L layers and F columns has base + L (fixed + F column) parameters.
typedef struct {
    uint64_t base, fixed, column;
} cost_t;

static cost_t cost_of(const or_arch_t *arch, const or_model_shape_t *shape)
{
    cost_t cost = {0};
    for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
        uint64_t inputs = or_arch_dim(shape, t->inputs), outputs = or_arch_dim(shape, t->outputs);
        if (t->inputs == OR_DIM_FFN) {
            cost.column += outputs;
        } else if (t->outputs == OR_DIM_FFN) {
            cost.column += inputs;
        } else {
            cost.fixed += inputs * outputs;
        }
    }
    cost.base = shape->parameters - shape->layers * (cost.fixed + shape->ffn * cost.column);
    return cost;
}

// ---- columns ----

static uint32_t units_of(uint32_t columns)
{
    return (columns + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
}

// Count the super-blocks of the old FFN that have units of the shard; they begin at *first.
static uint32_t supers_of(or_span_t shard, uint32_t *first)
{
    *first = shard.begin / OR_INFLATE_SUPER;
    return shard.begin == shard.end ? 0 : (shard.end - 1) / OR_INFLATE_SUPER + 1 - *first;
}

// Return the least FFN in which every shard has room for its super-blocks.
static uint32_t least_ffn(uint32_t old_ffn)
{
    uint32_t most = 1;
    for (uint32_t s = 0; s < OR_SHARDS; s++) {
        uint32_t first, count = supers_of(or_shard_span(s, units_of(old_ffn)), &first);
        most = count > most ? count : most;
    }
    return most * FFN_STEP;
}

uint32_t or_inflate_column(const or_inflate_plan_t *plan, uint32_t column)
{
    if (plan->ffn == plan->old_ffn) {
        return column;
    }
    uint32_t shard_columns = plan->ffn / OR_SHARDS;
    or_span_t old = or_shard_span(column / shard_columns, units_of(plan->old_ffn));
    uint32_t first, count = supers_of(old, &first);
    uint32_t within = column % shard_columns;
    uint32_t from = first * SUPER_COLUMNS + within;
    uint32_t unit = from / OR_SHARD_FFN_UNIT;
    bool is_old = within < count * SUPER_COLUMNS && unit >= old.begin && unit < old.end &&
                  from < plan->old_ffn;
    return is_old ? from : OR_INFLATE_NEW;
}

// ---- layers ----

// Old layer i becomes layer floor((i + 1/2) L / old).
uint32_t or_inflate_layer(const or_inflate_plan_t *plan, uint32_t layer)
{
    for (uint32_t i = 0; i < plan->old_layers; i++) {
        if ((2 * (uint64_t)i + 1) * plan->layers / (2 * (uint64_t)plan->old_layers) == layer) {
            return i;
        }
    }
    return OR_INFLATE_NEW;
}

// ---- the size ----

static double distance(const or_inflate_plan_t *plan, uint64_t wanted)
{
    return fabs((double)plan->parameters / (double)wanted - 1);
}

// Return the nearest shape with so many layers.
static or_inflate_plan_t plan_layers(const cost_t *cost, const or_model_shape_t *shape,
                                     uint64_t wanted, uint32_t layers)
{
    double columns = (((double)wanted - (double)cost->base) / layers - (double)cost->fixed) /
                     (double)cost->column;
    double steps = floor(columns / FFN_STEP + 0.5);
    uint32_t least = least_ffn(shape->ffn);
    double ffn = steps * FFN_STEP;
    ffn = ffn > least ? ffn : least;
    ffn = ffn < FFN_MAX ? ffn : FFN_MAX;
    or_inflate_plan_t plan = {shape->layers, layers, shape->ffn, (uint32_t)ffn, 0};
    plan.parameters = cost->base + layers * (cost->fixed + plan.ffn * cost->column);
    return plan;
}

// Keep in *best the better of it and the nearest shape with so many layers.
static void consider(const cost_t *cost, const or_model_shape_t *shape, uint64_t wanted,
                     uint32_t layers, or_inflate_plan_t *best)
{
    or_inflate_plan_t plan = plan_layers(cost, shape, wanted, layers);
    if (best->layers == 0 || distance(&plan, wanted) < distance(best, wanted)) {
        *best = plan;
    }
}

// Search the nearest shape among usual numbers of layers; if that is not near, among fewer, or else more.
static or_inflate_plan_t search(const cost_t *cost, const or_model_shape_t *shape, uint64_t wanted)
{
    uint32_t layers = shape->layers > LAYERS_USUAL_MIN ? shape->layers : LAYERS_USUAL_MIN;
    uint32_t fewer = layers;
    or_inflate_plan_t best = {0};
    while (layers <= LAYERS_USUAL_MAX || best.layers == 0) {
        consider(cost, shape, wanted, layers++, &best);
    }
    while (fewer-- > shape->layers && distance(&best, wanted) > CLOSE) {
        consider(cost, shape, wanted, fewer, &best);
    }
    while (layers <= LAYERS_MAX && distance(&best, wanted) > CLOSE) {
        consider(cost, shape, wanted, layers++, &best);
    }
    return best;
}

or_status_t or_inflate_plan(const or_arch_t *arch, const or_model_shape_t *shape,
                            uint64_t parameters, uint32_t layers, or_inflate_plan_t *plan)
{
    cost_t cost = cost_of(arch, shape);
    if (layers != 0 && (layers < shape->layers || layers > LAYERS_MAX)) {
        return or_fail(OR_ERR_INVALID,
                       "--layers: %" PRIu32 " is not between the model's %" PRIu32 " and %u",
                       layers, shape->layers, LAYERS_MAX);
    }
    or_inflate_plan_t best = layers != 0 ? plan_layers(&cost, shape, parameters, layers)
                                         : search(&cost, shape, parameters);
    if (distance(&best, parameters) > FARTHEST) {
        return or_fail(OR_ERR_INVALID,
                       "no shape comes near to %" PRIu64 " parameters; the nearest has %" PRIu64
                       ": %" PRIu32 " layers and an FFN of %" PRIu32,
                       parameters, best.parameters, best.layers, best.ffn);
    }
    *plan = best;
    return OR_OK;
}
