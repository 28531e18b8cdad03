// Goal: logits and KV are the same bits however a text got into the cache: chunks, steps, trees
// with compaction, truncation and replay, batches, threads, instruction sets.
// Method: one prefill of random tokens in one thread is the truth; everything else is compared with
// it by memcmp, for every type of weights, and of K and V.
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/model/model_fixture.h"
#include "tests/model/model_types.h"
#include "tests/support/requantize.h"

#define SHARE 2u // the gate takes one in so many of the types
#define TOKENS 150u
#define ROUNDS 10u
#define NODES 60u
#define SLOTS 100u

// The cache types of the models that are opened next.
static or_kv_type_t key_type, value_type;

static or_model_options_t options_of(uint32_t threads)
{
    return (or_model_options_t){.threads = threads,
                                .rows_max = TOKENS,
                                .cache_type_k = key_type,
                                .cache_type_v = value_type};
}

// The model, its random text, and the logits after each token.
typedef struct {
    model_fixture_t fixture;
    int32_t tokens[TOKENS];
    float *logits; // [TOKENS][vocab_size]
} truth_t;

static void open_truth(truth_t *truth, const char *path, const char *kernels, uint32_t threads)
{
    uint64_t rng = test_seed();
    model_fixture_open(&truth->fixture, path, kernels, options_of(threads));
    random_tokens(&rng, truth->fixture.vocab_size, truth->tokens, TOKENS);
    truth->logits = test_alloc((size_t)TOKENS * truth->fixture.vocab_size, sizeof *truth->logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(&truth->fixture, 0);
    model_fixture_prefill(&truth->fixture, sequence, truth->tokens, TOKENS, TOKENS, truth->logits);
    or_kv_sequence_close(&sequence);
}

static void close_truth(truth_t *truth)
{
    free(truth->logits);
    model_fixture_close(&truth->fixture);
}

static void check_chunks(const char *path)
{
    truth_t truth;
    open_truth(&truth, path, NULL, 1);
    size_t floats = (size_t)TOKENS * truth.fixture.vocab_size;
    float *logits = test_alloc(floats, sizeof *logits);
    or_kv_sequence_t *whole = model_fixture_sequence(&truth.fixture, 0);
    model_fixture_prefill(&truth.fixture, whole, truth.tokens, TOKENS, TOKENS, NULL);
    const uint32_t chunks[] = {1, 7, 32, 33};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        or_kv_sequence_t *sequence = model_fixture_sequence(&truth.fixture, 0);
        model_fixture_prefill(&truth.fixture, sequence, truth.tokens, TOKENS, chunks[i], logits);
        assert_same_bits(logits, truth.logits, floats);
        assert_same_kv(&truth.fixture, sequence, whole);
        or_kv_sequence_close(&sequence);
    }
    or_kv_sequence_close(&whole);
    free(logits);
    close_truth(&truth);
}

static void chunks_do_not_matter(void **state)
{
    (void)state;
    check_chunks(test_model("tales-1m-f16.gguf"));
}

static void chunks_do_not_matter_to_the_target(void **state)
{
    (void)state;
    check_chunks(test_model("tales-6m-f16.gguf"));
}

static void chunks_do_not_matter_to_other_weights(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_types_count; i += test_share(SHARE)) {
        char *path = model_of_type(model_types[i]);
        check_chunks(path);
        free(path);
    }
    check_chunks("tests/model/data/llama3-mixed.gguf");
    check_chunks("tests/model/data/qwen2-14-heads-q8_0.gguf");
}

static void check_kernels_and_threads(const char *path)
{
    truth_t ref;
    open_truth(&ref, path, "ref", 1);
    const struct {
        const char *kernels;
        uint32_t threads;
    } others[] = {{"avx2", 1},   {"avx2", 3},       {"neon", 1},       {"neon", 2},
                  {"avx512", 2}, {"avx512vnni", 1}, {"avx512vnni", 3}, {"neon_dot", 3}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (or_kernels_find(others[i].kernels) == NULL) {
            continue;
        }
        truth_t other;
        open_truth(&other, path, others[i].kernels, others[i].threads);
        assert_same_bits(other.logits, ref.logits, (size_t)TOKENS * ref.fixture.vocab_size);
        close_truth(&other);
    }
    close_truth(&ref);
}

static void kernels_and_threads_do_not_matter_to_a_quantised_target(void **state)
{
    (void)state;
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_Q8_0);
    check_kernels_and_threads(path);
    free(path);
}

