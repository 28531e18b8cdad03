// Goal: a model writes the same bits on a GPU as on the CPU, whatever happens to its texts.
// Method: two models of the same file, one on either, get the same random passes (prefix rows and trees of two
// sequences, mixed) and between them the same random events. All logits of each pass, and in the end K and V,
// are compared by memcmp. Run by the emulated kernels everywhere, and by a GPU where there is one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"
#include "tests/support/requantize.h"

#define TEXTS 2u
#define SLOTS 24u
#define BEGINNING 40u
#define PREFIX_MOST 16u
#define NODES_MOST 10u
#define ROWS_MOST (TEXTS * (PREFIX_MOST + NODES_MOST))
#define LENGTH_MOST 90u
#define PAGES 4u // too few for two texts of that length that share little

// A text in both models, and what its slots hold.
typedef struct {
    or_kv_sequence_t *cpu;
    or_kv_sequence_t *gpu;
    bool live[SLOTS];
    uint32_t parents[SLOTS]; // OR_KV_NO_SLOT: none
    uint32_t newest;
} text_t;

typedef struct {
    model_fixture_t cpu;
    model_fixture_t gpu;
    uint64_t rng;
    uint32_t prefix_most; // rows of a text in a pass
    uint32_t nodes_most;
    text_t texts[TEXTS];
    float *cpu_logits; // [ROWS_MOST][vocab_size]
    float *gpu_logits;
} twins_t;

static uint32_t below(twins_t *twins, uint32_t n)
{
    return (uint32_t)test_below(&twins->rng, n);
}

static or_gpu_choice_t first_gpu(void)
{
    return (or_gpu_choice_t){.functions = or_gpu_functions()};
}

// ---- slots ----

static void forget_slots(text_t *text)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        text->live[i] = false;
    }
}

// A slot that is live, or is not, at random; OR_KV_NO_SLOT if there is none.
static uint32_t pick_slot(twins_t *twins, const text_t *text, bool live)
{
    uint32_t first = below(twins, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t slot = (first + i) % SLOTS;
        if (text->live[slot] == live) {
            return slot;
        }
    }
    return OR_KV_NO_SLOT;
}

static bool has_child(const text_t *text, uint32_t slot)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (text->live[i] && text->parents[i] == slot) {
            return true;
        }
    }
    return false;
}

// The slots from the root to a random node, or the first of them; returns how many.
static uint32_t pick_path(twins_t *twins, const text_t *text, uint32_t *path)
{
    uint32_t depth = 0;
    uint32_t node = pick_slot(twins, text, true);
    for (uint32_t i = node; i != OR_KV_NO_SLOT; i = text->parents[i]) {
        depth++;
    }
    for (uint32_t i = node, at = depth; i != OR_KV_NO_SLOT; i = text->parents[i]) {
        path[--at] = i;
    }
    return below(twins, 3) > 0 ? depth : below(twins, depth + 1);
}

static bool descends_from(const text_t *text, uint32_t slot, uint32_t root)
{
    uint32_t i = text->parents[slot];
    while (i != OR_KV_NO_SLOT && i != root) {
        i = text->parents[i];
    }
    return i == root;
}

static void keep_descendants(text_t *text, uint32_t root)
{
    bool stay[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        stay[i] = text->live[i] && descends_from(text, i, root);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        text->live[i] = stay[i];
        text->parents[i] = text->parents[i] == root ? OR_KV_NO_SLOT : text->parents[i];
    }
}

// ---- events between passes ----

static void accept_some(twins_t *twins, text_t *text, bool keeps_rest)
{
    uint32_t path[SLOTS];
    uint32_t count = pick_path(twins, text, path);
    or_status_t (*accept)(or_kv_sequence_t *, const uint32_t *, uint32_t) =
        keeps_rest ? or_kv_sequence_accept_root : or_kv_sequence_accept;
    or_status_t status = accept(text->cpu, path, count);
    assert_int_equal(accept(text->gpu, path, count), status);
    if (status != OR_OK) {
        assert_int_equal(status, OR_ERR_FULL);
    } else if (!keeps_rest) {
        forget_slots(text);
    } else if (count > 0) {
        keep_descendants(text, path[count - 1]);
    }
}

static void drop_some(twins_t *twins, text_t *text)
{
    uint32_t slot = pick_slot(twins, text, true);
    if (slot == OR_KV_NO_SLOT || has_child(text, slot)) {
        or_kv_sequence_drop_slots(text->cpu);
        or_kv_sequence_drop_slots(text->gpu);
        forget_slots(text);
    } else {
        or_kv_sequence_drop_slot(text->cpu, slot);
        or_kv_sequence_drop_slot(text->gpu, slot);
        text->live[slot] = false;
    }
}

