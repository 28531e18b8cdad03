// mpirun - Open MPI's launcher, which belongs to the system and not to us.
#pragma once

#include "launch/cluster/paths.h"

// Its path, from $PATH. Afterwards it also works for root, as in a container, which it would refuse. OR_ERR_NOT_FOUND
// names the package.
or_status_t or_mpirun_find(char path[OR_PATH_BYTES]);
