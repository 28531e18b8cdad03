// row_ops - the operations of a pass that work on one row at a time (arch.h). Internal to common/model.
#pragma once

#include "common/model/model_internal.h"

// Return the function of such an operation; NULL for one that works on all rows together.
or_row_op_t or_row_op(or_op_kind_t kind);

// Write OR_OP_EMBED of a planned row into x [width]. `scratch` is a row, too, which only models with learned positions need.
void or_embed_row(const or_model_t *model, uint32_t row, float *x, float *scratch);
