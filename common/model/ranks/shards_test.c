// Goal: shards cover all units once, ranks own aligned, complete groups of shards, and stages cover
// all layers.
// Method: walk them for many counts of units, layers, stages and all legal rank counts; try the
// illegal ones.
#include "common/model/ranks/shards.h"

#include <string.h>

#include "common/model/ranks/ranks.h"
#include "tests/support/test_support.h"

static void shards_cover_all_units(void **state)
{
    (void)state;
    const uint32_t units[] = {1, 2, 3, 7, 8, 9, 24, 172, 4096, UINT32_MAX};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint32_t next = 0;
        for (uint32_t s = 0; s < OR_SHARDS; s++) {
            or_span_t span = or_shard_span(s, units[i]);
            assert_int_equal(span.begin, next);
            assert_true(span.end >= span.begin);
            next = span.end;
        }
        assert_int_equal(next, units[i]);
    }
}

static void ranks_own_aligned_groups(void **state)
{
    (void)state;
    for (int size = -1; size <= 17; size++) {
        or_span_t shards;
        if (size != 1 && size != 2 && size != 4 && size != 8) {
            assert_int_equal(or_shards_of_rank(0, size, &shards), OR_ERR_UNSUPPORTED);
            assert_non_null(strstr(or_error_text(), "--pp"));
            continue;
        }
        uint32_t next = 0;
        for (int rank = 0; rank < size; rank++) {
            assert_int_equal(or_shards_of_rank(rank, size, &shards), OR_OK);
            assert_int_equal(shards.begin, next);
            assert_int_equal(shards.end - shards.begin, (int)OR_SHARDS / size);
            next = shards.end;
        }
        assert_int_equal(next, OR_SHARDS);
        assert_int_equal(or_shards_of_rank(size, size, &shards), OR_ERR_INVALID);
        assert_int_equal(or_shards_of_rank(-1, size, &shards), OR_ERR_INVALID);
    }
}

static void stages_cover_all_layers(void **state)
{
    (void)state;
    or_span_t span;
    for (uint32_t layers = 1; layers <= 40; layers++) {
        for (int stages = 1; stages <= (int)layers; stages++) {
            uint32_t next = 0;
            for (int stage = 0; stage < stages; stage++) {
                assert_int_equal(or_layers_of_stage(stage, stages, layers, &span), OR_OK);
                assert_int_equal(span.begin, next);
                assert_in_range(span.end - span.begin, layers / (uint32_t)stages,
                                layers / (uint32_t)stages + 1);
                next = span.end;
            }
            assert_int_equal(next, layers);
        }
        assert_int_equal(or_layers_of_stage(0, (int)layers + 1, layers, &span), OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), "--pp"));
    }
    assert_int_equal(or_layers_of_stage(2, 2, 4, &span), OR_ERR_INVALID);
    assert_int_equal(or_layers_of_stage(-1, 2, 4, &span), OR_ERR_INVALID);
    assert_int_equal(or_layers_of_stage(0, 0, 4, &span), OR_ERR_INVALID);
}

static void one_rank_gathers_itself(void **state)
{
    (void)state;
    const or_ranks_t *ranks = or_ranks_single();
    char sent[] = "alone";
    char received[sizeof sent] = {0};
    assert_int_equal(ranks->all_gather(ranks, sent, sizeof sent, received), OR_OK);
    assert_string_equal(received, "alone");
    assert_int_equal(ranks->all_gather(ranks, sent, sizeof sent, sent), OR_OK);
    assert_int_equal(ranks->broadcast(ranks, sent, sizeof sent), OR_OK);
    assert_string_equal(sent, "alone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_cover_all_units),
        cmocka_unit_test(ranks_own_aligned_groups),
        cmocka_unit_test(stages_cover_all_layers),
        cmocka_unit_test(one_rank_gathers_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
