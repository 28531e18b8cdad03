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

// What a model on these ranks answers.
static record_t play_on(const char *path, const or_model_options_t *options, int size, int stages,
                        play_t *play)
{
    thread_world_t *world = thread_world_create(size, stages);
    thread_world_follow(world, path, options);
    or_model_options_t leads = *options;
    leads.ranks = thread_world_ranks(world, 0);
    model_fixture_t fixture;
    record_t answers = {0};
    model_fixture_open(&fixture, path, NULL, leads);
    play(fixture.model, &answers);
    model_fixture_close(&fixture);
    if (thread_world_join(world) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    thread_world_destroy(&world);
    return answers;
}

static uint32_t layers_of(const char *path)
{
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){.threads = 1});
    uint32_t layers = or_model_shape(fixture.model)->layers;
    model_fixture_close(&fixture);
    return layers;
}

void check_worlds(const char *path, const or_model_options_t *options, play_t *play)
{
    static const struct {
        int size;
        uint32_t stages;
    } worlds[] = {{2, 1}, {4, 1}, {8, 1}, {1, 2}, {2, 2}};
    record_t expected = play_on(path, options, 1, 1, play);
    uint32_t layers = layers_of(path);
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        if (worlds[w].stages > layers) {
            continue;
        }
        record_t answers = play_on(path, options, worlds[w].size, (int)worlds[w].stages, play);
        assert_int_equal(answers.count, expected.count);
        if (memcmp(answers.bytes, expected.bytes, expected.count) != 0) {
            fail_msg("%s differs on %d ranks x %u stages", path, worlds[w].size, worlds[w].stages);
        }
        free(answers.bytes);
    }
    free(expected.bytes);
}
