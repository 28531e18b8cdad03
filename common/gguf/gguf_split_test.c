// Goal: a split model reads as one file, and an incomplete or inconsistent set of parts is
// refused with a sentence that names the part.
// Method: make three parts by hand in a folder of their own, correct ones and one set for each
// way to be wrong.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

#define PARTS 3u
#define ALL_TENSORS 4u
#define DATA_BYTES 32u // of each tensor: 8 floats

// The contents of the parts. Each test overwrites one value.
typedef struct {
    uint32_t number[PARTS]; // split.no
    uint32_t count[PARTS];
    uint32_t tensor_count[PARTS];
    const char *tensors[PARTS][2]; // NULL: none
    bool marked[PARTS];            // has the keys at all
} parts_t;

static const parts_t whole = {
    .number = {0, 1, 2},
    .count = {3, 3, 3},
    .tensor_count = {4, 4, 4},
    .tensors = {{"z"}, {"b", "y"}, {"a"}},
    .marked = {true, true, true},
};

static char folder[] = "/tmp/outrider-gguf-XXXXXX";

// The path of a part, in static storage for four results.
static const char *part_path(unsigned number, unsigned count)
{
    static char paths[4][96];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/m-%05u-of-%05u.gguf", folder, number, count);
    return path;
}

static void put_u16_entry(test_gguf_t *file, const char *key, uint32_t value)
{
    uint16_t narrow = (uint16_t)value;
    test_gguf_put_key(file, key, OR_GGUF_U16);
    test_gguf_put(file, &narrow, sizeof narrow);
}

static void make_part(test_gguf_t *file, const parts_t *parts, uint32_t part)
{
    uint32_t tensors = 0;
    while (tensors < 2 && parts->tensors[part][tensors] != NULL) {
        tensors++;
    }
    uint32_t entries = (parts->marked[part] ? 3 : 0) + (part == 0 ? 2 : 0);
    test_gguf_init(file, 3, tensors, entries);
    if (part == 0) {
        test_gguf_put_string_entry(file, "general.name", "in parts");
        test_gguf_put_u32_entry(file, "general.alignment", 64);
    }
    if (parts->marked[part]) {
        put_u16_entry(file, "split.no", parts->number[part]);
        put_u16_entry(file, "split.count", parts->count[part]);
        test_gguf_put_u32_entry(file, "split.tensors.count", parts->tensor_count[part]);
    }
    uint32_t alignment = part == 0 ? 64 : 32; // each part has its own
    for (uint32_t i = 0; i < tensors; i++) {
        test_gguf_put_tensor(file, parts->tensors[part][i], 4, 2, OR_TENSOR_F32,
                             (uint64_t)i * alignment);
    }
    for (uint32_t i = 0; i < tensors; i++) {
        float data[8] = {(float)(10 * part + i)};
        test_gguf_pad(file, alignment);
        test_gguf_put(file, data, sizeof data);
    }
}

static void save_part(const parts_t *parts, uint32_t part)
{
    test_gguf_t file;
    make_part(&file, parts, part);
    test_gguf_save(&file, part_path(part + 1, PARTS));
    test_gguf_fini(&file);
}

static void save_parts(const parts_t *parts)
{
    for (uint32_t i = 0; i < PARTS; i++) {
        save_part(parts, i);
    }
}

static void assert_first_number(const or_gguf_t *gguf, const char *name, float expected)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->bytes, DATA_BYTES);
    assert_true(*(const float *)tensor->data == expected);
}

static uint64_t sum_of_sizes(void)
{
    uint64_t sum = 0;
    for (unsigned i = 1; i <= PARTS; i++) {
        test_gguf_t file;
        test_gguf_load(&file, part_path(i, PARTS));
        sum += file.count;
        test_gguf_fini(&file);
    }
    return sum;
}

static void parts_read_as_one_file(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    or_gguf_string_t name;
    save_parts(&whole);
    assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
    assert_int_equal(or_gguf_get_string(gguf, "general.name", &name), OR_OK);
    assert_string_equal(or_gguf_path(gguf), part_path(1, PARTS));
    assert_int_equal(or_gguf_tensor_count(gguf), ALL_TENSORS);
    assert_first_number(gguf, "z", 0);
    assert_first_number(gguf, "b", 10);
    assert_first_number(gguf, "y", 11);
    assert_first_number(gguf, "a", 20);
    assert_ptr_equal(or_gguf_tensor(gguf, 3), or_gguf_find_tensor(gguf, "a"));
    assert_null(or_gguf_find_tensor(gguf, "c"));
    assert_int_equal(or_gguf_file_bytes(gguf), sum_of_sizes());
    or_gguf_close(&gguf);
}

