// Goal: layers whose weights come over from the host in every pass give the same bits, wherever the device has them
// meanwhile; as many stay on it as find room; and what fails there costs a sentence.
// Method: a made model of layers of two types and sizes. The same random passes go to the CPU and to a GPU with any
// number of layers away; all logits, and K and V, are compared by memcmp. The emulated device fetches as early
// and as late as it may. Its memory is cut until not even the buffers fit, or another program takes some of it in the
// middle of a load; and each call that a life with such layers makes fails once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/gpu/gpu.h"
#include "tests/model/model_fixture.h"

#define LAYERS 5u
#define WIDTH 64u
#define HEADS 4u
#define KV_HEADS 2u
#define KV_WIDTH (WIDTH / HEADS * KV_HEADS)
#define FFN 96u
#define VOCAB 64u
#define CONTEXT 128u
#define SLOTS 4u
#define ROWS_MOST 6u
#define LENGTH_MOST 10u
#define PAGES 6u
#define SCALE_OF_WEIGHTS 0x2800u // 2^-5 as a half

static char model_path[] = "/tmp/model_layers_test.XXXXXX";

// ---- the model ----

static const struct {
    const char *name; // after "blk.<layer>."
    uint32_t inputs, outputs;
} layer_tensors[] = {
    {"attn_norm.weight", WIDTH, 1},       {"attn_q.weight", WIDTH, WIDTH},
    {"attn_k.weight", WIDTH, KV_WIDTH},   {"attn_v.weight", WIDTH, KV_WIDTH},
    {"attn_output.weight", WIDTH, WIDTH}, {"ffn_norm.weight", WIDTH, 1},
    {"ffn_gate.weight", WIDTH, FFN},      {"ffn_up.weight", WIDTH, FFN},
    {"ffn_down.weight", FFN, WIDTH},
};
#define LAYER_TENSORS (sizeof layer_tensors / sizeof layer_tensors[0])

// One layer is four times as large as the others.
static or_tensor_type_t type_of(uint32_t layer, uint32_t outputs)
{
    return layer == 1 || outputs == 1 ? OR_TENSOR_F32 : OR_TENSOR_Q8_0;
}

static void put_metadata(test_gguf_t *file)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", CONTEXT},     {"llama.block_count", LAYERS},
        {"llama.embedding_length", WIDTH},     {"llama.feed_forward_length", FFN},
        {"llama.attention.head_count", HEADS}, {"llama.attention.head_count_kv", KV_HEADS},
    };
    test_gguf_put_string_entry(file, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        test_gguf_put_u32_entry(file, numbers[i].key, numbers[i].value);
    }
    float epsilon = 1e-5f;
    test_gguf_put_key(file, "llama.attention.layer_norm_rms_epsilon", OR_GGUF_F32);
    test_gguf_put(file, &epsilon, sizeof epsilon);
}

static size_t tensor_bytes(uint32_t inputs, uint32_t outputs, or_tensor_type_t type)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    return (size_t)inputs * outputs / block.elements * block.bytes;
}

static void put_head(test_gguf_t *file, const char *name, uint32_t outputs, uint32_t layer,
                     uint64_t *offset)
{
    or_tensor_type_t type = type_of(layer, outputs);
    test_gguf_put_tensor(file, name, WIDTH, outputs, type, *offset);
    *offset += tensor_bytes(WIDTH, outputs, type);
}

static void put_layer(test_gguf_t *file, uint32_t layer, uint64_t *offset)
{
    for (size_t i = 0; i < LAYER_TENSORS; i++) {
        char name[64];
        uint32_t inputs = layer_tensors[i].inputs, outputs = layer_tensors[i].outputs;
        or_tensor_type_t type = type_of(layer, outputs);
        snprintf(name, sizeof name, "blk.%u.%s", layer, layer_tensors[i].name);
        test_gguf_put_tensor(file, name, inputs, outputs, type, *offset);
        *offset += tensor_bytes(inputs, outputs, type);
    }
}

