// Goal: an open file says exactly what was written into it, and no file does harm, however
// malformed: it opens or is refused with a sentence.
// Method: make files by hand, correct ones and one for each way to be wrong. Cut a real model at
// every length through its header. Change random bytes of a real model and then read everything.
// The test is meant to run under the sanitizers too.
#include "common/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

static void assert_string(or_gguf_string_t string, const char *expected)
{
    assert_int_equal(string.length, strlen(expected));
    assert_memory_equal(string.bytes, expected, string.length);
}

// -- right files
// ------------------------------------------------------------------------------------------------------

#define WRITTEN_ENTRIES 9

static void put_entries(test_gguf_t *file)
{
    const float numbers[] = {1.5f, -2.5f};
    const int32_t integers[] = {7, -7};
    const double wide = 0.125;
    const int8_t minus_one = -1;
    test_gguf_put_string_entry(file, "a.string", "h\xC3\xA9llo\n");
    test_gguf_put_key(file, "an.i8", OR_GGUF_I8);
    test_gguf_put(file, &minus_one, 1);
    test_gguf_put_u32_entry(file, "a.u32", 70000);
    test_gguf_put_key(file, "a.u64", OR_GGUF_U64);
    test_gguf_put_u64(file, UINT64_MAX);
    test_gguf_put_key(file, "an.f64", OR_GGUF_F64);
    test_gguf_put(file, &wide, sizeof wide);
    test_gguf_put_bool_entry(file, "a.bool", true);
    test_gguf_put_array_key(file, "some.strings", OR_GGUF_STRING, 3);
    test_gguf_put_string(file, "one");
    test_gguf_put_string(file, "");
    test_gguf_put_string(file, "three");
    test_gguf_put_array_key(file, "some.f32", OR_GGUF_F32, 2);
    test_gguf_put(file, numbers, sizeof numbers);
    test_gguf_put_array_key(file, "some.i32", OR_GGUF_I32, 2);
    test_gguf_put(file, integers, sizeof integers);
}

static void check_entries(const or_gguf_t *gguf)
{
    or_gguf_string_t string;
    or_gguf_array_t array;
    uint32_t integer;
    float number;
    bool flag;
    assert_int_equal(or_gguf_get_string(gguf, "a.string", &string), OR_OK);
    assert_string(string, "h\xC3\xA9llo\n");
    assert_int_equal(or_gguf_get_u32(gguf, "a.u32", &integer), OR_OK);
    assert_int_equal(integer, 70000);
    assert_int_equal(or_gguf_get_u32(gguf, "an.i8", &integer), OR_ERR_FORMAT);
    assert_int_equal(or_gguf_get_u32(gguf, "a.u64", &integer), OR_ERR_FORMAT);
    assert_int_equal(or_gguf_get_u32(gguf, "a.string", &integer), OR_ERR_FORMAT);
    assert_int_equal(or_gguf_get_u32(gguf, "nothing", &integer), OR_ERR_NOT_FOUND);
    assert_non_null(strstr(or_error_text(), "nothing"));
    assert_int_equal(or_gguf_get_f32(gguf, "an.f64", &number), OR_OK);
    assert_true(number == 0.125f);
    assert_int_equal(or_gguf_get_bool(gguf, "a.bool", &flag), OR_OK);
    assert_true(flag);
    assert_int_equal(or_gguf_get_array(gguf, "some.strings", OR_GGUF_STRING, &array), OR_OK);
    assert_int_equal(array.count, 3);
    assert_string(or_gguf_array_string(&array, 2), "three");
    assert_string(or_gguf_array_string(&array, 1), "");
    assert_string(or_gguf_array_string(&array, 0), "one");
    assert_int_equal(or_gguf_get_array(gguf, "some.strings", OR_GGUF_I32, &array), OR_ERR_FORMAT);
    assert_int_equal(or_gguf_get_array(gguf, "some.f32", OR_GGUF_F32, &array), OR_OK);
    assert_true(or_gguf_array_f32(&array, 1) == -2.5f);
    assert_int_equal(or_gguf_get_array(gguf, "some.i32", OR_GGUF_I32, &array), OR_OK);
    assert_int_equal(or_gguf_array_i32(&array, 1), -7);
    assert_true(or_gguf_has(gguf, "a.bool"));
    assert_false(or_gguf_has(gguf, "a.boo"));
}

