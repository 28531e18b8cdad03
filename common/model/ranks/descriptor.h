// descriptor - what the leader tells the other ranks (lockstep.h), as bytes.
//
//     descriptor:  item item ...
//     item:        kind, then
//         open      sequence slots_max          pass     count { row }         row: sequence token slot+1 parent+1
//         close     sequence                    logits   first count top       (slot+1 = 0: a prefix row, without parent)
//         truncate  sequence length             end
//         drop      sequence first slot
//         accept    sequence count { slot }
//         reserve   sequence positions
//         share     sequence length donor
//
// All numbers are varints as protobuf's: 7 bits a byte, lowest first, at most 32 bits in five bytes. The reader trusts
// nothing in the bytes; whether a number makes sense to the model is for its caller to check. Internal to this folder.
#pragma once

#include <stddef.h>

#include "common/base/status.h"
#include "common/model/kv/kv_cache_internal.h"

#define OR_DESCRIPTOR_SLOTS_MAX 4096u // of one accepted path
#define OR_VARINT_BYTES_MAX 5u

typedef enum {
    OR_STEP_NOTE,
    OR_STEP_PASS,
    OR_STEP_LOGITS,
    OR_STEP_END,
} or_step_kind_t;

// An item.
typedef struct {
    or_step_kind_t kind;
    or_kv_note_t
        note; // OR_STEP_NOTE; one that was read borrows its slots from the reader until the next is read
    uint32_t first; // OR_STEP_LOGITS
    uint32_t count; // OR_STEP_LOGITS; OR_STEP_PASS: as many rows follow
    uint32_t top;   // OR_STEP_LOGITS
} or_step_t;

typedef struct {
    uint32_t sequence;
    int32_t token;
    uint32_t slot; // as in or_model_row_t
    uint32_t parent_slot;
} or_step_row_t;

// -- writing --

typedef struct {
    uint8_t *bytes; // borrowed
    size_t length;
} or_descriptor_t;

// The most bytes of an item, a pass with its rows.
static inline size_t or_descriptor_note_bytes_max(const or_kv_note_t *note)
{
    return (size_t)OR_VARINT_BYTES_MAX * (4 + note->slot_count);
}

static inline size_t or_descriptor_pass_bytes_max(uint32_t rows)
{
    return (size_t)OR_VARINT_BYTES_MAX * (2 + 4 * (size_t)rows);
}

#define OR_DESCRIPTOR_LOGITS_BYTES_MAX 20u
#define OR_DESCRIPTOR_END_BYTES 1u

// Append an item, for which there must be room. A pass is followed by its rows.
void or_descriptor_put(or_descriptor_t *descriptor, const or_step_t *step);
void or_descriptor_put_row(or_descriptor_t *descriptor, const or_step_row_t *row);

static inline void or_descriptor_put_note(or_descriptor_t *descriptor, const or_kv_note_t *note)
{
    or_descriptor_put(descriptor, &(or_step_t){.kind = OR_STEP_NOTE, .note = *note});
}

static inline void or_descriptor_put_pass(or_descriptor_t *descriptor, uint32_t rows)
{
    or_descriptor_put(descriptor, &(or_step_t){.kind = OR_STEP_PASS, .count = rows});
}

static inline void or_descriptor_put_logits(or_descriptor_t *descriptor, uint32_t first,
                                            uint32_t count, uint32_t top)
{
    or_descriptor_put(
        descriptor,
        &(or_step_t){.kind = OR_STEP_LOGITS, .first = first, .count = count, .top = top});
}

static inline void or_descriptor_put_end(or_descriptor_t *descriptor)
{
    or_descriptor_put(descriptor, &(or_step_t){.kind = OR_STEP_END});
}

// -- reading --

typedef struct {
    const uint8_t *at; // borrowed
    const uint8_t *end;
    uint32_t slots[OR_DESCRIPTOR_SLOTS_MAX]; // of the note that was read last
} or_descriptor_reader_t;

static inline void or_descriptor_open(or_descriptor_reader_t *reader, const uint8_t *bytes,
                                      size_t length)
{
    reader->at = bytes;
    reader->end = bytes + length;
}

static inline bool or_descriptor_is_over(const or_descriptor_reader_t *reader)
{
    return reader->at == reader->end;
}

// Read the next item, and the next row of a pass. OR_ERR_FORMAT if the bytes end within it or are no item.
or_status_t or_descriptor_next(or_descriptor_reader_t *reader, or_step_t *step);
or_status_t or_descriptor_next_row(or_descriptor_reader_t *reader, or_step_row_t *row);
