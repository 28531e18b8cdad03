#include "launch/model/convert/cached.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/user_folder.h"
#include "common/gguf/gguf_writer.h"
#include "launch/cluster/paths.h"
#include "launch/model/convert/checkpoint.h"
#include "launch/model/convert/convert.h"

#define FORM 3u // of the conversion: another one makes old files stale
#define NAME_BYTES 64u

// ---- what a folder holds ----

// Files are added, as their order in a folder may change.
typedef struct {
    uint64_t form, path, files;
} content_t;

static uint64_t hash_file(const char *name, const struct stat *info)
{
    const uint64_t facts[] = {(uint64_t)info->st_size,        (uint64_t)info->st_ino,
                              (uint64_t)info->st_mtim.tv_sec, (uint64_t)info->st_mtim.tv_nsec,
                              (uint64_t)info->st_ctim.tv_sec, (uint64_t)info->st_ctim.tv_nsec};
    return XXH3_64bits_withSeed(facts, sizeof facts, XXH3_64bits(name, strlen(name)));
}

static or_status_t read_content(const char *folder, content_t *content)
{
    char *real = realpath(folder, NULL);
    DIR *dir = opendir(folder);
    or_status_t status = OR_OK;
    if (real == NULL || dir == NULL) {
        status = or_fail(OR_ERR_IO, "cannot read the folder %s: %s", folder, strerror(errno));
    } else {
        *content = (content_t){FORM, XXH3_64bits(real, strlen(real)), 0};
        for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
            struct stat info;
            if (fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) {
                content->files += hash_file(entry->d_name, &info);
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    free(real);
    return status;
}

// ---- the file ----

// Is it a file of the same folder that is stale, or unfinished by a process that is gone?
static bool is_stale(const char *other, const char *name, size_t beginning)
{
    char begin[NAME_BYTES];
    const char *end = strrchr(other, '.');
    snprintf(begin, sizeof begin, "%.*s", (int)beginning, name);
    return (strncmp(other, begin, beginning) == 0 && strcmp(other, name) != 0 && end != NULL &&
            strcmp(end, ".gguf") == 0) ||
           or_weight_writer_is_left(other, begin, OR_GGUF_PART_ENDING);
}

static void remove_stale(const char *cache, const char *name, size_t beginning)
{
    DIR *dir = opendir(cache);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (is_stale(entry->d_name, name, beginning)) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static or_status_t make(const char *folder, const char *out)
{
    const or_convert_job_t job = {.folder = folder, .out = out, .force = true};
    or_convert_result_t result;
    or_status_t status = or_checkpoint_check(folder);
    if (status != OR_OK) {
        return status;
    }
    fprintf(stderr, "making a GGUF file of %s, once: %s\n", folder, out);
    return or_convert(&job, &result);
}

static or_status_t find(const char *folder, char **out)
{
    char cache[OR_PATH_BYTES], name[NAME_BYTES];
    content_t content;
    or_status_t status = read_content(folder, &content);
    status = status != OR_OK ? status : or_user_folder_make(OR_USER_CACHE, cache, sizeof cache);
    if (status != OR_OK) {
        return status;
    }
    int beginning = snprintf(name, sizeof name, "checkpoint-%016" PRIx64 "-", content.path);
    snprintf(name + beginning, sizeof name - (size_t)beginning, "%016" PRIx64 ".gguf",
             XXH3_64bits(&content, sizeof content));
    char *path = NULL;
    if (asprintf(&path, "%s/%s", cache, name) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a path in %s", cache);
    }
    remove_stale(cache, name, (size_t)beginning);
    if (access(path, R_OK) != 0) {
        status = make(folder, path);
    }
    if (status != OR_OK) {
        free(path);
        return status;
    }
    *out = path;
    return OR_OK;
}

or_status_t or_checkpoint_resolve(char **path)
{
    struct stat info;
    char *file = NULL;
    if (*path == NULL || stat(*path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return OR_OK; // whatever is wrong with a file shows when it is opened
    }
    or_status_t status = find(*path, &file);
    if (status == OR_OK) {
        free(*path);
        *path = file;
    }
    return status;
}

or_status_t or_checkpoint_find_file(const char *path, char **file_p)
{
    *file_p = strdup(path);
    or_status_t status = *file_p != NULL ? or_checkpoint_resolve(file_p)
                                         : or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    if (status != OR_OK) {
        free(*file_p);
        *file_p = NULL;
    }
    return status;
}

or_status_t or_checkpoint_resolve_all(char **paths, size_t count)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        status = or_checkpoint_resolve(&paths[i]);
    }
    return status;
}
