// The functions of whichever library of kernels this is linked with.
#include "common/model/gpu/gpu.h"

static const or_gpu_functions_t functions = {
    .text = or_cuda_text,
    .count = or_cuda_count,
    .describe = or_cuda_describe,
    .free_bytes = or_cuda_free_bytes,
    .open = or_cuda_open,
    .close = or_cuda_close,
    .alloc = or_cuda_alloc,
    .free = or_cuda_free,
    .alloc_pinned = or_cuda_alloc_pinned,
    .free_pinned = or_cuda_free_pinned,
    .upload = or_cuda_upload,
    .download = or_cuda_download,
    .copy = or_cuda_copy,
    .clear = or_cuda_clear,
    .wait = or_cuda_wait,
    .fetch = or_cuda_fetch,
    .hold_fetches = or_cuda_hold_fetches,
    .await_fetches = or_cuda_await_fetches,
    .record_begin = or_cuda_record_begin,
    .record_end = or_cuda_record_end,
    .loop_begin = or_cuda_loop_begin,
    .loop_end = or_cuda_loop_end,
    .replay = or_cuda_replay,
    .recording_free = or_cuda_recording_free,

    .peers_name = or_cuda_peers_name,
    .peers_id = or_cuda_peers_id,
    .peers_join = or_cuda_peers_join,
    .peers_leave = or_cuda_peers_leave,
    .peers_gather = or_cuda_peers_gather,

    .rmsnorm = or_cuda_rmsnorm,
    .rope = or_cuda_rope,
    .swiglu = or_cuda_swiglu,
    .add = or_cuda_add,
    .add_parts = or_cuda_add_parts,
    .matmul_quants = or_cuda_matmul_quants,
    .matmul_floats = or_cuda_matmul_floats,
    .tensor_open = or_cuda_tensor_open,
    .tensor_close = or_cuda_tensor_close,
    .tensor_name = or_cuda_tensor_name,
    .tensor_prepare = or_cuda_tensor_prepare,
    .matmul_tensor = or_cuda_matmul_tensor,
    .embed = or_cuda_embed,
    .store_kv = or_cuda_store_kv,
    .attention = or_cuda_attention,
    .accept = or_cuda_accept,
    .slots_bytes = or_cuda_slots_bytes,
    .contenders = or_cuda_contenders,
    .contenders_bytes = or_cuda_contenders_bytes,
    .grow = or_cuda_grow,
    .grow_bytes = or_cuda_grow_bytes,
    .reject = or_cuda_reject,
    .reject_bytes = or_cuda_reject_bytes,
};

const or_gpu_functions_t *or_gpu_functions(void)
{
    return &functions;
}
