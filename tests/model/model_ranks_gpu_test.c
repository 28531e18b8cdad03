// Goal: ranks with devices give the bits of one rank on the CPU, beside ranks without as well, whether their sums go from
// device to device or by way of the host; none leaves the others early; and where one's device breaks, all end.
// Method: ranks are threads of this process (thread_world), each with an emulated device, or with the one GPU's memory to
// itself. The fixed script of ranks_script runs on them and on a model alone on the CPU, and all logits are compared. What
// the leader says of its sums tells which way they went.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/families/family_file.h"
#include "tests/model/ranks_script.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

#define BROKEN 99

#ifdef __SANITIZE_ADDRESS__ // an emulated GPU is ten times slower then
#define EVERY 3u
#else
#define EVERY 1u
#endif
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define SHARED "the host: ranks 0 and 1 share a GPU"

static bool emulated; // each rank has a device of its own; else all share one

static or_gpu_choice_t first_gpu(void)
{
    return (or_gpu_choice_t){.functions = or_gpu_functions()};
}

// ---- the same bits ----

static play_t *played;
static const char *sums; // how what the leader says of them begins; "": nothing

static void play_and_ask(or_model_t *model, record_t *record)
{
    const char *said = or_model_sums(model);
    assert_int_equal(said == NULL, sums[0] == '\0');
    if (said != NULL && strncmp(said, sums, strlen(sums)) != 0) {
        fail_msg("\"%s\" is said of sums, not \"%s\"", said, sums);
    }
    played(model, record);
}

typedef struct {
    int size;
    int stages;
    bool leader_on_cpu;
    bool others_on_cpu;
    bool by_host;
} case_t;

static const char *expected_sums(const case_t *c)
{
    if (c->size == 1 || c->leader_on_cpu) {
        return "";
    }
    return c->others_on_cpu ? "the host: rank 1 runs on the CPU"
           : c->by_host     ? "the host: rank 0 was told --no-nccl"
           : emulated       ? "NCCL, emulated"
                            : SHARED;
}

static void check(const char *path, or_kv_type_t type, play_t *play, const case_t *cases,
                  size_t count)
{
    const or_model_options_t cpu = {.threads = 1, .cache_type_k = type, .cache_type_v = type};
    record_t expected = record_play(path, &(world_t){1, 1, cpu, cpu}, play);
    played = play;
    for (size_t i = 0; i < count; i++) {
        or_gpu_choice_t choice = first_gpu();
        choice.no_peers = cases[i].by_host;
        or_model_options_t gpu = cpu;
        gpu.gpu = &choice;
        sums = expected_sums(&cases[i]);
        const world_t world = {cases[i].size, cases[i].stages, cases[i].leader_on_cpu ? cpu : gpu,
                               cases[i].others_on_cpu ? cpu : gpu};
        check_world(path, &world, play_and_ask, &expected);
    }
    free(expected.bytes);
}

// For models that are large to an emulator: a pass of two tokens and a guess.
static void play_one_pass(or_model_t *model, record_t *record)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 1, &sequence), OR_OK);
    const or_model_row_t rows[] = {prefix_row(sequence, 7), prefix_row(sequence, 11),
                                   tree_row(sequence, 13, 0, OR_KV_NO_SLOT)};
    size_t floats = COUNT(rows) * or_model_shape(model)->vocab_size;
    float *logits = test_alloc(floats, sizeof *logits);
    assert_int_equal(or_model_forward(model, rows, COUNT(rows)), OR_OK);
    assert_int_equal(or_model_logits(model, 0, COUNT(rows), logits), OR_OK);
    record_bytes(record, logits, floats * sizeof *logits);
    free(logits);
    or_kv_sequence_close(&sequence);
}

// 4 heads over 2 KV heads: with 8 ranks some own no head, with 4 two share a KV head.
static void ranks_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 1},
                                   {.size = 2, .stages = 1, .by_host = true},
                                   {.size = 4, .stages = 1},
                                   {.size = 8, .stages = 1},
                                   {.size = 1, .stages = 2},
                                   {.size = 2, .stages = 2},
                                   {.size = 2, .stages = 2, .by_host = true}};
    check("tests/model/data/llama3-mixed.gguf", OR_KV_F32, play_script, cases, COUNT(cases));
    check(test_model("tales-1m-f16.gguf"), OR_KV_F16, play_one_pass, cases, 1);
}

static void ranks_with_and_without_a_gpu_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 1, .leader_on_cpu = true},
                                   {.size = 4, .stages = 1, .others_on_cpu = true},
                                   {.size = 1, .stages = 2, .leader_on_cpu = true},
                                   {.size = 1, .stages = 2, .others_on_cpu = true}};
    check("tests/model/data/qwen2-bf16.gguf", OR_KV_F16, play_script, cases, COUNT(cases));
}

