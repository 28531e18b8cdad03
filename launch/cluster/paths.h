// paths - where our programs and the demonstration models lie: next to, or relative to, the running
// executable.
#pragma once

#include "common/base/status.h"

#define OR_PATH_BYTES 4096

#define OR_DEMO_TARGET "tales-6m-f16.gguf"
#define OR_DEMO_DRAFT "tales-1m-f16.gguf"

// "<folder of /proc/self/exe>/<name>". OR_ERR_IO; OR_ERR_NOT_FOUND if no such program is there.
or_status_t or_paths_program(const char *name, char path[OR_PATH_BYTES]);

// A program of the system, from the folders of $PATH. OR_ERR_NOT_FOUND.
or_status_t or_paths_installed(const char *name, char path[OR_PATH_BYTES]);

// A demonstration model: in $OUTRIDER_MODELS if that is set, else where `cmake --install` puts them beside this
// executable (../share/outrider/models), else in launch/models of the source tree whose build/<preset>/bin holds it;
// canonical. OR_ERR_NOT_FOUND says what to do.
or_status_t or_paths_model(const char *name, char path[OR_PATH_BYTES]);