static void cut(text_t *text, uint32_t length)
{
    or_kv_sequence_truncate(text->cpu, length);
    or_kv_sequence_truncate(text->gpu, length);
    forget_slots(text);
}

// Most of what a text has.
static uint32_t most_of(twins_t *twins, const text_t *text)
{
    uint32_t length = or_kv_sequence_length(text->cpu);
    uint32_t less = below(twins, 16);
    return length > less ? length - less : 0;
}

static void share(twins_t *twins, text_t *text, const text_t *donor)
{
    uint32_t length = most_of(twins, donor);
    or_kv_sequence_share(text->cpu, donor->cpu, length);
    or_kv_sequence_share(text->gpu, donor->gpu, length);
    forget_slots(text);
}

static void open_text(twins_t *twins, text_t *text)
{
    text->cpu = model_fixture_sequence(&twins->cpu, SLOTS);
    text->gpu = model_fixture_sequence(&twins->gpu, SLOTS);
    forget_slots(text);
}

static void close_text(text_t *text)
{
    or_kv_sequence_close(&text->cpu);
    or_kv_sequence_close(&text->gpu);
}

static void something_happens(twins_t *twins, text_t *text, const text_t *other)
{
    uint32_t what = below(twins, 20);
    if (what == 0) {
        close_text(text);
        open_text(twins, text);
    } else if (what < 4) {
        share(twins, text, other);
    } else if (what < 6 || or_kv_sequence_length(text->cpu) > LENGTH_MOST) {
        cut(text, most_of(twins, text));
    } else if (what < 8) {
        drop_some(twins, text);
    } else if (what < 12) {
        accept_some(twins, text, true);
    } else if (what < 18) {
        accept_some(twins, text, false);
    }
    assert_int_equal(or_kv_sequence_length(text->cpu), or_kv_sequence_length(text->gpu));
    assert_int_equal(or_kv_cache_pages_unused(or_model_cache(twins->cpu.model)),
                     or_kv_cache_pages_unused(or_model_cache(twins->gpu.model)));
}

// ---- passes ----

// The same row for both models.
static void add_row(const text_t *text, or_model_row_t row, or_model_row_t *cpu,
                    or_model_row_t *gpu)
{
    *cpu = row;
    *gpu = row;
    cpu->sequence = text->cpu;
    gpu->sequence = text->gpu;
}

// A node in a free slot, below any other or none; nothing if all slots are taken.
static uint32_t add_node(twins_t *twins, text_t *text, int32_t token, or_model_row_t *cpu,
                         or_model_row_t *gpu)
{
    bool goes_on = text->live[text->newest] && below(twins, 2) == 0;
    uint32_t parent = goes_on ? text->newest : pick_slot(twins, text, true);
    parent = below(twins, 6) > 0 ? parent : OR_KV_NO_SLOT;
    uint32_t slot = pick_slot(twins, text, false);
    if (slot == OR_KV_NO_SLOT) {
        return 0;
    }
    add_row(text, tree_row(NULL, token, slot, parent), cpu, gpu);
    text->live[slot] = true;
    text->parents[slot] = parent;
    text->newest = slot;
    return 1;
}

// Rows of both texts, in any order but that parents come before their children; at least one.
static uint32_t choose_rows(twins_t *twins, or_model_row_t *cpu, or_model_row_t *gpu)
{
    uint32_t prefix[TEXTS];
    uint32_t left[TEXTS];
    for (uint32_t t = 0; t < TEXTS; t++) {
        prefix[t] = below(twins, 3) > 0 ? below(twins, twins->prefix_most + 1) : t;
        left[t] = prefix[t] + (below(twins, 3) > 0 ? below(twins, twins->nodes_most + 1) : 0);
        if (prefix[t] > 0) {
            forget_slots(&twins->texts[t]);
        }
    }
    uint32_t count = 0;
    while (left[0] + left[1] > 0) {
        uint32_t t = left[0] == 0 || (left[1] > 0 && below(twins, 2) == 0) ? 1 : 0;
        int32_t token = (int32_t)below(twins, twins->cpu.vocab_size);
        if (below(twins, left[t]--) < prefix[t]) {
            prefix[t]--;
            add_row(&twins->texts[t], prefix_row(NULL, token), &cpu[count], &gpu[count]);
            count++;
        } else {
            count += add_node(twins, &twins->texts[t], token, &cpu[count], &gpu[count]);
        }
    }
    return count;
}

