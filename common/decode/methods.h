// methods - the tables of drafting methods and acceptance rules, and which pairs are lossless
// (docs/design.md section 6). docs/extending.md says how to add one.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// The drafting methods, a row each. A row has its name in C, its number on the wire (append, never
// renumber), its name for users and the function or_build_... that grows its trees (drafter/build). Then
// come the rules it goes with, what it is like as a half sentence (methods.c), and its traits.
// clang-format off
#define OR_DRAFT_METHODS(ROW)                                                                                  \
    /* the best perturbed cumulative score under a node budget */                                              \
    ROW(COUPLED, 1, "coupled", best_first, SHARED_NOISE, "ranks tokens by the noise it shares with the target",   \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_GROWS | OR_DRAFT_CUTS)                                                  \
    /* one sequence */                                                                                         \
    ROW(CHAIN, 2, "chain", chain, ANY, "is one sequence", OR_DRAFT_ASKS_MODEL | OR_DRAFT_CUTS)                 \
    /* independent sequences */                                                                                \
    ROW(KSEQ, 6, "kseq", kseq, INDEPENDENT, "draws with replacement",                                          \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_REPLACES | OR_DRAFT_BEAM)                            \
    /* sequences of several draft models, merged by prefix: each model's are kseq's */                         \
    ROW(MULTI, 7, "multi", kseq, SEVERAL_MODELS, "draws from several models",                                  \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_BEAM)                                                \
    /* branching factors, with replacement */                                                                  \
    ROW(MCSD, 3, "mcsd", branching, INDEPENDENT, "draws with replacement",                                     \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_REPLACES | OR_DRAFT_BRANCHES)                        \
    /* branching factors, without replacement */                                                               \
    ROW(RSD_C, 4, "rsd-c", branching, DISTINCT, "draws without replacement",                                   \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_BRANCHES)                                            \
    /* stochastic beam search */                                                                               \
    ROW(RSD_S, 5, "rsd-s", rsd_s, DISTINCT, "draws without replacement",                                       \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_BEAM)                                                \
    /* greedy expansion by a heap, to a node budget */                                                         \
    ROW(DYSPEC, 8, "dyspec", dyspec, DISTINCT, "draws without replacement",                                    \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_CUTS | OR_DRAFT_CALIBRATES)                          \
    /* expansion above a threshold, level by level */                                                          \
    ROW(DYSPEC_T, 9, "dyspec-t", dyspec_t, DISTINCT, "draws without replacement",                              \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES | OR_DRAFT_CUTS | OR_DRAFT_CALIBRATES)                          \
    /* the optimal tree for measured acceptance by rank */                                                     \
    ROW(SEQUOIA, 10, "sequoia", sequoia, DISTINCT, "draws without replacement",                                \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_SAMPLES)                                                                \
    /* the best cumulative probability under a node budget */                                                  \
    ROW(TOPK, 11, "topk", best_first, OWN_GUESSES, "takes the likeliest tokens",                                     \
        OR_DRAFT_ASKS_MODEL | OR_DRAFT_GROWS | OR_DRAFT_CUTS | OR_DRAFT_NOISELESS)                             \
    /* prompt lookup, no model */                                                                              \
    ROW(NGRAM, 12, "ngram", ngram, OWN_GUESSES, "looks its guesses up in the text", OR_DRAFT_CUTS)
// clang-format on

typedef enum {
    OR_DRAFT_NONE = 0, // no guesses: "none"
#define OR_DRAFT_NUMBER(constant, number, name, builder, rules, nature, traits)                    \
    OR_DRAFT_##constant = number,
    OR_DRAFT_METHODS(OR_DRAFT_NUMBER)
#undef OR_DRAFT_NUMBER
} or_draft_method_t;

// The traits of a drafting method.
enum {
    OR_DRAFT_ASKS_MODEL = 1, // its guesses come from a draft model
    OR_DRAFT_SAMPLES = 2,    // it samples its guesses itself, rather than taking the best ones
    OR_DRAFT_REPLACES = 4,   // drawn tokens go back: a node may be given the same child twice
    OR_DRAFT_GROWS =
        8, // its trees hold the best guesses whatever they are for: they grow on while a round is in flight
    OR_DRAFT_CUTS = 16,        // a smaller tree is the beginning of a larger one's
    OR_DRAFT_BRANCHES = 32,    // it takes a shape of widths by level, as 4x2x1 (shape.h)
    OR_DRAFT_BEAM = 64,        // it takes a shape of width x length, as 4x4
    OR_DRAFT_CALIBRATES = 128, // it can grow by measured acceptance (--draft-calibrated)
    OR_DRAFT_NOISELESS = 256,  // it ranks by probability alone, also under the coupled rule
};

