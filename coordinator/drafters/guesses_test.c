// Goal: whatever is sent, in whatever order, what is taken is a tree whose every path somebody sent on exactly
// this text; and of what was sent on it nothing is missing where there is room.
// Method: random texts that follow a random path through what was guessed, or leave it; random trees on committed,
// older, assumed and forged places, lost, repeated and reordered. A slow model keeps whole token strings and
// decides by comparing them. Then the bound, and single cases that name what they show.
#include "coordinator/drafters/guesses.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define TEXT_MAX 400
#define WORDS 3 // few, so that guesses are often right
#define TREE_MAX 12
#define STRINGS_MAX 4096
#define ROOM 1024

// A token string that was guessed: it begins with the first token of the text.
typedef struct {
    uint32_t length;
    int32_t tokens[TEXT_MAX];
} string_t;

typedef struct {
    uint64_t random;
    or_token_log_t log;
    or_guesses_t *guesses;
    or_token_tree_t *tree;
    string_t *strings; // every path to a node of every tree that was sent and is still good
    uint32_t count;
} slow_t;

static uint64_t hash_of(const string_t *string)
{
    return or_prefix_hash(0, (const uint32_t *)string->tokens, string->length);
}

static bool begins_with(const string_t *string, const int32_t *tokens, uint32_t length)
{
    return string->length >= length && memcmp(string->tokens, tokens, length * sizeof *tokens) == 0;
}

static bool is_known(const slow_t *s, const string_t *string)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->strings[i].length == string->length &&
            begins_with(&s->strings[i], string->tokens, string->length)) {
            return true;
        }
    }
    return false;
}

// Strings that are longer than the text and begin with it.
static void forget_impossible(slow_t *s)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->strings[i].length > s->log.length &&
            begins_with(&s->strings[i], s->log.tokens, s->log.length)) {
            s->strings[left++] = s->strings[i];
        }
    }
    s->count = left;
}

static string_t text_of(const slow_t *s, uint32_t length)
{
    string_t string = {.length = length};
    memcpy(string.tokens, s->log.tokens, length * sizeof *string.tokens);
    return string;
}

static void append_word(slow_t *s, string_t *string)
{
    string->tokens[string->length++] = (int32_t)test_below(&s->random, WORDS);
}

// Is the text at this place, or a guess that is there?
static bool stands(const slow_t *s, const string_t *base)
{
    return (base->length <= s->log.length &&
            memcmp(s->log.tokens, base->tokens, base->length * sizeof *base->tokens) == 0) ||
           is_known(s, base);
}

// Somewhere that a drafter may believe in: the text, some tokens ago; a guess; or nothing of ours.
static string_t random_base(slow_t *s)
{
    uint32_t kind = (uint32_t)test_below(&s->random, 8);
    if (kind < 3 && s->count > 0) {
        return s->strings[test_below(&s->random, s->count)];
    }
    uint32_t back = (uint32_t)test_below(&s->random, s->log.length < 6 ? s->log.length : 6);
    string_t base = text_of(s, s->log.length - back);
    if (kind == 7) {
        append_word(s, &base);
        append_word(s, &base);
    }
    return base;
}

typedef struct {
    uint32_t tokens[TREE_MAX], back[TREE_MAX];
    string_t paths[TREE_MAX + 1]; // 0: the base
    or_draft_tree_t message;
} sent_t;

static void random_tree(slow_t *s, sent_t *sent)
{
    uint32_t wanted = (uint32_t)test_below(&s->random, TREE_MAX + 1);
    uint32_t count = 0;
    sent->paths[0] = random_base(s);
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t parent = (uint32_t)test_below(&s->random, count + 1);
        string_t path = sent->paths[parent];
        append_word(s, &path);
        bool repeated = false; // siblings differ
        for (uint32_t k = 1; k <= count; k++) {
            repeated = repeated || (sent->paths[k].length == path.length &&
                                    begins_with(&sent->paths[k], path.tokens, path.length));
        }
        if (!repeated) {
            sent->paths[++count] = path;
            sent->tokens[count - 1] = (uint32_t)path.tokens[path.length - 1];
            sent->back[count - 1] = count - parent;
        }
    }
    sent->message = (or_draft_tree_t){.round = 1,
                                      .parent_round = test_below(&s->random, 2),
                                      .base_length = sent->paths[0].length,
                                      .base_hash = hash_of(&sent->paths[0]),
                                      .tokens = sent->tokens,
                                      .back = sent->back,
                                      .count = count};
}

static void add_string(slow_t *s, const string_t *string)
{
    if (!is_known(s, string)) {
        assert_true(s->count < STRINGS_MAX);
        s->strings[s->count++] = *string;
    }
}

