// telemetry - what a coordinator counts of its texts and rounds, as metrics (common/base/log/metrics.h) with vLLM's names
// after our prefix (docs/design.md section 10), so that dashboards made for it need a search and replace.
//
//     arrived ──▶ begun ──▶ prompt ──▶ tokens ... tokens ──▶ finished        rounds in between
//
// The coordinator's thread calls these where the things happen; times are seconds. Figures of the verifier and the
// drafters come with or_stats_t when the page is made. One thread.
#pragma once

#include "coordinator/figures/events.h"
#include "proto/wire/message.h"

typedef struct or_telemetry or_telemetry_t;

// `model`: the target's name, the label model_name of every series; NULL: as "". OR_ERR_NO_MEMORY.
or_status_t or_telemetry_create(const char *model, or_telemetry_t **telemetry_p);
void or_telemetry_destroy(or_telemetry_t **telemetry_p);

// A text begins to be worked on, after it has waited so long.
void or_telemetry_begun(or_telemetry_t *telemetry, double waited);
// Its prompt is in the verifier's cache: so many tokens, of which so many were there already.
void or_telemetry_prompt(or_telemetry_t *telemetry, uint32_t tokens, uint32_t reused);
// Tokens were committed together, so long after those before them; for the first ones: after the request.
void or_telemetry_first_tokens(or_telemetry_t *telemetry, uint32_t tokens, double since);
void or_telemetry_tokens(or_telemetry_t *telemetry, uint32_t tokens, double since);
// It has ended (or_finish_t), so long after it was asked for.
void or_telemetry_finished(or_telemetry_t *telemetry, uint32_t finish, uint32_t tokens,
                           double after);

// A round was judged. Times in microseconds, 0 where there is none. The time that a round waited for its drafter,
// link_us + draft_us - hidden_us, is shown as drafting as far as draft_us goes, and as the network beyond.
typedef struct {
    or_guess_source_t source;
    uint32_t nodes, depth; // of the tree
    uint32_t accepted;     // of its nodes
    uint32_t path_nodes; // nodes of the tree at depth <= accepted + 1: the rest was never looked at
    uint64_t round_us;   // from the verdict before to this one
    uint64_t draft_us, verify_us, accept_us;
    uint64_t link_us;    // the drafter's round trip, as measured
    uint64_t hidden_us;  // of link_us + draft_us, what the round did not wait for
    uint64_t link_bytes; // on the drafter's link since its last round
    bool ahead, hit;     // a drafter was ahead; its guesses were here when the round began
} or_telemetry_round_t;
void or_telemetry_round(or_telemetry_t *telemetry, const or_telemetry_round_t *round);

// An event of this kind (coordinator/figures/events.h).
void or_telemetry_event(or_telemetry_t *telemetry, const char *kind);

// The page: what was counted here, and gauges and counters of `stats` (running, waiting, cache, peers, policy terms).
// *text_p is malloc'd; the caller frees it. OR_ERR_NO_MEMORY.
or_status_t or_telemetry_render(or_telemetry_t *telemetry, const or_stats_t *stats, char **text_p,
                                size_t *length_p);
