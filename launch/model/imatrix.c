#include "launch/model/imatrix_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (UINT64_C(1) << 32) // of the legacy form
#define SUMS ".in_sum2"
#define COUNTS ".counts"

bool or_imatrix_is_sum(float value)
{
    return isfinite(value) && value >= 0;
}

or_status_t or_imatrix_fail_memory(const or_imatrix_t *imatrix)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for the importance matrix %s", imatrix->path);
}

// ---- entries ----

or_status_t or_imatrix_take(or_imatrix_t *imatrix, const char *name, size_t length, uint64_t values,
                            or_imatrix_entry_t **entry_p)
{
    or_imatrix_entry_t *entry = &imatrix->entries[imatrix->count++];
    entry->name = strndup(name, length);
    entry->values = calloc(values, sizeof *entry->values);
    entry->count = values;
    *entry_p = entry;
    return entry->name != NULL && entry->values != NULL ? OR_OK : or_imatrix_fail_memory(imatrix);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const or_imatrix_entry_t *)a)->name, ((const or_imatrix_entry_t *)b)->name);
}

// Put the entries in order. OR_ERR_FORMAT if two have one name.
static or_status_t sort_entries(const or_imatrix_t *imatrix)
{
    qsort(imatrix->entries, imatrix->count, sizeof *imatrix->entries, by_name);
    for (uint32_t i = 1; i < imatrix->count; i++) {
        if (by_name(&imatrix->entries[i - 1], &imatrix->entries[i]) == 0) {
            return or_fail(OR_ERR_FORMAT, "%s names %s twice", imatrix->path,
                           imatrix->entries[i].name);
        }
    }
    return OR_OK;
}

// ---- the GGUF form ----

static bool ends_with(or_gguf_string_t name, const char *end)
{
    size_t length = strlen(end);
    return name.length > length && name.length <= OR_IMATRIX_NAME_MAX &&
           memcmp(name.bytes + name.length - length, end, length) == 0;
}

// Find NAME.counts of NAME.in_sum2, or the other way round.
static const or_gguf_tensor_t *find_other(const or_gguf_t *gguf, or_gguf_string_t name,
                                          const char *end, const char *other_end)
{
    char other[OR_IMATRIX_NAME_MAX + sizeof SUMS];
    snprintf(other, sizeof other, "%.*s%s", (int)(name.length - strlen(end)), name.bytes,
             other_end);
    return or_gguf_find_tensor(gguf, other);
}

static float float_at(const or_gguf_tensor_t *tensor, uint64_t i)
{
    float value;
    memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
    return value;
}

static or_status_t check_shapes(const or_imatrix_t *imatrix, const or_imatrix_entry_t *entry,
                                const or_gguf_tensor_t *sums, const or_gguf_tensor_t *counts)
{
    if (sums->type != OR_TENSOR_F32 || counts->type != OR_TENSOR_F32) {
        return or_fail(OR_ERR_FORMAT, "%s: sums and counts of %s are no floats (F32)",
                       imatrix->path, entry->name);
    }
    return sums->elements % counts->elements == 0
               ? OR_OK
               : or_fail(OR_ERR_FORMAT,
                         "%s: %s has %" PRIu64 " sums, which %" PRIu64 " counts do not divide",
                         imatrix->path, entry->name, sums->elements, counts->elements);
}

// Make means of sums. Nothing is known of a matrix without rows: all of it counts alike.
static or_status_t divide(const or_imatrix_t *imatrix, or_imatrix_entry_t *entry,
                          const or_gguf_tensor_t *sums, const or_gguf_tensor_t *counts)
{
    uint64_t inputs = sums->elements / counts->elements;
    bool has_rows = false;
    for (uint64_t i = 0; i < sums->elements; i++) {
        float sum = float_at(sums, i), count = float_at(counts, i / inputs);
        if (!or_imatrix_is_sum(sum)) {
            return or_fail(OR_ERR_FORMAT, "%s: %s has the sum %g, which no squares add up to",
                           imatrix->path, entry->name, (double)sum);
        }
        if (!isfinite(count) || (count != 0 && count < 1)) {
            return or_fail(OR_ERR_FORMAT, "%s: %s has the count %g, which is no number of rows",
                           imatrix->path, entry->name, (double)count);
        }
        entry->values[i] = count > 0 ? sum / count : 1;
        has_rows = has_rows || count > 0;
    }
    return has_rows ? OR_OK
                    : or_fail(OR_ERR_FORMAT, "%s: the counts of %s are 0: it has seen no rows",
                              imatrix->path, entry->name);
}

