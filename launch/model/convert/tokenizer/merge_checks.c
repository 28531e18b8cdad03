// What a rule asks of the merges of a vocabulary over bytes, so that it cuts as the tokenizer does.
//
// Bytes that print as numbers: steps behind the one that makes bytes of a text also cut at superscripts and fractions, which
// stand for bytes of any character. Where no merge crosses such a cut, tokens are the same with it and without it.
//
// Whole tokens: "ignore_merges" takes a piece that is a token as that token. Where the merges make every token of its own
// bytes, that is what they make of the piece anyway.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"
#include "launch/model/convert/vocabulary.h"

#define PIECE_BYTES_MAX 4096u // each token takes time of the square of its length

// ---- numbers ----

static bool is_number(const char *text, size_t used)
{
    static const uint32_t latin_1[] = {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE};
    uint32_t code_point = or_utf8_code_point(text, used);
    bool found = code_point >= '0' && code_point <= '9';
    for (size_t i = 0; i < sizeof latin_1 / sizeof *latin_1; i++) {
        found = found || code_point == latin_1[i];
    }
    return found;
}

static bool begins_with_number(or_gguf_string_t piece)
{
    size_t used;
    return or_utf8_next(piece.bytes, piece.length, &used) == OR_UTF8_CHARACTER &&
           is_number(piece.bytes, used);
}

static bool ends_with_number(or_gguf_string_t piece)
{
    size_t at = piece.length - 1;
    while (at > 0 && ((unsigned char)piece.bytes[at] & 0xC0) == 0x80) {
        at--;
    }
    return begins_with_number((or_gguf_string_t){piece.bytes + at, piece.length - at});
}

static or_status_t check_numbers(or_json_t model, or_hf_numbers_t numbers)
{
    const json_t *list = json_object_get(model.object, "merges");
    for (size_t i = 0; i < json_array_size(list); i++) {
        or_hf_merge_t merge;
        if (!or_hf_read_merge(json_array_get(list, i), &merge)) {
            continue; // or_hf_write_merges says so
        }
        bool left = ends_with_number(merge.left), right = begins_with_number(merge.right);
        if (numbers == OR_HF_NUMBERS_APART ? left != right : left || right) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: merge %zu joins what the pre_tokenizer cuts byte by byte at "
                           "numbers, for which GGUF has no rule",
                           model.path, i);
        }
    }
    return OR_OK;
}

// ---- whole tokens ----

// A table of merges by the ids of both sides.
typedef struct {
    uint32_t left, right, merged, rank;
} slot_t;

typedef struct {
    or_json_t model;
    const json_t *vocab;
    slot_t *slots; // rank UINT32_MAX: empty
    uint32_t mask;
    char text[PIECE_BYTES_MAX];
    uint32_t symbols[PIECE_BYTES_MAX];
} reach_t;

static slot_t *find_slot(const reach_t *reach, uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(hash >> 32) & reach->mask;
    while (reach->slots[at].rank != UINT32_MAX &&
           (reach->slots[at].left != left || reach->slots[at].right != right)) {
        at = (at + 1) & reach->mask;
    }
    return &reach->slots[at];
}

static bool find_id(const reach_t *reach, const char *bytes, size_t length, uint32_t *id)
{
    const json_t *found = json_object_getn(reach->vocab, bytes, length);
    *id = (uint32_t)json_integer_value(found);
    return found != NULL;
}

static or_status_t add_merge(reach_t *reach, uint32_t rank, const or_hf_merge_t *merge)
{
    size_t length = merge->left.length + merge->right.length;
    slot_t slot = {.rank = rank};
    bool found = length <= PIECE_BYTES_MAX;
    if (found) {
        memcpy(reach->text, merge->left.bytes, merge->left.length);
        memcpy(reach->text + merge->left.length, merge->right.bytes, merge->right.length);
        found = find_id(reach, merge->left.bytes, merge->left.length, &slot.left) &&
                find_id(reach, merge->right.bytes, merge->right.length, &slot.right) &&
                find_id(reach, reach->text, length, &slot.merged);
    }
    if (!found) {
        return or_fail(OR_ERR_FORMAT, "%s: merge %" PRIu32 " makes no token of at most %u bytes",
                       reach->model.path, rank, PIECE_BYTES_MAX);
    }
    slot_t *place = find_slot(reach, slot.left, slot.right);
    if (place->rank == UINT32_MAX) {
        *place = slot;
    }
    return OR_OK;
}

