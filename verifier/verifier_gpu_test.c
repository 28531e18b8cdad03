// Goal: a whole verifier on a device writes the CPU's text, and asks it for contenders only; and a new session gets the slots
// of the one whose place it takes.
// Method: the same plain steps on either; the model counts the rows whose whole logits it fetched. (Trees and terms of all
// kinds: contests_test.c.)
#include <stdio.h>

#include "common/model/gpu/gpu.h"
#include "common/model/model_draws.h"
#include "verifier/verifier_test_support.h"

#define SKIPPED 77 // what CTest takes for it
#define LENGTH 6u

static uint32_t expected[LENGTH];

static int set_up_gpu(void **state)
{
    static or_gpu_choice_t choice;
    choice = (or_gpu_choice_t){.functions = or_gpu_functions()};
    bench_gpu = &choice;
    return bench_setup(state);
}

static void write_text(bench_t *b, uint32_t *text)
{
    or_message_t hello;
    hear(b, &hello); // now the hub knows the peer
    decode_plainly(b, LENGTH, text);
}

static void on_the_cpu(void **state)
{
    write_text(*state, expected);
}

static void on_the_device(void **state)
{
    bench_t *b = *state;
    uint32_t text[LENGTH];
    write_text(b, text);
    assert_memory_equal(text, expected, sizeof text);
    assert_int_equal(or_model_whole_rows(b->model), 0);
}

static void in_the_slots_of_another(void **state)
{
    bench_t *b = *state;
    uint32_t text[LENGTH];
    or_message_t hello;
    hear(b, &hello);
    assert_int_equal(or_model_sequences_max(b->model), 2);
    for (uint64_t id = 1; id <= 3; id++) {
        say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION,
                              .session = {id},
                              .body.open_session = usual_terms()});
    }
    expect_silence(b);
    decode_plainly(b, LENGTH, text);
    assert_memory_equal(text, expected, sizeof text);
}

int main(void)
{
    test_log_init();
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(on_the_cpu, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(on_the_device, set_up_gpu, bench_teardown),
        cmocka_unit_test_setup_teardown(in_the_slots_of_another, set_up_gpu, bench_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
