// json_fields - values of a checkpoint's JSON files, with sentences that name the file and the key.
//
// A value that is null is one that is not there. The get functions then leave the output as it is.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "common/gguf/gguf.h"

// An object and the name of its file; both borrowed.
typedef struct {
    const char *path;
    const json_t *object;
} or_json_t;

// Read a file whose value is an object; the caller decrefs *root_p. OR_ERR_NOT_FOUND if there is no such file; OR_ERR_IO;
// OR_ERR_FORMAT: no JSON, no object, or larger than `bytes_max`.
or_status_t or_json_read_file(const char *path, size_t bytes_max, json_t **root_p);

bool or_json_has(or_json_t from, const char *key);
// OR_ERR_FORMAT if it is there and something else, or out of range.
or_status_t or_json_get_u32(or_json_t from, const char *key, uint32_t *value);
or_status_t or_json_get_number(or_json_t from, const char *key, double *value);
or_status_t or_json_get_bool(or_json_t from, const char *key, bool *value);
or_status_t or_json_get_string(or_json_t from, const char *key, or_gguf_string_t *value);
// The same for an object: its `object` is NULL if it is not there.
or_status_t or_json_get_object(or_json_t from, const char *key, or_json_t *value);
// OR_ERR_FORMAT also if it is not there.
or_status_t or_json_need_u32(or_json_t from, const char *key, uint32_t *value);
or_status_t or_json_need_number(or_json_t from, const char *key, double *value);

// Is this value the text?
bool or_json_is(const json_t *value, const char *text);
// The string of a value that is one.
or_gguf_string_t or_json_string(const json_t *value);
