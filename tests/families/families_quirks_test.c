// Goal: each row of a family's tables does something: without it the model computes another thing, so far from transformers' that
// families_test sees it missing.
// Method: this program's list of architectures has one family, an edited copy of the true one. One quirk after the other is
// switched off in the copy: an operation, a bias, a number that the file gives, a field. Then the logits of the small random models
// (family_file.h) must move by 20 tolerances of families_test, or the file must be refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/arch/families/families.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define TOLERANCE 1e-3
#define MOVES_MIN (20 * TOLERANCE)
#define VOCAB 64u
#define POSITIONS 200u
#define SEEDS 2u
#define OPS_MAX 64u
#define KEYS_MAX 16u
#define TENSORS_MAX 32u

static or_arch_t edited;
static or_op_t ops[OPS_MAX];
static or_arch_key_t keys[KEYS_MAX];
static or_arch_tensor_t tensors[TENSORS_MAX];

const or_arch_t *const or_architectures[] = {&edited, NULL};

typedef struct {
    const char *name;
    const or_arch_t *arch;
} family_t;

static const family_t families[] = {
    {"cohere2", &or_arch_cohere2},
    {"command-r", &or_arch_command_r},
    {"ernie4_5", &or_arch_ernie4_5},
    {"deepseek-v2", &or_arch_deepseek2},
    {"deepseek-v3", &or_arch_deepseek2},
    {"exaone4", &or_arch_exaone4},
    {"falcon", &or_arch_falcon},
    {"gemma", &or_arch_gemma},
    {"gemma2", &or_arch_gemma2},
    {"gemma3", &or_arch_gemma3},
    {"gemma4", &or_arch_gemma4},
    {"gemma4-shared", &or_arch_gemma4},
    {"gemma4-experts", &or_arch_gemma4_experts},
    {"glm4", &or_arch_glm4},
    {"glm4moe", &or_arch_glm4moe},
    {"glm4moelite", &or_arch_deepseek2},
    {"gpt-oss", &or_arch_gpt_oss},
    {"gpt2", &or_arch_gpt2},
    {"granite", &or_arch_granite},
    {"llama", &or_arch_llama},
    {"mistral", &or_arch_llama},
    {"mistral3", &or_arch_mistral3},
    {"mixtral", &or_arch_llama_experts},
    {"olmo2", &or_arch_olmo2},
    {"olmoe", &or_arch_olmoe},
    {"opt", &or_arch_opt},
    {"phi3", &or_arch_phi3},
    {"phimoe", &or_arch_phimoe},
    {"qwen2", &or_arch_qwen2},
    {"qwen2moe", &or_arch_qwen2moe},
    {"qwen3", &or_arch_qwen3},
    {"qwen3moe", &or_arch_qwen3moe},
    {"smollm3", &or_arch_smollm3},
    {"starcoder2", &or_arch_starcoder2},
};

#define FAMILIES (sizeof families / sizeof families[0])

// A model of the family as its file says it, and where its tables are edited.
typedef struct {
    const char *name; // "FAMILY/SEED"
    const or_arch_t *arch;
    or_gguf_t *gguf;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    int32_t tokens[POSITIONS];
    float expected[POSITIONS * VOCAB]; // transformers' logits
} subject_t;

// ---- quirks ----

typedef enum { QUIRK_END, QUIRK_ABSENT, QUIRK_OFF } quirk_t;

typedef struct {
    char text[96];
} quirk_name_t;

// Switch the quirk `index` off in the copy. QUIRK_ABSENT: the model does not have it; QUIRK_END: there are no more.
typedef quirk_t (*switch_off_t)(const subject_t *subject, uint32_t index, quirk_name_t *name);

static void name_it(quirk_name_t *name, const char *quirk, uint32_t index)
{
    snprintf(name->text, sizeof name->text, "%s (%u)", quirk, index);
}

