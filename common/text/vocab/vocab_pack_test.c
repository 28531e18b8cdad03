// Goal: a vocabulary that travelled is the one that was sent. Bytes from a peer are at worst
// refused.
// Method: pack and unpack the real vocabularies and compare everything visible. Then unpack
// bytes that are cut, changed, mislabelled, or well packed but hostile inside.
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/gguf/gguf_test_file.h"
#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_pair.h"
#include "tests/support/test_support.h"

typedef struct {
    uint8_t *bytes;
    size_t count, unpacked;
} packed_t;

static packed_t pack(const char *path)
{
    packed_t packed = {0};
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_vocab_pack(gguf, &packed.bytes, &packed.count, &packed.unpacked), OR_OK);
    or_gguf_close(&gguf);
    return packed;
}

// Return what a file made by hand becomes when a peer packs it.
static packed_t pack_file(test_gguf_t *file)
{
    packed_t packed = {.unpacked = file->count};
    size_t room = ZSTD_compressBound(file->count);
    packed.bytes = malloc(room);
    assert_non_null(packed.bytes);
    packed.count = ZSTD_compress(packed.bytes, room, file->bytes, file->count, 1);
    assert_false(ZSTD_isError(packed.count));
    test_gguf_fini(file);
    return packed;
}

static void assert_refused(const uint8_t *bytes, size_t count, size_t unpacked, const char *reason)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(or_vocab_unpack(bytes, count, unpacked, &vocab), OR_ERR_FORMAT);
    assert_null(vocab);
    if (strstr(or_error_text(), reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", or_error_text(), reason);
    }
}

static void assert_same_tokens(const or_vocab_t *a, const or_vocab_t *b)
{
    assert_int_equal(or_vocab_size(a), or_vocab_size(b));
    for (int32_t id = 0; id < (int32_t)or_vocab_size(a); id++) {
        uint32_t length, other_length;
        const char *bytes = or_vocab_bytes(a, id, &length);
        const char *other = or_vocab_bytes(b, id, &other_length);
        assert_int_equal(length, other_length);
        assert_memory_equal(bytes, other, length);
        bytes = or_vocab_piece(a, id, &length);
        other = or_vocab_piece(b, id, &other_length);
        assert_int_equal(length, other_length);
        assert_memory_equal(bytes, other, length);
        assert_int_equal(or_vocab_kind(a, id), or_vocab_kind(b, id));
    }
}

static void assert_same_ids(const or_vocab_t *a, const or_vocab_t *b, const char *text)
{
    int32_t *ids = NULL, *others = NULL;
    size_t count, other_count;
    unsigned flags = OR_TOKENIZE_BOS | OR_TOKENIZE_SPECIAL;
    assert_int_equal(or_tokenize(a, text, strlen(text), flags, &ids, &count), OR_OK);
    assert_int_equal(or_tokenize(b, text, strlen(text), flags, &others, &other_count), OR_OK);
    assert_int_equal(count, other_count);
    assert_memory_equal(ids, others, count * sizeof *ids);
    free(others);
    free(ids);
}

static void real_vocabularies_survive_the_journey(void **state)
{
    (void)state;
    static const char *const names[] = {"vocab/llama-spm.gguf",      "vocab/phi-3.gguf",
                                        "vocab/gpt-2.gguf",          "vocab/starcoder.gguf",
                                        "vocab/llama-bpe.gguf",      "vocab/qwen2.gguf",
                                        "models/tales-6m-q8_0.gguf", "models/stories260K-f32.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = test_data(names[i]);
        or_vocab_t *sent = test_load_vocab(path);
        or_vocab_t *got = NULL;
        packed_t packed = pack(path);
        print_message("%s: %zu bytes, packed %zu\n", names[i], packed.unpacked, packed.count);
        assert_int_equal(or_vocab_unpack(packed.bytes, packed.count, packed.unpacked, &got), OR_OK);
        assert_true(or_vocab_hash(got) == or_vocab_hash(sent));
        assert_int_equal(or_vocab_bos(got), or_vocab_bos(sent));
        assert_int_equal(or_vocab_eos(got), or_vocab_eos(sent));
        assert_same_tokens(got, sent);
        free(packed.bytes); // nothing in the vocabulary points into it
        assert_same_ids(got, sent, or_vocab_sample_text);
        or_vocab_destroy(&got);
        or_vocab_destroy(&sent);
    }
}

