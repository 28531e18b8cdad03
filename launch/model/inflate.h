// inflate - write a model that computes what a small one does, at a large one's cost.
//
// The new file has its name only once both models have computed the same bits for pseudo-random tokens. Progress goes to
// standard error. Main thread; it watches for interruption (interrupt.h).
#pragma once

#include "launch/model/inflate_plan.h"
#include "launch/model/weight_writer.h"

typedef struct {
    const char *in, *out;
    const char *size; // what the file's name in its metadata says: "300M"
    uint64_t parameters;
    const or_tensor_type_t *type; // of the matrices; NULL: each keeps its own
    uint32_t layers;              // 0: what comes nearest to `parameters`
    uint32_t threads;             // as in workers.h
    uint64_t seed;                // of the random weights
    bool force;                   // write over `out` if it is there
} or_inflate_job_t;

typedef struct {
    or_inflate_plan_t plan;
    uint64_t file_bytes;
    uint32_t compared; // tokens whose logits were compared
} or_inflate_result_t;

// Remove the unfinished files that inflating processes which were killed have left in `folder` beside an OUT whose name begins
// with `beginning`. Those of other processes that are alive stay. Call it before inflating.
void or_inflate_remove_left(const char *folder, const char *beginning);

// Read "300M" or "1.2B". OR_ERR_INVALID names the option `what`.
or_status_t or_inflate_parse_size(const char *what, const char *text, uint64_t *parameters);

// Inflate a model. OR_ERR_IO, OR_ERR_NO_MEMORY, OR_ERR_FORMAT, OR_ERR_UNSUPPORTED; OR_ERR_INVALID as
// or_weight_writer_check_path and or_inflate_plan have it; OR_ERR_MISMATCH if a bit differs; OR_ERR_CANCELLED if interrupted.
// After an error nothing is written, and an old file at `out` is what it was.
or_status_t or_inflate(const or_inflate_job_t *job, or_inflate_result_t *result);

// The metadata of an inflated model say of which file it was made, down to the last byte.
#define OR_INFLATE_SOURCE_KEY "outrider.inflated.source"
#define OR_INFLATE_SOURCE_BYTES 17u
// Write what the metadata say of a model that was made of `gguf`.
void or_inflate_source(const or_gguf_t *gguf, char source[OR_INFLATE_SOURCE_BYTES]);
