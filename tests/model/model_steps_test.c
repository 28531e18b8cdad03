// Goal: a text that outgrows the step that its passes are recorded for (gpu_steps.h) is written on with the same bits
// as on the CPU, and no pass takes memory of the device.
// Method: plain decoding from a little before the place where steps change to a little behind it, on either.
#include <stdio.h>
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/model/model_fixture.h"

#define PREFILLED 252u // positions
#define DECODED 10u
#define STEPS 2u // up to 256 positions, and up to 512

static uint32_t allocations;

static int count_alloc(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    allocations++;
    return or_gpu_functions()->alloc(cuda, bytes, at_p);
}

typedef struct {
    model_fixture_t fixture;
    or_kv_sequence_t *text;
} side_t;

static void open_side(side_t *side, const or_gpu_choice_t *gpu, const int32_t *tokens)
{
    const or_model_options_t options = {
        .threads = 1, .rows_max = PREFILLED, .pages_max = 10, .gpu = gpu};
    model_fixture_open(&side->fixture, test_model("tales-1m-f16.gguf"), NULL, options);
    side->text = model_fixture_sequence(&side->fixture, 0);
    model_fixture_prefill(&side->fixture, side->text, tokens, PREFILLED, PREFILLED, NULL);
}

static void close_side(side_t *side)
{
    or_kv_sequence_close(&side->text);
    model_fixture_close(&side->fixture);
}

static void decode(side_t *side, int32_t token, float *logits)
{
    or_model_row_t row = prefix_row(side->text, token);
    model_fixture_pass(&side->fixture, &row, 1, logits);
}

static void a_text_grows_out_of_its_step(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = count_alloc;
    const or_gpu_choice_t choice = {.functions = &functions};
    int32_t tokens[PREFILLED + DECODED];
    uint64_t rng = test_seed();
    random_tokens(&rng, 256, tokens, PREFILLED + DECODED);
    side_t cpu;
    side_t gpu;
    open_side(&cpu, NULL, tokens);
    open_side(&gpu, &choice, tokens);
    uint32_t vocab_size = cpu.fixture.vocab_size;
    float *logits = test_alloc((size_t)2 * vocab_size, sizeof *logits);
    allocations = 0;
    for (uint32_t i = PREFILLED; i < PREFILLED + DECODED; i++) {
        decode(&cpu, tokens[i], logits);
        decode(&gpu, tokens[i], logits + vocab_size);
        assert_same_bits(logits + vocab_size, logits, vocab_size);
    }
    assert_int_equal(allocations, 0);
    assert_int_equal(gpu.fixture.model->gpu->steps.replays, DECODED - STEPS);
    free(logits);
    close_side(&gpu);
    close_side(&cpu);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows_out_of_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