static void compare_logits(twins_t *twins, uint32_t count)
{
    uint32_t first = below(twins, count);
    uint32_t rows = 1 + below(twins, count - first);
    assert_int_equal(or_model_logits(twins->cpu.model, first, rows, twins->cpu_logits), OR_OK);
    assert_int_equal(or_model_logits(twins->gpu.model, first, rows, twins->gpu_logits), OR_OK);
    assert_same_bits(twins->gpu_logits, twins->cpu_logits, (size_t)rows * twins->cpu.vocab_size);
}

// If pages run out both fail, and are as before.
static void run_pass(twins_t *twins)
{
    or_model_row_t cpu[ROWS_MOST];
    or_model_row_t gpu[ROWS_MOST];
    text_t before[TEXTS] = {twins->texts[0], twins->texts[1]};
    uint32_t count = choose_rows(twins, cpu, gpu);
    if (count == 0) {
        return;
    }
    or_status_t status = or_model_forward(twins->cpu.model, cpu, count);
    assert_int_equal(or_model_forward(twins->gpu.model, gpu, count), status);
    if (status == OR_OK) {
        compare_logits(twins, count);
        return;
    }
    assert_int_equal(status, OR_ERR_FULL);
    for (uint32_t t = 0; t < TEXTS; t++) {
        twins->texts[t] = before[t];
    }
}

// Long enough for pages to be shared, which they are.
static void begin_texts(twins_t *twins)
{
    text_t *text = &twins->texts[0];
    int32_t tokens[BEGINNING];
    random_tokens(&twins->rng, twins->cpu.vocab_size, tokens, BEGINNING);
    model_fixture_prefill(&twins->cpu, text->cpu, tokens, BEGINNING, ROWS_MOST, NULL);
    model_fixture_prefill(&twins->gpu, text->gpu, tokens, BEGINNING, ROWS_MOST, NULL);
    share(twins, &twins->texts[1], text);
}

// ---- the tests ----

static void open_twins(twins_t *twins, const char *path, or_kv_type_t key_type,
                       or_kv_type_t value_type)
{
    static uint64_t opened; // so that no two go the same way
    const or_gpu_choice_t choice = first_gpu();
    or_model_options_t options = {.threads = 1,
                                  .rows_max = ROWS_MOST,
                                  .pages_max = PAGES,
                                  .window_slack = 1,
                                  .cache_type_k = key_type,
                                  .cache_type_v = value_type};
    *twins = (twins_t){
        .rng = test_seed() + opened++, .prefix_most = PREFIX_MOST, .nodes_most = NODES_MOST};
    model_fixture_open(&twins->cpu, path, NULL, options);
    options.gpu = &choice;
    model_fixture_open(&twins->gpu, path, NULL, options);
    assert_string_equal(or_model_kernels(twins->gpu.model), "cuda");
    assert_string_equal(or_model_arith_id(twins->gpu.model), or_model_arith_id(twins->cpu.model));
    size_t floats = (size_t)ROWS_MOST * twins->cpu.vocab_size;
    twins->cpu_logits = test_alloc(floats, sizeof(float));
    twins->gpu_logits = test_alloc(floats, sizeof(float));
    for (uint32_t t = 0; t < TEXTS; t++) {
        open_text(twins, &twins->texts[t]);
    }
    begin_texts(twins);
}

static void close_twins(twins_t *twins)
{
    for (uint32_t t = 0; t < TEXTS; t++) {
        close_text(&twins->texts[t]);
    }
    free(twins->gpu_logits);
    free(twins->cpu_logits);
    model_fixture_close(&twins->gpu);
    model_fixture_close(&twins->cpu);
}

static void live(twins_t *twins, uint32_t passes)
{
    for (uint32_t i = 0; i < passes; i++) {
        run_pass(twins);
        for (uint32_t t = 0; t < TEXTS; t++) {
            something_happens(twins, &twins->texts[t], &twins->texts[1 - t]);
        }
    }
    for (uint32_t t = 0; t < TEXTS; t++) {
        assert_same_kv(&twins->cpu, twins->texts[t].gpu, twins->texts[t].cpu);
    }
}

static void check_mix(const char *path, or_kv_type_t key_type, or_kv_type_t value_type,
                      uint32_t passes)
{
    twins_t twins;
    open_twins(&twins, path, key_type, value_type);
    live(&twins, passes);
    close_twins(&twins);
}

