// figures - the statistics of verifier, coordinator, peers and sessions: one row for each number.
//
//     row ──▶ struct member ──▶ field of the message Stats ──▶ JSON: /status, `outrider status --json`
//                         └──▶ Prometheus: /metrics
//
// To add a counter: a row at the end of its table here, a field of the same name and number in outrider.proto,
// and the line that counts. See docs/extending.md section 4.
//
// A row is X(type, member, number, traits, line, kind, metric, unit, help):
//
//     type, member    the member of the struct; its name is also the name in JSON, where rows keep this order
//     number          the field's number on the wire: never changed or given again
//     traits          or_figure_trait_t, or 0
//     line            the metric's place among those of its table on the metrics page, from 1; 0: no metric
//     kind, metric    OR_METRIC_<kind>, and the metric's name behind its prefix
//     unit            what the member is multiplied by to be in the metric's unit, which is seconds for times
//     help            the help text of the metric, and the manual of the member
//
// Pure: constants, and functions of their arguments.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/log/metrics.h"

typedef enum {
    OR_PUBLIC = 1,      // shown to every owner; the others to operators, and to the owner of a peer
    OR_OF_DRAFTERS = 2, // a peer's: verifiers have no such metric
    OR_IN_SECONDS = 4,  // milliseconds that JSON shows as seconds: x_ms becomes "x_s"
} or_figure_trait_t;

// clang-format off
// The verifier counts these from the start of its process and reports them about once a heartbeat. A drafter
// reports model_us, passes, sessions, pages, pages_free and page_positions of them.
#define OR_VERIFIER_FIGURES(X)                                                                     \
    X(uint64_t, rounds, 1, 0, 13, COUNTER, "verifier_rounds_total", 1,                             \
      "Trees judged, plain steps included.")                                                       \
    X(uint64_t, nodes, 2, 0, 0, NONE, "", 1, "Nodes of those trees.")                              \
    X(uint64_t, accepted, 3, 0, 0, NONE, "", 1, "Accepted nodes of them.")                         \
    X(uint64_t, model_us, 4, 0, 14, COUNTER, "verifier_model_seconds_total", 1e-6,                 \
      "Time in forward passes.")                                                                   \
    X(uint64_t, passes, 9, 0, 15, COUNTER, "verifier_passes_total", 1, "Forward passes.")          \
    X(uint64_t, batched, 10, 0, 16, COUNTER, "verifier_pass_sessions_total", 1,                    \
      "Sessions served by forward passes: by passes, the mean batch.")                             \
    X(uint64_t, tree_rows, 11, 0, 17, COUNTER, "verifier_tree_rows_total", 1,                      \
      "Rows of trees, roots included.")                                                            \
    X(uint64_t, prefill_rows, 12, 0, 18, COUNTER, "verifier_prefill_rows_total", 1,                \
      "Rows of prefixes.")                                                                         \
    X(uint64_t, reused_rows, 13, 0, 19, COUNTER, "verifier_reused_rows_total", 1,                  \
      "Prefix positions taken from another text, not computed.")                                   \
    X(uint64_t, evictions, 14, 0, 20, COUNTER, "verifier_evictions_total", 1,                      \
      "Sessions that lost their cache for want of pages.")                                         \
    X(uint32_t, queue, 5, 0, 21, GAUGE, "verifier_queue", 1, "Sessions with work that waits.")     \
    X(uint32_t, sessions, 6, 0, 22, GAUGE, "verifier_sessions", 1, "Sessions with a place.")       \
    X(uint32_t, pages, 15, 0, 23, GAUGE, "verifier_pages", 1, "Pages of the cache.")               \
    X(uint32_t, pages_free, 7, 0, 24, GAUGE, "verifier_pages_free", 1, "Pages that nobody holds, or "  \
      "fewer where layers with a window have less room left.")                                     \
    X(uint32_t, pages_shared, 16, 0, 25, GAUGE, "verifier_pages_shared", 1,                        \
      "Pages that several texts hold.")                                                            \
    X(uint32_t, page_positions, 17, OR_PUBLIC, 26, GAUGE, "verifier_page_positions", 1,            \
      "Positions in a page.")                                                                      \
    X(uint64_t, page_bytes, 18, OR_PUBLIC, 27, GAUGE, "verifier_page_bytes", 1,                    \
      "Bytes of a page on one rank.")                                                              \
    X(uint32_t, ranks, 19, OR_PUBLIC, 28, GAUGE, "verifier_ranks", 1,                              \
      "Ranks of a tensor-parallel group.")                                                         \
    X(uint32_t, stages, 20, OR_PUBLIC, 29, GAUGE, "verifier_stages", 1, "Stages of the pipeline.") \
    X(uint64_t, experts_needed, 37, 0, 30, COUNTER, "verifier_experts_needed_total", 1,            \
      "Experts that passes needed, where not all have room in memory: each once for each layer of a pass. " \
      "Of the first rank, as the next two.")                                                       \
    X(uint64_t, experts_found, 38, 0, 31, COUNTER, "verifier_experts_found_total", 1,              \
      "Experts of those that were found in memory.")                                               \
    X(uint64_t, experts_read, 39, 0, 32, COUNTER, "verifier_experts_read_total", 1,                \
      "Experts that were read from disk.")

