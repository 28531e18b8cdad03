// Goal: a GPU that runs out of memory, or breaks, costs a sentence and neither a crash nor a leak, and nothing is
// committed that was not computed.
// Method: the functions of the emulated device, of which some fail from the n-th call on, for every n that a
// small model's life has. That device ends the program when it is closed before all memory is given back.
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_rejection.h"
#include "tests/model/model_fixture.h"

#define MODEL "tests/model/data/llama3-q8_0.gguf"
#define BROKEN 99
#define TOKENS 3u

static uint32_t calls_left; // that go well

static bool goes_well(void)
{
    calls_left -= calls_left > 0;
    return calls_left > 0;
}

static int alloc_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc(cuda, bytes, at_p) : BROKEN;
}

static int alloc_pinned_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc_pinned(cuda, bytes, at_p) : BROKEN;
}

static bool is_greedy;      // who allocates next leaves nothing to others
static const void *greedy;  // what it has
static uint32_t given_back; // by such

static int alloc_beside_greedy(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    int status = greedy == NULL ? or_gpu_functions()->alloc(cuda, bytes, at_p) : BROKEN;
    if (is_greedy) {
        greedy = *at_p;
        is_greedy = false;
    }
    return status;
}

static void free_greedy(or_cuda_t *cuda, void *at)
{
    if (greedy != NULL && at == greedy) {
        greedy = NULL;
        given_back++;
    }
    or_gpu_functions()->free(cuda, at);
}

static int upload_or_not(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return goes_well() ? or_gpu_functions()->upload(cuda, to, from, bytes) : BROKEN;
}

static int wait_or_not(or_cuda_t *cuda)
{
    return goes_well() ? or_gpu_functions()->wait(cuda) : BROKEN;
}

static int add_parts_or_not(or_cuda_t *cuda, bool over, float *y, size_t y_stride,
                            const float *parts, size_t part_stride, size_t p_stride, uint32_t count,
                            uint32_t n, uint32_t rows)
{
    return goes_well() ? or_gpu_functions()->add_parts(cuda, over, y, y_stride, parts, part_stride,
                                                       p_stride, count, n, rows)
                       : BROKEN;
}

static or_gguf_t *open_file(void)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(MODEL, &gguf), OR_OK);
    return gguf;
}

static or_status_t load_for(uint32_t rows, const or_gpu_functions_t *functions,
                            const or_gguf_t *gguf, or_model_t **model_p)
{
    const or_gpu_choice_t choice = {.functions = functions};
    const or_model_options_t options = {.threads = 1,
                                        .rows_max = rows,
                                        .pages_max = 2,
                                        .sequences_max = 1,
                                        .slots_max = 4,
                                        .gpu = &choice};
    return or_model_load(gguf, &options, model_p);
}

static or_status_t load(const or_gpu_functions_t *functions, const or_gguf_t *gguf,
                        or_model_t **model_p)
{
    return load_for(TOKENS, functions, gguf, model_p);
}

static void memory_runs_out(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = alloc_or_not;
    functions.alloc_pinned = alloc_pinned_or_not;
    or_gguf_t *gguf = open_file();
    bool all = false;
    for (uint32_t n = 1; !all; n++) {
        or_model_t *model = NULL;
        or_kv_sequence_t *sequence = NULL;
        or_gpu_rejection_t *rejection = NULL;
        calls_left = n;
        or_status_t status = load(&functions, gguf, &model);
        status = status != OR_OK ? status : or_model_open_sequence(model, 4, &sequence);
        status = status != OR_OK ? status : or_gpu_rejection_create(model, 4, 1, &rejection);
        all = status == OR_OK && rejection != NULL; // which a verifier can do without
        assert_true(status == OR_OK || status == OR_ERR_NO_MEMORY);
        or_gpu_rejection_destroy(&rejection);
        or_kv_sequence_close(&sequence);
        or_model_destroy(&model);
    }
    or_gguf_close(&gguf);
}

// A tree without guesses, at a row of the last pass.
static or_status_t judge(or_model_t *model, uint32_t nodes_max)
{
    or_token_tree_t *tree = NULL;
    or_gpu_rejection_t *rejection = NULL;
    const or_cuda_path_t *path = NULL;
    const or_draws_t draws = {0};
    assert_int_equal(or_token_tree_create(1, &tree), OR_OK);
    assert_int_equal(or_gpu_rejection_create(model, 4, nodes_max, &rejection), OR_OK);
    const or_gpu_trial_t trial = {.tree = tree,
                                  .draws = &draws,
                                  .first_row = 1,
                                  .rows = 1,
                                  .row_of = &(uint32_t){0},
                                  .temperature = 1};
    or_status_t status = or_gpu_rejection_run(rejection, &trial, &path);
    assert_int_equal(path != NULL, status == OR_OK);
    or_gpu_rejection_destroy(&rejection);
    or_token_tree_destroy(&tree);
    return status;
}

