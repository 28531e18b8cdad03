// drafter_internal - what the parts of the drafter share: messages and vocabularies (drafter.c), and the work
// (drafter_work.c).
#pragma once

#include "drafter/drafter.h"
#include "drafter/session.h"
#include "proto/net/edge.h"

typedef enum { OR_WORK_TREE, OR_WORK_ANSWER, OR_WORK_GROWTH } or_work_t;

struct or_drafter {
    or_drafter_config_t config;
    or_dshared_t shared;
    or_edge_t edge;
    or_dsession_t *sessions; // config.sessions_max places
    uint32_t turn;           // where the search for work starts: round robin
    or_calibrations_t calibrations;
    or_maps_t maps;
    or_targets_t targets;
    or_vocabulary_t vocabulary; // ours as it travels, once somebody asked for it; owns `packed`
    bool learned;               // since they were saved
    int64_t saved_ns;           // or read
    // What work gave, and goes out when it is over: until then nothing is heard.
    int64_t busy_until_ns;
    or_dsession_t *worked; // NULL: nothing
    or_work_t work;
    or_psi_reply_t reply;      // borrows from the session
    uint64_t model_us, passes; // the model's time and passes so far
};

// ---- work ----

// Send the round's tree, whole.
void or_drafter_send_tree(or_drafter_t *drafter, const or_dsession_t *session);
// Send what the last work gave.
void or_drafter_deliver(or_drafter_t *drafter);
// A tree that is due, an answer, or else a pass of growing. False: there is nothing to do.
bool or_drafter_work(or_drafter_t *drafter);
