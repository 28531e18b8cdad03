// Goal: a safetensors file is read as it is meant, and whatever does not fit the format is refused by name.
// Method: files in memory, each with one fault, of which the sentence must speak; every cut of a good one.
#include "launch/model/convert/safetensors.h"

#include <string.h>

#include "tests/support/test_support.h"

typedef struct {
    unsigned char bytes[1024];
    size_t count;
} file_t;

// A file with this header and `data_bytes` bytes of data, which count up.
static file_t file_of(const char *header, size_t data_bytes)
{
    file_t file;
    const uint64_t length = strlen(header);
    assert_true(8 + length + data_bytes <= sizeof file.bytes);
    memcpy(file.bytes, &length, 8);
    memcpy(file.bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) {
        file.bytes[8 + length + i] = (unsigned char)i;
    }
    file.count = 8 + length + data_bytes;
    return file;
}

static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                           "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[8,8]}}";

static void tensors_are_read_in_the_order_of_their_data(void **state)
{
    (void)state;
    file_t file = file_of(good, 20);
    or_safetensors_t *open = NULL;
    assert_int_equal(or_safetensors_open_bytes("good", file.bytes, file.count, &open), OR_OK);
    assert_int_equal(or_safetensors_count(open), 3);
    const or_safetensor_t *a = or_safetensors_at(open, 0);
    const or_safetensor_t *b = or_safetensors_at(open, 2);
    assert_string_equal(a->name, "a");
    assert_string_equal(b->name, "b");
    assert_string_equal(b->dtype, "BF16");
    assert_true(b->readable && b->type == OR_TENSOR_BF16);
    assert_false(or_safetensors_at(open, 1)->readable);
    assert_int_equal(b->dim_count, 2);
    assert_int_equal(b->dims[0], 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->dims[2], 1);
    assert_int_equal(b->elements, 6);
    assert_int_equal(b->bytes, 12);
    assert_int_equal(*(const unsigned char *)b->data, 8);
    or_safetensors_close(&open);
    assert_null(open);
}

#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    or_status_t status;
    const char *why; // part of the sentence
} faults[] = {
    {"[]", 0, OR_ERR_FORMAT, "no JSON object"},
    {"{\"a\":", 0, OR_ERR_FORMAT, "no JSON object"},
    {"{\"a\":7}", 0, OR_ERR_FORMAT, "tensor a is not described by an object"},
    {"{\"a\":{}}", 0, OR_ERR_FORMAT, "tensor a has no dtype"},
    {"{" TENSOR("a", "F4", "[2]", "[0,8]") "}", 8, OR_ERR_UNSUPPORTED, "dtype \"F4\""},
    {"{" TENSOR("a", "F32", "2", "[0,8]") "}", 8, OR_ERR_FORMAT, "no shape"},
    {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, OR_ERR_FORMAT, "no shape"},
    {"{" TENSOR("a", "F32", "[-2]", "[0,8]") "}", 8, OR_ERR_FORMAT, "no whole number"},
    {"{" TENSOR("a", "F32", "[2.0]", "[0,8]") "}", 8, OR_ERR_FORMAT, "no whole number"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, OR_ERR_FORMAT,
     "larger than 64 bits"},
    {"{" TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, OR_ERR_FORMAT,
     "data of another size"},
    {"{" TENSOR("a", "F32", "[9223372036854775808]", "[0,0]") "}", 0, OR_ERR_FORMAT,
     "too big integer"},
    {"{" TENSOR("a", "F32", "[2]", "[0,9223372036854775807]") "}", 8, OR_ERR_FORMAT,
     "beyond the end of the file"},
    {"{" TENSOR("a", "F32", "[2]", "[0,12]") "}", 8, OR_ERR_FORMAT, "beyond the end of the file"},
    {"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", 8, OR_ERR_FORMAT, "no data_offsets"},
    {"{" TENSOR("a", "F32", "[2]", "[0]") "}", 8, OR_ERR_FORMAT, "no data_offsets"},
    {"{" TENSOR("a", "F32", "[3]", "[0,8]") "}", 8, OR_ERR_FORMAT, "data of another size"},
    {"{" TENSOR("a", "F32", "[1]", "[0,8]") "}", 8, OR_ERR_FORMAT, "data of another size"},
    {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "F32", "[1]", "[2,6]") "}", 6,
     OR_ERR_FORMAT, "tensor b is misaligned"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[4,12]") "}", 12,
     OR_ERR_FORMAT, "tensor b overlaps"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[0,8]") "}", 8,
     OR_ERR_FORMAT, "overlaps"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[8,12]") "}", 12,
     OR_ERR_FORMAT, "tensor b has a gap before it"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 8, OR_ERR_FORMAT, "4 bytes at its end"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8,
     OR_ERR_FORMAT, "duplicate"},
};

static void faults_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        file_t file = file_of(faults[i].header, faults[i].data_bytes);
        or_safetensors_t *open = NULL;
        or_status_t status = or_safetensors_open_bytes("bad", file.bytes, file.count, &open);
        if (status != faults[i].status || strstr(or_error_text(), faults[i].why) == NULL) {
            fail_msg("%s: status %s, \"%s\"", faults[i].header, or_status_name(status),
                     or_error_text());
        }
        assert_null(open);
    }
}

static void no_cut_of_a_file_opens(void **state)
{
    (void)state;
    file_t file = file_of(good, 20);
    for (size_t count = 0; count < file.count; count++) {
        or_safetensors_t *open = NULL;
        assert_int_equal(or_safetensors_open_bytes("cut", file.bytes, count, &open), OR_ERR_FORMAT);
        assert_null(open);
    }
}

static void a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {
        0, 1, 25, UINT64_C(100) << 20, UINT64_C(1) << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        file_t file = file_of("{                      }", 0);
        or_safetensors_t *open = NULL;
        memcpy(file.bytes, &lengths[i], 8);
        assert_int_equal(or_safetensors_open_bytes("long", file.bytes, file.count, &open),
                         OR_ERR_FORMAT);
        assert_non_null(strstr(or_error_text(), "its header would have"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_read_in_the_order_of_their_data),
        cmocka_unit_test(faults_are_refused_by_name),
        cmocka_unit_test(no_cut_of_a_file_opens),
        cmocka_unit_test(a_header_longer_than_the_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