// The coordinator counts these from its start. Gauges are taken when somebody asks.
#define OR_COORDINATOR_FIGURES(X)                                                                  \
    X(uint64_t, resyncs, 8, 0, 9, COUNTER, "resyncs_total", 1, "Prefixes sent again.")             \
    X(uint32_t, waiting, 21, OR_PUBLIC, 1, GAUGE, "num_requests_waiting", 1,                       \
      "Requests that have not begun.")                                                             \
    X(uint32_t, drafters, 22, OR_PUBLIC, 11, GAUGE, "drafters", 1, "Drafters connected.")          \
    X(uint32_t, verifiers, 23, OR_PUBLIC, 12, GAUGE, "verifiers", 1, "Verifiers connected.")       \
    X(uint64_t, busy, 24, 0, 6, COUNTER, "busy_total", 1,                                          \
      "Requests answered: busy, come back later.")                                                 \
    X(uint64_t, cut_off, 25, 0, 8, COUNTER, "cut_off_total", 1,                                    \
      "Peers turned away for what they sent.")                                                     \
    X(uint64_t, cancelled, 26, 0, 5, COUNTER, "cancelled_total", 1, "Requests whose client left.") \
    X(uint64_t, started, 28, 0, 3, COUNTER, "requests_started_total", 1, "Requests taken.")        \
    X(uint32_t, parked, 30, 0, 2, GAUGE, "num_requests_parked", 1,                                 \
      "Requests whose client is away.")                                                            \
    X(uint64_t, resumed, 31, 0, 4, COUNTER, "resumed_total", 1,                                    \
      "Requests that went on after their client was back.")                                        \
    X(uint64_t, failovers, 32, 0, 10, COUNTER, "failovers_total", 1,                               \
      "Drafters that took over from another.")                                                     \
    X(uint64_t, refused, 33, 0, 7, COUNTER, "refused_total", 1,                                    \
      "Connections and messages turned away for a key.")

// The figures of a connected drafter or verifier, since it joined. It reports some of them itself, by members of the
// same name in Stats: those count since it started.
#define OR_PEER_REPORTED_FIGURES(X)                                                                \
    X(uint64_t, model_us, 12, 0, 4, COUNTER, "model_seconds_total", 1e-6,                          \
      "Time in the peer's model, as it says.")                                                     \
    X(uint64_t, passes, 13, 0, 5, COUNTER, "passes_total", 1,                                      \
      "Passes of the peer's model, as it says.")                                                   \
    X(uint32_t, pages, 14, 0, 6, GAUGE, "pages", 1, "Pages of the peer's cache.")                  \
    X(uint32_t, pages_free, 15, 0, 7, GAUGE, "pages_free", 1,                                      \
      "Pages of it that nobody holds.")
