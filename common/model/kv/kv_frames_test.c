// Goal: layers with a window keep what the next rows attend to, and no more frames than that takes; what was given up is
// never taken for something that is there; no frame is lost or used by two pages.
// Method: a model of plain arrays beside the cache, and operations drawn at random in pools that are often full. The
// small cases have their own tests.
#include "common/model/kv/kv_cache.h"

#include "common/model/kv/kv_test_support.h"

#define SEQUENCES 5u
#define POSITIONS 400u
#define SLOTS 40u
#define STEPS 3000u

typedef struct {
    uint32_t window, slack, pages, frames;
} pool_t;

typedef struct {
    or_kv_sequence_t *sequence;
    uint32_t length;
    uint32_t longest; // since it was empty or shared
    uint32_t marks[POSITIONS];
} plain_t;

typedef struct {
    uint64_t rng;
    pool_t pool;
    or_kv_cache_t *cache;
    plain_t plain[SEQUENCES];
    uint32_t last_mark;
} world_t;

static uint32_t draw(world_t *world, uint32_t n)
{
    return (uint32_t)test_below(&world->rng, n);
}

static void grow_to(plain_t *plain, uint32_t length)
{
    plain->length = length;
    plain->longest = length > plain->longest ? length : plain->longest;
}

// ---- operations ----

static void step_append(world_t *world, plain_t *plain)
{
    for (uint32_t count = 1 + draw(world, 60); count > 0 && plain->length < POSITIONS; count--) {
        uint32_t mark = ++world->last_mark;
        if (!kv_test_try_append(plain->sequence, mark)) {
            break;
        }
        plain->marks[plain->length] = mark;
        grow_to(plain, plain->length + 1);
    }
}

// A path of guesses, of which the first few are accepted; other guesses stand beside it.
static void step_accept(world_t *world, plain_t *plain)
{
    uint32_t path[SLOTS / 2];
    uint32_t depth = 1 + draw(world, SLOTS / 2);
    or_kv_sequence_drop_slots(plain->sequence);
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t parent = i == 0 ? OR_KV_NO_SLOT : path[i - 1];
        path[i] = 2 * i;
        kv_test_put_node(plain->sequence, path[i], parent, world->last_mark + 1 + i);
        kv_test_put_node(plain->sequence, path[i] + 1, parent, 1u << 30);
    }
    uint32_t count = draw(world, depth + 1);
    if (or_kv_sequence_accept(plain->sequence, path, count) == OR_OK) {
        for (uint32_t i = 0; i < count; i++) {
            plain->marks[plain->length + i] = world->last_mark + 1 + i;
        }
        grow_to(plain, plain->length + count);
    }
    world->last_mark += depth;
}

static void step_reserve(world_t *world, plain_t *plain)
{
    uint32_t free_before = or_kv_cache_pages_free(world->cache);
    if (or_kv_sequence_reserve(plain->sequence, plain->length + draw(world, 80)) != OR_OK) {
        assert_int_equal(or_kv_cache_pages_free(world->cache), free_before);
    }
}

// A text that is cut back by no more than the slack goes on from there, and any other may.
static void step_truncate(world_t *world, plain_t *plain)
{
    uint32_t length = draw(world, plain->length + 1);
    uint32_t usable = or_kv_sequence_usable(plain->sequence, plain->length, length);
    or_kv_sequence_truncate(plain->sequence, length);
    assert_int_equal(or_kv_sequence_length(plain->sequence), usable);
    assert_true(usable == length || plain->longest - length > world->pool.slack);
    plain->length = usable;
    plain->longest = usable == 0 ? 0 : plain->longest;
}

static void step_share(world_t *world, plain_t *plain)
{
    const plain_t *donor = &world->plain[draw(world, SEQUENCES)];
    if (donor == plain || donor->sequence == NULL) {
        return;
    }
    uint32_t wanted = draw(world, donor->length + 1);
    or_kv_sequence_share(plain->sequence, donor->sequence, wanted);
    uint32_t length = or_kv_sequence_length(plain->sequence);
    assert_true(length == wanted || length == wanted / OR_KV_PAGE * OR_KV_PAGE || length == 0);
    for (uint32_t i = 0; i < length; i++) {
        plain->marks[i] = donor->marks[i];
    }
    plain->length = length;
    plain->longest = length == 0 ? 0 : donor->longest;
}

