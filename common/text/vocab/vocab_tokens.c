#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/math/rng.h"
#include "common/text/vocab/vocab_internal.h"

#define MAX_TOKENS (1u << 28) // ids are int32_t; no vocabulary comes near
#define MAX_PIECE_BYTES 65535

// ---- tokens as the file lists them ----

// The arrays that describe the tokens in the file. `scores` and `types` have count 0 if the file
// has none.
typedef struct {
    or_gguf_array_t pieces;
    or_gguf_array_t scores;
    or_gguf_array_t types;
} source_t;

static or_status_t read_array(const or_gguf_t *gguf, const char *key, or_gguf_type_t type,
                              uint64_t count, or_gguf_array_t *array)
{
    or_status_t status = or_gguf_get_array(gguf, key, type, array);
    if (status == OR_OK && array->count != count) {
        status =
            or_fail(OR_ERR_FORMAT, "%s: %s has %llu elements for %llu tokens", or_gguf_path(gguf),
                    key, (unsigned long long)array->count, (unsigned long long)count);
    }
    return status;
}

static or_status_t read_source(const or_gguf_t *gguf, bool scores_needed, source_t *source)
{
    *source = (source_t){0};
    or_status_t status =
        or_gguf_get_array(gguf, "tokenizer.ggml.tokens", OR_GGUF_STRING, &source->pieces);
    uint64_t count = source->pieces.count;
    if (status == OR_OK && (count == 0 || count > MAX_TOKENS)) {
        status = or_fail(OR_ERR_FORMAT, "%s: a vocabulary of %llu tokens is not possible",
                         or_gguf_path(gguf), (unsigned long long)count);
    }
    if (status == OR_OK && scores_needed) {
        status = read_array(gguf, "tokenizer.ggml.scores", OR_GGUF_F32, count, &source->scores);
    }
    if (status == OR_OK && or_gguf_has(gguf, "tokenizer.ggml.token_type")) {
        status = read_array(gguf, "tokenizer.ggml.token_type", OR_GGUF_I32, count, &source->types);
    }
    return status;
}

