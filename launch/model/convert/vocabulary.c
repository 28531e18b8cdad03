#include "launch/model/convert/vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "launch/model/convert/tokenizer/line_merges.h"

#define PAD_BYTES 16u // "[PAD4294967295]" with its zero
#define SPACE_MARK "\xE2\x96\x81"

// ---- tokens ----

// Put a piece at its id. OR_ERR_FORMAT if there is no such id or another piece has it.
static or_status_t put_piece(or_json_t tokenizer, or_hf_tokens_t *tokens, const json_t *id,
                             or_gguf_string_t piece, or_hf_kind_t kind)
{
    json_int_t number = json_integer_value(id);
    if (!json_is_integer(id) || number < 0 || number >= tokens->size) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: token \"%.64s\" has the id %lld, and the model has %u tokens",
                       tokenizer.path, piece.bytes, (long long)number, tokens->size);
    }
    or_gguf_string_t *place = &tokens->pieces[number];
    if (place->bytes != NULL &&
        (place->length != piece.length || memcmp(place->bytes, piece.bytes, piece.length) != 0)) {
        return or_fail(OR_ERR_FORMAT, "%s: both \"%.64s\" and \"%.64s\" have the id %lld",
                       tokenizer.path, place->bytes, piece.bytes, (long long)number);
    }
    *place = piece;
    tokens->kinds[number] = kind;
    return OR_OK;
}

static bool is_byte_piece(or_gguf_string_t piece)
{
    return piece.length == 6 && memcmp(piece.bytes, "<0x", 3) == 0 && piece.bytes[5] == '>' &&
           strspn(piece.bytes + 3, "0123456789ABCDEF") == 2;
}

static or_status_t put_vocabulary(or_json_t tokenizer, bool over_bytes, or_hf_tokens_t *tokens)
{
    const json_t *model = json_object_get(tokenizer.object, "model");
    const json_t *unknown = json_object_get(model, "unk_token");
    const char *piece;
    size_t length;
    json_t *id;
    or_status_t status = OR_OK;
    json_object_keylen_foreach(json_object_get(model, "vocab"), piece, length, id)
    {
        or_gguf_string_t text = {piece, length};
        or_hf_kind_t kind = over_bytes                   ? OR_HF_NORMAL
                            : or_json_is(unknown, piece) ? OR_HF_UNKNOWN
                            : is_byte_piece(text)        ? OR_HF_BYTE
                                                         : OR_HF_NORMAL;
        status = put_piece(tokenizer, tokens, id, text, kind);
        if (status != OR_OK) {
            break;
        }
    }
    return status;
}

// Does it look like a token that is never text? llama.cpp takes such for control tokens, whatever the flag says.
static bool looks_special(or_gguf_string_t piece)
{
    static const struct {
        const char *begin, *end;
    } marks[] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}};
    static const char *const words[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t begin = strlen(marks[i].begin), end = strlen(marks[i].end);
        if (piece.length >= begin + end && memcmp(piece.bytes, marks[i].begin, begin) == 0 &&
            memcmp(piece.bytes + piece.length - end, marks[i].end, end) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i], piece.bytes) == 0) {
            return true;
        }
    }
    return false;
}

// Counts of added tokens that do what GGUF cannot say, or that the model cannot write.
typedef struct {
    uint32_t stripping, whole_words, beyond;
} oddities_t;

static or_status_t put_added(or_json_t tokenizer, const json_t *added, or_hf_tokens_t *tokens,
                             oddities_t *oddities)
{
    const json_t *content = json_object_get(added, "content");
    const json_t *id = json_object_get(added, "id");
    if (!json_is_string(content)) {
        return or_fail(OR_ERR_FORMAT, "%s: an added token has no content", tokenizer.path);
    }
    or_gguf_string_t piece = or_json_string(content);
    bool special = json_is_true(json_object_get(added, "special")) || looks_special(piece);
    json_int_t number = json_integer_value(id);
    if (number >= tokens->size) {
        oddities->beyond++;
        return OR_OK;
    }
    bool is_unknown =
        number >= 0 && number < tokens->size && tokens->kinds[number] == OR_HF_UNKNOWN;
    oddities->stripping += json_is_true(json_object_get(added, "lstrip")) ||
                           json_is_true(json_object_get(added, "rstrip"));
    oddities->whole_words += json_is_true(json_object_get(added, "single_word"));
    return put_piece(tokenizer, tokens, id, piece,
                     is_unknown ? OR_HF_UNKNOWN
                     : special  ? OR_HF_CONTROL
                                : OR_HF_USER);
}

