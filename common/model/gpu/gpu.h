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
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_peers.h"
#include "kernels/cuda/cuda_tensor.h"

// Each is called as the header declares it, by the name there without "or_cuda_".
typedef struct {
    __typeof__(or_cuda_text) *text;
    __typeof__(or_cuda_count) *count;
    __typeof__(or_cuda_describe) *describe;
    __typeof__(or_cuda_free_bytes) *free_bytes;
    __typeof__(or_cuda_open) *open;
    __typeof__(or_cuda_close) *close;
    __typeof__(or_cuda_alloc) *alloc;
    __typeof__(or_cuda_free) *free;
    __typeof__(or_cuda_alloc_pinned) *alloc_pinned;
    __typeof__(or_cuda_free_pinned) *free_pinned;
    __typeof__(or_cuda_upload) *upload;
    __typeof__(or_cuda_download) *download;
    __typeof__(or_cuda_copy) *copy;
    __typeof__(or_cuda_clear) *clear;
    __typeof__(or_cuda_wait) *wait;
    __typeof__(or_cuda_fetch) *fetch;
    __typeof__(or_cuda_hold_fetches) *hold_fetches;
    __typeof__(or_cuda_await_fetches) *await_fetches;
    __typeof__(or_cuda_record_begin) *record_begin;
    __typeof__(or_cuda_record_end) *record_end;
    __typeof__(or_cuda_loop_begin) *loop_begin;
    __typeof__(or_cuda_loop_end) *loop_end;
    __typeof__(or_cuda_replay) *replay;
    __typeof__(or_cuda_recording_free) *recording_free;

    __typeof__(or_cuda_peers_name) *peers_name;
    __typeof__(or_cuda_peers_id) *peers_id;
    __typeof__(or_cuda_peers_join) *peers_join;
    __typeof__(or_cuda_peers_leave) *peers_leave;
    __typeof__(or_cuda_peers_gather) *peers_gather;

    __typeof__(or_cuda_rmsnorm) *rmsnorm;
    __typeof__(or_cuda_rope) *rope;
    __typeof__(or_cuda_swiglu) *swiglu;
    __typeof__(or_cuda_add) *add;
    __typeof__(or_cuda_add_parts) *add_parts;
    __typeof__(or_cuda_matmul_quants) *matmul_quants;
    __typeof__(or_cuda_matmul_floats) *matmul_floats;
    __typeof__(or_cuda_tensor_open) *tensor_open;
    __typeof__(or_cuda_tensor_close) *tensor_close;
    __typeof__(or_cuda_tensor_name) *tensor_name;
    __typeof__(or_cuda_tensor_prepare) *tensor_prepare;
    __typeof__(or_cuda_matmul_tensor) *matmul_tensor;
    __typeof__(or_cuda_embed) *embed;
    __typeof__(or_cuda_store_kv) *store_kv;
    __typeof__(or_cuda_attention) *attention;
    __typeof__(or_cuda_accept) *accept;
    __typeof__(or_cuda_slots_bytes) *slots_bytes;
    __typeof__(or_cuda_contenders) *contenders;
    __typeof__(or_cuda_contenders_bytes) *contenders_bytes;
    __typeof__(or_cuda_grow) *grow;
    __typeof__(or_cuda_grow_bytes) *grow_bytes;
    __typeof__(or_cuda_reject) *reject;
    __typeof__(or_cuda_reject_bytes) *reject_bytes;
} or_gpu_functions_t;

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
