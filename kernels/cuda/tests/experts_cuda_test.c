// Goal: experts on a device are those that the CPU chooses, with its weights, and what is made of their entries has its
// bits, whichever entries are multiplied together.
// Method: choices beside or_experts_choose_in_groups and kernels/ref, with many ties and with logits that are no numbers. The order of
// entries is looked at. Products of groups are set beside those of each group alone, which other tests set beside ref.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/elementwise_inline.h"
#include "common/model/cpu/elementwise.h"
#include "common/model/cpu/experts.h"
#include "kernels/cuda/cuda_experts.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ROWS_MOST 40u
#define LEVELS 9u // of logits that are tied

static void *allocate(size_t bytes)
{
    void *at = calloc(1, bytes > 0 ? bytes : 1);
    assert_non_null(at);
    return at;
}

// ---- the choice ----

typedef struct {
    uint32_t rows;
    size_t stride;
    float *logits;      // [rows][stride]
    float *logit_bias;  // [experts]
    float *choice_bias; // [experts]
    or_cuda_choice_t choice;
} choice_case_t;

static float draw_logit(uint64_t *random, test_kind_t kind)
{
    uint64_t any = test_below(random, 10);
    if (kind == KIND_SPECIAL && any < 3) {
        return any == 0 ? NAN : any == 1 ? INFINITY : -INFINITY;
    }
    float tied = (float)test_below(random, LEVELS) - LEVELS / 2;
    return any < 5 ? tied : tied + 0x1p-20f * (float)test_below(random, 1u << 20);
}

// Put the experts into groups, of which those that are taken have enough, where they can be.
static void draw_expert_groups(uint64_t *random, or_cuda_choice_t *choice)
{
    const uint32_t groups = 2u << test_below(random, 4);
    const uint32_t each = choice->experts / groups;
    if (choice->experts % groups == 0 && each >= 2 && test_below(random, 3) > 0) {
        const uint32_t least = (choice->used + each - 1) / each;
        choice->groups = groups;
        choice->groups_used = least + (uint32_t)test_below(random, groups - least + 1);
    }
}

static choice_case_t draw_choice(uint64_t *random, test_kind_t kind, uint32_t experts,
                                 uint32_t used)
{
    choice_case_t c = {.rows = 1 + (uint32_t)test_below(random, 5),
                       .stride = experts + test_below(random, 9)};
    c.logits = allocate(c.rows * c.stride * sizeof *c.logits);
    for (size_t i = 0; i < c.rows * c.stride; i++) {
        c.logits[i] = draw_logit(random, kind);
    }
    c.logit_bias = test_floats(random, KIND_PLAIN, experts);
    c.choice_bias = test_floats(random, KIND_PLAIN, experts);
    c.choice = (or_cuda_choice_t){.experts = experts,
                                  .used = used,
                                  .sigmoid = test_below(random, 2) == 0,
                                  .normalised = test_below(random, 2) == 0,
                                  .scale = test_below(random, 2) == 0 ? 1.0f : 1.5f,
                                  .logit_bias = test_below(random, 2) == 0 ? c.logit_bias : NULL,
                                  .choice_bias = test_below(random, 2) == 0 ? c.choice_bias : NULL};
    draw_expert_groups(random, &c.choice);
    return c;
}

// As experts.c does it, one row.
static void choose_on_cpu(const choice_case_t *c, uint32_t row, uint32_t *chosen, float *weights)
{
    const or_cuda_choice_t *choice = &c->choice;
    float logits[OR_EXPERTS_MAX], keys[OR_EXPERTS_MAX];
    float sum = 1e-20f;
    for (uint32_t e = 0; e < choice->experts; e++) {
        float logit = c->logits[row * c->stride + e];
        logit = choice->logit_bias != NULL ? logit + choice->logit_bias[e] : logit;
        logits[e] = choice->sigmoid ? inline_sigmoid((double)logit) : logit;
        bool biased = choice->sigmoid && choice->choice_bias != NULL;
        keys[e] = logits[e] + (biased ? choice->choice_bias[e] : 0);
    }
    const or_model_shape_t shape = {.experts = choice->experts,
                                    .experts_used = choice->used,
                                    .expert_groups = choice->groups,
                                    .expert_groups_used = choice->groups_used,
                                    .routes_by_sigmoid = choice->sigmoid};
    or_experts_choose_in_groups(&shape, keys, chosen);
    if (!choice->sigmoid) {
        or_kernels_ref.softmax(logits, 0, choice->experts);
    }
    for (uint32_t i = 0; i < choice->used; i++) {
        weights[i] = logits[chosen[i]];
        sum += weights[i];
    }
    for (uint32_t i = 0; i < choice->used; i++) {
        weights[i] = choice->normalised ? weights[i] / sum : weights[i];
    }
    or_scale(weights, choice->used, choice->scale);
}

