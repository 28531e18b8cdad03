// token_trie - the tokens of a vocabulary as strings, to find the longest one that a text begins
// with.
//
//     entry  string  token        state       entries   token here   goes on
//     0      "a"     5            start       [0, 4)    none         yes
//     1      "ab"    9            after a     [0, 3)    5            yes
//     2      "abc"   12           after ab    [1, 3)    9            yes
//     3      "b"     6            after b     [3, 4)    6            no
//
// The data is one sorted list of strings. A state is the run of entries that begin with the
// bytes walked so far, and each byte narrows it by binary search. Text and user-defined tokens
// are in the list. So are byte tokens whose byte no other token prints alone. Of tokens with the
// same string one is listed: user-defined before text before byte, then the higher id, which is
// what a tokenizer gives. Immutable after create: any thread.
#pragma once

#include "common/text/vocab/vocab.h"

typedef struct or_token_trie or_token_trie_t;

// The state of a walk. Plain data: copy it to walk on from the same place twice.
typedef struct {
    uint32_t first, end; // entries that begin with the bytes walked
    uint32_t depth;      // how many bytes those are
} or_trie_state_t;

#define OR_TRIE_NO_ENTRY UINT32_MAX

// Borrows vocab until destroy. OR_ERR_NO_MEMORY.
or_status_t or_token_trie_create(const or_vocab_t *vocab, or_token_trie_t **trie_p);
void or_token_trie_destroy(or_token_trie_t **trie_p);

const or_vocab_t *or_token_trie_vocab(const or_token_trie_t *trie);
uint32_t or_token_trie_count(const or_token_trie_t *trie);  // entries
uint32_t or_token_trie_widest(const or_token_trie_t *trie); // bytes of the longest string
// A token's entry: OR_TRIE_NO_ENTRY if its string is another token's, or none. Id in range.
uint32_t or_token_trie_entry(const or_token_trie_t *trie, int32_t id);
// The token of an entry below the count.
int32_t or_token_trie_at(const or_token_trie_t *trie, uint32_t entry);

or_trie_state_t or_token_trie_start(const or_token_trie_t *trie);
// Go on by a byte. If no token does, the result is false and the state is unchanged.
bool or_token_trie_walk(const or_token_trie_t *trie, or_trie_state_t *state, uint8_t byte);
// The token whose string is exactly the bytes walked, or OR_TOKEN_NONE.
int32_t or_token_trie_token(const or_token_trie_t *trie, or_trie_state_t state);
// Are there longer strings that begin with the bytes walked?
bool or_token_trie_goes_on(const or_token_trie_t *trie, or_trie_state_t state);