static void send(slow_t *s, sent_t *sent)
{
    bool forged = test_below(&s->random, 16) == 0;
    uint32_t before = s->count;
    uint32_t news = UINT32_MAX;
    sent->message.base_hash += forged;
    bool stood = !forged && stands(s, &sent->paths[0]);
    or_guesses_fate_t fate = or_guesses_add(s->guesses, &sent->message, &news);
    sent->message.base_hash -= forged;
    for (uint32_t i = 1; stood && i <= sent->message.count; i++) {
        add_string(s, &sent->paths[i]);
    }
    uint32_t after = s->count;
    forget_impossible(s);
    assert_true(after >= s->count);
    assert_int_equal(news, s->count - before);
    assert_true((fate == OR_GUESSES_TAKEN) == (news > 0));
    if (!stood) {
        bool past = sent->message.parent_round != 0 && sent->message.base_length <= s->log.length;
        assert_int_equal(fate, past ? OR_GUESSES_PAST : OR_GUESSES_ALIEN);
    } else {
        assert_true(fate != OR_GUESSES_ALIEN);
    }
}

// Some tokens: along a guess, mostly.
static void grow(slow_t *s)
{
    uint32_t wanted = 1 + (uint32_t)test_below(&s->random, 4);
    for (uint32_t i = 0; i < wanted; i++) {
        int32_t token = (int32_t)test_below(&s->random, WORDS);
        if (s->count > 0 && test_below(&s->random, 4) > 0) {
            const string_t *string = &s->strings[test_below(&s->random, s->count)];
            bool goes_on =
                string->length > s->log.length && begins_with(string, s->log.tokens, s->log.length);
            token = goes_on ? string->tokens[s->log.length] : token;
        }
        assert_int_equal(or_token_log_append(&s->log, &token, 1), OR_OK);
    }
    forget_impossible(s);
    assert_int_equal(or_guesses_follow(s->guesses, &s->log), s->count);
}

// Every path of the tree was sent, and no path is there twice.
static void check_taken(slow_t *s)
{
    uint32_t nodes_max = (uint32_t)test_below(&s->random, 40);
    uint32_t depth_max = 1 + (uint32_t)test_below(&s->random, 12);
    uint32_t fitting = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        fitting += s->strings[i].length - s->log.length <= depth_max;
    }
    uint32_t taken = or_guesses_take(s->guesses, nodes_max, depth_max, s->tree);
    assert_int_equal(or_guesses_count(s->guesses), s->count);
    assert_int_equal(taken, fitting < nodes_max ? fitting : nodes_max);
    assert_int_equal(taken, or_token_tree_count(s->tree));
    assert_int_equal(or_token_tree_tokens(s->tree)[0], s->log.tokens[s->log.length - 1]);
    static string_t paths[OR_TREE_NODES_MAX + 1];
    paths[0] = text_of(s, s->log.length);
    for (uint32_t i = 1; i <= taken; i++) {
        uint32_t parent = or_token_tree_parents(s->tree)[i];
        int32_t token = or_token_tree_tokens(s->tree)[i];
        assert_true(parent < i);
        assert_int_equal(or_token_tree_find_child(s->tree, parent, token), i);
        paths[i] = paths[parent];
        paths[i].tokens[paths[i].length++] = token;
        assert_true(or_token_tree_depths(s->tree)[i] <= depth_max);
        assert_true(is_known(s, &paths[i]));
    }
}

static void open_slow(slow_t *s, uint64_t seed, uint32_t room)
{
    static const int32_t prompt[] = {1, 2, 0};
    *s = (slow_t){.random = seed};
    s->strings = malloc(STRINGS_MAX * sizeof *s->strings);
    assert_non_null(s->strings);
    assert_int_equal(or_token_log_init(&s->log, TEXT_MAX), OR_OK);
    assert_int_equal(or_token_log_append(&s->log, prompt, 3), OR_OK);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &s->tree), OR_OK);
    assert_int_equal(or_guesses_create(room, &s->guesses), OR_OK);
    or_guesses_clear(s->guesses, &s->log);
}

static void close_slow(slow_t *s)
{
    or_guesses_destroy(&s->guesses);
    assert_null(s->guesses);
    or_token_tree_destroy(&s->tree);
    or_token_log_fini(&s->log);
    free(s->strings);
}

static void what_is_taken_was_sent_on_this_text(void **state)
{
    (void)state;
    uint64_t base = test_seed();
    for (uint64_t run = 0; run < 30; run++) {
        slow_t s;
        sent_t *sent = calloc(2, sizeof *sent); // the last two: one of them comes again, or late
        open_slow(&s, base + run, ROOM);
        while (s.log.length < 60) {
            uint32_t what = (uint32_t)test_below(&s.random, 10);
            uint32_t which = (uint32_t)test_below(&s.random, 2);
            if (what < 5) {
                random_tree(&s, &sent[which]);
            }
            if (what < 7 && sent[which].message.count > 0) { // else lost, or held back
                send(&s, &sent[which]);
            } else if (what >= 8) {
                grow(&s);
            }
            check_taken(&s);
        }
        close_slow(&s);
        free(sent);
    }
}

