// Goal: pages and slots are bookkept exactly: nothing leaks, a failure changes nothing, and accept
// moves the right columns.
// Method: fill positions and slots with numbers that say where they belong, and read them back
// after each operation.
#include "common/model/kv_cache.h"

#include <string.h>

#include "common/model/kv_cache_internal.h"
#include "tests/support/test_support.h"

#define LAYERS 2u
#define KV_HEADS 3u
#define HEAD_DIM 4u
#define FLOATS (LAYERS * KV_HEADS * HEAD_DIM)

static or_kv_cache_t *create(uint32_t pages)
{
    or_kv_cache_t *cache = NULL;
    assert_int_equal(or_kv_cache_create(LAYERS, KV_HEADS, HEAD_DIM, pages, &cache), OR_OK);
    return cache;
}

static or_kv_sequence_t *open_sequence(or_kv_cache_t *cache, uint32_t positions, uint32_t slots)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_kv_sequence_open(cache, positions, slots, &sequence), OR_OK);
    return sequence;
}

// One token's K and V: K counts up from mark, V is K's negative.
static void vectors(float mark, uint32_t layer, uint32_t head, float *key, float *value)
{
    for (uint32_t d = 0; d < HEAD_DIM; d++) {
        key[d] = mark * 1000 + (float)((layer * KV_HEADS + head) * HEAD_DIM + d);
        value[d] = -key[d];
    }
}

static void append(or_kv_sequence_t *sequence, float mark)
{
    assert_int_equal(or_kv_sequence_reserve(sequence, sequence->length + 1), OR_OK);
    for (uint32_t i = 0; i < LAYERS * KV_HEADS; i++) {
        float key[HEAD_DIM], value[HEAD_DIM];
        vectors(mark, i / KV_HEADS, i % KV_HEADS, key, value);
        or_kv_put_position(sequence, sequence->length, i / KV_HEADS, i % KV_HEADS, key, value);
    }
    sequence->length++;
}

static void put_node(or_kv_sequence_t *sequence, uint32_t slot, uint32_t parent, float mark)
{
    uint32_t depth = parent == OR_KV_NO_SLOT ? 0 : sequence->slots[parent].depth + 1;
    sequence->slots[slot] = (or_kv_slot_t){parent, depth, sequence->epoch};
    for (uint32_t i = 0; i < LAYERS * KV_HEADS; i++) {
        float key[HEAD_DIM], value[HEAD_DIM];
        vectors(mark, i / KV_HEADS, i % KV_HEADS, key, value);
        or_kv_put_slot(sequence, slot, i / KV_HEADS, i % KV_HEADS, key, value);
    }
}

static void assert_mark(const or_kv_sequence_t *sequence, uint32_t position, float mark)
{
    float keys[FLOATS], values[FLOATS];
    or_kv_sequence_read(sequence, position, keys, values);
    for (uint32_t i = 0; i < FLOATS; i++) {
        assert_true(keys[i] == mark * 1000 + (float)i);
        assert_true(values[i] == -keys[i]);
    }
}

static void positions_come_back(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(4);
    or_kv_sequence_t *sequence = open_sequence(cache, 100, 0);
    for (uint32_t i = 0; i < 70; i++) {
        append(sequence, (float)i);
    }
    assert_int_equal(or_kv_sequence_length(sequence), 70);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    for (uint32_t i = 0; i < 70; i++) {
        assert_mark(sequence, i, (float)i);
    }
    or_kv_sequence_close(&sequence);
    assert_null(sequence);
    assert_int_equal(or_kv_cache_pages_free(cache), 4);
    or_kv_cache_destroy(&cache);
    assert_null(cache);
}

static void truncation_returns_pages(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(3);
    or_kv_sequence_t *sequence = open_sequence(cache, 96, 2);
    for (uint32_t i = 0; i < 96; i++) {
        append(sequence, (float)i);
    }
    put_node(sequence, 0, OR_KV_NO_SLOT, 200);
    or_kv_sequence_truncate(sequence, 200);
    assert_int_equal(or_kv_sequence_length(sequence), 96);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0}, 1), OR_ERR_FULL);
    const struct {
        uint32_t length, pages_free;
    } cuts[] = {{65, 0}, {64, 1}, {33, 1}, {32, 2}, {1, 2}, {0, 3}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        or_kv_sequence_truncate(sequence, cuts[i].length);
        assert_int_equal(or_kv_sequence_length(sequence), cuts[i].length);
        assert_int_equal(or_kv_cache_pages_free(cache), cuts[i].pages_free);
        if (cuts[i].length > 0) {
            assert_mark(sequence, cuts[i].length - 1, (float)(cuts[i].length - 1));
        }
    }
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void an_exhausted_pool_takes_nothing(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(2);
    or_kv_sequence_t *one = open_sequence(cache, 1000, 0);
    or_kv_sequence_t *two = open_sequence(cache, 1000, 0);
    append(one, 1);
    assert_int_equal(or_kv_sequence_reserve(two, 33), OR_ERR_FULL);
    assert_non_null(strstr(or_error_text(), "1 of its 2 pages"));
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    assert_int_equal(or_kv_sequence_reserve(two, 32), OR_OK);
    assert_int_equal(or_kv_cache_pages_free(cache), 0);
    or_kv_sequence_trim(two);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    assert_int_equal(or_kv_sequence_reserve(two, 1001), OR_ERR_FULL);
    or_kv_sequence_close(&two);
    or_kv_sequence_close(&one);
    or_kv_cache_destroy(&cache);
}

