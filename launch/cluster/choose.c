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

static bool is_target_alone(const or_cluster_models_t *models)
{
    return models->model != NULL && models->draft_model == NULL;
}

or_status_t or_models_choose_all(or_cluster_models_t *models, or_draft_model_wish_t wish)
{
    or_status_t status = OR_OK;
    if (wish == OR_DRAFT_MODEL_OPTIONAL && is_target_alone(models)) {
        status = or_cluster_models_check_target_alone(models);
    }
    if (status == OR_OK) {
        status = or_checkpoint_resolve_all(models->multi_models.items, models->multi_models.count);
    }
    return status == OR_OK ? or_models_choose(&models->model, &models->draft_model, wish) : status;
}

// Return what guesses that are looked up in the text cannot serve, or NULL.
static const char *drafter_wish(const or_parameters_t *parameters,
                                const or_generate_request_t *request)
{
    if (parameters->method != NULL &&
        or_draft_method_has(request->draft_method, OR_DRAFT_ASKS_MODEL)) {
        return "--draft-method";
    }
    if (parameters->ahead > 0) {
        return "--draft-ahead";
    }
    if (!or_accept_rule_takes_any_guess(request->accept_rule)) {
        return "the rule (--accept or --vocab-map)";
    }
    return request->draft_policy == OR_POLICY_FIXED ? "--draft-policy fixed" : NULL;
}

// Under its policy the coordinator looks guesses up itself, where that pays: no drafter has to load the target again.
static void look_up(or_generate_request_t *request)
{
    request->draft_method = OR_DRAFT_NGRAM;
    request->draft_ahead = 0;
    fprintf(stderr, "no draft model is given (-md): guesses are looked up in a text that runs "
                    "alone, where that pays; the text is the same\n");
}

or_status_t or_models_choose_for(or_cluster_models_t *models, const or_parameters_t *parameters,
                                 or_generate_request_t *request)
{
    const bool looks_up = !request->plain && is_target_alone(models);
    const char *wish = looks_up ? drafter_wish(parameters, request) : NULL;
    if (wish != NULL) {
        return or_fail(OR_ERR_INVALID, OR_NEEDS_DRAFT_MODEL, wish);
    }
    or_status_t status = or_models_choose_all(models, request->plain ? OR_DRAFT_MODEL_NONE
                                                                     : OR_DRAFT_MODEL_OPTIONAL);
    if (status == OR_OK && looks_up) {
        look_up(request);
    }
    return status;
}
