// Goal: a tree that cannot be is refused, one that cannot grow on the device does not, and neither is a reason to fail.
// Method: wrong requests; rows with too many contenders; devices without room, without loops, and that lose their
// memory at each allocation in turn.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define MODEL "tests/model/data/llama3-mixed.gguf"
#define SLOTS 12u

// ---- the device ----

static uint32_t allocs_left; // before one fails
static bool has_loops;
static uint64_t free_bytes; // 0: as they are
static uint32_t waits;

static int alloc_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return allocs_left-- > 0 ? or_gpu_functions()->alloc(cuda, bytes, at_p) : 2;
}

static int alloc_pinned_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return allocs_left-- > 0 ? or_gpu_functions()->alloc_pinned(cuda, bytes, at_p) : 2;
}

static int loop_or_not(or_cuda_t *cuda, or_cuda_loop_t *loop)
{
    return has_loops ? or_gpu_functions()->loop_begin(cuda, loop) : 1;
}

static int wait_and_count(or_cuda_t *cuda)
{
    waits++;
    return or_gpu_functions()->wait(cuda);
}

static int ask_free_bytes(uint32_t index, uint64_t *bytes)
{
    int status = or_gpu_functions()->free_bytes(index, bytes);
    *bytes = free_bytes > 0 ? free_bytes : *bytes;
    return status;
}

// ---- a model, and a tree of two guesses that may grow ----

typedef struct {
    or_gpu_functions_t functions;
    model_fixture_t fixture;
    or_kv_sequence_t *text;
    or_sampling_t sampling;
    or_growth_guess_t guesses[3];
    uint32_t slots[SLOTS];
    or_growth_t growth;
    or_grown_t grown;
} garden_t;

static or_status_t prepare(garden_t *garden)
{
    uint32_t count = garden->fixture.vocab_size;
    uint32_t *widths = test_alloc(count, sizeof *widths);
    or_status_t status = or_model_prepare_growth(garden->fixture.model, widths, count);
    free(widths);
    return status;
}

static void know_tokens(garden_t *garden)
{
    uint32_t count = garden->fixture.vocab_size;
    uint64_t *keys = test_alloc(count, sizeof *keys);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = i;
    }
    assert_int_equal(or_model_set_noise_keys(garden->fixture.model, keys, count), OR_OK);
    free(keys);
}

static void ask_for_tree(garden_t *garden)
{
    for (uint32_t i = 0; i < 3; i++) {
        garden->guesses[i] = (or_growth_guess_t){
            .token = (int32_t)i + 1, .depth = i > 0, .slot = OR_KV_NO_SLOT, .weight = -(double)i};
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        garden->slots[i] = i;
    }
    garden->growth =
        (or_growth_t){.sequence = garden->text,
                      .contest = {.sampling = &garden->sampling, .noisy = true, .window = 2},
                      .tau = 1,
                      .nodes = 6,
                      .depth = 4,
                      .width = 3,
                      .guesses = garden->guesses,
                      .guess_count = 2,
                      .slots = garden->slots,
                      .slot_count = SLOTS};
}

static void open_garden(garden_t *garden, const char *path)
{
    allocs_left = UINT32_MAX;
    has_loops = true;
    free_bytes = 0;
    *garden = (garden_t){.functions = *or_gpu_functions(), .sampling = or_sampling_default()};
    garden->functions.alloc = alloc_or_not;
    garden->functions.alloc_pinned = alloc_pinned_or_not;
    garden->functions.loop_begin = loop_or_not;
    garden->functions.free_bytes = ask_free_bytes;
    garden->functions.wait = wait_and_count;
    garden->sampling.temperature = 1;
    const or_gpu_choice_t choice = {.functions = &garden->functions};
    model_fixture_open(
        &garden->fixture, path, NULL,
        (or_model_options_t){.threads = 1, .context_max = 32, .rows_max = 8, .gpu = &choice});
    garden->text = model_fixture_sequence(&garden->fixture, SLOTS);
    know_tokens(garden);
    ask_for_tree(garden);
    const or_model_row_t root = prefix_row(garden->text, garden->guesses[0].token);
    model_fixture_pass(&garden->fixture, &root, 1, NULL);
}

static void close_garden(garden_t *garden)
{
    or_kv_sequence_close(&garden->text);
    model_fixture_close(&garden->fixture);
}

static or_status_t grow(garden_t *garden)
{
    waits = 0;
    return or_model_grow(garden->fixture.model, &garden->growth, &garden->grown);
}

// Whatever a tree was, the text goes on.
static void assert_lives(garden_t *garden)
{
    const or_model_row_t row = prefix_row(garden->text, 3);
    assert_false(or_model_is_lost(garden->fixture.model));
    model_fixture_pass(&garden->fixture, &row, 1, NULL);
}

