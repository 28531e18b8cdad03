// Goal: of a text's file that was cut off anywhere, or damaged anywhere, what is read is a beginning of it: whole commits in their
// order, and nothing that was not written.
// Method: a file with all kinds of records, cut at each byte, with each byte changed, and with the end of an older one behind it.
#include <stdlib.h>
#include <string.h>

#include "coordinator/journal/journal_file.h"
#include "tests/support/test_support.h"

#define COMMITS 6u
#define RECORDS (COMMITS + 4u)

static const uint8_t hash[OR_JOURNAL_HASH_BYTES] = {1, 2, 3};

// The file, and where its records end.
typedef struct {
    or_journal_buffer_t buffer;
    size_t ends[RECORDS];
    uint32_t counts[RECORDS]; // tokens up to there
    uint32_t records;
} text_t;

static void note(text_t *text, or_status_t status, uint32_t count)
{
    assert_int_equal(status, OR_OK);
    text->ends[text->records] = text->buffer.count;
    text->counts[text->records++] = count;
}

static text_t make_text(uint32_t commits)
{
    static const uint8_t frame[] = "a frame";
    const or_journal_entry_t entry = {
        .owner = "ada", .key = "key", .request = frame, .request_bytes = sizeof frame, .seed = 7};
    const or_journal_time_t time = {.at_ns = 5, .boot = "boot"};
    text_t text = {0};
    int32_t ids[COMMITS];
    uint32_t count = 0;
    note(&text, or_journal_add_begin(&text.buffer, &entry), 0);
    note(&text, or_journal_add_taken(&text.buffer, "arithmetic"), 0);
    for (uint32_t n = 0; n < commits; n++) {
        for (uint32_t i = 0; i <= n; i++) {
            ids[i] = (int32_t)count++;
        }
        note(&text, or_journal_add_tokens(&text.buffer, n + 2, ids, n + 1), count);
    }
    note(&text, or_journal_add_ended(&text.buffer, OR_FINISH_STOP, &time), count);
    note(&text, or_journal_add_expires(&text.buffer, &time), count);
    or_journal_seal(text.buffer.bytes, text.buffer.count, or_journal_first_check(hash));
    return text;
}

// Read `count` bytes, from memory that ends with them. Returns how many records are good.
static uint32_t read_records(const text_t *text, const uint8_t *bytes, size_t count)
{
    or_journal_file_t file;
    uint8_t *copy = malloc(count + 1);
    memcpy(copy, bytes, count);
    uint8_t *exact = realloc(copy, count > 0 ? count : 1);
    uint32_t good = 0;
    if (or_journal_file_read(exact, count, hash, &file) == OR_OK) {
        while (good < text->records && text->ends[good] <= file.good_bytes) {
            good++;
        }
        assert_true(good > 0 && text->ends[good - 1] == file.good_bytes);
        assert_int_equal(file.entry.count, text->counts[good - 1]);
        int32_t *tokens = calloc(file.entry.count + 1, sizeof *tokens);
        or_journal_file_tokens(exact, &file, tokens);
        for (uint32_t i = 0; i < file.entry.count; i++) {
            assert_int_equal(tokens[i], i);
        }
        assert_string_equal(file.entry.owner, "ada");
        free(tokens);
    }
    free(exact);
    return good;
}

static void what_is_cut_off_is_a_beginning(void **state)
{
    (void)state;
    text_t text = make_text(COMMITS);
    uint32_t whole = 0;
    for (size_t count = 0; count <= text.buffer.count; count++) {
        whole += whole < text.records && count == text.ends[whole];
        assert_int_equal(read_records(&text, text.buffer.bytes, count), whole);
    }
    assert_int_equal(whole, RECORDS);
    or_journal_buffer_fini(&text.buffer);
}

static void what_is_damaged_is_cut_off(void **state)
{
    (void)state;
    text_t text = make_text(COMMITS);
    for (size_t at = 0; at < text.buffer.count; at++) {
        uint32_t before = 0;
        while (text.ends[before] <= at) {
            before++;
        }
        text.buffer.bytes[at] ^= (uint8_t)(1u << at % 8);
        assert_int_equal(read_records(&text, text.buffer.bytes, text.buffer.count), before);
        text.buffer.bytes[at] ^= (uint8_t)(1u << at % 8);
    }
    or_journal_buffer_fini(&text.buffer);
}

// Each bit of it, also where the body would do for the other kind.
static void a_record_is_of_the_kind_that_it_was_written_as(void **state)
{
    (void)state;
    text_t text = make_text(COMMITS);
    for (uint32_t record = 0; record < text.records; record++) {
        size_t begin = record > 0 ? text.ends[record - 1] : 0;
        for (uint32_t bit = 0; bit < 32; bit++) {
            uint8_t *byte = &text.buffer.bytes[begin + sizeof(uint32_t) + bit / 8];
            *byte ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(read_records(&text, text.buffer.bytes, text.buffer.count), record);
            *byte ^= (uint8_t)(1u << bit % 8);
        }
    }
    or_journal_buffer_fini(&text.buffer);
}

// Whole records, good ones once, at a place where records may stand: but of another text, or behind another record.
static void what_was_there_before_is_no_part_of_it(void **state)
{
    (void)state;
    text_t text = make_text(COMMITS);
    const uint8_t other[OR_JOURNAL_HASH_BYTES] = {1, 2, 4};
    or_journal_file_t file;
    assert_int_equal(or_journal_file_read(text.buffer.bytes, text.buffer.count, other, &file),
                     OR_ERR_FORMAT);
    size_t first = text.ends[2] - text.ends[1], second = text.ends[3] - text.ends[2];
    uint8_t *changed = malloc(text.buffer.count);
    memcpy(changed, text.buffer.bytes, text.ends[1]);
    memcpy(changed + text.ends[1], text.buffer.bytes + text.ends[2], second); // the first left out
    assert_int_equal(read_records(&text, changed, text.ends[1] + second), 2);
    memcpy(changed, text.buffer.bytes, text.ends[2]);
    memcpy(changed + text.ends[2], text.buffer.bytes + text.ends[1], first); // or there twice
    assert_int_equal(read_records(&text, changed, text.ends[2] + first), 3);
    free(changed);
    or_journal_buffer_fini(&text.buffer);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    char name[65];
    or_journal_buffer_t buffer = {0};
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const or_journal_entry_t entry = {.owner = name, .key = ""};
    assert_int_equal(or_journal_add_begin(&buffer, &entry), OR_ERR_INVALID);
    assert_int_equal(or_journal_add_taken(&buffer, name), OR_ERR_INVALID);
    assert_int_equal(buffer.count, 0);
    or_journal_buffer_fini(&buffer);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_off_is_a_beginning),
        cmocka_unit_test(what_is_damaged_is_cut_off),
        cmocka_unit_test(a_record_is_of_the_kind_that_it_was_written_as),
        cmocka_unit_test(what_was_there_before_is_no_part_of_it),
        cmocka_unit_test(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
