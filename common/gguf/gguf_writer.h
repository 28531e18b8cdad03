// gguf_writer - a GGUF v3 file, written front to back.
//
//     create | copy, drop, set ... | add_tensor ... | begin | put, put ... | finish
//              metadata              tensor table     disk    tensor data    under its name
//
// The file grows beside its place, as PATH.<process>.tmp, and takes its name only when it is whole:
// whoever looks at PATH sees the old file or the new one. Its room on the disk is taken before the
// first byte of data. Data follow in the order of the table, in pieces of any size; the writer pads.
// Owned by one thread. Input files must stay open until finish.
#pragma once

#include "common/gguf/gguf.h"

#define OR_GGUF_PART_ENDING ".tmp" // of a file that is being written: PATH, the process, this

typedef struct or_gguf_writer or_gguf_writer_t;

// Create a writer. Nothing is on the disk yet. OR_ERR_NO_MEMORY.
or_status_t or_gguf_writer_create(const char *path, or_gguf_writer_t **writer_p);
// Destroy the writer and remove the unfinished file, if there is one. *writer_p may be NULL.
void or_gguf_writer_destroy(or_gguf_writer_t **writer_p);

// Find out, before long work, whether the file can be made: make it and remove it again. The disk may still prove too small.
// OR_ERR_IO.
or_status_t or_gguf_writer_try(or_gguf_writer_t *writer);

// Copy all metadata of an open file, in its order, except those about its layout: its parts
// ("split.") and its alignment. The values are borrowed. OR_ERR_NO_MEMORY.
or_status_t or_gguf_writer_copy(or_gguf_writer_t *writer, const or_gguf_t *gguf);
// Leave a key out again, if it is there.
void or_gguf_writer_drop(or_gguf_writer_t *writer, const char *key);
// Give a key a value. It replaces the old one or becomes the last entry. Copies both.
// OR_ERR_NO_MEMORY.
or_status_t or_gguf_writer_set_u32(or_gguf_writer_t *writer, const char *key, uint32_t value);
or_status_t or_gguf_writer_set_u64(or_gguf_writer_t *writer, const char *key, uint64_t value);
or_status_t or_gguf_writer_set_f32(or_gguf_writer_t *writer, const char *key, float value);
or_status_t or_gguf_writer_set_bool(or_gguf_writer_t *writer, const char *key, bool value);
or_status_t or_gguf_writer_set_string(or_gguf_writer_t *writer, const char *key, const char *value);
// The same for arrays of `count` numbers of this type, and of strings.
or_status_t or_gguf_writer_set_array(or_gguf_writer_t *writer, const char *key, or_gguf_type_t type,
                                     const void *values, uint64_t count);
or_status_t or_gguf_writer_set_strings(or_gguf_writer_t *writer, const char *key,
                                       const or_gguf_string_t *values, uint64_t count);

// What a file is like that only its user reads.
typedef struct {
    uint32_t alignment; // of the tensors: a power of two, as GGUF allows
    // Sees all bytes of the file, front to back, as they are written. NULL: nobody does.
    void (*see)(void *context, const void *bytes, uint64_t count);
    void *context;
} or_gguf_writer_private_t;

// Have the file be readable and writable by its user alone (0600), and like that. Call it before tensors are added.
// OR_ERR_NO_MEMORY.
or_status_t or_gguf_writer_set_private(or_gguf_writer_t *writer,
                                       const or_gguf_writer_private_t *how);

// Add the next tensor of the table; dims[0] must be whole blocks of the type. Copies the name.
// OR_ERR_INVALID if the file's size would pass 64 bits, OR_ERR_NO_MEMORY.
or_status_t or_gguf_writer_add_tensor(or_gguf_writer_t *writer, or_gguf_string_t name,
                                      uint32_t dim_count, const uint64_t *dims,
                                      or_tensor_type_t type);
// The bytes of the whole file, as far as it is known now.
uint64_t or_gguf_writer_file_bytes(const or_gguf_writer_t *writer);

// Make the file and write all but the data. OR_ERR_IO if it cannot be made or the disk is too
// small.
or_status_t or_gguf_writer_begin(or_gguf_writer_t *writer);
// Write the next bytes of the tensor that is not yet full; they must not reach into the next
// one. OR_ERR_IO.
or_status_t or_gguf_writer_put(or_gguf_writer_t *writer, const void *data, uint64_t bytes);
// Finish the file, when all tensors are full: flush it to the disk, then give it its name. An existing
// file of that name is replaced. OR_ERR_IO.
or_status_t or_gguf_writer_finish(or_gguf_writer_t *writer);
