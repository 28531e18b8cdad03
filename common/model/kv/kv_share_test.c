// Goal: sequences that share pages never see each other's changes; the journal says what changed, no
// more and no less.
// Method: the smallest pools in which each case arises.
#include "common/model/kv/kv_cache.h"

#include "common/model/kv/kv_test_support.h"

#define POSITIONS 150u
#define SLOTS 12u

static void whole_pages_are_shared_and_the_rest_is_copied(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(6);
    or_kv_sequence_t *donor = kv_test_open(cache, 200, 1);
    or_kv_sequence_t *sharer = kv_test_open(cache, 200, 1);
    for (uint32_t i = 0; i < 90; i++) {
        kv_test_append(donor, i);
    }
    kv_test_append(sharer, 500);
    kv_test_put_node(sharer, 0, OR_KV_NO_SLOT, 501);
    or_kv_sequence_share(sharer, donor, 80);
    assert_int_equal(or_kv_sequence_length(sharer), 80);
    assert_int_equal(or_kv_cache_pages_free(cache), 2);
    assert_int_equal(or_kv_cache_pages_shared(cache), 2);
    assert_int_equal(or_kv_sequence_pages(sharer), 3);
    assert_int_equal(or_kv_sequence_pages_own(sharer), 1);
    assert_int_equal(or_kv_sequence_accept(sharer, (uint32_t[]){0}, 1), OR_ERR_INVALID);
    kv_test_append(sharer, 580);
    kv_test_assert_mark(donor, 80, 80);
    or_kv_sequence_close(&donor);
    assert_int_equal(or_kv_cache_pages_shared(cache), 0);
    assert_int_equal(or_kv_cache_pages_free(cache), 3);
    for (uint32_t i = 0; i < 80; i++) {
        kv_test_assert_mark(sharer, i, i);
    }
    kv_test_assert_mark(sharer, 80, 580);
    or_kv_sequence_close(&sharer);
    assert_int_equal(or_kv_cache_pages_free(cache), 6);
    or_kv_cache_destroy(&cache);
}

static void a_full_pool_shares_whole_pages_only(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    or_kv_sequence_t *donor = kv_test_open(cache, 200, 0);
    or_kv_sequence_t *sharer = kv_test_open(cache, 200, 0);
    for (uint32_t i = 0; i < 40; i++) {
        kv_test_append(donor, i);
    }
    or_kv_sequence_share(sharer, donor, 40);
    assert_int_equal(or_kv_sequence_length(sharer), 32);
    assert_int_equal(or_kv_cache_pages_shared(cache), 1);
    assert_false(kv_test_try_append(sharer, 1));
    or_kv_sequence_truncate(donor, 32);
    kv_test_append(sharer, 532);
    kv_test_assert_mark(sharer, 31, 31);
    kv_test_assert_mark(sharer, 32, 532);
    or_kv_sequence_close(&sharer);
    or_kv_sequence_close(&donor);
    or_kv_cache_destroy(&cache);
}

// Both are cut inside a page they share; who writes first copies it, the other then has it alone.
static void a_shared_page_is_copied_before_it_is_written(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(2);
    or_kv_sequence_t *donor = kv_test_open(cache, 200, 1);
    or_kv_sequence_t *sharer = kv_test_open(cache, 200, 1);
    for (uint32_t i = 0; i < 32; i++) {
        kv_test_append(donor, i);
    }
    or_kv_sequence_share(sharer, donor, 32);
    or_kv_sequence_truncate(donor, 20);
    or_kv_sequence_truncate(sharer, 10);
    assert_int_equal(or_kv_sequence_reserve(sharer, 10), OR_OK); // writes nothing
    assert_int_equal(or_kv_cache_pages_shared(cache), 1);
    assert_int_equal(or_kv_cache_pages_free(cache), 1);
    or_kv_sequence_t *third = kv_test_open(cache, 200, 0);
    kv_test_append(third, 300);
    assert_int_equal(or_kv_sequence_reserve(sharer, 11), OR_ERR_FULL);
    kv_test_put_node(donor, 0, OR_KV_NO_SLOT, 720);
    assert_int_equal(or_kv_sequence_accept(donor, (uint32_t[]){0}, 1), OR_ERR_FULL);
    or_kv_sequence_close(&third);
    assert_int_equal(or_kv_sequence_reserve(sharer, 11), OR_OK);
    assert_int_equal(or_kv_sequence_pages_own(sharer), 1);
    assert_int_equal(or_kv_sequence_pages_own(donor), 1);
    assert_int_equal(or_kv_sequence_accept(donor, (uint32_t[]){0}, 1), OR_OK);
    kv_test_append(sharer, 610);
    kv_test_assert_mark(donor, 10, 10);
    kv_test_assert_mark(donor, 20, 720);
    kv_test_assert_mark(sharer, 9, 9);
    kv_test_assert_mark(sharer, 10, 610);
    or_kv_sequence_close(&sharer);
    or_kv_sequence_close(&donor);
    or_kv_cache_destroy(&cache);
}

