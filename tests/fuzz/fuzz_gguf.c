// Goal: no file, however hostile, crashes the reader or makes it read outside the file. A file
// that is accepted does not break what is built from it: a vocabulary, a model and a pass
// through it.
// Method: the input is a file, or the two parts of a split model, cut at a line "NEXT PART".
// open and mmap are replaced, so that nothing but the input is read, and from a copy of exactly
// its size. So AddressSanitizer sees the first byte read behind the end, where a mapping would
// have a page of zeros. A file that opens is read throughout.
#include "common/gguf/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/model/arch/arch.h"
#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

#define PAGE 4096u
#define CUT "\nNEXT PART\n"
#define CONTEXT_MAX 40u // over a page of KV cache
#define MODEL_FLOATS_MAX 65536u

// The linker replaces open, mmap, munmap and madvise by these (CMakeLists.txt).
int __wrap_open(const char *path, int flags, ...);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);
int __wrap_madvise(void *address, size_t length, int advice);

typedef struct {
    const char *path; // NULL: there is no such file
    const uint8_t *bytes;
    size_t count;
} file_t;

static file_t files[2];

int __wrap_open(const char *path, int flags, ...)
{
    (void)flags;
    for (size_t i = 0; i < 2; i++) {
        if (files[i].path != NULL && strcmp(path, files[i].path) == 0) {
            int fd = memfd_create("fuzz", MFD_CLOEXEC);
            ssize_t wrote = pwrite(fd, files[i].bytes, files[i].count, 0);
            assert(fd >= 0 && wrote == (ssize_t)files[i].count);
            return fd;
        }
    }
    errno = ENOENT;
    return -1;
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    void *copy = NULL;
    assert(address == NULL && protection == PROT_READ && flags != 0);
    if (posix_memalign(&copy, PAGE, length) != 0) {
        return MAP_FAILED;
    }
    ssize_t got = pread(fd, copy, length, offset);
    assert(got == (ssize_t)length);
    return copy;
}

int __wrap_munmap(void *address, size_t length)
{
    (void)length;
    free(address);
    return 0;
}

// No file is behind this memory to bring it back.
int __wrap_madvise(void *address, size_t length, int advice)
{
    (void)address;
    (void)length;
    (void)advice;
    return 0;
}

// Read every byte so that the optimiser cannot remove the reads.
static void read_all(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        volatile unsigned char byte = ((const unsigned char *)bytes)[i];
        (void)byte;
    }
}

static void assert_sentence(or_status_t status)
{
    assert(status == OR_OK || or_error_text()[0] != '\0');
}

// ---- metadata and tensors ----

static void read_array(const or_gguf_t *gguf, const char *key)
{
    or_gguf_array_t array;
    if (or_gguf_get_array(gguf, key, OR_GGUF_STRING, &array) == OR_OK) {
        for (uint64_t i = 0; i < array.count; i++) {
            or_gguf_string_t string = or_gguf_array_string(&array, i);
            read_all(string.bytes, string.length);
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
    assert_sentence(or_gguf_get_u32(gguf, key, &number));
    assert_sentence(or_gguf_get_f32(gguf, key, &real));
    assert_sentence(or_gguf_get_bool(gguf, key, &flag));
    if (or_gguf_get_string(gguf, key, &string) == OR_OK) {
        read_all(string.bytes, string.length);
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
        read_all(tensor->data, tensor->bytes);
        free(name);
    }
}

// ---- what is built from them ----

static void read_token(const or_vocab_t *vocab, int32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, id, &length);
    read_all(bytes, length);
    assert(length == or_vocab_widths(vocab)[id]);
    bytes = or_vocab_piece(vocab, id, &length);
    read_all(bytes, length);
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
    assert_sentence(status);
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

// Run two tokens and a guess through all layers. Nothing is promised about the weights.
static void run_model(or_model_t *model)
{
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    or_kv_sequence_t *sequence = NULL;
    float *logits = malloc(vocab_size * sizeof *logits);
    assert(logits != NULL);
    if (or_model_open_sequence(model, 1, &sequence) == OR_OK) {
        const or_model_row_t rows[] = {
            {sequence, 0, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
            {sequence, (int32_t)vocab_size - 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
            {sequence, 0, 0, OR_KV_NO_SLOT}};
        or_status_t status = or_model_forward(model, rows, 3);
        assert_sentence(status);
        if (status == OR_OK) {
            status = or_model_logits(model, 2, 1, logits);
            assert(status == OR_OK);
            read_all(logits, vocab_size * sizeof *logits);
        }
    }
    or_kv_sequence_close(&sequence);
    free(logits);
}

static void build_model(const or_gguf_t *gguf)
{
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    assert_sentence(status);
    // Duplicate names aside, weights are in the file: only a small file's model is tried.
    if (status != OR_OK || shape.parameters > MODEL_FLOATS_MAX) {
        return;
    }
    or_model_t *model = NULL;
    const or_model_options_t options = {.threads = 1,
                                        .context_max = shape.context < CONTEXT_MAX ? shape.context
                                                                                   : CONTEXT_MAX,
                                        .rows_max = 3,
                                        .sequences_max = 1};
    status = or_model_load(gguf, &options, &model);
    assert_sentence(status);
    if (status == OR_OK) {
        run_model(model);
    }
    or_model_destroy(&model);
}

// Make the input the only existing files; returns the one to open.
static const char *lay_out(const uint8_t *data, size_t size)
{
    static const char *const parts[] = {"fuzz-00001-of-00002.gguf", "fuzz-00002-of-00002.gguf"};
    const uint8_t *cut = memmem(data, size, CUT, strlen(CUT));
    if (cut == NULL) {
        files[0] = (file_t){"fuzz.gguf", data, size};
        files[1] = (file_t){0};
    } else {
        size_t first = (size_t)(cut - data);
        files[0] = (file_t){parts[0], data, first};
        files[1] = (file_t){parts[1], cut + strlen(CUT), size - first - strlen(CUT)};
    }
    return files[0].path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_status_t status = or_gguf_open(lay_out(data, size), &gguf);
    assert_sentence(status);
    assert((gguf != NULL) == (status == OR_OK));
    if (status != OR_OK) {
        return 0;
    }
    (void)or_gguf_fingerprint(gguf);
    read_metadata(gguf);
    read_tensors(gguf);
    status = or_vocab_load(gguf, &vocab);
    assert_sentence(status);
    if (status == OR_OK) {
        use_vocabulary(vocab);
    }
    or_vocab_destroy(&vocab);
    build_model(gguf);
    or_gguf_close(&gguf);
    return 0;
}
