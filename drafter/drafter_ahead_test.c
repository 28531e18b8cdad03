// Goal: a drafter that works ahead answers at once where the text followed its tree, tells a coordinator each
// guess once, repeats a round's tree whole when nudged, and stays what a synchronous one is where the text,
// the budget or the pages take its tree away.
// Method: a drafter on the network in memory, slow by the virtual clock, so that what a message cost shows in
// when it comes; the test is the coordinator and compares each tree with that of a session that does not
// draft ahead. The method is topk, which no learning changes.
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/decode/token_tree.h"
#include "drafter/drafter.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define PASS_US 5000u
#define PASS_NS (PASS_US * 1000LL)
#define LONG_NS (2 * OR_NS_PER_S) // longer than any tree takes to grow to its end
#define NODES 8u
#define DEPTH 4u
#define TEXT_MAX 256u
#define INBOX_MAX 256u

static or_gguf_t *gguf;
static or_vocab_t *vocab;
static or_model_t *model;
static or_virtual_clock_t virtual;
static or_network_t *network;
static or_channel_t *hub_channel, *edge_channel;
static or_link_t *hub, *edge;
static or_drafter_t *drafter;
static or_peer_t peer;
static or_message_t inbox[INBOX_MAX];
static uint32_t inbox_count;
static int64_t arrived_ns[INBOX_MAX];
static uint32_t text[TEXT_MAX + 1];
static uint32_t length;
static or_token_tree_t *pool; // what an ahead coordinator knows, from the text on
static uint64_t last_session; // of those that were opened to compare with

// ---- the coordinator ----

static void take(or_message_t *message)
{
    if (message->type == OR_MSG_HELLO) {
        const or_message_t welcome = {.type = OR_MSG_WELCOME,
                                      .body.welcome = {.heartbeat_ms = OR_LINK_HEARTBEAT_MS}};
        assert_int_equal(or_link_send(hub, peer, &welcome), OR_OK);
        or_message_fini(message);
        return;
    }
    assert_true(inbox_count < INBOX_MAX);
    arrived_ns[inbox_count] = virtual.now_ns;
    inbox[inbox_count++] = *message;
}

static void clear_inbox(void)
{
    while (inbox_count > 0) {
        or_message_fini(&inbox[--inbox_count]);
    }
}

// Let the drafter work for so long.
static void run_for(int64_t ns)
{
    int64_t end = virtual.now_ns + ns;
    do {
        or_link_event_t event;
        or_message_t message;
        int64_t due = or_drafter_turn(drafter);
        (void)or_link_tick(hub);
        while (or_link_receive(hub, &event, &peer, &message) == OR_OK) {
            assert_int_equal(event, OR_LINK_MESSAGE);
            take(&message);
        }
        if (due > virtual.now_ns) {
            int64_t step = virtual.now_ns + OR_NS_PER_MS;
            virtual.now_ns = due < step ? due : step;
        }
    } while (virtual.now_ns < end);
}

static void tell(const or_message_t *message)
{
    assert_int_equal(or_link_send(hub, peer, message), OR_OK);
}

// It draws among as many tokens at most; 0: all.
static void open_among(uint64_t session, uint32_t ahead, uint32_t top_k)
{
    or_message_t open = {.type = OR_MSG_OPEN_SESSION,
                         .session = {session},
                         .body.open_session = {.sampling = or_sampling_default(),
                                               .accept_rule = OR_ACCEPT_COUPLED,
                                               .draft_method = OR_DRAFT_TOPK,
                                               .draft_nodes = NODES,
                                               .draft_depth = DEPTH,
                                               .draft_temperature = 0.4f,
                                               .draft_ahead = ahead}};
    open.body.open_session.sampling.top_k = top_k;
    tell(&open);
}

static void open_session(uint64_t session, uint32_t ahead)
{
    open_among(session, ahead, 0);
}

static or_message_t prefix_of(uint64_t session, uint32_t start, uint64_t round)
{
    return (or_message_t){.type = OR_MSG_PREFIX,
                          .session = {session},
                          .body.prefix = {.start = start,
                                          .tokens = text + start,
                                          .count = length - start,
                                          .hash = or_prefix_hash(0, text, length),
                                          .round = round}};
}

static void tell_text(uint64_t session, uint32_t start, uint64_t round)
{
    const or_message_t prefix = prefix_of(session, start, round);
    tell(&prefix);
}

static void cancel(uint64_t session)
{
    const or_message_t message = {.type = OR_MSG_CANCEL, .session = {session}};
    tell(&message);
}

