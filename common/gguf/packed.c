#include "common/gguf/packed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/log/log.h"
#include "common/base/user_folder.h"
#include "common/gguf/gguf_internal.h"
#include "common/gguf/packed_internal.h"

#define ADVICE "; `outrider model pack --force` makes it anew"
#define OTHERS_MAY_WRITE (S_IWGRP | S_IWOTH)

// ---- names and places ----

bool or_gguf_is_packed(const or_gguf_t *gguf)
{
    return or_gguf_has(gguf, OR_PACKED_LAYOUT_KEY);
}

or_status_t or_packed_name(const or_gguf_tensor_t *tensor, uint64_t offset,
                           char name[OR_PACKED_NAME_BYTES])
{
    const or_gguf_string_t whole = tensor->name;
    int length = offset == 0
                     ? snprintf(name, OR_PACKED_NAME_BYTES, "%.*s", (int)whole.length, whole.bytes)
                     : snprintf(name, OR_PACKED_NAME_BYTES, "%.*s+%" PRIu64, (int)whole.length,
                                whole.bytes, offset);
    return length < OR_PACKED_NAME_BYTES
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED, "the name of tensor %.*s... is too long to be packed",
                         or_gguf_shown(whole), whole.bytes);
}

static or_status_t check_length(int length)
{
    return length < OR_PACKED_PATH_BYTES
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the path of the packed file would be too long");
}

or_status_t or_packed_path_beside(const char *path, char packed[OR_PACKED_PATH_BYTES])
{
    return check_length(snprintf(packed, OR_PACKED_PATH_BYTES, "%s.packed", path));
}

// Files of one name in several folders each have their own place.
or_status_t or_packed_path_cached(const char *path, char packed[OR_PACKED_PATH_BYTES])
{
    char cache[OR_PACKED_PATH_BYTES];
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    or_status_t status = or_user_folder_find(OR_USER_CACHE, cache, sizeof cache);
    if (status != OR_OK) {
        return status;
    }
    char *full = realpath(path, NULL);
    if (full == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "%s: cannot open: %s", path, strerror(errno));
    }
    uint64_t place = XXH64(full, strlen(full), 0);
    free(full);
    return check_length(
        snprintf(packed, OR_PACKED_PATH_BYTES, "%s/%s-%016" PRIx64 ".packed", cache, name, place));
}

or_status_t or_packed_check_wish(const char *wish, uint64_t weights_memory)
{
    if (wish != NULL && wish[0] == '\0') {
        return or_fail(OR_ERR_INVALID, "--packed: it is auto, off or a file");
    }
    return wish == NULL || strcmp(wish, "off") != 0 || weights_memory == 0
               ? OR_OK
               : or_fail(OR_ERR_INVALID,
                         "--weights-memory reads layers from the packed file: leave --packed off "
                         "out, and make the file with `outrider model pack`");
}

// ---- trust ----

static or_status_t distrust(const or_packed_t *packed, const char *why)
{
    return or_fail(OR_ERR_MISMATCH, "%s is not used: %s" ADVICE, or_packed_path(packed), why);
}

static or_status_t check_owner(const or_packed_t *packed)
{
    struct stat info;
    if (fstat(packed->file->fd, &info) != 0) {
        return or_fail(OR_ERR_IO, "%s: cannot open: %s", packed->file->path, strerror(errno));
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return distrust(packed, "it belongs to another user");
    }
    return (info.st_mode & OTHERS_MAY_WRITE) == 0 ? OR_OK
                                                  : distrust(packed, "others may write to it");
}

static bool says(const or_gguf_t *file, const char *key, const char *value)
{
    or_gguf_string_t said;
    return or_gguf_get_string(file, key, &said) == OR_OK && said.length == strlen(value) &&
           memcmp(said.bytes, value, said.length) == 0;
}

static or_status_t check_source(const or_packed_t *packed, const or_gguf_t *gguf)
{
    char identity[17];
    snprintf(identity, sizeof identity, "%016" PRIx64, or_gguf_identity(gguf));
    if (!says(packed->file, OR_PACKED_LAYOUT_KEY, OR_PACKED_LAYOUT)) {
        return distrust(packed, "it is of another version of this program, or no packed file");
    }
    return says(packed->file, OR_PACKED_IDENTITY_KEY, identity)
               ? OR_OK
               : distrust(packed, "it was made of another file, or the model was changed, moved to "
                                  "another disk or touched since");
}

// ---- what is in it ----

static or_status_t damaged(const or_packed_t *packed, const char *how)
{
    return or_fail(OR_ERR_FORMAT, "%s is not used: it is damaged, %s" ADVICE,
                   or_packed_path(packed), how);
}

