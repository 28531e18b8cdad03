// Ranks on devices exchange sums and activations as those on the CPU do (forward.c), by way of pinned memory. So it
// does not matter which ranks have a device, and whether they share one.
//
//     device    parts of own shards ──tree──▶ sum                               gathered ──tree──▶ x
//     host                                     └──▶ all_gather ──▶ gathered ──────┘
//
// Where all have one of their own sums stay on the devices (or_gpu_peers_create), and nobody waits:
//
//     device    parts of own shards ──tree──▶ sum ──peers──▶ gathered ──tree──▶ x
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define SUMS "the sums of a pass"

// ---- sums over ranks ----

// Sum the parts of this rank's shards, part_stride floats apart, in the fixed tree, into the first part.
static void sum_own(or_model_t *model, float *parts, size_t part_stride, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    uint32_t count = or_span_length(model->share.shards);
    uint32_t floats = rows * (uint32_t)model->width_stride;
    for (uint32_t step = 1; step < count; step *= 2) {
        size_t apart = 2 * step * part_stride;
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, parts, apart, parts + step * part_stride,
                                             apart, floats, count / (2 * step)));
    }
}

// Every rank's sums, as gpu->gathered [ranks][rows][width_stride].
static or_status_t gather_on_devices(or_model_t *model, const float *sums, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_status_t status = or_gpu_check(gpu);
    if (status == OR_OK) {
        or_ranks_watch(model->ranks, SUMS);
        or_gpu_keep(gpu, gpu->functions->peers_gather(gpu->peers, sums, gpu->gathered,
                                                      rows * model->width_stride));
        or_ranks_watch(model->ranks, NULL);
    }
    return status;
}

void or_gpu_wait_for_peers(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu->peers != NULL) {
        or_ranks_watch(model->ranks, SUMS);
        or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
        or_ranks_watch(model->ranks, NULL);
    }
}

static or_status_t gather_by_host(or_model_t *model, const float *sums, uint32_t rows)
{
    const or_ranks_t *ranks = model->ranks;
    or_gpu_t *gpu = model->gpu;
    size_t floats = rows * model->width_stride;
    size_t bytes = floats * sizeof *sums;
    float *own = model->gathered + (size_t)ranks->rank * floats;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, own, sums, bytes));
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    or_status_t status = or_gpu_check(gpu);
    status = status != OR_OK ? status : ranks->all_gather(ranks, own, bytes, model->gathered);
    if (status == OR_OK) {
        or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->gathered, model->gathered,
                                                (size_t)ranks->size * bytes));
    }
    return status;
}

// The tree begins with the shards of a rank and ends with the ranks.
or_status_t or_gpu_add_ranks(or_model_t *model, size_t part_stride, uint32_t rows, bool over,
                             float *to)
{
    or_gpu_t *gpu = model->gpu;
    size_t stride = model->width_stride;
    or_status_t status = OR_OK;
    for (uint32_t first = 0; status == OR_OK && first < rows; first += OR_EXCHANGE_ROWS) {
        uint32_t some = rows - first < OR_EXCHANGE_ROWS ? rows - first : OR_EXCHANGE_ROWS;
        float *parts = gpu->parts + first * stride;
        sum_own(model, parts, part_stride, some);
        status = gpu->peers != NULL ? gather_on_devices(model, parts, some)
                                    : gather_by_host(model, parts, some);
        if (status == OR_OK) {
            or_gpu_keep(gpu, gpu->functions->add_parts(gpu->cuda, over, to + first * stride, stride,
                                                       gpu->gathered, some * stride, stride,
                                                       (uint32_t)model->ranks->size,
                                                       model->shape.width, some));
        }
    }
    return status != OR_OK ? status : or_gpu_check(gpu);
}

// ---- recordings ----

bool or_gpu_ranks_can_record(const or_model_t *model)
{
    return or_ranks_stages(model->ranks) == 1 &&
           (model->ranks->size == 1 || model->gpu->peers != NULL);
}

bool or_gpu_ranks_have_recorded(or_model_t *model, bool recorded)
{
    const or_ranks_t *ranks = model->ranks;
    const uint8_t own = recorded;
    uint8_t all[OR_SHARDS];
    if (ranks->all_gather(ranks, &own, sizeof own, all) != OR_OK) {
        or_gpu_keep(model->gpu, OR_CUDA_PEERS_LOST);
        return false;
    }
    bool all_have = true;
    for (int i = 0; i < ranks->size; i++) {
        all_have = all_have && all[i] != 0;
    }
    return all_have;
}

// ---- stages ----

// Rows travel without the gaps that they have on a device: from the first on, or back from the last.
static void close_gaps(const or_model_t *model, uint32_t rows)
{
    float *passed = model->gpu->passed;
    size_t width = model->shape.width;
    for (uint32_t i = 1; i < rows; i++) {
        memmove(passed + i * width, passed + i * model->width_stride, width * sizeof *passed);
    }
}

static void open_gaps(const or_model_t *model, uint32_t rows)
{
    float *passed = model->gpu->passed;
    size_t width = model->shape.width;
    for (uint32_t i = rows; i-- > 1;) {
        memmove(passed + i * model->width_stride, passed + i * width, width * sizeof *passed);
    }
}

or_status_t or_gpu_take_over(or_model_t *model, uint32_t rows)
{
    const or_ranks_t *ranks = model->ranks;
    or_gpu_t *gpu = model->gpu;
    size_t row_bytes = model->shape.width * sizeof *gpu->passed;
    or_status_t status = or_gpu_check(gpu);
    status = status != OR_OK ? status : ranks->take_over(ranks, gpu->passed, rows * row_bytes);
    if (status != OR_OK) {
        return status;
    }
    open_gaps(model, rows);
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->x, gpu->passed,
                                            rows * model->width_stride * sizeof *gpu->x));
    return or_gpu_check(gpu);
}

or_status_t or_gpu_pass_on(or_model_t *model, uint32_t rows)
{
    const or_ranks_t *ranks = model->ranks;
    or_gpu_t *gpu = model->gpu;
    size_t row_bytes = model->shape.width * sizeof *gpu->passed;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, gpu->passed, gpu->x,
                                              rows * model->width_stride * sizeof *gpu->x));
    or_gpu_wait_for_peers(model);
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    or_status_t status = or_gpu_check(gpu);
    if (status != OR_OK) {
        return status;
    }
    close_gaps(model, rows);
    return ranks->pass_on(ranks, gpu->passed, rows * row_bytes);
}

// ---- do sums stay on the devices? ----
//
// Whether the ranks of a group sum from device to device (kernels/cuda/cuda_peers.h) or by way of the host, as all of
// them find together at load:
//
//     offers   ──gather_world──▶   every rank has a device of its own, the same NCCL, and nobody declines?
//     rank 0's id  ──all_gather──▶   join
//     joined?  ──all_gather──▶   all of them have, or all leave
//     gathered?  ──all_gather──▶   likewise

#define WHY_BYTES (OR_GPU_SUMS - 32) // beside a name
#define START "NCCL's start (--no-nccl does without it)"

// The offer of one rank to the others. It travels as these bytes, so no byte may be left unset.
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

// Exchange the offers of all ranks. They may come to it at different times, because they open their files before.
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