// 14 heads over 2 KV heads, with biases. Two heads stay together, so ranks begin and end within the heads of a KV head.
static void ranks_of_uneven_groups_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 4, .stages = 1}, {.size = 8, .stages = 1}};
    check("tests/model/data/qwen2-14-heads-q8_0.gguf", OR_KV_F32, play_script, cases, COUNT(cases));
}

// Heads of 8 dimensions, two a panel, and an FFN of 172, whose last unit is short.
static void ranks_of_an_odd_shape_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 2}, {.size = 8, .stages = 1}};
    check(test_data("models/stories260K-f32.gguf"), OR_KV_F32, play_one_pass, cases, COUNT(cases));
}

// Shares that begin inside a super-block.
static void ranks_of_super_blocks_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 4, .stages = 1}};
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_Q4_K);
    check(path, OR_KV_F32, play_one_pass, cases, COUNT(cases));
    free(path);
}

// Norms of heads and of all heads together, sums that are normalised or scaled before they are added, an FFN without a gate,
// experts with one that all rows take and with biases, sinks, a bias of the head.
static void ranks_of_other_families_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3/0",   "olmo2/0",      "gemma/0",
                                        "granite/0", "starcoder2/0", "command-r/0",
                                        "glm4moe/1", "gpt-oss/0",    "phimoe/0"};
    static const case_t cases[] = {{.size = 2, .stages = 1},
                                   {.size = 2, .stages = 2, .by_host = true}};
    for (size_t i = 0; i < COUNT(names); i += EVERY) {
        char *path = family_file_make(names[i]);
        print_message("%s\n", names[i]);
        check(path, OR_KV_F32, play_one_pass, cases, COUNT(cases));
        free(path);
    }
}

// Heads of another size and number in some layers, K and V and inputs that layers share; heads that share one vector of K and V.
static void ranks_of_layers_that_differ_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"gemma4/0", "gemma4-shared/0", "deepseek-v3/0",
                                        "deepseek-heads/1"};
    static const case_t cases[] = {{.size = 4, .stages = 1},
                                   {.size = 8, .stages = 1, .by_host = true},
                                   {.size = 1, .stages = 2}};
    for (size_t i = 0; i < COUNT(names); i++) {
        char *path = family_file_make(names[i]);
        char *quantised = test_requantize(path, OR_TENSOR_Q8_0);
        check(path, OR_KV_F32, play_one_pass, cases, COUNT(cases));
        check(quantised, OR_KV_Q8_0, play_one_pass, cases, COUNT(cases));
        free(quantised);
        free(path);
    }
}

// ---- which way sums go ----

static int have_no_library(char name[OR_CUDA_PEERS_NAME])
{
    (void)name;
    return OR_CUDA_PEERS;
}

static int have_another_version(char name[OR_CUDA_PEERS_NAME])
{
    snprintf(name, OR_CUDA_PEERS_NAME, "NCCL 1.0");
    return OR_CUDA_OK;
}

static int join_and_leave(or_cuda_t *cuda, const uint8_t id[OR_CUDA_PEERS_ID], uint32_t rank,
                          uint32_t size, or_cuda_peers_t **peers_p)
{
    or_cuda_peers_t *peers = NULL;
    assert_int_equal(or_gpu_functions()->peers_join(cuda, id, rank, size, &peers), OR_CUDA_OK);
    or_gpu_functions()->peers_leave(&peers);
    *peers_p = NULL;
    return OR_CUDA_PEERS_LOST;
}

static int gather_nothing(or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    (void)peers;
    (void)from;
    (void)to;
    (void)floats;
    return OR_CUDA_PEERS_LOST;
}

static int make_no_id(uint8_t id[OR_CUDA_PEERS_ID])
{
    (void)id;
    return OR_CUDA_PEERS_LOST;
}

// Three tokens, one by one, so that the second and the third pass may be replayed.
static uint32_t replays;

static void play_steps(or_model_t *model, record_t *record)
{
    or_kv_sequence_t *sequence = NULL;
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    float *logits = test_alloc(vocab_size, sizeof *logits);
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    for (int32_t token = 3; token < 6; token++) {
        const or_model_row_t row = prefix_row(sequence, token);
        assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
        assert_int_equal(or_model_logits(model, 0, 1, logits), OR_OK);
        record_bytes(record, logits, vocab_size * sizeof *logits);
    }
    replays = model->gpu != NULL ? (uint32_t)model->gpu->steps.replays : 0;
    or_kv_sequence_close(&sequence);
    free(logits);
}