// ---- single cases ----

static const uint32_t chain[] = {1, 1, 1, 1, 1, 1, 1, 1};

static or_guesses_fate_t add_chain(slow_t *s, const string_t *base, uint64_t parent_round,
                                   const uint32_t *nodes, uint32_t count)
{
    uint32_t news;
    const or_draft_tree_t message = {.round = 1,
                                     .parent_round = parent_round,
                                     .base_length = base->length,
                                     .base_hash = hash_of(base),
                                     .tokens = nodes,
                                     .back = chain,
                                     .count = count};
    return or_guesses_add(s->guesses, &message, &news);
}

static void a_tree_for_an_older_text_is_walked_along_the_text(void **state)
{
    (void)state;
    static const uint32_t guessed[] = {7, 8, 9};
    static const int32_t came[] = {7, 8};
    slow_t s;
    open_slow(&s, 1, 16);
    string_t base = text_of(&s, 3);
    assert_int_equal(or_token_log_append(&s.log, came, 2), OR_OK);
    assert_int_equal(or_guesses_follow(s.guesses, &s.log), 0);
    assert_int_equal(add_chain(&s, &base, 0, guessed, 3), OR_GUESSES_TAKEN);
    assert_int_equal(or_guesses_take(s.guesses, 8, 8, s.tree), 1);
    assert_int_equal(or_token_tree_tokens(s.tree)[1], 9);
    assert_int_equal(add_chain(&s, &base, 0, guessed, 3), OR_GUESSES_KNOWN);
    assert_int_equal(add_chain(&s, &base, 0, guessed, 1), OR_GUESSES_PAST); // the text has it all
    static const uint32_t other[] = {6, 9};
    assert_int_equal(add_chain(&s, &base, 0, other, 2), OR_GUESSES_PAST);
    close_slow(&s);
}

static void an_empty_tree_is_known_where_the_text_ends(void **state)
{
    (void)state;
    slow_t s;
    open_slow(&s, 1, 16);
    string_t end = text_of(&s, 3);
    string_t before = text_of(&s, 2);
    assert_int_equal(add_chain(&s, &end, 0, NULL, 0), OR_GUESSES_KNOWN);
    assert_int_equal(add_chain(&s, &before, 0, NULL, 0), OR_GUESSES_PAST);
    close_slow(&s);
}

// A guess on a guess that never came, or went, is alien; and one on a text of long ago is past: nobody can
// tell any more.
static void what_stands_on_nothing_is_told_apart(void **state)
{
    (void)state;
    static const uint32_t guessed[] = {7, 8};
    slow_t s;
    open_slow(&s, 1, 16);
    string_t missing = text_of(&s, 3);
    missing.tokens[missing.length++] = 9;
    assert_int_equal(add_chain(&s, &missing, 1, guessed, 2), OR_GUESSES_ALIEN);
    string_t other = text_of(&s, 3);
    other.tokens[1]++;
    assert_int_equal(add_chain(&s, &other, 0, guessed, 2), OR_GUESSES_ALIEN);
    assert_int_equal(add_chain(&s, &other, 1, guessed, 2), OR_GUESSES_PAST);
    string_t old = text_of(&s, 3);
    for (int32_t i = 0; i < 300; i++) {
        assert_int_equal(or_token_log_append(&s.log, &i, 1), OR_OK);
    }
    or_guesses_follow(s.guesses, &s.log);
    assert_int_equal(add_chain(&s, &old, 0, guessed, 2), OR_GUESSES_PAST);
    string_t young = text_of(&s, 303 - 255);
    const uint32_t rest[] = {(uint32_t)s.log.tokens[303 - 255]};
    assert_int_equal(add_chain(&s, &young, 0, rest, 1), OR_GUESSES_PAST);
    young.tokens[0]++;
    assert_int_equal(add_chain(&s, &young, 0, rest, 1), OR_GUESSES_ALIEN);
    close_slow(&s);
}

