#include "common/text/vocab/vocab.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/text/byte_level.h"
#include "common/text/vocab/vocab_internal.h"

#define MAX_TOKENS (1u << 28) // ids are int32_t; no vocabulary comes near
#define MAX_PIECE_BYTES 65535

// The arrays that describe the tokens in the file. `scores` and `types` have count 0 where the file
// has none.
typedef struct {
    or_gguf_array_t pieces;
    or_gguf_array_t scores;
    or_gguf_array_t types;
} source_t;

// -- reading the file
// -------------------------------------------------------------------------------------------------

static or_status_t read_model(const or_gguf_t *gguf, or_vocab_t *vocab)
{
    or_gguf_string_t model;
    if (!or_gguf_has(gguf, "tokenizer.ggml.model")) {
        return or_fail(OR_ERR_NOT_FOUND,
                       "%s: has no vocabulary (no tokenizer.ggml.model); give a file with one",
                       or_gguf_path(gguf));
    }
    or_status_t status = or_gguf_get_string(gguf, "tokenizer.ggml.model", &model);
    if (status != OR_OK) {
        return status;
    }
    if (model.length == 5 && memcmp(model.bytes, "llama", 5) == 0) {
        vocab->model = "llama";
        return OR_OK;
    }
    if (model.length == 4 && memcmp(model.bytes, "gpt2", 4) == 0) {
        vocab->model = "gpt2";
        vocab->byte_level = true;
        return OR_OK;
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: its tokenizer \"%.*s\" is not supported; \"llama\" and \"gpt2\" are",
                   or_gguf_path(gguf), model.length < 32 ? (int)model.length : 32, model.bytes);
}

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

// -- tokens
// -----------------------------------------------------------------------------------------------------------

// The file's numbers for kinds: 0 undefined, 1 normal, 2 unknown, 3 control, 4 user-defined, 5
// unused, 6 byte.
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

// SentencePiece writes a space as U+2581. Returns the length of the text.
static size_t unescape_spaces(const char *piece, size_t length, char *bytes)
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

