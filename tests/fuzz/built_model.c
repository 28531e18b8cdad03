#include "tests/fuzz/built_model.h"

#include <stdlib.h>

#include "common/model/arch/arch.h"
#include "common/model/model.h"
#include "tests/fuzz/fuzz.h"

#define CONTEXT_MAX 40u // over a page of KV cache

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

// Run two tokens and a guess through all layers. Nothing is promised about the weights.
static void run_model(or_model_t *model)
{
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    or_kv_sequence_t *sequence = NULL;
    float *logits = malloc(vocab_size * sizeof *logits);
    assert(logits != NULL);
    if (or_model_open_sequence(model, 1, &sequence) == OR_OK) {
        const or_model_row_t rows[] = {
            {sequence, 0, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
            {sequence, (int32_t)vocab_size - 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
            {sequence, 0, 0, OR_KV_NO_SLOT}};
        or_status_t status = or_model_forward(model, rows, 3);
        built_model_assert_sentence(status);
        if (status == OR_OK) {
            status = or_model_logits(model, 2, 1, logits);
            assert(status == OR_OK);
            built_model_read(logits, vocab_size * sizeof *logits);
        }
    }
    or_kv_sequence_close(&sequence);
    free(logits);
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
    or_model_t *model = NULL;
    const or_model_options_t options = {.threads = 1,
                                        .context_max = shape.context < CONTEXT_MAX ? shape.context
                                                                                   : CONTEXT_MAX,
                                        .rows_max = 3,
                                        .sequences_max = 1};
    status = or_model_load(gguf, &options, &model);
    built_model_assert_sentence(status);
    if (status == OR_OK) {
        run_model(model);
    }
    or_model_destroy(&model);
}
