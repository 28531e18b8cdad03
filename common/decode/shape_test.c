// Goal: a shape says how many nodes a tree has before anything is drawn, and no shape, from a user
// or a peer, is larger than a tree can be.
// Method: texts and arrays, good and bad; counts by hand; the usual shapes within every budget.
#include "common/decode/shape.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

static const or_draft_method_t shaped[] = {OR_DRAFT_MCSD, OR_DRAFT_RSD_C, OR_DRAFT_RSD_S,
                                           OR_DRAFT_KSEQ, OR_DRAFT_MULTI};

static void shapes_are_read(void **state)
{
    (void)state;
    or_shape_t shape;
    assert_int_equal(or_shape_parse("4x2x10", &shape), OR_OK);
    assert_int_equal(shape.count, 3);
    assert_int_equal(shape.widths[0], 4);
    assert_int_equal(shape.widths[1], 2);
    assert_int_equal(shape.widths[2], 10);
    assert_int_equal(or_shape_parse("1024", &shape), OR_OK);
    assert_int_equal(shape.count, 1);
    assert_int_equal(shape.widths[0], 1024);
    const or_shape_t before = shape;
    static const char *const bad[] = {"",     "x",     "4x",     "x4",  "4xx2",
                                      "0",    "4x0",   "4x-1",   "+4",  " 4",
                                      "4x 2", "4 x2",  "4X2",    "4,2", "04",
                                      "1025", "4x1e3", "4x2x1 ", "abc", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(or_shape_parse(bad[i], &shape), OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), "4x2x1"));
        assert_memory_equal(&shape, &before, sizeof shape);
    }
    char text[2 * OR_SHAPE_LEVELS_MAX + 3] = "1";
    for (uint32_t levels = 1; levels < OR_SHAPE_LEVELS_MAX; levels++) {
        strcat(text, "x1");
    }
    assert_int_equal(or_shape_parse(text, &shape), OR_OK);
    assert_int_equal(shape.count, OR_SHAPE_LEVELS_MAX);
    strcat(text, "x1");
    assert_int_equal(or_shape_parse(text, &shape), OR_ERR_INVALID);
}

static void arrays_are_taken(void **state)
{
    (void)state;
    uint32_t widths[OR_SHAPE_LEVELS_MAX + 1];
    or_shape_t shape;
    for (uint32_t i = 0; i <= OR_SHAPE_LEVELS_MAX; i++) {
        widths[i] = i;
    }
    assert_int_equal(or_shape_set(widths, OR_SHAPE_LEVELS_MAX + 1, &shape), OR_ERR_INVALID);
    assert_int_equal(or_shape_set(widths, UINT32_MAX, &shape), OR_ERR_INVALID);
    assert_int_equal(or_shape_set(widths, OR_SHAPE_LEVELS_MAX, &shape), OR_OK);
    assert_int_equal(shape.count, OR_SHAPE_LEVELS_MAX);
    assert_memory_equal(shape.widths, widths, sizeof shape.widths);
    assert_int_equal(or_shape_set(NULL, 0, &shape), OR_OK);
    assert_int_equal(shape.count, 0);
}

