#include "launch/cluster/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/cluster/paths.h"
#include "launch/model/convert/cached.h"

#define DEMO_TARGET "tales-6m-f16.gguf"
#define DEMO_DRAFT "tales-1m-f16.gguf"

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
    return *model != NULL ? or_checkpoint_resolve(model) : use_demonstration(DEMO_TARGET, model);
}

or_status_t or_models_choose(char **model, char **draft, or_draft_model_wish_t wish)
{
    bool own_target = *model != NULL;
    or_status_t status = or_models_choose_target(model);
    if (status != OR_OK) {
        return status;
    }
    if (wish == OR_DRAFT_MODEL_NONE) {
        free(*draft);
        *draft = NULL;
        return OR_OK;
    }
    if (*draft != NULL) {
        return or_checkpoint_resolve(draft);
    }
    if (!own_target) {
        return use_demonstration(DEMO_DRAFT, draft);
    }
    return wish == OR_DRAFT_MODEL_OPTIONAL
               ? OR_OK
               : or_fail(OR_ERR_INVALID,
                         "-m names a target alone; name a draft model with -md, too");
}

or_status_t or_models_choose_all(or_cluster_models_t *models, or_draft_model_wish_t wish)
{
    or_status_t status =
        or_checkpoint_resolve_all(models->multi_models.items, models->multi_models.count);
    return status == OR_OK ? or_models_choose(&models->model, &models->draft_model, wish) : status;
}

// Can guesses that are looked up in the text serve this request?
static bool can_look_up(const or_cluster_models_t *models, const or_parameters_t *parameters,
                        const or_generate_request_t *request)
{
    bool suits = parameters->method == NULL ||
                 !or_draft_method_has(request->draft_method, OR_DRAFT_ASKS_MODEL);
    return suits && models->multi_models.count == 0 &&
           or_accept_rule_takes_any_guess(request->accept_rule);
}

// Under this policy the coordinator looks guesses up itself, where that pays: no drafter has to load the target again.
static void look_up(or_generate_request_t *request)
{
    request->draft_method = OR_DRAFT_NGRAM;
    request->draft_policy = OR_POLICY_AUTO;
    request->draft_ahead = 0;
    fprintf(stderr, "no draft model is given (-md): guesses are looked up in the text where that "
                    "pays; the text is the same\n");
}

or_status_t or_models_choose_for(or_cluster_models_t *models, const or_parameters_t *parameters,
                                 or_generate_request_t *request)
{
    or_draft_model_wish_t wish = OR_DRAFT_MODEL_NEEDED;
    if (request->plain) {
        wish = OR_DRAFT_MODEL_NONE;
    } else if (can_look_up(models, parameters, request)) {
        wish = OR_DRAFT_MODEL_OPTIONAL;
    }
    or_status_t status = or_models_choose_all(models, wish);
    if (status == OR_OK && wish == OR_DRAFT_MODEL_OPTIONAL && models->draft_model == NULL) {
        look_up(request);
    }
    return status;
}