// Add a chat template, a tokenizer in another format, and the model's own metadata and weights.
static void nothing_else_travels(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_gguf_t *image_gguf = NULL;
    uint8_t *packed = NULL;
    size_t count, unpacked;
    test_gguf_init(&file, 2, 0, 5);
    test_gguf_put_string_entry(&file, "general.name", "secret");
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "llama");
    test_gguf_put_string_entry(&file, "tokenizer.chat_template", "secret");
    test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, 1);
    test_gguf_put_string(&file, "a");
    test_gguf_put_string_entry(&file, "tokenizer.ggm", "secret");
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_vocab_pack(gguf, &packed, &count, &unpacked), OR_OK);
    char *image = malloc(unpacked);
    assert_non_null(image);
    assert_int_equal(ZSTD_decompress(image, unpacked, packed, count), unpacked);
    assert_null(memmem(image, unpacked, "secret", 6));
    assert_int_equal(or_gguf_open_bytes("image", image, unpacked, &image_gguf), OR_OK);
    assert_int_equal(or_gguf_key_count(image_gguf), 2);
    or_gguf_close(&image_gguf);
    free(image);
    free(packed);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void files_without_a_vocabulary_are_not_packed(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    packed_t packed = {0};
    test_gguf_init(&file, 3, 0, 1);
    test_gguf_put_string_entry(&file, "general.name", "tiny");
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_vocab_pack(gguf, &packed.bytes, &packed.count, &packed.unpacked),
                     OR_ERR_NOT_FOUND);
    assert_null(packed.bytes);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void sizes_must_be_right(void **state)
{
    (void)state;
    packed_t packed = pack(test_model("tales-bpe-1m-f16.gguf"));
    assert_refused(packed.bytes, packed.count, 0, "0 bytes");
    assert_refused(packed.bytes, packed.count, OR_VOCAB_BYTES_MAX + 1, "at most");
    assert_refused(packed.bytes, packed.count, SIZE_MAX, "at most");
    assert_refused(packed.bytes, packed.count, packed.unpacked - 1, "promises");
    assert_refused(packed.bytes, packed.count, packed.unpacked + 1, "promises");
    assert_refused(packed.bytes, 0, packed.unpacked, "promises");
    assert_refused(packed.bytes, 3, packed.unpacked, "promises");
    assert_refused(packed.bytes, packed.count / 2, packed.unpacked, "damaged");
    assert_refused(packed.bytes, packed.count - 1, packed.unpacked, "damaged");
    free(packed.bytes);
}

static void what_is_no_vocabulary_is_refused(void **state)
{
    (void)state;
    test_gguf_t file = {.fd = -1};
    packed_t packed;
    test_gguf_put(&file, "Once upon a time", 16);
    packed = pack_file(&file);
    assert_refused(packed.bytes, packed.count, packed.unpacked, "not a GGUF file");
    free(packed.bytes);
    test_gguf_init(&file, 3, 1, 0);
    test_gguf_put_tensor(&file, "t", 8, 1, OR_TENSOR_F32, 0);
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, (float[8]){0}, 8 * sizeof(float));
    packed = pack_file(&file);
    assert_refused(packed.bytes, packed.count, packed.unpacked, "has tensors");
    free(packed.bytes);
}

static packed_t pack_pieces(uint64_t count, size_t length)
{
    test_gguf_t file;
    char *piece = calloc(1, length + 1);
    assert_non_null(piece);
    memset(piece, 'a', length);
    test_gguf_init(&file, 3, 0, 4);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "llama");
    test_gguf_put_u32_entry(&file, "tokenizer.ggml.unknown_token_id", 0);
    test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, count);
    for (uint64_t i = 0; i < count; i++) {
        test_gguf_put_string(&file, piece);
    }
    test_gguf_put_array_key(&file, "tokenizer.ggml.scores", OR_GGUF_F32, count);
    for (uint64_t i = 0; i < count; i++) {
        test_gguf_put(&file, &(float){0}, sizeof(float));
    }
    free(piece);
    return pack_file(&file);
}

// These packets of some kilobytes would take gigabytes or minutes.
static void small_packets_make_no_giants(void **state)
{
    (void)state;
    packed_t many = pack_pieces((1U << 20) + 1, 0);
    packed_t lengthy = pack_pieces(2, 1025);
    packed_t most = pack_pieces(3 << 10, 1024);
    packed_t more = pack_pieces((3 << 10) + 1, 1024);
    or_vocab_t *vocab = NULL;
    assert_refused(many.bytes, many.count, many.unpacked, "1048577 tokens");
    assert_refused(lengthy.bytes, lengthy.count, lengthy.unpacked, "a token of over 1024 bytes");
    assert_int_equal(or_vocab_unpack(most.bytes, most.count, most.unpacked, &vocab), OR_OK);
    assert_refused(more.bytes, more.count, more.unpacked, "3146752 bytes in all");
    or_vocab_destroy(&vocab);
    free(more.bytes);
    free(most.bytes);
    free(lengthy.bytes);
    free(many.bytes);
}

// A packet with a changed byte is refused, or gives a vocabulary like any other.
static void survives_random_damage(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    uint64_t seed = test_seed();
    unsigned loaded = 0;
    packed_t packed = pack(test_model("tales-bpe-1m-f16.gguf"));
    for (int round = 0; round < ROUNDS; round++) {
        size_t place = test_below(&seed, round % 2 == 0 ? 64 : packed.count);
        uint8_t saved = packed.bytes[place];
        or_vocab_t *vocab = NULL;
        packed.bytes[place] = (uint8_t)test_random(&seed);
        if (or_vocab_unpack(packed.bytes, packed.count, packed.unpacked, &vocab) == OR_OK) {
            loaded++;
            assert_same_ids(vocab, vocab, or_vocab_sample_text);
            or_vocab_destroy(&vocab);
        }
        assert_null(vocab);
        packed.bytes[place] = saved;
    }
    print_message("%u of %d damaged packets still loaded\n", loaded, (int)ROUNDS);
    free(packed.bytes);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_vocabularies_survive_the_journey),
        cmocka_unit_test(nothing_else_travels),
        cmocka_unit_test(files_without_a_vocabulary_are_not_packed),
        cmocka_unit_test(sizes_must_be_right),
        cmocka_unit_test(what_is_no_vocabulary_is_refused),
        cmocka_unit_test(small_packets_make_no_giants),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
