// batch - the rows of one pass, of all sessions that take part.
//
//     rows    prefix of a ┊ prefix of c ┊ root and nodes of a ┊ root and nodes of b ┊ ...
//
// Trees lie one behind the other, so that a run of logits may reach into the next one (head.h). A
// session may bring a part of its prefix, or its tree, or the last part of its prefix and its tree.
// One thread; no allocation after create.
#pragma once

#include "verifier/session.h"

typedef struct {
    or_vsession_t *session; // borrowed
    uint32_t prefix_rows;
    bool tree;
    uint32_t first_row; // of its tree; set by or_batch_run
} or_part_t;

typedef struct {
    or_part_t *parts; // [parts_max]
    uint32_t part_count, parts_max;
    uint32_t prefix_rows, tree_rows; // of all parts
    or_model_row_t *rows;            // [rows_max]
    uint32_t rows_max;
} or_batch_t;

// OR_ERR_NO_MEMORY.
or_status_t or_batch_init(or_batch_t *batch, uint32_t parts_max, uint32_t rows_max);
// Safe on a zeroed one.
void or_batch_fini(or_batch_t *batch);

void or_batch_clear(or_batch_t *batch);
uint32_t or_batch_rows(const or_batch_t *batch);
// Add a session's part, for which there must be room.
void or_batch_add(or_batch_t *batch, or_vsession_t *session, uint32_t prefix_rows, bool tree);
// The pass. Errors are or_model_forward's.
or_status_t or_batch_run(or_batch_t *batch, or_model_t *model);
