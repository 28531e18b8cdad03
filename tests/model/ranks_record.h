// ranks_record - the same calls made to a model alone and to the leader of several ranks, and all that comes
// of them compared, for the tests of this folder.
#pragma once

#include "tests/model/model_fixture.h"

// The results of the calls, in order.
typedef struct {
    unsigned char *bytes;
    size_t count;
    size_t room;
} record_t;

void record_bytes(record_t *record, const void *bytes, size_t count);
void record_number(record_t *record, uint32_t number);

// Call the model, record what it answers, and close all sequences.
typedef void play_t(or_model_t *model, record_t *record);

// Ranks, and how they load the model; `ranks` of these options is not looked at.
typedef struct {
    int size;
    int stages;
    or_model_options_t leader;
    or_model_options_t others;
} world_t;

// Return what the leader of this world answers; the caller frees its bytes. The test fails if a rank that follows
// ends badly.
record_t record_play(const char *path, const world_t *world, play_t *play);
// Play on this world, if the model has the layers; fails the test where the record differs.
void check_world(const char *path, const world_t *world, play_t *play, const record_t *expected);

// Play on one rank, on 2, 4 and 8, and in two stages of 1 and 2, all with these options.
void check_worlds(const char *path, const or_model_options_t *options, play_t *play);
