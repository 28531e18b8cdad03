#include "coordinator/http/api/api_json.h"

#include <stdlib.h>

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
