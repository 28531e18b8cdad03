// session - one request: what was asked, the committed tokens (the only source of truth) and where
// its round stands.
//
//     WAITING ──▶ TREE ──▶ VERDICT ──▶ TREE ──▶ ... ──▶ DONE        kept for a while, for clients that missed the end
//       ▲  ▲ └────────┴─────────┴──▶ DONE, with an error      no verifier for too long, no memory, an impossible answer
//       │  └──────────┘               its place goes to another text, between two rounds
//       └── PARKED ◀── any but DONE   its client is away; it comes back when the client resumes
//
// This file holds the state and the pure steps, session_request.c what a request becomes; rounds.c moves it and talks to
// peers. One thread.
#pragma once

#include "common/base/log/log.h"
#include "common/decode/merge.h"
#include "common/decode/prompt_lookup.h"
#include "common/decode/sampling/noise.h"
#include "common/text/chat/chat.h"
#include "coordinator/budget/policy.h"
#include "coordinator/budget/usefulness.h"
#include "coordinator/clients/annotations.h"
#include "coordinator/clients/completion.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/drafters/guesses.h"
#include "coordinator/vocab/translator.h"
#include "proto/keys/keyring.h"
#include "proto/net/link.h"
#include "proto/wire/draft_check.h"
#include "proto/wire/terms.h"
#include "proto/wire/token_log.h"

#define OR_SEATS_MAX 4u
#define OR_UNFIT_MAX 16u
#define OR_RESTING_MAX 16u
#define OR_ARITH_BYTES 64
#define OR_TOLD_MAX 32u
#define OR_LABEL_BYTES 65 // with its end

typedef enum {
    OR_PHASE_WAITING,
    OR_PHASE_PARKED, // its client is away: it holds no place and does nothing
    OR_PHASE_TREE,
    OR_PHASE_VERDICT,
    OR_PHASE_DONE
} or_phase_t;

// So much of a completion may be told: tokens, bytes of text, and that it is over.
typedef struct {
    uint32_t tokens;
    size_t text;
    bool over;
} or_extent_t;

// A session's part in the journal (journaling.c).
typedef struct {
    uint64_t number;     // 0: it is not there, and will not be
    bool begun;          // its beginning was written, or refused: its client may hear of it
    bool kept;           // it is on disk
    bool ended;          // its end is there, too
    uint32_t tokens;     // of the completion that are there
    uint64_t round;      // behind these that are committed
    int64_t since_ns;    // since when a write is under way; 0: none is
    or_extent_t writing; // what may be told once it is done
    or_extent_t settled; // and before
} or_journaling_t;

// A tree, as a client that wants to see it is told of it.
typedef struct {
    uint64_t round;
    uint32_t base_length, count, accepted_count;
    uint32_t *words; // owned: tokens, back and the accepted path, OR_TREE_NODES_MAX entries each
} or_told_tree_t;

// A drafter's place in a session.
typedef struct {
    or_peer_t peer;       // 0: nobody sits here
    uint64_t draft_key;   // what it draws with; no two that serve a session together have the same
    uint32_t sequences;   // its part of a shape that was asked for; 0: the whole shape
    uint32_t asked_nodes; // the most it was told to build
    or_usefulness_t usefulness;     // of its guesses: it may be told to build less
    uint32_t nodes;                 // of its next tree, so far: at most asked_nodes
    uint32_t misfits;               // trees in a row that stood on another text
    or_vocab_method_t vocab_method; // how its vocabulary meets the target's
    or_translator_t *translator;    // to and from its vocabulary; NULL: it has the target's
    bool awaited;                   // its tree is due in this round
    int64_t awaited_ns;             // since when; after that, since when it is late
    int64_t waited_ns;              // how long this round waited for it
    bool late;                      // it let a round pass: not waited for until it speaks
    bool drafted;                   // what follows is its tree for this round; else that is empty
    or_token_tree_t *tree;
    uint64_t tree_digest;   // as it came
    or_draws_store_t draws; // where the rule wants to know them
    uint32_t draft_us;
    int64_t nudge_ns;      // when to remind it of the round; OR_TIME_NEVER
    int64_t replayed_ns;   // when it was last sent the whole prefix on request
    int64_t mapped_ns;     // and its map
    uint64_t nagged;       // the last round in which it asked too often
    uint64_t link_bytes;   // of its link when it joined
    uint32_t told_length;  // of its text when it was told last
    bool behind;           // the text has grown since
    int64_t unanswered_ns; // since when it owes a word; 0: it does not
    uint32_t sent;         // trees and guesses that came in this round, where they are pooled
    uint32_t repeats;      // and trees with nothing new
    or_peer_t before;      // who sat here last; 0: nobody
} or_seat_t;

