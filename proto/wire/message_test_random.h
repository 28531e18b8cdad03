// message_test_random - for tests: random messages of every type, and field-by-field comparison.
// Not part of the library.
//
// Both walk the codec's tables. message_protobuf_test.c compares these with the schema.
#pragma once

#include "proto/wire/message.h"

#define OR_RANDOM_TYPE_FIRST OR_MSG_HELLO
#define OR_RANDOM_TYPE_LAST OR_MSG_METRICS

// Fill *message with random fields; every array and string lives until message_test_random_free.
void message_test_random(uint64_t *state, or_message_type_t type, or_message_t *message);
void message_test_random_free(void);

// The same with fixed contents, for frames that may never change. They depend on the names of members alone.
typedef enum {
    GOLDEN_NONE,
    GOLDEN_ZERO,     // all is 0 and NULL
    GOLDEN_HOLLOW,   // every pointer points to nothing: empty strings, arrays of no entries
    GOLDEN_DISTINCT, // every field has another value, arrays have two entries
    GOLDEN_LARGE,    // the largest numbers, and lengths that take two bytes
} golden_t;
void message_test_golden(golden_t which, or_message_type_t type, or_message_t *message);

// The first field that differs; NULL if all are equal. Absent and empty are equal; floats are
// compared by their bits.
const char *message_difference(const or_message_t *a, const or_message_t *b);
