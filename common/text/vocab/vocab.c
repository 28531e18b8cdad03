#include "common/text/vocab/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/text/vocab/vocab_internal.h"

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
    if (model.length == 6 && memcmp(model.bytes, "gemma4", 6) == 0) {
        vocab->model = "gemma4";
        vocab->by_lines = true;
        return OR_OK;
    }
    return or_fail(
        OR_ERR_UNSUPPORTED,
        "%s: its tokenizer \"%.*s\" is not supported; \"llama\", \"gpt2\" and \"gemma4\" are",
        or_gguf_path(gguf), model.length < 32 ? (int)model.length : 32, model.bytes);
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
    return or_gguf_optional(or_gguf_get_bool(gguf, key, flag));
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

static or_status_t read_suppressed(const or_gguf_t *gguf, or_vocab_t *vocab)
{
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    or_gguf_array_t ids;
    if (!or_gguf_has(gguf, key)) {
        return OR_OK;
    }
    or_status_t status = or_gguf_get_array(gguf, key, OR_GGUF_I32, &ids);
    status = status != OR_OK ? or_gguf_get_array(gguf, key, OR_GGUF_U32, &ids) : status;
    for (uint64_t i = 0; status == OR_OK && i < ids.count; i++) {
        uint32_t id;
        memcpy(&id, (const uint8_t *)ids.data + i * sizeof id, sizeof id);
        if (id < vocab->size && !vocab->tokens[id].suppressed) {
            vocab->tokens[id].suppressed = true;
            vocab->suppressed_count++;
        }
    }
    return status != OR_OK || vocab->suppressed_count < vocab->size
               ? status
               : or_fail(OR_ERR_FORMAT, "%s: %s has all tokens, so that none could be drawn",
                         or_gguf_path(gguf), key);
}

// Return the special token that is spelled so, or OR_TOKEN_NONE.
static int32_t find_special(const or_vocab_t *vocab, const char *piece)
{
    size_t length = strlen(piece);
    int32_t id = or_vocab_marked_at(vocab, piece, length, true);
    return id != OR_TOKEN_NONE && vocab->tokens[id].piece_length == length ? id : OR_TOKEN_NONE;
}

// Mark the tokens that end a turn in chat models. Many files have another end token as eos and do not mention this one.
static void find_turn_ends(or_vocab_t *vocab)
{
    // A format is that of a vocabulary with both of `marks`. The last one is of all others.
    static const struct {
        const char *marks[2];
        const char *ends[10];
    } formats[] = {
        // In gpt-oss's format, harmony, <|end|> closes one of several messages of a turn: the answer follows the
        // reasoning.
        {{"<|return|>", "<|call|>"}, {"<|return|>", "<|call|>", "<|endoftext|>"}},
        // GLM writes the beginning of what it waits for.
        {{"[gMASK]", "<sop>"}, {"<|endoftext|>", "<|user|>", "<|observation|>"}},
        // GigaChat closes each message, and the name of who writes it, in its own way.
        {{"<|role_sep|>", "<|message_sep|>"}, {"<|message_sep|>"}},
        {{NULL},
         {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<turn|>",
          "<|END_OF_TURN_TOKEN|>", "<|end_of_sentence|>", "[|endofturn|]"}},
    };
    size_t i = 0;
    while (formats[i].marks[0] != NULL &&
           (find_special(vocab, formats[i].marks[0]) == OR_TOKEN_NONE ||
            find_special(vocab, formats[i].marks[1]) == OR_TOKEN_NONE)) {
        i++;
    }
    for (const char *const *end = formats[i].ends; *end != NULL; end++) {
        int32_t id = find_special(vocab, *end);
        if (id != OR_TOKEN_NONE) {
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
        status = read_flag(gguf, "tokenizer.ggml.add_space_prefix", !vocab->by_lines,
                           &vocab->adds_space);
    }
    vocab->adds_bos = vocab->adds_bos && vocab->bos != OR_TOKEN_NONE;
    return status;
}

// Check that any text has tokens. SentencePiece needs a byte token for each byte, or the unknown
// token for the rest. A byte that a byte-level vocabulary lacks concerns only texts that have it (tokenizer.h).
static or_status_t check_fallback(const or_gguf_t *gguf, const or_vocab_t *vocab)
{
    for (unsigned i = 0; i < 256; i++) {
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

// Read the pre-tokenisation rule; *rule is NULL for SentencePiece, which has none.
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
    const or_pre_rule_t *rule = NULL;
    or_status_t status = read_model(gguf, vocab);
    if (status == OR_OK) {
        status = read_rule(gguf, vocab, &rule);
    }
    if (status == OR_OK) {
        status = or_vocab_read_tokens(gguf, vocab);
    }
    if (status == OR_OK) {
        status = read_roles(gguf, rule, vocab);
    }
    if (status == OR_OK) {
        status = read_suppressed(gguf, vocab);
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

bool or_vocab_is_suppressed(const or_vocab_t *vocab, int32_t id)
{
    return token_of(vocab, id)->suppressed;
}

uint32_t or_vocab_suppressed_count(const or_vocab_t *vocab)
{
    return vocab->suppressed_count;
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
