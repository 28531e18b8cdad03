// Goal: a rank holds its part of the weights and of the cache, leaves the file's pages alone once
// they are packed, and agrees with the others on the pages of the cache.
// Method: a model whose units divide by 8, loaded as each rank of worlds of 1 to 8 ranks and of some
// stages; exchanges only copy, which is enough for loading. Linux says what lies in memory.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/model.h"
#include "common/model/ranks/lockstep.h"
#include "common/model/ranks/ranks.h"
#include "tests/support/test_support.h"

#define LAYERS 4u
#define WIDTH 256u
#define HEADS 8u
#define HEAD_DIM (WIDTH / HEADS)
#define FFN 512u
#define VOCAB 2048u
#define RANKS_MAX 8
#define KV_POSITION_FLOATS (2u * WIDTH * LAYERS)

typedef struct {
    const char *name; // after "blk.<layer>." in a layer
    uint64_t columns, rows;
} shape_t;

static const shape_t layer_shapes[] = {
    {"attn_norm.weight", WIDTH, 1},       {"attn_q.weight", WIDTH, WIDTH},
    {"attn_k.weight", WIDTH, WIDTH},      {"attn_v.weight", WIDTH, WIDTH},
    {"attn_output.weight", WIDTH, WIDTH}, {"ffn_norm.weight", WIDTH, 1},
    {"ffn_gate.weight", WIDTH, FFN},      {"ffn_up.weight", WIDTH, FFN},
    {"ffn_down.weight", FFN, WIDTH},
};
#define LAYER_TENSORS (sizeof layer_shapes / sizeof layer_shapes[0])

static void put_metadata(test_gguf_t *file)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", 128},         {"llama.block_count", LAYERS},
        {"llama.embedding_length", WIDTH},     {"llama.feed_forward_length", FFN},
        {"llama.attention.head_count", HEADS},
    };
    test_gguf_put_string_entry(file, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        test_gguf_put_u32_entry(file, numbers[i].key, numbers[i].value);
    }
    float epsilon = 1e-5f;
    test_gguf_put_key(file, "llama.attention.layer_norm_rms_epsilon", OR_GGUF_F32);
    test_gguf_put(file, &epsilon, sizeof epsilon);
}

static void put_tensor(test_gguf_t *file, const char *name, const shape_t *shape,
                       or_tensor_type_t type, uint64_t *offset)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    or_tensor_type_t stored = shape->rows == 1 ? OR_TENSOR_F32 : type;
    test_gguf_put_tensor(file, name, shape->columns, shape->rows, stored, *offset);
    uint64_t bytes = shape->rows == 1 ? shape->columns * sizeof(float)
                                      : shape->columns * shape->rows / block.elements * block.bytes;
    *offset += (bytes + 31) / 32 * 32;
}

// A model of zeros, with a head of its own unless `tied`.
static void open_model(test_gguf_t *file, or_tensor_type_t type, bool tied, or_gguf_t **gguf_p)
{
    test_gguf_init(file, 3, LAYERS * LAYER_TENSORS + (tied ? 2 : 3), 7);
    put_metadata(file);
    const shape_t norm = {NULL, WIDTH, 1}, tokens = {NULL, WIDTH, VOCAB};
    uint64_t bytes = 0;
    put_tensor(file, "token_embd.weight", &tokens, type, &bytes);
    put_tensor(file, "output_norm.weight", &norm, type, &bytes);
    if (!tied) {
        put_tensor(file, "output.weight", &tokens, type, &bytes);
    }
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < LAYER_TENSORS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s", layer, layer_shapes[i].name);
            put_tensor(file, name, &layer_shapes[i], type, &bytes);
        }
    }
    test_gguf_pad(file, 32);
    static const unsigned char zeros[4096];
    for (uint64_t at = 0; at < bytes; at += sizeof zeros) {
        test_gguf_put(file, zeros, sizeof zeros);
    }
    assert_int_equal(test_gguf_open(file, gguf_p), OR_OK);
}

static or_status_t gather_copies(const or_ranks_t *ranks, const void *send, size_t bytes,
                                 void *recv)
{
    for (int i = 0; i < ranks->size * ranks->stages; i++) {
        memcpy((char *)recv + (size_t)i * bytes, send, bytes);
    }
    return OR_OK;
}

static or_status_t broadcast_nothing(const or_ranks_t *ranks, void *data, size_t bytes)
{
    (void)ranks, (void)data, (void)bytes;
    return OR_OK;
}

