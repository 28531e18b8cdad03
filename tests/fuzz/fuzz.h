// fuzz - what the fuzzers share, and how to run them.
//
//     target     input                                   must hold
//     gguf       a file, or two parts of a split one     all of it is readable; its model runs
//     family     a recipe of tests/families, edits       its model runs, or is refused in words
//     message    a frame                                 decode, encode, decode: the same message
//     tokenizer  flags, vocabulary, text                 tokens exist and print the text again
//     vocab      a vocabulary that was sent              is refused or is one
//     options    command line, environment, file         strings are owned, or refused in words
//     grant      a line of `authorized`                  means the same when it is written again
//     api        an HTTP body, an event's id, figures    a request within its bounds, or refused in words
//     hub        what peers say, and when           places and memory are kept; every text ends
//     tree       root, room, vocabulary, nodes           exactly the legal trees pass
//     safetensors  a file                                what opens tiles the file
//     imatrix      an importance matrix, of either form   numbers that can weigh, under names
//     checkpoint   config.json, tokenizer.json ...       is refused in words or becomes metadata
//     draws      a rule, distributions, nodes and how they came   what passes can be judged exactly
//
// They are libFuzzer programs and need clang. launch/test.sh runs each for some seconds. For ten
// minutes:
//
//     cmake --preset fuzz -DOUTRIDER_FUZZ_SECONDS=600
//     cmake --build --preset fuzz && ctest --preset fuzz -j 2
//
// AddressSanitizer, UBSan or an assert announces a finding; it is written to
// build/fuzz/TARGET-crash-... and `build/fuzz/bin/fuzz_TARGET THAT_FILE` replays it. Seeds come
// from make_seeds.c at build time, dictionaries/TARGET.dict has words that the fuzzer would be long in guessing,
// and what a run finds interesting stays in build/fuzz/corpus for the next.
#pragma once

#undef NDEBUG // the asserts are the test
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

// The entry point that libFuzzer calls.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The input as numbers. Reading past the end gives 0.
typedef struct {
    const uint8_t *at;
    size_t left;
} fuzz_input_t;

uint8_t fuzz_byte(fuzz_input_t *input);
// Read one byte if it is below 255, else the next four, little-endian. Values are mostly small
// and sometimes anything.
uint32_t fuzz_number(fuzz_input_t *input);
