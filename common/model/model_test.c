// Goal: a model file that does not fit is refused with a sentence that names what is wrong, and a
// pass that cannot run changes nothing.
// Method: files made by hand, each with one fault; passes with one bad row on a demonstration
// model.
#include "common/model/model.h"

#include <stdio.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/arch/arch.h"
#include "tests/support/test_support.h"

#define F32 OR_TENSOR_F32
#define F16 OR_TENSOR_F16
#define BF16 OR_TENSOR_BF16
#define IQ1_S 19u // GGUF's numbers of what this version cannot compute with
#define I32 26u
#define TINY_BYTES 65536u

// A whole model of one layer: width 16, 4 heads over 2, FFN 24, 10 tokens, context 64. Fields are
// overwritten by tests.
typedef struct {
    const char *architecture;
    uint32_t context, layers, width, ffn, heads, kv_heads, rope_dims;
    const char *rope_scaling; // NULL: none given
    float rope_base;          // 0: none given
    uint64_t q_columns, q_rows, down_columns, vocab_rows;
    uint32_t q_type, norm_type;
    const char *missing; // a tensor left out; NULL: none
    const char *extra;   // a tensor too many; NULL: none
    uint64_t extra_columns;
} tiny_t;

static const tiny_t tiny = {.architecture = "llama",
                            .context = 64,
                            .layers = 1,
                            .width = 16,
                            .ffn = 24,
                            .heads = 4,
                            .kv_heads = 2,
                            .rope_dims = 4,
                            .q_columns = 16,
                            .q_rows = 16,
                            .down_columns = 24,
                            .vocab_rows = 10,
                            .q_type = F16,
                            .norm_type = F32,
                            .extra_columns = 16};

// The key with the architecture before it, in static storage.
static const char *key_of(const tiny_t *t, const char *suffix)
{
    static char key[96];
    snprintf(key, sizeof key, "%s.%s", t->architecture, suffix);
    return key;
}

static void put_metadata(test_gguf_t *file, const tiny_t *t)
{
    const struct {
        const char *suffix;
        uint32_t value;
    } numbers[] = {
        {"context_length", t->context},         {"block_count", t->layers},
        {"embedding_length", t->width},         {"feed_forward_length", t->ffn},
        {"attention.head_count", t->heads},     {"attention.head_count_kv", t->kv_heads},
        {"rope.dimension_count", t->rope_dims},
    };
    test_gguf_put_string_entry(file, "general.architecture", t->architecture);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        test_gguf_put_u32_entry(file, key_of(t, numbers[i].suffix), numbers[i].value);
    }
    float epsilon = 1e-5f;
    test_gguf_put_key(file, key_of(t, "attention.layer_norm_rms_epsilon"), OR_GGUF_F32);
    test_gguf_put(file, &epsilon, sizeof epsilon);
    if (t->rope_scaling != NULL) {
        test_gguf_put_string_entry(file, key_of(t, "rope.scaling.type"), t->rope_scaling);
    }
    if (t->rope_base != 0) {
        test_gguf_put_key(file, key_of(t, "rope.freq_base"), OR_GGUF_F32);
        test_gguf_put(file, &t->rope_base, sizeof t->rope_base);
    }
}

static or_status_t load_with(const tiny_t *t, const or_model_options_t *options)
{
    const struct {
        const char *name;
        uint64_t columns, rows;
        uint32_t type;
    } tensors[] = {
        {"token_embd.weight", 16, t->vocab_rows, F16},
        {"output_norm.weight", 16, 1, F32},
        {"blk.0.attn_norm.weight", 16, 1, t->norm_type},
        {"blk.0.attn_q.weight", t->q_columns, t->q_rows, t->q_type},
        {"blk.0.attn_k.weight", 16, 8, F32},
        {"blk.0.attn_v.weight", 16, 8, F16},
        {"blk.0.attn_output.weight", 16, 16, F32},
        {"blk.0.ffn_norm.weight", 16, 1, F32},
        {"blk.0.ffn_gate.weight", 16, 24, F16},
        {"blk.0.ffn_up.weight", 16, 24, F32},
        {"blk.0.ffn_down.weight", t->down_columns, 16, F16},
        {t->extra, t->extra_columns, 1, F32},
    };
    const size_t all = sizeof tensors / sizeof tensors[0];
    uint64_t count = all - (t->extra == NULL) - (t->missing != NULL);
    test_gguf_t file;
    test_gguf_init(&file, 3, count, 9 + (t->rope_scaling != NULL) + (t->rope_base != 0));
    put_metadata(&file, t);
    uint64_t offset = 0;
    for (size_t i = 0; i < all; i++) {
        if (tensors[i].name == NULL ||
            (t->missing != NULL && strcmp(tensors[i].name, t->missing) == 0)) {
            continue;
        }
        test_gguf_put_tensor(&file, tensors[i].name, tensors[i].columns, tensors[i].rows,
                             tensors[i].type, offset);
        offset += (tensors[i].columns * tensors[i].rows * sizeof(float) + 31) / 32 * 32;
    }
    static const unsigned char zeros[TINY_BYTES];
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, zeros, sizeof zeros);
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_status_t status = test_gguf_open(&file, &gguf);
    assert_int_equal(status, OR_OK);
    status = or_model_load(gguf, options, &model);
    assert_true((model != NULL) == (status == OR_OK));
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return status;
}

