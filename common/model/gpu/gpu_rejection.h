// gpu_rejection - recursive rejection of a drawn tree on the device that has its logits.
//
//     up      nodes, the distributions their children were drawn from, stop ids         some kilobytes
//     down    the accepted nodes and the token after them
//
// The path is the one that or_accept finds by the rule "recursive" with or_keyed_chooser, where temperature is all
// that makes a distribution of logits. One thread, as for the model.
#pragma once

#include "common/base/math/rng.h"
#include "common/decode/draws.h"
#include "common/model/model.h"

typedef struct or_gpu_rejection or_gpu_rejection_t;

// For the first vocab_size tokens of the model, which it borrows, and trees of nodes_max nodes. Trees have fewer
// nodes where the device has no room for the logits of so many. *rejection_p is NULL where this cannot be done: the
// model does not run on a device, alone, or has too many tokens, or the device no memory. OR_ERR_NO_MEMORY on the
// host.
or_status_t or_gpu_rejection_create(or_model_t *model, uint32_t vocab_size, uint32_t nodes_max,
                                    or_gpu_rejection_t **rejection_p);
void or_gpu_rejection_destroy(or_gpu_rejection_t **rejection_p);

typedef struct {
    const or_token_tree_t *tree;
    const or_draws_t *draws; // or_draws_check for the rule "recursive"
    uint32_t first_row;      // the root's, of the last pass
    uint32_t rows;           // of root and nodes
    const uint32_t
        *row_of; // of node i, counted from the root's; any where the vocabulary lacks its token
    float temperature; // above 0
    or_rng_key_t key;  // of the choices
    uint32_t round;
    const uint32_t *stop_ids;
    uint32_t stop_count;
} or_gpu_trial_t;

// *path_p is valid until the next call; NULL: this is one for or_accept, because it is too large or a logit is not
// finite. OR_ERR_INVALID if the rows are not the last pass's; OR_ERR_IO.
or_status_t or_gpu_rejection_run(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial,
                                 const or_cuda_path_t **path_p);
