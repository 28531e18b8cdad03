// Counters of each text for its client, counters of all texts for operators (telemetry.h), and events (events.h). The
// totals are sums of what was added to the texts' own figures, so the two cannot differ.
#include <stdarg.h>
#include <stdio.h>

#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"

void or_counters_event(or_coordinator_t *c, const char *kind, const or_csession_t *session,
                       const char *format, ...)
{
    char text[OR_EVENT_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bool named = session != NULL && session->label[0] != '\0';
    or_events_note(&c->events, kind, session != NULL ? session->id.value : 0, "%s%s%s",
                   named ? session->label : "", named ? ": " : "", text);
    or_telemetry_event(c->telemetry, kind);
}

static double seconds_since(const or_coordinator_t *c, int64_t then_ns)
{
    return (double)(or_clock_now(c->clock) - then_ns) / (double)OR_NS_PER_S;
}

void or_counters_begun(or_coordinator_t *c, or_csession_t *session)
{
    if (!session->worked_on) {
        session->worked_on = true;
        session->stats.queue_us = (uint64_t)(or_clock_now(c->clock) - session->arrived_ns) / 1000;
        or_telemetry_begun(c->telemetry, seconds_since(c, session->arrived_ns));
    }
}

// ---- a round ----

// Count, along the accepted path, at which depths and ranks there were guesses, and which of them were accepted.
static void count_path(or_csession_t *session, const or_verdict_t *verdict)
{
    or_generate_stats_t *stats = &session->stats;
    uint32_t at = 0;
    for (uint32_t depth = 0; depth <= verdict->accepted_count; depth++) {
        uint32_t next = depth < verdict->accepted_count ? verdict->accepted[depth] : 0;
        uint32_t children = 0;
        for (uint32_t node = 1; node <= session->tree.count; node++) {
            if (node - session->tree.back[node - 1] != at) {
                continue;
            }
            if (children < OR_STATS_LEVELS) {
                stats->rank_offered[children]++;
                stats->rank_accepted[children] += node == next;
            }
            children++;
        }
        if (depth < OR_STATS_LEVELS && children > 0) {
            stats->depth_offered[depth]++;
            stats->depth_accepted[depth] += next != 0;
        }
        at = next;
    }
}

// The first round includes the prefill, so times are split from the second round on.
void or_counters_judged(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    or_generate_stats_t *stats = &session->stats;
    int64_t now = or_clock_now(c->clock);
    stats->target_calls++;
    stats->drafted += session->tree.count;
    count_path(session, verdict);
    if (session->round > 1) {
        stats->verify_us += verdict->forward_us;
        stats->accept_us += verdict->accept_us;
        stats->round_us += (uint64_t)(now - session->round_started_ns) / 1000;
    } else {
        stats->first_token_us = (uint64_t)(now - session->started_ns) / 1000;
    }
    if (or_csession_written(session) == 0) {
        stats->prompt_reused =
            verdict->reused < session->prompt_length ? verdict->reused : session->prompt_length;
    }
}

static void count_tokens(or_coordinator_t *c, or_csession_t *session, uint32_t before)
{
    uint32_t tokens = or_csession_written(session) - before;
    if (before == 0) {
        or_telemetry_prompt(c->telemetry, session->prompt_length, session->stats.prompt_reused);
        or_telemetry_first_tokens(c->telemetry, tokens, seconds_since(c, session->arrived_ns));
    } else {
        int64_t then_ns =
            session->written_ns != 0 ? session->written_ns : session->round_started_ns;
        or_telemetry_tokens(c->telemetry, tokens, seconds_since(c, then_ns));
    }
    session->written_ns = or_clock_now(c->clock);
}

// Return the levels of the judged tree. *within is how many of its nodes lie at most `reach` deep.
static uint32_t count_levels(const or_csession_t *session, uint32_t reach, uint32_t *within)
{
    uint32_t depths[OR_TREE_NODES_MAX + 1];
    uint32_t deepest = 0;
    depths[0] = 0;
    *within = 0;
    for (uint32_t node = 1; node <= session->tree.count; node++) {
        depths[node] = depths[node - session->tree.back[node - 1]] + 1;
        deepest = depths[node] > deepest ? depths[node] : deepest;
        *within += depths[node] <= reach;
    }
    return deepest;
}

// Count the guesses of each drafter of the round, and those that were accepted. Return the bytes that went over the
// drafters' links since the last round.
static uint64_t count_drafters(or_coordinator_t *c, const or_csession_t *session,
                               const or_verdict_t *verdict)
{
    uint32_t path[OR_TREE_NODES_MAX];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        or_member_t *member = seat->peer.value != 0 ? or_peers_find(c, seat->peer) : NULL;
        if (member == NULL) {
            continue;
        }
        if (seat->drafted && session->budget.source == OR_SOURCE_DRAFTER) {
            member->figures.nodes +=
                session->drafters.count > 1 ? or_token_tree_count(seat->tree) : session->tree.count;
            member->figures.accepted += or_seats_own_path(session, i, verdict, path);
        }
        if (session->drafters.count == 1 && session->budget.policy.mean.round_trip_ns > 0) {
            member->figures.round_trip_ms =
                (float)(session->budget.policy.mean.round_trip_ns / 1e6);
        }
        uint64_t all = or_link_bytes(c->link, member->peer);
        bytes += all - member->counted_bytes;
        member->counted_bytes = all;
    }
    return bytes;
}

