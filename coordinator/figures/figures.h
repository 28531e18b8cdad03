// figures - what is counted of sessions and peers, and who is shown what of that.
#pragma once

#include "coordinator/peers/peers.h"

// ---- counters.c ----

// Something an operator may want to know of (events.h); `session` NULL: it is about none.
void or_counters_event(or_coordinator_t *coordinator, const char *kind,
                       const or_csession_t *session, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The work on a text begins, or goes on after its client was away.
void or_counters_begun(or_coordinator_t *coordinator, or_csession_t *session);
// A verdict is about to be committed.
void or_counters_judged(or_coordinator_t *coordinator, or_csession_t *session,
                        const or_verdict_t *verdict);
// It was committed; so many tokens were written before.
void or_counters_committed(or_coordinator_t *coordinator, or_csession_t *session,
                           const or_verdict_t *verdict, uint32_t before);
void or_counters_finished(or_coordinator_t *coordinator, const or_csession_t *session);

// ---- figures.c ----

// Take what a drafter or verifier reports of itself.
void or_figures_report(or_coordinator_t *coordinator, or_member_t *member, const or_stats_t *from);
// Send the client the figures it asks for, as far as it may see them.
void or_figures_tell(or_coordinator_t *coordinator, const or_member_t *client,
                     const or_stats_request_t *request);
