// journal_disk - a journal's folder: made or found, ours alone, locked; one file a text, named by the hash of its token in hex.
//
// No file stays open: texts need no descriptors, of which connections want all. Calls of different texts may be made from
// different threads.
#pragma once

#include "coordinator/journal/journal_file.h"

// The folder's descriptor: closing it lets go of the lock. OR_ERR_IO with a sentence.
or_status_t or_journal_disk_open(const char *path, int *folder_p);

// Call `visit` with each text's name; it may remove that text.
or_status_t or_journal_disk_list(int folder, void (*visit)(void *context, const uint8_t *hash),
                                 void *context);
// The whole file, malloc'd. OR_ERR_NOT_FOUND; OR_ERR_IO; OR_ERR_FULL: it is larger than OR_JOURNAL_FILE_BYTES_MAX.
or_status_t or_journal_disk_read(int folder, const uint8_t *hash, uint8_t **bytes_p, size_t *count);

// A task for a text's file: remove it, or write records at its end.
typedef struct or_journal_work {
    struct or_journal_work *next; // in a queue
    uint8_t hash[OR_JOURNAL_HASH_BYTES];
    or_journal_buffer_t records; // sealed by or_journal_disk_do
    size_t at;                   // the end of its last good record; 0: it is to be made
    uint64_t check;              // of that record
    bool cut;                    // something lies behind it
    bool remove;
    int error; // errno, or 0: all is done, `at` and `check` have moved on
} or_journal_work_t;

// All or nothing: of records that could not be written whole nothing is left, or nothing that passes for one.
void or_journal_disk_do(int folder, or_journal_work_t *work);
// All that was written of a text survives the loss of the machine from here on. May take as long as the disk likes.
void or_journal_disk_sync(int folder, const uint8_t *hash);
