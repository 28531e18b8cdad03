// models - which target and draft model a command means.
#pragma once

#include "common/base/status.h"

// Fill in the demonstration pair where nothing was given. *model and *draft are heap strings or
// NULL (not given) and stay so; with `plain` the draft model becomes NULL. OR_ERR_INVALID if a
// target was named without its drafter; OR_ERR_NOT_FOUND for a missing demonstration file.
or_status_t or_models_choose(char **model, char **draft, bool plain);
// The same for a command that needs the target only.
or_status_t or_models_choose_target(char **model);
