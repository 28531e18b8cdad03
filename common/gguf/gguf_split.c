#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/gguf/gguf_internal.h"

// A split model, as the tools that split models name and mark its parts:
//
//     NAME-00001-of-00003.gguf   all metadata, split.no 0   some tensors, perhaps none
//     NAME-00002-of-00003.gguf                 split.no 1   some tensors
//     NAME-00003-of-00003.gguf                 split.no 2   some tensors
//
// Each part says split.count 3, and in split.tensors.count how many tensors there are in all.

#define MAX_PARTS 99999u // the largest number that fits into the name

typedef struct {
    size_t stem;     // bytes of the path before what follows
    uint32_t number; // from 1
    uint32_t count;
} part_name_t;

// Parse the part number and count out of the file's name. False if it is not the name of a part.
static bool parse_name(const char *path, part_name_t *name)
{
    static const char pattern[] = "-00000-of-00000.gguf"; // 0: any digit
    size_t length = strlen(path);
    if (length < sizeof pattern - 1) {
        return false;
    }
    size_t stem = length - (sizeof pattern - 1);
    const char *end = path + stem;
    for (size_t i = 0; i < sizeof pattern - 1; i++) {
        bool digit = end[i] >= '0' && end[i] <= '9';
        if (pattern[i] == '0' ? !digit : end[i] != pattern[i]) {
            return false;
        }
    }
    name->stem = stem;
    name->number = (uint32_t)strtoul(end + strlen("-"), NULL, 10);
    name->count = (uint32_t)strtoul(end + strlen("-00000-of-"), NULL, 10);
    return true;
}

bool or_gguf_is_part_name(const char *path)
{
    part_name_t name;
    return parse_name(path, &name) && name.count > 1;
}

bool or_gguf_is_at(const or_gguf_t *gguf, const char *path)
{
    struct stat own, other;
    if (stat(path, &other) != 0) {
        return false;
    }
    bool same =
        stat(gguf->path, &own) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
    for (uint32_t i = 0; !same && i < gguf->later_count; i++) {
        same = or_gguf_is_at(gguf->later_parts[i], path);
    }
    return same;
}

// The path of another part of the same model; NULL if memory runs out.
static char *path_of_part(const char *path, size_t stem, uint32_t number, uint32_t count)
{
    char *part = NULL;
    return asprintf(&part, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (int)stem, path, number,
                    count) < 0
               ? NULL
               : part;
}

// Check that the part's metadata agree with its name. *tensor_count is the number of tensors in
// all parts.
static or_status_t check_part(const or_gguf_t *part, const part_name_t *name,
                              uint32_t *tensor_count)
{
    uint32_t index;
    uint32_t count;
    uint32_t tensors;
    or_status_t status = or_gguf_get_u32(part, "split.no", &index);
    status = status != OR_OK ? status : or_gguf_get_u32(part, "split.count", &count);
    status = status != OR_OK ? status : or_gguf_get_u32(part, "split.tensors.count", &tensors);
    if (status != OR_OK) {
        return or_fail_context(OR_ERR_FORMAT,
                               "named as part %" PRIu32 " of %" PRIu32
                               " (give a whole model another name)",
                               name->number, name->count);
    }
    if (index + 1 != name->number || count != name->count) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: is part %" PRIu64 " of %" PRIu32
                       " of a split model, not the part its name says; give the parts the names "
                       "they had, or fetch them again",
                       part->path, (uint64_t)index + 1, count);
    }
    *tensor_count = tensors;
    return OR_OK;
}

static or_status_t open_part(or_gguf_t *gguf, const part_name_t *name, uint32_t tensor_count)
{
    char *path = path_of_part(gguf->path, name->stem, name->number, name->count);
    if (path == NULL) {
        return or_gguf_no_memory(gguf->path);
    }
    or_gguf_t **part = &gguf->later_parts[gguf->later_count];
    or_status_t status = or_gguf_open_file(path, part);
    free(path);
    if (status != OR_OK) {
        return or_fail_context(status, "part %" PRIu32 " of %" PRIu32, name->number, name->count);
    }
    gguf->later_count++;
    uint32_t said;
    status = check_part(*part, name, &said);
    if (status == OR_OK && said != tensor_count) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: is a part of another model: of one of %" PRIu32
                       " tensors, and the first part's has %" PRIu32 "; fetch the parts again",
                       (*part)->path, said, tensor_count);
    }
    return status;
}

