// Goal: ranks that do not belong together say so, each of them; what a step costs in broadcasts is known;
// a leader that talks nonsense ends a follower with a sentence and nothing worse.
// Method: worlds of threads that count; a follower of two whose other rank is nobody, fed seeded random
// items (for a sanitizer to watch).
#include "common/model/ranks/lockstep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/cpu/logits.h"
#include "common/model/model_internal.h"
#include "common/model/ranks/descriptor.h"
#include "tests/support/test_support.h"
#include "tests/support/thread_world.h"

#define SESSIONS 16u
#define NODES 3u
#define MANY_ROWS 140u
#define BABBLE 20000u
#define MODEL "tales-1m-f16.gguf"

// -- agreement --

#define ODD_ONE 2
#define WORLD 4

typedef struct {
    or_lockstep_greeting_t greetings[WORLD];
    or_lockstep_card_t cards[WORLD];
    or_status_t statuses[WORLD];
    uint64_t least[WORLD];
} hand_t;

static or_status_t agree(const or_ranks_t *ranks, void *context)
{
    hand_t *hand = context;
    int index = ranks->stage * ranks->size + ranks->rank;
    or_status_t status = or_lockstep_greet(ranks, &hand->greetings[index]);
    hand->statuses[index] =
        status != OR_OK ? status
                        : or_lockstep_agree(ranks, &hand->cards[index], &hand->least[index]);
    return hand->statuses[index];
}

typedef struct {
    const char *hosts[WORLD];
    uint64_t files[WORLD];
    bool reads[WORLD];
} copies_t;

static or_status_t choose_reader(const or_ranks_t *ranks, void *context)
{
    copies_t *copies = context;
    int index = ranks->stage * ranks->size + ranks->rank;
    return or_lockstep_is_reader(ranks, copies->hosts[index], copies->files[index],
                                 &copies->reads[index]);
}

// If ranks on one host have the same file, the first of them reads it. All other ranks read theirs.
static void one_rank_of_a_host_reads_a_file(void **state)
{
    (void)state;
    const copies_t worlds[] = {
        {{"a", "a", "a", "a"}, {5, 5, 5, 5}, {true, false, false, false}},
        {{"a", "b", "a", "b"}, {5, 5, 5, 5}, {true, true, false, false}},
        {{"a", "a", "b", "b"}, {5, 6, 5, 5}, {true, true, true, false}},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        copies_t copies = worlds[i];
        memset(copies.reads, 0xAA, sizeof copies.reads);
        thread_world_t *world = thread_world_create(WORLD / 2, 2);
        thread_world_start(world, choose_reader, &copies);
        assert_int_equal(choose_reader(thread_world_ranks(world, 0), &copies), OR_OK);
        assert_int_equal(thread_world_join(world), OR_OK);
        thread_world_destroy(&world);
        for (int rank = 0; rank < WORLD; rank++) {
            assert_int_equal(copies.reads[rank], worlds[i].reads[rank]);
        }
    }
}

static void deal(hand_t *hand)
{
    *hand = (hand_t){0};
    for (int i = 0; i < WORLD; i++) {
        hand->greetings[i] = (or_lockstep_greeting_t){.version = "1.0"};
        hand->cards[i] = (or_lockstep_card_t){
            .arith_id = "canonical-2", .file = 7, .shape = 9, .room = 100 - (uint64_t)i};
        snprintf(hand->greetings[i].host, sizeof hand->greetings[i].host, "node%d", i);
        snprintf(hand->cards[i].host, sizeof hand->cards[i].host, "node%d", i);
    }
}

// All of the world agree on these cards, or all name the odd one, its host and `what`.
static void check_hand(hand_t *hand, const char *what)
{
    thread_world_t *world = thread_world_create(WORLD / 2, 2);
    thread_world_start(world, agree, hand);
    or_status_t expected = what == NULL ? OR_OK : OR_ERR_MISMATCH;
    assert_int_equal(agree(thread_world_ranks(world, 0), hand), expected);
    char leader[512];
    snprintf(leader, sizeof leader, "%s", or_error_text());
    assert_int_equal(thread_world_join(world), expected);
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(hand->statuses[i], expected);
        if (what == NULL) {
            assert_int_equal(hand->least[i], 100 - (WORLD - 1));
            continue;
        }
        const char *sentence = i == 0 ? leader : thread_world_error(world, i);
        assert_non_null(strstr(sentence, "rank 2 on node2"));
        assert_non_null(strstr(sentence, what));
    }
    thread_world_destroy(&world);
}

