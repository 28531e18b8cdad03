// Goal: a whole verifier on a device writes the CPU's text, and asks it for contenders only.
// Method: the same plain steps on either; the model counts the rows whose whole logits it fetched. (Trees and terms of all
// kinds: contests_test.c.)
#include <stdio.h>

#include "common/model/gpu.h"
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
