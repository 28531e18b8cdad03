// Goal: a tree that grows on and follows the text is at each round the tree that would be built from
// nothing, guesses that stay attend exactly as if they were run anew, nothing is run twice, and who is told
// of it piece by piece knows the same tree.
// Method: seeded texts that follow the tree, leave it, or end in it, with budgets that change, in a tree so
// small that guesses are evicted all the time; each round against a second builder and cache.
#include <string.h>

#include "drafter/build/builder_internal.h"
#include "tests/support/test_support.h"

#define CONTEXT 160u
#define ROOM 48u  // of the growing tree
#define NODES 24u // the most that a round asks for
#define PROMPT 9u
#define TEXTS 4
#define VOCABULARY_MAX 8192
#define CACHE_FLOATS_MAX 4096 // of one position's K or V

typedef struct {
    or_builder_t *builder;
    or_kv_sequence_t *sequence;
    or_token_tree_t *tree;
} side_t;

static or_gguf_t *gguf;
static or_vocab_t *vocab;
static or_model_t *model;
static side_t growing, fresh;
static or_token_tree_t *news_tree, *pool;
static or_belief_t belief, taught;
static int32_t text[CONTEXT];
static uint32_t length;
static or_build_job_t job;
static or_draft_method_t method;
static uint64_t rng;

