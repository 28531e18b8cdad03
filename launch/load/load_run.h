// load_run - the load itself: N requests at a time for a while, one asked as soon as another ends.
//
//     text t   prompt t mod P, seed S + t div P: asked for in turn, by whichever session is free
//
// With or_load_run_learn each text was decoded plainly once, and every later one must agree with it,
// token for token, as far as it got before the time was over.
#pragma once

#include "launch/bench/bench_prompts.h"
#include "launch/cluster/cluster.h"
#include "launch/load/load_figures.h"
#include "launch/load/load_options.h"

typedef struct {
    const or_load_config_t *config;
    const or_load_plan_t *plan;
    const or_bench_prompts_t *prompts;
    const char *endpoint;
    or_cluster_t *cluster; // NULL with --connect
} or_load_place_t;

typedef struct {
    uint32_t *tokens; // owned
    uint32_t count;
} or_load_text_t;

typedef struct {
    or_load_text_t *items; // owned; one a text
    uint32_t count;
} or_load_texts_t;

// Wait until everyone is there that a text needs, by writing one token: no text of the load then waits for models to be loaded.
// What the request fails with is left to the load. Fails as or_load_run_learn does.
or_status_t or_load_run_wait(const or_load_place_t *place);

// Decode every text plainly. OR_ERR_CANCELLED if interrupted, OR_ERR_NO_MEMORY, what
// or_requests_next and or_cluster_check fail with, and OR_ERR_INVALID with the sentence of a
// request that failed. The caller calls or_load_texts_fini, on success only.
or_status_t or_load_run_learn(const or_load_place_t *place, or_load_texts_t *texts);
void or_load_texts_fini(or_load_texts_t *texts);

// Measure with figures->sessions at once, for config->seconds. `texts`: what to compare with; NULL:
// nothing is compared. What single requests fail with is counted, not an error. Fails as
// or_load_run_learn does; the figures are then those up to there.
or_status_t or_load_run(const or_load_place_t *place, const or_load_texts_t *texts,
                        or_load_figures_t *figures);
