// cached - a checkpoint's folder where a GGUF file is wanted: it is converted once, into the user's cache folder.
//
//     checkpoint-<path>-<content>.gguf     hashes of the folder's path, and of its files' names, sizes and times
//
// A file of the same folder with another content is removed when its successor is whole. Nothing is shared with other users.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

// Replace *path, a heap string, by the file that is made of it, if it is a folder; making it is told on standard error. Errors
// as or_convert has them, and of the cache folder. *path may be NULL.
or_status_t or_checkpoint_resolve(char **path);
// The same of a path that is not ours: *file_p is a copy, or the file that is made; the caller frees it. NULL after an error.
or_status_t or_checkpoint_find_file(const char *path, char **file_p);
// Resolve each of a list, up to the first error.
or_status_t or_checkpoint_resolve_all(char **paths, size_t count);
