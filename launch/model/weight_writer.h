// weight_writer - the weights of a new file: their types, rows of them, and whole tensors. Several threads make a tensor's
// rows, which are written in order, and a line on standard error says how far it is.
#pragma once

#include "common/gguf/gguf_writer.h"
#include "common/model/cpu/workers.h"
#include "launch/progress.h"

// ---- types and rows ----

// Find the type of this name, in upper or lower case. OR_ERR_INVALID lists all; `what` is the option that asked for it.
or_status_t or_weight_type_parse(const char *what, const char *name, or_tensor_type_t *type);
// Can rows of this type be written? IQ2 and IQ3 are only read.
bool or_weight_type_is_written(uint32_t type);
// Have a file's metadata say that this type was asked for. OR_ERR_NO_MEMORY.
or_status_t or_weight_type_describe(or_tensor_type_t type, or_gguf_writer_t *writer);
// Return the type for rows of `width` where `wanted` was asked for. Where they are no whole blocks of it, that is another one
// of about the same size (the one that llama.cpp takes), at last F16.
or_tensor_type_t or_weight_type_for(or_tensor_type_t wanted, uint64_t width);

// Is it a matrix? Matrices get another type; vectors stay as they are, and so do biases, a vector for each expert.
bool or_weight_is_matrix(const or_gguf_tensor_t *tensor);
// Is it the router of a layer's experts? It is small, and what it chooses must not depend on the type of the weights.
bool or_weight_is_router(or_gguf_string_t name);
// Return the bytes of a row, whose width is whole blocks.
uint64_t or_weight_row_bytes(or_tensor_type_t type, uint64_t width);
// Write a row of finite weights. What the type cannot hold is cut to the largest it can. A quantised type's errors count by
// importance[width] (quants.h); NULL: all alike.
void or_weight_row_write(or_tensor_type_t type, const float *weights, const float *importance,
                         uint32_t width, void *row);
// Read a row as the model will.
void or_weight_row_read(or_tensor_type_t type, const void *row, uint32_t width, float *weights);

// ---- the file ----

typedef struct {
    or_gguf_writer_t *writer; // borrowed
    or_workers_t *workers;    // owned
    or_progress_t progress;
} or_weight_writer_t;

// Make row `row` at `out`. Different workers do so at the same time.
typedef void (*or_weight_maker_t)(void *context, uint32_t worker, uint64_t row, void *out);

// Prepare for a file whose tensors are all added. Watches for interruption from now on (interrupt.h). `threads` as in
// workers.h, which also says what may fail.
or_status_t or_weight_writer_init(or_weight_writer_t *weights, or_gguf_writer_t *writer,
                                  uint32_t threads);
void or_weight_writer_fini(or_weight_writer_t *weights);

// Check that `out` may be written, made of `in` (NULL: of something else than a GGUF file). OR_ERR_INVALID if it is a file of `in`'s, if nobody could open it under its
// name, or if it is there and not `force`.
or_status_t or_weight_writer_check_path(const or_gguf_t *in, const char *out, bool force);

// Is it the name of an unfinished file, whose process is gone? It begins as given and ends with the number of the process and
// the ending, as ".tmp". Our own number counts as gone: in a container each run may have the same. So call it before writing.
bool or_weight_writer_is_left(const char *name, const char *beginning, const char *ending);

// Write the next tensor of the file. OR_ERR_IO, OR_ERR_NO_MEMORY, OR_ERR_CANCELLED if interrupted.
or_status_t or_weight_writer_run(or_weight_writer_t *weights, or_gguf_string_t name, uint64_t rows,
                                 uint64_t row_bytes, or_weight_maker_t make, void *context);
