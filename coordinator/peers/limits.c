#include "coordinator/peers/limits.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/session/name_hash.h"

// A key's bucket is one of the few places after where its hash falls. Where all of these are taken
// the fullest bucket goes: one that was not written from for a minute is full, and so as good as
// none.
#define PLACES (2 * OR_LIMITED_KEYS_MAX)
#define NEAR 16u
_Static_assert((PLACES & (PLACES - 1)) == 0, "a hash is cut by a mask");

#define NS_PER_MINUTE (60 * OR_NS_PER_S)

typedef struct {
    char key[OR_KEY_BYTES]; // "": free
    double tokens;          // left in it; below 0 after a round that wrote more than there was
    int64_t at_ns;          // when that was so
} bucket_t;

struct or_limits {
    bucket_t places[PLACES];
};

or_status_t or_limits_create(or_limits_t **limits_p)
{
    or_limits_t *limits = calloc(1, sizeof *limits);
    if (limits == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the limits of keys");
    }
    *limits_p = limits;
    return OR_OK;
}

void or_limits_destroy(or_limits_t **limits_p)
{
    free(*limits_p);
    *limits_p = NULL;
}

// The key's bucket, a full one if it has none yet.
static bucket_t *find_bucket(or_limits_t *limits, const or_key_grant_t *grant, int64_t now_ns)
{
    uint32_t first = (uint32_t)or_name_hash(grant->key);
    bucket_t *best = NULL;
    for (uint32_t i = 0; i < NEAR; i++) {
        bucket_t *bucket = &limits->places[(first + i) & (PLACES - 1)];
        if (strcmp(bucket->key, grant->key) == 0) {
            return bucket;
        }
        bool free_place = bucket->key[0] == '\0';
        if (best == NULL ||
            (best->key[0] != '\0' && (free_place || bucket->tokens > best->tokens))) {
            best = bucket;
        }
    }
    memcpy(best->key, grant->key, sizeof best->key);
    best->tokens = grant->tokens_per_minute;
    best->at_ns = now_ns;
    return best;
}

// The bucket as it is now, by the limit that holds now.
static bucket_t *fill(or_limits_t *limits, const or_key_grant_t *grant, int64_t now_ns)
{
    bucket_t *bucket = find_bucket(limits, grant, now_ns);
    double full = grant->tokens_per_minute;
    double came = full * (double)(now_ns - bucket->at_ns) / NS_PER_MINUTE;
    bucket->tokens = bucket->tokens + came < full ? bucket->tokens + came : full;
    bucket->at_ns = now_ns;
    return bucket;
}

static bool is_limited(const or_key_grant_t *grant)
{
    return grant->key[0] != '\0' && grant->tokens_per_minute > 0;
}

bool or_limits_may_write(or_limits_t *limits, const or_key_grant_t *grant, int64_t now_ns,
                         int64_t *due_ns)
{
    if (!is_limited(grant)) {
        return true;
    }
    double lacking = 1.0 - fill(limits, grant, now_ns)->tokens;
    if (lacking <= 0) {
        return true;
    }
    // A nanosecond more than it takes, so that rounding does not bring the caller back too early.
    *due_ns = now_ns + 1 + (int64_t)(lacking * NS_PER_MINUTE / grant->tokens_per_minute);
    return false;
}

void or_limits_wrote(or_limits_t *limits, const or_key_grant_t *grant, uint32_t tokens,
                     int64_t now_ns)
{
    if (is_limited(grant)) {
        fill(limits, grant, now_ns)->tokens -= tokens;
    }
}
