// The older form of an importance matrix: entries one after the other, as llama.cpp wrote them before GGUF.
#include "launch/model/imatrix_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES_MIN 17u // three numbers, a letter and a value

typedef struct {
    const char *at;
    size_t left;
} cursor_t;

static bool take(cursor_t *cursor, void *to, size_t count)
{
    if (cursor->left < count) {
        return false;
    }
    memcpy(to, cursor->at, count);
    cursor->at += count;
    cursor->left -= count;
    return true;
}

static or_status_t fail_truncated(const or_imatrix_t *imatrix, uint32_t entry)
{
    return or_fail(OR_ERR_FORMAT, "%s ends within entry %" PRIu32 " of the importance matrix",
                   imatrix->path, entry + 1);
}

static or_status_t read_values(const or_imatrix_t *imatrix, cursor_t *cursor, int32_t calls,
                               or_imatrix_entry_t *entry)
{
    for (uint64_t i = 0; i < entry->count; i++) {
        float value;
        if (!take(cursor, &value, sizeof value)) {
            return fail_truncated(imatrix, imatrix->count - 1);
        }
        if (!or_imatrix_is_sum(value)) {
            return or_fail(OR_ERR_FORMAT, "%s: %s has the sum %g, which no squares add up to",
                           imatrix->path, entry->name, (double)value);
        }
        entry->values[i] = value / (float)calls;
    }
    return OR_OK;
}

static or_status_t read_entry(or_imatrix_t *imatrix, cursor_t *cursor)
{
    uint32_t length, values;
    int32_t calls;
    if (!take(cursor, &length, sizeof length) || cursor->left < length) {
        return fail_truncated(imatrix, imatrix->count);
    }
    const char *name = cursor->at;
    if (length == 0 || length > OR_IMATRIX_NAME_MAX || memchr(name, '\0', length) != NULL) {
        return or_fail(OR_ERR_FORMAT, "%s: entry %" PRIu32 " has no name of a tensor",
                       imatrix->path, imatrix->count + 1);
    }
    cursor->at += length;
    cursor->left -= length;
    if (!take(cursor, &calls, sizeof calls) || !take(cursor, &values, sizeof values) ||
        values > cursor->left / sizeof(float)) {
        return fail_truncated(imatrix, imatrix->count);
    }
    if (calls < 1 || values < 1) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: %.*s has %" PRIu32 " values of %" PRId32 " calls: it has seen no rows",
                       imatrix->path, (int)length, name, values, calls);
    }
    or_imatrix_entry_t *entry;
    or_status_t status = or_imatrix_take(imatrix, name, length, values, &entry);
    return status != OR_OK ? status : read_values(imatrix, cursor, calls, entry);
}

// What may stand behind the entries: the chunks, and the data set.
static or_status_t read_rest(or_imatrix_t *imatrix, cursor_t *cursor)
{
    uint32_t length = 0;
    bool whole = cursor->left == 0 || take(cursor, &imatrix->chunks, sizeof imatrix->chunks);
    whole = whole && (cursor->left == 0 || take(cursor, &length, sizeof length));
    if (!whole || cursor->left != length) {
        return or_fail(OR_ERR_FORMAT, "%s has bytes behind its entries that name no data set",
                       imatrix->path);
    }
    imatrix->dataset = length > 0 ? strndup(cursor->at, length) : NULL;
    return length == 0 || imatrix->dataset != NULL ? OR_OK : or_imatrix_fail_memory(imatrix);
}

or_status_t or_imatrix_read_legacy(or_imatrix_t *imatrix, const void *bytes, size_t count)
{
    cursor_t cursor = {bytes, count};
    uint32_t entries = 0;
    if (!take(&cursor, &entries, sizeof entries) || entries < 1 ||
        entries > cursor.left / ENTRY_BYTES_MIN) {
        return or_fail(OR_ERR_FORMAT,
                       "%s is no importance matrix: neither a GGUF file nor one of llama.cpp's "
                       "older form with as many entries as it says",
                       imatrix->path);
    }
    imatrix->entries = calloc(entries, sizeof *imatrix->entries);
    if (imatrix->entries == NULL) {
        return or_imatrix_fail_memory(imatrix);
    }
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < entries; i++) {
        status = read_entry(imatrix, &cursor);
    }
    return status != OR_OK ? status : read_rest(imatrix, &cursor);
}
