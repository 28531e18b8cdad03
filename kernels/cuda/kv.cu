// Keeping K and V: what a pass computes goes into pages and slots, and what is accepted from slots into pages.
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/rows.cuh"

#define THREADS 128u
#define WARP 32u // lanes, and numbers of Q8_0 that share a scale

size_t or_cuda_page_bytes(const or_cuda_kv_t *kv)
{
    return page_bytes_of(kv);
}

size_t or_cuda_slots_bytes(const or_cuda_kv_t *kv, uint32_t slots_max)
{
    return slot_bytes_of(kv) * slots_max;
}

// ---- storing ----

// Write x as number d. The lanes of a warp have 32 dimensions that share a scale; `there`: not behind the last one,
// where x is 0.
OR_DEVICE void write_number(const vector_t<float> *to, uint32_t d, bool there, float x)
{
    if (there) {
        to->numbers[d * to->step] = x;
    }
}

OR_DEVICE void write_number(const vector_t<uint16_t> *to, uint32_t d, bool there, float x)
{
    if (there) {
        to->numbers[d * to->step] = canonical_narrow(x);
    }
}

// Round as common/model/kv/kv_store.c does. A NaN, whose bits are above all others', becomes the scale as it is: a
// GPU's division would change it.
OR_DEVICE void write_number(const vector_t<int8_t> *to, uint32_t d, bool there, float x)
{
    float amount = float_of(largest_in_warp(bits_of(x) & 0x7FFFFFFFu));
    uint16_t half = canonical_narrow(isnan(amount) ? amount : amount / QUANT_MAX);
    float scale = canonical_widen(half);
    float nearest = canonical_max(rintf(x / scale), -QUANT_MAX);
    nearest = nearest < QUANT_MAX ? nearest : QUANT_MAX;
    if (there) {
        to->numbers[d * to->step] = scale == 0.0f ? 0 : (int8_t)nearest;
    }
    if (d % OR_QUANT_BLOCK == 0) {
        to->scales[d / OR_QUANT_BLOCK * to->scale_step] = half;
    }
}

// The part of a row that a thread has: dimension d of a layer's head, K or V.
typedef struct {
    side_t side;
    uint32_t layer;
    uint32_t kv_head;
    uint32_t d;
} place_t;

template <typename T>
OR_DEVICE void store_number(const or_cuda_kv_t *kv, const place_t *at, const or_cuda_seen_t *row,
                            float x)
{
    vector_t<T> to = row->slot == PREFIX_ROW
                         ? page_vector<T>(kv, at->side, at->layer, at->kv_head,
                                          pages_of(kv, &row->table)[row->position / OR_KV_BLOCK],
                                          row->position % OR_KV_BLOCK)
                         : slot_vector<T>(kv, at->side, at->layer, at->kv_head, row->slots,
                                          row->slots_max, row->slot);
    write_number(&to, at->d, at->d < kv->head_dim, x);
}

// A warp for each 32 dimensions of a head.
OR_GLOBAL void store_rows(or_cuda_kv_t kv, uint32_t layer, const or_cuda_seen_t *seen,
                          const float *key, const float *value, size_t stride)
{
    or_begin_after();
    uint32_t warps = (kv.head_dim - 1) / WARP + 1; // of a head
    uint32_t warp = (blockIdx.y * THREADS + threadIdx.x) / WARP;
    const or_cuda_seen_t *row = &seen[blockIdx.x];
    if (warp >= kv.kv_heads * warps || row->slot == OR_CUDA_SHADOW) {
        return;
    }
    place_t at = {blockIdx.z == 0 ? KEYS : VALUES, layer, warp / warps,
                  warp % warps * WARP + threadIdx.x % WARP};
    const float *from = (at.side == KEYS ? key : value) + blockIdx.x * stride;
    float x = at.d < kv.head_dim ? from[at.kv_head * kv.head_dim + at.d] : 0.0f;
    switch (type_of(&kv, at.side)) {
    case OR_CUDA_KV_F32:
        store_number<float>(&kv, &at, row, x);
        break;
    case OR_CUDA_KV_F16:
        store_number<uint16_t>(&kv, &at, row, x);
        break;
    case OR_CUDA_KV_Q8_0:
        store_number<int8_t>(&kv, &at, row, x);
        break;
    }
}

