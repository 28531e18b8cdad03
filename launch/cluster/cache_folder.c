#include "launch/cluster/cache_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Make the folder and those above it, as far as they are missing.
static or_status_t make_folders(char *folder)
{
    for (char *at = strchr(folder + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL) {
            *at = '\0';
        }
        if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST) {
            return or_fail(OR_ERR_IO,
                           "cannot make the cache folder %s: %s; set XDG_CACHE_HOME to another "
                           "place",
                           folder, strerror(errno));
        }
        if (at == NULL) {
            return OR_OK;
        }
        *at = '/';
    }
}

// The XDG base directory specification has it that a relative $XDG_CACHE_HOME is none.
or_status_t or_cache_folder(char folder[OR_PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (cache != NULL && cache[0] == '/') {
        length = snprintf(folder, OR_PATH_BYTES, "%s/outrider", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, OR_PATH_BYTES, "%s/.cache/outrider", home);
    } else {
        return or_fail(OR_ERR_IO, "no place for files that are made once: set XDG_CACHE_HOME, or "
                                  "HOME, to a folder");
    }
    return length < OR_PATH_BYTES
               ? make_folders(folder)
               : or_fail(OR_ERR_INVALID, "the path of the cache folder is too long");
}
