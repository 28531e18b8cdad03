#include "proto/wire/stats_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
// Text of peers and clients may be anything. A string that is no UTF-8 becomes empty.
static json_t *text(const char *string)
{
    json_t *made = json_string(string != NULL ? string : "");
    return made != NULL ? made : json_string("");
}

static json_t *whole(uint64_t number)
{
    return json_integer((json_int_t)number);
}

// JSON has no infinity, which a peer may say: it becomes 0.
static json_t *real(double number)
{
    json_t *made = json_real(number);
    return made != NULL ? made : json_real(0);
}

static json_t *number_of(const or_figure_t *row, const void *of)
{
    if ((row->traits & OR_IN_SECONDS) != 0) {
        return real(or_figure_number(row, of) / 1e3);
    }
    return row->type == OR_FIGURE_F32 ? real(or_figure_number(row, of))
                                      : whole(or_figure_count(row, of));
}

static void put_rows(json_t *object, const or_figure_t *rows, uint32_t count, const void *of)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        bool seconds = (rows[i].traits & OR_IN_SECONDS) != 0; // x_ms becomes x_s
        snprintf(name, sizeof name, "%.*s%s", (int)strlen(rows[i].name) - (seconds ? 2 : 0),
                 rows[i].name, seconds ? "s" : "");
        json_object_set_new(object, name, number_of(&rows[i], of));
    }
}

static json_t *figures_object(const or_stats_t *stats)
{
    json_t *object = json_object();
    put_rows(object, or_stats_rows, OR_STATS_ROWS, stats);
    return object;
}

static json_t *peer_object(const or_peer_figures_t *peer)
{
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:b}", "role", text(or_role_name(peer->role)),
                               "model", text(peer->model), "owner", text(peer->owner), "state",
                               text(peer->state), "trusted", peer->trusted);
    put_rows(object, or_peer_rows, OR_PEER_ROWS, peer);
    return object;
}

static json_t *session_object(const or_policy_terms_t *session)
{
    char id[24]; // as in logs; JSON's numbers have no 64 bits everywhere
    snprintf(id, sizeof id, "%" PRIx64, session->session);
    json_t *object = json_pack("{s:s, s:o, s:o, s:b, s:o}", "id", id, "label", text(session->label),
                               "owner", text(session->owner), "automatic", session->automatic,
                               "source", text(or_guess_source_name(session->source)));
    put_rows(object, or_session_rows, OR_SESSION_ROWS, session);
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
    return json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                     OR_VERSION, "model", text(shown.model), "choice", text(shown.choice), "ready",
                     shown.verifiers > 0, "verifiers", whole(shown.verifiers), "drafters",
                     whole(shown.drafters), "waiting", whole(shown.waiting), "sessions_live",
                     whole(shown.sessions), "figures", figures_object(&shown), "peers",
                     peer_array(&shown, owner), "sessions", session_array(&shown, owner), "events",
                     event_array(&shown, owner, events_after));
}