// ---- what is refused ----

static void assert_refused(garden_t *garden)
{
    assert_int_equal(grow(garden), OR_ERR_INVALID);
    ask_for_tree(garden);
}

static void wrong_sizes_are_refused(garden_t *garden)
{
    or_growth_t *growth = &garden->growth;
    growth->sequence = NULL;
    assert_refused(garden);
    growth->nodes = 0;
    assert_refused(garden);
    growth->nodes = OR_GROWTH_NODES_MAX + 1;
    assert_refused(garden);
    growth->nodes = 1; // two are there
    assert_refused(garden);
    growth->depth = 0;
    assert_refused(garden);
    growth->width = 0;
    assert_refused(garden);
    growth->tau = 0;
    assert_refused(garden);
    growth->tau = NAN;
    assert_refused(garden);
    garden->slots[1] = SLOTS;
    assert_refused(garden);
}

static void wrong_guesses_are_refused(garden_t *garden)
{
    or_growth_guess_t *guess = &garden->guesses[2];
    guess->token = -1;
    assert_refused(garden);
    guess->token = (int32_t)garden->fixture.vocab_size;
    assert_refused(garden);
    guess->parent = 2;
    assert_refused(garden);
    guess->depth = 2;
    assert_refused(garden);
    guess->slot = 1; // holds no node
    assert_refused(garden);
    guess->slot = SLOTS;
    assert_refused(garden);
    guess->depth = 2;
    guess->parent = 1; // which was not run
    assert_refused(garden);
    garden->guesses[0].depth = 1;
    assert_refused(garden);
}

static void wrong_rows_are_not_adopted(garden_t *garden)
{
    or_model_t *model = garden->fixture.model;
    or_model_row_t row = tree_row(garden->text, 1, 0, OR_KV_NO_SLOT);
    assert_int_equal(or_model_adopt(model, &row), OR_OK);
    assert_int_equal(grow(garden), OR_ERR_INVALID); // into that slot
    assert_int_equal(or_model_adopt(model, &row), OR_ERR_INVALID);
    const or_model_row_t wrong[] = {tree_row(NULL, 1, 1, 0), tree_row(garden->text, -1, 1, 0),
                                    tree_row(garden->text, 1, SLOTS, 0),
                                    tree_row(garden->text, 1, OR_KV_NO_SLOT, 0),
                                    tree_row(garden->text, 1, 1, 2)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(or_model_adopt(model, &wrong[i]), OR_ERR_INVALID);
    }
    or_kv_sequence_drop_slots(garden->text);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    garden_t garden;
    open_garden(&garden, MODEL);
    for (uint32_t i = 0; i < 2; i++) { // before trees can grow, and then
        wrong_sizes_are_refused(&garden);
        wrong_guesses_are_refused(&garden);
        wrong_rows_are_not_adopted(&garden);
        assert_int_equal(prepare(&garden), OR_OK);
    }
    assert_int_equal(grow(&garden), OR_OK);
    assert_lives(&garden);
    close_garden(&garden);
}

// ---- what does not grow ----

// The guesses are run, but with all tokens contending nobody can be told.
static void rows_with_many_contenders_end_a_tree(void **state)
{
    (void)state;
    garden_t garden;
    open_garden(&garden, test_model("tales-1m-f16.gguf"));
    assert_int_equal(prepare(&garden), OR_OK);
    garden.sampling.temperature = 1000;
    garden.growth.contest.noisy = false;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(grow(&garden), OR_OK);
        assert_int_equal(garden.grown.passes, i > 0);
        assert_int_equal(garden.grown.row_count, 0);
    }
    assert_lives(&garden);
    close_garden(&garden);
}

// More than comes with the rows: all that is told is there, and right.
static void rows_with_almost_as_many_are_told(void **state)
{
    (void)state;
    garden_t garden;
    uint32_t told = 0;
    open_garden(&garden, test_model("tales-1m-f16.gguf"));
    assert_int_equal(prepare(&garden), OR_OK);
    garden.sampling.temperature = 1000;
    garden.sampling.top_k = 1000;
    garden.growth.contest.noisy = false;
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(waits, 2); // for all levels together
    for (uint32_t i = 0; i < garden.grown.row_count; i++) {
        const or_grown_row_t *grown = &garden.grown.rows[i];
        const or_model_row_t row =
            tree_row(garden.text, grown->token, grown->slot, grown->parent_slot);
        or_distribution_t dist;
        model_fixture_pass(&garden.fixture, &row, 1, NULL);
        assert_int_equal(
            or_model_contenders(garden.fixture.model, 0, 1, &garden.growth.contest, &dist), OR_OK);
        assert_int_equal(grown->dist.count, dist.count);
        assert_memory_equal(grown->dist.ids, dist.ids, dist.count * sizeof *dist.ids);
        assert_memory_equal(grown->dist.scores, dist.scores, dist.count * sizeof *dist.scores);
        told += dist.count;
    }
    assert_true(told > 2500);
    close_garden(&garden);
}