typedef struct {
    or_session_id_t id;
    const or_vocab_t *vocab; // the target's; borrowed
    or_phase_t phase;
    int64_t deadline_ns; // of the phase: give up waiting, ask again, or forget

    // What was asked.
    or_peer_t client;                      // 0: away
    char key[OR_KEY_BYTES];                // the client's; "": none
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // the session's secret
    or_journaling_t journal;
    uint64_t request;
    char label[OR_LABEL_BYTES]; // the client's name for it; "": none
    or_terms_t terms;           // as the verifier gets them
    uint64_t owner_hash;        // or_name_hash
    bool plain;
    bool measured;       // its drafters stay whatever they are worth
    uint32_t max_tokens; // 0: no bound
    uint64_t seed;
    uint64_t
        key_seed; // what keys other than the noise's are made of: each choice of a seed has its own

    // What was written.
    or_token_log_t log;
    uint32_t prompt_length;
    or_noise_place_t place; // where the next token begins
    or_completion_t text;
    or_annotations_t annotations; // where the client asked for them
    uint32_t finish;              // or_finish_t
    uint32_t error_code;
    uint32_t busy_ms; // error BUSY: when the client may try again
    char error[512];
    char note[512];   // for the client: what it should know
    char advice[256]; // and how it might have been faster; both may be empty
    char vocab_map
        [32]; // how its drafters' vocabularies meet the target's: "tli", "same+slem"; "": none yet
    char vocab_why[256];
    uint32_t sent_tokens; // completion tokens and text bytes the client was told
    size_t sent_text;
    bool sent_end;

    // The round.
    uint64_t round;
    int64_t round_started_ns;
    int64_t asked_ns; // when the verifier was, first
    uint32_t *tree_tokens,
        *tree_back; // what the verifier was sent; OR_TREE_NODES_MAX entries, owned
    uint32_t tree_count;
    uint32_t asked_nodes, asked_depth; // the largest it could have been, whatever was drawn
    or_draws_store_t tree_draws;       // where the rule wants to know them
    double *tree_psi;                  // slrs; OR_TREE_NODES_MAX entries, owned
    bool psi_asked;                    // the verifier waits for the drafter's psi to answer
    int64_t retry_ns;                  // how long the next wait for the verdict is
    // When a session that lost its verifier gives up; OR_TIME_NEVER while there is one.
    int64_t abandoned_ns;
    // When the verifier was last sent everything on request.
    int64_t replayed_ns;
    int64_t resumed_ns; // and the client, since it asked for the rest
    // The verifier had no place for it: when to open it there again; OR_TIME_NEVER.
    int64_t reopen_ns;
    // The ledger: positions whose K and V the verifier holds, and how often it lost some.
    uint32_t kv_held, evictions;
    char arith_id[OR_ARITH_BYTES]; // of the verifier that began it: never another

    // What its drafter has guessed, where the rule may use any guess; NULL: whole trees only.
    or_guesses_t *guesses;
    or_policy_t policy;
    or_guess_source_t source; // of this round's tree
    int64_t told_ns;          // when the drafter was told of the text as it is
    struct {
        uint64_t round;
        int64_t at_ns;     // 0: it has answered
    } told[OR_TOLD_MAX];   // when it was told of the last rounds, first
    int64_t give_up_ns;    // when drafters that are waited for become late; 0: nobody is yet
    bool undecided;        // the policy has not been asked about this round
    uint64_t looked_round; // that `lookup` is about
    uint32_t lookup;       // guesses that a lookup gave
    or_lookup_guess_t
        *lookup_guesses; // as many as draft_nodes, owned; NULL: the policy does without
    bool gives_way;      // its place is wanted by an owner that has less at work
    int64_t paced_ns;    // its key's limit holds the next round up until then; 0: it does not

    or_hold_t request_hold; // what it keeps of its request, in its owner's account
    or_hold_t answer_hold;  // and of what was written

    // Its drafters: one, or several for method multi.
    or_seat_t seats[OR_SEATS_MAX];
    uint32_t seat_count; // for good once the first drafter has joined; 0 before
    uint32_t joined;     // drafters so far
    or_merge_t *merge;   // the seats' trees into what the verifier was sent; multi only
    // Drafters that cannot serve this session: the last few.
    or_peer_t unfit[OR_UNFIT_MAX];
    uint32_t unfit_count; // so far
    // Drafters that were busy or no use to it, and when each may try again: the last few.
    struct {
        or_peer_t drafter;
        int64_t until_ns;
    } resting[OR_RESTING_MAX];
    uint32_t rests; // so far

    or_generate_stats_t stats;
    or_generate_stats_t counted; // of them, what the coordinator's totals have (counters.c)
    bool begun;                  // the verifier was told of it
    bool worked_on;              // it was, at some time
    const or_verdict_t *judged;  // while a verdict is dealt with; else NULL
    or_told_tree_t held_tree;    // the last that was judged, while its tokens are not told
    int64_t arrived_ns;          // when it was asked for
    int64_t started_ns;          // the same, until the work has begun; then when that was
    int64_t written_ns;          // when tokens were committed last; 0: none were here
    int64_t done_ns;             // when it ended
} or_csession_t;

