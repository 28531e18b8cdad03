#include "verifier/loaded.h"

#include <inttypes.h>

#include "common/base/log/log.h"

void or_loaded_log_memory(const or_model_t *model)
{
    or_model_memory_t memory = or_model_memory(model);
    or_log(OR_LOG_INFO,
           "weights %" PRIu64 " MiB, KV cache %" PRIu32 " pages of %u positions (%" PRIu64
           " MiB), buffers %" PRIu64 " MiB",
           memory.weights >> 20, or_kv_cache_pages(or_model_cache(model)), OR_KV_PAGE,
           memory.cache >> 20, memory.buffers >> 20);
    if (memory.windows > 0) {
        or_log(OR_LOG_INFO,
               "of the KV cache %" PRIu64 " MiB are for layers with a window, which keep the last "
               "positions of each text",
               memory.windows >> 20);
    }
    if (memory.mapped > 0) {
        or_log(OR_LOG_INFO,
               "%" PRIu64 " MiB of the weights are mapped from their packed file, which is "
               "compared with its checksums until the first pass",
               memory.mapped >> 20);
    }
    if (memory.streamed > 0) {
        or_log(OR_LOG_INFO,
               "%" PRIu32 " of %" PRIu32 " layers stay on disk: each pass reads %s%" PRIu64
               " MiB of the packed file, by way of %" PRIu64 " MiB (--weights-memory)",
               memory.streamed_layers, memory.layers,
               or_model_shape(model)->experts > 0 ? "up to " : "", memory.streamed >> 20,
               memory.streamed_buffers >> 20);
    }
    const or_model_kept_t kept = or_model_kept_of_all(model);
    if (kept.slots > 0) {
        or_log(OR_LOG_INFO,
               "%" PRIu32 " of %" PRIu32 " experts have room in memory: those that passes use most",
               kept.slots, kept.experts);
    }
}

void or_loaded_log_sums(const or_model_t *model)
{
    const char *sums = or_model_sums(model);
    if (sums != NULL) {
        or_log(OR_LOG_INFO, "ranks add up by %s", sums);
    }
}
