// coordinator_internal - what coordinator.c (peers, clients, the turn), rounds.c (the life of a
// round) and drafting.c (its drafter) share.
#pragma once

#include "common/decode/token_tree.h"
#include "coordinator/coordinator.h"
#include "coordinator/session.h"

#define OR_PEERS_MAX 1024u

// A drafter, verifier or client that was welcomed.
typedef struct {
    or_peer_t peer; // 0: free place
    or_role_t role;
    uint32_t context_max, nodes_max;
    uint32_t sessions_max; // a verifier's: live sessions beyond it wait; 0: not said
    uint32_t sessions;     // a drafter's
    bool trusted;          // its laws are believed
    char model[128];
    char arith_id[OR_ARITH_BYTES];
} or_member_t;

struct or_coordinator {
    or_coordinator_config_t config;
    const or_vocab_t *vocab;
    or_link_t *link;
    const or_clock_t *clock;
    or_member_t members[OR_PEERS_MAX];
    or_member_t *verifier;    // NULL: none
    bool drafter_seen;        // one has joined since the start
    char refusal[512];        // the last drafter we turned away, for requests that wait for one
    or_csession_t **sessions; // config.sessions_max places, NULL where free
    uint64_t next_id;
    or_token_tree_t *scratch; // to check drafters' trees
};

or_member_t *or_coordinator_member(or_coordinator_t *coordinator, or_peer_t peer);
// Send and shrug: what is lost is asked for again.
void or_coordinator_send(or_coordinator_t *coordinator, or_peer_t to, const or_message_t *message);
// Committed tokens from `start` on.
void or_coordinator_send_prefix(or_coordinator_t *coordinator, const or_csession_t *session,
                                or_peer_t to, uint32_t start);
// Tell the client what it has not been told yet; the end too.
void or_coordinator_tell_client(or_coordinator_t *coordinator, or_csession_t *session);

// drafting.c
// Find the session a drafter and tell it everything; true if it has one now. Under a ratio rule only
// a trusted one will do.
bool or_drafting_join(or_coordinator_t *coordinator, or_csession_t *session);
// Tell the session's drafter (again) what to draft.
void or_drafting_open(or_coordinator_t *coordinator, const or_csession_t *session);
// Let it go.
void or_drafting_leave(or_coordinator_t *coordinator, or_csession_t *session);
// Let it go for good: it cannot serve this session. Another may.
void or_drafting_dismiss(or_coordinator_t *coordinator, or_csession_t *session, const char *why);
// May the verifier we have now be sent this session's trees at all? It may have come after the
// drafter was told what to build. Under a ratio rule a tree must not be dropped for what was drawn
// (ALGORITHMS.md section 3), so this is about what was asked for; other rules do not mind.
bool or_drafting_suits_verifier(const or_coordinator_t *coordinator, or_csession_t *session);
// Keep its tree for the verifier, or none if the verifier cannot take it. OR_ERR_INVALID: it cannot
// be judged.
or_status_t or_drafting_take(or_coordinator_t *coordinator, or_csession_t *session,
                             const or_draft_tree_t *tree);
// The drafter moves on with us. One that was given up on is not flooded: it gets a prefix when it
// speaks.
void or_drafting_pass_on(or_coordinator_t *coordinator, const or_csession_t *session,
                         const or_verdict_t *verdict);

// rounds.c
// Start when verifier and drafter are there; else wait.
void or_round_begin(or_coordinator_t *coordinator, or_csession_t *session);
// Begin those that wait, in order of arrival, as far as the verifier has room.
void or_round_begin_waiting(or_coordinator_t *coordinator);
void or_round_on_tree(or_coordinator_t *coordinator, or_peer_t from, or_csession_t *session,
                      const or_draft_tree_t *tree);
void or_round_on_verdict(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_verdict_t *verdict);
void or_round_on_verifier_error(or_coordinator_t *coordinator, or_csession_t *session,
                                const or_error_t *error);
void or_round_on_drafter_error(or_coordinator_t *coordinator, or_csession_t *session,
                               const or_error_t *error);
// A verifier joined (again): open the session there and repeat what waits.
void or_round_on_verifier(or_coordinator_t *coordinator, or_csession_t *session);
// There is no verifier any more: wait for one, but not for ever.
void or_round_on_verifier_lost(or_coordinator_t *coordinator, or_csession_t *session);
// The session's drafter is gone.
void or_round_on_drafter_lost(or_coordinator_t *coordinator, or_csession_t *session);
// Timers. Returns when the session's next one is due.
int64_t or_round_tick(or_coordinator_t *coordinator, or_csession_t *session);
// End the session as its `finish` says: tell everybody, keep it a while for its client.
void or_round_finish(or_coordinator_t *coordinator, or_csession_t *session);