static void choose_on_device(const choice_case_t *c, uint32_t *chosen, float *weights)
{
    size_t bytes = c->rows * c->choice.used * sizeof *weights;
    float *logits =
        cuda_test_upload(test_device, c->logits, c->rows * c->stride * sizeof *c->logits);
    size_t bias_bytes = c->choice.experts * sizeof(float);
    float *logit_bias = cuda_test_upload(test_device, c->logit_bias, bias_bytes);
    float *choice_bias = cuda_test_upload(test_device, c->choice_bias, bias_bytes);
    uint32_t *device_chosen = cuda_test_upload(test_device, NULL, bytes);
    float *device_weights = cuda_test_upload(test_device, NULL, bytes);
    or_cuda_choice_t choice = c->choice;
    choice.logit_bias = choice.logit_bias != NULL ? logit_bias : NULL;
    choice.choice_bias = choice.choice_bias != NULL ? choice_bias : NULL;
    cuda_test_ok(or_cuda_choose_experts(test_device, &choice, logits, c->stride, c->rows,
                                        device_chosen, device_weights));
    cuda_test_download(test_device, chosen, device_chosen, bytes);
    cuda_test_download(test_device, weights, device_weights, bytes);
    void *const all[] = {logits, logit_bias, choice_bias, device_chosen, device_weights};
    for (size_t i = 0; i < COUNT(all); i++) {
        or_cuda_free(test_device, all[i]);
    }
}

static void check_choice(uint64_t *random, test_kind_t kind, uint32_t experts, uint32_t used)
{
    choice_case_t c = draw_choice(random, kind, experts, used);
    size_t entries = (size_t)c.rows * used;
    uint32_t *chosen = allocate(2 * entries * sizeof *chosen);
    float *weights = allocate(2 * entries * sizeof *weights);
    for (uint32_t row = 0; row < c.rows; row++) {
        choose_on_cpu(&c, row, chosen + row * used, weights + row * used);
    }
    choose_on_device(&c, chosen + entries, weights + entries);
    assert_memory_equal(chosen + entries, chosen, entries * sizeof *chosen);
    for (size_t i = 0; i < entries; i++) {
        assert_same(weights[entries + i], weights[i], "a weight", i);
    }
    free(weights);
    free(chosen);
    free(c.choice_bias);
    free(c.logit_bias);
    free(c.logits);
}

static void choices_equal_the_cpu(void **state)
{
    (void)state;
    static const struct {
        uint32_t experts, used;
    } sizes[] = {{1, 1},   {2, 1},   {8, 2},   {12, 4},   {31, 31},  {32, 8},
                 {33, 5},  {64, 8},  {128, 8}, {256, 8},  {257, 10}, {300, 300},
                 {16, 16}, {100, 1}, {160, 6}, {512, 10}, {1024, 12}};
    uint64_t random = test_seed();
    for (size_t i = 0; i < COUNT(sizes) * test_runs(2); i++) {
        test_kind_t kind = i % 3 == 2 ? KIND_SPECIAL : KIND_PLAIN;
        check_choice(&random, kind, sizes[i % COUNT(sizes)].experts, sizes[i % COUNT(sizes)].used);
    }
}