static void begin_text(void)
{
    length = 0;
    for (uint32_t i = 0; i < 6; i++) {
        text[length++] = 1 + 37 * i * i;
    }
}

// The text goes on with these nodes of the tree, the first child of the first child ...
static void follow(const or_draft_tree_t *tree, uint32_t levels)
{
    for (uint32_t i = 0; i < levels; i++) {
        assert_true(i < tree->count && tree->back[i] == 1);
        text[length++] = tree->tokens[i];
    }
}

static uint32_t deepest(const or_draft_tree_t *tree)
{
    uint32_t depth[NODES + 1] = {0};
    uint32_t most = 0;
    for (uint32_t i = 1; i <= tree->count; i++) {
        depth[i] = depth[i - tree->back[i - 1]] + 1;
        most = depth[i] > most ? depth[i] : most;
    }
    return most;
}

// ---- setup ----

static void start(const or_drafter_config_t *config, uint32_t pages)
{
    static const or_network_faults_t no_faults = {0};
    const or_model_options_t options = {.threads = 1, .pages_max = pages, .context_max = TEXT_MAX};
    const or_clock_t *clock = &virtual.clock;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    or_virtual_clock_init(&virtual, OR_NS_PER_S);
    const or_hello_t hello = or_drafter_hello(config, gguf, model, vocab);
    assert_int_equal(or_network_create(&virtual, 1, &no_faults, &network), OR_OK);
    assert_int_equal(or_network_hub(network, &hub_channel), OR_OK);
    assert_int_equal(or_network_edge(network, &edge_channel), OR_OK);
    assert_int_equal(or_link_create(hub_channel, clock, NULL, OR_LINK_HEARTBEAT_MS, &hub), OR_OK);
    assert_int_equal(or_link_create(edge_channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &edge),
                     OR_OK);
    assert_int_equal(or_drafter_create(config, model, vocab, edge, clock, &drafter), OR_OK);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &pool), OR_OK);
    last_session = 1000;
    run_for(10 * OR_NS_PER_MS);
    assert_true(or_link_welcomed(edge));
    begin_text();
}

static int setup(void **state)
{
    (void)state;
    const or_drafter_config_t config = {
        .nodes_max = 64, .sessions_max = 4, .step_delay_us = PASS_US};
    start(&config, 64);
    return 0;
}

// A pass takes a second.
static int setup_slow(void **state)
{
    (void)state;
    const or_drafter_config_t config = {
        .nodes_max = 64, .sessions_max = 4, .step_delay_us = 1000000};
    start(&config, 64);
    return 0;
}

static int setup_telling(void **state)
{
    (void)state;
    const or_drafter_config_t config = {
        .nodes_max = 64, .sessions_max = 4, .step_delay_us = PASS_US, .stats_ms = 1000};
    start(&config, 64);
    return 0;
}

static int setup_with_pages(uint32_t pages)
{
    const or_drafter_config_t config = {
        .nodes_max = 64, .sessions_max = 4, .step_delay_us = PASS_US};
    start(&config, pages);
    return 0;
}

static int setup_one_page(void **state)
{
    (void)state;
    return setup_with_pages(1);
}

static int setup_eight_pages(void **state)
{
    (void)state;
    return setup_with_pages(8);
}

static int setup_two_pages(void **state)
{
    (void)state;
    return setup_with_pages(2);
}

