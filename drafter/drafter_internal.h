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
    uint32_t turn;           // the place where the search for work starts: round robin
    or_calibrations_t calibrations;
    or_maps_t maps;
    or_targets_t targets;
    or_vocabulary_t
        vocabulary; // our vocabulary as it travels, once a coordinator has asked for it; owns `packed`
    bool learned;     // calibrations have changed since they were saved
    int64_t saved_ns; // when they were last saved or read
    // The result of the last work, which is sent when the work is over. Until then no message is handled.
    int64_t busy_until_ns;
    or_dsession_t *worked; // NULL: nothing
    or_work_t work;
    or_psi_reply_t reply;      // borrows from the session
    uint64_t model_us, passes; // the model's time and passes so far
};

// ---- work ----

// Send the whole tree of the round.
void or_drafter_send_tree(or_drafter_t *drafter, const or_dsession_t *session);
// Send the result of the last work.
void or_drafter_deliver(or_drafter_t *drafter);
// Build a tree that is due, give an answer, or else grow a tree by a pass. Returns false if there is nothing to do.
bool or_drafter_work(or_drafter_t *drafter);
