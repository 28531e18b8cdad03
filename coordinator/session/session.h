// session - one request: what was asked, the committed tokens (the only source of truth) and where its round stands.
//
//     WAITING ──▶ TREE ──▶ VERDICT ──▶ TREE ──▶ ... ──▶ DONE        kept for a while, for clients that missed the end
//       ▲  ▲ └────────┴─────────┴──▶ DONE, with an error      no verifier for too long, no memory, an impossible answer
//       │  └──────────┘               its place goes to another text, between two rounds
//       └── PARKED ◀── any but DONE   its client is away; it comes back when the client resumes
//
// A phase and its deadline are set by or_csession_enter alone. Whoever learns something of a session changes the data and
// marks it. The marks are settled after each message and timer (hub.h), in this order: the journal, the client, the next
// round or the end, the queue. The text of a session has ended as soon as `finish` says so, and the session is DONE once
// that is settled.
//
// The parts are their folders' (rounds, drafters, clients, journal). session_request.c makes a session. One thread.
#pragma once

#include <sys/queue.h>

#include "common/base/log/log.h"
#include "common/decode/sampling/noise.h"
#include "common/text/chat/chat.h"
#include "coordinator/clients/annotations.h"
#include "coordinator/clients/completion.h"
#include "coordinator/clients/queue.h"
#include "coordinator/clients/stream.h"
#include "coordinator/drafters/seats.h"
#include "coordinator/journal/journaling.h"
#include "coordinator/rounds/rounds.h"
#include "proto/keys/keyring.h"
#include "proto/session/terms.h"

#define OR_ARITH_BYTES 64
#define OR_LABEL_BYTES 65 // with its end

typedef enum {
    OR_PHASE_WAITING,
    OR_PHASE_PARKED, // its client is away: it holds no place and does nothing
    OR_PHASE_TREE,
    OR_PHASE_VERDICT,
    OR_PHASE_DONE
} or_phase_t;

// The things that are to be settled of a session, besides an end.
typedef enum {
    OR_MARK_JUDGED = 1,  // a verdict was committed
    OR_MARK_SEATS = 2,   // a drafter left its seat
    OR_MARK_TREES = 4,   // a tree came
    OR_MARK_PARK = 8,    // its client is away, and nothing of its round is under way
    OR_MARK_YIELD = 16,  // another may need its place more than its next round does
    OR_MARK_FORGET = 32, // its client does not want it any more
    OR_MARK_NEWS = 64,   // the journal let go of something that is to be told
} or_mark_t;

typedef TAILQ_HEAD(or_marked_sessions, or_csession) or_marked_sessions_t;

struct or_csession {
    or_session_id_t id;
    const or_vocab_t *vocab; // the target's; borrowed
    or_phase_t phase;
    int64_t deadline_ns;          // of the phase: give up waiting, ask again, or forget
    uint32_t marks;               // or_mark_t, or-ed
    or_marked_sessions_t *marked; // the list that it joins when it is marked; NULL: none
    bool listed;
    TAILQ_ENTRY(or_csession) marked_links;

    // The request.
    or_peer_t client;                      // 0: away
    char key[OR_KEY_BYTES];                // the client's; "": none
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // the session's secret
    uint64_t request;
    char label[OR_LABEL_BYTES]; // the client's name for it; "": none
    or_terms_t terms;           // as the verifier gets them
    uint64_t owner_hash;        // or_name_hash
    bool plain;
    bool measured;       // its drafters stay whatever they are worth
    uint32_t max_tokens; // 0: no bound
    uint64_t seed;
    uint64_t key_seed; // seed of all keys but the noise's: each choice of a seed has its own

    // The text, and how it ended.
    or_token_log_t log;
    uint32_t prompt_length;
    or_noise_place_t place; // where the next token begins
    or_completion_t text;
    or_annotations_t annotations; // where the client asked for them
    uint32_t finish;              // or_finish_t
    uint32_t error_code;
    char error[512];
    char note[512];                // what the client should know; may be empty
    char advice[256];              // and how the text might have been faster
    char arith_id[OR_ARITH_BYTES]; // of the verifier that began it: never another

    // The number of its round, which begins with 1, and when that began.
    uint64_t round;
    int64_t round_started_ns;

