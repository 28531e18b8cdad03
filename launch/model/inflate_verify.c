#include "launch/model/inflate_verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/math/rng.h"
#include "common/model/arch/arch.h"
#include "common/model/model.h"

#define PASS_ROWS 32u

typedef struct {
    or_gguf_t *gguf;
    or_model_t *model;
    or_kv_sequence_t *sequence;
    float *logits; // [PASS_ROWS][vocabulary]
} side_t;

static or_status_t open_side(const char *path, uint32_t threads, uint32_t tokens, side_t *side)
{
    or_model_options_t options = {
        .threads = threads, .rows_max = PASS_ROWS, .context_max = tokens, .sequences_max = 1};
    or_status_t status = or_gguf_open(path, &side->gguf);
    status = status != OR_OK ? status : or_model_load(side->gguf, &options, &side->model);
    status = status != OR_OK ? status : or_model_open_sequence(side->model, 0, &side->sequence);
    if (status != OR_OK) {
        return status;
    }
    side->logits = calloc(PASS_ROWS, or_model_shape(side->model)->vocab_size * sizeof(float));
    return side->logits != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for the logits");
}

static void close_side(side_t *side)
{
    free(side->logits);
    or_kv_sequence_close(&side->sequence);
    or_model_destroy(&side->model);
    or_gguf_close(&side->gguf);
}

static or_status_t run(side_t *side, const int32_t *tokens, uint32_t count)
{
    or_model_row_t rows[PASS_ROWS];
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (or_model_row_t){side->sequence, tokens[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    or_status_t status = or_model_forward(side->model, rows, count);
    return status != OR_OK ? status : or_model_logits(side->model, 0, count, side->logits);
}

static int32_t random_token(or_rng_key_t key, uint32_t place, uint32_t vocab_size)
{
    const uint32_t counter[4] = {place, 0, 0, 0};
    uint32_t bits[4];
    or_philox(key, counter, bits);
    return (int32_t)(bits[0] % vocab_size);
}

static or_status_t compare(side_t sides[2], uint32_t count, uint64_t seed)
{
    uint32_t vocab_size = or_model_shape(sides[0].model)->vocab_size;
    or_rng_key_t key = or_rng_key(seed, 0);
    for (uint32_t first = 0; first < count; first += PASS_ROWS) {
        int32_t tokens[PASS_ROWS];
        uint32_t rows = count - first < PASS_ROWS ? count - first : PASS_ROWS;
        for (uint32_t i = 0; i < rows; i++) {
            tokens[i] = random_token(key, first + i, vocab_size);
        }
        or_status_t status = run(&sides[0], tokens, rows);
        status = status != OR_OK ? status : run(&sides[1], tokens, rows);
        if (status != OR_OK) {
            return status;
        }
        if (memcmp(sides[0].logits, sides[1].logits, sizeof(float) * rows * vocab_size) != 0) {
            return or_fail(OR_ERR_MISMATCH,
                           "the inflated model computes other logits than the original, from token "
                           "%" PRIu32 " to %" PRIu32 " on; nothing was written",
                           first, first + rows - 1);
        }
        if (or_interrupt_count() > 0) {
            return or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written");
        }
    }
    return OR_OK;
}

// No more tokens than the context of the file at `path` holds.
static or_status_t fit_context(const char *path, uint32_t *tokens)
{
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_gguf_open(path, &gguf);
    status = status != OR_OK ? status : or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    or_gguf_close(&gguf);
    if (status == OR_OK && shape.context < *tokens) {
        *tokens = shape.context;
    }
    return status;
}

or_status_t or_inflate_verify(const char *path_a, const char *path_b, uint32_t threads,
                              uint32_t tokens, uint64_t seed, uint32_t *compared)
{
    side_t sides[2] = {0};
    or_status_t status = fit_context(path_a, &tokens);
    status = status != OR_OK ? status : open_side(path_a, threads, tokens, &sides[0]);
    status = status != OR_OK ? status : open_side(path_b, threads, tokens, &sides[1]);
    status = status != OR_OK ? status : compare(sides, tokens, seed);
    close_side(&sides[1]);
    close_side(&sides[0]);
    if (status == OR_OK) {
        *compared = tokens;
    }
    return status;
}