// A leader that chose this and another rank that chose that.
static void check_way(or_gpu_choice_t leads, or_gpu_choice_t follows, const char *way,
                      uint32_t replayed)
{
    static const char path[] = "tests/model/data/llama3-q8_0.gguf";
    const or_model_options_t cpu = {.threads = 1};
    world_t world = {.size = 2, .stages = 1, .leader = cpu, .others = cpu};
    world.leader.gpu = &leads;
    world.others.gpu = &follows;
    record_t expected = record_play(path, &(world_t){1, 1, cpu, cpu}, play_steps);
    played = play_steps;
    sums = emulated ? way : SHARED;
    check_world(path, &world, play_and_ask, &expected);
    assert_int_equal(replays, emulated ? replayed : 0);
    free(expected.bytes);
}

static void sums_go_by_the_host_where_one_cannot_do_otherwise(void **state)
{
    (void)state;
    const or_gpu_choice_t all = first_gpu();
    or_gpu_functions_t no_library = *all.functions, other = no_library;
    or_gpu_functions_t leaves = no_library, no_id = no_library, apart = no_library;
    no_library.peers_name = have_no_library;
    other.peers_name = have_another_version;
    leaves.peers_join = join_and_leave;
    no_id.peers_id = make_no_id;
    apart.peers_gather = gather_nothing;
    check_way(all, all, "NCCL, emulated", 2);
    if (!emulated) {
        return; // the ways below want a device for each rank
    }
    check_way(all, (or_gpu_choice_t){.functions = &no_library}, "the host: rank 1: ", 0);
    check_way((or_gpu_choice_t){.functions = &no_library}, all, "the host: rank 0: ", 0);
    check_way(all, (or_gpu_choice_t){.functions = &other},
              "the host: rank 1 has another version of NCCL than rank 0", 0);
    check_way(all, (or_gpu_choice_t){.functions = &leaves},
              "the host: rank 1: another rank is gone", 0);
    check_way((or_gpu_choice_t){.functions = &apart}, (or_gpu_choice_t){.functions = &apart},
              "the host: rank 0: another rank is gone", 0);
    check_way((or_gpu_choice_t){.functions = &no_id}, all, "the host: rank 0: another rank is gone",
              0);
    check_way(all, (or_gpu_choice_t){.functions = all.functions, .no_peers = true},
              "the host: rank 1 was told --no-nccl", 0);
    setenv("OR_EMULATED_ONE_DEVICE", "1", 1);
    check_way(all, all, SHARED, 0);
    unsetenv("OR_EMULATED_ONE_DEVICE");
}

static int record_in_vain(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    if (or_gpu_functions()->record_end(cuda, recording_p) == OR_CUDA_OK) {
        or_gpu_functions()->recording_free(recording_p);
    }
    return BROKEN;
}

static void all_record_or_none(void **state)
{
    (void)state;
    or_gpu_functions_t in_vain = *or_gpu_functions();
    in_vain.record_end = record_in_vain;
    const or_gpu_choice_t all = first_gpu(), one = {.functions = &in_vain};
    const or_gpu_choice_t away = {.functions = all.functions, .host_layers = 1};
    check_way(all, one, "NCCL, emulated", 0);
    check_way(one, all, "NCCL, emulated", 0);
    check_way(all, away, "NCCL, emulated", 0);
    check_way(away, all, "NCCL, emulated", 0);
}

// ---- the end ----

static atomic_bool waits; // a rank that is not the leader, for its device
static bool left_a_wait;

static int wait_long(or_cuda_t *cuda)
{
    const struct timespec pause = {0, 5000000};
    waits = true;
    nanosleep(&pause, NULL);
    int status = or_gpu_functions()->wait(cuda);
    waits = false;
    return status;
}

static void note_and_leave(or_cuda_peers_t **peers_p)
{
    left_a_wait = left_a_wait || (*peers_p != NULL && waits);
    or_gpu_functions()->peers_leave(peers_p);
}

static void play_without_logits(or_model_t *model, record_t *record)
{
    (void)record;
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    const or_model_row_t row = prefix_row(sequence, 3);
    assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
    or_kv_sequence_close(&sequence);
}

static void none_leaves_while_another_waits(void **state)
{
    (void)state;
    static const char path[] = "tests/model/data/llama3-q8_0.gguf";
    or_gpu_functions_t leader = *or_gpu_functions(), other = leader;
    leader.peers_leave = note_and_leave;
    other.wait = wait_long;
    const or_gpu_choice_t leads = {.functions = &leader}, follows = {.functions = &other};
    world_t world = {.size = 2, .stages = 1, .leader = {.threads = 1}, .others = {.threads = 1}};
    world.leader.gpu = &leads;
    world.others.gpu = &follows;
    record_t none = record_play(path, &world, play_without_logits);
    assert_false(left_a_wait);
    free(none.bytes);
}

// ---- what breaks ----

