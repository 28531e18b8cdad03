// verifier_internal - what the files of the verifier share. They are verifier.c (messages, turns), passes.c (which
// sessions take part in a pass), pages.c (which sessions give pages) and sharing.c (prefixes that are computed
// already).
#pragma once

#include "proto/net/edge.h"
#include "verifier/pass/linger.h"
#include "verifier/pass/scheduler.h"
#include "verifier/pass/texts.h"
#include "verifier/session.h"
#include "verifier/verifier.h"

// A session's part of a pass.
typedef struct {
    or_vsession_t *session; // borrowed
    uint32_t prefix_rows;
    bool tree;
    uint32_t first_row; // of its tree; set when the pass is run
} or_part_t;

// The rows of one pass.
typedef struct {
    or_part_t *parts; // [parts_max]
    uint32_t part_count, parts_max;
    uint32_t prefix_rows, tree_rows; // of all parts
    or_model_row_t *rows;            // [rows_max]
    uint32_t rows_max;
} or_batch_t;

struct or_verifier {
    or_verifier_config_t config; // batch_rows and crowd_rows are set
    or_model_t *model;
    const or_vocab_t *vocab;
    or_edge_t edge;
    const or_clock_t *clock;
    or_judge_t *judge;
    or_vsession_t *sessions;   // config.sessions_max places
    or_scheduler_t *scheduler; // its flows are the sessions by place
    or_texts_t *texts;
    or_batch_t batch;
    uint64_t opened;       // number of sessions opened so far
    uint64_t pass;         // number of the pass that is being composed or run
    uint32_t pass_rows;    // most rows of that pass
    int64_t step_began_ns; // when work came for the next pass; 0: none waits
    or_linger_t linger;
    or_linger_text_t *expected; // [config.sessions_max], scratch
    or_stats_t stats;           // what is counted
    char broken[512];           // or_verifier_broken; "": it is not
};

// ---- verifier.c ----

// End a session whose work failed, with the thread's error text.
void or_verifier_fail(or_verifier_t *verifier, or_vsession_t *session);
void or_verifier_send_verdict(or_verifier_t *verifier, const or_vsession_t *session);
void or_verifier_send_psi_request(or_verifier_t *verifier, const or_vsession_t *session);

// ---- passes.c ----

// Allocate a batch. OR_ERR_NO_MEMORY.
or_status_t or_batch_init(or_batch_t *batch, uint32_t parts_max, uint32_t rows_max);
// Free it; it may be zeroed.
void or_batch_fini(or_batch_t *batch);

// Go on with judgements whose psi has come, then run a pass for the waiting work. Returns true if anything was done;
// else *due_ns is no later than when wanted pages may be had.
bool or_verifier_work(or_verifier_t *verifier, int64_t *due_ns);

// ---- pages.c ----

// Get pages for the session's first `positions` positions, from other sessions if the pool is short. Returns false if
// it has to wait and no session has given any.
bool or_verifier_take_pages(or_verifier_t *verifier, or_vsession_t *session, uint32_t positions);
// Return when the next session will have been idle for so long that its pages may be taken.
int64_t or_verifier_next_idle_ns(const or_verifier_t *verifier);

// ---- sharing.c ----

// Take cached positions of the session's prefix, beyond its own, from other sessions and texts.
void or_verifier_share(or_verifier_t *verifier, or_vsession_t *session);
// Return true if a session in the pass computes the next `rows` rows that this one would compute, or a page of them.
bool or_verifier_is_computed(const or_verifier_t *verifier, const or_vsession_t *session,
                             uint32_t rows);
