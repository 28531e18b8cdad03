#include "tests/simulation/plain.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/noise.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

uint32_t plain_decode(or_model_t *model, const or_vocab_t *vocab, const int32_t *prompt,
                      uint32_t prompt_count, const or_sampling_t *sampling, uint64_t seed,
                      uint32_t count, int32_t *out)
{
    or_kv_sequence_t *kv = NULL;
    or_sampler_t *sampler = NULL;
    float *logits = calloc(or_vocab_size(vocab), sizeof *logits);
    int32_t *text = calloc(prompt_count + count, sizeof *text);
    assert_int_equal(or_model_open_sequence(model, 1, &kv), OR_OK);
    assert_int_equal(or_sampler_create(or_vocab_size(vocab), &sampler), OR_OK);
    memcpy(text, prompt, prompt_count * sizeof *text);
    or_noise_place_t place = {0, 0};
    uint32_t written = 0;
    for (uint32_t i = 0; i < prompt_count + count; i++) {
        or_model_row_t row = {kv, text[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
        if (i + 1 < prompt_count) {
            continue;
        }
        assert_int_equal(or_model_logits(model, 0, 1, logits), OR_OK);
        or_distribution_t dist = or_sampler_distribution(sampler, sampling, logits, text, i + 1);
        int32_t y = dist.ids[0];
        if (sampling->temperature > 0) {
            y = or_noise_argmax(or_noise_key(seed, 0), place, dist.ids, dist.scores, dist.count,
                                or_vocab_noise_keys(vocab));
        }
        out[written++] = y;
        if (written == count || or_vocab_is_end(vocab, y)) {
            break;
        }
        text[i + 1] = y;
        place = or_noise_advance(place, or_vocab_widths(vocab)[y]);
    }
    or_sampler_destroy(&sampler);
    or_kv_sequence_close(&kv);
    free(text);
    free(logits);
    return written;
}

plain_text_t plain_text_of(const sim_model_t *target, const or_generate_request_t *request)
{
    plain_text_t text = {.count = 0};
    int32_t *prompt = NULL;
    size_t count = 0;
    assert_in_range(request->max_tokens, 1, sizeof text.tokens / sizeof *text.tokens);
    assert_int_equal(or_tokenize(target->vocab, (const char *)request->prompt,
                                 request->prompt_bytes, OR_TOKENIZE_BOS, &prompt, &count),
                     OR_OK);
    text.count = plain_decode(target->model, target->vocab, prompt, (uint32_t)count,
                              &request->sampling, request->seed, request->max_tokens, text.tokens);
    free(prompt);
    return text;
}

void assert_plain_text(const sim_model_t *target, const or_generate_request_t *request,
                       const sim_result_t *result)
{
    const plain_text_t plain = plain_text_of(target, request);
    if (result->finish != OR_FINISH_LENGTH && result->finish != OR_FINISH_STOP) {
        fail_msg("seed %llu: no text: finish %u %s", (unsigned long long)request->seed,
                 result->finish, result->error);
    }
    if (result->count != (request->ignore_end ? request->max_tokens : plain.count) ||
        memcmp(result->tokens, plain.tokens, plain.count * sizeof *plain.tokens) != 0) {
        fail_msg("seed %llu, %u ahead, policy %u: the text differs from plain decoding",
                 (unsigned long long)request->seed, request->draft_ahead, request->draft_policy);
    }
}
