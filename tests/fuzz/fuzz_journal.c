// Goal: any file of the journal is refused or read without harm. The good records read from it, and only those, read
// the same when everything behind them is cut off.
// Method: read the bytes as they are, and once more with correct checksums, which no fuzzer finds.
#include <stdlib.h>
#include <string.h>

#include "coordinator/journal/journal_file.h"
#include "tests/fuzz/fuzz.h"

static const uint8_t hash[OR_JOURNAL_HASH_BYTES] = "a name of thirty-two bytes ....";

// Copy the bytes to memory of their own, so that no byte behind the end is read unseen.
static uint8_t *copy_of(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count > 0 ? count : 1);
    assert(copy != NULL);
    if (count > 0) {
        memcpy(copy, bytes, count);
    }
    return copy;
}

static int32_t *tokens_of(const uint8_t *bytes, const or_journal_file_t *file)
{
    int32_t *tokens = malloc((file->entry.count + 1) * sizeof *tokens);
    assert(tokens != NULL);
    or_journal_file_tokens(bytes, file, tokens);
    return tokens;
}

static void assert_same(const or_journal_file_t *a, const or_journal_file_t *b)
{
    assert(a->good_bytes == b->good_bytes && a->check == b->check);
    assert(a->entry.count == b->entry.count && a->entry.round == b->entry.round);
    assert(a->entry.finish == b->entry.finish && a->expires.at_ns == b->expires.at_ns);
    assert(strcmp(a->owner, b->owner) == 0 && strcmp(a->key, b->key) == 0);
    assert(strcmp(a->arith_id, b->arith_id) == 0 && strcmp(a->expires.boot, b->expires.boot) == 0);
}

static void read_file(const uint8_t *bytes, size_t count)
{
    or_journal_file_t file, again;
    if (or_journal_file_read(bytes, count, hash, &file) != OR_OK) {
        return;
    }
    assert(file.good_bytes <= count && file.entry.count <= OR_WIRE_TOKENS_MAX);
    assert(file.entry.request + file.entry.request_bytes <= bytes + file.good_bytes);
    uint8_t *cut = copy_of(bytes, file.good_bytes);
    assert(or_journal_file_read(cut, file.good_bytes, hash, &again) == OR_OK);
    assert_same(&file, &again);
    int32_t *tokens = tokens_of(bytes, &file), *same = tokens_of(cut, &again);
    assert(memcmp(tokens, same, file.entry.count * sizeof *tokens) == 0);
    free(tokens);
    free(same);
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = copy_of(data, size);
    read_file(bytes, size);
    or_journal_seal(bytes, size, or_journal_first_check(hash));
    read_file(bytes, size);
    free(bytes);
    return 0;
}