static bool has_tensor(const subject_t *subject, size_t offset)
{
    bool has = false;
    for (const or_arch_tensor_t *t = edited.layer_tensors; t->suffix != NULL; t++) {
        char name[64];
        snprintf(name, sizeof name, "blk.0.%s", t->suffix);
        has = has || (t->offset == offset && or_gguf_find_tensor(subject->gguf, name) != NULL);
    }
    return has;
}

// An operation is left out, or another one does its work.
static quirk_t without_operation(const subject_t *subject, uint32_t index, quirk_name_t *name)
{
    static const struct {
        const char *name;
        or_op_kind_t instead; // OR_OP_END: none
    } operations[OR_OP_KINDS] = {
        [OR_OP_NORM] = {"RMS norm", OR_OP_COPY},
        [OR_OP_NORM_LAYER] = {"layer norm", OR_OP_COPY},
        [OR_OP_BIAS_QKV] = {"biases of Q, K and V", OR_OP_END},
        [OR_OP_NORM_HEADS] = {"norms of heads", OR_OP_END},
        [OR_OP_NORM_WHOLE] = {"norms of all heads", OR_OP_END},
        [OR_OP_NORM_VALUES] = {"norms of values", OR_OP_END},
        [OR_OP_NORM_QUERY_LATENT] = {"norm of what queries are made of", OR_OP_END},
        [OR_OP_NORM_LATENT] = {"norm of the latent vector", OR_OP_END},
        [OR_OP_ROTATE] = {"rotation", OR_OP_END},
        [OR_OP_GROW_QUERY] = {"growth of queries", OR_OP_END},
        [OR_OP_SILU_GATED] = {"SiLU", OR_OP_GELU_GATED},
        [OR_OP_GELU_GATED] = {"GELU", OR_OP_SILU_GATED},
        [OR_OP_GELU] = {"GELU", OR_OP_RELU},
        [OR_OP_GELU_EXACT] = {"GELU", OR_OP_RELU},
        [OR_OP_RELU] = {"ReLU", OR_OP_GELU},
        [OR_OP_BIAS_UP] = {"bias of the FFN", OR_OP_END},
        [OR_OP_BIAS_SUMS] = {"bias of sums", OR_OP_END},
        [OR_OP_BIAS_EXPERTS] = {"biases of experts' downs", OR_OP_END},
        [OR_OP_NORM_SUMS] = {"norm of sums", OR_OP_END},
        [OR_OP_NORM_ROUTER] = {"root of the width", OR_OP_NORM},
        [OR_OP_ADD_ASIDE] = {"what was put aside", OR_OP_END},
        [OR_OP_ADD] = {"addition", OR_OP_END},
        [OR_OP_SCALE] = {"scale of the layer", OR_OP_END},
        [OR_OP_GELU_INPUT] = {"product with the layer's input", OR_OP_END},
    };
    or_op_t *op = &ops[index];
    if (op->kind == OR_OP_END) {
        return QUIRK_END;
    }
    bool has_bias = op->kind != OR_OP_BIAS_QKV || has_tensor(subject, OR_LAYER(query_bias));
    bool has_norm = op->kind != OR_OP_NORM_HEADS || has_tensor(subject, OR_LAYER(query_norm));
    has_norm = has_norm && (op->kind != OR_OP_NORM_QUERY_LATENT || has_tensor(subject, op->weight));
    const bool has_need = op->needs == 0 || has_tensor(subject, op->needs);
    if (operations[op->kind].name == NULL || !has_bias || !has_norm || !has_need) {
        return QUIRK_ABSENT;
    }
    name_it(name, operations[op->kind].name, index);
    or_op_kind_t instead = operations[op->kind].instead;
    if (instead == OR_OP_END) {
        memmove(op, op + 1, (OPS_MAX - index - 1) * sizeof *op);
    } else {
        op->kind = instead;
    }
    return QUIRK_OFF;
}

