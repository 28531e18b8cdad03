// Figures.
#include "proto/wire/message_codec.h"

static void put_policy(const or_policy_terms_t *from, Outrider__Policy *to)
{
    outrider__policy__init(to);
    to->session = from->session;
    to->owner = (char *)from->owner;
    to->automatic = from->automatic;
    to->source = from->source;
    to->nodes = from->nodes;
    to->depth = from->depth;
    to->ahead = from->ahead;
    to->round_trip_ms = from->round_trip_ms;
    to->draft_ms = from->draft_ms;
    to->plain_ms = from->plain_ms;
    to->verify_ms = from->verify_ms;
    to->row_us = from->row_us;
    to->queue_ms = from->queue_ms;
    to->batch = from->batch;
    to->acceptance = from->acceptance;
    to->block_efficiency = from->block_efficiency;
    to->hit_rate = from->hit_rate;
    to->plain_rate = from->plain_rate;
    to->draft_rate = from->draft_rate;
    to->label = (char *)from->label;
    to->prompt_tokens = from->prompt_tokens;
    to->tokens = from->tokens;
    to->age_ms = from->age_ms;
}

static or_policy_terms_t get_policy(const Outrider__Policy *from)
{
    return (or_policy_terms_t){
        .session = from->session,
        .owner = from->owner,
        .automatic = from->automatic != 0,
        .source = from->source,
        .nodes = from->nodes,
        .depth = from->depth,
        .ahead = from->ahead,
        .round_trip_ms = from->round_trip_ms,
        .draft_ms = from->draft_ms,
        .plain_ms = from->plain_ms,
        .verify_ms = from->verify_ms,
        .row_us = from->row_us,
        .queue_ms = from->queue_ms,
        .batch = from->batch,
        .acceptance = from->acceptance,
        .block_efficiency = from->block_efficiency,
        .hit_rate = from->hit_rate,
        .plain_rate = from->plain_rate,
        .draft_rate = from->draft_rate,
        .label = from->label,
        .prompt_tokens = from->prompt_tokens,
        .tokens = from->tokens,
        .age_ms = from->age_ms,
    };
}