// What the token prints, into `bytes` (as long as the piece); -1 if its piece makes no sense for
// its kind.
static int64_t print_token(const or_vocab_t *vocab, const token_t *token, char *bytes)
{
    int byte;
    switch ((or_token_kind_t)token->kind) {
    case OR_TOKEN_TEXT:
        return vocab->byte_level
                   ? (int64_t)or_byte_level_decode(token->piece, token->piece_length, bytes)
                   : (int64_t)unescape_spaces(token->piece, token->piece_length, bytes);
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

// Reads token `id`; its piece goes to `text`, what it prints right after. *text_end is the first
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

// Room for every piece and what it prints, which is never longer.
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

static or_status_t read_tokens(const or_gguf_t *gguf, const source_t *source, or_vocab_t *vocab)
{
    size_t bytes;
    or_status_t status = measure(gguf, source, &bytes);
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

// -- roles
// ------------------------------------------------------------------------------------------------------------

static or_status_t read_role(const or_gguf_t *gguf, const or_vocab_t *vocab, const char *key,
                             int32_t *id)
{
    uint32_t value = 0;
    *id = OR_TOKEN_NONE;
    if (!or_gguf_has(gguf, key)) {
        return OR_OK;
    }
    or_status_t status = or_gguf_get_u32(gguf, key, &value);
    if (status == OR_OK && value >= vocab->size) {
        status = or_fail(OR_ERR_FORMAT, "%s: %s is %u, but there are only %u tokens",
                         or_gguf_path(gguf), key, (unsigned)value, (unsigned)vocab->size);
    }
    if (status == OR_OK) {
        *id = (int32_t)value;
    }
    return status;
}

static or_status_t read_flag(const or_gguf_t *gguf, const char *key, bool absent, bool *flag)
{
    *flag = absent;
    return or_gguf_has(gguf, key) ? or_gguf_get_bool(gguf, key, flag) : OR_OK;
}

static or_status_t read_ends(const or_gguf_t *gguf, or_vocab_t *vocab)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof keys / sizeof *keys; i++) {
        int32_t id = OR_TOKEN_NONE;
        status = read_role(gguf, vocab, keys[i], &id);
        if (status == OR_OK && id != OR_TOKEN_NONE) {
            vocab->tokens[id].ends = true;
        }
    }
    return status;
}

// Where chat models end a turn. Many files have another end token as eos, and no word of this one.
static void find_turn_ends(or_vocab_t *vocab)
{
    static const char *const pieces[] = {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t length = strlen(pieces[i]);
        int32_t id = or_vocab_marked_at(vocab, pieces[i], length, true);
        if (id != OR_TOKEN_NONE && vocab->tokens[id].piece_length == length) {
            vocab->tokens[id].ends = true;
        }
    }
}

static or_status_t read_roles(const or_gguf_t *gguf, const or_pre_rule_t *rule, or_vocab_t *vocab)
{
    bool sentencepiece = rule == NULL;
    or_status_t status = read_role(gguf, vocab, "tokenizer.ggml.bos_token_id", &vocab->bos);
    if (status == OR_OK) {
        status = read_role(gguf, vocab, "tokenizer.ggml.eos_token_id", &vocab->eos);
    }
    if (status == OR_OK) {
        status = read_role(gguf, vocab, "tokenizer.ggml.unknown_token_id", &vocab->unknown);
    }
    if (status == OR_OK) {
        status = read_ends(gguf, vocab);
    }
    if (status == OR_OK) {
        status = read_flag(gguf, "tokenizer.ggml.add_bos_token", sentencepiece || rule->adds_bos,
                           &vocab->adds_bos);
    }
    if (status == OR_OK && sentencepiece) {
        status = read_flag(gguf, "tokenizer.ggml.add_space_prefix", true, &vocab->adds_space);
    }
    vocab->adds_bos = vocab->adds_bos && vocab->bos != OR_TOKEN_NONE;
    return status;
}

// Any text must have tokens. SentencePiece: a byte token for each byte, or the unknown token for the
// rest. Byte-level: some vocabularies have no token for bytes that are rare or absent in UTF-8, but
// none can do without ASCII.
static or_status_t check_fallback(const or_gguf_t *gguf, const or_vocab_t *vocab)
{
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)i;
        if (vocab->byte_level && i < 128 && or_vocab_find_text(vocab, &byte, 1) == OR_TOKEN_NONE) {
            return or_fail(OR_ERR_FORMAT, "%s: its vocabulary has no token for byte 0x%02X",
                           or_gguf_path(gguf), i);
        }
        if (!vocab->byte_level && vocab->byte_tokens[i] == OR_TOKEN_NONE &&
            vocab->unknown == OR_TOKEN_NONE) {
            return or_fail(OR_ERR_FORMAT,
                           "%s: its vocabulary has neither a token for byte 0x%02X nor an unknown "
                           "token",
                           or_gguf_path(gguf), i);
        }
    }
    return OR_OK;
}

// -- the tokenizer
// ----------------------------------------------------------------------------------------------------

// *rule is NULL for SentencePiece, which has no pre-tokenisation.
static or_status_t read_rule(const or_gguf_t *gguf, const or_vocab_t *vocab,
                             const or_pre_rule_t **rule)
{
    or_gguf_string_t name = {"default", 7};
    *rule = NULL;
    if (!vocab->byte_level) {
        return OR_OK;
    }
    if (or_gguf_has(gguf, "tokenizer.ggml.pre")) {
        or_status_t status = or_gguf_get_string(gguf, "tokenizer.ggml.pre", &name);
        if (status != OR_OK) {
            return status;
        }
    } else {
        or_log(OR_LOG_WARN,
               "%s: does not say how text is pre-tokenised (no tokenizer.ggml.pre); taking "
               "\"default\", which may give other tokens than in training: convert the model again",
               or_gguf_path(gguf));
    }
    *rule = or_pre_rule_find(name.bytes, name.length);
    if (*rule == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: the pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not known to this "
                       "version; use a newer one, or, if the model's pre-tokenizer is the same as "
                       "one known by another name, write that name into the file",
                       or_gguf_path(gguf), name.length < 32 ? (int)name.length : 32, name.bytes);
    }
    return OR_OK;
}

static or_status_t make_tokenizer(const or_gguf_t *gguf, const or_pre_rule_t *rule,
                                  or_vocab_t *vocab)
{
    or_status_t status =
        or_fail_context(or_bpe_create(vocab, gguf, &vocab->bpe), "%s", or_gguf_path(gguf));
    if (status == OR_OK && rule != NULL) {
        vocab->ignores_merges = rule->ignores_merges;
        status = or_pretokenizer_create(rule, &vocab->pretokenizer);
    }
    return status;
}

