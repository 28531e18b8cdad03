// paths - where our programs, mpirun and the demonstration models are.
#pragma once

#include "common/base/status.h"

#define OR_PATH_BYTES 4096

// A program of ours: "<folder of /proc/self/exe>/<name>". OR_ERR_IO; OR_ERR_NOT_FOUND if no such program is there.
or_status_t or_paths_program(const char *name, char path[OR_PATH_BYTES]);

// Open MPI's launcher, which belongs to the system: from $PATH. Afterwards it also works for root, as in a container, which it
// would refuse. OR_ERR_NOT_FOUND names the package.
or_status_t or_mpirun_find(char path[OR_PATH_BYTES]);

// A demonstration model. The pair lies in $OUTRIDER_MODELS if that is set. Else it is where `cmake --install` puts it beside this
// executable (../share/outrider/models), or in launch/models of the source tree whose build/<preset>/bin holds it.
// OR_ERR_NOT_FOUND, with what to do, if it is missing.
or_status_t or_paths_model(const char *name, char path[OR_PATH_BYTES]);
