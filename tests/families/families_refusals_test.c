// Goal: a file that asks for what its family's graph does not do is refused by name, and never computed as if it had not asked.
// Method: small random models, each with one key more, one tensor less, or one of another type.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_writer.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

typedef struct {
    const char *model;
    const char *key; // that gets `value`; NULL: none
    bool value;
    const char *lacks;     // a tensor that is left out; NULL: none
    const char *word;      // of the refusal; NULL: it runs
    const char *quantised; // a tensor that is of type Q8_0, and 0; NULL: none
    float number;          // that the key gets instead of `value`; 0: none
    const char *drops;     // a key that is left out; NULL: none
    bool is_ill_formed;    // the refusal says so, and not that this version does not run it
} change_t;

static bool is_named(const or_gguf_tensor_t *tensor, const char *name)
{
    return name != NULL && tensor->name.length == strlen(name) &&
           memcmp(tensor->name.bytes, name, tensor->name.length) == 0;
}

static bool is_left_out(const change_t *change, const or_gguf_tensor_t *tensor)
{
    return is_named(tensor, change->lacks);
}

static void put_zeros(or_gguf_writer_t *writer, const or_gguf_tensor_t *tensor)
{
    const or_tensor_block_t block = or_gguf_tensor_block(OR_TENSOR_Q8_0);
    const size_t bytes = tensor->elements / block.elements * block.bytes;
    void *zeros = test_alloc(bytes, 1);
    memset(zeros, 0, bytes);
    assert_int_equal(or_gguf_writer_put(writer, zeros, bytes), OR_OK);
    free(zeros);
}

static void write_changed(const or_gguf_t *gguf, const change_t *change, const char *path)
{
    or_gguf_writer_t *writer = NULL;
    const uint64_t count = or_gguf_tensor_count(gguf);
    uint64_t kept = 0;
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_copy(writer, gguf), OR_OK);
    if (change->drops != NULL) {
        or_gguf_writer_drop(writer, change->drops);
    }
    if (change->number != 0) {
        assert_int_equal(or_gguf_writer_set_f32(writer, change->key, change->number), OR_OK);
    } else if (change->key != NULL) {
        assert_int_equal(or_gguf_writer_set_bool(writer, change->key, change->value), OR_OK);
    }
    for (uint64_t i = 0; i < count; i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        if (!is_left_out(change, tensor)) {
            kept++;
            or_tensor_type_t type = is_named(tensor, change->quantised)
                                        ? OR_TENSOR_Q8_0
                                        : (or_tensor_type_t)tensor->type;
            assert_int_equal(or_gguf_writer_add_tensor(writer, tensor->name, tensor->dim_count,
                                                       tensor->dims, type),
                             OR_OK);
        }
    }
    assert_int_equal(count - kept, change->lacks != NULL);
    assert_int_equal(or_gguf_writer_begin(writer), OR_OK);
    for (uint64_t i = 0; i < count; i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        if (is_named(tensor, change->quantised)) {
            put_zeros(writer, tensor);
        } else if (!is_left_out(change, tensor)) {
            assert_int_equal(or_gguf_writer_put(writer, tensor->data, tensor->bytes), OR_OK);
        }
    }
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    or_gguf_writer_destroy(&writer);
}

static or_status_t load(const char *path)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    const or_model_options_t options = {.threads = 1};
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    or_status_t status = or_model_load(gguf, &options, &model);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

static void check(const change_t *change)
{
    char folder[] = "/tmp/or_families_XXXXXX";
    char path[64];
    or_gguf_t *gguf = NULL;
    char *whole = family_file_make(change->model);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_int_equal(or_gguf_open(whole, &gguf), OR_OK);
    write_changed(gguf, change, path);
    or_status_t status = load(path);
    const or_status_t refused = change->is_ill_formed ? OR_ERR_FORMAT : OR_ERR_UNSUPPORTED;
    if (status != (change->word != NULL ? refused : OR_OK) ||
        (change->word != NULL && strstr(or_error_text(), change->word) == NULL)) {
        fail_msg("%s: %s, \"%s\"", change->model, or_status_name(status), or_error_text());
    }
    or_gguf_close(&gguf);
    test_remove_folder(folder);
    free(whole);
}

static void attention_to_later_positions_is_refused(void **state)
{
    (void)state;
    check(&(change_t){"llama/0", "llama.attention.causal", true, NULL, NULL});
    check(&(change_t){"llama/0", "llama.attention.causal", false, NULL, "llama.attention.causal"});
    check(
        &(change_t){"gemma3/0", "gemma3.attention.causal", false, NULL, "gemma3.attention.causal"});
}

// The models' own base is 150000.
static void another_base_in_layers_with_a_window_is_refused(void **state)
{
    (void)state;
    check(&(change_t){
        .model = "gpt-oss/0", .key = "gpt-oss.rope.freq_base_swa", .number = 150000.0F});
    check(&(change_t){.model = "gpt-oss/0",
                      .key = "gpt-oss.rope.freq_base_swa",
                      .number = 10000.0F,
                      .word = "gpt-oss.rope.freq_base_swa"});
}

