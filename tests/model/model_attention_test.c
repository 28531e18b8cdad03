// Goal: which rows attention takes together, as tiles of a sequence, changes no bit.
// Method: two texts of several pages, with a tree on each. First every row is a pass of its own; then
// many are, both texts' prefix rows and nodes shuffled together, for forms of K and V and numbers of
// threads. Every row's logits are compared. Then texts of several parts, whose rows are also computed alone by
// more threads than there are heads.
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/model/model_fixture.h"

#define TEXTS 2u
#define TOKENS 170u      // of the longer text: five pages and a part
#define SHORT_TOKENS 64u // of the other: no page is left in part
#define LONG_TOKENS 430u
#define NODES 75u // of the longer text: more than two tiles
#define LAST_TOKENS 40u
#define ROWS (LONG_TOKENS + NODES)
#define PASS_ROWS (TEXTS * (LAST_TOKENS + NODES))

typedef struct {
    uint32_t tokens, nodes;
    int32_t ids[ROWS]; // the text's, then the nodes'
    uint32_t parents[NODES];
} text_t;

typedef struct {
    model_fixture_t fixture;
    text_t texts[TEXTS];
    or_kv_sequence_t *sequences[TEXTS];
    float *logits; // [TEXTS][ROWS][vocab_size], zeroed where a text has no such row
} run_t;

// Rows of one text that go into a pass in this order.
typedef struct {
    uint32_t text, next, end;
} queue_t;

static float *row_logits(const run_t *run, uint32_t text, uint32_t row)
{
    return run->logits + ((size_t)text * ROWS + row) * run->fixture.vocab_size;
}

// Mostly chains, so that some paths are longer than a page; a few fork, or begin anew.
static void grow(text_t *text, uint64_t *rng, uint32_t vocab_size, uint32_t tokens, uint32_t nodes)
{
    text->tokens = tokens;
    text->nodes = nodes;
    random_tokens(rng, vocab_size, text->ids, tokens + nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t back = test_below(rng, 10) == 0 ? (uint32_t)test_below(rng, i + 1) : 0;
        text->parents[i] = back == i ? OR_KV_NO_SLOT : i - 1 - back;
    }
}

static void open_run(run_t *run, const char *path, or_model_options_t options,
                     const uint32_t tokens[TEXTS], uint64_t seed)
{
    static const uint32_t nodes[TEXTS] = {NODES, 20};
    uint64_t rng = seed;
    options.rows_max = PASS_ROWS;
    model_fixture_open(&run->fixture, path, NULL, options);
    run->logits = test_alloc((size_t)TEXTS * ROWS * run->fixture.vocab_size, sizeof *run->logits);
    for (uint32_t t = 0; t < TEXTS; t++) {
        grow(&run->texts[t], &rng, run->fixture.vocab_size, tokens[t], nodes[t]);
        run->sequences[t] = model_fixture_sequence(&run->fixture, NODES);
    }
}

static void close_run(run_t *run)
{
    for (uint32_t t = 0; t < TEXTS; t++) {
        or_kv_sequence_close(&run->sequences[t]);
    }
    free(run->logits);
    model_fixture_close(&run->fixture);
}

static or_model_row_t make_row(const run_t *run, uint32_t t, uint32_t row)
{
    const text_t *text = &run->texts[t];
    uint32_t node = row - text->tokens;
    return row < text->tokens
               ? prefix_row(run->sequences[t], text->ids[row])
               : tree_row(run->sequences[t], text->ids[row], node, text->parents[node]);
}

static void run_alone(run_t *run)
{
    for (uint32_t t = 0; t < TEXTS; t++) {
        for (uint32_t i = 0; i < run->texts[t].tokens + run->texts[t].nodes; i++) {
            or_model_row_t row = make_row(run, t, i);
            model_fixture_pass(&run->fixture, &row, 1, row_logits(run, t, i));
        }
    }
}

// One pass of all that is queued, some rows of one queue at a time.
static void run_shuffled(run_t *run, uint64_t *rng, queue_t *queues, uint32_t count)
{
    or_model_row_t rows[PASS_ROWS];
    float *places[PASS_ROWS];
    uint32_t taken = 0;
    for (uint32_t left = count; left > 0;) {
        uint32_t which = (uint32_t)test_below(rng, left);
        queue_t *queue = &queues[which];
        for (uint64_t n = 1 + test_below(rng, 12); n > 0 && queue->next < queue->end; n--) {
            places[taken] = row_logits(run, queue->text, queue->next);
            rows[taken++] = make_row(run, queue->text, queue->next++);
        }
        if (queue->next == queue->end) {
            *queue = queues[--left];
        }
    }
    size_t vocab_size = run->fixture.vocab_size;
    float *logits = test_alloc(taken * vocab_size, sizeof *logits);
    model_fixture_pass(&run->fixture, rows, taken, logits);
    for (uint32_t i = 0; i < taken; i++) {
        memcpy(places[i], logits + i * vocab_size, vocab_size * sizeof *logits);
    }
    free(logits);
}

