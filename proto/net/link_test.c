// Goal: two links greet each other, notice each other's absence and keep quiet about nonsense, over
// a network that loses frames.
// Method: a hub and two edges on the network in memory and the virtual clock, driven as a program
// drives them (receive until empty, tick, wait); the hub's owner welcomes every Hello. What each
// owner sees is counted.
#include "proto/net/link.h"

#include <stdlib.h>
#include <string.h>

#include "proto/net/padding.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define EDGES 2
#define HEARTBEAT_MS 100
#define INTERVAL_NS (HEARTBEAT_MS * OR_NS_PER_MS)
#define SILENCE_NS (OR_LINK_SILENCE * INTERVAL_NS)

// An end and what its owner has seen.
typedef struct {
    or_channel_t *channel;
    or_link_t *link; // NULL: down, or driven by hand
    bool hung;       // connected, but its program does nothing
    int seen[OR_MSG_HEARTBEAT + 1];
    int lost, malformed;
    or_peer_t from; // of the last event
    uint32_t error_code;
    char error_text[256];
} party_t;

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    party_t hub;
    party_t edges[EDGES];
    bool mute; // the hub's owner welcomes nobody
} fixture_t;

static const or_network_faults_t no_faults = {.delay_min_ns = OR_NS_PER_MS,
                                              .delay_max_ns = OR_NS_PER_MS};

static void start_hub(fixture_t *fixture)
{
    party_t *hub = &fixture->hub;
    memset(hub, 0, sizeof *hub);
    assert_int_equal(or_network_hub(fixture->network, &hub->channel), OR_OK);
    assert_int_equal(
        or_link_create(hub->channel, &fixture->clock.clock, NULL, HEARTBEAT_MS, &hub->link), OR_OK);
}

static void start_edge(fixture_t *fixture, party_t *edge)
{
    memset(edge, 0, sizeof *edge);
    const or_hello_t hello = {.role = OR_ROLE_DRAFTER, .software = "test", .model = "none"};
    assert_int_equal(or_network_edge(fixture->network, &edge->channel), OR_OK);
    assert_int_equal(
        or_link_create(edge->channel, &fixture->clock.clock, &hello, HEARTBEAT_MS, &edge->link),
        OR_OK);
}

static void stop(party_t *party)
{
    or_link_destroy(&party->link);
    or_channel_destroy(&party->channel);
}

static int set_up(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    or_virtual_clock_init(&fixture->clock, 5 * OR_NS_PER_S);
    assert_int_equal(or_network_create(&fixture->clock, 42, &no_faults, &fixture->network), OR_OK);
    start_hub(fixture);
    for (int i = 0; i < EDGES; i++) {
        start_edge(fixture, &fixture->edges[i]);
    }
    *context = fixture;
    return 0;
}

static int tear_down(void **context)
{
    fixture_t *fixture = *context;
    for (int i = 0; i < EDGES; i++) {
        stop(&fixture->edges[i]);
    }
    stop(&fixture->hub);
    or_network_destroy(&fixture->network);
    free(fixture);
    return 0;
}

static void welcome(or_link_t *link, or_peer_t peer)
{
    or_message_t message = {.type = OR_MSG_WELCOME};
    message.body.welcome.heartbeat_ms = HEARTBEAT_MS;
    or_link_send(link, peer, &message); // lost or unreachable: the edge asks again
}

static void note(fixture_t *fixture, party_t *party, const or_message_t *message)
{
    party->seen[message->type]++;
    if (message->type == OR_MSG_ERROR) {
        party->error_code = message->body.error.code;
        strncpy(party->error_text, message->body.error.text, sizeof party->error_text - 1);
    }
    if (message->type == OR_MSG_HELLO && !fixture->mute) {
        welcome(party->link, party->from);
    }
}

static void drain(fixture_t *fixture, party_t *party)
{
    or_link_event_t event;
    or_message_t message;
    while (or_link_receive(party->link, &event, &party->from, &message) == OR_OK) {
        if (event == OR_LINK_PEER_LOST) {
            party->lost++;
            assert_true(or_link_bytes(party->link, party->from) > 0); // still there to be counted
            continue;
        }
        if (event == OR_LINK_MALFORMED) {
            party->malformed++;
            continue;
        }
        note(fixture, party, &message);
        or_message_fini(&message);
    }
}

