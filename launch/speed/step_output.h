// step_output - prints the passes that `outrider bench step` timed. Internal to this folder.
#pragma once

#include "common/model/model.h"
#include "launch/speed/step_plan.h"

// Print a table for people. `path` is the model's file, `threads` how many computed.
void or_step_print_table(const or_model_t *model, const or_step_plan_t *plan, const char *path,
                         uint32_t threads);

// Print an array of an object a kind of pass, on one line. OR_ERR_NO_MEMORY, or OR_ERR_IO where it cannot be written.
or_status_t or_step_print_json(const or_model_t *model, const or_step_plan_t *plan);
