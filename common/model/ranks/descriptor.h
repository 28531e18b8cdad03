// descriptor - what the leader tells the other ranks (lockstep.h), as bytes.
//
//     descriptor:  item item ...                                 the first frame holds most of them whole
//     item:        kind, then
//         open      sequence slots_max          pass     count { row }         row: sequence token slot+1 parent+1
//         close     sequence                    logits   first count top       (slot+1 = 0: a prefix row, without parent)
//         truncate  sequence length             end
//         drop      sequence first slot
//         accept    sequence count { slot }
//         reserve   sequence positions
//         share     sequence length donor
//
// All numbers are varints as protobuf's: 7 bits a byte, lowest first, at most 32 bits in five bytes.
// Reading trusts nothing, whether a number makes sense to the model is for the reader's user to check.
// Internal to this folder.
#pragma once

#include <stddef.h>

#include "common/base/status.h"
#include "common/model/kv/kv_cache.h"
#include "common/model/kv/kv_journal.h"

#define OR_DESCRIPTOR_SLOTS_MAX 4096u // of one accepted path

typedef enum {
    OR_STEP_NOTE,
    OR_STEP_PASS,
    OR_STEP_LOGITS,
    OR_STEP_END,
} or_step_kind_t;

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

// The most bytes of an item.
size_t or_descriptor_note_bytes_max(const or_kv_note_t *note);
size_t or_descriptor_pass_bytes_max(uint32_t rows);
#define OR_DESCRIPTOR_LOGITS_BYTES_MAX 20u
#define OR_DESCRIPTOR_END_BYTES 1u

// There must be room. A pass is followed by its rows.
void or_descriptor_put_note(or_descriptor_t *descriptor, const or_kv_note_t *note);
void or_descriptor_put_pass(or_descriptor_t *descriptor, uint32_t rows);
void or_descriptor_put_row(or_descriptor_t *descriptor, const or_step_row_t *row);
void or_descriptor_put_logits(or_descriptor_t *descriptor, uint32_t first, uint32_t count,
                              uint32_t top);
void or_descriptor_put_end(or_descriptor_t *descriptor);

// -- reading --

typedef struct {
    const uint8_t *at; // borrowed
    const uint8_t *end;
    uint32_t slots[OR_DESCRIPTOR_SLOTS_MAX]; // of the note last read
} or_descriptor_reader_t;

typedef struct {
    or_step_kind_t kind;
    or_kv_note_t note; // OR_STEP_NOTE; its slots until the next is read
    uint32_t first;    // OR_STEP_LOGITS
    uint32_t count;    // OR_STEP_LOGITS; OR_STEP_PASS: as many rows follow
    uint32_t top;      // OR_STEP_LOGITS
} or_step_t;

void or_descriptor_open(or_descriptor_reader_t *reader, const uint8_t *bytes, size_t length);
bool or_descriptor_is_over(const or_descriptor_reader_t *reader);
// The next item, and the next row of a pass. OR_ERR_FORMAT if the bytes end within it or make none.
or_status_t or_descriptor_next(or_descriptor_reader_t *reader, or_step_t *step);
or_status_t or_descriptor_next_row(or_descriptor_reader_t *reader, or_step_row_t *row);
