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

// Each is called as the header declares it, by the name there without "or_cuda_".
typedef struct {
    __typeof__(or_cuda_text) *text;
    __typeof__(or_cuda_count) *count;
    __typeof__(or_cuda_describe) *describe;
    __typeof__(or_cuda_open) *open;
    __typeof__(or_cuda_close) *close;
    __typeof__(or_cuda_alloc) *alloc;
    __typeof__(or_cuda_free) *free;
    __typeof__(or_cuda_alloc_pinned) *alloc_pinned;
    __typeof__(or_cuda_free_pinned) *free_pinned;
    __typeof__(or_cuda_upload) *upload;
    __typeof__(or_cuda_download) *download;
    __typeof__(or_cuda_copy) *copy;
    __typeof__(or_cuda_wait) *wait;

    __typeof__(or_cuda_rmsnorm) *rmsnorm;
    __typeof__(or_cuda_rope) *rope;
    __typeof__(or_cuda_swiglu) *swiglu;
    __typeof__(or_cuda_add) *add;
    __typeof__(or_cuda_add_parts) *add_parts;
    __typeof__(or_cuda_matmul_quants) *matmul_quants;
    __typeof__(or_cuda_matmul_floats) *matmul_floats;
    __typeof__(or_cuda_store_kv) *store_kv;
    __typeof__(or_cuda_attention) *attention;
    __typeof__(or_cuda_accept) *accept;
    __typeof__(or_cuda_slots_bytes) *slots_bytes;
} or_gpu_functions_t;

// Of the library that was linked; NULL: this program was built without CUDA.
const or_gpu_functions_t *or_gpu_functions(void);

typedef struct {
    const or_gpu_functions_t *functions; // NULL as above: loading fails and says so
    uint32_t index;                      // as or_cuda_open counts devices
} or_gpu_choice_t;