static void check(const char *path, or_kv_type_t type, uint32_t passes)
{
    check_mix(path, type, type, passes);
}

static void check_type(const char *model, or_tensor_type_t type, uint32_t passes)
{
    char *path = test_requantize(test_model(model), type);
    check(path, OR_KV_F32, passes);
    free(path);
}

static void the_bits_are_the_same(void **state)
{
    (void)state;
    check(test_model("tales-1m-f16.gguf"), OR_KV_F32, test_runs(30));
}

static void the_bits_of_halves_are_the_same(void **state)
{
    (void)state;
    check(test_model("tales-1m-f16.gguf"), OR_KV_F16, test_runs(10));
}

static void the_bits_of_quantised_keys_and_values_are_the_same(void **state)
{
    (void)state;
    check(test_model("tales-1m-f16.gguf"), OR_KV_Q8_0, test_runs(8));
    check_mix("tests/model/data/qwen2-14-heads-q8_0.gguf", OR_KV_Q8_0, OR_KV_F16, test_runs(3));
    check_mix("tests/model/data/llama3-mixed.gguf", OR_KV_F32, OR_KV_Q8_0, test_runs(3));
}

static void the_bits_of_quantised_weights_are_the_same(void **state)
{
    (void)state;
    check_type("tales-1m-f16.gguf", OR_TENSOR_Q8_0, test_runs(15));
    check_type("tales-1m-f16.gguf", OR_TENSOR_Q4_0, test_runs(5));
    check_type("tales-6m-f16.gguf", OR_TENSOR_Q4_K, test_runs(1));
}

static void the_bits_of_other_graphs_are_the_same(void **state)
{
    (void)state;
    check("tests/model/data/llama3-mixed.gguf", OR_KV_F32, test_runs(5));
    check("tests/model/data/llama-linear-bf16.gguf", OR_KV_F16, test_runs(5));
    check("tests/model/data/qwen2-14-heads-q8_0.gguf", OR_KV_F32, test_runs(5));
    check("tests/model/data/qwen2-bf16.gguf", OR_KV_F32, test_runs(5));
}

// Windows are so short that texts give up frames, of which there are as many as pages.
static void the_bits_of_windows_are_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-oss/0", "gemma4/0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = family_file_make_with(names[i], ".sliding_window", 7);
        twins_t twins;
        open_twins(&twins, path, OR_KV_F32, OR_KV_Q8_0);
        assert_int_equal(or_kv_cache_frames(or_model_cache(twins.gpu.model)), PAGES);
        live(&twins, test_runs(10));
        close_twins(&twins);
        free(path);
    }
}

// ---- recorded steps ----

static uint64_t replays_of(const model_fixture_t *fixture)
{
    return fixture->model->gpu->steps.replays;
}

// Passes of a few sizes, while texts take other pages, slots and each other's places.
static void passes_that_come_again_are_replayed(void **state)
{
    (void)state;
    uint32_t passes = test_runs(25);
    twins_t twins;
    open_twins(&twins, test_model("tales-1m-f16.gguf"), OR_KV_F16, OR_KV_F16);
    twins.prefix_most = 1;
    twins.nodes_most = 2;
    live(&twins, passes);
    assert_true(passes < 20 || replays_of(&twins.gpu) >= passes / 3);
    close_twins(&twins);
}

// A model that cannot be loaded with these options, and why.
static void refuse(or_model_options_t options, or_status_t expected, const char *why)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), expected);
    assert_null(model);
    assert_non_null(strstr(or_error_text(), why));
    or_gguf_close(&gguf);
}

static void what_a_gpu_does_not_do_is_refused(void **state)
{
    (void)state;
    const or_gpu_choice_t choice = first_gpu();
    const or_gpu_choice_t none = {0};
    or_gpu_choice_t another = choice;
    another.index = choice.functions->count();
    refuse((or_model_options_t){.gpu = &none}, OR_ERR_UNSUPPORTED, "without CUDA");
    refuse((or_model_options_t){.gpu = &another}, OR_ERR_NOT_FOUND, "can be used here");
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same),
        cmocka_unit_test(the_bits_of_halves_are_the_same),
        cmocka_unit_test(the_bits_of_quantised_keys_and_values_are_the_same),
        cmocka_unit_test(the_bits_of_quantised_weights_are_the_same),
        cmocka_unit_test(the_bits_of_other_graphs_are_the_same),
        cmocka_unit_test(the_bits_of_windows_are_the_same),
        cmocka_unit_test(passes_that_come_again_are_replayed),
        cmocka_unit_test(what_a_gpu_does_not_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
