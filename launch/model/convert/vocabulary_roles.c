// Tokens with a role, and how a chat is written: from tokenizer_config.json, else from config.json, and the ends of texts from
// generation_config.json as well. That has the tokens that are never drawn, too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "launch/model/convert/vocabulary.h"

#define NO_TOKEN (-1)

typedef struct {
    const or_hf_tokenizer_t *from;
    const or_hf_tokens_t *tokens;
    or_gguf_writer_t *writer;
    int64_t begin, end; // NO_TOKEN: there is none
} roles_t;

// ---- finding tokens ----

static int64_t find_piece(const or_hf_tokens_t *tokens, or_gguf_string_t piece)
{
    for (uint32_t id = 0; id < tokens->size; id++) {
        const or_gguf_string_t *other = &tokens->pieces[id];
        if (other->bytes != NULL && other->length == piece.length &&
            memcmp(other->bytes, piece.bytes, piece.length) == 0) {
            return id;
        }
    }
    return NO_TOKEN;
}

// The token that a setting names: a text, or an object with a content.
static int64_t find_named(const roles_t *roles, const char *key)
{
    const json_t *value = json_object_get(roles->from->settings.object, key);
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(content) ? find_piece(roles->tokens, or_json_string(content)) : NO_TOKEN;
}

// Token i of a value that is an id or a list of ids.
static int64_t id_at(const roles_t *roles, const json_t *value, size_t i)
{
    const json_t *id = json_is_array(value) ? json_array_get(value, i) : i == 0 ? value : NULL;
    json_int_t number = json_integer_value(id);
    return json_is_integer(id) && number >= 0 && number < roles->tokens->size ? number : NO_TOKEN;
}

// The id that a tokenizer.model gives a role; that of its piece, if no other file says one.
static int64_t id_in_model(const roles_t *roles, const char *role)
{
    const or_sentencepiece_t *model = roles->from->sentencepiece;
    if (model == NULL) {
        return NO_TOKEN;
    }
    int64_t id = strcmp(role, "bos") == 0   ? model->begin
                 : strcmp(role, "eos") == 0 ? model->end
                 : strcmp(role, "unk") == 0 ? model->unknown
                                            : model->padding;
    return id >= 0 && id < roles->tokens->size ? id : NO_TOKEN;
}

// The part of config.json whose setting counts. As in transformers that is the file itself, if it has the setting.
static or_json_t part_with(const roles_t *roles, const char *key)
{
    return or_json_has(roles->from->config, key) ? roles->from->config : roles->from->text;
}

static int64_t find_role(const roles_t *roles, const char *role)
{
    char key[32];
    snprintf(key, sizeof key, "%s_token", role);
    int64_t named = find_named(roles, key);
    snprintf(key, sizeof key, "%s_token_id", role);
    int64_t id = id_at(roles, json_object_get(part_with(roles, key).object, key), 0);
    return named != NO_TOKEN ? named : id != NO_TOKEN ? id : id_in_model(roles, role);
}

// ---- writing ----

static or_status_t write_role(const roles_t *roles, const char *key, int64_t id)
{
    return id != NO_TOKEN ? or_gguf_writer_set_u32(roles->writer, key, (uint32_t)id) : OR_OK;
}

static or_status_t write_named(roles_t *roles)
{
    const json_t *model = json_object_get(roles->from->tokenizer.object, "model");
    const json_t *unknown_piece = json_object_get(model, "unk_token");
    roles->begin = find_role(roles, "bos");
    roles->end = find_role(roles, "eos");
    int64_t unknown = find_role(roles, "unk");
    if (unknown == NO_TOKEN && json_is_string(unknown_piece)) {
        unknown = find_piece(roles->tokens, or_json_string(unknown_piece));
    }
    or_status_t status = write_role(roles, "tokenizer.ggml.bos_token_id", roles->begin);
    status =
        status != OR_OK ? status : write_role(roles, "tokenizer.ggml.eos_token_id", roles->end);
    status =
        status != OR_OK ? status : write_role(roles, "tokenizer.ggml.unknown_token_id", unknown);
    return status != OR_OK
               ? status
               : write_role(roles, "tokenizer.ggml.padding_token_id", find_role(roles, "pad"));
}

// The other tokens that end a text, as far as GGUF has places for them.
static or_status_t write_other_ends(const roles_t *roles)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char key[] = "eos_token_id";
    const or_json_t sources[] = {roles->from->generation, part_with(roles, key)};
    const size_t places = sizeof keys / sizeof *keys;
    int64_t found[2] = {NO_TOKEN, NO_TOKEN};
    size_t count = 0;
    or_status_t status = OR_OK;
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        const json_t *value = json_object_get(sources[s].object, key);
        size_t length = json_is_array(value) ? json_array_size(value) : 1;
        for (size_t i = 0; status == OR_OK && i < length; i++) {
            int64_t id = id_at(roles, value, i);
            if (id == NO_TOKEN || id == roles->end || id == found[0] || id == found[1]) {
                continue;
            }
            if (count == places) {
                or_log(OR_LOG_WARN, "%s: token %lld ends a text too, but GGUF has no place for it",
                       sources[s].path, (long long)id);
                continue;
            }
            found[count] = id;
            status = write_role(roles, keys[count++], id);
        }
    }
    return status;
}

