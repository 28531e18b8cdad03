// Tables of rotations: the cosine and sine of every position and pair.
//
// Frequencies are base^(-2 i / n) for the i-th of n / 2 pairs, stretched in one of these ways, which the file says:
//
//     linear    divided by a factor
//     factors   divided by a number each (Llama 3.1; longrope's long table where the file's context is longer than the
//               original one, the short one otherwise)
//     yarn      divided by a factor where they turn slowly, kept where they turn fast, with a ramp between (Peng et al.,
//               "YaRN", 2023, section 3.2); the scores grow by a factor, which is in the tables
#include <math.h>
#include <stdlib.h>

#include "common/base/math/math.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

#define ANGLE_MAX 0x1p30 // what or_sin_cos takes
#define TURN 6.283185307179586

typedef struct {
    const or_model_t *model;
    uint32_t pairs;
    float *cosine, *sine; // [context][pairs]
    double *frequencies;  // [pairs], radians a position
    double factor;        // of cosine and sine
} rope_t;

static void fill_positions(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const rope_t *rope = context;
    const uint32_t pairs = rope->pairs;
    for (size_t position = begin; position < end; position++) {
        for (uint32_t i = 0; i < pairs; i++) {
            double sine, cosine;
            or_sin_cos((double)position * rope->frequencies[i], &sine, &cosine);
            rope->cosine[position * pairs + i] = (float)(cosine * rope->factor);
            rope->sine[position * pairs + i] = (float)(sine * rope->factor);
        }
    }
}

// The pair that turns so many times within the original context.
static double pair_of_turns(const or_arch_numbers_t *n, double turns)
{
    return n->rope_dims * or_ln(n->rope_original / (turns * TURN)) /
           (2 * or_ln((double)n->rope_base));
}

