// Goal: in an inflated model every old layer and FFN column has its place, in its shard, in order, and
// the sizes are near what was asked for.
// Method: models of many shapes, inflated to many sizes; walk all columns and layers of the result.
#include "launch/model/inflate_plan.h"

#include "common/model/ranks/shards.h"
#include "tests/support/test_support.h"

static or_model_shape_t make_shape(uint32_t layers, uint32_t width, uint32_t ffn)
{
    or_model_shape_t shape = {.layers = layers,
                              .width = width,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = width / 4,
                              .ffn = ffn,
                              .vocab_size = 1000};
    uint64_t layer = 2 * width + 3 * (uint64_t)width * width + 3 * (uint64_t)width * ffn;
    shape.parameters = 1000 * (uint64_t)width + width + layers * layer;
    return shape;
}

static uint32_t shard_of(uint32_t column, uint32_t ffn)
{
    uint32_t unit = column / OR_SHARD_FFN_UNIT;
    uint32_t units = (ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    for (uint32_t s = 0; s < OR_SHARDS; s++) {
        or_span_t span = or_shard_span(s, units);
        if (unit >= span.begin && unit < span.end) {
            return s;
        }
    }
    return OR_SHARDS;
}

static void check_columns(const or_inflate_plan_t *plan)
{
    uint32_t next = 0;
    for (uint32_t c = 0; c < plan->ffn; c++) {
        uint32_t old = or_inflate_column(plan, c);
        if (old == OR_INFLATE_NEW) {
            continue;
        }
        assert_int_equal(old, next); // each once, in order
        next++;
        assert_int_equal(shard_of(old, plan->old_ffn), shard_of(c, plan->ffn));
        assert_int_equal(old % (OR_INFLATE_SUPER * OR_SHARD_FFN_UNIT),
                         c % (OR_INFLATE_SUPER * OR_SHARD_FFN_UNIT));
    }
    assert_int_equal(next, plan->old_ffn);
}

static void check_layers(const or_inflate_plan_t *plan)
{
    uint32_t next = 0;
    for (uint32_t layer = 0; layer < plan->layers; layer++) {
        uint32_t old = or_inflate_layer(plan, layer);
        if (old != OR_INFLATE_NEW) {
            assert_int_equal(old, next);
            next++;
        }
    }
    assert_int_equal(next, plan->old_layers);
}

static void every_old_part_keeps_its_place(void **state)
{
    (void)state;
    static const uint32_t ffns[] = {1, 32, 96, 100, 384, 768, 1000, 2048, 4096, 8960, 11008};
    static const uint32_t layers[] = {1, 2, 6, 7, 30, 60};
    for (uint32_t f = 0; f < sizeof ffns / sizeof *ffns; f++) {
        for (uint32_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            or_inflate_plan_t plan;
            or_model_shape_t shape = make_shape(layers[l], 256, ffns[f]);
            uint64_t wanted = shape.parameters * 2 + 300000000;
            assert_int_equal(or_inflate_plan(&or_arch_llama, &shape, wanted, 0, &plan), OR_OK);
            assert_in_range(plan.parameters, wanted * 96 / 100, wanted * 104 / 100);
            assert_true(plan.layers >= shape.layers);
            check_columns(&plan);
            check_layers(&plan);
        }
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    or_inflate_plan_t plan;
    or_model_shape_t shape = make_shape(6, 256, 768);
    assert_int_equal(or_inflate_plan(&or_arch_llama, &shape, shape.parameters, 0, &plan),
                     OR_ERR_INVALID);
    assert_int_equal(or_inflate_plan(&or_arch_llama, &shape, 300000000, 5, &plan), OR_ERR_INVALID);
    assert_int_equal(or_inflate_plan(&or_arch_llama, &shape, 300000000, 4000, &plan),
                     OR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_old_part_keeps_its_place),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
