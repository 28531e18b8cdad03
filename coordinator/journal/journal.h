// journal - committed tokens on disk, so that a coordinator that was killed goes on where it was.
//
//     FOLDER/5f0c...e1   BEGIN TOKENS TOKENS TOKENS                  a text in progress
//     FOLDER/93ab...07   BEGIN TOKENS TAKEN TOKENS ENDED             its client may have missed the end
//
//     begin ──▶ request, owner, seed      written before the client hears of the text
//     commit ─▶ ids                       written before they are told
//     end ────▶ kept until its client has all (forget) or can no longer want it, then deleted or kept for the retention
//
// Each text has a file (journal_file.h), named by the hash of the session's token, which itself is nowhere on disk. Files have
// mode 0600, in a folder of mode 0700 that one coordinator has locked. Its disk space is free again when the text is forgotten;
// what lay there is not overwritten.
//
// Once written, a record survives the death of the process at any instant. The loss of the whole machine may cost the last
// seconds: nobody waits for fsync, which a thread of its own calls every two seconds. What a client has of them it sends back
// as an offset beyond our text. They are written again, unheard, where the rule gives the same ones again. Otherwise it is told
// so. A write that was cut short, or damage, costs the end of its own text from there on, and a damaged beginning costs its own
// text. Neither costs another text or the start of a coordinator.
//
// When texts expire is counted by CLOCK_BOOTTIME, which no step of the calendar's clock moves. The time in which no
// coordinator ran counts, but after a boot the countdown begins anew.
//
// Without or_journal_start all is done when a call returns. With it, a thread writes: a call returns at once, and its text
// is busy until or_journal_next says what came of it. There is one call at a time for each text, so what waits is bounded
// by the texts in progress. Requests of those that begin come on top, up to 64 MiB; beyond that a text goes without
// (OR_ERR_FULL). A write that failed is not lost to later calls: a beginning is tried again with the next one. One thread.
#pragma once

#include "common/base/clock.h"
#include "coordinator/clients/ledger.h"
#include "proto/wire/message.h"

typedef struct or_journal or_journal_t;

typedef struct {
    const char *path; // of the folder, which is made if it is not there
    // One whose client has all of it can still be resumed for so long; 0: it is deleted at once.
    uint32_t retention_s;
    // A text that nobody works on is kept so long for its client: from here on, if it goes on, else from its end.
    uint32_t abandoned_s;
    const or_clock_t *clock; // borrowed; NULL: CLOCK_BOOTTIME
    const char *boot;        // names the boot that the clock counts from; NULL: as the system says
} or_journal_config_t;

// OR_ERR_IO with a sentence (a path that cannot be made, a folder that others can read or that has other things in it, another
// coordinator that uses it); OR_ERR_NO_MEMORY.
or_status_t or_journal_open_with(const or_journal_config_t *config, or_journal_t **journal_p);
or_status_t or_journal_open(const char *path, uint32_t retention_s, uint32_t abandoned_s,
                            or_journal_t **journal_p);
// Writes what is under way; a disk that does not answer is waited for no longer than 7 s.
void or_journal_close(or_journal_t **journal_p);

// The bytes that files hold on disk from here on, in blocks of 4 KiB, is charged to their owners; those that are there
// are charged whatever the limit is. Borrowed; NULL: nothing is counted.
void or_journal_set_ledger(or_journal_t *journal, or_ledger_t *ledger);
// Write in a thread. OR_ERR_NO_MEMORY, OR_ERR_IO: all goes on without.
or_status_t or_journal_start(or_journal_t *journal);
// Readable when or_journal_next has something; -1: there is no thread.
int or_journal_fd(const or_journal_t *journal);

typedef struct {
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // not known when read back
    const char *owner;
    const char *key;        // the client's public key; "": none
    uint64_t model_hash;    // of the target's file: what the ids mean
    const uint8_t *request; // the GenerateRequest as a frame (or_message_encode)
    size_t request_bytes;
    uint64_t seed;
    const char *arith_id;  // "" until the first round
    uint64_t round;        // that comes next
    const int32_t *tokens; // of the completion
    uint32_t count;
    uint32_t finish; // or_finish_t; NONE: it goes on
} or_journal_entry_t;

// A session begins: entry->tokens are none. *number names it from here on, also where the result is OR_ERR_IO: the beginning
// goes with the next commit. It is 0 after OR_ERR_FULL (its owner's files may not be more, of which ended ones were deleted
// before; or too many requests wait for the disk), OR_ERR_INVALID and OR_ERR_NO_MEMORY.
or_status_t or_journal_begin(or_journal_t *journal, const or_journal_entry_t *entry,
                             uint64_t *number);
// `count` more tokens, committed by the round before `round`; none: somebody works on it again.
// OR_ERR_NOT_FOUND if it was deleted; OR_ERR_AGAIN if it is busy; OR_ERR_FULL as above: it is better dropped; OR_ERR_IO.
// After an error these tokens are to come again, with the next ones.
or_status_t or_journal_commit(or_journal_t *journal, uint64_t number, const int32_t *tokens,
                              uint32_t count, uint64_t round, const char *arith_id);
// The text has ended. Errors as of commit, but never OR_ERR_FULL.
or_status_t or_journal_end(or_journal_t *journal, uint64_t number, uint32_t finish);
// Its client has all of it, or will not come. Also of one that is busy: it is deleted after that.
void or_journal_forget(or_journal_t *journal, uint64_t number);
// It is over, and nobody will write that. What is on disk of it expires as its end would have; of what is not there nothing
// is kept.
void or_journal_abandon(or_journal_t *journal, uint64_t number);
// It is to be deleted, whatever the retention.
void or_journal_drop(or_journal_t *journal, uint64_t number);

// Is a call for it under way?
bool or_journal_is_busy(const or_journal_t *journal, uint64_t number);
// A call that is done, and what came of it; false: there is none.
bool or_journal_next(or_journal_t *journal, uint64_t *number, or_status_t *status);
// Wait until all calls are done, at most so long.
void or_journal_wait(or_journal_t *journal, uint32_t ms);

// The session with this token. *entry borrows from the journal until the next call. The whole file is read, 32 MiB at most,
// and by this thread: the only disk work that it does itself.
// OR_ERR_NOT_FOUND; OR_ERR_AGAIN: it is busy.
or_status_t or_journal_find(or_journal_t *journal, const uint8_t *token, uint32_t token_bytes,
                            or_journal_entry_t *entry, uint64_t *number);

// Delete what is over. Returns when to call again.
int64_t or_journal_tick(or_journal_t *journal, int64_t now_ns);
// Sessions in it.
uint32_t or_journal_count(const or_journal_t *journal);

// Open what an option named: a folder, "none" (*journal_p is NULL then), or NULL. With NULL it is
// coordinator-PORT.texts in $XDG_STATE_HOME/outrider, made (0700) if it is not there, for a coordinator that
// listens on this endpoint. There is none where the endpoint has no port, or any free one. That the usual one
// cannot be had is only warned of.
or_status_t or_journal_open_option(const char *option, const char *endpoint, uint32_t retention_s,
                                   uint32_t abandoned_s, or_journal_t **journal_p);
