// Whether the ranks of a group sum from device to device (kernels/cuda/cuda_peers.h) or by way of the host, as all of
// them find together at load:
//
//     offers   ──gather_world──▶   every rank has a device of its own, the same NCCL, and nobody declines?
//     rank 0's id  ──all_gather──▶   join
//     joined?  ──all_gather──▶   all of them have, or all leave
//     gathered?  ──all_gather──▶   likewise
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define WHY_BYTES (OR_GPU_SUMS - 32) // beside a name
#define START "NCCL's start (--no-nccl does without it)"

// What a rank brings. It travels as it is; no part of it is left open.
typedef struct {
    uint32_t on_gpu;
    uint32_t declines;
    int32_t status; // OR_CUDA_OK, or why it has no NCCL
    uint8_t device[sizeof((or_cuda_description_t *)0)->uuid];
    char nccl[OR_CUDA_PEERS_NAME];
} offer_t;

typedef struct {
    int32_t status;
    uint8_t id[OR_CUDA_PEERS_ID];
} invitation_t;

// ---- what speaks against it ----

static offer_t make_offer(const or_gpu_t *gpu, bool declines)
{
    offer_t offer = {.on_gpu = gpu != NULL, .declines = declines};
    if (gpu == NULL || declines) {
        return offer;
    }
    or_cuda_description_t device;
    offer.status = gpu->functions->describe(gpu->index, &device);
    if (offer.status == OR_CUDA_OK) {
        memcpy(offer.device, device.uuid, sizeof offer.device);
        offer.status = gpu->functions->peers_name(offer.nccl);
    }
    return offer;
}

// Write into why [WHY_BYTES] what rank `rank` of the group has against it, if anything. Without a GPU nobody reads
// the words.
static void object(const or_gpu_t *gpu, const offer_t *group, int rank, char *why)
{
    const offer_t *offer = &group[rank];
    if (!offer->on_gpu) {
        snprintf(why, WHY_BYTES, "rank %d runs on the CPU", rank);
    } else if (offer->declines) {
        snprintf(why, WHY_BYTES, "rank %d was told --no-nccl", rank);
    } else if (offer->status != OR_CUDA_OK) {
        snprintf(why, WHY_BYTES, "rank %d: %s", rank,
                 gpu != NULL ? gpu->functions->text(offer->status) : "");
    } else if (memcmp(offer->nccl, group[0].nccl, sizeof offer->nccl) != 0) {
        snprintf(why, WHY_BYTES, "rank %d has another version of NCCL than rank 0", rank);
    }
    for (int i = 0; why[0] == '\0' && i < rank; i++) {
        if (memcmp(offer->device, group[i].device, sizeof offer->device) == 0) {
            snprintf(why, WHY_BYTES, "ranks %d and %d share a GPU", i, rank);
        }
    }
}

// ---- joining ----

static or_status_t invite(const or_ranks_t *ranks, const or_gpu_t *gpu, invitation_t *invitation)
{
    invitation_t own = {0};
    invitation_t all[OR_SHARDS] = {0};
    if (ranks->rank == 0) {
        own.status = gpu->functions->peers_id(own.id);
    }
    or_status_t status = ranks->all_gather(ranks, &own, sizeof own, all);
    *invitation = all[0];
    return status;
}

// The first rank's failure is everyone's.
static or_status_t compare(const or_ranks_t *ranks, int32_t joined, int32_t *status_p, int *rank)
{
    int32_t all[OR_SHARDS] = {0};
    or_status_t status = ranks->all_gather(ranks, &joined, sizeof joined, all);
    *rank = 0;
    while (status == OR_OK && *rank < ranks->size - 1 && all[*rank] == OR_CUDA_OK) {
        ++*rank;
    }
    *status_p = status == OR_OK ? all[*rank] : joined;
    return status;
}

static int32_t take_part(const or_ranks_t *ranks, or_gpu_t *gpu, const invitation_t *invitation)
{
    if (invitation->status != OR_CUDA_OK) {
        return invitation->status;
    }
    or_ranks_watch(ranks, START);
    int32_t joined = gpu->functions->peers_join(gpu->cuda, invitation->id, (uint32_t)ranks->rank,
                                                (uint32_t)ranks->size, &gpu->peers);
    or_ranks_watch(ranks, NULL);
    return joined;
}

