// drafter - one edge process: keeps each session's prefix in its own KV cache, builds trees, learns
// from verdicts.
//
//     Prefix / Verdict ──▶ catch up the cache ──▶ build ──▶ DraftTree ──▶ grow on, while the round is in flight
//
// A session here is a shadow: the coordinator's word is the truth. Whatever is lost, repeated or
// late, the prefix hash shows it, and a NEED_PREFIX error brings the missing tokens; nothing in
// this file can change the text. One thread; drive it by turns:
//
//     while (!stop) { int64_t due = or_drafter_turn(drafter); or_link_wait(link, due); }
#pragma once

#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/net/link.h"

typedef struct or_drafter or_drafter_t;

typedef struct {
    uint32_t nodes_max;    // of one tree
    uint32_t sessions_max; // more are refused with BUSY
    // Whose sessions it serves, and so whose texts it reads; NULL or "": everybody's. Borrowed
    const char *owner;
    // Where the vocabulary comes from, for coordinators whose target has another one. Borrowed
    const or_gguf_t *gguf;
    // Where measured acceptance is kept (calibration.h), read at the start if it is there, written
    // every minute and at the end. Borrowed; NULL: nowhere.
    const char *acceptance_file;
    const char *models; // that it was measured with, and their vocabulary (calibration.h). Borrowed
    // Further draft models, for method multi (session.h). Borrowed.
    or_model_t *const *more_models;
    uint32_t more_count;
    // Every pass of a draft model takes so much longer: a slow drafter, for laboratories. What a pass gave
    // is used, and messages are heard, only then.
    uint32_t step_delay_us;
    uint32_t stats_ms; // how often Stats are sent; 0: never
} or_drafter_config_t;

// What to say in Hello. Strings are borrowed from gguf.
or_hello_t or_drafter_hello(const or_drafter_config_t *config, const or_gguf_t *gguf,
                            const or_model_t *model, const or_vocab_t *vocab);

// Borrows all. OR_ERR_NO_MEMORY; OR_ERR_FORMAT, OR_ERR_IO (acceptance file).
or_status_t or_drafter_create(const or_drafter_config_t *config, or_model_t *model,
                              const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                              or_drafter_t **drafter_p);
void or_drafter_destroy(or_drafter_t **drafter_p);

// Handle what waits, at most one tree built or grown by a pass; returns when to come back at the latest (now, if more
// work waits).
int64_t or_drafter_turn(or_drafter_t *drafter);

// After the coordinator refused us (another vocabulary, version): its sentence; NULL otherwise. The
// process should end.
const char *or_drafter_refused(const or_drafter_t *drafter);
