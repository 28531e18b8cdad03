// Goal: a written file reads as what was put into it. It takes its name only when it is whole,
// and a failure leaves nothing behind.
// Method: write files from one made by hand and from a real model, open them and compare. A limit
// on the size of files stands for a full disk.
#include "common/gguf/gguf_writer.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

static char folder[] = "/tmp/gguf-writer-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    snprintf(path, sizeof path, "%s/out.gguf", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); // fails if anything else was left there
}

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(entries);
    return count;
}

static void assert_string(const or_gguf_t *gguf, const char *key, const char *expected)
{
    or_gguf_string_t string;
    assert_int_equal(or_gguf_get_string(gguf, key, &string), OR_OK);
    assert_int_equal(string.length, strlen(expected));
    assert_memory_equal(string.bytes, expected, string.length);
}

static or_gguf_string_t text(const char *string)
{
    return (or_gguf_string_t){string, strlen(string)};
}

// -- metadata --

// Open a source file that has an alignment of its own and the marks of one part of a split
// model.
static void open_source(test_gguf_t *file, or_gguf_t **gguf_p)
{
    test_gguf_init(file, 3, 0, 7);
    test_gguf_put_u32_entry(file, "general.alignment", 64);
    test_gguf_put_string_entry(file, "general.name", "old");
    test_gguf_put_u32_entry(file, "split.no", 0);
    test_gguf_put_u32_entry(file, "split.count", 1);
    test_gguf_put_array_key(file, "some.strings", OR_GGUF_STRING, 2);
    test_gguf_put_string(file, "one");
    test_gguf_put_string(file, "two");
    test_gguf_put_bool_entry(file, "a.bool", true);
    test_gguf_put_u32_entry(file, "a.number", 7);
    assert_int_equal(test_gguf_open(file, gguf_p), OR_OK);
}

static void metadata_are_copied_replaced_and_left_out(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *from, *to;
    or_gguf_writer_t *writer;
    or_gguf_array_t strings, array;
    uint32_t number;
    float real;
    bool flag = false;
    const int32_t numbers[] = {-5, 6};
    const or_gguf_string_t texts[] = {{"", 0}, {"a\0b", 3}};
    open_source(&file, &from);
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_copy(writer, from), OR_OK);
    assert_int_equal(or_gguf_writer_set_string(writer, "general.name", "a longer name"), OR_OK);
    assert_int_equal(or_gguf_writer_set_string(writer, "general.name", "new"), OR_OK);
    assert_int_equal(or_gguf_writer_set_f32(writer, "a.real", 0.5f), OR_OK);
    assert_int_equal(or_gguf_writer_set_u64(writer, "a.large", UINT64_MAX), OR_OK);
    assert_int_equal(or_gguf_writer_set_u32(writer, "a.number", 8), OR_OK);
    assert_int_equal(or_gguf_writer_set_bool(writer, "a.flag", true), OR_OK);
    assert_int_equal(or_gguf_writer_set_array(writer, "some.numbers", OR_GGUF_I32, numbers, 2),
                     OR_OK);
    assert_int_equal(or_gguf_writer_set_strings(writer, "new.strings", texts, 2), OR_OK);
    or_gguf_writer_drop(writer, "a.bool");
    or_gguf_writer_drop(writer, "was.never.there");
    assert_int_equal(or_gguf_writer_begin(writer), OR_OK);
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    or_gguf_writer_destroy(&writer);
    assert_null(writer);
    or_gguf_close(&from);
    test_gguf_fini(&file);

    assert_int_equal(or_gguf_open(path, &to), OR_OK);
    assert_int_equal(or_gguf_key_count(to), 8);
    assert_string(to, "general.name", "new");
    assert_int_equal(or_gguf_get_u32(to, "a.number", &number), OR_OK);
    assert_int_equal(number, 8);
    assert_int_equal(or_gguf_get_f32(to, "a.real", &real), OR_OK);
    assert_true(real == 0.5f);
    assert_true(or_gguf_has(to, "a.large"));
    assert_int_equal(or_gguf_get_array(to, "some.strings", OR_GGUF_STRING, &strings), OR_OK);
    assert_int_equal(strings.count, 2);
    assert_int_equal(or_gguf_get_bool(to, "a.flag", &flag), OR_OK);
    assert_true(flag);
    assert_int_equal(or_gguf_get_array(to, "some.numbers", OR_GGUF_I32, &array), OR_OK);
    assert_int_equal(array.count, 2);
    assert_int_equal(or_gguf_array_i32(&array, 0), -5);
    assert_int_equal(or_gguf_array_i32(&array, 1), 6);
    assert_int_equal(or_gguf_get_array(to, "new.strings", OR_GGUF_STRING, &array), OR_OK);
    assert_int_equal(array.count, 2);
    assert_int_equal(or_gguf_array_string(&array, 0).length, 0);
    assert_int_equal(or_gguf_array_string(&array, 1).length, 3);
    assert_memory_equal(or_gguf_array_string(&array, 1).bytes, "a\0b", 3);
    or_gguf_close(&to);
}

// -- tensors --

static or_status_t add_all_tensors(or_gguf_writer_t *writer, const or_gguf_t *from)
{
    or_status_t status = OR_OK;
    for (uint64_t i = 0; status == OR_OK && i < or_gguf_tensor_count(from); i++) {
        const or_gguf_tensor_t *t = or_gguf_tensor(from, i);
        status = or_gguf_writer_add_tensor(writer, t->name, t->dim_count, t->dims,
                                           (or_tensor_type_t)t->type);
    }
    return status;
}