// The texts but for their ends in a few passes; in the last one their ends and the trees.
static void run_together(run_t *run, uint64_t *rng)
{
    uint32_t done[TEXTS] = {0};
    for (uint32_t most; (most = run->texts[0].tokens - LAST_TOKENS - done[0]) > 0;) {
        queue_t queues[TEXTS];
        for (uint32_t t = 0; t < TEXTS; t++) {
            uint32_t left = run->texts[t].tokens - LAST_TOKENS - done[t];
            uint32_t end = done[t] + (uint32_t)test_below(rng, left < 70 ? left + 1 : 70);
            queues[t] = (queue_t){t, done[t], end};
            done[t] = end;
        }
        if (queues[0].next < queues[0].end || queues[1].next < queues[1].end) {
            run_shuffled(run, rng, queues, TEXTS);
        }
    }
    queue_t queues[2 * TEXTS];
    for (uint32_t t = 0; t < TEXTS; t++) {
        uint32_t tokens = run->texts[t].tokens;
        queues[2 * t] = (queue_t){t, done[t], tokens};
        queues[2 * t + 1] = (queue_t){t, tokens, tokens + run->texts[t].nodes};
    }
    run_shuffled(run, rng, queues, 2 * TEXTS);
}

static void check(const char *path, const uint32_t tokens[TEXTS], or_kv_type_t key_type,
                  or_kv_type_t value_type)
{
    static run_t alone, together;
    uint64_t seed = test_seed();
    uint64_t rng = seed;
    or_model_options_t options = {
        .threads = 1, .cache_type_k = key_type, .cache_type_v = value_type};
    open_run(&alone, path, options, tokens, seed);
    run_alone(&alone);
    for (options.threads = 1; options.threads <= 5; options.threads += 2) {
        for (uint32_t round = 0; round < 6; round++) {
            open_run(&together, path, options, tokens, seed);
            run_together(&together, &rng);
            assert_same_bits(together.logits, alone.logits,
                             (size_t)TEXTS * ROWS * alone.fixture.vocab_size);
            close_run(&together);
        }
    }
    close_run(&alone);
}

static void check_types(const char *path)
{
    static const uint32_t tokens[TEXTS] = {TOKENS, SHORT_TOKENS};
    check(path, tokens, OR_KV_F32, OR_KV_F32);
    check(path, tokens, OR_KV_F16, OR_KV_Q8_0);
    check(path, tokens, OR_KV_Q8_0, OR_KV_F16);
}

static void tiles_do_not_matter_to_two_heads(void **state)
{
    (void)state;
    check_types(test_model("tales-1m-f16.gguf"));
}

// Seven query heads share a KV head: four rows are a tile.
static void tiles_do_not_matter_to_seven_heads(void **state)
{
    (void)state;
    check_types("tests/model/data/qwen2-14-heads-q8_0.gguf");
}

// The second text's tree begins before the border of a part and ends behind it.
static const uint32_t long_tokens[TEXTS] = {LONG_TOKENS, OR_ATTENTION_PART - 10};

static void tiles_do_not_matter_to_parts(void **state)
{
    (void)state;
    check(test_model("tales-1m-f16.gguf"), long_tokens, OR_KV_F32, OR_KV_F32);
    check(test_model("tales-1m-f16.gguf"), long_tokens, OR_KV_Q8_0, OR_KV_F16);
}

// Threads share the tile of a single row.
static void threads_do_not_matter_to_parts(void **state)
{
    (void)state;
    static run_t one, several;
    uint64_t seed = test_seed();
    or_model_options_t options = {.threads = 1, .cache_type_v = OR_KV_F16};
    open_run(&one, test_model("tales-1m-f16.gguf"), options, long_tokens, seed);
    run_alone(&one);
    for (options.threads = 2; options.threads <= 8; options.threads++) {
        open_run(&several, test_model("tales-1m-f16.gguf"), options, long_tokens, seed);
        run_alone(&several);
        assert_same_bits(several.logits, one.logits, (size_t)TEXTS * ROWS * one.fixture.vocab_size);
        close_run(&several);
    }
    close_run(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_do_not_matter_to_two_heads),
        cmocka_unit_test(tiles_do_not_matter_to_seven_heads),
        cmocka_unit_test(tiles_do_not_matter_to_parts),
        cmocka_unit_test(threads_do_not_matter_to_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
