// Goal: how a file chooses and weights its experts is run as it says, or refused by the key's name.
// Method: metadata of a family with experts and one key more.
#include <stdio.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/arch/families/families.h"
#include "tests/support/test_support.h"

typedef struct {
    uint32_t experts, used;
    const char *key; // NULL: none
    or_gguf_type_t type;
    double value;
    or_status_t status;
} case_t;

static void put_value(test_gguf_t *file, const case_t *c)
{
    const uint32_t number = (uint32_t)c->value;
    const float real = (float)c->value;
    const unsigned char truth = c->value != 0;
    test_gguf_put_key(file, c->key, c->type);
    if (c->type == OR_GGUF_U32) {
        test_gguf_put(file, &number, sizeof number);
    } else if (c->type == OR_GGUF_F32) {
        test_gguf_put(file, &real, sizeof real);
    } else {
        test_gguf_put(file, &truth, sizeof truth);
    }
}

static or_status_t read_file(const or_arch_t *arch, const case_t *c, or_model_shape_t *shape)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    test_gguf_init(&file, 3, 0, 2 + (c->key != NULL));
    char key[64];
    snprintf(key, sizeof key, "%s.expert_count", arch->name);
    test_gguf_put_u32_entry(&file, key, c->experts);
    snprintf(key, sizeof key, "%s.expert_used_count", arch->name);
    test_gguf_put_u32_entry(&file, key, c->used);
    if (c->key != NULL) {
        put_value(&file, c);
    }
    test_gguf_pad(&file, 32);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    or_status_t status = or_arch_read_experts(arch, gguf, shape);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return status;
}

static void check(const or_arch_t *arch, const case_t *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const case_t *c = &cases[i];
        or_model_shape_t shape = {0};
        or_status_t status = read_file(arch, c, &shape);
        const char *word = c->key != NULL ? c->key : "expert_";
        if (status != c->status || (status != OR_OK && strstr(or_error_text(), word) == NULL)) {
            fail_msg("case %zu, %s: %s, \"%s\"", i, word, or_status_name(status), or_error_text());
        }
        if (status == OR_OK) {
            assert_int_equal(shape.experts, c->experts);
            assert_int_equal(shape.experts_used, c->used);
        }
    }
}

static void numbers_are_checked(void **state)
{
    (void)state;
    const case_t cases[] = {
        {.experts = 8, .used = 2},
        {.experts = 1, .used = 1},
        {.experts = OR_EXPERTS_MAX, .used = OR_EXPERTS_MAX},
        {.experts = 8, .used = 9, .status = OR_ERR_FORMAT},
        {.experts = 8, .used = 0, .status = OR_ERR_FORMAT},
        {.experts = 0, .used = 0, .status = OR_ERR_FORMAT},
        {.experts = OR_EXPERTS_MAX + 1, .used = 1, .status = OR_ERR_FORMAT},
    };
    check(&or_arch_llama_experts, cases, sizeof cases / sizeof cases[0]);
}

