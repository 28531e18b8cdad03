// The journal that an option means, and the folder where it lies if nobody named it.
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/user_folder.h"
#include "coordinator/journal/journal.h"

#define PATH_BYTES 512

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
    or_status_t status = or_user_folder_make(OR_USER_STATE, folder, sizeof folder);
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
