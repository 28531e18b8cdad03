// Goal: the relay knows where frames begin and end, however the bytes are cut, and what each holds in memory.
// Method: streams of random frames in pieces of random size against a list of the frames that were written.
#include "proto/zmq/relay/zmtp_flow.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define GREETING 64
#define STREAM_BYTES 65536
#define COMMAND 4
#define LONG 2

typedef struct {
    uint8_t bytes[STREAM_BYTES];
    size_t count;
    uint64_t cost; // of all frames but commands
} stream_t;

static void greet(stream_t *stream)
{
    memset(stream, 0, sizeof *stream);
    stream->bytes[0] = 0xff;
    stream->bytes[9] = 0x7f;
    stream->bytes[10] = 3;
    stream->count = GREETING;
}

static void add_frame(stream_t *stream, uint8_t flags, size_t length)
{
    uint8_t *at = stream->bytes + stream->count;
    *at++ = flags | (length > UINT8_MAX ? LONG : 0);
    for (int shift = length > UINT8_MAX ? 56 : 0; shift >= 0; shift -= 8) {
        *at++ = (uint8_t)((uint64_t)length >> shift);
    }
    memset(at, 0xff, length); // would read as heads, if anybody took it for such
    stream->count = (size_t)(at + length - stream->bytes);
    stream->cost += (flags & COMMAND) != 0 ? 0 : or_zmtp_cost(length);
}

static void frames_are_counted_however_they_are_cut(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    static stream_t stream;
    for (int round = 0; round < 200; round++) {
        or_zmtp_flow_t flow = {.commands = (uint8_t)(round % 3)};
        uint64_t whole, sum = 0;
        greet(&stream);
        for (int i = 0; i < 20; i++) {
            uint64_t kind = test_random(&state);
            size_t length = test_random(&state) % (kind % 3 == 0 ? 3000 : 4);
            add_frame(&stream, i < (int)(round % 3) ? COMMAND : kind % 2, length);
        }
        for (size_t at = 0; at < stream.count;) {
            size_t part = 1 + test_random(&state) % (round % 2 == 0 ? 3 : 5000);
            part = part < stream.count - at ? part : stream.count - at;
            assert_true(or_zmtp_flow_pass(&flow, stream.bytes + at, part, &whole));
            sum += whole;
            at += part;
        }
        assert_int_equal(sum, stream.cost);
        assert_int_equal(or_zmtp_flow_wanted(&flow), 0);
        assert_int_equal(flow.begun, 0);
    }
}

static void a_frame_under_way_says_what_is_missing(void **context)
{
    (void)context;
    static stream_t stream;
    or_zmtp_flow_t flow = {.greeted = 0};
    uint64_t whole;
    greet(&stream);
    add_frame(&stream, 0, 1000);
    assert_int_equal(or_zmtp_flow_wanted(&flow), GREETING);
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes, GREETING, &whole));
    assert_int_equal(or_zmtp_flow_wanted(&flow), 0);
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes + GREETING, 1, &whole));
    assert_int_equal(or_zmtp_flow_wanted(&flow), 8); // the length
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes + GREETING + 1, 8 + 300, &whole));
    assert_int_equal(or_zmtp_flow_wanted(&flow), 700);
    assert_int_equal(flow.begun, OR_ZMTP_FRAME_COST + 300);
    assert_int_equal(whole, 0);
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes + GREETING + 309, 700, &whole));
    assert_int_equal(whole, or_zmtp_cost(1000));
}

static void a_command_counts_while_it_comes(void **context)
{
    (void)context;
    static stream_t stream;
    or_zmtp_flow_t flow = {.commands = 1};
    uint64_t whole;
    greet(&stream);
    add_frame(&stream, COMMAND, OR_ZMTP_COMMAND_BYTES_MAX);
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes, stream.count - 1, &whole));
    assert_int_equal(flow.begun, OR_ZMTP_FRAME_COST + OR_ZMTP_COMMAND_BYTES_MAX - 1);
    assert_true(or_zmtp_flow_pass(&flow, stream.bytes + stream.count - 1, 1, &whole));
    assert_int_equal(flow.begun, 0);
    assert_int_equal(whole, 0);
}

static void commands_stand_at_the_beginning_and_are_short(void **context)
{
    (void)context;
    static const struct {
        uint8_t commands, flags[3];
        size_t length;
        bool good;
    } cases[] = {
        {1, {COMMAND, 0, 1}, 5, true},
        {2, {COMMAND, COMMAND, 0}, 5, true},
        {1, {0, 0, 0}, 5, false},
        {1, {COMMAND, COMMAND, 0}, 5, false},
        {1, {COMMAND, COMMAND | 1, 0}, 5, false},
        {2, {COMMAND, 0, 0}, 5, false},
        {1, {COMMAND, 0, COMMAND}, 5, false},
        {1, {COMMAND, 0, 0}, OR_ZMTP_COMMAND_BYTES_MAX + 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static stream_t stream;
        or_zmtp_flow_t flow = {.commands = cases[i].commands};
        uint64_t whole;
        greet(&stream);
        for (size_t frame = 0; frame < 3; frame++) {
            add_frame(&stream, cases[i].flags[frame], cases[i].length);
        }
        assert_int_equal(or_zmtp_flow_pass(&flow, stream.bytes, stream.count, &whole),
                         cases[i].good);
    }
}

static void what_is_no_zmtp_3_is_refused(void **context)
{
    (void)context;
    static stream_t stream;
    static const struct {
        size_t at;
        uint8_t byte;
    } faults[] = {{0, 'G'}, {0, 1}, {9, 0x7e}, {10, 1}, {10, 2}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        or_zmtp_flow_t flow = {.greeted = 0};
        uint64_t whole;
        greet(&stream);
        stream.bytes[faults[i].at] = faults[i].byte;
        assert_false(or_zmtp_flow_pass(&flow, stream.bytes, GREETING, &whole));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_counted_however_they_are_cut),
        cmocka_unit_test(a_frame_under_way_says_what_is_missing),
        cmocka_unit_test(a_command_counts_while_it_comes),
        cmocka_unit_test(commands_stand_at_the_beginning_and_are_short),
        cmocka_unit_test(what_is_no_zmtp_3_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