// -- the vocabulary
// ---------------------------------------------------------------------------------------------------

static or_status_t fill(const or_gguf_t *gguf, or_vocab_t *vocab)
{
    source_t source;
    const or_pre_rule_t *rule = NULL;
    or_status_t status = read_model(gguf, vocab);
    if (status == OR_OK) {
        status = read_rule(gguf, vocab, &rule);
    }
    if (status == OR_OK) {
        status = read_source(gguf, !vocab->byte_level, &source);
    }
    if (status == OR_OK) {
        status = read_tokens(gguf, &source, vocab);
    }
    if (status == OR_OK) {
        status = read_roles(gguf, rule, vocab);
    }
    if (status == OR_OK) {
        status = or_fail_context(or_vocab_fill_keys(vocab), "%s", or_gguf_path(gguf));
    }
    if (status == OR_OK) {
        status = or_fail_context(or_vocab_fill_index(vocab), "%s", or_gguf_path(gguf));
    }
    if (status == OR_OK) {
        find_turn_ends(vocab);
    }
    if (status == OR_OK) {
        status = check_fallback(gguf, vocab);
    }
    if (status == OR_OK) {
        status = make_tokenizer(gguf, rule, vocab);
    }
    if (status == OR_OK) {
        status = or_fail_context(or_vocab_fill_hash(vocab, rule), "%s", or_gguf_path(gguf));
    }
    return status;
}

or_status_t or_vocab_load(const or_gguf_t *gguf, or_vocab_t **vocab_p)
{
    or_vocab_t *vocab = calloc(1, sizeof *vocab);
    if (vocab == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "%s: no memory for its vocabulary", or_gguf_path(gguf));
    }
    or_status_t status = fill(gguf, vocab);
    if (status != OR_OK) {
        or_vocab_destroy(&vocab);
        return status;
    }
    *vocab_p = vocab;
    return OR_OK;
}

void or_vocab_destroy(or_vocab_t **vocab_p)
{
    or_vocab_t *vocab = *vocab_p;
    if (vocab == NULL) {
        return;
    }
    or_pretokenizer_destroy(&vocab->pretokenizer);
    or_bpe_destroy(&vocab->bpe);
    free(vocab->marked);
    free(vocab->table);
    free(vocab->noise_keys);
    free(vocab->widths);
    free(vocab->text);
    free(vocab->tokens);
    free(vocab);
    *vocab_p = NULL;
}

static const token_t *token_of(const or_vocab_t *vocab, int32_t id)
{
    assert(id >= 0 && (uint32_t)id < vocab->size);
    return &vocab->tokens[id];
}

uint32_t or_vocab_size(const or_vocab_t *vocab)
{
    return vocab->size;
}

or_token_kind_t or_vocab_kind(const or_vocab_t *vocab, int32_t id)
{
    return (or_token_kind_t)token_of(vocab, id)->kind;
}

const char *or_vocab_bytes(const or_vocab_t *vocab, int32_t id, uint32_t *length)
{
    *length = vocab->widths[id];
    return token_of(vocab, id)->bytes;
}

const char *or_vocab_piece(const or_vocab_t *vocab, int32_t id, uint32_t *length)
{
    *length = token_of(vocab, id)->piece_length;
    return token_of(vocab, id)->piece;
}

int32_t or_vocab_bos(const or_vocab_t *vocab)
{
    return vocab->bos;
}

int32_t or_vocab_eos(const or_vocab_t *vocab)
{
    return vocab->eos;
}

bool or_vocab_adds_bos(const or_vocab_t *vocab)
{
    return vocab->adds_bos;
}

bool or_vocab_is_end(const or_vocab_t *vocab, int32_t id)
{
    return token_of(vocab, id)->ends;
}

const char *or_vocab_model(const or_vocab_t *vocab)
{
    return vocab->model;
}

uint64_t or_vocab_hash(const or_vocab_t *vocab)
{
    return vocab->hash;
}

const uint64_t *or_vocab_noise_keys(const or_vocab_t *vocab)
{
    return vocab->noise_keys;
}

const uint32_t *or_vocab_widths(const or_vocab_t *vocab)
{
    return vocab->widths;
}
