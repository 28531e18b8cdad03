// Goal: a tree is the same, whatever was run ahead of it, and nothing of that is left behind.
// Method: two builders, one of which has a device, build and grow on by the same random script. Trees and weights are
// compared, passes counted, and each slot is some guess's or free.
#include <string.h>

#include "drafter/build/builder_foresight_test_support.h"

#define PROMPT 3u
#define SCRIPTS 12
#define ROUNDS 60

static or_belief_t belief;
static or_build_job_t job;

static void begin_text(void)
{
    for (length = 0; length < PROMPT; length++) {
        text[length] = (int32_t)below(VOCABULARY);
    }
    for (uint32_t s = 0; s < 2; s++) {
        side_t *side = s == 0 ? &ahead : &plain;
        or_builder_forget(side->builder);
        or_kv_sequence_truncate(side->sequence, 0);
        for (uint32_t i = 0; i < length; i++) {
            kv_test_append(side->sequence, (uint32_t)mark_of_text(i + 1));
        }
    }
}

static void ask(or_draft_method_t method)
{
    static const double shares[] = {0, 0, 0.02, 0.1, 0.4};
    or_belief_init(&belief);
    job = (or_build_job_t){.history = text,
                           .history_count = length,
                           .place = place_of_text(),
                           .sampling = or_sampling_default(),
                           .draft_temperature = 1,
                           .belief = &belief,
                           .nodes_max = 1 + below(below(4) == 0 ? ROOM : 24),
                           .depth_max = 1 + below(12),
                           .pass_cost = shares[below(5)]};
    or_build_job_suit(&job, method, OR_ACCEPT_COUPLED);
    job.noisy = false;
    device.manner = (manner_t)below(MANNERS);
}

static or_build_job_t job_on(const side_t *side)
{
    or_build_job_t its = job;
    its.sequence = side->sequence;
    return its;
}

static void assert_same_trees(void)
{
    uint32_t count = or_token_tree_count(plain.tree);
    assert_int_equal(or_token_tree_count(ahead.tree), count);
    assert_memory_equal(or_token_tree_tokens(ahead.tree), or_token_tree_tokens(plain.tree),
                        (count + 1) * sizeof(int32_t));
    assert_memory_equal(or_token_tree_parents(ahead.tree), or_token_tree_parents(plain.tree),
                        (count + 1) * sizeof(uint32_t));
    for (uint32_t i = 1; i <= count; i++) {
        const or_build_guess_t *a = &ahead.builder->guesses[ahead.builder->tree_guesses[i]];
        const or_build_guess_t *b = &plain.builder->guesses[plain.builder->tree_guesses[i]];
        assert_memory_equal(&a->weight, &b->weight, sizeof a->weight);
        assert_true(a->expanded == b->expanded);
    }
    assert_int_equal(ahead.builder->set_count, plain.builder->set_count);
}

typedef struct {
    uint64_t ahead, asked_for, plain;
} passes_t;

static passes_t passes_so_far(void)
{
    return (passes_t){or_builder_passes(ahead.builder), ahead.passes,
                      or_builder_passes(plain.builder)};
}

// Both sides did the same. A device that grows as it is told runs all that is asked for, in as many passes; where passes
// cost, it may stop earlier, and runs nothing that is not asked for.
static void assert_alike(passes_t before)
{
    const passes_t after = passes_so_far();
    assert_same_trees();
    assert_slots(&ahead);
    assert_slots(&plain);
    assert_int_equal(after.ahead, ahead.passes + device.passes);
    assert_int_equal(after.plain, plain.passes);
    if (device.manner == ALL && !device.ran_out && job.nodes_max <= OR_GROWTH_NODES_MAX) {
        assert_true(job.pass_cost > 0 || after.asked_for == before.asked_for);
        assert_int_equal(after.ahead - before.ahead, after.plain - before.plain);
    }
}

// ---- scripts ----

static void trees_from_nothing_are_the_same(void **state)
{
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_TOPK, OR_DRAFT_CHAIN};
    (void)state;
    for (uint32_t i = 0; i < SCRIPTS * ROUNDS; i++) {
        or_draft_method_t method = methods[below(3)];
        const passes_t before = passes_so_far();
        begin_text();
        ask(method);
        job.pass_cost = 0;
        for (uint32_t s = 0; s < 2; s++) {
            side_t *side = s == 0 ? &ahead : &plain;
            const or_build_job_t its = job_on(side);
            ok(or_builder_build(side->builder, method, &its, side->tree));
        }
        assert_alike(before);
    }
    assert_true(device.adopted > SCRIPTS * ROUNDS);
}

static void finish(side_t *side, or_draft_method_t method)
{
    const or_build_job_t its = job_on(side);
    if (!or_builder_stands(side->builder, &its)) {
        ok(or_builder_root(side->builder, method, &its));
    }
    ok(or_builder_finish(side->builder, &its, side->tree));
}

static void finish_both(or_draft_method_t method)
{
    const passes_t before = passes_so_far();
    finish(&ahead, method);
    finish(&plain, method);
    assert_alike(before);
}

