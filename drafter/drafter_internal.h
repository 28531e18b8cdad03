// drafter_internal - what the parts of the drafter share: messages and vocabularies (drafter.c), and the work
// (drafter_work.c).
#pragma once

#include "drafter/drafter.h"
#include "drafter/session.h"
#include "drafter/together.h"
#include "proto/net/edge.h"

typedef enum { OR_WORK_TREE, OR_WORK_ANSWER, OR_WORK_GROWTH } or_work_t;

// A work that is under way.
typedef struct {
    or_drafter_t *drafter;
    or_dsession_t *session; // NULL: this place is free
    or_work_t work;
    or_psi_reply_t reply; // borrows from the session
} or_job_t;

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
    or_together_t *together;
    or_job_t jobs[OR_TOGETHER_MAX];
    or_session_id_t hungry; // found no pages beside others, and is built alone next; 0: none
    int64_t
        busy_until_ns; // the end of a delayed pass. Until then nothing is read and no message handled
    uint64_t model_us, passes; // the models' time so far, and their passes until the last delay
};

// ---- work ----

// Send the whole tree of the round.
void or_drafter_send_tree(or_drafter_t *drafter, const or_dsession_t *session);
// Go on with what waited for the last pass. Trees and answers that are done are sent.
void or_drafter_read(or_drafter_t *drafter);
// Begin the trees that are due and the answers, or else to grow a tree, and run a pass for all that are under way.
// Returns false if there is nothing to do.
bool or_drafter_work(or_drafter_t *drafter);
