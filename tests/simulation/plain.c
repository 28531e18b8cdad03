#include "tests/simulation/plain.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/noise.h"
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
