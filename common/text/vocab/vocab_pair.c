#include "common/text/vocab/vocab_pair.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/vocab/vocab_internal.h"

static or_status_t no_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for the map between two vocabularies");
}

// A merge join: equal keys are the same token, and no key occurs twice in a vocabulary.
static void join(or_vocab_pair_t *pair, const keyed_t *draft, const keyed_t *target)
{
    uint32_t drafts = or_vocab_size(pair->draft);
    uint32_t targets = or_vocab_size(pair->target);
    for (uint32_t d = 0, t = 0; d < drafts && t < targets;) {
        if (draft[d].key != target[t].key) {
            draft[d].key < target[t].key ? d++ : t++;
            continue;
        }
        pair->to_target[draft[d].id] = (int32_t)target[t].id;
        pair->to_draft[target[t].id] = (int32_t)draft[d].id;
        pair->shared++;
        d++;
        t++;
    }
}

static or_status_t fill_maps(or_vocab_pair_t *pair)
{
    uint32_t drafts = or_vocab_size(pair->draft);
    uint32_t targets = or_vocab_size(pair->target);
    keyed_t *draft = malloc(drafts * sizeof *draft);
    keyed_t *target = malloc(targets * sizeof *target);
    pair->to_target = malloc(drafts * sizeof *pair->to_target);
    pair->to_draft = malloc(targets * sizeof *pair->to_draft);
    or_status_t status = OR_OK;
    if (draft == NULL || target == NULL || pair->to_target == NULL || pair->to_draft == NULL) {
        status = no_memory();
        goto done;
    }
    memset(pair->to_target, 0xFF, drafts * sizeof *pair->to_target); // all OR_TOKEN_NONE
    memset(pair->to_draft, 0xFF, targets * sizeof *pair->to_draft);
    or_vocab_sort_keys(pair->draft, draft);
    or_vocab_sort_keys(pair->target, target);
    join(pair, draft, target);
done:
    free(target);
    free(draft);
    return status;
}

// Is every token that text can become on the map?
static bool covers_text(const or_vocab_t *vocab, const int32_t *map)
{
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        or_token_kind_t kind = or_vocab_kind(vocab, (int32_t)id);
        bool from_text = kind != OR_TOKEN_UNUSED && kind != OR_TOKEN_SPECIAL;
        if (from_text && map[id] == OR_TOKEN_NONE) {
            return false;
        }
    }
    return true;
}

or_status_t or_vocab_pair_create(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_vocab_pair_t **pair_p)
{
    or_vocab_pair_t *pair = calloc(1, sizeof *pair);
    if (pair == NULL) {
        return no_memory();
    }
    pair->draft = draft;
    pair->target = target;
    or_status_t status = fill_maps(pair);
    if (status != OR_OK) {
        or_vocab_pair_destroy(&pair);
        return status;
    }
    pair->same = or_vocab_hash(draft) == or_vocab_hash(target);
    pair->bijective = covers_text(draft, pair->to_target) && covers_text(target, pair->to_draft);
    *pair_p = pair;
    return OR_OK;
}

void or_vocab_pair_destroy(or_vocab_pair_t **pair_p)
{
    if (*pair_p != NULL) {
        free((*pair_p)->to_draft);
        free((*pair_p)->to_target);
        free(*pair_p);
        *pair_p = NULL;
    }
}
