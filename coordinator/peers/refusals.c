#include "coordinator/peers/refusals.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"

#define LOG_EVERY_NS (60 * OR_NS_PER_S)

static const or_refusal_t *find(const or_refusals_t *refusals, const char *key)
{
    for (uint32_t i = 0; i < OR_REFUSALS_KEPT; i++) {
        if (refusals->kept[i].used && strcmp(refusals->kept[i].key, key) == 0) {
            return &refusals->kept[i];
        }
    }
    return NULL;
}

// Is `a` missed less than `b`?
static bool is_older(const or_refusal_t *a, const or_refusal_t *b, int64_t now_ns)
{
    bool a_banned = now_ns < a->banned_until_ns, b_banned = now_ns < b->banned_until_ns;
    if (a->used != b->used || a_banned != b_banned) {
        return a->used != b->used ? b->used : b_banned;
    }
    return a->at_ns < b->at_ns;
}

static or_refusal_t *obtain(or_refusals_t *refusals, const char *key, int64_t now_ns)
{
    const or_refusal_t *known = find(refusals, key);
    if (known != NULL) {
        return &refusals->kept[known - refusals->kept];
    }
    or_refusal_t *place = &refusals->kept[0];
    for (uint32_t i = 1; i < OR_REFUSALS_KEPT; i++) {
        place = is_older(&refusals->kept[i], place, now_ns) ? &refusals->kept[i] : place;
    }
    *place = (or_refusal_t){.used = true, .logged_ns = now_ns - LOG_EVERY_NS};
    snprintf(place->key, sizeof place->key, "%s", key);
    return place;
}

bool or_refusals_note(or_refusals_t *refusals, const char *key, int64_t now_ns, uint32_t *unlogged)
{
    or_refusal_t *refusal = obtain(refusals, key, now_ns);
    refusals->count++;
    refusal->at_ns = now_ns;
    if (now_ns - refusal->logged_ns < LOG_EVERY_NS) {
        refusal->unlogged++;
        return false;
    }
    *unlogged = refusal->unlogged;
    refusal->unlogged = 0;
    refusal->logged_ns = now_ns;
    return true;
}

void or_refusals_ban(or_refusals_t *refusals, const char *key, int64_t now_ns, int64_t until_ns)
{
    or_refusal_t *refusal = obtain(refusals, key, now_ns);
    refusal->at_ns = now_ns;
    refusal->banned_until_ns = until_ns;
}

bool or_refusals_is_banned(const or_refusals_t *refusals, const char *key, int64_t now_ns)
{
    const or_refusal_t *refusal = key[0] != '\0' ? find(refusals, key) : NULL;
    return refusal != NULL && now_ns < refusal->banned_until_ns;
}
