// Merges: over bytes they are written as they are. Over characters GGUF has a score for each token instead, and merges any two
// neighbours whose union is a token, best score first. That gives the same tokens if the list has every such merge, and
// if the merges that make one token stand together: then a token's score is the place of its first one. (Of two merges
// that make the same token and overlap, scores take the left one and a list the first one; a vocabulary where these
// differ would need a character that repeats.)
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/text/utf8.h"
#include "launch/model/convert/vocabulary.h"

#define SPACE_MARK "\xE2\x96\x81"

bool or_hf_read_merge(const json_t *json, or_hf_merge_t *merge)
{
    if (json_is_array(json)) {
        const json_t *left = json_array_get(json, 0), *right = json_array_get(json, 1);
        bool two = json_array_size(json) == 2 && json_is_string(left) && json_is_string(right);
        if (two) {
            *merge = (or_hf_merge_t){or_json_string(left), or_json_string(right)};
        }
        return two && merge->left.length > 0 && merge->right.length > 0;
    }
    if (!json_is_string(json)) {
        return false;
    }
    or_gguf_string_t text = or_json_string(json);
    const char *space = memchr(text.bytes, ' ', text.length);
    if (space == NULL || space == text.bytes || space[1] == '\0') {
        return false;
    }
    size_t left = (size_t)(space - text.bytes);
    *merge = (or_hf_merge_t){{text.bytes, left}, {space + 1, text.length - left - 1}};
    return true;
}

static or_status_t bad_merge(or_json_t model, size_t i)
{
    return or_fail(OR_ERR_FORMAT, "%s: merge %zu is not two pieces without spaces", model.path, i);
}

static bool has_space(or_gguf_string_t text)
{
    return memchr(text.bytes, ' ', text.length) != NULL;
}

// ---- over bytes ----

or_status_t or_hf_write_merges(or_json_t model, or_gguf_writer_t *writer)
{
    const json_t *list = json_object_get(model.object, "merges");
    size_t count = json_array_size(list);
    or_gguf_string_t *texts = calloc(count + 1, sizeof *texts);
    char **owned = calloc(count + 1, sizeof *owned);
    or_status_t status = texts != NULL && owned != NULL
                             ? OR_OK
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for %zu merges", count);
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        or_hf_merge_t merge;
        if (!or_hf_read_merge(json_array_get(list, i), &merge) || has_space(merge.left) ||
            has_space(merge.right)) {
            status = bad_merge(model, i);
            break;
        }
        size_t length = merge.left.length + 1 + merge.right.length;
        owned[i] = malloc(length);
        if (owned[i] == NULL) {
            status = or_fail(OR_ERR_NO_MEMORY, "no memory for %zu merges", count);
            break;
        }
        memcpy(owned[i], merge.left.bytes, merge.left.length);
        owned[i][merge.left.length] = ' ';
        memcpy(owned[i] + merge.left.length + 1, merge.right.bytes, merge.right.length);
        texts[i] = (or_gguf_string_t){owned[i], length};
    }
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_strings(writer, "tokenizer.ggml.merges", texts, count);
    for (size_t i = 0; owned != NULL && i < count; i++) {
        free(owned[i]);
    }
    free(owned);
    free(texts);
    return status;
}

// ---- over characters ----

// The id of a token of ordinary text; -1 if these bytes are none.
static int64_t find_text(const json_t *vocab, const or_hf_tokens_t *tokens, const char *bytes,
                         size_t length)
{
    const json_t *id = json_object_getn(vocab, bytes, length);
    return id != NULL && tokens->kinds[json_integer_value(id)] == OR_HF_NORMAL
               ? (int64_t)json_integer_value(id)
               : -1;
}

// Is it a token or a character? GGUF's reader merges either.
static bool is_symbol(const json_t *vocab, const or_hf_tokens_t *tokens, const char *bytes,
                      size_t length)
{
    size_t used;
    return find_text(vocab, tokens, bytes, length) >= 0 ||
           (or_utf8_next(bytes, length, &used) == OR_UTF8_CHARACTER && used == length);
}

// Count the ways in which the tokens can be cut in two symbols.
static uint64_t count_cuts(const json_t *vocab, const or_hf_tokens_t *tokens)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < tokens->size; id++) {
        or_gguf_string_t piece = tokens->pieces[id];
        size_t length = tokens->kinds[id] == OR_HF_NORMAL ? piece.length : 0;
        for (size_t at = 1; at < length; at++) {
            bool between = ((unsigned char)piece.bytes[at] & 0xC0) != 0x80;
            count += between && is_symbol(vocab, tokens, piece.bytes, at) &&
                     is_symbol(vocab, tokens, piece.bytes + at, length - at);
        }
    }
    return count;
}

static or_status_t fail_scores(or_json_t model, const char *why)
{
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: its merges %s, so that no scores give the same tokens; GGUF's kind "
                   "\"llama\" cannot have this tokenizer",
                   model.path, why);
}