// Many logits are within 2 % of each other; some are equal, below 0, or no numbers.
static void mixtures_equal_the_cpu(void **state)
{
    (void)state;
    enum { ROWS = 67 };
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 8 * test_runs(2); i++) {
        const uint32_t experts = 2 + (uint32_t)test_below(&random, 20);
        const size_t stride = experts + test_below(&random, 9);
        const float scale = i % 2 == 0 ? 1.0f : 1.5f;
        float *logits = allocate(ROWS * stride * sizeof *logits);
        for (size_t k = 0; k < ROWS * stride; k++) {
            const float near = 1 + 0.004f * (float)test_below(&random, 12);
            logits[k] = i % 3 == 0 ? near - 2 * (float)test_below(&random, 2)
                                   : draw_logit(&random, i % 3 == 1 ? KIND_SPECIAL : KIND_PLAIN);
        }
        float *there = cuda_test_upload(test_device, logits, ROWS * stride * sizeof *logits);
        uint32_t *chosen = cuda_test_upload(test_device, NULL, 2 * ROWS * sizeof *chosen);
        float *weights = cuda_test_upload(test_device, NULL, 2 * ROWS * sizeof *weights);
        cuda_test_ok(
            or_cuda_mix_experts(test_device, experts, scale, there, stride, ROWS, chosen, weights));
        uint32_t actual_chosen[2 * ROWS], expected_chosen[2];
        float actual[2 * ROWS], expected[2];
        cuda_test_download(test_device, actual_chosen, chosen, sizeof actual_chosen);
        cuda_test_download(test_device, actual, weights, sizeof actual);
        for (uint32_t k = 0; k < 2 * ROWS; k++) {
            or_experts_mix(logits + k / 2 * stride, experts, expected_chosen, expected);
            or_scale(expected, 2, scale);
            assert_int_equal(actual_chosen[k], expected_chosen[k % 2]);
            assert_same(actual[k], expected[k % 2], "a weight", k);
        }
        void *const all[] = {there, chosen, weights};
        for (size_t k = 0; k < COUNT(all); k++) {
            or_cuda_free(test_device, all[k]);
        }
        free(logits);
    }
}

// ---- entries ----

typedef struct {
    uint32_t experts, used, rows, group_rows;
    uint32_t entries, groups;
    uint32_t *chosen; // [rows][used]
    float *weights;   // likewise
} rows_t;

static rows_t draw_rows(uint64_t *random, uint32_t experts, uint32_t used, uint32_t rows,
                        uint32_t group_rows)
{
    rows_t r = {experts, used, rows, group_rows, rows * used, 0, NULL, NULL};
    r.groups = or_cuda_groups_max(experts, r.entries, group_rows);
    r.chosen = allocate(r.entries * sizeof *r.chosen);
    r.weights = test_floats(random, KIND_PLAIN, r.entries);
    float *logits = allocate(experts * sizeof *logits);
    uint32_t taken =
        1 + (uint32_t)test_below(random, experts); // others are taken by nobody, where they can
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t e = 0; e < experts; e++) {
            logits[e] = e < taken ? (float)test_below(random, LEVELS) : -1;
        }
        or_experts_choose(logits, experts, used, r.chosen + row * used);
    }
    free(logits);
    return r;
}

static uint32_t count_taken(const rows_t *r)
{
    uint32_t taken = 0;
    for (uint32_t e = 0; e < r->experts; e++) {
        bool is_taken = false;
        for (uint32_t i = 0; i < r->entries; i++) {
            is_taken = is_taken || r->chosen[i] == e;
        }
        taken += is_taken ? 1 : 0;
    }
    return taken;
}

// Entries in order: by expert, then by row. `to` is on the host.
static void check_entries(const rows_t *r, const or_cuda_entries_t *to)
{
    for (uint32_t i = 0; i < r->entries; i++) {
        uint32_t place = to->places[i];
        assert_in_range(place, 0, r->entries - 1);
        assert_int_equal(to->rows[place], i / r->used);
        assert_int_equal(to->experts[place], r->chosen[i]);
        assert_true(test_bits(to->weights[place]) == test_bits(r->weights[i]));
    }
    for (uint32_t i = 1; i < r->entries; i++) {
        assert_true(to->experts[i - 1] < to->experts[i] ||
                    (to->experts[i - 1] == to->experts[i] && to->rows[i - 1] < to->rows[i]));
    }
}

