// Goal: attention on a device gives the bits of kernels/ref whatever a row sees, whichever of that its window has, and
// where scores are capped or have a sink beside them.
// Method: rows of two sequences see random pages and slots. The K and V of each are laid out in the order of their
// positions and go through kernels/ref, one row at a time. What lies before a window has a weight of 0 there; where layers
// are in frames the device has no frames of it.
#include "kernels/cuda/tests/kv_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/cpu/elementwise.h"

static const uint32_t contexts[] = {1, 31, 32, 33, 100, 200};
static const uint32_t head_dims[] = {32, 64, 96, 128, 20, 6, 256};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct {
    const kv_test_cache_t *cache;
    const kv_test_rows_t *rows;
    uint32_t layer;
    or_cuda_heads_t heads;
    or_cuda_attention_t how;
    uint32_t width;     // of a row of queries and of results: heads * head_dim
    size_t stride;      // of both
    const float *query; // [rows][stride]
    const float *sinks; // [heads]; NULL: there are none
} case_t;

// Prefix rows, many of them the last, and tree rows, of both sequences and mostly beside their like.
static kv_test_rows_t *random_rows(uint64_t *random, const kv_test_cache_t *cache, uint32_t count)
{
    kv_test_rows_t *rows = kv_test_rows_create();
    uint32_t sequence = 0;
    while (rows->count < count) {
        sequence = test_below(random, 4) == 0 ? 1 - sequence : sequence;
        if (test_below(random, 2) == 0) {
            uint32_t before_last =
                (uint32_t)test_below(random, cache->context) * (uint32_t)test_below(random, 2);
            kv_test_add_prefix_row(rows, cache, sequence, cache->context - 1 - before_last);
        } else {
            uint32_t chain[KV_TEST_CHAIN_MAX];
            uint32_t length = 1 + (uint32_t)test_below(random, KV_TEST_CHAIN_MAX);
            kv_test_draw(random, chain, length, KV_TEST_SLOTS);
            uint32_t committed = test_below(random, 8) == 0 ? 0 : cache->context;
            kv_test_add_tree_row(rows, cache, sequence, committed, chain, length);
        }
    }
    kv_test_rows_upload(rows);
    return rows;
}

// ---- what is expected ----

static or_kv_vector_t seen_vector(const case_t *c, uint32_t row, uint32_t position,
                                  uint32_t kv_head, kv_test_side_t side)
{
    uint32_t sequence = c->rows->sequences[row];
    uint32_t committed = c->rows->seen[row].committed;
    if (position < committed) {
        return kv_test_in_page(c->cache, sequence, position, c->layer, kv_head, side);
    }
    uint32_t slot = c->rows->chains[row][position - committed];
    return kv_test_in_slot(c->cache, sequence, slot, c->layer, kv_head, side);
}

// Lay out the positions that a row sees of a head in blocks of 32, as kernels.h wants K and V: [head_dim][32],
// [32][head_dim].
static float *lay_out(const case_t *c, uint32_t row, uint32_t n, uint32_t kv_head,
                      kv_test_side_t side)
{
    uint32_t head_dim = c->cache->kv.head_dim;
    size_t block_floats = (size_t)head_dim * OR_KV_BLOCK;
    float *blocks = kv_test_allocate(kv_test_pages_for(n) * block_floats * sizeof *blocks);
    float *numbers = kv_test_allocate(head_dim * sizeof *numbers);
    for (uint32_t p = 0; p < n; p++) {
        or_kv_vector_t vector = seen_vector(c, row, p, kv_head, side);
        or_kv_vector_read(&vector, numbers);
        float *block = blocks + p / OR_KV_BLOCK * block_floats;
        size_t lane = p % OR_KV_BLOCK;
        for (uint32_t d = 0; d < head_dim; d++) {
            size_t at = side == KV_TEST_KEY ? d * OR_KV_BLOCK + lane : lane * head_dim + d;
            block[at] = numbers[d];
        }
    }
    free(numbers);
    return blocks;
}

static uint32_t seen_by(const case_t *c, uint32_t row)
{
    return c->rows->seen[row].committed + c->rows->seen[row].chain_count;
}

// The first of n positions that a row attends to.
static uint32_t first_seen(const case_t *c, uint32_t n)
{
    return c->how.window > 0 && n > c->how.window ? n - c->how.window : 0;
}