or_status_t or_hf_put_added(or_json_t tokenizer, or_hf_tokens_t *tokens)
{
    const json_t *list = json_object_get(tokenizer.object, "added_tokens");
    oddities_t oddities = {0};
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < json_array_size(list); i++) {
        status = put_added(tokenizer, json_array_get(list, i), tokens, &oddities);
    }
    if (status == OR_OK && oddities.whole_words > 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: %u added tokens are whole words only (\"single_word\"), which GGUF "
                       "cannot say",
                       tokenizer.path, oddities.whole_words);
    }
    if (status == OR_OK && oddities.beyond > 0) {
        or_log(OR_LOG_WARN, "%s: %u added tokens are left out, as the model has only %u tokens",
               tokenizer.path, oddities.beyond, tokens->size);
    }
    if (status == OR_OK && oddities.stripping > 0) {
        or_log(OR_LOG_INFO,
               "%s: %u added tokens take spaces beside them with them (\"lstrip\", \"rstrip\"); "
               "in GGUF these spaces stay",
               tokenizer.path, oddities.stripping);
    }
    return status;
}

// ---- pieces that GGUF has otherwise ----

// Write a piece with U+2581 as spaces. Returns its end.
static char *write_spaces(or_gguf_string_t piece, char *to)
{
    for (size_t i = 0; i < piece.length; i++) {
        bool marks = piece.length - i >= 3 && memcmp(piece.bytes + i, SPACE_MARK, 3) == 0;
        *to++ = marks ? ' ' : piece.bytes[i];
        i += marks ? 2 : 0;
    }
    *to++ = '\0';
    return to;
}

// Name the ids that the tokenizer lacks, and write user-defined tokens over characters as the text they stand for.
static or_status_t rewrite_pieces(bool over_bytes, or_hf_tokens_t *tokens)
{
    size_t room = 1;
    for (uint32_t id = 0; id < tokens->size; id++) {
        room += tokens->pieces[id].bytes == NULL  ? PAD_BYTES
                : tokens->kinds[id] == OR_HF_USER ? tokens->pieces[id].length + 1
                                                  : 0;
    }
    char *to = tokens->text = malloc(room);
    if (to == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u tokens", tokens->size);
    }
    for (uint32_t id = 0; id < tokens->size; id++) {
        or_gguf_string_t *piece = &tokens->pieces[id];
        const char *begin = to;
        if (piece->bytes == NULL) {
            to += sprintf(to, "[PAD%" PRIu32 "]", id) + 1;
            tokens->kinds[id] = OR_HF_UNUSED;
        } else if (tokens->kinds[id] == OR_HF_USER && !over_bytes) {
            to = write_spaces(*piece, to);
        } else {
            continue;
        }
        *piece = (or_gguf_string_t){begin, (size_t)(to - begin) - 1};
    }
    return OR_OK;
}

// ---- all of it ----

static or_status_t take_tokens(or_hf_tokens_t *tokens)
{
    tokens->pieces = calloc(tokens->size, sizeof *tokens->pieces);
    tokens->kinds = calloc(tokens->size, sizeof *tokens->kinds);
    tokens->scores = calloc(tokens->size, sizeof *tokens->scores);
    return tokens->pieces != NULL && tokens->kinds != NULL && tokens->scores != NULL
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for %u tokens", tokens->size);
}

static or_status_t fill_tokens(or_json_t tokenizer, bool over_bytes, or_hf_tokens_t *tokens)
{
    or_status_t status = take_tokens(tokens);
    status = status != OR_OK ? status : put_vocabulary(tokenizer, over_bytes, tokens);
    return status != OR_OK ? status : or_hf_put_added(tokenizer, tokens);
}

static or_status_t check_model(or_json_t tokenizer)
{
    static const char *const absent[] = {"continuing_subword_prefix", "end_of_word_suffix",
                                         "dropout"};
    const json_t *model = json_object_get(tokenizer.object, "model");
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(json_object_get(model, "vocab")) ||
        !json_is_array(json_object_get(model, "merges")) ||
        (type != NULL && !or_json_is(type, "BPE"))) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: its model is of type \"%.40s\"; only BPE is converted", tokenizer.path,
                       json_is_string(type) ? json_string_value(type) : "");
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const json_t *value = json_object_get(model, absent[i]);
        if (value != NULL && !json_is_null(value) && !or_json_is(value, "")) {
            return or_fail(OR_ERR_UNSUPPORTED, "%s: its model has \"%s\", which GGUF cannot say",
                           tokenizer.path, absent[i]);
        }
    }
    return OR_OK;
}

static or_status_t write_tokens(const or_hf_tokens_t *tokens, or_gguf_writer_t *writer)
{
    or_status_t status =
        or_gguf_writer_set_strings(writer, "tokenizer.ggml.tokens", tokens->pieces, tokens->size);
    return status != OR_OK ? status
                           : or_gguf_writer_set_array(writer, "tokenizer.ggml.token_type",
                                                      OR_GGUF_I32, tokens->kinds, tokens->size);
}

static or_status_t write_over_bytes(or_json_t model, const char *rule, or_gguf_writer_t *writer)
{
    or_status_t status = or_gguf_writer_set_string(writer, "tokenizer.ggml.model", "gpt2");
    status =
        status != OR_OK ? status : or_gguf_writer_set_string(writer, "tokenizer.ggml.pre", rule);
    return status != OR_OK ? status : or_hf_write_merges(model, writer);
}

