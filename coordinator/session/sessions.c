#include "coordinator/session/sessions.h"

#include <stdlib.h>

or_status_t or_sessions_init(or_sessions_t *sessions, uint32_t places)
{
    or_session_ids_init(&sessions->ids);
    TAILQ_INIT(&sessions->marked);
    sessions->places = places;
    sessions->all = calloc(places, sizeof(or_csession_t *));
    return sessions->all != NULL ? OR_OK
                                 : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", places);
}

void or_sessions_fini(or_sessions_t *sessions)
{
    for (uint32_t i = 0; sessions->all != NULL && i < sessions->places; i++) {
        or_csession_destroy(&sessions->all[i]);
    }
    free(sessions->all);
}

or_csession_t *or_sessions_next(const or_sessions_t *sessions, uint32_t *at)
{
    while (*at < sessions->places) {
        or_csession_t *session = sessions->all[(*at)++];
        if (session != NULL) {
            return session;
        }
    }
    return NULL;
}

or_csession_t *or_sessions_find(const or_sessions_t *sessions, or_session_id_t id)
{
    or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(sessions, &at);
    } while (session != NULL && session->id.value != id.value);
    return session;
}

or_csession_t *or_sessions_take_marked(or_sessions_t *sessions)
{
    or_csession_t *session = TAILQ_FIRST(&sessions->marked);
    if (session != NULL) {
        TAILQ_REMOVE(&sessions->marked, session, marked_links);
        session->listed = false;
    }
    return session;
}