static void the_first_part_may_have_no_tensors(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    parts_t parts = whole;
    parts.tensors[0][0] = NULL;
    for (uint32_t i = 0; i < PARTS; i++) {
        parts.tensor_count[i] = ALL_TENSORS - 1;
    }
    save_parts(&parts);
    assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
    assert_int_equal(or_gguf_tensor_count(gguf), ALL_TENSORS - 1);
    or_gguf_close(&gguf);
}

static uint64_t fingerprint(void)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
    uint64_t hash = or_gguf_fingerprint(gguf);
    or_gguf_close(&gguf);
    return hash;
}

// Change one byte of each part in turn.
static void the_fingerprint_covers_all_parts(void **state)
{
    (void)state;
    save_parts(&whole);
    uint64_t before = fingerprint();
    assert_int_equal(fingerprint(), before);
    for (uint32_t i = 0; i < PARTS; i++) {
        test_gguf_t file;
        test_gguf_load(&file, part_path(i + 1, PARTS));
        file.bytes[file.count - 1] ^= 1;
        test_gguf_save(&file, part_path(i + 1, PARTS));
        test_gguf_fini(&file);
        assert_true(fingerprint() != before);
        save_parts(&whole);
    }
}

// The file is large enough to be hashed in several pieces.
static void the_fingerprint_covers_all_bytes(void **state)
{
    (void)state;
    const off_t large = 150 << 20; // most of it a hole
    const off_t places[] = {large / 2, large - 1, (64 << 20) - 1, 64 << 20};
    save_parts(&whole);
    assert_int_equal(truncate(part_path(PARTS, PARTS), large), 0);
    uint64_t before = fingerprint();
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int fd = open(part_path(PARTS, PARTS), O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(fd, "x", 1, places[i]), 1);
        assert_true(fingerprint() != before);
        assert_int_equal(pwrite(fd, "", 1, places[i]), 1);
        assert_int_equal(close(fd), 0);
        assert_true(fingerprint() == before);
    }
    save_parts(&whole);
}

static void assert_refused(const char *path, or_status_t expected, const char *reason)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), expected);
    assert_null(gguf);
    if (strstr(or_error_text(), reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", or_error_text(), reason);
    }
}

static void assert_parts_refused(const parts_t *parts, const char *reason)
{
    save_parts(parts);
    assert_refused(part_path(1, PARTS), OR_ERR_FORMAT, reason);
}

static void wrong_parts_are_refused_by_name(void **state)
{
    (void)state;
    parts_t parts = whole;
    parts.count[2] = 4;
    assert_parts_refused(&parts, "m-00003-of-00003.gguf: is part 3 of 4");
    parts = whole;
    parts.number[1] = 2;
    assert_parts_refused(&parts, "m-00002-of-00003.gguf: is part 3 of 3");
    parts = whole;
    parts.tensor_count[1] = 5;
    assert_parts_refused(&parts, "m-00002-of-00003.gguf: is a part of another model");
    parts = whole;
    parts.tensors[2][0] = "b";
    assert_parts_refused(&parts, "two parts of this split model have tensor b");
    parts = whole;
    parts.tensors[1][1] = NULL;
    assert_parts_refused(&parts, "have 3 tensors in all, not the 4");
    parts = whole;
    parts.marked[1] = false;
    assert_parts_refused(&parts, "m-00002-of-00003.gguf: has no metadata key split.no");
    parts.marked[0] = false; // a whole model that only has the name of a part
    assert_parts_refused(&parts, "give a whole model another name");
    parts = whole;
    parts.count[0] = 2; // neither 2 nor 3 may be believed
    assert_parts_refused(&parts, "m-00001-of-00003.gguf: is part 1 of 2");
}

static void missing_and_damaged_parts_are_named(void **state)
{
    (void)state;
    test_gguf_t file;
    save_parts(&whole);
    test_gguf_load(&file, part_path(3, PARTS));
    file.count -= DATA_BYTES;
    test_gguf_save(&file, part_path(3, PARTS));
    test_gguf_fini(&file);
    assert_refused(part_path(1, PARTS), OR_ERR_FORMAT, "m-00003-of-00003.gguf: damaged");
    assert_int_equal(unlink(part_path(3, PARTS)), 0);
    assert_refused(part_path(1, PARTS), OR_ERR_IO, "m-00003-of-00003.gguf: cannot open");
}