static void accept_moves_a_path(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(2);
    or_kv_sequence_t *sequence = open_sequence(cache, 64, 8);
    for (uint32_t i = 0; i < 31; i++) {
        append(sequence, (float)i);
    }
    put_node(sequence, 5, OR_KV_NO_SLOT, 105);
    put_node(sequence, 2, 5, 102);
    put_node(sequence, 7, 2, 107);
    put_node(sequence, 0, 5, 100);
    const uint32_t path[] = {5, 2, 7};
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_OK);
    assert_int_equal(or_kv_sequence_length(sequence), 34);
    assert_mark(sequence, 30, 30);
    assert_mark(sequence, 31, 105);
    assert_mark(sequence, 32, 102);
    assert_mark(sequence, 33, 107);
    // All slots are forgotten, and accepting nothing is legal.
    assert_int_equal(or_kv_sequence_accept(sequence, path, 1), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_accept(sequence, NULL, 0), OR_OK);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void accept_refuses_what_is_no_path(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(1);
    or_kv_sequence_t *sequence = open_sequence(cache, 1000, 4);
    append(sequence, 0);
    put_node(sequence, 0, OR_KV_NO_SLOT, 1);
    put_node(sequence, 1, 0, 2);
    put_node(sequence, 2, 0, 3);
    const struct {
        uint32_t slots[3], count;
    } wrong[] = {{{1}, 1}, {{0, 0}, 2}, {{0, 1, 2}, 3}, {{0, 3}, 2}, {{4}, 1}, {{UINT32_MAX}, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(or_kv_sequence_accept(sequence, wrong[i].slots, wrong[i].count),
                         OR_ERR_INVALID);
        assert_int_equal(or_kv_sequence_length(sequence), 1);
    }
    for (uint32_t i = 1; i < 31; i++) {
        append(sequence, (float)i);
    }
    // One position is left in the only page: a path of two does not fit, and stays acceptable in
    // part.
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0, 1}, 2), OR_ERR_FULL);
    assert_int_equal(or_kv_sequence_length(sequence), 31);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0}, 1), OR_OK);
    assert_mark(sequence, 31, 1);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

// The slots from 2 on are forgotten and filled anew; those below stay what they were.
static void dropped_slots_hold_other_nodes(void **state)
{
    (void)state;
    or_kv_cache_t *cache = create(1);
    or_kv_sequence_t *sequence = open_sequence(cache, 32, 4);
    append(sequence, 0);
    put_node(sequence, 0, OR_KV_NO_SLOT, 100);
    put_node(sequence, 1, 0, 101);
    put_node(sequence, 2, 1, 102);
    put_node(sequence, 3, 2, 103);
    or_kv_sequence_drop_slots_from(sequence, 4); // none
    assert_true(or_kv_slot_is_live(sequence, 3, sequence->epoch));
    or_kv_sequence_drop_slots_from(sequence, 2);
    for (uint32_t slot = 0; slot < 4; slot++) {
        assert_int_equal(or_kv_slot_is_live(sequence, slot, sequence->epoch), slot < 2);
    }
    const uint32_t path[] = {0, 1, 2};
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_length(sequence), 1);
    put_node(sequence, 2, 1, 202);
    assert_false(or_kv_slot_is_live(sequence, 3, sequence->epoch));
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_OK);
    assert_mark(sequence, 1, 100);
    assert_mark(sequence, 2, 101);
    assert_mark(sequence, 3, 202);
    or_kv_sequence_drop_slots_from(sequence, 0); // after all were forgotten
    assert_int_equal(or_kv_sequence_length(sequence), 4);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    or_kv_cache_t *cache = NULL;
    assert_int_equal(or_kv_cache_create(UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, &cache),
                     OR_ERR_NO_MEMORY);
    assert_null(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_come_back),
        cmocka_unit_test(truncation_returns_pages),
        cmocka_unit_test(an_exhausted_pool_takes_nothing),
        cmocka_unit_test(accept_moves_a_path),
        cmocka_unit_test(accept_refuses_what_is_no_path),
        cmocka_unit_test(dropped_slots_hold_other_nodes),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
