// paths - where our programs, mpirun and the demonstration models are, and which models a command means.
#pragma once

#include "common/base/status.h"

#define OR_PATH_BYTES 4096

// A program of ours: "<folder of /proc/self/exe>/<name>". OR_ERR_IO; OR_ERR_NOT_FOUND if no such program is there.
or_status_t or_paths_program(const char *name, char path[OR_PATH_BYTES]);

// Open MPI's launcher, which belongs to the system: from $PATH. Afterwards it also works for root, as in a container, which it
// would refuse. OR_ERR_NOT_FOUND names the package.
or_status_t or_mpirun_find(char path[OR_PATH_BYTES]);

// Fill in the demonstration pair where nothing was given, and the file that is made of a model that is given as a checkpoint's
// folder (launch/model/convert/cached.h). *model and *draft are heap strings or NULL (not given) and stay so;
// with `plain` the draft model becomes NULL. OR_ERR_INVALID if a target was named without its drafter; OR_ERR_NOT_FOUND, with
// what to do, for a demonstration model that is missing. The pair lies in $OUTRIDER_MODELS if that is set, else where
// `cmake --install` puts it beside this executable (../share/outrider/models), else in launch/models of the source tree
// whose build/<preset>/bin holds it.
or_status_t or_models_choose(char **model, char **draft, bool plain);
// The same for a command that needs the target only.
or_status_t or_models_choose_target(char **model);
