#include "common/text/vocab/token_trie.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const unsigned char *bytes; // the vocabulary's
    uint32_t length;
    int32_t token;
    uint32_t rank; // among equal strings the one of lowest rank stays
} entry_t;

struct or_token_trie {
    const or_vocab_t *vocab; // borrowed
    uint32_t count;
    uint32_t widest;
    entry_t *entries;   // [count] strings ascend, each differs from the one before
    uint32_t *entry_of; // [vocabulary]
};

static int compare(const void *a, const void *b)
{
    const entry_t *x = a;
    const entry_t *y = b;
    uint32_t common = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, common);
    if (order == 0) {
        order = (x->length > y->length) - (x->length < y->length);
    }
    if (order == 0) {
        order = (x->rank > y->rank) - (x->rank < y->rank);
    }
    return order != 0 ? order : (x->token < y->token) - (x->token > y->token);
}

static uint32_t rank_of(or_token_kind_t kind)
{
    return kind == OR_TOKEN_USER ? 0 : kind == OR_TOKEN_TEXT ? 1 : 2;
}

static void collect(or_token_trie_t *trie)
{
    for (uint32_t id = 0; id < or_vocab_size(trie->vocab); id++) {
        uint32_t length;
        const char *bytes = or_vocab_bytes(trie->vocab, (int32_t)id, &length);
        or_token_kind_t kind = or_vocab_kind(trie->vocab, (int32_t)id);
        if (length > 0 && kind != OR_TOKEN_SPECIAL && kind != OR_TOKEN_UNUSED) {
            trie->entries[trie->count++] =
                (entry_t){(const unsigned char *)bytes, length, (int32_t)id, rank_of(kind)};
        }
    }
    qsort(trie->entries, trie->count, sizeof *trie->entries, compare);
}

static void drop_repeated(or_token_trie_t *trie)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < trie->count; i++) {
        const entry_t *entry = &trie->entries[i];
        const entry_t *last = kept > 0 ? &trie->entries[kept - 1] : NULL;
        if (last != NULL && last->length == entry->length &&
            memcmp(last->bytes, entry->bytes, entry->length) == 0) {
            continue;
        }
        trie->widest = entry->length > trie->widest ? entry->length : trie->widest;
        trie->entry_of[entry->token] = kept;
        trie->entries[kept++] = *entry;
    }
    trie->count = kept;
}

or_status_t or_token_trie_create(const or_vocab_t *vocab, or_token_trie_t **trie_p)
{
    uint32_t size = or_vocab_size(vocab);
    or_token_trie_t *trie = calloc(1, sizeof *trie);
    if (trie == NULL) {
        goto no_memory;
    }
    trie->vocab = vocab;
    trie->entries = calloc((size_t)size + 1, sizeof *trie->entries);
    trie->entry_of = malloc(((size_t)size + 1) * sizeof *trie->entry_of);
    if (trie->entries == NULL || trie->entry_of == NULL) {
        goto no_memory;
    }
    memset(trie->entry_of, 0xFF, size * sizeof *trie->entry_of); // OR_TRIE_NO_ENTRY
    collect(trie);
    drop_repeated(trie);
    *trie_p = trie;
    return OR_OK;

no_memory:
    or_token_trie_destroy(&trie);
    return or_fail(OR_ERR_NO_MEMORY, "no memory for the strings of %u tokens", size);
}

void or_token_trie_destroy(or_token_trie_t **trie_p)
{
    or_token_trie_t *trie = *trie_p;
    if (trie == NULL) {
        return;
    }
    free(trie->entries);
    free(trie->entry_of);
    free(trie);
    *trie_p = NULL;
}

const or_vocab_t *or_token_trie_vocab(const or_token_trie_t *trie)
{
    return trie->vocab;
}

uint32_t or_token_trie_count(const or_token_trie_t *trie)
{
    return trie->count;
}

uint32_t or_token_trie_widest(const or_token_trie_t *trie)
{
    return trie->widest;
}

uint32_t or_token_trie_entry(const or_token_trie_t *trie, int32_t id)
{
    return trie->entry_of[id];
}

int32_t or_token_trie_at(const or_token_trie_t *trie, uint32_t entry)
{
    return trie->entries[entry].token;
}

or_trie_state_t or_token_trie_start(const or_token_trie_t *trie)
{
    return (or_trie_state_t){0, trie->count, 0};
}

// Does a string end with the bytes walked? If so, it is the first of the state's entries.
static bool ends_here(const or_token_trie_t *trie, or_trie_state_t state)
{
    return state.first < state.end && trie->entries[state.first].length == state.depth;
}

// Return the first of the entries first .. end - 1, all longer than `depth`, whose byte at that
// place is at least `byte`.
static uint32_t lower_bound(const or_token_trie_t *trie, uint32_t first, uint32_t end,
                            uint32_t depth, unsigned byte)
{
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (trie->entries[middle].bytes[depth] < byte) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

bool or_token_trie_walk(const or_token_trie_t *trie, or_trie_state_t *state, uint8_t byte)
{
    uint32_t longer = state->first + ends_here(trie, *state);
    uint32_t first = lower_bound(trie, longer, state->end, state->depth, byte);
    uint32_t end = lower_bound(trie, first, state->end, state->depth, byte + 1U);
    if (first == end) {
        return false;
    }
    *state = (or_trie_state_t){first, end, state->depth + 1};
    return true;
}

int32_t or_token_trie_token(const or_token_trie_t *trie, or_trie_state_t state)
{
    return ends_here(trie, state) ? trie->entries[state.first].token : OR_TOKEN_NONE;
}

bool or_token_trie_goes_on(const or_token_trie_t *trie, or_trie_state_t state)
{
    return state.first + ends_here(trie, state) < state.end;
}
