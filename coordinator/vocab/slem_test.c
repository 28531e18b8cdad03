// Goal: a drafter's tree becomes a trie of the target's tokens that says the same text, as the
// target's tokenizer would write it behind what is committed; within its bounds, with the target's
// ids only. Method: awkward texts are cut at a token of the target's; what is behind the cut
// becomes a drafter's tree, in its tokenizer's way, with branches and any tokens. Each node's text
// must be the beginning of a path of the drafter's, each path must be there to the end, and where
// look-behind reaches the text's start the path must be the target's own tokens. By hand: the
// header's example, special tokens, bounds.
#include "coordinator/vocab/slem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

enum { NODES = 200, PATH_BYTES = 1 << 17 };

// -- texts of paths
// -------------------------------------------------------------------------------------------------

typedef struct {
    char *bytes;
    size_t length;
    int32_t special; // the target's token that ends it, or OR_TOKEN_NONE
} text_t;

// Write what a node's path prints. `map` is from the tree's vocabulary to the target's. NULL: it is that.
static void text_of(const or_vocab_t *vocab, const or_token_tree_t *tree, uint32_t node,
                    bool at_start, const int32_t *map, text_t *text)
{
    int32_t path[NODES];
    uint32_t count = 0;
    for (; node != 0; node = or_token_tree_parents(tree)[node]) {
        path[count++] = or_token_tree_tokens(tree)[node];
    }
    or_detok_t detok;
    or_detok_init(&detok, vocab, at_start, true);
    text->length = 0;
    text->special = OR_TOKEN_NONE;
    while (count > 0) {
        int32_t token = path[--count];
        if (or_vocab_kind(vocab, token) == OR_TOKEN_SPECIAL) {
            text->special = map != NULL ? map[token] : token;
            break;
        }
        uint32_t width;
        const char *bytes = or_detok_bytes(&detok, token, &width);
        assert_true(text->length + width < PATH_BYTES);
        memcpy(text->bytes + text->length, bytes, width);
        text->length += width;
    }
}

static bool begins_with(const text_t *whole, const text_t *part)
{
    bool begins =
        part->length <= whole->length && memcmp(part->bytes, whole->bytes, part->length) == 0;
    bool ends = part->special == OR_TOKEN_NONE ||
                (part->special == whole->special && part->length == whole->length);
    return begins && ends;
}

// -- random trees
// -------------------------------------------------------------------------------------------------

typedef struct {
    const or_vocab_pair_t *pair;
    bool lacks; // the target has no token for some byte
    or_slem_t *slem;
    or_token_tree_t *draft;
    or_token_tree_t *tree;
    int32_t committed[TEST_TEXT_BYTES + 2];
    uint32_t count;
    bool at_start; // nothing is committed
    bool empty;    // nothing committed prints
    text_t drafted[NODES + 1];
    text_t guessed;
} case_t;

// A chain of these tokens, and the last node of it.
static void add_chain(or_token_tree_t *tree, uint32_t node, const int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count && or_token_tree_count(tree) < NODES; i++) {
        uint32_t child = or_token_tree_find_child(tree, node, tokens[i]);
        if (child == 0) {
            assert_int_equal(or_token_tree_add(tree, node, tokens[i], &child), OR_OK);
        }
        node = child;
    }
}

static void add_text(case_t *c, uint32_t node, const char *text, size_t length, bool continues)
{
    int32_t *ids = NULL;
    size_t count;
    unsigned flags = continues ? OR_TOKENIZE_CONTINUES : 0;
    assert_int_equal(or_tokenize(c->pair->draft, text, length, flags, &ids, &count), OR_OK);
    add_chain(c->draft, node, ids, count < 40 ? count : 40);
    free(ids);
}