// Frames that land at a hung program are out of the way of the others.
static void discard(party_t *party)
{
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    while (or_channel_receive(party->channel, &from, &frame, &bytes) == OR_OK) {
    }
}

static int64_t turn(fixture_t *fixture, party_t *party)
{
    if (party->hung) {
        discard(party);
    }
    if (party->link == NULL) {
        return OR_TIME_NEVER;
    }
    drain(fixture, party);
    return or_link_tick(party->link);
}

// Let the world go on for `span_ns`.
static void run(fixture_t *fixture, int64_t span_ns)
{
    int64_t end = fixture->clock.now_ns + span_ns;
    int turns = 0;
    while (fixture->clock.now_ns < end) {
        int64_t due = turn(fixture, &fixture->hub);
        for (int i = 0; i < EDGES; i++) {
            int64_t mine = turn(fixture, &fixture->edges[i]);
            due = mine < due ? mine : due;
        }
        int64_t lands = or_network_next_ns(fixture->network);
        due = lands < due ? lands : due;
        due = due < end ? due : end;
        assert_true(turns++ < 1000000); // time must go on
        if (due > fixture->clock.now_ns) {
            fixture->clock.now_ns = due;
        }
    }
}

static void send_raw(party_t *from, or_peer_t to, const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(message, &frame, &bytes), OR_OK);
    assert_int_equal(or_channel_send(from->channel, to, frame, bytes), OR_OK);
    free(frame);
}

static size_t frame_bytes(const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(message, &frame, &bytes), OR_OK);
    free(frame);
    return bytes;
}

static void an_edge_is_greeted_once(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, 20 * SILENCE_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES);
    for (int i = 0; i < EDGES; i++) {
        assert_true(or_link_welcomed(fixture->edges[i].link));
        assert_int_equal(fixture->edges[i].seen[OR_MSG_WELCOME], 1);
        assert_int_equal(fixture->edges[i].lost, 0);
    }
    assert_int_equal(fixture->hub.lost, 0);
    assert_false(or_link_welcomed(fixture->hub.link));
}

static void hello_is_repeated_until_welcome(void **context)
{
    fixture_t *fixture = *context;
    fixture->mute = true;
    run(fixture, 4 * INTERVAL_NS);
    assert_in_range(fixture->hub.seen[OR_MSG_HELLO], 7 * EDGES, 8 * EDGES); // every half interval
    assert_false(or_link_welcomed(fixture->edges[0].link));
    fixture->mute = false;
    run(fixture, INTERVAL_NS);
    assert_true(or_link_welcomed(fixture->edges[0].link));
}

static void greeting_survives_losses(void **context)
{
    fixture_t *fixture = *context;
    const or_network_faults_t faults = {
        .lose = 0.3, .repeat = 0.1, .delay_min_ns = 0, .delay_max_ns = INTERVAL_NS};
    or_network_set_faults(fixture->network, &faults);
    run(fixture, 20 * INTERVAL_NS);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    assert_true(or_link_welcomed(fixture->edges[1].link));
    run(fixture, 20 * SILENCE_NS); // ten losses in a row are one in 170,000
    assert_int_equal(fixture->hub.lost, 0);
    assert_int_equal(fixture->edges[0].lost, 0);
}

static void a_silent_edge_is_reported_once(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    or_link_destroy(&fixture->edges[0].link);
    fixture->edges[0].hung = true;
    run(fixture, SILENCE_NS - 2 * INTERVAL_NS);
    assert_int_equal(fixture->hub.lost, 0);
    run(fixture, 5 * SILENCE_NS);
    assert_int_equal(fixture->hub.lost, 1);
    assert_true(or_link_welcomed(fixture->edges[1].link));
}

static void a_crashed_edge_comes_back_as_a_new_peer(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    stop(&fixture->edges[0]);
    run(fixture, 2 * INTERVAL_NS); // the hub's heartbeat finds nobody
    assert_int_equal(fixture->hub.lost, 1);
    or_peer_t gone = fixture->hub.from;
    assert_int_equal(or_link_bytes(fixture->hub.link, gone), 0);
    assert_int_equal(or_link_send_error(fixture->hub.link, gone, (or_session_id_t){0},
                                        OR_WIRE_FAILED, "anybody?"),
                     OR_ERR_UNREACHABLE);
    start_edge(fixture, &fixture->edges[0]);
    run(fixture, INTERVAL_NS);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    assert_int_equal(fixture->hub.lost, 1);
}

