// Goal: what a drafter that works ahead sends is used whenever it comes, as far as the text follows it, and nothing
// it sends or fails to send changes a token.
// Method: the real coordinator, the test as a drafter with a script and as a target that writes its own words and
// accepts those alone. Trees that are late, ahead, wrong, lost, forged, too many; an automatic policy with drafters
// that fall silent, and with none.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

#define PROMPT_LENGTH 3
#define MANY 256

// Guesses at the words after `length` tokens, and the hash of those tokens.
static uint32_t words[MANY];
static const uint32_t in_a_row[MANY] = {
    [0 ... MANY - 1] = 1,
};

static const uint32_t *words_from(uint32_t length)
{
    for (uint32_t i = 0; i < MANY; i++) {
        words[i] = word_at(length + i);
    }
    return words;
}

static uint64_t hash_at(uint32_t length)
{
    static const uint32_t prompt[PROMPT_LENGTH] = {1, 458, 1112};
    uint64_t hash = or_prefix_hash(0, prompt, PROMPT_LENGTH);
    for (uint32_t i = PROMPT_LENGTH; i < length; i++) {
        const uint32_t word = word_at(i);
        hash = or_prefix_hash(hash, &word, 1);
    }
    return hash;
}

static or_generate_request_t ahead_request(uint32_t tokens_wanted, uint32_t ahead)
{
    or_generate_request_t request = usual_request(tokens_wanted);
    request.draft_nodes = 4;
    request.draft_ahead = ahead;
    request.ignore_end = true;
    return request;
}

// A world whose target judges, and a request on its way.
static void begin(world_t *w, or_generate_request_t request, uint32_t step_ms)
{
    join_usual(w);
    w->judges = true;
    w->step_ms = step_ms;
    ask(w, request);
    run(w, 3);
}

static void send_tree(world_t *w, or_draft_tree_t tree)
{
    const or_message_t message = {
        .type = OR_MSG_DRAFT_TREE, .session = w->session, .body.draft_tree = tree};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &message), OR_OK);
}

// The target's next `count` words after `length` tokens, which the drafter believes to be the text (as it is in
// `round`), or to become it.
static void send_words(world_t *w, uint64_t round, bool assumed, uint32_t length, uint32_t count)
{
    send_tree(w, (or_draft_tree_t){.round = round,
                                   .parent_round = assumed ? round : 0,
                                   .base_length = length,
                                   .base_hash = hash_at(length),
                                   .tokens = words_from(length),
                                   .back = in_a_row,
                                   .count = count});
}

static void assert_words(const world_t *w, uint32_t count)
{
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->written_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(w->written[i], word_at(PROMPT_LENGTH + i));
    }
}

// ---- what the drafter is told ----

static void only_guesses_that_fit_anywhere_are_made_ahead(void **state)
{
    world_t *w = *state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
        uint32_t asked, told;
    } cases[] = {
        {OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED, 2, 2}, {OR_DRAFT_TOPK, OR_ACCEPT_NAIVE, 1, 1},
        {OR_DRAFT_COUPLED, OR_ACCEPT_GREEDY, 99, 8}, {OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED, 0, 0},
        {OR_DRAFT_RSD_S, OR_ACCEPT_NAIVE, 2, 0},     {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 2, 0},
        {OR_DRAFT_MULTI, OR_ACCEPT_COUPLED, 2, 0}};
    join_usual(w);
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        or_generate_request_t request = ahead_request(1, cases[i].asked);
        request.request = 100 + i;
        request.draft_method = cases[i].method;
        request.accept_rule = cases[i].rule;
        ask(w, request);
        run(w, 1100);
        assert_int_equal(w->drafter_terms.draft_method, cases[i].method);
        assert_int_equal(w->drafter_terms.draft_ahead, cases[i].told);
    }
}

static void a_drafter_ahead_hears_tails_and_no_verdicts(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(9, 1), 0);
    assert_int_equal(w->heard[0].length, PROMPT_LENGTH);
    for (uint32_t round = 1; round <= 3; round++) {
        uint32_t length = w->heard[0].length;
        assert_int_equal(w->heard[0].round, round);
        assert_int_equal(w->heard[0].hash, hash_at(length));
        send_words(w, round, false, length, 2);
        run(w, 3);
        assert_true(round == 3 || w->heard[0].start == length);
    }
    assert_int_equal(w->heard[0].verdicts, 0);
    assert_int_equal(w->end.stats.target_calls, 3);
    assert_words(w, 9);
}

