// inflate_plan - the shape of a model that computes what a smaller one does at a larger one's cost.
//
//     layers   o . . o . . o . .      the old ones spread among new ones, which add zero
//     FFN      [aa......][bb......]   each of the 8 shards (shards.h) grows: old columns, then new ones
//
// Columns move in super-blocks of 8 units of 32, as quantised types share scales over them. Each of a
// shard's old units keeps its place in its super-block, and units of another shard in there become new
// ones. So every sum over columns is the sum it was, with zeros in between, and every logit has the bits
// it had.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/arch/arch.h"

#define OR_INFLATE_SUPER 8u // units that move together
#define OR_INFLATE_NEW UINT32_MAX

typedef struct {
    uint32_t old_layers, layers;
    uint32_t old_ffn, ffn;
    uint64_t parameters; // of the result
} or_inflate_plan_t;

// Plan the shape nearest to `parameters`, with `layers` layers if that is not 0. OR_ERR_INVALID if the model is too large for
// it, or no shape comes near.
or_status_t or_inflate_plan(const or_arch_t *arch, const or_model_shape_t *shape,
                            uint64_t parameters, uint32_t layers, or_inflate_plan_t *plan);

// Return the old layer that a layer of the result is, or OR_INFLATE_NEW.
uint32_t or_inflate_layer(const or_inflate_plan_t *plan, uint32_t layer);
// Return the old FFN column that a column of the result is, or OR_INFLATE_NEW.
uint32_t or_inflate_column(const or_inflate_plan_t *plan, uint32_t column);
