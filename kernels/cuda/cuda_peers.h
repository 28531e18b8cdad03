// cuda_peers - the exchange of floats between devices without the host, by NCCL. Each rank has one device, in a
// process or a thread of its own.
//
//     rank 0                          ranks 1, 2, ...
//     or_cuda_peers_id(id)  ── id ──▶                      by whatever way ranks have to talk
//     or_cuda_peers_join              or_cuda_peers_join   returns when all have come
//     or_cuda_peers_gather            or_cuda_peers_gather in the same order on all
//     or_cuda_peers_leave             or_cuda_peers_leave
//
// Floats are moved and nothing is added: their owner decides in which order sums are made.
//
// NCCL is looked for when it is needed, so that a program starts without it. A peer that dies or hangs leaves the
// others waiting on their devices. Nothing here detects that, so such waits must be watched.
#pragma once

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_CUDA_PEERS_ID 128u                  // bytes
#define OR_CUDA_PEERS_NAME 32u                 // bytes
#define OR_CUDA_PEERS_LOST (OR_CUDA_PEERS + 6) // another rank failed, or is gone

typedef struct or_cuda_peers or_cuda_peers_t;

// Write the library's name: "NCCL 2.28.9". It must be the same on all ranks. Returns a code for or_cuda_text if NCCL
// is not here.
int or_cuda_peers_name(char name[OR_CUDA_PEERS_NAME]);
// Make the name of a new group. Its rank 0 calls this, and must then join the group.
int or_cuda_peers_id(uint8_t id[OR_CUDA_PEERS_ID]);
// Join with this device as rank `rank` of `size`. Returns when all have come, or on a failure, which the others may
// not learn of. Leave the group before the device is closed.
int or_cuda_peers_join(or_cuda_t *cuda, const uint8_t id[OR_CUDA_PEERS_ID], uint32_t rank,
                       uint32_t size, or_cuda_peers_t **peers_p);
// Leave at once: no other rank is waited for, and gatherings that are not done yet may never be. Where all is to end
// well, all ranks wait for their devices and then meet before they leave. *peers_p may be NULL.
void or_cuda_peers_leave(or_cuda_peers_t **peers_p);

// to = [ranks][floats], of which each rank gives from [floats]; both are memory of the device and do not overlap. It is
// done on the device's stream, like any other work, and may be recorded, by all ranks or by none. A recording must then be
// replayed by all, and freed before the group is left. The first may take as long as joining: connections are made then.
int or_cuda_peers_gather(or_cuda_peers_t *peers, const float *from, float *to, size_t floats);

// Return the text that or_cuda_text has for OR_CUDA_PEERS and above.
const char *or_cuda_peers_text(int status);

#ifdef __cplusplus
}
#endif