static void reads_metadata_of_both_versions(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        test_gguf_t file;
        or_gguf_t *gguf = NULL;
        test_gguf_init(&file, version, 0, WRITTEN_ENTRIES);
        put_entries(&file);
        assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
        assert_int_equal(or_gguf_version(gguf), version);
        assert_int_equal(or_gguf_file_bytes(gguf), file.count);
        check_entries(gguf);
        or_gguf_close(&gguf);
        assert_null(gguf);
        test_gguf_fini(&file);
    }
}

static void integers_of_any_width_and_sign_are_read(void **state)
{
    (void)state;
    static const struct {
        or_gguf_type_t type;
        size_t bytes;
        bool has_sign;
    } kinds[] = {{OR_GGUF_U8, 1, false},  {OR_GGUF_I8, 1, true},   {OR_GGUF_U16, 2, false},
                 {OR_GGUF_I16, 2, true},  {OR_GGUF_U32, 4, false}, {OR_GGUF_I32, 4, true},
                 {OR_GGUF_U64, 8, false}, {OR_GGUF_I64, 8, true}};
    const int64_t hundred = 100, minus_one = -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        test_gguf_t file;
        or_gguf_t *gguf = NULL;
        uint32_t value = 0;
        test_gguf_init(&file, 3, 0, 2);
        test_gguf_put_key(&file, "hundred", kinds[i].type);
        test_gguf_put(&file, &hundred, kinds[i].bytes);
        test_gguf_put_key(&file, "ones", kinds[i].type); // all bits: -1, or the largest
        test_gguf_put(&file, &minus_one, kinds[i].bytes);
        assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
        assert_int_equal(or_gguf_get_u32(gguf, "hundred", &value), OR_OK);
        assert_int_equal(value, 100);
        bool fits = !kinds[i].has_sign && kinds[i].bytes <= sizeof value;
        assert_int_equal(or_gguf_get_u32(gguf, "ones", &value), fits ? OR_OK : OR_ERR_FORMAT);
        assert_true(value == (fits ? UINT32_MAX >> (32 - 8 * kinds[i].bytes) : 100));
        or_gguf_close(&gguf);
        test_gguf_fini(&file);
    }
}

static void describes_metadata_in_file_order(void **state)
{
    (void)state;
    static const char *const expected[WRITTEN_ENTRIES] = {
        "h\xC3\xA9llo ", "-1",        "70000",    "18446744073709551615", "0.125", "true",
        "[string x 3]",  "[f32 x 2]", "[i32 x 2]"};
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_gguf_string_t key;
    char text[32];
    test_gguf_init(&file, 3, 0, WRITTEN_ENTRIES);
    put_entries(&file);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_gguf_key_count(gguf), WRITTEN_ENTRIES);
    for (uint64_t i = 0; i < WRITTEN_ENTRIES; i++) {
        or_gguf_describe(gguf, i, &key, text, sizeof text);
        assert_string_equal(text, expected[i]);
    }
    or_gguf_describe(gguf, 0, &key, text, 3); // "h", and no half of the second character
    assert_string(key, "a.string");
    assert_string_equal(text, "h");
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static const float written_numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void make_with_tensors(test_gguf_t *file)
{
    test_gguf_init(file, 3, 3, WRITTEN_ENTRIES + 1);
    test_gguf_put_u32_entry(file, "general.alignment", 64);
    put_entries(file);
    test_gguf_put_tensor(file, "b", 4, 2, OR_TENSOR_F32, 0);
    test_gguf_put_tensor(file, "a", 3, 1, OR_TENSOR_F16, 64);
    test_gguf_put_tensor(file, "c", 33, 1, 19, 128); // IQ1_S
    test_gguf_pad(file, 64);
    test_gguf_put(file, written_numbers, sizeof written_numbers);
    test_gguf_pad(file, 64);
    test_gguf_put(file, written_numbers, sizeof written_numbers);
    test_gguf_pad(file, 64);
}

static void reads_tensors(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    make_with_tensors(&file);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_gguf_tensor_count(gguf), 3);
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, "b");
    assert_ptr_equal(tensor, or_gguf_tensor(gguf, 0));
    assert_int_equal(tensor->elements, 8);
    assert_int_equal(tensor->dims[1], 2);
    assert_int_equal(tensor->dims[2], 1);
    assert_int_equal(tensor->bytes, sizeof written_numbers);
    assert_memory_equal(tensor->data, written_numbers, sizeof written_numbers);
    assert_int_equal(or_gguf_find_tensor(gguf, "a")->bytes, 6);
    assert_null(or_gguf_find_tensor(gguf, "c")->data);
    assert_string_equal(or_gguf_tensor_type_name(or_gguf_tensor(gguf, 2)->type), "IQ1_S");
    assert_string_equal(or_gguf_tensor_type_name(99), "type 99");
    assert_null(or_gguf_find_tensor(gguf, "d"));
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