static or_status_t load(const tiny_t *t)
{
    return load_with(t, &(or_model_options_t){.threads = 1});
}

static void assert_refused(const tiny_t *t, or_status_t expected, const char *word)
{
    or_status_t status = load(t);
    if (status != expected || strstr(or_error_text(), word) == NULL) {
        fail_msg("%s: \"%s\"; expected %s naming %s", or_status_name(status), or_error_text(),
                 or_status_name(expected), word);
    }
}

static void the_tiny_model_loads(void **state)
{
    (void)state;
    assert_int_equal(load(&tiny), OR_OK);
    tiny_t t = tiny;
    t.rope_scaling = "none";
    assert_int_equal(load(&t), OR_OK);
    t.rope_scaling = "linear";
    assert_int_equal(load(&t), OR_OK);
    t.rope_scaling = "yarn";
    assert_int_equal(load(&t), OR_OK);
    t = tiny;
    t.rope_dims = 2; // of 4
    assert_int_equal(load(&t), OR_OK);
    t = tiny;
    t.q_type = BF16;
    t.norm_type = BF16;
    assert_int_equal(load(&t), OR_OK);
    t.norm_type = F16;
    assert_int_equal(load(&t), OR_OK);
}

static void tensors_must_fit(void **state)
{
    (void)state;
    const char *const names[] = {"token_embd.weight",      "output_norm.weight",
                                 "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
                                 "blk.0.attn_v.weight",    "blk.0.ffn_down.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tiny_t t = tiny;
        t.missing = names[i];
        assert_refused(&t, OR_ERR_FORMAT, names[i]);
    }
    tiny_t t = tiny;
    t.q_rows = 32;
    assert_refused(&t, OR_ERR_FORMAT, "attn_q.weight");
    t = tiny;
    t.q_columns = 8;
    assert_refused(&t, OR_ERR_FORMAT, "[8, 16, 1, 1]");
    t = tiny;
    t.down_columns = 25;
    assert_refused(&t, OR_ERR_FORMAT, "ffn_down.weight");
    t = tiny;
    t.q_type = IQ1_S;
    assert_refused(&t, OR_ERR_UNSUPPORTED, "IQ1_S");
    t = tiny;
    t.norm_type = I32;
    assert_refused(&t, OR_ERR_UNSUPPORTED, "attn_norm.weight");
    t = tiny;
    t.extra = "blk.0.attn_q.bias";
    assert_refused(&t, OR_ERR_UNSUPPORTED, "attn_q.bias");
    t = tiny;
    t.layers = 2;
    assert_refused(&t, OR_ERR_FORMAT, "blk.1.");
}

static or_arch_numbers_t numbers_of(const tiny_t *t)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch = NULL;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    test_gguf_init(&file, 3, 1, 9 + (t->rope_scaling != NULL) + (t->rope_base != 0));
    put_metadata(&file, t);
    test_gguf_put_tensor(&file, "token_embd.weight", 16, 1, F16, 0);
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, "sixteen halves, of sixteen bits.", 32);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_arch_find(gguf, &arch), OR_OK);
    assert_int_equal(or_arch_read(arch, gguf, &shape, &numbers), OR_OK);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return numbers;
}

