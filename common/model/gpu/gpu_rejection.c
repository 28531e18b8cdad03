// The kernel looks everything up in one table, written on the host at the places where it then lies on the device:
//
//     nodes [count + 1]   distributions [dist_count]   tokens of all distributions   weights of all distributions   stop ids
#include "common/model/gpu/gpu_rejection.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define TABLE_BYTES ((size_t)1 << 20) // 4,000 distributions of the usual number of tokens

// For logits, where the model's own are of too few rows: at most so much, and a part of what is free. 261 rows of
// 128,256 tokens.
#define LOGITS_BYTES ((size_t)128 << 20)
#define LOGITS_PART 8u

_Static_assert(OR_CUDA_NODES_MAX == OR_TREE_NODES_MAX, "room for the longest path");
_Static_assert(OR_CUDA_DISTRIBUTION_ENTRIES_MAX == OR_DISTRIBUTION_ENTRIES_MAX,
               "room for every distribution");

struct or_gpu_rejection {
    or_model_t *model;
    uint32_t vocab_size;
    uint32_t rows_max;   // of a trial
    float *logits;       // [rows_max][vocab_stride]; gpu->logits if that is enough
    uint8_t *table_host; // pinned
    uint8_t *table;
    size_t used;
    void *scratch;
    or_cuda_path_t *path_host; // pinned
    or_cuda_path_t *path;
};

// ---- memory ----

// Return the rows of a root and nodes_max nodes, or fewer where their logits would take too much memory.
static uint32_t rows_wanted(const or_model_t *model, uint32_t nodes_max)
{
    uint64_t part = or_gpu_free_bytes(model->gpu) / LOGITS_PART;
    uint64_t bytes = part < LOGITS_BYTES ? part : LOGITS_BYTES;
    uint64_t affordable = bytes / (model->vocab_stride * sizeof(float));
    uint64_t rows = nodes_max < model->rows_max ? nodes_max + 1 : model->rows_max;
    return (uint32_t)(rows < affordable ? rows : affordable);
}

static void use_models_logits(or_gpu_rejection_t *rejection)
{
    rejection->logits = rejection->model->gpu->logits;
    rejection->rows_max = OR_LOGITS_ROWS;
}

// Use the model's logits where they are enough, or where there is no room for more.
static void take_logits(or_gpu_rejection_t *rejection, uint32_t nodes_max)
{
    const or_model_t *model = rejection->model;
    or_gpu_t *gpu = model->gpu;
    uint32_t rows = rows_wanted(model, nodes_max);
    size_t row_bytes = model->vocab_stride * sizeof *rejection->logits;
    void *at = NULL;
    if (rows > OR_LOGITS_ROWS &&
        or_gpu_alloc(gpu, or_gpu_tensor_room(gpu, rows) * row_bytes, &at) == OR_OK) {
        rejection->logits = at;
        rejection->rows_max = rows;
    } else {
        use_models_logits(rejection);
    }
}

static or_status_t each_part(or_gpu_rejection_t *rejection, or_gpu_parts_t *each)
{
    const or_gpu_functions_t *f = rejection->model->gpu->functions;
    const or_gpu_part_t parts[] = {
        {&rejection->table_host, OR_GPU_PINNED, TABLE_BYTES},
        {&rejection->table, OR_GPU_UNCOUNTED, TABLE_BYTES},
        {&rejection->scratch, OR_GPU_UNCOUNTED,
         f->reject_bytes(rejection->vocab_size, rejection->rows_max)},
        {&rejection->path_host, OR_GPU_PINNED, sizeof *rejection->path_host},
        {&rejection->path, OR_GPU_UNCOUNTED, sizeof *rejection->path},
    };
    return each(rejection->model, parts, sizeof parts / sizeof parts[0]);
}

static void give_memory(or_gpu_rejection_t *rejection)
{
    or_gpu_t *gpu = rejection->model->gpu;
    if (rejection->logits != gpu->logits) {
        or_gpu_give(gpu, rejection->logits);
    }
    each_part(rejection, or_gpu_give_parts);
}

// Larger logits are worth less than the rest: smaller trees can be judged without.
static or_status_t take_all(or_gpu_rejection_t *rejection, uint32_t nodes_max)
{
    take_logits(rejection, nodes_max);
    or_status_t status = each_part(rejection, or_gpu_take_parts);
    if (status != OR_OK && rejection->logits != rejection->model->gpu->logits) {
        give_memory(rejection);
        use_models_logits(rejection);
        status = each_part(rejection, or_gpu_take_parts);
    }
    return status;
}

or_status_t or_gpu_rejection_create(or_model_t *model, uint32_t vocab_size, uint32_t nodes_max,
                                    or_gpu_rejection_t **rejection_p)
{
    *rejection_p = NULL;
    if (model->gpu == NULL || !or_ranks_is_alone(model->ranks) ||
        vocab_size > OR_CUDA_REJECT_VOCAB_MAX) {
        return OR_OK;
    }
    or_gpu_rejection_t *rejection = calloc(1, sizeof *rejection);
    if (rejection == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to judge trees on a GPU");
    }
    rejection->model = model;
    rejection->vocab_size = vocab_size;
    if (take_all(rejection, nodes_max) != OR_OK) {
        or_gpu_rejection_destroy(&rejection); // the host judges
    }
    *rejection_p = rejection;
    return OR_OK;
}