// The tensors follow their table without padding.
static void reads_tensors_right_behind_their_table(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    test_gguf_init(&file, 3, 1, 0);
    test_gguf_put_tensor(&file, "a name of thirty-two characters.", 4, 2, OR_TENSOR_F32, 0);
    assert_int_equal(file.count % 32, 0);
    test_gguf_put(&file, written_numbers, sizeof written_numbers);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_memory_equal(or_gguf_tensor(gguf, 0)->data, written_numbers, sizeof written_numbers);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

// -- wrong files
// ------------------------------------------------------------------------------------------------------

static void start_with_nothing(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 0);
}

static void version_1(test_gguf_t *file)
{
    test_gguf_init(file, 1, 0, 0);
}

static void big_endian(test_gguf_t *file)
{
    test_gguf_init(file, __builtin_bswap32(3), 0, 0);
}

static void text_file(test_gguf_t *file)
{
    start_with_nothing(file);
    memcpy(file->bytes, "once upon a time, so", 20);
}

static void empty_file(test_gguf_t *file)
{
    start_with_nothing(file);
    file->count = 0;
}

static void too_many_entries(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, UINT64_MAX / 2);
}

static void too_many_tensors(test_gguf_t *file)
{
    test_gguf_init(file, 3, UINT64_MAX, 0);
}

static void duplicate_key(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 3);
    test_gguf_put_u32_entry(file, "twin", 1);
    test_gguf_put_u32_entry(file, "other", 1);
    test_gguf_put_u32_entry(file, "twin", 2);
}

static void binary_key(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_u32_entry(file, "a\x1B[2J", 1);
}

static void empty_key(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_u32_entry(file, "", 1);
}

static void endless_string(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_key(file, "long", OR_GGUF_STRING);
    test_gguf_put_u64(file, UINT64_MAX - 3);
    test_gguf_put(file, "short", 5);
}

static void unknown_type(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_key(file, "strange", (or_gguf_type_t)13);
    test_gguf_put_u64(file, 0);
}

static void array_of_arrays(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_array_key(file, "nest", OR_GGUF_ARRAY, 1);
    test_gguf_put_u64(file, 0);
}

static void endless_array(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_array_key(file, "wide", OR_GGUF_U64, UINT64_MAX / 8 + 2); // * 8 wraps to 8
    test_gguf_put_u64(file, 0);
}

static void endless_string_array(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_array_key(file, "strings", OR_GGUF_STRING, UINT64_MAX / 8 + 2);
    test_gguf_put_u64(file, 0);
}

static void odd_alignment(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_u32_entry(file, "general.alignment", 24);
}

static void no_alignment(test_gguf_t *file)
{
    test_gguf_init(file, 3, 0, 1);
    test_gguf_put_u32_entry(file, "general.alignment", 0);
}

static void one_tensor(test_gguf_t *file, uint64_t columns, uint64_t rows, uint64_t offset)
{
    test_gguf_init(file, 3, 1, 0);
    test_gguf_put_tensor(file, "only", columns, rows, OR_TENSOR_F32, offset);
    test_gguf_pad(file, 32);
    test_gguf_put(file, "12345678123456781234567812345678", 32);
}

static void shape_that_wraps(test_gguf_t *file)
{
    one_tensor(file, UINT64_C(1) << 33, UINT64_C(1) << 31, 0);
}

static void bytes_that_wrap(test_gguf_t *file)
{
    one_tensor(file, UINT64_C(1) << 31, UINT64_C(1) << 31, 0);
}

static void empty_shape(test_gguf_t *file)
{
    one_tensor(file, 0, 8, 0);
}

static void data_past_the_end(test_gguf_t *file)
{
    one_tensor(file, 9, 1, 0);
}

static void second_past_the_end(test_gguf_t *file)
{
    test_gguf_init(file, 3, 2, 0);
    test_gguf_put_tensor(file, "inside", 8, 1, OR_TENSOR_F32, 0);
    test_gguf_put_tensor(file, "outside", 9, 1, OR_TENSOR_F32, 32); // 4 bytes too many
    test_gguf_pad(file, 32);
    test_gguf_put(file, "1234567812345678123456781234567812345678123456781234567812345678", 64);
}

