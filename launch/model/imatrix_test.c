// Goal: both forms of an importance matrix are read as they are meant, give the same numbers, and whatever does not fit them is
// refused by name.
// Method: files made by hand, each with one fault, of which the sentence must speak; every cut of a good one.
#include "launch/model/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

#define INPUTS 4u

static char path[64];

// ---- files ----

// What a file has of one tensor, where `sums` is [matrices][INPUTS].
typedef struct {
    const char *name;
    uint32_t matrices;
    const float *sums, *counts;
} given_t;

static const float sums[] = {8, 2, 0, 1, 3, 3, 3, 3}, counts[] = {2, 0}, one[] = {2},
                   none[] = {0, 0};

static void put_tensors(test_gguf_t *file, const given_t *given, const char *sums_end,
                        const char *counts_end)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", given->name, sums_end);
    test_gguf_put_tensor(file, name, INPUTS, given->matrices, 0, 0);
    snprintf(name, sizeof name, "%s%s", given->name, counts_end);
    test_gguf_put_tensor(file, name, 1, given->matrices, 0, 32);
    test_gguf_pad(file, 32);
    test_gguf_put(file, given->sums, given->matrices * INPUTS * sizeof *given->sums);
    test_gguf_pad(file, 32);
    test_gguf_put(file, given->counts, given->matrices * sizeof *given->counts);
}

// Save a GGUF file with one entry at `path`.
static void save(const char *type, const given_t *given, const char *sums_end,
                 const char *counts_end)
{
    test_gguf_t file;
    test_gguf_init(&file, 3, 2, 3);
    test_gguf_put_string_entry(&file, "general.type", type);
    test_gguf_put_array_key(&file, "imatrix.datasets", OR_GGUF_STRING, 2);
    test_gguf_put_string(&file, "a.txt");
    test_gguf_put_string(&file, "b.txt");
    test_gguf_put_u32_entry(&file, "imatrix.chunk_count", 7);
    put_tensors(&file, given, sums_end, counts_end);
    test_gguf_save(&file, path);
    test_gguf_fini(&file);
}

static void refuse(const char *type, const given_t *given, const char *sums_end,
                   const char *counts_end, const char *said)
{
    or_imatrix_t *imatrix = NULL;
    save(type, given, sums_end, counts_end);
    assert_int_equal(or_imatrix_open(path, &imatrix), OR_ERR_FORMAT);
    assert_null(imatrix);
    if (strstr(or_error_text(), said) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), said);
    }
}

// ---- the GGUF form ----

static void means_are_sums_over_counts(void **state)
{
    (void)state;
    const float *values;
    uint64_t count;
    or_imatrix_t *imatrix = NULL;
    save("imatrix", &(given_t){"x.weight", 2, sums, counts}, ".in_sum2", ".counts");
    assert_int_equal(or_imatrix_open(path, &imatrix), OR_OK);
    assert_int_equal(or_imatrix_count(imatrix), 1);
    assert_string_equal(or_imatrix_name(imatrix, 0), "x.weight");
    values = or_imatrix_values(imatrix, 0, &count);
    const float expected[] = {4, 1, 0, 0.5f, 1, 1, 1, 1}; // the second expert saw no rows
    assert_int_equal(count, 8);
    assert_memory_equal(values, expected, sizeof expected);
    or_imatrix_close(&imatrix);
    assert_null(imatrix);
}

static void a_tensor_is_found_by_name_and_size(void **state)
{
    (void)state;
    const float *values;
    or_imatrix_t *imatrix = NULL;
    or_gguf_tensor_t tensor = {.name = {"x.weight!", 8}, .dims = {INPUTS, 10, 2, 1}};
    save("imatrix", &(given_t){"x.weight", 2, sums, counts}, ".in_sum2", ".counts");
    assert_int_equal(or_imatrix_open(path, &imatrix), OR_OK);
    assert_int_equal(or_imatrix_find(imatrix, &tensor, &values), OR_OK);
    assert_true(values[0] == 4);
    tensor.dims[2] = 3;
    assert_int_equal(or_imatrix_find(imatrix, &tensor, &values), OR_ERR_MISMATCH);
    tensor.name.length = 7;
    assert_int_equal(or_imatrix_find(imatrix, &tensor, &values), OR_OK);
    assert_null(values);
    or_imatrix_close(&imatrix);
}