static void the_first_part_must_be_opened_under_its_name(void **state)
{
    (void)state;
    char renamed[96];
    save_parts(&whole);
    assert_refused(part_path(2, PARTS), OR_ERR_INVALID, part_path(1, PARTS));
    snprintf(renamed, sizeof renamed, "%s/renamed.gguf", folder);
    assert_int_equal(rename(part_path(1, PARTS), renamed), 0);
    assert_refused(renamed, OR_ERR_FORMAT, "-00001-of-00003.gguf");
    assert_int_equal(unlink(renamed), 0);
}

static void all_parts_are_the_file(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    char other[96];
    snprintf(other, sizeof other, "%s/other.gguf", folder);
    save_parts(&whole);
    assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
    for (unsigned i = 1; i <= PARTS; i++) {
        assert_true(or_gguf_is_at(gguf, part_path(i, PARTS)));
        assert_int_equal(link(part_path(i, PARTS), other), 0);
        assert_true(or_gguf_is_at(gguf, other));
        assert_int_equal(unlink(other), 0);
    }
    assert_false(or_gguf_is_at(gguf, other));
    assert_false(or_gguf_is_at(gguf, folder));
    or_gguf_close(&gguf);
}

static void names_of_parts_are_known(void **state)
{
    (void)state;
    assert_true(or_gguf_is_part_name("x-00001-of-00003.gguf"));
    assert_true(or_gguf_is_part_name("a/folder/-00007-of-00003.gguf"));
    assert_false(or_gguf_is_part_name("x-00001-of-00001.gguf"));
    assert_false(or_gguf_is_part_name("x-0001-of-0003.gguf"));
    assert_false(or_gguf_is_part_name("x-00001-of-00003.gguf.tmp"));
    assert_false(or_gguf_is_part_name(""));
}

// A model in a single part is a whole model.
static void a_split_of_one_is_a_single_file(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    test_gguf_t file;
    parts_t parts = whole;
    parts.count[0] = 1;
    make_part(&file, &parts, 0);
    test_gguf_save(&file, part_path(1, 1));
    test_gguf_fini(&file);
    assert_int_equal(or_gguf_open(part_path(1, 1), &gguf), OR_OK);
    assert_int_equal(or_gguf_tensor_count(gguf), 1);
    or_gguf_close(&gguf);
    assert_int_equal(unlink(part_path(1, 1)), 0);
}

// Written to, whatever was written; not removed, nor replaced by another file of its name.
static void a_part_that_is_written_to_is_seen(void **state)
{
    (void)state;
    const struct timespec times[2] = {{1, 1}, {1, 1}};
    for (unsigned i = 1; i <= PARTS; i++) {
        or_gguf_t *gguf = NULL;
        char path[96];
        snprintf(path, sizeof path, "%s", part_path(i, PARTS));
        save_parts(&whole);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
        int fd = open(path, O_WRONLY);
        assert_true(or_gguf_is_unchanged(gguf));
        assert_int_equal(write(fd, "G", 1), 1); // as it was but for its time
        assert_false(or_gguf_is_unchanged(gguf));
        assert_int_equal(futimens(fd, times), 0);
        assert_true(or_gguf_is_unchanged(gguf));
        assert_int_equal(ftruncate(fd, 8), 0);
        assert_false(or_gguf_is_unchanged(gguf));
        close(fd);
        or_gguf_close(&gguf);
        save_parts(&whole);
        assert_int_equal(or_gguf_open(part_path(1, PARTS), &gguf), OR_OK);
        unlink(path);
        assert_true(or_gguf_is_unchanged(gguf));
        save_part(&whole, i - 1);
        assert_true(or_gguf_is_unchanged(gguf));
        or_gguf_close(&gguf);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= PARTS; i++) {
        unlink(part_path(i, PARTS));
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_read_as_one_file),
        cmocka_unit_test(the_first_part_may_have_no_tensors),
        cmocka_unit_test(the_fingerprint_covers_all_parts),
        cmocka_unit_test(the_fingerprint_covers_all_bytes),
        cmocka_unit_test(wrong_parts_are_refused_by_name),
        cmocka_unit_test(missing_and_damaged_parts_are_named),
        cmocka_unit_test(the_first_part_must_be_opened_under_its_name),
        cmocka_unit_test(all_parts_are_the_file),
        cmocka_unit_test(names_of_parts_are_known),
        cmocka_unit_test(a_split_of_one_is_a_single_file),
        cmocka_unit_test(a_part_that_is_written_to_is_seen),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
