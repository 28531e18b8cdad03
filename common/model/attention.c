#include <math.h>
#include <string.h>

#include "common/model/kv_store.h"
#include "common/model/model_internal.h"

// Attention reduces over absolute positions in blocks of 32, wherever their K and V lie:
//
//     positions   0 ...... 31 | 32 ..... 63 | 64 ... 70 | 71 72 73     committed 71, a node at position 73
//     read from   page          page          gathered: page 64-70, slots of the node's ancestors and its own
//
// A prefix row's K and V, and those of all before it, are in pages: nothing is gathered. A node sees
// its ancestors only, so no block without one is ever visited (DySpec, appendix C). What was gathered
// for the row before stays as far as both have the same ancestors: in depth-first order that is all
// but the last few (measured with model-bench, see ARCHITECTURE.md).
//
// The kernels read floats. Blocks kept as F16 or Q8_0 are decoded first, each once for all rows of a
// sequence and head that a worker does, as far as the place for them reaches.

typedef struct {
    or_model_t *model;
    uint32_t layer;
    uint32_t rows;
} attention_t;

// One row and one KV head, with the query heads that share it.
typedef struct {
    const or_model_t *model;
    or_attention_scratch_t *scratch;
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

// Slots of the row's ancestors and its own, in position order; returns how many.
static uint32_t walk_chain(const or_pass_row_t *row, uint32_t *chain)
{
    uint32_t count = row->position - row->committed + 1;
    uint32_t slot = row->slot;
    for (uint32_t i = count; i-- > 0;) {
        chain[i] = slot;
        slot = row->sequence->slots[slot].parent;
    }
    return count;
}

// Where a gathered block lies in scratch; block 0 is the first that is not read in place.
static size_t gathered_block(const attend_t *a, uint32_t block)
{
    return (size_t)(block - a->row->committed / OR_KV_BLOCK) * a->model->shape.head_dim *
           OR_KV_BLOCK;
}

static void decode_keys(const attend_t *a, uint32_t block, float *out)
{
    or_kv_decode_keys(a->model->kernels, a->row->sequence->cache->shape.key_type,
                      a->model->shape.head_dim,
                      or_kv_page_keys(a->row->sequence, block, a->layer, a->kv_head), out);
}

static void decode_values(const attend_t *a, uint32_t block, float *out)
{
    or_kv_decode_values(a->model->kernels, a->row->sequence->cache->shape.value_type,
                        a->model->shape.head_dim,
                        or_kv_page_values(a->row->sequence, block, a->layer, a->kv_head), out);
}

// The committed positions before the tree that share a block with it.
static void gather_page(const attend_t *a)
{
    uint32_t block = a->row->committed / OR_KV_BLOCK;
    if (a->row->committed % OR_KV_BLOCK > 0) {
        decode_keys(a, block, a->scratch->keys);
        decode_values(a, block, a->scratch->values);
    }
}

// A block's place among the decoded ones; those beyond share the last.
static float *decoded_place(const attend_t *a, float *decoded, uint32_t block)
{
    size_t place = least(block, a->scratch->decoded_max);
    return decoded + place * a->model->shape.head_dim * OR_KV_BLOCK;
}

static void gather_slot(const attend_t *a, uint32_t slot, uint32_t position)
{
    const or_pass_row_t *row = a->row;
    const or_kernels_t *kernels = a->model->kernels;
    const or_kv_shape_t *shape = &row->sequence->cache->shape;
    uint32_t head_dim = shape->head_dim;
    size_t start = gathered_block(a, position / OR_KV_BLOCK);
    uint32_t lane = position % OR_KV_BLOCK;
    float *key = decoded_place(a, a->scratch->decoded_keys, UINT32_MAX);
    or_kv_decode_slot(kernels, shape->key_type, head_dim,
                      or_kv_slot_keys(row->sequence, slot, a->layer, a->kv_head), key);
    float *keys = a->scratch->keys + start + lane;
    for (size_t d = 0; d < head_dim; d++) {
        keys[d * OR_KV_BLOCK] = key[d];
    }
    or_kv_decode_slot(kernels, shape->value_type, head_dim,
                      or_kv_slot_values(row->sequence, slot, a->layer, a->kv_head),
                      a->scratch->values + start + (size_t)lane * head_dim);
}

// Bring what is gathered up to this row. The caller has forgotten what other heads and layers left.
static void gather(const attend_t *a)
{
    or_attention_scratch_t *scratch = a->scratch;
    const or_pass_row_t *row = a->row;
    uint32_t count = walk_chain(row, scratch->next_chain);
    if (scratch->sequence != row->sequence || scratch->committed != row->committed) {
        gather_page(a);
        scratch->sequence = row->sequence;
        scratch->committed = row->committed;
        scratch->gathered = 0;
    }
    uint32_t shared = 0;
    while (shared < least(count, scratch->gathered) &&
           scratch->chain[shared] == scratch->next_chain[shared]) {
        shared++;
    }
    for (uint32_t i = shared; i < count; i++) {
        gather_slot(a, scratch->next_chain[i], row->committed + i);
        scratch->chain[i] = scratch->next_chain[i];
    }
    scratch->gathered = count;
}

// A row walks the blocks in order, so what is decoded are always the first ones.
static const float *page_keys(const attend_t *a, uint32_t block)
{
    or_attention_scratch_t *scratch = a->scratch;
    if (a->row->sequence->cache->shape.key_type == OR_KV_F32) {
        return or_kv_page_keys(a->row->sequence, block, a->layer, a->kv_head);
    }
    float *keys = decoded_place(a, scratch->decoded_keys, block);
    if (block >= scratch->keys_decoded) {
        decode_keys(a, block, keys);
        scratch->keys_decoded = least(block + 1, scratch->decoded_max);
    }
    return keys;
}

static const float *page_values(const attend_t *a, uint32_t block)
{
    or_attention_scratch_t *scratch = a->scratch;
    if (a->row->sequence->cache->shape.value_type == OR_KV_F32) {
        return or_kv_page_values(a->row->sequence, block, a->layer, a->kv_head);
    }
    float *values = decoded_place(a, scratch->decoded_values, block);
    if (block >= scratch->values_decoded) {
        decode_values(a, block, values);
        scratch->values_decoded = least(block + 1, scratch->decoded_max);
    }
    return values;
}

static const float *block_keys(const attend_t *a, uint32_t block)
{
    return block < a->paged_blocks ? page_keys(a, block)
                                   : a->scratch->keys + gathered_block(a, block);
}

static const float *block_values(const attend_t *a, uint32_t block)
{
    return block < a->paged_blocks ? page_values(a, block)
                                   : a->scratch->values + gathered_block(a, block);
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

// Items are (KV head, row) pairs, so that rows of one head follow each other.
static void attend_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const or_model_t *model = attention->model;
    const or_share_t *share = &model->share;
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    uint32_t kept_head = UINT32_MAX;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t r = i % attention->rows;
        const or_pass_row_t *row = &model->rows[r];
        uint32_t blocks = row->position / OR_KV_BLOCK + 1;
        attend_t a = {.model = model,
                      .scratch = &model->scratch[worker],
                      .row = row,
                      .layer = attention->layer,
                      .kv_head = i / attention->rows,
                      .paged_blocks = row->committed / OR_KV_BLOCK,
                      .blocks = blocks};
        if (a.kv_head != kept_head) { // what lies there is another head's, or layer's
            a.scratch->sequence = NULL;
            a.scratch->decoded = NULL;
            kept_head = a.kv_head;
        }
        if (a.scratch->decoded != row->sequence) {
            a.scratch->decoded = row->sequence;
            a.scratch->keys_decoded = 0;
            a.scratch->values_decoded = 0;
        }
        if (row->slot == OR_KV_NO_SLOT) {
            a.paged_blocks = blocks;
        } else {
            gather(&a);
        }
        // A rank's first and last KV head may serve query heads of its neighbours too.
        uint32_t first = (share->kv_heads.begin + a.kv_head) * group;
        uint32_t last = least(first + group, share->heads.end);
        first = first > share->heads.begin ? first : share->heads.begin;
        uint32_t head_dim = model->shape.head_dim;
        const or_matrix_t *matrix = &model->layers[attention->layer].query;
        const float *query =
            model->query + r * model->query_stride + or_matrix_place(matrix, first * head_dim);
        float *attended = model->attended.values + r * model->attended.stride +
                          (size_t)(first - share->heads.begin) * head_dim;
        attend(&a, query, attended, last - first);
    }
}

uint32_t or_attention_decoded_max(const or_model_t *model)
{
    const or_kv_shape_t *shape = &model->cache_shape;
    bool floats = shape->key_type == OR_KV_F32 && shape->value_type == OR_KV_F32;
    return floats ? 0 : least(OR_DECODED_BLOCKS, model->context / OR_KV_BLOCK + 1);
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
    attention_t attention = {model, layer, rows};
    or_workers_run(model->workers, items, or_workers_grain(multiply_adds), attend_items,
                   &attention);
}
