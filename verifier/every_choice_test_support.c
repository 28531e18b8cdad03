#include "verifier/every_choice_test_support.h"

#include "tests/support/test_support.h"

// The first possible way from `from` on; 0 if there is none but the first.
static uint32_t possible(const double *weights, uint32_t count, uint32_t from)
{
    while (from < count && !(weights[from] > 0)) {
        from++;
    }
    return from < count ? from : 0;
}

static uint32_t draw(or_chooser_t *chooser, or_choice_t at, const double *weights, uint32_t count)
{
    every_choice_t *e = (every_choice_t *)chooser;
    (void)at;
    assert_true(e->made < EVERY_CHOICE_MAX);
    if (e->made == e->decided) {
        e->choices[e->decided++].taken = possible(weights, count, 0);
    }
    uint32_t taken = e->choices[e->made].taken;
    e->choices[e->made++].next = possible(weights, count, taken + 1);
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(weights[i] >= 0);
        total += weights[i];
    }
    assert_true(weights[taken] > 0);
    e->probability *= weights[taken] / total;
    return taken;
}

static bool bernoulli(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator)
{
    assert_true(denominator > 0);
    double heads = numerator < denominator ? numerator : denominator;
    const double ways[] = {heads > 0 ? heads : 0, denominator - (heads > 0 ? heads : 0)};
    return draw(chooser, at, ways, 2) == 0;
}

void every_choice_init(every_choice_t *e)
{
    *e = (every_choice_t){.chooser = {.bernoulli = bernoulli, .draw = draw}};
}

void every_choice_begin(every_choice_t *e)
{
    e->made = 0;
    e->probability = 1;
}

bool every_choice_advance(every_choice_t *e)
{
    while (e->decided > 0 && e->choices[e->decided - 1].next == 0) {
        e->decided--;
    }
    if (e->decided > 0) {
        e->choices[e->decided - 1].taken = e->choices[e->decided - 1].next;
    }
    return e->decided > 0;
}
