#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_pair.h"

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double share_of_vocabulary(const or_vocab_t *vocab, const int32_t *map)
{
    uint32_t used = 0, shared = 0;
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        bool counts = or_vocab_kind(vocab, (int32_t)id) != OR_TOKEN_UNUSED;
        used += counts;
        shared += counts && map[id] != OR_TOKEN_NONE;
    }
    return share(shared, used);
}

// The text's tokens, and whether they print it again.
static or_status_t tokenize(const or_vocab_t *vocab, const char *text, size_t length, int32_t **ids,
                            size_t *count, bool *injective)
{
    char *back = NULL;
    size_t back_length;
    or_status_t status = or_tokenize(vocab, text, length, 0, ids, count);
    if (status != OR_OK) {
        return status;
    }
    status = or_detokenize(vocab, *ids, *count, &back, &back_length);
    if (status != OR_OK) {
        free(*ids);
        return status;
    }
    *injective = back_length == length && memcmp(back, text, length) == 0;
    free(back);
    return OR_OK;
}

static void weigh(const or_vocab_pair_t *pair, const int32_t *ids, size_t count,
                  or_vocab_figures_t *figures)
{
    const uint32_t *widths = or_vocab_widths(pair->target);
    uint64_t bytes = 0, shared = 0, shared_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += widths[ids[i]];
        if (pair->to_draft[ids[i]] != OR_TOKEN_NONE) {
            shared++;
            shared_bytes += widths[ids[i]];
        }
    }
    figures->shared_of_text = share(shared, count);
    figures->shared_of_bytes = share(shared_bytes, bytes);
}

or_status_t or_vocab_pair_measure(const or_vocab_pair_t *pair, const char *text, size_t length,
                                  or_vocab_figures_t *figures)
{
    or_vocab_figures_t found = {0};
    int32_t *ids = NULL;
    size_t count;
    or_status_t status = tokenize(pair->draft, text, length, &ids, &count, &found.draft_injective);
    if (status != OR_OK) {
        return status;
    }
    found.draft_tokens = (uint32_t)count;
    free(ids);
    status = tokenize(pair->target, text, length, &ids, &count, &found.target_injective);
    if (status != OR_OK) {
        return status;
    }
    found.target_tokens = (uint32_t)count;
    found.shared_of_target = share_of_vocabulary(pair->target, pair->to_draft);
    weigh(pair, ids, count, &found);
    free(ids);
    *figures = found;
    return OR_OK;
}