// The checksums come last and are as many as there are pieces in front of them.
static or_status_t find_checksums(or_packed_t *packed)
{
    const or_gguf_t *file = packed->file;
    packed->checksums = or_gguf_find_tensor(file, OR_PACKED_CHECKSUMS);
    if (packed->checksums == NULL || packed->checksums->data == NULL) {
        return damaged(packed, "without checksums");
    }
    packed->begin = file->map;
    packed->bytes = (uint64_t)((const unsigned char *)packed->checksums->data - file->map);
    packed->pieces = (packed->bytes + OR_PACKED_PIECE - 1) / OR_PACKED_PIECE;
    uint64_t end = packed->bytes + packed->checksums->bytes;
    uint64_t padding = (OR_PACKED_ALIGNMENT - end % OR_PACKED_ALIGNMENT) % OR_PACKED_ALIGNMENT;
    return packed->checksums->bytes == packed->pieces * sizeof(XXH128_canonical_t) &&
                   end + padding == file->bytes
               ? OR_OK
               : damaged(packed, "of another size than it says");
}

// Matrices follow each other in the order of the table, each at its page.
static or_status_t check_order(const or_packed_t *packed)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < packed->file->tensor_count; i++) {
        const or_gguf_tensor_t *tensor = &packed->file->tensors[i];
        uint64_t at = tensor->data == NULL
                          ? 0
                          : (uint64_t)((const unsigned char *)tensor->data - packed->begin);
        if (at < end || at % OR_PACKED_ALIGNMENT != 0 || tensor->bytes == 0) {
            return damaged(packed, "with matrices in each other's place");
        }
        end = at + tensor->bytes;
    }
    return OR_OK;
}

static or_status_t read_fingerprint(const or_packed_t *packed, uint64_t *fingerprint)
{
    or_gguf_string_t said;
    char digits[17] = "";
    char *end;
    if (or_gguf_get_string(packed->file, OR_PACKED_FINGERPRINT_KEY, &said) != OR_OK ||
        said.length != sizeof digits - 1) {
        return damaged(packed, "without the model's fingerprint");
    }
    memcpy(digits, said.bytes, said.length);
    *fingerprint = strtoull(digits, &end, 16);
    return *end == '\0' && *fingerprint != 0 ? OR_OK
                                             : damaged(packed, "without the model's fingerprint");
}

// What was read so far must have its checksum at once.
static or_status_t check_front(or_packed_t *packed)
{
    const unsigned char *first = packed->file->tensors[0].data; // there are the checksums at least
    uint64_t end = (uint64_t)(first - packed->begin);
    for (uint64_t piece = 0; piece < packed->pieces && piece * OR_PACKED_PIECE < end; piece++) {
        if (!or_packed_piece_check(packed, piece, packed->begin + piece * OR_PACKED_PIECE)) {
            return damaged(packed, "near its beginning");
        }
    }
    return OR_OK;
}

static or_status_t check_file(or_packed_t *packed, const or_gguf_t *gguf)
{
    uint64_t fingerprint = 0;
    or_status_t status = check_owner(packed);
    status = status != OR_OK ? status : check_source(packed, gguf);
    status = status != OR_OK ? status : find_checksums(packed);
    status = status != OR_OK ? status : check_order(packed);
    status = status != OR_OK ? status : check_front(packed);
    status = status != OR_OK ? status : read_fingerprint(packed, &fingerprint);
    if (status == OR_OK && gguf->fingerprint == 0) {
        ((or_gguf_t *)(uintptr_t)gguf)->fingerprint = fingerprint; // as or_gguf_fingerprint does
    }
    return status;
}

or_status_t or_packed_open(const or_gguf_t *gguf, const char *path, uint32_t threads,
                           or_packed_t **packed_p)
{
    or_packed_t *packed = calloc(1, sizeof *packed);
    if (packed == NULL) {
        return or_gguf_no_memory(path);
    }
    or_status_t status = or_gguf_open_file(path, &packed->file);
    status = status != OR_OK ? status : check_file(packed, gguf);
    if (status != OR_OK) {
        or_packed_close(&packed);
        return status;
    }
    or_packed_compare_begin(packed, threads);
    *packed_p = packed;
    return OR_OK;
}

// ---- which ----

typedef or_status_t find_path_t(const char *path, char packed[OR_PACKED_PATH_BYTES]);

static or_status_t open_at(const or_gguf_t *gguf, const char *path, uint32_t threads,
                           or_packed_t **packed_p)
{
    or_status_t status = or_packed_open(gguf, path, threads, packed_p);
    if (status != OR_OK) {
        or_log(OR_LOG_WARN, "%s: it is packed at each start: %s", gguf->path, or_error_text());
    }
    return status;
}

// Open the first of the two places that can be used. If none can, what is said is of one that has a file.
static void open_found(const or_gguf_t *gguf, uint32_t threads, or_packed_t **packed_p)
{
    static find_path_t *const places[] = {or_packed_path_beside, or_packed_path_cached};
    char path[OR_PACKED_PATH_BYTES], tried[OR_PACKED_PATH_BYTES] = "";
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i](gguf->path, path) != OR_OK || access(path, F_OK) != 0) {
            continue;
        }
        if (or_packed_open(gguf, path, threads, packed_p) == OR_OK) {
            return;
        }
        memcpy(tried, path, sizeof tried);
    }
    if (tried[0] != '\0') {
        open_at(gguf, tried, threads, packed_p);
    }
}

