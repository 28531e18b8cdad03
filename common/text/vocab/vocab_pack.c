#include <stdlib.h>
#include <zstd.h>

#include "common/text/vocab/vocab.h"

// A packed vocabulary is one Zstandard frame of a GGUF file. The file has only the metadata that
// or_vocab_load reads.
#define PREFIX "tokenizer.ggml."
#define LEVEL 3 // higher ones take much longer and save a tenth

// The largest vocabularies have a quarter of a million tokens of at most some hundred bytes, 2 MB in
// all.
#define TOKENS_MAX (1u << 20)
#define PIECE_BYTES_MAX 1024
#define PIECES_BYTES_MAX (3u << 20)

#define PEER "a peer's vocabulary" // in place of a file's name

static or_status_t compress(const uint8_t *image, size_t image_bytes, uint8_t **packed_p,
                            size_t *packed_bytes)
{
    size_t room = ZSTD_compressBound(image_bytes);
    uint8_t *packed = malloc(room);
    if (packed == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to pack a vocabulary");
    }
    size_t used = ZSTD_compress(packed, room, image, image_bytes, LEVEL);
    if (ZSTD_isError(used)) { // there is room, so it can only be memory
        free(packed);
        return or_fail(OR_ERR_NO_MEMORY, "cannot pack a vocabulary: %s", ZSTD_getErrorName(used));
    }
    *packed_p = packed;
    *packed_bytes = used;
    return OR_OK;
}

or_status_t or_vocab_pack(const or_gguf_t *gguf, uint8_t **packed_p, size_t *packed_bytes,
                          size_t *unpacked_bytes)
{
    uint8_t *image = NULL;
    size_t image_bytes;
    if (!or_gguf_has(gguf, "tokenizer.ggml.model")) {
        return or_fail(OR_ERR_NOT_FOUND, "%s: has no vocabulary to send; give a file with one",
                       or_gguf_path(gguf));
    }
    or_status_t status = or_gguf_extract(gguf, PREFIX, &image, &image_bytes);
    if (status == OR_OK && image_bytes > OR_VOCAB_BYTES_MAX) {
        status = or_fail(OR_ERR_UNSUPPORTED,
                         "%s: its vocabulary takes %zu bytes, and at most %u can be sent; pair it "
                         "with a model of the same vocabulary",
                         or_gguf_path(gguf), image_bytes, OR_VOCAB_BYTES_MAX);
    }
    if (status == OR_OK) {
        status = compress(image, image_bytes, packed_p, packed_bytes);
    }
    if (status == OR_OK) {
        *unpacked_bytes = image_bytes;
    }
    free(image);
    return status;
}

// The frame itself must give the same size, so that a peer's number alone takes no memory.
static or_status_t check_size(const uint8_t *packed, size_t packed_bytes, size_t unpacked_bytes)
{
    if (unpacked_bytes == 0 || unpacked_bytes > OR_VOCAB_BYTES_MAX) {
        return or_fail(OR_ERR_FORMAT, PEER " cannot take %zu bytes; at most %u are possible",
                       unpacked_bytes, OR_VOCAB_BYTES_MAX);
    }
    if (ZSTD_getFrameContentSize(packed, packed_bytes) != unpacked_bytes) {
        return or_fail(OR_ERR_FORMAT, PEER " does not unpack to the %zu bytes it promises",
                       unpacked_bytes);
    }
    return OR_OK;
}

// Loading takes a multiple of the memory of short tokens. SentencePiece ones are cut in two at
// every byte, and each cut may be a merge. Long tokens pack well, and each of their bytes takes up
// to a microsecond and 50 bytes of memory.
static or_status_t check_proportions(const or_gguf_t *gguf)
{
    or_gguf_array_t pieces;
    uint64_t bytes = 0;
    or_status_t status = or_gguf_get_array(gguf, "tokenizer.ggml.tokens", OR_GGUF_STRING, &pieces);
    if (status == OR_OK && pieces.count > TOKENS_MAX) {
        return or_fail(OR_ERR_FORMAT, PEER " has %llu tokens; at most %u are possible",
                       (unsigned long long)pieces.count, TOKENS_MAX);
    }
    for (uint64_t i = 0; status == OR_OK && i < pieces.count; i++) {
        uint64_t length = or_gguf_array_string(&pieces, i).length;
        bytes += length;
        if (length > PIECE_BYTES_MAX) {
            status = or_fail(OR_ERR_FORMAT, PEER " has a token of over %d bytes (%llu)",
                             PIECE_BYTES_MAX, (unsigned long long)i);
        }
    }
    if (status == OR_OK && bytes > PIECES_BYTES_MAX) {
        status =
            or_fail(OR_ERR_FORMAT, PEER " has tokens of %llu bytes in all; at most %u are possible",
                    (unsigned long long)bytes, PIECES_BYTES_MAX);
    }
    return status;
}

static or_status_t load_image(const uint8_t *image, size_t bytes, or_vocab_t **vocab_p)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open_bytes(PEER, image, bytes, &gguf);
    if (status == OR_OK) {
        status = check_proportions(gguf);
    }
    if (status == OR_OK) {
        status = or_vocab_load(gguf, vocab_p);
    }
    or_gguf_close(&gguf);
    return status;
}

or_status_t or_vocab_unpack(const uint8_t *packed, size_t packed_bytes, size_t unpacked_bytes,
                            or_vocab_t **vocab_p)
{
    or_status_t status = check_size(packed, packed_bytes, unpacked_bytes);
    if (status != OR_OK) {
        return status;
    }
    uint8_t *image = malloc(unpacked_bytes);
    if (image == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to unpack a vocabulary");
    }
    size_t got = ZSTD_decompress(image, unpacked_bytes, packed, packed_bytes);
    if (ZSTD_isError(got) || got != unpacked_bytes) {
        status = or_fail(OR_ERR_FORMAT, PEER " is damaged: %s",
                         ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is cut short");
    } else {
        status = load_image(image, unpacked_bytes, vocab_p);
    }
    free(image);
    return status;
}