static void kernels_and_threads_do_not_matter(void **state)
{
    (void)state;
    check_kernels_and_threads(test_model("tales-1m-f16.gguf"));
    check_kernels_and_threads(test_model("tales-6m-f16.gguf"));
    for (uint32_t i = test_share(SHARE) - 1; i < model_types_count; i += test_share(SHARE)) {
        char *path = model_of_type(model_types[i]);
        check_kernels_and_threads(path);
        free(path);
    }
    check_kernels_and_threads("tests/model/data/llama3-mixed.gguf");
    check_kernels_and_threads("tests/model/data/qwen2-14-heads-q8_0.gguf");
}

static void truncation_and_replay_do_not_matter(void **state)
{
    (void)state;
    truth_t truth;
    open_truth(&truth, test_model("tales-1m-f16.gguf"), NULL, 1);
    size_t vocab_size = truth.fixture.vocab_size;
    float *logits = test_alloc(TOKENS * vocab_size, sizeof *logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(&truth.fixture, 0);
    int32_t other[TOKENS];
    uint64_t rng = 7;
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t kept = or_kv_sequence_length(sequence);
        random_tokens(&rng, (uint32_t)vocab_size, other, TOKENS);
        model_fixture_prefill(&truth.fixture, sequence, other, TOKENS - kept, 16, NULL);
        or_kv_sequence_truncate(sequence, kept);
        uint32_t more = (uint32_t)test_below(&rng, TOKENS - kept + 1);
        model_fixture_prefill(&truth.fixture, sequence, truth.tokens + kept, more, 5, logits);
        assert_same_bits(logits, truth.logits + kept * vocab_size, more * vocab_size);
        or_kv_sequence_truncate(sequence, (uint32_t)test_below(&rng, kept + more + 1));
    }
    or_kv_sequence_close(&sequence);
    free(logits);
    close_truth(&truth);
}

static void a_batch_does_not_matter(void **state)
{
    (void)state;
    truth_t truth;
    open_truth(&truth, test_model("tales-1m-f16.gguf"), NULL, 2);
    size_t vocab_size = truth.fixture.vocab_size;
    float *logits = test_alloc(TOKENS * vocab_size, sizeof *logits);
    // Two sequences run through the same text interleaved, the second one 40 tokens behind.
    or_kv_sequence_t *ahead = model_fixture_sequence(&truth.fixture, 0);
    or_kv_sequence_t *behind = model_fixture_sequence(&truth.fixture, 0);
    model_fixture_prefill(&truth.fixture, ahead, truth.tokens, 40, 40, NULL);
    or_model_row_t rows[TOKENS];
    for (uint32_t i = 0; i < 50; i++) {
        rows[2 * i] = prefix_row(ahead, truth.tokens[40 + i]);
        rows[2 * i + 1] = prefix_row(behind, truth.tokens[i]);
    }
    model_fixture_pass(&truth.fixture, rows, 100, logits);
    for (uint32_t i = 0; i < 50; i++) {
        assert_same_bits(logits + 2 * i * vocab_size, truth.logits + (40 + i) * vocab_size,
                         vocab_size);
        assert_same_bits(logits + (2 * i + 1) * vocab_size, truth.logits + i * vocab_size,
                         vocab_size);
    }
    or_kv_sequence_close(&ahead);
    or_kv_sequence_close(&behind);
    free(logits);
    close_truth(&truth);
}

// A random tree of `count` nodes in random slots. parents[i] < i, or count for a child of the
// committed text.
typedef struct {
    uint32_t count;
    uint32_t parents[NODES];
    uint32_t slots[NODES];
    int32_t tokens[NODES];
} random_tree_t;

static void grow(uint64_t *rng, uint32_t vocab_size, random_tree_t *tree)
{
    uint32_t free_slots[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        free_slots[i] = i;
    }
    tree->count = 1 + (uint32_t)test_below(rng, NODES);
    uint64_t straight = test_below(rng, 10); // how often a node continues the one before it
    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t parent = (uint32_t)test_below(rng, i + 1);
        parent = parent == i ? tree->count : parent;
        tree->parents[i] = i > 0 && test_below(rng, 10) < straight ? i - 1 : parent;
        uint32_t pick = i + (uint32_t)test_below(rng, SLOTS - i);
        tree->slots[i] = free_slots[pick];
        free_slots[pick] = free_slots[i];
    }
    random_tokens(rng, vocab_size, tree->tokens, tree->count);
}

static or_model_row_t row_of(const random_tree_t *tree, or_kv_sequence_t *sequence, uint32_t i)
{
    uint32_t parent = tree->parents[i];
    return tree_row(sequence, tree->tokens[i], tree->slots[i],
                    parent == tree->count ? OR_KV_NO_SLOT : tree->slots[parent]);
}

