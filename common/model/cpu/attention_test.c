// Goal: attention sums what a row sees by parts that begin at absolute positions, whoever sums them: at and beside the
// borders of parts, with windows that begin inside one, with sinks, a softcap, with ancestors on both sides of a border,
// from a cache of each type, and over a context that is long for the scores of a tile.
// Method: a small model made by hand, whose K, V and queries are random numbers. Each row is computed again position by
// position, as kernels.h defines it. Tiles of many rows and of one, by few threads and by more than there are KV heads,
// with each table that runs here.
#include <math.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/cpu/elementwise.h"
#include "common/model/kv/kv_store.h"
#include "common/model/model_internal.h"
#include "tests/support/test_support.h"

#define WIDTH 32u
#define HEADS 6u
#define KV_HEADS 2u
#define GROUP (HEADS / KV_HEADS)
#define HEAD_DIM 36u  // more than one scale of Q8_0, and some dimensions fewer than a vector
#define CONTEXT 9200u // the scores of a tile's queries are then more than OR_TILE_SCORES
#define NODES 40u
#define ROWS (64u + NODES)
#define TENSOR_BYTES (WIDTH * HEADS * HEAD_DIM * 4u) // the largest

static const struct {
    const char *name;
    uint64_t columns, rows;
} tensors[] = {
    {"token_embd.weight", WIDTH, 10},
    {"output_norm.weight", WIDTH, 1},
    {"blk.0.attn_norm.weight", WIDTH, 1},
    {"blk.0.attn_q.weight", WIDTH, HEADS *HEAD_DIM},
    {"blk.0.attn_k.weight", WIDTH, KV_HEADS *HEAD_DIM},
    {"blk.0.attn_v.weight", WIDTH, KV_HEADS *HEAD_DIM},
    {"blk.0.attn_output.weight", HEADS *HEAD_DIM, WIDTH},
    {"blk.0.ffn_norm.weight", WIDTH, 1},
    {"blk.0.ffn_gate.weight", WIDTH, 32},
    {"blk.0.ffn_up.weight", WIDTH, 32},
    {"blk.0.ffn_down.weight", 32, WIDTH},
};

#define TENSORS (sizeof tensors / sizeof tensors[0])

static const struct {
    const char *key;
    uint32_t value;
} numbers[] = {
    {"llama.context_length", CONTEXT},        {"llama.block_count", 1},
    {"llama.embedding_length", WIDTH},        {"llama.feed_forward_length", 32},
    {"llama.attention.head_count", HEADS},    {"llama.attention.head_count_kv", KV_HEADS},
    {"llama.attention.key_length", HEAD_DIM}, {"llama.attention.value_length", HEAD_DIM},
    {"llama.rope.dimension_count", 2},
};

#define NUMBERS (sizeof numbers / sizeof numbers[0])

typedef struct {
    test_gguf_t file;
    or_gguf_t *gguf;
    or_model_t *model;
    or_kv_sequence_t *sequence;
    float sinks[HEADS];
    float keys[KV_HEADS][CONTEXT + NODES][HEAD_DIM]; // of positions, then of slots
    float values[KV_HEADS][CONTEXT + NODES][HEAD_DIM];
    float queries[ROWS][HEADS][HEAD_DIM];
} fixture_t;

typedef struct {
    uint32_t committed; // before the pass
    uint32_t rows;      // prefix rows of the pass
    uint32_t nodes;     // tree rows behind them
    uint32_t window;    // 0: none
    bool sinks;
    float softcap; // 0: none
} case_t;

