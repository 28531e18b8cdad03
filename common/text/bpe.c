#include "common/text/bpe.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL // pairs are hashed a few times for each byte of a text
#include <xxhash.h>

#include "common/base/math/rng.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

// ---- GPT-2's characters for bytes ----

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// The byte that a character stands for; -1 if it is outside the map.
static int byte_of(uint32_t code_point)
{
    if (code_point <= 0xFF) {
        return stands_for_itself(code_point) ? (int)code_point : -1;
    }
    uint32_t rank = code_point - 0x100;
    for (uint32_t byte = 0; byte <= 0xFF; byte++) {
        if (!stands_for_itself(byte) && rank-- == 0) {
            return (int)byte;
        }
    }
    return -1;
}

size_t or_byte_level_decode(const char *piece, size_t length, char *bytes)
{
    size_t count = 0;
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        int byte = -1;
        if (or_utf8_next(piece + at, length - at, &used) == OR_UTF8_CHARACTER) {
            byte = byte_of(or_utf8_code_point(piece + at, used));
        }
        if (byte < 0) {
            memcpy(bytes, piece, length);
            return length;
        }
        bytes[count++] = (char)byte;
    }
    return count;
}

// -- the table
// --------------------------------------------------------------------------------------------------------

// The hash of a pair. Bits 32 and up are the slot where the search begins, bits 29 to 31 choose
// the filter's bit.
static uint64_t hash_of(const or_bpe_t *bpe, uint32_t left, uint32_t right)
{
    const uint32_t pair[] = {left, right};
    return XXH3_64bits_withSeed(pair, sizeof pair, bpe->seed);
}

static unsigned char filter_bit(uint64_t hash)
{
    return (unsigned char)(1U << (hash >> 29 & 7));
}

// Search for a pair. Returns its slot, or the empty slot where it belongs.
static or_merge_t *search(const or_bpe_t *bpe, uint64_t hash, uint32_t left, uint32_t right)
{
    uint32_t slot = (uint32_t)(hash >> 32) & bpe->mask;
    while (bpe->merges[slot].rank != OR_BPE_NO_RANK &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right)) {
        slot = (slot + 1) & bpe->mask;
    }
    return &bpe->merges[slot];
}

const or_merge_t *or_bpe_find(const or_bpe_t *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = hash_of(bpe, left, right);
    if ((bpe->filter[(uint32_t)(hash >> 32) & bpe->mask] & filter_bit(hash)) == 0) {
        return NULL;
    }
    const or_merge_t *merge = search(bpe, hash, left, right);
    return merge->rank != OR_BPE_NO_RANK ? merge : NULL;
}

// Add a merge. Of equal merges the first one stays.
static void add_merge(or_bpe_t *bpe, or_merge_t merge)
{
    uint64_t hash = hash_of(bpe, merge.left, merge.right);
    or_merge_t *slot = search(bpe, hash, merge.left, merge.right);
    if (slot->rank == OR_BPE_NO_RANK) {
        *slot = merge;
        bpe->filter[(uint32_t)(hash >> 32) & bpe->mask] |= filter_bit(hash);
    }
}

// Make the table, at most two thirds full, so that searches end soon.
static or_status_t make_table(or_bpe_t *bpe, uint64_t count)
{
    uint64_t slots = 2;
    while (2 * slots < 3 * count) {
        slots *= 2;
    }
    bpe->merges = slots <= UINT32_MAX ? malloc(slots * sizeof *bpe->merges) : NULL;
    bpe->filter = slots <= UINT32_MAX ? calloc(slots, 1) : NULL;
    if (bpe->merges == NULL || bpe->filter == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %llu merges", (unsigned long long)count);
    }
    memset(bpe->merges, 0xFF, slots * sizeof *bpe->merges); // all OR_BPE_NO_RANK
    bpe->mask = (uint32_t)(slots - 1);
    bpe->seed = or_rng_system_seed();
    return OR_OK;
}

// -- merges from the file
// ---------------------------------------------------------------------------------

