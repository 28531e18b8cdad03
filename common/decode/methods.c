#include "common/decode/methods.h"

#include <stdio.h>
#include <string.h>

#define BIT(number) (1U << (number))
// Sets of rules that a drafting method goes with.
#define ANY (~0U)
#define SHARED_NOISE (BIT(OR_ACCEPT_COUPLED) | BIT(OR_ACCEPT_GREEDY))
#define OWN_GUESSES (SHARED_NOISE | BIT(OR_ACCEPT_TYPICAL) | BIT(OR_ACCEPT_NAIVE))
#define SEVERAL_MODELS (OWN_GUESSES | BIT(OR_ACCEPT_MULTI_ROUND))
#define INDEPENDENT (SEVERAL_MODELS | BIT(OR_ACCEPT_KSEQ) | BIT(OR_ACCEPT_OTM))
#define DISTINCT (OWN_GUESSES | BIT(OR_ACCEPT_RECURSIVE) | BIT(OR_ACCEPT_TRAVERSAL))

typedef struct {
    uint32_t number;
    const char *name;
    uint32_t rules; // bits of those it goes with
    const char *nature;
    unsigned traits;
} draft_row_t;

#define DRAFT_ROW(constant, number, name, builder, rules, nature, traits)                          \
    {number, name, rules, nature, traits},
static const draft_row_t draft_methods[] = {
    OR_DRAFT_METHODS(DRAFT_ROW){OR_DRAFT_NONE, "none", ANY, "drafts nothing", 0}};

// The traits of an acceptance rule.
enum {
    DISTS = 1,     // it reads the distribution that each guess was drawn from
    CHAINS = 2,    // it takes chains only
    REPEATS = 4,   // a token that was drawn twice counts twice
    LOSSY = 8,     // it samples another distribution than the target's
    STRINGS = 16,  // it judges strings
    UNASKING = 32, // it asks nothing of a guess
};

typedef struct {
    uint32_t number;
    const char *name;
    or_draft_method_t usual;
    const char *needs; // of the tree
    unsigned traits;
} rule_row_t;

static const rule_row_t accept_rules[] = {
    {OR_ACCEPT_COUPLED, "coupled", OR_DRAFT_COUPLED, "takes any tree", UNASKING},
    {OR_ACCEPT_GREEDY, "greedy", OR_DRAFT_COUPLED, "takes any tree", UNASKING},
    {OR_ACCEPT_NAIVE, "naive", OR_DRAFT_RSD_S, "takes guesses made without the shared noise",
     UNASKING},
    {OR_ACCEPT_SPS, "sps", OR_DRAFT_CHAIN, "takes one sequence", DISTS | CHAINS},
    {OR_ACCEPT_KSEQ, "kseq", OR_DRAFT_KSEQ, "takes siblings drawn with replacement",
     DISTS | REPEATS},
    {OR_ACCEPT_OTM, "otm", OR_DRAFT_KSEQ, "takes siblings drawn with replacement", DISTS | REPEATS},
    {OR_ACCEPT_MULTI_ROUND, "multi-round", OR_DRAFT_MCSD, "takes siblings drawn with replacement",
     DISTS | REPEATS},
    {OR_ACCEPT_RECURSIVE, "recursive", OR_DRAFT_RSD_S, "takes siblings drawn without replacement",
     DISTS},
    {OR_ACCEPT_BLOCK, "block", OR_DRAFT_CHAIN, "takes one sequence", DISTS | CHAINS},
    {OR_ACCEPT_TRAVERSAL, "traversal", OR_DRAFT_RSD_S, "takes siblings drawn without replacement",
     DISTS},
    {OR_ACCEPT_TYPICAL, "typical", OR_DRAFT_TOPK, "takes guesses made without the shared noise",
     LOSSY},
    {OR_ACCEPT_LENIENT, "lenient", OR_DRAFT_CHAIN, "takes one sequence", DISTS | CHAINS | LOSSY},
    {OR_ACCEPT_SLRS, "slrs", OR_DRAFT_CHAIN, "takes one sequence", CHAINS | STRINGS},
};
// Each name behind a comma; the list begins behind the first one.
#define DRAFT_NAME(constant, number, name, builder, rules, nature, traits) ", " name
#define DRAFT_LIST (&OR_DRAFT_METHODS(DRAFT_NAME)[2])
#define ACCEPT_LIST                                                                                \
    "coupled, greedy, naive, sps, kseq, otm, multi-round, recursive, block, traversal, typical, "  \
    "lenient, slrs"