static or_status_t fill_slots(reach_t *reach)
{
    const json_t *list = json_object_get(reach->model.object, "merges");
    size_t count = json_array_size(list), size = 2;
    while (size < 2 * count) {
        size *= 2;
    }
    reach->slots = size <= UINT32_MAX ? malloc(size * sizeof *reach->slots) : NULL;
    if (reach->slots == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu merges", count);
    }
    memset(reach->slots, 0xFF, size * sizeof *reach->slots);
    reach->mask = (uint32_t)(size - 1);
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        or_hf_merge_t merge;
        if (or_hf_read_merge(json_array_get(list, i), &merge)) {
            status = add_merge(reach, (uint32_t)i, &merge);
        }
    }
    return status;
}

// Write the piece's characters as symbols. Returns their count; 0 if one is no token.
static size_t take_characters(reach_t *reach, or_gguf_string_t piece)
{
    size_t count = 0, used;
    for (size_t at = 0; at < piece.length; at += used) {
        or_utf8_next(piece.bytes + at, piece.length - at, &used);
        if (!find_id(reach, piece.bytes + at, used, &reach->symbols[count++])) {
            return 0;
        }
    }
    return count;
}

// Merge the neighbours of the lowest rank, the first of equal ones, until none have a merge.
static size_t merge_symbols(reach_t *reach, size_t count)
{
    while (count > 1) {
        const slot_t *best = NULL;
        size_t place = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const slot_t *slot = find_slot(reach, reach->symbols[i], reach->symbols[i + 1]);
            if (slot->rank != UINT32_MAX && (best == NULL || slot->rank < best->rank)) {
                best = slot;
                place = i;
            }
        }
        if (best == NULL) {
            break;
        }
        reach->symbols[place] = best->merged;
        memmove(&reach->symbols[place + 1], &reach->symbols[place + 2],
                (count - place - 2) * sizeof *reach->symbols);
        count--;
    }
    return count;
}

static or_status_t check_tokens(reach_t *reach, const or_hf_tokens_t *tokens)
{
    for (uint32_t id = 0; id < tokens->size; id++) {
        or_gguf_string_t piece = tokens->pieces[id];
        if (piece.bytes == NULL || tokens->kinds[id] != OR_HF_NORMAL) {
            continue;
        }
        size_t count = piece.length <= PIECE_BYTES_MAX ? take_characters(reach, piece) : 0;
        if (count == 0 || merge_symbols(reach, count) != 1 || reach->symbols[0] != id) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: its merges do not make the token \"%.64s\" of its bytes, so that "
                           "\"ignore_merges\" matters, and GGUF's rule for its pre_tokenizer says "
                           "another",
                           reach->model.path, piece.bytes);
        }
    }
    return OR_OK;
}

static or_status_t check_whole(or_json_t model, const or_hf_tokens_t *tokens)
{
    reach_t *reach = calloc(1, sizeof *reach);
    if (reach == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to check merges");
    }
    reach->model = model;
    reach->vocab = json_object_get(model.object, "vocab");
    or_status_t status = fill_slots(reach);
    status = status != OR_OK ? status : check_tokens(reach, tokens);
    free(reach->slots);
    free(reach);
    return status;
}

or_status_t or_hf_check_merges(or_json_t model, const or_hf_tokens_t *tokens, or_hf_pre_t pre)
{
    or_status_t status =
        pre.numbers != OR_HF_NUMBERS_ANY ? check_numbers(model, pre.numbers) : OR_OK;
    return status == OR_OK && pre.needs_whole ? check_whole(model, tokens) : status;
}
