#include "drafter/strings/strings.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/inline.h"
#include "common/base/parts.h"
#include "common/text/vocab/string_cost.h"
#include "drafter/strings/strings_internal.h"

// Nodes for paths beside the chain, in addition to one for each byte of the longest token.
#define BESIDE 128u
#define DRAWN_PER_TOKEN 8u // of the drafter's tokens, for one of the target
_Static_assert(2 * OR_STRING_BYTES_MAX + BESIDE <= OR_TREE_NODES_MAX, "one position fits");

// Return how many tokens of the drafter a chain may have: as many as the longest token has bytes, so that one
// position always fits.
static uint32_t drawn_max(const or_token_trie_t *target, uint32_t depth)
{
    uint32_t widest = or_token_trie_widest(target);
    uint32_t others = widest + BESIDE;
    return or_min_u32(widest + DRAWN_PER_TOKEN * or_min_u32(depth, OR_TREE_NODES_MAX),
                      OR_TREE_NODES_MAX - others);
}

uint32_t or_strings_nodes(const or_token_trie_t *target, uint32_t depth)
{
    return drawn_max(target, depth) + or_token_trie_widest(target) + BESIDE;
}

static uint32_t widest_of(const or_vocab_t *vocab)
{
    uint32_t widest = 0;
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        uint32_t width = or_vocab_widths(vocab)[id];
        widest = width > widest ? width : widest;
    }
    return widest;
}