// Groups have all entries, in order, and each those of one expert.
static void check_groups(const rows_t *r, const or_cuda_entries_t *to)
{
    uint32_t next = 0;
    for (uint32_t g = 0; g < r->groups; g++) {
        const or_cuda_group_t *group = &to->groups[g];
        assert_true(group->count <= r->group_rows);
        assert_true(group->count > 0 || next == r->entries);
        assert_true(group->count == 0 || group->first == next);
        for (uint32_t i = 0; i < group->count; i++) {
            assert_int_equal(to->experts[group->first + i], group->expert);
        }
        next += group->count;
    }
    assert_int_equal(next, r->entries);
}

static void *download(void *device, size_t bytes)
{
    void *host = allocate(bytes);
    cuda_test_download(test_device, host, device, bytes);
    or_cuda_free(test_device, device);
    return host;
}

static void check_grouping(const rows_t *r)
{
    size_t bytes = r->entries * sizeof(uint32_t);
    size_t group_bytes = r->groups * sizeof(or_cuda_group_t);
    uint32_t *chosen = cuda_test_upload(test_device, r->chosen, bytes);
    float *weights = cuda_test_upload(test_device, r->weights, bytes);
    or_cuda_entries_t to = {.rows = cuda_test_upload(test_device, NULL, bytes),
                            .experts = cuda_test_upload(test_device, NULL, bytes),
                            .weights = cuda_test_upload(test_device, NULL, bytes),
                            .places = cuda_test_upload(test_device, NULL, bytes),
                            .groups = cuda_test_upload(test_device, NULL, group_bytes),
                            .taken = cuda_test_upload(test_device, NULL, sizeof(uint32_t))};
    for (uint32_t i = 0; i < 2; i++) {
        cuda_test_ok(or_cuda_group_entries(test_device, r->experts, r->used, chosen, weights,
                                           r->rows, r->group_rows, i > 0, &to));
    }
    to.rows = download(to.rows, bytes);
    to.experts = download(to.experts, bytes);
    to.weights = download(to.weights, bytes);
    to.places = download(to.places, bytes);
    to.groups = download(to.groups, group_bytes);
    to.taken = download(to.taken, sizeof(uint32_t));
    check_entries(r, &to);
    check_groups(r, &to);
    assert_int_equal(*to.taken, 2 * count_taken(r));
    void *const all[] = {to.rows, to.experts, to.weights, to.places, to.groups, to.taken};
    for (size_t i = 0; i < COUNT(all); i++) {
        free(all[i]);
    }
    or_cuda_free(test_device, weights);
    or_cuda_free(test_device, chosen);
}

static void entries_are_ordered_and_grouped(void **state)
{
    (void)state;
    static const uint32_t experts[] = {1, 4, 8, 33, 128, 1024};
    static const uint32_t group_rows[] = {1, 8, 16, 32};
    uint64_t random = test_seed();
    for (size_t i = 0; i < COUNT(experts) * COUNT(group_rows); i++) {
        uint32_t count = experts[i % COUNT(experts)];
        uint32_t used = 1 + (uint32_t)test_below(&random, count < 9 ? count : 9);
        uint32_t rows = i < COUNT(experts) ? 1 : 1 + (uint32_t)test_below(&random, ROWS_MOST);
        rows_t r = draw_rows(&random, count, used, rows, group_rows[i / COUNT(experts)]);
        check_grouping(&r);
        free(r.weights);
        free(r.chosen);
    }
}

// ---- products of groups ----

#define EXPERTS 5u
#define GROUPS 7u
#define SPANS 2u
#define K 96u // inputs

typedef struct {
    or_quant_t quant; // OR_QUANT_TYPES: F32
    uint32_t panels;
    size_t panel_bytes;
    uint32_t rows; // of a group at most
    void *w, *x;   // on the device
    size_t x_stride;
    or_cuda_parts_t to;
} product_t;

