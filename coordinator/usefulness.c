#include "coordinator/usefulness.h"

#include "common/decode/methods.h"

bool or_usefulness_can_cut(uint32_t method, uint32_t rule)
{
    switch (method) {
    case OR_DRAFT_COUPLED:
    case OR_DRAFT_CHAIN:
    case OR_DRAFT_DYSPEC:
    case OR_DRAFT_DYSPEC_T:
    case OR_DRAFT_TOPK:
    case OR_DRAFT_NGRAM:
        return rule != OR_ACCEPT_SLRS; // its chain has as many tokens as the text needs
    default:
        return false;
    }
}

void or_usefulness_judged(or_usefulness_t *usefulness, bool accepted)
{
    usefulness->fruitless = accepted ? 0 : usefulness->fruitless + 1;
}

uint32_t or_usefulness_nodes(const or_usefulness_t *usefulness, uint32_t asked, bool can_cut)
{
    if (usefulness->fruitless >= OR_FRUITLESS_ROUNDS_MAX) {
        return 0;
    }
    uint32_t nodes = can_cut ? asked >> (usefulness->fruitless / OR_FRUITLESS_A_STEP) : asked;
    return nodes > 0 ? nodes : asked > 0;
}
