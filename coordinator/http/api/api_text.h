// api_text - JSON as it grows: what is kept of an answer until it is whole costs its own bytes, not those of objects.
//
// One that has failed for want of memory takes nothing more, and says so at its end. One thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *bytes; // NUL behind them; NULL: none yet
    size_t count, capacity;
    bool failed;
} or_api_text_t;

void or_api_text_fini(or_api_text_t *text);
void or_api_text_add(or_api_text_t *text, const char *bytes, size_t count);
void or_api_text_say(or_api_text_t *text, const char *words);
// The members of an object, or the entries of an array, without what encloses them: behind a comma, if there are
// some before them. Takes it; NULL has failed.
void or_api_text_join(or_api_text_t *text, json_t *more);
