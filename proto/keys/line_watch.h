// line_watch - a line file that somebody else changes while we run: when it is to be read again.
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

// Descriptors kept for reading the file: connections may have taken all others when somebody's key is revoked, and take
// one or another of these in the moment in which they are free.
#define OR_LINE_WATCH_SPARES 4

// What tells one state of the file from the next, whether it may be believed included. A file that is replaced is
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

// `path` is copied. OR_ERR_NO_MEMORY; fini in any case.
or_status_t or_line_watch_init(or_line_watch_t *watch, const char *path);
void or_line_watch_fini(or_line_watch_t *watch);

// Is the file another than the settled one? One that is gone is so at the second look: editors move files away for a
// moment. OR_ERR_IO: it cannot be known now.
or_status_t or_line_watch_look(or_line_watch_t *watch, bool *changed);
// As or_line_file_read, also when no other descriptor is free.
or_status_t or_line_watch_read(or_line_watch_t *watch, char **text_p);
// The state that was seen last is known: it is told of no more.
void or_line_watch_settle(or_line_watch_t *watch);
// For what takes something away, which a file that is being written anew may do for a moment: was this state, the one that was seen
// last, there when this was asked before?
bool or_line_watch_is_steady(or_line_watch_t *watch);
// The mode of the file that was seen last; 0: there is none.
mode_t or_line_watch_mode(const or_line_watch_t *watch);