static or_status_t write_scores(const char *kind, bool adds_space, const or_hf_tokens_t *tokens,
                                or_gguf_writer_t *writer)
{
    or_status_t status = or_gguf_writer_set_string(writer, "tokenizer.ggml.model", kind);
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_bool(writer, "tokenizer.ggml.add_space_prefix", adds_space);
    return status != OR_OK ? status
                           : or_gguf_writer_set_array(writer, "tokenizer.ggml.scores", OR_GGUF_F32,
                                                      tokens->scores, tokens->size);
}

static or_status_t write_with_scores(bool adds_space, const or_hf_tokens_t *tokens,
                                     or_gguf_writer_t *writer)
{
    or_status_t status = or_gguf_writer_set_string(writer, "tokenizer.ggml.pre", "default");
    return status != OR_OK ? status : write_scores("llama", adds_space, tokens, writer);
}

// Tokens that mark thoughts and calls of tools print their text, as in llama.cpp's files: readers of conversations look for it.
static void show_marks(or_hf_tokens_t *tokens)
{
    static const char *const marks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                        "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                        "<|\"|>"};
    for (uint32_t id = 0; id < tokens->size; id++) {
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            const bool is_mark = tokens->kinds[id] == OR_HF_CONTROL &&
                                 strcmp(tokens->pieces[id].bytes, marks[i]) == 0;
            tokens->kinds[id] = is_mark ? OR_HF_USER : tokens->kinds[id];
        }
    }
}

#define UNSCORED (-1000.0f) // what llama.cpp writes where scores say nothing

static or_status_t write_with_merges(or_json_t model, bool adds_space, or_hf_tokens_t *tokens,
                                     or_gguf_writer_t *writer)
{
    show_marks(tokens);
    for (uint32_t id = 0; id < tokens->size; id++) {
        tokens->scores[id] = UNSCORED;
    }
    or_status_t status = write_scores("gemma4", adds_space, tokens, writer);
    return status != OR_OK ? status : or_hf_write_line_merges(model, tokens, writer);
}

static or_status_t write_over_characters(const or_hf_tokenizer_t *from, or_json_t model,
                                         or_hf_tokens_t *tokens, or_gguf_writer_t *writer)
{
    bool adds_space = false;
    or_status_t status = or_hf_check_characters(from->tokenizer, &adds_space);
    if (status == OR_OK && from->keeps_merges) {
        return write_with_merges(model, adds_space, tokens, writer);
    }
    status = status != OR_OK ? status : or_hf_fill_scores(model, tokens);
    return status != OR_OK ? status : write_with_scores(adds_space, tokens, writer);
}

static or_status_t write_json(const or_hf_tokenizer_t *from, or_hf_tokens_t *tokens,
                              bool *over_bytes, or_gguf_writer_t *writer)
{
    or_hf_pre_t rule = {.name = NULL};
    or_json_t model;
    or_status_t status = or_json_get_object(from->tokenizer, "model", &model);
    status = status != OR_OK ? status : check_model(from->tokenizer);
    status = status != OR_OK ? status : or_hf_find_rule(from->tokenizer, &rule);
    status = status != OR_OK ? status : fill_tokens(from->tokenizer, rule.name != NULL, tokens);
    *over_bytes = rule.name != NULL;
    status = status == OR_OK && *over_bytes ? or_hf_check_merges(model, tokens, rule) : status;
    if (status != OR_OK) {
        return status;
    }
    return *over_bytes ? write_over_bytes(model, rule.name, writer)
                       : write_over_characters(from, model, tokens, writer);
}

static or_status_t write_sentencepiece(const or_hf_tokenizer_t *from, or_hf_tokens_t *tokens,
                                       json_t **added_p, or_gguf_writer_t *writer)
{
    or_status_t status = take_tokens(tokens);
    status = status != OR_OK ? status : or_hf_fill_sentencepiece(from, tokens, added_p);
    return status != OR_OK ? status
                           : write_with_scores(from->sentencepiece->adds_space, tokens, writer);
}

or_status_t or_hf_vocabulary_write(const or_hf_tokenizer_t *from, or_gguf_writer_t *writer)
{
    or_hf_tokens_t tokens = {.size = from->size};
    json_t *added = NULL;
    bool over_bytes = false;
    or_status_t status = from->tokenizer.object != NULL
                             ? write_json(from, &tokens, &over_bytes, writer)
                             : write_sentencepiece(from, &tokens, &added, writer);
    // Roles are found by the pieces as the files have them, before these are rewritten.
    status = status != OR_OK ? status : or_hf_write_roles(from, &tokens, writer);
    status = status != OR_OK ? status : rewrite_pieces(over_bytes, &tokens);
    status = status != OR_OK ? status : write_tokens(&tokens, writer);
    json_decref(added);
    free(tokens.text);
    free(tokens.scores);
    free(tokens.kinds);
    free(tokens.pieces);
    return status;
}
