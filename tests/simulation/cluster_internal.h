// cluster_internal - what cluster.c (roles, lines, time) and clients.c share.
#pragma once

#include "coordinator/coordinator.h"
#include "drafter/drafter.h"
#include "tests/simulation/cluster.h"
#include "verifier/verifier.h"

// A process at the edge of the network.
typedef struct {
    or_channel_t *channel; // NULL: down
    or_link_t *link;
} sim_edge_t;

typedef struct {
    or_channel_t *channel; // the client's own
    or_requests_t *client; // NULL: there is none
} sim_client_t;
#define CLIENTS_MAX 64

struct sim {
    sim_config_t config;
    or_virtual_clock_t clock;
    or_network_t *network;
    bool cut[SIM_ROLES];
    bool changed;                // by the hook; the roles see the change before the clock moves
    sim_edge_t edges[SIM_ROLES]; // of verifier and drafters
    sim_client_t clients[CLIENTS_MAX];
    uint64_t written; // tokens that clients have been sent, in all
    or_verifier_t *verifier;
    or_drafter_t *drafters[2];
    or_channel_t *hub_channel;
    or_link_t *hub_link;
    or_journal_t *journal;
    or_coordinator_t *coordinator;
};

// Connect a peer over its role's line.
or_channel_t *sim_connect_role(sim_t *sim, sim_role_t role);
// A role's turn begins, or has ended.
void sim_at_work(const sim_t *sim, sim_role_t role, bool begins);
// Give every role one turn; returns when the next thing happens.
int64_t sim_turn(sim_t *sim);
// Move the clock to `due`, or to the next frame if that arrives before. If a frame has arrived in a turn in
// which none was sent or taken, its receiver is at work: the frame waits until that is done.
void sim_advance(sim_t *sim, int64_t due, bool moved);
