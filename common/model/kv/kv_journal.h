// kv_journal - what happens to the sequences of a cache, for whoever must repeat it elsewhere
// (lockstep.h).
//
// kv_cache.c notes each change after it was made. Sequences are named by a number: the smallest that is
// free when they are opened. Passes are not noted: they travel whole.
#pragma once

#include <stdint.h>

typedef enum {
    OR_KV_NOTE_OPEN,     // value: slots_max
    OR_KV_NOTE_CLOSE,    //
    OR_KV_NOTE_TRUNCATE, // value: length
    OR_KV_NOTE_DROP,     // value: the first slot
    OR_KV_NOTE_ACCEPT,   // slots
    OR_KV_NOTE_RESERVE,  // value: positions
    OR_KV_NOTE_SHARE,    // value: length; donor
} or_kv_note_kind_t;

typedef struct {
    or_kv_note_kind_t kind;
    uint32_t sequence;
    uint32_t value;
    uint32_t donor;
    const uint32_t *slots; // borrowed for the call
    uint32_t slot_count;
} or_kv_note_t;

// Embed it first. The note is the caller's to keep a copy of.
typedef struct or_kv_journal {
    void (*note)(struct or_kv_journal *journal, const or_kv_note_t *note);
} or_kv_journal_t;
