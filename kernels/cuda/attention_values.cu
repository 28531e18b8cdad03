// Values: each query's sum of V, weighted, a chain over the positions of each part. What keeps a chain waiting is its
// loads, not its steps, so that all warps of a block together bring what comes next while they add what they brought
// before. Where rows and heads alone are too few blocks for a device, each block takes one part.
#include "kernels/cuda/attention.cuh"

#define WARPS 8u
#define QUERIES_MAX 4u  // of a warp at most
#define STAGE 128u      // positions in shared memory at a time; a part is whole stages
#define TOGETHER 8u     // of them added without a look at how many there are
#define GRID_MAX 65535u // of a grid in y
#define ENOUGH 256u     // thread blocks that keep a device busy: then each takes all parts

// Thread blocks for the dimensions of a head.
CANONICAL uint32_t slices_of(const attention_t *a)
{
    return (a->kv.head_dim - 1) / WARP + 1;
}

// The work of a warp: it sums values for some query heads of one row. Heads behind the group's last have weights of 0
// and are not kept.
typedef struct {
    uint32_t row;
    uint32_t committed;  // 0 where the run has no such row
    uint32_t first_seen; // the first position that the row attends to
    uint32_t first;      // query head
    uint32_t heads;
} share_t;

// Find this warp's share of the KV head's group, `queries` heads to a warp.
template <bool WINDOWED>
OR_DEVICE share_t find_share(const attention_t *a, const run_t *run, uint32_t kv_head,
                             uint32_t queries)
{
    uint32_t group = a->heads.group;
    uint32_t warp = threadIdx.x / WARP;
    uint32_t shares = (group - 1) / queries + 1; // of a row
    uint32_t begin = kv_head * group > a->heads.first ? head_of(a, kv_head, 0) : 0;
    uint32_t end = head_of(a, kv_head, group);
    end = end < a->heads.count ? end : a->heads.count;
    share_t share = {warp / shares, 0, 0, begin + warp % shares * queries, 0};
    if (share.row < run->rows) {
        share.row += run->first;
        share.committed = a->seen[share.row].committed;
        share.first_seen = WINDOWED ? first_seen_by(a, share.row) : 0;
        uint32_t left = share.first < end ? end - share.first : 0;
        share.heads = left < queries ? left : queries;
    }
    return share;
}

// The numbers that a thread loads for a stage: one dimension of V, and weights of its warp's queries.
template <typename T, uint32_t QUERIES> struct ahead_t {
    T values[STAGE / WARPS];
    uint16_t scale; // lane i's goes with the warp's values[i]
    float weights[QUERIES][STAGE / WARP];
};

// V of a position that the run sees.
template <typename T>
OR_DEVICE vector_t<T> value_at(const attention_t *a, const run_t *run, uint32_t kv_head,
                               uint32_t position)
{
    return page_vector<T>(&a->kv, VALUES, a->layer, kv_head, run->pages[position / OR_KV_BLOCK],
                          position % OR_KV_BLOCK);
}

// Does a row of the run attend to this committed position? Those before may have no frame any more.
OR_DEVICE bool is_attended(const run_t *run, uint32_t position)
{
    return position >= run->first_seen && position < run->committed;
}

// Load a stage from position `first` on; positions that nobody attends to become 0.
template <typename T, uint32_t QUERIES>
OR_DEVICE void fetch(const attention_t *a, const run_t *run, const share_t *share, uint32_t kv_head,
                     uint32_t d, uint32_t first, ahead_t<T, QUERIES> *ahead)
{
    uint32_t lane = threadIdx.x % WARP;
    uint32_t position = first + threadIdx.x / WARP;
    for (uint32_t i = 0; i < STAGE / WARPS; i++) {
        bool there = is_attended(run, position + i * WARPS) && d < a->kv.head_dim;
        ahead->values[i] =
            there ? value_at<T>(a, run, kv_head, position + i * WARPS).numbers[d] : (T)0;
    }
    position += lane * WARPS;
    ahead->scale = 0;
    if (HAS_SCALES<T> && lane < STAGE / WARPS && is_attended(run, position)) {
        vector_t<T> value = value_at<T>(a, run, kv_head, position);
        ahead->scale = scale_at(&value, d);
    }
    for (uint32_t q = 0; q < QUERIES; q++) {
        const float *scores = scores_of(a, share->row, share->first + q);
        for (uint32_t i = 0; i < STAGE / WARP; i++) {
            uint32_t weighted = first + i * WARP + lane;
            bool there =
                q < share->heads && weighted >= share->first_seen && weighted < share->committed;
            ahead->weights[q][i] = there ? scores[weighted] : 0.0f;
        }
    }
}

