// text_test_support - vocabularies and texts for tests.
#pragma once

#include "common/text/vocab/vocab.h"

// Load a vocabulary from a file; fails the test if it does not load.
or_vocab_t *test_load_vocab(const char *path);

// The published vocabularies of the data folder that have vectors: vocab/NAME.gguf.
#define TEST_VOCAB_FILES 6
extern const char *const test_vocab_names[TEST_VOCAB_FILES];
// Load these and the two kinds of this repository. Skips the running test if the data folder is absent.
#define TEST_VOCABS (TEST_VOCAB_FILES + 2)
void test_load_vocabs(or_vocab_t *vocabs[TEST_VOCABS]);

// Load the vocabulary of a byte-level file under other ids. Token i is the file's token
// order[i], or an unused one if that is TEST_PADDING. Special roles move with their tokens.
or_vocab_t *test_reorder_vocab(const char *path, const uint32_t *order, uint32_t count);
#define TEST_PADDING UINT32_MAX

// A token of a vocabulary made by hand. Its type is the file's number (1 normal, 3 control, 4
// user-defined ...).
typedef struct {
    const char *piece;
    float score;
    int32_t type;
} test_token_t;

// Make a SentencePiece vocabulary of these tokens, plus what the bits of `wish` ask for.
enum {
    TEST_WITH_BYTES = 1,   // the 256 byte tokens follow
    TEST_WITH_UNKNOWN = 2, // token 0 is the unknown one
    TEST_WITH_BOS_EOS = 4, // tokens 1 and 2
    TEST_WITHOUT_SPACE = 8 // add_space_prefix is false
};
or_status_t test_make_vocab(const test_token_t *tokens, uint32_t count, unsigned wish,
                            or_vocab_t **vocab_p);

// Make one of Gemma 4's kind, likewise with the 256 bytes.
or_status_t test_make_by_lines(const test_token_t *tokens, uint32_t count,
                               const char *const *merges, uint32_t merge_count,
                               or_vocab_t **vocab_p);
// Make a byte-level vocabulary: these tokens, then the 256 bytes. `pre` names the pre-tokenizer.
// NULL leaves it out, and likewise the merges.
or_status_t test_make_byte_level(const test_token_t *tokens, uint32_t count,
                                 const char *const *merges, uint32_t merge_count, const char *pre,
                                 or_vocab_t **vocab_p);

// Write a random text of awkward parts: white space of all kinds, combining marks, emoji with
// joiners, ill-formed UTF-8, runs, the spellings of special tokens and mixed scripts. Returns
// its length.
enum { TEST_TEXT_BYTES = 500 };
size_t test_text(uint64_t *seed, char *text);
// Does a byte-level vocabulary lack a token for some byte?
bool test_lacks_bytes(const or_vocab_t *vocab);

// Fail the test unless the text's tokens give back the text, byte for byte.
void test_assert_round_trip(const or_vocab_t *vocab, const char *text, size_t length);
