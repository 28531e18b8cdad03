// Goal: a laboratory's line is what its figures say: every frame lands when delay, jitter, rate, repairs, stalls
// and cuts let it, in order, and the same again from the same seed.
// Method: frames that carry their number and when they were sent, on a virtual clock; landings are compared with
// times worked out by hand, or with the bounds that the figures set.
#include "tests/support/memory_network.h"

#include <string.h>

#include "tests/support/test_support.h"

#define MS OR_NS_PER_MS
#define FRAMES 400

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub, *edge, *other;
} world_t;

// The content of a test frame; the rest of it is zeros.
typedef struct {
    uint32_t number;
    int64_t sent_ns;
} stamp_t;

typedef struct {
    or_peer_t from;
    stamp_t stamp;
    int64_t landed_ns;
} landing_t;

static void set_up_seed(world_t *w, uint64_t seed)
{
    const or_network_faults_t none = {0};
    memset(w, 0, sizeof *w);
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&w->clock, seed, &none, &w->network), OR_OK);
    assert_int_equal(or_network_hub(w->network, &w->hub), OR_OK);
    assert_int_equal(or_network_edge(w->network, &w->edge), OR_OK);
    assert_int_equal(or_network_edge(w->network, &w->other), OR_OK);
}

static void fini(world_t *w)
{
    or_channel_destroy(&w->other);
    or_channel_destroy(&w->edge);
    or_channel_destroy(&w->hub);
    or_network_destroy(&w->network);
}

static int set_up(void **state)
{
    static world_t world;
    set_up_seed(&world, 1);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    fini(*state);
    return 0;
}

static or_status_t send(world_t *w, or_channel_t *from, or_peer_t to, uint32_t number, size_t bytes)
{
    uint8_t frame[1024] = {0};
    const stamp_t stamp = {number, w->clock.now_ns};
    assert_in_range(bytes, sizeof stamp, sizeof frame);
    memcpy(frame, &stamp, sizeof stamp);
    return or_channel_send(from, to, frame, bytes);
}

static void send_to_hub(world_t *w, or_channel_t *from, uint32_t number)
{
    assert_int_equal(send(w, from, OR_PEER_HUB, number, sizeof(stamp_t)), OR_OK);
}

// Receive the next frame that has landed.
static bool receive(world_t *w, or_channel_t *at, landing_t *landing)
{
    const uint8_t *frame;
    size_t bytes;
    or_status_t status = or_channel_receive(at, &landing->from, &frame, &bytes);
    if (status != OR_OK) {
        assert_int_equal(status, OR_ERR_AGAIN);
        return false;
    }
    memcpy(&landing->stamp, frame, sizeof landing->stamp);
    landing->landed_ns = w->clock.now_ns;
    return true;
}

// Moves the clock from landing to landing as long as there are any before `end_ns`; what lands at `at`.
static uint32_t receive_until(world_t *w, or_channel_t *at, int64_t end_ns, landing_t *landings)
{
    uint32_t count = 0;
    for (int64_t next = w->clock.now_ns; next < end_ns;) {
        w->clock.now_ns = next;
        while (receive(w, at, &landings[count])) {
            count++;
            assert_in_range(count, 1, FRAMES);
        }
        next = or_network_next_ns(w->network);
    }
    return count;
}

static uint32_t receive_all(world_t *w, or_channel_t *at, landing_t *landings)
{
    return receive_until(w, at, OR_TIME_NEVER, landings);
}

// FRAMES frames to the hub, one every gap_ns; all of them arrive, in order.
static void stream(world_t *w, int64_t gap_ns, landing_t *landings)
{
    uint32_t count = 0;
    int64_t began_ns = w->clock.now_ns;
    for (uint32_t i = 0; i < FRAMES; i++) {
        int64_t next_ns = began_ns + (i + 1) * gap_ns;
        send_to_hub(w, w->edge, i);
        count += receive_until(w, w->hub, next_ns, landings + count);
        w->clock.now_ns = next_ns;
    }
    count += receive_all(w, w->hub, landings + count);
    assert_int_equal(count, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_int_equal(landings[i].stamp.number, i);
    }
}

