// loaded - what the log says of a model that has been loaded. One thread.
#pragma once

#include "common/model/model.h"

// Log the memory of weights, KV cache and buffers, and what stays on disk.
void or_loaded_log_memory(const or_model_t *model);
// Log how ranks add up, where there are several.
void or_loaded_log_sums(const or_model_t *model);
