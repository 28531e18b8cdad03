// A tokenizer.model alone, as older checkpoints have it: its pieces with their scores, and tokens that files beside it add.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launch/model/convert/vocabulary.h"

// ---- what is converted ----

static or_status_t fail(const char *what)
{
    return or_fail(OR_ERR_UNSUPPORTED, "tokenizer.model: %s", what);
}

static or_status_t check_type(const or_sentencepiece_t *model)
{
    static const char *const names[] = {"of no known type", "Unigram", "BPE", "words",
                                        "characters"};
    const uint32_t type = model->type <= OR_SENTENCEPIECE_CHAR ? model->type : 0;
    return type == OR_SENTENCEPIECE_BPE
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "tokenizer.model: its pieces are %s; only BPE is converted", names[type]);
}

static or_status_t check_rules(const or_sentencepiece_t *model)
{
    const int length = model->normalizer.length < 32 ? (int)model->normalizer.length : 32;
    or_status_t status = check_type(model);
    if (status != OR_OK) {
        return status;
    }
    if (model->normalises) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tokenizer.model: it brings texts into another form (\"%.*s\"), which GGUF "
                       "cannot say",
                       length, length > 0 ? model->normalizer.bytes : "");
    }
    return !model->has_bytes       ? fail("it has no \"byte_fallback\"")
           : model->removes_spaces ? fail("it removes spaces, which GGUF cannot say")
           : !model->escapes_spaces || model->puts_space_behind
               ? fail("it writes spaces otherwise than before a word as U+2581")
               : OR_OK;
}

// An unused piece is no token, but others may be merged by way of it, which GGUF cannot say.
static or_status_t check_pieces(const or_sentencepiece_t *model)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < model->count; i++) {
        bytes += model->kinds[i] == OR_HF_BYTE;
        if (model->kinds[i] == OR_HF_UNUSED) {
            return fail("it has unused pieces, which GGUF cannot say");
        }
        if (!isfinite(model->scores[i])) {
            return or_fail(OR_ERR_FORMAT, "tokenizer.model: piece %u has a score that is no number",
                           i);
        }
    }
    return bytes == 256
               ? OR_OK
               : or_fail(OR_ERR_FORMAT, "tokenizer.model: it has %u pieces of bytes", bytes);
}

// ---- tokens ----

// Append one that "added_tokens" of a tokenizer.json would have.
static void append_added(json_t *list, const char *content, json_int_t id, bool is_special)
{
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:b}", "content", content, "id", id, "special", is_special));
}

json_t *or_hf_list_added(or_json_t added, or_json_t settings)
{
    const json_t *decoder = json_object_get(settings.object, "added_tokens_decoder");
    json_t *list = json_array();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)added.object, key, value)
    {
        append_added(list, key, json_is_integer(value) ? json_integer_value(value) : -1, false);
    }
    json_object_foreach((json_t *)decoder, key, value)
    {
        const char *content = json_string_value(json_object_get(value, "content"));
        char *end = NULL;
        long id = strtol(key, &end, 10);
        bool is_number = key[0] >= '0' && key[0] <= '9' && *end == '\0';
        append_added(list, content != NULL ? content : "", is_number ? id : -1,
                     json_is_true(json_object_get(value, "special")));
    }
    return list;
}

static or_status_t put_pieces(const or_hf_tokenizer_t *from, or_hf_tokens_t *tokens)
{
    const or_sentencepiece_t *model = from->sentencepiece;
    if (model->count > tokens->size) {
        return or_fail(OR_ERR_FORMAT, "tokenizer.model: it has %u pieces, and the model %u tokens",
                       model->count, tokens->size);
    }
    memcpy(tokens->pieces, model->pieces, model->count * sizeof *model->pieces);
    memcpy(tokens->kinds, model->kinds, model->count * sizeof *model->kinds);
    memcpy(tokens->scores, model->scores, model->count * sizeof *model->scores);
    return OR_OK;
}

or_status_t or_hf_fill_sentencepiece(const or_hf_tokenizer_t *from, or_hf_tokens_t *tokens,
                                     json_t **added_p)
{
    or_status_t status = check_rules(from->sentencepiece);
    status = status != OR_OK ? status : check_pieces(from->sentencepiece);
    status = status != OR_OK ? status : put_pieces(from, tokens);
    if (status != OR_OK) {
        return status;
    }
    *added_p = json_pack("{s:o}", "added_tokens", or_hf_list_added(from->added, from->settings));
    return *added_p == NULL ? or_fail(OR_ERR_NO_MEMORY, "no memory for a list of added tokens")
                            : or_hf_put_added((or_json_t){from->settings.path, *added_p}, tokens);
}
