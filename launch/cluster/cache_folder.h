// cache_folder - the user's folder for files that can be made again: $XDG_CACHE_HOME/outrider, or ~/.cache/outrider.
#pragma once

#include "common/base/status.h"
#include "launch/cluster/paths.h"

// Find the folder, and make it where it is missing. OR_ERR_IO: it cannot be made, or there is no place for it.
or_status_t or_cache_folder(char folder[OR_PATH_BYTES]);