// values [STAGE][lane], weights [warp][query][STAGE].
template <typename T, uint32_t QUERIES>
OR_DEVICE void put_on_stage(const ahead_t<T, QUERIES> *ahead, float *values, float *weights)
{
    for (uint32_t i = 0; i < STAGE / WARPS; i++) {
        uint16_t scale = HAS_SCALES<T> ? or_shuffle(ahead->scale, i) : 0;
        values[i * WARPS * WARP + threadIdx.x] = widen(ahead->values[i], scale);
    }
    uint32_t warp = threadIdx.x / WARP;
    for (uint32_t q = 0; q < QUERIES; q++) {
        for (uint32_t i = 0; i < STAGE / WARP; i++) {
            weights[(warp * QUERIES + q) * STAGE + i * WARP + threadIdx.x % WARP] =
                ahead->weights[q][i];
        }
    }
}

// COUNT links of the chains of a lane's dimension.
template <uint32_t QUERIES, uint32_t COUNT>
OR_DEVICE void add_values(const float *values, const float *weights, float *sums)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        float value = values[i * WARP];
        for (uint32_t q = 0; q < QUERIES; q++) {
            sums[q] = fmaf(weights[q * STAGE + i], value, sums[q]);
        }
    }
}

template <uint32_t QUERIES>
OR_DEVICE void add_stage(const float *values, const float *weights, uint32_t count, float *sums)
{
    uint32_t p = 0;
    for (; p + TOGETHER <= count; p += TOGETHER) {
        add_values<QUERIES, TOGETHER>(values + p * WARP, weights + p, sums);
    }
    for (; p < count; p++) {
        add_values<QUERIES, 1>(values + p * WARP, weights + p, sums);
    }
}

// The part that a position is in.
OR_DEVICE uint32_t part_of(uint32_t position)
{
    return position / OR_ATTENTION_PART;
}

// The sums of a warp's queries: `own` of the part that it is in, `before` of all parts before that.
template <uint32_t QUERIES> struct sums_t {
    uint32_t begin, end; // positions that the block takes: a part, or all from the first part on
    float own[QUERIES];
    float before[QUERIES];
};

// Begin a part where this position is the first of one. What is summed before the row's first part counts nothing.
template <uint32_t QUERIES>
OR_DEVICE void enter(const share_t *share, sums_t<QUERIES> *sums, uint32_t position)
{
    if (position % OR_ATTENTION_PART != 0 || position == sums->begin) {
        return;
    }
    for (uint32_t q = 0; q < QUERIES; q++) {
        bool first = part_of(position) == part_of(share->first_seen) + 1;
        sums->before[q] = first ? sums->own[q] : sums->before[q] + sums->own[q];
        sums->own[q] = 0.0f;
    }
}

