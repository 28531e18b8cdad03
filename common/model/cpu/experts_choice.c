// Which experts a row takes, and their weights.
#include <string.h>

#include "common/base/math/elementwise_inline.h"
#include "common/base/math/mix_inline.h"
#include "common/model/cpu/elementwise.h"
#include "common/model/cpu/experts.h"
#include "common/model/model_internal.h"

static bool is_set(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> i % 64 & 1) != 0;
}

// Logits that are no numbers, as a damaged file makes them, are never larger: some experts are taken all the same.
void or_experts_choose(const float *logits, uint32_t count, uint32_t used, uint32_t *chosen)
{
    uint64_t taken[OR_EXPERTS_MAX / 64] = {0};
    for (uint32_t i = 0; i < used; i++) {
        uint32_t best = count;
        for (uint32_t e = 0; e < count; e++) {
            if (!is_set(taken, e) && (best == count || logits[e] > logits[best])) {
                best = e;
            }
        }
        taken[best / 64] |= UINT64_C(1) << best % 64;
    }
    for (uint32_t e = 0; e < count; e++) {
        if (is_set(taken, e)) {
            *chosen++ = e;
        }
    }
}

// ---- groups ----

// The rank of a group: its largest number, or the sum of the two largest (DeepSeek-V2, arXiv:2405.04434, section 2.2.2, and
// DeepSeek-V3, arXiv:2412.19437, section 2.1.2).
static float rank_of_group(const float *numbers, uint32_t count, bool by_two)
{
    uint32_t best[2];
    or_experts_choose(numbers, count, by_two ? 2 : 1, best);
    return by_two ? numbers[best[0]] + numbers[best[1]] : numbers[best[0]];
}

// Write the experts of the best groups in ascending order, and return how many they are.
static uint32_t experts_of_groups(const or_model_shape_t *shape, const float *numbers,
                                  uint32_t *experts)
{
    const uint32_t groups = shape->expert_groups, each = shape->experts / groups;
    float ranks[OR_EXPERTS_MAX];
    uint32_t chosen[OR_EXPERTS_MAX];
    uint32_t count = 0;
    for (uint32_t g = 0; g < groups; g++) {
        ranks[g] = rank_of_group(numbers + (size_t)g * each, each, shape->routes_by_sigmoid);
    }
    or_experts_choose(ranks, groups, shape->expert_groups_used, chosen);
    for (uint32_t i = 0; i < shape->expert_groups_used; i++) {
        for (uint32_t e = 0; e < each; e++) {
            experts[count++] = chosen[i] * each + e;
        }
    }
    return count;
}

void or_experts_choose_in_groups(const or_model_shape_t *shape, const float *numbers,
                                 uint32_t *chosen)
{
    uint32_t experts[OR_EXPERTS_MAX];
    float theirs[OR_EXPERTS_MAX];
    if (shape->expert_groups == 0) {
        or_experts_choose(numbers, shape->experts, shape->experts_used, chosen);
        return;
    }
    uint32_t count = experts_of_groups(shape, numbers, experts);
    for (uint32_t i = 0; i < count; i++) {
        theirs[i] = numbers[experts[i]];
    }
    or_experts_choose(theirs, count, shape->experts_used, chosen);
    for (uint32_t i = 0; i < shape->experts_used; i++) {
        chosen[i] = experts[chosen[i]];
    }
}

// ---- two that are weighted apart ----

void or_experts_mix(const float *logits, uint32_t count, uint32_t chosen[2], float weights[2])
{
    inline_mix(logits, count, chosen, weights);
}

// ---- weights ----

// Logits become weights. What is chosen by may have a bias that weights have not.
static void weigh_row(const or_model_t *model, const or_layer_t *layer, float *logits,
                      uint32_t *chosen)
{
    const uint32_t count = model->shape.experts;
    float biased[OR_EXPERTS_MAX];
    if (!model->shape.routes_by_sigmoid) {
        or_experts_choose_in_groups(&model->shape, logits, chosen);
        model->kernels->softmax(logits, 0, count);
        return;
    }
    const float *bias = layer->router_bias; // NULL if the family's table has none
    for (uint32_t e = 0; e < count; e++) {
        logits[e] = inline_sigmoid((double)logits[e]);
        biased[e] = logits[e] + (bias != NULL ? bias[e] : 0);
    }
    or_experts_choose_in_groups(&model->shape, biased, chosen);
}

typedef struct {
    const or_model_t *model;
    const or_layer_t *layer;
} choice_t;

static void choose_row(const choice_t *choice, uint32_t row)
{
    const or_model_t *model = choice->model;
    const or_experts_t *experts = &model->experts;
    const uint32_t used = model->shape.experts_used;
    float *logits = experts->logits + row * experts->logits_stride;
    uint32_t *chosen = experts->chosen + (size_t)row * used;
    float *weights = experts->weights + (size_t)row * used;
    float sum = 1e-20F; // as in transformers: sigmoids may all be 0
    if (choice->layer->logit_bias != NULL) {
        model->kernels->add(logits, choice->layer->logit_bias, model->shape.experts);
    }
    if (model->arch->mixes_sparsely) {
        or_experts_mix(logits, model->shape.experts, chosen, weights);
    } else {
        weigh_row(model, choice->layer, logits, chosen);
    }
    for (uint32_t i = 0; i < used; i++) {
        weights[i] = model->arch->mixes_sparsely ? weights[i] : logits[chosen[i]];
        sum += weights[i];
    }
    for (uint32_t i = 0; model->shape.normalises_experts && i < used; i++) {
        weights[i] /= sum;
    }
    or_scale(weights, used, model->numbers.expert_scale);
    for (uint32_t i = 0; choice->layer->expert_scales != NULL && i < used; i++) {
        weights[i] *= choice->layer->expert_scales[chosen[i]];
    }
}

static void choose_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    for (uint32_t row = begin; row < end; row++) {
        choose_row(context, row);
    }
}

void or_experts_route(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const or_experts_t *experts = &model->experts;
    const or_product_t product = or_product(&layer->router, 0, model->shape.experts,
                                            experts->logits, experts->logits_stride);
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, &product, 1);
    uint64_t work = (uint64_t)model->shape.experts * (model->shape.experts_used + 16);
    choice_t choice = {model, layer};
    or_workers_run(model->workers, rows, or_workers_grain(work), choose_rows, &choice);
}

float or_experts_shared_weight(const or_model_t *model, const or_layer_t *layer, uint32_t row)
{
    const float *h = model->h.values + row * model->h.stride;
    double logit = 0;
    if (layer->shared_router == NULL) {
        return 1;
    }
    for (uint32_t i = 0; i < model->shape.width; i++) {
        logit += (double)h[i] * (double)layer->shared_router[i];
    }
    return inline_sigmoid(logit);
}
