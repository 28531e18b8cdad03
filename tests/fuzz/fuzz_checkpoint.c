// Goal: whatever config.json and tokenizer.json say, it becomes metadata or is refused in words; and a vocabulary that is
// written can be read, or is refused in words by its reader.
// Method: the input is config.json, tokenizer.json, tokenizer_config.json and generation_config.json, cut at lines "NEXT
// FILE". The metadata are written to a file in memory and opened again. A second part that is no JSON is a tokenizer.model, a
// tiktoken.model, and with the last part as vocab.json a merges.txt.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/vocab/vocab.h"
#include "launch/model/convert/config.h"
#include "launch/model/convert/tokenizer/bpe_files.h"
#include "launch/model/convert/tokenizer/tiktoken.h"
#include "launch/model/convert/vocabulary.h"
#include "tests/fuzz/fuzz.h"

#define CUT "\nNEXT FILE\n"
#define FILES 4u
#define TOKENS_MAX 4096u // more would only slow the fuzzer down

static char path[64]; // of this process's own

static void assert_sentence(or_status_t status)
{
    assert(status == OR_OK || or_error_text()[0] != '\0');
}

// Parse what is before the next cut, as files are parsed. NULL if it is no object.
static json_t *next_file(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *cut = memmem(*at, (size_t)(end - *at), CUT, strlen(CUT));
    const uint8_t *stop = cut != NULL ? cut : end;
    json_t *root = json_loadb((const char *)*at, (size_t)(stop - *at),
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    *at = cut != NULL ? cut + strlen(CUT) : end;
    if (!json_is_object(root)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static or_json_t named(const char *name, const json_t *root)
{
    return (or_json_t){name, root};
}

static void check_config(const or_hf_config_t *config)
{
    const or_model_shape_t *shape = &config->shape;
    assert(shape->layers > 0 && shape->heads % shape->kv_heads == 0 && shape->head_dim > 0);
    for (size_t i = 0; i < OR_ROPE_TENSORS_MAX; i++) {
        const or_rope_tensor_t *rope = &config->ropes[i];
        assert((rope->name != NULL) == (rope->values != NULL));
        for (uint32_t n = 0; n < rope->count; n++) {
            volatile float value = rope->values[n];
            (void)value;
        }
    }
}

// Write the metadata to a file, and read its vocabulary.
static void read_again(or_gguf_writer_t *writer)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_status_t status = or_gguf_writer_begin(writer);
    status = status != OR_OK ? status : or_gguf_writer_finish(writer);
    assert(status == OR_OK);
    status = or_gguf_open(path, &gguf);
    assert(status == OR_OK);
    status = or_vocab_load(gguf, &vocab);
    assert_sentence(status);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    unlink(path);
}

static void convert(json_t *const *files, const or_sentencepiece_t *model, or_gguf_writer_t *writer)
{
    or_hf_config_t config;
    or_status_t status = or_hf_config_read(named("config", files[0]), writer, &config);
    assert_sentence(status);
    if (status == OR_OK) {
        check_config(&config);
    }
    uint32_t size =
        status == OR_OK && config.shape.vocab_size < TOKENS_MAX ? config.shape.vocab_size : 300;
    or_hf_config_fini(&config);
    const or_hf_tokenizer_t tokenizer = {.tokenizer = named("tokenizer", files[1]),
                                         .sentencepiece = model,
                                         .added = named("added", files[3]),
                                         .settings = named("settings", files[2]),
                                         .config = named("config", files[0]),
                                         .text = named("text", files[2]),
                                         .generation = named("generation", files[3]),
                                         .size = size,
                                         .keeps_merges = json_object_size(files[1]) % 2 == 1};
    status = or_hf_vocabulary_write(&tokenizer, writer);
    assert_sentence(status);
    if (status == OR_OK) {
        read_again(writer);
    }
}

// Convert with a tokenizer.model, which lies in memory of exactly its size.
static void convert_model(json_t *const *files, const uint8_t *bytes, size_t size,
                          or_gguf_writer_t *writer)
{
    or_sentencepiece_t model;
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert(copy != NULL);
    memcpy(copy, bytes, size);
    or_status_t status = or_sentencepiece_read(copy, size, &model);
    assert_sentence(status);
    if (status == OR_OK) {
        convert(files, &model, writer);
    }
    or_sentencepiece_fini(&model);
    free(copy);
}

// Convert with a tiktoken.model, if it is one.
static void convert_ranks(json_t **files, const uint8_t *bytes, size_t size,
                          or_gguf_writer_t *writer)
{
    char *copy = malloc(size > 0 ? size : 1);
    assert(copy != NULL);
    memcpy(copy, bytes, size);
    or_status_t status = or_hf_read_tiktoken(copy, size, named("settings", files[2]), &files[1]);
    assert_sentence(status);
    assert((status == OR_OK) == (files[1] != NULL));
    if (status == OR_OK) {
        convert(files, NULL, writer);
    }
    free(copy);
}

// Convert with a merges.txt, if it is one.
static void convert_merges(json_t **files, const uint8_t *bytes, size_t size,
                           or_gguf_writer_t *writer)
{
    char *copy = strndup((const char *)bytes, size);
    assert(copy != NULL);
    const or_bpe_files_t bpe = {.vocab = files[3], .merges = copy, .settings = files[2]};
    json_decref(files[1]);
    or_status_t status = or_hf_read_bpe_files(&bpe, &files[1]);
    assert_sentence(status);
    assert((status == OR_OK) == (files[1] != NULL));
    if (status == OR_OK) {
        convert(files, NULL, writer);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *begins[FILES + 1];
    json_t *files[FILES];
    for (size_t i = 0; i < FILES; i++) {
        begins[i] = at;
        files[i] = next_file(&at, data + size);
    }
    begins[FILES] = at;
    or_gguf_writer_t *writer = NULL;
    snprintf(path, sizeof path, "/tmp/outrider-fuzz-%d.gguf", (int)getpid());
    or_status_t status = or_gguf_writer_create(path, &writer);
    assert(status == OR_OK);
    if (files[0] != NULL && files[1] != NULL) {
        convert(files, NULL, writer);
    } else if (files[0] != NULL) {
        size_t cut = begins[2] < data + size ? strlen(CUT) : 0; // not after the last part
        const size_t bytes = (size_t)(begins[2] - begins[1]) - cut;
        convert_model(files, begins[1], bytes, writer);
        convert_ranks(files, begins[1], bytes, writer);
        if (files[3] != NULL) {
            convert_merges(files, begins[1], bytes, writer);
        }
    }
    or_gguf_writer_destroy(&writer);
    for (size_t i = 0; i < FILES; i++) {
        json_decref(files[i]);
    }
    return 0;
}
