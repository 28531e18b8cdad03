// Goal: a tree that grows on the device is the one that drafter/build/build_coupled.c would have grown, pass for pass.
// Method: a reference that follows it literally (growth_test_support) and or_cuda_grow grow trees of every kind from the
// same contenders. After each step everything is compared, weights bit by bit: the guesses and their order, the batch, what the
// pass looks up, what the host is told. Trees that stand already are the reference's after some steps. Memory that
// is full of nonsense must not lead beyond what there is.
#include "kernels/cuda/tests/cuda_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/tests/growth_test_support.h"

#define POISON 0xAA

// ---- what grows ----

#define ROWS OR_CUDA_GROWTH_MAX
#define LIST_BYTES (ROWS * OR_CUDA_CONTENDERS_MAX * sizeof(or_cuda_contender_t))

typedef struct {
    growth_model_t model;
    or_cuda_growth_t wishes; // what the host says
    growth_tree_t tree;      // the reference's
    or_cuda_growth_t growth; // the device's
    uint32_t batch_count;    // of both
    or_cuda_contender_t lists[ROWS * OR_CUDA_CONTENDERS_MAX];
    uint32_t counts[ROWS];

    // The tables of the next pass, as the device has written them.
    int32_t tokens[ROWS];
    uint32_t positions[ROWS];
    or_cuda_seen_t seen[ROWS];
    uint32_t chains[ROWS * OR_CUDA_GROWTH_MAX];
    or_cuda_contest_t contests[ROWS];

    or_cuda_grown_t told;  // by the device
    or_cuda_grown_t grown; // as it should be

    // These are in device memory.
    struct {
        or_cuda_growth_t *growth;
        uint64_t *token_keys;
        uint32_t *widths;
        or_cuda_contender_t *lists;
        uint32_t *counts;
        void *scratch;
        or_cuda_grown_t *grown;
        or_cuda_growth_tables_t tables;
    } on_device;
} stage_t;

static stage_t stage;

// Everything the kernels are given but for the model's keys and widths is as large as `rows` need.
static void stage_open(uint32_t rows)
{
    const growth_model_t *model = &stage.model;
    memset(&stage.grown, POISON, sizeof stage.grown);
    stage.grown.passes = stage.grown.row_count = stage.grown.contender_count = 0;
    stage.on_device.growth = cuda_test_upload(test_device, &stage.growth, sizeof stage.growth);
    stage.on_device.token_keys =
        cuda_test_upload(test_device, model->token_keys, sizeof model->token_keys);
    stage.on_device.widths = cuda_test_upload(test_device, model->widths, sizeof model->widths);
    stage.on_device.lists = cuda_test_upload(test_device, NULL, LIST_BYTES / ROWS * rows);
    stage.on_device.counts = cuda_test_upload(test_device, NULL, rows * sizeof(uint32_t));
    stage.on_device.scratch = cuda_test_upload(test_device, NULL, or_cuda_grow_bytes(rows));
    stage.on_device.grown = cuda_test_upload(test_device, &stage.grown, sizeof stage.grown);
    stage.on_device.tables = (or_cuda_growth_tables_t){
        .tokens = cuda_test_upload(test_device, NULL, rows * sizeof *stage.tokens),
        .positions = cuda_test_upload(test_device, NULL, rows * sizeof *stage.positions),
        .seen = cuda_test_upload(test_device, NULL, rows * sizeof *stage.seen),
        .chains = cuda_test_upload(test_device, NULL, sizeof stage.chains / ROWS * rows),
        .contests = cuda_test_upload(test_device, NULL, rows * sizeof *stage.contests),
    };
}

static void stage_close(void)
{
    const or_cuda_growth_tables_t *tables = &stage.on_device.tables;
    void *all[] = {stage.on_device.growth, stage.on_device.token_keys,
                   stage.on_device.widths, stage.on_device.lists,
                   stage.on_device.counts, stage.on_device.scratch,
                   stage.on_device.grown,  tables->tokens,
                   tables->positions,      tables->seen,
                   tables->chains,         tables->contests};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        or_cuda_free(test_device, all[i]);
    }
}

static int ask_device(uint32_t rows, or_cuda_loop_t loop)
{
    return or_cuda_grow(test_device, stage.on_device.growth, rows, stage.on_device.token_keys,
                        stage.on_device.widths, stage.on_device.lists, stage.on_device.counts,
                        stage.on_device.scratch, &stage.on_device.tables, stage.on_device.grown,
                        loop);
}