// The part of a pair's frequency that is divided by YaRN's factor.
static double yarn_part(const or_model_t *model, uint32_t pair)
{
    const or_arch_numbers_t *n = &model->numbers;
    double low = pair_of_turns(n, (double)n->yarn_beta_fast);
    double high = pair_of_turns(n, (double)n->yarn_beta_slow);
    low = model->arch->yarn_cuts_pairs ? low : floor(low);
    high = model->arch->yarn_cuts_pairs ? high : ceil(high);
    low = low > 0 ? low : 0;
    high = high < n->rope_dims - 1 ? high : n->rope_dims - 1;
    high = high > low ? high : low + 0.001;
    double part = (pair - low) / (high - low);
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

static uint32_t dims_of(const or_model_t *model, or_rope_t table)
{
    return table == OR_ROPE_LOCAL ? model->numbers.rope_local_dims : model->numbers.rope_dims;
}

static double frequency_of(const or_model_t *model, or_rope_t table, uint32_t pair)
{
    const or_arch_numbers_t *n = &model->numbers;
    double base = (double)(table == OR_ROPE_LOCAL ? n->rope_local_base : n->rope_base);
    double frequency = or_pow(base, -2.0 * pair / dims_of(model, table));
    if (table == OR_ROPE_LOCAL) {
        return frequency;
    }
    double stretched = frequency / (double)n->rope_stretch;
    if (n->rope_scaling == OR_SCALING_YARN) {
        double part = yarn_part(model, pair);
        stretched = part * stretched + (1 - part) * frequency;
    }
    return model->rope_factors != NULL ? stretched / (double)model->rope_factors[pair] : stretched;
}

// What YaRN's factor makes scores grow by (section 3.4), with a multiplier of its logarithm.
static double yarn_growth(const or_arch_numbers_t *n, double multiplier)
{
    return n->rope_stretch > 1 ? 0.1 * multiplier * or_ln((double)n->rope_stretch) + 1 : 1;
}

// By what queries and keys grow: what the file says, or what its kind of scaling makes of it.
static double attention_factor(const or_model_t *model, or_rope_t table)
{
    const or_arch_numbers_t *n = &model->numbers;
    double said = n->rope_attention_factor > 0 ? (double)n->rope_attention_factor : 1;
    if (table == OR_ROPE_LOCAL || model->arch->yarn_grows_scores) {
        return 1;
    }
    if (n->rope_scaling == OR_SCALING_YARN) {
        return said * yarn_growth(n, 1) / yarn_growth(n, (double)n->yarn_log_multiplier);
    }
    bool longer = model->shape.context > n->rope_original && n->rope_original > 1;
    bool derives = model->arch->rope_factors_long != NULL && model->rope_factors != NULL && longer;
    if (n->rope_attention_factor > 0 || !derives) {
        return said;
    }
    double times = (double)model->shape.context / n->rope_original;
    return sqrt(1 + or_ln(times) / or_ln(n->rope_original));
}

// DeepSeek's growth is of both factors of a score, and of all their elements. Its files have a tenth of the multiplier.
double or_arch_score_growth(const or_arch_numbers_t *numbers)
{
    double multiplier = (double)numbers->yarn_log_multiplier / 0.1;
    double growth = numbers->rope_scaling == OR_SCALING_YARN ? yarn_growth(numbers, multiplier) : 1;
    return growth * growth;
}

static or_status_t fill_frequencies(const or_model_t *model, or_rope_t table, double *frequencies)
{
    for (uint32_t i = 0; i < dims_of(model, table) / 2; i++) {
        frequencies[i] = frequency_of(model, table, i);
        if (!(model->context * frequencies[i] <= ANGLE_MAX)) {
            return or_fail(OR_ERR_FORMAT,
                           "%s turns its heads by up to %g a position: see rope.freq_base, "
                           "rope.scaling and rope_freqs",
                           or_gguf_path(model->gguf), frequencies[i]);
        }
    }
    return OR_OK;
}

// Move both tables to where passes run, as both are freed there whatever else fails.
static or_status_t move(or_model_t *model, or_rope_t table, size_t count)
{
    or_status_t cosine = or_gpu_take_floats(model->gpu, &model->rope_cosine[table], count);
    or_status_t sine = or_gpu_take_floats(model->gpu, &model->rope_sine[table], count);
    return cosine != OR_OK ? cosine : sine;
}

static or_status_t fill_table(or_model_t *model, or_rope_t table)
{
    const uint32_t pairs = dims_of(model, table) / 2;
    size_t count = (size_t)model->context * pairs;
    model->rope_cosine[table] = or_zeroed(count, sizeof(float));
    model->rope_sine[table] = or_zeroed(count, sizeof(float));
    rope_t rope = {.model = model,
                   .pairs = pairs,
                   .cosine = model->rope_cosine[table],
                   .sine = model->rope_sine[table],
                   .frequencies = or_zeroed(pairs, sizeof(double)),
                   .factor = attention_factor(model, table)};
    or_status_t status = OR_OK;
    if (rope.cosine == NULL || rope.sine == NULL || rope.frequencies == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for a context of %u; ask for less (-c)",
                         model->context);
    }
    status = status != OR_OK ? status : fill_frequencies(model, table, rope.frequencies);
    if (status == OR_OK) {
        or_workers_run(model->workers, model->context, or_workers_grain(64ull * pairs),
                       fill_positions, &rope);
    }
    free(rope.frequencies);
    or_status_t moved = move(model, table, count);
    return status != OR_OK ? status : moved;
}

or_status_t or_rope_fill(or_model_t *model)
{
    or_status_t status =
        model->arch->rope == OR_ROPE_MAIN ? fill_table(model, OR_ROPE_MAIN) : OR_OK;
    return status == OR_OK && model->arch->has_local_rope ? fill_table(model, OR_ROPE_LOCAL)
                                                          : status;
}

void or_rope_free(or_model_t *model)
{
    for (uint32_t table = 0; table < OR_ROPE_TABLES; table++) {
        or_gpu_give(model->gpu, model->rope_sine[table]);
        or_gpu_give(model->gpu, model->rope_cosine[table]);
    }
}
