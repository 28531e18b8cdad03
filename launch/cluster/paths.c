#include "launch/cluster/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static or_status_t join(const char *folder, const char *middle, const char *name,
                        char path[OR_PATH_BYTES])
{
    int length = snprintf(path, OR_PATH_BYTES, "%s/%s%s", folder, middle, name);
    if (length < 0 || length >= OR_PATH_BYTES) {
        return or_fail(OR_ERR_INVALID, "the path of %s is too long", name);
    }
    return OR_OK;
}

static or_status_t own_folder(char folder[OR_PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", folder, OR_PATH_BYTES - 1);
    if (length < 0) {
        return or_fail(OR_ERR_IO, "cannot read /proc/self/exe: %s", strerror(errno));
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0'; // the kernel gives an absolute path
    return OR_OK;
}

or_status_t or_paths_program(const char *name, char path[OR_PATH_BYTES])
{
    char folder[OR_PATH_BYTES];
    or_status_t status = own_folder(folder);
    if (status == OR_OK) {
        status = join(folder, "", name, path);
    }
    if (status == OR_OK && access(path, X_OK) != 0) {
        status = or_fail(OR_ERR_NOT_FOUND, "%s is missing: %s; build all programs", path,
                         strerror(errno));
    }
    return status;
}

static or_status_t find_installed(const char *name, char path[OR_PATH_BYTES])
{
    const char *folders = getenv("PATH");
    folders = folders != NULL ? folders : "/usr/bin";
    while (*folders != '\0') {
        int length = (int)strcspn(folders, ":");
        int used = snprintf(path, OR_PATH_BYTES, "%.*s/%s", length, folders, name);
        if (length > 0 && used < OR_PATH_BYTES && access(path, X_OK) == 0) {
            return OR_OK;
        }
        folders += length + (folders[length] == ':');
    }
    return or_fail(OR_ERR_NOT_FOUND, "%s is not installed", name);
}

or_status_t or_mpirun_find(char path[OR_PATH_BYTES])
{
    if (find_installed("mpirun", path) != OR_OK) {
        return or_fail(OR_ERR_NOT_FOUND, "mpirun is not installed (Debian: apt-get install "
                                         "openmpi-bin)");
    }
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    return OR_OK;
}

// A demonstration model seen from the executable's folder: installed with it, or in the source tree.
static or_status_t own_model(const char *name, char path[OR_PATH_BYTES])
{
    char folder[OR_PATH_BYTES];
    or_status_t status = own_folder(folder);
    if (status == OR_OK) {
        status = join(folder, "../share/outrider/models/", name, path);
    }
    if (status == OR_OK && access(path, R_OK) != 0) {
        status = join(folder, "../../../launch/models/", name, path);
    }
    return status;
}

or_status_t or_paths_model(const char *name, char path[OR_PATH_BYTES])
{
    char folder[OR_PATH_BYTES];
    const char *models = getenv("OUTRIDER_MODELS");
    or_status_t status;
    if (models != NULL && *models != '\0') {
        status = join(models, "", name, path);
    } else {
        status = own_model(name, path);
    }
    if (status == OR_OK && access(path, R_OK) != 0) {
        status =
            or_fail(OR_ERR_NOT_FOUND,
                    "the demonstration model %s is not at %s; set OUTRIDER_MODELS to its folder "
                    "or name models with -m and -md",
                    name, path);
    }
    // Logs get the path without dots. A path that cannot be resolved still opens.
    if (status == OR_OK && realpath(path, folder) != NULL) {
        memcpy(path, folder, strlen(folder) + 1);
    }
    return status;
}