// One query head's weights of n positions.
static float *weigh(const case_t *c, uint32_t n, uint32_t head, const float *query,
                    const float *keys)
{
    uint32_t sinks = c->sinks != NULL ? 1 : 0;
    uint32_t head_dim = c->cache->kv.head_dim;
    uint32_t first = first_seen(c, n);
    float *scores = kv_test_allocate(kv_test_pages_for(n + 1) * OR_KV_BLOCK * sizeof *scores);
    for (size_t p = 0; p < n; p += OR_KV_BLOCK) {
        const or_kv_block_t block = {.numbers = keys + p * head_dim};
        or_kernels_ref.attention_scores(query, 0, 1, &block, head_dim, c->how.scale, scores + p, 0);
    }
    memset(scores, 0, first * sizeof *scores);
    if (c->how.softcap > 0) {
        or_softcap(scores + first, n - first, c->how.softcap);
    }
    if (sinks > 0) {
        scores[n] = c->sinks[head];
    }
    or_kernels_ref.softmax(scores + first, first, n + sinks - first);
    return scores;
}

static void attend(const case_t *c, uint32_t n, uint32_t head, const float *query,
                   const float *keys, const float *values, float *out)
{
    uint32_t head_dim = c->cache->kv.head_dim;
    uint32_t first_part = first_seen(c, n) / OR_ATTENTION_PART;
    float *weights = weigh(c, n, head, query, keys);
    float *part = kv_test_allocate(head_dim * sizeof *part);
    for (size_t p = first_part * OR_ATTENTION_PART; p < n; p += OR_KV_BLOCK) {
        uint32_t rest = n - (uint32_t)p;
        const or_kv_block_t block = {.numbers = values + p * head_dim};
        if (p % OR_ATTENTION_PART == 0) {
            memset(part, 0, head_dim * sizeof *part);
        }
        or_kernels_ref.attention_values(weights + p, 0, 1, &block, head_dim,
                                        rest < OR_KV_BLOCK ? rest : OR_KV_BLOCK, part, 0);
        if ((p + OR_KV_BLOCK) % OR_ATTENTION_PART != 0 && rest > OR_KV_BLOCK) {
            continue; // the part goes on
        }
        if (p / OR_ATTENTION_PART == first_part) {
            memcpy(out, part, head_dim * sizeof *out);
        } else {
            or_kernels_ref.add(out, part, head_dim);
        }
    }
    free(part);
    free(weights);
}

static void attend_row(const case_t *c, uint32_t row, float *out)
{
    uint32_t n = seen_by(c, row);
    size_t head_dim = c->cache->kv.head_dim;
    for (uint32_t kv_head = 0; kv_head < c->cache->kv.kv_heads; kv_head++) {
        float *keys = lay_out(c, row, n, kv_head, KV_TEST_KEY);
        float *values = lay_out(c, row, n, kv_head, KV_TEST_VALUE);
        for (uint32_t head = 0; head < c->heads.count; head++) {
            size_t at = head * head_dim;
            if ((c->heads.first + head) / c->heads.group == kv_head) {
                attend(c, n, head, c->query + row * c->stride + at, keys, values, out + at);
            }
        }
        free(values);
        free(keys);
    }
}

// The blocks of rows that have `expected` floats.
static void check_blocks(const case_t *c, const float *expected, const or_cuda_rows_t *to)
{
    uint32_t count = (uint32_t)to->blocks_stride;
    or_q8_block_t *actual = kv_test_allocate(c->rows->count * count * sizeof *actual);
    or_q8_block_t *blocks = kv_test_allocate(count * sizeof *blocks);
    float *padded = kv_test_allocate(count * OR_QUANT_BLOCK * sizeof *padded);
    cuda_test_download(test_device, actual, to->blocks, c->rows->count * count * sizeof *actual);
    for (uint32_t r = 0; r < c->rows->count; r++) {
        memcpy(padded, expected + r * c->stride, c->width * sizeof *padded);
        or_kernels_ref.quantize_row(padded, count, blocks);
        for (uint32_t b = 0; b < count; b++) {
            cuda_test_same_block(&actual[r * count + b], &blocks[b], b);
        }
    }
    free(padded);
    free(blocks);
    free(actual);
}

// ---- a case ----

// A part of them that begins in the first KV head's group and ends in the last one's; mostly all.
static or_cuda_heads_t random_heads(uint64_t *random, uint32_t kv_heads, uint32_t group)
{
    or_cuda_heads_t heads = {kv_heads * group, group, 0};
    if (test_below(random, 2) == 0) {
        heads.first = (uint32_t)test_below(random, group);
        uint32_t least = kv_heads == 1 ? 1 : (kv_heads - 1) * group - heads.first + 1;
        heads.count =
            least + (uint32_t)test_below(random, kv_heads * group - heads.first - least + 1);
    }
    return heads;
}