// Load, one pass with its logits, a judgement; the first of them that fails says what the device did.
static or_status_t live(const or_gpu_functions_t *functions, const or_gguf_t *gguf)
{
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    or_status_t status = load(functions, gguf, &model);
    if (status != OR_OK) {
        return status;
    }
    float *logits = test_alloc((size_t)TOKENS * or_model_shape(model)->vocab_size, sizeof *logits);
    assert_int_equal(or_model_open_sequence(model, 4, &sequence), OR_OK);
    const or_model_row_t rows[TOKENS] = {prefix_row(sequence, 1), prefix_row(sequence, 2),
                                         tree_row(sequence, 3, 0, OR_KV_NO_SLOT)};
    status = or_model_forward(model, rows, TOKENS);
    assert_int_equal(or_kv_sequence_length(sequence), status == OR_OK ? 2 : 0);
    status = status != OR_OK ? status : or_model_logits(model, 0, TOKENS, logits);
    status = status != OR_OK ? status : judge(model, 1);
    if (status != OR_OK) { // for good
        assert_int_equal(or_model_forward(model, rows, TOKENS), OR_ERR_IO);
        assert_true(or_model_is_lost(model));
    }
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    free(logits);
    return status;
}

static void the_device_breaks(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.upload = upload_or_not;
    functions.wait = wait_or_not;
    functions.add_parts = add_parts_or_not;
    or_gguf_t *gguf = open_file();
    bool all = false;
    for (uint32_t n = 1; !all; n++) {
        calls_left = n;
        or_status_t status = live(&functions, gguf);
        all = status == OR_OK;
        assert_true(all || status == OR_ERR_IO);
        assert_true(all || strstr(or_error_text(), "the GPU: ") != NULL);
    }
    or_gguf_close(&gguf);
}

// With larger logits there is no room for the rest: who judges does without them.
static void smaller_trees_are_judged_with_less_memory(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = alloc_beside_greedy;
    functions.free = free_greedy;
    or_gguf_t *gguf = open_file();
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    greedy = NULL;
    given_back = 0;
    is_greedy = false;
    assert_int_equal(load_for(100, &functions, gguf, &model), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 4, &sequence), OR_OK);
    const or_model_row_t rows[] = {prefix_row(sequence, 1), prefix_row(sequence, 2)};
    assert_int_equal(or_model_forward(model, rows, 2), OR_OK);
    is_greedy = true;
    assert_int_equal(judge(model, 90), OR_OK);
    assert_int_equal(given_back, 1);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
}

// ---- recordings ----

static uint32_t refused;

static int record_end_never(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    or_cuda_recording_t *recording = NULL;
    assert_int_equal(or_gpu_functions()->record_end(cuda, &recording), OR_CUDA_OK);
    or_gpu_functions()->recording_free(&recording);
    *recording_p = NULL;
    refused++;
    return BROKEN;
}

static bool recording_now;

static int record_begin_noted(or_cuda_t *cuda)
{
    recording_now = true;
    return or_gpu_functions()->record_begin(cuda);
}

static int record_end_noted(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    recording_now = false;
    refused++;
    return or_gpu_functions()->record_end(cuda, recording_p);
}

static int add_parts_unless_recorded(or_cuda_t *cuda, bool over, float *y, size_t y_stride,
                                     const float *parts, size_t part_stride, size_t p_stride,
                                     uint32_t count, uint32_t n, uint32_t rows)
{
    return recording_now ? BROKEN
                         : or_gpu_functions()->add_parts(cuda, over, y, y_stride, parts,
                                                         part_stride, p_stride, count, n, rows);
}

// The same tokens by turns at the same place: the first two passes' logits come again.
static void check_that_it_goes_on(const or_gpu_functions_t *functions)
{
    refused = 0;
    or_gguf_t *gguf = open_file();
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    calls_left = UINT32_MAX;
    assert_int_equal(load(functions, gguf, &model), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    size_t vocab_size = or_model_shape(model)->vocab_size;
    float *logits = test_alloc(4 * vocab_size, sizeof *logits);
    for (uint32_t i = 0; i < 4; i++) {
        const or_model_row_t row = prefix_row(sequence, 1 + (int32_t)i % 2);
        assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
        assert_int_equal(or_model_logits(model, 0, 1, logits + i * vocab_size), OR_OK);
        or_kv_sequence_truncate(sequence, 0);
    }
    assert_same_bits(logits + 2 * vocab_size, logits, 2 * vocab_size);
    assert_int_equal(refused, 1);
    assert_false(or_model_is_lost(model));
    free(logits);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
}

static void a_device_that_records_nothing_goes_on(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.record_end = record_end_never;
    check_that_it_goes_on(&functions);
    functions.record_begin = record_begin_noted;
    functions.record_end = record_end_noted;
    functions.add_parts = add_parts_unless_recorded;
    check_that_it_goes_on(&functions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(the_device_breaks),
        cmocka_unit_test(smaller_trees_are_judged_with_less_memory),
        cmocka_unit_test(a_device_that_records_nothing_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
