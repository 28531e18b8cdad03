// Ranks are ids. The merges are all ways to cut a token in two others, in the order of ranks of what they make, as
// transformers' converter lists them too.
#include "launch/model/convert/tokenizer/tiktoken.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/model/convert/tokenizer/kimi.h"
#include "launch/model/convert/vocabulary.h"

#define CLASS "TikTokenTokenizer"
#define TOKENS_MAX (1u << 22)
#define TOKEN_BYTES_MAX 1024u
#define PIECE_BYTES_MAX (2 * TOKEN_BYTES_MAX) // a byte is written as a character of one or two
#define MERGES_BYTES_MAX ((size_t)256 << 20)  // a few are usual

typedef struct {
    const char *at, *end; // what is left of the file
    uint32_t line;
    json_t *vocab;  // piece: rank
    char **pieces;  // [room] by rank; owned; NULL: no token has it
    uint32_t count; // one more than the highest rank
    uint32_t room;
} reader_t;

static or_status_t bad_line(const reader_t *reader, const char *what)
{
    return or_fail(OR_ERR_FORMAT, "tiktoken.model: line %" PRIu32 " %s", reader->line, what);
}

static or_status_t no_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for a tokenizer");
}

// ---- lines ----

// The value of a digit of base64; -1 if it is none.
static int digit_of(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : digit >= '0' && digit <= '9' ? digit - '0' + 52
           : digit == '+'                 ? 62
           : digit == '/'                 ? 63
                                          : -1;
}

// Write a byte as GPT-2's character for it. Returns the end.
static char *write_byte(unsigned char byte, char *to)
{
    uint32_t character = byte;
    if (byte <= ' ') {
        character = 0x100u + byte;
    } else if (byte >= 0x7F && byte <= 0xA0) {
        character = 0x121u + byte - 0x7Fu;
    } else if (byte == 0xAD) {
        character = 0x143u;
    }
    if (character < 0x80) {
        *to++ = (char)character;
    } else {
        *to++ = (char)(0xC0 | character >> 6);
        *to++ = (char)(0x80 | (character & 0x3F));
    }
    return to;
}

// Read base64 up to a space, as a piece. Four digits are three bytes, and '=' stands for digits that are left out.
static or_status_t read_piece(reader_t *reader, char piece[PIECE_BYTES_MAX + 1], size_t *length)
{
    uint32_t bits = 0, digits = 0, bytes = 0, padding = 0;
    char *to = piece;
    for (; reader->at < reader->end && *reader->at != ' ' && *reader->at != '\n'; reader->at++) {
        int digit = digit_of(*reader->at);
        padding += *reader->at == '=';
        digits++;
        if ((digit < 0 && *reader->at != '=') || (digit >= 0 && padding > 0) || padding > 2) {
            return bad_line(reader, "is not base64");
        }
        bits = bits << 6 | (digit < 0 ? 0u : (uint32_t)digit);
        for (uint32_t i = 0; digits % 4 == 0 && i < 3 - padding; i++) {
            if (bytes++ == TOKEN_BYTES_MAX) {
                return bad_line(reader, "has a token of more than 1024 bytes");
            }
            to = write_byte((unsigned char)(bits >> (16 - 8 * i)), to);
        }
    }
    *to = '\0';
    *length = (size_t)(to - piece);
    return digits % 4 == 0 && bytes > 0 ? OR_OK : bad_line(reader, "is not base64");
}

static or_status_t read_rank(reader_t *reader, uint32_t *rank)
{
    bool has_digits = false;
    *rank = 0;
    if (reader->at < reader->end && *reader->at == ' ') {
        reader->at++;
    }
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        has_digits = true;
        *rank = *rank * 10 + (uint32_t)(*reader->at - '0');
        if (*rank >= TOKENS_MAX) {
            return bad_line(reader, "has too large a rank");
        }
    }
    if (reader->at < reader->end && *reader->at == '\r') {
        reader->at++;
    }
    bool ends = reader->at == reader->end || *reader->at == '\n';
    return has_digits && ends ? OR_OK : bad_line(reader, "has no rank behind a space");
}

static or_status_t make_room(reader_t *reader, uint32_t rank)
{
    if (rank < reader->room) {
        return OR_OK;
    }
    uint32_t room = 2 * rank + 1024;
    char **pieces = realloc(reader->pieces, room * sizeof *pieces);
    if (pieces == NULL) {
        return no_memory();
    }
    memset(pieces + reader->room, 0, (room - reader->room) * sizeof *pieces);
    reader->pieces = pieces;
    reader->room = room;
    return OR_OK;
}

static or_status_t put_token(reader_t *reader, const char *piece, size_t length, uint32_t rank)
{
    or_status_t status = make_room(reader, rank);
    if (status != OR_OK) {
        return status;
    }
    if (reader->pieces[rank] != NULL || json_object_getn(reader->vocab, piece, length) != NULL) {
        return bad_line(reader, "has a token or a rank of another line");
    }
    reader->pieces[rank] = strdup(piece);
    reader->count = rank >= reader->count ? rank + 1 : reader->count;
    return reader->pieces[rank] != NULL &&
                   json_object_setn_new(reader->vocab, piece, length, json_integer(rank)) == 0
               ? OR_OK
               : no_memory();
}