static or_status_t put_policies(const or_stats_t *from, Outrider__Stats *to,
                                or_message_scratch_t *scratch)
{
    if (from->policy_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__Policy *items =
        or_message_take_structs(scratch, from->policy_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->policy_count; i++) {
        put_policy(&from->policies[i], &items[i]);
    }
    to->policies = (Outrider__Policy **)pointers;
    to->n_policies = from->policy_count;
    return OR_OK;
}

static or_status_t get_policies(const Outrider__Stats *from, or_message_arena_t *arena,
                                or_stats_t *to)
{
    if (from->n_policies == 0) {
        return OR_OK;
    }
    or_policy_terms_t *policies =
        or_message_take_array(arena, "policies", from->n_policies, sizeof *policies);
    if (policies == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_policies; i++) {
        policies[i] = get_policy(from->policies[i]);
    }
    to->policies = policies;
    to->policy_count = (uint32_t)from->n_policies;
    return OR_OK;
}

static void put_peer(const or_peer_figures_t *from, Outrider__Peer *to)
{
    outrider__peer__init(to);
    to->number = from->number;
    to->role = (Outrider__Role)from->role;
    to->model = (char *)from->model;
    to->owner = (char *)from->owner;
    to->state = (char *)from->state;
    to->trusted = from->trusted;
    to->sessions = from->sessions;
    to->round_trip_ms = from->round_trip_ms;
    to->connected_ms = from->connected_ms;
    to->nodes = from->nodes;
    to->accepted = from->accepted;
    to->bytes = from->bytes;
    to->model_us = from->model_us;
    to->passes = from->passes;
    to->pages = from->pages;
    to->pages_free = from->pages_free;
}

static or_peer_figures_t get_peer(const Outrider__Peer *from)
{
    return (or_peer_figures_t){
        .number = from->number,
        .role = (or_role_t)from->role,
        .model = from->model,
        .owner = from->owner,
        .state = from->state,
        .trusted = from->trusted != 0,
        .sessions = from->sessions,
        .round_trip_ms = from->round_trip_ms,
        .connected_ms = from->connected_ms,
        .nodes = from->nodes,
        .accepted = from->accepted,
        .bytes = from->bytes,
        .model_us = from->model_us,
        .passes = from->passes,
        .pages = from->pages,
        .pages_free = from->pages_free,
    };
}

static or_status_t put_peers(const or_stats_t *from, Outrider__Stats *to,
                             or_message_scratch_t *scratch)
{
    if (from->peer_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__Peer *items =
        or_message_take_structs(scratch, from->peer_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->peer_count; i++) {
        put_peer(&from->peers[i], &items[i]);
    }
    to->peers = (Outrider__Peer **)pointers;
    to->n_peers = from->peer_count;
    return OR_OK;
}

static or_status_t get_peers(const Outrider__Stats *from, or_message_arena_t *arena, or_stats_t *to)
{
    if (from->n_peers == 0) {
        return OR_OK;
    }
    or_peer_figures_t *peers = or_message_take_array(arena, "peers", from->n_peers, sizeof *peers);
    if (peers == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_peers; i++) {
        peers[i] = get_peer(from->peers[i]);
    }
    to->peers = peers;
    to->peer_count = (uint32_t)from->n_peers;
    return OR_OK;
}

static or_status_t put_events(const or_stats_t *from, Outrider__Stats *to,
                              or_message_scratch_t *scratch)
{
    if (from->event_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__Event *items =
        or_message_take_structs(scratch, from->event_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->event_count; i++) {
        const or_event_t *event = &from->events[i];
        outrider__event__init(&items[i]);
        items[i].number = event->number;
        items[i].time_ms = event->time_ms;
        items[i].kind = (char *)event->kind;
        items[i].session = event->session;
        items[i].text = (char *)event->text;
    }
    to->events = (Outrider__Event **)pointers;
    to->n_events = from->event_count;
    return OR_OK;
}

static or_status_t get_events(const Outrider__Stats *from, or_message_arena_t *arena,
                              or_stats_t *to)
{
    if (from->n_events == 0) {
        return OR_OK;
    }
    or_event_t *events = or_message_take_array(arena, "events", from->n_events, sizeof *events);
    if (events == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_events; i++) {
        const Outrider__Event *event = from->events[i];
        events[i] = (or_event_t){.number = event->number,
                                 .time_ms = event->time_ms,
                                 .kind = event->kind,
                                 .session = event->session,
                                 .text = event->text};
    }
    to->events = events;
    to->event_count = (uint32_t)from->n_events;
    return OR_OK;
}

or_status_t or_message_put_stats(const or_stats_t *from, Outrider__Stats *to,
                                 or_message_scratch_t *scratch)
{
    outrider__stats__init(to);
    to->rounds = from->rounds;
    to->nodes = from->nodes;
    to->accepted = from->accepted;
    to->model_us = from->model_us;
    to->passes = from->passes;
    to->batched = from->batched;
    to->tree_rows = from->tree_rows;
    to->prefill_rows = from->prefill_rows;
    to->reused_rows = from->reused_rows;
    to->evictions = from->evictions;
    to->queue = from->queue;
    to->sessions = from->sessions;
    to->pages = from->pages;
    to->pages_free = from->pages_free;
    to->pages_shared = from->pages_shared;
    to->page_positions = from->page_positions;
    to->page_bytes = from->page_bytes;
    to->ranks = from->ranks;
    to->stages = from->stages;
    to->resyncs = from->resyncs;
    to->waiting = from->waiting;
    to->drafters = from->drafters;
    to->verifiers = from->verifiers;
    to->busy = from->busy;
    to->cut_off = from->cut_off;
    to->cancelled = from->cancelled;
    to->started = from->started;
    to->parked = from->parked;
    to->resumed = from->resumed;
    to->failovers = from->failovers;
    to->refused = from->refused;
    to->model = (char *)from->model;
    or_status_t status = put_policies(from, to, scratch);
    if (status == OR_OK) {
        status = put_peers(from, to, scratch);
    }
    return status == OR_OK ? put_events(from, to, scratch) : status;
}

or_status_t or_message_get_stats(const Outrider__Stats *from, or_message_arena_t *arena,
                                 or_stats_t *to)
{
    to->rounds = from->rounds;
    to->nodes = from->nodes;
    to->accepted = from->accepted;
    to->model_us = from->model_us;
    to->passes = from->passes;
    to->batched = from->batched;
    to->tree_rows = from->tree_rows;
    to->prefill_rows = from->prefill_rows;
    to->reused_rows = from->reused_rows;
    to->evictions = from->evictions;
    to->queue = from->queue;
    to->sessions = from->sessions;
    to->pages = from->pages;
    to->pages_free = from->pages_free;
    to->pages_shared = from->pages_shared;
    to->page_positions = from->page_positions;
    to->page_bytes = from->page_bytes;
    to->ranks = from->ranks;
    to->stages = from->stages;
    to->resyncs = from->resyncs;
    to->waiting = from->waiting;
    to->drafters = from->drafters;
    to->verifiers = from->verifiers;
    to->busy = from->busy;
    to->cut_off = from->cut_off;
    to->cancelled = from->cancelled;
    to->started = from->started;
    to->parked = from->parked;
    to->resumed = from->resumed;
    to->failovers = from->failovers;
    to->refused = from->refused;
    to->model = from->model;
    or_status_t status = get_policies(from, arena, to);
    if (status == OR_OK) {
        status = get_peers(from, arena, to);
    }
    return status == OR_OK ? get_events(from, arena, to) : status;
}
