#include "coordinator/http/api/api_json.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_USUAL 256u // bytes

static _Thread_local bool failed;

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    failed = failed || memory == NULL;
    return memory;
}

static void release(void *memory)
{
    free(memory);
}

void or_api_json_init(void)
{
    json_set_alloc_funcs(allocate, release);
}

void or_api_json_note_failure(void)
{
    failed = true;
}

bool or_api_json_has_failed(void)
{
    bool had = failed;
    failed = false;
    return had;
}

char *or_api_dump(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (or_api_json_has_failed()) {
        free(text);
        return NULL;
    }
    return text;
}

// ---- text that grows ----

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
