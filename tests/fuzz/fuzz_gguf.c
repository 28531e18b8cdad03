// Goal: no file, however hostile, crashes the reader or makes it read outside the file. A file
// that is accepted does not break what is built from it: a vocabulary, a model and a pass
// through it.
// Method: the input is a file, or the two parts of a split model, cut at a line "NEXT PART", and there are no others
// (given_files.h). A file that opens is read throughout.
#include "common/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "tests/fuzz/built_model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/given_files.h"

#define CUT "\nNEXT PART\n"
#define PARAMETERS_MAX 65536u

// ---- metadata and tensors ----

static void read_array(const or_gguf_t *gguf, const char *key)
{
    or_gguf_array_t array;
    if (or_gguf_get_array(gguf, key, OR_GGUF_STRING, &array) == OR_OK) {
        for (uint64_t i = 0; i < array.count; i++) {
            or_gguf_string_t string = or_gguf_array_string(&array, i);
            built_model_read(string.bytes, string.length);
        }
    }
    if (or_gguf_get_array(gguf, key, OR_GGUF_F32, &array) == OR_OK) {
        for (uint64_t i = 0; i < array.count; i++) {
            volatile float number = or_gguf_array_f32(&array, i);
            (void)number;
        }
    }
    if (or_gguf_get_array(gguf, key, OR_GGUF_I32, &array) == OR_OK) {
        for (uint64_t i = 0; i < array.count; i++) {
            volatile int32_t number = or_gguf_array_i32(&array, i);
            (void)number;
        }
    }
}

static void read_value(const or_gguf_t *gguf, const char *key)
{
    uint32_t number;
    float real;
    bool flag;
    or_gguf_string_t string;
    assert(or_gguf_has(gguf, key));
    built_model_assert_sentence(or_gguf_get_u32(gguf, key, &number));
    built_model_assert_sentence(or_gguf_get_f32(gguf, key, &real));
    built_model_assert_sentence(or_gguf_get_bool(gguf, key, &flag));
    if (or_gguf_get_string(gguf, key, &string) == OR_OK) {
        built_model_read(string.bytes, string.length);
    }
    read_array(gguf, key);
}

static void read_metadata(const or_gguf_t *gguf)
{
    char text[64];
    for (uint64_t i = 0; i < or_gguf_key_count(gguf); i++) {
        or_gguf_string_t key;
        memset(text, 'x', sizeof text);
        or_gguf_describe(gguf, i, &key, text, sizeof text);
        assert(memchr(text, '\0', sizeof text) != NULL);
        char *name = strndup(key.bytes, key.length);
        assert(name != NULL);
        read_value(gguf, name);
        free(name);
    }
}

static void read_tensors(const or_gguf_t *gguf)
{
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        char *name = strndup(tensor->name.bytes, tensor->name.length);
        assert(name != NULL);
        assert(or_gguf_find_tensor(gguf, name) == tensor);
        assert(or_gguf_tensor_type_name(tensor->type)[0] != '\0');
        or_tensor_block_t block = or_gguf_tensor_block(tensor->type);
        assert(tensor->bytes % (block.bytes > 0 ? block.bytes : 1) == 0);
        assert(block.bytes == 0 ||
               tensor->bytes / block.bytes == tensor->elements / block.elements);
        assert((tensor->data != NULL) == (block.bytes > 0));
        built_model_read(tensor->data, tensor->bytes);
        free(name);
    }
}

// ---- what is built from them ----

static void read_token(const or_vocab_t *vocab, int32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, id, &length);
    built_model_read(bytes, length);
    assert(length == or_vocab_widths(vocab)[id]);
    bytes = or_vocab_piece(vocab, id, &length);
    built_model_read(bytes, length);
    (void)or_vocab_is_end(vocab, id);
    assert(or_vocab_kind(vocab, id) <= OR_TOKEN_UNUSED);
}

static void use_vocabulary(const or_vocab_t *vocab)
{
    static const char text[] =
        "<s>Ah, \xC3\xA9t\xC3\xA9!  \xE2\x96\x81\xF0\x9F\x98\x80\n12345\xFF a";
    int32_t size = (int32_t)or_vocab_size(vocab);
    for (int32_t id = 0; id < size; id++) {
        read_token(vocab, id);
    }
    int32_t *ids;
    size_t count;
    or_status_t status = or_tokenize(vocab, text, sizeof text - 1,
                                     OR_TOKENIZE_BOS | OR_TOKENIZE_SPECIAL, &ids, &count);
    built_model_assert_sentence(status);
    if (status == OR_OK) {
        char *back = NULL;
        size_t length;
        for (size_t i = 0; i < count; i++) {
            assert(ids[i] >= 0 && ids[i] < size);
        }
        status = or_detokenize(vocab, ids, count, &back, &length);
        assert(status == OR_OK && back[length] == '\0');
        free(back);
        free(ids);
    }
}

// Make the input the only existing files; returns the one to open.
static const char *lay_out(const uint8_t *data, size_t size)
{
    static const char *const parts[] = {"fuzz-00001-of-00002.gguf", "fuzz-00002-of-00002.gguf"};
    const uint8_t *cut = memmem(data, size, CUT, strlen(CUT));
    if (cut == NULL) {
        given_files_put(0, "fuzz.gguf", data, size);
        given_files_put(1, NULL, NULL, 0);
    } else {
        size_t first = (size_t)(cut - data);
        given_files_put(0, parts[0], data, first);
        given_files_put(1, parts[1], cut + strlen(CUT), size - first - strlen(CUT));
    }
    return cut == NULL ? "fuzz.gguf" : parts[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_status_t status = or_gguf_open(lay_out(data, size), &gguf);
    built_model_assert_sentence(status);
    assert((gguf != NULL) == (status == OR_OK));
    if (status != OR_OK) {
        return 0;
    }
    (void)or_gguf_fingerprint(gguf);
    read_metadata(gguf);
    read_tensors(gguf);
    status = or_vocab_load(gguf, &vocab);
    built_model_assert_sentence(status);
    if (status == OR_OK) {
        use_vocabulary(vocab);
    }
    or_vocab_destroy(&vocab);
    built_model_try(gguf, PARAMETERS_MAX);
    or_gguf_close(&gguf);
    return 0;
}
