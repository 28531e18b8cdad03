// vocab_choice - the choice among the ways for two vocabularies to meet (or_vocab_method_t, docs/design.md section 6).
// Pure functions: any thread.
#pragma once

#include "common/decode/methods.h"
#include "common/text/vocab/vocab_pair.h"

// Choose the method that suits the pair best under a rule and temperature: OR_VOCAB_SAME, TLI, SLEM or SLRS. `why` of
// `capacity` bytes gets a sentence with the reason and the figures. OR_ERR_UNSUPPORTED: there is none; the error has the
// figures and the next best choice.
or_status_t or_vocab_choose(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                            uint32_t rule, float temperature, or_vocab_method_t *method, char *why,
                            size_t capacity);
// Check that this method can be used with this pair and rule. OR_ERR_UNSUPPORTED: it cannot; the error has the figures and the
// next best choice.
or_status_t or_vocab_choice_check(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                                  or_vocab_method_t method, uint32_t rule);
