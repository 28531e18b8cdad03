// Goal: a peer's vocabulary is refused or usable: it tokenises text, and it equals itself.
// Method: the input is a change to the packet (where, which bits), the number of promised bytes
// that are missing, and the file in the packet. The file is packed here, because a fuzzer would
// need long to find Zstandard's frames.
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_pair.h"
#include "tests/fuzz/fuzz.h"

static void assert_tokenizes(const or_vocab_t *vocab)
{
    int32_t *ids = NULL;
    size_t count;
    or_status_t status =
        or_tokenize(vocab, or_vocab_sample_text, strlen(or_vocab_sample_text), 0, &ids, &count);
    assert(status == OR_OK);
    for (size_t i = 0; i < count; i++) {
        assert(ids[i] >= 0 && (uint32_t)ids[i] < or_vocab_size(vocab));
    }
    free(ids);
}

static void assert_is_itself(const or_vocab_t *vocab)
{
    or_vocab_pair_t *pair = NULL;
    or_status_t status = or_vocab_pair_create(vocab, vocab, &pair);
    assert(status == OR_OK && pair->same && pair->bijective);
    assert(pair->shared == or_vocab_size(vocab));
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        assert(pair->to_target[id] == (int32_t)id && pair->to_draft[id] == (int32_t)id);
    }
    or_vocab_pair_destroy(&pair);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    uint32_t place = fuzz_number(&input);
    uint8_t change = fuzz_byte(&input);
    uint8_t too_much = fuzz_byte(&input);
    size_t room = ZSTD_compressBound(input.left);
    uint8_t *packed = malloc(room);
    assert(packed != NULL);
    size_t count = ZSTD_compress(packed, room, input.at, input.left, 1);
    assert(!ZSTD_isError(count));
    if (place < count) {
        packed[place] ^= change;
    }
    or_vocab_t *vocab = NULL;
    if (or_vocab_unpack(packed, count, input.left + too_much, &vocab) == OR_OK) {
        assert_tokenizes(vocab);
        assert_is_itself(vocab);
        or_vocab_destroy(&vocab);
    }
    assert(vocab == NULL);
    free(packed);
    return 0;
}