static uint32_t path_to(const random_tree_t *tree, uint32_t node, uint32_t *path)
{
    uint32_t depth = 0;
    for (uint32_t i = node; i != tree->count; i = tree->parents[i]) {
        depth++;
    }
    uint32_t at = depth;
    for (uint32_t i = node; i != tree->count; i = tree->parents[i]) {
        path[--at] = i;
    }
    return depth;
}

// One round: a committed token and a tree, perhaps in two passes; a random path compared with plain
// steps in `plain`; a random part of the path accepted.
static void play_round(model_fixture_t *fixture, uint64_t *rng, or_kv_sequence_t *sequence,
                       or_kv_sequence_t *plain, float *logits, float *expected)
{
    size_t vocab_size = fixture->vocab_size;
    random_tree_t tree;
    grow(rng, fixture->vocab_size, &tree);
    int32_t root;
    random_tokens(rng, fixture->vocab_size, &root, 1);
    or_model_row_t rows[1 + NODES];
    rows[0] = prefix_row(sequence, root);
    for (uint32_t i = 0; i < tree.count; i++) {
        rows[1 + i] = row_of(&tree, sequence, i);
    }
    uint32_t first = 1 + (uint32_t)test_below(rng, tree.count + 1);
    model_fixture_pass(fixture, rows, first, logits);
    if (first < 1 + tree.count) {
        model_fixture_pass(fixture, rows + first, 1 + tree.count - first,
                           logits + first * vocab_size);
    }

    uint32_t path[NODES];
    uint32_t slots[NODES];
    uint32_t depth = path_to(&tree, (uint32_t)test_below(rng, tree.count), path);
    model_fixture_prefill(fixture, plain, &root, 1, 1, expected);
    assert_same_bits(logits, expected, vocab_size);
    for (uint32_t i = 0; i < depth; i++) {
        slots[i] = tree.slots[path[i]];
        model_fixture_prefill(fixture, plain, &tree.tokens[path[i]], 1, 1, expected);
        assert_same_bits(logits + (1 + path[i]) * vocab_size, expected, vocab_size);
    }
    uint32_t accepted = (uint32_t)test_below(rng, depth + 1);
    assert_int_equal(or_kv_sequence_accept(sequence, slots, accepted), OR_OK);
    or_kv_sequence_truncate(plain, or_kv_sequence_length(sequence));
    assert_same_kv(fixture, sequence, plain);
}

static void check_trees(const char *path, uint32_t threads, uint64_t seed)
{
    uint64_t rng = seed;
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, options_of(threads));
    uint32_t most = or_model_context(fixture.model) - 1 - NODES;
    float *logits = test_alloc((size_t)(2 + NODES) * fixture.vocab_size, sizeof *logits);
    float *expected = logits + (size_t)(1 + NODES) * fixture.vocab_size;
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, SLOTS);
    or_kv_sequence_t *plain = model_fixture_sequence(&fixture, 0);
    for (uint32_t round = 0; round < ROUNDS && or_kv_sequence_length(plain) < most; round++) {
        play_round(&fixture, &rng, sequence, plain, logits, expected);
    }
    or_kv_sequence_close(&plain);
    or_kv_sequence_close(&sequence);
    free(logits);
    model_fixture_close(&fixture);
}

static void trees_do_not_matter(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    check_trees(test_model("tales-1m-f16.gguf"), 1, seed);
    check_trees(test_model("tales-1m-f16.gguf"), 3, seed + 1);
    check_trees(test_model("tales-6m-f16.gguf"), 2, seed + 2);
    for (uint32_t i = 0; i < model_types_count; i += test_share(SHARE)) {
        char *path = model_of_type(model_types[i]);
        check_trees(path, 2, seed + 3 + i);
        free(path);
    }
    check_trees("tests/model/data/llama3-mixed.gguf", 1, seed);
    check_trees("tests/model/data/qwen2-14-heads-q8_0.gguf", 2, seed);
}