// All tensors are zeros: what is in K and V is put there.
static void make(test_gguf_t *file)
{
    static const unsigned char zeros[TENSOR_BYTES];
    const float epsilon = 1e-5f;
    test_gguf_init(file, 3, TENSORS, NUMBERS + 2);
    test_gguf_put_string_entry(file, "general.architecture", "llama");
    for (size_t i = 0; i < NUMBERS; i++) {
        test_gguf_put_u32_entry(file, numbers[i].key, numbers[i].value);
    }
    test_gguf_put_key(file, "llama.attention.layer_norm_rms_epsilon", OR_GGUF_F32);
    test_gguf_put(file, &epsilon, sizeof epsilon);
    uint64_t offset = 0;
    for (size_t i = 0; i < TENSORS; i++) {
        test_gguf_put_tensor(file, tensors[i].name, tensors[i].columns, tensors[i].rows,
                             OR_TENSOR_F32, offset);
        offset += tensors[i].columns * tensors[i].rows * 4;
    }
    test_gguf_pad(file, 32);
    while (offset > 0) {
        uint64_t some = offset < sizeof zeros ? offset : sizeof zeros;
        test_gguf_put(file, zeros, some);
        offset -= some;
    }
}

static void open_fixture(fixture_t *f, uint32_t threads, or_kv_type_t keys, or_kv_type_t values)
{
    const or_model_options_t options = {
        .threads = threads, .rows_max = ROWS, .cache_type_k = keys, .cache_type_v = values};
    make(&f->file);
    assert_int_equal(test_gguf_open(&f->file, &f->gguf), OR_OK);
    assert_int_equal(or_model_load(f->gguf, &options, &f->model), OR_OK);
    assert_int_equal(or_model_open_sequence(f->model, NODES, &f->sequence), OR_OK);
}

static void close_fixture(fixture_t *f)
{
    f->model->layers[0].sinks = NULL;
    or_kv_sequence_close(&f->sequence);
    or_model_destroy(&f->model);
    or_gguf_close(&f->gguf);
    test_gguf_fini(&f->file);
}

static void fill(uint64_t *random, float *numbers_p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers_p[i] = (float)(4 * test_uniform(random) - 2);
    }
}

