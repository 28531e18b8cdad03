// Goal: a model whose full context has no room beside its weights loads all the same, with a context that has; its cache's
// type follows from its shape alone.
// Method: a file made by hand whose keys and values take 64 KiB a token in F16, for a context of a million tokens: no
// machine that runs this test has room for it.
#include <stdio.h>

#include <string.h>

#include "common/base/version.h"
#include "common/gguf/gguf_test_file.h"
#include "common/model/model.h"
#include "tests/support/test_support.h"

#define WIDTH 32u
#define HEADS 32u
#define HEAD_DIM 512u
#define ALL_HEADS (HEADS * HEAD_DIM)
#define CONTEXT (1u << 20)
#define TENSOR_BYTES (WIDTH * ALL_HEADS * 2u) // the largest

static const struct {
    const char *name;
    uint64_t columns, rows;
} tensors[] = {
    {"token_embd.weight", WIDTH, 10},
    {"output_norm.weight", WIDTH, 1},
    {"blk.0.attn_norm.weight", WIDTH, 1},
    {"blk.0.attn_q.weight", WIDTH, ALL_HEADS},
    {"blk.0.attn_k.weight", WIDTH, ALL_HEADS},
    {"blk.0.attn_v.weight", WIDTH, ALL_HEADS},
    {"blk.0.attn_output.weight", ALL_HEADS, WIDTH},
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
    {"llama.context_length", CONTEXT},          {"llama.block_count", 1},
    {"llama.embedding_length", WIDTH},          {"llama.feed_forward_length", 32},
    {"llama.attention.head_count", HEADS},      {"llama.attention.key_length", HEAD_DIM},
    {"llama.attention.value_length", HEAD_DIM}, {"llama.rope.dimension_count", 2},
};

#define NUMBERS (sizeof numbers / sizeof numbers[0])

// All tensors are zeros, in the same bytes.
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
                             OR_TENSOR_F16, offset);
        offset += (tensors[i].columns * tensors[i].rows * 2 + 31) / 32 * 32;
    }
    test_gguf_pad(file, 32);
    while (offset > 0) {
        uint64_t some = offset < sizeof zeros ? offset : sizeof zeros;
        test_gguf_put(file, zeros, some);
        offset -= some;
    }
}

static void a_context_that_has_no_room_is_cut(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    const or_model_options_t options = {.threads = 1,
                                        .rows_max = 1,
                                        .cache_type_k = OR_KV_BY_MODEL,
                                        .cache_type_v = OR_KV_BY_MODEL};
    make(&file);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    assert_true(or_model_context(model) < CONTEXT && or_model_context(model) >= OR_KV_PAGE);
    assert_string_equal(or_model_arith_id(model), OR_ARITH_ID "/k-f16/v-f16");
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    const or_model_row_t row = {sequence, 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void large_caches_are_halves(void **state)
{
    (void)state;
    or_model_shape_t shape = {.context = 131072, .layers = 32, .kv_heads = 8, .head_dim = 128};
    assert_int_equal(or_model_cache_type(&shape), OR_KV_F16);
    shape.context = 4096; // exactly a GiB
    assert_int_equal(or_model_cache_type(&shape), OR_KV_F32);
    shape.context = 4097;
    assert_int_equal(or_model_cache_type(&shape), OR_KV_F16);
}

static void types_have_names(void **state)
{
    (void)state;
    or_model_options_t options = {0};
    assert_int_equal(or_model_cache_types_parse("auto", "q8_0", &options), OR_OK);
    assert_true(options.cache_type_k == OR_KV_BY_MODEL);
    assert_int_equal(options.cache_type_v, OR_KV_Q8_0);
    assert_int_equal(or_model_cache_types_parse("f16", NULL, &options), OR_OK);
    assert_int_equal(options.cache_type_k, OR_KV_F16);
    assert_true(options.cache_type_v == OR_KV_BY_MODEL);
    assert_int_equal(or_model_cache_types_parse("q4_0", "f32", &options), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "-ctk/--cache-type-k"));
    assert_int_equal(or_model_cache_types_parse("f32", "q4_0", &options), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "-ctv/--cache-type-v"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_that_has_no_room_is_cut),
        cmocka_unit_test(large_caches_are_halves),
        cmocka_unit_test(types_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
