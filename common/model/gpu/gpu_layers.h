// gpu_layers - the layers of a model on a device. The last ones may be away: their matrices are in pinned memory of
// the host and are fetched in every pass, each while the layer before is computed.
//
//     work       layer 28   layer 29            layer 30            layer 31            the head
//     fetches               30 -> buffer 1      31 -> buffer 0      29 -> buffer 1 for the next pass
//                           (29 is in buffer 0 since the pass before)
//
// A buffer has room for any of them. It is written once the layer that read it is done, and read once all of its
// layer is there. So a pass takes as long as computing or fetching takes, whichever is longer. With more rows
// fetching matters less. Norms and biases, which are small, stay on the device.
#pragma once

#include <stdint.h>

#include "common/model/model_internal.h"

#define OR_GPU_LAYER_BUFFERS 2u

// Slots of one sequence that must find room beside the layers: a tree of the largest usual size.
#define OR_GPU_SLOTS_KEPT 1024u

typedef struct {
    uint32_t count; // this rank's layers, of which the last `away` are away
    uint32_t away;
    uint64_t away_bytes;                      // of their matrices
    void *buffers[OR_GPU_LAYER_BUFFERS];      // NULL: none is away
    or_layer_t fetched[OR_GPU_LAYER_BUFFERS]; // the layer that a buffer was asked for last
    uint32_t next;                            // the buffer of the next that is needed,
    uint32_t next_index; // which is this layer; UINT32_MAX: none was asked for yet
} or_gpu_layers_t;

// Choose which layers are away and take the buffers, once the layers are described and everything else but the cache
// is on the device. `wanted` is or_gpu_choice_t's host_layers, cache_bytes the least that the cache needs.
// OR_ERR_NO_MEMORY.
or_status_t or_gpu_layers_plan(or_model_t *model, uint32_t wanted, uint64_t cache_bytes);
// Free the buffers.
void or_gpu_layers_free(or_gpu_t *gpu);

// Move a packed matrix of this rank's layer `index` to where it belongs. Does nothing if gpu is NULL. On failure the
// matrix' memory is NULL. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_gpu_layers_take(or_gpu_t *gpu, uint32_t index, or_matrix_t *matrix);
// Free such a matrix where it is.
void or_gpu_layers_give(or_gpu_t *gpu, uint32_t index, or_matrix_t *matrix);

// Return layer `index` with its matrices on the device, for work that is launched before the next call, and start
// fetching the next layer that is away. The next call must be for the layer behind it or for the first one.
const or_layer_t *or_gpu_layer(or_model_t *model, uint32_t index);
