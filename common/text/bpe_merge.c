#include <stdlib.h>

#include "common/text/bpe.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

// For at most this many symbols the lowest rank is found by a plain search.
#define SMALL 64

#define NONE UINT32_MAX

// A symbol of a long piece, in a list: a merge makes the left one longer and takes the right one
// out, whose length becomes 0.
//
//     symbols   o n c e        on c e        once
//     next      1 2 3 -        2   3 -       -
typedef struct or_bpe_node {
    or_symbol_t symbol;
    uint32_t length;
    uint32_t prev; // NONE at the ends
    uint32_t next;
} node_t;

// Node `left` and its neighbour have a merge, which makes `length` bytes. Out of date as soon as
// either changes: then `left` is out of the list or the lengths no longer add up.
typedef struct or_bpe_pair {
    uint32_t rank;
    uint32_t left;
    uint32_t length;
    int32_t merged;
} pair_t;

void or_bpe_room_fini(or_bpe_room_t *room)
{
    free(room->heap);
    free(room->nodes);
    free(room->symbols);
    *room = (or_bpe_room_t){0};
}

static or_status_t no_memory(uint32_t length)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory to merge a piece of %u bytes", (unsigned)length);
}

// Make room for the symbols of a piece; nothing is kept from the one before. After a failure the
// room is for no symbols, which is true.
static or_status_t make_symbols(or_bpe_room_t *room, uint32_t length)
{
    if (length <= room->room) {
        return OR_OK;
    }
    free(room->symbols);
    room->symbols = malloc(length * sizeof *room->symbols);
    room->room = room->symbols != NULL ? length : 0;
    return room->room > 0 ? OR_OK : no_memory(length);
}

// Make room for the heap. A merge takes one pair off it and adds at most two, so two a symbol
// are enough.
static or_status_t make_heap(or_bpe_room_t *room)
{
    if (room->count <= room->heap_room) {
        return OR_OK;
    }
    free(room->heap);
    free(room->nodes);
    room->nodes = malloc(room->count * sizeof *room->nodes);
    room->heap = malloc((size_t)2 * room->count * sizeof *room->heap);
    room->heap_room = room->nodes != NULL && room->heap != NULL ? room->count : 0;
    return room->heap_room > 0 ? OR_OK : no_memory(room->count);
}

// -- atoms
// ------------------------------------------------------------------------------------------------------------

// Take the next atom. A byte that is not part of a character is an atom of its own.
static uint32_t next_symbol(const or_vocab_t *vocab, const or_bpe_t *bpe, const char *text,
                            size_t length, size_t *used)
{
    *used = 1;
    if (bpe->atoms_are_bytes || (unsigned char)*text < 0x80 ||
        or_utf8_next(text, length, used) != OR_UTF8_CHARACTER) {
        *used = 1;
        return bpe->byte_symbols[(unsigned char)*text];
    }
    int32_t id = or_vocab_find_text(vocab, text, *used);
    return id != OR_TOKEN_NONE ? (uint32_t)id : OR_BPE_ATOM | or_utf8_code_point(text, *used);
}

static or_status_t cut_into_atoms(const or_bpe_t *bpe, const or_vocab_t *vocab, const char *piece,
                                  uint32_t length, or_bpe_room_t *room)
{
    or_status_t status = make_symbols(room, length);
    if (status != OR_OK) {
        return status;
    }
    room->count = 0;
    size_t used;
    for (uint32_t at = 0; at < length; at += (uint32_t)used) {
        uint32_t id = next_symbol(vocab, bpe, piece + at, length - at, &used);
        room->symbols[room->count++] = (or_symbol_t){id, at};
    }
    return OR_OK;
}

// -- small pieces
// -----------------------------------------------------------------------------------------------------

// The symbols and, for each but the last, its merge with the one behind it.
typedef struct {
    or_symbol_t *symbols;
    uint32_t pairs;
    uint32_t ranks[SMALL];
    int32_t merged[SMALL];
} small_t;

static void rank_pair(const or_bpe_t *bpe, small_t *small, uint32_t i)
{
    const or_merge_t *merge = or_bpe_find(bpe, small->symbols[i].id, small->symbols[i + 1].id);
    small->ranks[i] = merge != NULL ? merge->rank : OR_BPE_NO_RANK;
    small->merged[i] = merge != NULL ? merge->merged : OR_TOKEN_NONE;
}

static void merge_pair(const or_bpe_t *bpe, small_t *small, uint32_t left)
{
    small->symbols[left].id = (uint32_t)small->merged[left];
    small->pairs--;
    for (uint32_t i = left; i < small->pairs; i++) {
        small->symbols[i + 1] = small->symbols[i + 2];
        small->ranks[i] = small->ranks[i + 1];
        small->merged[i] = small->merged[i + 1];
    }
    if (left > 0) {
        rank_pair(bpe, small, left - 1);
    }
    if (left < small->pairs) {
        rank_pair(bpe, small, left);
    }
}

