#include "tests/exactness/tiny_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_support.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3 }; // GGUF's token types

static const struct {
    const char *piece;
    int32_t type;
} tokens[TINY_VOCAB_SIZE] = {
    {"<unk>", UNKNOWN}, {"<s>", CONTROL}, {"</s>", CONTROL}, {"\xe2\x96\x81of", NORMAL},
    {" of", NORMAL},    {"a", NORMAL},    {"b", NORMAL},     {"\xe2\x96\x81", NORMAL},
    {" ", NORMAL},      {"ab", NORMAL},
};

static void put(FILE *file, const void *data, size_t bytes)
{
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
}

static void put_u32(FILE *file, uint32_t value)
{
    put(file, &value, sizeof value);
}

static void put_u64(FILE *file, uint64_t value)
{
    put(file, &value, sizeof value);
}

static void put_string(FILE *file, const char *text)
{
    put_u64(file, strlen(text));
    put(file, text, strlen(text));
}

static void put_array(FILE *file, const char *key, or_gguf_type_t type)
{
    put_string(file, key);
    put_u32(file, OR_GGUF_ARRAY);
    put_u32(file, type);
    put_u64(file, TINY_VOCAB_SIZE);
}

static void write_file(FILE *file)
{
    put(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, 0); // tensors
    put_u64(file, 5); // keys
    put_string(file, "tokenizer.ggml.model");
    put_u32(file, OR_GGUF_STRING);
    put_string(file, "llama");
    put_string(file, "tokenizer.ggml.unknown_token_id");
    put_u32(file, OR_GGUF_U32);
    put_u32(file, 0);
    put_array(file, "tokenizer.ggml.tokens", OR_GGUF_STRING);
    for (uint32_t i = 0; i < TINY_VOCAB_SIZE; i++) {
        put_string(file, tokens[i].piece);
    }
    put_array(file, "tokenizer.ggml.scores", OR_GGUF_F32);
    for (uint32_t i = 0; i < TINY_VOCAB_SIZE; i++) {
        float score = -(float)i;
        put(file, &score, sizeof score);
    }
    put_array(file, "tokenizer.ggml.token_type", OR_GGUF_I32);
    for (uint32_t i = 0; i < TINY_VOCAB_SIZE; i++) {
        put(file, &tokens[i].type, sizeof tokens[i].type);
    }
}

void tiny_vocab_open(or_gguf_t **gguf_p, or_vocab_t **vocab_p)
{
    char path[] = "/tmp/outrider-tiny-vocab-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    assert_non_null(file);
    write_file(file);
    assert_int_equal(fclose(file), 0);
    or_status_t status = or_gguf_open(path, gguf_p);
    unlink(path);
    if (status != OR_OK || or_vocab_load(*gguf_p, vocab_p) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}