static void nodes_and_levels_by_hand(void **state)
{
    (void)state;
    static const struct {
        or_shape_t shape;
        or_draft_method_t method;
        uint32_t depth, nodes, levels;
    } cases[] = {
        {{3, {4, 2, 1}}, OR_DRAFT_RSD_C, 8, 20, 3},
        {{3, {4, 2, 1}}, OR_DRAFT_MCSD, 1, 20, 3}, // a stated shape has its own depth
        {{1, {5}}, OR_DRAFT_RSD_C, 8, 5, 1},
        {{4, {2, 2, 2, 2}}, OR_DRAFT_RSD_C, 8, 30, 4},
        {{5, {12, 1, 1, 1, 1}}, OR_DRAFT_MCSD, 8, 60, 5},
        {{2, {4, 3}}, OR_DRAFT_RSD_S, 8, 12, 3},
        {{2, {4, 9}}, OR_DRAFT_RSD_S, 2, 36, 9},
        {{1, {4}}, OR_DRAFT_RSD_S, 6, 24, 6},
        {{2, {1024, 1}}, OR_DRAFT_RSD_S, 1, 1024, 1},
        {{2, {4, 3}}, OR_DRAFT_KSEQ, 8, 12, 3},
        {{1, {4}}, OR_DRAFT_KSEQ, 8, 32, 8},
        {{2, {3, 5}}, OR_DRAFT_MULTI, 8, 15, 5},
        {{2, {32, 31}}, OR_DRAFT_RSD_C, 1, 1024, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const or_shape_t *shape = &cases[i].shape;
        or_draft_method_t method = cases[i].method;
        assert_int_equal(or_shape_check(shape, method, cases[i].depth), OR_OK);
        assert_int_equal(or_shape_nodes(shape, method, cases[i].depth), cases[i].nodes);
        assert_int_equal(or_shape_levels(shape, method, cases[i].depth), cases[i].levels);
    }
}

static void what_no_method_grows_is_refused(void **state)
{
    (void)state;
    static const struct {
        or_shape_t shape;
        or_draft_method_t method;
        uint32_t depth;
        const char *reason;
    } cases[] = {
        {{1, {4}}, OR_DRAFT_CHAIN, 8, "method chain takes --draft-nodes"},
        {{1, {4}}, OR_DRAFT_COUPLED, 8, "method coupled takes --draft-nodes"},
        {{1, {4}}, OR_DRAFT_DYSPEC, 8, "method dyspec takes --draft-nodes"},
        {{1, {4}}, OR_DRAFT_SEQUOIA, 8, "method sequoia takes --draft-nodes"},
        {{1, {4}}, OR_DRAFT_TOPK, 8, "method topk takes --draft-nodes"},
        {{1, {4}}, OR_DRAFT_NGRAM, 8, "method ngram takes --draft-nodes"},
        {{3, {4, 3, 1}}, OR_DRAFT_KSEQ, 8, "kseq is a width, or width x length"},
        {{2, {32, 33}}, OR_DRAFT_KSEQ, 8, "more than 1024 nodes"},
        {{1, {0}}, OR_DRAFT_MULTI, 8, "width 0"},
        {{3, {4, 0, 1}}, OR_DRAFT_RSD_C, 8, "width 0"},
        {{1, {0}}, OR_DRAFT_RSD_S, 8, "width 0"},
        {{2, {4, 0}}, OR_DRAFT_RSD_S, 8, "width 0"},
        {{3, {4, 3, 1}}, OR_DRAFT_RSD_S, 8, "not 3 numbers"},
        {{0, {0}}, OR_DRAFT_RSD_S, 8, "not 0 numbers"},
        {{1, {1025}}, OR_DRAFT_MCSD, 8, "more than 1024 nodes"},
        {{2, {32, 32}}, OR_DRAFT_RSD_C, 8, "more than 1024 nodes"},
        {{2, {1025, 1}}, OR_DRAFT_RSD_S, 8, "more than 1024 nodes"},
        {{1, {129}}, OR_DRAFT_RSD_S, 8, "more than 1024 nodes"},
        // Products that wrap in 32 and in 64 bits.
        {{2, {2, 0x80000000}}, OR_DRAFT_RSD_C, 8, "more than 1024 nodes"},
        {{2, {65536, 65536}}, OR_DRAFT_RSD_S, 8, "more than 1024 nodes"},
        {{3, {65536, 65536, 1}}, OR_DRAFT_RSD_C, 8, "more than 1024 nodes"},
        {{4, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}}, OR_DRAFT_RSD_C, 8, "1024 nodes"},
        {{1, {UINT32_MAX}}, OR_DRAFT_RSD_S, UINT32_MAX, "more than 1024 nodes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(or_shape_check(&cases[i].shape, cases[i].method, cases[i].depth),
                         OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), cases[i].reason));
    }
}

// For every budget: it fits, it is one that a method can grow, and it leaves little unused.
static void the_usual_shape_uses_its_budget(void **state)
{
    (void)state;
    for (uint32_t nodes = 1; nodes <= OR_TREE_NODES_MAX; nodes++) {
        for (uint32_t depth = 1; depth <= 32; depth++) {
            for (size_t m = 0; m < sizeof shaped / sizeof *shaped; m++) {
                const or_shape_t shape = or_shape_usual(shaped[m], nodes, depth);
                uint32_t used = or_shape_nodes(&shape, shaped[m], depth);
                uint32_t levels = or_shape_levels(&shape, shaped[m], depth);
                assert_true(shape.count > 0);
                assert_int_equal(or_shape_check(&shape, shaped[m], depth), OR_OK);
                assert_true(used >= 1 && used <= nodes);
                assert_true(levels >= 1 && levels <= depth);
                // The unused rest is less than one more level or one more branch would take, unless
                // the depth ends it.
                assert_true(levels == depth || nodes - used < shape.widths[0] ||
                            nodes - used < levels);
            }
        }
    }
    assert_int_equal(or_shape_usual(OR_DRAFT_CHAIN, 16, 8).count, 0);
    assert_int_equal(or_shape_usual(OR_DRAFT_COUPLED, 16, 8).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_read),
        cmocka_unit_test(arrays_are_taken),
        cmocka_unit_test(nodes_and_levels_by_hand),
        cmocka_unit_test(what_no_method_grows_is_refused),
        cmocka_unit_test(the_usual_shape_uses_its_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
