#include "common/model/load_packed.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/model/streamed.h"

// Return about how many bytes this rank's weights take.
static uint64_t weights_bytes(const or_model_t *model)
{
    const int ranks = model->ranks->size * or_ranks_stages(model->ranks);
    return or_model_weights_bytes(model->gguf) / (uint64_t)ranks;
}

uint64_t or_load_weights_memory(const or_model_t *model, const or_model_options_t *options,
                                uint32_t sharers)
{
    const uint64_t bytes = weights_bytes(model);
    const uint64_t available = or_memory_available() / sharers;
    const uint64_t room = or_model_weights_room(bytes, or_pass_bytes_here(model), available);
    if (options->weights_memory > 0) {
        return options->weights_memory;
    }
    return model->gpu == NULL && room < bytes ? (room > 0 ? room : 1) : 0;
}

// Without a packed file all weights come into memory, which the system would take from others, or end this process for. Of
// several ranks each is asked alone: they may be on other hosts, or have begun already.
static or_status_t check_fits(const or_model_t *model, const or_model_options_t *options)
{
    const uint64_t bytes = weights_bytes(model), available = or_memory_available();
    const bool insists = options->packed == NULL || strcmp(options->packed, "off") == 0;
    if (model->gpu != NULL || insists || bytes <= available) {
        return OR_OK;
    }
    return or_fail(OR_ERR_NO_MEMORY,
                   "%s: the weights take %" PRIu64 " MiB, and there are %" PRIu64
                   " MiB of memory: after `outrider model pack` layers that do not fit are read "
                   "from disk in every pass (--packed off tries it without)",
                   or_gguf_path(model->gguf), bytes >> 20, available >> 20);
}

// Checksums are compared by as many threads as passes have; where only a part of the file is, that begins later.
or_status_t or_load_packed(or_model_t *model, const or_model_options_t *options, uint64_t memory)
{
    const uint32_t threads = memory == 0 ? or_workers_count(model->workers) : 0;
    if (options->weights_memory > 0 && model->gpu != NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "--weights-memory is for targets on CPUs (--device none)");
    }
    or_status_t status = or_packed_check_wish(options->packed, options->weights_memory);
    if (status != OR_OK) {
        return status;
    }
    or_packed_open_wished(model->gguf, options->packed, threads, &model->packed);
    if (model->packed == NULL && options->weights_memory > 0) {
        return or_fail(OR_ERR_NOT_FOUND,
                       "--weights-memory needs a packed file of %s that can be used; make it with "
                       "`outrider model pack`",
                       or_gguf_path(model->gguf));
    }
    return model->packed == NULL ? check_fits(model, options) : OR_OK;
}

or_status_t or_load_streamed(or_model_t *model, const or_model_options_t *options, uint64_t memory)
{
    if (memory == 0 || model->packed == NULL) {
        return OR_OK;
    }
    or_status_t status =
        or_streamed_create(model, memory, options->weights_memory > 0, &model->streamed);
    model->mapped_bytes -= or_streamed_bytes(model->streamed);
    return status;
}

or_status_t or_load_check_packed(or_model_t *model)
{
    const bool waits = model->gpu != NULL || !or_ranks_is_alone(model->ranks);
    or_status_t status = waits ? or_model_check_files(model) : OR_OK;
    if (status == OR_OK && model->gpu != NULL) {
        or_packed_close(&model->packed);
    }
    return status;
}