static void other_choices_are_refused(void **state)
{
    (void)state;
    const case_t cases[] = {
        {8, 2, "llama.expert_gating_func", OR_GGUF_U32, 1, OR_OK},
        {8, 2, "llama.expert_gating_func", OR_GGUF_U32, 0, OR_OK},
        {8, 2, "llama.expert_gating_func", OR_GGUF_U32, 2, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_gating_func", OR_GGUF_U32, 3, OR_OK}, // the same, said otherwise
        {8, 2, "llama.expert_group_count", OR_GGUF_U32, 3, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_group_count", OR_GGUF_U32, 1, OR_OK},
        {8, 2, "llama.expert_group_count", OR_GGUF_U32, 4, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_group_used_count", OR_GGUF_U32, 2, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.leading_dense_block_count", OR_GGUF_U32, 0, OR_OK},
        {8, 2, "llama.leading_dense_block_count", OR_GGUF_U32, 1, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.interleave_moe_layer_step", OR_GGUF_U32, 2, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.moe_every_n_layers", OR_GGUF_U32, 2, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_weights_scale", OR_GGUF_F32, 1, OR_OK},
        {8, 2, "llama.expert_weights_scale", OR_GGUF_F32, 2.5, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.attention.clamp_kqv", OR_GGUF_F32, 8, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_weights_norm", OR_GGUF_BOOL, 1, OR_OK},
        {8, 2, "llama.expert_weights_norm", OR_GGUF_BOOL, 0, OR_ERR_UNSUPPORTED},
        {8, 2, "llama.expert_gating_func", OR_GGUF_F32, 1, OR_ERR_FORMAT},
    };
    check(&or_arch_llama_experts, cases, sizeof cases / sizeof cases[0]);
    const case_t norm[] = {
        {8, 2, "olmoe.expert_weights_norm", OR_GGUF_BOOL, 0, OR_OK},
        {8, 2, "olmoe.expert_weights_norm", OR_GGUF_BOOL, 1, OR_ERR_UNSUPPORTED},
        {8, 2, "olmoe.expert_gating_func", OR_GGUF_U32, 3, OR_ERR_UNSUPPORTED},
    };
    check(&or_arch_olmoe, norm, sizeof norm / sizeof norm[0]);
}

static void sigmoids_and_dense_layers_are_read(void **state)
{
    (void)state;
    const case_t cases[] = {
        {8, 2, "glm4moe.expert_gating_func", OR_GGUF_U32, 1, OR_ERR_UNSUPPORTED},
        {8, 2, "glm4moe.expert_gating_func", OR_GGUF_U32, 3, OR_ERR_UNSUPPORTED},
        {8, 2, "glm4moe.nextn_predict_layers", OR_GGUF_U32, 1, OR_ERR_UNSUPPORTED},
        {8, 2, "glm4moe.leading_dense_block_count", OR_GGUF_U32, 1, OR_ERR_FORMAT}, // of 0 layers
        {8, 2, "glm4moe.expert_weights_norm", OR_GGUF_BOOL, 0, OR_ERR_UNSUPPORTED},
        {8, 2, "glm4moe.expert_weights_norm", OR_GGUF_BOOL, 1, OR_OK},
        {8, 2, "glm4moe.expert_shared_count", OR_GGUF_U32, 3,
         OR_ERR_UNSUPPORTED}, // no norm is said
    };
    or_arch_t without_shared = or_arch_glm4moe;
    without_shared.has_shared_expert = false;
    check(&without_shared, cases, 6);
    case_t shared = cases[6];
    or_model_shape_t shape = {.ffn = 32};
    assert_int_equal(read_file(&or_arch_glm4moe, &shared, &shape), OR_ERR_UNSUPPORTED);
    assert_int_equal(shape.shared_ffn, 96);
    shape = (or_model_shape_t){.ffn = 1u << 20};
    assert_int_equal(read_file(&or_arch_glm4moe, &shared, &shape), OR_ERR_FORMAT);
}

static void some_files_say_how_experts_are_chosen(void **state)
{
    (void)state;
    or_arch_t without_shared = or_arch_deepseek2;
    without_shared.has_shared_expert = false;
    const case_t cases[] = {
        {8, 2, "deepseek2.expert_gating_func", OR_GGUF_U32, 1, OR_OK},
        {8, 2, "deepseek2.expert_gating_func", OR_GGUF_U32, 2, OR_OK},
        {8, 2, "deepseek2.expert_gating_func", OR_GGUF_U32, 3, OR_ERR_UNSUPPORTED},
        {8, 2, "deepseek2.expert_weights_norm", OR_GGUF_BOOL, 1, OR_OK},
        {8, 2, "deepseek2.expert_weights_scale", OR_GGUF_F32, 2.5, OR_OK},
        {8, 2, "deepseek2.expert_group_count", OR_GGUF_U32, 1, OR_OK},
        {8, 2, "deepseek2.expert_group_count", OR_GGUF_U32, 4, OR_ERR_FORMAT}, // none is used
    };
    check(&without_shared, cases, sizeof cases / sizeof cases[0]);
    or_model_shape_t shape = {0};
    assert_int_equal(read_file(&without_shared, &cases[1], &shape), OR_OK);
    assert_true(shape.routes_by_sigmoid && !shape.normalises_experts);
    shape = (or_model_shape_t){0};
    assert_int_equal(read_file(&without_shared, &cases[3], &shape), OR_OK);
    assert_true(!shape.routes_by_sigmoid && shape.normalises_experts);
}

// Read a file with 12 experts in so many groups, of which the shape says already how many are used.
static or_status_t read_groups(uint32_t groups, uint32_t groups_used, uint32_t used)
{
    or_arch_t without_shared = or_arch_deepseek2;
    without_shared.has_shared_expert = false;
    const case_t c = {12, used, "deepseek2.expert_group_count", OR_GGUF_U32, groups, OR_OK};
    or_model_shape_t shape = {.expert_groups_used = groups_used};
    or_status_t status = read_file(&without_shared, &c, &shape);
    assert_true(status != OR_OK || shape.expert_groups == (groups > 1 ? groups : 0));
    return status;
}

static void groups_have_the_experts_that_are_taken(void **state)
{
    (void)state;
    assert_int_equal(read_groups(4, 2, 6), OR_OK);
    assert_int_equal(read_groups(4, 2, 7), OR_ERR_FORMAT);
    assert_int_equal(read_groups(4, 5, 6), OR_ERR_FORMAT);
    assert_int_equal(read_groups(5, 2, 2), OR_ERR_FORMAT);
    assert_int_equal(read_groups(12, 12, 12), OR_OK);
    assert_int_equal(read_groups(1000000, 1, 1), OR_ERR_FORMAT);
}

static void a_shared_expert_has_a_size(void **state)
{
    (void)state;
    const case_t cases[] = {
        {8, 2, "qwen2moe.expert_shared_feed_forward_length", OR_GGUF_U32, 64, OR_OK},
        {8, 2, "qwen2moe.expert_shared_feed_forward_length", OR_GGUF_U32, 0, OR_ERR_FORMAT},
        {.experts = 8, .used = 2, .status = OR_ERR_FORMAT},
    };
    check(&or_arch_qwen2moe, cases, sizeof cases / sizeof cases[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(other_choices_are_refused),
        cmocka_unit_test(sigmoids_and_dense_layers_are_read),
        cmocka_unit_test(some_files_say_how_experts_are_chosen),
        cmocka_unit_test(groups_have_the_experts_that_are_taken),
        cmocka_unit_test(a_shared_expert_has_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
