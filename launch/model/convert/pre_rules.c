// Which rule cuts a text before bytes are merged: tokenizer.json describes its steps, GGUF names them.
//
// Steps are compared as they are written, so that nothing is recognised which is only similar. Each becomes a line:
//
//     Split        "split PATTERN"       its matches and what lies between are pieces
//     Digits       "digits"              each by itself
//     ByteLevel    "bytes", or "bytes gpt2" where it cuts as GPT-2 does
//
// Line breaks within patterns are written as \r and \n. common/text/pretokenizers.c has what each name does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/text/pretokenize.h"
#include "launch/model/convert/vocabulary.h"

#define GPT_4(numbers)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CAPITALS "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALLS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT_4O(suffix, numbers)                                                                    \
    CAPITALS "*" SMALLS "+" suffix "|" CAPITALS "+" SMALLS "*" suffix "|" numbers                  \
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define HAN_AND_KANA /* U+4E00 to U+9FA5, U+3040 to U+309F and U+30A0 to U+30FF */                 \
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
#define DEEPSEEK                                                                                   \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// Of rows with the same steps the first one is taken whose rule treats pieces that are tokens as the tokenizer does
// ("ignore_merges"). Where a pattern leaves nothing between its matches, dropping that is the same ("Removed").
static const struct {
    const char *steps, *name;
    bool leaves_nothing;
} rules[] = {
    {"bytes gpt2", "gpt-2", false},
    {"split 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+\n"
     "bytes",
     "gpt-2", true},
    {"digits\nbytes gpt2", "starcoder", false},
    {"split " GPT_4("\\p{N}{1,3}") "\nbytes", "llama-bpe", true},
    {"split " GPT_4("\\p{N}{1,3}") "\nbytes", "dbrx", true},
    {"split " GPT_4("\\p{N}") "\nbytes", "qwen2", true},
    {"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+\nbytes",
     "qwen35", true},
    {"split " GPT_4O(SUFFIX, "\\p{N}{1,3}") "\nbytes", "gpt-4o", true},
    {"split " GPT_4O("", "\\p{N}") "\nbytes", "tekken", true},
    {"split \\p{N}{1,3}\nsplit " HAN_AND_KANA "\nsplit " DEEPSEEK "\nbytes", "deepseek-v3", false},
};

// ---- the steps ----

typedef struct {
    or_json_t tokenizer;
    char *lines; // malloc'd
    size_t length;
    bool drops; // a step drops what lies between its matches
} steps_t;

static or_status_t add_text(steps_t *steps, const char *text, size_t length)
{
    char *longer = realloc(steps->lines, steps->length + 2 * length + 1);
    if (longer == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the steps of %s", steps->tokenizer.path);
    }
    steps->lines = longer;
    for (size_t i = 0; i < length; i++) {
        bool breaks = text[i] == '\r' || text[i] == '\n';
        if (breaks) {
            longer[steps->length++] = '\\';
        }
        longer[steps->length++] = !breaks ? text[i] : text[i] == '\r' ? 'r' : 'n';
    }
    longer[steps->length] = '\0';
    return OR_OK;
}

static or_status_t add_line(steps_t *steps, const char *word, or_gguf_string_t rest)
{
    or_status_t status = OR_OK;
    if (steps->length > 0) {
        status = add_text(steps, ".", 1); // makes room
        if (status == OR_OK) {
            steps->lines[steps->length - 1] = '\n';
        }
    }
    status = status != OR_OK ? status : add_text(steps, word, strlen(word));
    return status != OR_OK ? status : add_text(steps, rest.bytes, rest.length);
}

static or_status_t fail_step(const steps_t *steps, const char *what)
{
    return or_fail(OR_ERR_UNSUPPORTED, "%s: its pre_tokenizer has %s, for which GGUF has no name",
                   steps->tokenizer.path, what);
}

static or_status_t add_split(steps_t *steps, const json_t *step)
{
    const json_t *pattern = json_object_get(json_object_get(step, "pattern"), "Regex");
    const json_t *behavior = json_object_get(step, "behavior");
    bool invert = json_is_true(json_object_get(step, "invert"));
    bool drops = or_json_is(behavior, "Removed") && invert;
    if (!json_is_string(pattern) || !(drops || (or_json_is(behavior, "Isolated") && !invert))) {
        return fail_step(steps, "a Split that is not by a Regex and Isolated");
    }
    steps->drops = steps->drops || drops;
    return add_line(steps, "split ", or_json_string(pattern));
}