static void a_silent_hub_is_reported_once(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    stop(&fixture->hub);
    run(fixture, 5 * SILENCE_NS);
    assert_int_equal(fixture->edges[0].lost, 1);
    assert_false(or_link_welcomed(fixture->edges[0].link));
    start_hub(fixture);
    run(fixture, INTERVAL_NS);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    stop(&fixture->hub);
    run(fixture, 2 * SILENCE_NS);
    assert_int_equal(fixture->edges[0].lost, 2); // once for each absence
}

static void a_restarted_hub_is_greeted_at_once(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    stop(&fixture->hub);
    start_hub(fixture);
    run(fixture, 2 * INTERVAL_NS); // a heartbeat, "say Hello first", Hello, Welcome
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES);
    assert_int_equal(fixture->edges[0].seen[OR_MSG_WELCOME], 2);
    assert_int_equal(fixture->edges[0].seen[OR_MSG_ERROR], 0);
    assert_int_equal(fixture->edges[0].lost, 0);
    assert_true(or_link_welcomed(fixture->edges[0].link));
}

// A cut too short to be a silence; the hub takes who comes back for a stranger.
static void a_new_connection_is_greeted_at_once(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    or_network_cut(fixture->edges[0].channel);
    run(fixture, INTERVAL_NS / 10);
    or_network_mend(fixture->edges[0].channel);
    run(fixture, 3 * OR_NS_PER_MS); // there and back
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES + 1);
    assert_int_equal(fixture->edges[0].seen[OR_MSG_WELCOME], 2);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    assert_int_equal(fixture->edges[0].lost, 0);
}

static void no_greetings_pile_up_while_there_is_no_connection(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    or_network_cut(fixture->edges[0].channel);
    run(fixture, 20 * SILENCE_NS);
    assert_int_equal(fixture->edges[0].lost, 1);
    assert_false(or_link_welcomed(fixture->edges[0].link));
    or_network_mend(fixture->edges[0].channel);
    run(fixture, 3 * OR_NS_PER_MS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES + 1);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    assert_true(or_link_welcomed(fixture->edges[1].link));
}

static void heartbeats_fill_the_silence_only(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    or_link_t *link = fixture->edges[0].link;
    uint64_t before = or_link_bytes(link, OR_PEER_HUB);
    run(fixture, 100 * INTERVAL_NS);
    size_t beat = frame_bytes(&(or_message_t){.type = OR_MSG_HEARTBEAT});
    uint64_t beats = (or_link_bytes(link, OR_PEER_HUB) - before) / beat;
    assert_in_range(beats, 2 * 99, 2 * 101); // one each way an interval
    before = or_link_bytes(link, OR_PEER_HUB);
    const or_message_t message = {.type = OR_MSG_KV_EVICTED, .session = {1}};
    for (int i = 0; i < 200; i++) { // every half interval something of the owner's
        assert_int_equal(or_link_send(link, OR_PEER_HUB, &message), OR_OK);
        run(fixture, INTERVAL_NS / 2);
    }
    assert_int_equal(fixture->hub.seen[OR_MSG_KV_EVICTED], 200);
    uint64_t rest = or_link_bytes(link, OR_PEER_HUB) - before - 200 * frame_bytes(&message);
    assert_in_range(rest, 99 * beat, 101 * beat); // the hub's heartbeats alone
}

static void a_beat_in_the_middle_of_work_is_a_sign_of_life(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    or_link_t *link = fixture->edges[0].link;
    fixture->edges[0].link = NULL; // it works, and has no turns meanwhile
    for (int i = 0; i < 6 * OR_LINK_SILENCE; i++) {
        run(fixture, INTERVAL_NS / 2);
        or_link_beat(link);
    }
    assert_int_equal(fixture->hub.lost, 0);
    run(fixture, 2 * SILENCE_NS);
    assert_int_equal(fixture->hub.lost, 1);
    fixture->edges[0].link = link;
}