void or_packed_open_wished(const or_gguf_t *gguf, const char *wish, uint32_t threads,
                           or_packed_t **packed_p)
{
    *packed_p = NULL;
    if (wish == NULL || strcmp(wish, "off") == 0 || gguf->borrowed) {
        return;
    }
    if (strcmp(wish, "auto") == 0) {
        open_found(gguf, threads, packed_p);
    } else {
        open_at(gguf, wish, threads, packed_p);
    }
}

void or_packed_recall(const or_gguf_t *gguf)
{
    or_packed_t *packed = NULL;
    if (gguf->fingerprint == 0) {
        or_packed_open_wished(gguf, "auto", 0, &packed);
        or_packed_close(&packed);
    }
}

void or_packed_close(or_packed_t **packed_p)
{
    or_packed_t *packed = *packed_p;
    if (packed == NULL) {
        return;
    }
    or_packed_compare_end(packed, true);
    or_gguf_close(&packed->file);
    free(packed->only);
    free(packed);
    *packed_p = NULL;
}

// ---- an open one ----

const char *or_packed_path(const or_packed_t *packed)
{
    return packed->file->path;
}

const void *or_packed_find(const or_packed_t *packed, const char *name, uint64_t bytes)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(packed->file, name);
    return tensor != NULL && tensor != packed->checksums && tensor->bytes == bytes ? tensor->data
                                                                                   : NULL;
}

const unsigned char *or_packed_begin(const or_packed_t *packed)
{
    return packed->begin;
}

or_status_t or_packed_compare_only(or_packed_t *packed, const or_packed_span_t *spans,
                                   uint32_t count, uint32_t threads)
{
    packed->only = calloc(packed->pieces, sizeof *packed->only);
    if (packed->only == NULL) {
        return or_gguf_no_memory(or_packed_path(packed));
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end = spans[i].at + spans[i].bytes;
        for (uint64_t at = spans[i].at; at < end; at += OR_PACKED_PIECE - at % OR_PACKED_PIECE) {
            packed->only[at / OR_PACKED_PIECE] = true;
        }
    }
    or_packed_compare_begin(packed, threads);
    return OR_OK;
}

static or_status_t fail_broken(const or_packed_t *packed, uint64_t piece)
{
    uint64_t at = piece * OR_PACKED_PIECE;
    const or_gguf_tensor_t *tensor = packed->file->tensors;
    for (uint64_t i = 1; i < packed->file->tensor_count; i++) {
        const or_gguf_tensor_t *next = &packed->file->tensors[i];
        bool begins_before = (const unsigned char *)next->data <= packed->begin + at;
        tensor = begins_before ? next : tensor;
    }
    return or_fail(OR_ERR_IO,
                   "%s is damaged between bytes %" PRIu64 " and %" PRIu64 " (about %.*s)" ADVICE
                   ", --packed off does without it",
                   or_packed_path(packed), at, at + OR_PACKED_PIECE, or_gguf_shown(tensor->name),
                   tensor->name.bytes);
}

static or_status_t fail_changed(const or_packed_t *packed)
{
    return or_fail(OR_ERR_IO, "%s was changed while it was in use" ADVICE, or_packed_path(packed));
}

static or_status_t fail_unreadable(const or_packed_t *packed, int error)
{
    return or_fail(OR_ERR_IO, "%s cannot be read any more: %s", or_packed_path(packed),
                   error > 0 ? strerror(error) : "it ends too soon");
}

// Record why the file is lost; OR_OK if it is not.
static or_status_t find_fault(const or_packed_t *packed)
{
    uint64_t broken = atomic_load(&packed->broken);
    int unreadable = atomic_load(&packed->unreadable);
    return !or_gguf_is_unchanged(packed->file) ? fail_changed(packed)
           : broken > 0                        ? fail_broken(packed, broken - 1)
           : unreadable != 0                   ? fail_unreadable(packed, unreadable)
                                               : OR_OK;
}

or_status_t or_packed_judge(or_packed_t *packed)
{
    or_status_t status = find_fault(packed);
    packed->lost = packed->lost || status != OR_OK;
    return packed->lost && status == OR_OK ? fail_changed(packed) : status;
}

or_status_t or_packed_check(or_packed_t *packed)
{
    if (packed == NULL) {
        return OR_OK;
    }
    if (or_gguf_is_unchanged(packed->file)) {
        or_packed_compare_end(packed, false);
    }
    return or_packed_judge(packed);
}

bool or_packed_is_lost(const or_packed_t *packed)
{
    if (packed == NULL || !packed->lost) {
        return false;
    }
    if (find_fault(packed) == OR_OK) {
        fail_changed(packed);
    }
    return true;
}