static void what_the_file_leaves_out_is_as_usual(void **state)
{
    (void)state;
    static const struct {
        const char *architecture;
        uint32_t window;
    } families[] = {{"llama", 0}, {"qwen2", 0}, {"phi3", 0}, {"gemma2", 4096}};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        tiny_t t = tiny;
        t.architecture = families[i].architecture;
        or_arch_numbers_t numbers = numbers_of(&t);
        assert_int_equal(numbers.window, families[i].window);
        assert_true(numbers.rope_base == 10000);
        assert_true(numbers.rope_stretch == 1);
        t.rope_base = 5e5f;
        assert_true(numbers_of(&t).rope_base == 5e5f);
    }
}

// Read a file's metadata with this pattern of windows: a number, or `count` flags.
static or_status_t read_windows(const tiny_t *t, uint32_t period, const uint8_t *flags,
                                uint64_t count)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch = NULL;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    test_gguf_init(&file, 3, 1, 11);
    put_metadata(&file, t);
    test_gguf_put_u32_entry(&file, key_of(t, "attention.sliding_window"), 8);
    if (flags == NULL) {
        test_gguf_put_u32_entry(&file, key_of(t, "attention.sliding_window_pattern"), period);
    } else {
        test_gguf_put_array_key(&file, key_of(t, "attention.sliding_window_pattern"), OR_GGUF_BOOL,
                                count);
        test_gguf_put(&file, flags, count);
    }
    test_gguf_put_tensor(&file, "token_embd.weight", 16, 1, F16, 0);
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, "sixteen halves, of sixteen bits.", 32);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_arch_find(gguf, &arch), OR_OK);
    or_status_t status = or_arch_read(arch, gguf, &shape, &numbers);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return status;
}

