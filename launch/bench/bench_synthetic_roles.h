// bench_synthetic_roles - a drafter and a verifier without models: trees of made-up tokens, and
// acceptance by chance.
//
// The verifier accepts the child of rank i (from 0, in order) of a node on the path with
// probability acceptance[i], at most one of them, and otherwise ends the path. The drafter knows
// these probabilities and sends the tree of the n likeliest nodes, which is Sequoia's (Chen et al.
// 2024, arXiv 2402.12374, section 4.1). Both take one session after the other; a newer one replaces
// the older. One thread a role.
#pragma once

#include "common/decode/token_tree.h"
#include "proto/net/edge.h"

#define OR_SYNTHETIC_RANKS_MAX 32u

typedef struct {
    double acceptance[OR_SYNTHETIC_RANKS_MAX]; // adds up to 1 at most
    uint32_t ranks;
    uint32_t step_us;  // of the verifier, whatever the tree
    uint32_t draft_us; // of the drafter, a tree
    uint64_t seed;
} or_synthetic_distribution_t;

typedef struct {
    const or_synthetic_distribution_t *dist; // borrowed
    or_edge_t edge;
    or_session_id_t id; // the session it serves
    uint32_t nodes_max, depth_max;
    uint32_t parents[OR_TREE_NODES_MAX], ranks[OR_TREE_NODES_MAX]; // in order of probability
    uint32_t tokens[OR_TREE_NODES_MAX], back[OR_TREE_NODES_MAX];   // as they travel
    uint32_t count;
} or_synthetic_drafter_t;

typedef struct {
    const or_synthetic_distribution_t *dist; // borrowed
    or_edge_t edge;
    or_session_id_t id;
    uint32_t sessions; // so far: each draws other numbers
    uint64_t round;    // judged last
    uint32_t accepted[OR_TREE_NODES_MAX];
    or_verdict_t verdict; // of that round
} or_synthetic_verifier_t;

void or_synthetic_drafter_init(or_synthetic_drafter_t *drafter,
                               const or_synthetic_distribution_t *dist, or_link_t *link);
void or_synthetic_verifier_init(or_synthetic_verifier_t *verifier,
                                const or_synthetic_distribution_t *dist, or_link_t *link);
// Handle what waits; the time of the next turn, of the link's clock.
int64_t or_synthetic_drafter_turn(void *drafter);
int64_t or_synthetic_verifier_turn(void *verifier);