// ---- tokens that are never drawn ----

// The ids that transformers' generate suppresses; those that no token has change nothing.
static or_status_t write_suppressed(const roles_t *roles)
{
    const json_t *list = json_object_get(roles->from->generation.object, "suppress_tokens");
    const json_t *at_begin =
        json_object_get(roles->from->generation.object, "begin_suppress_tokens");
    int32_t *ids = malloc((json_array_size(list) + 1) * sizeof *ids);
    uint64_t count = 0;
    if (json_array_size(at_begin) > 0) {
        or_log(OR_LOG_WARN,
               "%s: \"begin_suppress_tokens\" suppresses tokens at the beginning of a text, which "
               "GGUF cannot say",
               roles->from->generation.path);
    }
    if (ids == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for suppressed tokens");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const int64_t id = id_at(roles, list, i);
        ids[count] = (int32_t)id;
        count += id != NO_TOKEN;
    }
    or_status_t status =
        count > 0 ? or_gguf_writer_set_array(roles->writer, "tokenizer.ggml.suppress_tokens",
                                             OR_GGUF_I32, ids, count)
                  : OR_OK;
    free(ids);
    return status;
}

// ---- what is put before a text ----

// Find the step that writes special tokens around a text; NULL if there is none.
static const json_t *find_template(const json_t *processor)
{
    const json_t *list = json_object_get(processor, "processors");
    if (or_json_is(json_object_get(processor, "type"), "TemplateProcessing")) {
        return processor;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *step = json_array_get(list, i);
        if (or_json_is(json_object_get(step, "type"), "TemplateProcessing")) {
            return step;
        }
    }
    return NULL;
}

// Does a template write the begin token before a text? Other tokens there cannot be said, and are told: chat templates that need
// them write them themselves.
static bool read_template(const roles_t *roles)
{
    const or_json_t tokenizer = roles->from->tokenizer;
    const json_t *step = find_template(json_object_get(tokenizer.object, "post_processor"));
    const json_t *single = json_object_get(step, "single");
    bool adds_begin = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *token = json_object_get(json_array_get(single, i), "SpecialToken");
        const json_t *name = json_object_get(token, "id");
        if (!json_is_string(name)) {
            return adds_begin; // the text
        }
        int64_t id = find_piece(roles->tokens, or_json_string(name));
        if (i == 0 && id != NO_TOKEN && id == roles->begin) {
            adds_begin = true;
        } else {
            or_log(OR_LOG_WARN, "%s: %.64s stands before texts in training, which GGUF cannot say",
                   tokenizer.path, json_string_value(name));
        }
    }
    return adds_begin;
}

// A tokenizer.model says nothing of it: transformers then puts the begin token before a text.
static or_status_t write_begin(const roles_t *roles)
{
    bool adds = roles->from->sentencepiece != NULL || read_template(roles);
    or_status_t status = or_json_get_bool(roles->from->settings, "add_bos_token", &adds);
    return status != OR_OK
               ? status
               : or_gguf_writer_set_bool(roles->writer, "tokenizer.ggml.add_bos_token", adds);
}

// ---- the chat template ----

// The template of a setting that is one, or a list of named ones of which one is the default.
static const json_t *find_chat_template(const json_t *value)
{
    if (json_is_string(value)) {
        return value;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        if (or_json_is(json_object_get(entry, "name"), "default")) {
            return json_object_get(entry, "template");
        }
    }
    return NULL;
}

static or_status_t write_chat_template(const roles_t *roles)
{
    const json_t *value = json_object_get(roles->from->settings.object, "chat_template");
    const json_t *found = find_chat_template(value);
    const char *text =
        roles->from->chat_template != NULL ? roles->from->chat_template : json_string_value(found);
    return text != NULL ? or_gguf_writer_set_string(roles->writer, "tokenizer.chat_template", text)
                        : OR_OK;
}

or_status_t or_hf_write_roles(const or_hf_tokenizer_t *from, const or_hf_tokens_t *tokens,
                              or_gguf_writer_t *writer)
{
    roles_t roles = {.from = from, .tokens = tokens, .writer = writer};
    or_status_t status = write_named(&roles);
    status = status != OR_OK ? status : write_other_ends(&roles);
    status = status != OR_OK ? status : write_suppressed(&roles);
    status = status != OR_OK ? status : write_begin(&roles);
    return status != OR_OK ? status : write_chat_template(&roles);
}