int or_cuda_store_kv(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                     const or_cuda_seen_t *seen, uint32_t rows, const float *key,
                     const float *value, size_t stride)
{
    if (rows == 0 || kv->kv_heads * kv->head_dim == 0) {
        return OR_CUDA_OK;
    }
    uint32_t threads = kv->kv_heads * ((kv->head_dim - 1) / WARP + 1) * WARP;
    dim3 grid(rows, (threads - 1) / THREADS + 1, SIDES);
    return or_launch_early(cuda, store_rows, grid, dim3(THREADS), 0, with_page_bytes(kv), layer,
                           seen, key, value, stride);
}

// ---- accepting ----

// Slots that become the positions from `position` on.
typedef struct {
    or_cuda_page_table_t table;
    uint32_t position;
    void *slots;
    uint32_t slots_max;
    const uint32_t *accepted;
} path_t;

// Copy a head's K or V of one position as it is.
template <typename T>
OR_DEVICE void copy_vector(const or_cuda_kv_t *kv, uint32_t layer, const path_t *path, side_t side)
{
    uint32_t kv_head = blockIdx.z / SIDES;
    uint32_t position = path->position + blockIdx.x;
    vector_t<T> from = slot_vector<T>(kv, side, layer, kv_head, path->slots, path->slots_max,
                                      path->accepted[blockIdx.x]);
    uint32_t page = pages_of(kv, &path->table)[position / OR_KV_BLOCK];
    vector_t<T> to = page_vector<T>(kv, side, layer, kv_head, page, position % OR_KV_BLOCK);
    for (uint32_t d = threadIdx.x; d < kv->head_dim; d += THREADS) {
        to.numbers[d * to.step] = from.numbers[d];
    }
    for (uint32_t i = threadIdx.x; i < scales_of(kv, side); i += THREADS) {
        to.scales[i * to.scale_step] = from.scales[i];
    }
}

// A layer with heads or pages of its own, described alone.
OR_DEVICE void describe_layer(or_cuda_kv_t *kv, uint32_t layer)
{
    const or_cuda_kv_layer_t *own = &kv->each[layer];
    kv->kv_heads = own->kv_heads;
    kv->head_dim = own->head_dim;
    kv->pages = own->pages;
    kv->page_bytes = own->page_bytes;
    kv->slot_before = own->slot_before;
    kv->in_frames = own->in_frames;
}

// A thread block for each accepted node, layer, head, and side.
OR_GLOBAL void accept_slots(or_cuda_kv_t kv, path_t path)
{
    side_t side = blockIdx.z % SIDES == 0 ? KEYS : VALUES;
    uint32_t layer = blockIdx.y;
    if (kv.each) {
        describe_layer(&kv, layer);
        layer = 0;
        if (blockIdx.z / SIDES >= kv.kv_heads) {
            return;
        }
    }
    switch (type_of(&kv, side)) {
    case OR_CUDA_KV_F32:
        copy_vector<float>(&kv, layer, &path, side);
        break;
    case OR_CUDA_KV_F16:
        copy_vector<uint16_t>(&kv, layer, &path, side);
        break;
    case OR_CUDA_KV_Q8_0:
        copy_vector<int8_t>(&kv, layer, &path, side);
        break;
    }
}

int or_cuda_accept(or_cuda_t *cuda, const or_cuda_kv_t *kv, const or_cuda_page_table_t *table,
                   uint32_t position, const void *slots, uint32_t slots_max, const uint32_t *from,
                   uint32_t count)
{
    if (count == 0 || kv->layers == 0 || kv->kv_heads == 0) {
        return OR_CUDA_OK;
    }
    void *read = (void *)slots; // as the way to a slot is the same for who writes
    path_t path = {*table, position, read, slots_max, from};
    return or_launch(cuda, accept_slots, dim3(count, kv->layers, kv->kv_heads * SIDES),
                     dim3(THREADS), 0, with_page_bytes(kv), path);
}
