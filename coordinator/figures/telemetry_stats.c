#include "coordinator/figures/telemetry_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"

// A number in a struct, and the metric that shows it: times `unit`, which makes it seconds where it is a time.
typedef struct {
    enum { COUNTER, GAUGE } kind;
    const char *name;
    size_t offset;
    enum { U32, U64, F32 } type;
    double unit;
    const char *help;
} figure_t;

#define US 1e-6
#define MS 1e-3
#define FIGURE(kind, name, of, field, unit, help)                                                  \
    {                                                                                              \
        kind, name, offsetof(of, field),                                                           \
            _Generic(((of *)NULL)->field, uint32_t                                                 \
                     : U32, uint64_t                                                               \
                     : U64, float                                                                  \
                     : F32),                                                                       \
            unit, help                                                                             \
    }
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const figure_t figures[] = {
#define STAT(kind, name, field, unit, help) FIGURE(kind, name, or_stats_t, field, unit, help)
    STAT(GAUGE, "num_requests_waiting", waiting, 1, "Requests that have not begun."),
    STAT(GAUGE, "num_requests_parked", parked, 1, "Requests whose client is away."),
    STAT(COUNTER, "requests_started_total", started, 1, "Requests taken."),
    STAT(COUNTER, "resumed_total", resumed, 1,
         "Requests that went on after their client was back."),
    STAT(COUNTER, "cancelled_total", cancelled, 1, "Requests whose client left."),
    STAT(COUNTER, "busy_total", busy, 1, "Requests answered: busy, come back later."),
    STAT(COUNTER, "refused_total", refused, 1, "Connections and messages turned away for a key."),
    STAT(COUNTER, "cut_off_total", cut_off, 1, "Peers turned away for what they sent."),
    STAT(COUNTER, "resyncs_total", resyncs, 1, "Prefixes sent again."),
    STAT(COUNTER, "failovers_total", failovers, 1, "Drafters that took over from another."),
    STAT(GAUGE, "drafters", drafters, 1, "Drafters connected."),
    STAT(GAUGE, "verifiers", verifiers, 1, "Verifiers connected."),
    STAT(COUNTER, "verifier_rounds_total", rounds, 1, "Trees judged, plain steps included."),
    STAT(COUNTER, "verifier_model_seconds_total", model_us, US, "Time in forward passes."),
    STAT(COUNTER, "verifier_passes_total", passes, 1, "Forward passes."),
    STAT(COUNTER, "verifier_pass_sessions_total", batched, 1,
         "Sessions served by forward passes: by passes, the mean batch."),
    STAT(COUNTER, "verifier_tree_rows_total", tree_rows, 1, "Rows of trees, roots included."),
    STAT(COUNTER, "verifier_prefill_rows_total", prefill_rows, 1, "Rows of prefixes."),
    STAT(COUNTER, "verifier_reused_rows_total", reused_rows, 1,
         "Prefix positions taken from another text, not computed."),
    STAT(COUNTER, "verifier_evictions_total", evictions, 1,
         "Sessions that lost their cache for want of pages."),
    STAT(GAUGE, "verifier_queue", queue, 1, "Sessions with work that waits."),
    STAT(GAUGE, "verifier_sessions", sessions, 1, "Sessions with a place."),
    STAT(GAUGE, "verifier_pages", pages, 1, "Pages of the cache."),
    STAT(GAUGE, "verifier_pages_free", pages_free, 1, "Pages that nobody holds."),
    STAT(GAUGE, "verifier_pages_shared", pages_shared, 1, "Pages that several texts hold."),
    STAT(GAUGE, "verifier_page_positions", page_positions, 1, "Positions in a page."),
    STAT(GAUGE, "verifier_page_bytes", page_bytes, 1, "Bytes of a page on one rank."),
    STAT(GAUGE, "verifier_ranks", ranks, 1, "Ranks of a tensor-parallel group."),
    STAT(GAUGE, "verifier_stages", stages, 1, "Stages of the pipeline."),
#undef STAT
};

// Means over the live sessions of which they are known.
static const figure_t terms[] = {
#define TERM(name, field, unit, help)                                                              \
    FIGURE(GAUGE, "policy_" name, or_policy_terms_t, field, unit, "Mean of live sessions: " help)
    TERM("nodes", nodes, 1, "guesses asked for."),
    TERM("depth", depth, 1, "depth asked for."),
    TERM("ahead", ahead, 1, "rounds ahead asked for."),
    TERM("round_trip_seconds", round_trip_ms, MS, "to the drafter and back, its work left out."),
    TERM("draft_seconds", draft_ms, MS, "building a tree."),
    TERM("plain_seconds", plain_ms, MS, "a round without guesses."),
    TERM("verify_seconds", verify_ms, MS, "a round with that many guesses."),
    TERM("row_seconds", row_us, US, "what one guess adds to a round."),
    TERM("queue_seconds", queue_ms, MS, "waiting for other sessions' passes."),
    TERM("batch", batch, 1, "sessions that share a pass."),
    TERM("acceptance", acceptance, 1, "that the first guess on the path is right."),
    TERM("block_efficiency", block_efficiency, 1, "tokens of a round."),
    TERM("hit_rate", hit_rate, 1, "rounds whose guesses were there at once."),
    TERM("plain_tokens_per_second", plain_rate, 1, "expected of plain rounds."),
    TERM("draft_tokens_per_second", draft_rate, 1, "expected of rounds with guesses."),
#undef TERM
};