static void windows_lie_where_the_family_has_them(void **state)
{
    (void)state;
    static const uint8_t every_other[] = {1, 0, 1, 0, 1}, first_without[] = {0, 1, 0, 1, 0},
                         none[] = {0, 0, 0, 0, 0}, all[] = {1, 1, 1, 1, 1};
    const struct {
        const char *architecture;
        uint32_t period;
        const uint8_t *flags; // NULL: the period
        uint64_t count;
        or_status_t status;
    } files[] = {
        {"gemma2", 2, NULL, 0, OR_OK},
        {"gemma2", 0, every_other, 5, OR_OK},
        {"gemma2", 0, first_without, 5, OR_ERR_UNSUPPORTED},
        {"gemma2", 0, NULL, 0, OR_ERR_UNSUPPORTED}, // all layers
        {"gemma2", 1, NULL, 0, OR_ERR_UNSUPPORTED}, // no layer
        {"gemma2", 3, NULL, 0, OR_ERR_UNSUPPORTED},
        {"gemma2", 0, every_other, 4, OR_ERR_FORMAT}, // of five layers
        {"gemma2", 0, every_other, 0, OR_ERR_FORMAT},
        {"gemma3", 6, NULL, 0, OR_OK},
        {"phi3", 0, NULL, 0, OR_OK},
        {"phi3", 0, all, 5, OR_OK},
        {"phi3", 2, NULL, 0, OR_ERR_UNSUPPORTED},
        {"llama", 0, none, 5, OR_OK}, // which has no windows
        {"llama", 0, every_other, 5, OR_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tiny_t t = tiny;
        t.architecture = files[i].architecture;
        t.layers = 5;
        or_status_t status = read_windows(&t, files[i].period, files[i].flags, files[i].count);
        if (status != files[i].status) {
            fail_msg("file %zu: %s", i, or_status_name(status));
        }
        if (status != OR_OK) {
            assert_non_null(strstr(or_error_text(), "sliding_window_pattern"));
        }
    }
}

// Found by fuzzing: angles beyond what our sine takes.
static void heads_must_not_turn_too_far(void **state)
{
    (void)state;
    tiny_t t = tiny;
    t.rope_base = 1e-20f;
    assert_refused(&t, OR_ERR_FORMAT, "rope.freq_base");
    t.rope_base = 1e6f;
    assert_int_equal(load(&t), OR_OK);
}

static void rope_factors_must_make_sense(void **state)
{
    (void)state;
    tiny_t t = tiny;
    t.extra = "rope_freqs.weight";
    assert_refused(&t, OR_ERR_FORMAT, "[16, 1, 1, 1]; its metadata make it [2, 1, 1, 1]");
    t.extra_columns = 2; // zeros: nothing can be divided by them
    assert_refused(&t, OR_ERR_FORMAT, "rope_freqs.weight");
    t.architecture = "qwen2"; // which has none
    assert_refused(&t, OR_ERR_FORMAT, "attn_q.bias");
}

static void metadata_must_make_sense(void **state)
{
    (void)state;
    const struct {
        size_t field; // offset in tiny_t
        uint32_t value;
        or_status_t status;
        const char *word;
    } faults[] = {
        {offsetof(tiny_t, context), 0, OR_ERR_FORMAT, "context_length"},
        {offsetof(tiny_t, context), UINT32_MAX, OR_ERR_FORMAT, "context_length"},
        {offsetof(tiny_t, layers), 0, OR_ERR_FORMAT, "block_count"},
        {offsetof(tiny_t, layers), UINT32_MAX, OR_ERR_FORMAT, "block_count"},
        {offsetof(tiny_t, width), 0, OR_ERR_FORMAT, "embedding_length"},
        {offsetof(tiny_t, width), 18, OR_ERR_FORMAT, "divide"},
        {offsetof(tiny_t, width), 12, OR_ERR_FORMAT, "even"},
        {offsetof(tiny_t, width), 4 * 1026, OR_ERR_FORMAT, "1026"},
        {offsetof(tiny_t, ffn), 0, OR_ERR_FORMAT, "feed_forward_length"},
        {offsetof(tiny_t, ffn), UINT32_MAX, OR_ERR_FORMAT, "feed_forward_length"},
        {offsetof(tiny_t, heads), 0, OR_ERR_FORMAT, "head_count"},
        {offsetof(tiny_t, kv_heads), 0, OR_ERR_FORMAT, "head_count_kv"},
        {offsetof(tiny_t, kv_heads), 3, OR_ERR_FORMAT, "divide"},
        {offsetof(tiny_t, kv_heads), 8, OR_ERR_FORMAT, "divide"},
        {offsetof(tiny_t, rope_dims), 6, OR_ERR_FORMAT, "dimension_count"},
        {offsetof(tiny_t, rope_dims), 3, OR_ERR_FORMAT, "even"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        tiny_t t = tiny;
        memcpy((char *)&t + faults[i].field, &faults[i].value, sizeof faults[i].value);
        assert_refused(&t, faults[i].status, faults[i].word);
    }
    tiny_t t = tiny;
    t.architecture = "mamba";
    assert_refused(&t, OR_ERR_UNSUPPORTED, "mamba");
    t = tiny;
    t.rope_scaling = "longrope"; // Llama's graph has one table of factors
    assert_refused(&t, OR_ERR_UNSUPPORTED, "rope.scaling.type");
}

static void options_must_make_sense(void **state)
{
    (void)state;
    const or_model_options_t wrong[] = {
        {.context_max = 65}, {.rows_max = 1u << 20}, {.threads = 100000}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(load_with(&tiny, &wrong[i]), OR_ERR_INVALID);
    }
}

// Whatever a damaged header says, the load is refused or gives a model that runs.
static void a_damaged_header_is_survived(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    test_gguf_t file;
    test_gguf_load(&file, test_model("tales-1m-f16.gguf"));
    for (uint32_t i = 0; i < 400; i++) {
        size_t at =
            24 + (size_t)test_below(&rng, 700); // after magic, version and counts: the numbers
        unsigned char was = file.bytes[at];
        file.bytes[at] = (unsigned char)test_random(&rng);
        or_gguf_t *gguf = NULL;
        or_model_t *model = NULL;
        or_kv_sequence_t *sequence = NULL;
        or_model_options_t options = {.threads = 1, .rows_max = 1};
        if (test_gguf_open(&file, &gguf) == OR_OK &&
            or_model_load(gguf, &options, &model) == OR_OK) {
            assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
            const or_model_row_t row = {sequence, 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
            assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
        }
        or_kv_sequence_close(&sequence);
        or_model_destroy(&model);
        or_gguf_close(&gguf);
        file.bytes[at] = was;
    }
    test_gguf_fini(&file);
}

// A demonstration model with a short context and few pages.
typedef struct {
    or_gguf_t *gguf;
    or_model_t *model;
    or_kv_sequence_t *sequence;
} demo_t;

static void open_demo(demo_t *demo, uint32_t context, uint32_t pages)
{
    or_model_options_t options = {
        .threads = 1, .context_max = context, .rows_max = 64, .pages_max = pages};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &demo->gguf), OR_OK);
    assert_int_equal(or_model_load(demo->gguf, &options, &demo->model), OR_OK);
    assert_int_equal(or_model_open_sequence(demo->model, 4, &demo->sequence), OR_OK);
}

static void close_demo(demo_t *demo)
{
    or_kv_sequence_close(&demo->sequence);
    or_model_destroy(&demo->model);
    or_gguf_close(&demo->gguf);
}

static or_status_t forward(demo_t *demo, uint32_t prefix_count)
{
    or_model_row_t rows[64];
    for (uint32_t i = 0; i < prefix_count; i++) {
        rows[i] = (or_model_row_t){demo->sequence, 5, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    return or_model_forward(demo->model, rows, prefix_count);
}

static void a_bad_row_changes_nothing(void **state)
{
    (void)state;
    demo_t demo = {0};
    open_demo(&demo, 64, 0);
    assert_int_equal(forward(&demo, 3), OR_OK);
    or_kv_sequence_t *s = demo.sequence;
    const uint32_t none = OR_KV_NO_SLOT;
    const or_model_row_t good = {s, 5, 0, none};
    assert_int_equal(or_model_forward(demo.model, &good, 1), OR_OK);
    const or_model_row_t wrong[][2] = {
        {{s, 5, none, none}, {s, -1, none, none}},
        {{s, 5, none, none}, {s, 4096, none, none}},
        {{s, 5, none, none}, {NULL, 5, none, none}},
        {{s, 5, none, none}, {s, 5, 4, none}}, // no such slot
        {{s, 5, none, none}, {s, 5, 1, 0}},    // slot 0 belongs to the shorter prefix
        {{s, 5, 1, none}, {s, 5, 1, none}},    // twice the same slot
        {{s, 5, 1, 2}, {s, 5, 2, none}},       // the parent comes later
        {{s, 5, 1, none}, {s, 5, 0, none}},    // slot 0 is taken
        {{s, 5, 1, none}, {s, 5, 2, UINT32_MAX - 1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(or_model_forward(demo.model, wrong[i], 2), OR_ERR_INVALID);
        assert_int_equal(or_kv_sequence_length(s), 3);
    }
    assert_int_equal(forward(&demo, 0), OR_ERR_INVALID);
    float logits[1];
    assert_int_equal(or_model_logits(demo.model, 1, 1, logits), OR_ERR_INVALID);
    assert_int_equal(or_model_logits(demo.model, 0, 2, logits), OR_ERR_INVALID);
    assert_int_equal(or_model_logits(demo.model, UINT32_MAX, 2, logits), OR_ERR_INVALID);
    // The node of before is still there.
    assert_int_equal(or_kv_sequence_accept(s, (uint32_t[]){0}, 1), OR_OK);
    assert_int_equal(or_kv_sequence_length(s), 4);
    close_demo(&demo);
}

static void context_and_pages_run_out_cleanly(void **state)
{
    (void)state;
    demo_t demo = {0};
    open_demo(&demo, 50, 0);
    assert_int_equal(forward(&demo, 49), OR_OK);
    assert_int_equal(forward(&demo, 2), OR_ERR_FULL);
    const or_model_row_t nodes[] = {{demo.sequence, 5, 0, OR_KV_NO_SLOT}, {demo.sequence, 5, 1, 0}};
    assert_int_equal(or_model_forward(demo.model, nodes, 2), OR_ERR_FULL);
    assert_int_equal(forward(&demo, 1), OR_OK);
    assert_int_equal(or_kv_sequence_length(demo.sequence), 50);
    close_demo(&demo);

    open_demo(&demo, 512, 2);
    assert_int_equal(forward(&demo, 40), OR_OK);
    assert_int_equal(forward(&demo, 25), OR_ERR_FULL);
    assert_int_equal(forward(&demo, 24), OR_OK);
    assert_int_equal(or_kv_sequence_length(demo.sequence), 64);
    close_demo(&demo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tiny_model_loads),
        cmocka_unit_test(tensors_must_fit),
        cmocka_unit_test(what_the_file_leaves_out_is_as_usual),
        cmocka_unit_test(rope_factors_must_make_sense),
        cmocka_unit_test(windows_lie_where_the_family_has_them),
        cmocka_unit_test(heads_must_not_turn_too_far),
        cmocka_unit_test(metadata_must_make_sense),
        cmocka_unit_test(options_must_make_sense),
        cmocka_unit_test(a_damaged_header_is_survived),
        cmocka_unit_test(a_bad_row_changes_nothing),
        cmocka_unit_test(context_and_pages_run_out_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
