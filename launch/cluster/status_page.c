#include "launch/cluster/status_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"

#define EVENTS_SHOWN 8u

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

// ---- figures by their names in proto/wire/figures.h ----

// Print a line in which {name} stands for the figure of that name. A name that no figure has is printed as it stands.
static void print_line(FILE *out, const or_stats_t *stats, const char *line)
{
    while (*line != '\0') {
        size_t length = *line == '{' ? strcspn(line, "}") - 1 : 0;
        const or_figure_t *row =
            length > 0 ? or_figure_find(or_stats_rows, OR_STATS_ROWS, line + 1, length) : NULL;
        if (row != NULL) {
            fprintf(out, "%" PRIu64, or_figure_count(row, stats));
            line += length + 2;
        } else {
            fputc(*line++, out);
        }
    }
}

// A column of numbers in a list.
typedef struct {
    const char *figure, *heading;
    int width, decimals;
} column_t;

static const column_t peer_columns[] = {{"sessions", "sessions", 8, 0},
                                        {"round_trip_ms", "link ms", 8, 1}};

static const column_t session_columns[] = {
    {"nodes", "nodes", 5, 0},
    {"depth", "depth", 5, 0},
    {"ahead", "ahead", 5, 0},
    {"round_trip_ms", "link ms", 8, 1},
    {"draft_ms", "draft ms", 8, 1},
    {"plain_ms", "plain ms", 8, 1},
    {"verify_ms", "tree ms", 8, 1},
    {"acceptance", "1st ok", 6, 2},
    {"block_efficiency", "tokens", 6, 2},
    {"hit_rate", "hit", 5, 2},
    {"plain_rate", "plain/s", 8, 1},
    {"draft_rate", "draft/s", 8, 1},
};

static void print_headings(FILE *out, const column_t *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(out, " %*s", columns[i].width, columns[i].heading);
    }
}

static void print_numbers(FILE *out, const column_t *columns, size_t count, const or_figure_t *rows,
                          uint32_t row_count, const void *of)
{
    for (size_t i = 0; i < count; i++) {
        const or_figure_t *row =
            or_figure_find(rows, row_count, columns[i].figure, strlen(columns[i].figure));
        fprintf(out, " %*.*f", columns[i].width, columns[i].decimals,
                row != NULL ? or_figure_number(row, of) : NAN);
    }
}

#define COUNT(columns) (sizeof(columns) / sizeof *(columns))

// ---- the parts of the page ----

static void print_verifier(FILE *out, const or_stats_t *stats)
{
    fprintf(out, "batch      %.2f sessions a forward pass, over %" PRIu64 " passes\n",
            ratio(stats->batched, stats->passes), stats->passes);
    print_line(out, stats, "guesses    {accepted} of {nodes} accepted, in {rounds} rounds\n");
    print_line(out, stats, "cache      {pages} pages of {page_positions} positions: ");
    fprintf(out, "%" PRIu32 " used (those of finished texts are kept for reuse until needed), ",
            stats->pages - stats->pages_free);
    print_line(out, stats, "{pages_free} free, {pages_shared} shared; ");
    fprintf(out, "%.1f MB a rank\n", (double)stats->pages * (double)stats->page_bytes / 1e6);
    print_line(out, stats,
               "prefixes   {prefill_rows} positions computed, {reused_rows} taken from others; "
               "{evictions} evictions\n");
    if (stats->experts_needed > 0) {
        print_line(out, stats,
                   "experts    {experts_found} of {experts_needed} found in memory, {experts_read} "
                   "read from disk\n");
    }
}

// Print a line a session: its source of guesses and how far ahead it works, what was measured, and what follows of it.
static void print_sessions(FILE *out, const or_stats_t *stats)
{
    if (stats->policy_count > 0) {
        fprintf(out, "\n%-16s %-6s %-8s", "session", "policy", "source");
        print_headings(out, session_columns, COUNT(session_columns));
        fputc('\n', out);
    }
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        const or_policy_terms_t *session = &stats->policies[i];
        const char *source = or_guess_source_name(session->source);
        fprintf(out, "%-16" PRIx64 " %-6s %-8s", session->session,
                session->automatic ? "auto" : "fixed", source != NULL ? source : "-");
        print_numbers(out, session_columns, COUNT(session_columns), or_session_rows,
                      OR_SESSION_ROWS, session);
        fputc('\n', out);
    }
}

