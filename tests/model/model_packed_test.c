// Goal: a model of a packed file computes the bits of one that packs its weights, on one rank and on several. A file that is
// of another model, touched, cut or written to by others is not used; one with a wrong byte gives no logits, whichever byte.
// Method: models are packed into a folder of the test. Ranks are threads (thread_world), whose answers are compared with
// those of a model alone without a packed file.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "common/gguf/packed_internal.h"
#include "common/model/pack.h"
#include "tests/families/family_file.h"
#include "tests/model/model_types.h"
#include "tests/model/ranks_record.h"
#include "tests/model/ranks_script.h"
#include "tests/support/full_disk.h"
#include "tests/support/packed_file.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

static bool always(void *context, uint64_t done, uint64_t all, const char *name)
{
    (void)context, (void)name;
    return done <= all;
}

static or_model_options_t with_packed(void)
{
    return (or_model_options_t){.threads = 1, .packed = packed_path};
}

// Open the model at `path` with the packed file and return how many of its bytes are mapped.
static uint64_t mapped_bytes(const char *path)
{
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, with_packed());
    or_model_memory_t memory = or_model_memory(fixture.model);
    assert_true(memory.mapped <= memory.weights);
    model_fixture_close(&fixture);
    return memory.mapped;
}

// ---- the same bits ----

static void check_model(const char *path)
{
    static const int sizes[] = {1, 2, 4, 2}, stages[] = {1, 1, 1, 2};
    const or_model_options_t plain = {.threads = 1};
    record_t expected = record_play(path, &(world_t){1, 1, plain, plain}, play_script);
    packed_file_make(path);
    assert_true(mapped_bytes(path) > 0);
    for (size_t w = 0; w < sizeof sizes / sizeof sizes[0]; w++) {
        const world_t world = {sizes[w], stages[w], with_packed(), with_packed()};
        check_world(path, &world, play_script, &expected);
    }
    // One rank packs, the other maps.
    check_world(path, &(world_t){2, 1, with_packed(), plain}, play_script, &expected);
    free(expected.bytes);
    unlink(packed_path);
}

// Matrices that are parts of a tensor, and experts.
static void parts_and_experts_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"phi3/1", "mixtral/0", "qwen3moe/0", "gemma4-experts/0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = family_file_make(names[i]);
        check_model(path);
        free(path);
    }
}

static void any_weights_have_the_same_bits(void **state)
{
    (void)state;
    check_model(test_model("tales-1m-f16.gguf"));
    check_model("tests/model/data/llama3-mixed.gguf");
    for (uint32_t i = 0; i < model_types_count; i += test_share(3)) {
        char *copy = model_of_type(model_types[i]);
        check_model(copy);
        free(copy);
    }
}

// ---- what is not used ----

static void check_refused(const char *path, const char *why)
{
    or_gguf_t *gguf = NULL;
    or_packed_t *opened = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_true(or_packed_open(gguf, packed_path, 1, &opened) != OR_OK);
    assert_null(opened);
    if (strstr(or_error_text(), why) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), why);
    }
    or_gguf_close(&gguf);
    assert_int_equal(mapped_bytes(path), 0); // and it loads
}