static void faults_of_a_gguf_file_are_named(void **state)
{
    (void)state;
    static const float nan_sum[] = {1, 2, NAN, 4}, minus[] = {1, -1e-6f, 3, 4}, half[] = {0.5f},
                       minus_count[] = {-1}, nan_count[] = {NAN}, infinite[] = {1, INFINITY, 1, 1};
    const given_t good = {"x.weight", 1, sums, one};
    refuse("model", &good, ".in_sum2", ".counts", "general.type is not imatrix");
    refuse("imatrix", &good, ".in_sum2", ".other", "x.weight.in_sum2 without the counts");
    refuse("imatrix", &good, ".other", ".counts", "x.weight.counts without the sums");
    refuse("imatrix", &good, ".other", ".another", "without entries");
    refuse("imatrix", &(given_t){"x", 1, nan_sum, one}, ".in_sum2", ".counts", "x has the sum nan");
    refuse("imatrix", &(given_t){"x", 1, minus, one}, ".in_sum2", ".counts",
           "x has the sum -1e-06");
    refuse("imatrix", &(given_t){"x", 1, infinite, one}, ".in_sum2", ".counts", "the sum inf");
    refuse("imatrix", &(given_t){"x", 1, sums, half}, ".in_sum2", ".counts", "the count 0.5");
    refuse("imatrix", &(given_t){"x", 1, sums, minus_count}, ".in_sum2", ".counts", "the count -1");
    refuse("imatrix", &(given_t){"x", 1, sums, nan_count}, ".in_sum2", ".counts", "the count nan");
    refuse("imatrix", &(given_t){"x", 2, sums, none}, ".in_sum2", ".counts", "counts of x are 0");
}

static void a_table_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t columns, rows, counts;
        uint32_t type;
        const char *said;
    } tables[] = {
        {4, 1, 3, 0, "4 sums, which 3 counts do not divide"},
        {4, 1, 1, 1, "no floats (F32)"},
        {4, 1, 1, 99, "no floats (F32)"},
        {4, 1000, 1, 0, "x.in_sum2"}, // truncated
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        test_gguf_t file;
        or_imatrix_t *imatrix = NULL;
        test_gguf_init(&file, 3, 2, 1);
        test_gguf_put_string_entry(&file, "general.type", "imatrix");
        test_gguf_put_tensor(&file, "x.in_sum2", tables[i].columns, tables[i].rows, tables[i].type,
                             0);
        test_gguf_put_tensor(&file, "x.counts", 1, tables[i].counts, 0, 32);
        test_gguf_pad(&file, 32);
        test_gguf_put(&file, (char[64]){0}, 64);
        test_gguf_save(&file, path);
        test_gguf_fini(&file);
        assert_int_equal(or_imatrix_open(path, &imatrix), OR_ERR_FORMAT);
        if (strstr(or_error_text(), tables[i].said) == NULL) {
            fail_msg("'%s' does not say '%s'", or_error_text(), tables[i].said);
        }
    }
}

// A hundred names of the same 4 KiB would take a hundred times the file's size, and much more in a larger one.
static void sums_that_share_bytes_are_refused(void **state)
{
    (void)state;
    static const float zeros[1024], row[8] = {1};
    test_gguf_t file;
    or_imatrix_t *imatrix = NULL;
    test_gguf_init(&file, 3, 200, 1);
    test_gguf_put_string_entry(&file, "general.type", "imatrix");
    for (uint32_t i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%u.in_sum2", i);
        test_gguf_put_tensor(&file, name, 1024, 1, 0, 0);
        snprintf(name, sizeof name, "x%u.counts", i);
        test_gguf_put_tensor(&file, name, 1, 1, 0, sizeof zeros);
    }
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, zeros, sizeof zeros);
    test_gguf_put(&file, row, sizeof row);
    test_gguf_save(&file, path);
    test_gguf_fini(&file);
    assert_int_equal(or_imatrix_open(path, &imatrix), OR_ERR_FORMAT);
    assert_null(imatrix);
    assert_non_null(strstr(or_error_text(), "its tensors overlap"));
}

// ---- the legacy form ----

typedef struct {
    unsigned char bytes[512];
    size_t count;
} legacy_t;

static void put(legacy_t *file, const void *bytes, size_t count)
{
    assert_true(file->count + count <= sizeof file->bytes);
    memcpy(file->bytes + file->count, bytes, count);
    file->count += count;
}

static void put_number(legacy_t *file, int32_t number)
{
    put(file, &number, sizeof number);
}

static void put_entry(legacy_t *file, const char *name, int32_t calls, const float *values,
                      uint32_t count)
{
    put_number(file, (int32_t)strlen(name));
    put(file, name, strlen(name));
    put_number(file, calls);
    put_number(file, (int32_t)count);
    put(file, values, count * sizeof *values);
}