typedef enum {
    OR_ACCEPT_COUPLED = 1,
    OR_ACCEPT_GREEDY = 2,
    OR_ACCEPT_NAIVE = 3,
    OR_ACCEPT_SPS = 4,
    OR_ACCEPT_MULTI_ROUND = 5,
    OR_ACCEPT_RECURSIVE = 6,
    OR_ACCEPT_KSEQ = 7,
    OR_ACCEPT_OTM = 8,
    OR_ACCEPT_BLOCK = 9,
    OR_ACCEPT_TRAVERSAL = 10,
    OR_ACCEPT_TYPICAL = 11, // lossy
    OR_ACCEPT_LENIENT = 12, // lossy
    OR_ACCEPT_SLRS = 13,    // string-level: with OR_VOCAB_SLRS, and only there
} or_accept_rule_t;

// The ways in which a drafter's vocabulary meets the target's where they differ (docs/algorithms.md section 4; Timor et
// al. 2025).
typedef enum {
    OR_VOCAB_AUTO = 0,
    OR_VOCAB_SAME = 1,  // only drafters with the target's own
    OR_VOCAB_UNION = 2, // guesses that the target does not have are rejected
    OR_VOCAB_TLI = 3,   // guesses are drawn from what both have
    OR_VOCAB_SLEM = 4, // guesses become text and then the target's tokens, which must match exactly
    OR_VOCAB_SLRS = 5, // the same, judged by the probability that the text begins with the token
} or_vocab_method_t;

// A parameter's name for whoever reads a sentence about it: given as an option ("--accept"), returned as that
// reader knows it ("draft.accept", of a request in JSON). NULL: the reader has no such parameter.
typedef const char *(*or_naming_t)(const char *option);
// The naming for command lines: the option itself.
const char *or_name_option(const char *option);

// Find a number by its name, as in --draft-method and --accept. OR_ERR_INVALID lists the known names.
or_status_t or_draft_method_parse(const char *name, or_draft_method_t *method);
or_status_t or_accept_rule_parse(const char *name, or_accept_rule_t *rule);
// The name of a number; NULL for one that this version does not know (a peer may send any).
const char *or_draft_method_name(uint32_t method);
const char *or_accept_rule_name(uint32_t rule);

// Check that the output of this pair is an exact sample at this temperature (or as good as a lossy rule
// makes it). OR_ERR_INVALID with the reason and what to do instead; OR_ERR_UNSUPPORTED for numbers this
// version does not know. The second form names parameters as `name` has them, the first as options.
or_status_t or_methods_check(uint32_t method, uint32_t rule, float temperature);
or_status_t or_methods_check_as(or_naming_t name, uint32_t method, uint32_t rule,
                                float temperature);

// Does the method have this trait? False for unknown numbers.
bool or_draft_method_has(uint32_t method, unsigned trait);
// May guesses of one round serve another, so that a drafter works ahead? Only the best ones of a method that
// grows, under a rule that asks nothing of a guess: drawn guesses are for one text alone.
bool or_methods_go_ahead(uint32_t method, uint32_t rule);

// Is it a ratio rule, which compares the target's distribution with the one that each guess was drawn from?
// Then distributions travel, and the drafter must be trusted to have drawn what it says (docs/design.md
// section 4).
bool or_accept_rule_uses_distributions(uint32_t rule);
// Must the drafter be trusted? Ratio rules and slrs believe what it says of its guesses.
bool or_accept_rule_needs_trust(uint32_t rule);
// Does the rule sample another distribution than the target's? It is used only where --allow-lossy asks for
// it, and every output is marked.
bool or_accept_rule_is_lossy(uint32_t rule);
// Does the rule take chains only?
bool or_accept_rule_takes_chains(uint32_t rule);
// Does a token that was drawn twice count twice?
bool or_accept_rule_counts_repeats(uint32_t rule);
// Does the rule ask nothing of a guess, wherever it comes from? Not typical: it takes other tokens with other trees.
bool or_accept_rule_takes_any_guess(uint32_t rule);
// The method used with a rule when none is asked for.
or_draft_method_t or_accept_rule_usual_method(uint32_t rule);

// The same for --vocab-map.
or_status_t or_vocab_method_parse(const char *name, or_vocab_method_t *method);
const char *or_vocab_method_name(uint32_t method);
// Check that a way to meet another vocabulary goes with the rule. No guess of slem has a distribution, so it
// goes with coupled, greedy, naive and typical only. The method slrs and its own rule go together.
// OR_ERR_INVALID with the reason; OR_ERR_UNSUPPORTED for unknown numbers.
or_status_t or_vocab_method_check(uint32_t vocab_method, uint32_t rule);
or_status_t or_vocab_method_check_as(or_naming_t name, uint32_t vocab_method, uint32_t rule);

// All names, as "coupled, chain, ...".
const char *or_draft_method_list(void);
const char *or_accept_rule_list(void);
const char *or_vocab_method_list(void);
