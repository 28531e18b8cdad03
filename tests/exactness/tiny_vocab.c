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

static void put_array(FILE *file, const char *key, or_gguf_type_t type, uint32_t count)
{
    put_string(file, key);
    put_u32(file, OR_GGUF_ARRAY);
    put_u32(file, type);
    put_u64(file, count);
}

static void put_piece(FILE *file, uint32_t id)
{
    char name[16];
    snprintf(name, sizeof name, "token%u", id);
    put_string(file, id < TINY_VOCAB_SIZE ? tokens[id].piece : name);
}

static void write_file(FILE *file, uint32_t count)
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
    put_array(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, count);
    for (uint32_t i = 0; i < count; i++) {
        put_piece(file, i);
    }
    put_array(file, "tokenizer.ggml.scores", OR_GGUF_F32, count);
    for (uint32_t i = 0; i < count; i++) {
        float score = -(float)i;
        put(file, &score, sizeof score);
    }
    put_array(file, "tokenizer.ggml.token_type", OR_GGUF_I32, count);
    for (uint32_t i = 0; i < count; i++) {
        int32_t type = i < TINY_VOCAB_SIZE ? tokens[i].type : NORMAL;
        put(file, &type, sizeof type);
    }
}

void tiny_vocab_open(or_gguf_t **gguf_p, or_vocab_t **vocab_p)
{
    tiny_vocab_open_sized(TINY_VOCAB_SIZE, gguf_p, vocab_p);
}

void tiny_vocab_open_sized(uint32_t count, or_gguf_t **gguf_p, or_vocab_t **vocab_p)
{
    char path[] = "/tmp/outrider-tiny-vocab-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    assert_non_null(file);
    write_file(file, count);
    assert_int_equal(fclose(file), 0);
    or_status_t status = or_gguf_open(path, gguf_p);
    unlink(path);
    if (status != OR_OK || or_vocab_load(*gguf_p, vocab_p) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}