static int teardown(void **state)
{
    (void)state;
    clear_inbox();
    or_token_tree_destroy(&pool);
    or_drafter_destroy(&drafter);
    or_link_destroy(&edge);
    or_link_destroy(&hub);
    or_channel_destroy(&edge_channel);
    or_channel_destroy(&hub_channel);
    or_network_destroy(&network);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

// ---- what came ----

// The only message that came, a tree of this session on the text as it is; valid until the inbox is cleared.
static const or_draft_tree_t *only_tree(uint64_t session, uint64_t round)
{
    assert_int_equal(inbox_count, 1);
    assert_int_equal(inbox[0].type, OR_MSG_DRAFT_TREE);
    const or_draft_tree_t *tree = &inbox[0].body.draft_tree;
    assert_int_equal(inbox[0].session.value, session);
    assert_int_equal(tree->round, round);
    assert_int_equal(tree->parent_round, 0);
    assert_int_equal(tree->base_length, length);
    assert_int_equal(tree->base_hash, or_prefix_hash(0, text, length));
    return tree;
}

// It is what a session draws that knows nothing but the text.
static void assert_as_synchronous(const or_draft_tree_t *tree, uint32_t nodes, uint32_t depth)
{
    or_message_t kept = inbox[0];
    or_draft_tree_t copy = *tree;
    uint64_t session = ++last_session;
    inbox_count = 0;
    open_session(session, 0);
    or_message_t prefix = prefix_of(session, 0, 1);
    prefix.body.prefix.draft_nodes = nodes;
    prefix.body.prefix.draft_depth = depth;
    tell(&prefix);
    for (int i = 0; i < 100 && inbox_count == 0; i++) {
        run_for(10 * PASS_NS);
    }
    while (inbox_count > 0 && inbox[inbox_count - 1].session.value != session) {
        or_message_fini(&inbox[--inbox_count]);
    }
    const or_draft_tree_t *other = only_tree(session, 1);
    assert_int_equal(copy.count, other->count);
    assert_memory_equal(copy.tokens, other->tokens, copy.count * sizeof *copy.tokens);
    assert_memory_equal(copy.back, other->back, copy.count * sizeof *copy.back);
    cancel(session);
    clear_inbox();
    inbox[inbox_count++] = kept;
}

// ---- one round in flight ----

static void a_hit_is_answered_at_once(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 1); // and nothing is told of what grows
    assert_int_equal(tree->count, NODES);
    assert_true(tree->draft_us >= PASS_US && tree->passes > 0);
    for (uint64_t round = 2; round < 5; round++) {
        uint32_t before = length;
        follow(tree, 1 + round % 2);
        clear_inbox();
        tell_text(1, before, round);
        int64_t told_ns = virtual.now_ns;
        run_for(PASS_NS / 2);
        tree = only_tree(1, round);
        assert_true(arrived_ns[0] - told_ns < PASS_NS / 2);
        assert_int_equal(tree->draft_us, 0);
        run_for(LONG_NS);
        tree = only_tree(1, round);
        assert_as_synchronous(tree, 0, 0);
        tree = &inbox[0].body.draft_tree;
    }
}

static void a_miss_is_built_anew(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    follow(only_tree(1, 1), 1);
    text[length++] = 700; // no guess
    clear_inbox();
    tell_text(1, length - 2, 2);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 2);
    assert_true(tree->draft_us >= PASS_US);
    assert_as_synchronous(tree, 0, 0);
}

// Without time to grow, a followed text is still right, and so are budgets that come with it.
static void budgets_are_kept(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {3, 8, 5, 0, 1}, depths[] = {4, 1, 2, 0, 3};
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(20 * PASS_NS);
    for (uint64_t i = 0; i < 5; i++) {
        uint32_t before = length;
        follow(only_tree(1, 1 + i), 1);
        clear_inbox();
        or_message_t prefix = prefix_of(1, before, 2 + i);
        prefix.body.prefix.draft_nodes = nodes[i];
        prefix.body.prefix.draft_depth = depths[i];
        tell(&prefix);
        run_for(20 * PASS_NS);
        const or_draft_tree_t *tree = only_tree(1, 2 + i);
        assert_true(tree->count <= (nodes[i] > 0 ? nodes[i] : NODES));
        assert_true(deepest(tree) <= (depths[i] > 0 ? depths[i] : DEPTH));
        assert_as_synchronous(tree, nodes[i], depths[i]);
    }
}

// Told not to work ahead, it rests between rounds.
static void it_rests_when_told_so(void **state)
{
    (void)state;
    or_message_t prefix;
    open_session(1, 2);
    prefix = prefix_of(1, 0, 1);
    prefix.body.prefix.draft_ahead = 1; // 0 rounds
    tell(&prefix);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 1);
    uint32_t passes = tree->passes;
    follow(tree, 2);
    clear_inbox();
    prefix = prefix_of(1, length - 2, 2);
    prefix.body.prefix.draft_ahead = 1;
    tell(&prefix);
    run_for(LONG_NS);
    tree = only_tree(1, 2);
    assert_int_equal(tree->draft_us, tree->passes * PASS_US); // no pass before the prefix
    assert_true(tree->passes > 0 && passes > 0);
    assert_as_synchronous(tree, 0, 0);
}

static void other_texts_and_rounds_are_taken_as_they_come(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 5);
    run_for(LONG_NS);
    follow(only_tree(1, 5), 1);
    clear_inbox();
    tell_text(1, 0, 4); // late: nothing happens
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 0);
    tell_text(1, 0, 6); // the whole text again
    run_for(PASS_NS);
    assert_int_equal(only_tree(1, 6)->draft_us, 0);
    clear_inbox();
    tell_text(1, 0, 7); // a new round of the same text
    run_for(PASS_NS);
    assert_int_equal(only_tree(1, 7)->draft_us, 0);
    clear_inbox();
    text[2]++; // another text
    tell_text(1, 0, 8);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 8);
    assert_as_synchronous(tree, 0, 0);
    clear_inbox();
    const or_message_t verdict = {.type = OR_MSG_VERDICT,
                                  .session = {1},
                                  .body.verdict = {.round = 8, .base_length = length, .next = 5}};
    tell(&verdict); // numbers of nodes say nothing here
    run_for(PASS_NS);
    assert_int_equal(inbox_count, 1);
    assert_int_equal(inbox[0].type, OR_MSG_ERROR);
    assert_int_equal(inbox[0].body.error.code, OR_WIRE_NEED_PREFIX);
}

