// rounds - the life of a round: who is asked, how long we wait, what is repeated.
//
//     drafter.c    what a drafter said of it ──┐
//     verifier.c   what the verifier said ─────┼──▶ marks ──▶ rounds.c: commit told, tree sent, next round, end
//
// drafter.c and verifier.c change the session and mark it. or_round_settle makes the progress that follows. One thread.
#pragma once

#include "common/decode/merge.h"
#include "coordinator/coordinator.h"
#include "proto/session/draft_check.h"

typedef struct or_csession or_csession_t;
typedef struct or_seat or_seat_t;

// The tree that the verifier was sent for this round, and the answer that it wants to it.
typedef struct {
    uint32_t *tokens, *back; // owned; OR_TREE_NODES_MAX entries
    uint32_t count;
    uint32_t asked_nodes, asked_depth; // the largest it could have been, whatever was drawn
    or_draws_store_t draws;            // where the rule wants to know them
    double *psi;                       // slrs; OR_TREE_NODES_MAX entries, owned
    bool psi_asked;                    // the verifier waits for the drafter's psi to answer
} or_round_tree_t;

// A session at its verifier.
typedef struct {
    bool begun;          // the verifier was told of it
    int64_t asked_ns;    // when the verifier was asked about this round, first
    int64_t retry_ns;    // how long the next wait for the verdict is
    int64_t replayed_ns; // when the verifier was last sent everything on request
    // When a session that lost its verifier gives up; OR_TIME_NEVER while there is one.
    int64_t abandoned_ns;
    // The verifier had no place for it: when to open it there again; OR_TIME_NEVER.
    int64_t reopen_ns;
    uint32_t busy_ms;   // the last such pause; 0: it has had a place since
    uint32_t kv_held;   // positions whose K and V the verifier holds
    uint32_t evictions; // how often it lost some
} or_at_verifier_t;

// ---- rounds.c ----

// A session begins, or goes on after it was parked: its next round.
void or_round_begin(or_coordinator_t *coordinator, or_csession_t *session);
// OR_MARK_YIELD is settled, and it keeps its place: its round goes on.
void or_round_stay(or_coordinator_t *coordinator, or_csession_t *session);
// Its client is away: free its places at the verifier and the drafters, keep the text. or_round_begin takes it up again.
void or_round_park(or_coordinator_t *coordinator, or_csession_t *session);
// Settle what is marked of its round. After a verdict the client and the drafters are told, and the next round begins or the
// text ends. When trees have come they are joined and sent to the verifier, or more is waited for.
void or_round_settle(or_coordinator_t *coordinator, or_csession_t *session);
// The timers of a session at work.
void or_round_tick(or_coordinator_t *coordinator, or_csession_t *session);
// Was the verifier asked what a rule that draws makes of this round, and may still answer? Then the round must not be
// drawn anew: what is slow or lost could depend on what was drawn, as the question for psi does.
bool or_round_is_asked(const or_coordinator_t *coordinator, const or_csession_t *session);
// Open the session at the verifier, which holds nothing of it then, and send it the text.
void or_round_open_verifier(or_coordinator_t *coordinator, or_csession_t *session);
// Send the verifier the whole text.
void or_round_send_text(or_coordinator_t *coordinator, const or_csession_t *session);
// Send the verifier this round's tree; also again, where no verdict came.
void or_round_send_tree(or_coordinator_t *coordinator, const or_csession_t *session);
// Ask the verifier for a plain step.
void or_round_ask_plain(or_coordinator_t *coordinator, or_csession_t *session);

// ---- verifier.c ----

// Commit the round's verdict and mark the session. One of another round is ignored. One that does not fit the tree or the
// text (or_csession_check_verdict) commits nothing and ends the text with an error.
void or_round_verifier_verdict(or_coordinator_t *coordinator, or_csession_t *session,
                               const or_verdict_t *verdict);
// The verifier lacks the session or its text, has no place for it, or failed.
void or_round_verifier_error(or_coordinator_t *coordinator, or_csession_t *session,
                             const or_error_t *error);
// slrs: the verifier rejected a guess and asks what the drafter's text may begin with instead.
void or_round_verifier_asks_psi(or_coordinator_t *coordinator, or_csession_t *session,
                                const or_psi_request_t *request);
// Nobody is left who could answer that: the text ends.
void or_round_verifier_lacks_psi(or_csession_t *session);
// It gave K and V of the session to others.
void or_round_verifier_evicted(or_csession_t *session, const or_kv_evicted_t *evicted);
// A verifier joined (again): open the session there and repeat what waits.
void or_round_verifier_joined(or_coordinator_t *coordinator, or_csession_t *session);
// There is no verifier any more: wait for one, but not for ever.
void or_round_verifier_lost(or_coordinator_t *coordinator, or_csession_t *session);
// Timers of a session whose verifier is gone or has no place for it.
void or_round_verifier_tick(or_coordinator_t *coordinator, or_csession_t *session);

// ---- drafter.c ----

// Take a drafter's tree (or_trees_take) and mark the session. One that cannot be judged costs the drafter its seat; one on
// another text brings it the text again.
void or_round_drafter_tree(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                           const or_draft_tree_t *tree);
// The drafter lacks the session, its text or a map, has no place for it, or failed.
void or_round_drafter_error(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                            const or_error_t *error);
// slrs: the drafter's answer to what the verifier asked.
void or_round_drafter_psi(or_coordinator_t *coordinator, or_csession_t *session,
                          const or_seat_t *seat, const or_psi_reply_t *reply);
// One of the session's drafters is gone.
void or_round_drafter_lost(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