#define VOCAB_LIST "auto, same, union, tli, slem, slrs"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const draft_row_t *find_method(uint32_t number)
{
    for (size_t i = 0; i < COUNT(draft_methods); i++) {
        if (draft_methods[i].number == number) {
            return &draft_methods[i];
        }
    }
    return NULL;
}

static const rule_row_t *find_rule(uint32_t number)
{
    for (size_t i = 0; i < COUNT(accept_rules); i++) {
        if (accept_rules[i].number == number) {
            return &accept_rules[i];
        }
    }
    return NULL;
}

or_status_t or_draft_method_parse(const char *name, or_draft_method_t *method)
{
    for (size_t i = 0; i < COUNT(draft_methods); i++) {
        if (strcmp(draft_methods[i].name, name) == 0) {
            *method = (or_draft_method_t)draft_methods[i].number;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "draft method '%s' is not one of %s, none", name, DRAFT_LIST);
}

or_status_t or_accept_rule_parse(const char *name, or_accept_rule_t *rule)
{
    for (size_t i = 0; i < COUNT(accept_rules); i++) {
        if (strcmp(accept_rules[i].name, name) == 0) {
            *rule = (or_accept_rule_t)accept_rules[i].number;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "acceptance rule '%s' is not one of " ACCEPT_LIST, name);
}

const char *or_draft_method_name(uint32_t method)
{
    const draft_row_t *row = find_method(method);
    return row != NULL ? row->name : NULL;
}

const char *or_accept_rule_name(uint32_t rule)
{
    const rule_row_t *row = find_rule(rule);
    return row != NULL ? row->name : NULL;
}

// "coupled, greedy": the rules of these bits.
static void list_rules(uint32_t rules, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < COUNT(accept_rules) && used < capacity; i++) {
        if ((rules & BIT(accept_rules[i].number)) != 0) {
            int length = snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "",
                                  accept_rules[i].name);
            used += length > 0 ? (size_t)length : 0;
        }
    }
}

const char *or_name_option(const char *option)
{
    return option;
}

or_status_t or_methods_check(uint32_t method, uint32_t rule, float temperature)
{
    return or_methods_check_as(or_name_option, method, rule, temperature);
}

or_status_t or_methods_check_as(or_naming_t name, uint32_t method, uint32_t rule, float temperature)
{
    const draft_row_t *drafts = find_method(method);
    const rule_row_t *accepts = find_rule(rule);
    if (drafts == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "draft method %u is not known to this version", method);
    }
    if (accepts == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "acceptance rule %u is not known to this version", rule);
    }
    if (rule == OR_ACCEPT_GREEDY && temperature != 0) {
        return or_fail(OR_ERR_INVALID,
                       "%s greedy decodes at temperature 0 only: set %s 0 or use %s coupled",
                       name("--accept"), name("--temp"), name("--accept"));
    }
    if ((drafts->rules & BIT(rule)) == 0) {
        char rules[128];
        list_rules(drafts->rules, rules, sizeof rules);
        return or_fail(OR_ERR_INVALID, "%s %s %s, but %s %s %s: use %s %s, or %s %s",
                       name("--accept"), accepts->name, accepts->needs, name("--draft-method"),
                       drafts->name, drafts->nature, name("--accept"), rules,
                       name("--draft-method"), or_draft_method_name(accepts->usual));
    }
    return OR_OK;
}

