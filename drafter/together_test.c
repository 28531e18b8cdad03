// Goal: works side by side get the bits they would get alone, in as many passes as the longest of them needs; what does
// not fit waits for the next pass; who fails fails alone; and nobody's logits are written over before they are read.
// Method: works over a model of this repository, each of which extends its own text and keeps all its logits; they are
// compared with those of a model that runs each work by itself.
#include "drafter/together.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define WORKS 5
#define PASSES 4
#define ROWS_MAX 16u // of a pass

static or_gguf_t *gguf;
static or_model_t *model;
static or_together_t *together;
static uint32_t vocab_size;

typedef struct {
    or_kv_sequence_t *sequence;
    uint32_t rows, passes; // rows a pass, passes to ask for
    int32_t seed;          // of its tokens; negative: a token that there is not
    bool grows;            // it calls or_together_grow between its passes
    uint32_t done;         // passes
    or_status_t status;
    float *logits; // [passes][vocab_size] of each pass's last row
} work_t;

static void grow(const work_t *work, int32_t token)
{
    const or_growth_guess_t root = {.token = token, .slot = OR_KV_NO_SLOT};
    const or_sampling_t sampling = or_sampling_default();
    const or_growth_t growth = {.sequence = work->sequence,
                                .contest = {.sampling = &sampling, .window = 1},
                                .tau = 1,
                                .nodes = 1,
                                .depth = 1,
                                .width = 1,
                                .guesses = &root};
    or_grown_t grown;
    assert_int_equal(or_together_grow(model, &growth, &grown), OR_OK);
    assert_int_equal(grown.row_count, 0); // no device; but the last pass's logits are gone
}

static void extend(void *context)
{
    work_t *work = context;
    or_model_row_t rows[ROWS_MAX];
    for (uint32_t pass = 0; pass < work->passes; pass++) {
        uint32_t first;
        for (uint32_t i = 0; i < work->rows; i++) {
            int32_t token = work->seed + (int32_t)(37 * pass + 11 * i);
            rows[i] = (or_model_row_t){work->sequence, token, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        }
        work->status = or_together_forward(model, rows, work->rows, &first);
        if (work->status == OR_OK && work->grows && pass > 0) {
            grow(work, rows[work->rows - 1].token);
        } else if (work->status == OR_OK) {
            float *logits = work->logits + (size_t)pass * vocab_size;
            work->status = or_model_logits(model, first + work->rows - 1, 1, logits);
        }
        if (work->status != OR_OK) {
            return;
        }
        work->done++;
    }
}

static work_t open_work(uint32_t rows, uint32_t passes, int32_t seed)
{
    work_t work = {.rows = rows, .passes = passes, .seed = seed};
    work.logits = calloc((size_t)passes * vocab_size, sizeof *work.logits);
    assert_non_null(work.logits);
    assert_int_equal(or_model_open_sequence(model, 4, &work.sequence), OR_OK);
    return work;
}

static void close_work(work_t *work)
{
    or_kv_sequence_close(&work->sequence);
    free(work->logits);
}

// It has what it would have got alone.
static void assert_as_alone(const work_t *work)
{
    work_t alone = open_work(work->rows, work->passes, work->seed);
    extend(&alone);
    assert_int_equal(work->status, OR_OK);
    assert_int_equal(work->done, work->passes);
    assert_memory_equal(work->logits, alone.logits,
                        (size_t)work->passes * vocab_size * sizeof *work->logits);
    close_work(&alone);
}

static void begin_work(work_t *work)
{
    assert_int_equal(or_together_begin(together, extend, work), OR_OK);
}

static void run_to_the_end(void)
{
    while (or_together_count(together) > 0) {
        or_together_pass(together);
        or_together_read(together);
    }
}

static int setup(void **state)
{
    (void)state;
    const or_model_options_t options = {
        .threads = 1, .pages_max = 64, .context_max = 256, .rows_max = ROWS_MAX};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    assert_int_equal(or_together_create(&together), OR_OK);
    vocab_size = or_model_shape(model)->vocab_size;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_together_destroy(&together);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return 0;
}

static void passes_are_shared(void **state)
{
    (void)state;
    work_t works[WORKS];
    for (uint32_t i = 0; i < WORKS; i++) {
        works[i] = open_work(1 + i % 3, i + 1, 5 + 100 * (int32_t)i);
        begin_work(&works[i]);
        assert_int_equal(works[i].done, 0);
    }
    assert_int_equal(or_together_count(together), WORKS);
    run_to_the_end();
    assert_int_equal(or_together_passes(together), WORKS); // as many as the longest asked for
    for (uint32_t i = 0; i < WORKS; i++) {
        assert_as_alone(&works[i]);
        close_work(&works[i]);
    }
}

// Three of 7 rows do not fit into 16: who has waited longest is in the next pass.
static void what_does_not_fit_waits_its_turn(void **state)
{
    (void)state;
    work_t works[3];
    for (uint32_t i = 0; i < 3; i++) {
        works[i] = open_work(7, PASSES, 5 + 100 * (int32_t)i);
        begin_work(&works[i]);
    }
    or_together_pass(together);
    or_together_read(together);
    assert_int_equal(works[0].done + works[1].done, 2);
    or_together_pass(together);
    or_together_read(together);
    assert_int_equal(works[2].done, 1);
    run_to_the_end();
    assert_int_equal(or_together_passes(together), 3 * PASSES / 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_as_alone(&works[i]);
        close_work(&works[i]);
    }
}

static void who_fails_fails_alone(void **state)
{
    (void)state;
    work_t works[3];
    for (uint32_t i = 0; i < 3; i++) {
        works[i] = open_work(2, PASSES, i == 1 ? -1000 : 5 + 100 * (int32_t)i);
        begin_work(&works[i]);
    }
    run_to_the_end();
    assert_int_equal(works[1].status, OR_ERR_INVALID);
    assert_int_equal(works[1].done, 0);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != 1) {
            assert_as_alone(&works[i]);
        }
        close_work(&works[i]);
    }
}