static void a_text_may_reach_the_context(void **state)
{
    (void)state;
    while (length < TEXT_MAX - 3) {
        text[length] = 300 + length;
        length++;
    }
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    clear_inbox();
    for (uint64_t round = 2; length < TEXT_MAX + 1; round++) {
        text[length++] = 300;
        tell_text(1, length - 1, round);
        run_for(LONG_NS);
        const or_draft_tree_t *tree = only_tree(1, round);
        assert_true((tree->count == 0) == (length >= TEXT_MAX));
        clear_inbox();
    }
}

// ---- several rounds in flight ----

// Join a tree to the pool: it stands on something known, and each of its leaves is news.
static void join(const or_draft_tree_t *tree)
{
    uint32_t node_of[OR_TREE_NODES_MAX + 1];
    uint64_t hash[OR_TREE_NODES_MAX + 1];
    uint32_t added = 0;
    uint32_t base = UINT32_MAX;
    hash[0] = or_prefix_hash(0, text, length);
    for (uint32_t i = 0; i <= or_token_tree_count(pool); i++) {
        uint32_t token = (uint32_t)or_token_tree_tokens(pool)[i];
        hash[i] =
            i == 0 ? hash[0] : or_prefix_hash(hash[or_token_tree_parents(pool)[i]], &token, 1);
        bool here = length + or_token_tree_depths(pool)[i] == tree->base_length &&
                    hash[i] == tree->base_hash;
        base = here ? i : base;
    }
    assert_int_not_equal(base, UINT32_MAX);
    assert_true((tree->parent_round == 0) == (base == 0));
    assert_true(base == 0 || tree->parent_round == tree->round);
    assert_true(tree->count > 0 && tree->count <= NODES);
    node_of[0] = base;
    for (uint32_t i = 1; i <= tree->count; i++) {
        uint32_t parent = node_of[i - tree->back[i - 1]];
        int32_t token = (int32_t)tree->tokens[i - 1];
        node_of[i] = or_token_tree_find_child(pool, parent, token);
        if (node_of[i] == 0) {
            assert_int_equal(or_token_tree_add(pool, parent, token, &node_of[i]), OR_OK);
            added++;
        } else {
            bool connects = false;
            for (uint32_t j = i + 1; j <= tree->count; j++) {
                connects = connects || j - tree->back[j - 1] == i;
            }
            assert_true(connects);
        }
    }
    assert_true(added > 0);
}

static void join_all(void)
{
    for (uint32_t i = 0; i < inbox_count; i++) {
        assert_int_equal(inbox[i].type, OR_MSG_DRAFT_TREE);
        join(&inbox[i].body.draft_tree);
    }
    clear_inbox();
}

// The pool once the text has gone on by the first `levels` levels of its first path.
static void follow_pool(uint32_t levels)
{
    or_token_tree_t *old = pool;
    uint32_t node_of[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t root = 0;
    for (uint32_t i = 0; i < levels; i++) {
        root = or_token_tree_first_child(old, root);
        assert_int_not_equal(root, 0);
        text[length++] = (uint32_t)or_token_tree_tokens(old)[root];
    }
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &pool), OR_OK);
    for (uint32_t i = root + 1; i <= or_token_tree_count(old); i++) {
        uint32_t parent = or_token_tree_parents(old)[i];
        if (parent == root || node_of[parent] != 0) {
            assert_int_equal(
                or_token_tree_add(pool, node_of[parent], or_token_tree_tokens(old)[i], &node_of[i]),
                OR_OK);
        }
    }
    or_token_tree_destroy(&old);
}

static void assert_in_pool(const or_draft_tree_t *tree)
{
    uint32_t node_of[OR_TREE_NODES_MAX + 1] = {0};
    for (uint32_t i = 1; i <= tree->count; i++) {
        node_of[i] = or_token_tree_find_child(pool, node_of[i - tree->back[i - 1]],
                                              (int32_t)tree->tokens[i - 1]);
        assert_int_not_equal(node_of[i], 0);
    }
}

