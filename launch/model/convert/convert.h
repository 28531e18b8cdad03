// convert - make a GGUF file of a checkpoint as Hugging Face publishes it.
//
// The engine's tables say which tensors the family has and of what shape; each is found in the checkpoint under its name
// there, and written row by row. A tensor of the checkpoint that has no place is an error: nothing is left out in silence.
// Main thread; it watches for interruption (interrupt.h). Progress goes to standard error.
#pragma once

#include "launch/model/convert/checkpoint.h"
#include "launch/model/convert/config.h"
#include "launch/model/weight_writer.h"

typedef struct {
    const char *folder, *out;
    const or_tensor_type_t *type; // of the matrices; NULL: each keeps its own
    uint32_t threads;             // as in workers.h
    bool force;                   // write over `out` if it is there
    bool vocabulary_only;         // neither tensors nor what else is said of them
} or_convert_job_t;

typedef struct {
    char architecture[32];
    uint64_t tensors, parameters, file_bytes;
} or_convert_result_t;

// Convert. OR_ERR_IO, OR_ERR_NO_MEMORY, OR_ERR_FORMAT, OR_ERR_UNSUPPORTED; OR_ERR_INVALID as or_weight_writer_check_path has
// it; OR_ERR_CANCELLED if interrupted. After an error nothing is written, and an old file at `out` is what it was.
or_status_t or_convert(const or_convert_job_t *job, or_convert_result_t *result);

// ---- the plan (convert_plan.c) ----

#define OR_CONVERT_NAME_BYTES 96u

// A tensor of the new file.
typedef struct {
    char name[OR_CONVERT_NAME_BYTES];
    uint64_t source;               // of the checkpoint, where `values` is NULL
    const or_safetensor_t *tensor; // likewise
    const float *values;           // borrowed from the config
    uint64_t *experts;             // owned: the source of each of `matrices`; NULL: there is one
    uint64_t scales;               // likewise of the scales, where `is_packed`
    uint32_t matrices;
    uint32_t rows, width; // of a matrix; a vector is one row
    uint32_t first_row;   // rows of the source before it are left out
    bool is_vector;
    or_tensor_type_t type;
    uint32_t heads;     // whose pairs of rows move from half a head apart to neighbours; 0: none do
    uint32_t groups;    // Q, K and V are there by so many heads of K and V; 0: they are apart
    uint32_t head_rows; // likewise: of a head
    // Of a tensor of all heads' matrices: a head's rows there, of which this item has those from first_row on. 0: another.
    uint32_t head_stride;
    uint32_t turns; // of all experts' tensor: how many take turns in its outputs; 0: it is another
    uint32_t turn;  // likewise: which of them this is
    bool is_packed; // likewise: blocks of MXFP4
    bool is_transposed; // in the checkpoint
    bool is_less_one;   // likewise
} or_convert_item_t;

typedef struct {
    const or_checkpoint_t *checkpoint;
    const or_hf_config_t *config;
    const or_tensor_type_t *type;
    or_convert_item_t *items;
    uint64_t count, capacity;
    bool *used;       // a flag for each tensor of the checkpoint
    uint64_t *scales; // likewise: 1 + the tensor of its scales; 0: it has none
} or_convert_plan_t;

// Plan all tensors, in the file's order. The plan's first three fields are given. OR_ERR_FORMAT names a tensor that is missing,
// has another shape, or no place; OR_ERR_UNSUPPORTED one whose dtype cannot be read. or_convert_plan_fini follows in any case.
or_status_t or_convert_plan(or_convert_plan_t *plan);
void or_convert_plan_fini(or_convert_plan_t *plan);
// A tensor of the checkpoint that is used, for reading.
or_hf_source_t or_convert_source(const or_convert_plan_t *plan, uint64_t source);