static or_ranks_t lone_rank(int rank, int size, int stage, int stages)
{
    return (or_ranks_t){.rank = rank,
                        .size = size,
                        .stage = stage,
                        .stages = stages,
                        .gather_world = gather_copies,
                        .broadcast = broadcast_nothing};
}

static or_model_memory_t load(const or_gguf_t *gguf, const or_ranks_t *ranks)
{
    or_model_t *model = NULL;
    or_model_options_t options = {.threads = 1, .rows_max = 8, .pages_max = 4, .ranks = ranks};
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    or_model_memory_t memory = or_model_memory(model);
    assert_int_equal(or_kv_cache_pages(or_model_cache(model)), 4);
    or_model_destroy(&model);
    return memory;
}

static void assert_about(uint64_t bytes, uint64_t expected)
{
    if (bytes * 100 > expected * 115 || bytes * 100 < expected * 85) {
        fail_msg("%" PRIu64 " bytes are not within 15 %% of %" PRIu64, bytes, expected);
    }
}

static void check_memory(or_tensor_type_t type)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, type, false, &gguf);
    or_model_memory_t alone = load(gguf, NULL);
    assert_int_equal(alone.cache, 4ull * OR_KV_PAGE * KV_POSITION_FLOATS * sizeof(float));
    for (int size = 2; size <= RANKS_MAX; size *= 2) {
        for (int rank = 0; rank < size; rank++) {
            or_ranks_t ranks = lone_rank(rank, size, 0, 1);
            or_model_memory_t memory = load(gguf, &ranks);
            assert_about(memory.weights, alone.weights / (uint64_t)size);
            assert_int_equal(memory.cache, alone.cache / (uint64_t)size);
            assert_int_equal(memory.slot, alone.slot / (uint64_t)size);
        }
    }
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void a_rank_holds_its_part(void **state)
{
    (void)state;
    check_memory(OR_TENSOR_F32);
    check_memory(OR_TENSOR_F16);
    check_memory(OR_TENSOR_Q8_0);
    check_memory(OR_TENSOR_Q4_0);
}

// Four layers and a head, tied or not, are shared out: a quarter of the layers each, and the head in the last.
static void check_stages(bool tied)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F16, tied, &gguf);
    or_model_memory_t alone = load(gguf, NULL);
    const uint64_t head = 2ull * WIDTH * VOCAB + sizeof(float) * WIDTH;
    for (int stage = 0; stage < (int)LAYERS; stage++) {
        or_ranks_t ranks = lone_rank(0, 1, stage, (int)LAYERS);
        or_model_memory_t memory = load(gguf, &ranks);
        bool last = stage + 1 == (int)LAYERS;
        assert_int_equal(memory.weights, (alone.weights - head) / LAYERS + (last ? head : 0));
        assert_int_equal(memory.cache, alone.cache / LAYERS);
    }
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void a_stage_holds_its_layers(void **state)
{
    (void)state;
    check_stages(false);
    check_stages(true);
}

// Return the bytes that this process has in memory of the mapping that `address` lies in.
static uint64_t resident_bytes(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[512];
    bool inside = false;
    uint64_t kib = UINT64_MAX;
    while (kib == UINT64_MAX && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
            inside = begin <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (inside) {
            sscanf(line, "Rss: %" SCNu64 " kB", &kib);
        }
    }
    fclose(maps);
    assert_true(kib != UINT64_MAX);
    return kib * 1024;
}

static void what_was_packed_is_given_back_to_the_file(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    const void *data = or_gguf_tensor(gguf, 0)->data;
    load(gguf, NULL);
    assert_in_range(resident_bytes(data), 0, or_gguf_file_bytes(gguf) / 8);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static or_status_t load_with(const or_gguf_t *gguf, const or_model_options_t *options,
                             uint32_t *pages)
{
    or_model_t *model = NULL;
    or_status_t status = or_model_load(gguf, options, &model);
    *pages = model != NULL ? or_kv_cache_pages(or_model_cache(model)) : 0;
    or_model_destroy(&model);
    return status;
}

// The bytes are those of all ranks of a stage: how many there are does not change the pages.
static void cache_bytes_are_those_of_a_stage(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    const uint64_t page = (uint64_t)OR_KV_PAGE * KV_POSITION_FLOATS * sizeof(float);
    or_ranks_t one = lone_rank(0, 1, 0, 1), eighth = lone_rank(3, 8, 0, 1);
    or_ranks_t half_of_layers = lone_rank(1, 2, 1, 2);
    or_model_options_t options = {
        .threads = 1, .rows_max = 1, .pages_max = 7, .cache_bytes = 3 * page + page / 2};
    uint32_t pages;
    const or_ranks_t *const worlds[] = {&one, &eighth};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        options.ranks = worlds[i];
        assert_int_equal(load_with(gguf, &options, &pages), OR_OK);
        assert_int_equal(pages, 3);
    }
    options.ranks = &half_of_layers;
    assert_int_equal(load_with(gguf, &options, &pages), OR_OK);
    assert_int_equal(pages, 7);
    options.ranks = &eighth;
    options.cache_bytes = page - 1;
    assert_int_equal(load_with(gguf, &options, &pages), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "not one page"));
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