static void increments_join_into_one_tree(void **state)
{
    (void)state;
    const uint32_t ahead = 3;
    bool stood_on_guess = false;
    open_session(1, ahead);
    tell_text(1, 0, 1);
    for (uint64_t round = 1; round < 6; round++) {
        run_for(LONG_NS);
        for (uint32_t i = 0; i < inbox_count; i++) {
            stood_on_guess = stood_on_guess || inbox[i].body.draft_tree.parent_round != 0;
        }
        join_all();
        uint32_t known = or_token_tree_count(pool);
        assert_true(known > 2 * NODES && known <= ahead * NODES);
        tell_text(1, length - 1, round); // a nudge
        run_for(LONG_NS);
        assert_true(inbox_count > 1); // the round's tree, then the rest of what was told
        const or_draft_tree_t *tree = &inbox[0].body.draft_tree;
        assert_int_equal(tree->round, round);
        assert_int_equal(tree->count, NODES);
        assert_in_pool(tree);
        while (inbox_count > 1) { // the comparison keeps the first alone
            or_message_fini(&inbox[--inbox_count]);
        }
        assert_as_synchronous(tree, 0, 0);
        clear_inbox();
        uint32_t before = length;
        follow_pool(1 + round % 2);
        tell_text(1, before, round + 1);
    }
    assert_true(stood_on_guess);
}

// A new round of the same text is asked for by somebody who knows nothing.
static void a_round_begun_again_is_answered_whole(void **state)
{
    (void)state;
    open_session(1, 2);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    assert_true(inbox_count > 1);
    clear_inbox();
    tell_text(1, 0, 2);
    run_for(LONG_NS);
    assert_true(inbox_count > 1);
    join_all();                                 // as if nothing had been told
    uint32_t known = or_token_tree_count(pool); // the last few may be too few to be worth telling
    assert_true(known > 2 * NODES - NODES / 2 && known <= 2 * NODES);
}

// Somebody who asks again has lost what he was told, the guesses beyond the round's tree too.
static void who_asks_again_is_told_all_again(void **state)
{
    (void)state;
    open_session(1, 2);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    assert_true(inbox_count > 1);
    clear_inbox(); // lost
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    join_all();
    uint32_t known = or_token_tree_count(pool);
    assert_true(known > 2 * NODES - NODES / 2 && known <= 2 * NODES);
}

// One that comes back after a cut is told to build something else.
static void a_session_opened_otherwise_is_another(void **state)
{
    (void)state;
    open_session(1, 0);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 1);
    clear_inbox();
    open_session(1, 0);
    tell_text(1, length, 2); // nothing has changed: it knows the text
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 1);
    assert_int_equal(inbox[0].type, OR_MSG_DRAFT_TREE);
    clear_inbox();
    open_session(1, 2);
    tell_text(1, 0, 3);
    run_for(LONG_NS);
    assert_true(inbox_count > 1);
    join_all();
}

// ---- many sessions ----

static void a_due_tree_waits_for_one_pass_of_growing(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(OR_NS_PER_MS);
    while (inbox_count == 0) {
        run_for(OR_NS_PER_MS);
    }
    clear_inbox();
    run_for(PASS_NS / 2 + PASS_NS); // it grows
    open_session(2, 0);
    tell_text(2, 0, 1);
    int64_t told_ns = virtual.now_ns;
    while (inbox_count == 0) {
        run_for(OR_NS_PER_MS);
    }
    const or_draft_tree_t *tree = only_tree(2, 1);
    assert_true(arrived_ns[0] - told_ns > tree->passes * PASS_NS); // it was busy
    assert_true(arrived_ns[0] - told_ns <= (tree->passes + 1) * PASS_NS + 2 * OR_NS_PER_MS);
    assert_int_equal(tree->draft_us, tree->passes * PASS_US);
}

static void who_is_silent_does_not_grow(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(60 * OR_NS_PER_S);
    const or_draft_tree_t *tree = only_tree(1, 1);
    assert_true(tree->passes > 1);
    uint32_t passes = tree->passes;
    follow(tree, 1);
    clear_inbox();
    tell_text(1, length - 1, 2);
    run_for(60 * OR_NS_PER_S);
    tree = only_tree(1, 2);
    uint32_t grew = tree->passes - (uint32_t)(tree->draft_us / 1000000);
    assert_true(grew > 0 && passes + grew <= 11); // in the ten seconds after the first prefix
}