static void put_numbers(test_gguf_t *file, uint64_t *rng, uint32_t inputs, uint32_t outputs,
                        or_tensor_type_t type)
{
    size_t count = (size_t)inputs * outputs;
    for (size_t i = 0; i < count; i++) {
        const uint16_t scale = SCALE_OF_WEIGHTS;
        const int8_t quant = (int8_t)((int32_t)test_below(rng, 15) - 7);
        const float weight = (outputs == 1 ? 1.0f : 0.0f) + (float)quant / 32.0f;
        if (type == OR_TENSOR_F32) {
            test_gguf_put(file, &weight, sizeof weight);
            continue;
        }
        if (i % 32 == 0) {
            test_gguf_put(file, &scale, sizeof scale);
        }
        test_gguf_put(file, &quant, sizeof quant);
    }
}

static void make_model(const char *path)
{
    test_gguf_t file;
    uint64_t offset = 0;
    uint64_t rng = test_seed();
    test_gguf_init(&file, 3, LAYERS * LAYER_TENSORS + 3, 8);
    put_metadata(&file);
    put_head(&file, "token_embd.weight", VOCAB, 1, &offset);
    put_head(&file, "output_norm.weight", 1, 0, &offset);
    put_head(&file, "output.weight", VOCAB, 0, &offset);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        put_layer(&file, layer, &offset);
    }
    test_gguf_pad(&file, 32); // all tensors are multiples of that
    put_numbers(&file, &rng, WIDTH, VOCAB, type_of(1, VOCAB));
    put_numbers(&file, &rng, WIDTH, 1, OR_TENSOR_F32);
    put_numbers(&file, &rng, WIDTH, VOCAB, type_of(0, VOCAB));
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < LAYER_TENSORS; i++) {
            put_numbers(&file, &rng, layer_tensors[i].inputs, layer_tensors[i].outputs,
                        type_of(layer, layer_tensors[i].outputs));
        }
    }
    test_gguf_save(&file, path);
    test_gguf_fini(&file);
}

// ---- passes ----

typedef struct {
    model_fixture_t cpu;
    model_fixture_t gpu;
    or_kv_sequence_t *cpu_text;
    or_kv_sequence_t *gpu_text;
    uint64_t rng;
    float *cpu_logits; // [ROWS_MOST][VOCAB]
    float *gpu_logits;
} twins_t;

static or_model_options_t options_on(const or_gpu_choice_t *gpu)
{
    return (or_model_options_t){.threads = 1,
                                .rows_max = ROWS_MOST,
                                .pages_max = PAGES,
                                .sequences_max = 1,
                                .slots_max = SLOTS,
                                .gpu = gpu};
}

static void open_twins(twins_t *twins, const or_gpu_choice_t *choice)
{
    *twins = (twins_t){.rng = test_seed()};
    model_fixture_open(&twins->cpu, model_path, NULL, options_on(NULL));
    model_fixture_open(&twins->gpu, model_path, NULL, options_on(choice));
    twins->cpu_text = model_fixture_sequence(&twins->cpu, SLOTS);
    twins->gpu_text = model_fixture_sequence(&twins->gpu, SLOTS);
    twins->cpu_logits = test_alloc((size_t)ROWS_MOST * VOCAB, sizeof(float));
    twins->gpu_logits = test_alloc((size_t)ROWS_MOST * VOCAB, sizeof(float));
}

static void close_twins(twins_t *twins)
{
    free(twins->gpu_logits);
    free(twins->cpu_logits);
    or_kv_sequence_close(&twins->gpu_text);
    or_kv_sequence_close(&twins->cpu_text);
    model_fixture_close(&twins->gpu);
    model_fixture_close(&twins->cpu);
}

