#include "launch/cluster/mpirun.h"

#include <stdlib.h>

or_status_t or_mpirun_find(char path[OR_PATH_BYTES])
{
    if (or_paths_installed("mpirun", path) != OR_OK) {
        return or_fail(OR_ERR_NOT_FOUND, "mpirun is not installed (Debian: apt-get install "
                                         "openmpi-bin)");
    }
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    return OR_OK;
}
