// Goal: experts that are kept by use give the bits of experts in memory: whatever has room, from what one row takes to all of them, on
// one rank, on several and in stages. What is found in memory is not read again, and no more is resident than was given. A disk that
// fails, a file that is changed and any wrong byte give no logits.
// Method: random tokens, one and several a pass, in models of families with experts, beside the same model in memory; memory grows from
// the least that a load takes. The disk is that of streamed_support.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/packed.h"
#include "tests/families/family_file.h"
#include "tests/model/disk/streamed_support.h"
#include "tests/model/ranks_script.h"
#include "tests/support/packed_file.h"
#include "tests/support/requantize.h"

#define STEPS 24u
#define MEMORY_MAX (UINT64_C(1) << 40)

// ---- single rows, and a few ----

// Passes of one row, or of as many as a pass may have.
static void play_steps(or_model_t *model, record_t *record)
{
    const uint32_t vocab = or_model_shape(model)->vocab_size;
    const uint32_t rows_max = or_model_rows_max(model);
    float *logits = test_alloc(vocab, sizeof *logits);
    or_kv_sequence_t *sequence = NULL;
    uint64_t rng = 11;
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        or_model_row_t rows[8];
        const uint32_t count = i % 4 == 3 ? rows_max : 1;
        assert_true(count <= 8);
        for (uint32_t r = 0; r < count; r++) {
            rows[r] = prefix_row(sequence, (int32_t)test_below(&rng, vocab));
        }
        if (or_model_forward(model, rows, count) != OR_OK) {
            fail_msg("%s", or_error_text());
        }
        assert_int_equal(or_model_logits(model, count - 1, 1, logits), OR_OK);
        record_bytes(record, logits, vocab * sizeof *logits);
        if (count == 1 &&
            or_model_kept_of_all(model).slots > 0) { // layers without experts need none
            assert_int_equal(or_model_kept_of_pass(model).needed, or_model_reads(model).experts);
        }
    }
    or_kv_sequence_close(&sequence);
    free(logits);
}

// The figures of what was needed, found and read fit together, and what is resident is no more than was given.
static void check_figures(const or_model_t *model, uint64_t memory)
{
    const or_model_kept_t kept = or_model_kept_of_all(model);
    const or_model_memory_t has = or_model_memory(model);
    assert_true(has.weights - has.streamed + has.streamed_buffers <= memory);
    assert_true(kept.slots <= kept.experts && kept.found <= kept.needed);
    assert_true(kept.slots == 0 || (kept.needed > 0 && kept.needed - kept.found <= kept.read));
    assert_true(kept.slots < kept.experts || kept.read <= kept.experts);
    assert_true(kept.slots == 0 || has.streamed > 0);
}

// Return the room that experts have.
static or_model_kept_t check_alone(const char *path, const or_model_options_t *options,
                                   const record_t *expected)
{
    model_fixture_t fixture;
    record_t record = {0};
    model_fixture_open(&fixture, path, NULL, *options);
    play_steps(fixture.model, &record);
    assert_int_equal(record.count, expected->count);
    assert_memory_equal(record.bytes, expected->bytes, record.count);
    check_figures(fixture.model, options->weights_memory);
    const or_model_kept_t kept = or_model_kept_of_all(fixture.model);
    model_fixture_close(&fixture);
    free(record.bytes);
    return kept;
}

// From the least memory on, until all have room.
static void check_rooms(const char *path, uint32_t rows_max)
{
    const or_model_options_t plain = {.threads = 1, .rows_max = rows_max};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_steps);
    packed_file_make(path);
    const uint64_t least = least_memory_with(path, 1, 1, rows_max);
    uint32_t rooms = 0;
    or_model_kept_t kept;
    uint64_t memory = least;
    do {
        or_model_options_t options = with_memory(memory);
        options.rows_max = rows_max;
        kept = check_alone(path, &options, &expected);
        assert_true(rooms > 0 || (kept.slots > 0 && kept.slots < kept.experts));
        rooms++;
        memory += least / 8;
    } while (kept.slots > 0);
    assert_true(rooms > 2);
    free(expected.bytes);
    unlink(packed_path);
}