static void slots_and_shares_end_a_tree(void **state)
{
    (void)state;
    garden_t garden;
    open_garden(&garden, MODEL);
    assert_int_equal(prepare(&garden), OR_OK);
    assert_int_equal(grow(&garden), OR_OK);
    garden.growth.slot_count = 0;
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(garden.grown.row_count, 0);
    garden.growth.slot_count = 3;
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(garden.grown.row_count, 3);
    assert_int_equal(waits, 1);
    ask_for_tree(&garden);
    garden.growth.share = 2;
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(garden.grown.row_count, 0);
    assert_int_equal(garden.grown.passes, 0);
    garden.growth.guess_count = 0; // nothing to begin with
    garden.growth.share = 0;
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(garden.grown.row_count, 0);
    assert_lives(&garden);
    close_garden(&garden);
}

static void devices_without_loops_do_not_grow_trees(void **state)
{
    (void)state;
    garden_t garden;
    open_garden(&garden, MODEL);
    assert_int_equal(prepare(&garden), OR_OK);
    has_loops = false;
    assert_int_equal(grow(&garden), OR_OK);
    assert_true(or_model_can_grow(garden.fixture.model));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(grow(&garden), OR_OK);
        assert_int_equal(garden.grown.row_count, 0);
        assert_false(or_model_can_grow(garden.fixture.model));
    }
    for (uint32_t i = 0; i < 3; i++) { // passes are recorded all the same
        assert_lives(&garden);
    }
    assert_true(garden.fixture.model->gpu->steps.replays > 0);
    close_garden(&garden);
}

// With so much free, and so many allocations that succeed: do trees grow? If not all is given back, for good.
static bool grows_with(uint64_t bytes, uint32_t allocs)
{
    garden_t garden;
    open_garden(&garden, MODEL);
    or_model_t *model = garden.fixture.model;
    uint64_t before = or_model_memory(model).buffers;
    free_bytes = bytes;
    allocs_left = allocs;
    assert_int_equal(prepare(&garden), OR_OK);
    free_bytes = 0;
    allocs_left = UINT32_MAX;
    bool grows = or_model_can_grow(model);
    uint64_t after = or_model_memory(model).buffers;
    assert_true(grows ? after > before : after == before && model->gpu->embedding == NULL);
    assert_int_equal(prepare(&garden), OR_OK);
    assert_int_equal(or_model_memory(model).buffers, after);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(grow(&garden), OR_OK);
    }
    assert_true((garden.grown.row_count > 0) == grows);
    assert_lives(&garden);
    close_garden(&garden);
    return grows;
}

static void without_room_trees_do_not_grow(void **state)
{
    (void)state;
    uint32_t allocs = 0;
    assert_false(grows_with(10000, UINT32_MAX)); // of which the embedding would be too much
    while (!grows_with(0, allocs)) {
        assert_true(++allocs < 20);
    }
    assert_int_equal(allocs, 8); // of the embedding, and all that comes behind it
}

// What its layers get of a token only the host can read.
static void layers_with_inputs_do_not_grow_trees(void **state)
{
    (void)state;
    garden_t garden;
    char *path = family_file_make("gemma4-shared/0");
    open_garden(&garden, path);
    assert_int_equal(prepare(&garden), OR_OK);
    assert_false(or_model_can_grow(garden.fixture.model));
    assert_int_equal(grow(&garden), OR_OK);
    assert_int_equal(garden.grown.row_count, 0);
    assert_lives(&garden);
    close_garden(&garden);
    free(path);
}

static void processors_do_not_grow_trees(void **state)
{
    (void)state;
    model_fixture_t fixture;
    model_fixture_open(&fixture, MODEL, NULL, (or_model_options_t){.threads = 1});
    const uint32_t width = 1;
    assert_int_equal(or_model_prepare_growth(fixture.model, &width, 1), OR_OK);
    assert_false(or_model_can_grow(fixture.model));
    model_fixture_close(&fixture);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(rows_with_many_contenders_end_a_tree),
        cmocka_unit_test(rows_with_almost_as_many_are_told),
        cmocka_unit_test(slots_and_shares_end_a_tree),
        cmocka_unit_test(devices_without_loops_do_not_grow_trees),
        cmocka_unit_test(without_room_trees_do_not_grow),
        cmocka_unit_test(layers_with_inputs_do_not_grow_trees),
        cmocka_unit_test(processors_do_not_grow_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