static void multiply(const product_t *p, const void *w, const void *x, const or_cuda_parts_t *to,
                     uint32_t rows)
{
    cuda_test_ok(p->quant == OR_QUANT_TYPES
                     ? or_cuda_matmul_floats(test_device, OR_CUDA_F32, w,
                                             p->panel_bytes / sizeof(float), p->panels, x,
                                             p->x_stride, rows, to)
                     : or_cuda_matmul_quants(test_device, p->quant, w, p->panel_bytes, p->panels, x,
                                             p->x_stride, rows, to));
}

static size_t x_bytes(const product_t *p)
{
    return p->x_stride * (p->quant == OR_QUANT_TYPES ? sizeof(float) : sizeof(or_q8_block_t));
}

static void draw_product(uint64_t *random, product_t *p, uint32_t entries)
{
    const bool floats = p->quant == OR_QUANT_TYPES;
    const uint32_t blocks = K / OR_QUANT_BLOCK;
    p->panel_bytes = floats
                         ? K * OR_PANEL * sizeof(float)
                         : blocks / or_quant_unit_blocks(p->quant) * or_quant_unit_bytes(p->quant);
    p->x_stride = floats ? K : blocks;
    size_t bytes = EXPERTS * p->panels * p->panel_bytes;
    void *w = floats ? (void *)test_floats(random, KIND_PLAIN, bytes / sizeof(float))
                     : test_bytes(random, bytes);
    float *values = test_floats(random, KIND_PLAIN, (size_t)entries * K);
    or_q8_block_t *quants = allocate((size_t)entries * blocks * sizeof *quants);
    or_kernels_ref.quantize_row(values, entries * blocks, quants);
    p->w = cuda_test_upload(test_device, w, bytes);
    p->x = cuda_test_upload(test_device, floats ? (void *)values : quants, entries * x_bytes(p));
    free(quants);
    free(values);
    free(w);
}

// Groups of up to `rows` entries with random experts, one of them and the last one empty.
static uint32_t draw_groups(uint64_t *random, uint32_t rows, or_cuda_group_t *groups)
{
    uint32_t entries = 0;
    for (uint32_t g = 0; g < GROUPS; g++) {
        bool empty = g == 2 || g == GROUPS - 1;
        uint32_t count = empty ? 0 : 1 + (uint32_t)test_below(random, rows);
        groups[g] = (or_cuda_group_t){(uint32_t)test_below(random, EXPERTS), entries, count};
        entries += count;
    }
    return entries;
}

static void check_groups_product(uint64_t *random, or_quant_t quant, uint32_t rows)
{
    or_cuda_group_t groups[GROUPS];
    const uint32_t unit = quant == OR_QUANT_TYPES ? OR_QUANT_BLOCK : 1;
    const or_cuda_span_t spans[SPANS] = {{0, unit}, {unit, 2 * unit}};
    product_t p = {.quant = quant, .panels = 1 + (uint32_t)test_below(random, 3), .rows = rows};
    uint32_t entries = draw_groups(random, rows, groups);
    draw_product(random, &p, entries);
    const size_t stride = p.panels * OR_PANEL + 3;
    const size_t bytes = SPANS * (entries + 1) * stride * sizeof(float);
    float *together = cuda_test_upload(test_device, NULL, bytes);
    float *alone = cuda_test_upload(test_device, NULL, bytes);
    or_cuda_group_t *device_groups = cuda_test_upload(test_device, groups, sizeof groups);
    const or_cuda_groups_t all = {device_groups, GROUPS, p.panels * p.panel_bytes};
    or_cuda_parts_t to = {.spans = spans,
                          .count = SPANS,
                          .y = together,
                          .y_stride = stride,
                          .part_stride = (entries + 1) * stride,
                          .groups = &all};
    multiply(&p, p.w, p.x, &to, rows);
    to.groups = NULL;
    for (uint32_t g = 0; g < GROUPS; g++) {
        to.y = alone + groups[g].first * stride;
        multiply(&p, (char *)p.w + groups[g].expert * all.expert_bytes,
                 (char *)p.x + groups[g].first * x_bytes(&p), &to, groups[g].count);
    }
    together = download(together, bytes);
    alone = download(alone, bytes);
    assert_memory_equal(together, alone, bytes);
    free(alone);
    free(together);
    or_cuda_free(test_device, device_groups);
    or_cuda_free(test_device, p.x);
    or_cuda_free(test_device, p.w);
}