// The hub's number for the first edge.
static or_peer_t first_edge(fixture_t *fixture)
{
    const or_message_t message = {.type = OR_MSG_KV_EVICTED, .session = {1}};
    run(fixture, INTERVAL_NS);
    assert_int_equal(or_link_send(fixture->edges[0].link, OR_PEER_HUB, &message), OR_OK);
    run(fixture, 3 * OR_NS_PER_MS);
    return fixture->hub.from;
}

// A prefix of so many tokens; what the peer has not read then.
static uint64_t send_much(fixture_t *fixture, or_peer_t peer, uint32_t count)
{
    static uint32_t ids[20000];
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = 30000 + i; // three bytes each
    }
    const or_message_t message = {
        .type = OR_MSG_PREFIX, .session = {1}, .body.prefix = {.tokens = ids, .count = count}};
    assert_int_equal(or_link_send(fixture->hub.link, peer, &message), OR_OK);
    return or_link_unread(fixture->hub.link, peer);
}

static void a_hub_knows_how_far_a_peer_has_read(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t peer = first_edge(fixture);
    assert_int_equal(send_much(fixture, peer, 1000), 0); // too little to ask
    fixture->edges[0].hung = true;
    uint64_t unread = 0;
    for (uint32_t i = 0; i < 4; i++) {
        unread = send_much(fixture, peer, 20000);
        run(fixture, INTERVAL_NS);
    }
    assert_true(unread > 4 * 50000);
    assert_true(or_link_unread(fixture->hub.link, peer) >= unread);
    fixture->edges[0].hung = false;
    run(fixture, 3 * INTERVAL_NS); // it is asked again, reads, and says so
    assert_int_equal(or_link_unread(fixture->hub.link, peer), 0);
}

// Small frames ask for answers that nobody reads, and that are in no account.
static void who_does_not_read_gets_no_answers(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t peer = first_edge(fixture);
    const or_message_t question = {.type = OR_MSG_HEARTBEAT, .body.heartbeat.reply = 5};
    const or_session_id_t none = {0};
    assert_int_equal(or_link_send_error(fixture->hub.link, peer, none, OR_WIRE_INVALID, "no"),
                     OR_OK);
    fixture->edges[0].hung = true;
    while (send_much(fixture, peer, 20000) <= 300000) {
    }
    uint64_t unread = or_link_unread(fixture->hub.link, peer);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(or_link_send(fixture->edges[0].link, OR_PEER_HUB, &question), OR_OK);
    }
    run(fixture, 5 * OR_NS_PER_MS);
    assert_int_equal(or_link_send_error(fixture->hub.link, peer, none, OR_WIRE_INVALID, "no"),
                     OR_ERR_FULL);
    assert_int_equal(or_link_unread(fixture->hub.link, peer), unread);
}

// A heartbeat of the peer's own accord, or with a number that was not asked, is no answer.
static void an_answer_cannot_be_guessed(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t peer = first_edge(fixture);
    fixture->edges[0].hung = true;
    send_much(fixture, peer, 20000);
    uint64_t unread = send_much(fixture, peer, 20000);
    assert_true(unread > 65536);
    for (uint32_t answer = 0; answer < 100; answer++) {
        const or_message_t guess = {.type = OR_MSG_HEARTBEAT, .body.heartbeat.answer = answer};
        assert_int_equal(or_link_send(fixture->edges[0].link, OR_PEER_HUB, &guess), OR_OK);
    }
    run(fixture, 5 * OR_NS_PER_MS);
    assert_true(or_link_unread(fixture->hub.link, peer) >= unread);
}

static void bytes_agree_on_both_sides(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, 50 * INTERVAL_NS + INTERVAL_NS / 2); // nothing in flight
    uint64_t edges = 0, hub = 0;
    for (int i = 0; i < EDGES; i++) {
        edges += or_link_bytes(fixture->edges[i].link, OR_PEER_HUB);
    }
    for (uint64_t peer = 0; peer < 10; peer++) {
        hub += or_link_bytes(fixture->hub.link, (or_peer_t){peer});
    }
    assert_int_equal(edges, hub);
    assert_true(edges > 0);
}

