// message_test_random - for tests: random messages of every type, and field-by-field comparison.
// Not part of the library.
//
// Both walk one table of the message structs' fields, so that a field the codec forgets shows as a
// difference.
#pragma once

#include "proto/wire/message.h"

#define OR_RANDOM_TYPE_FIRST OR_MSG_HELLO
#define OR_RANDOM_TYPE_LAST OR_MSG_METRICS

// Fill *message with random fields; every array and string lives until message_test_random_free.
void message_test_random(uint64_t *state, or_message_type_t type, or_message_t *message);
void message_test_random_free(void);

// The first field that differs; NULL if all are equal. Absent and empty are equal; floats are
// compared by their bits.
const char *message_difference(const or_message_t *a, const or_message_t *b);
