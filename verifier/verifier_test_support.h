// verifier_test_support - the real verifier and model on a network in memory; the test plays the
// coordinator. Whatever goes wrong here fails the test.
#pragma once

#include "common/decode/methods.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"
#include "verifier/verifier.h"

#define BENCH_CONTEXT 64
#define BENCH_STEP_MS 40
#define PROMPT 3

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
} bench_t;

extern const uint32_t prompt[PROMPT];
extern const or_gpu_choice_t *bench_gpu; // where benches that are set up now run; NULL: on the CPU

// For cmocka: *state is a bench_t.
int bench_setup(void **state);
int bench_setup_scarce(void **state); // pages for one session's context only
int bench_setup_slow(void **state);   // a pass takes BENCH_STEP_MS
int bench_teardown(void **state);

// Run until the verifier says something other than a greeting or KvEvicted; OR_MSG_HEARTBEAT stands
// for silence. The caller finis *message.
or_message_type_t hear(bench_t *b, or_message_t *message);
// Send; session 7 unless the message names one.
void say(bench_t *b, or_message_t message);

// Coupled, at temperature 0.
or_open_session_t usual_terms(void);
// Hear the Hello, then open session 7 on these terms and send the prompt.
void greet_and_open(bench_t *b, or_open_session_t terms);
// A tree right behind the prompt; borrows the arrays.
or_message_t tree_of(uint64_t round, const uint32_t *tokens, const uint32_t *back, uint32_t count);

void expect_error(bench_t *b, or_wire_error_t code);
// INVALID, for a reason that has these words.
void expect_refusal(bench_t *b, const char *reason);
void expect_silence(bench_t *b);

// The next `count` tokens after the prompt at temperature 0, one plain step each, in a session of their
// own.
void decode_plainly(bench_t *b, uint32_t count, uint32_t *text);
