#include "proto/wire/stats_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "proto/wire/stats_view.h"

// Text of peers and clients may be anything: what is no UTF-8 is left out.
static json_t *text(const char *string)
{
    json_t *made = json_string(string != NULL ? string : "");
    return made != NULL ? made : json_string("");
}

static json_t *whole(uint64_t number)
{
    return json_integer((json_int_t)number);
}

typedef struct {
    const char *name;
    uint64_t value;
} count_t;

typedef struct {
    const char *name;
    float value;
} measure_t;

static void put_counts(json_t *object, const count_t *counts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, counts[i].name, whole(counts[i].value));
    }
}

static void put_measures(json_t *object, const measure_t *measures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *number = json_real((double)measures[i].value); // NULL where a peer says infinity
        json_object_set_new(object, measures[i].name, number != NULL ? number : json_real(0));
    }
}

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static json_t *figures_object(const or_stats_t *stats)
{
    const count_t counts[] = {
        {"rounds", stats->rounds},
        {"nodes", stats->nodes},
        {"accepted", stats->accepted},
        {"model_us", stats->model_us},
        {"passes", stats->passes},
        {"batched", stats->batched},
        {"tree_rows", stats->tree_rows},
        {"prefill_rows", stats->prefill_rows},
        {"reused_rows", stats->reused_rows},
        {"evictions", stats->evictions},
        {"queue", stats->queue},
        {"sessions", stats->sessions},
        {"pages", stats->pages},
        {"pages_free", stats->pages_free},
        {"pages_shared", stats->pages_shared},
        {"page_positions", stats->page_positions},
        {"page_bytes", stats->page_bytes},
        {"ranks", stats->ranks},
        {"stages", stats->stages},
        {"resyncs", stats->resyncs},
        {"waiting", stats->waiting},
        {"drafters", stats->drafters},
        {"verifiers", stats->verifiers},
        {"busy", stats->busy},
        {"cut_off", stats->cut_off},
        {"cancelled", stats->cancelled},
        {"started", stats->started},
        {"parked", stats->parked},
        {"resumed", stats->resumed},
        {"failovers", stats->failovers},
        {"refused", stats->refused},
    };
    json_t *object = json_object();
    put_counts(object, counts, COUNT_OF(counts));
    return object;
}

static json_t *peer_object(const or_peer_figures_t *peer)
{
    const count_t counts[] = {
        {"number", peer->number},         {"sessions", peer->sessions},
        {"nodes", peer->nodes},           {"accepted", peer->accepted},
        {"bytes", peer->bytes},           {"model_us", peer->model_us},
        {"passes", peer->passes},         {"pages", peer->pages},
        {"pages_free", peer->pages_free},
    };
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:b, s:f}", "role", text(or_role_name(peer->role)), "model",
                  text(peer->model), "owner", text(peer->owner), "state", text(peer->state),
                  "trusted", peer->trusted, "connected_s", (double)peer->connected_ms / 1e3);
    const measure_t measures[] = {{"round_trip_ms", peer->round_trip_ms}};
    put_counts(object, counts, COUNT_OF(counts));
    put_measures(object, measures, COUNT_OF(measures));
    return object;
}

static json_t *session_object(const or_policy_terms_t *session)
{
    const measure_t measures[] = {
        {"round_trip_ms", session->round_trip_ms},
        {"draft_ms", session->draft_ms},
        {"plain_ms", session->plain_ms},
        {"verify_ms", session->verify_ms},
        {"row_us", session->row_us},
        {"queue_ms", session->queue_ms},
        {"batch", session->batch},
        {"acceptance", session->acceptance},
        {"block_efficiency", session->block_efficiency},
        {"hit_rate", session->hit_rate},
        {"plain_rate", session->plain_rate},
        {"draft_rate", session->draft_rate},
    };
    const count_t counts[] = {
        {"nodes", session->nodes},   {"depth", session->depth},
        {"ahead", session->ahead},   {"prompt_tokens", session->prompt_tokens},
        {"tokens", session->tokens},
    };
    char id[24]; // as in logs; JSON's numbers have no 64 bits everywhere
    snprintf(id, sizeof id, "%" PRIx64, session->session);
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:b, s:o, s:f}", "id", id, "label", text(session->label), "owner",
        text(session->owner), "automatic", session->automatic, "source",
        text(or_guess_source_name(session->source)), "age_s", (double)session->age_ms / 1e3);
    put_counts(object, counts, COUNT_OF(counts));
    put_measures(object, measures, COUNT_OF(measures));
    return object;
}

static json_t *event_object(const or_event_t *event)
{
    char session[24] = "";
    if (event->session != 0) {
        snprintf(session, sizeof session, "%" PRIx64, event->session);
    }
    return json_pack("{s:o, s:o, s:o, s:s, s:o}", "number", whole(event->number), "time_ms",
                     whole(event->time_ms), "kind", text(event->kind), "session", session, "text",
                     text(event->text));
}

static json_t *peer_array(const or_stats_t *stats, const char *owner)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        const or_peer_figures_t *peer = &stats->peers[i];
        if (peer->role == OR_ROLE_VERIFIER || or_stats_is_own(owner, peer->owner)) {
            const or_peer_figures_t shown = or_peer_for_owner(peer, owner);
            json_array_append_new(array, peer_object(&shown));
        }
    }
    return array;
}

static json_t *session_array(const or_stats_t *stats, const char *owner)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        if (or_stats_is_own(owner, stats->policies[i].owner)) {
            json_array_append_new(array, session_object(&stats->policies[i]));
        }
    }
    return array;
}

static json_t *event_array(const or_stats_t *stats, const char *owner, uint64_t events_after)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < stats->event_count && owner == NULL; i++) {
        if (stats->events[i].number > events_after) {
            json_array_append_new(array, event_object(&stats->events[i]));
        }
    }
    return array;
}

json_t *or_stats_json(const or_stats_t *stats, const char *owner, uint64_t events_after)
{
    owner = owner[0] != '\0' ? owner : NULL;
    const or_stats_t shown = or_stats_for_owner(stats, owner);
    return json_pack("{s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                     OR_VERSION, "model", text(shown.model), "ready", shown.verifiers > 0,
                     "verifiers", whole(shown.verifiers), "drafters", whole(shown.drafters),
                     "waiting", whole(shown.waiting), "sessions_live", whole(shown.sessions),
                     "figures", figures_object(&shown), "peers", peer_array(&shown, owner),
                     "sessions", session_array(&shown, owner), "events",
                     event_array(&shown, owner, events_after));
}