// There is one page, and the other session takes it: the tree is gone with it and comes back with the text.
static void pages_go_to_who_needs_them(void **state)
{
    (void)state;
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    follow(only_tree(1, 1), 1);
    clear_inbox();
    open_session(2, 1);
    tell_text(2, 0, 1);
    run_for(LONG_NS);
    assert_int_equal(only_tree(2, 1)->count, NODES);
    clear_inbox();
    tell_text(1, length - 1, 2);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 2);
    assert_true(tree->draft_us > 0);
    assert_as_synchronous(tree, 0, 0);
}

// The path that the text takes needs a page more, which another session has: what grew is given up.
static void a_hit_without_a_page_is_computed_again(void **state)
{
    (void)state;
    while (length < 31) {
        text[length] = 400 + length;
        length++;
    }
    open_session(1, 1);
    tell_text(1, 0, 1);
    run_for(LONG_NS);
    uint32_t whole = length;
    clear_inbox();
    length = 5;
    open_session(2, 1);
    tell_text(2, 0, 1);
    run_for(LONG_NS);
    assert_int_equal(only_tree(2, 1)->count, NODES);
    clear_inbox();
    length = whole;
    tell_text(1, length - 1, 1); // a nudge, to see its tree again
    run_for(PASS_NS);
    follow(only_tree(1, 1), 2);
    clear_inbox();
    tell_text(1, whole, 2);
    run_for(LONG_NS);
    const or_draft_tree_t *tree = only_tree(1, 2);
    assert_true(tree->draft_us > 0);
    assert_as_synchronous(tree, 0, 0);
}

// ---- several sessions ----

// The tree of this session among those that came.
static const or_draft_tree_t *tree_of(uint64_t session, int64_t *at_ns)
{
    for (uint32_t i = 0; i < inbox_count; i++) {
        if (inbox[i].type == OR_MSG_DRAFT_TREE && inbox[i].session.value == session) {
            *at_ns = arrived_ns[i];
            return &inbox[i].body.draft_tree;
        }
    }
    fail();
    return NULL;
}

// The passes of one tree are those of all that are built at the same time.
static void trees_of_several_sessions_share_their_passes(void **state)
{
    (void)state;
    int64_t alone_ns, together_ns, at_ns;
    open_session(1, 0);
    tell_text(1, 0, 1);
    int64_t told_ns = virtual.now_ns;
    run_for(LONG_NS);
    or_draft_tree_t tree = *tree_of(1, &at_ns);
    or_message_t kept = inbox[0];
    alone_ns = at_ns - told_ns;
    inbox_count = 0;
    for (uint64_t session = 2; session <= 4; session++) {
        open_session(session, 0);
        tell_text(session, 0, 1);
    }
    told_ns = virtual.now_ns;
    run_for(LONG_NS);
    for (uint64_t session = 2; session <= 4; session++) {
        const or_draft_tree_t *other = tree_of(session, &at_ns);
        together_ns = at_ns - told_ns;
        assert_in_range(together_ns, alone_ns, alone_ns + PASS_NS);
        assert_in_range(other->draft_us, tree.draft_us, tree.draft_us + PASS_US);
        assert_int_equal(other->passes, tree.passes);
        assert_int_equal(other->count, tree.count);
        assert_memory_equal(other->tokens, tree.tokens, tree.count * sizeof *tree.tokens);
        assert_memory_equal(other->back, tree.back, tree.count * sizeof *tree.back);
    }
    or_message_fini(&kept);
}

// Each pass brings the first text one guess and the other many, and yet both grow alike.
static void a_sure_text_does_not_take_all_passes(void **state)
{
    (void)state;
    int64_t at_ns;
    open_among(1, 1, 1);
    open_session(2, 1);
    tell_text(1, 0, 1);
    tell_text(2, 0, 1);
    run_for(40 * PASS_NS);
    assert_int_equal(tree_of(1, &at_ns)->tokens[0], tree_of(2, &at_ns)->tokens[0]);
    follow(tree_of(1, &at_ns), 1);
    clear_inbox();
    tell_text(1, length - 1, 2);
    tell_text(2, length - 1, 2);
    run_for(LONG_NS);
    assert_in_range(tree_of(2, &at_ns)->passes, 10, tree_of(1, &at_ns)->passes + 4);
}

// Messages about a session that builds wait until it is done, in their order.
static void what_comes_for_a_session_at_work_waits(void **state)
{
    (void)state;
    open_session(1, 0);
    open_session(2, 0);
    tell_text(1, 0, 1);
    run_for(PASS_NS / 2); // its first pass is under way
    cancel(1);
    tell_text(2, 0, 1);
    tell_text(1, 0, 2);
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 3);
    assert_int_equal(inbox[0].type, OR_MSG_DRAFT_TREE);
    assert_int_equal(inbox[0].session.value, 1);
    assert_int_equal(inbox[1].type, OR_MSG_ERROR); // it is gone, as it was told
    assert_int_equal(inbox[1].body.error.code, OR_WIRE_UNKNOWN_SESSION);
    assert_int_equal(inbox[2].type, OR_MSG_DRAFT_TREE);
    assert_int_equal(inbox[2].session.value, 2);
}