static void without_ahead_a_drafter_hears_verdicts(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(6, 0), 0);
    send_words(w, 1, false, PROMPT_LENGTH, 2);
    run(w, 3);
    assert_int_equal(w->heard[0].verdicts, 1);
    assert_int_equal(w->heard[0].prefixes, 1);
    send_words(w, 2, false, PROMPT_LENGTH + 3, 2);
    run(w, 3);
    assert_words(w, 6);
}

// ---- what comes when ----

static void a_late_tree_serves_the_text_that_followed_it(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(8, 2), 50);
    run(w, 1020); // given up on: round 1 is a plain step
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 0);
    send_words(w, 1, false, PROMPT_LENGTH,
               4); // for the prompt; the text gets its first word meanwhile
    run(w, 60);
    assert_int_equal(w->trees, 2);
    assert_int_equal(w->nodes, 3);
    run(w, 3000);
    assert_words(w, 8);
    assert_true(w->end.stats.accepted >= 3);
}

static void guesses_ahead_are_judged_at_once(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(10, 2), 20);
    send_words(w, 1, false, PROMPT_LENGTH, 4);
    run(w, 3);
    assert_int_equal(w->trees, 1);
    // The words that follow, if all of these are right: the first of them is the verdict's own.
    send_words(w, 1, true, PROMPT_LENGTH + 4, 4);
    run(w, 20);
    assert_int_equal(w->trees, 2); // although the drafter has not said a word since
    assert_int_equal(w->nodes, 4 + 3);
    run(w, 1100);
    assert_words(w, 10);
    assert_true(w->end.stats.ahead_rounds >= 1);
    assert_int_equal(w->end.stats.ahead_hits, 1);
    assert_int_equal(w->end.stats.failovers, 0);
}

static void one_round_ahead_the_whole_tree_is_waited_for(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(8, 1), 20);
    send_words(w, 1, false, PROMPT_LENGTH, 4);
    run(w, 3);
    send_words(w, 1, true, PROMPT_LENGTH + 4, 2);
    run(w, 25);
    assert_int_equal(w->trees, 1);
    send_words(w, 2, false, PROMPT_LENGTH + 5, 4);
    run(w, 30);
    assert_words(w, 8);
    assert_int_equal(w->end.stats.plain_rounds, 0);
    assert_int_equal(w->end.stats.ahead_rounds, 1);
    assert_int_equal(w->end.stats.ahead_hits, 1); // it took no time
}

static void a_wrong_assumption_costs_no_pass(void **state)
{
    world_t *w = *state;
    static const uint32_t wrong[] = {300, 301, 302};
    begin(w, ahead_request(8, 2), 20);
    send_words(w, 1, false, PROMPT_LENGTH, 2);
    run(w, 3);
    uint32_t length = PROMPT_LENGTH + 2;
    send_tree(w, (or_draft_tree_t){.round = 1,
                                   .parent_round = 1,
                                   .base_length = length,
                                   .base_hash = hash_at(length),
                                   .tokens = wrong,
                                   .back = in_a_row,
                                   .count = 3});
    run(w, 40); // judged, and the next round waits for the drafter
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 2);
    // One more on that assumption, sent before its drafter heard the verdict.
    const uint32_t assumed = 300;
    send_tree(w, (or_draft_tree_t){.round = 1,
                                   .parent_round = 1,
                                   .base_length = length + 1,
                                   .base_hash = or_prefix_hash(hash_at(length), &assumed, 1),
                                   .tokens = wrong + 1,
                                   .back = in_a_row,
                                   .count = 2});
    run(w, 10);
    assert_int_equal(w->trees, 1);
    send_words(w, 2, false, length + 1, 4);
    run(w, 40);
    assert_int_equal(w->nodes, 6);
    assert_int_equal(w->end.stats.resyncs, 0);
    assert_words(w, 8);
}

