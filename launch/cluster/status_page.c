#include "launch/cluster/status_page.h"

#include <inttypes.h>
#include <time.h>

#include "common/base/clock.h"

#define EVENTS_SHOWN 8u

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_verifier(FILE *out, const or_stats_t *stats)
{
    fprintf(out, "batch      %.2f sessions a forward pass, over %" PRIu64 " passes\n",
            ratio(stats->batched, stats->passes), stats->passes);
    fprintf(out, "guesses    %" PRIu64 " of %" PRIu64 " accepted, in %" PRIu64 " rounds\n",
            stats->accepted, stats->nodes, stats->rounds);
    fprintf(out,
            "cache      %" PRIu32 " pages of %" PRIu32 " positions: %" PRIu32
            " used (those of finished texts are kept for reuse until needed), %" PRIu32
            " free, %" PRIu32 " shared; %.1f MB a rank\n",
            stats->pages, stats->page_positions, stats->pages - stats->pages_free,
            stats->pages_free, stats->pages_shared,
            (double)stats->pages * (double)stats->page_bytes / 1e6);
    fprintf(out,
            "prefixes   %" PRIu64 " positions computed, %" PRIu64 " taken from others; %" PRIu64
            " evictions\n",
            stats->prefill_rows, stats->reused_rows, stats->evictions);
}

// A line a session: who guesses and how far ahead, what was measured, and what follows of it.
static void print_policies(FILE *out, const or_stats_t *stats)
{
    if (stats->policy_count > 0) {
        fprintf(out, "\n%-16s %-6s %-8s %5s %5s %5s %8s %8s %8s %8s %6s %6s %5s %8s %8s\n",
                "session", "policy", "source", "nodes", "depth", "ahead", "link ms", "draft ms",
                "plain ms", "tree ms", "1st ok", "tokens", "hit", "plain/s", "draft/s");
    }
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        const or_policy_terms_t *policy = &stats->policies[i];
        const char *source = or_guess_source_name(policy->source);
        fprintf(out,
                "%-16" PRIx64 " %-6s %-8s %5" PRIu32 " %5" PRIu32 " %5" PRIu32
                " %8.1f %8.1f %8.1f %8.1f %6.2f %6.2f %5.2f %8.1f %8.1f\n",
                policy->session, policy->automatic ? "auto" : "fixed",
                source != NULL ? source : "-", policy->nodes, policy->depth, policy->ahead,
                (double)policy->round_trip_ms, (double)policy->draft_ms, (double)policy->plain_ms,
                (double)policy->verify_ms, (double)policy->acceptance,
                (double)policy->block_efficiency, (double)policy->hit_rate,
                (double)policy->plain_rate, (double)policy->draft_rate);
    }
}

static void print_peers(FILE *out, const or_stats_t *stats)
{
    if (stats->peer_count > 0) {
        fprintf(out, "\n%-4s %-9s %-28s %-12s %-24s %8s %8s %9s\n", "peer", "role", "model",
                "owner", "state", "sessions", "link ms", "taken");
    }
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        const or_peer_figures_t *peer = &stats->peers[i];
        fprintf(out, "%-4" PRIu64 " %-9s %-28.28s %-12.12s %-24.24s %8" PRIu32 " %8.1f ",
                peer->number, or_role_name(peer->role), peer->model,
                peer->owner[0] != '\0' ? peer->owner : "-", peer->state, peer->sessions,
                (double)peer->round_trip_ms);
        if (peer->nodes > 0) {
            fprintf(out, "%7.1f %%\n", 100 * ratio(peer->accepted, peer->nodes));
        } else {
            fprintf(out, "%9s\n", "-");
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

// Since the page before.
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
    fprintf(out,
            "sessions   %" PRIu32 " at the verifier, %" PRIu32 " waiting; %" PRIu64
            " requests taken so far\n",
            stats->sessions, stats->waiting, stats->started);
    fprintf(out, "drafters   %" PRIu32 "\n", stats->drafters);
    if (stats->verifiers > 0) {
        print_rates(out, stats, before, now_ns);
        print_verifier(out, stats);
    }
    fprintf(out,
            "turned     %" PRIu64 " requests told to come back, %" PRIu64 " cancelled; %" PRIu64
            " drafters cut off; %" PRIu64 " replays\n",
            stats->busy, stats->cancelled, stats->cut_off, stats->resyncs);
    fprintf(out,
            "trouble    %" PRIu32 " requests parked, %" PRIu64 " resumed; %" PRIu64
            " drafters took over from another; %" PRIu64 " refused for a key or a token\n",
            stats->parked, stats->resumed, stats->failovers, stats->refused);
    print_peers(out, stats);
    print_policies(out, stats);
    print_events(out, stats);
    *before = (or_status_before_t){stats->rounds, stats->accepted, stats->passes, now_ns};
}
