#include "common/gguf/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/gguf/gguf_internal.h"

// The least bytes that a metadata entry and a string take in the file.
#define MIN_ENTRY_BYTES (8 + 4 + 1)
#define MIN_STRING_BYTES 8

// -- metadata
// ---------------------------------------------------------------------------------------------------------

// Note where each string of an array begins, so that any one is found in constant time.
static or_status_t read_string_array(reader_t *reader, or_gguf_array_t *array)
{
    or_status_t status = or_gguf_check_count(reader, "strings", array->count, MIN_STRING_BYTES);
    if (status != OR_OK) {
        return status;
    }
    const unsigned char **strings = malloc((array->count + 1) * sizeof *strings);
    if (strings == NULL) {
        return or_gguf_no_memory(reader->path);
    }
    for (uint64_t i = 0; i < array->count; i++) {
        or_gguf_string_t string;
        strings[i] = reader->base + reader->at;
        status = or_gguf_take_string(reader, "a string of an array", &string);
        if (status != OR_OK) {
            free(strings);
            return status;
        }
    }
    array->data = strings;
    return OR_OK;
}

static or_status_t read_array(reader_t *reader, or_gguf_array_t *array)
{
    uint32_t type = 0;
    or_status_t status = or_gguf_take_u32(reader, "an array's type", &type);
    if (status == OR_OK) {
        status = or_gguf_take_u64(reader, "an array's length", &array->count);
    }
    if (status != OR_OK) {
        return status;
    }
    array->type = (or_gguf_type_t)type;
    if (type == OR_GGUF_STRING) {
        return read_string_array(reader, array);
    }
    uint32_t element_bytes = or_gguf_type_bytes(type);
    if (element_bytes == 0) {
        return or_fail(OR_ERR_FORMAT, "%s: an array of type %" PRIu32 " at byte %" PRIu64 " (%s)",
                       reader->path, type, reader->at,
                       type == OR_GGUF_ARRAY ? "arrays of arrays are not supported"
                                             : "no such type");
    }
    status = or_gguf_check_count(reader, "array elements", array->count, element_bytes);
    const unsigned char *data = NULL;
    if (status == OR_OK) {
        status = or_gguf_take(reader, array->count * element_bytes, "an array", &data);
    }
    if (status == OR_OK) {
        array->data = data;
    }
    return status;
}

static or_status_t read_entry(reader_t *reader, entry_t *entry)
{
    uint32_t type = 0;
    or_status_t status = or_gguf_take_name(reader, "a metadata key", &entry->key);
    if (status == OR_OK) {
        status = or_gguf_take_u32(reader, "a metadata type", &type);
    }
    if (status != OR_OK) {
        return status;
    }
    entry->type = (or_gguf_type_t)type;
    entry->value = reader->base + reader->at;
    or_gguf_string_t string;
    const unsigned char *number;
    if (type == OR_GGUF_STRING) {
        status = or_gguf_take_string(reader, "a metadata string", &string);
    } else if (type == OR_GGUF_ARRAY) {
        status = read_array(reader, &entry->array);
    } else if (or_gguf_type_bytes(type) > 0) {
        status = or_gguf_take(reader, or_gguf_type_bytes(type), "a metadata value", &number);
    } else {
        return or_fail(OR_ERR_FORMAT, "%s: damaged: %.*s has the unknown type %" PRIu32,
                       reader->path, or_gguf_shown(entry->key), entry->key.bytes, type);
    }
    entry->end = reader->base + reader->at;
    return or_fail_context(status, "%.*s", or_gguf_shown(entry->key), entry->key.bytes);
}

