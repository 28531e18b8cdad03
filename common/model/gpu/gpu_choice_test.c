// Goal: options come to the place that they say, on machines with and without GPUs.
// Method: every word beside what it is expected to be, on machines that are two functions and a number.
#include "common/model/gpu/gpu_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define NO_DRIVER 35
#define BUSY 46
#define SILENT 999

static uint32_t gpus_here;
static uint32_t old_gpus;    // the first ones
static uint32_t silent_gpus; // of these, the first ones
static bool opened;          // any of them
static bool busy;            // nobody else may open them

static uint32_t count(void)
{
    return gpus_here;
}

static int describe(uint32_t index, or_cuda_description_t *description)
{
    if (index >= gpus_here) {
        return NO_DRIVER;
    }
    if (index < silent_gpus) {
        return SILENT;
    }
    *description = (or_cuda_description_t){.name = "of the test",
                                           .major = index < old_gpus ? 7 : 9,
                                           .memory_bytes = (uint64_t)80 << 30};
    return OR_CUDA_OK;
}

static int free_bytes(uint32_t index, uint64_t *bytes)
{
    opened = true;
    *bytes = (uint64_t)79 << 30;
    return busy || index >= gpus_here ? BUSY : OR_CUDA_OK;
}

static const char *text_of(int status)
{
    switch (status) {
    case NO_DRIVER:
        return "no driver";
    case BUSY:
        return "busy";
    case SILENT:
        return "it says nothing";
    default:
        return "no error";
    }
}

static const or_gpu_functions_t machine = {
    .count = count, .describe = describe, .free_bytes = free_bytes, .text = text_of};

static or_gpu_options_t wish(const char *device, const char *layers, const char *arith)
{
    return (or_gpu_options_t){(char *)device, (char *)layers, (char *)arith};
}

static or_gpu_place_t choose(const or_gpu_options_t *options, const or_gpu_functions_t *functions)
{
    or_gpu_place_t place;
    memset(&place, 0xAA, sizeof place);
    assert_int_equal(or_gpu_options_check(options, ""), OR_OK);
    assert_int_equal(or_gpu_place_choose(options, functions, &place), OR_OK);
    return place;
}

static void words_that_make_no_sense(void **state)
{
    static const or_gpu_options_t wrong[] = {
        {(char *)"", (char *)"auto", (char *)"canonical"},
        {(char *)"CUDA", (char *)"auto", (char *)"canonical"},
        {(char *)"CUDA0x", (char *)"auto", (char *)"canonical"},
        {(char *)"CUDA10000", (char *)"auto", (char *)"canonical"},
        {(char *)"cuda0", (char *)"auto", (char *)"canonical"},
        {(char *)"auto", (char *)"", (char *)"canonical"},
        {(char *)"auto", (char *)"4294967295", (char *)"canonical"},
        {(char *)"auto", (char *)"+1", (char *)"canonical"},
        {(char *)"auto", (char *)"auto", (char *)""},
        {(char *)"none", (char *)"auto", (char *)"tensor"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(or_gpu_options_check(&wrong[i], "-draft"), OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), "-draft"));
    }
}

static void a_machine_with_gpus(void **state)
{
    (void)state;
    gpus_here = 3;
    or_gpu_options_t usual = or_gpu_options_default();
    or_gpu_place_t place = choose(&usual, &machine);
    assert_true(place.on_gpu && place.automatic && place.why_not == NULL && !place.gpu.tensor);
    assert_ptr_equal(place.gpu.functions, &machine);
    assert_int_equal(place.gpu.index, 0);
    assert_int_equal(place.layers, OR_GPU_LAYERS_FIT);
    for (uint32_t rank = 0; rank < 5; rank++) {
        or_gpu_place_spread(&place, rank);
        assert_int_equal(place.gpu.index, rank % gpus_here);
    }

    or_gpu_options_t named = wish("CUDA2", "24", "tensor");
    place = choose(&named, &machine);
    assert_true(place.on_gpu && !place.automatic && place.gpu.tensor);
    assert_int_equal(place.layers, 24);
    or_gpu_place_spread(&place, 1);
    assert_int_equal(place.gpu.index, 2);

    or_gpu_options_t absent = wish("CUDA3", "all", "canonical");
    assert_int_equal(or_gpu_place_choose(&absent, &machine, &place), OR_ERR_NOT_FOUND);
    assert_non_null(strstr(or_error_text(), "--device CUDA3: the last one here is CUDA2"));

    or_gpu_options_t none = wish("none", "all", "canonical");
    place = choose(&none, &machine);
    assert_true(!place.on_gpu && place.missed);
    assert_non_null(strstr(place.why_not, "--device none leaves --gpu-layers"));
    none.layers = (char *)"0"; // which is no GPU's either
    place = choose(&none, &machine);
    assert_true(!place.missed && place.why_not == NULL);
    assert_string_equal(or_gpu_describe(&machine, 0).text,
                        "of the test, 79.0 of 80.0 GiB free, compute capability 9.0");
}