static void who_differs_is_named_on_every_rank(void **state)
{
    (void)state;
    hand_t hand;
    deal(&hand);
    check_hand(&hand, NULL);
    deal(&hand);
    strcpy(hand.greetings[ODD_ONE].version, "1.1");
    check_hand(&hand, "runs Outrider 1.1");
    deal(&hand);
    strcpy(hand.cards[ODD_ONE].arith_id, "canonical-2/k-f16");
    check_hand(&hand, "canonical-2/k-f16");
    deal(&hand);
    hand.cards[ODD_ONE].file++;
    hand.cards[ODD_ONE].shape++; // follows from the file
    check_hand(&hand, "another model file");
    deal(&hand);
    hand.cards[ODD_ONE].shape++;
    hand.cards[ODD_ONE + 1].shape++; // the first that differs is named
    check_hand(&hand, "other options");
    deal(&hand);
    memset(hand.greetings[ODD_ONE].version, 'x', sizeof hand.greetings[ODD_ONE].version); // no end
    check_hand(&hand, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, but rank 0");
}

// -- broadcasts --

typedef struct {
    thread_world_t *world;
    or_gguf_t *gguf;
    or_model_t *model; // the leader's
} leader_t;

static void lead(leader_t *leader, int size, const or_model_options_t *common)
{
    or_model_options_t options = *common;
    const char *path = test_model(MODEL);
    leader->world = thread_world_create(size, 1);
    thread_world_follow(leader->world, path, &options);
    options.ranks = thread_world_ranks(leader->world, 0);
    if (or_gguf_open(path, &leader->gguf) != OR_OK ||
        or_model_load(leader->gguf, &options, &leader->model) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void dismiss(leader_t *leader)
{
    or_model_destroy(&leader->model);
    or_gguf_close(&leader->gguf);
    if (thread_world_join(leader->world) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    thread_world_destroy(&leader->world);
}

static void open_sequences(leader_t *leader, or_kv_sequence_t **sequences, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_model_open_sequence(leader->model, NODES, &sequences[i]), OR_OK);
    }
}

static void close_sequences(or_kv_sequence_t **sequences, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        or_kv_sequence_close(&sequences[i]);
    }
}

// A root and a chain of nodes for each sequence.
static void run_trees(leader_t *leader, or_kv_sequence_t **sequences)
{
    or_model_row_t rows[SESSIONS * (NODES + 1)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        rows[count++] =
            (or_model_row_t){sequences[i], (int32_t)(5 + i), OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        for (uint32_t n = 0; n < NODES; n++) {
            rows[count++] =
                (or_model_row_t){sequences[i], (int32_t)(90 + n), n, n > 0 ? n - 1 : OR_KV_NO_SLOT};
        }
    }
    assert_int_equal(or_model_forward(leader->model, rows, count), OR_OK);
}

static void a_step_is_one_broadcast(void **state)
{
    (void)state;
    leader_t leader;
    or_kv_sequence_t *sequences[2 * SESSIONS];
    lead(&leader, 2, &(or_model_options_t){.threads = 1});
    uint64_t before = thread_world_broadcasts(leader.world);
    open_sequences(&leader, sequences, SESSIONS);
    run_trees(&leader, sequences);
    assert_int_equal(thread_world_broadcasts(leader.world), before + 1);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        assert_int_equal(or_kv_sequence_accept(sequences[i], (uint32_t[]){0, 1}, 2), OR_OK);
    }
    open_sequences(&leader, sequences + SESSIONS, SESSIONS);
    run_trees(&leader, sequences);
    assert_int_equal(thread_world_broadcasts(leader.world), before + 2);
    close_sequences(sequences, 2 * SESSIONS);
    dismiss(&leader);
}

// Many more notes than fit, and a pass after them.
static void a_crowd_of_notes_goes_ahead(void **state)
{
    (void)state;
    leader_t leader;
    or_kv_sequence_t *sequences[SESSIONS];
    lead(&leader, 2, &(or_model_options_t){.threads = 1});
    uint64_t before = thread_world_broadcasts(leader.world);
    for (int i = 0; i < 1500; i++) {
        open_sequences(&leader, sequences, SESSIONS);
        close_sequences(sequences, SESSIONS);
    }
    open_sequences(&leader, sequences, SESSIONS);
    uint64_t ahead = thread_world_broadcasts(leader.world) - before;
    assert_true(ahead >= 2 && ahead <= 8); // 24,000 notes of a few bytes, two broadcasts for 64 KiB
    run_trees(&leader, sequences);
    close_sequences(sequences, SESSIONS);
    dismiss(&leader);
}

// Only what sampling needs comes from the other ranks, and it is right.
static void the_top_is_exact_and_small(void **state)
{
    (void)state;
    leader_t leader;
    or_kv_sequence_t *sequence = NULL;
    lead(&leader, 4, &(or_model_options_t){.threads = 1});
    uint32_t vocab_size = or_model_shape(leader.model)->vocab_size;
    open_sequences(&leader, &sequence, 1);
    or_model_row_t rows[2] = {{sequence, 3, OR_KV_NO_SLOT, OR_KV_NO_SLOT},
                              {sequence, 4, OR_KV_NO_SLOT, OR_KV_NO_SLOT}};
    assert_int_equal(or_model_forward(leader.model, rows, 2), OR_OK);
    float *all = malloc(2 * vocab_size * sizeof *all);
    float *some = malloc(2 * vocab_size * sizeof *some);
    assert_true(all != NULL && some != NULL);
    assert_int_equal(or_model_logits(leader.model, 0, 2, all), OR_OK);
    const uint32_t tops[] = {0, 1, 2, 40, vocab_size / 4, vocab_size, UINT32_MAX};
    for (size_t t = 0; t < sizeof tops / sizeof tops[0]; t++) {
        memset(some, 0xAA, 2 * vocab_size * sizeof *some);
        uint64_t before = thread_world_collected_bytes(leader.world);
        assert_int_equal(or_model_logits_top(leader.model, 0, 2, tops[t], some), OR_OK);
        uint64_t bytes = thread_world_collected_bytes(leader.world) - before;
        uint64_t pairs = 4 * 2 * (tops[t] > 0 ? tops[t] : 1);
        assert_true(tops[t] > 40 || bytes == pairs * sizeof(or_top_logit_t));
        for (uint32_t row = 0; row < 2; row++) {
            const float *x = all + (size_t)row * vocab_size;
            const float *y = some + (size_t)row * vocab_size;
            for (uint32_t i = 0; i < vocab_size; i++) {
                uint32_t before_i = 0;
                for (uint32_t j = 0; j < vocab_size && x[i] != y[i]; j++) {
                    before_i += x[j] > x[i] || (x[j] == x[i] && j < i);
                }
                assert_true(x[i] == y[i] || (y[i] == -INFINITY && before_i >= tops[t]));
            }
        }
    }
    free(some);
    free(all);
    or_kv_sequence_close(&sequence);
    dismiss(&leader);
}

// More rows than are computed at a time, together and one by one.
static void rows_are_the_same_asked_for_singly(void **state)
{
    (void)state;
    leader_t leader;
    or_kv_sequence_t *sequence = NULL;
    lead(&leader, 2, &(or_model_options_t){.threads = 1});
    uint32_t vocab_size = or_model_shape(leader.model)->vocab_size;
    open_sequences(&leader, &sequence, 1);
    or_model_row_t rows[MANY_ROWS];
    for (uint32_t i = 0; i < MANY_ROWS; i++) {
        rows[i] = (or_model_row_t){sequence, (int32_t)(7 * i), OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    assert_int_equal(or_model_forward(leader.model, rows, MANY_ROWS), OR_OK);
    float *all = malloc((size_t)MANY_ROWS * vocab_size * sizeof *all);
    float *one = malloc(vocab_size * sizeof *one);
    assert_true(all != NULL && one != NULL);
    memset(all, 0xAA, (size_t)MANY_ROWS * vocab_size * sizeof *all);
    assert_int_equal(or_model_logits(leader.model, 1, MANY_ROWS - 1, all), OR_OK);
    for (uint32_t i = 1; i < MANY_ROWS; i++) {
        assert_int_equal(or_model_logits(leader.model, i, 1, one), OR_OK);
        assert_memory_equal(one, all + (size_t)(i - 1) * vocab_size, vocab_size * sizeof *one);
    }
    free(one);
    free(all);
    or_kv_sequence_close(&sequence);
    dismiss(&leader);
}

static void who_may_ask_is_said(void **state)
{
    (void)state;
    leader_t leader;
    float logits[1];
    lead(&leader, 2, &(or_model_options_t){.threads = 1});
    assert_int_equal(or_model_follow(leader.model), OR_ERR_INVALID);
    assert_int_equal(or_model_logits(leader.model, 0, 1, logits), OR_ERR_INVALID); // no pass yet
    dismiss(&leader);
}

// -- nonsense --

static or_status_t gather_own(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    for (int i = 0; i < ranks->size; i++) {
        memmove((char *)recv + (size_t)i * bytes, send, bytes);
    }
    return OR_OK;
}

static or_status_t collect_nothing(const or_ranks_t *ranks, const void *send, size_t bytes,
                                   void *recv)
{
    (void)ranks, (void)send, (void)bytes, (void)recv;
    return OR_OK;
}

// One item, most of numbers that nearly make sense, some bytes of which are hit.
static size_t babble(uint64_t *rng, uint8_t *bytes)
{
    or_descriptor_t descriptor = {.bytes = bytes};
    uint32_t slots[4] = {0, 1, (uint32_t)test_below(rng, 4), (uint32_t)test_below(rng, 4)};
    or_kv_note_t note = {.kind = (or_kv_note_kind_t)test_below(rng, OR_KV_NOTE_SHARE + 1),
                         .sequence = (uint32_t)test_below(rng, 4),
                         .value = (uint32_t)test_below(rng, 40),
                         .donor = (uint32_t)test_below(rng, 4),
                         .slots = slots,
                         .slot_count = (uint32_t)test_below(rng, 5)};
    uint32_t rows = (uint32_t)test_below(rng, 5);
    switch (test_below(rng, 4)) {
    case 0:
        or_descriptor_put_pass(&descriptor, rows);
        for (uint32_t i = 0; i < rows; i++) {
            bool is_prefix = test_below(rng, 2) == 0;
            or_step_row_t row = {(uint32_t)test_below(rng, 3), (int32_t)test_below(rng, 99),
                                 is_prefix ? OR_KV_NO_SLOT : (uint32_t)test_below(rng, 5),
                                 (uint32_t)test_below(rng, 3) - 1};
            or_descriptor_put_row(&descriptor, &row);
        }
        break;
    case 1:
        or_descriptor_put_logits(&descriptor, 0, rows, (uint32_t)test_below(rng, 5));
        break;
    default:
        or_descriptor_put_note(&descriptor, &note);
        break;
    }
    if (test_below(rng, 10) == 0) {
        bytes[test_below(rng, descriptor.length)] = (uint8_t)test_random(rng);
    }
    return descriptor.length;
}

static or_status_t broadcast_fails(const or_ranks_t *ranks, void *data, size_t bytes)
{
    (void)ranks, (void)data, (void)bytes;
    return or_fail(OR_ERR_UNREACHABLE, "rank 1 is gone");
}

// Calls between passes cannot fail. The pass says why nobody listens, however long ago that began.
static void nobody_to_lead_is_said_by_the_pass(void **state)
{
    (void)state;
    or_ranks_t ranks = {.size = 2,
                        .gather_world = gather_own,
                        .all_gather = gather_own,
                        .broadcast = broadcast_fails};
    leader_t leader = {0};
    or_kv_sequence_t *sequences[SESSIONS];
    or_model_options_t options = {.threads = 1, .ranks = &ranks};
    assert_int_equal(or_gguf_open(test_model(MODEL), &leader.gguf), OR_OK);
    assert_int_equal(or_model_load(leader.gguf, &options, &leader.model), OR_OK);
    for (int i = 0; i < 3000; i++) {
        open_sequences(&leader, sequences, SESSIONS);
        close_sequences(sequences, SESSIONS);
    }
    open_sequences(&leader, sequences, 1);
    const or_model_row_t row = {sequences[0], 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    for (int i = 0; i < 30000; i++) { // nothing piles up
        or_fail(OR_ERR_INVALID, "something else");
        assert_int_equal(or_model_forward(leader.model, &row, 1), OR_ERR_UNREACHABLE);
        assert_string_equal(or_error_text(), "rank 1 is gone");
    }
    assert_int_equal(or_kv_sequence_length(sequences[0]), 0);
    close_sequences(sequences, 1);
    or_model_destroy(&leader.model);
    or_gguf_close(&leader.gguf);
}

// A rank that follows, alone.
typedef struct {
    or_ranks_t ranks;
    or_gguf_t *gguf;
    or_model_t *model;
} follower_t;

static void follow_nobody(follower_t *follower)
{
    *follower = (follower_t){.ranks = {.rank = 1,
                                       .size = 2,
                                       .all_gather = gather_own,
                                       .gather_world = gather_own,
                                       .collect = collect_nothing}};
    assert_int_equal(or_gguf_open(test_model(MODEL), &follower->gguf), OR_OK);
    or_model_options_t options = {
        .threads = 1, .ranks = &follower->ranks, .rows_max = 4, .pages_max = 6};
    assert_int_equal(or_model_load(follower->gguf, &options, &follower->model), OR_OK);
}

static void end_following(follower_t *follower)
{
    or_model_destroy(&follower->model);
    or_gguf_close(&follower->gguf);
}

// why: NULL if it can be done.
static void tell(follower_t *follower, or_kv_note_t note, const char *why)
{
    uint8_t bytes[64];
    bool over = false;
    or_descriptor_t descriptor = {.bytes = bytes};
    or_descriptor_put_note(&descriptor, &note);
    or_status_t status =
        or_lockstep_repeat(follower->model->lockstep, bytes, descriptor.length, &over);
    assert_int_equal(status == OR_OK, why == NULL);
    assert_true(why == NULL || strstr(or_error_text(), why) != NULL);
}

static void what_cannot_be_repeated_is_named(void **state)
{
    (void)state;
    follower_t follower;
    follow_nobody(&follower);
    const or_kv_note_t open = {.kind = OR_KV_NOTE_OPEN, .sequence = 0, .value = 4};
    const or_kv_note_t path = {
        .kind = OR_KV_NOTE_ACCEPT, .slots = (uint32_t[]){0}, .slot_count = 1};
    tell(&follower, path, "no sequence 0");
    tell(&follower, open, NULL);
    tell(&follower, open, "opens sequence 0 where 1 is free");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_OPEN, .sequence = 9}, "sequence 9 where 1");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_OPEN, .sequence = 1, .value = 5000}, "5000");
    tell(&follower, path, "out of step with the leader: the 1 accepted slots");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_SHARE}, "cannot begin with");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_SHARE, .donor = 1}, "no sequence 1");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_OPEN, .sequence = 1}, NULL);
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_SHARE, .donor = 1, .value = 1}, "1's 0");
    tell(&follower, (or_kv_note_t){.kind = OR_KV_NOTE_RESERVE, .value = 7 * OR_KV_PAGE},
         "exceed the context");
    uint8_t bytes[64];
    bool over = false;
    or_descriptor_t descriptor = {.bytes = bytes};
    or_descriptor_put_pass(&descriptor, 5);
    assert_int_equal(or_lockstep_repeat(follower.model->lockstep, bytes, descriptor.length, &over),
                     OR_ERR_FORMAT);
    assert_non_null(strstr(or_error_text(), "5 rows"));
    assert_false(over);
    end_following(&follower);
}

