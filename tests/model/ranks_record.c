#include "tests/model/ranks_record.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/thread_world.h"

void record_bytes(record_t *record, const void *bytes, size_t count)
{
    if (record->count + count > record->room) {
        record->room = 2 * (record->count + count);
        record->bytes = realloc(record->bytes, record->room);
        assert_non_null(record->bytes);
    }
    memcpy(record->bytes + record->count, bytes, count);
    record->count += count;
}

void record_number(record_t *record, uint32_t number)
{
    record_bytes(record, &number, sizeof number);
}

record_t record_play(const char *path, const world_t *world, play_t *play)
{
    thread_world_t *threads = thread_world_create(world->size, world->stages);
    thread_world_follow(threads, path, &world->others);
    or_model_options_t leads = world->leader;
    leads.ranks = thread_world_ranks(threads, 0);
    model_fixture_t fixture;
    record_t answers = {0};
    model_fixture_open(&fixture, path, NULL, leads);
    play(fixture.model, &answers);
    model_fixture_close(&fixture);
    if (thread_world_join(threads) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    thread_world_destroy(&threads);
    return answers;
}

static int layers_of(const char *path)
{
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){.threads = 1});
    uint32_t layers = or_model_shape(fixture.model)->layers;
    model_fixture_close(&fixture);
    return (int)layers;
}

void check_world(const char *path, const world_t *world, play_t *play, const record_t *expected)
{
    if (world->stages > layers_of(path)) {
        return;
    }
    record_t answers = record_play(path, world, play);
    assert_int_equal(answers.count, expected->count);
    if (memcmp(answers.bytes, expected->bytes, expected->count) != 0) {
        fail_msg("%s differs on %d ranks x %d stages", path, world->size, world->stages);
    }
    free(answers.bytes);
}

void check_worlds(const char *path, const or_model_options_t *options, play_t *play)
{
    static const int sizes[] = {2, 4, 8, 1, 2};
    static const int stages[] = {1, 1, 1, 2, 2};
    record_t expected = record_play(path, &(world_t){1, 1, *options, *options}, play);
    for (size_t w = 0; w < sizeof sizes / sizeof sizes[0]; w++) {
        check_world(path, &(world_t){sizes[w], stages[w], *options, *options}, play, &expected);
    }
    free(expected.bytes);
}
