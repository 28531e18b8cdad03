// importance - how much each input of each matrix counts: sums of the squares of what it is multiplied with.
// They are collected while passes run. A file of them is an importance matrix, as of llama.cpp's tools/imatrix.
//
//     sums[matrix][i] = sum over its rows of x[row][i]^2          counts[matrix] = its rows
//
// An entry is a tensor of the file, under its name: a fused tensor is one. A tensor of experts has sums for each expert, over
// the rows that took it. What an expert's `down` reads is counted before it is multiplied with the row's weight, as
// llama.cpp does. A row whose weight is 0 is not counted there: nothing is left of it.
//
// Sums are doubles, added row after row: the same bits whatever the passes and threads. Models on the CPU, one rank.
#pragma once

#include <stdint.h>

#include "common/model/arch/arch.h"
#include "common/model/model.h"

#define OR_IMPORTANCE_NAME 64u // bytes, with the zero

typedef struct {
    char name[OR_IMPORTANCE_NAME]; // "blk.0.attn_q.weight"
    uint32_t inputs, matrices;     // experts, or 1
    double *sums;                  // [matrices][inputs], owned
    uint64_t *counts;              // [matrices], owned
    const or_matrix_t *matrix;     // of the model
} or_importance_entry_t;

typedef struct or_importance or_importance_t;

// Collect from every pass of the model from now on, of all matrices of its layers and, `with_head`, of the head. Only one
// at a time. OR_ERR_UNSUPPORTED on a GPU and on several ranks; OR_ERR_NO_MEMORY.
or_status_t or_importance_create(or_model_t *model, bool with_head, or_importance_t **importance_p);
// Stop collecting, before the model is destroyed. *importance_p may be NULL.
void or_importance_destroy(or_importance_t **importance_p);

uint32_t or_importance_count(const or_importance_t *importance);
// Entry i, in no order.
const or_importance_entry_t *or_importance_entry(const or_importance_t *importance, uint32_t i);

// ---- for the passes ----

// Rows of x that a matrix is multiplied with.
typedef struct {
    const or_activations_t *x;
    uint32_t first, count;
    const uint32_t *places; // [count], which are counted from `first`; NULL: 0 .. count - 1
    const float *weights;   // [count] what each was multiplied with; 0: pass it over; NULL: nothing
} or_importance_rows_t;

// Add the squares of these rows to the sums of a matrix of the model; of experts, of that one. A matrix without an entry, as
// a later part of a fused tensor, is passed over.
void or_importance_add(or_importance_t *importance, const or_matrix_t *matrix, uint32_t expert,
                       const or_importance_rows_t *rows);
// Add what the chosen experts of a layer read of the rows from `first` on, whose entries are grouped and whose middles are made
// (experts.h). NULL: nothing happens.
void or_importance_add_chosen(or_importance_t *importance, const or_layer_t *layer, uint32_t first);
// The same of the shared expert, of `count` rows.
void or_importance_add_shared(or_importance_t *importance, const or_layer_t *layer, uint32_t first,
                              uint32_t count);