// Return how long a frame takes that is alone on its line.
static int64_t flight(world_t *w)
{
    landing_t landings[FRAMES];
    send_to_hub(w, w->edge, 0);
    assert_int_equal(receive_all(w, w->hub, landings), 1);
    return landings[0].landed_ns - landings[0].stamp.sent_ns;
}

// The hub learns of the edge; returns its number.
static or_peer_t meet(world_t *w, or_channel_t *edge)
{
    landing_t landings[FRAMES];
    send_to_hub(w, edge, 0);
    assert_int_equal(receive_all(w, w->hub, landings), 1);
    return landings[0].from;
}

static void assert_in_order(const landing_t *landings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(landings[i].stamp.number, i);
    }
}

static void jitter_spreads_landings_and_keeps_their_order(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {.one_way_ns = 50 * MS, .jitter = 0.3};
    static landing_t landings[FRAMES + 1];
    int64_t least = INT64_MAX, most = 0;
    or_network_set_line(w->edge, &line);
    for (uint32_t i = 0; i < FRAMES; i++) {
        int64_t took_ns = flight(w);
        least = took_ns < least ? took_ns : least;
        most = took_ns > most ? took_ns : most;
    }
    assert_in_range(least, 35 * MS, 37 * MS);
    assert_in_range(most, 63 * MS, 65 * MS);
    for (uint32_t i = 0; i < FRAMES; i++) {
        send_to_hub(w, w->edge, i);
        w->clock.now_ns +=
            MS / 10; // closer than the jitter: the network in faults would reorder them
    }
    assert_int_equal(receive_all(w, w->hub, landings), FRAMES);
    assert_in_order(landings, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        int64_t took_ns = landings[i].landed_ns - landings[i].stamp.sent_ns;
        assert_in_range(took_ns, 35 * MS, 65 * MS);
    }
}

static void a_rate_puts_frames_one_behind_the_other(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {
        .one_way_ns = 10 * MS, .bytes_per_s = 1000, .frame_overhead = 20};
    landing_t landings[FRAMES];
    or_peer_t peer = meet(w, w->edge);
    or_network_set_line(w->edge, &line);
    int64_t sent_ns = w->clock.now_ns;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(send(w, w->edge, OR_PEER_HUB, i, 80), OR_OK);
    }
    assert_int_equal(send(w, w->hub, peer, 0, 180), OR_OK); // the other direction is empty
    assert_int_equal(receive_all(w, w->hub, landings), 3);
    assert_in_order(landings, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(landings[i].landed_ns - sent_ns, (100 * (i + 1) + 10) * MS);
    }
    w->clock.now_ns = sent_ns + 210 * MS - 1;
    assert_false(receive(w, w->edge, &landings[0]));
    w->clock.now_ns++;
    assert_true(receive(w, w->edge, &landings[0]));
    w->clock.now_ns = sent_ns + 10 * OR_NS_PER_S;
    int64_t took_ns = flight(w); // an idle line is no faster
    assert_int_equal(took_ns, (int64_t)(sizeof(stamp_t) + 20) * MS + 10 * MS);
}

static void a_lost_frame_is_repaired_and_holds_up_those_behind_it(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {.one_way_ns = 10 * MS, .lose = 0.2, .repair_ns = 200 * MS};
    static landing_t landings[FRAMES + 1];
    uint32_t lost = 0;
    or_network_set_line(w->edge, &line);
    for (uint32_t i = 0; i < FRAMES; i++) {
        int64_t took_ns = flight(w);
        assert_true(took_ns == 10 * MS || took_ns == 210 * MS);
        lost += took_ns > 10 * MS;
    }
    assert_in_range(lost, FRAMES / 10, FRAMES * 3 / 10); // more than four standard deviations
    stream(w, MS, landings);
    for (uint32_t i = 0; i < FRAMES; i++) {
        int64_t took_ns = landings[i].landed_ns - landings[i].stamp.sent_ns;
        assert_in_range(took_ns, 10 * MS, 210 * MS);
    }
}