// Put all tensors, in pieces of odd sizes.
static or_status_t put_all_tensors(or_gguf_writer_t *writer, const or_gguf_t *from)
{
    or_status_t status = OR_OK;
    for (uint64_t i = 0; i < or_gguf_tensor_count(from); i++) {
        const or_gguf_tensor_t *t = or_gguf_tensor(from, i);
        for (uint64_t at = 0; status == OR_OK && at < t->bytes; at += 70001) {
            uint64_t bytes = t->bytes - at < 70001 ? t->bytes - at : 70001;
            status = or_gguf_writer_put(writer, (const char *)t->data + at, bytes);
        }
    }
    return status;
}

static void a_copy_of_a_model_has_its_tensors(void **state)
{
    (void)state;
    or_gguf_t *from, *to;
    or_gguf_writer_t *writer;
    struct stat info;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &from), OR_OK);
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_copy(writer, from), OR_OK);
    assert_int_equal(add_all_tensors(writer, from), OR_OK);
    assert_int_equal(or_gguf_writer_begin(writer), OR_OK);
    assert_int_equal(put_all_tensors(writer, from), OR_OK);
    uint64_t promised = or_gguf_writer_file_bytes(writer);
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    or_gguf_writer_destroy(&writer);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, promised);

    assert_int_equal(or_gguf_open(path, &to), OR_OK);
    assert_int_equal(or_gguf_key_count(to), or_gguf_key_count(from));
    assert_int_equal(or_gguf_tensor_count(to), or_gguf_tensor_count(from));
    for (uint64_t i = 0; i < or_gguf_tensor_count(from); i++) {
        const or_gguf_tensor_t *a = or_gguf_tensor(from, i), *b = or_gguf_tensor(to, i);
        assert_int_equal(a->name.length, b->name.length);
        assert_memory_equal(a->name.bytes, b->name.bytes, a->name.length);
        assert_int_equal(a->type, b->type);
        assert_memory_equal(a->dims, b->dims, sizeof a->dims);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    or_gguf_close(&to);
    or_gguf_close(&from);
}

// -- failures --

#define ROWS 1000

static or_gguf_writer_t *begin_one_tensor(or_status_t expected)
{
    or_gguf_writer_t *writer;
    const uint64_t dims[] = {33, ROWS};
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_add_tensor(writer, text("t"), 2, dims, OR_TENSOR_F32), OR_OK);
    assert_int_equal(or_gguf_writer_begin(writer), expected);
    return writer;
}

static void what_is_given_up_leaves_the_old_file(void **state)
{
    (void)state;
    static const float row[33];
    or_gguf_t *gguf;
    or_gguf_writer_t *writer = begin_one_tensor(OR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(or_gguf_writer_put(writer, row, sizeof row), OR_OK);
    }
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    or_gguf_writer_destroy(&writer);

    writer = begin_one_tensor(OR_OK);
    assert_int_equal(or_gguf_writer_put(writer, row, sizeof row), OR_OK);
    assert_int_equal(count_files(), 2);
    or_gguf_writer_destroy(&writer);
    assert_int_equal(count_files(), 1);
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_gguf_tensor(gguf, 0)->bytes, ROWS * sizeof row);
    or_gguf_close(&gguf);
}

static void a_disk_that_is_too_small_is_an_error_before_the_work(void **state)
{
    (void)state;
    struct rlimit all, little;
    unlink(path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    little = (struct rlimit){4096, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    or_gguf_writer_t *writer = begin_one_tensor(OR_ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_non_null(strstr(or_error_text(), path));
    or_gguf_writer_destroy(&writer);
    assert_int_equal(count_files(), 0);
}

static void a_try_leaves_nothing(void **state)
{
    (void)state;
    or_gguf_writer_t *writer;
    unlink(path);
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_try(writer), OR_OK);
    assert_int_equal(count_files(), 0);
    assert_int_equal(or_gguf_writer_begin(writer), OR_OK);
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    assert_int_equal(count_files(), 1);
    or_gguf_writer_destroy(&writer);
}

static void no_folder_is_an_error(void **state)
{
    (void)state;
    or_gguf_writer_t *writer;
    assert_int_equal(or_gguf_writer_create("/nowhere/at/all.gguf", &writer), OR_OK);
    assert_int_equal(or_gguf_writer_try(writer), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "/nowhere/at/all.gguf"));
    assert_int_equal(or_gguf_writer_begin(writer), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "/nowhere/at/all.gguf"));
    or_gguf_writer_destroy(&writer);
}

static void a_tensor_beyond_all_disks_is_refused(void **state)
{
    (void)state;
    or_gguf_writer_t *writer;
    const uint64_t large[] = {UINT64_C(1) << 40, UINT64_C(1) << 22};
    const uint64_t larger[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_add_tensor(writer, text("t"), 2, large, OR_TENSOR_F32),
                     OR_ERR_INVALID);
    assert_int_equal(or_gguf_writer_add_tensor(writer, text("t"), 2, larger, OR_TENSOR_F32),
                     OR_ERR_INVALID);
    or_gguf_writer_destroy(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_are_copied_replaced_and_left_out),
        cmocka_unit_test(a_copy_of_a_model_has_its_tensors),
        cmocka_unit_test(what_is_given_up_leaves_the_old_file),
        cmocka_unit_test(a_disk_that_is_too_small_is_an_error_before_the_work),
        cmocka_unit_test(a_try_leaves_nothing),
        cmocka_unit_test(no_folder_is_an_error),
        cmocka_unit_test(a_tensor_beyond_all_disks_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
