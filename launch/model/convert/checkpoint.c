#include "launch/model/convert/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JSON_MAX (UINT64_C(256) << 20)
#define TEXT_MAX (UINT64_C(1) << 20)
#define SHARDS_MAX 4096u
#define WHOLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

typedef struct {
    const or_safetensor_t *tensor;
    const or_safetensors_t *file;
} entry_t;

struct or_checkpoint {
    char *folder;
    char *real;  // the folder's path without links
    char *blobs; // where links may lead besides; NULL: nowhere
    char *config_path;
    json_t *config;
    or_safetensors_t **files;
    uint64_t file_count;
    entry_t *entries; // sorted by name
    uint64_t count;
};

// ---- places ----

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

// The blobs of a cache of Hugging Face's, whose folders "snapshots/REVISION" are links to them.
static char *find_blobs(const char *real)
{
    char *blobs = NULL;
    char *found = NULL;
    const char *last = strrchr(real, '/');
    static const char snapshots[] = "/snapshots";
    size_t length = sizeof snapshots - 1;
    if (last != NULL && (size_t)(last - real) > length &&
        memcmp(last - length, snapshots, length) == 0 &&
        asprintf(&blobs, "%.*s/blobs", (int)((size_t)(last - real) - length), real) > 0) {
        found = realpath(blobs, NULL);
        free(blobs);
    }
    return found;
}

// Make the path of a file of the folder; the caller frees it. OR_ERR_NOT_FOUND if there is none; OR_ERR_UNSUPPORTED if it
// leads out of the folder.
static or_status_t path_of(const or_checkpoint_t *checkpoint, const char *name, char **path_p)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", checkpoint->folder, name) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a path in %s", checkpoint->folder);
    }
    char *real = realpath(path, NULL);
    struct stat info;
    or_status_t status = OR_OK;
    if (real == NULL || stat(real, &info) != 0) {
        status = or_fail(errno == ENOENT ? OR_ERR_NOT_FOUND : OR_ERR_IO, "cannot open %s: %s", path,
                         strerror(errno));
    } else if (!is_below(real, checkpoint->real) &&
               (checkpoint->blobs == NULL || !is_below(real, checkpoint->blobs))) {
        status = or_fail(OR_ERR_UNSUPPORTED,
                         "%s is a link that leads out of its folder, to %s; copy the file there",
                         path, real);
    } else if (!S_ISREG(info.st_mode)) {
        status = or_fail(OR_ERR_FORMAT, "%s is no regular file", path); // opening it might wait
    }
    free(real);
    if (status != OR_OK) {
        free(path);
        return status;
    }
    *path_p = path;
    return OR_OK;
}

or_status_t or_checkpoint_read(const or_checkpoint_t *checkpoint, const char *name, json_t **root_p)
{
    char *path = NULL;
    *root_p = NULL;
    or_status_t status = path_of(checkpoint, name, &path);
    if (status == OR_ERR_NOT_FOUND) {
        return OR_OK;
    }
    status = status != OR_OK ? status : or_json_read_file(path, JSON_MAX, root_p);
    free(path);
    return status;
}

// Read a whole file of at most `most` bytes, and put a zero behind them.
static or_status_t read_whole(const char *path, size_t most, char **bytes_p, size_t *size)
{
    FILE *file = fopen(path, "re");
    struct stat info = {0};
    char *bytes = NULL;
    or_status_t status = OR_OK;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        status = or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    } else if ((uint64_t)info.st_size > most) {
        status = or_fail(OR_ERR_FORMAT, "%s has over %zu MiB", path, most >> 20);
    } else if ((bytes = malloc((size_t)info.st_size + 1)) == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    } else {
        *size = fread(bytes, 1, (size_t)info.st_size, file);
        bytes[*size] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    *bytes_p = bytes;
    return status;
}