static void step_open_or_close(world_t *world, plain_t *plain)
{
    if (plain->sequence == NULL) {
        plain->sequence = kv_test_open(world->cache, POSITIONS, SLOTS);
    } else if (draw(world, 3) == 0) {
        or_kv_sequence_close(&plain->sequence);
    }
    plain->length = plain->sequence == NULL ? 0 : plain->length;
    plain->longest = plain->length == 0 ? 0 : plain->longest;
}

static void step(world_t *world, plain_t *plain)
{
    static void (*const steps[])(world_t *, plain_t *) = {
        step_open_or_close, step_truncate, step_reserve, step_share,
        step_accept,        step_append,   step_append,
    };
    uint32_t what = draw(world, sizeof steps / sizeof steps[0]);
    steps[plain->sequence == NULL ? 0 : what](world, plain);
}

// ---- what must hold ----

// The next row sees what it attends to, whatever else is there.
static void check_contents(const world_t *world, const plain_t *plain)
{
    uint32_t next = plain->length + 1;
    uint32_t seen_from = next > world->pool.window ? next - world->pool.window : 0;
    for (uint32_t i = 0; i < plain->length; i++) {
        if (i >= seen_from) {
            kv_test_assert_mark(plain->sequence, i, plain->marks[i]);
        } else {
            kv_test_assert_unbounded_mark(plain->sequence, i, plain->marks[i]);
        }
    }
}

// A page has a frame of its own while some sequence uses it, and only then.
static void check_frames(const world_t *world)
{
    const or_kv_frames_t *frames = world->cache->frames;
    uint32_t users[POSITIONS] = {0};
    uint32_t owners[POSITIONS] = {0};
    uint32_t used = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const or_kv_sequence_t *sequence = world->plain[s].sequence;
        for (uint32_t i = sequence != NULL ? sequence->kept_from : 0;
             sequence != NULL && i < sequence->page_count; i++) {
            users[sequence->pages[i]]++;
        }
    }
    for (uint32_t page = 0; page < world->pool.pages; page++) {
        assert_int_equal(frames->users[page], users[page]);
        assert_int_equal(frames->frame_of[page] != OR_KV_NO_FRAME, users[page] > 0);
        if (users[page] > 0) {
            assert_true(frames->frame_of[page] < frames->frames_max);
            assert_int_equal(owners[frames->frame_of[page]]++, 0);
            used++;
        }
    }
    assert_int_equal(frames->free_count + used, frames->frames_max);
}

// Behind its length a sequence uses frames for its window, the slack and what is reserved.
static void check_bound(const world_t *world, const plain_t *plain)
{
    uint32_t reserved = plain->sequence->reserved;
    uint32_t end = plain->length > reserved ? plain->length : reserved;
    uint32_t most = (world->pool.window + world->pool.slack + end - plain->length) / OR_KV_PAGE + 2;
    uint32_t own;
    uint32_t used = or_kv_sequence_frames(plain->sequence, &own);
    assert_in_range(own, 0, used);
    if (plain->length == plain->longest) {
        assert_in_range(used, 0, most);
    }
}

static void check_world(const world_t *world, bool contents)
{
    check_frames(world);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const plain_t *plain = &world->plain[s];
        if (plain->sequence == NULL) {
            continue;
        }
        assert_int_equal(or_kv_sequence_length(plain->sequence), plain->length);
        check_bound(world, plain);
        if (contents) {
            check_contents(world, plain);
        }
    }
}

static void play(const pool_t *pool)
{
    static world_t world;
    world = (world_t){.rng = test_seed(), .pool = *pool};
    world.cache = kv_test_bounded_cache(pool->pages, pool->window, pool->slack, pool->frames);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&world, &world.plain[draw(&world, SEQUENCES)]);
        check_world(&world, i % 64 == 0);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        or_kv_sequence_close(&world.plain[s].sequence);
    }
    assert_int_equal(world.cache->frames->free_count, pool->frames);
    or_kv_cache_destroy(&world.cache);
}

static void windows_are_kept_whatever_is_done(void **state)
{
    (void)state;
    static const pool_t pools[] = {
        {40, 20, 30, 12}, {1, 1, 30, 10}, {33, 64, 20, 20}, {100, 7, 50, 14}, {64, 32, 24, 16}};
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        play(&pools[i]);
    }
}

// ---- small cases ----

