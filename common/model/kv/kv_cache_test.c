// Goal: pages and slots are bookkept exactly: nothing leaks, a failure changes nothing, accept moves the
// right columns, and what stands on a new root stays.
// Method: fill positions and slots with numbers that say where they belong, and read them back
// after each operation; all of it for each type of K and V.
#include "common/model/kv/kv_cache.h"

#include <string.h>

#include "common/model/kv/kv_test_support.h"

static void positions_come_back(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(4);
    or_kv_sequence_t *sequence = kv_test_open(cache, 100, 0);
    for (uint32_t i = 0; i < 70; i++) {
        kv_test_append(sequence, i);
    }
    assert_int_equal(or_kv_sequence_length(sequence), 70);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    for (uint32_t i = 0; i < 70; i++) {
        kv_test_assert_mark(sequence, i, i);
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
    or_kv_cache_t *cache = kv_test_cache(3);
    or_kv_sequence_t *sequence = kv_test_open(cache, 96, 2);
    for (uint32_t i = 0; i < 96; i++) {
        kv_test_append(sequence, i);
    }
    kv_test_put_node(sequence, 0, OR_KV_NO_SLOT, 200);
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
            kv_test_assert_mark(sequence, cuts[i].length - 1, cuts[i].length - 1);
        }
    }
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void an_exhausted_pool_takes_nothing(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    or_kv_sequence_t *one = kv_test_open(cache, 1000, 0);
    or_kv_sequence_t *two = kv_test_open(cache, 1000, 0);
    kv_test_append(one, 1);
    assert_int_equal(or_kv_sequence_reserve(two, 33), OR_ERR_FULL);
    assert_non_null(strstr(or_error_text(), "1 of its 2 pages"));
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    assert_int_equal(or_kv_sequence_reserve(two, 32), OR_OK);
    assert_int_equal(or_kv_cache_pages_free(cache), 0);
    assert_int_equal(or_kv_sequence_pages(two), 1);
    or_kv_sequence_truncate(two, 32);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    assert_int_equal(or_kv_sequence_reserve(two, 1001), OR_ERR_FULL);
    or_kv_sequence_close(&two);
    or_kv_sequence_close(&one);
    or_kv_cache_destroy(&cache);
}

static void accept_moves_a_path(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    or_kv_sequence_t *sequence = kv_test_open(cache, 64, 8);
    for (uint32_t i = 0; i < 31; i++) {
        kv_test_append(sequence, i);
    }
    kv_test_put_node(sequence, 5, OR_KV_NO_SLOT, 105);
    kv_test_put_node(sequence, 2, 5, 102);
    kv_test_put_node(sequence, 7, 2, 107);
    kv_test_put_node(sequence, 0, 5, 100);
    const uint32_t path[] = {5, 2, 7};
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_OK);
    assert_int_equal(or_kv_sequence_length(sequence), 34);
    kv_test_assert_mark(sequence, 30, 30);
    kv_test_assert_mark(sequence, 31, 105);
    kv_test_assert_mark(sequence, 32, 102);
    kv_test_assert_mark(sequence, 33, 107);
    // All slots are forgotten, and accepting nothing is legal.
    assert_int_equal(or_kv_sequence_accept(sequence, path, 1), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_accept(sequence, NULL, 0), OR_OK);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void accept_refuses_what_is_no_path(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(1);
    or_kv_sequence_t *sequence = kv_test_open(cache, 1000, 4);
    for (uint32_t i = 0; i < 31; i++) {
        kv_test_append(sequence, i);
    }
    kv_test_put_node(sequence, 0, OR_KV_NO_SLOT, 1);
    kv_test_put_node(sequence, 1, 0, 2);
    kv_test_put_node(sequence, 2, 0, 3);
    const struct {
        uint32_t slots[3], count;
    } wrong[] = {{{1}, 1}, {{0, 0}, 2}, {{0, 1, 2}, 3}, {{0, 3}, 2}, {{4}, 1}, {{UINT32_MAX}, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(or_kv_sequence_accept(sequence, wrong[i].slots, wrong[i].count),
                         OR_ERR_INVALID);
        assert_int_equal(or_kv_sequence_length(sequence), 31);
    }
    // One position is left in the only page: a path of two does not fit, and stays acceptable in
    // part.
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0, 1}, 2), OR_ERR_FULL);
    assert_int_equal(or_kv_sequence_length(sequence), 31);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0}, 1), OR_OK);
    kv_test_assert_mark(sequence, 31, 1);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