static legacy_t good_file(void)
{
    legacy_t file = {.count = 0};
    put_number(&file, 2);
    put_entry(&file, "y", 2, sums, 8);
    put_entry(&file, "b", 1, sums, 4);
    put_number(&file, 7);
    put_number(&file, 5);
    put(&file, "a.txt", 5);
    return file;
}

static or_status_t open_legacy(const legacy_t *file, or_imatrix_t **imatrix)
{
    *imatrix = NULL;
    return or_imatrix_open_bytes("old.dat", file->bytes, file->count, imatrix);
}

static void assert_means(const or_imatrix_t *imatrix)
{
    uint64_t count;
    const float expected[] = {4, 1, 0, 0.5f, 1.5f, 1.5f, 1.5f, 1.5f};
    assert_int_equal(or_imatrix_count(imatrix), 2);
    assert_string_equal(or_imatrix_name(imatrix, 0), "b");
    assert_string_equal(or_imatrix_name(imatrix, 1), "y");
    assert_memory_equal(or_imatrix_values(imatrix, 1, &count), expected, sizeof expected);
    assert_int_equal(count, 8);
}

static void the_legacy_form_is_read(void **state)
{
    (void)state;
    legacy_t file = good_file();
    or_imatrix_t *imatrix;
    assert_int_equal(open_legacy(&file, &imatrix), OR_OK);
    assert_means(imatrix);
    or_imatrix_close(&imatrix);

    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.count, out), file.count);
    fclose(out);
    assert_int_equal(or_imatrix_open(path, &imatrix), OR_OK);
    assert_means(imatrix);
    or_imatrix_close(&imatrix);
}

// Whole are the entries alone, those with the chunks, and all of it.
static void cut_files_are_refused(void **state)
{
    (void)state;
    const legacy_t whole = good_file();
    for (size_t count = 0; count < whole.count; count++) {
        legacy_t file = whole;
        or_imatrix_t *imatrix;
        file.count = count;
        bool may_end = count == whole.count - 9 || count == whole.count - 13;
        assert_int_equal(open_legacy(&file, &imatrix), may_end ? OR_OK : OR_ERR_FORMAT);
        or_imatrix_close(&imatrix);
    }
}

static void refuse_legacy(const legacy_t *file, const char *said)
{
    or_imatrix_t *imatrix;
    assert_int_equal(open_legacy(file, &imatrix), OR_ERR_FORMAT);
    if (strstr(or_error_text(), said) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), said);
    }
}

static void faults_of_a_legacy_file_are_named(void **state)
{
    (void)state;
    static const float minus[] = {-1, 1}, not_a_number[] = {1, NAN};
    legacy_t file = {.count = 0};
    put(&file, "a text, which is no importance matrix at all", 44);
    refuse_legacy(&file, "old.dat is no importance matrix");
    const struct {
        const char *name;
        int32_t calls;
        const float *values;
        uint32_t count;
        const char *said;
    } faults[] = {
        {"x", 0, sums, 2, "2 values of 0 calls"}, {"x", -5, sums, 2, "2 values of -5 calls"},
        {"x", 1, sums, 0, "0 values of 1 calls"}, {"", 1, sums, 2, "entry 1 has no name"},
        {"x", 1, minus, 2, "x has the sum -1"},   {"x", 1, not_a_number, 2, "x has the sum nan"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        file.count = 0;
        put_number(&file, 1);
        put_entry(&file, faults[i].name, faults[i].calls, faults[i].values, faults[i].count);
        put(&file, (char[24]){0}, 24);
        refuse_legacy(&file, faults[i].said);
    }
    file.count = 0;
    put_number(&file, 2);
    put_entry(&file, "x", 1, sums, 2);
    put_entry(&file, "x", 1, sums, 2);
    refuse_legacy(&file, "names x twice");
    file = good_file();
    file.bytes[4] = 255; // the first name is longer than the file
    file.bytes[5] = 255;
    refuse_legacy(&file, "ends within entry 1");
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    or_imatrix_t *imatrix = NULL;
    assert_int_equal(or_imatrix_open("/nowhere/imatrix.gguf", &imatrix), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "/nowhere/imatrix.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_sums_over_counts),
        cmocka_unit_test(a_tensor_is_found_by_name_and_size),
        cmocka_unit_test(faults_of_a_gguf_file_are_named),
        cmocka_unit_test(a_table_that_does_not_fit_is_refused),
        cmocka_unit_test(sums_that_share_bytes_are_refused),
        cmocka_unit_test(the_legacy_form_is_read),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(faults_of_a_legacy_file_are_named),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    snprintf(path, sizeof path, "/tmp/imatrix_test.%d", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