// The walk over the merges, in blocks. A block is what lies between the first and the last merge that make one token, and
// all its tokens have one score. A block of several tokens is only taken where these are runs of one character, as the
// spaces of Llama's vocabulary are, whose scores are equal. There the merges go from longer to shorter parts, and a run
// grows from its left end in either case.
typedef struct {
    or_json_t model;
    const json_t *vocab;
    or_hf_tokens_t *tokens;
    size_t *last;        // [tokens]: 1 + the last merge that makes it; 0: none does
    size_t block_end;    // the same of all tokens of the present block
    uint32_t blocks;     // begun so far
    int64_t token;       // the last one that was made, in the present block; -1: none
    or_hf_merge_t merge; // the one that made it
    bool is_mixed;       // the block has several tokens
    bool descends;       // its merges go from longer parts to shorter ones, of one run
    uint64_t counted;    // different merges
    uint32_t
        *lengths; // [longest piece]: the last block that had a merge with a left part this long
    char *text;   // [longest piece]: what the merge makes
    size_t longest;
} walk_t;

// Find the token that a merge makes; -1: one that is cut out of the text before.
static or_status_t find_made(const walk_t *walk, size_t i, or_hf_merge_t *merge, int64_t *token)
{
    const json_t *list = json_object_get(walk->model.object, "merges");
    if (!or_hf_read_merge(json_array_get(list, i), merge)) {
        return bad_merge(walk->model, i);
    }
    size_t length = merge->left.length + merge->right.length;
    if (length <= walk->longest) {
        memcpy(walk->text, merge->left.bytes, merge->left.length);
        memcpy(walk->text + merge->left.length, merge->right.bytes, merge->right.length);
    }
    if (length > walk->longest || json_object_getn(walk->vocab, walk->text, length) == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s: merge %zu makes no token", walk->model.path, i);
    }
    *token = find_text(walk->vocab, walk->tokens, walk->text, length);
    return OR_OK;
}

// Is a text one character again and again?
static bool is_run(const char *text, size_t length)
{
    size_t used;
    if (or_utf8_next(text, length, &used) != OR_UTF8_CHARACTER || length % used != 0) {
        return false;
    }
    return memcmp(text, text + used, length - used) == 0;
}

// Does a merge make a run of the same character as the last one, of shorter parts?
static bool descends_from(const walk_t *walk, or_hf_merge_t merge)
{
    const or_hf_merge_t *before = &walk->merge;
    bool shorter =
        merge.left.length < before->left.length ||
        (merge.left.length == before->left.length && merge.right.length < before->right.length);
    size_t used;
    or_utf8_next(merge.left.bytes, merge.left.length, &used);
    bool runs = is_run(walk->text, merge.left.length + merge.right.length);
    return shorter && runs && used <= before->left.length &&
           memcmp(merge.left.bytes, before->left.bytes, used) == 0;
}

static or_status_t take_merge(walk_t *walk, size_t i)
{
    or_hf_merge_t merge;
    int64_t token = -1;
    or_status_t status = find_made(walk, i, &merge, &token);
    if (status != OR_OK || token < 0) {
        return status;
    }
    if (!is_symbol(walk->vocab, walk->tokens, merge.left.bytes, merge.left.length) ||
        !is_symbol(walk->vocab, walk->tokens, merge.right.bytes, merge.right.length)) {
        return fail_scores(walk->model, "use tokens that are not text");
    }
    bool begins = i >= walk->block_end;
    walk->blocks += begins;
    walk->is_mixed = !begins && (walk->is_mixed || token != walk->token);
    walk->descends = begins ? is_run(walk->text, merge.left.length + merge.right.length)
                            : walk->descends && descends_from(walk, merge);
    if (walk->is_mixed && !walk->descends) {
        return fail_scores(walk->model, "make a token at several places in their order");
    }
    // In a block of one token the left part tells merges apart, and in any block that descends all are different.
    walk->counted += walk->descends || walk->lengths[merge.left.length] != walk->blocks;
    walk->lengths[merge.left.length] = walk->blocks;
    walk->tokens->scores[token] = 1.0f - (float)walk->blocks;
    walk->block_end = walk->last[token] > walk->block_end ? walk->last[token] : walk->block_end;
    walk->token = token;
    walk->merge = merge;
    return OR_OK;
}

size_t or_hf_longest_piece(const or_hf_tokens_t *tokens)
{
    size_t longest = 0;
    for (uint32_t id = 0; id < tokens->size; id++) {
        longest = tokens->pieces[id].length > longest ? tokens->pieces[id].length : longest;
    }
    return longest;
}

static or_status_t walk_merges(walk_t *walk)
{
    size_t count = json_array_size(json_object_get(walk->model.object, "merges"));
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        or_hf_merge_t merge;
        int64_t token = -1;
        status = find_made(walk, i, &merge, &token);
        if (status == OR_OK && token >= 0) {
            walk->last[token] = i + 1;
        }
    }
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        status = take_merge(walk, i);
    }
    return status;
}

