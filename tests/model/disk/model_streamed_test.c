// Goal: a model whose layers stay on disk computes the bits of one in memory, on one rank and on several, with as much memory as is
// allowed and with the least; each rank reads its own part. A disk that fails, a file that is changed, and any wrong byte give no logits.
// Method: weights get the least memory, which the refusal of a load with less names, or more. Passes are those of ranks_script.
// All reading goes through a pread of the test's own, which can fail in the ways in which disks do, and counts.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/packed.h"
#include "common/model/spans.h"
#include "tests/families/family_file.h"
#include "tests/model/disk/streamed_support.h"
#include "tests/model/ranks_record.h"
#include "tests/model/ranks_script.h"
#include "tests/support/packed_file.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

// ---- the same bits ----

static void play_from_disk(or_model_t *model, record_t *record)
{
    const or_model_memory_t memory = or_model_memory(model);
    if (memory.streamed == 0) {
        fail_msg("all %u layers are in memory", memory.layers);
    }
    play_script(model, record);
}

// In the first `from_disk` worlds layers stay on disk even if there is the least memory that all ranks can do with. That is not so where a
// stage has two layers, nor on each rank where one of them has much more of small layers than the others.
static void check_model(const char *path, size_t from_disk)
{
    static const int sizes[] = {1, 2, 4, 2}, stages[] = {1, 1, 1, 2};
    const or_model_options_t plain = {.threads = 1};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_script);
    packed_file_make(path);
    for (size_t w = 0; w < sizeof sizes / sizeof sizes[0]; w++) {
        const or_model_options_t options = with_memory(least_memory(path, sizes[w], stages[w]));
        check_world(path, &(world_t){sizes[w], stages[w], options, options},
                    w < from_disk ? play_from_disk : play_script, &expected);
    }
    free(expected.bytes);
    unlink(packed_path);
}

static void any_weights_have_the_same_bits(void **state)
{
    (void)state;
    static const or_tensor_type_t types[] = {OR_TENSOR_F32, OR_TENSOR_Q8_0, OR_TENSOR_Q4_K};
    check_model(test_model("tales-6m-f16.gguf"), 3);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char *path = test_requantize(test_model("tales-6m-f16.gguf"), types[i]);
        check_model(path, 3);
        free(path);
    }
}

// Parts of tensors, windows, experts, a first layer without experts, and matrices of each head.
static void any_layers_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"phi3/1",          "gemma3/0",        "qwen3moe/0",
                                        "glm4moe/0",       "phimoe/0",        "deepseek-v2/1",
                                        "gemma4-shared/0", "gemma4-experts/0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = family_file_make(names[i]);
        check_model(path, 1);
        free(path);
    }
}

// ---- what is compared ----

// The parts that a load wants compared, and where the file lies: small files are one piece, so no damage would tell. Ranks are
// threads, so these are kept only of a load that is alone.
static bool is_alone;
static or_spans_t compared;
static const or_packed_t *compared_of;

or_status_t __real_or_packed_compare_only(or_packed_t *packed, const or_packed_span_t *spans,
                                          uint32_t count, uint32_t threads);
or_status_t __wrap_or_packed_compare_only(or_packed_t *packed, const or_packed_span_t *spans,
                                          uint32_t count, uint32_t threads);
or_status_t __wrap_or_packed_compare_only(or_packed_t *packed, const or_packed_span_t *spans,
                                          uint32_t count, uint32_t threads)
{
    for (uint32_t i = 0; is_alone && i < count; i++) {
        assert_true(or_spans_add(&compared, spans[i].at, spans[i].at + spans[i].bytes));
    }
    if (is_alone) {
        or_spans_join(&compared, 0);
        compared_of = packed;
    }
    return __real_or_packed_compare_only(packed, spans, count, threads);
}

static bool is_compared(uint64_t begin, uint64_t end)
{
    bool found = false;
    for (uint32_t i = 0; !found && i < compared.count; i++) {
        const or_packed_span_t *span = &compared.spans[i];
        found = span->at <= begin && end <= span->at + span->bytes;
    }
    return found;
}