// Some of a text, and a tree behind it of which a path is accepted.
static void run_pass(twins_t *twins)
{
    or_model_row_t rows[ROWS_MOST];
    uint32_t parents[SLOTS];
    uint32_t prefix = (uint32_t)test_below(&twins->rng, ROWS_MOST - SLOTS + 1);
    uint32_t nodes = (uint32_t)test_below(&twins->rng, SLOTS) + 1;
    for (uint32_t i = 0; i < prefix + nodes; i++) {
        uint32_t node = i - prefix;
        int32_t token = (int32_t)test_below(&twins->rng, VOCAB);
        rows[i] = prefix_row(twins->cpu_text, token);
        if (i >= prefix) {
            bool root = node == 0 || test_below(&twins->rng, 4) == 0;
            parents[node] = root ? OR_KV_NO_SLOT : (uint32_t)test_below(&twins->rng, node);
            rows[i] = tree_row(twins->cpu_text, token, node, parents[node]);
        }
    }
    model_fixture_pass(&twins->cpu, rows, prefix + nodes, twins->cpu_logits);
    for (uint32_t i = 0; i < prefix + nodes; i++) {
        rows[i].sequence = twins->gpu_text;
    }
    model_fixture_pass(&twins->gpu, rows, prefix + nodes, twins->gpu_logits);
    assert_same_bits(twins->gpu_logits, twins->cpu_logits, (size_t)(prefix + nodes) * VOCAB);

    uint32_t root = nodes - 1;
    while (parents[root] != OR_KV_NO_SLOT) {
        root = parents[root];
    }
    assert_int_equal(or_kv_sequence_accept(twins->cpu_text, &root, 1), OR_OK);
    assert_int_equal(or_kv_sequence_accept(twins->gpu_text, &root, 1), OR_OK);
    if (or_kv_sequence_length(twins->cpu_text) > LENGTH_MOST) {
        or_kv_sequence_truncate(twins->cpu_text, LENGTH_MOST / 2);
        or_kv_sequence_truncate(twins->gpu_text, LENGTH_MOST / 2);
    }
}

static or_gpu_choice_t with_away(uint32_t host_layers)
{
    return (or_gpu_choice_t){.functions = or_gpu_functions(), .host_layers = host_layers};
}

// All is as on the CPU; returns what is where.
static or_model_memory_t live(const or_gpu_choice_t *choice, uint32_t passes)
{
    twins_t twins;
    open_twins(&twins, choice);
    for (uint32_t i = 0; i < passes; i++) {
        run_pass(&twins);
    }
    assert_same_kv(&twins.cpu, twins.gpu_text, twins.cpu_text);
    or_model_memory_t memory = or_model_memory(twins.gpu.model);
    close_twins(&twins);
    return memory;
}

static void any_number_of_layers_is_away(void **state)
{
    (void)state;
    uint64_t away_before = 0;
    for (uint32_t away = 0; away <= LAYERS; away++) {
        const or_gpu_choice_t choice = with_away(away);
        or_model_memory_t memory = live(&choice, test_runs(away == 0 ? 1 : 4));
        assert_int_equal(memory.layers, LAYERS);
        assert_int_equal(memory.host_layers, away);
        assert_true(memory.host_weights >= away_before && memory.host_weights < memory.weights);
        assert_true((away == 0) == (memory.host_weights == 0));
        away_before = memory.host_weights;
    }
    const or_gpu_choice_t more = with_away(LAYERS + 1);
    assert_int_equal(live(&more, 0).host_layers, LAYERS);
}

// ---- room ----

static void limit_memory(uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    setenv("OR_EMULATED_MEMORY", text, 1);
}

static bool is_emulated(void)
{
    or_cuda_description_t device;
    assert_int_equal(or_gpu_functions()->describe(0, &device), OR_CUDA_OK);
    return strstr(device.name, "emulated") != NULL;
}

