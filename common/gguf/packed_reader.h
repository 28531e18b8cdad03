// packed_reader - parts of a packed file, read past its mapping into memory of the caller's, while he computes.
//
//     file      |     piece 0     |     piece 1     |     piece 2     |      OR_PACKED_PIECE bytes each
//     spans          [====================]   [=]                            whole pages
//     memory         [====================]   [=]                            at the same distances
//
// Threads take the pieces of what comes first, each one piece, so that as many requests are on their way as there are
// threads. They read past the system's page cache (O_DIRECT) where the file's disk can, else they give its pages back.
//
// A piece that is read for the first time is read whole and compared with its checksum. So what or_packed_reader_wait returned
// OR_OK for may be believed. Where a reading fails, or the file was changed, the file is lost
// (or_packed_check).
//
// One thread calls.
#pragma once

#include "common/gguf/packed.h"

typedef struct or_packed_reader or_packed_reader_t;

typedef struct or_packed_reading or_packed_reading_t;
struct or_packed_reading {
    const or_packed_span_t *spans; // borrowed; of whole pages, ascending, with pages between them
    uint32_t count;
    unsigned char *to; // where the file's byte spans[0].at comes to lie, at a page; borrowed
    // The reader's own:
    uint32_t span;  // the first that has something in `piece`; count: all pieces are taken
    uint64_t piece; // that is taken next
    uint32_t open;  // pieces that were taken and are not read yet
    or_packed_reading_t *after;
};

// Create the threads. They have a piece's memory each while the file is read for the first time. OR_ERR_NO_MEMORY.
or_status_t or_packed_reader_create(or_packed_t *packed, or_packed_reader_t **reader_p);
// Free it, before the file is closed. What was begun and not waited for is left as it is.
void or_packed_reader_destroy(or_packed_reader_t **reader_p);

// Begin to read, after what was begun before; `urgent`: before it. The reading is borrowed until it was waited for.
void or_packed_reader_begin(or_packed_reader_t *reader, or_packed_reading_t *reading, bool urgent);
// Wait until it is done. The caller reads too meanwhile. OR_ERR_IO, as or_packed_check.
or_status_t or_packed_reader_wait(or_packed_reader_t *reader, or_packed_reading_t *reading);
