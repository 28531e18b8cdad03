// packed - a model's matrices as the kernels read them, in a file that is made once and then mapped.
//
//     metadata            packed.layout, packed.identity and packed.fingerprint of the model file it was made of
//     NAME, NAME+OFFSET   the panels of a matrix (common/model/cpu/weights.h); of a part of a fused tensor its first byte there
//     packed.checksums    XXH3 (128 bits) of each OR_PACKED_PIECE bytes in front of it; the last piece may be shorter
//
// It is a GGUF file, read with the same checks; its tensors are called F32 because they are whole words. It is trusted while
// the model file has the device, inode, size and time of change that it had, if nobody but the user, or root, can write to
// it. Threads of its own compare it with its checksums while the caller goes on. or_packed_check waits for them: until it
// has returned OR_OK nothing that was computed from the file may be believed.
//
// One thread calls; any may read what or_packed_find returned.
#pragma once

#include "common/base/options/options.h"
#include "common/gguf/gguf.h"

#define OR_PACKED_LAYOUT                                                                           \
    "panels-1" // of all kernels; changes with their layout and with this file's
#define OR_PACKED_LAYOUT_KEY "packed.layout"
#define OR_PACKED_IDENTITY_KEY "packed.identity"       // or_gguf_identity, in 16 hexadecimal digits
#define OR_PACKED_FINGERPRINT_KEY "packed.fingerprint" // or_gguf_fingerprint, likewise
#define OR_PACKED_CHECKSUMS "packed.checksums"
#define OR_PACKED_CHECKSUM_WORDS 4u // floats of a checksum
#define OR_PACKED_PIECE ((uint64_t)4 << 20)
#define OR_PACKED_ALIGNMENT 4096u
#define OR_PACKED_NAME_BYTES 256
#define OR_PACKED_PATH_BYTES 4096

typedef struct or_packed or_packed_t;

// A part of the file.
typedef struct {
    uint64_t at, bytes;
} or_packed_span_t;

// The row of a program's option table for a `char *` of the struct `type`; NULL is "auto" then. `whose` begins the help,
// `suffix` ends the name.
#define OR_PACKED_OPTION(type, field, whose, suffix)                                               \
    {                                                                                              \
        "packed" suffix, NULL, OR_OPTION_STRING, offsetof(type, field), "auto|off|FILE",           \
            whose                                                                                  \
            "weights are mapped from what `outrider model pack` wrote: auto, where it is found "   \
            "beside the model or in the cache folder; off: they are packed at each start"          \
    }

// The same for the uint64_t that says how much memory weights may take (or_model_options_t).
#define OR_WEIGHTS_MEMORY_OPTION(type, field, whose)                                               \
    {                                                                                              \
        "weights-memory", NULL, OR_OPTION_SIZE, offsetof(type, field), "SIZE",                     \
            whose "weights may take so much memory, on each rank, as 512M or 2G: layers that do "  \
                  "not fit stay in the packed file, on a CPU, and are read in every pass; 0: all " \
                  "that they need, or what there is"                                               \
    }

// Is this open file a packed one?
bool or_gguf_is_packed(const or_gguf_t *gguf);

// Write the name that a matrix has there. OR_ERR_UNSUPPORTED if it is too long.
or_status_t or_packed_name(const or_gguf_tensor_t *tensor, uint64_t offset,
                           char name[OR_PACKED_NAME_BYTES]);

// Write where the packed form of the file at `path` is looked for: beside it, then in the user's cache folder. OR_ERR_INVALID
// for a path that is too long; OR_ERR_NOT_FOUND if there is no such folder (user_folder.h).
or_status_t or_packed_path_beside(const char *path, char packed[OR_PACKED_PATH_BYTES]);
or_status_t or_packed_path_cached(const char *path, char packed[OR_PACKED_PATH_BYTES]);

// Check what a user asked for: "auto", "off" or a path, NULL being "auto", and the memory for weights, or 0. OR_ERR_INVALID for an
// empty path, and for "off" where layers are to be read from the file.
or_status_t or_packed_check_wish(const char *wish, uint64_t weights_memory);

// Open the packed form of an open model that is at `path`. Its fingerprint then is the model's, and `threads` of its own
// begin to compare it. With 0 or_packed_check does it, or or_packed_compare_only begins it. OR_ERR_IO or OR_ERR_FORMAT if it cannot be used, OR_ERR_MISMATCH if it is not trusted: the sentence
// says why. OR_ERR_NO_MEMORY.
or_status_t or_packed_open(const or_gguf_t *gguf, const char *path, uint32_t threads,
                           or_packed_t **packed_p);
// Open the one that a user wishes. With "auto" it is one of the two places; NULL is "off". *packed_p is NULL where there is
// none, or none that can be used, which is logged.
void or_packed_open_wished(const or_gguf_t *gguf, const char *wish, uint32_t threads,
                           or_packed_t **packed_p);
void or_packed_close(or_packed_t **packed_p);

// Take the fingerprint of an open model from its packed form, if it has one, so that the model need not be read for it.
void or_packed_recall(const or_gguf_t *gguf);

// Return a matrix of exactly `bytes` bytes; NULL if the file has none of that name and size.
const void *or_packed_find(const or_packed_t *packed, const char *name, uint64_t bytes);
// Return where the file's first byte is mapped: what or_packed_find returned is so many bytes behind it.
const unsigned char *or_packed_begin(const or_packed_t *packed);

// Begin to compare only what lies in these parts, with `threads`: of a file that was opened with none, before anything else is
// asked of it. What else is used of it the caller reads himself (packed_reader.h). OR_ERR_NO_MEMORY.
or_status_t or_packed_compare_only(or_packed_t *packed, const or_packed_span_t *spans,
                                   uint32_t count, uint32_t threads);

// Wait until all of the file was compared with its checksums, and see whether it was changed since it was opened. `packed`
// may be NULL: OR_OK. OR_ERR_IO names the matrix and its place; the file cannot be used any more then.
or_status_t or_packed_check(or_packed_t *packed);
// Has or_packed_check failed? Then the sentence is recorded again. NULL: false.
bool or_packed_is_lost(const or_packed_t *packed);
const char *or_packed_path(const or_packed_t *packed);