// The hub's Welcome and heartbeats, to the one peer that has a key.
static void frames_to_a_key_are_padded_and_counted_so(void **context)
{
    fixture_t *fixture = *context;
    or_network_set_key(fixture->edges[0].channel, "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7");
    run(fixture, 10 * INTERVAL_NS + INTERVAL_NS / 2);
    uint64_t keyed = or_link_bytes(fixture->edges[0].link, OR_PEER_HUB);
    uint64_t plain = or_link_bytes(fixture->edges[1].link, OR_PEER_HUB);
    size_t beat = frame_bytes(&(or_message_t){.type = OR_MSG_HEARTBEAT});
    assert_true(plain < 30 * beat + 2 * OR_PADDING_LEAST);
    assert_true(keyed > 9 * OR_PADDING_LEAST);
    or_link_set_padding(fixture->hub.link, false);
    run(fixture, 10 * INTERVAL_NS);
    assert_in_range(or_link_bytes(fixture->edges[0].link, OR_PEER_HUB) - keyed, 19 * beat,
                    21 * beat);
}

static void another_version_gets_an_error(void **context)
{
    fixture_t *fixture = *context;
    party_t *edge = &fixture->edges[0];
    or_message_t hello = {.type = OR_MSG_HELLO, .version = 9};
    send_raw(edge, OR_PEER_HUB, &hello);
    run(fixture, INTERVAL_NS);
    assert_int_equal(edge->seen[OR_MSG_ERROR], 1);
    assert_int_equal(edge->error_code, OR_WIRE_VERSION);
    assert_non_null(strstr(edge->error_text, "protocol 9"));
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES); // the links' own
    // An Error of another version is passed up, not answered.
    or_message_t error = {.type = OR_MSG_ERROR, .version = 9};
    error.body.error = (or_error_t){.code = OR_WIRE_VERSION, .text = "yours is old"};
    send_raw(edge, OR_PEER_HUB, &error);
    run(fixture, INTERVAL_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_ERROR], 1);
    assert_int_equal(edge->seen[OR_MSG_ERROR], 1);
}

static void nonsense_is_answered_now_and_then(void **context)
{
    fixture_t *fixture = *context;
    party_t *edge = &fixture->edges[0];
    run(fixture, INTERVAL_NS);
    const uint8_t nonsense[] = "GET / HTTP/1.1";
    for (int i = 0; i < 500; i++) {
        assert_int_equal(or_channel_send(edge->channel, OR_PEER_HUB, nonsense, sizeof nonsense),
                         OR_OK);
    }
    run(fixture, INTERVAL_NS);
    assert_int_equal(edge->seen[OR_MSG_ERROR], 10);
    assert_int_equal(edge->error_code, OR_WIRE_INVALID);
    assert_true(or_link_welcomed(edge->link)); // it costs its sender nothing more
    run(fixture, OR_NS_PER_S);
    assert_int_equal(or_channel_send(edge->channel, OR_PEER_HUB, nonsense, sizeof nonsense), OR_OK);
    run(fixture, INTERVAL_NS);
    assert_int_equal(edge->seen[OR_MSG_ERROR], 11);
}

static void greetings_are_answered_now_and_then(void **context)
{
    fixture_t *fixture = *context;
    party_t *edge = &fixture->edges[0];
    run(fixture, INTERVAL_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES);
    const or_message_t hello = {.type = OR_MSG_HELLO, .body.hello = {.role = OR_ROLE_CLIENT}};
    for (int i = 0; i < 500; i++) {
        send_raw(edge, OR_PEER_HUB, &hello);
    }
    run(fixture, INTERVAL_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES + 10);
    run(fixture, OR_NS_PER_S); // its next greeting counts again
    send_raw(edge, OR_PEER_HUB, &hello);
    run(fixture, INTERVAL_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES + 11);
}

static void frames_that_are_no_events_are_not_taken_for_silence(void **context)
{
    fixture_t *fixture = *context;
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    or_link_t *hub = fixture->hub.link;
    run(fixture, INTERVAL_NS);
    assert_true(or_link_is_drained(hub));
    const or_message_t heartbeat = {.type = OR_MSG_HEARTBEAT};
    for (int i = 0; i < 100; i++) { // more than it looks at in one call, fewer than in two
        send_raw(&fixture->edges[0], OR_PEER_HUB, &heartbeat);
    }
    fixture->clock.now_ns += 2 * OR_NS_PER_MS;
    assert_int_equal(or_link_receive(hub, &event, &from, &message), OR_ERR_AGAIN);
    assert_false(or_link_is_drained(hub));
    assert_int_equal(or_link_receive(hub, &event, &from, &message), OR_ERR_AGAIN);
    assert_true(or_link_is_drained(hub));
}

