// Goal: no page is lost, counted twice or written by two, whatever is done in whatever order; and
// whoever repeats the journal has the same pages, lengths and slots at every step.
// Method: a model of plain arrays beside the cache: each sequence has its marks and, for each page, the
// name of a copy; counts are found by looking through all names. Operations are drawn at random, in
// a pool that is often full. A second cache of other types repeats what the journal says.
#include "common/model/kv/kv_cache.h"

#include <string.h>

#include "common/model/kv/kv_test_support.h"

#define SEQUENCES 6u
#define POSITIONS 150u
#define PAGES_EACH ((POSITIONS + OR_KV_PAGE - 1) / OR_KV_PAGE)
#define SLOTS 12u
#define POOL 14u
#define STEPS 6000u

typedef struct {
    or_kv_sequence_t *sequence; // NULL: not open
    uint32_t length, reserved;
    uint32_t marks[POSITIONS];
    uint32_t copies[PAGES_EACH]; // names of the pages it holds, 0: none
    uint32_t path_marks[SLOTS];  // slots 0 .. path_length - 1, each the parent of the next
    uint32_t path_length;
} plain_t;

typedef struct {
    uint64_t rng;
    or_kv_cache_t *cache;
    kv_test_replica_t replica;
    plain_t plain[SEQUENCES];
    uint32_t last_copy, last_mark;
} world_t;

static uint32_t pages_for(uint32_t positions)
{
    return (positions + OR_KV_PAGE - 1) / OR_KV_PAGE;
}

static uint32_t draw(world_t *world, uint32_t n)
{
    return (uint32_t)test_below(&world->rng, n);
}

static uint32_t holders(const world_t *world, uint32_t copy)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < PAGES_EACH; i++) {
            count += world->plain[s].copies[i] == copy;
        }
    }
    return count;
}

// Each page counts 1 / holders of it, in sixtieths: 1 to 6 holders divide that.
static uint32_t plain_free(const world_t *world)
{
    uint32_t sixtieths = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < PAGES_EACH; i++) {
            uint32_t copy = world->plain[s].copies[i];
            sixtieths += copy == 0 ? 0 : 60 / holders(world, copy);
        }
    }
    assert_int_equal(sixtieths % 60, 0);
    return POOL - sixtieths / 60;
}

static void plain_give_back(plain_t *plain)
{
    uint32_t kept = plain->length > plain->reserved ? plain->length : plain->reserved;
    for (uint32_t i = pages_for(kept); i < PAGES_EACH; i++) {
        plain->copies[i] = 0;
    }
}

static void plain_cut(plain_t *plain, uint32_t length)
{
    plain->length = length < plain->length ? length : plain->length;
    plain->reserved = 0;
    plain->path_length = 0;
    plain_give_back(plain);
}

// Pages for writing up to `positions`; false, and nothing taken, if there are too few.
static bool plain_take(world_t *world, plain_t *plain, uint32_t positions)
{
    uint32_t new_copies[PAGES_EACH];
    memcpy(new_copies, plain->copies, sizeof new_copies);
    uint32_t wanted = 0;
    uint32_t page = plain->length / OR_KV_PAGE;
    if (positions > plain->length && plain->length % OR_KV_PAGE > 0 &&
        holders(world, plain->copies[page]) > 1) {
        new_copies[page] = ++world->last_copy;
        wanted++;
    }
    for (uint32_t i = 0; i < pages_for(positions); i++) {
        if (new_copies[i] == 0) {
            new_copies[i] = ++world->last_copy;
            wanted++;
        }
    }
    if (wanted > plain_free(world)) {
        return false;
    }
    memcpy(plain->copies, new_copies, sizeof new_copies);
    return true;
}

static void step_append(world_t *world, plain_t *plain)
{
    uint32_t count = 1 + draw(world, 20);
    or_kv_sequence_t *other = world->replica.sequences[plain->sequence->number];
    while (count-- > 0 && plain->length < POSITIONS) {
        uint32_t mark = ++world->last_mark;
        bool fits = plain_take(world, plain, plain->length + 1);
        assert_int_equal(kv_test_try_append(plain->sequence, mark), fits);
        assert_int_equal(kv_test_try_append(other, mark), fits);
        if (fits) {
            plain->marks[plain->length++] = mark;
            plain->path_length = 0;
        }
    }
}

static void step_tree(world_t *world, plain_t *plain)
{
    uint32_t wanted = draw(world, SLOTS + 1);
    or_kv_sequence_t *other = world->replica.sequences[plain->sequence->number];
    for (uint32_t i = plain->path_length; i < wanted; i++) {
        uint32_t parent = i == 0 ? OR_KV_NO_SLOT : i - 1;
        plain->path_marks[i] = ++world->last_mark;
        kv_test_put_node(plain->sequence, i, parent, plain->path_marks[i]);
        kv_test_put_node(other, i, parent, plain->path_marks[i]);
        plain->path_length = i + 1;
    }
}