static void other_files_are_not_used(void **state)
{
    (void)state;
    char path[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/model.gguf", packed_folder);
    test_gguf_copy(test_model("tales-1m-f16.gguf"), path);
    packed_file_make(path);
    assert_int_equal(stat(packed_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(mapped_bytes(path) > 0);
    check_refused(test_model("tales-1m-f16.gguf"), "another file");

    assert_int_equal(stat(path, &info), 0);
    struct timespec times[2] = {info.st_atim, info.st_mtim};
    times[1].tv_nsec ^= 1;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    check_refused(path, "touched");
    times[1] = info.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_true(mapped_bytes(path) > 0);

    assert_int_equal(chmod(packed_path, 0620), 0);
    check_refused(path, "others may write");
    assert_int_equal(chmod(packed_path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(packed_path, 1234, 1234), 0);
        check_refused(path, "another user");
        assert_int_equal(chown(packed_path, 0, 0), 0);
    }
    assert_int_equal(truncate(path, info.st_size), 0); // changes its time
    test_gguf_copy(test_model("tales-1m-f16.gguf"), path);
    check_refused(path, "another file");
    test_gguf_copy(path, packed_path);
    check_refused(path, "no packed file");
    unlink(packed_path);
    check_refused(path, "No such file");
}

static void it_is_found_in_its_places(void **state)
{
    (void)state;
    char path[128], cache[128], place[OR_PACKED_PATH_BYTES];
    snprintf(path, sizeof path, "%s/model.gguf", packed_folder);
    snprintf(cache, sizeof cache, "%s/cache/outrider", packed_folder);
    test_gguf_copy(test_model("tales-1m-f16.gguf"), path);
    packed_file_make(path);
    setenv("XDG_CACHE_HOME", packed_folder, 1);
    const or_model_options_t options = {.threads = 1, .packed = "auto"};
    const or_model_options_t off = {.threads = 1, .packed = "off"};
    for (int i = 0; i < 2; i++) {
        model_fixture_t fixture;
        assert_int_equal(i == 0 ? or_packed_path_beside(path, place)
                                : or_packed_path_cached(path, place),
                         OR_OK);
        snprintf(cache, sizeof cache, "%s/outrider", packed_folder);
        mkdir(cache, 0700);
        assert_int_equal(rename(packed_path, place), 0);
        model_fixture_open(&fixture, path, NULL, options);
        assert_true(or_model_memory(fixture.model).mapped > 0);
        model_fixture_close(&fixture);
        model_fixture_open(&fixture, path, NULL, off);
        assert_int_equal(or_model_memory(fixture.model).mapped, 0);
        model_fixture_close(&fixture);
        assert_int_equal(rename(place, packed_path), 0);
    }
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(or_packed_check_wish("", 0), OR_ERR_INVALID);
    assert_int_equal(or_packed_check_wish("auto", 1), OR_OK);
    assert_int_equal(or_packed_check_wish("off", 0), OR_OK);
    assert_int_equal(or_packed_check_wish("off", 1), OR_ERR_INVALID);
    unlink(packed_path);
}

// The fingerprint is the one that was taken when the file was packed.
static void the_model_is_not_read_for_its_fingerprint(void **state)
{
    (void)state;
    char path[128], place[OR_PACKED_PATH_BYTES];
    snprintf(path, sizeof path, "%s/model.gguf", packed_folder);
    test_gguf_copy(test_model("tales-1m-f16.gguf"), path);
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    uint64_t expected = or_gguf_fingerprint(gguf);
    or_gguf_close(&gguf);
    packed_file_make(path);
    assert_int_equal(or_packed_path_beside(path, place), OR_OK);
    assert_int_equal(rename(packed_path, place), 0);
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    or_packed_recall(gguf);
    assert_int_equal(or_gguf_fingerprint(gguf), expected);
    or_gguf_close(&gguf);
    unlink(place);
}

// ---- damage ----

// Run a pass of a model whose packed file is damaged. Return whether the file was used at all.
static bool check_no_logits(const char *path)
{
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, with_packed());
    bool used = or_model_memory(fixture.model).mapped > 0;
    float *logits = test_alloc(fixture.vocab_size, sizeof *logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    or_status_t status = or_model_forward(fixture.model, &row, 1);
    if (used) {
        assert_int_equal(status, OR_ERR_IO);
        assert_non_null(strstr(or_error_text(), "model pack --force"));
        assert_int_equal(or_kv_sequence_length(sequence), 0);
        assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_IO);
        assert_true(or_model_is_lost(fixture.model));
    } else {
        assert_int_equal(status, OR_OK);
        assert_false(or_model_is_lost(fixture.model));
    }
    or_kv_sequence_close(&sequence);
    free(logits);
    model_fixture_close(&fixture);
    return used;
}

// Every piece, in its first and last byte and in between; and one of the checksums.
static void a_wrong_byte_gives_no_logits(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_F32);
    struct stat info;
    uint64_t rng = test_seed();
    uint32_t used = 0, pieces = 0;
    packed_file_make(path);
    assert_int_equal(stat(packed_path, &info), 0);
    uint64_t bytes = (uint64_t)info.st_size;
    for (uint64_t at = 0; at < bytes; at += OR_PACKED_PIECE, pieces++) {
        uint64_t left = bytes - at < OR_PACKED_PIECE ? bytes - at : OR_PACKED_PIECE;
        // The last page is the checksums'; behind them it is padding, which nobody reads.
        left -= at + left == bytes ? OR_PACKED_ALIGNMENT : 0;
        const uint64_t places[] = {at, at + test_below(&rng, left), at + left - 1};
        for (size_t i = 0; i < 3; i++) {
            packed_file_flip(places[i]);
            used += check_no_logits(path);
            packed_file_flip(places[i]);
        }
    }
    packed_file_flip(bytes - OR_PACKED_ALIGNMENT); // in a checksum
    used += check_no_logits(path);
    packed_file_flip(bytes - OR_PACKED_ALIGNMENT);
    assert_true(pieces >= 2 && used >= 3);
    assert_true(mapped_bytes(path) > 0);
    for (uint64_t cut = 1; cut < bytes; cut = 2 * cut + 1) { // what is cut short is not used
        assert_int_equal(truncate(packed_path, (off_t)(bytes - cut)), 0);
        assert_int_equal(mapped_bytes(path), 0);
        packed_file_make(path);
    }
    unlink(packed_path);
    free(path);
}

static void a_rank_with_a_wrong_byte_ends_the_world(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_F32);
    struct stat info;
    packed_file_make(path);
    assert_int_equal(stat(packed_path, &info), 0);
    packed_file_flip((uint64_t)info.st_size - OR_PACKED_PIECE);
    thread_world_t *world = thread_world_create(2, 1);
    const or_model_options_t follows = with_packed();
    thread_world_follow(world, path, &follows);
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    const or_model_options_t leads = {.threads = 1, .ranks = thread_world_ranks(world, 0)};
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_true(or_model_load(gguf, &leads, &model) != OR_OK);
    or_gguf_close(&gguf);
    assert_int_equal(thread_world_join(world), OR_ERR_IO);
    thread_world_destroy(&world);
    unlink(packed_path);
    free(path);
}

