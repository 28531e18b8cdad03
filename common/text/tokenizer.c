#include "common/text/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30) // so that places and ids are counted in 32 bits
#define MAX_CACHE_SLOTS 16384

// A part that was merged in this call: its place in the text, and its ids in the result. Words
// come again and again, and so do their ids.
typedef struct {
    uint32_t at;
    uint32_t length; // 0: empty slot
    uint32_t first;
    uint32_t count;
} cached_t;

typedef struct {
    const or_vocab_t *vocab;
    bool whole; // no byte may be left out
    char *text; // the fragments between marked tokens, each with its space in front
    size_t text_bytes;
    size_t fragment;      // the start of the last fragment
    size_t source;        // the place of its first byte in the caller's text
    size_t spaces;        // the number of spaces put before it: 0 or 1
    or_settled_t settled; // the tokens of the caller's first `bytes` bytes
    cached_t *cache;      // a part's hash is its slot
    uint32_t cache_mask;
    or_bpe_room_t room;
    int32_t *ids; // the result
    size_t count;
} work_t;

// -- parts: no merge crosses their ends
// ------------------------------------------------------------------------------------------

// Emit the tokens of an atom that has none of its own: its bytes' tokens, or one unknown token.
// A byte-level vocabulary without a token for a byte leaves it out, because its unknown token is
// usually its end of text.
static or_status_t emit_atom(work_t *work, const char *bytes, uint32_t length)
{
    const or_vocab_t *vocab = work->vocab;
    size_t start = work->count;
    for (uint32_t i = 0; i < length; i++) {
        int32_t id = vocab->byte_tokens[(unsigned char)bytes[i]];
        if (id == OR_TOKEN_NONE) {
            work->count = start;
            if (!vocab->byte_level) {
                work->ids[work->count++] = vocab->unknown;
            } else if (work->whole) {
                return or_fail(OR_ERR_INVALID,
                               "the model's vocabulary has no token for byte 0x%02X of the text",
                               (unsigned char)bytes[i]);
            }
            return OR_OK;
        }
        work->ids[work->count++] = id;
    }
    return OR_OK;
}

// A row of ends of lines that is a token is that token, whatever its merges.
static bool emit_line_ends(work_t *work, const char *part, uint32_t length)
{
    bool may_be = work->vocab->by_lines && part[0] == '\n';
    int32_t id = may_be ? or_vocab_find_text(work->vocab, part, length) : OR_TOKEN_NONE;
    if (id != OR_TOKEN_NONE) {
        work->ids[work->count++] = id;
    }
    return id != OR_TOKEN_NONE;
}

static or_status_t merge_part(work_t *work, const char *part, uint32_t length)
{
    if (emit_line_ends(work, part, length)) {
        return OR_OK;
    }
    or_bpe_room_t *room = &work->room;
    or_status_t status = or_bpe_merge(work->vocab->bpe, work->vocab, part, length, room);
    for (uint32_t i = 0; status == OR_OK && i < room->count; i++) {
        or_symbol_t symbol = room->symbols[i];
        if ((symbol.id & OR_BPE_ATOM) == 0) {
            work->ids[work->count++] = (int32_t)symbol.id;
        } else {
            uint32_t end = i + 1 < room->count ? room->symbols[i + 1].at : length;
            status = emit_atom(work, part + symbol.at, end - symbol.at);
        }
    }
    return status;
}

// The token at byte `source` of the caller's text is next. If that byte is settled, or directly
// behind what is, the tokens so far are settled.
static void count_settled(work_t *work, size_t source)
{
    if (work->settled.bytes > 0 && source <= work->settled.bytes) {
        work->settled.tokens = work->count;
    }
}

// The place of text[at] in the caller's text. A space of our own is at the place where the
// fragment begins.
static size_t source_of(const work_t *work, size_t at)
{
    size_t in_fragment = at - work->fragment;
    return work->source + (in_fragment > work->spaces ? in_fragment - work->spaces : 0);
}