// UINT32_MAX where the model cannot be loaded, and says why.
static uint32_t load_within(uint64_t bytes, const or_gpu_choice_t *choice)
{
    const or_model_options_t options = options_on(choice);
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    limit_memory(bytes);
    assert_int_equal(or_gguf_open(model_path, &gguf), OR_OK);
    or_status_t status = or_model_load(gguf, &options, &model);
    uint32_t away = UINT32_MAX;
    if (status == OR_OK) {
        away = or_model_memory(model).host_layers;
    } else {
        assert_int_equal(status, OR_ERR_NO_MEMORY);
        assert_non_null(strstr(or_error_text(), "memory"));
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return away;
}

static uint32_t layers_away_within(uint64_t bytes)
{
    const or_gpu_choice_t choice = with_away(OR_GPU_LAYERS_FIT);
    return load_within(bytes, &choice);
}

static int forget_limit(void **state)
{
    (void)state;
    return unsetenv("OR_EMULATED_MEMORY");
}

// With less and less memory more and more are away, and where all are, it may be too little for the rest. One or
// two would save nothing: there are two buffers.
static void as_many_stay_as_find_room(void **state)
{
    (void)state;
    if (!is_emulated()) {
        skip();
    }
    bool seen[LAYERS + 1] = {false};
    uint32_t before = 0;
    for (uint64_t bytes = 8u << 20; before != UINT32_MAX; bytes -= bytes / 128) {
        uint32_t away = layers_away_within(bytes);
        assert_true(away >= before);
        if (away != UINT32_MAX && !seen[away]) {
            const or_gpu_choice_t choice = with_away(OR_GPU_LAYERS_FIT);
            assert_int_equal(live(&choice, 1).host_layers, away);
            seen[away] = true;
        }
        before = away;
    }
    assert_true(seen[0] && !seen[1] && seen[3] && seen[LAYERS]);
}

// ---- another program ----

static or_cuda_t *others_device;
static void *others_memory;
static uint64_t others_bytes;
static uint32_t opens, allocs;
static uint32_t allocs_before; // the other program takes its memory

static int alloc_beside_another(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    if (allocs++ == allocs_before) {
        assert_int_equal(or_gpu_functions()->alloc(others_device, others_bytes, &others_memory),
                         OR_CUDA_OK);
    }
    return or_gpu_functions()->alloc(cuda, bytes, at_p);
}

static int count_open(uint32_t index, or_cuda_t **cuda_p)
{
    opens++;
    return or_gpu_functions()->open(index, cuda_p);
}

static or_gpu_choice_t beside_another(uint32_t when)
{
    static or_gpu_functions_t functions;
    functions = *or_gpu_functions();
    functions.open = count_open;
    functions.alloc = alloc_beside_another;
    opens = allocs = 0;
    allocs_before = when;
    return (or_gpu_choice_t){.functions = &functions, .host_layers = OR_GPU_LAYERS_FIT};
}

// The least memory with which so many layers are away, or fewer.
static uint64_t least_bytes(uint32_t away)
{
    uint64_t few = 0;
    uint64_t enough = 8u << 20;
    while (enough - few > enough / 128) {
        uint64_t middle = few + (enough - few) / 2;
        bool is_enough = layers_away_within(middle) <= away;
        few = is_enough ? few : middle;
        enough = is_enough ? middle : enough;
    }
    return enough;
}

// Whenever it comes, as many layers are away as with what it leaves, if the load does not find room beside it.
static void a_load_beside_another_makes_do_with_the_rest(void **state)
{
    (void)state;
    if (!is_emulated()) {
        skip();
    }
    uint64_t all = least_bytes(0);
    or_gpu_choice_t choice = beside_another(UINT32_MAX);
    limit_memory(all);
    assert_int_equal(live(&choice, 0).host_layers, 0);
    uint32_t calls = allocs;
    others_bytes = all - least_bytes(LAYERS);
    uint32_t away = layers_away_within(all - others_bytes);
    assert_in_range(away, 1, LAYERS);
    assert_int_equal(or_gpu_functions()->open(0, &others_device), OR_CUDA_OK);
    limit_memory(all);
    uint32_t planned_again = 0;
    for (uint32_t when = 0; when < calls; when += 5) {
        choice = beside_another(when);
        uint32_t found = live(&choice, 1).host_layers;
        assert_true(found == away || found == 0);
        planned_again += opens > 1;
        or_gpu_functions()->free(others_device, others_memory);
    }
    assert_true(planned_again > 0);
    or_gpu_functions()->close(&others_device);
}

// If nobody else took any memory, a load that failed would fail again.
static void a_load_without_room_is_tried_once(void **state)
{
    (void)state;
    if (!is_emulated()) {
        skip();
    }
    uint64_t least = least_bytes(LAYERS);
    const or_gpu_choice_t choice = beside_another(UINT32_MAX);
    assert_int_equal(load_within(least / 2, &choice), UINT32_MAX);
    assert_int_equal(opens, 1);
}

// ---- failures ----

#define BROKEN 99

static uint32_t calls_left; // that go well

static bool goes_well(void)
{
    calls_left -= calls_left > 0;
    return calls_left > 0;
}

static int alloc_pinned_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc_pinned(cuda, bytes, at_p) : BROKEN;
}