    or_round_tree_t tree;
    or_at_verifier_t target;
    or_at_drafters_t drafters;
    or_round_budget_t budget;
    or_queued_t queue;
    or_stream_t stream;
    or_journaling_t journal;
    struct {
        or_hold_t request, answer; // of what it keeps in memory, in its owner's account
    } held;

    or_generate_stats_t stats;
    or_generate_stats_t counted; // of them, what the coordinator's totals have (counters.c)
    bool worked_on;              // the verifier was told of it, at some time
    int64_t arrived_ns;          // when it was asked for
    int64_t started_ns;          // the same, until the work has begun; then when that was
    int64_t written_ns;          // when tokens were committed last; 0: none since its client came
    int64_t done_ns;             // when it ended
};

// The material that a session is made from. Borrowed.
typedef struct {
    const or_vocab_t *vocab;
    const or_chat_t *chat;        // NULL: conversations are refused ...
    const char *chat_trouble;     // ... with this sentence
    or_marked_sessions_t *marked; // the list of marked sessions; NULL: there is none
} or_session_target_t;

// A session of `owner` (copied) from a request: tokenises, checks sampling and methods, draws a seed if none came.
// OR_ERR_INVALID, OR_ERR_UNSUPPORTED, OR_ERR_NO_MEMORY, with a sentence for the client.
or_status_t or_csession_create(const or_session_target_t *target, or_session_id_t id,
                               or_peer_t client, const char *owner,
                               const or_generate_request_t *request, or_csession_t **session_p);
void or_csession_destroy(or_csession_t **session_p);

// ---- state ----

// The session is in this phase until the deadline.
void or_csession_enter(or_csession_t *session, or_phase_t phase, int64_t deadline_ns);
// The deadline of its phase is another.
void or_csession_wait_until(or_csession_t *session, int64_t deadline_ns);
// Have something settled (or_mark_t) after this message or timer.
void or_csession_mark(or_csession_t *session, or_mark_t mark);
// Take back these marks (or-ed); returns those that it had.
uint32_t or_csession_take_marks(or_csession_t *session, uint32_t marks);
// Has it begun and not ended? Then a verifier works for it.
bool or_csession_is_live(const or_csession_t *session);
// When its next timer is due.
int64_t or_csession_due(const or_csession_t *session);

// ---- the text ----

// The owner of the text.
const char *or_csession_owner(const or_csession_t *session);
// Tokens of the completion.
uint32_t or_csession_written(const or_csession_t *session);
// Does the verdict fit the round, the tree that was sent, the vocabulary and the hash? OR_ERR_MISMATCH says what does not.
or_status_t or_csession_check_verdict(const or_csession_t *session, const or_verdict_t *verdict,
                                      uint32_t vocab_size);
// Commit the path and the token after it, one by one, until something ends the text: session->finish tells.
or_status_t or_csession_commit(or_csession_t *session, const or_verdict_t *verdict,
                               uint32_t context_max);
// The tokens that an earlier coordinator had committed, in a session that has none yet. That coordinator's text had ended
// with `finish`. OR_ERR_INVALID if they are none of the vocabulary.
or_status_t or_csession_restore(or_csession_t *session, const int32_t *tokens, uint32_t count,
                                uint32_t finish);
// The text ends with this: what was held back of it is released, and the session is marked. OR_ERR_NO_MEMORY.
or_status_t or_csession_end(or_csession_t *session, or_finish_t finish);
// The text ends with an error for the client.
void or_csession_fail(or_csession_t *session, or_wire_error_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- memory ----

// The bytes of memory that it keeps for what was asked, whatever is written, and for what was written so far. A drafter's
// translator is not counted.
size_t or_csession_request_bytes(const or_csession_t *session);
size_t or_csession_answer_bytes(const or_csession_t *session);
// The distributions of its trees are of no use any more.
void or_csession_drop_draws(or_csession_t *session);
// It has ended: what only rounds need is of no use any more. Its tree is empty from here on.
void or_csession_drop_rounds(or_csession_t *session);

// The subject of a line in the log; borrows the label.
or_log_subject_t or_csession_subject(const or_csession_t *session);
