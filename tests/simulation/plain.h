// plain - what the target alone would write: one row at a time, one draw at a time, no tree, no
// network.
//
// The yardstick of every exactness test. It shares the model, the sampler and the noise with the
// engine, and nothing else.
#pragma once

#include "common/decode/sampling/sampler.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"

// Write up to `count` tokens after `prompt` into out (room for count). Coupled draws with `seed`;
// temperature 0 is greedy. Stops behind an end token. Returns how many. Fails the running test on
// errors.
uint32_t plain_decode(or_model_t *model, const or_vocab_t *vocab, const int32_t *prompt,
                      uint32_t prompt_count, const or_sampling_t *sampling, uint64_t seed,
                      uint32_t count, int32_t *out);