static void a_babbling_leader_ends_with_a_sentence(void **state)
{
    (void)state;
    follower_t follower;
    follow_nobody(&follower);
    uint64_t rng = test_seed();
    uint32_t refused = 0;
    for (uint32_t t = 0; t < BABBLE; t++) {
        uint8_t bytes[256];
        bool over = false;
        size_t length = babble(&rng, bytes);
        or_status_t status = or_lockstep_repeat(follower.model->lockstep, bytes, length, &over);
        refused += status != OR_OK;
        assert_true(status == OR_OK || or_error_text()[0] != '\0');
    }
    print_message("%u of %u refused\n", refused, BABBLE);
    assert_in_range(refused, BABBLE / 10, BABBLE / 10 * 9);
    end_following(&follower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_of_a_host_reads_a_file),
        cmocka_unit_test(who_differs_is_named_on_every_rank),
        cmocka_unit_test(a_step_is_one_broadcast),
        cmocka_unit_test(a_crowd_of_notes_goes_ahead),
        cmocka_unit_test(the_top_is_exact_and_small),
        cmocka_unit_test(rows_are_the_same_asked_for_singly),
        cmocka_unit_test(who_may_ask_is_said),
        cmocka_unit_test(nobody_to_lead_is_said_by_the_pass),
        cmocka_unit_test(what_cannot_be_repeated_is_named),
        cmocka_unit_test(a_babbling_leader_ends_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
