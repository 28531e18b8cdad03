#include "launch/model/convert/tokenizer/line_merges.h"

#include <stdlib.h>
#include <string.h>

#define ROW_MAX 256u // ends of lines in a token; each length takes time of its square
#define NO_RANK UINT32_MAX

typedef struct {
    or_json_t model;
    const json_t *vocab;
    const or_hf_tokens_t *tokens;
    json_t *kept;                   // merges that are written
    char *text;                     // [longest] what a merge makes
    size_t longest;                 // piece
    uint32_t (*ranks)[ROW_MAX + 1]; // of merges of two rows, by their lengths
    uint32_t symbols[ROW_MAX];      // lengths of rows, while one is merged
} lines_t;

static bool is_row(or_gguf_string_t text)
{
    size_t ends = 0;
    while (ends < text.length && text.bytes[ends] == '\n') {
        ends++;
    }
    return ends == text.length && ends > 0;
}

static bool has_end(or_gguf_string_t text)
{
    return memchr(text.bytes, '\n', text.length) != NULL;
}

static or_status_t refuse(const lines_t *lines, const char *why)
{
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: its %s, so that GGUF's kind \"gemma4\" would give other tokens",
                   lines->model.path, why);
}

// ---- merges ----

// Find the kind of a token of the list; 0 if there is none.
static or_hf_kind_t kind_of(const lines_t *lines, const char *bytes, size_t length)
{
    const json_t *id = json_object_getn(lines->vocab, bytes, length);
    return id == NULL ? 0 : (or_hf_kind_t)lines->tokens->kinds[json_integer_value(id)];
}

// Take a merge that can happen: all its tokens are text.
static or_status_t keep(lines_t *lines, const json_t *json, or_hf_merge_t merge)
{
    const bool left_is_row = is_row(merge.left), right_is_row = is_row(merge.right);
    if ((has_end(merge.left) || has_end(merge.right)) && !(left_is_row && right_is_row)) {
        return refuse(lines, "merges join ends of lines and other characters");
    }
    if (left_is_row && merge.left.length + merge.right.length <= ROW_MAX) {
        uint32_t *rank = &lines->ranks[merge.left.length][merge.right.length];
        const uint32_t own = (uint32_t)json_array_size(lines->kept);
        *rank = *rank == NO_RANK ? own : *rank; // readers keep the first of equal ones
    }
    return json_array_append(lines->kept, (json_t *)(uintptr_t)json) == 0
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for merges");
}

static or_status_t take(lines_t *lines, size_t i)
{
    const json_t *json = json_array_get(json_object_get(lines->model.object, "merges"), i);
    or_hf_merge_t merge;
    if (!or_hf_read_merge(json, &merge)) {
        return or_fail(OR_ERR_FORMAT, "%s: merge %zu is not two pieces without spaces",
                       lines->model.path, i);
    }
    const size_t length = merge.left.length + merge.right.length;
    if (length <= lines->longest) {
        memcpy(lines->text, merge.left.bytes, merge.left.length);
        memcpy(lines->text + merge.left.length, merge.right.bytes, merge.right.length);
    }
    const or_hf_kind_t made = length <= lines->longest ? kind_of(lines, lines->text, length) : 0;
    const or_hf_kind_t left = kind_of(lines, merge.left.bytes, merge.left.length);
    const or_hf_kind_t right = kind_of(lines, merge.right.bytes, merge.right.length);
    if (made == 0 || left == 0 || right == 0) {
        return or_fail(OR_ERR_FORMAT, "%s: merge %zu is not two tokens that make a third",
                       lines->model.path, i);
    }
    return made == OR_HF_NORMAL && left == OR_HF_NORMAL && right == OR_HF_NORMAL
               ? keep(lines, json, merge)
               : OR_OK;
}

// ---- rows ----

// Return the place of the pair with the lowest rank, of equal ones the first; `count` if none has one.
static uint32_t best_pair(const lines_t *lines, uint32_t count)
{
    uint32_t best = count, rank = NO_RANK;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const uint32_t own = lines->ranks[lines->symbols[i]][lines->symbols[i + 1]];
        if (own < rank) {
            rank = own;
            best = i;
        }
    }
    return best;
}

// Do the merges make a row of so many ends of lines of single ones?
static bool is_made(lines_t *lines, uint32_t length)
{
    uint32_t count = length;
    for (uint32_t i = 0; i < length; i++) {
        lines->symbols[i] = 1;
    }
    for (uint32_t at; (at = best_pair(lines, count)) < count; count--) {
        lines->symbols[at] += lines->symbols[at + 1];
        memmove(&lines->symbols[at + 1], &lines->symbols[at + 2],
                (count - at - 2) * sizeof *lines->symbols);
    }
    return count == 1;
}

static or_status_t check_rows(lines_t *lines)
{
    for (uint32_t id = 0; id < lines->tokens->size; id++) {
        const or_gguf_string_t piece = lines->tokens->pieces[id];
        const bool counts = lines->tokens->kinds[id] == OR_HF_NORMAL && is_row(piece);
        if (counts && (piece.length > ROW_MAX || !is_made(lines, (uint32_t)piece.length))) {
            return refuse(lines, "merges do not make all rows of ends of lines that are tokens");
        }
    }
    return OR_OK;
}

// ---- all of it ----

static or_status_t run(lines_t *lines, or_gguf_writer_t *writer)
{
    const json_t *list = json_object_get(lines->model.object, "merges");
    or_status_t status = OR_OK;
    memset(lines->ranks, 0xFF, (ROW_MAX + 1) * sizeof *lines->ranks);
    for (size_t i = 0; status == OR_OK && i < json_array_size(list); i++) {
        status = take(lines, i);
    }
    status = status != OR_OK ? status : check_rows(lines);
    json_t *model = json_pack("{s:O}", "merges", lines->kept);
    if (status == OR_OK && model == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for merges");
    }
    status = status != OR_OK ? status
                             : or_hf_write_merges((or_json_t){lines->model.path, model}, writer);
    json_decref(model);
    return status;
}

or_status_t or_hf_write_line_merges(or_json_t model, const or_hf_tokens_t *tokens,
                                    or_gguf_writer_t *writer)
{
    lines_t lines = {.model = model,
                     .vocab = json_object_get(model.object, "vocab"),
                     .tokens = tokens,
                     .longest = or_hf_longest_piece(tokens)};
    if (json_is_true(json_object_get(model.object, "ignore_merges"))) {
        return refuse(&lines, "model has \"ignore_merges\"");
    }
    lines.kept = json_array();
    lines.text = malloc(lines.longest + 1);
    lines.ranks = malloc((ROW_MAX + 1) * sizeof *lines.ranks);
    or_status_t status = lines.kept != NULL && lines.text != NULL && lines.ranks != NULL
                             ? run(&lines, writer)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for merges");
    free(lines.ranks);
    free(lines.text);
    json_decref(lines.kept);
    return status;
}