static quirk_t without_bias(const subject_t *subject, uint32_t index, quirk_name_t *name)
{
    or_op_t *op = &ops[index];
    if (op->kind == OR_OP_END) {
        return QUIRK_END;
    }
    if (op->bias == 0 || !has_tensor(subject, op->bias)) {
        return QUIRK_ABSENT;
    }
    op->bias = 0;
    name_it(name, "bias of a norm", index);
    return QUIRK_OFF;
}

// A layer norm becomes an RMS norm, with the same weights.
static quirk_t without_mean(const subject_t *subject, uint32_t index, quirk_name_t *name)
{
    or_op_t *op = &ops[index];
    if (op->kind == OR_OP_END) {
        return QUIRK_END;
    }
    if (op->kind != OR_OP_NORM_LAYER || !has_tensor(subject, op->weight)) {
        return QUIRK_ABSENT;
    }
    op->kind = OR_OP_NORM;
    name_it(name, "mean of a layer norm", index);
    return QUIRK_OFF;
}

// The number of a key is what it is where the file does not give it.
static quirk_t without_key(const subject_t *subject, uint32_t index, quirk_name_t *name)
{
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_arch_key_t *key = &keys[index];
    if (key->suffix == NULL) {
        return QUIRK_END;
    }
    name_it(name, key->suffix, index);
    key->suffix = "not.in.the.file";
    key->fallback = key->fallback == 0 ? 1 : key->fallback; // one that must be there
    if (or_arch_read(&edited, subject->gguf, &shape, &numbers) != OR_OK) {
        return QUIRK_OFF; // the file is refused where nothing reads the key
    }
    bool same = memcmp(&numbers, &subject->numbers, sizeof numbers) == 0;
    return same ? QUIRK_ABSENT : QUIRK_OFF;
}

static bool no_windows(const subject_t *subject)
{
    edited.has_window = false;
    return subject->numbers.window > 0;
}

static bool windows_everywhere(const subject_t *subject)
{
    edited.window_period = 0;
    return subject->numbers.window > 0 && subject->arch->window_period > 0;
}

static bool one_table_of_rotations(const subject_t *subject)
{
    edited.has_local_rope = false;
    return subject->arch->has_local_rope;
}

static bool rotations_everywhere(const subject_t *subject)
{
    edited.rope_period = 0;
    const or_arch_t *arch = subject->arch;
    return arch->rope_period > 0 && or_arch_rope(arch, &subject->shape, &subject->numbers,
                                                 arch->rope_period - 1) == OR_ROPE_NONE;
}

static bool rotations_by_period_alone(const subject_t *subject)
{
    edited.rotates_all_without_windows = false;
    return subject->arch->rotates_all_without_windows && subject->numbers.window == 0;
}

static bool other_pairs(const subject_t *subject)
{
    edited.rope_halves = !edited.rope_halves;
    return subject->arch->rope != OR_ROPE_NONE;
}

static bool other_factors(const subject_t *subject)
{
    edited.rope_factors_long = subject->arch->rope_factors_short;
    edited.rope_factors_short = subject->arch->rope_factors_long;
    const char *name = subject->arch->rope_factors_long;
    return name != NULL && or_gguf_find_tensor(subject->gguf, name) != NULL;
}

static bool logits_multiplied(const subject_t *subject)
{
    edited.divides_logits = false;
    return subject->arch->divides_logits;
}

static bool embedding_as_it_is(const subject_t *subject)
{
    edited.scales_embedding_by_width = false;
    return subject->arch->scales_embedding_by_width;
}

static bool scores_scaled_by_width(const subject_t *subject)
{
    edited.layers_scaled_by_width = subject->shape.layers;
    return subject->arch->layers_scaled_by_width > 0;
}

static bool other_weights_of_experts(const subject_t *subject)
{
    edited.normalises_experts = !edited.normalises_experts;
    const or_arch_t *arch = subject->arch;
    return arch->has_experts && !arch->gates_by_sigmoid &&
           !arch->tells_routing; // whose files say it
}

