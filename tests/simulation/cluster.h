// cluster - all roles of Outrider in one process, on a network in memory and a virtual clock.
//
//     client ── coordinator ── drafter        frames are lost, repeated, delayed from a seed; processes crash and come back
//                     └─────── verifier       time moves only here, so a run replays exactly
//
// A role may have a line of its own to the coordinator, with delay, rate, stalls and cuts (tests/support/memory_network.h), and
// a forward pass may take time. A pass costs what the configuration says, and otherwise nothing. Real roles, real models, the
// real codec: only sockets and time are replaced. One thread.
#pragma once

#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/net/requests.h"
#include "tests/support/memory_network.h"

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
} sim_model_t;

// Load a model with a KV pool of `pages`. Fails the running test on errors.
void sim_model_load(const char *path, uint32_t threads, uint32_t pages, sim_model_t *model);
void sim_model_free(sim_model_t *model);

typedef struct sim sim_t;

typedef enum {
    SIM_VERIFIER,
    SIM_DRAFTER,
    SIM_SECOND_DRAFTER,
    SIM_COORDINATOR,
    SIM_CLIENT, // all of them: they are connected by sim_generate, and do not crash
    SIM_ROLES
} sim_role_t;

// A peer that the test plays. It has its turn with the others.
typedef void (*sim_guest_t)(sim_t *sim, void *context);

// A function that is called before and after a role's turn. Tests use it to change what the role meets there,
// such as a shortage of memory.
typedef void (*sim_switch_t)(void *context, sim_role_t role, bool begins);

typedef struct {
    uint64_t seed; // of the network
    or_network_faults_t faults;
    const or_network_line_t *lines[SIM_ROLES]; // NULL: the faults are its fate. Borrowed
    const sim_model_t *target;
    const sim_model_t *draft;               // NULL: no drafter
    const sim_model_t *second;              // a second drafter's; NULL: there is none
    uint32_t target_step_us, draft_step_us; // what a forward pass takes
    uint32_t draft_timeout_ms;              // 0: the coordinator's default
    uint32_t waiting_max;                   // 0: the coordinator's default
    uint32_t sessions_max;                  // of verifier and drafters; 0: 4
    uint32_t crowd_rows, stats_ms;          // as or_verifier_config_t has them
    const char *journal;                    // the coordinator's file; NULL: none. Borrowed
    sim_guest_t guest;                      // NULL: none
    void *guest_context;
    sim_switch_t at_work; // NULL: nobody wants to know
    void *at_work_context;
    // If a client may fail, its result then has finish ERROR and the sentence. Otherwise a failure
    // fails the test.
    bool clients_may_fail;
} sim_config_t;

sim_t *sim_create(const sim_config_t *config);
void sim_destroy(sim_t *sim);

// Kill the process: its memory and the frames to and from it are lost. No-op if it is down.
void sim_crash(sim_t *sim, sim_role_t role);
// Start the process again. No-op if it is up.
void sim_start(sim_t *sim, sim_role_t role);
// Cut the role's line. This may happen while it is down.
void sim_cut(sim_t *sim, sim_role_t role);
void sim_mend(sim_t *sim, sim_role_t role);
void sim_stall(sim_t *sim, sim_role_t role, int64_t until_ns);

// The result of a request.
typedef struct {
    int32_t tokens[1024];
    uint32_t count;
    char text[8192];
    uint32_t text_bytes;
    uint32_t finish;
    char error[512];
    char note[512];
    or_generate_stats_t stats;
    // The time and number of the first tokens, and the time of the last.
    int64_t first_ns, last_ns;
    uint32_t first_count;
} sim_result_t;

// A function that is called between events, before the clock moves. It may crash and start
// roles.
typedef void (*sim_hook_t)(sim_t *sim, void *context, const sim_result_t *so_far);

// Send the request and run until it has ended or `limit_s` virtual seconds have passed (finish
// stays NONE then). hook may be NULL.
void sim_generate(sim_t *sim, const or_generate_request_t *request, uint32_t limit_s,
                  sim_hook_t hook, void *context, sim_result_t *result);

// The same for several clients at once, on a network that is left alone.
void sim_generate_all(sim_t *sim, const or_generate_request_t *requests, uint32_t count,
                      uint32_t limit_s, sim_result_t *results);

// A client has all of its text. `next` is its next request: what it asked for before, to be changed.
typedef void (*sim_ended_t)(void *context, uint32_t client, const sim_result_t *result,
                            or_generate_request_t *next);

typedef struct {
    double warm_s, seconds; // it is measured for so long, after so long
    sim_ended_t ended;
    void *context;
} sim_load_t;

// Keep a text of each client running, one after the other, from the requests on. Return the tokens a second that all of them
// got while it was measured.
double sim_load(sim_t *sim, or_generate_request_t *requests, uint32_t count, const sim_load_t *load,
                sim_result_t *results);

// A laboratory's line with such a round trip; that of a verifier beside its coordinator; and one of four prompts.
or_network_line_t sim_line(double rtt_ms);
#define SIM_SITE_MS 0.1
const char *sim_prompt(uint32_t i);

int64_t sim_now_ns(const sim_t *sim);
// For guests: their end of the network, and its clock.
or_channel_t *sim_connect(sim_t *sim);
const or_clock_t *sim_clock(sim_t *sim);
// A request with everything at its default: coupled, 16 nodes, depth 16, synchronous, temperature 0.
or_generate_request_t sim_request(const char *prompt, uint32_t max_tokens);