static or_status_t tokenize_part(work_t *work, size_t start, size_t end)
{
    count_settled(work, source_of(work, start));
    uint32_t length = (uint32_t)(end - start);
    const char *part = work->text + start;
    cached_t *cached = &work->cache[XXH3_64bits(part, length) & work->cache_mask];
    if (cached->length == length && memcmp(work->text + cached->at, part, length) == 0) {
        memcpy(work->ids + work->count, work->ids + cached->first,
               cached->count * sizeof *work->ids);
        work->count += cached->count;
        return OR_OK;
    }
    size_t first = work->count;
    or_status_t status = merge_part(work, part, length);
    *cached = (cached_t){(uint32_t)start, length, (uint32_t)first, (uint32_t)(work->count - first)};
    return status;
}

// May a character begin with this byte?
static bool begins_atom(const or_vocab_t *vocab, char byte)
{
    return vocab->byte_level || ((unsigned char)byte & 0xC0) != 0x80;
}

static or_status_t tokenize_parts(work_t *work, size_t start, size_t end)
{
    const or_vocab_t *vocab = work->vocab;
    const char *text = work->text;
    or_status_t status = OR_OK;
    for (size_t at = start + 1; status == OR_OK && at < end; at++) {
        if (!or_bpe_joins(vocab->bpe, text[at - 1], text[at]) && begins_atom(vocab, text[at])) {
            status = tokenize_part(work, start, at);
            start = at;
        }
    }
    return status == OR_OK ? tokenize_part(work, start, end) : status;
}

// -- pieces and fragments
// -------------------------------------------------------------------------------------------------

static or_status_t tokenize_piece(void *context, size_t start, size_t end)
{
    work_t *work = context;
    start += work->fragment;
    end += work->fragment;
    if (work->vocab->ignores_merges) {
        int32_t id = or_vocab_find_text(work->vocab, work->text + start, end - start);
        if (id != OR_TOKEN_NONE) {
            count_settled(work, source_of(work, start));
            work->ids[work->count++] = id;
            return OR_OK;
        }
    }
    return tokenize_parts(work, start, end);
}

// A `fresh` fragment begins with a space of the tokenizer's own, if the vocabulary wants one.
static or_status_t tokenize_fragment(work_t *work, const char *text, size_t start, size_t end,
                                     bool fresh)
{
    size_t length = end - start;
    count_settled(work, start);
    if (length == 0) {
        return OR_OK;
    }
    work->fragment = work->text_bytes;
    work->source = start;
    work->spaces = fresh && work->vocab->adds_space;
    if (work->spaces > 0) {
        work->text[work->text_bytes++] = ' ';
    }
    memcpy(work->text + work->text_bytes, text + start, length);
    work->text_bytes += length;
    return work->vocab->pretokenizer != NULL
               ? or_pretokenize(work->vocab->pretokenizer, work->text + work->fragment, length,
                                tokenize_piece, work)
               : tokenize_parts(work, work->fragment, work->text_bytes);
}

// -- the text: fragments and marked tokens
// ----------------------------------------------------------------------------

static or_status_t tokenize_text(work_t *work, const char *text, size_t length, unsigned flags)
{
    or_status_t status = OR_OK;
    size_t start = 0; // of the fragment that is growing
    bool fresh = (flags & OR_TOKENIZE_CONTINUES) == 0;
    bool special = (flags & OR_TOKENIZE_SPECIAL) != 0;
    size_t at = 0;
    while (status == OR_OK && at < length) {
        int32_t id = or_vocab_marked_at(work->vocab, text + at, length - at, special);
        if (id == OR_TOKEN_NONE) {
            at++;
            continue;
        }
        status = tokenize_fragment(work, text, start, at, fresh);
        fresh = work->vocab->tokens[id].kind == OR_TOKEN_SPECIAL;
        work->ids[work->count++] = id;
        at += work->vocab->tokens[id].piece_length;
        start = at;
    }
    if (status == OR_OK) {
        status = tokenize_fragment(work, text, start, length, fresh);
    }
    count_settled(work, length);
    return status;
}

