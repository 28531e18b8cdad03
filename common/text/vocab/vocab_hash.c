#include <string.h>
#include <xxhash.h>

#include "common/text/vocab/vocab_internal.h"

// What a token is besides its content.
static unsigned char roles_of(const or_vocab_t *vocab, uint32_t id)
{
    return (unsigned char)(((int32_t)id == vocab->bos) << 0 | ((int32_t)id == vocab->eos) << 1 |
                           vocab->tokens[id].ends << 2 | ((int32_t)id == vocab->unknown) << 3);
}

// Unused tokens at the end round the size up for somebody's matrix multiplication.
uint32_t or_vocab_unpadded_size(const or_vocab_t *vocab)
{
    uint32_t size = vocab->size;
    while (size > 0 && vocab->tokens[size - 1].kind == OR_TOKEN_UNUSED &&
           roles_of(vocab, size - 1) == 0) {
        size--;
    }
    return size;
}

static void hash_tokens(const or_vocab_t *vocab, XXH64_state_t *state)
{
    uint32_t size = or_vocab_unpadded_size(vocab);
    for (uint32_t id = 0; id < size; id++) {
        unsigned char traits[] = {vocab->tokens[id].kind, roles_of(vocab, id)};
        XXH64_update(state, &vocab->noise_keys[id], sizeof vocab->noise_keys[id]);
        XXH64_update(state, traits, sizeof traits);
    }
}

// By its steps: several names stand for the same.
static void hash_rule(const or_pre_rule_t *rule, XXH64_state_t *state)
{
    for (const or_split_t *split = rule->splits; split->pattern != NULL; split++) {
        unsigned char in_threes = split->in_threes;
        XXH64_update(state, split->pattern, strlen(split->pattern) + 1);
        XXH64_update(state, &in_threes, sizeof in_threes);
    }
}

// The sum over the merges, which lie in the table in no order that matters. A merge's rank is its
// place in the file or stands for its token's score.
static uint64_t sum_merges(const or_bpe_t *bpe)
{
    uint64_t sum = 0;
    for (uint32_t slot = 0; slot <= bpe->mask; slot++) {
        const or_merge_t *merge = &bpe->merges[slot];
        if (merge->rank != OR_BPE_NO_RANK) {
            sum += XXH64(merge, sizeof *merge, 0);
        }
    }
    return sum;
}

or_status_t or_vocab_fill_hash(or_vocab_t *vocab, const or_pre_rule_t *rule)
{
    unsigned char flags[] = {vocab->byte_level, vocab->adds_bos, vocab->adds_space,
                             vocab->ignores_merges};
    uint64_t merges = sum_merges(vocab->bpe);
    XXH64_state_t *state = XXH64_createState();
    if (state == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the vocabulary's hash");
    }
    XXH64_reset(state, 0);
    hash_tokens(vocab, state);
    XXH64_update(state, flags, sizeof flags);
    XXH64_update(state, &merges, sizeof merges);
    if (rule != NULL) {
        hash_rule(rule, state);
    }
    vocab->hash = XXH64_digest(state);
    XXH64_freeState(state);
    return OR_OK;
}