static int fetch_or_not(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return goes_well() ? or_gpu_functions()->fetch(cuda, to, from, bytes) : BROKEN;
}

static int hold_fetches_or_not(or_cuda_t *cuda)
{
    return goes_well() ? or_gpu_functions()->hold_fetches(cuda) : BROKEN;
}

static int await_fetches_or_not(or_cuda_t *cuda)
{
    return goes_well() ? or_gpu_functions()->await_fetches(cuda) : BROKEN;
}

// Load, and two passes with their logits.
static or_status_t live_or_not(const or_gpu_functions_t *functions, const or_gguf_t *gguf)
{
    const or_gpu_choice_t choice = {.functions = functions, .host_layers = 3};
    const or_model_options_t options = options_on(&choice);
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    float logits[VOCAB];
    or_status_t status = or_model_load(gguf, &options, &model);
    if (status != OR_OK) {
        return status;
    }
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    for (uint32_t i = 0; status == OR_OK && i < 2; i++) {
        const or_model_row_t row = prefix_row(sequence, 1);
        status = or_model_forward(model, &row, 1);
        status = status != OR_OK ? status : or_model_logits(model, 0, 1, logits);
    }
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    return status;
}

// Until none fails; returns how often it was said why.
static uint32_t fail_at_every_call(const or_gpu_functions_t *functions, or_status_t expected,
                                   const char *why)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(model_path, &gguf), OR_OK);
    or_status_t status = expected;
    uint32_t said = 0;
    for (uint32_t n = 1; status != OR_OK; n++) {
        calls_left = n;
        status = live_or_not(functions, gguf);
        assert_true(status == OR_OK || status == expected);
        said += status != OR_OK && strstr(or_error_text(), why) != NULL;
    }
    or_gguf_close(&gguf);
    return said;
}

static void pinned_memory_runs_out(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc_pinned = alloc_pinned_or_not;
    assert_true(fail_at_every_call(&functions, OR_ERR_NO_MEMORY, "its last 3 of 5 layers") >=
                3 * 7);
}

static void fetches_fail(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.fetch = fetch_or_not;
    functions.hold_fetches = hold_fetches_or_not;
    functions.await_fetches = await_fetches_or_not;
    assert_true(fail_at_every_call(&functions, OR_ERR_IO, "the GPU: ") >= 3 * 7);
}

int main(void)
{
    fixture_need_gpu();
    int fd = mkstemp(model_path);
    if (fd < 0) {
        perror(model_path);
        return EXIT_FAILURE;
    }
    close(fd);
    make_model(model_path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_layers_is_away),
        cmocka_unit_test_teardown(as_many_stay_as_find_room, forget_limit),
        cmocka_unit_test_teardown(a_load_beside_another_makes_do_with_the_rest, forget_limit),
        cmocka_unit_test_teardown(a_load_without_room_is_tried_once, forget_limit),
        cmocka_unit_test(pinned_memory_runs_out),
        cmocka_unit_test(fetches_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(model_path);
    return failed;
}