static void add_branches(case_t *c, uint64_t *seed)
{
    uint32_t nodes = or_token_tree_count(c->draft);
    for (uint64_t i = test_below(seed, 4); i > 0; i--) {
        char text[TEST_TEXT_BYTES];
        size_t length = test_text(seed, text);
        uint32_t node = (uint32_t)test_below(seed, nodes + 1);
        add_text(c, node, text, length, node != 0 || !c->empty);
        int32_t any = (int32_t)test_below(seed, or_vocab_size(c->pair->draft));
        add_chain(c->draft, (uint32_t)test_below(seed, nodes + 1), &any, 1);
    }
}

static void translate(case_t *c, uint32_t nodes_max, uint32_t depth_max)
{
    assert_int_equal(
        or_slem_translate(c->slem, c->committed, c->count, c->draft, nodes_max, depth_max, c->tree),
        OR_OK);
    assert_int_equal(or_token_tree_tokens(c->tree)[0], c->committed[c->count - 1]);
    assert_true(or_token_tree_count(c->tree) <= nodes_max);
    for (uint32_t i = 1; i <= or_token_tree_count(c->tree); i++) {
        uint32_t parent = or_token_tree_parents(c->tree)[i];
        int32_t token = or_token_tree_tokens(c->tree)[i];
        assert_true(token >= 0 && (uint32_t)token < or_vocab_size(c->pair->target));
        assert_true(or_token_tree_depths(c->tree)[i] <= depth_max);
        assert_int_equal(or_token_tree_find_child(c->tree, parent, token), i); // no token twice
        // Depth first: a node follows its parent, or a child of an ancestor's other than itself.
        uint32_t before = i - 1;
        while (before != parent && before != 0) {
            before = or_token_tree_parents(c->tree)[before];
        }
        assert_int_equal(before, parent);
    }
}

// Each node's text begins a path of the drafter's.
static void check_guesses(case_t *c)
{
    uint32_t drafted = or_token_tree_count(c->draft);
    for (uint32_t i = 1; i <= drafted; i++) {
        text_of(c->pair->draft, c->draft, i, c->empty, c->pair->to_target, &c->drafted[i]);
    }
    for (uint32_t i = 1; i <= or_token_tree_count(c->tree); i++) {
        text_of(c->pair->target, c->tree, i, c->at_start, NULL, &c->guessed);
        bool found = false;
        for (uint32_t k = 1; !found && k <= drafted; k++) {
            found = begins_with(&c->drafted[k], &c->guessed);
        }
        assert_true(found);
    }
}

// And each path of the drafter's is there, to its end.
static void check_paths(case_t *c)
{
    for (uint32_t k = 1; k <= or_token_tree_count(c->draft); k++) {
        text_t *path = &c->drafted[k];
        bool found = path->length == 0 && path->special == OR_TOKEN_NONE;
        for (uint32_t i = 1; !found && i <= or_token_tree_count(c->tree); i++) {
            text_of(c->pair->target, c->tree, i, c->at_start, NULL, &c->guessed);
            found = c->guessed.length == path->length && begins_with(path, &c->guessed) &&
                    c->guessed.special == path->special;
        }
        assert_true(found);
    }
}

// The committed tokens and the path's are those of the whole text.
static void check_is_own_way(case_t *c, const int32_t *rest, size_t count)
{
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++) {
        node = or_token_tree_find_child(c->tree, node, rest[i]);
        assert_int_not_equal(node, 0);
    }
}

