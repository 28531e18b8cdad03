// coordinator - the hub: sessions and their committed tokens, the only source of truth.
//
//     client ──GenerateRequest──▶ session: open ──▶ [ wait for a tree ──▶ wait for the verdict ──▶ commit ] ... ──▶ finish
//
// It runs no model. Each round it waits for its drafters' trees until a deadline, else asks the
// verifier for a plain step. It repeats what got no answer, replays prefixes to whoever lost them, and
// tells the client only what is committed. What it does not have a place for waits, the owner with the
// least at work first, or is told when to try again. A drafter that misbehaves (conduct.h) is turned
// away; one that is no use to a session (usefulness.h) leaves it. One thread, by turns.
#pragma once

#include "common/text/chat/chat.h"
#include "common/text/vocab/vocab.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/journal/journal.h"
#include "proto/keys/keyring.h"
#include "proto/net/link.h"

typedef struct or_coordinator or_coordinator_t;

#define OR_COORDINATOR_PLACES_MAX 65536u // of sessions_max, and of waiting_max
#define OR_RESUME_MS (15u * 60 * 1000)   // the usual resume_ms

typedef struct {
    uint32_t sessions_max;           // requests served at a time; more wait
    uint32_t sessions_per_owner_max; // of them one owner's; 0: as many as there are
    uint32_t waiting_max;            // requests that wait; more are told when to try again (BUSY)
    // A drafter silent for this long in a round is bridged by a plain step.
    uint32_t draft_timeout_ms;
    uint32_t retry_ms;            // a verifier silent for this long in a round is asked again
    uint32_t verifier_timeout_ms; // a request without any verifier for this long ends with an error
    uint32_t heartbeat_ms;
    // Drafters on this machine may draft for the rules that believe the distributions they send (docs/design.md
    // section 4); others never may.
    bool trust_loopback;
    // Requests wait for a first drafter, and fail if it is refused (a local cluster being started).
    bool expect_drafter;
    const char *model_name; // for messages
    // The target file's or_gguf_fingerprint: a verifier with another is refused; 0: any.
    uint64_t model_hash;
    // The target's file, for drafters that guess its tokens (slrs). Borrowed; NULL: they are refused.
    const or_gguf_t *gguf;
    // The form in which the target wants conversations; NULL: they are refused, with chat_trouble. Borrowed.
    const or_chat_t *chat;
    const char *chat_trouble; // a sentence
    // A request whose client is away, or that a coordinator before this one had, waits for it this long; 0: it
    // ends with its client's connection.
    uint32_t resume_ms;
    or_journal_t *journal; // borrowed; NULL: texts end with this process
    or_ledger_t *ledger;   // borrowed; NULL: nothing is counted
    or_keyring_t *keyring; // borrowed; refreshed here; NULL: there are no keys
} or_coordinator_config_t;

or_coordinator_config_t or_coordinator_config_default(void);

// Borrows all; vocab is the target's. The link must be a hub's. OR_ERR_NO_MEMORY.
or_status_t or_coordinator_create(const or_coordinator_config_t *config, const or_vocab_t *vocab,
                                  or_link_t *link, const or_clock_t *clock,
                                  or_coordinator_t **coordinator_p);
void or_coordinator_destroy(or_coordinator_t **coordinator_p);

// May who has this public key connect? (For or_channel_zmq_bind.)
bool or_coordinator_admits(const or_coordinator_t *coordinator, const char *public_key);
// The channel has refused so many connections so far: the figures count them, though they never come here.
void or_coordinator_set_refused_connections(or_coordinator_t *coordinator, uint64_t count);

// The process is about to stop: end every live request with an error for its client, unless the journal has it.
void or_coordinator_shutdown(or_coordinator_t *coordinator);

// Handle what waits; returns when to come back at the latest.
int64_t or_coordinator_turn(or_coordinator_t *coordinator);