// The guess that others stand on never came: the drafter is reminded, and sends all of it.
static void a_lost_increment_is_healed_by_a_reminder(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(12, 2), 20);
    send_words(w, 1, false, PROMPT_LENGTH, 2);
    run(w, 30);
    assert_int_equal(w->heard[0].round, 2);
    uint32_t before = w->heard[0].prefixes;
    uint32_t length = w->heard[0].length;
    send_words(w, 2, true, length + 2, 2); // on two words that were lost
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->heard[0].prefixes, before + 1);
    assert_int_equal(w->heard[0].length, length);
    send_words(w, 2, false, length, 4);
    run(w, 30);
    assert_int_equal(w->nodes, 2 + 4);
    assert_int_equal(w->heard[0].cancels, 0);
    run(w, 1200);
    assert_words(w, 12);
    assert_int_equal(w->end.stats.resyncs, 1);
}

// ---- what is not to be ----

static void forged_hashes_change_nothing_and_cost_the_seat(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(4, 2), 0);
    for (uint32_t i = 0; i < 9; i++) {
        send_tree(w, (or_draft_tree_t){.round = 1,
                                       .base_length = PROMPT_LENGTH,
                                       .base_hash = hash_at(PROMPT_LENGTH) + 1,
                                       .tokens = words_from(PROMPT_LENGTH),
                                       .back = in_a_row,
                                       .count = 1});
    }
    run(w, 10);
    assert_int_equal(w->nodes, 0);
    assert_words(w, 4);
    assert_non_null(strstr(w->note, "another text"));
}

static void a_tree_for_a_round_to_come_is_an_offence(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(2, 2), 0);
    for (uint32_t i = 0; i < 60 && w->refusal[0] == '\0'; i++) {
        send_words(w, 5, false, PROMPT_LENGTH, 1);
        run(w, 1);
    }
    assert_non_null(strstr(w->refusal, "different trees"));
    assert_int_equal(w->nodes, 0);
    assert_words(w, 2);
}

static void more_guesses_than_rounds_need_are_an_offence(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(20, 2), 0);
    w->slow = true; // the round lasts
    for (uint32_t i = 0; i < 200 && w->refusal[0] == '\0'; i++) {
        send_words(w, 1, false, PROMPT_LENGTH, 4);
        run(w, 1);
        assert_true(i > 6 || w->refusal[0] == '\0'); // 2 x (2 + 1) x 4 guesses are none
    }
    assert_non_null(strstr(w->refusal, "different trees"));
    w->slow = false;
    run(w, 5000);
    assert_words(w, 20);
}

// To look guesses up costs as much as to take them: they count when they come again and again.
static void known_guesses_over_and_over_are_an_offence(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = ahead_request(20, 8);
    request.draft_nodes = request.draft_depth = 64;
    uint32_t sent = 0;
    begin(w, request, 0);
    w->slow = true; // the round lasts
    while (sent < 200 && w->refusal[0] == '\0') {
        send_words(w, 1, false, PROMPT_LENGTH, 64);
        run(w, 1);
        sent++;
    }
    assert_non_null(strstr(w->refusal, "different trees"));
    assert_in_range(sent, 32, 100);
    w->slow = false;
    run(w, 5000);
    assert_words(w, 20);
}

static void a_tree_that_makes_no_sense_costs_the_seat(void **state)
{
    world_t *w = *state;
    static const uint32_t beyond[] = {4096}, far[] = {2};
    const struct {
        or_draft_tree_t tree;
        const char *why;
    } bad[] = {{{.tokens = beyond, .back = in_a_row, .count = 1}, "outside the vocabulary"},
               {{.tokens = words, .back = far, .count = 1}, "places back"},
               {{.tokens = words, .back = in_a_row, .count = 13}, "12 were asked for"}};
    join_usual(w);
    w->judges = true;
    for (uint64_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        or_generate_request_t request = ahead_request(2, 2);
        request.request = 100 + i;
        ask(w, request);
        run(w, 5);
        or_draft_tree_t tree = bad[i].tree;
        tree.round = 1;
        tree.base_length = PROMPT_LENGTH;
        tree.base_hash = hash_at(PROMPT_LENGTH);
        words_from(PROMPT_LENGTH);
        send_tree(w, tree);
        run(w, 10);
        assert_int_equal(w->end.request, 100 + i);
        assert_non_null(strstr(w->note, bad[i].why));
        assert_words(w, 2);
    }
    assert_int_equal(w->nodes, 0);
}

// ---- an automatic policy ----

// Answers what it hears at once, with 4 right words.
static void drafter_answers(world_t *w, uint64_t *answered)
{
    if (w->heard[0].round > *answered) {
        *answered = w->heard[0].round;
        send_words(w, *answered, false, w->heard[0].length, 4);
    }
}