static void check_text(case_t *c, uint64_t *seed)
{
    char text[TEST_TEXT_BYTES];
    size_t length = test_text(seed, text);
    length = length < 90 ? length : 90;
    int32_t *ids = NULL;
    size_t count;
    const or_vocab_t *target = c->pair->target;
    assert_int_equal(or_tokenize(target, text, length, 0, &ids, &count), OR_OK);
    size_t cut = test_below(seed, count + 1);
    c->count = 0;
    c->committed[c->count++] =
        or_vocab_bos(target) != OR_TOKEN_NONE ? or_vocab_bos(target) : or_vocab_eos(target);
    or_detok_t detok;
    or_detok_init(&detok, target, true, true);
    size_t bytes = 0;
    for (size_t i = 0; i < cut; i++) {
        uint32_t width;
        or_detok_bytes(&detok, ids[i], &width);
        bytes += width;
        c->committed[c->count++] = ids[i];
    }
    c->at_start = cut == 0;
    c->empty = bytes == 0;
    or_token_tree_reset(c->draft, 0);
    if (!c->lacks) {
        add_text(c, 0, text + bytes, length - bytes, !c->empty);
        bool whole = or_token_tree_count(c->draft) < 40;
        translate(c, OR_TREE_NODES_MAX, OR_TREE_NODES_MAX);
        check_guesses(c);
        if (bytes < 60 && whole) {
            check_is_own_way(c, ids + cut, count - cut);
        }
    }
    free(ids);
    add_branches(c, seed);
    translate(c, OR_TREE_NODES_MAX, OR_TREE_NODES_MAX);
    check_guesses(c);
    if (!c->lacks && or_token_tree_count(c->tree) < OR_TREE_NODES_MAX) {
        check_paths(c);
    }
    translate(c, (uint32_t)test_below(seed, 20), 1 + (uint32_t)test_below(seed, 5));
    check_guesses(c);
}

static void case_init(case_t *c, const or_vocab_pair_t *pair)
{
    *c = (case_t){.pair = pair,
                  .lacks = test_lacks_bytes(pair->target) || test_lacks_bytes(pair->draft)};
    assert_int_equal(or_slem_create(pair, &c->slem), OR_OK);
    assert_int_equal(or_token_tree_create(NODES, &c->draft), OR_OK);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &c->tree), OR_OK);
    c->guessed.bytes = malloc(PATH_BYTES);
    assert_non_null(c->guessed.bytes);
    for (int i = 0; i <= NODES; i++) {
        c->drafted[i].bytes = malloc(PATH_BYTES);
        assert_non_null(c->drafted[i].bytes);
    }
}

static void case_fini(case_t *c)
{
    for (int i = 0; i <= NODES; i++) {
        free(c->drafted[i].bytes);
    }
    free(c->guessed.bytes);
    or_token_tree_destroy(&c->tree);
    or_token_tree_destroy(&c->draft);
    or_slem_destroy(&c->slem);
    assert_null(c->slem);
}

static void trie_says_what_was_drafted(void **state)
{
    (void)state;
    enum { VOCABS = TEST_VOCABS, PAIRS = VOCABS * (VOCABS - 1) };
    const char *runs_text = getenv("OR_TEST_RUNS");
    long runs = runs_text != NULL ? strtol(runs_text, NULL, 10) : 1000;
    uint64_t seed = test_seed();
    or_vocab_t *vocabs[VOCABS];
    test_load_vocabs(vocabs);
    for (int i = 0; i < VOCABS * VOCABS; i++) {
        or_vocab_pair_t *pair = NULL;
        static case_t c;
        assert_int_equal(or_vocab_pair_create(vocabs[i / VOCABS], vocabs[i % VOCABS], &pair),
                         OR_OK);
        case_init(&c, pair);
        for (long run = 0; run < 1 + runs / PAIRS; run++) {
            check_text(&c, &seed);
        }
        case_fini(&c);
        or_vocab_pair_destroy(&pair);
    }
    for (int i = 0; i < VOCABS; i++) {
        or_vocab_destroy(&vocabs[i]);
    }
}

// -- by hand
// -------------------------------------------------------------------------------------------------

// A target that knows " won", " wonder", "ful", "'t" and a drafter that knows other pieces.
typedef struct {
    or_vocab_t *draft_vocab, *target_vocab;
    or_vocab_pair_t *pair;
    or_slem_t *slem;
    or_token_tree_t *draft, *tree;
} hand_t;

enum { T_WON = 3, T_WONDER, T_FUL, T_T, T_DER, T_EOS = 2 };
enum { D_WON = 3, D_DER, D_FUL, D_T, D_USER, D_EOS = 2 };