#define OR_PEER_FIGURES(X)                                                                         \
    X(uint64_t, connected_ms, 8, OR_PUBLIC | OR_IN_SECONDS, 1, GAUGE, "connected_seconds", 1e-3,   \
      "How long the peer has been connected.")                                                     \
    X(uint64_t, number, 16, OR_PUBLIC, 0, NONE, "", 1,                                             \
      "The coordinator's own number for it, never used again.")                                    \
    X(uint32_t, sessions, 6, 0, 2, GAUGE, "sessions", 1, "Sessions that the peer serves.")         \
    X(uint64_t, nodes, 9, OR_OF_DRAFTERS, 9, COUNTER, "nodes_total", 1,                            \
      "Guesses of the drafter that were judged.")                                                  \
    X(uint64_t, accepted, 10, OR_OF_DRAFTERS, 10, COUNTER, "accepted_total", 1,                    \
      "Guesses of the drafter that were accepted.")                                                \
    X(uint64_t, bytes, 11, 0, 3, COUNTER, "link_bytes_total", 1,                                   \
      "Bytes on the peer's link, both ways.")                                                      \
    OR_PEER_REPORTED_FIGURES(X)                                                                    \
    X(float, round_trip_ms, 7, OR_OF_DRAFTERS, 8, GAUGE, "round_trip_seconds", 1e-3,               \
      "To the drafter and back.")

// The cost model's beliefs about a live session, and what it chose (coordinator/budget/policy.h). What is not
// known yet is 0. The metric is the mean of the live sessions in which it is known.
#define OR_SESSION_FIGURES(X)                                                                      \
    X(uint64_t, age_ms, 23, OR_IN_SECONDS, 0, NONE, "", 1, "since it was asked for.")              \
    X(uint32_t, nodes, 5, 0, 1, GAUGE, "nodes", 1, "guesses asked for.")                           \
    X(uint32_t, depth, 6, 0, 2, GAUGE, "depth", 1, "depth asked for.")                             \
    X(uint32_t, ahead, 7, 0, 3, GAUGE, "ahead", 1, "rounds ahead asked for.")                      \
    X(uint32_t, prompt_tokens, 21, 0, 0, NONE, "", 1, "tokens of the prompt.")                     \
    X(uint32_t, tokens, 22, 0, 0, NONE, "", 1, "tokens written so far.")                           \
    X(float, round_trip_ms, 8, 0, 4, GAUGE, "round_trip_seconds", 1e-3,                            \
      "to the drafter and back, its work left out.")                                               \
    X(float, draft_ms, 9, 0, 5, GAUGE, "draft_seconds", 1e-3, "building a tree.")                  \
    X(float, plain_ms, 10, 0, 6, GAUGE, "plain_seconds", 1e-3, "a round without guesses.")         \
    X(float, verify_ms, 11, 0, 7, GAUGE, "verify_seconds", 1e-3,                                   \
      "a round with that many guesses.")                                                           \
    X(float, row_us, 12, 0, 8, GAUGE, "row_seconds", 1e-6, "what one guess adds to a round.")      \
    X(float, queue_ms, 13, 0, 9, GAUGE, "queue_seconds", 1e-3,                                     \
      "waiting for other sessions' passes.")                                                       \
    X(float, batch, 14, 0, 10, GAUGE, "batch", 1, "sessions that share a pass.")                   \
    X(float, acceptance, 15, 0, 11, GAUGE, "acceptance", 1,                                        \
      "that the first guess on the path is right.")                                                \
    X(float, block_efficiency, 16, 0, 12, GAUGE, "block_efficiency", 1, "tokens of a round.")      \
    X(float, hit_rate, 17, 0, 13, GAUGE, "hit_rate", 1,                                            \
      "rounds whose guesses were there at once.")                                                  \
    X(float, plain_rate, 18, 0, 14, GAUGE, "plain_tokens_per_second", 1,                           \
      "expected of plain rounds.")                                                                 \
    X(float, draft_rate, 19, 0, 15, GAUGE, "draft_tokens_per_second", 1,                           \
      "expected of rounds with guesses.")
// clang-format on

#define OR_STATS_FIGURES(X) OR_VERIFIER_FIGURES(X) OR_COORDINATOR_FIGURES(X)
#define OR_FIGURE_MEMBER(type, member, ...) type member;
#define OR_FIGURE_COPY(type, member, ...) to->member = from->member;
#define OR_FIGURE_ONE(...) +1