static void silence_is_bridged_and_not_held_against_the_drafter(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = ahead_request(60, 2);
    uint64_t answered = 0;
    request.draft_policy = OR_POLICY_AUTO;
    begin(w, request, 20);
    while (w->written_count < 30) {
        drafter_answers(w, &answered);
        run(w, 1);
    }
    assert_true(w->end.finish == OR_FINISH_NONE);
    uint32_t trees = w->trees;
    uint32_t length = w->heard[0].length;
    run(w, 300); // well below the draft time-out
    assert_true(w->trees > trees + 5);
    assert_true(w->heard[0].length > length);
    assert_int_equal(w->heard[0].cancels, 0);
    // Its late guesses, for a text of long ago, are walked along the text since.
    uint32_t nodes = w->nodes;
    send_words(w, w->heard[0].round, false, w->heard[0].length, 12);
    run(w, 25);
    assert_true(w->nodes > nodes);
    run(w, 3000);
    assert_words(w, 60);
    assert_true(w->end.stats.bridged_rounds > 5);
}

// Guesses that are never right are given up, and their drafter hears of the text now and then only.
static void a_drafter_that_does_not_pay_rests(void **state)
{
    world_t *w = *state;
    static const uint32_t wrong[] = {900, 901, 902, 903};
    or_generate_request_t request = ahead_request(60, 2);
    uint64_t answered = 0;
    uint32_t prefixes = 0;
    request.draft_policy = OR_POLICY_AUTO;
    w->row_ms = 10;
    begin(w, request, 20);
    for (uint32_t ms = 0; w->written_count < 55; ms++) {
        if (w->heard[0].round > answered) {
            answered = w->heard[0].round;
            send_tree(w, (or_draft_tree_t){.round = answered,
                                           .base_length = w->heard[0].length,
                                           .base_hash = w->heard[0].hash,
                                           .tokens = wrong,
                                           .back = in_a_row,
                                           .count = 4});
        }
        run(w, 1);
        prefixes = w->written_count <= 35 ? w->heard[0].prefixes : prefixes;
        assert_true(ms < 5000);
    }
    assert_int_equal(w->last.draft_ahead, 1);
    assert_in_range(w->heard[0].prefixes - prefixes, 1, 8); // 20 rounds of 20 ms
    run(w, 300);
    assert_words(w, 60);
}

static float trip_ms; // of the text, as its client last heard

static void note_trip(world_t *w, const or_message_t *message)
{
    (void)w;
    if (message->type == OR_MSG_STATS && message->body.stats.policy_count == 1) {
        trip_ms = message->body.stats.policies[0].round_trip_ms;
    }
}

// The drafter read the prompt for 30 ms and then built for 4: the way there and back took the rest, some 10.
static void reading_is_neither_way_nor_building(void **state)
{
    world_t *w = *state;
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    begin(w, ahead_request(60, 2), 20);
    w->look = note_trip;
    run(w, 40);
    send_tree(w, (or_draft_tree_t){.round = w->heard[0].round,
                                   .base_length = w->heard[0].length,
                                   .base_hash = w->heard[0].hash,
                                   .tokens = words_from(w->heard[0].length),
                                   .back = in_a_row,
                                   .count = 4,
                                   .draft_us = 4000,
                                   .read_us = 30000});
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &question), OR_OK);
    run(w, 5);
    assert_true(trip_ms > 5 && trip_ms < 15);
}

// Drafter and target share CPUs.
static void join_on_one_machine(world_t *w)
{
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .context_max = 256,
                      .model_hash = TARGET,
                      .machine = 5});
    join(
        w, &w->drafter,
        (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab), .machine = 5});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