static void ok(or_status_t status)
{
    if (status != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

// One slot more than the builder uses, for rows of the test's own.
static void open_side(side_t *side, uint32_t room)
{
    ok(or_builder_create(model, vocab, room, 0, &side->builder));
    ok(or_model_open_sequence(model, or_builder_slots(side->builder) + 1, &side->sequence));
    ok(or_token_tree_create(NODES, &side->tree));
}

static void close_side(side_t *side)
{
    or_token_tree_destroy(&side->tree);
    or_kv_sequence_close(&side->sequence);
    or_builder_destroy(&side->builder);
}

static int setup(void **state)
{
    (void)state;
    const or_model_options_t options = {.threads = 1, .context_max = CONTEXT, .rows_max = 16};
    ok(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf));
    ok(or_vocab_load(gguf, &vocab));
    ok(or_model_load(gguf, &options, &model));
    const or_model_shape_t *shape = or_model_shape(model);
    assert_true(shape->layers * shape->kv_heads * shape->head_dim <= CACHE_FLOATS_MAX);
    open_side(&growing, ROOM);
    open_side(&fresh, NODES);
    ok(or_token_tree_create(NODES, &news_tree));
    ok(or_token_tree_create(OR_TREE_NODES_MAX, &pool));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_token_tree_destroy(&pool);
    or_token_tree_destroy(&news_tree);
    close_side(&fresh);
    close_side(&growing);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

// ---- rounds ----

static void begin_text(or_draft_method_t with)
{
    method = with;
    or_belief_init(&belief);
    belief.log_likelihood[test_below(&rng, OR_BELIEF_GRID)] = 1; // from a chain to a bush
    or_belief_init(&taught);
    or_kv_sequence_truncate(growing.sequence, 0);
    or_kv_sequence_truncate(fresh.sequence, 0);
    or_builder_forget(growing.builder);
    or_token_tree_reset(pool, 0);
    length = PROMPT;
    text[0] = 1;
    for (uint32_t i = 1; i < PROMPT; i++) {
        text[i] = (int32_t)(300 + test_below(&rng, 1500));
    }
    job = (or_build_job_t){.history = text,
                           .noise_key = or_noise_key(test_random(&rng), 0),
                           .sampling = or_sampling_default(),
                           .draft_temperature = 1,
                           .belief = &belief};
    job.sampling.temperature = 1;
    job.sampling.repeat_penalty = 1.2f; // sees the path, and what was committed of it
    or_build_job_suit(&job, method, OR_ACCEPT_COUPLED);
}

static void place_job(void)
{
    job.place = (or_noise_place_t){0, 0};
    for (uint32_t i = PROMPT; i < length; i++) {
        job.place = or_noise_advance(job.place, or_vocab_widths(vocab)[text[i]]);
    }
    job.history_count = length;
}

static void catch_up(side_t *side)
{
    or_model_row_t row = {
        .sequence = side->sequence, .slot = OR_KV_NO_SLOT, .parent_slot = OR_KV_NO_SLOT};
    if (or_kv_sequence_length(side->sequence) >= length) {
        or_kv_sequence_truncate(side->sequence, length - 1);
    }
    while (or_kv_sequence_length(side->sequence) < length) {
        row.token = text[or_kv_sequence_length(side->sequence)];
        ok(or_model_forward(model, &row, 1));
    }
    job.root_row = 0;
}

static void finish(void)
{
    job.sequence = growing.sequence;
    if (!or_builder_stands(growing.builder, &job)) {
        catch_up(&growing);
        ok(or_builder_root(growing.builder, method, &job));
        or_token_tree_reset(pool, text[length - 1]);
    }
    ok(or_builder_finish(growing.builder, &job, growing.tree));
}

static void assert_same_trees(void)
{
    uint32_t count = or_token_tree_count(fresh.tree);
    assert_int_equal(or_token_tree_count(growing.tree), count);
    assert_memory_equal(or_token_tree_tokens(growing.tree), or_token_tree_tokens(fresh.tree),
                        (count + 1) * sizeof(int32_t));
    assert_memory_equal(or_token_tree_parents(growing.tree), or_token_tree_parents(fresh.tree),
                        (count + 1) * sizeof(uint32_t));
}

static void build_fresh(void)
{
    catch_up(&fresh);
    job.sequence = fresh.sequence;
    ok(or_builder_build(fresh.builder, method, &job, fresh.tree));
}

static bool grow(void)
{
    bool grew;
    job.sequence = growing.sequence;
    ok(or_builder_grow(growing.builder, &job, &grew));
    return grew;
}

// ---- the growing tree, seen from inside ----

// A random guess of the tree; 0 if it has none.
static uint32_t pick_guess(void)
{
    const or_builder_t *b = growing.builder;
    return b->set_count == 0 ? 0 : b->chosen[test_below(&rng, b->set_count)];
}

// The tokens from the root to a guess; returns how many.
static uint32_t path_to(uint32_t guess, int32_t path[CONTEXT])
{
    const or_build_guess_t *guesses = growing.builder->guesses;
    uint32_t depth = guesses[guess].depth;
    for (; guess != OR_BUILD_ROOT; guess = guesses[guess].parent) {
        path[guesses[guess].depth - 1] = guesses[guess].token;
    }
    return depth;
}

// The distribution after a guess that was run is, bit for bit, the one after its committed path.
static void assert_attends_as_fresh(void)
{
    static float in_tree[VOCABULARY_MAX], committed[VOCABULARY_MAX];
    uint32_t guess = pick_guess();
    const or_build_guess_t *at = &growing.builder->guesses[guess];
    if (guess == 0 || !at->expanded || length + at->depth + 1 > CONTEXT) {
        return;
    }
    int32_t path[CONTEXT];
    uint32_t depth = path_to(guess, path);
    uint32_t slot = or_builder_slots(growing.builder);
    or_model_row_t row = {growing.sequence, 700, slot, at->slot};
    ok(or_model_forward(model, &row, 1));
    ok(or_model_logits(model, 0, 1, in_tree));
    or_kv_sequence_drop_slot(growing.sequence, slot);
    for (uint32_t i = 0; i <= depth; i++) {
        row = (or_model_row_t){fresh.sequence, i < depth ? path[i] : 700, OR_KV_NO_SLOT,
                               OR_KV_NO_SLOT};
        ok(or_model_forward(model, &row, 1));
    }
    ok(or_model_logits(model, 0, 1, committed));
    or_kv_sequence_truncate(fresh.sequence, length);
    assert_memory_equal(in_tree, committed, or_vocab_size(vocab) * sizeof *in_tree);
}

static void assert_same_cache(void)
{
    static float keys[2][CACHE_FLOATS_MAX], values[2][CACHE_FLOATS_MAX];
    assert_int_equal(or_kv_sequence_length(growing.sequence), length);
    assert_int_equal(or_kv_sequence_length(fresh.sequence), length);
    for (uint32_t i = 0; i < length; i++) {
        or_kv_sequence_read(growing.sequence, i, keys[0], values[0]);
        or_kv_sequence_read(fresh.sequence, i, keys[1], values[1]);
        assert_memory_equal(keys[0], keys[1], sizeof keys[0]);
        assert_memory_equal(values[0], values[1], sizeof values[0]);
    }
}

// The text goes on along the tree, mostly, and sometimes leaves it.
static void go_on(void)
{
    int32_t path[CONTEXT];
    uint32_t slots[OR_TREE_NODES_MAX];
    uint32_t count = path_to(pick_guess(), path);
    if (count == 0 || test_below(&rng, 4) == 0) {
        path[count++] = (int32_t)(300 + test_below(&rng, 1500));
    }
    count = count < CONTEXT - length ? count : CONTEXT - length;
    uint32_t kept = or_builder_follow(growing.builder, &taught, path, count, slots);
    if (kept == count) {
        ok(or_kv_sequence_accept_root(growing.sequence, slots, count));
    } else {
        ok(or_kv_sequence_accept(growing.sequence, slots, kept));
    }
    memcpy(text + length, path, count * sizeof *path);
    length += count;
}

static void ask(uint32_t nodes, uint32_t depth)
{
    job.nodes_max = nodes;
    job.depth_max = depth;
}

static void each_round_is_as_if_built_from_nothing(void **state)
{
    (void)state;
    rng = test_seed();
    for (int t = 0; t < TEXTS; t++) {
        begin_text(t % 2 == 0 ? OR_DRAFT_COUPLED : OR_DRAFT_TOPK);
        while (length < CONTEXT) {
            ask(1 + test_below(&rng, NODES), 1 + test_below(&rng, 6));
            place_job();
            finish();
            build_fresh();
            assert_same_trees();
            assert_same_cache();
            for (uint32_t passes = test_below(&rng, 6); passes > 0 && grow(); passes--) {
            }
            assert_attends_as_fresh();
            finish(); // whatever grew besides
            assert_same_trees();
            ask(1 + test_below(&rng, NODES), 1 + test_below(&rng, 6));
            finish();
            build_fresh();
            assert_same_trees();
            go_on();
        }
        place_job();
        finish(); // no position is left
        assert_int_equal(or_token_tree_count(growing.tree), 0);
        assert_false(grow());
    }
}

// A tree that was grown to its end answers the next round along its best path at once.
static void what_was_grown_is_not_run_again(void **state)
{
    (void)state;
    uint32_t slots[OR_TREE_NODES_MAX];
    rng = test_seed();
    for (int t = 0; t < TEXTS; t++) {
        begin_text(OR_DRAFT_COUPLED);
        or_belief_init(&belief);
        ask(3, 3);
        place_job();
        finish();
        while (grow()) {
        }
        uint64_t passes = or_builder_passes(growing.builder);
        int32_t best = growing.builder->guesses[growing.builder->chosen[0]].token;
        assert_int_equal(or_builder_follow(growing.builder, &taught, &best, 1, slots), 1);
        ok(or_kv_sequence_accept_root(growing.sequence, slots, 1));
        text[length++] = best;
        place_job();
        assert_true(or_builder_stands(growing.builder, &job));
        finish();
        assert_int_equal(or_token_tree_count(growing.tree), 3);
        assert_int_equal(or_builder_passes(growing.builder), passes);
        job.place.byte_offset++; // other noise: another tree
        assert_false(or_builder_stands(growing.builder, &job));
    }
}

// Each token teaches at the guess it follows, also where it is none of that guess's children; nothing is
// taught beyond what was run.
static void following_teaches(void **state)
{
    (void)state;
    uint32_t slots[OR_TREE_NODES_MAX];
    rng = test_seed();
    begin_text(OR_DRAFT_COUPLED);
    ask(8, 4);
    place_job();
    finish();
    const or_builder_t *b = growing.builder;
    uint32_t first = b->chosen[0];
    const int32_t path[] = {b->guesses[first].token, 700, 701};
    or_belief_t expected = taught;
    or_belief_learn(&expected, b->lists[0].scores, b->lists[0].count, 0);
    assert_true(b->guesses[first].expanded);
    uint32_t rank = 0;
    while (rank < b->lists[first].count && b->lists[first].ids[rank] != 700) {
        rank++;
    }
    or_belief_learn(&expected, b->lists[first].scores, b->lists[first].count, rank);
    assert_int_equal(or_builder_follow(growing.builder, &taught, path, 3, slots), 1);
    assert_memory_equal(&taught, &expected, sizeof taught);
    assert_int_equal(or_builder_follow(growing.builder, &taught, path, 3, slots), 0); // it is gone
    assert_memory_equal(&taught, &expected, sizeof taught);
}

// ---- telling ----

// Put told guesses into the pool; returns how many are new to it. Their base is in it already. *again grows by the
// leaves that are, too: a guess that was evicted and grew anew is told again.
static uint32_t take_news(const or_build_news_t *news, uint32_t *again)
{
    uint32_t node_of[NODES + 1] = {0};
    uint32_t count = or_token_tree_count(news->tree);
    uint32_t added = 0;
    for (uint32_t i = 0; i < news->depth; i++) {
        node_of[0] = or_token_tree_find_child(pool, node_of[0], news->path[i]);
        assert_int_not_equal(node_of[0], 0);
    }
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t parent = node_of[or_token_tree_parents(news->tree)[i]];
        int32_t token = or_token_tree_tokens(news->tree)[i];
        node_of[i] = or_token_tree_find_child(pool, parent, token);
        if (node_of[i] == 0) {
            ok(or_token_tree_add(pool, parent, token, &node_of[i]));
            added++;
        } else {
            *again += or_token_tree_first_child(news->tree, i) == 0;
        }
    }
    return added;
}

static uint32_t told(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < growing.builder->set_count; i++) {
        count += growing.builder->guesses[growing.builder->chosen[i]].told;
    }
    return count;
}