static bool rotations_that_grow(const subject_t *subject)
{
    edited.yarn_grows_scores = false;
    return subject->arch->yarn_grows_scores && subject->numbers.rope_scaling == OR_SCALING_YARN;
}

static bool weights_of_the_softmax(const subject_t *subject)
{
    edited.mixes_sparsely = false;
    return subject->arch->mixes_sparsely;
}

// Load a vector to where nothing reads it. Return whether the family has it.
static bool without_vector(size_t offset)
{
    bool has = false;
    for (uint32_t i = 0; i < TENSORS_MAX && tensors[i].suffix != NULL; i++) {
        if (tensors[i].offset == offset) {
            tensors[i].offset = OR_LAYER(up_bias);
            has = true;
        }
    }
    return has;
}

static bool choice_without_bias(const subject_t *subject)
{
    return without_vector(OR_LAYER(router_bias)) && subject->shape.routes_by_sigmoid;
}

static bool no_sinks(const subject_t *subject)
{
    (void)subject;
    return without_vector(OR_LAYER(sinks));
}

static bool logits_without_bias(const subject_t *subject)
{
    (void)subject;
    return without_vector(OR_LAYER(logit_bias));
}

static bool gates_without_bias(const subject_t *subject)
{
    (void)subject;
    return without_vector(OR_LAYER(expert_gate_bias));
}

static bool ups_without_bias(const subject_t *subject)
{
    (void)subject;
    return without_vector(OR_LAYER(expert_up_bias));
}

static bool experts_of_silu(const subject_t *subject)
{
    edited.clamps_experts = false;
    return subject->arch->clamps_experts;
}

static bool experts_without_gelu(const subject_t *subject)
{
    edited.gelu_experts = false;
    return subject->arch->gelu_experts;
}

static bool experts_without_scales(const subject_t *subject)
{
    (void)subject;
    return without_vector(OR_LAYER(expert_scales));
}

// With the usual number of turns the ramp of gpt-oss's model ends so near a whole pair that rounding makes no difference.
static bool whole_pairs(const subject_t *subject)
{
    edited.yarn_cuts_pairs = false;
    return subject->arch->yarn_cuts_pairs && subject->numbers.yarn_beta_fast < 32;
}

static quirk_t without_field(const subject_t *subject, uint32_t index, quirk_name_t *name)
{
    static const struct {
        const char *name;
        bool (*switch_off)(const subject_t *subject); // false: it makes no difference here
    } fields[] = {
        {"windows", no_windows},
        {"layers without windows", windows_everywhere},
        {"local rotations", one_table_of_rotations},
        {"layers that rotate nothing", rotations_everywhere},
        {"rotations where there are no windows", rotations_by_period_alone},
        {"pairs of a rotation", other_pairs},
        {"long factors", other_factors},
        {"division of logits", logits_multiplied},
        {"scale of the embedding", embedding_as_it_is},
        {"scale by head", scores_scaled_by_width},
        {"weights of experts", other_weights_of_experts},
        {"bias of the choice of experts", choice_without_bias},
        {"growth of scores", rotations_that_grow},
        {"two experts that are weighted apart", weights_of_the_softmax},
        {"sinks", no_sinks},
        {"bias of the router's logits", logits_without_bias},
        {"biases of experts' gates", gates_without_bias},
        {"biases of experts' ups", ups_without_bias},
        {"activation of experts", experts_of_silu},
        {"GELU of experts", experts_without_gelu},
        {"scales of experts", experts_without_scales},
        {"YaRN that cuts pairs", whole_pairs},
    };
    if (index == sizeof fields / sizeof fields[0]) {
        return QUIRK_END;
    }
    name_it(name, fields[index].name, index);
    return fields[index].switch_off(subject) ? QUIRK_OFF : QUIRK_ABSENT;
}

// ---- how far logits move ----

