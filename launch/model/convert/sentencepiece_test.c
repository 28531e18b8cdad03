// Goal: a tokenizer.model is read as it is meant, and what is damaged is refused; no byte outside it is read.
// Method: a model written here; every cut of it and random changes, in memory of exactly its size, which the address sanitizer
// watches. tests/convert compares whole vocabularies.
#include "launch/model/convert/sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define CHANGES 20000u

// "▁a" of score -1.5; "<s>", control; "b", whose score and type are not there; a field that no reader knows.
static const unsigned char good[] = {
    0x0A, 0x0B, 0x0A, 0x04, 0xE2, 0x96, 0x81, 'a',  0x15, 0x00, 0x00, 0xC0, 0xBF, // -1.5
    0x0A, 0x07, 0x0A, 0x03, '<',  's',  '>',  0x18, 0x03,                         // type 3
    0x0A, 0x03, 0x0A, 0x01, 'b',                                                  //
    0x12, 0x11, 0x18, 0x02, 0x98, 0x02, 0x01, 0xD8, 0x02, 0xFF, 0xFF, 0xFF, 0xFF,
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01,                                    // BPE, bytes, no padding
    0x1A, 0x0E, 0x0A, 0x08, 'i',  'd',  'e',  'n',  't',  'i',  't',  'y', // its name
    0x20, 0x00, 0x28, 0x01,                                                // keeps spaces, as marks
    0x7A, 0x02, 0x08, 0x01,                                                // 15: not known
};

static void a_model_is_read(void **state)
{
    (void)state;
    or_sentencepiece_t model;
    assert_int_equal(or_sentencepiece_read(good, sizeof good, &model), OR_OK);
    assert_int_equal(model.count, 3);
    assert_string_equal(model.pieces[0].bytes, "\xE2\x96\x81"
                                               "a");
    assert_true(model.scores[0] == -1.5F && model.kinds[0] == 1);
    assert_string_equal(model.pieces[1].bytes, "<s>");
    assert_true(model.scores[1] == 0 && model.kinds[1] == 3);
    assert_string_equal(model.pieces[2].bytes, "b");
    assert_int_equal(model.kinds[2], 1);
    assert_int_equal(model.type, OR_SENTENCEPIECE_BPE);
    assert_true(model.has_bytes && model.adds_space && model.escapes_spaces);
    assert_false(model.removes_spaces || model.normalises || model.puts_space_behind);
    assert_int_equal(model.unknown, 0);
    assert_int_equal(model.begin, 1);
    assert_int_equal(model.end, 2);
    assert_int_equal(model.padding, -1);
    assert_int_equal(model.normalizer.length, 8);
    assert_memory_equal(model.normalizer.bytes, "identity", 8);
    or_sentencepiece_fini(&model);
    assert_null(model.pieces);
}

// Without a word of them the rules are the format's own.
static void what_is_not_there_is_as_the_format_says(void **state)
{
    (void)state;
    const unsigned char bytes[] = {0x0A, 0x03, 0x0A, 0x01, 'b'};
    or_sentencepiece_t model;
    assert_int_equal(or_sentencepiece_read(bytes, sizeof bytes, &model), OR_OK);
    assert_int_equal(model.type, OR_SENTENCEPIECE_UNIGRAM);
    assert_true(model.adds_space && model.removes_spaces && model.escapes_spaces);
    assert_false(model.has_bytes || model.normalises || model.puts_space_behind);
    or_sentencepiece_fini(&model);
}

// Read bytes from memory that ends with them. Whatever is read must be whole.
static or_status_t read_exactly(const unsigned char *bytes, size_t size)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    or_sentencepiece_t model;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    or_status_t status = or_sentencepiece_read(copy, size, &model);
    for (uint32_t i = 0; status == OR_OK && i < model.count; i++) {
        assert_in_range(model.kinds[i], 1, 6);
        assert_true(model.pieces[i].length > 0);
        assert_int_equal(model.pieces[i].bytes[model.pieces[i].length], 0);
    }
    assert_true(status == OR_OK || status == OR_ERR_FORMAT);
    or_sentencepiece_fini(&model);
    free(copy);
    return status;
}

static void every_cut_is_refused_or_whole(void **state)
{
    (void)state;
    static const size_t whole[] = {13, 22, 27, 46, 62, sizeof good}; // ends of fields
    for (size_t size = 0; size <= sizeof good; size++) {
        bool is_whole = false;
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
            is_whole = is_whole || size == whole[i];
        }
        assert_int_equal(read_exactly(good, size), is_whole ? OR_OK : OR_ERR_FORMAT);
    }
}

static void changed_bytes_are_read_or_refused(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (uint32_t i = 0; i < CHANGES; i++) {
        unsigned char bytes[sizeof good];
        memcpy(bytes, good, sizeof good);
        for (uint64_t changes = 1 + test_below(&rng, 4); changes > 0; changes--) {
            bytes[test_below(&rng, sizeof bytes)] = (unsigned char)test_below(&rng, 256);
        }
        read_exactly(bytes, 1 + test_below(&rng, sizeof bytes));
        read_exactly(bytes, sizeof bytes);
    }
}

static void no_pieces_and_empty_ones_are_refused(void **state)
{
    (void)state;
    const unsigned char empty[] = {0x0A, 0x02, 0x0A, 0x00};
    const unsigned char no_text[] = {0x0A, 0x02, 0x18, 0x03};
    const unsigned char other_type[] = {0x0A, 0x05, 0x0A, 0x01, 'b', 0x18, 0x07};
    const unsigned char group[] = {0x0A, 0x03, 0x0A, 0x01, 'b', 0x7B};
    assert_int_equal(read_exactly(empty, sizeof empty), OR_ERR_FORMAT);
    assert_int_equal(read_exactly(no_text, sizeof no_text), OR_ERR_FORMAT);
    assert_int_equal(read_exactly(other_type, sizeof other_type), OR_ERR_FORMAT);
    assert_int_equal(read_exactly(group, sizeof group), OR_ERR_FORMAT);
    assert_int_equal(read_exactly(good, 0), OR_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_read),
        cmocka_unit_test(what_is_not_there_is_as_the_format_says),
        cmocka_unit_test(every_cut_is_refused_or_whole),
        cmocka_unit_test(changed_bytes_are_read_or_refused),
        cmocka_unit_test(no_pieces_and_empty_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
