// api_request_test_support - bodies read as requests, against a vocabulary of five tokens: "a" and "b" besides the special ones.
#pragma once

#include <stdbool.h>

#include "coordinator/http/api/api_request.h"

#define VOCAB_SIZE 5u

typedef struct {
    or_vocab_t *vocab;
    or_api_terms_t terms;
    or_api_request_t request; // of the body read last
    or_api_problem_t problem;
} world_t;

// For each test, which cmocka calls: *state is a world_t.
int setup(void **state);
int teardown(void **state);

// Read a body into the world's request; false: it is refused, and the world's problem says why.
bool parse(world_t *world, bool chat, const char *body);
// The body is refused with this status, for this field, in a sentence.
void assert_refused(world_t *world, bool chat, const char *body, unsigned status,
                    const char *param);