// Tokens up to the pass, then the pass, whose rows stay planned.
static void run_passes(fixture_t *f, const case_t *c)
{
    or_model_row_t rows[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (or_model_row_t){f->sequence, 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    or_kv_sequence_truncate(f->sequence, 0);
    f->model->layers[0].window = 1; // for time: what these attend to does not matter
    for (uint32_t left = c->committed; left > 0;) {
        uint32_t some = left < ROWS ? left : ROWS;
        assert_int_equal(or_model_forward(f->model, rows, some), OR_OK);
        left -= some;
    }
    for (uint32_t i = 0; i < c->nodes; i++) { // two paths, the second short
        bool begins = i == 0 || i == c->nodes - 4;
        uint32_t parent = begins ? OR_KV_NO_SLOT : NODES - i;
        rows[c->rows + i] = (or_model_row_t){f->sequence, 1, NODES - 1 - i, parent};
    }
    assert_int_equal(or_model_forward(f->model, rows, c->rows + c->nodes), OR_OK);
}

// Return the vector as a cache of this type keeps it.
static void round_vector(or_kv_type_t type, float x[HEAD_DIM])
{
    uint32_t kept[HEAD_DIM + 1];
    const or_kv_vector_t vector = or_kv_slot_vector(type, HEAD_DIM, kept);
    or_kv_vector_write(&vector, x);
    or_kv_vector_read(&vector, x);
}

// Draw the K and V of one position or slot, which stand at `place` in the fixture's arrays.
static void draw(fixture_t *f, uint32_t head, uint32_t place, uint64_t *random)
{
    fill(random, f->keys[head][place], HEAD_DIM);
    fill(random, f->values[head][place], HEAD_DIM);
}

static void round_place(fixture_t *f, uint32_t head, uint32_t place)
{
    const or_kv_shape_t *shape = &f->sequence->cache->shape;
    round_vector(shape->key_type, f->keys[head][place]);
    round_vector(shape->value_type, f->values[head][place]);
}

static void put_numbers(fixture_t *f, const case_t *c, uint64_t *random)
{
    or_model_t *model = f->model;
    fill(random, f->queries[0][0], sizeof f->queries / sizeof(float));
    fill(random, f->sinks, HEADS);
    for (uint32_t h = 0; h < KV_HEADS; h++) {
        for (uint32_t p = 0; p < c->committed + c->rows; p++) {
            draw(f, h, p, random);
            or_kv_put_position(f->sequence, p, 0, h, f->keys[h][p], f->values[h][p]);
            round_place(f, h, p);
        }
        for (uint32_t s = 0; s < NODES; s++) {
            draw(f, h, CONTEXT + s, random);
            or_kv_put_slot(f->sequence, s, 0, h, f->keys[h][CONTEXT + s],
                           f->values[h][CONTEXT + s]);
            round_place(f, h, CONTEXT + s);
        }
    }
    for (uint32_t r = 0; r < c->rows + c->nodes; r++) {
        for (uint32_t h = 0; h < HEADS; h++) {
            memcpy(model->query + r * model->query_stride +
                       or_matrix_place(&model->layers[0].query, h * HEAD_DIM),
                   f->queries[r][h], sizeof f->queries[r][h]);
        }
    }
    model->numbers.attention_softcap = c->softcap;
    model->layers[0].window = c->window;
    model->layers[0].sinks = c->sinks ? f->sinks : NULL;
}

// Where K and V of each position that a row sees are in the fixture's arrays.
static void find_places(const or_pass_row_t *row, uint32_t places[CONTEXT])
{
    uint32_t chain[NODES];
    for (uint32_t p = 0; p <= row->position; p++) {
        places[p] = p;
    }
    if (row->slot != OR_KV_NO_SLOT) {
        uint32_t count = or_pass_chain(row, chain);
        for (uint32_t i = 0; i < count; i++) {
            places[row->committed + i] = CONTEXT + chain[i];
        }
    }
}

static void attend_by_hand(const fixture_t *f, const case_t *c, uint32_t r, uint32_t head,
                           float out[HEAD_DIM])
{
    const or_pass_row_t *row = &f->model->rows[r];
    const uint32_t kv_head = head / GROUP;
    const uint32_t seen = row->position + 1;
    const uint32_t first = c->window > 0 && seen > c->window ? seen - c->window : 0;
    uint32_t places[CONTEXT];
    float weights[CONTEXT + 1];
    find_places(row, places);
    for (uint32_t p = first; p < seen; p++) {
        float dot = 0.0f;
        for (uint32_t d = 0; d < HEAD_DIM; d++) {
            dot = fmaf(f->queries[r][head][d], f->keys[kv_head][places[p]][d], dot);
        }
        weights[p] = f->model->numbers.attention_scale * dot;
    }
    if (c->softcap > 0) {
        or_softcap(weights + first, seen - first, c->softcap);
    }
    weights[seen] = f->sinks[head];
    or_kernels_ref.softmax(weights + first, first, seen - first + (c->sinks ? 1 : 0));
    for (uint32_t d = 0; d < HEAD_DIM; d++) {
        float total = 0.0f;
        for (uint32_t begin = first; begin < seen;) {
            float part = 0.0f;
            uint32_t p = begin;
            do {
                part = fmaf(weights[p], f->values[kv_head][places[p]][d], part);
                p++;
            } while (p < seen && p % OR_ATTENTION_PART != 0);
            total = begin == first ? part : total + part;
            begin = p;
        }
        out[d] = total;
    }
}

static void attend_by(fixture_t *f, const case_t *c, const or_kernels_t *kernels)
{
    const or_activations_t *attended = &f->model->attended;
    for (uint32_t r = 0; r < c->rows + c->nodes; r++) { // poison
        memset(attended->values + r * attended->stride, 0xAA, HEADS * HEAD_DIM * sizeof(float));
    }
    f->model->kernels = kernels;
    or_attention_run(f->model, 0, c->rows + c->nodes);
}

static void check(fixture_t *f, const case_t *c)
{
    static float expected[ROWS][HEADS][HEAD_DIM];
    const or_activations_t *attended = &f->model->attended;
    or_kernels_description_t table;
    uint64_t random = 7;
    run_passes(f, c);
    put_numbers(f, c, &random);
    for (uint32_t r = 0; r < c->rows + c->nodes; r++) {
        for (uint32_t h = 0; h < HEADS; h++) {
            attend_by_hand(f, c, r, h, expected[r][h]);
        }
    }
    for (size_t t = 0; or_kernels_describe(t, &table); t++) {
        if (!table.runs_here) {
            continue;
        }
        attend_by(f, c, or_kernels_find(table.name));
        for (uint32_t r = 0; r < c->rows + c->nodes; r++) {
            assert_memory_equal(attended->values + r * attended->stride, expected[r],
                                sizeof expected[r]);
        }
    }
}

static void parts_begin_at_absolute_positions(void **state)
{
    (void)state;
    static fixture_t f;
    static const uint32_t threads[] = {1, 2, 3, 8};
    static const uint32_t lengths[] = {0, 254, 255, 256, 257, 510, 511, 512, 513, 1023, 1024};
    static const uint32_t windows[] = {0, 300, 100, 256, 0};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        open_fixture(&f, threads[t], OR_KV_F32, OR_KV_F32);
        for (uint32_t i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
            check(&f, &(case_t){lengths[i / 2], 1, 0, windows[i % 5], i % 2 == 1, 0});
        }
        close_fixture(&f);
    }
}

// Prefix rows whose windows begin in different parts, and paths that begin in one part and end in another.
static void tiles_sum_parts_of_their_rows(void **state)
{
    (void)state;
    static fixture_t f;
    static const case_t cases[] = {
        {230, 64, 0, 0, false, 0},      {500, 64, 0, 250, true, 0},
        {250, 1, NODES, 0, true, 0},    {495, 5, NODES, 240, false, 0},
        {235, 21, NODES, 30, false, 0}, {1000, 2, NODES, 0, false, 0},
    };
    static const uint32_t threads[] = {1, 3, 8};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        open_fixture(&f, threads[t], OR_KV_F32, OR_KV_F32);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            check(&f, &cases[i]);
        }
        close_fixture(&f);
    }
}