static void any_room_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3moe/0",    "qwen2moe/0",      "gpt-oss/1",
                                        "mixtral/1",     "glm4moe/1",       "phimoe/0",
                                        "deepseek-v3/0", "gemma4-experts/1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = family_file_make(names[i]);
        check_rooms(path, i % 2 == 0 ? 1 : 8);
        free(path);
    }
}

static void quantised_experts_have_the_same_bits(void **state)
{
    (void)state;
    char *model = family_file_make("qwen3moe/1");
    char *path = test_requantize(model, OR_TENSOR_Q8_0);
    check_rooms(path, 3);
    free(path);
    free(model);
}

// ---- ranks, trees, passes of many rows ----

static void check_ranks(const char *path, play_t *play, uint32_t rows_max)
{
    static const int sizes[] = {1, 2, 4, 1, 2}, stages[] = {1, 1, 1, 2, 2};
    const or_model_options_t plain = {.threads = 1, .rows_max = rows_max};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play);
    packed_file_make(path);
    for (size_t w = 0; w < sizeof sizes / sizeof *sizes; w++) {
        const uint64_t least = least_memory_with(path, sizes[w], stages[w], rows_max);
        or_model_options_t leads = with_memory(least), others = with_memory(least + least / 3);
        or_model_options_t ahead =
            with_memory(2 * least); // has room to read a layer's experts ahead
        leads.rows_max = others.rows_max = ahead.rows_max = rows_max;
        check_world(path, &(world_t){sizes[w], stages[w], leads, others}, play, &expected);
        check_world(path, &(world_t){sizes[w], stages[w], others, leads}, play, &expected);
        check_world(path, &(world_t){sizes[w], stages[w], ahead, ahead}, play, &expected);
    }
    free(expected.bytes);
    unlink(packed_path);
}

static void each_rank_keeps_its_own(void **state)
{
    (void)state;
    static const char *const names[] = {"olmoe/0", "deepseek-v2/1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = family_file_make(names[i]);
        check_ranks(path, play_steps, 2);
        check_ranks(path, play_script, 0);
        free(path);
    }
}

// ---- what is read ----

// Memory for all experts but one.
static uint64_t nearly_all(const char *path, uint32_t rows_max)
{
    uint64_t low = least_memory_with(path, 1, 1, rows_max), high = MEMORY_MAX;
    while (high - low > 4096) {
        const uint64_t middle = low + (high - low) / 2;
        model_fixture_t fixture;
        or_model_options_t options = with_memory(middle);
        options.rows_max = rows_max;
        model_fixture_open(&fixture, path, NULL, options);
        *(or_model_kept_of_all(fixture.model).slots > 0 ? &low : &high) = middle;
        model_fixture_close(&fixture);
    }
    return low;
}

// Of the same tokens again all experts are found, and the disk has nothing to do: it may as well be broken.
static void what_is_found_is_not_read(void **state)
{
    (void)state;
    char *path = family_file_make("qwen3moe/0");
    model_fixture_t fixture;
    packed_file_make(path);
    or_model_options_t options = with_memory(nearly_all(path, 1));
    options.rows_max = 1;
    model_fixture_open(&fixture, path, NULL, options);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    for (uint32_t turn = 0; turn < 2; turn++) {
        or_kv_sequence_truncate(sequence, 0);
        disk_count_anew();
        disk_becomes(turn == 0 ? DISK_GOOD : DISK_BROKEN);
        for (int32_t token = 1; token < 5; token++) {
            const or_model_row_t row = prefix_row(sequence, token);
            model_fixture_pass(&fixture, &row, 1, NULL);
            const or_model_kept_t kept = or_model_kept_of_pass(fixture.model);
            assert_int_equal(kept.needed, 4 * or_model_shape(fixture.model)->experts_used);
            assert_true(turn == 0 ? kept.read == kept.needed - kept.found
                                  : kept.found == kept.needed && kept.read == 0);
        }
        assert_true((disk_bytes_read() > 0) == (turn == 0));
    }
    disk_becomes(DISK_GOOD);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    unlink(packed_path);
    free(path);
}

// ---- disks ----

