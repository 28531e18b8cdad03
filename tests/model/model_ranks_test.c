// Goal: 1, 2, 4 and 8 ranks give the same bits, prefix and tree.
// Method: ranks are threads of this process, each with a model of its own, exchanging through one
// shared buffer and a barrier.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/model_fixture.h"
#include "tests/support/requantize.h"

#define RANKS_MAX 8
#define PREFIX 45u
#define NODES 6u
#define ROWS (PREFIX + NODES + 1)
#define ROW_FLOATS_MAX 4096u // of logits or activations

// What the ranks of one world share.
typedef struct {
    pthread_barrier_t barrier;
    unsigned char *bytes;
    size_t capacity;
} world_t;

typedef struct {
    or_ranks_t ranks; // first: the interface
    world_t *world;
} thread_rank_t;

static or_status_t gather(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    world_t *world = ((const thread_rank_t *)ranks)->world;
    if ((size_t)ranks->size * bytes > world->capacity) {
        return or_fail(OR_ERR_FULL, "the test's world is too small");
    }
    memcpy(world->bytes + (size_t)ranks->rank * bytes, send, bytes);
    pthread_barrier_wait(&world->barrier);
    memcpy(recv, world->bytes, (size_t)ranks->size * bytes);
    pthread_barrier_wait(&world->barrier);
    return OR_OK;
}

// One rank's life: load, prefill with a tree in the same pass, accept a path, one plain step. All
// logits into `out`.
typedef struct {
    const char *path;
    const or_ranks_t *ranks;
    float *out; // [ROWS][vocab_size]; NULL: learn the vocabulary's size only
    uint32_t vocab_size;
    or_status_t status;
} life_t;

static or_status_t run_passes(or_model_t *model, or_kv_sequence_t *sequence, float *out)
{
    static const uint32_t parents[NODES] = {OR_KV_NO_SLOT, 0, 0, 2, 3, OR_KV_NO_SLOT};
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    or_model_row_t rows[PREFIX + NODES];
    for (uint32_t i = 0; i < PREFIX; i++) {
        rows[i] = prefix_row(sequence, (int32_t)(i * 37 % vocab_size));
    }
    for (uint32_t i = 0; i < NODES; i++) {
        rows[PREFIX + i] = tree_row(sequence, (int32_t)((100 + i) % vocab_size), i, parents[i]);
    }
    or_status_t status = or_model_forward(model, rows, PREFIX + NODES);
    status = status != OR_OK ? status : or_model_logits(model, 0, PREFIX + NODES, out);
    status =
        status != OR_OK ? status : or_kv_sequence_accept(sequence, (const uint32_t[]){0, 2, 3}, 3);
    or_model_row_t step = prefix_row(sequence, (int32_t)(400 % vocab_size));
    status = status != OR_OK ? status : or_model_forward(model, &step, 1);
    size_t done = (size_t)(PREFIX + NODES) * vocab_size;
    return status != OR_OK ? status : or_model_logits(model, 0, 1, out + done);
}

static void *live(void *argument)
{
    life_t *life = argument;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    or_model_options_t options = {.threads = 1, .ranks = life->ranks};
    life->status = or_gguf_open(life->path, &gguf);
    if (life->status == OR_OK) {
        life->status = or_model_load(gguf, &options, &model);
    }
    if (life->status == OR_OK) {
        life->vocab_size = or_model_shape(model)->vocab_size;
        life->status = or_model_open_sequence(model, NODES, &sequence);
    }
    if (life->status == OR_OK && life->out != NULL) {
        life->status = run_passes(model, sequence, life->out);
    }
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return NULL;
}