// The first and the third work write over the last pass where a tree grows; the others' logits lie there.
static void who_grows_waits_until_others_have_read(void **state)
{
    (void)state;
    work_t works[4];
    for (uint32_t i = 0; i < 4; i++) {
        works[i] = open_work(2, PASSES, 5 + 100 * (int32_t)i);
        works[i].grows = i % 2 == 0;
        begin_work(&works[i]);
    }
    run_to_the_end();
    assert_int_equal(or_together_passes(together), PASSES);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(works[i].status, OR_OK);
        assert_int_equal(works[i].done, PASSES);
        if (!works[i].grows) {
            assert_as_alone(&works[i]);
        }
        close_work(&works[i]);
    }
}

static void there_are_so_many_places(void **state)
{
    (void)state;
    work_t works[OR_TOGETHER_MAX];
    work_t more = open_work(1, 1, 3);
    for (uint32_t i = 0; i < OR_TOGETHER_MAX; i++) {
        works[i] = open_work(1, 1 + i % 2, (int32_t)i);
        begin_work(&works[i]);
    }
    assert_int_equal(or_together_begin(together, extend, &more), OR_ERR_FULL);
    for (uint32_t i = 0; i < OR_TOGETHER_MAX / ROWS_MAX; i++) {
        or_together_pass(together);
        or_together_read(together);
    }
    assert_int_equal(or_together_count(together), OR_TOGETHER_MAX / 2);
    assert_int_equal(or_together_begin(together, extend, &more), OR_OK);
    or_together_destroy(&together); // in the middle of all of them
    for (uint32_t i = 0; i < OR_TOGETHER_MAX; i++) {
        close_work(&works[i]);
    }
    close_work(&more);
}

int main(void)
{
    test_log_init();
#define OVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        OVER(passes_are_shared),        OVER(what_does_not_fit_waits_its_turn),
        OVER(who_fails_fails_alone),    OVER(who_grows_waits_until_others_have_read),
        OVER(there_are_so_many_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