static void groups_multiply_as_each_alone(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 8, 16, 32};
    static const or_quant_t quants[] = {OR_QUANT_TYPES, OR_QUANT_Q8_0, OR_QUANT_MXFP4};
    uint64_t random = test_seed();
    for (size_t i = 0; i < COUNT(rows) * COUNT(quants); i++) {
        check_groups_product(&random, quants[i % COUNT(quants)], rows[i / COUNT(quants)]);
    }
}

// ---- the middle, and the sum ----

static void *upload_floats(uint64_t *random, size_t count, float **host)
{
    *host = test_floats(random, KIND_PLAIN, count);
    return cuda_test_upload(test_device, *host, count * sizeof **host);
}

static void activations_equal_the_cpu(void **state)
{
    (void)state;
    enum { N = 70, STRIDE = 80, ROWS = 9, BIASES = 100 };
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 8; i++) {
        const bool biased = i % 2 > 0, weighted = i / 2 % 2 > 0, clamps = i / 4 > 0;
        float *gate, *up, *weights, *gate_bias, *up_bias;
        uint32_t experts[ROWS];
        float *device_gate = upload_floats(&random, (size_t)ROWS * STRIDE, &gate);
        float *device_up = upload_floats(&random, (size_t)ROWS * STRIDE, &up);
        float *device_weights = upload_floats(&random, ROWS, &weights);
        float *device_gate_bias = upload_floats(&random, (size_t)EXPERTS * BIASES, &gate_bias);
        float *device_up_bias = upload_floats(&random, (size_t)EXPERTS * BIASES, &up_bias);
        for (uint32_t row = 0; row < ROWS; row++) {
            experts[row] = (uint32_t)test_below(&random, EXPERTS);
        }
        uint32_t *device_experts = cuda_test_upload(test_device, experts, sizeof experts);
        const or_cuda_rows_t rows = {.values = device_gate, .stride = STRIDE};
        const or_cuda_expert_rows_t what = {.experts = device_experts,
                                            .weights = weighted ? device_weights : NULL,
                                            .gate_bias = biased ? device_gate_bias : NULL,
                                            .up_bias = biased ? device_up_bias : NULL,
                                            .bias_stride = BIASES,
                                            .clamps = clamps};
        cuda_test_ok(
            or_cuda_activate_experts(test_device, &what, &rows, device_up, STRIDE, N, ROWS));
        float *actual = download(device_gate, ROWS * STRIDE * sizeof *actual);
        for (size_t row = 0; row < ROWS; row++) {
            float *g = gate + row * STRIDE, *u = up + row * STRIDE;
            if (biased) {
                or_kernels_ref.add(g, gate_bias + experts[row] * BIASES, N);
                or_kernels_ref.add(u, up_bias + experts[row] * BIASES, N);
            }
            (clamps ? or_clamped_gated : or_silu_gated)(&or_kernels_ref, g, u, N);
            or_scale(g, N, weighted ? weights[row] : 1.0f);
        }
        for (size_t k = 0; k < (size_t)ROWS * STRIDE; k++) {
            assert_same(actual[k], gate[k], "an activation", k);
        }
        void *const on_device[] = {device_up, device_weights, device_gate_bias, device_up_bias,
                                   device_experts};
        for (size_t k = 0; k < COUNT(on_device); k++) {
            or_cuda_free(test_device, on_device[k]);
        }
        void *const on_host[] = {actual, up_bias, gate_bias, weights, up, gate};
        for (size_t k = 0; k < COUNT(on_host); k++) {
            free(on_host[k]);
        }
    }
}

