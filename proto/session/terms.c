#include "proto/session/terms.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/shape.h"

or_status_t or_terms_check(const or_open_session_t *open)
{
    size_t owner_bytes = open->owner != NULL ? strlen(open->owner) : 0;
    if (owner_bytes >= OR_OWNER_BYTES) {
        return or_fail(OR_ERR_INVALID, "an owner's name of %zu bytes is over %d", owner_bytes,
                       OR_OWNER_BYTES - 1);
    }
    if (open->stop_count > OR_STOP_IDS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u tokens that end the text are over %u", open->stop_count,
                       OR_STOP_IDS_MAX);
    }
    if (open->draft_shape_count > OR_SHAPE_LEVELS_MAX) {
        return or_fail(OR_ERR_INVALID, "a tree shape of %u levels is over %u",
                       open->draft_shape_count, OR_SHAPE_LEVELS_MAX);
    }
    return OR_OK;
}

// Copy `bytes` to `at` and return where; move `at` behind them.
static const void *copy(uint8_t **at, const void *from, size_t bytes)
{
    uint8_t *to = *at;
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    *at += bytes;
    return to;
}

or_status_t or_terms_copy(const or_open_session_t *open, or_terms_t *terms)
{
    size_t bias_bytes = open->sampling.bias_count * sizeof(or_logit_bias_t);
    size_t stop_bytes = open->stop_count * sizeof(uint32_t);
    size_t shape_bytes = open->draft_shape_count * sizeof(uint32_t);
    const char *owner = open->owner != NULL ? open->owner : "";
    size_t owner_bytes = strlen(owner) + 1;
    uint8_t *owned =
        malloc(bias_bytes + stop_bytes + shape_bytes + open->constraint_bytes + owner_bytes);
    if (owned == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a session's terms");
    }
    uint8_t *at = owned;
    terms->open = *open;
    terms->owned = owned;
    terms->open.sampling.bias = copy(&at, open->sampling.bias, bias_bytes);
    terms->open.stop_ids = copy(&at, open->stop_ids, stop_bytes);
    terms->open.draft_shape = copy(&at, open->draft_shape, shape_bytes);
    terms->open.constraint = copy(&at, open->constraint, open->constraint_bytes);
    terms->open.owner = copy(&at, owner, owner_bytes);
    return OR_OK;
}

void or_terms_fini(or_terms_t *terms)
{
    free(terms->owned);
    *terms = (or_terms_t){0};
}