// Join all parts' tensors in one table, in the order of the parts.
static or_status_t join_tensors(or_gguf_t *gguf, uint32_t promised)
{
    uint64_t count = gguf->tensor_count;
    for (uint32_t i = 0; i < gguf->later_count; i++) {
        count += gguf->later_parts[i]->tensor_count;
    }
    if (count != promised) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: the parts of this split model have %" PRIu64
                       " tensors in all, not the %" PRIu32 " it promises; fetch them again",
                       gguf->path, count, promised);
    }
    or_gguf_tensor_t *tensors = realloc(gguf->tensors, (count + 1) * sizeof *tensors);
    if (tensors == NULL) {
        return or_gguf_no_memory(gguf->path);
    }
    gguf->tensors = tensors;
    for (uint32_t i = 0; i < gguf->later_count; i++) {
        const or_gguf_t *part = gguf->later_parts[i];
        memcpy(tensors + gguf->tensor_count, part->tensors, part->tensor_count * sizeof *tensors);
        gguf->tensor_count += part->tensor_count;
    }
    or_gguf_index_fini(&gguf->tensor_index);
    const or_gguf_string_t *twice = NULL;
    or_status_t status =
        or_gguf_index_build(&gguf->tensor_index, tensors, sizeof *tensors, count, &twice);
    if (status == OR_OK && twice != NULL) {
        return or_fail(OR_ERR_FORMAT, "%s: two parts of this split model have tensor %.*s",
                       gguf->path, or_gguf_shown(*twice), twice->bytes);
    }
    return status;
}

static or_status_t refuse_later_part(const or_gguf_t *gguf, const part_name_t *name)
{
    return or_fail(OR_ERR_INVALID,
                   "%s: is part %" PRIu32 " of %" PRIu32
                   " of a split model; open the first part, %.*s-00001-of-%05" PRIu32 ".gguf",
                   gguf->path, name->number, name->count, (int)name->stem, gguf->path, name->count);
}

// Read how many parts the model has; 1 if the file is not a part.
static or_status_t read_part_count(const or_gguf_t *gguf, uint32_t *count)
{
    *count = 1;
    or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, "split.count", count));
    if (status == OR_OK && *count > MAX_PARTS) {
        status = or_fail(OR_ERR_FORMAT, "%s: split.count is %" PRIu32 ", at most %u are possible",
                         gguf->path, *count, MAX_PARTS);
    }
    return status;
}

or_status_t or_gguf_open_later_parts(or_gguf_t *gguf)
{
    part_name_t name = {.number = 1, .count = 1};
    bool named = parse_name(gguf->path, &name);
    uint32_t count;
    uint32_t tensor_count;
    or_status_t status = read_part_count(gguf, &count);
    if (status != OR_OK || (count <= 1 && name.count <= 1)) {
        return status;
    }
    if (!named) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: is one of %" PRIu32
                       " parts of a split model, but is not named so; give all parts the names "
                       "they had, ...-00001-of-%05" PRIu32 ".gguf and so on",
                       gguf->path, count, count);
    }
    if (name.number != 1) {
        return refuse_later_part(gguf, &name);
    }
    status = check_part(gguf, &name, &tensor_count);
    if (status != OR_OK) {
        return status;
    }
    gguf->later_parts = calloc(count, sizeof(or_gguf_t *));
    if (gguf->later_parts == NULL) {
        return or_gguf_no_memory(gguf->path);
    }
    for (name.number = 2; status == OR_OK && name.number <= count; name.number++) {
        status = open_part(gguf, &name, tensor_count);
    }
    return status == OR_OK ? join_tensors(gguf, tensor_count) : status;
}
