// weight_writer - the tensors of a new file: rows made by several threads, written in order, with a
// line on standard error that says how far it is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/gguf/gguf_writer.h"
#include "common/model/cpu/workers.h"

typedef struct {
    or_gguf_writer_t *writer; // borrowed
    or_workers_t *workers;    // owned
    bool terminal;            // standard error is one
    uint64_t done, all;       // bytes
    int64_t started_ns, said_ns;
} or_weight_writer_t;

// Make row `row` at `out`; different workers at the same time.
typedef void (*or_weight_maker_t)(void *context, uint32_t worker, uint64_t row, void *out);

// For a file whose tensors are all added. Watches for interruption from now on (interrupt.h).
// `threads` as in workers.h, which also says what may fail.
or_status_t or_weight_writer_init(or_weight_writer_t *weights, or_gguf_writer_t *writer,
                                  uint32_t threads);
void or_weight_writer_fini(or_weight_writer_t *weights);

// May `out` be written, made of `in`? OR_ERR_INVALID if it is a file of `in`'s, if nobody could open it
// under its name, or if it is there and not `force`.
or_status_t or_weight_writer_check_path(const or_gguf_t *in, const char *out, bool force);

// The next tensor of the file. OR_ERR_IO, OR_ERR_NO_MEMORY, OR_ERR_CANCELLED if interrupted.
or_status_t or_weight_writer_run(or_weight_writer_t *weights, or_gguf_string_t name, uint64_t rows,
                                 uint64_t row_bytes, or_weight_maker_t make, void *context);
