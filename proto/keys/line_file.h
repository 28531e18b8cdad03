// line_file - a small text file that several programs read and change: always whole, one change at
// a time.
//
// A change is made under a lock (a file beside it) and put in place by a rename, so that a reader
// sees the old text or the new one. It keeps its owner and mode; a new one is 0600. Any thread.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/status.h"

// The file's text, for the caller to free; "" where there is none. *found (may be NULL) is its
// state, all 0 where there is none. OR_ERR_INVALID: not a regular file, over 4 MiB, or others can
// write to it or own it. OR_ERR_IO.
or_status_t or_line_file_read(const char *path, char **text_p, struct stat *found);

// Nobody else changes the file until `*lock` is closed. OR_ERR_IO.
or_status_t or_line_file_lock(const char *path, int *lock);
// Under the lock: this is its text now. OR_ERR_IO.
or_status_t or_line_file_write(const char *path, const char *text);

// What an owner can change is believed if that is we or root; root looks after everybody's files.
// OR_ERR_INVALID.
or_status_t or_line_file_check_owner(const char *path, const struct stat *found);
// `fd`, a file that root makes in another user's folder, gets the owner of the one at `path`, or of the
// folder where there is none: what one command changes the service must still be able to read. False
// with errno if it cannot be given.
bool or_line_file_hand_over(int fd, const char *path);

// The next line of *text, without its end, as a copy for the caller to free; *text moves on. NULL
// at the end, and where there is no memory: *status tells.
char *or_line_next(const char **text, or_status_t *status);
// `text` without the lines whose first word is `word`, and with `line` (NULL: none) at its end; to
// be freed.
or_status_t or_line_replace(const char *text, const char *word, const char *line, char **edited_p);
