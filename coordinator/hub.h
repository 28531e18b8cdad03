// hub - the coordinator's state: one part for each folder, and what all of them need.
//
//     coordinator.c                  the turn: takes messages and timers, settles the sessions that were marked
//     peers/members.c                who comes and goes
//     clients/                       who asks, who waits, who is away
//     rounds/                        a round: what verifier and drafters say, what follows from it
//     drafters/ budget/ vocab/       who drafts and how much, what drafters are told, the trees that they sent
//     clients/stream.c, or_charges_  what clients are told; what texts keep of the memory (clients/places.c)
//     journal/ figures/              what outlives the process; what is counted
//     peers/ session/                the tables of peers and sessions; sending; what keys allow
//
// Each line calls only those below it. What has to happen above is marked: a session with or_csession_mark, places that
// became free with queue.due. or_coordinator_turn settles the marks after each message and timer. One thread.
#pragma once

#include "common/decode/token_tree.h"
#include "coordinator/budget/worth.h"
#include "coordinator/clients/queue.h"
#include "coordinator/coordinator.h"
#include "coordinator/figures/events.h"
#include "coordinator/figures/telemetry.h"
#include "coordinator/journal/journaling.h"
#include "coordinator/peers/peers.h"
#include "coordinator/session/session.h"
#include "coordinator/session/sessions.h"
#include "coordinator/vocab/vocabularies.h"

// The target's vocabulary for slrs, packed once somebody asked for it.
typedef struct {
    uint8_t *bytes; // owned
    size_t count, unpacked;
} or_packed_vocab_t;

struct or_coordinator {
    or_coordinator_config_t config;
    const or_vocab_t *vocab;
    or_link_t *link;
    const or_clock_t *clock;
    or_session_target_t target; // the vocabulary and the chat template
    or_sessions_t sessions;
    or_peers_t peers;
    or_member_t *verifier; // the one that works for the sessions; NULL: none
    or_queue_t queue;
    or_journal_health_t journaling;
    or_vocabularies_t vocabularies;
    or_packed_vocab_t packed;
    or_token_tree_t *scratch; // for the tree of a round while it is made
    or_worth_t worth;
    or_policy_t earlier[2]; // what the last text alone, and the last one among others, has shown
    or_telemetry_t *telemetry;
    or_events_t events;
    or_stats_t figures;  // counted here; the rest is 0
    or_stats_t reported; // by a verifier, last; the rest is 0
    or_peer_t reported_by;
};

// The time that is `ms` milliseconds from now.
static inline int64_t or_hub_after_ms(const or_coordinator_t *hub, uint32_t ms)
{
    return or_clock_now(hub->clock) + ms * OR_NS_PER_MS;
}

// Requests for a whole text come in bursts, one for each message that did not fit: one answer is enough for all of
// them. True at most four times in a retry; *last_ns is then now.
static inline bool or_hub_may_replay(const or_coordinator_t *hub, int64_t *last_ns)
{
    int64_t now = or_clock_now(hub->clock);
    if (now - *last_ns < hub->config.retry_ms * OR_NS_PER_MS / 4) {
        return false;
    }
    *last_ns = now;
    return true;
}