static void check_all_is_compared(const char *path)
{
    model_fixture_t fixture;
    or_gguf_t *file = NULL;
    packed_file_make(path);
    is_alone = true;
    model_fixture_open(&fixture, path, NULL, with_memory(UINT64_C(1) << 40));
    is_alone = false;
    assert_int_equal(or_model_memory(fixture.model).streamed, 0);
    assert_int_equal(or_gguf_open(packed_path, &file), OR_OK);
    for (uint64_t i = 0; i < or_gguf_tensor_count(file); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(file, i);
        char name[OR_PACKED_NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        const unsigned char *at = or_packed_find(compared_of, name, tensor->bytes);
        const uint64_t begin = (uint64_t)(at - or_packed_begin(compared_of));
        if (strcmp(name, OR_PACKED_CHECKSUMS) != 0 && !is_compared(begin, begin + tensor->bytes)) {
            fail_msg("%s: nobody compares %s", path, name);
        }
    }
    or_gguf_close(&file);
    model_fixture_close(&fixture);
    or_spans_fini(&compared);
    unlink(packed_path);
}

static void all_that_stays_is_compared(void **state)
{
    (void)state;
    static const char *const names[] = {"phi3/1", "qwen3moe/0", "deepseek-v2/1", "gemma4-shared/0",
                                        "gemma4-experts/0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = family_file_make(names[i]);
        check_all_is_compared(path);
        free(path);
    }
}

static void any_memory_gives_the_same_bits(void **state)
{
    (void)state;
    const char *path = test_model("tales-6m-f16.gguf");
    const or_model_options_t plain = {.threads = 1};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_script);
    packed_file_make(path);
    uint64_t memory = least_memory(path, 1, 1);
    uint32_t before = UINT32_MAX, on_disk = UINT32_MAX, layers;
    for (; on_disk > 0; memory += memory / 16, before = on_disk) {
        model_fixture_t fixture;
        const or_model_options_t options = with_memory(memory);
        model_fixture_open(&fixture, path, NULL, options);
        const or_model_memory_t has = or_model_memory(fixture.model);
        on_disk = has.streamed_layers;
        layers = has.layers;
        assert_true(before != UINT32_MAX || on_disk == layers);
        assert_true(on_disk <= before && (on_disk > 0) == (has.streamed > 0));
        assert_true(has.weights - has.streamed + has.streamed_buffers <= memory);
        model_fixture_close(&fixture);
        if (on_disk != before) {
            check_world(path, &(world_t){1, 1, options, options}, play_script, &expected);
        }
    }
    free(expected.bytes);
    unlink(packed_path);
}

static void slow_and_simple_disks_give_the_same_bits(void **state)
{
    (void)state;
    const char *path = test_model("tales-6m-f16.gguf");
    const or_model_options_t plain = {.threads = 2};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_script);
    packed_file_make(path);
    const or_model_options_t options = with_memory(least_memory(path, 1, 1));
    for (disk_t kind = DISK_SHORT; kind <= DISK_NOT_DIRECT; kind++) {
        disk_becomes(kind);
        check_world(path, &(world_t){1, 1, options, options}, play_from_disk, &expected);
        disk_becomes(DISK_GOOD);
    }
    free(expected.bytes);
    unlink(packed_path);
}

// ---- how much is read ----

#define COUNTED 4u // passes

// Return how much all ranks read in a pass, about: reading ahead begins and ends within layers.
static void play_counted(or_model_t *model, record_t *record)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    for (uint32_t i = 0; i <= COUNTED; i++) {
        const or_model_row_t row = prefix_row(sequence, 1);
        assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
        if (i == 0) { // which read whole pieces
            disk_count_anew();
        }
    }
    record_number(record, (uint32_t)(disk_bytes_read() / COUNTED));
    record_number(record, (uint32_t)or_model_memory(model).streamed);
    or_kv_sequence_close(&sequence);
}