static void fetch(uint32_t rows)
{
    const or_cuda_growth_tables_t *tables = &stage.on_device.tables;
    cuda_test_download(test_device, &stage.growth, stage.on_device.growth, sizeof stage.growth);
    cuda_test_download(test_device, &stage.told, stage.on_device.grown, sizeof stage.told);
    cuda_test_download(test_device, stage.tokens, tables->tokens, rows * sizeof *stage.tokens);
    cuda_test_download(test_device, stage.positions, tables->positions,
                       rows * sizeof *stage.positions);
    cuda_test_download(test_device, stage.seen, tables->seen, rows * sizeof *stage.seen);
    cuda_test_download(test_device, stage.chains, tables->chains,
                       sizeof stage.chains / ROWS * rows);
    cuda_test_download(test_device, stage.contests, tables->contests,
                       rows * sizeof *stage.contests);
}

// ---- the reference's side ----

// Ask the model what follows the batch.
static void list_batch(void)
{
    for (uint32_t i = 0; i < stage.batch_count; i++) {
        const growth_guess_t *guess = &stage.tree.guesses[stage.tree.batch[i]];
        or_cuda_contest_t contest = growth_tree_contest(&stage.tree, guess);
        stage.counts[i] = growth_model_list(&stage.model, guess->path, &contest,
                                            stage.lists + (size_t)i * OR_CUDA_CONTENDERS_MAX);
    }
}

static uint32_t rows_left(void)
{
    const or_cuda_growth_t *wishes = &stage.wishes;
    uint32_t slots = wishes->free_slot_count - stage.grown.row_count;
    uint32_t rows = wishes->rows < slots ? wishes->rows : slots;
    return stage.grown.passes < wishes->passes ? rows : 0;
}

static void give_slots(uint32_t first)
{
    for (uint32_t i = 0; i < stage.batch_count; i++) {
        growth_guess_t *guess = &stage.tree.guesses[stage.tree.batch[i]];
        guess->slot = stage.wishes.free_slots[first + i];
    }
}

// Write what the host is to be told of the batch, and return whether that is all of it.
static bool tell_batch(void)
{
    or_cuda_grown_t *grown = &stage.grown;
    bool all = true;
    for (uint32_t i = 0; i < stage.batch_count; i++) {
        const growth_guess_t *guess = &stage.tree.guesses[stage.tree.batch[i]];
        uint32_t count = stage.counts[i];
        if (count == OR_CUDA_CONTENDERS_MANY ||
            grown->contender_count + count > OR_CUDA_GROWTH_CONTENDERS) {
            all = false;
            continue;
        }
        grown->rows[grown->row_count++] =
            (or_cuda_grown_row_t){guess->token, stage.tree.guesses[guess->parent].slot, guess->slot,
                                  grown->contender_count, count};
        memcpy(grown->contenders + grown->contender_count,
               stage.lists + (size_t)i * OR_CUDA_CONTENDERS_MAX, count * sizeof *grown->contenders);
        grown->contender_count += count;
    }
    grown->passes += stage.batch_count > 0 ? 1 : 0;
    return all;
}

// Do what the device should do in one step.
static void step_reference(bool first)
{
    bool all = tell_batch();
    bool goes_on = first || (stage.batch_count > 0 && all);
    if (goes_on) {
        growth_tree_expand(&stage.tree, stage.batch_count, stage.lists, stage.counts);
    }
    stage.batch_count = goes_on ? growth_tree_choose(&stage.tree, rows_left()) : 0;
    give_slots(stage.grown.row_count);
}

// Grow the reference alone, by steps of its own size, with slots that are not free then.
static void stand(uint64_t *random)
{
    uint32_t steps = (uint32_t)test_below(random, 4);
    for (uint32_t step = 0, slot = 0; step < steps; step++) {
        stage.batch_count = growth_tree_choose(&stage.tree, PICK(random, 1, 3, 16));
        list_batch();
        for (uint32_t i = 0; i < stage.batch_count; i++) {
            stage.tree.guesses[stage.tree.batch[i]].slot = slot++;
            stage.batch_count = stage.counts[i] == OR_CUDA_CONTENDERS_MANY ? i : stage.batch_count;
        }
        growth_tree_expand(&stage.tree, stage.batch_count, stage.lists, stage.counts);
    }
    for (uint32_t i = 0; i < stage.tree.count; i++) { // whose row had too many was not run
        growth_guess_t *guess = &stage.tree.guesses[stage.tree.chosen[i]];
        guess->slot = guess->expanded ? guess->slot : GROWTH_TEST_NO_SLOT;
    }
}

// ---- comparing ----

