#include "proto/keys/line_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/keys/line_file.h"

// ---- states of a file ----

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_stamp(const or_line_stamp_t *a, const or_line_stamp_t *b)
{
    return a->there == b->there && a->inode == b->inode && a->bytes == b->bytes &&
           a->mode == b->mode && a->owner == b->owner && same_time(&a->written, &b->written) &&
           same_time(&a->changed, &b->changed);
}

static or_line_stamp_t stamp_of(const struct stat *found)
{
    return (or_line_stamp_t){.there = found->st_ino != 0,
                             .inode = found->st_ino,
                             .bytes = found->st_size,
                             .mode = found->st_mode,
                             .owner = found->st_uid,
                             .written = found->st_mtim,
                             .changed = found->st_ctim};
}

// ---- descriptors ----

static void release_spares(or_line_watch_t *watch)
{
    for (size_t i = 0; i < OR_LINE_WATCH_SPARES; i++) {
        if (watch->spares[i] >= 0) {
            close(watch->spares[i]);
        }
        watch->spares[i] = -1;
    }
}

// Take as many spare descriptors as there are; the rest are taken at the next look.
static void take_spares(or_line_watch_t *watch)
{
    for (size_t i = 0; i < OR_LINE_WATCH_SPARES; i++) {
        if (watch->spares[i] < 0) {
            watch->spares[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
    }
}

// ---- life ----

or_status_t or_line_watch_init(or_line_watch_t *watch, const char *path)
{
    *watch = (or_line_watch_t){.path = strdup(path)};
    for (size_t i = 0; i < OR_LINE_WATCH_SPARES; i++) {
        watch->spares[i] = -1;
    }
    return watch->path != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
}

void or_line_watch_fini(or_line_watch_t *watch)
{
    release_spares(watch);
    free(watch->path);
    watch->path = NULL;
}

// ---- looks ----

static bool is_away(or_line_watch_t *watch, bool there)
{
    bool first = !there && watch->settled.there && !watch->missed;
    watch->missed = first;
    return first;
}

or_status_t or_line_watch_look(or_line_watch_t *watch, bool *changed)
{
    struct stat found = {0};
    bool there = stat(watch->path, &found) == 0;
    *changed = false;
    if (!there && errno != ENOENT) { // not known to be gone: nobody loses a key for a bad moment
        return or_fail(OR_ERR_IO, "cannot look at %s: %s", watch->path, strerror(errno));
    }
    take_spares(watch);
    watch->seen = there ? stamp_of(&found) : (or_line_stamp_t){0};
    *changed = !is_away(watch, there) && !same_stamp(&watch->seen, &watch->settled);
    return OR_OK;
}

or_status_t or_line_watch_read(or_line_watch_t *watch, char **text_p)
{
    struct stat found;
    release_spares(watch);
    or_status_t status = or_line_file_read(watch->path, text_p, &found);
    take_spares(watch);
    if (status == OR_OK || found.st_ino != 0) {
        watch->seen = stamp_of(&found);
    }
    return status;
}

void or_line_watch_settle(or_line_watch_t *watch)
{
    watch->settled = watch->seen;
}

bool or_line_watch_is_steady(or_line_watch_t *watch)
{
    bool steady = same_stamp(&watch->seen, &watch->doubted);
    watch->doubted = watch->seen;
    return steady;
}

mode_t or_line_watch_mode(const or_line_watch_t *watch)
{
    return watch->seen.mode;
}