static or_status_t read_lines(reader_t *reader)
{
    char piece[PIECE_BYTES_MAX + 1];
    or_status_t status = OR_OK;
    while (status == OR_OK && reader->at < reader->end) {
        size_t length = 0;
        uint32_t rank = 0;
        reader->line++;
        if (*reader->at != '\n') {
            status = read_piece(reader, piece, &length);
            status = status != OR_OK ? status : read_rank(reader, &rank);
            status = status != OR_OK ? status : put_token(reader, piece, length, rank);
        }
        reader->at += reader->at < reader->end;
    }
    return status;
}

// ---- merges ----

// A place where a token can be cut in two others.
typedef struct {
    json_int_t left, right; // ranks
    size_t at;
} cut_t;

static bool comes_before(cut_t a, cut_t b)
{
    return a.left != b.left ? a.left < b.left : a.right < b.right;
}

static size_t find_cuts(const reader_t *reader, const char *piece, cut_t *cuts)
{
    size_t length = strlen(piece), count = 0;
    for (size_t at = 1; at < length; at++) {
        const json_t *left = ((unsigned char)piece[at] & 0xC0) != 0x80
                                 ? json_object_getn(reader->vocab, piece, at)
                                 : NULL;
        const json_t *right =
            left != NULL ? json_object_getn(reader->vocab, piece + at, length - at) : NULL;
        if (right == NULL) {
            continue;
        }
        cut_t cut = {json_integer_value(left), json_integer_value(right), at};
        size_t place = count++;
        for (; place > 0 && comes_before(cut, cuts[place - 1]); place--) {
            cuts[place] = cuts[place - 1];
        }
        cuts[place] = cut;
    }
    return count;
}

static or_status_t list_merges(const reader_t *reader, json_t *merges)
{
    cut_t *cuts = malloc(PIECE_BYTES_MAX * sizeof *cuts);
    char *text = malloc(PIECE_BYTES_MAX + 2);
    size_t bytes = 0;
    bool has_memory = cuts != NULL && text != NULL;
    for (uint32_t rank = 0; has_memory && rank < reader->count; rank++) {
        const char *piece = reader->pieces[rank];
        size_t count = piece != NULL ? find_cuts(reader, piece, cuts) : 0;
        bytes += count * (piece != NULL ? strlen(piece) + 1 : 0);
        for (size_t i = 0; has_memory && bytes <= MERGES_BYTES_MAX && i < count; i++) {
            snprintf(text, PIECE_BYTES_MAX + 2, "%.*s %s", (int)cuts[i].at, piece,
                     piece + cuts[i].at);
            has_memory = json_array_append_new(merges, json_string(text)) == 0;
        }
    }
    free(text);
    free(cuts);
    if (bytes > MERGES_BYTES_MAX) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tiktoken.model: the ways to cut its tokens in two take over %zu MiB",
                       MERGES_BYTES_MAX >> 20);
    }
    return has_memory ? OR_OK : no_memory();
}

// ---- all of it ----

static or_status_t check_class(or_json_t settings)
{
    const json_t *class = json_object_get(settings.object, "tokenizer_class");
    return or_json_is(class, CLASS)
               ? OR_OK
               : or_fail(
                     OR_ERR_UNSUPPORTED,
                     "tiktoken.model: how texts are cut is in Python code of the class \"%.64s\"; "
                     "only that of " CLASS " (Kimi) is known",
                     json_is_string(class) ? json_string_value(class) : "");
}

static json_t *make_tokenizer(or_json_t settings, json_t *vocab, json_t *merges)
{
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              OR_KIMI_PATTERN, "behavior", "Isolated", "invert", 0);
    return json_pack("{s:{s:s, s:[o, {s:s, s:b, s:b}]}, s:{s:s, s:b, s:O, s:O}, s:o}",
                     "pre_tokenizer", "type", "Sequence", "pretokenizers", split, "type",
                     "ByteLevel", "add_prefix_space", 0, "use_regex", 0, "model", "type", "BPE",
                     "ignore_merges", 1, "vocab", vocab, "merges", merges, "added_tokens",
                     or_hf_list_added((or_json_t){NULL, NULL}, settings));
}

or_status_t or_hf_read_tiktoken(const char *bytes, size_t size, or_json_t settings,
                                json_t **tokenizer_p)
{
    reader_t reader = {.at = bytes, .end = bytes + size, .vocab = json_object()};
    json_t *merges = json_array();
    *tokenizer_p = NULL;
    or_status_t status =
        reader.vocab != NULL && merges != NULL ? check_class(settings) : no_memory();
    status = status != OR_OK ? status : read_lines(&reader);
    status = status != OR_OK ? status : list_merges(&reader, merges);
    if (status == OR_OK) {
        *tokenizer_p = make_tokenizer(settings, reader.vocab, merges);
        status = *tokenizer_p != NULL ? OR_OK : no_memory();
    }
    for (uint32_t rank = 0; rank < reader.count; rank++) {
        free(reader.pieces[rank]);
    }
    free(reader.pieces);
    json_decref(merges);
    json_decref(reader.vocab);
    return status;
}
