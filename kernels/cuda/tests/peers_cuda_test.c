// Goal: every rank of a group gets what all gave, in rank order and after the work that was asked for before, asked for
// directly or replayed; one that is gone is told of, not waited for.
// Method: ranks are threads with a device each, and floats that tell rank, turn and place; where there are GPUs, groups
// of as many ranks as there are, if NCCL is there.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/cuda_peers.h"
#include "kernels/cuda/tests/cuda_test_support.h"

#define SKIPPED 77 // what CTest takes for it
#define RANKS_MOST 8u
#define FLOATS 300u
#define TURNS 3u

typedef struct {
    uint32_t rank;
    uint32_t size;
    uint8_t id[OR_CUDA_PEERS_ID];
    bool leaves; // before the others are done
    pthread_t thread;
    int told; // by the last wait
} rank_t;

static float value_of(uint32_t rank, uint32_t turn, uint32_t at)
{
    return (float)(rank * 10000 + turn * 1000 + at);
}

// A device, and what it gives and gathers.
typedef struct {
    or_cuda_t *cuda;
    or_cuda_peers_t *peers;
    float *given;
    float *own;
    float *all;
} side_t;

// The emulator's one device is opened as another by each rank.
static side_t open_side(const rank_t *r)
{
    side_t side = {0};
    cuda_test_ok(or_cuda_open(r->rank % or_cuda_count(), &side.cuda));
    cuda_test_ok(or_cuda_peers_join(side.cuda, r->id, r->rank, r->size, &side.peers));
    side.given = cuda_test_upload(side.cuda, NULL, FLOATS * sizeof(float));
    side.own = cuda_test_upload(side.cuda, NULL, FLOATS * sizeof(float));
    side.all = cuda_test_upload(side.cuda, NULL, r->size * FLOATS * sizeof(float));
    return side;
}

static void close_side(side_t *side)
{
    or_cuda_peers_leave(&side->peers);
    assert_null(side->peers);
    or_cuda_free(side->cuda, side->all);
    or_cuda_free(side->cuda, side->own);
    or_cuda_free(side->cuda, side->given);
    or_cuda_close(&side->cuda);
}

// Gather after other work, which must be done before.
static void give(const side_t *side)
{
    cuda_test_ok(or_cuda_copy(side->cuda, side->own, side->given, FLOATS * sizeof(float)));
    (void)or_cuda_peers_gather(side->peers, side->own, side->all, FLOATS); // a wait tells it too
}

static void upload_turn(const side_t *side, uint32_t rank, uint32_t turn)
{
    float values[FLOATS];
    for (uint32_t i = 0; i < FLOATS; i++) {
        values[i] = value_of(rank, turn, i);
    }
    cuda_test_ok(or_cuda_upload(side->cuda, side->given, values, sizeof values));
}

static void check_turn(const side_t *side, uint32_t size, uint32_t turn)
{
    float all[RANKS_MOST * FLOATS];
    cuda_test_download(side->cuda, all, side->all, size * FLOATS * sizeof *all);
    for (uint32_t i = 0; i < size * FLOATS; i++) {
        assert_true(all[i] == value_of(i / FLOATS, turn, i % FLOATS));
    }
}

// Each turn but the first is replayed.
static void live(const side_t *side, const rank_t *r)
{
    or_cuda_recording_t *recording = NULL;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        upload_turn(side, r->rank, turn);
        if (turn == 0) {
            give(side);
            cuda_test_ok(or_cuda_record_begin(side->cuda));
            give(side);
            cuda_test_ok(or_cuda_record_end(side->cuda, &recording));
        } else {
            cuda_test_ok(or_cuda_replay(side->cuda, recording));
        }
        check_turn(side, r->size, turn);
    }
    or_cuda_recording_free(&recording);
}

// All ranks meet before the first gathers, as memory that one of a process takes may wait for the others' devices.
// They meet again before the first leaves.
static pthread_barrier_t meeting;

static void *live_through(void *argument)
{
    rank_t *r = argument;
    side_t side = open_side(r);
    (void)pthread_barrier_wait(&meeting);
    live(&side, r);
    (void)pthread_barrier_wait(&meeting);
    close_side(&side);
    return NULL;
}

// Rank 0 lives in the test's own thread, which asserts for all: another's failed assertion ends the program.
static void run(uint32_t size, void *(*life)(void *), rank_t *ranks)
{
    cuda_test_ok(or_cuda_peers_id(ranks[0].id));
    for (uint32_t i = size; i-- > 0;) {
        memcpy(ranks[i].id, ranks[0].id, sizeof ranks[i].id);
        ranks[i].rank = i;
        ranks[i].size = size;
        if (i > 0) {
            assert_int_equal(pthread_create(&ranks[i].thread, NULL, life, &ranks[i]), 0);
        }
    }
    life(&ranks[0]);
    for (uint32_t i = 1; i < size; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    }
}

static bool is_emulated(void)
{
    or_cuda_description_t device;
    cuda_test_ok(or_cuda_describe(0, &device));
    return strncmp(device.name, "emulated", 8) == 0;
}

static uint32_t most_ranks; // that have a device each

static void all_get_what_all_gave(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= most_ranks; size *= 2) {
        assert_int_equal(pthread_barrier_init(&meeting, NULL, size), 0);
        run(size, live_through, (rank_t[RANKS_MOST]){0});
        assert_int_equal(pthread_barrier_destroy(&meeting), 0);
    }
}

static void *leave_or_wait(void *argument)
{
    rank_t *r = argument;
    side_t side = open_side(r);
    if (!r->leaves) {
        give(&side);
        r->told = or_cuda_wait(side.cuda);
    }
    close_side(&side);
    return NULL;
}

// On a real device a wait for a rank that is gone has no end.
static void one_that_leaves_ends_all(void **state)
{
    (void)state;
    for (uint32_t gone = 0; gone < 4 && is_emulated(); gone++) {
        rank_t ranks[RANKS_MOST] = {0};
        ranks[gone].leaves = true;
        run(4, leave_or_wait, ranks);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(i == gone || ranks[i].told >= OR_CUDA_PEERS);
            assert_true(i == gone || strstr(or_cuda_text(ranks[i].told), "gone") != NULL);
        }
    }
}

static void the_library_has_a_name(void **state)
{
    (void)state;
    char name[OR_CUDA_PEERS_NAME];
    cuda_test_ok(or_cuda_peers_name(name));
    print_message("%s\n", name);
    assert_int_equal(strncmp(name, "NCCL", 4), 0);
}

int main(void)
{
    char name[OR_CUDA_PEERS_NAME];
    if (or_cuda_count() == 0 || or_cuda_peers_name(name) != OR_CUDA_OK) {
        puts(or_cuda_count() == 0 ? "no GPU" : "no NCCL");
        return SKIPPED;
    }
    most_ranks = is_emulated() || or_cuda_count() > RANKS_MOST ? RANKS_MOST : or_cuda_count();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_has_a_name),
        cmocka_unit_test(all_get_what_all_gave),
        cmocka_unit_test(one_that_leaves_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
