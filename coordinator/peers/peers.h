// peers - the table of those that were welcomed (drafters, verifiers and clients), and what is sent to them.
//
// Nobody is sent more than it reads: a peer has a hold of what it has not read, in its owner's account. What a drafter does
// wrong is noted, and one offence too many cuts it off at the end of the turn (members.c).
#pragma once

#include "coordinator/budget/usefulness.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/coordinator.h"
#include "coordinator/peers/conduct.h"
#include "coordinator/peers/limits.h"
#include "coordinator/peers/refusals.h"
#include "coordinator/peers/standing.h"
#include "coordinator/session/session.h"
#include "coordinator/vocab/vocabularies.h"

#define OR_PEERS_MAX 1024u

typedef struct {
    or_peer_t peer; // 0: free place
    or_role_t role;
    bool
        inside; // our own HTTP face: a client for many, believed for whom it asks, weighed by nobody
    uint64_t number; // tells it apart from all that were ever here
    int64_t joined_ns;
    uint32_t context_max, nodes_max;
    uint64_t machine; // the one on whose CPUs its model runs; 0: not said, or none
    // A verifier's: live sessions beyond it wait. A drafter's: it gets no more. 0: not said.
    uint32_t sessions_max;
    uint32_t sessions;          // a drafter's
    bool trusted;               // its distributions are believed
    char owner[OR_OWNER_BYTES]; // ""; of nobody in particular
    bool serves_all;            // a drafter of nobody in particular, on this machine
    or_key_grant_t grant;       // what its key allows; key "": it has none
    or_conduct_t conduct;       // a drafter's or a client's
    or_record_t record;         // a drafter's
    // A drafter's: when a text gave it up, and it has sent nothing about any text since; 0: it is not so.
    int64_t late_ns;
    or_hold_t unread;        // what it was sent and has not read
    bool cut;                // it offended once too often
    or_offence_t offence;    // that was too much
    or_known_vocab_t *vocab; // a drafter's; NULL: it has the target's ids
    // A drafter that is to send the vocabulary which it announced drafts for nobody before.
    bool unknown_vocab;
    uint64_t announced_hash;
    uint32_t announced_size;
    uint32_t vocab_asks;    // how often it was asked for it
    uint32_t vocab_refused; // answers that were not it
    int64_t vocab_due_ns;   // when to ask again
    int64_t target_sent_ns; // when it was sent the target's vocabulary; 0: never
    char model[128];
    char arith_id[OR_ARITH_BYTES];
    or_peer_figures_t figures; // counted here or reported by it; the rest is added for an answer
    uint64_t counted_bytes;    // of its link, those that are in the totals
} or_member_t;

typedef struct {
    or_member_t members[OR_PEERS_MAX];
    uint64_t last_number; // that a member got
    uint32_t cuts;        // members to be cut off
    bool unread;          // some member has a hold of what it has not read
    or_limits_t *limits;
    or_refusals_t refusals;
    or_standings_t standings;
    uint64_t connections_refused; // by the channel
    int64_t keyring_due_ns;       // when to look whether it has changed
    bool keyring_changed;         // members are still to be looked at
    int64_t keyring_told_ns;      // when it was last said that it cannot be read; 0: never
} or_peers_t;

// ---- the table ----

// The member with this peer, or a free place (peer 0); NULL: there is none.
or_member_t *or_peers_find(or_coordinator_t *coordinator, or_peer_t peer);
// The next member of a walk over the table; NULL: there is no more. *at is 0 before the first.
or_member_t *or_peers_next(or_peers_t *peers, uint32_t *at);
// Members of a role.
uint32_t or_peers_count(const or_coordinator_t *coordinator, or_role_t role);
// Its place is free again.
void or_peers_forget(or_member_t *member);

// ---- sending ----

// Send and shrug: what is lost is asked for again.
void or_peers_send(or_coordinator_t *coordinator, or_peer_t to, const or_message_t *message);
// The session is over for `to`.
void or_peers_send_cancel(or_coordinator_t *coordinator, const or_csession_t *session, or_peer_t to,
                          const char *reason);
// A client's request is none that can be served.
void or_peers_send_failure(or_coordinator_t *coordinator, or_peer_t client, uint64_t request,
                           or_wire_error_t code, uint32_t retry_ms, const char *text);
// Messages that wait for a new member are in its owner's account from now on, unless it serves everybody.
void or_peers_open_account(or_coordinator_t *coordinator, or_member_t *member);
// Has it read most of what it was sent? If not, nothing new is begun with it, and it is sent nothing for the second time.
bool or_peers_has_read(const or_member_t *member);
// Peers may have read: what they have is released.
void or_peers_release_read(or_coordinator_t *coordinator);

// ---- misbehaviour ----

// Say why it is refused for good, and forget the peer.
void or_peers_turn_away(or_coordinator_t *coordinator, or_peer_t peer, const char *text);
// The same where it may come again, after so long (0: not said).
void or_peers_put_off(or_coordinator_t *coordinator, or_peer_t peer, uint32_t retry_ms,
                      const char *text);
// Something that came with this key ("": none) was refused: counted, and logged now and then.
void or_peers_note_refusal(or_coordinator_t *coordinator, const char *key, const char *text);
// The number of refusals, connections included.
uint64_t or_peers_refused(const or_coordinator_t *coordinator);
// Note what a drafter did wrong.
void or_peers_offend(or_coordinator_t *coordinator, or_peer_t peer, or_offence_t offence);
// For the link: may this frame be read?
bool or_peers_gate(void *coordinator, or_peer_t from, size_t bytes);