// ---- the journal ----

// A call that changes nothing, is implied by another or fails is not noted.
static void only_changes_are_noted(void **state)
{
    (void)state;
    kv_test_replica_t replica;
    or_kv_cache_t *cache = kv_test_cache(2);
    kv_test_replica_start(&replica, cache, POSITIONS);
    or_kv_sequence_t *one = kv_test_open(cache, POSITIONS, SLOTS);
    or_kv_sequence_t *two = kv_test_open(cache, POSITIONS, SLOTS);
    assert_int_equal(replica.notes, 2);
    or_kv_sequence_drop_slots(one);
    or_kv_sequence_drop_slots_from(one, 0);
    or_kv_sequence_truncate(one, 0);
    or_kv_sequence_truncate(one, 99);
    assert_int_equal(or_kv_sequence_accept(one, NULL, 0), OR_OK);
    assert_int_equal(or_kv_sequence_reserve(one, 0), OR_OK);
    assert_int_equal(or_kv_sequence_reserve(one, 65), OR_ERR_FULL);
    assert_int_equal(or_kv_sequence_accept(one, (uint32_t[]){0}, 1), OR_ERR_INVALID);
    assert_int_equal(replica.notes, 2);

    assert_int_equal(or_kv_sequence_reserve(one, 64), OR_OK);
    assert_int_equal(or_kv_sequence_reserve(one, 40), OR_OK);
    assert_int_equal(replica.notes, 3);
    or_kv_sequence_truncate(one, 0); // gives pages back
    assert_int_equal(replica.notes, 4);
    kv_test_put_node(one, 3, OR_KV_NO_SLOT, 7);
    kv_test_put_node(replica.sequences[0], 3, OR_KV_NO_SLOT, 7);
    or_kv_sequence_drop_slots_from(one, 4);
    assert_int_equal(replica.notes, 4);
    assert_int_equal(or_kv_sequence_accept(one, (uint32_t[]){3}, 1), OR_OK);
    or_kv_sequence_drop_slots(one);
    or_kv_sequence_truncate(one, 1);
    assert_int_equal(replica.notes, 5);
    assert_int_equal(replica.last, OR_KV_NOTE_ACCEPT);
    or_kv_sequence_close(&one);
    or_kv_sequence_close(&two);
    assert_int_equal(replica.notes, 7);
    or_kv_cache_destroy(&replica.cache);
    or_kv_cache_destroy(&cache);
}

static void numbers_are_the_smallest_that_are_free(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_cache(1);
    or_kv_sequence_t *sequences[4];
    for (uint32_t i = 0; i < 4; i++) {
        sequences[i] = kv_test_open(cache, 32, 0);
        assert_int_equal(sequences[i]->number, i);
    }
    or_kv_sequence_close(&sequences[2]);
    or_kv_sequence_close(&sequences[0]);
    sequences[0] = kv_test_open(cache, 32, 0);
    assert_int_equal(sequences[0]->number, 0);
    sequences[2] = kv_test_open(cache, 32, 0);
    assert_int_equal(sequences[2]->number, 2);
    for (uint32_t i = 0; i < 4; i++) {
        or_kv_sequence_close(&sequences[i]);
    }
    or_kv_cache_destroy(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_pages_are_shared_and_the_rest_is_copied),
        cmocka_unit_test(a_full_pool_shares_whole_pages_only),
        cmocka_unit_test(a_shared_page_is_copied_before_it_is_written),
        cmocka_unit_test(only_changes_are_noted),
        cmocka_unit_test(numbers_are_the_smallest_that_are_free),
    };
    kv_test_key_type = OR_KV_F16;
    kv_test_value_type = OR_KV_Q8_0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