// What the target's file says of text. Borrowed.
typedef struct {
    const or_vocab_t *vocab;
    const or_chat_t *chat;    // NULL: conversations are refused ...
    const char *chat_trouble; // ... with this sentence
} or_session_target_t;

// A session of `owner` (copied) from a request: tokenises, checks sampling and methods, draws a seed if
// none came. OR_ERR_INVALID, OR_ERR_UNSUPPORTED, OR_ERR_NO_MEMORY, with a sentence for the client.
or_status_t or_csession_create(const or_session_target_t *target, or_session_id_t id,
                               or_peer_t client, const char *owner,
                               const or_generate_request_t *request, or_csession_t **session_p);
void or_csession_destroy(or_csession_t **session_p);

// The most drafters that may serve it at the same time.
uint32_t or_csession_seats_max(const or_csession_t *session);
// Where this drafter sits; NULL: nowhere.
or_seat_t *or_csession_seat(or_csession_t *session, or_peer_t drafter);
// What the n-th drafter to join draws with.
uint64_t or_csession_draft_key(const or_csession_t *session, uint32_t n);

// Whose text it is.
const char *or_csession_owner(const or_csession_t *session);

// What it keeps of the memory: for what was asked, whatever is written; and for what was written so far. A drafter's
// translator is not in it.
size_t or_csession_request_bytes(const or_csession_t *session);
size_t or_csession_answer_bytes(const or_csession_t *session);

// Its trees' distributions are of no use any more.
void or_csession_drop_draws(or_csession_t *session);
// It has ended: what only rounds need is of no use any more. Its tree is empty from here on.
void or_csession_drop_rounds(or_csession_t *session);

// Tokens of the completion.
uint32_t or_csession_written(const or_csession_t *session);

// Has it begun and not ended? Then a verifier works for it.
bool or_csession_is_live(const or_csession_t *session);

// When its phase ends or, while it waits, its key may write again.
int64_t or_csession_due(const or_csession_t *session);

// Does the verdict fit the round, the tree that was sent, and the hash? OR_ERR_MISMATCH says what
// does not.
or_status_t or_csession_check_verdict(const or_csession_t *session, const or_verdict_t *verdict,
                                      uint32_t vocab_size);

// Commit the path and the token after it, one by one, until something ends the text:
// session->finish tells.
or_status_t or_csession_commit(or_csession_t *session, const or_verdict_t *verdict,
                               uint32_t context_max);

// The tokens that an earlier coordinator had committed, in a session that has none yet; `finish` is how that
// text had ended. OR_ERR_INVALID if they are none of the vocabulary.
or_status_t or_csession_restore(or_csession_t *session, const int32_t *tokens, uint32_t count,
                                uint32_t finish);

// The text is over: release what was held back. OR_ERR_NO_MEMORY.
or_status_t or_csession_end_text(or_csession_t *session);
// End the session's text with an error for the client.
void or_csession_fail(or_csession_t *session, or_wire_error_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// What a line of the log is about; borrows the label.
or_log_subject_t or_csession_subject(const or_csession_t *session);