static void strangers_must_say_hello(void **context)
{
    fixture_t *fixture = *context;
    party_t *edge = &fixture->edges[0];
    or_link_destroy(&edge->link);
    const or_message_t prefix = {.type = OR_MSG_PREFIX};
    send_raw(edge, OR_PEER_HUB, &prefix);
    run(fixture, 2 * OR_NS_PER_MS);
    assert_int_equal(fixture->hub.seen[OR_MSG_PREFIX], 0);
    fixture->clock.now_ns += OR_NS_PER_MS;
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    or_message_t message;
    assert_int_equal(or_channel_receive(edge->channel, &from, &frame, &bytes), OR_OK);
    assert_int_equal(or_message_decode(frame, bytes, &message), OR_OK);
    assert_int_equal(message.type, OR_MSG_ERROR);
    assert_string_equal(message.body.error.text, "say Hello first");
    or_message_fini(&message);
    run(fixture, 2 * SILENCE_NS); // the owner never knew it, so it is not told
    assert_int_equal(fixture->hub.lost, 0);
}

typedef struct {
    or_peer_t stopped;
    uint32_t asked;
} gate_t;

static bool gate(void *context, or_peer_t from, size_t bytes)
{
    gate_t *g = context;
    assert_true(bytes > 0);
    g->asked++;
    return from.value != g->stopped.value;
}

static void send_evicted(party_t *edge, int count)
{
    const or_message_t message = {.type = OR_MSG_KV_EVICTED};
    for (int i = 0; i < count; i++) {
        assert_int_equal(or_link_send(edge->link, OR_PEER_HUB, &message), OR_OK);
    }
}

// The last peer the hub heard is stopped; the others are read.
static void a_gate_stops_frames_unread(void **context)
{
    fixture_t *fixture = *context;
    party_t *hub = &fixture->hub;
    run(fixture, INTERVAL_NS);
    send_evicted(&fixture->edges[0], 1);
    run(fixture, 2 * OR_NS_PER_MS);
    gate_t g = {.stopped = hub->from};
    or_link_set_gate(hub->link, gate, &g);
    send_evicted(&fixture->edges[0], 100);
    send_evicted(&fixture->edges[1], 100);
    const uint8_t nonsense[] = "?";
    assert_int_equal(or_channel_send(fixture->edges[0].channel, OR_PEER_HUB, nonsense, 1), OR_OK);
    run(fixture, 2 * SILENCE_NS);
    assert_int_equal(hub->seen[OR_MSG_KV_EVICTED], 101);
    assert_int_equal(hub->malformed, 0);                       // not even decoded
    assert_int_equal(fixture->edges[0].seen[OR_MSG_ERROR], 0); // nor answered
    assert_int_equal(hub->lost, 0);                            // but heard: it is there
    assert_true(g.asked >= 201);
    or_link_set_gate(hub->link, NULL, NULL);
    send_evicted(&fixture->edges[0], 1);
    run(fixture, 2 * OR_NS_PER_MS);
    assert_int_equal(hub->seen[OR_MSG_KV_EVICTED], 102);
}

static void nonsense_of_who_greeted_is_reported(void **context)
{
    fixture_t *fixture = *context;
    const uint8_t nonsense[] = "?";
    run(fixture, INTERVAL_NS);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(or_channel_send(fixture->edges[0].channel, OR_PEER_HUB, nonsense, 1),
                         OR_OK);
    }
    run(fixture, 2 * OR_NS_PER_MS);
    assert_int_equal(fixture->hub.malformed, 30); // all, though not all are answered
    assert_true(fixture->edges[0].seen[OR_MSG_ERROR] <= 10);
}

