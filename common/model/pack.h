// pack - a model's packed file (packed.h), written once.
//
//     find the tensors | every matrix: pack, write, free | checksums | its name
//
// The file grows beside its place and takes its name when it is whole (gguf_writer.h). It has all matrices whole, so that
// any number of ranks find their parts in it. At any time one matrix is in memory.
#pragma once

#include "common/gguf/gguf.h"

// Told while a file is packed that `done` of `all` bytes are written and which tensor is next. Returns false to stop.
typedef bool or_pack_progress_t(void *context, uint64_t done, uint64_t all, const char *name);

// Find out, before long work, whether a file could be made at `path`. OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_model_pack_try(const char *path);

// Pack an open model into the file at `path`, which is replaced if it is there. `threads` as in workers.h. OR_ERR_IO: it
// cannot be written, or the disk is too small. OR_ERR_CANCELLED if `progress` said so. Otherwise as or_model_load, for files
// that cannot be loaded. Nothing is left of a file that is not whole.
or_status_t or_model_pack(const or_gguf_t *gguf, uint32_t threads, const char *path,
                          or_pack_progress_t *progress, void *context);
