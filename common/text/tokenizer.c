#include "common/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"
#include "common/text/vocab_internal.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30) // so that symbols and pairs are counted in 32 bits

// A stretch of the fragment that is to become one token: at first one character each. Merging makes
// the left one longer and unlinks the right one, whose length becomes 0.
//
//     symbols   o n c e        on c e        once
//     next      1 2 3 -        2   3 -       -
typedef struct {
    uint32_t at; // in the fragment
    uint32_t length;
    uint32_t prev; // NONE at the ends
    uint32_t next;
} symbol_t;

#define NONE UINT32_MAX

// Symbol `left` and its neighbour have a token for their union, of `length` bytes. Out of date as
// soon as either changes: then `left` is unlinked or the lengths no longer add up.
typedef struct {
    float score;
    uint32_t left;
    uint32_t length;
} pair_t;

typedef struct {
    const or_vocab_t *vocab;
    char *fragment; // the text between two marked tokens, with its space in front
    uint32_t fragment_bytes;
    symbol_t *symbols;
    uint32_t symbol_count;
    pair_t *heap; // best first
    uint32_t heap_count;
    int32_t *ids; // the result
    size_t count;
} work_t;

// -- the queue of pairs: a binary heap
// --------------------------------------------------------------------------------

static bool is_better(pair_t a, pair_t b)
{
    return a.score > b.score || (a.score == b.score && a.left < b.left);
}

