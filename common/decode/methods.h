// methods - the names of drafting methods and acceptance rules, and which pairs are lossless
// (docs/design.md section 6).
//
// A new drafting method is a number and a row here, a drafter/build_<method>.c, and a line each in
// drafter/build/builder_internal.h, drafter/build/builder.c and drafter/CMakeLists.txt; a new rule likewise in verifier/.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// Numbers travel on the wire: append, never renumber.
typedef enum {
    OR_DRAFT_NONE = 0,
    OR_DRAFT_COUPLED = 1,  // best perturbed cumulative score under a node budget
    OR_DRAFT_CHAIN = 2,    // one sequence
    OR_DRAFT_MCSD = 3,     // branching factors, with replacement
    OR_DRAFT_RSD_C = 4,    // branching factors, without replacement
    OR_DRAFT_RSD_S = 5,    // stochastic beam search
    OR_DRAFT_KSEQ = 6,     // i.i.d. sequences
    OR_DRAFT_MULTI = 7,    // sequences of several draft models, merged by prefix
    OR_DRAFT_DYSPEC = 8,   // greedy heap expansion to a node budget
    OR_DRAFT_DYSPEC_T = 9, // threshold expansion, level by level
    OR_DRAFT_SEQUOIA = 10, // the optimal tree for measured acceptance by rank
    OR_DRAFT_TOPK = 11,    // best cumulative probability under a node budget
    OR_DRAFT_NGRAM = 12,   // prompt lookup, no model
} or_draft_method_t;
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
// How a drafter's vocabulary meets the target's where they differ (docs/algorithms.md section 4; Timor et
// al. 2025).
typedef enum {
    OR_VOCAB_AUTO = 0,
    OR_VOCAB_SAME = 1,  // only drafters with the target's own
    OR_VOCAB_UNION = 2, // guesses that the target does not have are rejected
    OR_VOCAB_TLI = 3,   // guesses are drawn from what both have
    OR_VOCAB_SLEM = 4, // guesses become text and then the target's tokens, which must match exactly
    OR_VOCAB_SLRS = 5, // the same, judged by the probability that the text begins with the token
} or_vocab_method_t;

// By name as in --draft-method and --accept. OR_ERR_INVALID lists the known names.
or_status_t or_draft_method_parse(const char *name, or_draft_method_t *method);
or_status_t or_accept_rule_parse(const char *name, or_accept_rule_t *rule);
// NULL for numbers this version does not know (a peer may send any).
const char *or_draft_method_name(uint32_t method);
const char *or_accept_rule_name(uint32_t rule);

// Is the output of this pair an exact sample at this temperature (or as good as a lossy rule makes
// it)? OR_ERR_INVALID with the reason and what to do instead; OR_ERR_UNSUPPORTED for numbers this
// version does not know.
or_status_t or_methods_check(uint32_t method, uint32_t rule, float temperature);

// Is it a ratio rule, which compares the target's distribution with the distribution each guess was drawn from? Then
// distributions travel, and the drafter must be trusted to have drawn what it says (docs/design.md section 4).
bool or_accept_rule_uses_distributions(uint32_t rule);
// Must the drafter be trusted? Ratio rules and slrs, which believe what it says of its guesses.
bool or_accept_rule_needs_trust(uint32_t rule);
// Does the rule make do with something else than the target's distribution? Only where --allow-lossy asks for
// it, and marked in every output.
bool or_accept_rule_is_lossy(uint32_t rule);
// Does it take chains only? Does a token that was drawn twice count twice?
bool or_accept_rule_takes_chains(uint32_t rule);
bool or_accept_rule_counts_repeats(uint32_t rule);
// Is it a method that samples its guesses by itself, rather than taking the best ones?
bool or_draft_method_samples(uint32_t method);
// The method used with a rule when none is asked for.
or_draft_method_t or_accept_rule_usual_method(uint32_t rule);

// By name as in --vocab-map. OR_ERR_INVALID lists the known names; NULL for unknown numbers.
or_status_t or_vocab_method_parse(const char *name, or_vocab_method_t *method);
const char *or_vocab_method_name(uint32_t method);
// Does a way to meet another vocabulary go with the rule? slem has no distribution for its guesses: coupled,
// greedy, naive and typical only; slrs and its own rule go together. OR_ERR_INVALID with the reason;
// OR_ERR_UNSUPPORTED for unknown numbers.
or_status_t or_vocab_method_check(uint32_t vocab_method, uint32_t rule);

// "coupled, chain, ...": for help texts.
const char *or_draft_method_list(void);
const char *or_accept_rule_list(void);
const char *or_vocab_method_list(void);