// Scores are poison at first, with room for more than anybody sees: how much more must not matter, though it
// changes the grid.
static void attend_on_device(uint64_t *random, const case_t *c, const or_cuda_rows_t *to)
{
    uint32_t rows = c->rows->count;
    size_t spare = test_below(random, 4) > 0 ? test_below(random, 3) : 1000;
    size_t stride = c->cache->context + KV_TEST_CHAIN_MAX + (c->sinks != NULL ? 1 : 0) + spare;
    or_cuda_attention_t how = c->how;
    float *sinks = cuda_test_upload(test_device, c->sinks, c->heads.count * sizeof *sinks);
    how.sinks = c->sinks != NULL ? sinks : NULL;
    float *query = cuda_test_upload(test_device, c->query, rows * c->stride * sizeof *query);
    size_t floats = or_cuda_attention_floats(stride, c->cache->kv.head_dim);
    float *scores =
        cuda_test_upload(test_device, NULL, rows * c->heads.count * floats * sizeof *scores);
    const or_cuda_kv_t kv = kv_test_kv_of(c->cache, c->layer);
    cuda_test_ok(or_cuda_attention(test_device, &kv, c->layer, c->rows->device_seen, rows, query,
                                   c->stride, &c->heads, &how, scores, stride, to));
    or_cuda_free(test_device, sinks);
    or_cuda_free(test_device, scores);
    or_cuda_free(test_device, query);
}

static void check_case(uint64_t *random, const case_t *c, bool with_blocks)
{
    test_outputs_t outputs = test_outputs(c->rows->count * c->stride);
    for (uint32_t r = 0; r < c->rows->count; r++) {
        attend_row(c, r, outputs.expected + r * c->stride);
    }
    size_t bytes = outputs.count * sizeof(float);
    or_cuda_rows_t to = {.values = cuda_test_upload(test_device, outputs.actual, bytes),
                         .stride = c->stride};
    if (with_blocks) {
        to.blocks_stride = (c->width + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
        to.blocks = cuda_test_upload(test_device, NULL,
                                     c->rows->count * to.blocks_stride * sizeof *to.blocks);
    }
    attend_on_device(random, c, &to);
    cuda_test_download(test_device, outputs.actual, to.values, bytes);
    if (with_blocks) {
        check_blocks(c, outputs.expected, &to);
    }
    test_check_rows(&outputs, c->width, c->stride, "attention");
    or_cuda_free(test_device, to.blocks);
    or_cuda_free(test_device, to.values);
}

typedef struct {
    kv_test_types_t types;
    uint32_t kv_heads;
    uint32_t group;
    uint32_t head_dim;
    uint32_t context;
    uint32_t rows;
    uint32_t window;
} sizes_t;

// What no row attends to is gone, in layers that are in frames.
static void lose_frames(const case_t *c)
{
    for (uint32_t sequence = 0; sequence < KV_TEST_SEQUENCES; sequence++) {
        uint32_t first = c->cache->context;
        for (uint32_t row = 0; row < c->rows->count; row++) {
            uint32_t own = first_seen(c, seen_by(c, row));
            first = c->rows->sequences[row] == sequence && own < first ? own : first;
        }
        kv_test_lose_frames(c->cache, sequence, first);
    }
}

// Half of the windows are shorter than what some row sees.
static uint32_t random_window(uint64_t *random, uint32_t context)
{
    return (uint32_t)test_below(random, 2) * (1 + (uint32_t)test_below(random, context + 10));
}

static void check_sizes(uint64_t *random, test_kind_t kind, const sizes_t *sizes)
{
    kv_test_cache_t cache = kv_test_cache_create(random, kind, sizes->types, sizes->kv_heads,
                                                 sizes->head_dim, sizes->context);
    kv_test_rows_t *rows = random_rows(random, &cache, sizes->rows);
    or_cuda_heads_t heads = random_heads(random, sizes->kv_heads, sizes->group);
    uint32_t width = heads.count * sizes->head_dim;
    size_t stride = width + 1 + test_below(random, 9);
    float *query = test_floats(random, kind, sizes->rows * stride);
    float spread = (float)(1u << test_below(random, 7)); // of scores
    for (size_t i = 0; i < sizes->rows * stride; i++) {
        query[i] *= spread;
    }
    float *sinks = test_floats(random, kind, heads.count);
    for (size_t i = 0; i < heads.count; i++) {
        sinks[i] *= spread;
    }
    // Before a window weights are 0, which times a value that is no number would be none: nothing is promised of that.
    uint32_t window = kind == KIND_SPECIAL ? 0 : sizes->window;
    case_t c = {.cache = &cache,
                .rows = rows,
                .layer = (uint32_t)test_below(random, KV_TEST_LAYERS),
                .heads = heads,
                .how = {.scale = 1.0f / sqrtf((float)sizes->head_dim),
                        .softcap = test_below(random, 3) == 0 ? 0.5f * spread : 0,
                        .window = window},
                .width = width,
                .stride = stride,
                .query = query,
                .sinks = test_below(random, 3) == 0 ? sinks : NULL};
    lose_frames(&c);
    check_case(random, &c, test_below(random, 2) == 0);
    kv_test_assert_same(&cache);
    free(sinks);
    free(query);
    kv_test_rows_free(rows);
    kv_test_cache_free(&cache);
}

// ---- tests ----

static void rows_attend_as_ref(void **state)
{
    (void)state;
    static const uint32_t groups[] = {1, 3, 8, 2, 16};
    uint64_t random = test_seed();
    uint32_t cases = 0;
    for (size_t i = 0; i < COUNT(contexts) * test_runs(1); i++) {
        for (size_t j = 0; j < COUNT(head_dims); j++, cases++) {
            sizes_t sizes = {.types = kv_test_mixes[cases % KV_TEST_MIXES],
                             .group = groups[cases % COUNT(groups)],
                             .head_dim = head_dims[j],
                             .context = contexts[i % COUNT(contexts)],
                             .rows = 1 + (uint32_t)test_below(&random, 9)};
            sizes.kv_heads = sizes.group > 3 ? 1 : 2;
            sizes.window = random_window(&random, sizes.context);
            check_sizes(&random, (test_kind_t)(cases / 3 % KINDS), &sizes);
        }
    }
}

// The rows make several blocks, in each way that rows and heads are shared out.
static void many_rows_attend_as_ref(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t group = 1; group <= 16; group += group < 4 ? 1 : 4) {
        sizes_t sizes = {.types = kv_test_mixes[1 + group % 2],
                         .kv_heads = 1,
                         .group = group,
                         .head_dim = 32,
                         .context = 40,
                         .rows = group < 4 ? KV_TEST_ROWS_MAX : 11,
                         .window = random_window(&random, 40)};
        check_sizes(&random, KIND_PLAIN, &sizes);
    }
}

