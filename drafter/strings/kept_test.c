// Goal: a map is used only if it is what its sender says and fits our vocabulary; a map that a session
// holds stays.
// Method: maps with one thing wrong each; more maps than there are places, some of them held.
#include "drafter/strings/kept.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

static or_vocab_t *vocab;
static or_maps_t maps;
static int32_t *to;
static uint32_t size;

static int setup(void **state)
{
    (void)state;
    or_gguf_t *gguf;
    assert_int_equal(or_gguf_open(test_model("tales-bpe-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    or_gguf_close(&gguf);
    size = or_vocab_size(vocab);
    to = malloc((size + 1) * sizeof *to);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(to);
    or_vocab_destroy(&vocab);
    return 0;
}

// A map that has all tokens but those before `first`; valid until the next call.
static or_vocab_map_t map_from(uint32_t first)
{
    for (uint32_t i = 0; i <= size; i++) {
        to[i] = i < first ? OR_TOKEN_NONE : (int32_t)(i - first);
    }
    return (or_vocab_map_t){.from_hash = or_vocab_hash(vocab),
                            .to_hash = 7,
                            .to = to,
                            .count = size,
                            .map_hash = or_vocab_map_hash(to, size)};
}

static uint64_t put(uint32_t first)
{
    or_vocab_map_t message = map_from(first);
    assert_int_equal(or_maps_put(&maps, vocab, &message), OR_OK);
    return message.map_hash;
}

static bool is_here(uint64_t hash)
{
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        if (maps.places[i].kept.hash == hash) {
            return true;
        }
    }
    return false;
}

static void assert_refused(const or_vocab_map_t *message, or_status_t status)
{
    assert_int_equal(or_maps_put(&maps, vocab, message), status);
    assert_null(or_maps_take(&maps, message->map_hash));
}

static void what_is_wrong_is_not_kept(void **state)
{
    (void)state;
    or_vocab_map_t message = map_from(3);
    message.map_hash++;
    assert_refused(&message, OR_ERR_MISMATCH);
    message = map_from(3);
    to[size / 2] = 0; // another id, as a damaged message has
    assert_refused(&message, OR_ERR_MISMATCH);
    message = map_from(3);
    message.from_hash++;
    assert_refused(&message, OR_ERR_INVALID);
    for (int delta = -1; delta <= 1; delta += 2) {
        message = map_from(3);
        message.count = size + (uint32_t)delta;
        message.map_hash = or_vocab_map_hash(to, message.count);
        assert_refused(&message, OR_ERR_INVALID);
    }
    message = map_from(3);
    to[size - 1] = -2;
    message.map_hash = or_vocab_map_hash(to, size);
    assert_refused(&message, OR_ERR_INVALID);
    assert_null(or_maps_take(&maps, 0));
    or_maps_fini(&maps);
}

static void a_map_is_kept_as_it_came(void **state)
{
    (void)state;
    uint64_t hash = put(3);
    memset(to, 0, size * sizeof *to); // the message is gone
    or_map_t *map = or_maps_take(&maps, hash);
    assert_non_null(map);
    assert_int_equal(map->common, size - 3);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(map->to[i], i < 3 ? OR_TOKEN_NONE : (int32_t)i - 3);
    }
    const int32_t *held = map->to;
    assert_int_equal(put(3), hash); // sent twice: the session's stays
    assert_ptr_equal(map->to, held);
    assert_int_equal(map->kept.users, 1);
    or_map_release(&map);
    assert_null(map);
    or_map_release(&map);
    or_maps_fini(&maps);
}

static void held_maps_stay_and_the_oldest_goes(void **state)
{
    (void)state;
    uint64_t hashes[OR_MAPS_MAX + 1];
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        hashes[i] = put(i);
    }
    or_map_t *first = or_maps_take(&maps, hashes[0]);
    or_map_t *twice = or_maps_take(&maps, hashes[0]);
    or_map_t *second = or_maps_take(&maps, hashes[1]);
    or_map_release(&second); // used since the third came
    or_map_release(&twice);  // but the first is still held
    hashes[OR_MAPS_MAX] = put(OR_MAPS_MAX);
    for (uint32_t i = 0; i <= OR_MAPS_MAX; i++) {
        assert_int_equal(is_here(hashes[i]), i != 2);
    }
    or_map_t *held[OR_MAPS_MAX] = {first};
    for (uint32_t i = 1, at = 1; i <= OR_MAPS_MAX; i++) {
        if (i != 2) {
            held[at++] = or_maps_take(&maps, hashes[i]);
        }
    }
    or_vocab_map_t message = map_from(2);
    assert_int_equal(or_maps_put(&maps, vocab, &message), OR_ERR_FULL);
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        assert_non_null(held[i]);
        or_map_release(&held[i]);
    }
    assert_int_equal(or_maps_put(&maps, vocab, &message), OR_OK);
    assert_false(is_here(hashes[0])); // released last, but used first
    or_maps_fini(&maps);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_not_kept),
        cmocka_unit_test(a_map_is_kept_as_it_came),
        cmocka_unit_test(held_maps_stay_and_the_oldest_goes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
