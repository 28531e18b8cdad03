// plain - the text that the target alone would write: one row at a time, one draw at a time, no tree,
// no network.
//
// Every exactness test compares with it. It shares the model, the sampler and the noise with the
// engine, and nothing else.
#pragma once

#include "common/decode/sampling/sampler.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "tests/simulation/cluster.h"

// Write up to `count` tokens after `prompt` into out (room for count). Draws are coupled, with `seed`;
// temperature 0 is greedy. Stops behind an end token. Returns how many. Fails the running test on
// errors.
uint32_t plain_decode(or_model_t *model, const or_vocab_t *vocab, const int32_t *prompt,
                      uint32_t prompt_count, const or_sampling_t *sampling, uint64_t seed,
                      uint32_t count, int32_t *out);

typedef struct {
    int32_t tokens[sizeof((sim_result_t *)0)->tokens / sizeof(int32_t)];
    uint32_t count;
} plain_text_t;

// The text that `target` alone writes for a request, max_tokens at most. It ends with an end token even if
// the request ignores those.
plain_text_t plain_text_of(const sim_model_t *target, const or_generate_request_t *request);

// Fail the test unless the result is a whole text, and exactly the one of plain_text_of. If the request
// ignores end tokens the result must have max_tokens, and may go on behind an end token.
void assert_plain_text(const sim_model_t *target, const or_generate_request_t *request,
                       const sim_result_t *result);