or_status_t or_checkpoint_read_text(const or_checkpoint_t *checkpoint, const char *name,
                                    char **text_p)
{
    char *path = NULL, *text = NULL;
    size_t size = 0;
    *text_p = NULL;
    or_status_t status = path_of(checkpoint, name, &path);
    if (status != OR_OK) {
        return status == OR_ERR_NOT_FOUND ? OR_OK : status;
    }
    status = read_whole(path, TEXT_MAX, &text, &size);
    if (status == OR_OK && strlen(text) != size) {
        status = or_fail(OR_ERR_FORMAT, "%s is no text: it has a zero", path);
    }
    free(path);
    if (status != OR_OK) {
        free(text);
        return status;
    }
    *text_p = text;
    return OR_OK;
}

or_status_t or_checkpoint_read_bytes(const or_checkpoint_t *checkpoint, const char *name,
                                     void **bytes_p, size_t *size)
{
    char *path = NULL, *bytes = NULL;
    *bytes_p = NULL;
    or_status_t status = path_of(checkpoint, name, &path);
    if (status != OR_OK) {
        return status == OR_ERR_NOT_FOUND ? OR_OK : status;
    }
    status = read_whole(path, JSON_MAX, &bytes, size);
    free(path);
    *bytes_p = bytes;
    return status;
}

// ---- weights ----

static or_status_t open_shard(or_checkpoint_t *checkpoint, const char *name)
{
    char *path = NULL;
    or_status_t status = path_of(checkpoint, name, &path);
    status = status != OR_OK
                 ? status
                 : or_safetensors_open(path, &checkpoint->files[checkpoint->file_count]);
    free(path);
    if (status == OR_OK) {
        checkpoint->file_count++;
    }
    return status == OR_ERR_NOT_FOUND ? OR_ERR_IO : status;
}

// Is it the name of a file in this very folder?
static bool is_plain(const json_t *name)
{
    const char *text = json_string_value(name);
    return text != NULL && text[0] != '\0' && text[0] != '.' && strchr(text, '/') == NULL &&
           strlen(text) == json_string_length(name);
}

// Open every file that the index names, each once.
static or_status_t open_shards(or_checkpoint_t *checkpoint, const json_t *map)
{
    json_t *names = json_object();
    or_status_t status =
        names == NULL ? or_fail(OR_ERR_NO_MEMORY, "no memory for the list of files") : OR_OK;
    const char *tensor;
    json_t *name;
    json_object_foreach((json_t *)map, tensor, name)
    {
        if (status == OR_OK && !is_plain(name)) {
            status = or_fail(OR_ERR_FORMAT,
                             "%s/" INDEX ": tensor %.96s is in a file that is no plain name",
                             checkpoint->folder, tensor);
        }
        if (status == OR_OK && json_object_get(names, json_string_value(name)) == NULL) {
            json_object_set_new(names, json_string_value(name), json_true());
            status = json_object_size(names) > SHARDS_MAX
                         ? or_fail(OR_ERR_FORMAT, "%s/" INDEX " names over %u files",
                                   checkpoint->folder, SHARDS_MAX)
                         : open_shard(checkpoint, json_string_value(name));
        }
    }
    json_decref(names);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    const entry_t *x = a;
    const entry_t *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static or_status_t list_tensors(or_checkpoint_t *checkpoint)
{
    uint64_t count = 0;
    for (uint64_t f = 0; f < checkpoint->file_count; f++) {
        count += or_safetensors_count(checkpoint->files[f]);
    }
    checkpoint->entries = calloc(count + 1, sizeof *checkpoint->entries);
    if (checkpoint->entries == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the tensors of %s", checkpoint->folder);
    }
    for (uint64_t f = 0; f < checkpoint->file_count; f++) {
        const or_safetensors_t *file = checkpoint->files[f];
        for (uint64_t i = 0; i < or_safetensors_count(file); i++) {
            checkpoint->entries[checkpoint->count++] = (entry_t){or_safetensors_at(file, i), file};
        }
    }
    qsort(checkpoint->entries, count, sizeof *checkpoint->entries, compare_names);
    for (uint64_t i = 1; i < count; i++) {
        const entry_t *entry = &checkpoint->entries[i];
        if (compare_names(entry - 1, entry) == 0) {
            return or_fail(OR_ERR_FORMAT, "tensor %.96s is both in %s and in %s",
                           entry->tensor->name, or_safetensors_path(entry[-1].file),
                           or_safetensors_path(entry->file));
        }
    }
    return OR_OK;
}

// Check that each tensor is in the file that the index says, and that there is no other.
static or_status_t check_index(const or_checkpoint_t *checkpoint, const json_t *map)
{
    const char *tensor;
    json_t *name;
    json_object_foreach((json_t *)map, tensor, name)
    {
        uint64_t i = or_checkpoint_find(checkpoint, tensor);
        const char *path = i < checkpoint->count ? or_checkpoint_path_of(checkpoint, i) : NULL;
        if (path == NULL || strcmp(strrchr(path, '/') + 1, json_string_value(name)) != 0) {
            return or_fail(OR_ERR_FORMAT, "%s/" INDEX ": tensor %.96s is not in %.96s",
                           checkpoint->folder, tensor, json_string_value(name));
        }
    }
    for (uint64_t i = 0; i < checkpoint->count; i++) {
        if (json_object_get(map, checkpoint->entries[i].tensor->name) == NULL) {
            return or_fail(OR_ERR_FORMAT, "%s: tensor %.96s is not in the index",
                           or_checkpoint_path_of(checkpoint, i),
                           checkpoint->entries[i].tensor->name);
        }
    }
    return OR_OK;
}

static or_status_t open_indexed(or_checkpoint_t *checkpoint, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        return or_fail(OR_ERR_FORMAT, "%s/" INDEX " has no \"weight_map\"", checkpoint->folder);
    }
    checkpoint->files = calloc(SHARDS_MAX, sizeof(or_safetensors_t *));
    if (checkpoint->files == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the files of %s", checkpoint->folder);
    }
    or_status_t status = open_shards(checkpoint, map);
    status = status != OR_OK ? status : list_tensors(checkpoint);
    return status != OR_OK ? status : check_index(checkpoint, map);
}

