// cuda_experts - a feed-forward network in parts on a GPU, of which each row takes a few. The arithmetic is that of
// common/model/cpu/experts.h, to the last bit, and so are the words.
//
//     choose     logits [rows][experts] ──▶ chosen and weights [rows][used]
//     group      chosen ──▶ entries, ordered by expert and then by row, and the groups of them that are multiplied together
//     gather     h of rows ──▶ h of entries
//     matmul     h of entries times the matrices of their experts (or_cuda_parts_t.groups in cuda_kernels.h)
//     activate   gate and up of entries ──▶ gate
//     sum        gate times down, of entries ──▶ sums of rows
//
// The host knows how many entries there are, and not whose: what is launched never depends on the choice, so that it can
// be recorded. Only experts that some row takes are read.
#pragma once

#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_CUDA_EXPERTS_MAX 1024u

// ---- the choice ----

typedef struct {
    uint32_t experts;         // 1 to OR_CUDA_EXPERTS_MAX
    uint32_t used;            // 1 to `experts`
    bool sigmoid;             // weights are the sigmoids of logits, and not their softmax
    bool normalised;          // weights of a row are made to add up to 1
    float scale;              // of weights
    uint32_t groups;          // of experts, equally many in each; 0: there are none
    uint32_t groups_used;     // 1 to `groups`: the choice is among the experts of so many groups
    const float *logit_bias;  // [experts]; NULL: none
    const float *choice_bias; // [experts] of sigmoids, for the choice alone; NULL: none
} or_cuda_choice_t;

// Choose experts for rows of logits [rows][stride]: their numbers, ascending, to chosen [rows][used], and weights likewise.
// Of equal logits those with the lower number are taken. A logit that is no number is only taken where it has the lowest
// number of all that are left. A group is ranked by its largest number or, with sigmoids, by the sum of its two largest, as
// or_experts_choose_in_groups does it; with sigmoids groups have two experts or more.
int or_cuda_choose_experts(or_cuda_t *cuda, const or_cuda_choice_t *choice, const float *logits,
                           size_t stride, uint32_t rows, uint32_t *chosen, float *weights);

// Choose two experts for rows of logits and weigh each (or_experts_mix in common/model/cpu/experts.h): to chosen [rows][2] and
// weights likewise, each weight times `scale`. experts >= 2.
int or_cuda_mix_experts(or_cuda_t *cuda, uint32_t experts, float scale, const float *logits,
                        size_t stride, uint32_t rows, uint32_t *chosen, float *weights);

// ---- entries ----

// An entry is a row with one of its experts. There are rows * used of them.
typedef struct {
    uint32_t *rows;          // [entries] the row of each
    uint32_t *experts;       // [entries]
    float *weights;          // [entries]
    uint32_t *places;        // [rows][used] the entries of a row, by ascending expert
    or_cuda_group_t *groups; // [or_cuda_groups_max()], those behind the last one are empty
    uint32_t *taken;         // the number of experts that some row takes
} or_cuda_entries_t;

// Return the most groups of at most group_rows entries that so many entries can make. Each expert that is taken has one, and
// another for each group_rows entries behind its first.
static inline uint32_t or_cuda_groups_max(uint32_t experts, uint32_t entries, uint32_t group_rows)
{
    uint32_t taken = entries < experts ? entries : experts;
    return taken + (entries - taken) / group_rows;
}

// Order the entries of rows by what or_cuda_choose_experts wrote. With `adds` their experts are counted beside those that
// to->taken has already.
int or_cuda_group_entries(or_cuda_t *cuda, uint32_t experts, uint32_t used, const uint32_t *chosen,
                          const float *weights, uint32_t rows, uint32_t group_rows, bool adds,
                          const or_cuda_entries_t *to);

// Copy rows of n floats, and their blocks, to entries: entry i is row rows[i] of `from`. What `to` lacks, floats or
// blocks, is not copied.
int or_cuda_gather(or_cuda_t *cuda, const or_cuda_rows_t *from, const uint32_t *rows, uint32_t n,
                   uint32_t entries, const or_cuda_rows_t *to);

// ---- the middle ----

// What the rows of gate and up are.
typedef struct {
    const uint32_t *experts; // [rows] the expert of each; NULL: they have one alone, without biases
    const float *weights;    // [rows]; NULL: all are 1
    const float *gate_bias;  // [experts][bias_stride], from the first of n outputs on; NULL: none
    const float *up_bias;    // likewise
    size_t bias_stride;
    bool
        clamps; // the activation is or_clamped_gated (common/model/cpu/elementwise.h), and not SiLU
} or_cuda_expert_rows_t;

// gate = weight * f(gate + bias, up + bias), in place.
int or_cuda_activate_experts(or_cuda_t *cuda, const or_cuda_expert_rows_t *what,
                             const or_cuda_rows_t *gate, const float *up, size_t up_stride,
                             uint32_t n, uint32_t rows);

// weights[row] = the sigmoid of a row of h [rows][stride] times a vector of n floats.
int or_cuda_weigh_shared(or_cuda_t *cuda, const float *h, size_t stride, const float *router,
                         uint32_t n, uint32_t rows, float *weights);

// ---- the sum ----

// Products of entries, [shards][part_stride], in rows of `stride` floats.
typedef struct {
    const float *values;
    size_t part_stride;
    size_t stride;
    const uint32_t *places; // [rows][used] of the entries of a row
    uint32_t used;          // 0: there are no entries
} or_cuda_entry_products_t;

// sums [shards][part_stride][stride] = ((+0 + first product) + second) + ... of n floats, over the entries of each row. With
// `adds` what was in sums is the last one.
int or_cuda_sum_entries(or_cuda_t *cuda, const or_cuda_entry_products_t *products, bool adds,
                        float *sums, size_t part_stride, size_t stride, uint32_t shards, uint32_t n,
                        uint32_t rows);

// sums [rows][stride] += weight * bias of a row's experts, in ascending order: bias [experts][n].
int or_cuda_bias_experts(or_cuda_t *cuda, const uint32_t *chosen, const float *weights,
                         uint32_t used, const float *bias, float *sums, size_t stride, uint32_t n,
                         uint32_t rows);

#ifdef __cplusplus
}
#endif