static void a_rank_reads_its_own_part(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_F32);
    packed_file_make(path);
    for (int size = 1; size <= 2; size++) {
        const or_model_options_t options = with_memory(least_memory(path, size, 1));
        record_t record = record_play(path, &(world_t){size, 1, options, options}, play_counted);
        uint32_t numbers[2];
        memcpy(numbers, record.bytes, sizeof numbers);
        const uint32_t all = (uint32_t)size * numbers[1]; // their matrices
        if (numbers[0] < all / 2 || numbers[0] > all + all / 2) {
            fail_msg("%u bytes a pass are read of %u on %d ranks", numbers[0], all, size);
        }
        free(record.bytes);
    }
    unlink(packed_path);
    free(path);
}

// ---- damage ----

// Run a pass of a model that has lost its file.
static void check_lost(model_fixture_t *fixture, or_kv_sequence_t *sequence, const char *why)
{
    const or_model_row_t row = prefix_row(sequence, 1);
    const uint32_t length = or_kv_sequence_length(sequence);
    float *logits = test_alloc(fixture->vocab_size, sizeof *logits);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(or_model_forward(fixture->model, &row, 1), OR_ERR_IO);
        assert_int_equal(or_kv_sequence_length(sequence), length);
        assert_true(or_model_is_lost(fixture->model));
        if (strstr(or_error_text(), why) == NULL || strstr(or_error_text(), packed_path) == NULL) {
            fail_msg("'%s' does not say '%s'", or_error_text(), why);
        }
        assert_int_equal(or_model_logits(fixture->model, 0, 1, logits), OR_ERR_IO);
    }
    free(logits);
}

// Lose the file before the first pass, or after some good ones.
static void check_disk(const char *path, uint64_t memory, disk_t kind, uint32_t passes,
                       const char *why)
{
    model_fixture_t fixture;
    disk_becomes(passes == 0 ? kind : DISK_GOOD);
    model_fixture_open(&fixture, path, NULL, with_memory(memory));
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    for (uint32_t i = 0; i < passes; i++) {
        const or_model_row_t row = prefix_row(sequence, 1);
        model_fixture_pass(&fixture, &row, 1, NULL);
    }
    disk_becomes(kind);
    check_lost(&fixture, sequence, why);
    disk_becomes(DISK_GOOD);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
}

static void a_disk_that_fails_gives_no_logits(void **state)
{
    (void)state;
    static const struct {
        disk_t disk;
        const char *why;
    } kinds[] = {{DISK_BROKEN, "Input/output error"},
                 {DISK_ENDED, "ends too soon"},
                 {DISK_TOUCHED, "was changed"}};
    const char *path = test_model("tales-6m-f16.gguf");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (uint32_t passes = 0; passes < 3; passes++) {
            packed_file_make(path);
            uint64_t memory = least_memory(path, 1, 1);
            check_disk(path, memory, kinds[i].disk, passes, kinds[i].why);
        }
    }
    unlink(packed_path);
}

// In the midst of a text; then no page of the mapping is touched that is not there any more.
static void a_file_that_is_cut_gives_no_logits(void **state)
{
    (void)state;
    const char *path = test_model("tales-6m-f16.gguf");
    packed_file_make(path);
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, with_memory(least_memory(path, 1, 1)));
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    model_fixture_pass(&fixture, &row, 1, NULL);
    assert_int_equal(truncate(packed_path, OR_PACKED_ALIGNMENT), 0);
    check_lost(&fixture, sequence, "was changed");
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    unlink(packed_path);
}

// Every piece, in its first byte, its last and one between.
static void a_wrong_byte_gives_no_logits(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_F32);
    struct stat info;
    uint64_t rng = test_seed();
    packed_file_make(path);
    const uint64_t memory = least_memory(path, 1, 1);
    assert_int_equal(stat(packed_path, &info), 0);
    const uint64_t bytes = (uint64_t)info.st_size - OR_PACKED_ALIGNMENT; // before the checksums
    assert_true(bytes > 2 * OR_PACKED_PIECE);
    // The first piece is compared before anything is used.
    for (uint64_t at = OR_PACKED_PIECE; at < bytes; at += OR_PACKED_PIECE) {
        const uint64_t left = bytes - at < OR_PACKED_PIECE ? bytes - at : OR_PACKED_PIECE;
        const uint64_t places[] = {at, at + test_below(&rng, left), at + left - 1};
        for (size_t i = 0; i < 3; i++) {
            packed_file_flip(places[i]);
            check_disk(path, memory, DISK_GOOD, 0, "is damaged between bytes");
            packed_file_flip(places[i]);
        }
    }
    unlink(packed_path);
    free(path);
}