static or_status_t open_whole(or_checkpoint_t *checkpoint)
{
    char *path = NULL;
    or_status_t status = path_of(checkpoint, WHOLE, &path);
    free(path);
    if (status == OR_ERR_NOT_FOUND) {
        bool pickled = path_of(checkpoint, "pytorch_model.bin", &path) == OR_OK ||
                       path_of(checkpoint, "pytorch_model.bin.index.json", &path) == OR_OK;
        if (pickled) {
            free(path);
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s has its weights as pickles (pytorch_model.bin), which are programs "
                           "and are not run here; take its safetensors",
                           checkpoint->folder);
        }
        return or_fail(OR_ERR_FORMAT, "%s has neither " WHOLE " nor " INDEX, checkpoint->folder);
    }
    checkpoint->files = calloc(1, sizeof(or_safetensors_t *));
    if (status == OR_OK && checkpoint->files == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for the files of %s", checkpoint->folder);
    }
    status = status != OR_OK ? status : open_shard(checkpoint, WHOLE);
    return status != OR_OK ? status : list_tensors(checkpoint);
}

static or_status_t open_weights(or_checkpoint_t *checkpoint)
{
    json_t *index = NULL;
    or_status_t status = or_checkpoint_read(checkpoint, INDEX, &index);
    if (status == OR_OK) {
        status = index != NULL ? open_indexed(checkpoint, index) : open_whole(checkpoint);
    }
    json_decref(index);
    return status;
}

// ---- the folder ----

