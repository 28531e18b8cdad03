#include "tests/fuzz/built_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/arch/arch.h"
#include "common/model/model.h"
#include "tests/fuzz/fuzz.h"

#define CONTEXT_MAX 40u // over a page of KV cache
#define ROWS 3u
#define KERNELS "OUTRIDER_KERNELS"

// The optimiser cannot remove volatile reads.
void built_model_read(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        volatile unsigned char byte = ((const unsigned char *)bytes)[i];
        (void)byte;
    }
}

void built_model_assert_sentence(or_status_t status)
{
    assert(status == OR_OK || or_error_text()[0] != '\0');
}

// Run two tokens and a guess through all layers, in one pass or each in its own, and return the guess's logits. NULL: there
// was no room. Nothing is promised about the weights.
static float *run(or_model_t *model, bool at_once)
{
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    or_kv_sequence_t *sequence = NULL;
    float *logits = malloc(vocab_size * sizeof *logits);
    assert(logits != NULL);
    or_status_t status = or_model_open_sequence(model, 1, &sequence);
    const or_model_row_t rows[] = {
        {sequence, 0, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
        {sequence, (int32_t)vocab_size - 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
        {sequence, 0, 0, OR_KV_NO_SLOT}};
    const uint32_t count = at_once ? ROWS : 1;
    for (uint32_t i = 0; status == OR_OK && i < ROWS; i += count) {
        status = or_model_forward(model, rows + i, count);
    }
    status = status != OR_OK ? status : or_model_logits(model, count - 1, 1, logits);
    built_model_assert_sentence(status);
    or_kv_sequence_close(&sequence);
    if (status != OR_OK) {
        free(logits);
        return NULL;
    }
    return logits;
}

// Load with the kernels of this name, or the best for NULL, and run.
static float *load_and_run(const or_gguf_t *gguf, const or_model_shape_t *shape,
                           const char *kernels, bool at_once)
{
    or_model_t *model = NULL;
    float *logits = NULL;
    const or_model_options_t options = {.threads = 1,
                                        .context_max = shape->context < CONTEXT_MAX ? shape->context
                                                                                    : CONTEXT_MAX,
                                        .rows_max = ROWS,
                                        .sequences_max = 1};
    int set = kernels != NULL ? setenv(KERNELS, kernels, 1) : unsetenv(KERNELS);
    assert(set == 0);
    or_status_t status = or_model_load(gguf, &options, &model);
    built_model_assert_sentence(status);
    if (status == OR_OK) {
        logits = run(model, at_once);
    }
    or_model_destroy(&model);
    return logits;
}

// The bits of a NaN may differ.
static void assert_same(const float *a, const float *b, uint32_t count)
{
    assert((a == NULL) == (b == NULL));
    for (uint32_t i = 0; a != NULL && i < count; i++) {
        assert(memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (isnan(a[i]) && isnan(b[i])));
    }
}

void built_model_try(const or_gguf_t *gguf, uint64_t parameters_max)
{
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    built_model_assert_sentence(status);
    // Duplicate names aside, weights are in the file: only a small file's model is tried.
    if (status != OR_OK || shape.parameters > parameters_max) {
        return;
    }
    float *best = load_and_run(gguf, &shape, NULL, true);
    float *reference = load_and_run(gguf, &shape, "ref", false);
    assert_same(best, reference, shape.vocab_size);
    free(reference);
    free(best);
}