// ---- refusals ----

static void check_refused(const char *path, const or_model_options_t *options, or_status_t status,
                          const char *why)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, options, &model), status);
    assert_null(model);
    if (strstr(or_error_text(), why) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), why);
    }
    or_gguf_close(&gguf);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const char *path = test_model("tales-6m-f16.gguf");
    or_model_options_t options = with_memory(1);
    check_refused(path, &options, OR_ERR_NOT_FOUND, "model pack");
    packed_file_make(path);
    const uint64_t least = least_memory(path, 1, 1);
    options.weights_memory = least - 1024;
    check_refused(path, &options, OR_ERR_INVALID, "--weights-memory");
    options.weights_memory = least;
    options.packed = "off";
    check_refused(path, &options, OR_ERR_INVALID, "--packed off");
    packed_file_flip(8); // the checksum of the front sees it
    options.packed = packed_path;
    check_refused(path, &options, OR_ERR_NOT_FOUND, "model pack");
    unlink(packed_path);
}

static uint64_t available; // 0: what there is

uint64_t __real_or_memory_available(void);
uint64_t __wrap_or_memory_available(void);
uint64_t __wrap_or_memory_available(void)
{
    return available > 0 ? available : __real_or_memory_available();
}

// Where nobody said how much memory they may take.
static void weights_without_room_need_a_packed_file(void **state)
{
    (void)state;
    const char *path = test_model("tales-6m-f16.gguf");
    or_model_options_t options = {.threads = 1, .packed = "auto"};
    available = 6 << 20; // it takes twice that
    check_refused(path, &options, OR_ERR_NO_MEMORY, "model pack");
    options.packed = "off";
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, options);
    model_fixture_close(&fixture);
    packed_file_make(path);
    options.packed = packed_path;
    model_fixture_open(&fixture, path, NULL, options);
    assert_true(or_model_memory(fixture.model).streamed > 0);
    model_fixture_close(&fixture);
    unlink(packed_path);
    available = 0;
}

static void weights_that_do_not_fit_leave_room(void **state)
{
    (void)state;
    assert_int_equal(or_model_weights_room(1000, 0, 1000), 1000);
    assert_int_equal(or_model_weights_room(1001, 0, 1000), 750);
    assert_int_equal(or_model_weights_room(1000, 200, 1200), 1000);
    assert_int_equal(or_model_weights_room(1001, 200, 1200), 750);
    assert_int_equal(or_model_weights_room(UINT64_MAX, 0, UINT64_MAX - 1), UINT64_MAX / 4 * 3);
    assert_int_equal(or_model_weights_room(1, 0, 0), 0);
    assert_int_equal(or_model_weights_room(1, 10, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_weights_have_the_same_bits),
        cmocka_unit_test(any_layers_have_the_same_bits),
        cmocka_unit_test(all_that_stays_is_compared),
        cmocka_unit_test(any_memory_gives_the_same_bits),
        cmocka_unit_test(slow_and_simple_disks_give_the_same_bits),
        cmocka_unit_test(a_rank_reads_its_own_part),
        cmocka_unit_test(a_disk_that_fails_gives_no_logits),
        cmocka_unit_test(a_file_that_is_cut_gives_no_logits),
        cmocka_unit_test(a_wrong_byte_gives_no_logits),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(weights_that_do_not_fit_leave_room),
        cmocka_unit_test(weights_without_room_need_a_packed_file),
    };
    return cmocka_run_group_tests(tests, packed_folder_make, packed_folder_remove);
}
