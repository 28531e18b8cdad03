// row_ops - the operations of a pass that work on one row at a time (arch.h). Internal to this folder.
#pragma once

#include "common/model/model_internal.h"

// Return the function of such an operation; NULL for one that works on all rows together.
or_row_op_t or_row_op(or_op_kind_t kind);
