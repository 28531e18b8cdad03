// What ranks on devices say to each other: as on the CPU (forward.c), by way of pinned memory. So it does not
// matter which ranks have a device, and whether they share one.
//
//     device    parts of own shards ──tree──▶ sum                               gathered ──tree──▶ x
//     host                                     └──▶ all_gather ──▶ gathered ──────┘
//
// Where all have one of their own sums stay on the devices (gpu_peers.c), and nobody waits:
//
//     device    parts of own shards ──tree──▶ sum ──peers──▶ gathered ──tree──▶ x
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define SUMS "the sums of a pass"

// ---- memory ----

static or_status_t take_sums(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t rows = model->rows_max < OR_EXCHANGE_ROWS ? model->rows_max : OR_EXCHANGE_ROWS;
    size_t bytes =
        (size_t)model->ranks->size * rows * model->width_stride * sizeof *model->gathered;
    void *at = NULL;
    or_status_t status = gpu->peers != NULL ? OR_OK : or_gpu_alloc_pinned(gpu, bytes, &at);
    model->gathered = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_buffer(model, bytes, &at);
        gpu->gathered = at;
    }
    return status;
}

static or_status_t take_passed(or_model_t *model)
{
    size_t row_bytes = model->width_stride * sizeof *model->gpu->passed;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(model->gpu, model->rows_max * row_bytes, &at);
    model->gpu->passed = at;
    return status;
}

or_status_t or_gpu_ranks_create(or_model_t *model)
{
    or_status_t status = model->ranks->size > 1 ? take_sums(model) : OR_OK;
    return status != OR_OK || or_ranks_stages(model->ranks) == 1 ? status : take_passed(model);
}

void or_gpu_ranks_free(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_free_pinned(gpu, gpu->passed);
    or_gpu_give(gpu, gpu->gathered);
    or_gpu_free_pinned(gpu, model->gathered);
    model->gathered = NULL;
}

// ---- sums over ranks ----

// Of rows whose parts are part_stride floats apart, the sums over this rank's shards, in the fixed tree and in the
// place of the first part.
static void sum_own(or_model_t *model, float *parts, size_t part_stride, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    uint32_t count = model->share.shards.end - model->share.shards.begin;
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
or_status_t or_gpu_add_ranks(or_model_t *model, size_t part_stride, uint32_t rows)
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
            or_gpu_keep(gpu, gpu->functions->add_parts(gpu->cuda, gpu->x + first * stride, stride,
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
