// journal - committed tokens on disk, so that a coordinator that was killed goes on where it was.
//
//     begin ──▶ sessions: token, owner, request, seed        written before the client hears of the session
//     commit ─▶ tokens: session, round, ids                  written before their text is sent
//     end ────▶ kept until its client has all (forget) or can no longer want it, then deleted or kept for the retention
//
// SQLite in WAL mode, the file and what SQLite keeps beside it with mode 0600, what is deleted overwritten.
// synchronous is NORMAL: what was committed survives the death of the process at any instant; the loss of the
// whole machine may cost the last moments, whose tokens a client that already has them sends back as an offset
// beyond our text: they are written again, unheard, where the rule gives the same ones again; else it is told so. A
// session's token is kept as a hash only. What is written of a text is its request as it came and its ids. One process
// at a time, in it one thread. No failure to write does harm: what could not be written goes with the next commit, a
// text is never held up by a disk, and a coordinator starts with a full one.
#pragma once

#include "common/base/clock.h"
#include "proto/message.h"

typedef struct or_journal or_journal_t;

// Open or create. `abandoned_s`: a session that nobody works on is kept so long for its client: from here on, if it goes
// on, else from its end. `retention_s`: one whose client has all of it can still be resumed for so long; 0: it is
// deleted at once. OR_ERR_IO with a sentence (a path that cannot be written, a file that others can read, is no
// journal or is damaged, another coordinator that uses it).
or_status_t or_journal_open(const char *path, uint32_t retention_s, uint32_t abandoned_s,
                            or_journal_t **journal_p);
void or_journal_close(or_journal_t **journal_p);

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

// A session begins: entry->tokens are none. *number names it from here on.
or_status_t or_journal_begin(or_journal_t *journal, const or_journal_entry_t *entry,
                             uint64_t *number);
// `count` more tokens, committed by the round before `round`; none: somebody works on it again.
// OR_ERR_NOT_FOUND if it was deleted.
or_status_t or_journal_commit(or_journal_t *journal, uint64_t number, const int32_t *tokens,
                              uint32_t count, uint64_t round, const char *arith_id);
or_status_t or_journal_end(or_journal_t *journal, uint64_t number, uint32_t finish);
// Its client has all of it, or will not come.
or_status_t or_journal_forget(or_journal_t *journal, uint64_t number);

// The session with this token. *entry borrows from the journal until the next find. OR_ERR_NOT_FOUND.
or_status_t or_journal_find(or_journal_t *journal, const uint8_t *token, uint32_t token_bytes,
                            or_journal_entry_t *entry, uint64_t *number);

// Delete what is over, and from the log beside the file what was deleted since: that waits for the disk (20 ms on one
// that is not fast), at most once a call. Returns when to call again.
int64_t or_journal_tick(or_journal_t *journal, int64_t now_ns);
// Sessions in it.
uint32_t or_journal_count(const or_journal_t *journal);

// Open what an option named: a file, "none" (*journal_p is NULL then), or NULL: coordinator-PORT.journal in
// $XDG_STATE_HOME/outrider, a folder that is made (0700) if it is not there, for a coordinator that listens on
// this endpoint; none where the endpoint has no port, or any free one. That the usual one cannot be had is only
// warned of.
or_status_t or_journal_open_option(const char *option, const char *endpoint, uint32_t retention_s,
                                   uint32_t abandoned_s, or_journal_t **journal_p);
