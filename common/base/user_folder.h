// user_folder - where the user's files are, by the XDG base directory specification.
//
//     OR_USER_CACHE    $XDG_CACHE_HOME/outrider    or ~/.cache/outrider          what can be made again
//     OR_USER_STATE    $XDG_STATE_HOME/outrider    or ~/.local/state/outrider    journals
//
// A variable with a relative path counts as absent, as the specification has it. Any thread.
#pragma once

#include <stddef.h>

#include "common/base/status.h"

typedef enum { OR_USER_CACHE, OR_USER_STATE } or_user_folder_t;

// Write the folder's path, whether it is there or not. OR_ERR_NOT_FOUND if neither variable names one; OR_ERR_INVALID if the
// path has no room.
or_status_t or_user_folder_find(or_user_folder_t which, char *path, size_t capacity);
// The same, and make it (0700) and those above it where they are missing. OR_ERR_IO says which could not be made.
or_status_t or_user_folder_make(or_user_folder_t which, char *path, size_t capacity);