// On the target's CPUs the drafter would go on drafting at the others' cost, so it is told that the session is over; later it
// is tried again, and stays once it pays.
static void on_the_targets_machine_a_drafter_that_does_not_pay_leaves(void **state)
{
    world_t *w = *state;
    static const uint32_t wrong[] = {900, 901, 902, 903};
    or_generate_request_t request = ahead_request(240, 2);
    uint64_t answered = 0;
    uint32_t plain_from = 0;
    request.draft_policy = OR_POLICY_AUTO;
    w->row_ms = 8; // so that even one guess is dear
    word_period = 400;
    join_on_one_machine(w);
    w->judges = true;
    w->step_ms = 20;
    ask(w, request);
    for (uint32_t ms = 0; w->end.finish == OR_FINISH_NONE; ms++) {
        const heard_t *heard = &w->heard[0];
        if (heard->round > answered && heard->cancels < heard->opens) {
            bool right = heard->opens > 1;
            answered = heard->round;
            send_tree(w,
                      (or_draft_tree_t){.round = answered,
                                        .base_length = heard->length,
                                        .base_hash = heard->hash,
                                        .tokens = right ? words_from(heard->length) : wrong,
                                        .back = in_a_row,
                                        .count = heard->draft_nodes > 0 ? heard->draft_nodes : 4});
        }
        if (heard->cancels == 1 && heard->opens == 1) {
            plain_from = plain_from == 0 ? w->written_count : plain_from;
            assert_true(heard->prefixes <= plain_from + 1); // it is told nothing
        }
        run(w, 1);
        assert_true(ms < 10000);
    }
    assert_words(w, 240);
    assert_in_range(plain_from, 1, 20);
    assert_in_range(w->heard[0].opens, 2, 4);
    assert_true(w->end.stats.accepted > 60);
}

// A benchmark's text has its drafter to the end, whatever that is worth; but it rests during a pass, as others' do there.
static void on_the_targets_machine_a_measured_drafter_rests_and_stays(void **state)
{
    world_t *w = *state;
    static const uint32_t wrong[] = {900, 901, 902, 903};
    or_generate_request_t request = ahead_request(60, 2);
    uint64_t answered = 0;
    request.draft_policy = OR_POLICY_AUTO;
    request.measured = true;
    w->row_ms = 8;
    join_on_one_machine(w);
    w->judges = true;
    w->step_ms = 20;
    ask(w, request);
    for (uint32_t ms = 0; w->written_count < 55; ms++) {
        const heard_t *heard = &w->heard[0];
        if (heard->round > answered) {
            answered = heard->round;
            send_tree(w, (or_draft_tree_t){.round = answered,
                                           .base_length = heard->length,
                                           .base_hash = heard->hash,
                                           .tokens = wrong,
                                           .back = in_a_row,
                                           .count = 1});
        }
        run(w, 1);
        assert_int_equal(heard->cancels, 0);
        assert_true(ms < 10000);
    }
    assert_int_equal(w->last.draft_ahead, 1); // none
    assert_int_equal(w->heard[0].opens, 1);
}

// Texts that come in the same moment know of one another: the first alone begins with guesses.
static void a_crowd_on_the_targets_machine_begins_plainly(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = ahead_request(20, 2);
    request.draft_policy = OR_POLICY_AUTO;
    join_on_one_machine(w);
    for (uint64_t i = 0; i < 8; i++) {
        request.request = 100 + i;
        ask(w, request);
    }
    run(w, 4);
    assert_int_equal(w->verifier_opens, 8);
    assert_in_range(w->heard[0].opens, 0, 1);
}

// Without a drafter, to a target that takes trees of so many nodes (0: as many as there are).
static void look_up_sixty_words(world_t *w, uint32_t context_max, uint32_t nodes_max)
{
    or_generate_request_t request = ahead_request(60, 2);
    request.draft_policy = OR_POLICY_AUTO;
    word_period = 7;
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .context_max = context_max,
                      .nodes_max = nodes_max,
                      .model_hash = TARGET});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    w->judges = true;
    w->step_ms = 20;
    ask(w, request);
    run(w, 2000);
    assert_true(w->end.stats.lookup_rounds > 0);
    assert_true(w->end.stats.target_calls < 50);
}

// No larger than the target takes them.
static void lookups_fit_the_target(void **state)
{
    world_t *w = *state;
    look_up_sixty_words(w, 128, 2);
    assert_words(w, 60);
    assert_true(w->end.stats.drafted <= 2 * w->end.stats.lookup_rounds);
}

// Nor deeper than its context reaches.
static void lookups_reach_the_end_of_the_context(void **state)
{
    world_t *w = *state;
    look_up_sixty_words(w, PROMPT_LENGTH + 56, 0);
    assert_words(w, 56);
    assert_true(w->end.stats.target_calls <= 18); // the last words are looked up, too
}

static void a_text_that_repeats_is_looked_up(void **state)
{
    world_t *w = *state;
    look_up_sixty_words(w, 128, 0);
    assert_words(w, 60);
    assert_int_equal(w->end.stats.bridged_rounds, 0); // nobody was there to be waited for
}