static hand_t hand_make(void)
{
    static const test_token_t target[] = {{"<unk>", 0, 2},
                                          {"<s>", 0, 3},
                                          {"</s>", 0, 3},
                                          {"\xE2\x96\x81won", -20, 1},
                                          {"\xE2\x96\x81wonder", -1, 1},
                                          {"ful", -2, 1},
                                          {"'t", -3, 1},
                                          {"der", -22, 1},
                                          {"\xE2\x96\x81w", -21, 1},
                                          {"on", -19, 1},
                                          {"de", -23, 1},
                                          {"fu", -4, 1}};
    static const test_token_t draft[] = {
        {"<unk>", 0, 2}, {"<s>", 0, 3},  {"</s>", 0, 3}, {"\xE2\x96\x81won", -1, 1},
        {"der", -2, 1},  {"ful", -3, 1}, {"'t", -4, 1},  {"<|user|>", 0, 3}};
    unsigned wish = TEST_WITH_BYTES | TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS;
    hand_t hand = {0};
    assert_int_equal(test_make_vocab(draft, 8, wish, &hand.draft_vocab), OR_OK);
    assert_int_equal(test_make_vocab(target, 12, wish, &hand.target_vocab), OR_OK);
    assert_int_equal(or_vocab_pair_create(hand.draft_vocab, hand.target_vocab, &hand.pair), OR_OK);
    assert_int_equal(or_slem_create(hand.pair, &hand.slem), OR_OK);
    assert_int_equal(or_token_tree_create(16, &hand.draft), OR_OK);
    assert_int_equal(or_token_tree_create(16, &hand.tree), OR_OK);
    or_token_tree_reset(hand.draft, 0);
    return hand;
}

static void hand_destroy(hand_t *hand)
{
    or_token_tree_destroy(&hand->tree);
    or_token_tree_destroy(&hand->draft);
    or_slem_destroy(&hand->slem);
    or_vocab_pair_destroy(&hand->pair);
    or_vocab_destroy(&hand->target_vocab);
    or_vocab_destroy(&hand->draft_vocab);
}

static void add(or_token_tree_t *tree, uint32_t parent, int32_t token)
{
    assert_int_equal(or_token_tree_add(tree, parent, token, NULL), OR_OK);
}

static void assert_trie(hand_t *hand, const int32_t *committed, uint32_t committed_count,
                        uint32_t nodes_max, const int32_t *tokens, const uint32_t *parents,
                        uint32_t count)
{
    assert_int_equal(or_slem_translate(hand->slem, committed, committed_count, hand->draft,
                                       nodes_max, 8, hand->tree),
                     OR_OK);
    assert_int_equal(or_token_tree_count(hand->tree), count);
    assert_memory_equal(or_token_tree_tokens(hand->tree) + 1, tokens, count * sizeof *tokens);
    assert_memory_equal(or_token_tree_parents(hand->tree) + 1, parents, count * sizeof *parents);
}

static void example_of_the_header(void **state)
{
    (void)state;
    hand_t hand = hand_make();
    const int32_t committed[] = {1, T_FUL};
    add(hand.draft, 0, D_WON); // 1
    add(hand.draft, 1, D_DER); // 2
    add(hand.draft, 2, D_FUL); // 3
    add(hand.draft, 1, D_T);   // 4
    const int32_t tokens[] = {T_WONDER, T_FUL, T_WON, T_T};
    const uint32_t parents[] = {0, 1, 0, 3};
    assert_trie(&hand, committed, 2, 16, tokens, parents, 4);
    assert_trie(&hand, committed, 2, 2, tokens, parents, 2); // whole paths first
    hand_destroy(&hand);
}

// " won" is committed and the path goes on "derful": together that would be " wonder" "ful", and no
// token ends where the committed text does.
static void path_that_would_merge_stands_alone(void **state)
{
    (void)state;
    hand_t hand = hand_make();
    const int32_t committed[] = {1, T_WON};
    add(hand.draft, 0, D_DER);
    add(hand.draft, 1, D_FUL);
    const int32_t tokens[] = {T_DER, T_FUL};
    const uint32_t parents[] = {0, 1};
    assert_trie(&hand, committed, 2, 16, tokens, parents, 2);
    hand_destroy(&hand);
}