static void offset_past_the_end(test_gguf_t *file)
{
    one_tensor(file, 1, 1, UINT64_MAX - 31);
}

static void offset_not_aligned(test_gguf_t *file)
{
    one_tensor(file, 1, 1, 4);
}

static void five_dimensions(test_gguf_t *file)
{
    test_gguf_init(file, 3, 1, 0);
    test_gguf_put_string(file, "deep");
    test_gguf_put_u32(file, 5);
    for (int i = 0; i < 8; i++) {
        test_gguf_put_u64(file, 1);
    }
}

static void half_a_block(test_gguf_t *file)
{
    test_gguf_init(file, 3, 1, 0);
    test_gguf_put_tensor(file, "ragged", 48, 2, OR_TENSOR_Q8_0, 0); // 3 blocks, but no whole rows
    test_gguf_pad(file, 32);
    for (int i = 0; i < 16; i++) {
        test_gguf_put_u64(file, 0);
    }
}

static void empty_tensor_name(test_gguf_t *file)
{
    test_gguf_init(file, 3, 1, 0);
    test_gguf_put_tensor(file, "", 1, 1, OR_TENSOR_F32, 0);
    test_gguf_pad(file, 32);
    test_gguf_put_u32(file, 0);
}

static void duplicate_tensor(test_gguf_t *file)
{
    test_gguf_init(file, 3, 2, 0);
    test_gguf_put_tensor(file, "twin", 1, 1, OR_TENSOR_F32, 0);
    test_gguf_put_tensor(file, "twin", 1, 1, OR_TENSOR_F32, 0);
    test_gguf_pad(file, 32);
    test_gguf_put_u32(file, 0);
}

static void refuses_each_wrong_file_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        void (*make)(test_gguf_t *);
        or_status_t status;
        const char *reason;
    } cases[] = {
        {version_1, OR_ERR_UNSUPPORTED, "version 1"},
        {big_endian, OR_ERR_UNSUPPORTED, "big-endian"},
        {text_file, OR_ERR_FORMAT, "not a GGUF file (it starts with \"once upon a \")"},
        {empty_file, OR_ERR_FORMAT, "empty"},
        {too_many_entries, OR_ERR_FORMAT, "metadata entries"},
        {too_many_tensors, OR_ERR_FORMAT, "tensors"},
        {duplicate_key, OR_ERR_FORMAT, "twin occurs twice"},
        {binary_key, OR_ERR_FORMAT, "not ASCII"},
        {empty_key, OR_ERR_FORMAT, "a metadata key at byte 24 is empty"},
        {endless_string, OR_ERR_FORMAT, "long"},
        {unknown_type, OR_ERR_FORMAT, "unknown type 13"},
        {array_of_arrays, OR_ERR_FORMAT, "arrays of arrays"},
        {endless_array, OR_ERR_FORMAT, "array elements"},
        {endless_string_array, OR_ERR_FORMAT, "strings"},
        {odd_alignment, OR_ERR_FORMAT, "general.alignment is 24"},
        {no_alignment, OR_ERR_FORMAT, "general.alignment is 0"},
        {shape_that_wraps, OR_ERR_FORMAT, "impossible shape"},
        {bytes_that_wrap, OR_ERR_FORMAT, "past the end"},
        {empty_shape, OR_ERR_FORMAT, "impossible shape"},
        {data_past_the_end, OR_ERR_FORMAT, "past the end"},
        {second_past_the_end, OR_ERR_FORMAT, "outside go past the end"},
        {offset_past_the_end, OR_ERR_FORMAT, "past the end"},
        {offset_not_aligned, OR_ERR_FORMAT, "not aligned"},
        {five_dimensions, OR_ERR_FORMAT, "5 dimensions"},
        {half_a_block, OR_ERR_FORMAT, "ragged of type Q8_0 has rows of 48"},
        {empty_tensor_name, OR_ERR_FORMAT, "a tensor's name at byte 24 is empty"},
        {duplicate_tensor, OR_ERR_FORMAT, "twin is listed twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_gguf_t file;
        or_gguf_t *gguf = NULL;
        cases[i].make(&file);
        assert_int_equal(test_gguf_open(&file, &gguf), cases[i].status);
        assert_null(gguf);
        if (strstr(or_error_text(), cases[i].reason) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", or_error_text(), cases[i].reason);
        }
        test_gguf_fini(&file);
    }
}

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open("/nonexistent.gguf", &gguf), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "No such file"));
    assert_int_equal(or_gguf_open("/", &gguf), OR_ERR_IO);
    assert_null(gguf);
}