static int32_t find_piece(const or_vocab_t *vocab, const char *piece, size_t length, char *bytes)
{
    return or_vocab_find_text(vocab, bytes,
                              vocab->byte_level ? or_byte_level_decode(piece, length, bytes)
                                                : or_vocab_unescape_spaces(piece, length, bytes));
}

// Read a merge written as "left right"; `bytes` has room for as many bytes as `text`.
static bool read_merge(const or_vocab_t *vocab, or_gguf_string_t text, char *bytes,
                       or_merge_t *merge)
{
    const char *space = memchr(text.bytes, ' ', text.length);
    if (space == NULL) {
        return false;
    }
    size_t left_length = (size_t)(space - text.bytes);
    size_t right_length = text.length - left_length - 1;
    int32_t left = find_piece(vocab, text.bytes, left_length, bytes);
    int32_t right = find_piece(vocab, space + 1, right_length, bytes);
    if (left == OR_TOKEN_NONE || right == OR_TOKEN_NONE) {
        return false;
    }
    uint32_t width = vocab->widths[left];
    memcpy(bytes, vocab->tokens[left].bytes, width);
    memcpy(bytes + width, vocab->tokens[right].bytes, vocab->widths[right]);
    merge->merged = or_vocab_find_text(vocab, bytes, width + vocab->widths[right]);
    merge->left = (uint32_t)left;
    merge->right = (uint32_t)right;
    return merge->merged != OR_TOKEN_NONE;
}

static or_status_t read_merges(const or_vocab_t *vocab, const or_gguf_array_t *merges,
                               or_bpe_t *bpe)
{
    or_status_t status = make_table(bpe, merges->count);
    size_t room = 1;
    for (uint64_t i = 0; status == OR_OK && i < merges->count; i++) {
        size_t length = or_gguf_array_string(merges, i).length;
        room = length > room ? length : room;
    }
    char *bytes = malloc(room);
    if (status == OR_OK && bytes == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for a merge of %zu bytes", room);
    }
    for (uint64_t i = 0; status == OR_OK && i < merges->count; i++) {
        or_gguf_string_t text = or_gguf_array_string(merges, i);
        or_merge_t merge = {.rank = (uint32_t)i};
        if (!read_merge(vocab, text, bytes, &merge)) {
            status = or_fail(OR_ERR_FORMAT,
                             "merge %llu (\"%.*s\") is not two tokens that make a third; convert "
                             "the model again",
                             (unsigned long long)i, text.length < 64 ? (int)text.length : 64,
                             text.bytes);
        } else {
            add_merge(bpe, merge);
        }
    }
    free(bytes);
    return status;
}

static or_status_t load_merges(const or_vocab_t *vocab, const or_gguf_t *gguf, or_bpe_t *bpe)
{
    const char *key = "tokenizer.ggml.merges";
    or_gguf_array_t merges;
    or_status_t status = or_gguf_get_array(gguf, key, OR_GGUF_STRING, &merges);
    if (status == OR_OK && merges.count > UINT32_MAX / 4) {
        status = or_fail(OR_ERR_FORMAT, "%s has %llu merges, which is not possible", key,
                         (unsigned long long)merges.count);
    }
    return status == OR_OK ? read_merges(vocab, &merges, bpe) : status;
}

// -- SentencePiece: merges from the tokens
// ----------------------------------------------------------------------------

// Higher scores get lower ranks; equal scores, and only they, have equal ranks. The bits of
// floats of one sign are in the floats' order. No score is NaN, whose rank would be
// OR_BPE_NO_RANK.
static uint32_t rank_of(float score)
{
    float positive_zero = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits >> 31 != 0 ? bits : ~bits & 0x7FFFFFFF;
}

static uint32_t atom_symbol(const char *atom, size_t length)
{
    return OR_BPE_ATOM |
           (length == 1 && (unsigned char)*atom >= 0x80 ? OR_BPE_LONE_BYTE + (unsigned char)*atom
                                                        : or_utf8_code_point(atom, length));
}