// Ignored beyond a silence, then a stranger that must greet again; nobody reports its loss.
static void who_is_ignored_is_not_heard_until_then(void **context)
{
    fixture_t *fixture = *context;
    party_t *hub = &fixture->hub;
    run(fixture, INTERVAL_NS);
    send_evicted(&fixture->edges[0], 1);
    run(fixture, 2 * OR_NS_PER_MS);
    int64_t until_ns = fixture->clock.now_ns + 3 * SILENCE_NS;
    int hellos = hub->seen[OR_MSG_HELLO];
    or_link_ignore(hub->link, hub->from, until_ns);
    for (int i = 0; i < 5; i++) {
        send_evicted(&fixture->edges[0], 20);
        run(fixture, SILENCE_NS / 2); // it misses heartbeats and greets: unheard
    }
    assert_int_equal(hub->seen[OR_MSG_KV_EVICTED], 1);
    assert_int_equal(hub->seen[OR_MSG_HELLO], hellos);
    run(fixture, SILENCE_NS);
    assert_int_equal(hub->seen[OR_MSG_HELLO], hellos + 1);
    send_evicted(&fixture->edges[0], 1);
    run(fixture, 2 * OR_NS_PER_MS);
    assert_int_equal(hub->seen[OR_MSG_KV_EVICTED], 2);
    assert_int_equal(hub->lost, 0);
}

static void forgotten_peers_are_not_missed(void **context)
{
    fixture_t *fixture = *context;
    stop(&fixture->edges[1]);
    run(fixture, INTERVAL_NS);
    or_peer_t peer = fixture->hub.from;
    assert_true(or_link_bytes(fixture->hub.link, peer) > 0);
    or_link_forget(fixture->hub.link, peer);
    assert_int_equal(or_link_bytes(fixture->hub.link, peer), 0);
    stop(&fixture->edges[0]);
    run(fixture, 3 * SILENCE_NS);
    assert_int_equal(fixture->hub.lost, 0);
}

static void an_owner_that_was_busy_loses_nobody(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, INTERVAL_NS);
    party_t hub = fixture->hub;
    fixture->hub.link = NULL; // the hub's owner computes for two silences while frames queue up
    for (int i = 0; i < EDGES; i++) {
        or_message_t message = {.type = OR_MSG_KV_EVICTED};
        send_raw(&fixture->edges[i], OR_PEER_HUB, &message);
    }
    fixture->clock.now_ns += 2 * SILENCE_NS;
    fixture->hub = hub;
    or_link_tick(fixture->hub.link); // before it has looked
    turn(fixture, &fixture->hub);
    assert_int_equal(fixture->hub.lost, 0);
}

static void a_crowd_of_strangers_keeps_nobody_out(void **context)
{
    fixture_t *fixture = *context;
    static or_channel_t *strangers[1100]; // more than a link watches
    run(fixture, INTERVAL_NS);
    const uint8_t nonsense[] = "?";
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        assert_int_equal(or_network_edge(fixture->network, &strangers[i]), OR_OK);
        assert_int_equal(or_channel_send(strangers[i], OR_PEER_HUB, nonsense, 1), OR_OK);
    }
    fixture->clock.now_ns += OR_NS_PER_MS;
    for (int i = 0; i < 20; i++) {
        turn(fixture, &fixture->hub);
    }
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        or_channel_destroy(&strangers[i]);
    }
    stop(&fixture->edges[0]);
    start_edge(fixture, &fixture->edges[0]);
    run(fixture, 3 * INTERVAL_NS);
    assert_true(or_link_welcomed(fixture->edges[0].link));
    assert_true(or_link_welcomed(fixture->edges[1].link));
    assert_int_equal(fixture->hub.lost, 1); // the edge that was stopped
}

// More strangers than a link watches, and again: who is ignored is remembered, however long silent.
static void a_crowd_of_strangers_makes_nobody_heard_again(void **context)
{
    fixture_t *fixture = *context;
    party_t *hub = &fixture->hub;
    static or_channel_t *strangers[1100];
    run(fixture, INTERVAL_NS);
    send_evicted(&fixture->edges[0], 1);
    run(fixture, 2 * OR_NS_PER_MS);
    int hellos = hub->seen[OR_MSG_HELLO];
    or_link_ignore(hub->link, hub->from, fixture->clock.now_ns + 10 * SILENCE_NS);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        assert_int_equal(or_network_edge(fixture->network, &strangers[i]), OR_OK);
        assert_int_equal(or_channel_send(strangers[i], OR_PEER_HUB, (const uint8_t *)"?", 1),
                         OR_OK);
    }
    fixture->clock.now_ns += OR_NS_PER_MS;
    for (int i = 0; i < 20; i++) {
        turn(fixture, hub);
    }
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        or_channel_destroy(&strangers[i]);
    }
    run(fixture, 3 * SILENCE_NS); // it greets again and again
    assert_int_equal(hub->seen[OR_MSG_HELLO], hellos);
}

