// line_file - a small text file that several programs read and change. It is always whole, and changes one at a time.
//
// A change is made under a lock (a file beside it) and put in place by a rename, so a reader sees the old text or the
// new one. The file keeps its owner and mode; a new one is 0600. Any thread.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/status.h"

// Read the file; the caller frees the text, which is "" if there is no file. *found (may be NULL) is the file's
// state, all 0 if there is none. OR_ERR_INVALID: not a regular file, over 4 MiB, or others can write to it or own it.
// OR_ERR_IO.
or_status_t or_line_file_read(const char *path, char **text_p, struct stat *found);

// Lock the file: no other program changes it until `*lock` is closed. OR_ERR_IO.
or_status_t or_line_file_lock(const char *path, int *lock);
// Replace the text, under the lock. OR_ERR_IO.
or_status_t or_line_file_write(const char *path, const char *text);

// Check that the file belongs to us or to root, who looks after everybody's files. OR_ERR_INVALID.
or_status_t or_line_file_check_owner(const char *path, const struct stat *found);
// Give `fd`, a file that root makes in another user's folder, the owner of the file at `path`, or of the folder if
// there is none. The service must still be able to read what a command has changed. False with errno if that fails.
bool or_line_file_hand_over(int fd, const char *path);

// Return a copy of the next line of *text, without its end, for the caller to free; *text moves on. NULL at the end,
// and if there is no memory: *status tells which.
char *or_line_next(const char **text, or_status_t *status);
// Make a copy of `text` without the lines whose first word is `word`, and with `line` (NULL: none) at its end. The
// caller frees it.
or_status_t or_line_replace(const char *text, const char *word, const char *line, char **edited_p);
