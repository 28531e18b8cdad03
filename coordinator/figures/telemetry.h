// telemetry - the coordinator's metrics of texts and rounds, and the page of all metrics.
//
//     arrived ──▶ begun ──▶ prompt ──▶ tokens ... tokens ──▶ finished        rounds in between
//
// Names are vLLM's behind our prefix where vLLM has the metric (docs/design.md section 10), so that a dashboard made for
// it needs a search and replace. The coordinator calls these functions where the events happen. Times are seconds unless
// their name says microseconds. Figures of verifier, drafters and sessions come with or_stats_t when the page is made
// (proto/wire/figures.h). One thread.
#pragma once

#include "coordinator/figures/events.h"
#include "proto/wire/message.h"

typedef struct or_telemetry or_telemetry_t;

// `model` is the target's name and the label model_name of every series; NULL is as "". OR_ERR_NO_MEMORY.
or_status_t or_telemetry_create(const char *model, or_telemetry_t **telemetry_p);
void or_telemetry_destroy(or_telemetry_t **telemetry_p);

// A text begins to be worked on after a wait.
void or_telemetry_begun(or_telemetry_t *telemetry, double waited);
// The text's prompt is in the verifier's cache: of its tokens, `reused` were there already.
void or_telemetry_prompt(or_telemetry_t *telemetry, uint32_t tokens, uint32_t reused);
// A round committed tokens. `since` is the time since the last commit, and for the first one since the request.
void or_telemetry_first_tokens(or_telemetry_t *telemetry, uint32_t tokens, double since);
void or_telemetry_tokens(or_telemetry_t *telemetry, uint32_t tokens, double since);
// The text has ended with a reason of or_finish_t. `after` is the time since the request.
void or_telemetry_finished(or_telemetry_t *telemetry, uint32_t finish, uint32_t tokens,
                           double after);

// A judged round. A time is 0 where it does not apply. The time that a round waited for its drafter is link_us +
// draft_us - hidden_us. Up to draft_us of it are shown as drafting, and the rest as the network.
typedef struct {
    or_guess_source_t source;
    uint32_t nodes, depth; // of the tree
    uint32_t accepted;     // of its nodes
    uint32_t path_nodes;   // nodes at depth <= accepted + 1; the others were never looked at
    uint64_t round_us;     // from the verdict before to this one
    uint64_t draft_us, verify_us, accept_us;
    uint64_t link_us;    // the drafter's round trip, as measured
    uint64_t hidden_us;  // the part of link_us + draft_us that the round did not wait for
    uint64_t link_bytes; // on the drafter's link since its last round
    bool ahead, hit;     // a drafter worked ahead; its guesses were here when the round began
} or_telemetry_round_t;
void or_telemetry_round(or_telemetry_t *telemetry, const or_telemetry_round_t *round);

// An event of a kind of coordinator/figures/events.h happened.
void or_telemetry_event(or_telemetry_t *telemetry, const char *kind);

// Write the page of all metrics: those counted here, and the figures of `stats`. *text_p is malloc'd; the caller frees it.
// OR_ERR_NO_MEMORY.
or_status_t or_telemetry_render(or_telemetry_t *telemetry, const or_stats_t *stats, char **text_p,
                                size_t *length_p);
