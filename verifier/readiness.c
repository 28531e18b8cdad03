#include "verifier/readiness.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log/log.h"

static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path != NULL ? strlen(path) : 0;
    if (length == 0 || length >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') { // an abstract name
        address.sun_path[0] = '\0';
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0) {
        or_log(OR_LOG_WARN, "cannot notify systemd at %s: %s", path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fputs("ready\n", file) >= 0;
    if (file == NULL || fclose(file) != 0 || !written) {
        or_log(OR_LOG_WARN, "cannot write --ready-file %s: %s", path, strerror(errno));
    }
}

static void remove_file(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        or_log(OR_LOG_WARN, "cannot remove --ready-file %s: %s", path, strerror(errno));
    }
}

void or_readiness_init(or_readiness_t *readiness, const char *path)
{
    *readiness = (or_readiness_t){.path = path};
    if (path != NULL) {
        remove_file(path);
    }
    notify("STATUS=starting");
}

void or_readiness_set(or_readiness_t *readiness, bool ready)
{
    if (ready == readiness->ready) {
        return;
    }
    readiness->ready = ready;
    if (readiness->path != NULL) {
        if (ready) {
            write_file(readiness->path);
        } else {
            remove_file(readiness->path);
        }
    }
    if (!ready) {
        notify("STATUS=the coordinator is silent; calling it again");
        return;
    }
    notify(readiness->told ? "STATUS=serving" : "READY=1\nSTATUS=serving");
    readiness->told = true;
}

void or_readiness_fini(or_readiness_t *readiness)
{
    notify("STOPPING=1\nSTATUS=ending");
    if (readiness->path != NULL && readiness->ready) {
        remove_file(readiness->path);
    }
    readiness->ready = false;
}