// Make room for the worst case of `length` bytes: one token a byte. A fragment may add a space
// of its own, but each after the first has a marked token of at least one byte before it.
static or_status_t work_init(work_t *work, const or_vocab_t *vocab, size_t length)
{
    size_t room = length + 1;
    uint32_t slots = 16;
    while (slots < room / 8 && slots < MAX_CACHE_SLOTS) {
        slots *= 2;
    }
    *work = (work_t){.vocab = vocab, .cache_mask = slots - 1};
    work->text = malloc(room);
    work->cache = calloc(slots, sizeof *work->cache);
    work->ids = malloc((2 * room + 1) * sizeof *work->ids);
    if (work->text == NULL || work->cache == NULL || work->ids == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to tokenise %zu bytes", length);
    }
    return OR_OK;
}

// Free what is left; the caller of or_tokenize may have taken the ids.
static void work_fini(work_t *work)
{
    or_bpe_room_fini(&work->room);
    free(work->ids);
    free(work->cache);
    free(work->text);
}

static or_status_t tokenize(const or_vocab_t *vocab, const char *text, size_t length,
                            unsigned flags, int32_t **ids_p, size_t *count_p, or_settled_t *settled)
{
    if (length > MAX_TEXT_BYTES) {
        return or_fail(OR_ERR_INVALID, "a text of %zu bytes is too long to tokenise", length);
    }
    work_t work;
    or_status_t status = work_init(&work, vocab, length);
    if (status == OR_OK && (flags & OR_TOKENIZE_BOS) != 0 && vocab->bos != OR_TOKEN_NONE) {
        work.ids[work.count++] = vocab->bos;
    }
    if (status == OR_OK) {
        work.settled.bytes = settled->bytes;
        work.whole = (flags & OR_TOKENIZE_WHOLE) != 0;
        status = tokenize_text(&work, text, length, flags);
    }
    if (status == OR_OK) {
        *settled = work.settled;
        *ids_p = work.ids;
        *count_p = work.count;
        work.ids = NULL;
    }
    work_fini(&work);
    return status;
}

or_status_t or_tokenize(const or_vocab_t *vocab, const char *text, size_t length, unsigned flags,
                        int32_t **ids_p, size_t *count_p)
{
    or_settled_t none = {0, 0};
    return tokenize(vocab, text, length, flags, ids_p, count_p, &none);
}

// -- a text that may go on
// --------------------------------------------------------------------------------------------

// Find the start of the last fragment whose start is certain, and the start of the rest. It is
// certain whether a user-defined token begins at a place if the longest one would end within the
// text.
static size_t last_fragment(const or_vocab_t *vocab, const char *text, size_t length, size_t *rest)
{
    size_t start = 0;
    size_t at = 0;
    while (at + vocab->widest_user <= length) {
        int32_t id = or_vocab_marked_at(vocab, text + at, length - at, false);
        if (id == OR_TOKEN_NONE) {
            at++;
        } else {
            at += vocab->tokens[id].piece_length;
            start = at;
        }
    }
    *rest = at;
    return start;
}

or_status_t or_tokenize_settled(const or_vocab_t *vocab, const char *text, size_t length,
                                size_t *settled)
{
    size_t start = 0;
    size_t end = length;
    if (vocab->widest_user > 0) {
        start = last_fragment(vocab, text, length, &end);
    }
    size_t open = end - start;
    *settled = 0;
    if (vocab->pretokenizer != NULL) {
        or_status_t status =
            or_pretokenize_settled(vocab->pretokenizer, text + start, open, settled, &open);
        if (status != OR_OK) {
            return status;
        }
    }
    *settled += start;
    // Cut within a piece at the last place that no merge crosses. A piece that may be one
    // token whatever its merges is never cut.
    for (size_t at = start + open; !vocab->ignores_merges && at > *settled + 1;) {
        at--;
        if (!or_bpe_joins(vocab->bpe, text[at - 1], text[at]) && begins_atom(vocab, text[at])) {
            *settled = at;
        }
    }
    return OR_OK;
}