static void assert_in_pool(const or_token_tree_t *tree)
{
    uint32_t node_of[NODES + 1] = {0};
    for (uint32_t i = 1; i <= or_token_tree_count(tree); i++) {
        node_of[i] = or_token_tree_find_child(pool, node_of[or_token_tree_parents(tree)[i]],
                                              or_token_tree_tokens(tree)[i]);
        assert_int_not_equal(node_of[i], 0);
    }
}

// The pool as it is after the text went on.
static void reroot_pool(uint32_t from)
{
    static or_token_tree_t *old;
    uint32_t node_of[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t root = 0;
    for (uint32_t i = from; i < length; i++) {
        root = i == from || root != 0 ? or_token_tree_find_child(pool, root, text[i]) : 0;
    }
    old = pool;
    ok(or_token_tree_create(OR_TREE_NODES_MAX, &pool));
    or_token_tree_reset(pool, text[length - 1]);
    for (uint32_t i = root + 1; root != 0 && i <= or_token_tree_count(old); i++) {
        uint32_t parent = or_token_tree_parents(old)[i];
        if (parent == root || node_of[parent] != 0) {
            ok(or_token_tree_add(pool, node_of[parent], or_token_tree_tokens(old)[i], &node_of[i]));
        }
    }
    or_token_tree_destroy(&old);
}

static void who_is_told_piece_by_piece_knows_the_tree(void **state)
{
    const uint32_t most = 2 * NODES - 8;
    or_build_news_t news = {.tree = news_tree};
    uint32_t pieces = 0, all = 0, again = 0;
    (void)state;
    rng = test_seed();
    for (int t = 0; t < TEXTS; t++) {
        begin_text(OR_DRAFT_COUPLED);
        while (length < CONTEXT) {
            ask(1 + test_below(&rng, NODES), 1 + test_below(&rng, 6));
            place_job();
            finish();
            ok(or_builder_tell_round(growing.builder, &news));
            all += take_news(&news, &again);
            assert_in_pool(growing.tree);
            bool grew = true;
            for (uint32_t passes = 1 + test_below(&rng, 8); passes > 0 && grew; passes--) {
                grew = grow();
                ok(or_builder_tell_more(growing.builder, 4, most, &news));
                uint32_t added = take_news(&news, &again);
                all += added;
                // At least four are there to tell, or a part of them if the tree has no room for what connects them.
                assert_true(added == 0 || told() <= most);
                pieces += news.depth > 0 && added > 0;
            }
            uint32_t from = length;
            go_on();
            reroot_pool(from);
        }
    }
    assert_true(pieces > 3); // some stood on guesses
    assert_true(again < all / 20);
}

// With room for all of it, all of it is told once; and again where nobody knows it any more.
static void all_final_guesses_are_told(void **state)
{
    or_build_news_t news = {.tree = news_tree};
    uint32_t known = 0;
    (void)state;
    rng = test_seed();
    begin_text(OR_DRAFT_COUPLED);
    ask(6, 4);
    place_job();
    finish();
    while (grow()) {
    }
    for (int again = 0; again < 2; again++) {
        uint32_t added = 0;
        or_token_tree_reset(pool, text[length - 1]);
        do {
            ok(or_builder_tell_more(growing.builder, 1, ROOM, &news));
            added += take_news(&news, &known);
        } while (or_token_tree_count(news_tree) > 0);
        assert_int_equal(added, ROOM);
        or_builder_untell(growing.builder);
    }
    assert_int_equal(known, 0); // nothing was evicted
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_round_is_as_if_built_from_nothing),
        cmocka_unit_test(what_was_grown_is_not_run_again),
        cmocka_unit_test(following_teaches),
        cmocka_unit_test(who_is_told_piece_by_piece_knows_the_tree),
        cmocka_unit_test(all_final_guesses_are_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
