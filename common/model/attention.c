#include <math.h>
#include <string.h>

#include "common/model/model_internal.h"

// Attention reduces over absolute positions in blocks of 32, wherever their K and V lie:
//
//     positions   0 ...... 31 | 32 ..... 63 | 64 ... 70 | 71 72 73     committed 71, a node at position 73
//     read from   page          page          gathered: page 64-70, slots of the node's ancestors and its own
//
// A prefix row's K and V, and those of all before it, are in pages: nothing is gathered.

typedef struct {
    or_model_t *model;
    uint32_t layer;
} attention_t;

// One row and one KV head, with the query heads that share it.
typedef struct {
    const or_model_t *model;
    const or_attention_scratch_t *scratch;
    const or_pass_row_t *row;
    uint32_t layer;
    uint32_t kv_head;      // in the cache: 0 is this rank's first
    uint32_t paged_blocks; // blocks read in place
    uint32_t blocks;
} attend_t;

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void walk_chain(const or_pass_row_t *row, uint32_t *chain)
{
    uint32_t slot = row->slot;
    for (uint32_t i = row->position - row->committed + 1; i-- > 0;) {
        chain[i] = slot;
        slot = row->sequence->slots[slot].parent;
    }
}

static const float *block_keys(const attend_t *a, uint32_t block)
{
    const or_pass_row_t *row = a->row;
    uint32_t head_dim = a->model->shape.head_dim;
    uint32_t first = block * OR_KV_BLOCK;
    if (block < a->paged_blocks) {
        return or_kv_page_keys(row->sequence, block, a->layer, a->kv_head);
    }
    float *keys = a->scratch->keys;
    uint32_t from = first;
    if (first < row->committed) {
        memcpy(keys, or_kv_page_keys(row->sequence, block, a->layer, a->kv_head),
               (size_t)head_dim * OR_KV_BLOCK * sizeof *keys);
        from = row->committed;
    }
    uint32_t end = least(first + OR_KV_BLOCK, row->position + 1);
    for (uint32_t p = from; p < end; p++) {
        uint32_t slot = a->scratch->chain[p - row->committed];
        const float *key = or_kv_slot_keys(row->sequence, slot, a->layer, a->kv_head);
        for (uint32_t d = 0; d < head_dim; d++) {
            keys[d * OR_KV_BLOCK + (p - first)] = key[d];
        }
    }
    return keys;
}

static const float *block_values(const attend_t *a, uint32_t block)
{
    const or_pass_row_t *row = a->row;
    size_t head_dim = a->model->shape.head_dim;
    uint32_t first = block * OR_KV_BLOCK;
    if (block < a->paged_blocks) {
        return or_kv_page_values(row->sequence, block, a->layer, a->kv_head);
    }
    float *values = a->scratch->values;
    uint32_t from = first;
    if (first < row->committed) {
        memcpy(values, or_kv_page_values(row->sequence, block, a->layer, a->kv_head),
               (row->committed - first) * head_dim * sizeof *values);
        from = row->committed;
    }
    uint32_t end = least(first + OR_KV_BLOCK, row->position + 1);
    for (uint32_t p = from; p < end; p++) {
        uint32_t slot = a->scratch->chain[p - row->committed];
        memcpy(values + (p - first) * head_dim,
               or_kv_slot_values(row->sequence, slot, a->layer, a->kv_head),
               head_dim * sizeof *values);
    }
    return values;
}

// query and out: the heads' vectors side by side.
static void attend(const attend_t *a, const float *query, float *out, uint32_t heads)
{
    const or_kernels_t *kernels = a->model->kernels;
    uint32_t head_dim = a->model->shape.head_dim;
    size_t stride = a->model->score_stride;
    float *scores = a->scratch->scores;
    float scale = 1.0f / sqrtf((float)head_dim);
    uint32_t seen = a->row->position + 1;
    for (uint32_t b = 0; b < a->blocks; b++) {
        const float *keys = block_keys(a, b);
        for (uint32_t h = 0; h < heads; h++) {
            kernels->attention_scores(query + (size_t)h * head_dim, keys, head_dim, scale,
                                      scores + h * stride + (size_t)b * OR_KV_BLOCK);
        }
    }
    for (uint32_t h = 0; h < heads; h++) {
        kernels->softmax(scores + h * stride, seen);
    }
    memset(out, 0, (size_t)heads * head_dim * sizeof *out);
    for (uint32_t b = 0; b < a->blocks; b++) {
        const float *values = block_values(a, b);
        uint32_t n = least(OR_KV_BLOCK, seen - b * OR_KV_BLOCK);
        for (uint32_t h = 0; h < heads; h++) {
            kernels->attention_values(scores + h * stride + (size_t)b * OR_KV_BLOCK, values,
                                      head_dim, n, out + (size_t)h * head_dim);
        }
    }
}

// Items are (row, KV head) pairs.
static void attend_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const or_model_t *model = attention->model;
    const or_share_t *share = &model->share;
    uint32_t kv_heads = share->kv_heads.end - share->kv_heads.begin;
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    for (uint32_t i = begin; i < end; i++) {
        const or_pass_row_t *row = &model->rows[i / kv_heads];
        uint32_t blocks = row->position / OR_KV_BLOCK + 1;
        attend_t a = {.model = model,
                      .scratch = &model->scratch[worker],
                      .row = row,
                      .layer = attention->layer,
                      .kv_head = i % kv_heads,
                      .paged_blocks = row->committed / OR_KV_BLOCK,
                      .blocks = blocks};
        if (row->slot == OR_KV_NO_SLOT) {
            a.paged_blocks = blocks;
        } else {
            walk_chain(row, a.scratch->chain);
        }
        // A rank's first and last KV head may serve query heads of its neighbours too.
        uint32_t first = (share->kv_heads.begin + a.kv_head) * group;
        uint32_t last = least(first + group, share->heads.end);
        first = first > share->heads.begin ? first : share->heads.begin;
        size_t offset = i / kv_heads * model->query_stride + (size_t)first * model->shape.head_dim;
        attend(&a, model->query + offset, model->attended.values + offset, last - first);
    }
}

void or_attention_run(or_model_t *model, uint32_t layer, uint32_t rows)
{
    uint32_t kv_heads = model->share.kv_heads.end - model->share.kv_heads.begin;
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    uint32_t items = rows * kv_heads;
    if (items == 0) {
        return;
    }
    uint64_t multiply_adds = 2ull * model->rows[0].position * model->shape.head_dim * group;
    attention_t attention = {model, layer};
    or_workers_run(model->workers, items, or_workers_grain(multiply_adds), attend_items,
                   &attention);
}