static void a_link_needs_an_interval(void **context)
{
    fixture_t *fixture = *context;
    or_link_t *link = NULL;
    assert_int_equal(or_link_create(fixture->hub.channel, &fixture->clock.clock, NULL, 0, &link),
                     OR_ERR_INVALID);
    assert_null(link);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

// Goal: a peer that has gone is reported although another one never lets the channel become empty.
// Method: one edge hangs; the other's frames come faster than the hub reads them.
static void a_flood_does_not_hide_a_loss(void **context)
{
    fixture_t *fixture = *context;
    run(fixture, 3 * INTERVAL_NS);
    assert_int_equal(fixture->hub.seen[OR_MSG_HELLO], EDGES);
    const or_message_t heartbeat = {.type = OR_MSG_HEARTBEAT};
    or_link_event_t event;
    or_message_t message;
    for (int ms = 0; ms < 3 * OR_LINK_SILENCE * HEARTBEAT_MS && fixture->hub.lost == 0; ms++) {
        for (int i = 0; i < 80; i++) {
            or_link_send(fixture->edges[1].link, OR_PEER_HUB, &heartbeat); // full: enough waits
        }
        fixture->clock.now_ns += OR_NS_PER_MS;
        or_status_t status =
            or_link_receive(fixture->hub.link, &event, &fixture->hub.from, &message);
        fixture->hub.lost += status == OR_OK && event == OR_LINK_PEER_LOST;
        or_link_tick(fixture->hub.link);
    }
    assert_int_equal(fixture->hub.lost, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(an_edge_is_greeted_once),
        WITH_WORLD(hello_is_repeated_until_welcome),
        WITH_WORLD(greeting_survives_losses),
        WITH_WORLD(a_silent_edge_is_reported_once),
        WITH_WORLD(a_crashed_edge_comes_back_as_a_new_peer),
        WITH_WORLD(a_silent_hub_is_reported_once),
        WITH_WORLD(a_restarted_hub_is_greeted_at_once),
        WITH_WORLD(a_new_connection_is_greeted_at_once),
        WITH_WORLD(no_greetings_pile_up_while_there_is_no_connection),
        WITH_WORLD(heartbeats_fill_the_silence_only),
        WITH_WORLD(a_beat_in_the_middle_of_work_is_a_sign_of_life),
        WITH_WORLD(a_hub_knows_how_far_a_peer_has_read),
        WITH_WORLD(an_answer_cannot_be_guessed),
        WITH_WORLD(bytes_agree_on_both_sides),
        WITH_WORLD(frames_to_a_key_are_padded_and_counted_so),
        WITH_WORLD(another_version_gets_an_error),
        WITH_WORLD(nonsense_is_answered_now_and_then),
        WITH_WORLD(greetings_are_answered_now_and_then),
        WITH_WORLD(frames_that_are_no_events_are_not_taken_for_silence),
        WITH_WORLD(strangers_must_say_hello),
        WITH_WORLD(who_does_not_read_gets_no_answers),
        WITH_WORLD(a_gate_stops_frames_unread),
        WITH_WORLD(nonsense_of_who_greeted_is_reported),
        WITH_WORLD(who_is_ignored_is_not_heard_until_then),
        WITH_WORLD(forgotten_peers_are_not_missed),
        WITH_WORLD(an_owner_that_was_busy_loses_nobody),
        WITH_WORLD(a_crowd_of_strangers_keeps_nobody_out),
        WITH_WORLD(a_crowd_of_strangers_makes_nobody_heard_again),
        WITH_WORLD(a_flood_does_not_hide_a_loss),
        WITH_WORLD(a_link_needs_an_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