static void step_accept(world_t *world, plain_t *plain)
{
    static const uint32_t path[SLOTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    uint32_t count = draw(world, plain->path_length + 1);
    bool fits =
        plain->length + count <= POSITIONS && plain_take(world, plain, plain->length + count);
    assert_int_equal(or_kv_sequence_accept(plain->sequence, path, count),
                     fits ? OR_OK : OR_ERR_FULL);
    if (fits) {
        memcpy(plain->marks + plain->length, plain->path_marks, count * sizeof *plain->marks);
        plain->length += count;
        plain->path_length = 0;
    }
}

static void step_reserve(world_t *world, plain_t *plain)
{
    uint32_t positions = draw(world, POSITIONS + 5);
    bool fits = positions <= POSITIONS && plain_take(world, plain, positions);
    assert_int_equal(or_kv_sequence_reserve(plain->sequence, positions),
                     fits ? OR_OK : OR_ERR_FULL);
    if (fits && positions > plain->reserved) {
        plain->reserved = positions;
    }
}

static void step_share(world_t *world, plain_t *plain)
{
    const plain_t *donor = &world->plain[draw(world, SEQUENCES)];
    if (donor == plain || donor->sequence == NULL) {
        return;
    }
    uint32_t length = draw(world, donor->length + 1);
    or_kv_sequence_share(plain->sequence, donor->sequence, length);
    plain_cut(plain, 0);
    uint32_t whole = length / OR_KV_PAGE;
    memcpy(plain->copies, donor->copies, whole * sizeof *plain->copies);
    plain->length = whole * OR_KV_PAGE;
    memcpy(plain->marks, donor->marks, length * sizeof *plain->marks);
    if (length % OR_KV_PAGE > 0 && plain_free(world) > 0) {
        plain->copies[whole] = ++world->last_copy;
        plain->length = length;
    }
}

static void step_open_or_close(world_t *world, plain_t *plain)
{
    if (plain->sequence == NULL) {
        plain->sequence = kv_test_open(world->cache, POSITIONS, SLOTS);
    } else if (draw(world, 4) == 0) {
        plain_cut(plain, 0);
        or_kv_sequence_close(&plain->sequence);
    }
}

static void step_truncate(world_t *world, plain_t *plain)
{
    uint32_t length = draw(world, plain->length + 20);
    or_kv_sequence_truncate(plain->sequence, length);
    plain_cut(plain, length);
}

static void step_drop(world_t *world, plain_t *plain)
{
    uint32_t kept = draw(world, SLOTS + 1);
    if (kept == 0) {
        or_kv_sequence_drop_slots(plain->sequence);
    } else {
        or_kv_sequence_drop_slots_from(plain->sequence, kept);
    }
    plain->path_length = kept < plain->path_length ? kept : plain->path_length;
}

static void step(world_t *world, plain_t *plain)
{
    static void (*const steps[])(world_t *, plain_t *) = {
        step_open_or_close, step_truncate, step_reserve, step_drop,   step_share,
        step_tree,          step_accept,   step_append,  step_append,
    };
    uint32_t what = draw(world, sizeof steps / sizeof steps[0]);
    if (plain->sequence == NULL) {
        what = 0;
    }
    steps[what](world, plain);
}

static void check_sequence(const world_t *world, const plain_t *plain)
{
    const or_kv_sequence_t *other = world->replica.sequences[plain->sequence->number];
    uint32_t held = 0;
    uint32_t own = 0;
    for (uint32_t i = 0; i < PAGES_EACH; i++) {
        held += plain->copies[i] != 0;
        own += plain->copies[i] != 0 && holders(world, plain->copies[i]) == 1;
    }
    assert_int_equal(or_kv_sequence_length(plain->sequence), plain->length);
    assert_int_equal(or_kv_sequence_length(other), plain->length);
    assert_int_equal(or_kv_sequence_pages(plain->sequence), held);
    assert_int_equal(or_kv_sequence_pages(other), held);
    assert_int_equal(or_kv_sequence_pages_own(plain->sequence), own);
    assert_int_equal(or_kv_sequence_pages_own(other), own);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        bool live = slot < plain->path_length;
        assert_int_equal(or_kv_slot_is_live(plain->sequence, slot, plain->sequence->epoch), live);
        assert_int_equal(or_kv_slot_is_live(other, slot, other->epoch), live);
    }
}

static void check_contents(const plain_t *plain, const or_kv_sequence_t *other)
{
    for (uint32_t i = 0; i < plain->length; i++) {
        kv_test_assert_mark(plain->sequence, i, plain->marks[i]);
        kv_test_assert_mark(other, i, plain->marks[i]);
    }
}

static void check_world(const world_t *world, bool contents)
{
    assert_int_equal(or_kv_cache_pages_free(world->cache), plain_free(world));
    assert_int_equal(or_kv_cache_pages_free(world->replica.cache), plain_free(world));
    assert_int_equal(or_kv_cache_pages_shared(world->cache),
                     or_kv_cache_pages_shared(world->replica.cache));
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const plain_t *plain = &world->plain[s];
        if (plain->sequence != NULL) {
            check_sequence(world, plain);
            if (contents) {
                check_contents(plain, world->replica.sequences[plain->sequence->number]);
            }
        }
    }
}

static void nothing_is_lost_or_mixed_up(void **state)
{
    (void)state;
    static world_t world;
    world = (world_t){.rng = test_seed()};
    world.cache = kv_test_cache(POOL);
    kv_test_replica_start(&world.replica, world.cache, POSITIONS);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&world, &world.plain[draw(&world, SEQUENCES)]);
        check_world(&world, i % 16 == 0);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        or_kv_sequence_close(&world.plain[s].sequence);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        assert_null(world.replica.sequences[s]);
    }
    assert_int_equal(or_kv_cache_pages_free(world.cache), POOL);
    or_kv_cache_destroy(&world.replica.cache);
    or_kv_cache_destroy(&world.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_or_mixed_up)};
    kv_test_key_type = OR_KV_F16;
    kv_test_value_type = OR_KV_Q8_0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
