// edge - the parts that drafter and verifier share: a model, a link to the coordinator, a greeting, a refusal, a
// loop.
//
//     open (file -> vocabulary -> model -> channel) -> greet (link) -> run (turn, wait, turn ...) -> close
//
// or_edge_t is the role's side of the link and runs in simulations too; or_edge_process_t is the process around it.
// One thread.
#pragma once

#include "common/model/gpu/gpu_choice.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/keys/keys.h"
#include "proto/net/link.h"

#define OR_EXIT_REFUSED                                                                            \
    3 // exit code of a process that the coordinator turned away; its last log line says why
#define OR_EDGE_READY " ready on " // stands before the device in the log line about a loaded model

// ---- the role's side ----

#define OR_EDGE_HELD_MAX 64u // messages that wait; while there are as many no more are read

typedef struct {
    or_link_t *link; // borrowed
    char refused[512];
    int64_t report_due_ns;     // when the next Stats are sent; 0: none were yet
    int64_t warned_ns;         // the beginning of the minute in which these two count
    uint32_t warned, unwarned; // warnings that were written, and that were not
    // Set by a role that cannot take every message at once; NULL: it can. See or_edge_drain.
    bool (*must_wait)(const void *role, const or_message_t *message);
    or_message_t held[OR_EDGE_HELD_MAX];
    uint32_t held_count;
} or_edge_t;

void or_edge_init(or_edge_t *edge, or_link_t *link);
void or_edge_fini(or_edge_t *edge);

// Send a message, and ignore a failure: the coordinator asks again for what it misses.
void or_edge_send(or_edge_t *edge, const or_message_t *message);
// Send an Error. `round` and `length` are as in or_error_t, 0 if they mean nothing.
void or_edge_send_error(or_edge_t *edge, or_session_id_t session, uint64_t round,
                        or_wire_error_t code, uint32_t length, const char *text);

// Warn of a message that the coordinator sent; session 0: it is about none. Of a flood only a few lines a minute are
// written, and how many were left out.
void or_edge_warn(or_edge_t *edge, or_session_id_t session, const char *what, const char *why);

// Handle a bounded number of waiting messages, so that a flood cannot starve the model. Greetings, refusals and
// errors are handled here, messages about sessions in `take`. One that must wait is kept, with all that come later about its
// session, for the next call.
void or_edge_drain(or_edge_t *edge, void (*take)(void *role, const or_message_t *message),
                   void *role);

// Return true if a message about the session waits.
bool or_edge_holds(const or_edge_t *edge, or_session_id_t session);

// Send Stats, which `fill` completes from zero, once we are welcomed and then every `every_ms` (0: never). Returns when
// the next ones are due.
int64_t or_edge_report(or_edge_t *edge, int64_t now, uint32_t every_ms,
                       void (*fill)(const void *role, or_stats_t *stats), const void *role);

// Return the coordinator's sentence if it turned us away; NULL otherwise.
const char *or_edge_refused(const or_edge_t *edge);

// ---- the process ----

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_channel_t *channel;
    or_link_t *link;
} or_edge_process_t;

// Load the model at its place and connect. Errors are those of the parts. Call or_edge_process_close in any case.
or_status_t or_edge_process_open(const char *path, const or_model_options_t *options,
                                 const or_gpu_place_t *place, const char *endpoint,
                                 const or_key_options_t *keys, or_edge_process_t *process);
// Say Hello, with the machine on whose CPUs the model runs. OR_ERR_NO_MEMORY.
or_status_t or_edge_process_greet(or_edge_process_t *process, const or_hello_t *hello);
// Turn and wait until a signal comes (OR_OK), `refused` gives a sentence (OR_ERR_MISMATCH), or the model's device
// fails (OR_ERR_IO). After the last a process that is started again may find a device that works.
or_status_t or_edge_process_run(or_edge_process_t *process, int64_t (*turn)(void *role),
                                const char *(*refused)(const void *role), void *role);
// Close the process's parts. The role must have been destroyed.
void or_edge_process_close(or_edge_process_t *process);
