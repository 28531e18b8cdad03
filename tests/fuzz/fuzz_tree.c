// Goal: exactly the legal trees among a peer's arrays are accepted, and an accepted one is a
// tree.
// Method: judge the arrays a second time, slowly and by the words of token_tree.h alone. Then
// check parents, depths, children and the wire form node by node, before and after renumbering.
#include "common/decode/token_tree.h"

#include <stdbool.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define NODES_MAX 64u // more than fit, so that "full" is met

typedef struct {
    int32_t root;
    uint32_t room, vocab_size, count;
    bool duplicates;
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX];
} arrays_t;

static arrays_t read_arrays(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    arrays_t arrays = {.root = (int32_t)fuzz_number(&input),
                       .room = fuzz_byte(&input) % NODES_MAX,
                       .vocab_size = fuzz_number(&input),
                       .duplicates = fuzz_byte(&input) % 2 == 1};
    for (; arrays.count < NODES_MAX && input.left > 0; arrays.count++) {
        arrays.tokens[arrays.count] = (int32_t)fuzz_number(&input);
        arrays.back[arrays.count] = fuzz_number(&input);
    }
    return arrays;
}

static bool repeats_a_sibling(const arrays_t *arrays, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        bool siblings = j + 1 - arrays->back[j] == i + 1 - arrays->back[i];
        if (siblings && arrays->tokens[j] == arrays->tokens[i]) {
            return true;
        }
    }
    return false;
}

static or_status_t judge(const arrays_t *arrays)
{
    if (arrays->count > arrays->room) {
        return OR_ERR_FULL;
    }
    for (uint32_t i = 0; i < arrays->count; i++) {
        bool parent = arrays->back[i] >= 1 && arrays->back[i] <= i + 1;
        bool token = arrays->tokens[i] >= 0 && (uint32_t)arrays->tokens[i] < arrays->vocab_size;
        if (!parent || !token || (!arrays->duplicates && repeats_a_sibling(arrays, i))) {
            return OR_ERR_INVALID;
        }
    }
    return OR_OK;
}

static void assert_is_tree(const or_token_tree_t *tree)
{
    const int32_t *tokens = or_token_tree_tokens(tree);
    const uint32_t *parents = or_token_tree_parents(tree);
    const uint32_t *depths = or_token_tree_depths(tree);
    assert(parents[0] == 0 && depths[0] == 0);
    for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
        assert(parents[node] < node);
        assert(depths[node] == depths[parents[node]] + 1);
        uint32_t child = or_token_tree_find_child(tree, parents[node], tokens[node]);
        assert(child >= 1 && child <= node); // the first of those with this token
        assert(parents[child] == parents[node] && tokens[child] == tokens[node]);
    }
}

static void assert_travels_unchanged(const or_token_tree_t *tree, const arrays_t *arrays)
{
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX];
    assert(or_token_tree_count(tree) == arrays->count);
    assert(or_token_tree_tokens(tree)[0] == arrays->root);
    or_token_tree_to_wire(tree, tokens, back);
    assert(memcmp(tokens, arrays->tokens, arrays->count * sizeof *tokens) == 0);
    assert(memcmp(back, arrays->back, arrays->count * sizeof *back) == 0);
}

// Every node keeps its token and its parent, whatever its number.
static void assert_renumbering_keeps_the_tree(or_token_tree_t *tree, const arrays_t *arrays)
{
    uint32_t new_of[NODES_MAX + 1], twice[NODES_MAX + 1];
    bool taken[NODES_MAX + 1] = {false};
    or_token_tree_depth_first(tree, new_of);
    assert_is_tree(tree);
    assert(new_of[0] == 0 && or_token_tree_count(tree) == arrays->count);
    for (uint32_t node = 1; node <= arrays->count; node++) {
        uint32_t now = new_of[node];
        assert(now >= 1 && now <= arrays->count && !taken[now]);
        taken[now] = true;
        assert(or_token_tree_tokens(tree)[now] == arrays->tokens[node - 1]);
        assert(or_token_tree_parents(tree)[now] == new_of[node - arrays->back[node - 1]]);
    }
    or_token_tree_depth_first(tree, twice);
    for (uint32_t node = 0; node <= arrays->count; node++) {
        assert(twice[node] == node);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static or_token_tree_t
        *trees[NODES_MAX]; // one for each room; kept, so that old nodes may shine through
    arrays_t arrays = read_arrays(data, size);
    or_token_tree_t **tree = &trees[arrays.room];
    if (*tree == NULL) {
        or_status_t created = or_token_tree_create(arrays.room, tree);
        assert(created == OR_OK);
    }
    or_status_t status = or_token_tree_set(*tree, arrays.root, arrays.tokens, arrays.back,
                                           arrays.count, arrays.vocab_size, arrays.duplicates);
    assert(status == judge(&arrays));
    if (status == OR_OK) {
        assert_is_tree(*tree);
        assert_travels_unchanged(*tree, &arrays);
        assert_renumbering_keeps_the_tree(*tree, &arrays);
    } else {
        assert(or_token_tree_count(*tree) == 0 && or_error_text()[0] != '\0');
    }
    return 0;
}
