#include "tests/gpu/random_model.h"

#include <stdio.h>

#include "tests/support/test_support.h"

#define ENTRIES 13u
#define LAYER_TENSORS 9u
#define CHUNK 65536u   // numbers that are made at a time
#define MAGNITUDE 120u // exponent of numbers between 2^-7 and 2^-6

typedef struct {
    const char *name;
    uint64_t columns;
    uint64_t rows;
} tensor_t;

// ---- the table ----

static void put_entries(test_gguf_t *file, const or_model_shape_t *shape)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", shape->context},
        {"llama.block_count", shape->layers},
        {"llama.embedding_length", shape->width},
        {"llama.feed_forward_length", shape->ffn},
        {"llama.attention.head_count", shape->heads},
        {"llama.attention.head_count_kv", shape->kv_heads},
        {"llama.rope.dimension_count", shape->width / shape->heads},
    };
    const float epsilon = 1e-5f;
    test_gguf_put_string_entry(file, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        test_gguf_put_u32_entry(file, numbers[i].key, numbers[i].value);
    }
    test_gguf_put_key(file, "llama.attention.layer_norm_rms_epsilon", OR_GGUF_F32);
    test_gguf_put(file, &epsilon, sizeof epsilon);
}

// "<unk>", and tokens whose text is their number.
static void put_tokens(test_gguf_t *file, uint32_t count)
{
    const float score = 0;
    test_gguf_put_string_entry(file, "tokenizer.ggml.model", "llama");
    test_gguf_put_u32_entry(file, "tokenizer.ggml.unknown_token_id", 0);
    test_gguf_put_array_key(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, count);
    for (uint32_t i = 0; i < count; i++) {
        char piece[16];
        snprintf(piece, sizeof piece, "%u,", i);
        test_gguf_put_string(file, i > 0 ? piece : "<unk>");
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.scores", OR_GGUF_F32, count);
    for (uint32_t i = 0; i < count; i++) {
        test_gguf_put(file, &score, sizeof score);
    }
}

static void put_tensors(test_gguf_t *file, or_tensor_type_t type, const tensor_t *tensors,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        test_gguf_put_tensor(file, tensors[i].name, tensors[i].columns, tensors[i].rows,
                             tensors[i].rows > 1 ? type : OR_TENSOR_BF16, 0);
    }
}

static void put_layer(test_gguf_t *file, const or_model_shape_t *shape, or_tensor_type_t type,
                      uint32_t layer)
{
    const uint64_t width = shape->width;
    const uint64_t kv_width = width / shape->heads * shape->kv_heads;
    const tensor_t tensors[LAYER_TENSORS] = {
        {"attn_norm", width, 1},         {"attn_q", width, width},
        {"attn_k", width, kv_width},     {"attn_v", width, kv_width},
        {"attn_output", width, width},   {"ffn_norm", width, 1},
        {"ffn_gate", width, shape->ffn}, {"ffn_up", width, shape->ffn},
        {"ffn_down", shape->ffn, width},
    };
    for (size_t i = 0; i < LAYER_TENSORS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        put_tensors(file, type, &(tensor_t){name, tensors[i].columns, tensors[i].rows}, 1);
    }
}

// ---- the numbers ----

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Numbers of either sign and one magnitude: what is computed with them stays finite.
static void put_numbers(test_gguf_t *file, uint64_t count)
{
    uint16_t numbers[CHUNK];
    uint64_t random = 1;
    for (uint64_t done = 0; done < count; done += CHUNK) {
        for (size_t i = 0; i < CHUNK; i += 4) {
            uint64_t bits = test_random(&random);
            for (size_t j = 0; j < 4; j++, bits >>= 16) {
                numbers[i + j] = (uint16_t)((bits & 0x807F) | MAGNITUDE << 7);
            }
        }
        test_gguf_put(file, numbers, sizeof numbers);
    }
}

void random_model_open(const or_model_shape_t *shape, or_tensor_type_t type, bool tied,
                       test_gguf_t *file, or_gguf_t **gguf_p)
{
    const uint64_t width = shape->width;
    const tensor_t tensors[] = {{"token_embd.weight", width, shape->vocab_size},
                                {"output_norm.weight", width, 1},
                                {"output.weight", width, shape->vocab_size}};
    const size_t others = tied ? 2 : 3;
    test_gguf_init(file, 3, others + (uint64_t)shape->layers * LAYER_TENSORS, ENTRIES);
    put_entries(file, shape);
    put_tokens(file, shape->vocab_size);
    put_tensors(file, type, tensors, others);
    for (uint32_t i = 0; i < shape->layers; i++) {
        put_layer(file, shape, type, i);
    }
    test_gguf_pad(file, 32);
    put_numbers(file, width * greater(greater(shape->vocab_size, shape->ffn), width));
    assert_int_equal(test_gguf_open(file, gguf_p), OR_OK);
}
