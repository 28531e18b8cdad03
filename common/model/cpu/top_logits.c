#include "common/model/cpu/top_logits.h"

#include <math.h>

static float ordered(float logit)
{
    return isfinite(logit) ? logit : -INFINITY;
}

static bool is_worse(or_top_logit_t a, or_top_logit_t b)
{
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

// A heap whose every parent is worse than its children: put `item` where the root was.
static void replace_root(or_top_logit_t *heap, uint32_t count, or_top_logit_t item)
{
    uint32_t hole = 0;
    while (2 * hole + 1 < count) {
        uint32_t child = 2 * hole + 1;
        child += child + 1 < count && is_worse(heap[child + 1], heap[child]);
        if (!is_worse(heap[child], item)) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = item;
}

static void push(or_top_logit_t *heap, uint32_t count, or_top_logit_t item)
{
    uint32_t hole = count;
    while (hole > 0 && is_worse(item, heap[(hole - 1) / 2])) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = item;
}

// Ids ascend, so a later equal is worse: one comparison with the worst so far passes over most.
void or_top_logits(const float *x, uint32_t count, uint32_t first_id, uint32_t top,
                   or_top_logit_t *out)
{
    for (uint32_t i = 0; i < top; i++) {
        push(out, i, (or_top_logit_t){first_id + i, ordered(x[i])});
    }
    for (uint32_t i = top; i < count; i++) {
        if (x[i] > out[0].logit && isfinite(x[i])) {
            replace_root(out, top, (or_top_logit_t){first_id + i, x[i]});
        }
    }
}