// Another rank's room is the least.
static or_status_t gather_a_poorer_one(const or_ranks_t *ranks, const void *send, size_t bytes,
                                       void *recv)
{
    or_lockstep_card_t poorer;
    gather_copies(ranks, send, bytes, recv);
    if (bytes != sizeof poorer) { // who reads the file
        return OR_OK;
    }
    memcpy(&poorer, send, sizeof poorer);
    poorer.room = 2;
    memcpy((char *)recv + bytes, &poorer, sizeof poorer);
    return OR_OK;
}

static void the_rank_with_the_least_room_decides(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    or_ranks_t ranks = lone_rank(0, 2, 0, 1);
    ranks.gather_world = gather_a_poorer_one;
    or_model_options_t options = {.threads = 1, .rows_max = 1, .pages_max = 7, .ranks = &ranks};
    uint32_t pages;
    assert_int_equal(load_with(gguf, &options, &pages), OR_OK);
    assert_int_equal(pages, 2);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void only_the_leader_begins_a_pass(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    or_ranks_t worlds[] = {lone_rank(1, 2, 0, 1), lone_rank(0, 1, 1, 2)};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        or_model_t *model = NULL;
        or_kv_sequence_t *sequence = NULL;
        or_model_options_t options = {.threads = 1, .rows_max = 1, .ranks = &worlds[i]};
        assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
        assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
        const or_model_row_t row = {sequence, 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(model, &row, 1), OR_ERR_INVALID);
        assert_int_equal(or_kv_sequence_length(sequence), 0);
        or_kv_sequence_close(&sequence);
        or_model_destroy(&model);
    }
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void impossible_worlds_are_refused(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    const struct {
        or_ranks_t ranks;
        or_status_t status;
        const char *word;
    } worlds[] = {
        {lone_rank(0, 3, 0, 1), OR_ERR_UNSUPPORTED, "1, 2, 4 or 8"},
        {lone_rank(0, 1, 0, LAYERS + 1), OR_ERR_INVALID, "4 layers"},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        or_model_options_t options = {.threads = 1, .ranks = &worlds[i].ranks};
        uint32_t pages;
        assert_int_equal(load_with(gguf, &options, &pages), worlds[i].status);
        assert_non_null(strstr(or_error_text(), worlds[i].word));
    }
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void the_arithmetic_names_the_cache(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    open_model(&file, OR_TENSOR_F32, false, &gguf);
    const struct {
        or_kv_type_t k, v;
        const char *id;
    } cases[] = {
        {OR_KV_F32, OR_KV_F32, "canonical-2"},
        {OR_KV_F16, OR_KV_F32, "canonical-2/k-f16"},
        {OR_KV_F32, OR_KV_Q8_0, "canonical-2/v-q8_0"},
        {OR_KV_F16, OR_KV_Q8_0, "canonical-2/k-f16/v-q8_0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        or_model_t *model = NULL;
        or_model_options_t options = {
            .threads = 1, .rows_max = 1, .cache_type_k = cases[i].k, .cache_type_v = cases[i].v};
        assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
        assert_string_equal(or_model_arith_id(model), cases[i].id);
        or_model_destroy(&model);
    }
    uint32_t pages;
    or_model_options_t options = {.cache_type_v = (or_kv_type_t)99};
    assert_int_equal(load_with(gguf, &options, &pages), OR_ERR_INVALID);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_holds_its_part),
        cmocka_unit_test(a_stage_holds_its_layers),
        cmocka_unit_test(what_was_packed_is_given_back_to_the_file),
        cmocka_unit_test(cache_bytes_are_those_of_a_stage),
        cmocka_unit_test(the_rank_with_the_least_room_decides),
        cmocka_unit_test(only_the_leader_begins_a_pass),
        cmocka_unit_test(impossible_worlds_are_refused),
        cmocka_unit_test(the_arithmetic_names_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
