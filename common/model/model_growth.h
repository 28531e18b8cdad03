// model_growth - draft trees that grow where their model is, all levels at once.
//
// A drafter's tree needs a pass a level, and which guesses a level has is known when the one before was run. On a
// device the host need not hear of each of them:
//
//     host      tree, beliefs ─▶                                            ─▶ rows that were run, their contenders
//     device                     choose ▶ pass ▶ contenders ▶ choose ▶ pass ▶ contenders ▶ ... nothing more to choose
//
// What comes back is what passes of or_model_forward and or_model_contenders would have brought, the same bits. The
// caller grows its tree from it as if it had asked for each pass; whatever the device did not run, for whatever
// reason, the caller runs. One thread, as for the model.
#pragma once

#include "common/model/model_draws.h"

#define OR_GROWTH_NODES_MAX 64u // guesses of a tree
#define OR_GROWTH_ROWS_MAX 128u // that are run at once

typedef struct {
    int32_t token;
    uint32_t parent;        // its place; 0: the root
    uint32_t depth;         // the root's is 0
    uint32_t slot;          // of one that was run; OR_KV_NO_SLOT: not yet, or the root
    or_noise_place_t place; // where its children begin
    double weight;          // log of the believed probability; the root's is 0
} or_growth_guess_t;

typedef struct {
    or_kv_sequence_t *sequence;
    or_contest_t contest; // of all rows, but for their places
    double tau;           // weight of a child: its parent's + log softmax(scores / tau)
    double nearly;        // run together: what weighs within it of the best
    // A batch whose Σ e^weight is less than this part of 1 + that of all guesses is not run. 0: any is.
    double share;
    uint32_t nodes; // guesses wanted; at most OR_GROWTH_NODES_MAX
    uint32_t depth; // levels
    uint32_t width; // children of a guess: 1 makes a chain
    // The root, which was run, and then the best guesses that are known, best first: equal weights by depth. Parents are
    // among them. The children of those that were run have been considered.
    const or_growth_guess_t *guesses; // [guess_count + 1]
    uint32_t guess_count;             // at most `nodes`
    const uint32_t *slots;            // that hold no node; taken in this order
    uint32_t slot_count;
} or_growth_t;

typedef struct {
    int32_t token;
    uint32_t parent_slot; // OR_KV_NO_SLOT: the root
    uint32_t slot;
    or_distribution_t dist; // as or_model_contenders has it; never of 0 tokens
} or_grown_row_t;

// The rows that were run. They are valid until the next tree grows.
typedef struct {
    const or_grown_row_t *rows; // in the order in which they were run
    uint32_t row_count;
    uint32_t passes;
} or_grown_t;

// Prepare for trees: copy the number of bytes that each of the first `count` tokens prints. After
// or_model_set_noise_keys. Nothing where the model has no device, or that has no room for it, which is tried once;
// trees do not grow there then. Where the head is not the embedding, or not as floats, this is a copy of the
// embedding, which all passes then read: that takes seconds for a large model. Called again, only the bytes are
// copied. OR_ERR_IO.
or_status_t or_model_prepare_growth(or_model_t *model, const uint32_t *widths, uint32_t count);

// Can or_model_grow run anything? It cannot once a device has failed to record a tree.
bool or_model_can_grow(const or_model_t *model);

// Grow a tree. To get no rows, or few, is no error: the first tree of its kind is not run here, and devices may have
// other reasons. The last pass's rows are written over. OR_ERR_INVALID for what no tree can be; OR_ERR_IO.
or_status_t or_model_grow(or_model_t *model, const or_growth_t *growth, or_grown_t *grown);

// Adopt a row that was run: its slot holds this node now, as if a pass had just been made of it. Rows that are not
// adopted leave no trace in their sequence. OR_ERR_INVALID as for such a pass.
or_status_t or_model_adopt(or_model_t *model, const or_model_row_t *row);
