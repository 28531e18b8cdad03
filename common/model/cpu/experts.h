// experts - a feed-forward network in parts, of which each row takes a few (Shazeer et al. 2017, arXiv:1701.06538).
//
//     route     logits [experts] = h times router. A row takes the `used` experts with the largest, of equal ones that
//               with the lower number. Their weights are the softmax of all logits, in some families made to add up to 1.
//               In others weights are sigmoids of the logits, and the choice is by these with a bias. Logits may have one.
//               Each expert may have a scale, by which its weight is multiplied last.
//               Experts may be in groups, of which the best are taken first, and the choice is among theirs.
//     entries   an entry is a row with one of its experts. Entries are ordered by expert, then by row:
//
//               row 0: experts 1 4     row 1: experts 0 4     entries  0/1   1/0   4/0   4/1
//
//     middle    gate [entry][ffn] = weight * silu(h times the expert's gate) * (h times the expert's up); in some families
//               both products have biases, and the activation is another
//     sum       sums [row][width] = gate times the expert's down, over the row's experts by ascending number, then the
//               shared one; in the fixed tree of shards (or_part_sum_run). Biases of the downs come behind the tree
//               (OR_OP_BIAS_EXPERTS).
//
// So a pass reads each expert that its rows take once (for OR_PART_SUM_ROWS rows), and a row's sum does not depend on
// the rows beside it. Experts are cut over ranks as any FFN is: every rank has a part of each. That keeps the tree, and
// all ranks have equally much to do whichever experts are taken. The order of the experts is inside a shard, so ranks
// exchange one sum for a row.
//
// The shared expert is taken by all rows. Its weight is the sigmoid of h times a vector, or 1. A layer without experts is run
// as a shared expert alone. In some families (Gemma 4) it reads another norm of x than the others, and its sums have a norm of
// their own. Then it is run first, and its sums are put aside.
#pragma once

#include <stdint.h>

#include "common/model/arch/arch.h"
#include "common/model/cpu/products.h"
#include "common/model/model.h"

// What a pass needs besides gate and up of all entries. Arrays of `used` have that many for each row.
typedef struct {
    size_t logits_stride;
    float *logits;     // [rows_max][logits_stride]
    uint32_t *chosen;  // [rows_max][used], ascending
    float *weights;    // [rows_max][used]
    or_span_t *groups; // [experts] the entries of each
    uint32_t *rows;    // [entries] their rows, from the first of those that are computed together
    uint32_t *entry_experts;
    float *entry_weights;
    or_activations_t h;     // [entries][width], copies of h's rows
    or_matrix_t *matrices;  // [2 * experts], that borrow their memory
    or_product_t *products; // [2 * experts], of those that some row takes
    or_span_t *product_rows;
    or_part_product_t *parts; // [experts + 1]
    float *scratch;           // [workers][OR_PART_SUM_FLOATS]
    size_t shared_stride;
    or_activations_t
        shared_gate;       // [rows together][share.shared_ffn]; no values without a shared expert
    float *shared_up;      // [rows together][shared_stride]
    float *aside;          // [rows_max][width_stride]; NULL in families that put nothing aside
    or_model_reads_t read; // of the last pass, experts alone
} or_experts_t;

typedef enum { OR_EXPERTS_BOTH, OR_EXPERTS_CHOSEN, OR_EXPERTS_SHARED } or_experts_part_t;

// Does a layer have no experts? It is run as a shared expert that is alone.
bool or_experts_is_dense(const or_layer_t *layer);
// Return the size of what all rows of a layer take, this rank's part of it, and the largest part that a layer has here.
uint32_t or_experts_common_ffn(const or_model_t *model, const or_layer_t *layer);
uint32_t or_experts_common_ffn_here(const or_model_t *model, const or_layer_t *layer);
uint32_t or_experts_common_ffn_max(const or_model_t *model);
// Return the most entries that are computed together.
size_t or_experts_entries_max(const or_model_t *model);
// Does some matrix of a layer's experts read quantised rows of h?
bool or_experts_quantised(const or_layer_t *layer);

// Take the memory of model->experts; false if there is none. or_experts_free cleans up.
bool or_experts_create(or_model_t *model);
void or_experts_free(or_model_t *model);

// Write the `used` experts with the largest of `count` logits, in ascending order; of equal logits those with the lower
// number are taken. 1 <= used <= count <= OR_EXPERTS_MAX.
void or_experts_choose(const float *logits, uint32_t count, uint32_t used, uint32_t *chosen);
// Write those that a row of so many numbers takes, among the experts of its best groups where the shape has groups. A group
// is ranked by its largest number or, where sigmoids choose, by the sum of its two largest.
void or_experts_choose_in_groups(const or_model_shape_t *shape, const float *numbers,
                                 uint32_t *chosen);
// Choose two experts and weigh each (SparseMixer, Liu et al. 2023, arXiv:2310.00811, without noise, as Phi 3.5 MoE does). The
// first has the largest logit, and its weight is its part of the softmax of those nearly as large. The second is chosen and
// weighted likewise among the others. Weights do not add up to 1. count >= 2.
void or_experts_mix(const float *logits, uint32_t count, uint32_t chosen[2], float weights[2]);
// Return the bytes of this rank's part of all experts.
uint64_t or_experts_bytes(const or_model_t *model);
// Choose experts for the rows of h. The layer has some (or_experts_is_dense).
void or_experts_route(or_model_t *model, const or_layer_t *layer, uint32_t rows);
// Return what the shared expert's part of a row of h is multiplied with; 1 where there is no router for it.
float or_experts_shared_weight(const or_model_t *model, const or_layer_t *layer, uint32_t row);
// Write sums of those chosen, of the shared one, or of both, over this rank's shards.
void or_experts_run(or_model_t *model, const or_layer_t *layer, or_experts_part_t part,
                    uint32_t rows);