// Split the drafter's round trip and work into what the round waited for and what it did not. The first round is left
// out, because its drafters have to read the prompt.
static void split_wait(const or_csession_t *session, or_telemetry_round_t *round)
{
    if (session->budget.source != OR_SOURCE_DRAFTER || round->round_us == 0) {
        return;
    }
    uint64_t waited_us = (uint64_t)(session->target.asked_ns - session->round_started_ns) / 1000;
    round->link_us = (uint64_t)(session->budget.policy.mean.round_trip_ns / 1000);
    uint64_t whole_us = round->link_us + round->draft_us;
    round->hidden_us = whole_us > waited_us ? whole_us - waited_us : 0;
}

void or_counters_committed(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict,
                           uint32_t before)
{
    const or_generate_stats_t *now = &session->stats, *then = &session->counted;
    or_telemetry_round_t round = {
        .source = session->budget.source,
        .nodes = (uint32_t)(now->drafted - then->drafted),
        .accepted = (uint32_t)(now->accepted - then->accepted),
        .round_us = now->round_us - then->round_us,
        .draft_us = now->draft_us - then->draft_us,
        .verify_us = now->verify_us - then->verify_us,
        .accept_us = now->accept_us - then->accept_us,
        .ahead = now->ahead_rounds > then->ahead_rounds,
        .hit = now->ahead_hits > then->ahead_hits,
    };
    round.depth = count_levels(session, verdict->accepted_count + 1, &round.path_nodes);
    round.link_bytes = count_drafters(c, session, verdict);
    split_wait(session, &round);
    or_telemetry_round(c->telemetry, &round);
    count_tokens(c, session, before);
    session->counted = session->stats;
}

// ---- the end ----

// A text that is told to come back has not ended, and is not counted as such.
void or_counters_finished(or_coordinator_t *c, const or_csession_t *session)
{
    if (session->finish == OR_FINISH_ERROR && session->queue.busy_ms > 0) {
        or_counters_event(c, OR_EVENT_BUSY, NULL, "%s", session->error);
        return;
    }
    if (session->finish == OR_FINISH_ERROR) {
        or_counters_event(c, OR_EVENT_FAILED, session, "%s", session->error);
    }
    or_telemetry_finished(c->telemetry, session->finish, or_csession_written(session),
                          seconds_since(c, session->arrived_ns));
}
