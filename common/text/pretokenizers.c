// The table of pre-tokenisation rules, by the names that GGUF files use for them.
//
// The expressions are those that the models were trained with (tokenizer.json), as llama.cpp
// collects them. Where llama.cpp had to write one otherwise for want of Unicode classes, this is
// the original; where the original takes more than linear time, another with the same matches:
//
//   - a run is entered at its start only ((?<!...) in front), so that a failure is not repeated at
//     each of its places;
//   - digits in groups counted from their end are one match that is cut in threes;
//   - nested repetitions are possessive where nothing could be given back.
//
// Not here, though llama.cpp has them under "gpt2": "sarvam-moe", "granite-embed-multi-311m" and
// "whitespace", which are not byte-level. llama.cpp's clean-up of spaces when text is put out is
// left away for all: the text is what the tokens say.
#include <string.h>

#include "common/text/deepseek_letters.h"
#include "common/text/pretokenize.h"

// White space as Unicode defines it, for use in []. PCRE2's \s also takes U+180E.
#define W "\\t-\\r\\x{85}\\p{Z}"
#define SPACE "[" W "]"
#define TRAILING_SPACES SPACE "+(?![^" W "])"
#define HAN_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
// Whatever case folds to one of these: U+017F, the long s, to s.
#define CONTRACTION "(?:'[sS\\x{17F}]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"

#define GPT_2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" W "\\p{L}\\p{N}]+|" TRAILING_SPACES

// The GPT-4 family: words with what stands before them, numbers, the rest with newlines, space.
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST " ?[^" W "\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES SPACE "*[\\r\\n]+|" TRAILING_SPACES "|" SPACE "+"
#define GPT_4(numbers) CONTRACTION "|" WORD "|" numbers "|" REST "|" SPACES

// The GPT-4o family: a word is capitals, then small letters.
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORD(capital, small, suffix)                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" capital "*" small "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" capital        \
    "+" small "*" suffix
#define REST_AND_SLASH " ?[^" W "\\p{L}\\p{N}]+[\\r\\n/]*"
#define GPT_4O(suffix, numbers)                                                                    \
    CASED_WORD(CAPITAL, SMALL, suffix) "|" numbers "|" REST_AND_SLASH "|" SPACES

// Capitals and small letters but Han: all other categories and Han, complemented.
#define NOT_LETTERS "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
#define CAPITAL_NOT_HAN "[^\\p{Ll}" NOT_LETTERS "]"
#define SMALL_NOT_HAN "[^\\p{Lu}\\p{Lt}" NOT_LETTERS "]"

#define PUNCTUATED_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define MARKED_WORD "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK_V3 PUNCTUATED_WORD "|" MARKED_WORD "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES

#define DEEPSEEK_CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

#define BLOOM " ?[^(" W "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

// Runs of spaces are halved repeatedly; these patterns take what a power of two of spaces and
// its halves leave over.
#define JAIS_2_SPACES                                                                              \
    "(?<![\\t\\x{B}\\f\\x{85}\\p{Z}])" SPACE "*[\\r\\n]+|" SPACE "{512}(?![^" W "])|" SPACE        \
    "{256}(?![^" W "])|" SPACE "{128}(?![^" W "])|" SPACE "{64}(?![^" W "])|" SPACE "{32}(?![^" W  \
    "])|" SPACE "{16}(?![^" W "])|" SPACE "{8}(?![^" W "])|" SPACE "{4}(?![^" W "])|" SPACE        \
    "{1,2}(?![^" W "])|" SPACE

#define YOUTU_EAST_ASIAN                                                                           \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"                                                   \
    "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}"  \
    "\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|" HAN_AND_KANA

#define AFMOE_ASIAN                                                                                \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}"                \
    "\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}"  \
    "\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}"                 \
    "\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"

#define SPLITS(name, ...) static const or_split_t name[] = {__VA_ARGS__, {NULL, false}}
#define BY(pattern)                                                                                \
    {                                                                                              \
        pattern, false                                                                             \
    }
#define IN_THREES(pattern)                                                                         \
    {                                                                                              \
        pattern, true                                                                              \
    }

