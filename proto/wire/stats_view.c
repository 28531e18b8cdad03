#include "proto/wire/stats_view.h"

#include <string.h>

bool or_stats_is_own(const char *owner, const char *whose)
{
    return owner == NULL || strcmp(owner, whose != NULL ? whose : "") == 0;
}

or_stats_t or_stats_for_owner(const or_stats_t *stats, const char *owner)
{
    if (owner == NULL) {
        return *stats;
    }
    or_stats_t shown = {.model = stats->model,
                        .verifiers = stats->verifiers,
                        .drafters = stats->drafters,
                        .waiting = stats->waiting,
                        .ranks = stats->ranks,
                        .stages = stats->stages,
                        .page_positions = stats->page_positions,
                        .page_bytes = stats->page_bytes,
                        .policies = stats->policies,
                        .policy_count = stats->policy_count,
                        .peers = stats->peers,
                        .peer_count = stats->peer_count};
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        shown.sessions += or_stats_is_own(owner, stats->policies[i].owner);
    }
    return shown;
}

or_peer_figures_t or_peer_for_owner(const or_peer_figures_t *peer, const char *owner)
{
    if (or_stats_is_own(owner, peer->owner)) {
        return *peer;
    }
    return (or_peer_figures_t){.number = peer->number,
                               .role = peer->role,
                               .model = peer->model,
                               .owner = peer->owner,
                               .state = "shared",
                               .trusted = peer->trusted,
                               .connected_ms = peer->connected_ms};
}