static void a_bias_without_its_weights_is_refused(void **state)
{
    (void)state;
    check(&(change_t){"falcon/1", NULL, false, "blk.2.attn_norm_2.bias", NULL});
    check(
        &(change_t){"falcon/1", NULL, false, "blk.2.attn_norm_2.weight", "blk.2.attn_norm_2.bias"});
}

// A bias for each expert looks like a matrix, but is a vector for each.
static void quantised_biases_are_refused(void **state)
{
    (void)state;
    check(&(change_t){.model = "gpt-oss/0",
                      .quantised = "blk.1.ffn_up_exps.bias",
                      .word = "blk.1.ffn_up_exps.bias"});
    check(&(change_t){.model = "gpt-oss/0", .quantised = "blk.1.ffn_up_exps.weight"});
}

// Without its form, its growth or its way to choose, a DeepSeek would be computed as another.
static void latent_attention_of_another_form_is_refused(void **state)
{
    (void)state;
    check(&(change_t){.model = "deepseek-v3/0",
                      .drops = "deepseek2.attention.key_length_mla",
                      .word = "deepseek2.attention.key_length_mla"});
    check(&(change_t){.model = "deepseek-v3/0",
                      .drops = "deepseek2.rope.scaling.yarn_log_multiplier",
                      .word = "deepseek2.rope.scaling.yarn_log_multiplier"});
    check(&(change_t){.model = "deepseek-v3/0",
                      .key = "deepseek2.rope.scaling.attn_factor",
                      .number = 1.5F,
                      .word = "deepseek2.rope.scaling.attn_factor"});
    check(&(change_t){.model = "deepseek-v3/0",
                      .key = "deepseek2.attention.temperature_scale",
                      .number = 0.1F,
                      .word = "deepseek2.attention.temperature_scale"});
    check(&(change_t){.model = "deepseek-v3/0",
                      .drops = "deepseek2.expert_gating_func",
                      .word = "exp_probs_b.bias"});
}

// Without saying which layers have windows, or the heads of those, a Gemma 4 would be computed as another. Layers that attend to
// others' K and V need not have a matrix for V, nor a scale.
static void layers_that_are_not_told_are_refused(void **state)
{
    (void)state;
    check(&(change_t){.model = "gemma4/0", .lacks = "blk.1.attn_v.weight"});
    check(&(change_t){.model = "gemma4/0", .lacks = "blk.1.layer_output_scale.weight"});
    check(&(change_t){
        .model = "gemma4/0", .drops = "gemma4.attention.shared_kv_layers", .word = NULL});
    check(&(change_t){.model = "gemma4-shared/0",
                      .drops = "gemma4.embedding_length_per_layer_input",
                      .word = "has no place"});
}

// Gates and ups of experts are one tensor in all layers or in none, and the network beside experts has one size.
static void experts_of_another_form_are_refused(void **state)
{
    (void)state;
    check(&(change_t){.model = "gemma4-experts/0",
                      .lacks = "blk.0.ffn_gate_up_exps.weight",
                      .word = "blk.0.ffn_gate_exps.weight",
                      .is_ill_formed = true});
    check(&(change_t){.model = "gemma4-experts/0",
                      .lacks = "blk.2.ffn_gate_up_exps.weight",
                      .word = "blk.2.ffn_gate_up_exps.weight",
                      .is_ill_formed = true});
    check(&(change_t){.model = "gemma4-experts/0",
                      .lacks = "blk.1.ffn_gate_inp.scale",
                      .word = "blk.1.ffn_gate_inp.scale",
                      .is_ill_formed = true});
    check(&(change_t){.model = "gemma4-experts/1", .lacks = "blk.1.ffn_down_exps.scale"});
    check(&(change_t){.model = "gemma4-experts/1",
                      .drops = "gemma4.expert_feed_forward_length",
                      .word = "gemma4.expert_feed_forward_length",
                      .is_ill_formed = true});
    check(&(change_t){
        .model = "gemma4-experts/1", .drops = "gemma4.expert_count", .word = "has no place"});
}

// Two stages of six layers begin with layers 0 and 3, and layers 4 and 5 attend to K and V of layers 2 and 3.
static void a_stage_between_layers_that_share_is_refused(void **state)
{
    (void)state;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_ranks_t ranks = *or_ranks_single();
    const or_model_options_t options = {.threads = 1, .ranks = &ranks};
    char *path = family_file_make("gemma4-shared/1");
    ranks.stages = 2; // nobody is asked before the layers are cut
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "layer 4 of"));
    or_gguf_close(&gguf);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_are_not_told_are_refused),
        cmocka_unit_test(a_stage_between_layers_that_share_is_refused),
        cmocka_unit_test(experts_of_another_form_are_refused),
        cmocka_unit_test(latent_attention_of_another_form_is_refused),
        cmocka_unit_test(attention_to_later_positions_is_refused),
        cmocka_unit_test(another_base_in_layers_with_a_window_is_refused),
        cmocka_unit_test(a_bias_without_its_weights_is_refused),
        cmocka_unit_test(quantised_biases_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
