// hub_world - a coordinator on a network in memory and a virtual clock, with its journal in
// memory, and the peers that a fuzzer connects.
//
// Each peer notes what it was told of the last texts, so that a fuzzer can send messages that
// fit, or nearly. After every step of time the hub is checked: its places, and that the ledger
// equals what texts and readers hold. Only one world at a time, as its journal has one folder.
#pragma once

#include "coordinator/hub.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_network.h"

#define HUB_EDGES 8u
#define HUB_KNOWN 16u
#define HUB_NODES 64u
#define HUB_TOKENS 64u

// A text as a peer knows it.
typedef struct {
    or_session_id_t session;
    uint64_t request;
    uint64_t round, hash;
    uint32_t length;     // the tokens that `hash` is of
    uint64_t text_bytes; // a client's, of text
    uint32_t secret;     // the text's place in `secrets`
    uint32_t logprobs;   // as the session was opened
    uint32_t count;      // of the last tree, as far as there is room for it
    uint32_t tokens[HUB_NODES], back[HUB_NODES];
    bool asked; // an honest verifier owes a verdict
} hub_known_t;

typedef struct {
    or_channel_t *channel; // NULL: nobody is here
    or_link_t *link;
    or_role_t role;
    bool honest; // a verifier that answers every tree with one token
    hub_known_t known[HUB_KNOWN];
    uint32_t last;  // that was heard of
    bool text_done; // a client has heard that a text has ended well
    bool refused;   // and that one has not
} hub_edge_t;

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *channel;
    or_link_t *link;
    or_ledger_t *ledger;
    or_journal_t *journal;
    or_coordinator_config_t config;
    or_coordinator_t *coordinator;
    bool durable;
    hub_edge_t edges[HUB_EDGES + 2];                     // the last two are honest ones
    uint8_t secrets[HUB_TOKENS][OR_SESSION_TOKEN_BYTES]; // of texts, as clients were told
    uint32_t secret_count;                               // so far
} hub_world_t;

// `small`: the ledger has little memory. `keeps`: texts whose clients are away are kept.
// `durable`: there is a journal.
void hub_world_init(hub_world_t *w, bool small, bool keeps, bool durable);
// Destroy the world and check that the ledger is empty.
void hub_world_fini(hub_world_t *w);
// Kill the coordinator and start another in its place. All peers are new to it.
void hub_world_restart(hub_world_t *w);

void hub_world_join(hub_world_t *w, hub_edge_t *edge, const or_hello_t *hello, bool inside);
void hub_world_leave(hub_edge_t *edge);
// Let so many virtual milliseconds pass.
void hub_world_run(hub_world_t *w, uint32_t ms);
// Check that every text ends with an honest verifier, and that a stranger's text is written.
void hub_world_end_all(hub_world_t *w);