static const or_cuda_guess_t *device_at(uint32_t place)
{
    assert_in_range(stage.growth.order[place], 1, stage.growth.guess_count);
    return &stage.growth.guesses[stage.growth.order[place]];
}

static void assert_same_guess(const or_cuda_guess_t *actual, const growth_guess_t *expected)
{
    assert_int_equal(actual->token, expected->token);
    assert_int_equal(actual->depth, expected->depth);
    assert_int_equal(actual->slot, expected->slot);
    assert_int_equal(actual->byte_offset, expected->place.byte_offset);
    assert_int_equal(actual->zero_width, expected->place.zero_width);
    assert_memory_equal(&actual->weight, &expected->weight, sizeof(double));
}

static void compare_tree(void)
{
    assert_int_equal(stage.growth.begun, 1);
    assert_int_equal(stage.growth.guess_count, stage.tree.count);
    for (uint32_t i = 0; i < stage.tree.count; i++) {
        const growth_guess_t *expected = growth_tree_at(&stage.tree, i);
        const or_cuda_guess_t *actual = device_at(i);
        assert_same_guess(actual, expected);
        assert_same_guess(&stage.growth.guesses[actual->parent],
                          &stage.tree.guesses[expected->parent]);
    }
    assert_int_equal(stage.growth.batch_count, stage.batch_count);
    for (uint32_t i = 0; i < stage.batch_count; i++) {
        assert_same_guess(&stage.growth.guesses[stage.growth.batch[i]],
                          &stage.tree.guesses[stage.tree.batch[i]]);
    }
}

static void compare_row(uint32_t row)
{
    const or_cuda_growth_t *wishes = &stage.wishes;
    bool is_shadow = row >= stage.batch_count;
    const growth_guess_t *guess = &stage.tree.guesses[stage.tree.batch[is_shadow ? 0 : row]];
    const or_cuda_seen_t *seen = &stage.seen[row];
    assert_int_equal(stage.tokens[row], guess->token);
    assert_int_equal(stage.positions[row], wishes->committed + guess->depth - 1);
    assert_int_equal(seen->position, stage.positions[row]);
    assert_int_equal(seen->committed, wishes->committed);
    assert_ptr_equal(seen->table.pages, wishes->table.pages);
    assert_ptr_equal(seen->table.frames, wishes->table.frames);
    assert_ptr_equal(seen->slots, wishes->slots);
    assert_int_equal(seen->slots_max, wishes->slots_max);
    assert_int_equal(seen->slot, is_shadow ? OR_CUDA_SHADOW : guess->slot);
    assert_int_equal(seen->chain_count, guess->depth);
    assert_ptr_equal(seen->chain, stage.on_device.tables.chains + (size_t)row * OR_CUDA_GROWTH_MAX);

    or_cuda_contest_t contest = growth_tree_contest(&stage.tree, guess);
    assert_int_equal(stage.contests[row].byte_offset, contest.byte_offset);
    assert_int_equal(stage.contests[row].zero_width, contest.zero_width);
    assert_int_equal(stage.contests[row].key, contest.key);
    assert_memory_equal(&stage.contests[row].window, &contest.window, sizeof contest.window);
    for (uint32_t i = guess->depth; i-- > 0; guess = &stage.tree.guesses[guess->parent]) {
        assert_int_equal(stage.chains[row * OR_CUDA_GROWTH_MAX + i], guess->slot);
    }
}

static void compare_step(void)
{
    fetch(stage.wishes.rows);
    compare_tree();
    for (uint32_t row = 0; stage.batch_count > 0 && row < stage.wishes.rows; row++) {
        compare_row(row);
    }
    assert_memory_equal(&stage.told, &stage.grown, sizeof stage.grown);
}

// ---- trees ----

static void step_both(bool first)
{
    uint32_t rows = stage.wishes.rows;
    list_batch();
    cuda_test_ok(
        or_cuda_upload(test_device, stage.on_device.lists, stage.lists, LIST_BYTES / ROWS * rows));
    cuda_test_ok(
        or_cuda_upload(test_device, stage.on_device.counts, stage.counts, rows * sizeof(uint32_t)));
    cuda_test_ok(ask_device(rows, OR_CUDA_NO_LOOP));
    step_reference(first);
    compare_step();
}

// Grow a tree to its end, and ask once more.
static void grow_both(uint64_t *random, bool stands)
{
    growth_tree_begin(&stage.tree, &stage.model, &stage.wishes);
    if (stands) {
        stand(random);
    }
    growth_tree_hand_over(&stage.tree, &stage.growth);
    stage_open(stage.wishes.rows);
    stage.batch_count = 0;
    step_both(true);
    while (stage.batch_count > 0) {
        step_both(false);
    }
    step_both(false);
    stage_close();
}

