// permute - the same model under other token ids, for tests: a GGUF file in memory whose vocabulary is
// shuffled and padded.
//
//     id            0      1     2      3                 0      1      2     3      4           5
//     original      <unk>  <s>   </s>   <0x00>    made    </s>   <unk>  <0x00>  <s>  <|pad 0|>   <|pad 1|>
//
// Rows of the embedding and of the output head move with their tokens, as do pieces, scores, kinds and
// the ids of special roles. Merges name tokens by their text and stay.
#pragma once

#include <stdint.h>

// Make the file and return its path, which the caller frees. Any process may open it while this one
// lives. The `padding` tokens at the end are unused ones. Their rows are made of pieces of other
// rows, so that the model gives them real probability. Fails the test if the file cannot be read.
char *test_permute(const char *gguf_path, uint64_t seed, uint32_t padding);
// Pad only: every token keeps its id.
char *test_pad(const char *gguf_path, uint32_t padding);

// The permutation that test_permute uses: moved[old id] is the new one.
void test_permutation(uint64_t seed, uint32_t count, uint32_t *moved);
