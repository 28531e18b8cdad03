// vocab_choice - which of the ways for two vocabularies to meet (or_vocab_method_t) a pair should take, and
// which it may (docs/design.md section 6). Pure functions: any thread.
#pragma once

#include "common/decode/methods.h"
#include "common/text/vocab/vocab_pair.h"

// The way to meet that suits the pair best under a rule and temperature, and a sentence why, with the
// figures (`why` of `capacity` bytes). OR_VOCAB_SAME, TLI, SLEM or SLRS. OR_ERR_UNSUPPORTED: there is
// none, with the figures and the next best choice.
or_status_t or_vocab_choose(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                            uint32_t rule, float temperature, or_vocab_method_t *method, char *why,
                            size_t capacity);
// May this way be used with this pair and rule? OR_ERR_UNSUPPORTED with the figures and the next best.
or_status_t or_vocab_choice_check(const or_vocab_pair_t *pair, const or_vocab_figures_t *figures,
                                  or_vocab_method_t method, uint32_t rule);