template <typename T, uint32_t QUERIES>
OR_DEVICE void add_chain(const attention_t *a, const share_t *share, uint32_t kv_head, uint32_t d,
                         sums_t<QUERIES> *sums)
{
    const or_cuda_seen_t *seen = &a->seen[share->row];
    const float *scores = scores_of(a, share->row, share->first);
    uint32_t begin = sums->begin > share->first_seen ? sums->begin : share->first_seen;
    uint32_t skipped = begin > seen->committed ? begin - seen->committed : 0;
    for (uint32_t i = skipped; i < seen->chain_count && seen->committed + i < sums->end; i++) {
        enter(share, sums, seen->committed + i);
        vector_t<T> value = slot_vector<T>(&a->kv, VALUES, a->layer, kv_head, seen->slots,
                                           seen->slots_max, seen->chain[i]);
        float number = widen(value.numbers[d], scale_at(&value, d));
        for (uint32_t q = 0; q < QUERIES; q++) {
            if (q < share->heads) {
                float weight = scores[q * a->scores_stride + seen->committed + i];
                sums->own[q] = fmaf(weight, number, sums->own[q]);
            }
        }
    }
}

// Keep what the warp summed for one query, and is not a part alone.
template <uint32_t QUERIES>
OR_DEVICE void finish(const attention_t *a, const or_cuda_rows_t *to, const share_t *share,
                      uint32_t d, const sums_t<QUERIES> *sums)
{
    bool several = share->heads > 0 && part_of(seen_by(a, share->row) - 1) >
                                           part_of(share->first_seen); // else there may be no row
    for (uint32_t q = 0; q < share->heads; q++) {
        uint32_t begin = (share->first + q) * a->kv.head_dim;
        float sum = several ? sums->before[q] + sums->own[q] : sums->own[q];
        write_in_warp(to, share->row, begin + a->kv.head_dim, begin + d, sum);
    }
}

// Leave what the warp summed of a part, if its row sees any, to add_parts.
template <uint32_t QUERIES>
OR_DEVICE void leave_part(const attention_t *a, const share_t *share, uint32_t d,
                          const sums_t<QUERIES> *sums)
{
    for (uint32_t q = 0; q < share->heads; q++) {
        uint32_t part = part_of(sums->begin);
        if (part >= part_of(share->first_seen) && sums->begin < seen_by(a, share->row) &&
            d < a->kv.head_dim) {
            sums_of(a, share->row, share->first + q, part)[d] = sums->own[q];
        }
    }
}

// A block has 32 dimensions of a run, and all parts or (`apart`) one; its warps share them out by rows and heads. Windows
// take registers, which others do without.
template <typename T, uint32_t QUERIES, bool WINDOWED>
OR_GLOBAL void sum_rows(attention_t a, or_cuda_rows_t to, uint32_t rows_max, bool apart)
{
    or_begin_after();
    OR_SHARED_DYNAMIC(float, values);
    float *weights = values + STAGE * WARP;
    uint32_t kv_head = blockIdx.z;
    run_t run = find_run(&a, blockIdx.x, rows_max);
    if (run.rows == 0) {
        return;
    }
    uint32_t lane = threadIdx.x % WARP;
    uint32_t slices = slices_of(&a);
    uint32_t d = blockIdx.y % slices * WARP + lane;
    run.first_seen = WINDOWED ? run.first_seen : 0;
    share_t share = find_share<WINDOWED>(&a, &run, kv_head, QUERIES);
    const float *own_weights = weights + threadIdx.x / WARP * QUERIES * STAGE;
    sums_t<QUERIES> sums = {};
    sums.begin = (apart ? blockIdx.y / slices : part_of(run.first_seen)) * OR_ATTENTION_PART;
    sums.end = apart ? sums.begin + OR_ATTENTION_PART : UINT32_MAX;
    if (sums.end <= run.first_seen) {
        return; // nobody attends to this part
    }
    uint32_t end = run.committed < sums.end ? run.committed : sums.end;
    uint32_t begin = run.first_seen / STAGE * STAGE;
    begin = begin > sums.begin ? begin : sums.begin;
    ahead_t<T, QUERIES> ahead;
    fetch(&a, &run, &share, kv_head, d, begin, &ahead);
    for (uint32_t first = begin; first < end; first += STAGE) {
        or_block_wait();
        put_on_stage(&ahead, values, weights);
        or_block_wait();
        if (first + STAGE < end) {
            fetch(&a, &run, &share, kv_head, d, first + STAGE, &ahead);
        }
        if (share.committed > first) {
            uint32_t rest = share.committed - first;
            enter(&share, &sums, first);
            add_stage<QUERIES>(values + lane, own_weights, rest < STAGE ? rest : STAGE, sums.own);
        }
    }
    if (share.heads > 0 && d < a.kv.head_dim) {
        add_chain<T, QUERIES>(&a, &share, kv_head, d, &sums);
    }
    if (apart) {
        leave_part(&a, &share, d, &sums);
    } else {
        finish(&a, &to, &share, d, &sums);
    }
}

