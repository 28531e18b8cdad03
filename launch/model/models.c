#include "launch/model/models.h"

#include <stdlib.h>
#include <string.h>

#include "launch/cluster/paths.h"

static or_status_t use_demonstration(const char *name, char **file)
{
    char path[OR_PATH_BYTES];
    or_status_t status = or_paths_model(name, path);
    if (status != OR_OK) {
        return status;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a path");
    }
    *file = copy;
    return OR_OK;
}

or_status_t or_models_choose_target(char **model)
{
    return *model != NULL ? OR_OK : use_demonstration(OR_DEMO_TARGET, model);
}

or_status_t or_models_choose(char **model, char **draft, bool plain)
{
    bool own_target = *model != NULL;
    or_status_t status = or_models_choose_target(model);
    if (status != OR_OK) {
        return status;
    }
    if (plain) {
        free(*draft);
        *draft = NULL;
        return OR_OK;
    }
    if (*draft != NULL) {
        return OR_OK;
    }
    if (own_target) {
        return or_fail(OR_ERR_INVALID, "-m names a target; name a draft model with -md, or "
                                       "decode without one with --plain");
    }
    return use_demonstration(OR_DEMO_DRAFT, draft);
}
