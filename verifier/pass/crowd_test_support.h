// crowd_test_support - many texts at one verifier; the test plays coordinator and drafters.
//
// The messages for a text (trees, distributions, psi) are a function of its own description and of what came back,
// never of the others. So a text in a crowd can be compared with itself alone. Whatever goes wrong here fails the
// test.
#pragma once

#include "common/decode/methods.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"
#include "verifier/verifier.h"

#define CROWD_CONTEXT 512
#define CROWD_NODES 24
#define CROWD_TEXTS 40

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel, *channel;
    or_link_t *hub, *link;
    or_verifier_t *verifier;
    or_peer_t peer;
    bool welcome;     // the Hello is answered
    or_stats_t stats; // heard last
    uint32_t stats_heard;
    uint32_t evictions; // KvEvicted heard
} crowd_t;

// A verifier whose pool has so many pages, with these ranks (NULL: alone).
crowd_t *crowd_create(const or_verifier_config_t *config, uint32_t pages, const or_ranks_t *ranks);
void crowd_destroy(crowd_t **crowd_p);
// Return the options with which crowd_create loads the model.
or_model_options_t crowd_model_options(uint32_t pages, const or_ranks_t *ranks);
#define CROWD_MODEL "tales-1m-f16.gguf"

typedef enum { TEXT_TO_COME, TEXT_AT_WORK, TEXT_DONE, TEXT_FAILED } text_state_t;

typedef struct {
    // The text itself.
    uint64_t id, seed;
    const char *owner;
    or_accept_rule_t rule;
    or_draft_method_t method;
    or_sampling_t sampling;
    uint32_t prompt[CROWD_CONTEXT];
    uint32_t prompt_length;
    uint32_t wanted;       // tokens
    uint32_t arrival;      // turn in which it comes
    const uint32_t *hints; // what it may guess: `wanted` tokens; NULL: anything
    bool plain;            // it guesses nothing
    bool slow;             // it answers a turn later than others
    // The fate of the text.
    text_state_t state;
    uint32_t tokens[CROWD_CONTEXT + CROWD_NODES];
    uint32_t length;
    uint64_t hash, round;
    uint32_t rounds, accepted, evicted;
    uint32_t owes;                   // turns until it sends its next tree; 0: it owes none
    uint32_t guess[CROWD_NODES + 1]; // the tree's tokens
    double psi;
    char error[256];
} text_t;

// Forget what became of it.
void text_reset(text_t *text);
// Open it and send prompt and first tree.
void text_begin(crowd_t *crowd, text_t *text);
void text_cancel(crowd_t *crowd, const text_t *text);

// One turn of the verifier; answers are taken and answered. Time moves on by a millisecond.
void crowd_turn(crowd_t *crowd, text_t *texts, uint32_t count);
// Until all have ended, each beginning when it comes; Cancel behind the last token.
void crowd_run(crowd_t *crowd, text_t *texts, uint32_t count);
// Hear Stats that are no older than this call.
or_stats_t crowd_stats(crowd_t *crowd);
// Fails unless both wrote the same.
void assert_same_text(const text_t *a, const text_t *b);