// Add up the parts that each row attends to, in order. A thread has a dimension of a head.
OR_GLOBAL void add_parts(attention_t a, or_cuda_rows_t to)
{
    or_begin_after();
    uint32_t row = blockIdx.x;
    uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    uint32_t n = a.heads.count * a.kv.head_dim;
    uint32_t first = part_of(first_seen_by(&a, row));
    uint32_t last = part_of(seen_by(&a, row) - 1);
    float sum = 0.0f;
    if (i < n) {
        const float *sums = sums_of(&a, row, i / a.kv.head_dim, 0) + i % a.kv.head_dim;
        sum = sums[(size_t)first * a.kv.head_dim];
        for (uint32_t part = first + 1; part <= last; part++) {
            sum += sums[(size_t)part * a.kv.head_dim];
        }
    }
    write_in_warp(&to, row, n, i, sum);
}

template <typename T, uint32_t QUERIES>
static int launch_values_of(or_cuda_t *cuda, const attention_t *a, const or_cuda_rows_t *to)
{
    uint32_t rows_max = WARPS / ((a->heads.group - 1) / QUERIES + 1);
    uint32_t slices = slices_of(a);
    size_t blocks = (size_t)((a->rows - 1) / rows_max + 1) * slices * a->kv.kv_heads;
    bool apart = a->parts > 1 && blocks < ENOUGH && slices * a->parts <= GRID_MAX;
    dim3 grid(a->rows, apart ? slices * a->parts : slices, a->kv.kv_heads);
    size_t staged = STAGE * WARP + WARPS * QUERIES * STAGE;
    int status = or_launch_early(
        cuda, a->how.window > 0 ? sum_rows<T, QUERIES, true> : sum_rows<T, QUERIES, false>, grid,
        dim3(WARPS * WARP), staged * sizeof(float), *a, *to, rows_max, apart);
    if (status != OR_CUDA_OK || !apart) {
        return status;
    }
    dim3 all(a->rows, (a->heads.count * a->kv.head_dim - 1) / (WARPS * WARP) + 1);
    return or_launch_early(cuda, add_parts, all, dim3(WARPS * WARP), 0, *a, *to);
}

// A warp's chains one beside the other cost little, but few queries are sooner done by more warps.
template <typename T>
static int launch_values(or_cuda_t *cuda, const attention_t *a, const or_cuda_rows_t *to)
{
    uint32_t queries = 1;
    uint32_t group = a->heads.group;
    while (queries < QUERIES_MAX && queries < group && a->rows * group > queries * WARPS) {
        queries *= 2;
    }
    if (queries == 1) {
        return launch_values_of<T, 1>(cuda, a, to);
    }
    if (queries == 2) {
        return launch_values_of<T, 2>(cuda, a, to);
    }
    return launch_values_of<T, QUERIES_MAX>(cuda, a, to);
}

int or_cuda_attention_values(or_cuda_t *cuda, const attention_t *a, const or_cuda_rows_t *to)
{
    switch (a->kv.value_type) {
    case OR_CUDA_KV_F32:
        return launch_values<float>(cuda, a, to);
    case OR_CUDA_KV_F16:
        return launch_values<uint16_t>(cuda, a, to);
    default:
        return launch_values<int8_t>(cuda, a, to);
    }
}