// A drafter or verifier that is connected.
typedef struct {
    uint32_t role; // or_role_t
    const char *model, *owner;
    const char *state; // "serving", "idle", "late", "loading its vocabulary"
    bool trusted;
    OR_PEER_FIGURES(OR_FIGURE_MEMBER)
} or_peer_figures_t;

// An event that an operator may want to know of: "drafter joined", "fail-over", "refused", ...
typedef struct {
    uint64_t number;  // from 1
    uint64_t time_ms; // since 1970
    const char *kind; // one of coordinator/figures/events.h
    uint64_t session; // 0: none
    const char *text;
} or_event_t;

// The origin of the guesses in a session's last round.
typedef enum {
    OR_SOURCE_PLAIN,   // no guesses
    OR_SOURCE_LOOKUP,  // the coordinator's own prompt lookup
    OR_SOURCE_DRAFTER, // a drafter's
} or_guess_source_t;
const char *or_guess_source_name(uint32_t source); // "plain", "lookup", "drafter"

// A live session.
typedef struct {
    uint64_t session;
    const char *owner;
    const char *label; // the client's name for the request; ""
    bool automatic;    // --draft-policy auto
    uint32_t source;   // or_guess_source_t
    OR_SESSION_FIGURES(OR_FIGURE_MEMBER)
} or_policy_terms_t;

// The message Stats. From drafter and verifier it has their figures alone; the answer of the coordinator to a client has
// all of them, and lists of what the client may see.
typedef struct {
    OR_STATS_FIGURES(OR_FIGURE_MEMBER)
    const char *model; // the target's file
    // Why guesses are used or not, as a sentence, for who may see all; else "".
    const char *choice;
    const or_policy_terms_t *policies;
    uint32_t policy_count;
    const or_peer_figures_t *peers;
    uint32_t peer_count;
    const or_event_t *events; // the latest, oldest first
    uint32_t event_count;
} or_stats_t;

// ---- the tables ----

typedef struct {
    const char *name; // of the member
    size_t offset;    // of the member in its struct
    enum { OR_FIGURE_U32, OR_FIGURE_U64, OR_FIGURE_F32 } type;
    uint32_t traits;
    uint32_t line;
    or_metric_kind_t kind;
    const char *metric, *help; // with the prefixes of their table
    double unit;
} or_figure_t;

enum {
    OR_STATS_ROWS = 0 OR_STATS_FIGURES(OR_FIGURE_ONE),
    OR_PEER_ROWS = 0 OR_PEER_FIGURES(OR_FIGURE_ONE),
    OR_SESSION_ROWS = 0 OR_SESSION_FIGURES(OR_FIGURE_ONE),
};
extern const or_figure_t or_stats_rows[OR_STATS_ROWS];
extern const or_figure_t or_peer_rows[OR_PEER_ROWS];
extern const or_figure_t or_session_rows[OR_SESSION_ROWS];

// The number in the struct `of` that the row belongs to, in the member's own unit. or_figure_count is exact and takes
// whole numbers only: a float counts as 0.
uint64_t or_figure_count(const or_figure_t *row, const void *of);
double or_figure_number(const or_figure_t *row, const void *of);
// The row of the member with this name, which has `length` characters. NULL: there is none.
const or_figure_t *or_figure_find(const or_figure_t *rows, uint32_t count, const char *name,
                                  size_t length);

// ---- what an owner may see ----
//
// Nothing here depends on what others write. An owner is told of its own texts and drafters, how many requests wait,
// and that the peers which work for everybody are there. An `owner` of NULL may see all.

// Whether a text or peer of `whose` is the owner's. `whose` may be NULL, as "".
bool or_stats_is_own(const char *owner, const char *whose);
// The public figures; `sessions` counts the listed sessions of the owner. The lists are kept, except events.
or_stats_t or_stats_for_owner(const or_stats_t *stats, const char *owner);
// The peer whole if it is the owner's, else its public figures and the state "shared".
or_peer_figures_t or_peer_for_owner(const or_peer_figures_t *peer, const char *owner);
