#include "coordinator/budget/usefulness.h"

#include <math.h>

#include "common/decode/methods.h"

bool or_usefulness_can_cut(uint32_t method, uint32_t rule)
{
    // The chain of slrs has as many tokens as the text needs.
    return or_draft_method_has(method, OR_DRAFT_CUTS) && rule != OR_ACCEPT_SLRS;
}

void or_usefulness_judged(or_usefulness_t *usefulness, uint32_t accepted, int64_t waited_ns,
                          int64_t verify_ns)
{
    int64_t lost_ns = usefulness->lost_ns + waited_ns - accepted * verify_ns;
    usefulness->lost_ns = lost_ns > 0 ? lost_ns : 0;
    usefulness->fruitless = accepted > 0 ? 0 : usefulness->fruitless + 1;
}

or_use_t or_usefulness_of(const or_usefulness_t *usefulness, int64_t verify_ns)
{
    double patience = (double)OR_LOST_NS_MAX + OR_LOST_ROUNDS_MAX * (double)verify_ns;
    if (usefulness->fruitless >= OR_FRUITLESS_ROUNDS_MAX) {
        return OR_USE_FRUITLESS;
    }
    patience *= exp2(-fmin(usefulness->record, OR_RECORD_COUNTS_MAX));
    return (double)usefulness->lost_ns > patience ? OR_USE_SLOW : OR_USE_GOOD;
}

uint32_t or_usefulness_nodes(const or_usefulness_t *usefulness, uint32_t asked, bool can_cut)
{
    uint32_t nodes = can_cut ? asked >> (usefulness->fruitless / OR_FRUITLESS_A_STEP) : asked;
    return nodes > 0 ? nodes : asked > 0;
}

double or_record_rests(const or_record_t *record, int64_t now_ns)
{
    double seconds = (double)(now_ns - record->at_ns) / (double)OR_NS_PER_S;
    return record->rests * exp2(-seconds / OR_RECORD_HALF_LIFE_S);
}

void or_record_add(or_record_t *record, double rests, int64_t now_ns)
{
    record->rests = rests + or_record_rests(record, now_ns);
    record->at_ns = now_ns;
}