// Tokens that no merge makes are single characters, which need no score; the lowest keeps them apart in the file.
static void score_others(const walk_t *walk)
{
    for (uint32_t id = 0; id < walk->tokens->size; id++) {
        if (walk->last[id] == 0 && walk->tokens->kinds[id] == OR_HF_NORMAL) {
            walk->tokens->scores[id] = 0.0f - (float)walk->blocks;
        }
    }
}

or_status_t or_hf_fill_scores(or_json_t model, or_hf_tokens_t *tokens)
{
    walk_t walk = {.model = model,
                   .vocab = json_object_get(model.object, "vocab"),
                   .tokens = tokens,
                   .token = -1,
                   .longest = or_hf_longest_piece(tokens)};
    walk.lengths = calloc(walk.longest + 1, sizeof *walk.lengths);
    walk.last = calloc(tokens->size, sizeof *walk.last);
    walk.text = malloc(walk.longest + 1);
    or_status_t status = walk.lengths != NULL && walk.last != NULL && walk.text != NULL
                             ? walk_merges(&walk)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for %u tokens", tokens->size);
    if (status == OR_OK && walk.counted != count_cuts(walk.vocab, tokens)) {
        status = fail_scores(model, "lack some that its tokens allow");
    }
    if (status == OR_OK) {
        score_others(&walk);
    }
    free(walk.text);
    free(walk.last);
    free(walk.lengths);
    return status;
}

// ---- what else tokenizers over characters do ----

static or_status_t fail_characters(or_json_t tokenizer, const char *what)
{
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: %s, which is neither a byte-level tokenizer nor one of SentencePiece's",
                   tokenizer.path, what);
}

static bool replaces_spaces(const json_t *step)
{
    return or_json_is(json_object_get(step, "type"), "Replace") &&
           or_json_is(json_object_get(json_object_get(step, "pattern"), "String"), " ") &&
           or_json_is(json_object_get(step, "content"), SPACE_MARK);
}

static bool prepends_space(const json_t *step)
{
    return or_json_is(json_object_get(step, "type"), "Prepend") &&
           or_json_is(json_object_get(step, "prepend"), SPACE_MARK);
}

// A normalizer that writes spaces as U+2581, perhaps with one put before.
static bool is_known_normalizer(const json_t *normalizer, bool *adds_space)
{
    const json_t *steps = json_object_get(normalizer, "normalizers");
    if (replaces_spaces(normalizer)) {
        *adds_space = false;
        return true;
    }
    *adds_space = true;
    return or_json_is(json_object_get(normalizer, "type"), "Sequence") &&
           json_array_size(steps) == 2 && prepends_space(json_array_get(steps, 0)) &&
           replaces_spaces(json_array_get(steps, 1));
}

// A step that does the same before pieces are cut, and cuts none.
static bool is_known_metaspace(or_json_t tokenizer, const json_t *step, bool *adds_space)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    *adds_space = !or_json_is(scheme, "never");
    if (or_json_is(scheme, "first")) {
        or_log(OR_LOG_INFO,
               "%s: only the text's begin gets a space before it; GGUF puts one behind special "
               "tokens too",
               tokenizer.path);
    }
    return or_json_is(json_object_get(step, "type"), "Metaspace") &&
           or_json_is(json_object_get(step, "replacement"), SPACE_MARK) &&
           json_is_false(json_object_get(step, "split")) &&
           (or_json_is(scheme, "never") || or_json_is(scheme, "first") ||
            or_json_is(scheme, "always"));
}

// A cut at spaces, of which the normalizer has left none.
static bool cuts_nothing(const json_t *step)
{
    return or_json_is(json_object_get(step, "type"), "Split") &&
           or_json_is(json_object_get(json_object_get(step, "pattern"), "String"), " ");
}

or_status_t or_hf_check_characters(or_json_t tokenizer, bool *adds_space)
{
    const json_t *model = json_object_get(tokenizer.object, "model");
    const json_t *normalizer = json_object_get(tokenizer.object, "normalizer");
    const json_t *pre = json_object_get(tokenizer.object, "pre_tokenizer");
    bool has_normalizer = normalizer != NULL && !json_is_null(normalizer);
    bool has_pre = pre != NULL && !json_is_null(pre);
    if (!json_is_true(json_object_get(model, "byte_fallback"))) {
        return fail_characters(tokenizer, "it has no \"byte_fallback\"");
    }
    if (has_normalizer) {
        return is_known_normalizer(normalizer, adds_space) && (!has_pre || cuts_nothing(pre))
                   ? OR_OK
                   : fail_characters(tokenizer, "its normalizer or pre_tokenizer is another");
    }
    return has_pre && is_known_metaspace(tokenizer, pre, adds_space)
               ? OR_OK
               : fail_characters(tokenizer, "its pre_tokenizer is another");
}
