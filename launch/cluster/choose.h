// choose - which models a command means.
#pragma once

#include "common/base/status.h"
#include "launch/cluster/cluster_models.h"
#include "proto/wire/parameters.h"

typedef enum {
    OR_DRAFT_MODEL_NONE,     // the text is decoded plainly
    OR_DRAFT_MODEL_OPTIONAL, // a target of the user's own may be without one
    OR_DRAFT_MODEL_NEEDED
} or_draft_model_wish_t;

// Fill in the demonstration pair where nothing was given, and the file that is made of a model that is given as a checkpoint's
// folder (launch/model/convert/cached.h). *model and *draft are heap strings or NULL (not given) and stay so. *draft is NULL
// afterwards where no draft model is wished, or where it is optional and only the target was named. OR_ERR_INVALID if a target was
// named without the draft model that is needed; errors of or_paths_model and of or_checkpoint_resolve.
or_status_t or_models_choose(char **model, char **draft, or_draft_model_wish_t wish);
// The same for all models of a local cluster, those of --multi-model included. An optional draft model is needed where an option
// of its own is given (or_cluster_models_check_target_alone).
or_status_t or_models_choose_all(or_cluster_models_t *models, or_draft_model_wish_t wish);
// The same for a command that needs the target only.
or_status_t or_models_choose_target(char **model);

// Choose the models of a local cluster for `request`, which was made of `parameters`. A target of the user's own without a draft
// model makes it a request whose guesses the coordinator looks up in the text, and standard error says so.
// OR_ERR_INVALID if its method, its rule or its policy needs a draft model; errors of or_models_choose_all.
or_status_t or_models_choose_for(or_cluster_models_t *models, const or_parameters_t *parameters,
                                 or_generate_request_t *request);
