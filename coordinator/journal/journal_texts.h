// journal_texts - the texts of a journal: a table of them, the disk space that they take, and the work on their files.
//
//     records are added ──write_out──▶ busy ──▶ [ the writer, or at once ] ──note_done──▶ written, or deleted
//
// A text that is busy is the writer's: what comes meanwhile is put off, and or_journal_texts_go_on does it. For journal.c alone.
#pragma once

#include <sys/queue.h>

#include "coordinator/journal/journal_writer.h"

#define OR_JOURNAL_BUCKETS 4096u

// A text that has a file, or is to have one.
typedef struct or_journal_text {
    LIST_ENTRY(or_journal_text) links; // of texts whose hashes begin alike
    or_journal_work_t work;            // the writer's while the text is busy
    uint64_t number;
    char owner[64];
    or_hold_t disk, memory; // of its file; of a beginning that is not written yet
    int64_t expires_ns;     // OR_TIME_NEVER: somebody works on it
    char arith_id[64];      // that its file says
    bool taken;             // and that somebody works on it
    char next_arith_id[64]; // that it will say when what is under way is written; "": the same
    size_t beginning;       // bytes of it among the records; 0: it is in the file
    bool busy, ended;
    bool expiry_due; // to be noted in its file
    bool doomed;     // to be deleted
} or_journal_text_t;

struct or_journal {
    int folder;
    or_journal_config_t config; // without its path
    char boot[OR_JOURNAL_BOOT_BYTES];
    or_ledger_t *ledger;
    or_journal_writer_t *writer; // NULL: there is no thread
    or_journal_text_t **texts;   // NULL where free
    LIST_HEAD(, or_journal_text) buckets[OR_JOURNAL_BUCKETS];
    uint32_t capacity, count;
    uint64_t generation;     // tells a slot's texts apart
    size_t beginnings_bytes; // of all that are not written
    // The text that was found last.
    uint8_t *bytes;
    int32_t *tokens;
    or_journal_file_t file;
};

// The text of this number, or of this hash; NULL: there is none.
or_journal_text_t *or_journal_texts_find(const or_journal_t *journal, uint64_t number);
or_journal_text_t *or_journal_texts_find_hash(const or_journal_t *journal, const uint8_t *hash);
// A text without a file. OR_ERR_FULL, OR_ERR_NO_MEMORY.
or_status_t or_journal_texts_add(or_journal_t *journal, const uint8_t *hash, const char *owner,
                                 or_journal_text_t **text_p);
void or_journal_texts_free(or_journal_t *journal, or_journal_text_t *text);
// Charge it to its owner's account in the journal's ledger, whatever it has.
void or_journal_texts_hold(or_journal_t *journal, or_journal_text_t *text);
// When it expires, for its file.
or_journal_time_t or_journal_texts_expiry(const or_journal_t *journal,
                                          const or_journal_text_t *text);

// Find a text that may be written to. OR_ERR_NOT_FOUND; OR_ERR_AGAIN: it is busy.
or_status_t or_journal_texts_take(or_journal_t *journal, uint64_t number,
                                  or_journal_text_t **text_p);
// Its records are complete, or could not be made (`status`): have them written. Ended texts of its owner make room.
or_status_t or_journal_texts_write_out(or_journal_t *journal, or_journal_text_t *text,
                                       or_status_t status);
// The same, though its owner has no room for it.
or_status_t or_journal_texts_force_out(or_journal_t *journal, or_journal_text_t *text,
                                       or_status_t status);
// The work on its file is done. The text may be gone afterwards, as after the next two.
or_status_t or_journal_texts_note_done(or_journal_t *journal, or_journal_text_t *text);
// Delete it now, or when it is no longer busy.
void or_journal_texts_delete(or_journal_t *journal, or_journal_text_t *text);
// Do what was put off while it was busy.
void or_journal_texts_go_on(or_journal_t *journal, or_journal_text_t *text);
