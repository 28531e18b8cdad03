#include "launch/model/convert/json_fields.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- files ----

static or_status_t fail_read(const char *path, int error)
{
    return or_fail(error == ENOENT ? OR_ERR_NOT_FOUND : OR_ERR_IO, "cannot read %s: %s", path,
                   strerror(error));
}

// Read all of an open file; *text is malloc'd.
static or_status_t read_all(const char *path, int fd, size_t bytes_max, char **text, size_t *bytes)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_read(path, errno);
    }
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > bytes_max) {
        return or_fail(OR_ERR_FORMAT, "%s is no file of at most %zu MiB", path, bytes_max >> 20);
    }
    size_t size = (size_t)info.st_size;
    char *read_text = malloc(size + 1);
    if (read_text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    size_t done = 0;
    ssize_t got = 1;
    while (got > 0 && done < size) {
        got = read(fd, read_text + done, size - done);
        done += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        free(read_text);
        return fail_read(path, errno);
    }
    *text = read_text;
    *bytes = done;
    return OR_OK;
}

or_status_t or_json_read_file(const char *path, size_t bytes_max, json_t **root_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_read(path, errno);
    }
    char *text = NULL;
    size_t bytes = 0;
    or_status_t status = read_all(path, fd, bytes_max, &text, &bytes);
    close(fd);
    if (status != OR_OK) {
        return status;
    }
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(text);
    if (!json_is_object(root)) {
        status = root == NULL
                     ? or_fail(OR_ERR_FORMAT, "%s, line %d: %s", path, error.line, error.text)
                     : or_fail(OR_ERR_FORMAT, "%s is no JSON object", path);
        json_decref(root);
        return status;
    }
    *root_p = root;
    return OR_OK;
}

// ---- values ----

// The value, or NULL if it is null or not there.
static const json_t *find(or_json_t from, const char *key)
{
    const json_t *value = json_object_get(from.object, key);
    return json_is_null(value) ? NULL : value;
}

static or_status_t fail_type(or_json_t from, const char *key, const char *what)
{
    return or_fail(OR_ERR_FORMAT, "%s: \"%s\" is not %s", from.path, key, what);
}

static or_status_t fail_missing(or_json_t from, const char *key)
{
    return or_fail(OR_ERR_FORMAT, "%s has no \"%s\"", from.path, key);
}

bool or_json_has(or_json_t from, const char *key)
{
    return find(from, key) != NULL;
}

or_status_t or_json_get_u32(or_json_t from, const char *key, uint32_t *value)
{
    const json_t *found = find(from, key);
    if (found == NULL) {
        return OR_OK;
    }
    json_int_t number = json_integer_value(found);
    if (!json_is_integer(found) || number < 0 || number > UINT32_MAX) {
        return fail_type(from, key, "a whole number of 32 bits");
    }
    *value = (uint32_t)number;
    return OR_OK;
}

or_status_t or_json_get_number(or_json_t from, const char *key, double *value)
{
    const json_t *found = find(from, key);
    if (found == NULL) {
        return OR_OK;
    }
    double number = json_number_value(found);
    if (!json_is_number(found) || !isfinite((float)number)) {
        return fail_type(from, key, "a number");
    }
    *value = number;
    return OR_OK;
}

or_status_t or_json_get_bool(or_json_t from, const char *key, bool *value)
{
    const json_t *found = find(from, key);
    if (found == NULL) {
        return OR_OK;
    }
    if (!json_is_boolean(found)) {
        return fail_type(from, key, "true or false");
    }
    *value = json_is_true(found);
    return OR_OK;
}

or_status_t or_json_get_string(or_json_t from, const char *key, or_gguf_string_t *value)
{
    const json_t *found = find(from, key);
    if (found == NULL) {
        return OR_OK;
    }
    if (!json_is_string(found)) {
        return fail_type(from, key, "a text");
    }
    *value = or_json_string(found);
    return OR_OK;
}

or_status_t or_json_get_object(or_json_t from, const char *key, or_json_t *value)
{
    const json_t *found = find(from, key);
    if (found != NULL && !json_is_object(found)) {
        return fail_type(from, key, "an object");
    }
    *value = (or_json_t){from.path, found};
    return OR_OK;
}

or_status_t or_json_need_u32(or_json_t from, const char *key, uint32_t *value)
{
    return or_json_has(from, key) ? or_json_get_u32(from, key, value) : fail_missing(from, key);
}

or_status_t or_json_need_number(or_json_t from, const char *key, double *value)
{
    return or_json_has(from, key) ? or_json_get_number(from, key, value) : fail_missing(from, key);
}

bool or_json_is(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

or_gguf_string_t or_json_string(const json_t *value)
{
    return (or_gguf_string_t){json_string_value(value), json_string_length(value)};
}