static void a_stall_holds_both_directions_up_and_loses_nothing(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {.one_way_ns = 20 * MS};
    landing_t landings[FRAMES];
    or_peer_t peer = meet(w, w->edge);
    or_network_set_line(w->edge, &line);
    or_network_set_line(w->other, &line);
    int64_t began_ns = w->clock.now_ns;
    send_to_hub(w, w->edge, 0); // on its way
    assert_int_equal(send(w, w->hub, peer, 0, sizeof(stamp_t)), OR_OK);
    w->clock.now_ns += 10 * MS;
    or_network_stall(w->edge, began_ns + 500 * MS);
    send_to_hub(w, w->edge, 1);
    send_to_hub(w, w->other, 7); // another line
    w->clock.now_ns = began_ns + 490 * MS;
    assert_true(receive(w, w->hub, &landings[0]));
    assert_int_equal(landings[0].stamp.number, 7);
    send_to_hub(w, w->edge, 2); // is there after the end
    assert_int_equal(or_network_next_ns(w->network), began_ns + 500 * MS);
    assert_int_equal(receive_all(w, w->hub, landings), 3);
    assert_in_order(landings, 3);
    assert_int_equal(landings[0].landed_ns, began_ns + 500 * MS);
    assert_int_equal(landings[1].landed_ns, began_ns + 500 * MS);
    assert_int_equal(landings[2].landed_ns, began_ns + 510 * MS);
    assert_true(receive(w, w->edge, &landings[0])); // it waited there since
    assert_false(receive(w, w->edge, &landings[0]));
}

static void a_cut_loses_what_is_on_the_way_and_keeps_what_is_sent(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {.one_way_ns = 20 * MS};
    static landing_t landings[FRAMES + 1];
    or_network_set_line(w->edge, &line);
    or_peer_t peer = meet(w, w->edge);
    send_to_hub(w, w->edge, 50);
    assert_int_equal(send(w, w->hub, peer, 51, sizeof(stamp_t)), OR_OK);
    or_network_cut(w->edge);
    assert_int_equal(send(w, w->hub, peer, 52, sizeof(stamp_t)), OR_ERR_UNREACHABLE);
    for (uint32_t i = 0; i < 3; i++) {
        send_to_hub(w, w->edge, i);
    }
    assert_int_equal(receive_all(w, w->hub, landings), 0);
    assert_int_equal(or_network_next_ns(w->network), OR_TIME_NEVER);
    w->clock.now_ns += OR_NS_PER_S;
    int64_t mended_ns = w->clock.now_ns;
    or_network_mend(w->edge);
    send_to_hub(w, w->edge, 3);
    assert_int_equal(receive_all(w, w->hub, landings), 4);
    assert_in_order(landings, 4);
    assert_int_equal(landings[0].landed_ns, mended_ns + 20 * MS);
    assert_int_not_equal(landings[0].from.value, peer.value);
    assert_int_equal(send(w, w->hub, peer, 53, sizeof(stamp_t)), OR_ERR_UNREACHABLE);
    assert_int_equal(send(w, w->hub, landings[0].from, 54, sizeof(stamp_t)), OR_OK);
    assert_int_equal(receive_all(w, w->edge, landings), 1);
    assert_int_equal(landings[0].stamp.number, 54); // and not 51
}

static void the_queue_of_a_cut_line_is_bounded(void **state)
{
    world_t *w = *state;
    or_network_cut(w->edge);
    for (uint32_t i = 0; i < OR_NETWORK_QUEUE; i++) {
        send_to_hub(w, w->edge, i);
    }
    assert_int_equal(send(w, w->edge, OR_PEER_HUB, 0, sizeof(stamp_t)), OR_ERR_FULL);
    or_network_mend(w->edge);
    landing_t landing;
    for (uint32_t i = 0; i < OR_NETWORK_QUEUE; i++) {
        assert_true(receive(w, w->hub, &landing));
        assert_int_equal(landing.stamp.number, i);
    }
    send_to_hub(w, w->edge, 0);
}

// Frames that wait behind a cut go with the edge (the sanitizer sees to that), and a hub that is away loses them.
static void a_cut_edge_and_a_lost_hub_may_end(void **state)
{
    world_t *w = *state;
    or_network_cut(w->edge);
    send_to_hub(w, w->edge, 0);
    or_channel_destroy(&w->hub);
    or_network_mend(w->edge);
    assert_int_equal(or_network_next_ns(w->network), OR_TIME_NEVER);
    or_network_cut(w->edge);
    send_to_hub(w, w->edge, 1);
}

