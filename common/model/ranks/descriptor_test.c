// Goal: what the leader writes is what the others read, and bytes that nobody wrote are refused.
// Method: seeded random items, written and read back; all their beginnings and seeded random bytes, each
// in memory of exactly their size so that a sanitizer sees a step beyond.
#include "common/model/ranks/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define ITEMS 2000
#define ROWS 5u
#define SLOTS 7u
#define NOTE_KINDS (OR_KV_NOTE_SHARE + 1)

// Numbers of every length, the extremes too.
static uint32_t any_number(uint64_t *rng)
{
    uint32_t number = (uint32_t)(test_random(rng) >> 32) >> test_below(rng, 32);
    return test_below(rng, 20) == 0 ? UINT32_MAX : number;
}

typedef struct {
    or_step_t step;
    uint32_t slots[SLOTS];
    or_step_row_t rows[ROWS];
} item_t;

// Only the fields of its kind are set, as the reader leaves the others 0.
static void make_note(uint64_t *rng, item_t *item)
{
    or_kv_note_t *note = &item->step.note;
    note->kind = (or_kv_note_kind_t)test_below(rng, NOTE_KINDS);
    note->sequence = any_number(rng);
    if (note->kind == OR_KV_NOTE_ACCEPT) {
        note->slot_count = (uint32_t)test_below(rng, SLOTS + 1);
        note->slots = item->slots;
        for (uint32_t i = 0; i < note->slot_count; i++) {
            item->slots[i] = any_number(rng);
        }
    } else if (note->kind != OR_KV_NOTE_CLOSE) {
        note->value = any_number(rng);
    }
    note->donor = note->kind == OR_KV_NOTE_SHARE ? any_number(rng) : 0;
}

static void make_item(uint64_t *rng, item_t *item)
{
    *item = (item_t){.step.kind = (or_step_kind_t)test_below(rng, OR_STEP_END + 1)};
    or_step_t *step = &item->step;
    if (step->kind == OR_STEP_NOTE) {
        make_note(rng, item);
    } else if (step->kind == OR_STEP_LOGITS) {
        step->first = any_number(rng);
        step->count = any_number(rng);
        step->top = any_number(rng);
    } else if (step->kind == OR_STEP_PASS) {
        step->count = ROWS;
    }
    for (uint32_t i = 0; i < step->count && step->kind == OR_STEP_PASS; i++) {
        bool is_prefix = test_below(rng, 2) == 0;
        item->rows[i] = (or_step_row_t){.sequence = any_number(rng),
                                        .token = (int32_t)any_number(rng),
                                        .slot = is_prefix ? OR_KV_NO_SLOT : any_number(rng),
                                        .parent_slot = any_number(rng)};
        if (item->rows[i].slot == OR_KV_NO_SLOT) {
            item->rows[i].parent_slot = OR_KV_NO_SLOT;
        }
    }
}

static void put_item(or_descriptor_t *descriptor, const item_t *item)
{
    const or_step_t *step = &item->step;
    size_t before = descriptor->length;
    size_t most = OR_DESCRIPTOR_END_BYTES;
    switch (step->kind) {
    case OR_STEP_NOTE:
        most = or_descriptor_note_bytes_max(&step->note);
        or_descriptor_put_note(descriptor, &step->note);
        break;
    case OR_STEP_PASS:
        most = or_descriptor_pass_bytes_max(step->count);
        or_descriptor_put_pass(descriptor, step->count);
        for (uint32_t i = 0; i < step->count; i++) {
            or_descriptor_put_row(descriptor, &item->rows[i]);
        }
        break;
    case OR_STEP_LOGITS:
        most = OR_DESCRIPTOR_LOGITS_BYTES_MAX;
        or_descriptor_put_logits(descriptor, step->first, step->count, step->top);
        break;
    case OR_STEP_END:
        or_descriptor_put_end(descriptor);
        break;
    }
    assert_true(descriptor->length - before <= most);
}

static void assert_same_note(const or_kv_note_t *a, const or_kv_note_t *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->value, b->value);
    assert_int_equal(a->donor, b->donor);
    assert_int_equal(a->slot_count, b->slot_count);
    if (a->slot_count > 0) {
        assert_memory_equal(a->slots, b->slots, a->slot_count * sizeof *a->slots);
    }
}