static or_status_t read_tensor(or_imatrix_t *imatrix, const or_gguf_t *gguf,
                               const or_gguf_tensor_t *tensor)
{
    const int shown = tensor->name.length <= OR_IMATRIX_NAME_MAX ? (int)tensor->name.length : 0;
    if (ends_with(tensor->name, COUNTS) && find_other(gguf, tensor->name, COUNTS, SUMS) == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has %.*s without the sums", imatrix->path, shown,
                       tensor->name.bytes);
    }
    if (!ends_with(tensor->name, SUMS)) {
        return OR_OK;
    }
    const or_gguf_tensor_t *counts = find_other(gguf, tensor->name, SUMS, COUNTS);
    if (counts == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has %.*s without the counts", imatrix->path, shown,
                       tensor->name.bytes);
    }
    or_imatrix_entry_t *entry;
    or_status_t status =
        or_imatrix_take(imatrix, tensor->name.bytes, tensor->name.length - strlen(SUMS),
                        tensor->type == OR_TENSOR_F32 ? tensor->elements : 1, &entry);
    status = status != OR_OK ? status : check_shapes(imatrix, entry, tensor, counts);
    return status != OR_OK ? status : divide(imatrix, entry, tensor, counts);
}

// Tensors may lie one over another, and then a small file names more sums than any memory holds.
static or_status_t check_sizes(const or_imatrix_t *imatrix, const or_gguf_t *gguf)
{
    uint64_t left = or_gguf_file_bytes(gguf);
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        if (!ends_with(tensor->name, SUMS)) {
            continue;
        }
        if (tensor->bytes > left) {
            return or_fail(OR_ERR_FORMAT, "%s has more sums than bytes: its tensors overlap",
                           imatrix->path);
        }
        left -= tensor->bytes;
    }
    return OR_OK;
}

// Join the data sets' names, as "a.txt, b.txt".
static or_status_t read_datasets(or_imatrix_t *imatrix, const or_gguf_t *gguf)
{
    or_gguf_array_t names;
    if (or_gguf_get_array(gguf, "imatrix.datasets", OR_GGUF_STRING, &names) != OR_OK) {
        return OR_OK;
    }
    size_t used = 0;
    for (uint64_t i = 0; i < names.count; i++) {
        or_gguf_string_t name = or_gguf_array_string(&names, i);
        char *longer = realloc(imatrix->dataset, used + name.length + 3);
        if (longer == NULL) {
            return or_imatrix_fail_memory(imatrix);
        }
        imatrix->dataset = longer;
        used += (size_t)sprintf(longer + used, "%s", i > 0 ? ", " : "");
        memcpy(longer + used, name.bytes, name.length);
        used += name.length;
        longer[used] = '\0';
    }
    return OR_OK;
}

static or_status_t read_gguf(or_imatrix_t *imatrix)
{
    or_gguf_t *gguf = NULL;
    or_gguf_string_t type;
    or_status_t status = or_gguf_open(imatrix->path, &gguf);
    if (status != OR_OK) {
        return status;
    }
    if (or_gguf_get_string(gguf, "general.type", &type) != OR_OK ||
        type.length != strlen("imatrix") || memcmp(type.bytes, "imatrix", type.length) != 0) {
        status = or_fail(OR_ERR_FORMAT,
                         "%s is no importance matrix: its general.type is not imatrix; give what "
                         "outrider model imatrix wrote",
                         imatrix->path);
    }
    if (status == OR_OK && or_gguf_has(gguf, "imatrix.chunk_count")) {
        status = or_gguf_get_u32(gguf, "imatrix.chunk_count", &imatrix->chunks);
    }
    status = status != OR_OK ? status : check_sizes(imatrix, gguf);
    status = status != OR_OK ? status : read_datasets(imatrix, gguf);
    imatrix->entries = calloc(or_gguf_tensor_count(gguf) + 1, sizeof *imatrix->entries);
    if (status == OR_OK && imatrix->entries == NULL) {
        status = or_imatrix_fail_memory(imatrix);
    }
    for (uint64_t i = 0; status == OR_OK && i < or_gguf_tensor_count(gguf); i++) {
        status = read_tensor(imatrix, gguf, or_gguf_tensor(gguf, i));
    }
    or_gguf_close(&gguf);
    return status;
}

// ---- a file ----

static or_status_t create(const char *path, or_imatrix_t **imatrix_p)
{
    or_imatrix_t *imatrix = calloc(1, sizeof *imatrix);
    if (imatrix != NULL) {
        imatrix->path = strdup(path);
    }
    if (imatrix == NULL || imatrix->path == NULL) {
        free(imatrix);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the importance matrix %s", path);
    }
    *imatrix_p = imatrix;
    return OR_OK;
}

// Hand an imatrix out if it was read and is in order.
static or_status_t finish(or_imatrix_t *imatrix, or_status_t status, or_imatrix_t **imatrix_p)
{
    if (status == OR_OK && imatrix->count == 0) {
        status =
            or_fail(OR_ERR_FORMAT, "%s is an importance matrix without entries", imatrix->path);
    }
    status = status != OR_OK ? status : sort_entries(imatrix);
    if (status != OR_OK) {
        or_imatrix_close(&imatrix);
        return status;
    }
    *imatrix_p = imatrix;
    return OR_OK;
}