// Read a token's kind. The file's numbers are 0 undefined, 1 normal, 2 unknown, 3 control, 4
// user-defined, 5 unused, 6 byte.
static bool read_kind(const source_t *source, uint64_t i, or_token_kind_t *kind)
{
    static const or_token_kind_t kinds[] = {OR_TOKEN_UNUSED,  OR_TOKEN_TEXT, OR_TOKEN_SPECIAL,
                                            OR_TOKEN_SPECIAL, OR_TOKEN_USER, OR_TOKEN_UNUSED,
                                            OR_TOKEN_BYTE};
    int32_t type = source->types.count > 0 ? or_gguf_array_i32(&source->types, i) : 1;
    if (type < 0 || (size_t)type >= sizeof kinds / sizeof *kinds) {
        return false;
    }
    *kind = kinds[type];
    return true;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

// The byte that "<0x0A>" names, or -1.
static int named_byte(const char *piece, uint32_t length)
{
    if (length != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') {
        return -1;
    }
    int high = hex_digit(piece[3]);
    int low = hex_digit(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

size_t or_vocab_unescape_spaces(const char *piece, size_t length, char *bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (length - i >= 3 && memcmp(piece + i, "\xE2\x96\x81", 3) == 0) {
            bytes[count++] = ' ';
            i += 2;
        } else {
            bytes[count++] = piece[i];
        }
    }
    return count;
}

// Write what the token prints into `bytes` (as long as the piece). Returns the length, or -1 if
// its piece makes no sense for its kind.
static int64_t print_token(const or_vocab_t *vocab, const token_t *token, char *bytes)
{
    int byte;
    switch ((or_token_kind_t)token->kind) {
    case OR_TOKEN_TEXT:
        return vocab->byte_level
                   ? (int64_t)or_byte_level_decode(token->piece, token->piece_length, bytes)
                   : (int64_t)or_vocab_unescape_spaces(token->piece, token->piece_length, bytes);
    case OR_TOKEN_USER:
        memcpy(bytes, token->piece, token->piece_length);
        return token->piece_length;
    case OR_TOKEN_BYTE:
        byte = named_byte(token->piece, token->piece_length);
        if (byte < 0) {
            return -1;
        }
        bytes[0] = (char)byte;
        return 1;
    case OR_TOKEN_SPECIAL:
    case OR_TOKEN_UNUSED:
        break;
    }
    return 0;
}

static or_status_t bad_token(const or_gguf_t *gguf, uint64_t id, const char *why)
{
    return or_fail(OR_ERR_FORMAT, "%s: token %llu %s", or_gguf_path(gguf), (unsigned long long)id,
                   why);
}

// Read token `id`. Its piece goes to `text`, what it prints right after. *text_end is the first
// byte not used.
static or_status_t read_token(const or_gguf_t *gguf, const source_t *source, or_vocab_t *vocab,
                              uint32_t id, char *text, char **text_end)
{
    token_t *token = &vocab->tokens[id];
    or_token_kind_t kind;
    if (!read_kind(source, id, &kind)) {
        return bad_token(gguf, id, "has an unknown kind");
    }
    or_gguf_string_t piece = or_gguf_array_string(&source->pieces, id);
    memcpy(text, piece.bytes, piece.length);
    token->piece = text;
    token->piece_length = (uint32_t)piece.length;
    token->bytes = text + piece.length;
    token->kind = (uint8_t)kind;
    token->score = source->scores.count > 0 ? or_gguf_array_f32(&source->scores, id) : 0.0f;
    if (isnan(token->score)) {
        return bad_token(gguf, id, "has no valid score");
    }
    int64_t width = print_token(vocab, token, text + piece.length);
    if (width < 0) {
        return bad_token(gguf, id, "is of kind byte, but is not named like <0x0A>");
    }
    vocab->widths[id] = (uint32_t)width;
    if (kind == OR_TOKEN_BYTE) {
        vocab->byte_tokens[(unsigned char)token->bytes[0]] = (int32_t)id;
    }
    *text_end = text + piece.length + width;
    return OR_OK;
}

// Compute the room for every piece and what it prints, which is never longer.
static or_status_t measure(const or_gguf_t *gguf, const source_t *source, size_t *bytes)
{
    *bytes = 1;
    for (uint64_t i = 0; i < source->pieces.count; i++) {
        size_t length = or_gguf_array_string(&source->pieces, i).length;
        if (length > MAX_PIECE_BYTES) {
            return bad_token(gguf, i, "is longer than 65535 bytes");
        }
        *bytes += 2 * length;
    }
    return OR_OK;
}

or_status_t or_vocab_read_tokens(const or_gguf_t *gguf, or_vocab_t *vocab)
{
    source_t arrays;
    const source_t *source = &arrays;
    size_t bytes;
    or_status_t status = read_source(gguf, !vocab->byte_level, &arrays);
    if (status == OR_OK) {
        status = measure(gguf, source, &bytes);
    }
    if (status != OR_OK) {
        return status;
    }
    vocab->size = (uint32_t)source->pieces.count;
    vocab->tokens = calloc(vocab->size, sizeof *vocab->tokens);
    vocab->widths = calloc(vocab->size, sizeof *vocab->widths);
    vocab->noise_keys = calloc(vocab->size, sizeof *vocab->noise_keys);
    vocab->text = malloc(bytes);
    if (vocab->tokens == NULL || vocab->widths == NULL || vocab->noise_keys == NULL ||
        vocab->text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "%s: no memory for its vocabulary", or_gguf_path(gguf));
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        vocab->byte_tokens[byte] = OR_TOKEN_NONE;
    }
    char *text = vocab->text;
    for (uint32_t id = 0; status == OR_OK && id < vocab->size; id++) {
        status = read_token(gguf, source, vocab, id, text, &text);
    }
    return status;
}

// ---- tokens by their bytes ----

// Search for a text token with these bytes. Returns its slot, or the empty slot where it
// belongs.
static uint32_t slot_of(const or_vocab_t *vocab, const char *bytes, size_t length)
{
    uint64_t hash = XXH3_64bits_withSeed(bytes, length, vocab->table_seed);
    uint32_t slot = (uint32_t)hash & vocab->table_mask;
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

// Fill the table, at most half full, so that searches end soon. Of equal tokens the last one is
// found, as in llama.cpp.
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
    vocab->table_seed = or_rng_system_seed();
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