static void special_token_ends_a_path(void **state)
{
    (void)state;
    hand_t hand = hand_make();
    const int32_t committed[] = {1, T_FUL};
    add(hand.draft, 0, D_EOS);  // 1: goes over by content
    add(hand.draft, 1, D_FUL);  // 2: behind the end
    add(hand.draft, 0, D_T);    // 3
    add(hand.draft, 3, D_EOS);  // 4
    add(hand.draft, 3, D_USER); // 5: the target has none
    add(hand.draft, 5, D_FUL);  // 6
    const int32_t tokens[] = {T_EOS, T_T, T_EOS};
    const uint32_t parents[] = {0, 0, 2};
    assert_trie(&hand, committed, 2, 16, tokens, parents, 3);
    hand_destroy(&hand);
}

// A vocabulary with a token that prints BYTES_OF_LONG bytes, which is cut out of the text whole.
enum { BYTES_OF_LONG = 1000, LONG = 3, SHORT = 4, CHAIN = 300 };

static or_vocab_t *make_long_vocab(void)
{
    char piece[BYTES_OF_LONG + 1];
    memset(piece, 'x', BYTES_OF_LONG);
    piece[BYTES_OF_LONG] = '\0';
    const test_token_t tokens[] = {
        {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {piece, 0, 4}, {"y", -1, 1}};
    unsigned wish = TEST_WITH_BYTES | TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS | TEST_WITHOUT_SPACE;
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(tokens, 5, wish, &vocab), OR_OK);
    return vocab;
}

// The paths of a chain of long tokens print 45 MB, the longest 300 KB: more than a tree may cost. It and most others are
// left out; the shorter ones, and the guess beside it, are translated all the same.
static void long_tokens_cost_no_more_than_a_tree_may(void **state)
{
    (void)state;
    hand_t hand = {.draft_vocab = make_long_vocab(), .target_vocab = make_long_vocab()};
    assert_int_equal(or_vocab_pair_create(hand.draft_vocab, hand.target_vocab, &hand.pair), OR_OK);
    assert_int_equal(or_slem_create(hand.pair, &hand.slem), OR_OK);
    assert_int_equal(or_token_tree_create(CHAIN + 1, &hand.draft), OR_OK);
    assert_int_equal(or_token_tree_create(CHAIN + 1, &hand.tree), OR_OK);
    or_token_tree_reset(hand.draft, SHORT);
    for (uint32_t i = 0; i < CHAIN; i++) {
        add(hand.draft, i, LONG);
    }
    add(hand.draft, 0, SHORT);
    for (int again = 0; again < 2; again++) { // each tree may cost as much as the first
        const int32_t committed[] = {1, SHORT};
        assert_int_equal(
            or_slem_translate(hand.slem, committed, 2, hand.draft, CHAIN + 1, CHAIN, hand.tree),
            OR_OK);
        uint32_t levels = or_token_tree_count(hand.tree) - 1; // of long tokens
        assert_in_range(levels, 1, CHAIN - 1);
        size_t taken = (size_t)BYTES_OF_LONG * levels * (levels + 1) / 2;
        assert_true(taken <= OR_SLEM_BYTES_MAX);
        assert_true(taken + (size_t)BYTES_OF_LONG * (levels + 2) > OR_SLEM_BYTES_MAX);
        assert_int_not_equal(or_token_tree_find_child(hand.tree, 0, SHORT), 0);
        assert_int_equal(or_token_tree_depths(hand.tree)[levels + 1], levels);
    }
    hand_destroy(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_tokens_cost_no_more_than_a_tree_may),
        cmocka_unit_test(example_of_the_header),
        cmocka_unit_test(path_that_would_merge_stands_alone),
        cmocka_unit_test(special_token_ends_a_path),
        cmocka_unit_test(trie_says_what_was_drafted),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