// Read all of a file into memory. *bytes_p is malloc'd.
static or_status_t read_bytes(FILE *file, const char *path, char **bytes_p, size_t *count)
{
    int64_t size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
        return or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if ((uint64_t)size > BYTES_MAX) {
        return or_fail(OR_ERR_FORMAT, "%s is over 4 GiB, and no importance matrix", path);
    }
    char *bytes = malloc((size_t)size + 1);
    if (bytes == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to read %s", path);
    }
    if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        return or_fail(OR_ERR_IO, "cannot read %s", path);
    }
    *bytes_p = bytes;
    *count = (size_t)size;
    return OR_OK;
}

static or_status_t read_file(or_imatrix_t *imatrix, FILE *file)
{
    char magic[4] = "", *bytes = NULL;
    size_t count = 0;
    if (fread(magic, 1, sizeof magic, file) == sizeof magic &&
        memcmp(magic, "GGUF", sizeof magic) == 0) {
        return read_gguf(imatrix);
    }
    or_status_t status = read_bytes(file, imatrix->path, &bytes, &count);
    status = status != OR_OK ? status : or_imatrix_read_legacy(imatrix, bytes, count);
    free(bytes);
    return status;
}

or_status_t or_imatrix_open(const char *path, or_imatrix_t **imatrix_p)
{
    or_imatrix_t *imatrix = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return or_fail(OR_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    or_status_t status = create(path, &imatrix);
    if (status == OR_OK) {
        status = finish(imatrix, read_file(imatrix, file), imatrix_p);
    }
    fclose(file);
    return status;
}

or_status_t or_imatrix_open_bytes(const char *name, const void *bytes, size_t count,
                                  or_imatrix_t **imatrix_p)
{
    or_imatrix_t *imatrix = NULL;
    or_status_t status = create(name, &imatrix);
    return status != OR_OK
               ? status
               : finish(imatrix, or_imatrix_read_legacy(imatrix, bytes, count), imatrix_p);
}

void or_imatrix_close(or_imatrix_t **imatrix_p)
{
    or_imatrix_t *imatrix = *imatrix_p;
    if (imatrix == NULL) {
        return;
    }
    for (uint32_t i = 0; i < imatrix->count; i++) {
        free(imatrix->entries[i].name);
        free(imatrix->entries[i].values);
    }
    free(imatrix->entries);
    free(imatrix->dataset);
    free(imatrix->path);
    free(imatrix);
    *imatrix_p = NULL;
}

uint32_t or_imatrix_count(const or_imatrix_t *imatrix)
{
    return imatrix->count;
}

const char *or_imatrix_name(const or_imatrix_t *imatrix, uint32_t i)
{
    return imatrix->entries[i].name;
}

const float *or_imatrix_values(const or_imatrix_t *imatrix, uint32_t i, uint64_t *count)
{
    *count = imatrix->entries[i].count;
    return imatrix->entries[i].values;
}

// ---- what quantize asks ----

or_status_t or_imatrix_find(const or_imatrix_t *imatrix, const or_gguf_tensor_t *tensor,
                            const float **importance)
{
    char name[OR_IMATRIX_NAME_MAX + 1];
    *importance = NULL;
    if (tensor->name.length > OR_IMATRIX_NAME_MAX) {
        return OR_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
    const or_imatrix_entry_t key = {.name = name};
    const or_imatrix_entry_t *entry =
        bsearch(&key, imatrix->entries, imatrix->count, sizeof *imatrix->entries, by_name);
    if (entry == NULL) {
        return OR_OK;
    }
    uint64_t inputs = tensor->dims[0] * tensor->dims[2] * tensor->dims[3];
    if (entry->count != inputs) {
        return or_fail(OR_ERR_MISMATCH,
                       "%s has %" PRIu64 " values for tensor %s, which has %" PRIu64
                       " inputs: it was made with another model",
                       imatrix->path, entry->count, name, inputs);
    }
    *importance = entry->values;
    return OR_OK;
}

or_status_t or_imatrix_describe(const or_imatrix_t *imatrix, or_gguf_writer_t *writer)
{
    enum { FILE_NAME, DATASET, ENTRIES, CHUNKS, KEYS };
    static const char *const keys[KEYS] = {"quantize.imatrix.file", "quantize.imatrix.dataset",
                                           "quantize.imatrix.entries_count",
                                           "quantize.imatrix.chunks_count"};
    for (size_t i = 0; i < KEYS; i++) {
        or_gguf_writer_drop(writer, keys[i]);
    }
    if (imatrix == NULL) {
        return OR_OK;
    }
    or_status_t status = or_gguf_writer_set_string(writer, keys[FILE_NAME], imatrix->path);
    if (status == OR_OK && imatrix->dataset != NULL) {
        status = or_gguf_writer_set_string(writer, keys[DATASET], imatrix->dataset);
    }
    status =
        status != OR_OK ? status : or_gguf_writer_set_u32(writer, keys[ENTRIES], imatrix->count);
    return status != OR_OK || imatrix->chunks == 0
               ? status
               : or_gguf_writer_set_u32(writer, keys[CHUNKS], imatrix->chunks);
}
