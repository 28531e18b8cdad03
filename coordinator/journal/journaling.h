// journaling - a session's way into the journal.
//
//     commit ──▶ put ──▶ [ the journal writes ] ──▶ done ──▶ OR_MARK_NEWS, and put what was committed meanwhile
//
// One write a session is under way at a time, so that a slow disk gets few large ones and nothing piles up. What is
// committed meanwhile lies in the session. What may be told is what is written, or was refused: the rounds go on either way.
// A write that fails is warned of and tried again with what comes next. Without a journal all may be told at once.
#pragma once

#include "coordinator/coordinator.h"

typedef struct or_csession or_csession_t;

// So much of a completion: tokens, bytes of text, and whether it is over.
typedef struct {
    uint32_t tokens;
    size_t text;
    bool over;
} or_extent_t;

// A session's part.
typedef struct {
    uint64_t number;     // 0: it is not in the journal, and will not be
    bool begun;          // its beginning was written, or refused: its client may hear of it
    bool kept;           // it is on disk
    bool ended;          // its end is there, too
    uint32_t tokens;     // of the completion that are there
    uint64_t round;      // behind these that are committed
    int64_t since_ns;    // since when a write is under way; 0: none is
    or_extent_t writing; // what may be told once it is done
    or_extent_t settled; // and before
} or_journaling_t;

// The health of the disk.
typedef struct {
    int64_t due_ns;  // when to look after the journal
    int64_t told_ns; // when its trouble was last warned of; 0: never
    bool late;       // it neither writes nor refuses: nobody waits for it
} or_journal_health_t;

// A session was asked for: before its client hears of it.
void or_journaling_begin(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_generate_request_t *request);
// After each commit, before the client is told.
void or_journaling_commit(or_coordinator_t *coordinator, or_csession_t *session);
// It is over; its client may still ask for its end.
void or_journaling_end(or_coordinator_t *coordinator, or_csession_t *session);
// Nobody will ask for it again.
void or_journaling_forget(or_coordinator_t *coordinator, or_csession_t *session);
// It is over and about to be destroyed (NULL: nothing is), also where its end could not be written.
void or_journaling_release(or_coordinator_t *coordinator, const or_csession_t *session);
// The session was made again from the journal's entry of this number, and goes on from there or is done.
void or_journaling_adopt(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_journal_entry_t *entry, uint64_t number);

// So much of the session may be told now. Where the disk has neither written nor refused for some seconds, all.
or_extent_t or_journaling_extent(const or_coordinator_t *coordinator, const or_csession_t *session);
// May not all of it be told? It will be, when a write is done.
bool or_journaling_holds(const or_coordinator_t *coordinator, const or_csession_t *session);

// Warn of trouble with the journal, now and then.
void or_journaling_report(or_coordinator_t *coordinator, or_status_t status);
// Mark the sessions of which something was written. Returns when to call again.
int64_t or_journaling_tick(or_coordinator_t *coordinator);
// Wait a moment for what is under way and mark it: the process is about to stop.
void or_journaling_flush(or_coordinator_t *coordinator);