// A text goes on from pages of another one, or of a copy, as from its own; and each in its own way.
static void sharing_does_not_matter(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    truth_t truth;
    open_truth(&truth, test_model("tales-1m-f16.gguf"), NULL, 2);
    size_t vocab_size = truth.fixture.vocab_size;
    float *logits = test_alloc(TOKENS * vocab_size, sizeof *logits);
    or_kv_sequence_t *whole = model_fixture_sequence(&truth.fixture, 0);
    or_kv_sequence_t *sharer = model_fixture_sequence(&truth.fixture, 0);
    model_fixture_prefill(&truth.fixture, whole, truth.tokens, TOKENS, TOKENS, NULL);
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t shared = (uint32_t)test_below(&rng, TOKENS);
        or_kv_sequence_share(sharer, whole, shared);
        assert_int_equal(or_kv_sequence_length(sharer), shared);
        uint32_t cut = round % 2 == 0 ? shared : (uint32_t)test_below(&rng, shared + 1);
        or_kv_sequence_truncate(sharer, cut);
        int32_t other[TOKENS];
        random_tokens(&rng, (uint32_t)vocab_size, other, TOKENS);
        model_fixture_prefill(&truth.fixture, sharer, other, (TOKENS - cut) / 2, 50, NULL);
        or_kv_sequence_truncate(sharer, cut);
        model_fixture_prefill(&truth.fixture, sharer, truth.tokens + cut, TOKENS - cut, 50, logits);
        assert_same_bits(logits, truth.logits + cut * vocab_size, (TOKENS - cut) * vocab_size);
        assert_same_kv(&truth.fixture, sharer, whole);
    }
    or_kv_sequence_close(&whole);
    or_kv_sequence_close(&sharer);
    free(logits);
    close_truth(&truth);
}

// All of the above in each type, which has its own truth.
static void types_of_k_and_v_do_not_matter(void **state)
{
    static const or_kv_type_t pairs[][2] = {
        {OR_KV_F16, OR_KV_F16}, {OR_KV_Q8_0, OR_KV_Q8_0}, {OR_KV_F32, OR_KV_Q8_0}};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        key_type = pairs[i][0];
        value_type = pairs[i][1];
        check_chunks(test_model("tales-1m-f16.gguf"));
        check_chunks("tests/model/data/qwen2-14-heads-q8_0.gguf");
        check_kernels_and_threads(test_model("tales-1m-f16.gguf"));
        check_trees(test_model("tales-1m-f16.gguf"), 2, seed + i);
        check_trees("tests/model/data/llama3-mixed.gguf", 1, seed + i);
        sharing_does_not_matter(state);
    }
    key_type = OR_KV_F32;
    value_type = OR_KV_F32;
}

// Two sequences grow trees like play_round's in the same passes.
static void trees_of_two_sequences_do_not_mix(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    model_fixture_t fixture;
    model_fixture_open(&fixture, test_model("tales-1m-f16.gguf"), NULL, (or_model_options_t){0});
    size_t vocab_size = fixture.vocab_size;
    float *logits = test_alloc((size_t)4 * NODES * vocab_size, sizeof *logits);
    float *alone = logits + (size_t)2 * NODES * vocab_size;
    or_kv_sequence_t *sequences[2];
    random_tree_t trees[2];
    or_model_row_t rows[2 * NODES];
    uint32_t count = 0;
    for (uint32_t s = 0; s < 2; s++) {
        int32_t prefix[50];
        random_tokens(&rng, fixture.vocab_size, prefix, 50);
        sequences[s] = model_fixture_sequence(&fixture, SLOTS);
        model_fixture_prefill(&fixture, sequences[s], prefix, 30 + 20 * s, 50, NULL);
        grow(&rng, fixture.vocab_size, &trees[s]);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t s = 0; s < 2; s++) {
            if (i < trees[s].count) {
                rows[count++] = row_of(&trees[s], sequences[s], i);
            }
        }
    }
    model_fixture_pass(&fixture, rows, count, logits);
    for (uint32_t s = 0; s < 2; s++) {
        or_kv_sequence_drop_slots(sequences[s]);
        or_model_row_t own[NODES];
        uint32_t own_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i].sequence == sequences[s]) {
                own[own_count++] = rows[i];
            }
        }
        model_fixture_pass(&fixture, own, own_count, alone);
        own_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i].sequence == sequences[s]) {
                assert_same_bits(logits + i * vocab_size, alone + own_count++ * vocab_size,
                                 vocab_size);
            }
        }
        or_kv_sequence_close(&sequences[s]);
    }
    free(logits);
    model_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_do_not_matter),
        cmocka_unit_test(chunks_do_not_matter_to_the_target),
        cmocka_unit_test(chunks_do_not_matter_to_other_weights),
        cmocka_unit_test(kernels_and_threads_do_not_matter),
        cmocka_unit_test(kernels_and_threads_do_not_matter_to_a_quantised_target),
        cmocka_unit_test(truncation_and_replay_do_not_matter),
        cmocka_unit_test(a_batch_does_not_matter),
        cmocka_unit_test(trees_do_not_matter),
        cmocka_unit_test(trees_of_two_sequences_do_not_mix),
        cmocka_unit_test(sharing_does_not_matter),
        cmocka_unit_test(types_of_k_and_v_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
