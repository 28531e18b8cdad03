#include "coordinator/http/api/api_text.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/http/api/api_json.h"

#define CAPACITY_USUAL 256u

void or_api_text_fini(or_api_text_t *text)
{
    free(text->bytes);
    *text = (or_api_text_t){0};
}

static bool grow(or_api_text_t *text, size_t needed)
{
    size_t capacity = text->capacity > 0 ? text->capacity : CAPACITY_USUAL;
    while (capacity < needed) {
        capacity += capacity / 2;
    }
    char *larger = capacity > text->capacity ? realloc(text->bytes, capacity) : text->bytes;
    if (larger != NULL) {
        text->bytes = larger;
        text->capacity = capacity;
    }
    return larger != NULL;
}

void or_api_text_add(or_api_text_t *text, const char *bytes, size_t count)
{
    text->failed = text->failed || !grow(text, text->count + count + 1);
    if (text->failed) {
        return;
    }
    if (count > 0) {
        memcpy(text->bytes + text->count, bytes, count);
    }
    text->count += count;
    text->bytes[text->count] = '\0';
}

void or_api_text_say(or_api_text_t *text, const char *words)
{
    or_api_text_add(text, words, strlen(words));
}

void or_api_text_join(or_api_text_t *text, json_t *more)
{
    char *dump = or_api_dump(more);
    size_t length = dump != NULL ? strlen(dump) : 0;
    text->failed = text->failed || dump == NULL;
    if (length > 2) {
        char before = text->count > 0 ? text->bytes[text->count - 1] : '{';
        if (before != '{' && before != '[' && before != ',') {
            or_api_text_add(text, ",", 1);
        }
        or_api_text_add(text, dump + 1, length - 2);
    }
    free(dump);
}
