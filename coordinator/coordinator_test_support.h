// coordinator_test_support - the real coordinator on a network in memory, and the test as all its
// peers: a verifier that always writes token 5, a drafter, a client. Whatever goes wrong here fails
// the test.
#pragma once

#include "common/decode/methods.h"
#include "common/decode/token_tree.h"
#include "coordinator/coordinator.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define TARGET 4711u // the target file's fingerprint
#define NODES 9

typedef struct {
    or_channel_t *channel;
    or_link_t *link;
} edge_t;

// The messages that a drafter got, and the text as it knows it.
typedef struct {
    uint32_t opens, prefixes, verdicts;
    or_open_session_t terms; // keys and numbers only
    uint32_t shape[2];
    uint64_t round;
    uint32_t length;
    uint64_t hash;
    uint32_t start;       // of the last prefix
    uint32_t path[NODES]; // accepted by the last verdict
    uint32_t path_count;
    uint32_t text[256]; // what prefixes brought: `length` tokens
    bool placed;        // the last prefix
    uint32_t byte_offset;
    uint32_t vocab_requests, maps, vocabularies, psi_requests;
    uint64_t asked_hash, map_hash; // the last ones
    uint32_t map_count;
    uint32_t draft_nodes; // that the last prefix or verdict asked for; 0: all
    uint32_t cancels;
} heard_t;

typedef struct world {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel;
    or_link_t *hub;
    or_coordinator_t *coordinator;
    or_coordinator_config_t config;
    edge_t verifier, drafter, client;
    edge_t second;     // another drafter, where one joins
    heard_t heard[2];  // by the first and by the second
    uint32_t trees;    // that reached the verifier
    uint32_t nodes;    // in them
    uint32_t prefixes; // that reached the drafter
    or_session_id_t session;
    or_prefix_t last; // the drafter's view: length, hash, round
    or_generate_delta_t end;
    or_session_id_t end_session;
    char error[512];
    bool slow;           // the verifier does not answer
    uint32_t told_nodes; // that the drafter may build
    uint64_t order[8];   // requests as they ended
    uint32_t ended;
    uint32_t forged_hash;                            // verdicts still to be sent with a wrong hash
    uint32_t refused_trees;                          // trees still to be called invalid, twice each
    uint64_t drafter_secret;                         // private keys the drafter was told, or-ed
    char refusal[512];                               // what the drafter was told with session 0
    char note[512], advice[256];                     // what the client was told at the end
    or_open_session_t verifier_terms, drafter_terms; // keys and numbers only
    char verifier_owner[64], drafter_owner[64];      // as OpenSession named them
    uint32_t verifier_opens, verifier_cancels;
    uint32_t verifier_prompt[256], verifier_prompt_length; // what the last prefix from 0 began with
    uint32_t busy;        // opens that the verifier still answers with BUSY
    uint32_t busy_ms;     // and when it wants to be told again; 0: after 300 ms
    bool shut;            // the last was: it knows no session
    uint32_t retry_ms;    // of the client's end
    or_stats_t stats;     // the last the client got
    uint32_t stats_count; // how often
    uint8_t *frames[2];   // the last two trees that came, as frames
    size_t frame_bytes[2];
    bool judges;      // the target writes word_at(length) instead, and accepts what is that
    uint32_t step_ms; // and its verdicts take so long; 0: none
    uint32_t row_ms;  // and so much longer for each guess
    int64_t due_ns;   // of the verdict that it works at; 0: none
    or_session_id_t due_session;
    or_verdict_t due; // with due_path
    uint32_t due_path[OR_TREE_NODES_MAX];
    uint32_t written[256]; // completion tokens that the client got
    uint32_t written_count;
    bool accepts;                     // verdicts accept node 1 of every tree
    uint32_t path[NODES], path_count; // and this path of the next tree that has nodes
    // A test's changes to a verdict before it goes out, and to what the client hears. NULL: none.
    void (*alter)(struct world *w, or_verdict_t *verdict);
    void (*look)(struct world *w, const or_message_t *message);
} world_t;

extern const uint32_t tokens[NODES];
extern const uint32_t chain[NODES]; // back-distances

// For cmocka: *state is a world_t whose coordinator trusts drafters on this machine, or none.
int world_setup(void **state);
int world_setup_without_trust(void **state);
// With what else `config` says; w->config is what the coordinator got.
int world_setup_with(void **state, or_coordinator_config_t config);
// The same with room for two requests at a time, and three that wait.
int world_setup_narrow(void **state);
// With room for three at a time, one of each owner.
int world_setup_shared(void **state);
int world_teardown(void **state);

// Return the word that a target that judges writes after `length` tokens: so many words, over and over.
uint32_t word_at(uint32_t length);
extern uint32_t word_period; // every test begins with more than it has tokens
// Instead, so many words that it writes after `word_script_begin` tokens. NULL, as every test begins: none.
extern const int32_t *word_script;
extern uint32_t word_script_begin, word_script_count;

// Let `ms` virtual milliseconds pass.
void run(world_t *w, uint32_t ms);
// The number that the next session will have.
or_session_id_t next_session(const world_t *w);

// Connect and say Hello; usual numbers where `hello` has none.
void join(world_t *w, edge_t *edge, or_hello_t hello);
void leave(edge_t *edge);
// Verifier, drafter and client.
void join_usual(world_t *w);
// An edge beside the usual three says Hello and is heard.
void join_beside(world_t *w, edge_t *edge, or_hello_t hello);
// Make what the edge hears the client's in the world.
void hear_as_client(world_t *w, edge_t *edge);

// Request 77 on three tokens unless it says otherwise.
void ask(world_t *w, or_generate_request_t request);
void ask_through(edge_t *edge, or_generate_request_t request);
// Coupled, at temperature 0.
or_generate_request_t usual_request(uint32_t tokens_wanted);
void draft(world_t *w, uint64_t round, uint32_t base_length, uint64_t base_hash,
           const uint32_t *nodes, const uint32_t *back, uint32_t count);
// Ask, and draft a chain of the first `count` of `tokens` for the round that begins.
void ask_and_draft(world_t *w, or_generate_request_t request, uint32_t count);
// Keep what the drafter hears in fields of the world.
void drafter_notes(world_t *w, const or_message_t *message);

// ---- the keyring of a test, in a file of this process ----

// Begin with an empty file and open it for the coordinator.
or_keyring_t *open_test_keyring(void);
// Close it and delete the file.
void close_test_keyring(or_keyring_t **keyring_p);
const char *test_keyring_path(void);
// Change the file as the operator does, through a keyring of its own.
void authorize_test_key(or_key_grant_t grant);
void revoke_test_key(const char *key);
