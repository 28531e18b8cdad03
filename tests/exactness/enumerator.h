// enumerator - a chooser that takes every choice in turn, and the exact probability of each run.
//
//     enumerator_t *e = enumerator_create();
//     do {
//         enumerator_begin(e);
//         outcome = what runs(&e->chooser ...);           the same calls for the same choices
//         add enumerator_probability(e) to the outcome's
//     } while (enumerator_advance(e));                    the last choice that has another way takes it
//
// Probabilities are rationals (GMP): a double is one, and coins and weights come as they are
// (common/decode/chooser.h). `uniform` is no choice here: it gives the fixed numbers of
// `uniform_set`, and what is enumerated must hold whatever they are.
#pragma once

#include <gmp.h>

#include "common/decode/chooser.h"

typedef struct enumerator enumerator_t;

enumerator_t *enumerator_create(void);
void enumerator_destroy(enumerator_t **e_p);
or_chooser_t *enumerator_chooser(enumerator_t *e);

void enumerator_begin(enumerator_t *e);
// The probability of the choices since begin. Borrowed until the next begin.
mpq_srcptr enumerator_probability(const enumerator_t *e);
bool enumerator_advance(enumerator_t *e);

void enumerator_set_uniforms(enumerator_t *e, uint64_t uniform_set);