// Texts that end at and beside the borders of parts, so that trees lie across them, and more positions than softmax takes
// at a time. Few rows are summed by parts; many, of which there are blocks enough, are not. Windows begin in the last part,
// at the borders of parts and beside them, and some have parts before them that nobody attends to.
static void long_contexts_attend_as_ref(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    static const uint32_t lengths[] = {240, 255, 256, 257, 490, 511, 512, 513, 1024, 1025};
    static const uint32_t windows[] = {0, 1, 40, 255, 256, 257, 300, 600};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        sizes_t sizes = {kv_test_mixes[i % KV_TEST_MIXES], 1, i % 2 + 1, 20, lengths[i], 4, 0};
        check_sizes(&random, KIND_PLAIN, &sizes);
        sizes.window = windows[i % COUNT(windows)];
        check_sizes(&random, KIND_PLAIN, &sizes);
    }
    sizes_t longest = {{OR_KV_F16, OR_KV_Q8_0}, 1, 1, 32, 4500, 3, 0};
    check_sizes(&random, KIND_PLAIN, &longest);
    longest.window = 700;
    check_sizes(&random, KIND_PLAIN, &longest);
    sizes_t many = {{OR_KV_F16, OR_KV_F16}, 16, 3, 256, 300, 33, 0};
    check_sizes(&random, KIND_PLAIN, &many);
    many.kv_heads = 8;
    many.window = 33;
    check_sizes(&random, KIND_PLAIN, &many);
}

static void no_rows_are_nothing(void **state)
{
    (void)state;
    or_cuda_kv_t kv = kv_test_describe(kv_test_mixes[0], 1, 1, 32);
    or_cuda_heads_t heads = {1, 1, 0};
    or_cuda_rows_t to = {0};
    const or_cuda_attention_t how = {.scale = 1.0f};
    cuda_test_ok(
        or_cuda_attention(test_device, &kv, 0, NULL, 0, NULL, 0, &heads, &how, NULL, 0, &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_attend_as_ref),
        cmocka_unit_test(many_rows_attend_as_ref),
        cmocka_unit_test(long_contexts_attend_as_ref),
        cmocka_unit_test(no_rows_are_nothing),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