static void shared_weights_equal_the_cpu(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 64, 2048, 2500};
    enum { ROWS = 3 };
    uint64_t random = test_seed();
    for (size_t i = 0; i < COUNT(widths); i++) {
        const uint32_t n = widths[i];
        float *h, *router, expected[ROWS];
        float *device_h = upload_floats(&random, (size_t)ROWS * n, &h);
        float *device_router = upload_floats(&random, n, &router);
        float *device_weights = cuda_test_upload(test_device, NULL, sizeof expected);
        for (size_t row = 0; row < ROWS; row++) {
            double logit = 0;
            for (uint32_t k = 0; k < n; k++) {
                logit += (double)h[row * n + k] * (double)router[k];
            }
            expected[row] = inline_sigmoid(logit);
        }
        cuda_test_ok(
            or_cuda_weigh_shared(test_device, device_h, n, device_router, n, ROWS, device_weights));
        float *actual = download(device_weights, sizeof expected);
        assert_memory_equal(actual, expected, sizeof expected);
        free(actual);
        or_cuda_free(test_device, device_router);
        or_cuda_free(test_device, device_h);
        free(router);
        free(h);
    }
}

static void sums_are_by_ascending_expert(void **state)
{
    (void)state;
    enum { N = 70, STRIDE = 80, ROWS = 4, USED = 3, SHARDS = 2, ENTRIES = ROWS * USED };
    uint64_t random = test_seed();
    for (uint32_t used = 0; used <= USED; used += USED) {
        float *products, *sums, *bias, *weights;
        uint32_t places[ENTRIES], chosen[ENTRIES];
        const size_t floats = (size_t)SHARDS * ROWS * STRIDE;
        float *device_products =
            upload_floats(&random, (size_t)SHARDS * ENTRIES * STRIDE, &products);
        float *device_sums = upload_floats(&random, floats, &sums);
        float *device_bias = upload_floats(&random, (size_t)EXPERTS * N, &bias);
        float *device_weights = upload_floats(&random, ENTRIES, &weights);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            places[i] = (i * 5 + 1) % ENTRIES;
            chosen[i] = (uint32_t)test_below(&random, EXPERTS);
        }
        uint32_t *device_places = cuda_test_upload(test_device, places, sizeof places);
        uint32_t *device_chosen = cuda_test_upload(test_device, chosen, sizeof chosen);
        const bool adds = used == 0 || test_below(&random, 2) == 0;
        for (size_t i = 0; i < floats; i++) {
            const size_t shard = i / (ROWS * STRIDE), row = i / STRIDE % ROWS;
            float sum = 0.0f;
            for (uint32_t k = 0; k < used; k++) {
                sum += products[(shard * ENTRIES + places[row * used + k]) * STRIDE + i % STRIDE];
            }
            sum = adds ? sum + sums[i] : sum;
            for (uint32_t k = 0; shard == 0 && i % STRIDE < N && k < used; k++) {
                sum += weights[row * used + k] * bias[chosen[row * used + k] * N + i % STRIDE];
            }
            sums[i] = i % STRIDE < N ? sum : sums[i];
        }
        const or_cuda_entry_products_t of = {device_products, (size_t)ENTRIES * STRIDE, STRIDE,
                                             device_places, used};
        cuda_test_ok(or_cuda_sum_entries(test_device, &of, adds, device_sums, (size_t)ROWS * STRIDE,
                                         STRIDE, SHARDS, N, ROWS));
        cuda_test_ok(or_cuda_bias_experts(test_device, device_chosen, device_weights, used,
                                          device_bias, device_sums, STRIDE, N, ROWS));
        float *actual = download(device_sums, floats * sizeof *actual);
        assert_memory_equal(actual, sums, floats * sizeof *actual);
        void *const on_device[] = {device_products, device_bias, device_weights, device_places,
                                   device_chosen};
        for (size_t k = 0; k < COUNT(on_device); k++) {
            or_cuda_free(test_device, on_device[k]);
        }
        void *const on_host[] = {actual, weights, bias, sums, products};
        for (size_t k = 0; k < COUNT(on_host); k++) {
            free(on_host[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_equal_the_cpu),
        cmocka_unit_test(mixtures_equal_the_cpu),
        cmocka_unit_test(entries_are_ordered_and_grouped),
        cmocka_unit_test(groups_multiply_as_each_alone),
        cmocka_unit_test(activations_equal_the_cpu),
        cmocka_unit_test(shared_weights_equal_the_cpu),
        cmocka_unit_test(sums_are_by_ascending_expert),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
