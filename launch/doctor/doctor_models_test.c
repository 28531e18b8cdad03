// Goal: the memory that `outrider doctor` predicts for a pair is that of weights, of the cache of a full context and of the
// buffers of a pass, of both models.
// Method: the demonstration pair; model.h's figures for the two files, added up here, beside the line that the doctor prints.
#include <stdio.h>
#include <string.h>

#include "common/model/arch/arch.h"
#include "common/model/model.h"
#include "launch/doctor/doctor.h"
#include "tests/support/test_support.h"

static char target_path[4096], draft_path[4096];

typedef struct {
    uint64_t weights, cache, pass;
} parts_t;

static parts_t parts_of(const char *path)
{
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_arch_find(gguf, &arch), OR_OK);
    assert_int_equal(or_arch_read(arch, gguf, &shape, &numbers), OR_OK);
    const parts_t parts = {or_model_weights_bytes(gguf), or_model_cache_bytes(&shape),
                           or_model_pass_bytes(&shape)};
    or_gguf_close(&gguf);
    return parts;
}

static uint64_t sum_of(const char *path)
{
    const parts_t parts = parts_of(path);
    return parts.weights + parts.cache + parts.pass;
}

static void assert_says(const or_doctor_t *doctor, uint64_t bytes)
{
    size_t index;
    json_t *check;
    char begin[64];
    snprintf(begin, sizeof begin, "about %s needed", or_doctor_bytes(bytes).text);
    const char *said = "";
    json_array_foreach(doctor->checks, index, check)
    {
        if (strcmp(json_string_value(json_object_get(check, "name")), "memory") == 0) {
            said = json_string_value(json_object_get(check, "detail"));
        }
    }
    assert_memory_equal(said, begin, strlen(begin));
}

static void a_pair_needs_room_for_passes(void **state)
{
    (void)state;
    or_doctor_t doctor;
    or_doctor_model_t target = {.role = "target", .path = target_path};
    or_doctor_model_t draft = {.role = "draft", .path = draft_path};
    assert_int_equal(or_doctor_init(&doctor, true), OR_OK);
    or_doctor_check_models(&doctor, &target, &draft);
    assert_int_equal(target.memory, sum_of(target_path));
    assert_int_equal(draft.memory, sum_of(draft_path));
    assert_true(parts_of(target_path).pass > 1 << 20); // or the test would not see it
    assert_says(&doctor, sum_of(target_path) + sum_of(draft_path));
    json_decref(doctor.checks);
}

static void one_model_needs_its_own(void **state)
{
    (void)state;
    or_doctor_t doctor;
    or_doctor_model_t target = {.role = "target", .path = target_path};
    or_doctor_model_t none = {.role = "draft"};
    assert_int_equal(or_doctor_init(&doctor, true), OR_OK);
    or_doctor_check_models(&doctor, &target, &none);
    assert_says(&doctor, sum_of(target_path));
    json_decref(doctor.checks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_needs_room_for_passes),
        cmocka_unit_test(one_model_needs_its_own),
    };
    snprintf(target_path, sizeof target_path, "%s", test_model("tales-6m-f16.gguf"));
    snprintf(draft_path, sizeof draft_path, "%s", test_model("tales-1m-f16.gguf"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
