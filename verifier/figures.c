// Stats: what the verifier has done and holds, for whoever watches.
#include "verifier/verifier_internal.h"

static uint32_t count_sessions(const or_verifier_t *verifier)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        count += verifier->sessions[i].id.value != 0;
    }
    return count;
}

static void send(or_verifier_t *verifier)
{
    const or_kv_cache_t *cache = or_model_cache(verifier->model);
    const or_ranks_t *ranks = or_model_ranks(verifier->model);
    or_message_t message = {.type = OR_MSG_STATS, .body.stats = verifier->stats};
    or_stats_t *stats = &message.body.stats;
    stats->queue = or_scheduler_ready_count(verifier->scheduler);
    stats->sessions = count_sessions(verifier);
    stats->pages = or_kv_cache_pages(cache);
    stats->pages_free = or_kv_cache_pages_free(cache);
    stats->pages_shared = or_kv_cache_pages_shared(cache);
    stats->page_positions = OR_KV_PAGE;
    stats->page_bytes =
        stats->pages > 0 ? or_model_memory(verifier->model).cache / stats->pages : 0;
    stats->ranks = (uint32_t)ranks->size;
    stats->stages = (uint32_t)or_ranks_stages(ranks);
    stats->model = "";
    or_edge_send(&verifier->edge, &message);
}

int64_t or_verifier_tell_stats(or_verifier_t *verifier)
{
    int64_t now = or_clock_now(verifier->clock);
    if (verifier->config.stats_ms == 0 || !or_link_welcomed(verifier->edge.link)) {
        return INT64_MAX;
    }
    if (now >= verifier->stats_due_ns) {
        send(verifier);
        verifier->stats_due_ns = now + verifier->config.stats_ms * OR_NS_PER_MS;
    }
    return verifier->stats_due_ns;
}