static void trees_are_those_of_the_host(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    uint32_t runs = test_runs(150);
    uint32_t rows = 0;
    for (uint32_t run = 0; run < runs; run++) {
        growth_draw_wishes(&stage.wishes, &random);
        growth_model_draw(&stage.model, &random);
        stage.wishes.contest.noisy &= stage.model.levels != 1; // so that weights are equal
        grow_both(&random, run % 3 == 0);
        rows += stage.grown.row_count;
    }
    assert_true(runs < 100 || rows > 2 * runs); // a few drawn trees may all be small
}

// The largest tree, and the longest chain.
static void limits_are_met(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const uint32_t widths[] = {1, 32};
    for (uint32_t i = 0; i < 2; i++) {
        growth_draw_plenty(&stage.wishes, &stage.model, &random, OR_CUDA_GROWTH_MAX, 60);
        stage.wishes.width = widths[i];
        grow_both(&random, false);
        assert_int_equal(stage.tree.count, OR_CUDA_GROWTH_MAX);
        assert_true(widths[i] > 1 || stage.grown.passes == OR_CUDA_GROWTH_MAX - 1);
    }
}

// The tree ends at a row whose contenders find no room, and the host has those that did.
static void contenders_run_out_of_room(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    growth_draw_plenty(&stage.wishes, &stage.model, &random, OR_CUDA_GROWTH_MAX,
                       OR_CUDA_CONTENDERS_MAX);
    stage.wishes.rows = 7;
    stage.wishes.nearly = INFINITY;
    stage.wishes.contest.noisy = false;
    stage.wishes.contest.temperature = 2;
    stage.wishes.contest.window = 8; // half of which the logits are apart
    grow_both(&random, false);
    assert_int_equal(stage.grown.row_count, OR_CUDA_GROWTH_CONTENDERS / OR_CUDA_CONTENDERS_MAX);
    assert_int_equal(stage.grown.passes, 5);
}

// ---- loops ----

// A loop of steps, each of which finds the same lists.
static void grow_in_a_loop(uint32_t rows)
{
    or_cuda_recording_t *recording = NULL;
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_loop_begin(test_device, &loop));
    cuda_test_ok(ask_device(rows, loop));
    cuda_test_ok(or_cuda_loop_end(test_device));
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    cuda_test_ok(or_cuda_replay(test_device, recording));
    cuda_test_ok(or_cuda_wait(test_device));
    or_cuda_recording_free(&recording);
}

static void load_lists(void)
{
    growth_tree_begin(&stage.tree, &stage.model, &stage.wishes);
    growth_tree_hand_over(&stage.tree, &stage.growth);
    stage_open(ROWS);
    for (uint32_t row = 0; row < ROWS; row++) {
        stage.counts[row] = growth_model_list(&stage.model, row, &stage.wishes.contest,
                                              stage.lists + (size_t)row * OR_CUDA_CONTENDERS_MAX);
    }
    cuda_test_ok(or_cuda_upload(test_device, stage.on_device.lists, stage.lists, LIST_BYTES));
    cuda_test_ok(
        or_cuda_upload(test_device, stage.on_device.counts, stage.counts, sizeof stage.counts));
}

static void a_loop_ends_with_its_tree(void **state)
{
    (void)state;
    if (getenv("OR_TEST_NO_LOOPS")) { // tests/gpu/run.sh says why
        skip();
    }
    static or_cuda_grown_t expected;
    uint64_t random = test_seed();
    growth_draw_plenty(&stage.wishes, &stage.model, &random, 16, 40);
    stage.wishes.nearly = 0;
    load_lists();
    for (stage.growth.batch_count = 1; stage.growth.batch_count > 0;) {
        cuda_test_ok(ask_device(ROWS, OR_CUDA_NO_LOOP));
        fetch(ROWS);
    }
    expected = stage.told;
    stage_close();
    assert_true(expected.passes > 2);

    load_lists();
    grow_in_a_loop(ROWS);
    fetch(ROWS);
    stage_close();
    assert_memory_equal(&stage.told, &expected, sizeof expected);
}

// ---- nonsense ----

static double draw_nonsense(uint64_t *random)
{
    return (const double[]){
        NAN, INFINITY, -INFINITY, 1e300, -1, -2, 0, -0.0}[test_below(random, 8)];
}

