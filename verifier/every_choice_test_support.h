// every_choice_test_support - a chooser that takes every choice in turn, with the probability of each
// run. (tests/exactness has one in rationals, for drafter and verifier together.)
//
//     do {
//         every_choice_begin(&e);
//         outcome = what runs(&e.chooser ...);
//         add e.probability to the outcome's
//     } while (every_choice_advance(&e));
#pragma once

#include "common/decode/chooser.h"

#define EVERY_CHOICE_MAX 16u // choices of a run

typedef struct {
    or_chooser_t chooser; // first
    struct {
        uint32_t taken, next; // ways; next 0: there is no other
    } choices[EVERY_CHOICE_MAX];
    uint32_t decided, made; // choices
    double probability;
} every_choice_t;

void every_choice_init(every_choice_t *e);
void every_choice_begin(every_choice_t *e);
bool every_choice_advance(every_choice_t *e);