// Copy the name of the folder's first GGUF file; "" if it has none.
static void find_gguf(const char *folder, char name[NAME_MAX + 1])
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    name[0] = '\0';
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (end != NULL && strcmp(end, ".gguf") == 0 &&
            (name[0] == '\0' || strcmp(entry->d_name, name) < 0)) {
            snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

or_status_t or_checkpoint_check(const char *path)
{
    char config[PATH_MAX], name[NAME_MAX + 1];
    struct stat info;
    if (stat(path, &info) != 0) {
        return or_fail(OR_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(info.st_mode)) {
        return or_fail(OR_ERR_FORMAT,
                       "%s is a file, and a checkpoint is a folder; a GGUF file needs no "
                       "conversion: give it to -m, or to `outrider model quantize` for another "
                       "type",
                       path);
    }
    snprintf(config, sizeof config, "%s/config.json", path);
    if (access(config, F_OK) == 0) {
        return OR_OK;
    }
    find_gguf(path, name);
    return name[0] != '\0'
               ? or_fail(OR_ERR_FORMAT,
                         "%s has no config.json, so it is no checkpoint; of its GGUF files name "
                         "one, as %s/%s, which needs no conversion",
                         path, path, name)
               : or_fail(OR_ERR_FORMAT,
                         "%s is a folder with no config.json: neither a GGUF file nor a checkpoint",
                         path);
}

static or_status_t open_config(or_checkpoint_t *checkpoint)
{
    or_status_t status = path_of(checkpoint, "config.json", &checkpoint->config_path);
    return status != OR_OK
               ? status
               : or_json_read_file(checkpoint->config_path, JSON_MAX, &checkpoint->config);
}

or_status_t or_checkpoint_open(const char *folder, bool with_weights,
                               or_checkpoint_t **checkpoint_p)
{
    or_status_t status = or_checkpoint_check(folder);
    if (status != OR_OK) {
        return status;
    }
    or_checkpoint_t *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint == NULL || (checkpoint->folder = strdup(folder)) == NULL) {
        free(checkpoint);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", folder);
    }
    size_t length = strlen(folder);
    while (length > 1 && checkpoint->folder[length - 1] == '/') {
        checkpoint->folder[--length] = '\0';
    }
    checkpoint->real = realpath(folder, NULL);
    if (checkpoint->real == NULL) {
        status = or_fail(OR_ERR_IO, "cannot open %s: %s", folder, strerror(errno));
    }
    if (status == OR_OK) {
        checkpoint->blobs = find_blobs(checkpoint->real);
        status = open_config(checkpoint);
    }
    status = status == OR_OK && with_weights ? open_weights(checkpoint) : status;
    if (status != OR_OK) {
        or_checkpoint_close(&checkpoint);
        return status;
    }
    *checkpoint_p = checkpoint;
    return OR_OK;
}

void or_checkpoint_close(or_checkpoint_t **checkpoint_p)
{
    or_checkpoint_t *checkpoint = *checkpoint_p;
    if (checkpoint == NULL) {
        return;
    }
    for (uint64_t f = 0; f < checkpoint->file_count; f++) {
        or_safetensors_close(&checkpoint->files[f]);
    }
    json_decref(checkpoint->config);
    free(checkpoint->entries);
    free(checkpoint->files);
    free(checkpoint->config_path);
    free(checkpoint->blobs);
    free(checkpoint->real);
    free(checkpoint->folder);
    free(checkpoint);
    *checkpoint_p = NULL;
}

const char *or_checkpoint_folder(const or_checkpoint_t *checkpoint)
{
    return checkpoint->folder;
}

or_json_t or_checkpoint_config(const or_checkpoint_t *checkpoint)
{
    return (or_json_t){checkpoint->config_path, checkpoint->config};
}

uint64_t or_checkpoint_count(const or_checkpoint_t *checkpoint)
{
    return checkpoint->count;
}

const or_safetensor_t *or_checkpoint_at(const or_checkpoint_t *checkpoint, uint64_t i)
{
    return checkpoint->entries[i].tensor;
}

uint64_t or_checkpoint_find(const or_checkpoint_t *checkpoint, const char *name)
{
    const or_safetensor_t wanted = {.name = name};
    const entry_t key = {&wanted, NULL};
    const entry_t *found = bsearch(&key, checkpoint->entries, checkpoint->count,
                                   sizeof *checkpoint->entries, compare_names);
    return found != NULL ? (uint64_t)(found - checkpoint->entries) : checkpoint->count;
}

const char *or_checkpoint_path_of(const or_checkpoint_t *checkpoint, uint64_t i)
{
    return or_safetensors_path(checkpoint->entries[i].file);
}

void or_checkpoint_release(const or_checkpoint_t *checkpoint, uint64_t i)
{
    or_safetensors_release(checkpoint->entries[i].file, checkpoint->entries[i].tensor);
}