void or_gpu_rejection_destroy(or_gpu_rejection_t **rejection_p)
{
    or_gpu_rejection_t *rejection = *rejection_p;
    if (rejection == NULL) {
        return;
    }
    give_memory(rejection);
    free(rejection);
    *rejection_p = NULL;
}

// ---- the table ----

static size_t entries_of(const or_draws_t *draws)
{
    size_t entries = 0;
    for (uint32_t i = 0; i < draws->dist_count; i++) {
        entries += draws->dists[i].count;
    }
    return entries;
}

static bool fits(const or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial)
{
    size_t bytes = (or_token_tree_count(trial->tree) + (size_t)1) * sizeof(or_cuda_node_t) +
                   trial->draws->dist_count * sizeof(or_cuda_distribution_t) +
                   (2 * entries_of(trial->draws) + trial->stop_count) * sizeof(uint32_t);
    return bytes <= TABLE_BYTES && trial->rows <= rejection->rows_max;
}

// Room for `bytes`, all in words of four; where it is on the device.
static void *put(or_gpu_rejection_t *rejection, size_t bytes, const void **on_device)
{
    void *at = rejection->table_host + rejection->used;
    *on_device = rejection->table + rejection->used;
    rejection->used += bytes;
    return at;
}

static const or_cuda_node_t *put_nodes(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial)
{
    const or_token_tree_t *tree = trial->tree;
    uint32_t count = or_token_tree_count(tree) + 1;
    const void *on_device;
    or_cuda_node_t *nodes = put(rejection, count * sizeof *nodes, &on_device);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = or_token_tree_first_child(tree, i);
        nodes[i] = (or_cuda_node_t){.token = or_token_tree_tokens(tree)[i],
                                    .row = trial->row_of[i],
                                    .first_child = child,
                                    .next_sibling = or_token_tree_next_sibling(tree, i),
                                    .dist = child != 0 ? trial->draws->dist_index[child - 1] : 0};
    }
    return on_device;
}

static void put_dists(or_gpu_rejection_t *rejection, const or_draws_t *draws, or_cuda_trial_t *to)
{
    const void *at[3];
    size_t bytes = entries_of(draws) * sizeof(uint32_t);
    or_cuda_distribution_t *dists = put(rejection, draws->dist_count * sizeof *dists, &at[0]);
    uint32_t *tokens = put(rejection, bytes, &at[1]);
    uint32_t *weights = put(rejection, bytes, &at[2]);
    uint32_t first = 0;
    for (uint32_t i = 0; i < draws->dist_count; i++) {
        const or_reduced_distribution_t *dist = &draws->dists[i];
        dists[i] = (or_cuda_distribution_t){first, dist->count};
        memcpy(tokens + first, dist->tokens, dist->count * sizeof *tokens);
        memcpy(weights + first, dist->weights, dist->count * sizeof *weights);
        first += dist->count;
    }
    to->dists = at[0];
    to->tokens = at[1];
    to->weights = at[2];
}

static const uint32_t *put_stop_ids(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial)
{
    const void *on_device;
    size_t bytes = trial->stop_count * sizeof *trial->stop_ids;
    uint32_t *ids = put(rejection, bytes, &on_device);
    if (bytes > 0) {
        memcpy(ids, trial->stop_ids, bytes);
    }
    return on_device;
}

// The table was read before the last call returned.
static or_cuda_trial_t put_trial(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial)
{
    const or_model_t *model = rejection->model;
    rejection->used = 0;
    or_cuda_trial_t to = {.logits = rejection->logits,
                          .stride = model->vocab_stride,
                          .vocab_size = rejection->vocab_size,
                          .rows = trial->rows,
                          .temperature = (double)trial->temperature,
                          .key = trial->key.value,
                          .round = trial->round,
                          .stop_count = trial->stop_count};
    to.nodes = put_nodes(rejection, trial);
    put_dists(rejection, trial->draws, &to);
    to.stop_ids = put_stop_ids(rejection, trial);
    return to;
}

// ---- a trial ----

static or_status_t judge(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial)
{
    or_gpu_t *gpu = rejection->model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    or_cuda_trial_t to = put_trial(rejection, trial);
    or_gpu_keep(gpu,
                f->upload(gpu->cuda, rejection->table, rejection->table_host, rejection->used));
    or_gpu_keep(gpu, f->reject(gpu->cuda, &to, rejection->scratch, rejection->path));
    or_gpu_keep(gpu, f->download(gpu->cuda, rejection->path_host, rejection->path,
                                 sizeof *rejection->path));
    or_gpu_keep(gpu, f->wait(gpu->cuda));
    return or_gpu_check(gpu);
}

or_status_t or_gpu_rejection_run(or_gpu_rejection_t *rejection, const or_gpu_trial_t *trial,
                                 const or_cuda_path_t **path_p)
{
    *path_p = NULL;
    or_status_t status = or_pass_check_rows(rejection->model, trial->first_row, trial->rows);
    if (status != OR_OK || !fits(rejection, trial)) {
        return status;
    }
    or_gpu_multiply_head(rejection->model, trial->first_row, trial->rows, rejection->logits);
    status = judge(rejection, trial);
    if (status == OR_OK && rejection->path_host->decided != 0) {
        *path_p = rejection->path_host;
    }
    return status;
}
