// line_watch - decides when to read a line file again that other programs change.
//
//     look ──▶ nothing new
//          └─▶ changed ──▶ read ──▶ makes sense, or never will: settle     the next look is for another state
//                               └─▶ cannot be read now: look again
//
// One thread.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/status.h"

// Descriptors kept in reserve for reading the file. Connections may have taken all others when a key is revoked, and
// may take one of these in the moment in which it is free.
#define OR_LINE_WATCH_SPARES 4

// The state of a file, by which one is told from the next, including whether it may be believed. A replaced file is
// another inode, even within one tick of the clock.
typedef struct {
    bool there;
    ino_t inode;
    off_t bytes;
    mode_t mode;
    uid_t owner;
    struct timespec written, changed;
} or_line_stamp_t;

typedef struct {
    char *path;
    or_line_stamp_t settled, seen, doubted;
    bool missed;                      // the last look found no file where there had been one
    int spares[OR_LINE_WATCH_SPARES]; // -1: none
} or_line_watch_t;

// Begin to watch; `path` is copied. OR_ERR_NO_MEMORY. Call fini in any case.
or_status_t or_line_watch_init(or_line_watch_t *watch, const char *path);
void or_line_watch_fini(or_line_watch_t *watch);

// Look whether the file's state is another than the settled one. A missing file counts at the second look, because
// editors move files away for a moment. OR_ERR_IO: that cannot be known now.
or_status_t or_line_watch_look(or_line_watch_t *watch, bool *changed);
// Read as or_line_file_read does, also when no other descriptor is free.
or_status_t or_line_watch_read(or_line_watch_t *watch, char **text_p);
// Settle the state that was seen last: it is not reported again.
void or_line_watch_settle(or_line_watch_t *watch);
// Return true if the state that was seen last was there at the previous call, too. Ask it before a change takes
// rights away: a file that is being written anew may seem to do so for a moment.
bool or_line_watch_is_steady(or_line_watch_t *watch);
// Return the mode of the file that was seen last; 0: there is none.
mode_t or_line_watch_mode(const or_line_watch_t *watch);