// After good passes; the file is written to, and then as it was but for its time.
static void a_change_while_it_is_in_use_is_seen(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_F32);
    model_fixture_t fixture;
    packed_file_make(path);
    model_fixture_open(&fixture, path, NULL, with_packed());
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    float *logits = test_alloc(fixture.vocab_size, sizeof *logits);
    model_fixture_pass(&fixture, &row, 1, logits);
    packed_file_make(path); // another file of that name does no harm
    model_fixture_pass(&fixture, &row, 1, logits);
    model_fixture_close((or_kv_sequence_close(&sequence), &fixture));
    model_fixture_open(&fixture, path, NULL, with_packed());
    sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t other = prefix_row(sequence, 1);
    model_fixture_pass(&fixture, &other, 1, logits);
    const struct timespec times[2] = {{1, 1}, {1, 1}};
    assert_int_equal(utimensat(AT_FDCWD, packed_path, times, 0), 0);
    assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "changed"));
    assert_int_equal(or_model_forward(fixture.model, &other, 1), OR_ERR_IO);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    free(logits);
    unlink(packed_path);
    free(path);
}

// A byte of the front, at random, with checksums that fit it: what the reader itself must refuse, or read within its bounds.
static void a_hostile_front_is_read_within_bounds(void **state)
{
    (void)state;
    const char *path = test_model("tales-1m-f16.gguf");
    uint64_t rng = test_seed();
    test_gguf_t file;
    packed_file_make(path);
    test_gguf_load(&file, packed_path);
    for (uint32_t run = 0; run < test_runs(200); run++) {
        or_gguf_t *gguf = NULL;
        or_packed_t *opened = NULL;
        uint64_t at = test_below(&rng, OR_PACKED_ALIGNMENT);
        unsigned char was = file.bytes[at];
        file.bytes[at] = (unsigned char)test_random(&rng);
        unlink(packed_path);
        test_gguf_save(&file, packed_path);
        assert_int_equal(chmod(packed_path, 0600), 0);
        assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
        if (or_packed_open(gguf, packed_path, 0, &opened) == OR_OK) {
            assert_int_equal(file.bytes[at], was); // else the checksum of the front sees it
            assert_int_equal(or_packed_check(opened), OR_OK);
            or_packed_close(&opened);
        }
        or_gguf_close(&gguf);
        file.bytes[at] = was;
    }
    test_gguf_fini(&file);
    unlink(packed_path);
}

// ---- writing ----

