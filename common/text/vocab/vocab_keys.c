#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/text/vocab/vocab_internal.h"

// What a key is made of besides the text. The numbers are part of "same seed, same text": never
// renumber.
enum { CLASS_TEXT = 0, CLASS_BYTE = 1, CLASS_SPECIAL = 2, CLASS_ROLE = 3 };

// A token's content: what makes it the same token in another vocabulary.
typedef struct {
    unsigned class;
    const char *text;
    size_t length;
} content_t;

// Which bytes some text token prints alone.
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

// `rank` counts the tokens of equal content with a lower id.
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

// Tokens of equal content are neighbours once sorted by their key for rank 0: number them. A
// neighbour of other content keeps its key and is found by keys_differ.
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
