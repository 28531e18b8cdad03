// bpe - byte-pair encoding: a vocabulary's merges as one table over ids, and the merging of pieces.
//
// A piece of text is a row of symbols, at first one an atom. Then the neighbours whose merge has the
// lowest rank (leftmost on ties) become one symbol, and so on until no neighbours have a merge.
//
//     atoms      o n c e       SentencePiece: characters; byte-level: bytes
//     symbols    on ce         merges: (o, n) -> on, (c, e) -> ce, (on, ce) -> once
//     symbols    once
//
// Both kinds of vocabulary have the same table (left id, right id) -> (rank, id of the union).
// Byte-level ones list it in their file, in order of rank, and so does Gemma 4's. A SentencePiece one merges any two symbols
// whose union is a token, best score first: every way to cut a token in two is a merge. A merge always
// gives a token. So no merge crosses two bytes that are neighbours in no token, and a piece may be cut
// between them beforehand: `joins` knows.
//
// Immutable after create: any thread; each call brings its own or_bpe_room_t.
#pragma once

#include "common/gguf/gguf.h"

struct or_vocab;

typedef struct {
    uint32_t left;
    uint32_t right;
    uint32_t rank; // OR_BPE_NO_RANK where the slot is empty
    int32_t merged;
} or_merge_t;

#define OR_BPE_NO_RANK UINT32_MAX

// A symbol is a token, or an atom that has none: then this bit and the character, or one more than
// the last character and the byte.
#define OR_BPE_ATOM 0x80000000u
#define OR_BPE_LONE_BYTE 0x110000u

typedef struct {
    bool atoms_are_bytes;
    or_merge_t *merges; // open addressing
    uint32_t mask;
    uint64_t seed; // of the places, so that no peer can choose merges that all want the same one
    // One byte a slot: bit h is set if a merge with hash h begins its search there. Most
    // pairs have no merge, and the filter is small enough to stay in a near cache.
    unsigned char *filter;
    uint32_t byte_symbols[256];   // the symbol of an atom that is this one byte
    unsigned char joins[256][32]; // bit b of joins[a]: some token has byte a, then b
} or_bpe_t;

// Make the merges of a vocabulary whose tokens and index are filled in (borrowed by the calls,
// not kept). For one that lists them they come from `gguf`. OR_ERR_NOT_FOUND if the file has none.
// OR_ERR_FORMAT, with the index, if a merge is not two tokens whose union is a token.
// OR_ERR_NO_MEMORY.
or_status_t or_bpe_create(const struct or_vocab *vocab, const or_gguf_t *gguf, or_bpe_t **bpe_p);
void or_bpe_destroy(or_bpe_t **bpe_p);

static inline bool or_bpe_joins(const or_bpe_t *bpe, char a, char b)
{
    unsigned char next = (unsigned char)b;
    return (bpe->joins[(unsigned char)a][next / 8] >> next % 8 & 1) != 0;
}

// The merge of two symbols, or NULL.
const or_merge_t *or_bpe_find(const or_bpe_t *bpe, uint32_t left, uint32_t right);

typedef struct {
    uint32_t id; // token or atom
    uint32_t at; // its first byte in the piece
} or_symbol_t;

// Working memory, as large as the largest piece so far needed. Starts as {0}.
typedef struct {
    or_symbol_t *symbols; // the result of the last or_bpe_merge
    uint32_t count;
    uint32_t room;
    struct or_bpe_node *nodes;
    struct or_bpe_pair *heap;
    uint32_t heap_count;
    uint32_t heap_room; // of nodes, half that of the heap
} or_bpe_room_t;

void or_bpe_room_fini(or_bpe_room_t *room);

// Cut `piece` (length > 0) into atoms and merge them; the symbols are in room->symbols. Time O(n
// log n). OR_ERR_NO_MEMORY.
or_status_t or_bpe_merge(const or_bpe_t *bpe, const struct or_vocab *vocab, const char *piece,
                         uint32_t length, or_bpe_room_t *room);

// GPT-2 writes any byte as a printable character, so that its pieces are text. Bytes that print ('!'
// to '~', 0xA1 to 0xAC, 0xAE to 0xFF) stand for themselves as Latin-1 characters. The other 68, in
// order, are U+0100 onwards: a space is U+0120.
//
// Write the bytes that `piece` stands for into `bytes` (at least `length` long); returns their count.
// A piece with a character outside the map stands for itself.
size_t or_byte_level_decode(const char *piece, size_t length, char *bytes);