static void assert_next_is(or_descriptor_reader_t *reader, const item_t *item)
{
    or_step_t step;
    memset(&step, 0xAA, sizeof step);
    assert_false(or_descriptor_is_over(reader));
    assert_int_equal(or_descriptor_next(reader, &step), OR_OK);
    assert_int_equal(step.kind, item->step.kind);
    assert_int_equal(step.first, item->step.first);
    assert_int_equal(step.count, item->step.count);
    assert_int_equal(step.top, item->step.top);
    if (step.kind == OR_STEP_NOTE) {
        assert_same_note(&step.note, &item->step.note);
    }
    for (uint32_t i = 0; step.kind == OR_STEP_PASS && i < step.count; i++) {
        or_step_row_t row;
        assert_int_equal(or_descriptor_next_row(reader, &row), OR_OK);
        assert_memory_equal(&row, &item->rows[i], sizeof row);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    uint64_t again = rng;
    uint8_t *bytes = malloc(ITEMS * (size_t)256);
    or_descriptor_reader_t *reader = malloc(sizeof *reader);
    assert_true(bytes != NULL && reader != NULL);
    or_descriptor_t descriptor = {.bytes = bytes};
    for (int i = 0; i < ITEMS; i++) {
        item_t item;
        make_item(&rng, &item);
        put_item(&descriptor, &item);
    }
    or_descriptor_open(reader, bytes, descriptor.length);
    for (int i = 0; i < ITEMS; i++) {
        item_t item;
        make_item(&again, &item);
        assert_next_is(reader, &item);
    }
    assert_true(or_descriptor_is_over(reader));
    free(reader);
    free(bytes);
}

// Read all there is, from memory of just that size.
static or_status_t read_all(or_descriptor_reader_t *reader, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy + 1, bytes, length);
    or_descriptor_open(reader, copy + 1, length);
    or_status_t status = OR_OK;
    while (status == OR_OK && !or_descriptor_is_over(reader)) {
        or_step_t step;
        status = or_descriptor_next(reader, &step);
        for (uint32_t i = 0; status == OR_OK && step.kind == OR_STEP_PASS && i < step.count; i++) {
            or_step_row_t row;
            status = or_descriptor_next_row(reader, &row);
        }
    }
    free(copy);
    return status;
}

static void the_beginning_of_an_item_is_refused(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    or_descriptor_reader_t *reader = malloc(sizeof *reader);
    assert_non_null(reader);
    for (int i = 0; i < ITEMS; i++) {
        uint8_t bytes[256];
        or_descriptor_t descriptor = {.bytes = bytes};
        item_t item;
        make_item(&rng, &item);
        put_item(&descriptor, &item);
        assert_int_equal(read_all(reader, bytes, descriptor.length), OR_OK);
        for (size_t length = 1; length < descriptor.length; length++) {
            assert_int_equal(read_all(reader, bytes, length), OR_ERR_FORMAT);
        }
    }
    free(reader);
}

static void random_bytes_are_read_or_refused(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    or_descriptor_reader_t *reader = malloc(sizeof *reader);
    assert_non_null(reader);
    for (int i = 0; i < 20 * ITEMS; i++) {
        uint8_t bytes[64];
        size_t length = test_below(&rng, sizeof bytes + 1);
        for (size_t b = 0; b < length; b++) {
            // Kinds and small numbers are likelier to lead somewhere.
            bytes[b] = (uint8_t)(test_random(&rng) >> (test_below(&rng, 2) == 0 ? 60 : 56));
        }
        or_status_t status = read_all(reader, bytes, length);
        assert_true(status == OR_OK || status == OR_ERR_FORMAT);
    }
    free(reader);
}

static void assert_refused(const uint8_t *bytes, size_t length, const char *why)
{
    or_descriptor_reader_t *reader = malloc(sizeof *reader);
    assert_non_null(reader);
    assert_int_equal(read_all(reader, bytes, length), OR_ERR_FORMAT);
    assert_non_null(strstr(or_error_text(), why));
    free(reader);
}

static void what_makes_no_item_is_named(void **state)
{
    (void)state;
    const uint8_t unknown[] = {50, 0, 0};
    const uint8_t wide[] = {OR_KV_NOTE_CLOSE, 0x80, 0x80, 0x80, 0x80, 0x10}; // 2^32
    const uint8_t endless[] = {OR_KV_NOTE_CLOSE, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    const uint8_t path[] = {OR_KV_NOTE_ACCEPT, 0, 0x81, 0x20}; // 4097 nodes
    assert_refused(unknown, sizeof unknown, "kind 50");
    assert_refused(wide, sizeof wide, "32 bits");
    assert_refused(endless, sizeof endless, "32 bits");
    assert_refused(path, sizeof path, "4097 nodes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_beginning_of_an_item_is_refused),
        cmocka_unit_test(random_bytes_are_read_or_refused),
        cmocka_unit_test(what_makes_no_item_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
