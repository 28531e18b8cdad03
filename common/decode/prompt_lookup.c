#include "common/decode/prompt_lookup.h"

#include <stddef.h>

// Count the tokens before `end` that match the text's last ones.
static uint32_t match_before(const or_lookup_t *lookup, uint32_t end)
{
    uint32_t length = 0;
    while (length < OR_LOOKUP_SUFFIX_MAX && length < end &&
           lookup->text[end - 1 - length] == lookup->text[lookup->count - 1 - length]) {
        length++;
    }
    return length;
}

static uint32_t longest_match(const or_lookup_t *lookup)
{
    uint32_t longest = 0;
    for (uint32_t end = lookup->count - 1; end > 0; end--) {
        uint32_t length = match_before(lookup, end);
        longest = length > longest ? length : longest;
    }
    return longest;
}

// The child of `parent` that carries `token`, a new one if needed; 0 if there is no room left.
static uint32_t child_of(const or_lookup_t *lookup, or_lookup_guess_t *guesses, uint32_t *count,
                         uint32_t parent, int32_t token)
{
    for (uint32_t number = parent + 1; number <= *count; number++) {
        if (guesses[number - 1].parent == parent && guesses[number - 1].token == token) {
            return number;
        }
    }
    uint32_t depth = parent > 0 ? guesses[parent - 1].depth + 1 : 1;
    if (*count == lookup->nodes_max || depth > lookup->depth_max) {
        return 0;
    }
    guesses[*count] = (or_lookup_guess_t){.token = token, .parent = parent, .depth = depth};
    return ++*count;
}

// Add the continuation of the text from `at`.
static void add_continuation(const or_lookup_t *lookup, uint32_t at, or_lookup_guess_t *guesses,
                             uint32_t *count)
{
    uint32_t number = 0;
    for (; at < lookup->count; at++) {
        if (lookup->map != NULL && lookup->map[lookup->text[at]] < 0) {
            return;
        }
        number = child_of(lookup, guesses, count, number, lookup->text[at]);
        if (number == 0) {
            return;
        }
    }
}

uint32_t or_prompt_lookup(const or_lookup_t *lookup, or_lookup_guess_t *guesses)
{
    uint32_t found = 0;
    uint32_t longest = lookup->count > 0 ? longest_match(lookup) : 0;
    if (longest == 0) {
        return 0;
    }
    for (uint32_t end = lookup->count - 1; end > 0 && found < lookup->nodes_max; end--) {
        if (match_before(lookup, end) == longest) {
            add_continuation(lookup, end, guesses, &found);
        }
    }
    return found;
}