// The slots from 2 on are forgotten and filled anew; those below stay what they were.
static void dropped_slots_hold_other_nodes(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(1);
    or_kv_sequence_t *sequence = kv_test_open(cache, 32, 4);
    kv_test_append(sequence, 0);
    kv_test_put_node(sequence, 0, OR_KV_NO_SLOT, 100);
    kv_test_put_node(sequence, 1, 0, 101);
    kv_test_put_node(sequence, 2, 1, 102);
    kv_test_put_node(sequence, 3, 2, 103);
    or_kv_sequence_drop_slots_from(sequence, 4); // none
    assert_true(or_kv_slot_is_live(sequence, 3, sequence->epoch));
    or_kv_sequence_drop_slots_from(sequence, 2);
    for (uint32_t slot = 0; slot < 4; slot++) {
        assert_int_equal(or_kv_slot_is_live(sequence, slot, sequence->epoch), slot < 2);
    }
    const uint32_t path[] = {0, 1, 2};
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_length(sequence), 1);
    kv_test_put_node(sequence, 2, 1, 202);
    assert_false(or_kv_slot_is_live(sequence, 3, sequence->epoch));
    assert_int_equal(or_kv_sequence_accept(sequence, path, 3), OR_OK);
    kv_test_assert_mark(sequence, 1, 100);
    kv_test_assert_mark(sequence, 2, 101);
    kv_test_assert_mark(sequence, 3, 202);
    or_kv_sequence_drop_slots_from(sequence, 0); // after all were forgotten
    assert_int_equal(or_kv_sequence_length(sequence), 4);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

// Slots that stand on the last accepted one stay what they were, one level nearer to the text for each
// accepted; all others can be taken anew.
static void a_new_root_keeps_what_stands_on_it(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    or_kv_sequence_t *sequence = kv_test_open(cache, 64, 9);
    for (uint32_t i = 0; i < 31; i++) {
        kv_test_append(sequence, i);
    }
    //  8 ─┬─ 1 ─┬─ 0 ─── 6        path 8, 1:  0 ─── 6
    //     │     └─ 5                           5
    //     └─ 2 ─── 7
    //  3 ─── 4
    static const uint32_t parents[9] = {1, 8, 8, OR_KV_NO_SLOT, 3, 1, 0, 2, OR_KV_NO_SLOT};
    static const uint32_t order[9] = {8, 3, 1, 2, 4, 0, 5, 7, 6};
    for (uint32_t i = 0; i < 9; i++) {
        kv_test_put_node(sequence, order[i], parents[order[i]], 100 + order[i]);
    }
    assert_int_equal(or_kv_sequence_accept_root(sequence, NULL, 0), OR_OK);
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){8, 0}, 2), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_length(sequence), 31);
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){8, 1}, 2), OR_OK);
    assert_int_equal(or_kv_sequence_length(sequence), 33);
    kv_test_assert_mark(sequence, 31, 108);
    kv_test_assert_mark(sequence, 32, 101);
    for (uint32_t slot = 0; slot < 9; slot++) {
        bool stays = slot == 0 || slot == 5 || slot == 6;
        assert_int_equal(or_kv_slot_is_live(sequence, slot, sequence->epoch), stays);
        assert_true(!stays || sequence->slots[slot].depth == (slot == 6 ? 1 : 0));
        assert_true(!stays || sequence->slots[slot].parent == (slot == 6 ? 0 : OR_KV_NO_SLOT));
    }
    or_kv_sequence_drop_slot(sequence, 5);
    assert_false(or_kv_slot_is_live(sequence, 5, sequence->epoch));
    kv_test_put_node(sequence, 5, 6, 205);
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){0}, 1), OR_OK);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){6, 5}, 2), OR_OK);
    kv_test_assert_mark(sequence, 33, 100);
    kv_test_assert_mark(sequence, 34, 106);
    kv_test_assert_mark(sequence, 35, 205);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void a_new_root_without_a_page_changes_nothing(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(1);
    or_kv_sequence_t *sequence = kv_test_open(cache, 64, 3);
    for (uint32_t i = 0; i < 31; i++) {
        kv_test_append(sequence, i);
    }
    kv_test_put_node(sequence, 0, OR_KV_NO_SLOT, 100);
    kv_test_put_node(sequence, 1, 0, 101);
    kv_test_put_node(sequence, 2, 1, 102);
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){0, 1}, 2), OR_ERR_FULL);
    assert_int_equal(or_kv_sequence_length(sequence), 31);
    assert_int_equal(sequence->slots[2].depth, 2);
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){0}, 1), OR_OK);
    assert_int_equal(or_kv_sequence_length(sequence), 32);
    assert_int_equal(sequence->slots[2].depth, 1);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

