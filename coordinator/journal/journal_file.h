// journal_file - the bytes of one text in the journal.
//
//     file    = BEGIN, then any of TAKEN, TOKENS, ENDED, EXPIRES, in the order in which they were written
//     record  = bytes:u32  kind:u32  check:u64 │ body
//
//     BEGIN    who asked for it, of which target, with which seed; the request's frame
//     TAKEN    somebody works on it, with this arithmetic: it does not expire
//     TOKENS   the round that comes next, and ids
//     ENDED    how the text ended, and when it expires
//     EXPIRES  when it expires
//
// A record's check covers its kind and its body, and begins with the check of the record before, the first with the file's name. So what is
// left of an older and longer end of the file passes for no record. A file is as long as its good records: what follows the last
// of these is a write that did not come to its end. Numbers are in this machine's order of bytes. Pure: no file is touched here.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "coordinator/journal/journal.h"

#define OR_JOURNAL_HASH_BYTES 32
#define OR_JOURNAL_BOOT_BYTES 40
#define OR_JOURNAL_FILE_BYTES_MAX (32u << 20) // a larger one is neither written nor read

// A time by the clock that goes on while the machine sleeps, of the boot that it counts from.
typedef struct {
    int64_t at_ns; // OR_TIME_NEVER: somebody works on it
    char boot[OR_JOURNAL_BOOT_BYTES];
} or_journal_time_t;

// Bytes to be written: records whose checks are still to be filled in.
typedef struct {
    uint8_t *bytes; // owned
    size_t count, capacity;
} or_journal_buffer_t;

// These append one record each. OR_ERR_NO_MEMORY, and nothing has changed; OR_ERR_INVALID: a name that is too long.
or_status_t or_journal_add_begin(or_journal_buffer_t *buffer, const or_journal_entry_t *entry);
or_status_t or_journal_add_taken(or_journal_buffer_t *buffer, const char *arith_id);
or_status_t or_journal_add_tokens(or_journal_buffer_t *buffer, uint64_t round,
                                  const int32_t *tokens, uint32_t count);
or_status_t or_journal_add_ended(or_journal_buffer_t *buffer, uint32_t finish,
                                 const or_journal_time_t *expires);
or_status_t or_journal_add_expires(or_journal_buffer_t *buffer, const or_journal_time_t *expires);
void or_journal_buffer_fini(or_journal_buffer_t *buffer);

// The check before the first record of a file of this name.
uint64_t or_journal_first_check(const uint8_t hash[OR_JOURNAL_HASH_BYTES]);
// Fill in the checks of whole records, the first of which follows one with the check `before`; returns the last one's.
uint64_t or_journal_seal(uint8_t *bytes, size_t count, uint64_t before);

// The contents of a file. Borrows from its bytes.
typedef struct {
    or_journal_entry_t entry; // without token and tokens; count says how many there are
    or_journal_time_t expires;
    char owner[64], key[64], arith_id[64]; // entry points here
    size_t good_bytes;                     // up to the end of the last good record ...
    uint64_t check;                        // ... and its check
} or_journal_file_t;

// `file` is not to be moved afterwards. OR_ERR_FORMAT: the first record is not good; OR_ERR_UNSUPPORTED: it is of another
// release.
or_status_t or_journal_file_read(const uint8_t *bytes, size_t count,
                                 const uint8_t hash[OR_JOURNAL_HASH_BYTES],
                                 or_journal_file_t *file);
// Is a file of this beginning with a name of ours, if it cannot be read, one that we began to write? A power loss may have
// left a part of the first record, or zeros.
bool or_journal_file_is_ours(const uint8_t *bytes, size_t count);
// The tokens of a file that was read: file->entry.count of them.
void or_journal_file_tokens(const uint8_t *bytes, const or_journal_file_t *file, int32_t *tokens);
