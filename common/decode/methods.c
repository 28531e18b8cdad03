#include "common/decode/methods.h"

#include <string.h>

typedef struct {
    uint32_t number;
    const char *name;
} method_row_t;

static const method_row_t draft_methods[] = {
    {OR_DRAFT_COUPLED, "coupled"}, {OR_DRAFT_CHAIN, "chain"}, {OR_DRAFT_NONE, "none"}};
static const method_row_t accept_rules[] = {{OR_ACCEPT_COUPLED, "coupled"},
                                            {OR_ACCEPT_GREEDY, "greedy"}};
#define DRAFT_LIST "coupled, chain"
#define ACCEPT_LIST "coupled, greedy"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// The row with this name; NULL if there is none.
static const method_row_t *find_name(const method_row_t *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

static const char *name_of(const method_row_t *table, size_t count, uint32_t number)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].number == number) {
            return table[i].name;
        }
    }
    return NULL;
}

or_status_t or_draft_method_parse(const char *name, or_draft_method_t *method)
{
    const method_row_t *row = find_name(draft_methods, COUNT(draft_methods), name);
    if (row == NULL) {
        return or_fail(OR_ERR_INVALID, "draft method '%s' is not one of " DRAFT_LIST ", none",
                       name);
    }
    *method = (or_draft_method_t)row->number;
    return OR_OK;
}

or_status_t or_accept_rule_parse(const char *name, or_accept_rule_t *rule)
{
    const method_row_t *row = find_name(accept_rules, COUNT(accept_rules), name);
    if (row == NULL) {
        return or_fail(OR_ERR_INVALID, "acceptance rule '%s' is not one of " ACCEPT_LIST, name);
    }
    *rule = (or_accept_rule_t)row->number;
    return OR_OK;
}

const char *or_draft_method_name(uint32_t method)
{
    return name_of(draft_methods, COUNT(draft_methods), method);
}

const char *or_accept_rule_name(uint32_t rule)
{
    return name_of(accept_rules, COUNT(accept_rules), rule);
}

// Both drafting methods of this version may choose nodes by their tokens, and both rules allow
// that: the temperature decides.
or_status_t or_methods_check(uint32_t method, uint32_t rule, float temperature)
{
    if (or_draft_method_name(method) == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "draft method %u is not known to this version", method);
    }
    if (or_accept_rule_name(rule) == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "acceptance rule %u is not known to this version", rule);
    }
    if (rule == OR_ACCEPT_GREEDY && temperature != 0) {
        return or_fail(OR_ERR_INVALID, "--accept greedy decodes at temperature 0 only: set --temp "
                                       "0 or use --accept coupled");
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