// Other ranks could not repeat it, so it is refused rather than done here alone.
static void a_cache_of_several_ranks_has_no_new_roots(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    kv_test_replica_t replica;
    kv_test_replica_start(&replica, cache, 64);
    or_kv_sequence_t *sequence = kv_test_open(cache, 64, 2);
    kv_test_append(sequence, 0);
    kv_test_put_node(sequence, 0, OR_KV_NO_SLOT, 100);
    uint32_t notes = replica.notes;
    assert_int_equal(or_kv_sequence_accept_root(sequence, (uint32_t[]){0}, 1), OR_ERR_UNSUPPORTED);
    or_kv_sequence_drop_slot(sequence, 0);
    assert_true(or_kv_slot_is_live(sequence, 0, sequence->epoch));
    assert_int_equal(or_kv_sequence_length(sequence), 1);
    assert_int_equal(replica.notes, notes);
    or_kv_sequence_close(&sequence);
    or_kv_cache_set_journal(cache, NULL);
    or_kv_cache_destroy(&replica.cache);
    or_kv_cache_destroy(&cache);
}

// A reservation stays through passes and accepts, so that these cannot fail, until a truncate.
static void a_reservation_holds_until_a_truncate(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(4);
    or_kv_sequence_t *one = kv_test_open(cache, 1000, 40);
    or_kv_sequence_t *two = kv_test_open(cache, 1000, 0);
    assert_int_equal(or_kv_sequence_reserve(one, 65), OR_OK);
    assert_int_equal(or_kv_sequence_pages(one), 3);
    assert_int_equal(or_kv_sequence_reserve(one, 10), OR_OK);
    assert_int_equal(or_kv_sequence_reserve(one, 129), OR_ERR_FULL);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    assert_int_equal(or_kv_sequence_reserve(two, 1), OR_OK);
    for (uint32_t i = 0; i < 31; i++) {
        kv_test_append(one, i);
    }
    or_kv_pages_trim(one); // what a failed pass does
    assert_int_equal(or_kv_sequence_pages(one), 3);
    uint32_t path[34];
    for (uint32_t i = 0; i < 34; i++) {
        path[i] = i;
        kv_test_put_node(one, i, i == 0 ? OR_KV_NO_SLOT : i - 1, 31 + i);
    }
    assert_int_equal(or_kv_cache_pages_free(cache), 0);
    assert_int_equal(or_kv_sequence_accept(one, path, 34), OR_OK);
    for (uint32_t i = 0; i < 65; i++) {
        kv_test_assert_mark(one, i, i);
    }
    or_kv_sequence_truncate(one, 33);
    assert_int_equal(or_kv_sequence_pages(one), 2);
    or_kv_sequence_truncate(two, 0);
    assert_int_equal(or_kv_cache_pages_free(cache), 2);
    or_kv_sequence_close(&two);
    or_kv_sequence_close(&one);
    or_kv_cache_destroy(&cache);
}

static void sizes_follow_the_types(void **state)
{
    (void)state;
    or_kv_shape_t shape = {.layers = 2, .kv_heads = 3, .head_dim = 64};
    assert_int_equal(or_kv_page_bytes(&shape), 2 * 3 * 2 * 32 * 64 * 4);
    assert_int_equal(or_kv_slot_bytes(&shape), 2 * 3 * 2 * 64 * 4);
    shape.key_type = OR_KV_F16;
    shape.value_type = OR_KV_Q8_0;
    assert_int_equal(or_kv_page_bytes(&shape), 2 * 3 * 32 * (64 * 2 + 64 + 2 * 2));
    assert_int_equal(or_kv_slot_bytes(&shape), 2 * 3 * (64 * 2 + 64 + 2 * 2));
}

static void types_have_names(void **state)
{
    (void)state;
    or_kv_type_t type;
    for (or_kv_type_t t = OR_KV_F32; t <= OR_KV_Q8_0; t++) {
        assert_int_equal(or_kv_type_parse(or_kv_type_name(t), &type), OR_OK);
        assert_int_equal(type, t);
    }
    assert_null(or_kv_type_name((or_kv_type_t)3));
    assert_int_equal(or_kv_type_parse("q4_0", &type), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "f32, f16 and q8_0"));
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    const or_kv_shape_t shape = {
        .layers = UINT32_MAX, .kv_heads = UINT32_MAX, .head_dim = UINT32_MAX};
    or_kv_cache_t *cache = NULL;
    assert_int_equal(or_kv_cache_create(&shape, UINT32_MAX, &cache), OR_ERR_NO_MEMORY);
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
        cmocka_unit_test(a_new_root_keeps_what_stands_on_it),
        cmocka_unit_test(a_new_root_without_a_page_changes_nothing),
        cmocka_unit_test(a_cache_of_several_ranks_has_no_new_roots),
        cmocka_unit_test(a_reservation_holds_until_a_truncate),
        cmocka_unit_test(sizes_follow_the_types),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    int failed = 0;
    for (or_kv_type_t key = OR_KV_F32; key <= OR_KV_Q8_0; key++) {
        for (or_kv_type_t value = OR_KV_F32; value <= OR_KV_Q8_0; value++) {
            kv_test_key_type = key;
            kv_test_value_type = value;
            failed += cmocka_run_group_tests(tests, NULL, NULL);
        }
    }
    return failed;
}
