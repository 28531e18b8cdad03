#include "proto/terms.h"

#include <stdlib.h>
#include <string.h>

or_status_t or_terms_copy(const or_open_session_t *open, or_terms_t *terms)
{
    size_t bias_bytes = open->sampling.bias_count * sizeof(or_logit_bias_t);
    size_t stop_bytes = open->stop_count * sizeof(uint32_t);
    size_t bytes = bias_bytes + stop_bytes + open->constraint_bytes;
    uint8_t *owned = malloc(bytes > 0 ? bytes : 1);
    if (owned == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a session's terms");
    }
    terms->open = *open;
    terms->owned = owned;
    if (bias_bytes > 0) {
        memcpy(owned, open->sampling.bias, bias_bytes);
    }
    if (stop_bytes > 0) {
        memcpy(owned + bias_bytes, open->stop_ids, stop_bytes);
    }
    if (open->constraint_bytes > 0) {
        memcpy(owned + bias_bytes + stop_bytes, open->constraint, open->constraint_bytes);
    }
    terms->open.sampling.bias = (const or_logit_bias_t *)(const void *)owned;
    terms->open.stop_ids = (const uint32_t *)(const void *)(owned + bias_bytes);
    terms->open.constraint = owned + bias_bytes + stop_bytes;
    return OR_OK;
}

void or_terms_fini(or_terms_t *terms)
{
    free(terms->owned);
    *terms = (or_terms_t){0};
}