static void append(or_kv_sequence_t *sequence, uint32_t end)
{
    while (or_kv_sequence_length(sequence) < end) {
        kv_test_append(sequence, or_kv_sequence_length(sequence));
    }
}

static void a_long_text_takes_few_frames(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_bounded_cache(100, 40, 20, 4);
    or_kv_sequence_t *sequence = kv_test_open(cache, 3200, 0);
    append(sequence, 3200);
    assert_int_equal(or_kv_sequence_pages(sequence), 100);
    uint32_t own;
    assert_in_range(or_kv_sequence_frames(sequence, &own), 2, 4);
    assert_in_range(own, 2, 4);
    assert_true(or_kv_cache_bytes(cache) ==
                100 * or_kv_page_bytes(&cache->shape) / 2 + or_kv_cache_window_bytes(cache));
    assert_true(or_kv_cache_window_bytes(cache) == 4 * or_kv_page_bytes(&cache->shape) / 2);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void a_text_is_cut_back_by_the_slack_or_read_again(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_bounded_cache(20, 40, 20, 20);
    or_kv_sequence_t *sequence = kv_test_open(cache, 400, 0);
    append(sequence, 300); // kept from (300 - 39 - 20) / 32 * 32 = 224
    or_kv_sequence_truncate(sequence, 280);
    assert_int_equal(or_kv_sequence_length(sequence), 280);
    or_kv_sequence_truncate(sequence, 263); // attends to 224
    assert_int_equal(or_kv_sequence_length(sequence), 263);
    or_kv_sequence_truncate(sequence, 262);
    assert_int_equal(or_kv_sequence_length(sequence), 0);
    assert_int_equal(or_kv_cache_pages_free(cache), 20);
    append(sequence, 70);
    kv_test_assert_mark(sequence, 69, 69);
    or_kv_sequence_close(&sequence);
    or_kv_cache_destroy(&cache);
}

static void a_donor_gives_what_its_windows_have(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_bounded_cache(30, 40, 20, 8);
    or_kv_sequence_t *donor = kv_test_open(cache, 400, 0);
    or_kv_sequence_t *sharer = kv_test_open(cache, 400, 0);
    append(donor, 300);
    append(sharer, 10);
    assert_int_equal(or_kv_sequence_usable(donor, 300, 262), 0);
    assert_int_equal(or_kv_sequence_usable(donor, 300, 263), 263);
    assert_int_equal(or_kv_sequence_usable(donor, 400, 263), 0); // once it has grown
    or_kv_sequence_share(sharer, donor, 262);
    assert_int_equal(or_kv_sequence_length(sharer), 0);
    or_kv_sequence_share(sharer, donor, 290);
    assert_int_equal(or_kv_sequence_length(sharer), 290);
    or_kv_sequence_close(&donor);
    for (uint32_t i = 290 - 39; i < 290; i++) {
        kv_test_assert_mark(sharer, i, i);
    }
    or_kv_sequence_close(&sharer);
    assert_int_equal(cache->frames->free_count, 8);
    or_kv_cache_destroy(&cache);
}

static void a_pool_without_frames_is_full(void **state)
{
    (void)state;
    or_kv_cache_t *cache = kv_test_bounded_cache(30, 40, 20, 3);
    or_kv_sequence_t *one = kv_test_open(cache, 400, 0);
    or_kv_sequence_t *two = kv_test_open(cache, 400, 0);
    append(one, 90);
    assert_int_equal(or_kv_cache_pages_free(cache), 0);
    assert_int_equal(or_kv_cache_pages_unused(cache), 0);
    assert_int_equal(or_kv_sequence_reserve(two, 1), OR_ERR_FULL);
    assert_false(kv_test_try_append(two, 0));
    or_kv_sequence_close(&one);
    append(two, 5);
    assert_int_equal(or_kv_cache_pages_free(cache), 2);
    assert_int_equal(or_kv_cache_pages_unused(cache), 20); // two thirds, as of the frames
    or_kv_sequence_close(&two);
    or_kv_cache_destroy(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_kept_whatever_is_done),
        cmocka_unit_test(a_long_text_takes_few_frames),
        cmocka_unit_test(a_text_is_cut_back_by_the_slack_or_read_again),
        cmocka_unit_test(a_donor_gives_what_its_windows_have),
        cmocka_unit_test(a_pool_without_frames_is_full),
    };
    kv_test_key_type = OR_KV_F16;
    kv_test_value_type = OR_KV_Q8_0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
