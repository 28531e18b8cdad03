#include "common/base/user_folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *name, *variable, *below_home;
} places[] = {
    [OR_USER_CACHE] = {"cache", "XDG_CACHE_HOME", "/.cache"},
    [OR_USER_STATE] = {"state", "XDG_STATE_HOME", "/.local/state"},
};

or_status_t or_user_folder_find(or_user_folder_t which, char *path, size_t capacity)
{
    const char *given = getenv(places[which].variable), *home = getenv("HOME");
    bool is_given = given != NULL && given[0] == '/';
    if (!is_given && (home == NULL || home[0] != '/')) {
        return or_fail(OR_ERR_NOT_FOUND, "there is no %s folder: set %s, or HOME, to a folder",
                       places[which].name, places[which].variable);
    }
    int length = snprintf(path, capacity, "%s%s/outrider", is_given ? given : home,
                          is_given ? "" : places[which].below_home);
    return length >= 0 && (size_t)length < capacity
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the path of the %s folder is too long",
                         places[which].name);
}

or_status_t or_user_folder_make(or_user_folder_t which, char *path, size_t capacity)
{
    or_status_t status = or_user_folder_find(which, path, capacity);
    for (char *at = path; status == OR_OK && at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL) {
            *at = '\0';
        }
        if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST) {
            status = or_fail(OR_ERR_IO, "cannot make the %s folder %s: %s; set %s to another place",
                             places[which].name, path, strerror(errno), places[which].variable);
        }
        if (at != NULL) {
            *at = '/';
        }
    }
    return status;
}