static void a_key_is_known_at_the_hub_only(void **state)
{
    world_t *w = *state;
    const char *key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
    or_network_set_key(w->edge, key);
    or_peer_t peer = meet(w, w->edge);
    or_peer_t other = meet(w, w->other);
    assert_string_equal(or_channel_key_of(w->hub, peer), key);
    assert_string_equal(or_channel_key_of(w->hub, other), "");
    assert_string_equal(or_channel_key_of(w->hub, (or_peer_t){12345}), "");
    assert_string_equal(or_channel_key_of(w->edge, OR_PEER_HUB), "");
    or_network_set_key(w->edge, NULL);
    assert_string_equal(or_channel_key_of(w->hub, peer), "");
}

static void who_is_inside_is_known_at_the_hub_only(void **state)
{
    world_t *w = *state;
    or_network_set_inside(w->edge, true);
    or_peer_t peer = meet(w, w->edge);
    or_peer_t other = meet(w, w->other);
    assert_true(or_channel_is_inside(w->hub, peer));
    assert_false(or_channel_is_inside(w->hub, other));
    assert_false(or_channel_is_inside(w->hub, (or_peer_t){12345}));
    assert_false(or_channel_is_inside(w->edge, OR_PEER_HUB));
}

// A node that does not listen is at work: its frames do not stop the clock, and are there when it comes back.
static void a_node_at_work_does_not_stop_the_clock(void **state)
{
    world_t *w = *state;
    const or_network_line_t line = {.one_way_ns = 20 * MS};
    landing_t landing;
    or_network_set_line(w->edge, &line);
    or_network_set_line(w->other, &line);
    int64_t began_ns = w->clock.now_ns;
    send_to_hub(w, w->edge, 0);
    w->clock.now_ns += 10 * MS;
    send_to_hub(w, w->other, 1);
    w->clock.now_ns += 10 * MS;
    assert_int_equal(or_network_next_ns(w->network), began_ns + 30 * MS);
    w->clock.now_ns += 50 * MS;
    assert_int_equal(or_network_next_ns(w->network), OR_TIME_NEVER);
    assert_true(receive(w, w->hub, &landing));
    assert_int_equal(or_network_next_ns(w->network),
                     began_ns + 30 * MS); // one more is there for it
}

// Landing times of a busy line, as one number.
static uint64_t fingerprint(uint64_t seed)
{
    static landing_t landings[FRAMES + 1];
    const or_network_line_t line = {
        .one_way_ns = 50 * MS, .jitter = 0.5, .bytes_per_s = 100000, .lose = 0.05, .repair_ns = MS};
    world_t w;
    uint64_t sum = 0;
    set_up_seed(&w, seed);
    or_network_set_line(w.edge, &line);
    stream(&w, 10 * MS, landings);
    for (uint32_t i = 0; i < FRAMES; i++) {
        sum = sum * 31 + (uint64_t)landings[i].landed_ns;
    }
    fini(&w);
    return sum;
}

static void a_seed_replays(void **state)
{
    (void)state;
    assert_true(fingerprint(5) == fingerprint(5));
    assert_true(fingerprint(5) != fingerprint(6));
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WORLD_TEST(jitter_spreads_landings_and_keeps_their_order),
        WORLD_TEST(a_rate_puts_frames_one_behind_the_other),
        WORLD_TEST(a_lost_frame_is_repaired_and_holds_up_those_behind_it),
        WORLD_TEST(a_stall_holds_both_directions_up_and_loses_nothing),
        WORLD_TEST(a_cut_loses_what_is_on_the_way_and_keeps_what_is_sent),
        WORLD_TEST(the_queue_of_a_cut_line_is_bounded),
        WORLD_TEST(a_cut_edge_and_a_lost_hub_may_end),
        WORLD_TEST(a_key_is_known_at_the_hub_only),
        WORLD_TEST(who_is_inside_is_known_at_the_hub_only),
        WORLD_TEST(a_node_at_work_does_not_stop_the_clock),
        cmocka_unit_test(a_seed_replays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
