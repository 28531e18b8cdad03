#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/text/vocab/vocab_internal.h"

// The class of a token, which its key contains besides the text. The numbers are part of "same
// seed, same text": never renumber.
enum { CLASS_TEXT = 0, CLASS_BYTE = 1, CLASS_SPECIAL = 2, CLASS_ROLE = 3 };

// A token's content, which is equal in another vocabulary that has the same token.
typedef struct {
    unsigned class;
    const char *text;
    size_t length;
} content_t;

// Mark the bytes that some text token prints alone.
static void find_lone_bytes(const or_vocab_t *vocab, bool lone[256])
{
    for (uint32_t id = 0; id < vocab->size; id++) {
        const token_t *token = &vocab->tokens[id];
        bool is_text = token->kind == OR_TOKEN_TEXT || token->kind == OR_TOKEN_USER;
        if (is_text && vocab->widths[id] == 1) {
            lone[(unsigned char)token->bytes[0]] = true;
        }
    }
}

static content_t content_of(const or_vocab_t *vocab, const bool lone[256], uint32_t id)
{
    const token_t *token = &vocab->tokens[id];
    switch ((or_token_kind_t)token->kind) {
    case OR_TOKEN_TEXT:
    case OR_TOKEN_USER:
        return (content_t){CLASS_TEXT, token->bytes, vocab->widths[id]};
    case OR_TOKEN_BYTE:
        return (content_t){lone[(unsigned char)token->bytes[0]] ? CLASS_BYTE : CLASS_TEXT,
                           token->bytes, vocab->widths[id]};
    case OR_TOKEN_SPECIAL:
    case OR_TOKEN_UNUSED:
        break;
    }
    if ((int32_t)id == vocab->eos) {
        return (content_t){CLASS_ROLE, "eos", 3};
    }
    if ((int32_t)id == vocab->bos) {
        return (content_t){CLASS_ROLE, "bos", 3};
    }
    return (content_t){CLASS_SPECIAL, token->piece, token->piece_length};
}

// The key of a content; `rank` counts the tokens of equal content with a lower id.
static uint64_t key_of(content_t content, uint64_t rank)
{
    return XXH64(content.text, content.length, content.class | rank << 8);
}

static bool same_content(content_t a, content_t b)
{
    return a.class == b.class && a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static int compare_keyed(const void *a, const void *b)
{
    const keyed_t *x = a;
    const keyed_t *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

void or_vocab_sort_keys(const or_vocab_t *vocab, keyed_t *sorted)
{
    for (uint32_t id = 0; id < vocab->size; id++) {
        sorted[id] = (keyed_t){vocab->noise_keys[id], id};
    }
    qsort(sorted, vocab->size, sizeof *sorted, compare_keyed);
}

// Number the tokens of equal content, which are neighbours once sorted by their key for rank 0.
// A neighbour of other content keeps its key and is found by keys_differ.
static void mix_in_ranks(or_vocab_t *vocab, const bool lone[256], const keyed_t *sorted)
{
    uint64_t rank = 0;
    for (uint32_t i = 1; i < vocab->size; i++) {
        content_t content = content_of(vocab, lone, sorted[i].id);
        bool again = sorted[i].key == sorted[i - 1].key &&
                     same_content(content, content_of(vocab, lone, sorted[i - 1].id));
        rank = again ? rank + 1 : 0;
        vocab->noise_keys[sorted[i].id] = key_of(content, rank);
    }
}

static or_status_t keys_differ(const or_vocab_t *vocab, const keyed_t *sorted)
{
    for (uint32_t i = 1; i < vocab->size; i++) {
        if (sorted[i].key == sorted[i - 1].key) {
            return or_fail(OR_ERR_FORMAT,
                           "tokens %u and %u have the same noise key: this vocabulary cannot be "
                           "used; please report it",
                           (unsigned)sorted[i - 1].id, (unsigned)sorted[i].id);
        }
    }
    return OR_OK;
}

or_status_t or_vocab_fill_keys(or_vocab_t *vocab)
{
    bool lone[256] = {false};
    keyed_t *sorted = malloc(vocab->size * sizeof *sorted);
    if (sorted == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the noise keys");
    }
    find_lone_bytes(vocab, lone);
    for (uint32_t id = 0; id < vocab->size; id++) {
        vocab->noise_keys[id] = key_of(content_of(vocab, lone, id), 0);
    }
    or_vocab_sort_keys(vocab, sorted);
    mix_in_ranks(vocab, lone, sorted);
    or_vocab_sort_keys(vocab, sorted);
    or_status_t status = keys_differ(vocab, sorted);
    free(sorted);
    return status;
}

// ---- the hash of a vocabulary ----

// A token's roles, which are not part of its content.
static unsigned char roles_of(const or_vocab_t *vocab, uint32_t id)
{
    return (unsigned char)(((int32_t)id == vocab->bos) << 0 | ((int32_t)id == vocab->eos) << 1 |
                           vocab->tokens[id].ends << 2 | ((int32_t)id == vocab->unknown) << 3);
}

// Unused tokens at the end only round the size up for matrix multiplication.
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

// Hash a rule by its steps, because several names stand for the same steps.
static void hash_rule(const or_pre_rule_t *rule, XXH64_state_t *state)
{
    for (const or_split_t *split = rule->splits; split->pattern != NULL; split++) {
        unsigned char in_threes = split->in_threes;
        XXH64_update(state, split->pattern, strlen(split->pattern) + 1);
        XXH64_update(state, &in_threes, sizeof in_threes);
    }
}

// Return the sum over the merges, whose order in the table does not matter. A merge's rank is
// its place in the file or stands for its token's score.
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
    unsigned char flags[] = {vocab->byte_level + 2 * vocab->by_lines, vocab->adds_bos,
                             vocab->adds_space, vocab->ignores_merges};
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