static or_status_t read_metadata(reader_t *reader, or_gguf_t *gguf, uint64_t count)
{
    or_status_t status = or_gguf_check_count(reader, "metadata entries", count, MIN_ENTRY_BYTES);
    if (status != OR_OK) {
        return status;
    }
    gguf->entries = calloc(count + 1, sizeof *gguf->entries);
    if (gguf->entries == NULL) {
        return or_gguf_no_memory(reader->path);
    }
    for (uint64_t i = 0; i < count; i++) {
        gguf->entry_count = i + 1; // close frees what a failing entry may own
        status = read_entry(reader, &gguf->entries[i]);
        if (status != OR_OK) {
            return status;
        }
    }
    const or_gguf_string_t *twice;
    status = or_gguf_index_build(&gguf->entry_index, gguf->entries, sizeof *gguf->entries, count,
                                 &twice);
    if (status == OR_OK && twice != NULL) {
        return or_fail(OR_ERR_FORMAT, "%s: damaged: the metadata key %.*s occurs twice",
                       reader->path, or_gguf_shown(*twice), twice->bytes);
    }
    return status;
}

// -- the file
// ---------------------------------------------------------------------------------------------------------

static or_status_t refuse_magic(const reader_t *reader)
{
    char start[13] = "";
    for (size_t i = 0; i < sizeof start - 1 && i < reader->size; i++) {
        unsigned char byte = reader->base[i];
        start[i] = byte >= ' ' && byte <= '~' && byte != '"' ? (char)byte : '?';
    }
    return or_fail(OR_ERR_FORMAT,
                   "%s: not a GGUF file (it starts with \"%s\"); give a model in GGUF format, "
                   "usually named *.gguf",
                   reader->path, start);
}

static or_status_t read_version(reader_t *reader, uint32_t *version)
{
    or_status_t status = or_gguf_take_u32(reader, "the version", version);
    if (status != OR_OK) {
        return status;
    }
    if (*version == 2 || *version == 3) {
        return OR_OK;
    }
    if (__builtin_bswap32(*version) <= 3) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: a big-endian GGUF file; convert the model again on (or for) a "
                       "little-endian machine",
                       reader->path);
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: GGUF version %" PRIu32 "; versions 2 and 3 can be read: convert the model "
                   "again with current tools",
                   reader->path, *version);
}

static or_status_t read_file(or_gguf_t *gguf)
{
    reader_t reader = {gguf->map, gguf->bytes, 0, gguf->path};
    if (reader.size < 4 || memcmp(reader.base, "GGUF", 4) != 0) {
        return refuse_magic(&reader);
    }
    reader.at = 4;
    uint64_t tensor_count = 0;
    uint64_t entry_count = 0;
    or_status_t status = read_version(&reader, &gguf->version);
    if (status == OR_OK) {
        status = or_gguf_take_u64(&reader, "the number of tensors", &tensor_count);
    }
    if (status == OR_OK) {
        status = or_gguf_take_u64(&reader, "the number of metadata entries", &entry_count);
    }
    if (status == OR_OK) {
        status = read_metadata(&reader, gguf, entry_count);
    }
    if (status == OR_OK) {
        status = or_gguf_read_tensors(&reader, gguf, tensor_count);
    }
    return status;
}

uint64_t or_gguf_identity_of(const struct stat *info)
{
    const uint64_t what[] = {info->st_dev, info->st_ino, (uint64_t)info->st_size,
                             (uint64_t)info->st_mtim.tv_sec, (uint64_t)info->st_mtim.tv_nsec};
    return XXH64(what, sizeof what, 0);
}