static void grow_both(void)
{
    for (uint32_t i = below(4) == 0 ? 40 : below(4); i > 0; i--) { // 40: until the room is full
        bool grew[2];
        or_build_job_t its = job_on(&ahead);
        ok(or_builder_grow(ahead.builder, &its, &grew[0]));
        its = job_on(&plain);
        ok(or_builder_grow(plain.builder, &its, &grew[1]));
        assert_true(grew[0] == grew[1]);
    }
    assert_slots(&ahead);
}

// A path of the tree, or one that leaves it; returns its length.
static uint32_t pick_path(int32_t path[POSITIONS])
{
    const or_builder_t *b = plain.builder;
    uint32_t guess = b->set_count > 0 ? b->chosen[below(b->set_count)] : OR_BUILD_ROOT;
    uint32_t count = b->guesses[guess].depth;
    for (; guess != OR_BUILD_ROOT; guess = b->guesses[guess].parent) {
        path[b->guesses[guess].depth - 1] = b->guesses[guess].token;
    }
    if (count == 0 || below(5) == 0) {
        path[count++] = (int32_t)below(VOCABULARY);
    }
    return count < POSITIONS - length ? count : POSITIONS - length;
}

static void follow(side_t *side, const int32_t *path, uint32_t count)
{
    or_belief_t taught = belief;
    uint32_t slots[OR_TREE_NODES_MAX];
    uint32_t kept = or_builder_follow(side->builder, &taught, path, count, slots);
    ok(kept == count ? or_kv_sequence_accept_root(side->sequence, slots, kept)
                     : or_kv_sequence_accept(side->sequence, slots, kept));
    for (uint32_t i = 0; i < kept; i++) {
        kv_test_assert_mark(side->sequence, length + i, (uint32_t)mark_of_text(length + i + 1));
    }
    for (uint32_t i = kept; i < count; i++) {
        kv_test_append(side->sequence, (uint32_t)mark_of_text(length + i + 1));
    }
}

static void follow_both(void)
{
    int32_t path[POSITIONS];
    uint32_t count = pick_path(path);
    memcpy(text + length, path, count * sizeof *path);
    follow(&ahead, path, count);
    follow(&plain, path, count);
    length += count;
    if (ahead.builder->rooted) {
        assert_slots(&ahead);
    }
}

static void growing_trees_are_the_same(void **state)
{
    (void)state;
    uint32_t adopted = device.adopted;
    for (uint32_t i = 0; i < SCRIPTS; i++) {
        or_draft_method_t method = i % 2 == 0 ? OR_DRAFT_COUPLED : OR_DRAFT_TOPK;
        begin_text();
        for (uint32_t round = 0; round < ROUNDS && length < POSITIONS; round++) {
            ask(method);
            finish_both(method);
            grow_both();
            ask(method);
            finish_both(method);
            follow_both();
        }
    }
    assert_true(device.adopted > adopted + SCRIPTS * 10);
    assert_true(device.begun > SCRIPTS);
}

// A device that fails ends the tree with its error, and the next one is as if nothing had been.
static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        begin_text();
        ask(OR_DRAFT_COUPLED);
        job.nodes_max = 16 + below(OR_GROWTH_NODES_MAX - 16); // more than the root has children
        job.depth_max = 3;
        job.pass_cost = 0;
        device.manner = ALL;
        device.fails_to_run = i % 2 == 0;
        device.fails_to_adopt = i % 2 == 1;
        or_build_job_t its = job_on(&ahead);
        assert_int_equal(or_builder_build(ahead.builder, OR_DRAFT_COUPLED, &its, ahead.tree),
                         OR_ERR_IO);
        assert_int_equal(ahead.builder->kept_slot_count, 0);
        device.fails_to_run = device.fails_to_adopt = false;
        begin_text();
        finish_both(OR_DRAFT_COUPLED);
    }
}

// Neither does one that fails a tree that stands, which is forgotten.
static void standing_trees_that_fail_are_forgotten(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        bool grew;
        begin_text();
        ask(OR_DRAFT_COUPLED);
        job.nodes_max = 2;
        job.depth_max = 1;
        finish_both(OR_DRAFT_COUPLED);
        job.nodes_max = OR_GROWTH_NODES_MAX;
        job.depth_max = 3;
        job.pass_cost = 0;
        device.manner = i % 4 < 2 ? ALL : NOTHING;
        device.fails_to_run = i % 4 == 0;
        device.fails_to_adopt = i % 4 == 1;
        device.fails_to_expand = i % 4 >= 2;
        or_build_job_t its = job_on(&ahead);
        assert_true(or_builder_stands(ahead.builder, &its));
        assert_int_equal(i % 4 < 3 ? or_builder_finish(ahead.builder, &its, ahead.tree)
                                   : or_builder_grow(ahead.builder, &its, &grew),
                         OR_ERR_IO);
        assert_false(or_builder_stands(ahead.builder, &its));
        assert_int_equal(or_builder_grown(ahead.builder), 0);
        device.fails_to_run = device.fails_to_adopt = device.fails_to_expand = false;
        or_builder_forget(plain.builder);
        finish_both(OR_DRAFT_COUPLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_from_nothing_are_the_same),
        cmocka_unit_test(growing_trees_are_the_same),
        cmocka_unit_test(failures_leave_nothing_behind),
        cmocka_unit_test(standing_trees_that_fail_are_forgotten),
    };
    return cmocka_run_group_tests(tests, sides_setup, sides_teardown);
}