static or_status_t add_bytes(steps_t *steps, const json_t *step)
{
    const or_gguf_string_t none = {"", 0};
    if (json_is_true(json_object_get(step, "add_prefix_space"))) {
        return fail_step(steps, "\"add_prefix_space\"");
    }
    bool cuts = !json_is_false(json_object_get(step, "use_regex"));
    return add_line(steps, cuts ? "bytes gpt2" : "bytes", none);
}

static or_status_t add_digits(steps_t *steps, const json_t *step)
{
    const or_gguf_string_t none = {"", 0};
    return json_is_true(json_object_get(step, "individual_digits"))
               ? add_line(steps, "digits", none)
               : fail_step(steps, "Digits that are not individual");
}

static or_status_t add_step(steps_t *steps, const json_t *step)
{
    const json_t *type = json_object_get(step, "type");
    if (or_json_is(type, "Split")) {
        return add_split(steps, step);
    }
    if (or_json_is(type, "ByteLevel")) {
        return add_bytes(steps, step);
    }
    if (or_json_is(type, "Digits")) {
        return add_digits(steps, step);
    }
    char what[64];
    snprintf(what, sizeof what, "a step %.40s",
             json_is_string(type) ? json_string_value(type) : "without a type");
    return fail_step(steps, what);
}

static or_status_t add_steps(steps_t *steps, const json_t *pre)
{
    if (!or_json_is(json_object_get(pre, "type"), "Sequence")) {
        return add_step(steps, pre);
    }
    const json_t *list = json_object_get(pre, "pretokenizers");
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < json_array_size(list); i++) {
        status = add_step(steps, json_array_get(list, i));
    }
    return status;
}

// ---- the rule ----

// Does any step make bytes of the text?
static bool is_over_bytes(const json_t *pre)
{
    const json_t *list = json_object_get(pre, "pretokenizers");
    bool found = or_json_is(json_object_get(pre, "type"), "ByteLevel");
    for (size_t i = 0; i < json_array_size(list); i++) {
        found = found || or_json_is(json_object_get(json_array_get(list, i), "type"), "ByteLevel");
    }
    return found;
}

static or_status_t find_name(const steps_t *steps, bool ignores_merges, const char **name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const or_pre_rule_t *rule = or_pre_rule_find(rules[i].name, strlen(rules[i].name));
        if (strcmp(rules[i].steps, steps->lines) == 0 && rule->ignores_merges == ignores_merges &&
            (!steps->drops || rules[i].leaves_nothing)) {
            *name = rules[i].name;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: no known rule cuts text as its pre_tokenizer does%s, so its "
                   "tokenizer.ggml.pre is not known: %.300s",
                   steps->tokenizer.path, ignores_merges ? " with ignore_merges" : "",
                   steps->lines);
}

// Normal forms are told, as GGUF cannot ask for them and the text is taken as it is; nothing else may change it.
static or_status_t check_normalizer(or_json_t tokenizer)
{
    const json_t *normalizer = json_object_get(tokenizer.object, "normalizer");
    const json_t *type = json_object_get(normalizer, "type");
    const json_t *list = json_object_get(normalizer, "normalizers");
    if (normalizer == NULL || json_is_null(normalizer) ||
        (or_json_is(type, "Sequence") && json_array_size(list) == 0)) {
        return OR_OK;
    }
    if (or_json_is(type, "NFC")) {
        or_log(OR_LOG_INFO,
               "%s: texts are normalised (NFC) in training; Outrider takes them as they are",
               tokenizer.path);
        return OR_OK;
    }
    return or_fail(OR_ERR_UNSUPPORTED, "%s: its normalizer \"%.40s\" is not known", tokenizer.path,
                   json_is_string(type) ? json_string_value(type) : "");
}

or_status_t or_hf_find_rule(or_json_t tokenizer, const char **name)
{
    const json_t *pre = json_object_get(tokenizer.object, "pre_tokenizer");
    const json_t *model = json_object_get(tokenizer.object, "model");
    steps_t steps = {.tokenizer = tokenizer};
    *name = NULL;
    if (!is_over_bytes(pre)) {
        return OR_OK;
    }
    or_status_t status = check_normalizer(tokenizer);
    status = status != OR_OK ? status : add_steps(&steps, pre);
    status = status != OR_OK
                 ? status
                 : find_name(&steps, json_is_true(json_object_get(model, "ignore_merges")), name);
    free(steps.lines);
    return status;
}