static void slow_and_simple_disks_give_the_same_bits(void **state)
{
    (void)state;
    char *path = family_file_make("qwen3moe/0");
    const or_model_options_t plain = {.threads = 2, .rows_max = 2};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_steps);
    packed_file_make(path);
    or_model_options_t options = with_memory(least_memory_with(path, 1, 1, 2));
    options.rows_max = 2;
    for (disk_t kind = DISK_SHORT; kind <= DISK_NOT_DIRECT; kind++) {
        disk_becomes(kind);
        check_alone(path, &options, &expected);
        disk_becomes(DISK_GOOD);
    }
    free(expected.bytes);
    unlink(packed_path);
    free(path);
}

// Good logits until the disk is asked, then none for ever.
static void check_lost(const char *path, disk_t kind, const char *why)
{
    model_fixture_t fixture;
    packed_file_make(path);
    or_model_options_t options = with_memory(least_memory_with(path, 1, 1, 1));
    options.rows_max = 1;
    model_fixture_open(&fixture, path, NULL, options);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    float *logits = test_alloc(fixture.vocab_size, sizeof *logits);
    uint32_t good = 0, lost = 0;
    for (int32_t token = 1; token < 30; token++) {
        const or_model_row_t row = prefix_row(sequence, token);
        const uint64_t read = or_model_kept_of_all(fixture.model).read;
        disk_becomes(token < 4 ? DISK_GOOD : kind);
        const or_status_t status = or_model_forward(fixture.model, &row, 1);
        if (status == OR_OK) {
            assert_true(lost == 0);
            assert_true(token < 4 || kind == DISK_TOUCHED ||
                        or_model_kept_of_all(fixture.model).read == read);
            good++;
            continue;
        }
        assert_int_equal(status, OR_ERR_IO);
        if (strstr(or_error_text(), why) == NULL) {
            fail_msg("'%s' does not say '%s'", or_error_text(), why);
        }
        assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_IO);
        assert_true(or_model_is_lost(fixture.model));
        lost++;
    }
    disk_becomes(DISK_GOOD);
    assert_true(good >= 3 && lost > 0);
    free(logits);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    unlink(packed_path);
}

static void a_disk_that_fails_gives_no_logits(void **state)
{
    (void)state;
    char *path = family_file_make("qwen3moe/0");
    check_lost(path, DISK_BROKEN, "Input/output error");
    check_lost(path, DISK_ENDED, "ends too soon");
    check_lost(path, DISK_TOUCHED, "was changed");
    free(path);
}

// The other rank of two says what this one says, for so many calls in a pass; then it is not heard.
static uint32_t gathers_left;

static or_status_t echo(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    memmove((char *)recv + bytes, send, bytes);
    memmove(recv, send, bytes);
    (void)ranks;
    return OR_OK;
}

static or_status_t echo_some(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    if (gathers_left == 0) {
        return or_fail(OR_ERR_INVALID, "rank 1 is not heard");
    }
    gathers_left--;
    return echo(ranks, send, bytes, recv);
}

static or_status_t tell_nobody(const or_ranks_t *ranks, void *data, size_t bytes)
{
    (void)ranks;
    (void)data;
    (void)bytes;
    return OR_OK;
}

// A pass of as many rows as can be, whose rank hears the other so many times: each layer gathers the sums of attention, then those of
// its experts. It fails with this sentence.
static void check_early_end(model_fixture_t *fixture, uint32_t gathers, const char *why)
{
    enum { ROWS = 64 };
    or_model_row_t rows[ROWS];
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 0);
    for (int32_t i = 0; i < ROWS; i++) {
        rows[i] = prefix_row(sequence, i % 32);
    }
    gathers_left = gathers;
    assert_int_not_equal(or_model_forward(fixture->model, rows, ROWS), OR_OK);
    if (strstr(or_error_text(), why) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), why);
    }
    or_kv_sequence_close(&sequence);
}

