// drafter - the draft model's process: it keeps each session's prefix in its own KV cache, builds trees, and learns
// from verdicts.
//
//     Prefix / Verdict ──▶ catch up the cache ──▶ build ──▶ DraftTree ──▶ grow on, while the round is in flight
//
// Sessions that build at the same time share their passes (together.h). Messages are handled between two passes; one
// about a session that builds waits until it is done.
//
// A session here is a shadow: the coordinator has the true text. Whatever is lost, repeated or late, the prefix hash
// shows it, and a NEED_PREFIX error brings the missing tokens. Nothing in the drafter can change the text. One
// thread; drive it by turns:
//
//     while (!stop) { int64_t due = or_drafter_turn(drafter); or_link_wait(link, due); }
#pragma once

#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/net/link.h"

typedef struct or_drafter or_drafter_t;

typedef struct {
    uint32_t nodes_max; // most nodes of one tree
    // A session beyond these takes the place of one without a tree to build, which its coordinator replays if it comes
    // back. If there is none it is refused with BUSY.
    uint32_t sessions_max;
    // The owner whose sessions it serves and whose texts it reads; NULL or "": all owners. Borrowed.
    const char *owner;
    // The file of the vocabulary, for coordinators whose target has another one. Borrowed.
    const or_gguf_t *gguf;
    // The file of measured acceptance (calibration.h): read at the start if it is there, written every minute and at
    // the end. Borrowed; NULL: none.
    const char *acceptance_file;
    const char *models; // the models that it was measured with, and their vocabulary. Borrowed
    // Further draft models, for method multi (session.h). Borrowed.
    or_model_t *const *more_models;
    uint32_t more_count;
    // A delay of every pass of a draft model: a slow drafter, for laboratories. On a CPU the results of a pass are used,
    // and messages are handled, only after it.
    uint32_t step_delay_us;
    uint32_t stats_ms; // how often Stats are sent; 0: never
} or_drafter_config_t;

// Return the Hello of this drafter. Its strings are borrowed from config, gguf and model.
or_hello_t or_drafter_hello(const or_drafter_config_t *config, const or_gguf_t *gguf,
                            const or_model_t *model, const or_vocab_t *vocab);

// Create a drafter; borrows all. OR_ERR_NO_MEMORY; OR_ERR_FORMAT, OR_ERR_IO (acceptance file).
or_status_t or_drafter_create(const or_drafter_config_t *config, or_model_t *model,
                              const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                              or_drafter_t **drafter_p);
void or_drafter_destroy(or_drafter_t **drafter_p);

// Handle the waiting messages and run a pass for all that build; if it fails one for each. Returns when to come back at the latest: now, if more work
// waits.
int64_t or_drafter_turn(or_drafter_t *drafter);

// Return the coordinator's sentence after it refused us (another vocabulary, version); NULL otherwise. The process
// should end.
const char *or_drafter_refused(const or_drafter_t *drafter);