static void heap_push(work_t *work, pair_t pair)
{
    uint32_t i = work->heap_count++;
    while (i > 0 && is_better(pair, work->heap[(i - 1) / 2])) {
        work->heap[i] = work->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    work->heap[i] = pair;
}

static pair_t heap_pop(work_t *work)
{
    pair_t best = work->heap[0];
    pair_t last = work->heap[--work->heap_count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < work->heap_count; child = 2 * i + 1) {
        if (child + 1 < work->heap_count && is_better(work->heap[child + 1], work->heap[child])) {
            child++;
        }
        if (!is_better(work->heap[child], last)) {
            break;
        }
        work->heap[i] = work->heap[child];
        i = child;
    }
    work->heap[i] = last;
    return best;
}

// -- one fragment: characters, merges, tokens
// -------------------------------------------------------------------------

// A byte that is no part of a character is a symbol of its own.
static void cut_into_characters(work_t *work)
{
    uint32_t count = 0;
    size_t used;
    for (uint32_t at = 0; at < work->fragment_bytes; at += (uint32_t)used) {
        if (or_utf8_next(work->fragment + at, work->fragment_bytes - at, &used) !=
            OR_UTF8_CHARACTER) {
            used = 1;
        }
        work->symbols[count] = (symbol_t){at, (uint32_t)used, count - 1, count + 1};
        count++;
    }
    work->symbols[0].prev = NONE;
    work->symbols[count - 1].next = NONE;
    work->symbol_count = count;
}

static void consider_pair(work_t *work, uint32_t left)
{
    if (left == NONE || work->symbols[left].next == NONE) {
        return;
    }
    const symbol_t *symbol = &work->symbols[left];
    uint32_t length = symbol->length + work->symbols[symbol->next].length;
    int32_t id = or_vocab_find_text(work->vocab, work->fragment + symbol->at, length);
    if (id != OR_TOKEN_NONE) {
        heap_push(work, (pair_t){work->vocab->tokens[id].score, left, length});
    }
}

static void merge_with_next(work_t *work, uint32_t left)
{
    symbol_t *symbol = &work->symbols[left];
    symbol_t *next = &work->symbols[symbol->next];
    symbol->length += next->length;
    symbol->next = next->next;
    next->length = 0;
    if (symbol->next != NONE) {
        work->symbols[symbol->next].prev = left;
    }
    consider_pair(work, symbol->prev);
    consider_pair(work, left);
}

static void merge_all(work_t *work)
{
    for (uint32_t i = 0; i < work->symbol_count; i++) {
        consider_pair(work, i);
    }
    while (work->heap_count > 0) {
        pair_t pair = heap_pop(work);
        const symbol_t *symbol = &work->symbols[pair.left];
        bool current = symbol->length > 0 && symbol->next != NONE &&
                       symbol->length + work->symbols[symbol->next].length == pair.length;
        if (current) {
            merge_with_next(work, pair.left);
        }
    }
}

// Only single characters can be without a token of their own. What has no byte token either is one
// unknown token.
static void emit_symbol(work_t *work, const symbol_t *symbol)
{
    const char *bytes = work->fragment + symbol->at;
    int32_t id = or_vocab_find_text(work->vocab, bytes, symbol->length);
    if (id != OR_TOKEN_NONE) {
        work->ids[work->count++] = id;
        return;
    }
    for (uint32_t i = 0; i < symbol->length; i++) {
        id = work->vocab->byte_tokens[(unsigned char)bytes[i]];
        if (id == OR_TOKEN_NONE) {
            work->count -= i;
            work->ids[work->count++] = work->vocab->unknown;
            return;
        }
        work->ids[work->count++] = id;
    }
}

// `fresh` fragments begin with a space of the tokenizer's own, if the vocabulary wants one.
static void tokenize_fragment(work_t *work, const char *text, size_t length, bool fresh)
{
    if (length == 0) {
        return;
    }
    uint32_t space = fresh && work->vocab->adds_space ? 1 : 0;
    work->fragment[0] = ' ';
    memcpy(work->fragment + space, text, length);
    work->fragment_bytes = (uint32_t)length + space;
    cut_into_characters(work);
    merge_all(work);
    for (uint32_t i = 0; i != NONE; i = work->symbols[i].next) {
        emit_symbol(work, &work->symbols[i]);
    }
}

// -- the text: fragments and marked tokens
// ----------------------------------------------------------------------------

// The longest special or user-defined token written at the start of `text`, or OR_TOKEN_NONE.
static int32_t marked_at(const or_vocab_t *vocab, const char *text, size_t length, bool special)
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

static void tokenize_text(work_t *work, const char *text, size_t length, bool special)
{
    size_t start = 0; // of the fragment that is growing
    bool fresh = true;
    size_t at = 0;
    while (at < length) {
        int32_t id = marked_at(work->vocab, text + at, length - at, special);
        if (id == OR_TOKEN_NONE) {
            at++;
            continue;
        }
        tokenize_fragment(work, text + start, at - start, fresh);
        fresh = work->vocab->tokens[id].kind == OR_TOKEN_SPECIAL;
        work->ids[work->count++] = id;
        at += work->vocab->tokens[id].piece_length;
        start = at;
    }
    tokenize_fragment(work, text + start, length - start, fresh);
}

// Room for the worst case of `length` bytes. A fragment may bring a space of its own, but each
// after the first has a marked token of at least a byte before it. A merge takes one pair off the
// heap and adds at most two.
static or_status_t work_init(work_t *work, const or_vocab_t *vocab, size_t length)
{
    size_t room = length + 1;
    *work = (work_t){.vocab = vocab};
    work->fragment = malloc(room);
    work->symbols = malloc(room * sizeof *work->symbols);
    work->heap = malloc(2 * room * sizeof *work->heap);
    work->ids = malloc((2 * room + 1) * sizeof *work->ids);
    if (work->fragment == NULL || work->symbols == NULL || work->heap == NULL ||
        work->ids == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to tokenise %zu bytes", length);
    }
    return OR_OK;
}

// Frees what is left: the caller of or_tokenize may have taken the ids.
static void work_fini(work_t *work)
{
    free(work->ids);
    free(work->heap);
    free(work->symbols);
    free(work->fragment);
}

or_status_t or_tokenize(const or_vocab_t *vocab, const char *text, size_t length, unsigned flags,
                        int32_t **ids_p, size_t *count_p)
{
    if (vocab->byte_level) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "byte-level BPE (\"%s\") vocabularies cannot tokenise text in this version; "
                       "use a model with a SentencePiece (\"llama\") vocabulary",
                       vocab->model);
    }
    if (length > MAX_TEXT_BYTES) {
        return or_fail(OR_ERR_INVALID, "a text of %zu bytes is too long to tokenise", length);
    }
    work_t work;
    or_status_t status = work_init(&work, vocab, length);
    if (status == OR_OK) {
        if ((flags & OR_TOKENIZE_BOS) != 0 && vocab->bos != OR_TOKEN_NONE) {
            work.ids[work.count++] = vocab->bos;
        }
        tokenize_text(&work, text, length, (flags & OR_TOKENIZE_SPECIAL) != 0);
        *ids_p = work.ids;
        *count_p = work.count;
        work.ids = NULL;
    }
    work_fini(&work);
    return status;
}
