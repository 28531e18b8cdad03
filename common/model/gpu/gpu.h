// gpu - a device for a model's passes: which one, and the functions that make it work.
//
// The functions are those of kernels/cuda/cuda_device.h and cuda_kernels.h, as a table, so that the model
// itself needs no CUDA:
//
//     library gpu             gpu_cuda.c over kernels_cuda; gpu_none.c where the build found no nvcc
//     library gpu_emulated    gpu_cuda.c over kernels_cuda_emulated, the same kernels run by the CPU: for tests
//
// A program links one of them and hands its table to or_model_load.
#pragma once

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_experts.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_latent.h"
#include "kernels/cuda/cuda_peers.h"
#include "kernels/cuda/cuda_tensor.h"

// Each is called as the header declares it, by the name there without "or_cuda_".
// clang-format off
#define OR_GPU_FUNCTIONS(row) \
    row(text) row(count) row(describe) row(free_bytes) row(open) row(close) row(alloc) row(free) \
    row(alloc_pinned) row(free_pinned) row(upload) row(download) row(copy) row(clear) row(wait) \
    row(fetch) row(hold_fetches) row(await_fetches) row(part) row(branch) row(meet) \
    row(record_begin) row(record_end) \
    row(loop_begin) row(loop_end) row(replay) row(recording_free) \
    row(peers_name) row(peers_id) row(peers_join) row(peers_leave) row(peers_gather) \
    row(rmsnorm) row(rmsnorm_heads) row(layer_norm) row(rope) row(scale_by_position) row(activate) row(scale) row(scale_by) row(softcap) \
    row(add) row(add_parts) row(matmul_quants) row(matmul_quants_beside) row(sum_quants) \
    row(matmul_floats) row(tensor_open) row(tensor_close) row(tensor_name) row(tensor_prepare) \
    row(matmul_tensor) row(embed) row(store_kv) row(attention) row(accept) row(slots_bytes) \
    row(choose_experts) row(mix_experts) row(group_entries) row(gather) row(activate_experts) row(weigh_shared) \
    row(sum_entries) row(bias_experts) row(gather_heads) row(copy_heads) row(group_heads) row(quantize) \
    row(contenders) row(contenders_bytes) row(grow) row(grow_bytes) row(reject) row(reject_bytes)
// clang-format on

#define OR_GPU_FUNCTION(name) __typeof__(or_cuda_##name) *name;
typedef struct {
    OR_GPU_FUNCTIONS(OR_GPU_FUNCTION)
} or_gpu_functions_t;
#undef OR_GPU_FUNCTION

// Return the functions of the library that was linked; NULL if this program was built without CUDA.
const or_gpu_functions_t *or_gpu_functions(void);

#define OR_GPU_LAYERS_FIT UINT32_MAX

typedef struct {
    const or_gpu_functions_t *functions; // NULL as above: loading fails and says so
    uint32_t index;                      // as or_cuda_open counts devices
    // The number of layers of each rank, the last ones, whose weights stay in pinned memory of the host. They are
    // fetched in every pass while the layer before is computed. More than there are means all. OR_GPU_LAYERS_FIT
    // means those for which the device has no room beside one full context of the cache, or beside the cache that was
    // asked for.
    uint32_t host_layers;
    // Products of BF16 weights, or of F16 where there are none, by tensor cores (kernels/cuda/cuda_tensor.h). They
    // are faster for many rows and have an arithmetic of their own (or_model_arith_id), so the texts are no longer
    // the CPU's.
    bool tensor;
    // Sums of several ranks go by way of the host, even if all have GPUs of their own and NCCL.
    bool no_peers;
} or_gpu_choice_t;
