// Scores: each query with each K that its row sees. A warp takes 32 positions, a lane one, and all queries of its
// block, so that what is read of K serves up to 16 of them.
#include "kernels/cuda/attention.cuh"

#define QUERIES_MAX 16u // of a block
#define WARPS 4u
#define SPLITS_MAX 64u // blocks along the positions
#define AHEAD                                                                                      \
    16u // numbers of a K that are loaded before the first is used; a part of OR_QUANT_BLOCK
#define SHARED_MAX ((size_t)48 * 1024)

// The run's queries, [head_dim][QUERIES], zeros where it has none.
template <uint32_t QUERIES>
OR_DEVICE void stage_queries(const attention_t *a, const query_t *query, const run_t *run,
                             uint32_t kv_head, float *staged)
{
    uint32_t head_dim = a->kv.head_dim;
    uint32_t group = a->heads.group;
    for (uint32_t i = threadIdx.x; i < head_dim * QUERIES; i += blockDim.x) {
        uint32_t d = i / QUERIES;
        uint32_t q = i % QUERIES;
        size_t row = run->first + q / group;
        size_t head = head_of(a, kv_head, q % group);
        bool there = q < run->rows * group && has_head(a, kv_head, q % group);
        staged[i] = there ? query->values[row * query->stride + head * head_dim + d] : 0.0f;
    }
}

// COUNT links of the queries' chains, from dimension d on, whose numbers share a scale.
template <typename T, uint32_t QUERIES, uint32_t COUNT>
OR_DEVICE void add_products(const float *queries, const vector_t<T> *key, uint32_t d, float *dots)
{
    T numbers[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        numbers[i] = key->numbers[(d + i) * key->step];
    }
    uint16_t scale = scale_at(key, d);
    for (uint32_t i = 0; i < COUNT; i++) {
        float number = widen(numbers[i], scale);
        for (uint32_t q = 0; q < QUERIES; q++) {
            dots[q] = fmaf(queries[(d + i) * QUERIES + q], number, dots[q]);
        }
    }
}

// This lane's K with all queries.
template <typename T, uint32_t QUERIES>
OR_DEVICE void multiply(const float *queries, uint32_t head_dim, const vector_t<T> *key,
                        float *dots)
{
    for (uint32_t q = 0; q < QUERIES; q++) {
        dots[q] = 0.0f;
    }
    uint32_t d = 0;
    for (; d + AHEAD <= head_dim; d += AHEAD) {
        add_products<T, QUERIES, AHEAD>(queries, key, d, dots);
    }
    for (; d < head_dim; d++) {
        add_products<T, QUERIES, 1>(queries, key, d, dots);
    }
}

// The bytes of a page's numbers of K, of one head.
template <typename T> CANONICAL size_t page_bytes(const attention_t *a)
{
    return a->kv.head_dim * OR_KV_BLOCK * sizeof(T);
}

// Bring the numbers of a page, which the warp will read, to shared memory: all at once, so that memory is waited for once.
OR_DEVICE void stage_page(const void *numbers, size_t bytes, uint4 *staged)
{
    or_warp_wait(); // nobody reads the page before any more
    for (uint32_t i = threadIdx.x % WARP; i < bytes / sizeof *staged; i += WARP) {
        or_copy_piece(&staged[i], (const uint4 *)numbers + i, true);
    }
    or_copies_end();
    or_copies_wait<0>();
    or_warp_wait();
}

// A page's positions, each for the rows that see it.
template <typename T, uint32_t QUERIES>
OR_DEVICE void score_page(const attention_t *a, const run_t *run, uint32_t kv_head, uint32_t page,
                          const float *queries, uint4 *staged)
{
    uint32_t lane = threadIdx.x % WARP;
    vector_t<T> key = page_vector<T>(&a->kv, KEYS, a->layer, kv_head, run->pages[page], lane);
    if (staged) {
        stage_page(key.numbers - lane, page_bytes<T>(a), staged);
        key.numbers = (T *)staged + lane;
    }
    float dots[QUERIES];
    multiply<T, QUERIES>(queries, a->kv.head_dim, &key, dots);
    uint32_t position = page * OR_KV_BLOCK + lane;
    uint32_t group = a->heads.group;
    for (uint32_t q = 0; q < QUERIES; q++) {
        uint32_t row = run->first + q / group;
        bool there = q < run->rows * group && has_head(a, kv_head, q % group);
        if (there && position < a->seen[row].committed) {
            scores_of(a, row, head_of(a, kv_head, q % group))[position] = a->how.scale * dots[q];
        }
    }
}