or_status_t or_tokenize_growing(const or_vocab_t *vocab, const char *text, size_t length,
                                unsigned flags, int32_t **ids_p, size_t *count_p,
                                or_settled_t *settled)
{
    or_settled_t found = {0, 0};
    or_status_t status = or_tokenize_settled(vocab, text, length, &found.bytes);
    if (status == OR_OK) {
        status = tokenize(vocab, text, length, flags, ids_p, count_p, &found);
    }
    if (status == OR_OK) {
        *settled = found;
    }
    return status;
}

// ---- tokens to text ----

void or_detok_init(or_detok_t *detok, const or_vocab_t *vocab, bool at_text_start, bool exact)
{
    *detok = (or_detok_t){
        .vocab = vocab, .strip_space = at_text_start && vocab->adds_space, .exact = exact};
}

// Copy an ill-formed sequence as the mode wants it; returns the bytes written.
static size_t put_ill_formed(const or_detok_t *detok, const char *bytes, size_t length, char *out)
{
    if (detok->exact) {
        memcpy(out, bytes, length);
        return length;
    }
    memcpy(out, OR_UTF8_REPLACEMENT, OR_UTF8_REPLACEMENT_BYTES);
    return OR_UTF8_REPLACEMENT_BYTES;
}

// Take one byte. The held bytes are always the beginning of a character. So a byte either
// completes it, continues it, or ends it as ill-formed and begins a new one.
static size_t push_byte(or_detok_t *detok, unsigned char byte, char *out)
{
    size_t written = 0;
    detok->held[detok->held_count++] = byte;
    while (detok->held_count > 0) {
        const char *held = (const char *)detok->held;
        size_t used;
        or_utf8_t found = or_utf8_next(held, detok->held_count, &used);
        if (found == OR_UTF8_INCOMPLETE) {
            break;
        }
        if (found == OR_UTF8_CHARACTER) {
            memcpy(out + written, held, used);
            written += used;
        } else {
            written += put_ill_formed(detok, held, used, out + written);
        }
        detok->held_count -= (uint32_t)used;
        memmove(detok->held, detok->held + used, detok->held_count);
    }
    return written;
}

const char *or_detok_bytes(or_detok_t *detok, int32_t id, uint32_t *length)
{
    assert(id >= 0 && (uint32_t)id < detok->vocab->size);
    const token_t *token = &detok->vocab->tokens[id];
    const char *bytes = token->bytes;
    *length = detok->vocab->widths[id];
    if (detok->strip_space && *length > 0) {
        detok->strip_space = false;
        // A byte token loses its space too, because in a vocabulary without a token for
        // the space it is one.
        if ((token->kind == OR_TOKEN_TEXT || token->kind == OR_TOKEN_BYTE) && bytes[0] == ' ') {
            bytes++;
            (*length)--;
        }
    }
    return bytes;
}

size_t or_detok_push(or_detok_t *detok, int32_t id, char *out)
{
    uint32_t width;
    const char *bytes = or_detok_bytes(detok, id, &width);
    size_t written = 0;
    for (uint32_t i = 0; i < width; i++) {
        written += push_byte(detok, (unsigned char)bytes[i], out + written);
    }
    return written;
}

size_t or_detok_flush(or_detok_t *detok, char *out)
{
    if (detok->held_count == 0) {
        return 0;
    }
    size_t written = put_ill_formed(detok, (const char *)detok->held, detok->held_count, out);
    detok->held_count = 0;
    return written;
}

or_status_t or_detokenize(const or_vocab_t *vocab, const int32_t *ids, size_t count, char **text_p,
                          size_t *length_p)
{
    size_t room = 1;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab->size) {
            return or_fail(OR_ERR_INVALID, "%d is not a token: the vocabulary has ids 0 to %u",
                           (int)ids[i], (unsigned)vocab->size - 1);
        }
        room += vocab->widths[ids[i]];
    }
    char *text = malloc(room);
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a text of %zu bytes", room);
    }
    or_detok_t detok;
    size_t length = 0;
    or_detok_init(&detok, vocab, true, true);
    for (size_t i = 0; i < count; i++) {
        length += or_detok_push(&detok, ids[i], text + length);
    }
    length += or_detok_flush(&detok, text + length);
    text[length] = '\0';
    *text_p = text;
    *length_p = length;
    return OR_OK;
}
