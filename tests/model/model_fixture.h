// model_fixture - a loaded model and shorthand for its passes, for the tests of this folder.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "common/model/model.h"
#include "tests/support/test_support.h"

typedef struct {
    or_gguf_t *gguf;
    or_model_t *model;
    uint32_t vocab_size;
    size_t kv_floats; // of one position: [layers][kv_heads][head_dim]
} model_fixture_t;

// Exit with the status that CTest counts as skipped (77) if this machine has no GPU. Only for programs that link a library
// of GPU functions (common/model/gpu/gpu.h), which is why it is inline.
static inline void fixture_need_gpu(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        exit(77);
    }
}

// Fails the test if the file or the model cannot be loaded. kernels: NULL for the best.
void model_fixture_open(model_fixture_t *fixture, const char *path, const char *kernels,
                        or_model_options_t options);
void model_fixture_close(model_fixture_t *fixture);

or_kv_sequence_t *model_fixture_sequence(model_fixture_t *fixture, uint32_t slots_max);

or_model_row_t prefix_row(or_kv_sequence_t *sequence, int32_t token);
or_model_row_t tree_row(or_kv_sequence_t *sequence, int32_t token, uint32_t slot, uint32_t parent);

// One pass and the logits of all its rows into out [count][vocab_size] (may be NULL); fails the
// test if the pass does.
void model_fixture_pass(model_fixture_t *fixture, const or_model_row_t *rows, uint32_t count,
                        float *out);

// Prefix rows for `count` tokens in passes of at most `chunk`, logits of all rows into out (may be
// NULL).
void model_fixture_prefill(model_fixture_t *fixture, or_kv_sequence_t *sequence,
                           const int32_t *tokens, uint32_t count, uint32_t chunk, float *out);

// Random token ids.
void random_tokens(uint64_t *rng, uint32_t vocab_size, int32_t *tokens, uint32_t count);

// Bit for bit.
void assert_same_bits(const float *a, const float *b, size_t count);
void assert_same_kv(const model_fixture_t *fixture, const or_kv_sequence_t *a,
                    const or_kv_sequence_t *b);

void *test_alloc(size_t count, size_t size); // fails the test without memory