SPLITS(by_default, BY("[\\p{P}$+<=>^~|]+"), BY(GPT_2), BY("\\p{N}+"), BY("[0-9][0-9][0-9]"));
SPLITS(gpt_2, BY(GPT_2));
SPLITS(starcoder, BY("\\p{N}"), BY(GPT_2));
SPLITS(falcon, BY("[\\p{P}$+<=>^~|`]+"), BY(GPT_2), BY("[0-9][0-9][0-9]"));
SPLITS(llama_3, BY(GPT_4("\\p{N}{1,3}")));
SPLITS(qwen_2, BY(GPT_4("\\p{N}")));
SPLITS(qwen_35, BY(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" W
                               "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES));
SPLITS(minicpm_5, BY("\\p{N}{1,3}"), BY(GPT_4("\\p{N}+")));
SPLITS(laguna, BY("[^\\n]+|\\n+"), BY(GPT_4("\\p{N}")));
SPLITS(ufakzeka, BY(WORD "|\\p{N}|" REST "|" SPACES));
SPLITS(bailing_moe, BY("'(?:[sS\\x{17F}dDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" REST
                       "|" SPACE "*[\\r\\n]|" TRAILING_SPACES "|" SPACE "+"));
SPLITS(seed_coder, BY(CONTRACTION "|" WORD "|\\p{N}| ?[^" W "\\p{L}\\p{N}\\r\\n]+|" SPACES));
SPLITS(exaone_moe,
       BY(CONTRACTION
          "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| ?[^" W
          "\\p{L}\\p{N}]+[\\r\\n/]?|" SPACE "*[\\r\\n]|" TRAILING_SPACES "|" SPACE "+"));
SPLITS(jais_2, BY(CONTRACTION "|" WORD "|\\p{N}{1,3}|" REST "|" JAIS_2_SPACES));
SPLITS(gpt_4o, BY(GPT_4O(CONTRACTION "?", "\\p{N}{1,3}")));
SPLITS(tekken, BY(GPT_4O("", "\\p{N}")));
SPLITS(youtu, BY(YOUTU_EAST_ASIAN), BY(GPT_4O(CONTRACTION "?", "\\p{N}")));
// A number of more than three digits is cut from its start instead if a character of a word follows
// it. These are what Oniguruma, the engine of the package tokenizers, takes for \w.
#define WORD_BEHIND_DIGITS                                                                         \
    "[\\p{L}\\p{M}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}\\x{1F130}" \
    "-"                                                                                            \
    "\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}]"
SPLITS(tiny_aya, IN_THREES("(?<!\\d)\\d++(?!" WORD_BEHIND_DIGITS ")"),
       BY(GPT_4O(CONTRACTION "?", "\\p{N}{1,3}")));
SPLITS(kimi_k2, BY("\\p{sc:Han}+|" CASED_WORD(CAPITAL_NOT_HAN, SMALL_NOT_HAN,
                                              CONTRACTION "?") "|\\p{N}{1,3}|" REST "|" SPACES));
SPLITS(deepseek_llm, BY("[\\r\\n]"), BY(SPACE "?[" OR_DEEPSEEK_LETTERS "]+"),
       BY(SPACE "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"
                "\\x{3000}-\\x{3002}]+"),
       BY("(?<!" SPACE ")" SPACE "++$"), BY(DEEPSEEK_CJK), BY("\\p{N}"));
SPLITS(deepseek_coder, BY("[\\r\\n]"), BY(SPACE "?\\p{L}+"), BY(SPACE "?\\p{P}+"), BY(DEEPSEEK_CJK),
       BY("\\p{N}"));
SPLITS(deepseek_v3, BY("\\p{N}{1,3}"), BY(HAN_AND_KANA), BY(DEEPSEEK_V3));
SPLITS(spark, BY("\\p{N}{1,3}"), BY(HAN_AND_KANA),
       BY(PUNCTUATED_WORD "|" MARKED_WORD "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" TRAILING_SPACES "|" SPACE
                          "+"),
       BY("\\p{N}"));
SPLITS(afmoe, IN_THREES("\\p{N}+"), BY(AFMOE_ASIAN), BY(DEEPSEEK_V3));
// This cuts once more than the original where digits and other numbers touch, as at a footnote's
// mark.
SPLITS(superbpe, BY("\\p{N}+"), IN_THREES("\\d{3,}"));
SPLITS(bloom, BY(BLOOM));
SPLITS(viking, BY(BLOOM), BY("\\p{N}"));
SPLITS(chameleon, BY("<sentinel:[0-9]+>"), BY("IMGIMG[A-I]{1,4}Z"), BY("[\\t\\n]|    |  "),
       BY("\\p{N}"), BY("[\\p{P}!-/:-@\\[-`{-~]"), BY(GPT_2));

enum { IGNORE_MERGES = 1, ADD_BOS = 2 };

#define RULE(name, splits, flags)                                                                  \
    {                                                                                              \
        name,                                                                                      \
        {                                                                                          \
            splits, ((flags)&IGNORE_MERGES) != 0, ((flags)&ADD_BOS) != 0                           \
        }                                                                                          \
    }

// The models of a family are neighbours.
static const struct {
    const char *name;
    or_pre_rule_t rule;
} rules[] = {
    RULE("default", by_default, 0),

    RULE("gpt-2", gpt_2, 0),
    RULE("phi-2", gpt_2, 0),
    RULE("mpt", gpt_2, 0),
    RULE("olmo", gpt_2, 0),
    RULE("jais", gpt_2, 0),
    RULE("jina-es", gpt_2, 0),
    RULE("jina-de", gpt_2, 0),
    RULE("jina-v1-en", gpt_2, 0),
    RULE("jina-v2-es", gpt_2, 0),
    RULE("jina-v2-de", gpt_2, 0),
    RULE("jina-v2-code", gpt_2, 0),
    RULE("roberta-bpe", gpt_2, 0),
    RULE("gigachat", gpt_2, 0),
    RULE("a.x-4.0", gpt_2, 0),
    RULE("mellum", gpt_2, 0),
    RULE("modern-bert", gpt_2, 0),
    RULE("exaone4", gpt_2, 0),
    RULE("trillion", gpt_2, 0),
    RULE("granite-docling", gpt_2, 0),

    RULE("starcoder", starcoder, 0),
    RULE("refact", starcoder, 0),
    RULE("command-r", starcoder, 0),
    RULE("smollm", starcoder, 0),
    RULE("codeshell", starcoder, 0),
    RULE("exaone", starcoder, 0),
    RULE("minerva-7b", starcoder, 0),
    RULE("mellum2", starcoder, 0),

    RULE("falcon", falcon, 0),

    RULE("llama3", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("llama-v3", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("llama-bpe", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("falcon3", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("falcon-h1", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("pixtral", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("midm-2.0", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("lfm2", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("jina-v5-nano", llama_3, IGNORE_MERGES | ADD_BOS),
    RULE("dbrx", llama_3, 0),
    RULE("smaug-bpe", llama_3, 0),
    RULE("glm4", llama_3, 0),
    RULE("chatglm-bpe", llama_3, 0),
    RULE("jais-2", jais_2, 0),
    RULE("minicpm5", minicpm_5, IGNORE_MERGES),

    RULE("qwen2", qwen_2, 0),
    RULE("deepseek-r1-qwen", qwen_2, 0),
    RULE("kormo", qwen_2, 0),
    RULE("f2llmv2", qwen_2, 0),
    RULE("megrez", qwen_2, 0),
    RULE("stablelm2", qwen_2, 0),
    RULE("hunyuan", qwen_2, 0),
    RULE("solar-open", qwen_2, 0),
    RULE("grok-2", qwen_2, 0),
    RULE("qwen35", qwen_35, 0),
    RULE("laguna", laguna, 0),
    RULE("ufakzeka", ufakzeka, 0),
    RULE("seed-coder", seed_coder, 0),
    RULE("bailingmoe", bailing_moe, 0),
    RULE("bailingmoe2", bailing_moe, 0),
    RULE("llada-moe", bailing_moe, 0),
    RULE("exaone-moe", exaone_moe, 0),

    RULE("gpt-4o", gpt_4o, 0),
    RULE("llama4", gpt_4o, 0),
    RULE("kanana2", gpt_4o, 0),
    RULE("talkie", gpt_4o, 0),
    RULE("minimax-m2", gpt_4o, 0),
    RULE("granite-embed-multi-97m", gpt_4o, IGNORE_MERGES),
    RULE("tekken", tekken, IGNORE_MERGES | ADD_BOS),
    RULE("youtu", youtu, IGNORE_MERGES),
    RULE("tiny_aya", tiny_aya, 0),
    RULE("cohere2moe", tiny_aya, 0),
    RULE("kimi-k2", kimi_k2, IGNORE_MERGES), // as tiktoken does, whose vocabulary it is

    RULE("deepseek-llm", deepseek_llm, 0),
    RULE("deepseek-coder", deepseek_coder, 0),
    RULE("deepseek-v3", deepseek_v3, 0),
    RULE("hunyuan-dense", deepseek_v3, 0),
    RULE("joyai-llm", deepseek_v3, 0),
    RULE("hy_v4", deepseek_v3, 0),
    RULE("spark2_5", spark, 0),
    RULE("afmoe", afmoe, 0),

    RULE("superbpe", superbpe, 0),
    RULE("bloom", bloom, 0),
    RULE("gpt3-finnish", bloom, 0),
    RULE("poro-chat", bloom, 0),
    RULE("viking", viking, 0),
    RULE("chameleon", chameleon, ADD_BOS),
};

const or_pre_rule_t *or_pre_rule_at(size_t i, const char **name)
{
    if (i >= sizeof rules / sizeof *rules) {
        return NULL;
    }
    *name = rules[i].name;
    return &rules[i].rule;
}

const or_pre_rule_t *or_pre_rule_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strlen(rules[i].name) == length && memcmp(rules[i].name, name, length) == 0) {
            return &rules[i].rule;
        }
    }
    return NULL;
}
