// The public functions of a loaded model (model.h): its numbers, and passes, which the leader of several ranks
// announces to the others.
#include "common/model/model.h"

#include <stdlib.h>

#include "common/model/cpu/logits.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

or_status_t or_model_pick_kernels(const or_kernels_t **kernels)
{
    const or_kernels_t *picked = or_kernels_pick();
    if (picked == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "OUTRIDER_KERNELS names '%s', which cannot run here; unset it, or name one "
                       "of: %s",
                       getenv("OUTRIDER_KERNELS"), or_kernels_names());
    }
    *kernels = picked;
    return OR_OK;
}

uint64_t or_model_weights_bytes(const or_gguf_t *gguf)
{
    const or_arch_t *arch;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        bytes += or_gguf_tensor(gguf, i)->bytes;
    }
    if (or_arch_find(gguf, &arch) == OR_OK && arch->input_embedding != NULL) {
        const or_gguf_tensor_t *read = or_gguf_find_tensor(gguf, arch->input_embedding);
        bytes -= read != NULL ? read->bytes : 0;
    }
    return bytes;
}

uint64_t or_model_weights_room(uint64_t bytes, uint64_t pass_bytes, uint64_t available)
{
    const uint64_t left = available > pass_bytes ? available - pass_bytes : 0;
    return bytes <= left ? bytes : left / 4 * 3;
}

const or_model_shape_t *or_model_shape(const or_model_t *model)
{
    return &model->shape;
}

uint32_t or_model_context(const or_model_t *model)
{
    return model->context;
}

uint32_t or_model_rows_max(const or_model_t *model)
{
    return model->rows_max;
}

const char *or_model_kernels(const or_model_t *model)
{
    return model->gpu != NULL ? "cuda" : model->kernels->name;
}

const char *or_model_arith_id(const or_model_t *model)
{
    return model->arith_id;
}

or_model_memory_t or_model_memory(const or_model_t *model)
{
    return (or_model_memory_t){
        .weights = model->weight_bytes,
        .mapped = model->mapped_bytes,
        .streamed = or_streamed_bytes(model->streamed),
        .streamed_layers = or_streamed_layers(model->streamed),
        .streamed_buffers = or_streamed_buffer_bytes(model->streamed),
        .layers = or_span_length(model->share.layers),
        .host_layers = model->gpu != NULL ? model->gpu->layers.away : 0,
        .host_weights = model->gpu != NULL ? model->gpu->layers.away_bytes : 0,
        .cache = or_kv_cache_bytes(model->cache),
        .windows = or_kv_cache_window_bytes(model->cache),
        .slot = or_kv_slot_bytes(&model->cache_shape),
        .buffers = model->buffer_bytes,
    };
}

or_model_reads_t or_model_reads(const or_model_t *model)
{
    or_model_reads_t reads = model->gpu != NULL ? or_gpu_experts_read(model) : model->experts.read;
    reads.weights += model->weight_bytes - or_experts_bytes(model);
    return reads;
}

or_model_kept_t or_model_kept_of_pass(const or_model_t *model)
{
    return or_kept_experts_of_pass(or_streamed_kept(model->streamed));
}

or_model_kept_t or_model_kept_of_all(const or_model_t *model)
{
    return or_kept_experts_of_all(or_streamed_kept(model->streamed));
}

const or_kv_cache_t *or_model_cache(const or_model_t *model)
{
    return model->cache;
}

const or_ranks_t *or_model_ranks(const or_model_t *model)
{
    return model->ranks;
}

uint32_t or_model_sequences_max(const or_model_t *model)
{
    return model->sequences_max;
}

static or_status_t fail_changed(const or_model_t *model)
{
    return or_fail(OR_ERR_IO,
                   "%s was changed while it was in use: start again with the file as it is now",
                   or_gguf_path(model->gguf));
}

or_status_t or_model_check_files(or_model_t *model)
{
    model->changed = model->changed || !or_gguf_is_unchanged(model->gguf);
    return model->changed ? fail_changed(model) : or_packed_check(model->packed);
}

bool or_model_is_lost(const or_model_t *model)
{
    return (model->changed && fail_changed(model) != OR_OK) ||
           (model->gpu != NULL && or_gpu_check(model->gpu) != OR_OK) ||
           or_packed_is_lost(model->packed);
}

// ---- passes ----

void or_model_set_between(or_model_t *model, or_model_between_t *between, void *context)
{
    model->between = between;
    model->between_context = context;
}

or_status_t or_model_forward(or_model_t *model, const or_model_row_t *rows, uint32_t count)
{
    if (!or_ranks_is_leader(model->ranks)) {
        return or_fail(OR_ERR_INVALID, "only the leader of several ranks begins a pass");
    }
    or_status_t status = or_model_check_files(model);
    status = status != OR_OK ? status : or_pass_plan(model, rows, count);
    if (status == OR_OK && model->lockstep != NULL) {
        status = or_lockstep_send_pass(model->lockstep, rows, count);
        if (status != OR_OK) {
            or_pass_undo(model, count);
        }
    }
    status = status != OR_OK ? status : or_pass_run(model, count);
    return status != OR_OK ? status : or_model_check_files(model); // embeddings were read since
}

or_status_t or_model_logits_top(or_model_t *model, uint32_t first, uint32_t count, uint32_t top,
                                float *out)
{
    if (!or_ranks_is_leader(model->ranks)) {
        return or_fail(OR_ERR_INVALID, "logits are asked for on the leader; the others follow");
    }
    uint32_t wanted = top > 0 ? top : 1;
    or_status_t status = or_model_check_files(model);
    status = status != OR_OK ? status : or_pass_check_rows(model, first, count);
    if (status == OR_OK && model->lockstep != NULL) {
        status = or_lockstep_send_logits(model->lockstep, first, count, wanted);
    }
    status = status != OR_OK ? status : or_logits_run(model, first, count, wanted, out);
    return status != OR_OK ? status : or_model_check_files(model); // the head was read since
}

or_status_t or_model_logits(or_model_t *model, uint32_t first, uint32_t count, float *out)
{
    return or_model_logits_top(model, first, count, model->shape.vocab_size, out);
}