// Trees that are drawn are judged once they are there, whatever the policy has come to think meanwhile: else it
// would depend on them.
static void a_whole_tree_that_came_is_judged(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = ahead_request(12, 0);
    uint64_t answered = 0;
    request.draft_policy = OR_POLICY_AUTO;
    begin(w, request, 20);
    for (uint32_t ms = 0; ms < 2000 && w->end.finish == OR_FINISH_NONE; ms++) {
        if (w->heard[0].round != answered) {
            answered = w->heard[0].round;
            send_words(w, answered, false, w->heard[0].length, 2);
        }
        run(w, 1);
    }
    assert_words(w, 12);
    assert_true(w->nodes > 0);
    assert_in_range(w->end.stats.plain_rounds, 0, 1); // one may have been, before its tree came
}

static void an_unknown_policy_is_refused(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = ahead_request(1, 0);
    request.draft_policy = 7;
    begin(w, request, 0);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "--draft-policy"));
}

// ---- fail-over ----

static void join_second(world_t *w)
{
    join(w, &w->second,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    run(w, 3);
}

static void another_drafter_takes_over_from_one_that_is_late(void **state)
{
    world_t *w = *state;
    begin(w, ahead_request(5, 0), 20);
    join_second(w);
    run(w, 1040); // the first is given up on, and the next round has the second
    assert_int_equal(w->heard[0].cancels, 1);
    assert_int_equal(w->heard[1].opens, 1);
    assert_int_equal(w->heard[1].round, 2);
    assert_int_equal(w->heard[1].length, PROMPT_LENGTH + 1);
    leave(&w->second); // and nobody is waited for while the first rests
    run(w, 12000);
    assert_words(w, 5);
    assert_int_equal(w->end.stats.failovers, 1);
}

static void guesses_outlive_the_drafter_that_made_them(void **state)
{
    world_t *w = *state;
    const or_message_t good_bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "stopped"}};
    begin(w, ahead_request(8, 2), 20);
    send_words(w, 1, false, PROMPT_LENGTH, 2);
    run(w, 3);
    send_words(w, 1, true, PROMPT_LENGTH + 2, 4);
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &good_bye), OR_OK);
    run(w, 25);
    assert_int_equal(w->trees, 2);
    assert_int_equal(w->nodes, 2 + 3);
    join_second(w);
    run(w, 40);
    assert_int_equal(w->heard[1].opens, 1);
    run(w, 1100);
    assert_words(w, 8);
    assert_int_equal(w->end.stats.failovers, 1);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(only_guesses_that_fit_anywhere_are_made_ahead),
        TEST(a_drafter_ahead_hears_tails_and_no_verdicts),
        TEST(without_ahead_a_drafter_hears_verdicts),
        TEST(a_late_tree_serves_the_text_that_followed_it),
        TEST(guesses_ahead_are_judged_at_once),
        TEST(one_round_ahead_the_whole_tree_is_waited_for),
        TEST(a_wrong_assumption_costs_no_pass),
        TEST(a_lost_increment_is_healed_by_a_reminder),
        TEST(forged_hashes_change_nothing_and_cost_the_seat),
        TEST(a_tree_for_a_round_to_come_is_an_offence),
        TEST(more_guesses_than_rounds_need_are_an_offence),
        TEST(known_guesses_over_and_over_are_an_offence),
        TEST(a_tree_that_makes_no_sense_costs_the_seat),
        TEST(silence_is_bridged_and_not_held_against_the_drafter),
        TEST(a_drafter_that_does_not_pay_rests),
        TEST(reading_is_neither_way_nor_building),
        TEST(on_the_targets_machine_a_drafter_that_does_not_pay_leaves),
        TEST(on_the_targets_machine_a_measured_drafter_rests_and_stays),
        TEST(a_crowd_on_the_targets_machine_begins_plainly),
        TEST(a_text_that_repeats_is_looked_up),
        TEST(lookups_fit_the_target),
        TEST(a_whole_tree_that_came_is_judged),
        TEST(lookups_reach_the_end_of_the_context),
        TEST(an_unknown_policy_is_refused),
        TEST(another_drafter_takes_over_from_one_that_is_late),
        TEST(guesses_outlive_the_drafter_that_made_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