static bool has_trait(uint32_t rule, unsigned trait)
{
    const rule_row_t *row = find_rule(rule);
    return row != NULL && (row->traits & trait) != 0;
}

bool or_accept_rule_uses_distributions(uint32_t rule)
{
    return has_trait(rule, DISTS);
}

bool or_accept_rule_needs_trust(uint32_t rule)
{
    return has_trait(rule, DISTS | STRINGS);
}

bool or_accept_rule_is_lossy(uint32_t rule)
{
    return has_trait(rule, LOSSY);
}

bool or_accept_rule_takes_chains(uint32_t rule)
{
    return has_trait(rule, CHAINS);
}

bool or_accept_rule_counts_repeats(uint32_t rule)
{
    return has_trait(rule, REPEATS);
}

bool or_accept_rule_takes_any_guess(uint32_t rule)
{
    return has_trait(rule, UNASKING);
}

bool or_draft_method_has(uint32_t method, unsigned trait)
{
    const draft_row_t *row = find_method(method);
    return row != NULL && (row->traits & trait) != 0;
}

bool or_methods_go_ahead(uint32_t method, uint32_t rule)
{
    return or_draft_method_has(method, OR_DRAFT_GROWS) && has_trait(rule, UNASKING);
}

or_draft_method_t or_accept_rule_usual_method(uint32_t rule)
{
    const rule_row_t *row = find_rule(rule);
    return row != NULL ? row->usual : OR_DRAFT_NONE;
}

static const char *const vocab_methods[] = {
    [OR_VOCAB_AUTO] = "auto", [OR_VOCAB_SAME] = "same", [OR_VOCAB_UNION] = "union",
    [OR_VOCAB_TLI] = "tli",   [OR_VOCAB_SLEM] = "slem", [OR_VOCAB_SLRS] = "slrs",
};

or_status_t or_vocab_method_parse(const char *name, or_vocab_method_t *method)
{
    for (size_t i = 0; i < COUNT(vocab_methods); i++) {
        if (strcmp(vocab_methods[i], name) == 0) {
            *method = (or_vocab_method_t)i;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "vocabulary map '%s' is not one of " VOCAB_LIST, name);
}

const char *or_vocab_method_name(uint32_t method)
{
    return method < COUNT(vocab_methods) ? vocab_methods[method] : NULL;
}

or_status_t or_vocab_method_check(uint32_t vocab_method, uint32_t rule)
{
    return or_vocab_method_check_as(or_name_option, vocab_method, rule);
}

or_status_t or_vocab_method_check_as(or_naming_t name, uint32_t vocab_method, uint32_t rule)
{
    const char *map = name("--vocab-map"), *accept = name("--accept");
    if (vocab_method >= COUNT(vocab_methods)) {
        return or_fail(OR_ERR_UNSUPPORTED, "vocabulary map %u is not known to this version",
                       vocab_method);
    }
    if (vocab_method == OR_VOCAB_SLEM && or_accept_rule_needs_trust(rule)) {
        return or_fail(OR_ERR_INVALID,
                       "%s slem re-tokenises text and so knows no distribution for a guess, but %s "
                       "%s needs one: use %s tli, or %s coupled or naive",
                       map, accept, or_accept_rule_name(rule), map, accept);
    }
    if (rule == OR_ACCEPT_SLRS && vocab_method != OR_VOCAB_SLRS && vocab_method != OR_VOCAB_AUTO) {
        return or_fail(OR_ERR_INVALID, "%s slrs judges strings: use %s slrs", accept, map);
    }
    if (vocab_method == OR_VOCAB_SLRS && rule != OR_ACCEPT_SLRS) {
        return or_fail(OR_ERR_INVALID, "%s slrs has a rule of its own: use %s slrs", map, accept);
    }
    return OR_OK;
}

const char *or_draft_method_list(void)
{
    return DRAFT_LIST;
}

const char *or_accept_rule_list(void)
{
    return ACCEPT_LIST;
}

const char *or_vocab_method_list(void)
{
    return VOCAB_LIST;
}
