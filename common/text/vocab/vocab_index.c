#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/text/vocab/vocab_internal.h"

// Where the search for these bytes ends: their slot, or the empty one where they belong.
static uint32_t slot_of(const or_vocab_t *vocab, const char *bytes, size_t length)
{
    uint32_t slot = (uint32_t)XXH3_64bits(bytes, length) & vocab->table_mask;
    while (vocab->table[slot] != 0) {
        uint32_t id = vocab->table[slot] - 1;
        if (vocab->widths[id] == length && memcmp(vocab->tokens[id].bytes, bytes, length) == 0) {
            break;
        }
        slot = (slot + 1) & vocab->table_mask;
    }
    return slot;
}

int32_t or_vocab_find_text(const or_vocab_t *vocab, const char *bytes, size_t length)
{
    if (length > vocab->widest_text) {
        return OR_TOKEN_NONE;
    }
    return (int32_t)vocab->table[slot_of(vocab, bytes, length)] - 1;
}

int32_t or_vocab_marked_at(const or_vocab_t *vocab, const char *text, size_t length, bool special)
{
    unsigned char first = (unsigned char)text[0];
    for (uint32_t i = vocab->marked_first[first]; i < vocab->marked_first[first + 1]; i++) {
        const token_t *token = &vocab->tokens[vocab->marked[i]];
        if ((special || token->kind == OR_TOKEN_USER) && token->piece_length <= length &&
            memcmp(text, token->piece, token->piece_length) == 0) {
            return vocab->marked[i];
        }
    }
    return OR_TOKEN_NONE;
}

// At most half full, so that searches end soon. Of equal tokens the last is found, as in llama.cpp.
static or_status_t fill_table(or_vocab_t *vocab)
{
    uint32_t slots = 2;
    while (slots < 2 * vocab->size) {
        slots *= 2;
    }
    vocab->table = calloc(slots, sizeof *vocab->table);
    if (vocab->table == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the vocabulary's index");
    }
    vocab->table_mask = slots - 1;
    for (uint32_t id = 0; id < vocab->size; id++) {
        uint32_t width = vocab->widths[id];
        if (vocab->tokens[id].kind == OR_TOKEN_TEXT && width > 0) {
            vocab->table[slot_of(vocab, vocab->tokens[id].bytes, width)] = id + 1;
            vocab->widest_text = width > vocab->widest_text ? width : vocab->widest_text;
        }
    }
    return OR_OK;
}

typedef struct {
    const char *piece;
    uint32_t length;
    int32_t id;
} marked_t;

static int compare_marked(const void *a, const void *b)
{
    const marked_t *x = a;
    const marked_t *y = b;
    int order = (unsigned char)x->piece[0] - (unsigned char)y->piece[0];
    if (order == 0) {
        order = (x->length < y->length) - (x->length > y->length);
    }
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static bool is_marked(const token_t *token)
{
    return (token->kind == OR_TOKEN_SPECIAL || token->kind == OR_TOKEN_USER) &&
           token->piece_length > 0;
}

static or_status_t fill_marked(or_vocab_t *vocab)
{
    marked_t *sorted = malloc(vocab->size * sizeof *sorted);
    vocab->marked = malloc(vocab->size * sizeof *vocab->marked);
    if (sorted == NULL || vocab->marked == NULL) {
        free(sorted);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the special tokens");
    }
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->size; id++) {
        const token_t *token = &vocab->tokens[id];
        if (is_marked(token)) {
            sorted[count++] = (marked_t){token->piece, token->piece_length, (int32_t)id};
        }
        if (token->kind == OR_TOKEN_USER && token->piece_length > vocab->widest_user) {
            vocab->widest_user = token->piece_length;
        }
    }
    qsort(sorted, count, sizeof *sorted, compare_marked);
    unsigned byte = 0;
    for (uint32_t i = 0; i < count; i++) {
        vocab->marked[i] = sorted[i].id;
        for (; byte <= (unsigned char)sorted[i].piece[0]; byte++) {
            vocab->marked_first[byte] = i;
        }
    }
    for (; byte <= 256; byte++) {
        vocab->marked_first[byte] = count;
    }
    free(sorted);
    return OR_OK;
}

or_status_t or_vocab_fill_index(or_vocab_t *vocab)
{
    or_status_t status = fill_table(vocab);
    return status == OR_OK ? fill_marked(vocab) : status;
}