// A session that builds does not give its place to a new one.
static void a_session_at_work_keeps_its_place(void **state)
{
    (void)state;
    for (uint64_t session = 1; session <= 4; session++) {
        open_session(session, 0);
        tell_text(session, 0, 1);
    }
    run_for(PASS_NS / 2);
    open_session(5, 0);
    run_for(LONG_NS);
    int64_t at_ns;
    for (uint64_t session = 1; session <= 4; session++) {
        assert_int_equal(tree_of(session, &at_ns)->count, NODES);
    }
    assert_int_equal(inbox_count, 5);
    clear_inbox();
    tell_text(1, 0, 2); // all four are still open
    run_for(LONG_NS);
    assert_int_equal(inbox[0].type, OR_MSG_DRAFT_TREE);
}

// Two sessions are asked for trees at once, round after round, and each gets one of at least so many guesses.
static void assert_two_take_turns(uint32_t least)
{
    int64_t at_ns;
    open_session(1, 0);
    open_session(2, 0);
    for (uint64_t round = 1; round <= 3; round++) {
        tell_text(1, 0, round);
        tell_text(2, 0, round);
        run_for(LONG_NS);
        assert_int_equal(inbox_count, 2);
        assert_in_range(tree_of(1, &at_ns)->count, least, NODES);
        assert_in_range(tree_of(2, &at_ns)->count, least, NODES);
        clear_inbox();
    }
}

// Two texts of a page each and one page: they are written in turn, as they would be alone.
static void sessions_at_work_without_pages_take_turns(void **state)
{
    (void)state;
    assert_two_take_turns(NODES);
}

// It takes four passes to read.
static void write_long_text(void)
{
    while (length < TEXT_MAX - 32) {
        text[length] = 1 + 7 * (length % 90);
        length++;
    }
}

// Two texts that each need nearly all pages, at the same pace: each could take the other's for ever.
static void sessions_that_need_nearly_all_pages_take_turns(void **state)
{
    (void)state;
    write_long_text();
    assert_two_take_turns(1);
}

// A coordinator that has waited for long repeats what it said. Others' messages behind that do not wait.
static void a_repeated_prefix_holds_up_nobody(void **state)
{
    (void)state;
    int64_t at_ns;
    open_session(1, 0);
    open_session(2, 0);
    tell_text(1, 0, 1);
    run_for(PASS_NS / 2);
    tell_text(1, 0, 1);
    tell_text(2, 0, 1);
    int64_t told_ns = virtual.now_ns;
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 2);
    const or_draft_tree_t *first = tree_of(1, &at_ns);
    const or_draft_tree_t *second = tree_of(2, &at_ns);
    assert_true(at_ns - told_ns <= (int64_t)(second->passes + 1) * PASS_NS);
    assert_int_equal(first->count, second->count);
    assert_memory_equal(first->tokens, second->tokens, first->count * sizeof *first->tokens);
}

// Session 1 reads a long text, and its first pass is under way.
static void begin_to_read(void)
{
    open_session(1, 0);
    open_session(2, 0);
    write_long_text();
    tell_text(1, 0, 1);
    run_for(PASS_NS / 2);
}

// Session 2 has a text of a few tokens, and waits for no other. Return its passes.
static uint32_t assert_short_text_is_not_held_up(void)
{
    int64_t at_ns, told_ns = virtual.now_ns;
    uint32_t all = length;
    length = 6;
    tell_text(2, 0, 1);
    length = all;
    run_for(LONG_NS);
    const or_draft_tree_t *tree = tree_of(2, &at_ns);
    assert_true(at_ns - told_ns <= (int64_t)(tree->passes + 1) * PASS_NS);
    return tree->passes;
}

// It builds one tree, on the text as it is then, and does not read twice.
static void who_reads_hears_what_is_new(void **state)
{
    (void)state;
    int64_t at_ns;
    begin_to_read();
    for (uint64_t round = 2; round <= 5; round++) {
        text[length++] = 300;
        tell_text(1, length - 1, round);
    }
    uint32_t passes = assert_short_text_is_not_held_up();
    assert_int_equal(inbox_count, 2);
    const or_draft_tree_t *tree = tree_of(1, &at_ns);
    assert_int_equal(tree->round, 5);
    assert_int_equal(tree->base_length, length);
    assert_int_equal(tree->passes, 3 + passes);
}

