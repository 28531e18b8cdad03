// Goal: every exchange brings the right bytes of the right rank to the right place, however ranks and
// stages are arranged.
// Method: all ranks of an MPI job send what tells who they are, and look at what came; started by mpirun
// with several sizes of world and, as argument, numbers of stages. Sizes on both sides of what MPI sends
// without asking.
#include "verifier/ranks/ranks_mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define BYTES_MAX 100000

static or_ranks_mpi_place_t place;
static const or_ranks_t *ranks;
static const size_t sizes[] = {0, 1, 100, 5000, BYTES_MAX};
static uint8_t own[BYTES_MAX];
static uint8_t all[8 * BYTES_MAX];

static uint8_t byte_of(int world_rank, size_t i)
{
    return (uint8_t)((size_t)world_rank * 31 + i * 7 + 1);
}

static void fill(uint8_t *bytes, int world_rank, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = byte_of(world_rank, i);
    }
}

static void assert_filled(const uint8_t *bytes, int world_rank, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != byte_of(world_rank, i)) {
            fail_msg("rank %d: byte %zu of rank %d is %u", place.rank, i, world_rank, bytes[i]);
        }
    }
}

// `count` ranks from world rank `first` on.
static void assert_all_filled(int first, int count, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        assert_filled(all + (size_t)i * bytes, first + i, bytes);
    }
    assert_int_equal(all[(size_t)count * bytes], 0xAA); // nothing behind it
}

static void start_anew(size_t bytes)
{
    fill(own, place.rank, bytes);
    memset(all, 0xAA, sizeof all);
}

static void ranks_know_their_place(void **state)
{
    (void)state;
    assert_int_equal(ranks->size * ranks->stages, place.size);
    assert_int_equal(ranks->stage * ranks->size + ranks->rank, place.rank);
    assert_int_equal(place.neighbours, place.size);
    assert_int_equal(place.neighbour, place.rank);
    assert_true(place.same_cpus);
    assert_true(strlen(place.host) > 0);
    assert_true((ranks->pass_on == NULL) == (ranks->stages == 1));
}

static void all_gather_stays_in_the_stage(void **state)
{
    (void)state;
    int first = ranks->stage * ranks->size;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        start_anew(sizes[s]);
        assert_int_equal(ranks->all_gather(ranks, own, sizes[s], all), OR_OK);
        assert_all_filled(first, ranks->size, sizes[s]);
        start_anew(sizes[s]);
        uint8_t *in_place = all + (size_t)ranks->rank * sizes[s];
        fill(in_place, place.rank, sizes[s]);
        assert_int_equal(ranks->all_gather(ranks, in_place, sizes[s], all), OR_OK);
        assert_all_filled(first, ranks->size, sizes[s]);
    }
}

static void broadcast_reaches_the_world(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        start_anew(sizes[s]);
        assert_int_equal(ranks->broadcast(ranks, own, sizes[s]), OR_OK);
        assert_filled(own, 0, sizes[s]);
    }
}

static void gather_world_is_in_order(void **state)
{
    (void)state;
    start_anew(5000);
    assert_int_equal(ranks->gather_world(ranks, own, 5000, all), OR_OK);
    assert_all_filled(0, place.size, 5000);
}

static void the_leader_collects_from_the_last_stage(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        start_anew(sizes[s]);
        bool leader = or_ranks_is_leader(ranks);
        assert_int_equal(ranks->collect(ranks, own, sizes[s], leader ? all : NULL), OR_OK);
        if (leader) {
            assert_all_filled((ranks->stages - 1) * ranks->size, ranks->size, sizes[s]);
        }
    }
}

static void stages_hand_over_rank_by_rank(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && ranks->stages > 1; s++) {
        start_anew(sizes[s]);
        if (ranks->stage > 0) {
            assert_int_equal(ranks->take_over(ranks, all, sizes[s]), OR_OK);
            assert_filled(all, place.rank - ranks->size, sizes[s]);
        }
        if (ranks->stage < ranks->stages - 1) {
            assert_int_equal(ranks->pass_on(ranks, own, sizes[s]), OR_OK);
        }
    }
}

// More than goes in one piece (and no whole number of pieces).
static void a_large_pass_is_handed_over_in_pieces(void **state)
{
    (void)state;
    size_t bytes = ((size_t)40 << 20) + 5;
    uint8_t *large = test_calloc(bytes + 1, 1);
    if (ranks->stage > 0) {
        memset(large, 0xAA, bytes + 1);
        assert_int_equal(ranks->take_over(ranks, large, bytes), OR_OK);
        assert_filled(large, place.rank - ranks->size, bytes);
        assert_int_equal(large[bytes], 0xAA);
    }
    fill(large, place.rank, bytes);
    if (ranks->stage < ranks->stages - 1) {
        assert_int_equal(ranks->pass_on(ranks, large, bytes), OR_OK);
    }
    test_free(large);
}

static void too_much_at_once_is_refused(void **state)
{
    (void)state;
    size_t bytes = (size_t)INT_MAX + 1;
    assert_int_equal(ranks->all_gather(ranks, own, bytes, all), OR_ERR_INVALID);
    assert_int_equal(ranks->broadcast(ranks, own, bytes), OR_ERR_INVALID);
    assert_int_equal(ranks->gather_world(ranks, own, bytes, all), OR_ERR_INVALID);
    assert_int_equal(ranks->collect(ranks, own, bytes, all), OR_ERR_INVALID);
}

static void the_first_that_failed_is_known_to_all(void **state)
{
    (void)state;
    int last = place.size - 1;
    assert_int_equal(or_ranks_mpi_first_failed(false), -1);
    assert_int_equal(or_ranks_mpi_first_failed(true), 0);
    assert_int_equal(or_ranks_mpi_first_failed(place.rank == last), last);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_know_their_place),
        cmocka_unit_test(all_gather_stays_in_the_stage),
        cmocka_unit_test(broadcast_reaches_the_world),
        cmocka_unit_test(gather_world_is_in_order),
        cmocka_unit_test(the_leader_collects_from_the_last_stage),
        cmocka_unit_test(stages_hand_over_rank_by_rank),
        cmocka_unit_test(a_large_pass_is_handed_over_in_pieces),
        cmocka_unit_test(too_much_at_once_is_refused),
        cmocka_unit_test(the_first_that_failed_is_known_to_all),
    };
    uint32_t stages = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    if (or_ranks_mpi_start(&place) != OR_OK || or_ranks_mpi_arrange(stages, &ranks) != OR_OK) {
        fprintf(stderr, "%s\n", or_error_text());
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed > 0) {
        or_ranks_mpi_abort(1); // the others may wait for us
    }
    or_ranks_mpi_stop();
    return 0;
}
