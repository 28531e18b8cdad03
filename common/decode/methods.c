#include "common/decode/methods.h"

#include <stdio.h>
#include <string.h>

#define BIT(number) (1U << (number))
#define ANY_TREE (BIT(OR_ACCEPT_COUPLED) | BIT(OR_ACCEPT_GREEDY))
#define SAMPLED (ANY_TREE | BIT(OR_ACCEPT_NAIVE))

typedef struct {
    uint32_t number;
    const char *name;
    uint32_t rules; // bits of those it is lossless with
    const char *nature;
    bool samples;
} draft_row_t;

static const draft_row_t draft_methods[] = {
    {OR_DRAFT_COUPLED, "coupled", ANY_TREE, "ranks tokens by the noise it shares with the target",
     false},
    {OR_DRAFT_CHAIN, "chain",
     SAMPLED | BIT(OR_ACCEPT_SPS) | BIT(OR_ACCEPT_MULTI_ROUND) | BIT(OR_ACCEPT_RECURSIVE),
     "is one sequence", false},
    {OR_DRAFT_MCSD, "mcsd", SAMPLED | BIT(OR_ACCEPT_MULTI_ROUND), "draws with replacement", true},
    {OR_DRAFT_RSD_C, "rsd-c", SAMPLED | BIT(OR_ACCEPT_RECURSIVE), "draws without replacement",
     true},
    {OR_DRAFT_RSD_S, "rsd-s", SAMPLED | BIT(OR_ACCEPT_RECURSIVE), "draws without replacement",
     true},
    {OR_DRAFT_NONE, "none", ~0U, "drafts nothing", false},
};

typedef struct {
    uint32_t number;
    const char *name;
    or_draft_method_t usual;
    const char *needs; // of the tree
    bool laws;
} rule_row_t;

static const rule_row_t accept_rules[] = {
    {OR_ACCEPT_COUPLED, "coupled", OR_DRAFT_COUPLED, "takes any tree", false},
    {OR_ACCEPT_GREEDY, "greedy", OR_DRAFT_COUPLED, "takes any tree", false},
    {OR_ACCEPT_NAIVE, "naive", OR_DRAFT_RSD_S, "takes guesses made without the shared noise",
     false},
    {OR_ACCEPT_SPS, "sps", OR_DRAFT_CHAIN, "takes one sequence", true},
    {OR_ACCEPT_MULTI_ROUND, "multi-round", OR_DRAFT_MCSD, "takes siblings drawn with replacement",
     true},
    {OR_ACCEPT_RECURSIVE, "recursive", OR_DRAFT_RSD_S, "takes siblings drawn without replacement",
     true},
};
#define DRAFT_LIST "coupled, chain, mcsd, rsd-c, rsd-s"
#define ACCEPT_LIST "coupled, greedy, naive, sps, multi-round, recursive"

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
    return or_fail(OR_ERR_INVALID, "draft method '%s' is not one of " DRAFT_LIST ", none", name);
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

or_status_t or_methods_check(uint32_t method, uint32_t rule, float temperature)
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
        return or_fail(OR_ERR_INVALID, "--accept greedy decodes at temperature 0 only: set --temp "
                                       "0 or use --accept coupled");
    }
    if ((drafts->rules & BIT(rule)) == 0) {
        char rules[128];
        list_rules(drafts->rules, rules, sizeof rules);
        return or_fail(OR_ERR_INVALID,
                       "--accept %s %s, but --draft-method %s %s: use --accept %s, or "
                       "--draft-method %s",
                       accepts->name, accepts->needs, drafts->name, drafts->nature, rules,
                       or_draft_method_name(accepts->usual));
    }
    return OR_OK;
}

bool or_accept_rule_uses_laws(uint32_t rule)
{
    const rule_row_t *row = find_rule(rule);
    return row != NULL && row->laws;
}

bool or_draft_method_samples(uint32_t method)
{
    const draft_row_t *row = find_method(method);
    return row != NULL && row->samples;
}

or_draft_method_t or_accept_rule_usual_method(uint32_t rule)
{
    const rule_row_t *row = find_rule(rule);
    return row != NULL ? row->usual : OR_DRAFT_NONE;
}

const char *or_draft_method_list(void)
{
    return DRAFT_LIST;
}

const char *or_accept_rule_list(void)
{
    return ACCEPT_LIST;
}
