// Tokens are those of transformers' GPT2Tokenizer: one with a role is found in any text, whatever merges make of its bytes.
#include "launch/model/convert/tokenizer/bpe_files.h"

#include <inttypes.h>
#include <string.h>

#include "launch/model/convert/vocabulary.h"

#define CLASS "GPT2Tokenizer"
#define USUAL_ROLE "<|endoftext|>"
#define OTHER_ROLES "additional_special_tokens" // a list

static or_status_t no_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for a tokenizer");
}

static or_status_t check_class(or_json_t settings)
{
    const json_t *class = json_object_get(settings.object, "tokenizer_class");
    return or_json_is(class, CLASS) || or_json_is(class, CLASS "Fast")
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "vocab.json and merges.txt: how texts are cut is in Python code of the "
                         "class \"%.64s\" (tokenizer_config.json); only that of " CLASS
                         " (GPT-2, OPT) is known",
                         json_is_string(class) ? json_string_value(class) : "");
}

// ---- merges ----

// The first line may be a comment. A merge itself is checked where it is converted.
static or_status_t list_merges(const char *text, json_t *merges)
{
    uint32_t line = 0;
    size_t length;
    for (const char *at = text; *at != '\0'; at += length + (at[length] != '\0')) {
        length = strcspn(at, "\n");
        const size_t used = length - (length > 0 && at[length - 1] == '\r');
        const bool is_comment = line++ == 0 && strncmp(at, "#version", 8) == 0;
        if (used > 0 && !is_comment && json_array_append_new(merges, json_stringn(at, used)) != 0) {
            return or_fail(OR_ERR_FORMAT, "merges.txt: line %" PRIu32 " is not UTF-8", line);
        }
    }
    return OR_OK;
}

// ---- tokens with a role ----

// List a token that a setting names, a text or an object with a content, if there is one of this name.
static bool list_named(const or_bpe_files_t *files, const json_t *named, json_t *added)
{
    const json_t *content = json_is_object(named) ? json_object_get(named, "content") : named;
    const char *name = json_string_value(content);
    json_t *id = name != NULL ? json_object_get(files->vocab, name) : NULL;
    id = id == NULL && name != NULL ? json_object_get(files->added.object, name) : id;
    return id == NULL || json_array_append_new(added, json_pack("{s:s, s:O, s:b}", "content", name,
                                                                "id", id, "special", 1)) == 0;
}

// Older settings, which do not list the added tokens, give way to special_tokens_map.json. Roles that neither names are the
// class's own token, if the vocabulary has it; null names none. Both may list other special tokens.
static or_status_t complete_settings(const or_bpe_files_t *files)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token"};
    json_t *settings = files->settings;
    bool counts = files->roles != NULL && json_object_get(settings, "added_tokens_decoder") == NULL;
    json_t *others = json_object_get(settings, OTHER_ROLES);
    json_t *more = counts ? json_object_get(files->roles, OTHER_ROLES) : NULL;
    if (json_is_array(others) && json_is_array(more) && json_array_extend(more, others) != 0) {
        return no_memory();
    }
    bool has_memory = !counts || json_object_update(settings, files->roles) == 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (json_object_get(settings, keys[i]) == NULL &&
            json_object_get(files->vocab, USUAL_ROLE) != NULL) {
            has_memory =
                has_memory && json_object_set_new(settings, keys[i], json_string(USUAL_ROLE)) == 0;
        }
    }
    return has_memory ? OR_OK : no_memory();
}

static or_status_t list_roles(const or_bpe_files_t *files, json_t *added)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                       "sep_token", "cls_token", "mask_token"};
    const json_t *settings = files->settings;
    const json_t *others = json_object_get(settings, OTHER_ROLES);
    bool has_memory = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        has_memory = has_memory && list_named(files, json_object_get(settings, keys[i]), added);
    }
    for (size_t i = 0; i < json_array_size(others); i++) {
        has_memory = has_memory && list_named(files, json_array_get(others, i), added);
    }
    return has_memory ? OR_OK : no_memory();
}

// ---- all of it ----

or_status_t or_hf_read_bpe_files(const or_bpe_files_t *files, json_t **tokenizer_p)
{
    const or_json_t settings = {"tokenizer_config.json", files->settings};
    json_t *merges = json_array();
    json_t *added = or_hf_list_added(files->added, settings);
    bool adds_space = false;
    *tokenizer_p = NULL;
    or_status_t status = merges != NULL && added != NULL ? check_class(settings) : no_memory();
    status = status != OR_OK ? status : list_merges(files->merges, merges);
    status = status != OR_OK ? status : complete_settings(files);
    status = status != OR_OK ? status : list_roles(files, added);
    status = status != OR_OK ? status : or_json_get_bool(settings, "add_prefix_space", &adds_space);
    if (status == OR_OK) {
        *tokenizer_p =
            json_pack("{s:{s:s, s:b, s:b}, s:{s:s, s:O, s:O}, s:O}", "pre_tokenizer", "type",
                      "ByteLevel", "add_prefix_space", adds_space, "use_regex", 1, "model", "type",
                      "BPE", "vocab", files->vocab, "merges", merges, "added_tokens", added);
        status = *tokenizer_p != NULL ? OR_OK : no_memory();
    }
    json_decref(added);
    json_decref(merges);
    return status;
}