static void print_peers(FILE *out, const or_stats_t *stats)
{
    if (stats->peer_count > 0) {
        fprintf(out, "\n%-4s %-9s %-28s %-12s %-24s", "peer", "role", "model", "owner", "state");
        print_headings(out, peer_columns, COUNT(peer_columns));
        fprintf(out, " %9s\n", "taken");
    }
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        const or_peer_figures_t *peer = &stats->peers[i];
        fprintf(out, "%-4" PRIu64 " %-9s %-28.28s %-12.12s %-24.24s", peer->number,
                or_role_name(peer->role), peer->model, peer->owner[0] != '\0' ? peer->owner : "-",
                peer->state);
        print_numbers(out, peer_columns, COUNT(peer_columns), or_peer_rows, OR_PEER_ROWS, peer);
        if (peer->nodes > 0) {
            fprintf(out, " %7.1f %%\n", 100 * ratio(peer->accepted, peer->nodes));
        } else {
            fprintf(out, " %9s\n", "-");
        }
    }
}

static void print_events(FILE *out, const or_stats_t *stats)
{
    uint32_t first = stats->event_count > EVENTS_SHOWN ? stats->event_count - EVENTS_SHOWN : 0;
    if (stats->event_count > 0) {
        fprintf(out, "\nlately\n");
    }
    for (uint32_t i = first; i < stats->event_count; i++) {
        const or_event_t *event = &stats->events[i];
        time_t seconds = (time_t)(event->time_ms / 1000);
        struct tm local;
        char when[16];
        localtime_r(&seconds, &local);
        strftime(when, sizeof when, "%H:%M:%S", &local);
        fprintf(out, "  %s  %-16s %s\n", when, event->kind, event->text);
    }
}

// Print what happened since the page before.
static void print_rates(FILE *out, const or_stats_t *stats, const or_status_before_t *before,
                        int64_t now_ns)
{
    // A verifier that was started again counts from 0.
    if (before->at_ns == 0 || stats->rounds < before->rounds || stats->passes < before->passes) {
        return;
    }
    double seconds = (double)(now_ns - before->at_ns) / OR_NS_PER_S;
    uint64_t rounds = stats->rounds - before->rounds;
    uint64_t tokens = rounds + stats->accepted - before->accepted;
    fprintf(out, "now        %.1f tokens/s, %.2f a target call, %.1f forward passes/s\n",
            (double)tokens / seconds, ratio(tokens, rounds),
            (double)(stats->passes - before->passes) / seconds);
}

void or_status_page(FILE *out, const char *endpoint, const or_stats_t *stats, int64_t now_ns,
                    or_status_before_t *before)
{
    fprintf(out, "service    %s\n", endpoint);
    if (stats->verifiers > 0) {
        uint32_t ranks = stats->ranks > 0 ? stats->ranks : 1;
        uint32_t stages = stats->stages > 0 ? stats->stages : 1;
        fprintf(out, "target     %s, on %" PRIu32 " rank%s x %" PRIu32 " stage%s\n", stats->model,
                ranks, ranks > 1 ? "s" : "", stages, stages > 1 ? "s" : "");
    } else {
        fprintf(out, "target     %s; not ready: no verifier is connected\n", stats->model);
    }
    print_line(out, stats,
               "sessions   {sessions} at the verifier, {waiting} waiting; {started} requests taken "
               "so far\n");
    print_line(out, stats, "drafters   {drafters}\n");
    if (stats->choice != NULL && stats->choice[0] != '\0') {
        fprintf(out, "choice     %s\n", stats->choice);
    }
    if (stats->verifiers > 0) {
        print_rates(out, stats, before, now_ns);
        print_verifier(out, stats);
    }
    print_line(out, stats,
               "turned     {busy} requests told to come back, {cancelled} cancelled; {cut_off} "
               "drafters cut off; {resyncs} replays\n");
    print_line(out, stats,
               "trouble    {parked} requests parked, {resumed} resumed; {failovers} drafters took "
               "over from another; {refused} refused for a key or a token\n");
    print_peers(out, stats);
    print_sessions(out, stats);
    print_events(out, stats);
    *before = (or_status_before_t){stats->rounds, stats->accepted, stats->passes, now_ns};
}