static uint32_t calls_left; // that go well, of a rank that is not the leader

static bool goes_well(void)
{
    calls_left -= calls_left > 0;
    return calls_left > 0;
}

static int wait_or_not(or_cuda_t *cuda)
{
    return goes_well() ? or_gpu_functions()->wait(cuda) : BROKEN;
}

// But for the first, without which sums go by the host.
static int gather_or_not(or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    return floats == 1 || goes_well() ? or_gpu_functions()->peers_gather(peers, from, to, floats)
                                      : BROKEN;
}

static int alloc_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc(cuda, bytes, at_p) : BROKEN;
}

static int alloc_pinned_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc_pinned(cuda, bytes, at_p) : BROKEN;
}

// A pass of two tokens; nothing is committed if it fails.
static or_status_t run_pass(or_model_t *model)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 2, &sequence), OR_OK);
    const or_model_row_t rows[] = {prefix_row(sequence, 1), prefix_row(sequence, 2)};
    float *logits = test_alloc((size_t)2 * or_model_shape(model)->vocab_size, sizeof *logits);
    or_status_t status = or_model_forward(model, rows, 2);
    assert_int_equal(or_kv_sequence_length(sequence), status == OR_OK ? 2 : 0);
    status = status != OR_OK ? status : or_model_logits(model, 0, 2, logits);
    free(logits);
    or_kv_sequence_close(&sequence);
    return status;
}

static or_status_t live(const char *path, const or_model_options_t *options)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    or_status_t status = or_model_load(gguf, options, &model);
    status = status != OR_OK ? status : run_pass(model);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

// The leader's life beside a rank with these functions: that one ends with `expected`, the leader because it is gone,
// which its own device may be the first to find. False if all goes well.
static bool ends_all(const or_gpu_functions_t *functions, const case_t *c, or_status_t expected)
{
    const char *path = "tests/model/data/llama3-q8_0.gguf";
    or_gpu_choice_t choice = first_gpu();
    choice.no_peers = c->by_host;
    const or_gpu_choice_t breaks = {.functions = functions, .no_peers = c->by_host};
    or_model_options_t options = {.threads = 1, .rows_max = 4, .pages_max = 2, .gpu = &breaks};
    thread_world_t *world = thread_world_create(c->size, c->stages);
    thread_world_follow(world, path, &options);
    options.gpu = &choice;
    options.ranks = thread_world_ranks(world, 0);
    or_status_t status = live(path, &options);
    assert_true(status == OR_OK || strstr(or_error_text(), "is gone") != NULL);
    assert_int_equal(thread_world_join(world), status == OR_OK ? OR_OK : expected);
    assert_true(status == OR_OK || expected != OR_ERR_IO ||
                strstr(or_error_text(), "the GPU: ") != NULL);
    thread_world_destroy(&world);
    return status != OR_OK;
}

// At each of its calls in turn, a rank of a group, both ways, and one of a stage.
static void check_failures(const or_gpu_functions_t *functions, or_status_t expected)
{
    static const case_t cases[] = {{.size = 2, .stages = 1},
                                   {.size = 2, .stages = 1, .by_host = true},
                                   {.size = 1, .stages = 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (uint32_t n = calls_left = 1; ends_all(functions, &cases[i], expected);
             calls_left = ++n) {
        }
    }
}

static void one_that_breaks_ends_all(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.wait = wait_or_not;
    check_failures(&functions, OR_ERR_IO);
    functions.wait = or_gpu_functions()->wait;
    functions.peers_gather = gather_or_not;
    check_failures(&functions, OR_ERR_IO);
}

static void one_without_memory_ends_all(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = alloc_or_not;
    functions.alloc_pinned = alloc_pinned_or_not;
    check_failures(&functions, OR_ERR_NO_MEMORY);
}

int main(void)
{
    fixture_need_gpu();
    or_cuda_description_t device = {0};
    (void)or_gpu_functions()->describe(0, &device);
    emulated = strncmp(device.name, "emulated", 8) == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_same_bits),
        cmocka_unit_test(ranks_with_and_without_a_gpu_give_the_same_bits),
        cmocka_unit_test(ranks_of_uneven_groups_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits),
        cmocka_unit_test(ranks_of_super_blocks_give_the_same_bits),
        cmocka_unit_test(ranks_of_other_families_give_the_same_bits),
        cmocka_unit_test(ranks_of_layers_that_differ_give_the_same_bits),
        cmocka_unit_test(sums_go_by_the_host_where_one_cannot_do_otherwise),
        cmocka_unit_test(all_record_or_none),
        cmocka_unit_test(none_leaves_while_another_waits),
        cmocka_unit_test(one_that_breaks_ends_all),
        cmocka_unit_test(one_without_memory_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
