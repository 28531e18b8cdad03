// The journal that an option means, and the folder where it lies if nobody named it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/log/log.h"
#include "coordinator/journal/journal.h"

#define PATH_BYTES 512

// The folder and those above it, as `mkdir -p` makes them.
static or_status_t make_folders(const char *path)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = strchr(folder + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL) {
            *at = '\0';
        }
        if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST) {
            return or_fail(OR_ERR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
        }
        if (at == NULL) {
            return OR_OK;
        }
        *at = '/';
    }
}

// The XDG base directory specification has it that a relative $XDG_STATE_HOME is none.
static or_status_t find_folder(char folder[PATH_BYTES])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length = 0;
    if (state != NULL && state[0] == '/') {
        length = snprintf(folder, PATH_BYTES, "%s/outrider", state);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, PATH_BYTES, "%s/.local/state/outrider", home);
    } else {
        return or_fail(OR_ERR_IO, "neither XDG_STATE_HOME nor HOME names a folder");
    }
    return length < PATH_BYTES
               ? make_folders(folder)
               : or_fail(OR_ERR_IO, "the name of the folder for journals is too long");
}

// "": there is none for this endpoint.
static or_status_t usual_path(const char *endpoint, char path[PATH_BYTES])
{
    char folder[PATH_BYTES];
    const char *colon = strrchr(endpoint, ':');
    const char *port = colon != NULL ? colon + 1 : "";
    if (strncmp(endpoint, "tcp://", 6) != 0 || port[strspn(port, "0")] == '\0' || // any free one
        port[strspn(port, "0123456789")] != '\0') {
        path[0] = '\0';
        return OR_OK;
    }
    or_status_t status = find_folder(folder);
    if (status != OR_OK) {
        return status;
    }
    int length = snprintf(path, PATH_BYTES, "%s/coordinator-%s.texts", folder, port);
    return length < PATH_BYTES
               ? OR_OK
               : or_fail(OR_ERR_IO, "the name of the folder for journals is too long");
}

or_status_t or_journal_open_option(const char *option, const char *endpoint, uint32_t retention_s,
                                   uint32_t abandoned_s, or_journal_t **journal_p)
{
    char path[PATH_BYTES] = "";
    *journal_p = NULL;
    if (option != NULL) {
        return strcmp(option, "none") == 0
                   ? OR_OK
                   : or_journal_open(option, retention_s, abandoned_s, journal_p);
    }
    or_status_t status = usual_path(endpoint, path);
    if (status == OR_OK && path[0] != '\0') {
        status = or_journal_open(path, retention_s, abandoned_s, journal_p);
    }
    if (status != OR_OK) {
        or_log(
            OR_LOG_WARN,
            "no journal: %s; texts end with this coordinator (--journal names another folder, or "
            "none)",
            or_error_text());
    } else if (*journal_p != NULL) {
        or_log(OR_LOG_INFO, "journal %s", path);
    }
    return OR_OK;
}