static void check_world(const char *path, int size, const float *expected, uint32_t vocab_size)
{
    world_t world = {.capacity = (size_t)RANKS_MAX * ROWS * ROW_FLOATS_MAX * sizeof(float)};
    world.bytes = test_alloc(world.capacity, 1);
    pthread_barrier_init(&world.barrier, NULL, (unsigned)size);
    thread_rank_t ranks[RANKS_MAX];
    life_t lives[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    size_t floats = (size_t)ROWS * vocab_size;
    for (int r = 0; r < size; r++) {
        ranks[r] = (thread_rank_t){.ranks = {.rank = r, .size = size, .all_gather = gather},
                                   .world = &world};
        lives[r] = (life_t){
            .path = path, .ranks = &ranks[r].ranks, .out = test_alloc(floats, sizeof(float))};
        assert_int_equal(pthread_create(&threads[r], NULL, live, &lives[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
    }
    for (int r = 0; r < size; r++) {
        assert_int_equal(lives[r].status, OR_OK);
        assert_same_bits(lives[r].out, expected, floats);
        free(lives[r].out);
    }
    pthread_barrier_destroy(&world.barrier);
    free(world.bytes);
}

static void check_model(const char *path)
{
    life_t alone = {.path = path};
    live(&alone);
    assert_int_equal(alone.status, OR_OK);
    alone.out = test_alloc((size_t)ROWS * alone.vocab_size, sizeof(float));
    live(&alone);
    assert_int_equal(alone.status, OR_OK);
    for (int size = 2; size <= RANKS_MAX; size *= 2) {
        check_world(path, size, alone.out, alone.vocab_size);
    }
    free(alone.out);
}

// 4 heads over 2 KV heads: with 8 ranks some own no head, with 4 two share a KV head.
static void ranks_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_model("tales-1m-f16.gguf"));
}

// Heads of 8 dimensions (two a panel), and an FFN of 172: the last unit is short.
static void ranks_of_an_odd_shape_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_data("models/stories260K-f32.gguf"));
}

static void check_types(const char *path)
{
    const or_tensor_type_t types[] = {OR_TENSOR_F32, OR_TENSOR_BF16, OR_TENSOR_Q8_0,
                                      OR_TENSOR_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char *copy = test_requantize(path, types[i]);
        check_model(copy);
        free(copy);
    }
}

static void ranks_give_the_same_bits_with_any_weights(void **state)
{
    (void)state;
    check_types(test_model("tales-1m-f16.gguf"));
}

// 14 heads of 16 dimensions over 2 KV heads, with biases. Quantised, two heads stay together: 7
// units for 8 shards.
static void ranks_of_qwen2_give_the_same_bits(void **state)
{
    (void)state;
    check_types("tests/model/data/qwen2-14-heads-q8_0.gguf");
}

// Four heads of 8 dimensions stay together where the output matrix is quantised: 2 units, for 8
// heads in all. Its FFN of 172 is no whole number of blocks and stays F32: types are mixed.
static void ranks_of_an_odd_shape_give_the_same_bits_quantised(void **state)
{
    (void)state;
    check_types(test_data("models/stories260K-f32.gguf"));
    check_model("tests/model/data/llama3-mixed.gguf");
}

static or_status_t gather_fails(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    (void)ranks, (void)send, (void)bytes, (void)recv;
    return or_fail(OR_ERR_UNREACHABLE, "a rank is gone");
}

static void a_lost_rank_commits_nothing(void **state)
{
    (void)state;
    or_ranks_t ranks = {.rank = 1, .size = 2, .all_gather = gather_fails};
    model_fixture_t fixture;
    model_fixture_open(&fixture, test_model("tales-1m-f16.gguf"), NULL,
                       (or_model_options_t){.ranks = &ranks, .threads = 1});
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 2);
    const or_model_row_t rows[] = {prefix_row(sequence, 1),
                                   tree_row(sequence, 2, 0, OR_KV_NO_SLOT)};
    float logits[1];
    assert_int_equal(or_model_forward(fixture.model, rows, 2), OR_ERR_UNREACHABLE);
    assert_int_equal(or_kv_sequence_length(sequence), 0);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0}, 1), OR_ERR_INVALID);
    assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_INVALID);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
}

static void three_ranks_are_refused(void **state)
{
    (void)state;
    or_ranks_t ranks = {.rank = 0, .size = 3, .all_gather = gather_fails};
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    or_model_options_t options = {.ranks = &ranks};
    assert_int_equal(or_model_load(gguf, &options, &model), OR_ERR_UNSUPPORTED);
    assert_null(model);
    or_gguf_close(&gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits),
        cmocka_unit_test(ranks_give_the_same_bits_with_any_weights),
        cmocka_unit_test(ranks_of_qwen2_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits_quantised),
        cmocka_unit_test(a_lost_rank_commits_nothing),
        cmocka_unit_test(three_ranks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