static uint32_t draw_count(uint64_t *random)
{
    return PICK(random, 0, 1, 63, 64, 65, 128, 129, 70000, UINT32_MAX - 1, UINT32_MAX);
}

static void spoil_count(uint64_t *random, uint32_t *count)
{
    *count = test_below(random, 4) == 0 ? draw_count(random) : *count;
}

static void spoil_number(uint64_t *random, double *number)
{
    *number = test_below(random, 4) == 0 ? draw_nonsense(random) : *number;
}

static void spoil_growth(uint64_t *random, or_cuda_growth_t *growth)
{
    uint32_t *counts[] = {&growth->nodes,           &growth->depth,       &growth->width,
                          &growth->passes,          &growth->guess_count, &growth->batch_count,
                          &growth->free_slot_count, &growth->begun};
    double *numbers[] = {&growth->tau, &growth->nearly, &growth->share, &growth->contest.window};
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        spoil_count(random, counts[i]);
    }
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        spoil_number(random, numbers[i]);
    }
    for (uint32_t i = 0; i <= OR_CUDA_GROWTH_MAX; i++) {
        spoil_count(random, &growth->guesses[i].parent);
        spoil_count(random, &growth->guesses[i].depth);
        spoil_count(random, &growth->guesses[i].slot);
        spoil_number(random, &growth->guesses[i].weight);
    }
    for (uint32_t i = 0; i < OR_CUDA_GROWTH_MAX; i++) {
        spoil_count(random, &growth->order[i]);
        spoil_count(random, &growth->batch[i]);
    }
}

// Guesses that are run, whose way to the root leads out of the tree, or is longer than it.
static void ways_from_nowhere_end(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    growth_draw_wishes(&stage.wishes, &random);
    growth_model_draw(&stage.model, &random);
    load_lists();
    or_cuda_growth_t *growth = &stage.growth;
    growth->begun = growth->batch_count = 0;
    growth->nodes = growth->guess_count = growth->free_slot_count = OR_CUDA_GROWTH_MAX;
    growth->passes = 1;
    growth->share = 0;
    growth->nearly = 2; // than which no weights are further apart
    growth->depth = UINT32_MAX;
    for (uint32_t i = 1; i <= OR_CUDA_GROWTH_MAX; i++) {
        growth->guesses[i].parent = i % 2 == 0 ? UINT32_MAX / 2 : 0;
        growth->guesses[i].depth = i % 2 == 0 ? 2 : UINT32_MAX / 2;
        growth->guesses[i].slot = UINT32_MAX;
        growth->guesses[i].weight = -(double)i / OR_CUDA_GROWTH_MAX;
    }
    cuda_test_ok(or_cuda_upload(test_device, stage.on_device.growth, growth, sizeof *growth));
    cuda_test_ok(ask_device(ROWS, OR_CUDA_NO_LOOP));
    fetch(ROWS);
    assert_int_equal(stage.growth.batch_count,
                     OR_CUDA_GROWTH_MAX - 1); // the last may be driven out
    stage_close();
}

static void nonsense_leads_nowhere(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t run = 0; run < test_runs(60); run++) {
        growth_draw_wishes(&stage.wishes, &random);
        growth_model_draw(&stage.model, &random);
        load_lists();
        spoil_growth(&random, &stage.growth);
        spoil_count(&random, &stage.grown.passes);
        spoil_count(&random, &stage.grown.row_count);
        spoil_count(&random, &stage.grown.contender_count);
        cuda_test_ok(or_cuda_upload(test_device, stage.on_device.growth, &stage.growth,
                                    sizeof stage.growth));
        cuda_test_ok(
            or_cuda_upload(test_device, stage.on_device.grown, &stage.grown, sizeof stage.grown));
        for (uint32_t step = 0; step < 3; step++) {
            cuda_test_ok(ask_device(ROWS, OR_CUDA_NO_LOOP));
            fetch(ROWS);
            assert_in_range(stage.growth.guess_count, 0, OR_CUDA_GROWTH_MAX);
            assert_in_range(stage.growth.batch_count, 0, OR_CUDA_GROWTH_MAX);
            assert_in_range(stage.told.row_count, 0, OR_CUDA_GROWTH_ROWS);
            assert_in_range(stage.told.contender_count, 0, OR_CUDA_GROWTH_CONTENDERS);
        }
        stage_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_those_of_the_host), cmocka_unit_test(limits_are_met),
        cmocka_unit_test(contenders_run_out_of_room),  cmocka_unit_test(a_loop_ends_with_its_tree),
        cmocka_unit_test(ways_from_nowhere_end),       cmocka_unit_test(nonsense_leads_nowhere),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