// Find the symbol of these bytes: a token or an atom. False if they are neither.
static bool find_symbol(const or_vocab_t *vocab, const char *bytes, size_t length, uint32_t *symbol)
{
    int32_t id = or_vocab_find_text(vocab, bytes, length);
    size_t used = 1;
    bool is_atom =
        length == 1 || (length <= OR_UTF8_MAX_BYTES &&
                        or_utf8_next(bytes, length, &used) == OR_UTF8_CHARACTER && used == length);
    *symbol = id != OR_TOKEN_NONE ? (uint32_t)id : is_atom ? atom_symbol(bytes, length) : 0;
    return id != OR_TOKEN_NONE || is_atom;
}

// Does a search for the bytes of token `id` find that token?
static bool is_findable(const or_vocab_t *vocab, uint32_t id)
{
    const token_t *token = &vocab->tokens[id];
    return token->kind == OR_TOKEN_TEXT && vocab->widths[id] > 0 &&
           or_vocab_find_text(vocab, token->bytes, vocab->widths[id]) == (int32_t)id;
}

// Add a merge for every way to cut a token into two symbols. If there is no table yet, only
// count them.
static uint64_t cut_tokens(const or_vocab_t *vocab, or_bpe_t *bpe)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < vocab->size; id++) {
        const token_t *token = &vocab->tokens[id];
        or_merge_t merge = {.rank = rank_of(token->score), .merged = (int32_t)id};
        uint32_t width = is_findable(vocab, id) ? vocab->widths[id] : 0;
        for (uint32_t at = 1; at < width; at++) {
            if (!find_symbol(vocab, token->bytes, at, &merge.left) ||
                !find_symbol(vocab, token->bytes + at, width - at, &merge.right)) {
                continue;
            }
            count++;
            if (bpe->merges != NULL) {
                add_merge(bpe, merge);
            }
        }
    }
    return count;
}

static or_status_t derive_merges(const or_vocab_t *vocab, or_bpe_t *bpe)
{
    or_status_t status = make_table(bpe, cut_tokens(vocab, bpe));
    if (status == OR_OK) {
        cut_tokens(vocab, bpe);
    }
    return status;
}

// -- both kinds
// -------------------------------------------------------------------------------------------------------

static void fill_bytes(const or_vocab_t *vocab, or_bpe_t *bpe)
{
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)i;
        find_symbol(vocab, &byte, 1, &bpe->byte_symbols[i]);
    }
    for (uint32_t id = 0; id < vocab->size; id++) {
        const token_t *token = &vocab->tokens[id];
        for (uint32_t i = 1; token->kind == OR_TOKEN_TEXT && i < vocab->widths[id]; i++) {
            unsigned char next = (unsigned char)token->bytes[i];
            bpe->joins[(unsigned char)token->bytes[i - 1]][next / 8] |=
                (unsigned char)(1U << next % 8);
        }
    }
}

// Nothing is merged over the beginning or the end of a row of ends of lines.
static void part_lines(or_bpe_t *bpe)
{
    for (unsigned i = 0; i < 256; i++) {
        if (i != '\n') {
            bpe->joins[i]['\n' / 8] &= (unsigned char)~(1U << '\n' % 8);
            bpe->joins['\n'][i / 8] &= (unsigned char)~(1U << i % 8);
        }
    }
}

or_status_t or_bpe_create(const or_vocab_t *vocab, const or_gguf_t *gguf, or_bpe_t **bpe_p)
{
    or_bpe_t *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the merges");
    }
    bpe->atoms_are_bytes = vocab->byte_level;
    or_status_t status = vocab->byte_level || vocab->by_lines ? load_merges(vocab, gguf, bpe)
                                                              : derive_merges(vocab, bpe);
    if (status != OR_OK) {
        or_bpe_destroy(&bpe);
        return status;
    }
    fill_bytes(vocab, bpe);
    if (vocab->by_lines) {
        part_lines(bpe);
    }
    *bpe_p = bpe;
    return OR_OK;
}

void or_bpe_destroy(or_bpe_t **bpe_p)
{
    if (*bpe_p != NULL) {
        free((*bpe_p)->filter);
        free((*bpe_p)->merges);
        free(*bpe_p);
        *bpe_p = NULL;
    }
}
