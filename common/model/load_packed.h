// load_packed - what a load does with the model's packed file, step by step. Private to common/model.
#pragma once

#include "common/model/model_internal.h"

// Return the memory that this rank's weights may have; 0: as much as they need. `sharers` share the machine's memory.
uint64_t or_load_weights_memory(const or_model_t *model, const or_model_options_t *options,
                                uint32_t sharers);
// Open the packed file that the options wish for. Fails where there is none, and weights do not fit without.
or_status_t or_load_packed(or_model_t *model, const or_model_options_t *options, uint64_t memory);
// Decide which layers are read from disk in every pass.
or_status_t or_load_streamed(or_model_t *model, const or_model_options_t *options, uint64_t memory);
// What a GPU has was copied from the file, which must be whole, and is not needed any more. Several ranks wait for the
// comparison here, where nobody counts the time, and not in their first pass, where it would look as if one were stuck.
or_status_t or_load_check_packed(or_model_t *model);