// Halves are read where they lie, alone and beside the other side's type; Q8_0 by few queries, and decoded for many.
static void every_type_of_cache_has_the_bits_of_its_numbers(void **state)
{
    (void)state;
    static fixture_t f;
    static const case_t cases[] = {
        {130, 1, 0, 0, true, 3.0f},   {255, 1, 0, 40, false, 0},    {500, 64, 0, 250, true, 0},
        {290, 5, NODES, 0, false, 0}, {257, 3, NODES, 30, true, 2},
    };
    static const or_kv_type_t types[][2] = {{OR_KV_F16, OR_KV_F16},
                                            {OR_KV_Q8_0, OR_KV_Q8_0},
                                            {OR_KV_Q8_0, OR_KV_F16},
                                            {OR_KV_F32, OR_KV_Q8_0}};
    for (size_t t = 0; t < 2 * sizeof types / sizeof types[0]; t++) {
        open_fixture(&f, t % 2 == 0 ? 1 : 3, types[t / 2][0], types[t / 2][1]);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            check(&f, &cases[i]);
        }
        close_fixture(&f);
    }
}

static void long_contexts_are_taken_by_tiles_too(void **state)
{
    (void)state;
    static fixture_t f;
    open_fixture(&f, 2, OR_KV_F16, OR_KV_F16);
    assert_true(or_attention_scores_max(f.model) > OR_TILE_SCORES);
    check(&f, &(case_t){CONTEXT - 13, 12, 0, 0, false, 0});
    check(&f, &(case_t){CONTEXT - 13, 1, 7, 0, true, 0});
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_begin_at_absolute_positions),
        cmocka_unit_test(tiles_sum_parts_of_their_rows),
        cmocka_unit_test(every_type_of_cache_has_the_bits_of_its_numbers),
        cmocka_unit_test(long_contexts_are_taken_by_tiles_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
