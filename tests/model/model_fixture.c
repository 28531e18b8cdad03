#include "tests/model/model_fixture.h"

#include <stdlib.h>
#include <string.h>

static void require_ok(or_status_t status)
{
    if (status != OR_OK) {
        fail_msg("%s: %s", or_status_name(status), or_error_text());
    }
}

void *test_alloc(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    assert_non_null(memory);
    return memory;
}

void model_fixture_open(model_fixture_t *fixture, const char *path, const char *kernels,
                        or_model_options_t options)
{
    *fixture = (model_fixture_t){0};
    if (kernels != NULL) {
        setenv("OUTRIDER_KERNELS", kernels, 1);
    }
    require_ok(or_gguf_open(path, &fixture->gguf));
    require_ok(or_model_load(fixture->gguf, &options, &fixture->model));
    if (kernels != NULL) {
        unsetenv("OUTRIDER_KERNELS");
        assert_string_equal(or_model_kernels(fixture->model), kernels);
    }
    const or_model_shape_t *shape = or_model_shape(fixture->model);
    fixture->vocab_size = shape->vocab_size;
    fixture->kv_floats = (size_t)shape->layers * shape->kv_heads * shape->head_dim;
}

void model_fixture_close(model_fixture_t *fixture)
{
    or_model_destroy(&fixture->model);
    or_gguf_close(&fixture->gguf);
}

or_kv_sequence_t *model_fixture_sequence(model_fixture_t *fixture, uint32_t slots_max)
{
    or_kv_sequence_t *sequence = NULL;
    require_ok(or_model_open_sequence(fixture->model, slots_max, &sequence));
    return sequence;
}

or_model_row_t prefix_row(or_kv_sequence_t *sequence, int32_t token)
{
    return (or_model_row_t){sequence, token, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
}

or_model_row_t tree_row(or_kv_sequence_t *sequence, int32_t token, uint32_t slot, uint32_t parent)
{
    return (or_model_row_t){sequence, token, slot, parent};
}

void model_fixture_pass(model_fixture_t *fixture, const or_model_row_t *rows, uint32_t count,
                        float *out)
{
    require_ok(or_model_forward(fixture->model, rows, count));
    if (out != NULL) {
        memset(out, 0xAA, (size_t)count * fixture->vocab_size * sizeof *out);
        require_ok(or_model_logits(fixture->model, 0, count, out));
    }
}

void model_fixture_prefill(model_fixture_t *fixture, or_kv_sequence_t *sequence,
                           const int32_t *tokens, uint32_t count, uint32_t chunk, float *out)
{
    or_model_row_t *rows = test_alloc(chunk, sizeof *rows);
    for (uint32_t first = 0; first < count; first += chunk) {
        uint32_t n = count - first < chunk ? count - first : chunk;
        for (uint32_t i = 0; i < n; i++) {
            rows[i] = prefix_row(sequence, tokens[first + i]);
        }
        model_fixture_pass(fixture, rows, n,
                           out != NULL ? out + (size_t)first * fixture->vocab_size : NULL);
    }
    free(rows);
}

void random_tokens(uint64_t *rng, uint32_t vocab_size, int32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)test_below(rng, vocab_size);
    }
}

void assert_same_bits(const float *a, const float *b, size_t count)
{
    if (memcmp(a, b, count * sizeof *a) == 0) {
        return;
    }
    size_t i = 0;
    while (memcmp(&a[i], &b[i], sizeof *a) == 0) {
        i++;
    }
    fail_msg("bits differ first at %zu of %zu: %.9g and %.9g", i, count, (double)a[i],
             (double)b[i]);
}

void assert_same_kv(const model_fixture_t *fixture, const or_kv_sequence_t *a,
                    const or_kv_sequence_t *b)
{
    size_t n = fixture->kv_floats;
    float *floats = test_alloc(4 * n, sizeof *floats);
    assert_int_equal(or_kv_sequence_length(a), or_kv_sequence_length(b));
    for (uint32_t p = 0; p < or_kv_sequence_length(a); p++) {
        or_kv_sequence_read(a, p, floats, floats + n);
        or_kv_sequence_read(b, p, floats + 2 * n, floats + 3 * n);
        assert_same_bits(floats, floats + 2 * n, 2 * n);
    }
    free(floats);
}