// A process that chooses must not take from others what only one at a time may have.
static void choosing_opens_none(void **state)
{
    (void)state;
    gpus_here = 3;
    opened = false;
    or_gpu_options_t usual = or_gpu_options_default();
    or_gpu_place_t place = choose(&usual, &machine);
    or_gpu_place_spread(&place, 2);
    assert_true(place.on_gpu && or_gpu_is_usable(&machine, 1));
    assert_false(opened);
    busy = true;
    assert_string_equal(or_gpu_describe(&machine, 0).text,
                        "of the test, 80.0 GiB (busy), compute capability 9.0");
    assert_true(opened);
    busy = false;
}

static void gpus_that_are_too_old(void **state)
{
    (void)state;
    gpus_here = 4;
    old_gpus = 2;
    or_gpu_options_t usual = or_gpu_options_default();
    or_gpu_options_t tensor = wish("auto", "auto", "tensor");
    or_gpu_place_t place = choose(&usual, &machine);
    assert_int_equal(place.gpu.index, 2);
    place = choose(&tensor, &machine);
    assert_false(place.automatic);
    for (uint32_t rank = 0; rank < 5; rank++) {
        or_gpu_place_spread(&place, rank);
        assert_int_equal(place.gpu.index, 2 + rank % 2);
    }
    assert_non_null(strstr(or_gpu_describe(&machine, 0).text, "too old"));

    old_gpus = 4;
    place = choose(&usual, &machine);
    assert_false(place.on_gpu);
    assert_true(place.missed);
    assert_non_null(strstr(place.why_not, "compute capability"));
    or_gpu_place_spread(&place, 1);
    assert_int_equal(or_gpu_place_choose(&tensor, &machine, &place), OR_ERR_NOT_FOUND);
    assert_non_null(strstr(or_error_text(), "compute capability"));

    silent_gpus = 1; // who knows how old that is?
    place = choose(&usual, &machine);
    assert_true(!place.on_gpu && place.missed);
    assert_string_equal(place.why_not, "it says nothing");
    silent_gpus = 0;
    old_gpus = 0;
}

static void a_machine_without(void **state)
{
    (void)state;
    gpus_here = 0;
    or_gpu_options_t usual = or_gpu_options_default();
    or_gpu_place_t place = choose(&usual, &machine);
    assert_false(place.on_gpu);
    assert_string_equal(place.why_not, "no driver");
    or_gpu_place_spread(&place, 1);
    place = choose(&usual, NULL);
    assert_true(!place.on_gpu && place.why_not == NULL && !place.missed);
    usual.layers = (char *)"3";
    place = choose(&usual, &machine);
    assert_true(!place.on_gpu && place.missed);
    place = choose(&usual, NULL);
    assert_true(place.missed);
    assert_non_null(strstr(place.why_not, "without CUDA"));

    or_gpu_options_t wishes[] = {wish("CUDA0", "auto", "canonical"),
                                 wish("auto", "auto", "tensor")};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        assert_int_equal(or_gpu_place_choose(&wishes[i], &machine, &place), OR_ERR_NOT_FOUND);
        assert_non_null(strstr(or_error_text(), ": no driver; "));
        assert_int_equal(or_gpu_place_choose(&wishes[i], NULL, &place), OR_ERR_UNSUPPORTED);
        assert_non_null(strstr(or_error_text(), "without CUDA"));
    }
    assert_string_equal(or_gpu_describe(&machine, 0).text, "cannot be used: no driver");
}

static void put_property(const char *device, const char *property, const char *value)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", device, property);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(value, file) >= 0 && fclose(file) == 0);
}

// A folder as Linux has it: a bridge, NVIDIA's sound, and then its GPU.
static void a_gpu_that_is_fitted(void **state)
{
    (void)state;
    static const char *const classes[][2] = {
        {"0x8086", "0x060000"}, {"0x10de", "0x040300"}, {"0x10de", "0x030200"}};
    char folder[] = "/tmp/outrider-gpu-XXXXXX", device[64], path[128];
    assert_non_null(mkdtemp(folder));
    assert_false(or_gpu_is_fitted(folder));
    for (size_t i = 0; i < 3; i++) {
        snprintf(device, sizeof device, "%s/0000:0%zu:00.0", folder, i);
        assert_int_equal(mkdir(device, 0700), 0);
        put_property(device, "vendor", classes[i][0]);
        put_property(device, "class", classes[i][1]);
        assert_int_equal(or_gpu_is_fitted(folder), i == 2);
    }
    for (size_t i = 0; i < 3; i++) {
        snprintf(device, sizeof device, "%s/0000:0%zu:00.0", folder, i);
        snprintf(path, sizeof path, "%s/vendor", device);
        unlink(path);
        snprintf(path, sizeof path, "%s/class", device);
        unlink(path);
        rmdir(device);
    }
    rmdir(folder);
    assert_false(or_gpu_is_fitted(folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_make_no_sense), cmocka_unit_test(a_machine_with_gpus),
        cmocka_unit_test(gpus_that_are_too_old),    cmocka_unit_test(a_machine_without),
        cmocka_unit_test(choosing_opens_none),      cmocka_unit_test(a_gpu_that_is_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