static bool never(void *context, uint64_t done, uint64_t all, const char *name)
{
    (void)context, (void)all, (void)name;
    return done == 0;
}

static void what_is_not_whole_leaves_nothing(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    uint64_t before = test_folder_bytes(packed_folder);
    assert_int_equal(or_model_pack(gguf, 1, packed_path, never, NULL), OR_ERR_CANCELLED);
    fill_disk();
    or_status_t status = or_model_pack(gguf, 1, packed_path, always, NULL);
    empty_disk();
    assert_int_equal(status, OR_ERR_IO);
    assert_int_equal(or_model_pack(gguf, 1, "/proc/no/such.packed", always, NULL), OR_ERR_IO);
    assert_int_equal(or_model_pack_try("/proc/no/such.packed"), OR_ERR_IO);
    assert_int_equal(test_folder_bytes(packed_folder), before);
    assert_int_equal(access(packed_path, F_OK), -1);
    or_gguf_close(&gguf);
}

static void two_processes_pack_at_once(void **state)
{
    (void)state;
    const char *path = test_model("tales-1m-f16.gguf");
    pid_t children[2];
    for (size_t i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            or_gguf_t *gguf = NULL;
            bool packs = or_gguf_open(path, &gguf) == OR_OK &&
                         or_model_pack(gguf, 1, packed_path, always, NULL) == OR_OK;
            _exit(packs ? 0 : 1);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        int end;
        assert_int_equal(waitpid(children[i], &end, 0), children[i]);
        assert_int_equal(end, 0);
    }
    assert_true(mapped_bytes(path) > 0);
    unlink(packed_path);
}

// Read the first matrix of a packed file that was cut to its first page; `by_thread`, have it compared.
static int read_what_was_cut(const char *path, bool by_thread)
{
    or_gguf_t *gguf = NULL;
    or_packed_t *opened = NULL;
    static const char name[] = "blk.0.attn_q.weight"; // F16, of whole panels
    if (or_gguf_open(path, &gguf) != OR_OK ||
        or_packed_open(gguf, packed_path, 0, &opened) != OR_OK) {
        return 1;
    }
    const volatile char *panels =
        or_packed_find(opened, name, or_gguf_find_tensor(gguf, name)->bytes);
    if (panels == NULL || truncate(packed_path, 1) != 0) {
        return 2;
    }
    if (by_thread) {
        or_packed_compare_begin(opened, 1);
        pthread_join(opened->threads[0], NULL);
    }
    return panels[0] != 0 ? 0 : 3;
}

// The process ends by the signal, and says which file it was.
static void check_cut(bool by_thread)
{
    const char *path = test_model("tales-1m-f16.gguf");
    char text[4096] = "";
    int ends[2], end;
    packed_file_make(path);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL); // not cmocka's
        dup2(ends[1], STDERR_FILENO);
        _exit(read_what_was_cut(path, by_thread));
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &end, 0), child);
    ssize_t count = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    if (WIFEXITED(end) && WEXITSTATUS(end) <= 3) {
        fail_msg("it ended with %d", WEXITSTATUS(end));
    }
    if (count <= 0 || strstr(text, packed_path) == NULL || strstr(text, "cut short") == NULL) {
        fail_msg("'%s' does not name the file", text);
    }
    unlink(packed_path);
}

static void a_file_that_is_cut_while_in_use_is_named(void **state)
{
    (void)state;
    check_cut(false);
    check_cut(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_weights_have_the_same_bits),
        cmocka_unit_test(parts_and_experts_have_the_same_bits),
        cmocka_unit_test(other_files_are_not_used),
        cmocka_unit_test(it_is_found_in_its_places),
        cmocka_unit_test(the_model_is_not_read_for_its_fingerprint),
        cmocka_unit_test(a_wrong_byte_gives_no_logits),
        cmocka_unit_test(a_rank_with_a_wrong_byte_ends_the_world),
        cmocka_unit_test(a_change_while_it_is_in_use_is_seen),
        cmocka_unit_test(a_hostile_front_is_read_within_bounds),
        cmocka_unit_test(what_is_not_whole_leaves_nothing),
        cmocka_unit_test(two_processes_pack_at_once),
        cmocka_unit_test(a_file_that_is_cut_while_in_use_is_named),
    };
    return cmocka_run_group_tests(tests, packed_folder_make, packed_folder_remove);
}