// NCCL connects ranks when they first gather: where it cannot, all can still do without. Whoever fails leaves at once,
// as another may wait for it; where that does not end its wait, the watch does.
static int32_t gather_first(const or_ranks_t *ranks, or_gpu_t *gpu, float *floats)
{
    or_ranks_watch(ranks, START);
    int32_t gathered = gpu->functions->peers_gather(gpu->peers, floats, floats + 1, 1);
    if (gathered == OR_CUDA_OK) {
        gathered = gpu->functions->wait(gpu->cuda);
    }
    if (gathered != OR_CUDA_OK) {
        gpu->functions->peers_leave(&gpu->peers);
    }
    or_ranks_watch(ranks, NULL);
    return gathered;
}

// `floats`: of the device, one to give and one of every rank.
static or_status_t join_with(or_model_t *model, float *floats, char *why)
{
    const or_ranks_t *ranks = model->ranks;
    or_gpu_t *gpu = model->gpu;
    invitation_t invitation;
    int32_t joined;
    int rank;
    or_status_t status = invite(ranks, gpu, &invitation);
    if (status == OR_OK) {
        status = compare(ranks, take_part(ranks, gpu, &invitation), &joined, &rank);
    }
    if (status == OR_OK && joined == OR_CUDA_OK) {
        status = compare(ranks, gather_first(ranks, gpu, floats), &joined, &rank);
    }
    if (status == OR_OK && joined != OR_CUDA_OK) {
        snprintf(why, WHY_BYTES, "rank %d: %s", rank, gpu->functions->text(joined));
        gpu->functions->peers_leave(&gpu->peers);
    }
    return status;
}

static or_status_t join(or_model_t *model, char *why)
{
    void *floats;
    or_status_t status =
        or_gpu_alloc(model->gpu, (1 + (size_t)model->ranks->size) * sizeof(float), &floats);
    status = status != OR_OK ? status : join_with(model, floats, why);
    or_gpu_give(model->gpu, floats);
    return status;
}

// What the group's ranks find of each other. They may come to it at different times: their files are opened before.
static or_status_t exchange_offers(const or_model_t *model, const offer_t *own, char *why)
{
    const or_ranks_t *ranks = model->ranks;
    size_t count = (size_t)ranks->size * (size_t)or_ranks_stages(ranks);
    offer_t *offers = calloc(count, sizeof *offers);
    if (offers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %zu ranks", count);
    }
    or_status_t status = ranks->gather_world(ranks, own, sizeof *own, offers);
    const offer_t *group = offers + (size_t)ranks->stage * (size_t)ranks->size;
    for (int i = 0; status == OR_OK && why[0] == '\0' && i < ranks->size; i++) {
        object(model->gpu, group, i, why);
    }
    free(offers);
    return status;
}

or_status_t or_gpu_peers_create(or_model_t *model, bool declines)
{
    or_gpu_t *gpu = model->gpu;
    if (model->ranks->size == 1) {
        return OR_OK;
    }
    char why[WHY_BYTES] = "";
    const offer_t own = make_offer(gpu, declines);
    or_status_t status = exchange_offers(model, &own, why);
    if (status == OR_OK && why[0] == '\0') {
        status = join(model, why);
    }
    if (gpu != NULL) {
        snprintf(gpu->sums, sizeof gpu->sums, "%s%s",
                 gpu->peers != NULL ? own.nccl : "the host: ", why);
    }
    return status;
}

void or_gpu_peers_end(or_model_t *model)
{
    const or_ranks_t *ranks = model->ranks;
    const uint8_t own = 0;
    uint8_t all[OR_SHARDS];
    if (model->gpu == NULL || model->gpu->peers == NULL || or_model_is_lost(model)) {
        return;
    }
    or_gpu_wait_for_peers(model);
    (void)ranks->all_gather(ranks, &own, sizeof own, all); // who does not come has told why
}

const char *or_model_sums(const or_model_t *model)
{
    return model->gpu != NULL && model->ranks->size > 1 ? model->gpu->sums : NULL;
}