static void copy_tables(const or_arch_t *arch)
{
    uint32_t count = 0;
    memset(ops, 0, sizeof ops);
    memset(keys, 0, sizeof keys);
    for (; arch->layer_ops[count].kind != OR_OP_END; count++) {
        assert_in_range(count, 0, OPS_MAX - 2);
        ops[count] = arch->layer_ops[count];
    }
    for (count = 0; arch->keys[count].suffix != NULL; count++) {
        assert_in_range(count, 0, KEYS_MAX - 2);
        keys[count] = arch->keys[count];
    }
    memset(tensors, 0, sizeof tensors);
    for (count = 0; arch->layer_tensors[count].suffix != NULL; count++) {
        assert_in_range(count, 0, TENSORS_MAX - 2);
        tensors[count] = arch->layer_tensors[count];
    }
    edited = *arch;
    edited.layer_tensors = tensors;
    edited.layer_ops = ops;
    edited.keys = keys;
}

// Return the largest difference of the logits from transformers'; infinite if the file is refused.
static double distance(const subject_t *subject)
{
    static float logits[POSITIONS * VOCAB];
    model_fixture_t fixture = {.gguf = subject->gguf, .vocab_size = VOCAB};
    or_model_options_t options = {.threads = 1};
    or_status_t status = or_model_load(subject->gguf, &options, &fixture.model);
    if (status != OR_OK) {
        assert_true(status == OR_ERR_UNSUPPORTED || status == OR_ERR_FORMAT);
        return INFINITY;
    }
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    model_fixture_prefill(&fixture, sequence, subject->tokens, POSITIONS, POSITIONS, logits);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&fixture.model);
    double largest = 0;
    for (size_t i = 0; i < (size_t)POSITIONS * VOCAB; i++) {
        double apart = fabs((double)logits[i] - (double)subject->expected[i]);
        largest = apart <= largest ? largest : apart; // NaN counts
    }
    return largest;
}

// Return how many quirks of this kind move the logits too little.
static uint32_t count_weak(const subject_t *subject, switch_off_t switch_off)
{
    uint32_t weak = 0;
    for (uint32_t i = 0;; i++) {
        quirk_name_t name;
        copy_tables(subject->arch);
        quirk_t quirk = switch_off(subject, i, &name);
        if (quirk == QUIRK_END) {
            return weak;
        }
        if (quirk == QUIRK_OFF) {
            double moved = distance(subject);
            bool moves = !(moved < MOVES_MIN); // NaN does
            print_message("%s without %s: %.3g%s\n", subject->name, name.text, moved,
                          moves ? "" : ", too little");
            weak += !moves;
        }
    }
}

static void check_model(const family_t *family, const char *name)
{
    static const switch_off_t kinds[] = {without_operation, without_bias, without_mean, without_key,
                                         without_field};
    static subject_t subject;
    char *path = family_file_make(name);
    subject = (subject_t){.name = name, .arch = family->arch};
    assert_int_equal(or_gguf_open(path, &subject.gguf), OR_OK);
    assert_int_equal(family_file_tokens(subject.gguf, subject.tokens, POSITIONS), POSITIONS);
    family_file_logits(name, subject.expected, (size_t)POSITIONS * VOCAB);
    assert_int_equal(or_arch_read(family->arch, subject.gguf, &subject.shape, &subject.numbers),
                     OR_OK);
    copy_tables(family->arch);
    assert_true(distance(&subject) < TOLERANCE);
    uint32_t weak = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        weak += count_weak(&subject, kinds[i]);
    }
    or_gguf_close(&subject.gguf);
    free(path);
    assert_int_equal(weak, 0);
}

static void check_family(void **state)
{
    const family_t *family = *state;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%u", family->name, seed);
        check_model(family, name);
    }
}

int main(void)
{
    struct CMUnitTest tests[FAMILIES];
    for (size_t i = 0; i < FAMILIES; i++) {
        tests[i] = (struct CMUnitTest){
            .name = families[i].name,
            .test_func = check_family,
            .initial_state = (void *)&families[i],
        };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