// Of each peer; the last ones of drafters only.
static const figure_t peer_figures[] = {
#define PEER(kind, name, field, unit, help)                                                        \
    FIGURE(kind, "peer_" name, or_peer_figures_t, field, unit, help)
    PEER(GAUGE, "connected_seconds", connected_ms, MS, "How long the peer has been connected."),
    PEER(GAUGE, "sessions", sessions, 1, "Sessions that the peer serves."),
    PEER(COUNTER, "link_bytes_total", bytes, 1, "Bytes on the peer's link, both ways."),
    PEER(COUNTER, "model_seconds_total", model_us, US, "Time in the peer's model, as it says."),
    PEER(COUNTER, "passes_total", passes, 1, "Passes of the peer's model, as it says."),
    PEER(GAUGE, "pages", pages, 1, "Pages of the peer's cache."),
    PEER(GAUGE, "pages_free", pages_free, 1, "Pages of it that nobody holds."),
#define DRAFTER_FIGURES 3
    PEER(GAUGE, "round_trip_seconds", round_trip_ms, MS, "To the drafter and back."),
    PEER(COUNTER, "nodes_total", nodes, 1, "Guesses of the drafter that were judged."),
    PEER(COUNTER, "accepted_total", accepted, 1, "Guesses of the drafter that were accepted."),
#undef PEER
};

struct or_telemetry_stats {
    or_metric_t *figures[COUNT(figures)], *terms[COUNT(terms)], *peers[COUNT(peer_figures)];
    or_metric_t *running, *cache_usage, *sources;
};

static double number_of(const void *from, const figure_t *figure)
{
    const char *place = (const char *)from + figure->offset;
    switch (figure->type) {
    case U32:
        return *(const uint32_t *)(const void *)place * figure->unit;
    case U64:
        return (double)*(const uint64_t *)(const void *)place * figure->unit;
    default:
        return (double)*(const float *)(const void *)place * figure->unit;
    }
}

// ---- declared ----

static bool declare(or_metrics_t *metrics, const figure_t *figure, size_t count, const char *label,
                    or_metric_t **out)
{
    for (size_t i = 0; i < count; i++, figure++) {
        out[i] = figure->kind == COUNTER
                     ? or_metrics_counter(metrics, figure->name, figure->help, label)
                     : or_metrics_gauge(metrics, figure->name, figure->help, label);
        if (out[i] == NULL) {
            return false;
        }
    }
    return true;
}

or_status_t or_telemetry_stats_create(or_metrics_t *metrics, or_telemetry_stats_t **stats_p)
{
    or_telemetry_stats_t *stats = calloc(1, sizeof *stats);
    if (stats == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
    }
    stats->running =
        or_metrics_gauge(metrics, "num_requests_running", "Requests that are worked on.", NULL);
    stats->cache_usage = or_metrics_gauge(metrics, "kv_cache_usage_perc",
                                          "Part of the verifier's pages in use, 0 to 1.", NULL);
    stats->sources = or_metrics_gauge(
        metrics, "sessions", "Live sessions by what their last round was made of.", "source");
    bool whole = stats->running != NULL && stats->cache_usage != NULL && stats->sources != NULL &&
                 declare(metrics, figures, COUNT(figures), NULL, stats->figures) &&
                 declare(metrics, peer_figures, COUNT(peer_figures), "peer", stats->peers) &&
                 declare(metrics, terms, COUNT(terms), NULL, stats->terms);
    if (!whole) {
        free(stats);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
    }
    *stats_p = stats;
    return OR_OK;
}

void or_telemetry_stats_destroy(or_telemetry_stats_t **stats_p)
{
    free(*stats_p);
    *stats_p = NULL;
}

// ---- set ----

static void set_sessions(or_telemetry_stats_t *metrics, const or_stats_t *stats)
{
    or_metric_set(metrics->running, NULL, stats->policy_count);
    for (uint32_t source = OR_SOURCE_PLAIN; source <= OR_SOURCE_DRAFTER; source++) {
        or_metric_set(metrics->sources, or_guess_source_name(source), 0);
    }
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        or_metric_add(metrics->sources, or_guess_source_name(stats->policies[i].source), 1);
    }
}

// What is not known of a session yet is 0 and left out; a mean of none is not shown.
static void set_term(or_metric_t *metric, const figure_t *figure, const or_stats_t *stats)
{
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        double number = number_of(&stats->policies[i], figure);
        sum += number;
        known += number != 0;
    }
    or_metric_clear(metric);
    if (known > 0) {
        or_metric_set(metric, NULL, sum / known);
    }
}

static void set_peer(or_telemetry_stats_t *metrics, const or_peer_figures_t *peer)
{
    char name[192];
    snprintf(name, sizeof name, "%llu %s %s", (unsigned long long)peer->number,
             or_role_name(peer->role), peer->model != NULL ? peer->model : "");
    or_utf8_mend(name);
    size_t count = COUNT(peer_figures) - (peer->role == OR_ROLE_DRAFTER ? 0 : DRAFTER_FIGURES);
    for (size_t i = 0; i < count; i++) {
        or_metric_set(metrics->peers[i], name, number_of(peer, &peer_figures[i]));
    }
}

void or_telemetry_stats_set(or_telemetry_stats_t *metrics, const or_stats_t *stats)
{
    for (size_t i = 0; i < COUNT(figures); i++) {
        or_metric_set(metrics->figures[i], NULL, number_of(stats, &figures[i]));
    }
    or_metric_set(metrics->cache_usage, NULL,
                  stats->pages > 0 ? 1 - (double)stats->pages_free / stats->pages : 0);
    set_sessions(metrics, stats);
    for (size_t i = 0; i < COUNT(terms); i++) {
        set_term(metrics->terms[i], &terms[i], stats);
    }
    for (size_t i = 0; i < COUNT(peer_figures); i++) {
        or_metric_clear(metrics->peers[i]);
    }
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        set_peer(metrics, &stats->peers[i]);
    }
}