static void who_is_told_to_stop_reading_stops(void **state)
{
    (void)state;
    begin_to_read();
    cancel(1);
    assert_short_text_is_not_held_up();
    assert_int_equal(inbox_count, 1);
}

// All places are taken, and one of them becomes free as soon as the tree that is built there is done.
static void a_new_text_waits_for_a_place_that_becomes_free(void **state)
{
    (void)state;
    int64_t at_ns;
    for (uint64_t session = 1; session <= 4; session++) {
        open_session(session, 0);
        tell_text(session, 0, 1);
    }
    run_for(PASS_NS / 2);
    cancel(2);
    open_session(5, 0);
    tell_text(5, 0, 1);
    run_for(LONG_NS);
    assert_int_equal(inbox_count, 5);
    for (uint64_t session = 1; session <= 5; session++) {
        assert_int_equal(tree_of(session, &at_ns)->count, NODES);
    }
}

// Two long texts that each need nearly all pages, and hear of a new round in every pass.
static void who_is_called_keeps_its_turn(void **state)
{
    (void)state;
    int64_t at_ns;
    open_session(1, 0);
    open_session(2, 0);
    write_long_text();
    tell_text(1, 0, 1);
    tell_text(2, 0, 1);
    for (uint64_t round = 2; round < 60; round++) {
        run_for(PASS_NS);
        tell_text(1, length, round);
        tell_text(2, length, round);
    }
    assert_true(tree_of(1, &at_ns)->round < 60 && tree_of(2, &at_ns)->round < 60);
}

// ---- figures ----

// Once a second, and what it says of its passes is what its trees say.
static void it_tells_what_it_does(void **state)
{
    (void)state;
    clear_inbox(); // of what it said when it came
    open_session(1, 0);
    tell_text(1, 0, 1);
    run_for(3 * OR_NS_PER_S);
    assert_in_range(inbox_count, 3 + 1, 4 + 1);
    uint32_t passes = 0;
    const or_stats_t *last = NULL;
    for (uint32_t i = 0; i < inbox_count; i++) {
        if (inbox[i].type == OR_MSG_DRAFT_TREE) {
            passes = inbox[i].body.draft_tree.passes;
        } else {
            assert_int_equal(inbox[i].type, OR_MSG_STATS);
            last = &inbox[i].body.stats;
        }
    }
    assert_non_null(last);
    assert_true(passes > 0);
    assert_int_equal(last->passes, passes);
    assert_int_equal(last->model_us, passes * PASS_US);
    assert_int_equal(last->sessions, 1);
    assert_int_equal(last->pages, 64);
    assert_int_equal(last->pages_free, 63);
}

int main(void)
{
#define OVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        OVER(a_hit_is_answered_at_once),
        OVER(a_miss_is_built_anew),
        OVER(budgets_are_kept),
        OVER(it_rests_when_told_so),
        OVER(other_texts_and_rounds_are_taken_as_they_come),
        OVER(a_text_may_reach_the_context),
        OVER(increments_join_into_one_tree),
        OVER(a_round_begun_again_is_answered_whole),
        OVER(who_asks_again_is_told_all_again),
        OVER(a_session_opened_otherwise_is_another),
        OVER(trees_of_several_sessions_share_their_passes),
        OVER(a_sure_text_does_not_take_all_passes),
        OVER(what_comes_for_a_session_at_work_waits),
        OVER(a_session_at_work_keeps_its_place),
        cmocka_unit_test_setup_teardown(sessions_at_work_without_pages_take_turns, setup_one_page,
                                        teardown),
        cmocka_unit_test_setup_teardown(sessions_that_need_nearly_all_pages_take_turns,
                                        setup_eight_pages, teardown),
        OVER(a_repeated_prefix_holds_up_nobody),
        OVER(who_reads_hears_what_is_new),
        OVER(who_is_told_to_stop_reading_stops),
        OVER(a_new_text_waits_for_a_place_that_becomes_free),
        cmocka_unit_test_setup_teardown(who_is_called_keeps_its_turn, setup_eight_pages, teardown),
        cmocka_unit_test_setup_teardown(it_tells_what_it_does, setup_telling, teardown),
        cmocka_unit_test_setup_teardown(who_is_silent_does_not_grow, setup_slow, teardown),
        OVER(a_due_tree_waits_for_one_pass_of_growing),
        cmocka_unit_test_setup_teardown(pages_go_to_who_needs_them, setup_one_page, teardown),
        cmocka_unit_test_setup_teardown(a_hit_without_a_page_is_computed_again, setup_two_pages,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