// If the pool is full the oldest leaves go, and never the ancestors of newcomers.
static void the_oldest_leaves_make_room(void **state)
{
    (void)state;
    static const uint32_t first[] = {20, 21}, second[] = {10, 11}, third[] = {22, 23, 24};
    slow_t s;
    open_slow(&s, 1, 5);
    string_t end = text_of(&s, 3);
    assert_int_equal(add_chain(&s, &end, 0, first, 2), OR_GUESSES_TAKEN);
    assert_int_equal(add_chain(&s, &end, 0, second, 2), OR_GUESSES_TAKEN);
    string_t on_first = end;
    on_first.tokens[on_first.length++] = 20;
    on_first.tokens[on_first.length++] = 21;
    assert_int_equal(add_chain(&s, &on_first, 1, third, 3), OR_GUESSES_TAKEN);
    assert_int_equal(or_guesses_take(s.guesses, 16, 16, s.tree), 5);
    for (uint32_t i = 1; i <= 5; i++) {
        assert_int_equal(or_token_tree_tokens(s.tree)[i], 19 + i);
        assert_int_equal(or_token_tree_parents(s.tree)[i], i - 1);
    }
    // And where that is not enough, what does not fit is dropped.
    static const uint32_t more[] = {30, 31, 32, 33, 34, 35, 36};
    assert_int_equal(add_chain(&s, &end, 0, more, 7), OR_GUESSES_TAKEN);
    assert_int_equal(or_guesses_take(s.guesses, 16, 16, s.tree), 5);
    assert_int_equal(or_token_tree_tokens(s.tree)[1], 30);
    assert_int_equal(or_token_tree_tokens(s.tree)[5], 34);
    close_slow(&s);
}

// A small room under random load: never more than it holds, always a tree on this text.
static void a_full_room_stays_a_tree(void **state)
{
    (void)state;
    slow_t s;
    open_slow(&s, test_seed(), 20);
    sent_t *sent = calloc(1, sizeof *sent);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t news;
        random_tree(&s, sent);
        for (uint32_t k = 1; k <= sent->message.count && s.count < STRINGS_MAX; k++) {
            add_string(&s, &sent->paths[k]);
        }
        forget_impossible(&s);
        or_guesses_add(s.guesses, &sent->message, &news);
        uint32_t taken = or_guesses_take(s.guesses, 64, 64, s.tree);
        assert_int_equal(taken, or_guesses_count(s.guesses));
        assert_true(taken <= 20);
        static string_t paths[32];
        paths[0] = text_of(&s, s.log.length);
        for (uint32_t k = 1; k <= taken; k++) {
            paths[k] = paths[or_token_tree_parents(s.tree)[k]];
            paths[k].tokens[paths[k].length++] = or_token_tree_tokens(s.tree)[k];
            assert_true(is_known(&s, &paths[k]));
        }
        s.count = s.count > 300 ? 0 : s.count;
        if (i % 8 == 7 || s.count == 0) {
            const int32_t token = 2;
            assert_int_equal(or_token_log_append(&s.log, &token, 1), OR_OK);
            or_guesses_clear(s.guesses, &s.log);
            s.count = 0;
        }
    }
    free(sent);
    close_slow(&s);
}

// A peer's trees cost about as much as they have nodes, however many siblings there are.
static void a_thousand_siblings_are_found_at_once(void **state)
{
    (void)state;
    static uint32_t nodes[OR_TREE_NODES_MAX], siblings[OR_TREE_NODES_MAX];
    uint32_t news;
    slow_t s;
    open_slow(&s, 1, 8 * OR_TREE_NODES_MAX);
    string_t end = text_of(&s, 3);
    const or_draft_tree_t message = {.round = 1,
                                     .base_length = end.length,
                                     .base_hash = hash_of(&end),
                                     .tokens = nodes,
                                     .back = siblings,
                                     .count = OR_TREE_NODES_MAX};
    for (uint32_t tree = 0; tree < 8; tree++) {
        for (uint32_t i = 0; i < OR_TREE_NODES_MAX; i++) {
            nodes[i] = tree * OR_TREE_NODES_MAX + i;
            siblings[i] = i + 1;
        }
        assert_int_equal(or_guesses_add(s.guesses, &message, &news), OR_GUESSES_TAKEN);
        assert_int_equal(news, OR_TREE_NODES_MAX);
    }
    uint64_t before = or_guesses_looks(s.guesses);
    assert_int_equal(or_guesses_add(s.guesses, &message, &news), OR_GUESSES_KNOWN);
    assert_true(or_guesses_looks(s.guesses) - before < 4 * (uint64_t)OR_TREE_NODES_MAX);
    close_slow(&s);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_was_sent_on_this_text),
        cmocka_unit_test(a_tree_for_an_older_text_is_walked_along_the_text),
        cmocka_unit_test(an_empty_tree_is_known_where_the_text_ends),
        cmocka_unit_test(what_stands_on_nothing_is_told_apart),
        cmocka_unit_test(the_oldest_leaves_make_room),
        cmocka_unit_test(a_full_room_stays_a_tree),
        cmocka_unit_test(a_thousand_siblings_are_found_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
