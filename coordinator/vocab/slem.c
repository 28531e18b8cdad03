#include "coordinator/vocab/slem.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"

// A path is tokenised with so much committed text: the last bytes, whose tokens the path may still change.
#define LOOK_BEHIND_BYTES 64u

struct or_slem {
    const or_vocab_pair_t *pair; // borrowed
    // The last committed bytes, then those of a path; scratch.
    char *text;
    size_t bytes;
    size_t room;
    size_t committed; // bytes of `text` that are
    bool fresh;       // nothing committed prints: the target's own space is still to come
    bool empty;       // and the drafter's, which may also be so behind that space
    int32_t *path;    // [OR_TREE_NODES_MAX] a node's tokens from its end to the root
    size_t left;      // bytes that this tree's paths may still take to the tokenizer
};

or_status_t or_slem_create(const or_vocab_pair_t *pair, or_slem_t **slem_p)
{
    or_slem_t *slem = calloc(1, sizeof *slem);
    if (slem != NULL) {
        slem->path = malloc(OR_TREE_NODES_MAX * sizeof *slem->path);
    }
    if (slem == NULL || slem->path == NULL) {
        or_slem_destroy(&slem);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to translate trees");
    }
    slem->pair = pair;
    *slem_p = slem;
    return OR_OK;
}

void or_slem_destroy(or_slem_t **slem_p)
{
    if (*slem_p != NULL) {
        free((*slem_p)->path);
        free((*slem_p)->text);
        free(*slem_p);
        *slem_p = NULL;
    }
}

// -- text
// -------------------------------------------------------------------------------------------------

static or_status_t append_token(or_slem_t *slem, or_detok_t *detok, int32_t token)
{
    uint32_t width;
    const char *bytes = or_detok_bytes(detok, token, &width);
    if (slem->text == NULL || slem->bytes + width > slem->room) {
        size_t room = 2 * (slem->bytes + width) + LOOK_BEHIND_BYTES;
        char *text = realloc(slem->text, room);
        if (text == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a path of %zu bytes", room);
        }
        slem->text = text;
        slem->room = room;
    }
    if (width > 0) {
        memcpy(slem->text + slem->bytes, bytes, width);
        slem->bytes += width;
    }
    return OR_OK;
}

// The first of the last tokens that make up the look-behind; a special token ends the text before it.
static uint32_t look_behind(const or_vocab_t *vocab, const int32_t *tokens, uint32_t count)
{
    const uint32_t *widths = or_vocab_widths(vocab);
    uint32_t bytes = 0;
    while (count > 0 && bytes < LOOK_BEHIND_BYTES &&
           or_vocab_kind(vocab, tokens[count - 1]) != OR_TOKEN_SPECIAL) {
        count--;
        bytes += widths[tokens[count]];
    }
    return count;
}

// Do these tokens print no byte? A text's first space may not count.
static bool print_nothing(const or_vocab_t *vocab, const int32_t *tokens, uint32_t count,
                          bool at_text_start)
{
    or_detok_t detok;
    or_detok_init(&detok, vocab, at_text_start, true);
    uint32_t width = 0;
    for (uint32_t i = 0; width == 0 && i < count; i++) {
        or_detok_bytes(&detok, tokens[i], &width);
    }
    return width == 0;
}

// Only text whose tokens are not settled has a say in a path's tokens. A space of the target's
// tokenizer's own is in it like any other.
static or_status_t set_committed(or_slem_t *slem, const int32_t *tokens, uint32_t count)
{
    const or_vocab_t *target = slem->pair->target;
    slem->fresh = print_nothing(target, tokens, count, false);
    slem->empty = print_nothing(target, tokens, count, true);
    slem->bytes = 0;
    or_detok_t detok;
    or_detok_init(&detok, target, false, true);
    or_status_t status = OR_OK;
    for (uint32_t i = look_behind(target, tokens, count); status == OR_OK && i < count; i++) {
        status = append_token(slem, &detok, tokens[i]);
    }
    size_t settled = 0;
    if (status == OR_OK && slem->bytes > 0) {
        status = or_tokenize_settled(target, slem->text, slem->bytes, &settled);
    }
    if (status == OR_OK && settled > 0) {
        slem->bytes -= settled;
        memmove(slem->text, slem->text + settled, slem->bytes);
    }
    slem->committed = slem->bytes;
    return status;
}

// Take a node's path from what the tree may cost; false if it does not fit.
static bool afford_path(or_slem_t *slem, const or_token_tree_t *draft, uint32_t node)
{
    const uint32_t *widths = or_vocab_widths(slem->pair->draft);
    size_t bytes = slem->committed;
    for (; node != 0; node = or_token_tree_parents(draft)[node]) {
        bytes += widths[or_token_tree_tokens(draft)[node]];
    }
    bool fits = bytes <= slem->left;
    slem->left -= fits ? bytes : 0;
    return fits;
}

