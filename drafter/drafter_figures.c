// Stats: what the drafter has done and holds, for whoever watches.
#include "drafter/drafter_internal.h"

static uint32_t count_sessions(const or_drafter_t *drafter)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        count += drafter->sessions[i].id.value != 0;
    }
    return count;
}

static void send(or_drafter_t *drafter)
{
    const or_kv_cache_t *cache = or_model_cache(drafter->shared.model);
    const or_message_t message = {.type = OR_MSG_STATS,
                                  .body.stats = {.model_us = drafter->model_us,
                                                 .passes = drafter->passes,
                                                 .sessions = count_sessions(drafter),
                                                 .pages = or_kv_cache_pages(cache),
                                                 .pages_free = or_kv_cache_pages_free(cache),
                                                 .page_positions = OR_KV_PAGE,
                                                 .model = ""}};
    or_edge_send(&drafter->edge, &message);
}

int64_t or_drafter_tell_stats(or_drafter_t *drafter)
{
    int64_t now = or_clock_now(drafter->shared.clock);
    if (drafter->config.stats_ms == 0 || !or_link_welcomed(drafter->edge.link)) {
        return OR_TIME_NEVER;
    }
    if (now >= drafter->stats_due_ns) {
        send(drafter);
        drafter->stats_due_ns = now + drafter->config.stats_ms * OR_NS_PER_MS;
    }
    return drafter->stats_due_ns;
}