static void merge_small(const or_bpe_t *bpe, or_bpe_room_t *room)
{
    small_t small;
    small.symbols = room->symbols;
    small.pairs = room->count - 1;
    for (uint32_t i = 0; i < small.pairs; i++) {
        rank_pair(bpe, &small, i);
    }
    while (small.pairs > 0) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < small.pairs; i++) {
            best = small.ranks[i] < small.ranks[best] ? i : best;
        }
        if (small.ranks[best] == OR_BPE_NO_RANK) {
            break;
        }
        merge_pair(bpe, &small, best);
    }
    room->count = small.pairs + 1;
}

// -- long pieces: a list of symbols and a heap of their pairs
// ---------------------------------------------------------

static bool is_better(pair_t a, pair_t b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.left < b.left);
}

static void heap_push(or_bpe_room_t *room, pair_t pair)
{
    uint32_t i = room->heap_count++;
    while (i > 0 && is_better(pair, room->heap[(i - 1) / 2])) {
        room->heap[i] = room->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    room->heap[i] = pair;
}

static pair_t heap_pop(or_bpe_room_t *room)
{
    pair_t best = room->heap[0];
    pair_t last = room->heap[--room->heap_count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < room->heap_count; child = 2 * i + 1) {
        if (child + 1 < room->heap_count && is_better(room->heap[child + 1], room->heap[child])) {
            child++;
        }
        if (!is_better(room->heap[child], last)) {
            break;
        }
        room->heap[i] = room->heap[child];
        i = child;
    }
    room->heap[i] = last;
    return best;
}

static void consider_pair(const or_bpe_t *bpe, or_bpe_room_t *room, uint32_t left)
{
    if (left == NONE || room->nodes[left].next == NONE) {
        return;
    }
    const node_t *node = &room->nodes[left];
    const node_t *next = &room->nodes[node->next];
    const or_merge_t *merge = or_bpe_find(bpe, node->symbol.id, next->symbol.id);
    if (merge != NULL) {
        heap_push(room, (pair_t){merge->rank, left, node->length + next->length, merge->merged});
    }
}

static void merge_with_next(const or_bpe_t *bpe, or_bpe_room_t *room, pair_t pair)
{
    node_t *node = &room->nodes[pair.left];
    node_t *next = &room->nodes[node->next];
    node->symbol.id = (uint32_t)pair.merged;
    node->length = pair.length;
    node->next = next->next;
    next->length = 0;
    if (node->next != NONE) {
        room->nodes[node->next].prev = pair.left;
    }
    consider_pair(bpe, room, node->prev);
    consider_pair(bpe, room, pair.left);
}

static void make_list(or_bpe_room_t *room, uint32_t piece_length)
{
    for (uint32_t i = 0; i < room->count; i++) {
        bool last = i + 1 == room->count;
        uint32_t end = last ? piece_length : room->symbols[i + 1].at;
        room->nodes[i] = (node_t){room->symbols[i], end - room->symbols[i].at, i > 0 ? i - 1 : NONE,
                                  last ? NONE : i + 1};
    }
}

static or_status_t merge_long(const or_bpe_t *bpe, uint32_t piece_length, or_bpe_room_t *room)
{
    or_status_t status = make_heap(room);
    if (status != OR_OK) {
        return status;
    }
    make_list(room, piece_length);
    room->heap_count = 0;
    for (uint32_t i = 0; i < room->count; i++) {
        consider_pair(bpe, room, i);
    }
    while (room->heap_count > 0) {
        pair_t pair = heap_pop(room);
        const node_t *node = &room->nodes[pair.left];
        bool current = node->length > 0 && node->next != NONE &&
                       node->length + room->nodes[node->next].length == pair.length;
        if (current) {
            merge_with_next(bpe, room, pair);
        }
    }
    room->count = 0;
    for (uint32_t i = 0; i != NONE; i = room->nodes[i].next) {
        room->symbols[room->count++] = room->nodes[i].symbol;
    }
    return OR_OK;
}

or_status_t or_bpe_merge(const or_bpe_t *bpe, const or_vocab_t *vocab, const char *piece,
                         uint32_t length, or_bpe_room_t *room)
{
    or_status_t status = cut_into_atoms(bpe, vocab, piece, length, room);
    if (status == OR_OK && room->count <= SMALL) {
        merge_small(bpe, room);
    } else if (status == OR_OK) {
        status = merge_long(bpe, length, room);
    }
    return status;
}