// Experts that are read ahead for a pass that ends early have their slots. A later pass believes these only if the reading was good.
static void a_reading_ahead_that_fails_is_told(void **state)
{
    (void)state;
    static const or_ranks_t ranks = {.size = 2,
                                     .stages = 1,
                                     .all_gather = echo_some,
                                     .broadcast = tell_nobody,
                                     .collect = echo,
                                     .gather_world = echo};
    char *path = family_file_make("qwen3moe/0");
    model_fixture_t fixture;
    packed_file_make(path);
    or_model_options_t options = with_memory(least_memory_with(path, 2, 1, 64));
    options.rows_max = 64;
    options.ranks = &ranks;
    model_fixture_open(&fixture, path, NULL, options);
    const uint32_t three_layers = 3 * or_model_shape(fixture.model)->experts;
    while (or_model_kept_of_all(fixture.model).slots < three_layers) {
        model_fixture_close(&fixture);
        options.weights_memory += options.weights_memory / 16;
        model_fixture_open(&fixture, path, NULL, options);
        assert_true(or_model_kept_of_all(fixture.model).slots > 0);
    }
    check_early_end(&fixture, 2, "not heard"); // layer 1 is read ahead
    check_early_end(&fixture, 1, "not heard"); // nothing is
    disk_becomes(DISK_LATE);
    check_early_end(&fixture, 3, "not heard"); // layer 2
    check_early_end(&fixture, 3, "Input/output error");
    assert_true(or_model_is_lost(fixture.model));
    disk_becomes(DISK_GOOD);
    model_fixture_close(&fixture);
    unlink(packed_path);
    free(path);
}

// Even where all experts of the pass are kept: nobody believes what was kept of a file that is another now.
static void a_file_that_is_cut_gives_no_logits(void **state)
{
    (void)state;
    char *path = family_file_make("qwen3moe/0");
    model_fixture_t fixture;
    packed_file_make(path);
    or_model_options_t options = with_memory(nearly_all(path, 1));
    options.rows_max = 1;
    model_fixture_open(&fixture, path, NULL, options);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    model_fixture_pass(&fixture, &row, 1, NULL);
    or_kv_sequence_truncate(sequence, 0);
    assert_int_equal(truncate(packed_path, OR_PACKED_ALIGNMENT), 0);
    assert_int_equal(or_model_forward(fixture.model, &row, 1), OR_ERR_IO);
    assert_true(or_model_is_lost(fixture.model));
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    unlink(packed_path);
    free(path);
}

// A byte of the second piece, most of which is experts; the first is compared before anything is used.
static void a_wrong_byte_gives_no_logits(void **state)
{
    (void)state;
    char *path = family_file_make("gpt-oss/0");
    struct stat info;
    uint64_t rng = test_seed();
    packed_file_make(path);
    or_model_options_t options = with_memory(least_memory_with(path, 1, 1, 1));
    options.rows_max = 1;
    assert_int_equal(stat(packed_path, &info), 0);
    const uint64_t bytes = (uint64_t)info.st_size - OR_PACKED_ALIGNMENT; // before the checksums
    assert_true(bytes > OR_PACKED_PIECE && bytes < 2 * OR_PACKED_PIECE);
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t at = OR_PACKED_PIECE + test_below(&rng, bytes - OR_PACKED_PIECE);
        model_fixture_t fixture;
        packed_file_flip(at);
        model_fixture_open(&fixture, path, NULL, options);
        or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
        const or_model_row_t row = prefix_row(sequence, 1);
        assert_int_equal(or_model_forward(fixture.model, &row, 1), OR_ERR_IO);
        assert_non_null(strstr(or_error_text(), "is damaged between bytes"));
        or_kv_sequence_close(&sequence);
        model_fixture_close(&fixture);
        packed_file_flip(at);
    }
    unlink(packed_path);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_room_gives_the_same_bits),
        cmocka_unit_test(quantised_experts_have_the_same_bits),
        cmocka_unit_test(each_rank_keeps_its_own),
        cmocka_unit_test(what_is_found_is_not_read),
        cmocka_unit_test(slow_and_simple_disks_give_the_same_bits),
        cmocka_unit_test(a_disk_that_fails_gives_no_logits),
        cmocka_unit_test(a_reading_ahead_that_fails_is_told),
        cmocka_unit_test(a_file_that_is_cut_gives_no_logits),
        cmocka_unit_test(a_wrong_byte_gives_no_logits),
    };
    return cmocka_run_group_tests(tests, packed_folder_make, packed_folder_remove);
}
