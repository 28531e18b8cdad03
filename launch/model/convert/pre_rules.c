// Which rule cuts a text before bytes are merged: tokenizer.json describes its steps, GGUF names them.
//
// Steps are compared as they are written, so that nothing is recognised which is only similar. Each becomes a line:
//
//     Split        "split PATTERN"       its matches and what lies between are pieces
//     Digits       "digits"              each by itself, or "numbers": runs of them
//     Punctuation  "punctuation"         runs of it
//     ByteLevel    "bytes", or "bytes gpt2" where it cuts as GPT-2 does
//
// Line breaks within patterns are written as \r and \n, and characters outside ASCII as \x{4E00}.
// common/text/pretokenizers.c has what each name does.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/text/deepseek_letters.h"
#include "common/text/pretokenize.h"
#include "common/text/utf8.h"
#include "launch/model/convert/tokenizer/kimi.h"
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
#define HAN_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define DEEPSEEK                                                                                   \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define DEEPSEEK_CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

// Of rows with the same steps the first one is preferred whose rule treats pieces that are tokens as the tokenizer does
// ("ignore_merges"). Where a pattern leaves nothing between its matches, dropping that is the same ("Removed"). A step behind
// the one that makes bytes of the text cuts byte by byte, as no rule can: it is left to the merges, which must not cross it.
static const struct {
    const char *steps, *name;
    bool leaves_nothing;
    or_hf_numbers_t numbers;
} rules[] = {
    {"bytes gpt2", "gpt-2", false, OR_HF_NUMBERS_ANY},
    {"split 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+\n"
     "bytes",
     "gpt-2", true, OR_HF_NUMBERS_ANY},
    {"digits\nbytes gpt2", "starcoder", false, OR_HF_NUMBERS_ANY},
    {"split " GPT_4("\\p{N}{1,3}") "\nbytes", "llama-bpe", true, OR_HF_NUMBERS_ANY},
    {"split " GPT_4("\\p{N}{1,3}") "\nbytes", "dbrx", true, OR_HF_NUMBERS_ANY},
    {"split " GPT_4("\\p{N}") "\nbytes", "qwen2", true, OR_HF_NUMBERS_ANY},
    {"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+\nbytes",
     "qwen35", true, OR_HF_NUMBERS_ANY},
    {"split " GPT_4O(SUFFIX, "\\p{N}{1,3}") "\nbytes", "gpt-4o", true, OR_HF_NUMBERS_ANY},
    {"split " GPT_4O("", "\\p{N}") "\nbytes", "tekken", true, OR_HF_NUMBERS_ANY},
    {"split \\p{N}{1,3}\nsplit " HAN_AND_KANA "\nsplit " DEEPSEEK "\nbytes", "deepseek-v3", false,
     OR_HF_NUMBERS_ANY},
    {"split [\\r\\n]\nsplit \\s?[" OR_DEEPSEEK_LETTERS
     "]+\nsplit \\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-"
     "\\x{201F}\\x{3000}-\\x{3002}]+\nsplit \\s+$\nsplit " DEEPSEEK_CJK "\ndigits\nbytes",
     "deepseek-llm", false, OR_HF_NUMBERS_ANY},
    {"split [\\r\\n]\nsplit \\s?\\p{L}+\nsplit \\s?\\p{P}+\nsplit " DEEPSEEK_CJK "\ndigits\nbytes",
     "deepseek-coder", false, OR_HF_NUMBERS_ANY},
    {"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}"
     "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+\nbytes",
     "seed-coder", true, OR_HF_NUMBERS_ANY},
    {"split " OR_KIMI_PATTERN "\nbytes", "kimi-k2", true, OR_HF_NUMBERS_ANY},
    {"split \\d{1,3}(?=(?:\\d{3})*\\b)\nsplit " GPT_4O(SUFFIX, "\\p{N}{1,3}") "\nbytes", "tiny_aya",
     false, OR_HF_NUMBERS_ANY},
    {"punctuation\nbytes gpt2\nnumbers\nsplit [0-9][0-9][0-9]", "falcon", false,
     OR_HF_NUMBERS_APART},
    {"punctuation\nbytes gpt2\ndigits", "falcon", false, OR_HF_NUMBERS_ALONE},
};

// ---- the steps ----

typedef struct {
    or_json_t tokenizer;
    char *lines; // malloc'd
    size_t length;
    bool drops; // a step drops what lies between its matches
} steps_t;

// Write a character; returns the end. A zero becomes five bytes, which is most for each.
static char *write_character(const char *text, size_t used, char *to)
{
    if (used > 1 || *text == '\0') {
        return to + sprintf(to, "\\x{%" PRIX32 "}", or_utf8_code_point(text, used));
    }
    bool breaks = *text == '\r' || *text == '\n';
    if (breaks) {
        *to++ = '\\';
    }
    *to++ = !breaks ? *text : *text == '\r' ? 'r' : 'n';
    return to;
}

static or_status_t add_text(steps_t *steps, const char *text, size_t length)
{
    char *longer = realloc(steps->lines, steps->length + 5 * length + 1);
    if (longer == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the steps of %s", steps->tokenizer.path);
    }
    steps->lines = longer;
    char *to = longer + steps->length;
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        or_utf8_next(text + at, length - at, &used); // JSON has characters only
        to = write_character(text + at, used, to);
    }
    *to = '\0';
    steps->length = (size_t)(to - longer);
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
    bool each = json_is_true(json_object_get(step, "individual_digits"));
    return add_line(steps, each ? "digits" : "numbers", none);
}

static or_status_t add_punctuation(steps_t *steps, const json_t *step)
{
    const or_gguf_string_t none = {"", 0};
    return or_json_is(json_object_get(step, "behavior"), "Contiguous")
               ? add_line(steps, "punctuation", none)
               : fail_step(steps, "Punctuation that is not Contiguous");
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
    if (or_json_is(type, "Punctuation")) {
        return add_punctuation(steps, step);
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

static or_status_t find_name(const steps_t *steps, bool ignores_merges, or_hf_pre_t *found)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const or_pre_rule_t *rule = or_pre_rule_find(rules[i].name, strlen(rules[i].name));
        bool agrees = rule->ignores_merges == ignores_merges;
        if (strcmp(rules[i].steps, steps->lines) == 0 && (found->name == NULL || agrees) &&
            (!steps->drops || rules[i].leaves_nothing)) {
            *found = (or_hf_pre_t){rules[i].name, rules[i].numbers, !agrees};
            if (agrees) {
                return OR_OK;
            }
        }
    }
    return found->name != NULL
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s: no known rule cuts text as its pre_tokenizer does, so its "
                         "tokenizer.ggml.pre is not known: %.300s",
                         steps->tokenizer.path, steps->lines);
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

or_status_t or_hf_find_rule(or_json_t tokenizer, or_hf_pre_t *rule)
{
    const json_t *pre = json_object_get(tokenizer.object, "pre_tokenizer");
    const json_t *model = json_object_get(tokenizer.object, "model");
    steps_t steps = {.tokenizer = tokenizer};
    *rule = (or_hf_pre_t){.name = NULL};
    if (!is_over_bytes(pre)) {
        return OR_OK;
    }
    or_status_t status = check_normalizer(tokenizer);
    status = status != OR_OK ? status : add_steps(&steps, pre);
    status = status != OR_OK
                 ? status
                 : find_name(&steps, json_is_true(json_object_get(model, "ignore_merges")), rule);
    free(steps.lines);
    return status;
}