static bool each_array(or_strings_t *strings, or_parts_t *each)
{
    const size_t levels = (size_t)strings->depth_max + 1;
    const size_t size = (size_t)strings->target_size + 1;
    const or_part_t parts[] = {
        OR_PART(strings->positions, levels),
        OR_PART(strings->psi, levels),
        OR_PART(strings->chain_sums, levels),
        OR_PART(strings->wanted_before, (size_t)or_token_trie_count(strings->target) + 1),
        OR_PART(strings->sums, size),
        OR_PART(strings->tokens, size),
        OR_PART(strings->answer, size),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

or_status_t or_strings_create(const or_vocab_t *draft, const int32_t *to_target,
                              const or_token_trie_t *target, uint32_t depth,
                              or_strings_t **strings_p)
{
    or_strings_t *strings = calloc(1, sizeof *strings);
    if (strings == NULL) {
        goto no_memory;
    }
    strings->draft = draft;
    strings->to_target = to_target;
    strings->target = target;
    strings->target_size = or_vocab_size(or_token_trie_vocab(target));
    strings->depth_max = depth;
    strings->drawn_max = drawn_max(target, depth);
    strings->text = malloc((size_t)strings->drawn_max * widest_of(draft) + 1);
    if (strings->text == NULL || !each_array(strings, or_parts_take)) {
        goto no_memory;
    }
    *strings_p = strings;
    return OR_OK;

no_memory:
    or_strings_destroy(&strings);
    return or_fail(OR_ERR_NO_MEMORY, "no memory for drafting in another vocabulary's strings");
}

void or_strings_destroy(or_strings_t **strings_p)
{
    or_strings_t *strings = *strings_p;
    if (strings == NULL) {
        return;
    }
    free(strings->text);
    free(strings->paths);
    each_array(strings, or_parts_free);
    free(strings);
    *strings_p = NULL;
}

// ---- matching ----

static or_match_t match_start(const or_strings_t *strings)
{
    return (or_match_t){.state = or_token_trie_start(strings->target), .token = OR_TOKEN_NONE};
}

static void match_byte(const or_strings_t *strings, or_match_t *match, uint8_t byte)
{
    if (!or_token_trie_walk(strings->target, &match->state, byte)) {
        match->over = true;
        return;
    }
    int32_t token = or_token_trie_token(strings->target, match->state);
    if (token != OR_TOKEN_NONE) {
        match->token = token;
        match->token_bytes = match->state.depth;
    }
    match->over = !or_token_trie_goes_on(strings->target, match->state);
}

static void match_bytes(const or_strings_t *strings, or_match_t *match, const char *bytes,
                        uint32_t length)
{
    for (uint32_t i = 0; i < length && !match->over; i++) {
        match_byte(strings, match, (uint8_t)bytes[i]);
    }
}

static bool prints(const or_strings_t *strings, int32_t token)
{
    return or_vocab_widths(strings->draft)[token] > 0;
}

void or_match_token(const or_strings_t *strings, or_match_t *match, int32_t token)
{
    if (prints(strings, token)) {
        uint32_t length;
        const char *bytes = or_vocab_bytes(strings->draft, token, &length);
        match_bytes(strings, match, bytes, length);
        return;
    }
    if (match->state.depth == 0) {
        match->token = strings->to_target[token];
    }
    match->over = true;
}

or_match_t or_match_position(const or_strings_t *strings, const or_string_position_t *position)
{
    or_match_t match = match_start(strings);
    match_bytes(strings, &match, strings->text + position->from, position->end - position->from);
    if (!match.over && position->mark != OR_TOKEN_NONE) {
        or_match_token(strings, &match, position->mark);
    }
    return match;
}

// ---- the chain ----

// Return true if there is room for as many of the drafter's tokens as a position may take. Each prints a byte or ends
// it.
static bool has_room(const or_strings_t *strings, const or_builder_t *builder)
{
    uint32_t positions = builder->source.positions - builder->history_count;
    return strings->drawn + or_token_trie_widest(strings->target) <=
           or_min_u32(strings->drawn_max, positions);
}

// Draw one more of the drafter's tokens; it goes to the end of the text, which is the position's.
static or_status_t draw(or_strings_t *strings, or_builder_t *builder, or_string_position_t *reached,
                        or_match_t *match)
{
    uint32_t last = strings->drawn;
    if (!builder->guesses[last].expanded) {
        or_status_t status = or_build_expand(builder, &last, 1);
        if (status != OR_OK) {
            return status;
        }
    }
    or_build_next(builder, last + 1, last); // every distribution has a token
    builder->chosen[last] = last + 1;
    strings->drawn++;
    int32_t token = builder->guesses[last + 1].token;
    if (prints(strings, token)) {
        uint32_t length;
        const char *bytes = or_vocab_bytes(strings->draft, token, &length);
        memcpy(strings->text + reached->end, bytes, length);
        reached->end += length;
    } else {
        reached->mark = token;
    }
    or_match_token(strings, match, token);
    return OR_OK;
}

// Draw until the token at a position is known. `reached` is where it begins, and becomes where the
// next one does.
static or_status_t draw_position(or_strings_t *strings, or_builder_t *builder,
                                 or_string_position_t *reached)
{
    or_string_position_t *position = &strings->positions[strings->count];
    *position = *reached;
    position->drawn = strings->drawn;
    or_match_t match = or_match_position(strings, position);
    while (!match.over) {
        or_status_t status = draw(strings, builder, reached, &match);
        if (status != OR_OK) {
            return status;
        }
    }
    position->token = match.token;
    strings->count++;
    reached->from += match.token_bytes;
    if (match.token_bytes == 0) { // what prints nothing was the token itself
        reached->mark = OR_TOKEN_NONE;
    }
    return OR_OK;
}

// The number of the target's tokens is known before any is drawn, but for the room: a position does not begin if it
// might not end, whatever it turns out to be.
or_status_t or_build_strings(or_builder_t *builder, uint32_t *count)
{
    or_strings_t *strings = builder->job->strings;
    uint32_t wanted = or_min_u32(or_min_u32(builder->job->nodes_max, builder->job->depth_max),
                                 strings->depth_max);
    or_string_position_t reached = {.mark = OR_TOKEN_NONE};
    bool outside = false;
    strings->count = strings->drawn = 0;
    while (strings->count < wanted && !outside && has_room(strings, builder)) {
        or_status_t status = draw_position(strings, builder, &reached);
        if (status != OR_OK) {
            return status;
        }
        outside = strings->positions[strings->count - 1].token == OR_TOKEN_NONE;
    }
    *count = strings->drawn;
    return or_strings_sum_chain(strings, builder);
}

or_status_t or_strings_fill(const or_strings_t *strings, or_token_tree_t *tree)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < strings->count; i++) {
        int32_t token = strings->positions[i].token;
        int32_t outside = (int32_t)strings->target_size;
        status = or_token_tree_add(tree, i, token != OR_TOKEN_NONE ? token : outside, NULL);
    }
    return status;
}

const double *or_strings_psi(const or_strings_t *strings)
{
    return strings->psi;
}