// Puts a node's path behind the committed text. *end_token: the target's for the special token that
// ends it, OR_TOKEN_NONE.
static or_status_t set_path(or_slem_t *slem, const or_token_tree_t *draft, uint32_t node,
                            int32_t *end_token)
{
    const or_vocab_pair_t *pair = slem->pair;
    uint32_t count = 0;
    for (; node != 0; node = or_token_tree_parents(draft)[node]) {
        slem->path[count++] = or_token_tree_tokens(draft)[node];
    }
    *end_token = OR_TOKEN_NONE;
    slem->bytes = slem->committed;
    or_detok_t detok;
    or_detok_init(&detok, pair->draft, slem->empty, true);
    or_status_t status = OR_OK;
    while (status == OR_OK && count > 0) {
        int32_t token = slem->path[--count];
        if (or_vocab_kind(pair->draft, token) == OR_TOKEN_SPECIAL) {
            *end_token = pair->to_target[token];
            break;
        }
        status = append_token(slem, &detok, token);
    }
    return status;
}

// -- the trie
// -------------------------------------------------------------------------------------------------

// A walk from the root that adds what is missing.
typedef struct {
    or_token_tree_t *tree;
    uint32_t nodes_max;
    uint32_t depth_max;
    uint32_t node;
} walk_t;

static bool step(walk_t *walk, int32_t token)
{
    if (or_token_tree_depths(walk->tree)[walk->node] >= walk->depth_max) {
        return false;
    }
    uint32_t child = or_token_tree_find_child(walk->tree, walk->node, token);
    if (child == 0 && (or_token_tree_count(walk->tree) >= walk->nodes_max ||
                       or_token_tree_add(walk->tree, walk->node, token, &child) != OR_OK)) {
        return false;
    }
    walk->node = child;
    return true;
}

// The tokens of text[start] on, one after the other.
typedef struct {
    const or_slem_t *slem;
    or_detok_t detok;
    int32_t *ids; // owned
    size_t count;
    size_t next;
    size_t at; // the first byte of `next`
} reader_t;

static or_status_t reader_open(reader_t *reader, const or_slem_t *slem, size_t start)
{
    const or_vocab_t *target = slem->pair->target;
    bool fresh = slem->fresh;
    *reader = (reader_t){.slem = slem, .at = start};
    or_detok_init(&reader->detok, target, fresh, true);
    return or_tokenize(target, slem->text + start, slem->bytes - start,
                       fresh ? 0 : OR_TOKENIZE_CONTINUES, &reader->ids, &reader->count);
}

// Goes on by one token; false behind the last, and before one that does not print the text: the
// target's vocabulary lacks something that is in it.
static bool reader_next(reader_t *reader, int32_t *token)
{
    const or_slem_t *slem = reader->slem;
    if (reader->next == reader->count) {
        return false;
    }
    *token = reader->ids[reader->next];
    uint32_t width;
    const char *bytes = or_detok_bytes(&reader->detok, *token, &width);
    if (or_vocab_widths(slem->pair->target)[*token] == 0 || width > slem->bytes - reader->at ||
        memcmp(slem->text + reader->at, bytes, width) != 0) {
        return false;
    }
    reader->next++;
    reader->at += width;
    return true;
}

// Opens a reader that stands behind the committed text: where a token ends there when committed
// text and path are tokenised together, else the path's own tokens.
static or_status_t open_path(reader_t *reader, const or_slem_t *slem)
{
    or_status_t status = reader_open(reader, slem, 0);
    int32_t token;
    while (status == OR_OK && reader->at < slem->committed && reader_next(reader, &token)) {
    }
    if (status == OR_OK && reader->at != slem->committed) {
        free(reader->ids);
        status = reader_open(reader, slem, slem->committed);
    }
    return status;
}

static or_status_t add_path(or_slem_t *slem, const or_token_tree_t *draft, uint32_t node,
                            walk_t walk)
{
    int32_t end_token;
    if (!afford_path(slem, draft, node)) {
        return OR_OK;
    }
    or_status_t status = set_path(slem, draft, node, &end_token);
    if (status != OR_OK) {
        return status;
    }
    if (slem->bytes > slem->committed) {
        reader_t reader;
        status = open_path(&reader, slem);
        if (status != OR_OK) {
            return status;
        }
        int32_t token;
        bool room = true;
        while (room && reader_next(&reader, &token)) {
            room = step(&walk, token);
        }
        bool whole = room && reader.at == slem->bytes;
        free(reader.ids);
        end_token = whole ? end_token : OR_TOKEN_NONE;
    }
    if (end_token != OR_TOKEN_NONE) {
        step(&walk, end_token);
    }
    return OR_OK;
}

// Whole paths come first. Of a path that goes on, what is new is a token that ends there: a guess
// that the target stops where the drafter only paused, for where there is room.
or_status_t or_slem_translate(or_slem_t *slem, const int32_t *committed, uint32_t count,
                              const or_token_tree_t *draft, uint32_t nodes_max, uint32_t depth_max,
                              or_token_tree_t *tree)
{
    walk_t root = {tree, nodes_max, depth_max, 0};
    or_token_tree_reset(tree, committed[count - 1]);
    or_status_t status = set_committed(slem, committed, count);
    slem->left = OR_SLEM_BYTES_MAX;
    for (int inner = 0; inner <= 1; inner++) {
        for (uint32_t node = 1; status == OR_OK && node <= or_token_tree_count(draft); node++) {
            if ((or_token_tree_first_child(draft, node) != 0) == (inner == 1)) {
                status = add_path(slem, draft, node, root);
            }
        }
    }
    or_token_tree_depth_first(tree, NULL);
    return status;
}