static or_status_t map_file(or_gguf_t *gguf)
{
    or_status_t status = OR_OK;
    struct stat info;
    gguf->fd = open(gguf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not hang us
    if (gguf->fd < 0) {
        return or_fail(OR_ERR_IO, "%s: cannot open: %s", gguf->path, strerror(errno));
    }
    if (fstat(gguf->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = or_fail(OR_ERR_IO, "%s: not a regular file; give a GGUF file", gguf->path);
    } else if (info.st_size == 0) {
        status = or_fail(OR_ERR_FORMAT, "%s: not a GGUF file (it is empty)", gguf->path);
    } else {
        void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, gguf->fd, 0);
        if (map == MAP_FAILED) {
            status = or_fail(OR_ERR_IO, "%s: cannot map: %s", gguf->path, strerror(errno));
        } else {
            gguf->map = map;
            gguf->bytes = (uint64_t)info.st_size;
            gguf->identity = or_gguf_identity_of(&info);
            or_gguf_guard(gguf);
        }
    }
    return status;
}

static bool has_identity(const or_gguf_t *gguf)
{
    struct stat now;
    return gguf->borrowed ||
           (fstat(gguf->fd, &now) == 0 && or_gguf_identity_of(&now) == gguf->identity);
}

bool or_gguf_is_unchanged(const or_gguf_t *gguf)
{
    bool unchanged = has_identity(gguf);
    for (uint32_t i = 0; unchanged && i < gguf->later_count; i++) {
        unchanged = has_identity(gguf->later_parts[i]);
    }
    return unchanged;
}

static or_gguf_t *new_gguf(const char *path)
{
    or_gguf_t *gguf = calloc(1, sizeof *gguf);
    char *copy = strdup(path);
    if (gguf == NULL || copy == NULL) {
        free(copy);
        free(gguf);
        return NULL;
    }
    gguf->path = copy;
    gguf->fd = -1;
    return gguf;
}

or_status_t or_gguf_open_file(const char *path, or_gguf_t **gguf_p)
{
    or_gguf_t *gguf = new_gguf(path);
    if (gguf == NULL) {
        return or_gguf_no_memory(path);
    }
    or_status_t status = map_file(gguf);
    if (status == OR_OK) {
        status = read_file(gguf);
    }
    if (status != OR_OK) {
        or_gguf_close(&gguf);
        return status;
    }
    *gguf_p = gguf;
    return OR_OK;
}

or_status_t or_gguf_open(const char *path, or_gguf_t **gguf_p)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open_file(path, &gguf);
    if (status == OR_OK) {
        status = or_gguf_open_later_parts(gguf);
    }
    if (status != OR_OK) {
        or_gguf_close(&gguf);
        return status;
    }
    *gguf_p = gguf;
    return OR_OK;
}

or_status_t or_gguf_open_bytes(const char *name, const void *bytes, size_t count,
                               or_gguf_t **gguf_p)
{
    or_gguf_t *gguf = new_gguf(name);
    if (gguf == NULL) {
        return or_gguf_no_memory(name);
    }
    gguf->map = bytes;
    gguf->bytes = count;
    gguf->borrowed = true;
    or_status_t status = read_file(gguf);
    if (status == OR_OK && gguf->tensor_count > 0) {
        status = or_fail(OR_ERR_FORMAT, "%s: has tensors, where only metadata belong", name);
    }
    if (status != OR_OK) {
        or_gguf_close(&gguf);
        return status;
    }
    *gguf_p = gguf;
    return OR_OK;
}

void or_gguf_close(or_gguf_t **gguf_p)
{
    or_gguf_t *gguf = *gguf_p;
    if (gguf == NULL) {
        return;
    }
    for (uint32_t i = 0; i < gguf->later_count; i++) {
        or_gguf_close(&gguf->later_parts[i]);
    }
    free(gguf->later_parts);
    or_gguf_index_fini(&gguf->tensor_index);
    or_gguf_index_fini(&gguf->entry_index);
    for (uint64_t i = 0; i < gguf->entry_count; i++) {
        if (gguf->entries[i].array.type == OR_GGUF_STRING) {
            free((void *)gguf->entries[i].array.data);
        }
    }
    free(gguf->tensors);
    free(gguf->entries);
    if (gguf->map != NULL && !gguf->borrowed) {
        or_gguf_unguard(gguf);
        munmap((void *)gguf->map, gguf->bytes);
    }
    if (gguf->fd >= 0) {
        close(gguf->fd);
    }
    free(gguf->path);
    free(gguf);
    *gguf_p = NULL;
}