// -- damaged files
// ----------------------------------------------------------------------------------------------------

// Read everything, so that the sanitizers see any pointer that leads astray.
static uint64_t read_everything(const or_gguf_t *gguf)
{
    volatile uint64_t sum = 0; // the reads must happen
    char text[64];
    or_gguf_string_t key;
    or_gguf_array_t array;
    for (uint64_t i = 0; i < or_gguf_key_count(gguf); i++) {
        or_gguf_describe(gguf, i, &key, text, sizeof text);
        sum += (uint64_t)key.bytes[key.length - 1] + (unsigned char)text[0];
    }
    if (or_gguf_get_array(gguf, "tokenizer.ggml.tokens", OR_GGUF_STRING, &array) == OR_OK) {
        for (uint64_t i = 0; i < array.count; i++) {
            or_gguf_string_t string = or_gguf_array_string(&array, i);
            sum += string.length > 0 ? (unsigned char)string.bytes[string.length - 1] : 0;
        }
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        if (tensor->bytes > 0) {
            const unsigned char *data = tensor->data;
            sum += data[0] + data[tensor->bytes - 1];
        }
    }
    return sum;
}

// A file cut short anywhere is refused, because the last tensor ends with the file, apart from
// its padding.
static void refuses_a_real_file_cut_anywhere(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    test_gguf_load(&file, test_model("tales-1m-f16.gguf"));
    size_t whole = file.count;
    for (size_t length = 0; length + 32 < whole; length += length < 4000 ? 1 : 9973) {
        file.count = length;
        assert_int_equal(test_gguf_open(&file, &gguf), OR_ERR_FORMAT);
    }
    file.count = whole;
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

// Change up to four bytes after the magic, half of them in the first `dense` bytes, open, read, and
// change them back.
static bool damage_once(test_gguf_t *file, size_t dense, uint64_t *seed)
{
    unsigned char saved[4];
    size_t places[4];
    unsigned changes = 1 + (unsigned)test_below(seed, 4);
    for (unsigned i = 0; i < changes; i++) {
        places[i] = 4 + test_below(seed, (i % 2 == 0 ? dense : file->count) - 4);
        saved[i] = file->bytes[places[i]];
        file->bytes[places[i]] = (unsigned char)test_random(seed);
    }
    or_gguf_t *gguf = NULL;
    bool opened = test_gguf_open(file, &gguf) == OR_OK;
    if (opened) {
        (void)read_everything(gguf);
        or_gguf_close(&gguf);
    }
    assert_null(gguf);
    for (unsigned i = changes; i > 0; i--) {
        file->bytes[places[i - 1]] = saved[i - 1];
    }
    return opened;
}

static void damage_often(test_gguf_t *file, size_t dense, unsigned rounds, uint64_t *seed)
{
    unsigned opened = 0;
    for (unsigned i = 0; i < rounds; i++) {
        opened += damage_once(file, dense, seed);
    }
    print_message("%u of %u damaged files still opened\n", opened, rounds);
}

static void survives_random_damage(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    test_gguf_t file;
    make_with_tensors(&file);
    damage_often(&file, file.count, 20000, &seed);
    test_gguf_fini(&file);
    test_gguf_load(&file, test_model("tales-1m-f16.gguf"));
    damage_often(&file, 1024, 500, &seed);
    test_gguf_fini(&file);
}

// A tensor whose memory was given back can be read again.
static void a_released_tensor_is_still_there(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        unsigned char *copy = malloc(tensor->bytes);
        assert_non_null(copy);
        memcpy(copy, tensor->data, tensor->bytes);
        or_gguf_release(gguf, tensor);
        or_gguf_release(gguf, tensor);
        assert_memory_equal(tensor->data, copy, tensor->bytes);
        free(copy);
    }
    or_gguf_close(&gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_metadata_of_both_versions),
        cmocka_unit_test(integers_of_any_width_and_sign_are_read),
        cmocka_unit_test(describes_metadata_in_file_order),
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(reads_tensors_right_behind_their_table),
        cmocka_unit_test(a_released_tensor_is_still_there),
        cmocka_unit_test(refuses_each_wrong_file_with_its_reason),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(refuses_a_real_file_cut_anywhere),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
