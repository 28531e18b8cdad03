#include "proto/session/vocab_choice.h"

#include <stdio.h>

// Below either, tli and union have next to nothing to guess from. Any two vocabularies share punctuation, digits and single
// letters.
#define SHARED_TOKENS_MIN 64u
#define SHARED_BYTES_MIN 0.05

// If this much of a text is shared, tli is as good as slem, and it is only a table look-up. Below, a drafter that may write
// whole words of its own is worth more. On the demonstration's target, with 16 nodes at temperature 0, slem gives 2.78 tokens
// per target call and tli 2.63 with the byte-level drafter (73 % shared), and 1.62 and 1.46 with stories260K (53 %). At
// temperature 1 tokens that both have share their noise, and it is 2.33 to 2.25 and 1.43 to 1.38.
#define TLI_BYTES_GREEDY 0.95
#define TLI_BYTES_SAMPLING 0.85

#define OVERLAP_BYTES 160

static uint32_t count_shared_text(const or_vocab_pair_t *pair)
{
    const uint32_t *widths = or_vocab_widths(pair->target);
    uint32_t count = 0;
    for (uint32_t id = 0; id < or_vocab_size(pair->target); id++) {
        count += pair->to_draft[id] != OR_TOKEN_NONE && widths[id] > 0;
    }
    return count;
}

static bool is_usable(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                      or_vocab_method_t method)
{
    switch (method) {
    case OR_VOCAB_SAME:
        return pair->same;
    case OR_VOCAB_UNION:
    case OR_VOCAB_TLI:
        return pair->bijective || (figures->shared_of_bytes >= SHARED_BYTES_MIN &&
                                   count_shared_text(pair) >= SHARED_TOKENS_MIN);
    case OR_VOCAB_SLEM:
    case OR_VOCAB_SLRS:
        return figures->draft_injective && figures->target_injective;
    case OR_VOCAB_AUTO:
        break;
    }
    return false;
}

// The best method, which the pair may not be able to use.
static or_vocab_method_t best_method(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                                     uint32_t rule, float temperature)
{
    if (rule == OR_ACCEPT_SLRS) {
        return OR_VOCAB_SLRS;
    }
    if (pair->same) {
        return OR_VOCAB_SAME;
    }
    if (pair->bijective || or_accept_rule_uses_distributions(rule)) {
        return OR_VOCAB_TLI;
    }
    if (!is_usable(pair, figures, OR_VOCAB_TLI)) {
        return OR_VOCAB_SLEM;
    }
    double enough = temperature > 0 ? TLI_BYTES_SAMPLING : TLI_BYTES_GREEDY;
    bool tli = figures->shared_of_bytes >= enough || !is_usable(pair, figures, OR_VOCAB_SLEM);
    return tli ? OR_VOCAB_TLI : OR_VOCAB_SLEM;
}

static void describe_overlap(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                             char text[OVERLAP_BYTES])
{
    snprintf(text, OVERLAP_BYTES,
             "%u tokens are in both, %.1f %% of the target's vocabulary and of a text %.1f %% of "
             "the bytes",
             (unsigned)pair->shared, 100 * figures->shared_of_target,
             100 * figures->shared_of_bytes);
}

// ---- refusals ----

static const char *why_not(const or_vocab_figures_t *figures, or_vocab_method_t method)
{
    if (method == OR_VOCAB_SAME) {
        return "the drafter's vocabulary is not the target's";
    }
    if (method == OR_VOCAB_TLI || method == OR_VOCAB_UNION) {
        return "the drafter's vocabulary has too little in common with the target's";
    }
    return figures->target_injective ? "the drafter's tokenizer does not give a text back unchanged"
                                     : "the target's tokenizer does not give a text back unchanged";
}

// Refuse, and name the next best choice: one under the same rule, else one under the default rule.
static or_status_t refuse(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                          or_vocab_method_t method, uint32_t rule)
{
    static const or_vocab_method_t others[] = {OR_VOCAB_SAME, OR_VOCAB_TLI, OR_VOCAB_SLEM};
    const char *reason = why_not(figures, method);
    char overlap[OVERLAP_BYTES];
    describe_overlap(pair, figures, overlap);
    for (int any_rule = 0; any_rule < 2; any_rule++) {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            if (is_usable(pair, figures, others[i]) &&
                (any_rule || or_vocab_method_check(others[i], rule) == OR_OK)) {
                return or_fail(OR_ERR_UNSUPPORTED,
                               "--vocab-map %s: %s (%s); the next best choice is --vocab-map %s%s",
                               or_vocab_method_name(method), reason, overlap,
                               or_vocab_method_name(others[i]),
                               any_rule ? " --accept coupled" : "");
            }
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "--vocab-map %s: %s (%s); there is no other way for this pair: use another "
                   "drafter",
                   or_vocab_method_name(method), reason, overlap);
}

or_status_t or_vocab_choice_check(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                                  or_vocab_method_t method, uint32_t rule)
{
    if (method == OR_VOCAB_AUTO) {
        // The best method depends on the temperature, but the possible ones do not.
        method = best_method(pair, figures, rule, 0);
    }
    or_status_t status = or_vocab_method_check(method, rule);
    if (status != OR_OK || is_usable(pair, figures, method)) {
        return status;
    }
    return refuse(pair, figures, method, rule);
}

// ---- the choice ----

static void explain(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures, uint32_t rule,
                    or_vocab_method_t method, char *why, size_t capacity)
{
    char overlap[OVERLAP_BYTES];
    describe_overlap(pair, figures, overlap);
    if (method == OR_VOCAB_SAME) {
        snprintf(why, capacity, "the vocabularies are the same");
    } else if (method == OR_VOCAB_SLRS) {
        snprintf(why, capacity, "--accept slrs judges text; %s", overlap);
    } else if (method == OR_VOCAB_SLEM) {
        snprintf(why, capacity, "only %s: guesses go over as text", overlap);
    } else if (pair->bijective) {
        snprintf(why, capacity, "the vocabularies have the same text under other ids: %s", overlap);
    } else if (or_accept_rule_uses_distributions(rule)) {
        snprintf(why, capacity, "%s, and --accept %s needs the distribution of each guess", overlap,
                 or_accept_rule_name(rule));
    } else {
        snprintf(why, capacity, "%s", overlap);
    }
}

or_status_t or_vocab_choose(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                            uint32_t rule, float temperature, or_vocab_method_t *method, char *why,
                            size_t capacity)
{
    or_vocab_method_t best = best_method(pair, figures, rule, temperature);
    or_status_t status = or_vocab_choice_check(pair, figures, best, rule);
    if (status == OR_OK) {
        explain(pair, figures, rule, best, why, capacity);
        *method = best;
    }
    return status;
}