// The ancestors of the run's row `index`. All queries are multiplied, its own are kept.
template <typename T, uint32_t QUERIES>
OR_DEVICE void score_chain(const attention_t *a, const run_t *run, uint32_t kv_head, uint32_t index,
                           const float *queries)
{
    uint32_t row = run->first + index;
    const or_cuda_seen_t *seen = &a->seen[row];
    uint32_t group = a->heads.group;
    for (uint32_t i = threadIdx.x % WARP; i < seen->chain_count; i += WARP) {
        vector_t<T> key = slot_vector<T>(&a->kv, KEYS, a->layer, kv_head, seen->slots,
                                         seen->slots_max, seen->chain[i]);
        float dots[QUERIES];
        multiply<T, QUERIES>(queries, a->kv.head_dim, &key, dots);
        for (uint32_t q = 0; q < QUERIES; q++) {
            if (q / group == index && has_head(a, kv_head, q % group)) {
                uint32_t head = head_of(a, kv_head, q % group);
                scores_of(a, row, head)[seen->committed + i] = a->how.scale * dots[q];
            }
        }
    }
}

// A warp takes every so many of the run's pages, from the first that a row attends to on, and after those of its rows.
template <typename T, uint32_t QUERIES>
OR_GLOBAL void score_rows(attention_t a, query_t query, uint32_t rows_max, bool stages)
{
    or_begin_after();
    OR_SHARED_DYNAMIC(float, queries);
    uint32_t kv_head = blockIdx.z;
    run_t run = find_run(&a, blockIdx.x, rows_max);
    uint32_t pages = (run.committed + OR_KV_BLOCK - 1) / OR_KV_BLOCK;
    uint32_t first_page = run.first_seen / OR_KV_BLOCK;
    uint32_t first = (first_page < pages ? first_page : pages) + blockIdx.y * WARPS;
    if (run.rows == 0 || first >= pages + run.rows) {
        return;
    }
    stage_queries<QUERIES>(&a, &query, &run, kv_head, queries);
    or_block_wait();
    char *pages_at = (char *)(queries + a.kv.head_dim * QUERIES);
    uint4 *staged = stages ? (uint4 *)(pages_at + threadIdx.x / WARP * page_bytes<T>(&a)) : NULL;
    for (uint32_t i = first + threadIdx.x / WARP; i < pages + run.rows; i += gridDim.y * WARPS) {
        if (i < pages) {
            score_page<T, QUERIES>(&a, &run, kv_head, i, queries, staged);
        } else {
            score_chain<T, QUERIES>(&a, &run, kv_head, i - pages, queries);
        }
    }
}

template <typename T, uint32_t QUERIES>
static int launch_scores_of(or_cuda_t *cuda, const attention_t *a, const query_t *query,
                            uint32_t rows_max)
{
    size_t positions = a->scores_stride;
    if (a->how.window > 0 && a->how.window < positions) {
        positions = a->how.window;
    }
    size_t items = positions / OR_KV_BLOCK + 1 + rows_max;
    size_t splits = (items + WARPS - 1) / WARPS;
    uint32_t y = splits < SPLITS_MAX ? (uint32_t)splits : SPLITS_MAX;
    const size_t query_bytes = a->kv.head_dim * QUERIES * sizeof(float);
    const size_t whole = query_bytes + WARPS * page_bytes<T>(a);
    const bool stages = whole <= SHARED_MAX && query_bytes % sizeof(uint4) == 0;
    return or_launch_early(cuda, score_rows<T, QUERIES>, dim3(a->rows, y, a->kv.kv_heads),
                           dim3(WARPS * WARP), stages ? whole : query_bytes, *a, *query, rows_max,
                           stages);
}

// A run has as many rows as their queries fill a lane's registers, and no more chains than there are queries.
template <typename T>
static int launch_scores(or_cuda_t *cuda, const attention_t *a, const query_t *query)
{
    uint32_t rows_max = QUERIES_MAX / a->heads.group;
    rows_max = rows_max < a->rows ? rows_max : a->rows;
    uint32_t queries = rows_max * a->heads.group;
    if (queries == 1) {
        return launch_scores_of<T, 1>(cuda, a, query, rows_max);
    }
    if (queries <= 4) {
        return launch_scores_of<T, 4>(cuda, a, query, rows_max);
    }
    if (queries <= 8) {
        return launch_scores_of<T, 8>(cuda, a, query, rows_max);
    }
    return launch_scores_of<T, QUERIES_MAX>(cuda, a, query, rows_max);
}

int or_cuda_attention_scores(or_cuda_t *cuda, const attention_t *a, const query_t *query)
{
    switch (a->kv.key_type) {
    case OR_CUDA_KV_F32:
        return launch_scores<float>(cuda, a, query);
    case OR_CUDA_KV_F16:
        return launch_scores<uint16_t>(cuda, a, query);
    default:
        return launch_scores<int8_t>(cuda, a, query);
    }
}
