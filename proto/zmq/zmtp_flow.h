// zmtp_flow - where the frames of a ZMTP 3 connection end, from its bytes alone. For zmq_relay only.
//
//     greeting (64 bytes) │ flags, length, body │ flags, length, body │ ...
//
// Lengths are readable even where CURVE encrypts the bodies. A frame is given a cost: what it holds in memory while
// libzmq keeps it, which for a frame of one byte is far more than the byte, and once it is whole the time to handle it. Source: RFC 23 (ZMTP 3.0), "Framing".
//
// A connection begins with commands, which libzmq itself takes: READY, or with CURVE HELLO and INITIATE. They are short
// and cost only while they come. Commands behind them, as ZMTP's heartbeats or SUBSCRIBE, are none of ours: libzmq keeps
// some of them for a reader that never takes them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_ZMTP_FRAME_COST 64u // of a frame beside its body: libzmq's message
#define OR_ZMTP_HANDLING_COST                                                                      \
    (16u << 10) // of a whole frame: the time that the hub takes for it, as if it were memory
#define OR_ZMTP_GREETING_BYTES 64u
#define OR_ZMTP_COMMAND_BYTES_MAX 4096u // of a body
#define OR_ZMTP_VERSION_BYTES                                                                      \
    11u // of the greeting, until its version; what encrypts comes behind that

typedef struct {
    uint64_t greeted;   // bytes of the greeting so far
    uint8_t head[9];    // flags and length of the frame that begins
    uint8_t head_bytes; // how much of it is there
    uint64_t left;      // of the body that is under way
    bool is_command;    // it is for libzmq itself
    bool is_wrong;      // a command where none may be, or something else where one must be
    uint8_t commands;   // with which the connection begins: 1, with CURVE 2
    uint64_t frames;    // that are whole
    uint64_t begun;     // cost so far of the frame that is under way; 0 between frames
} or_zmtp_flow_t;       // zero but for `commands`: nothing has come yet

// These bytes come next. *whole: the cost of the frames, but for commands, that they make whole. False: this is no ZMTP
// of version 3, or has commands where none may be.
bool or_zmtp_flow_pass(or_zmtp_flow_t *flow, const uint8_t *bytes, size_t count, uint64_t *whole);
// How many bytes must come at least before a frame can end: 0 between two frames.
uint64_t or_zmtp_flow_wanted(const or_zmtp_flow_t *flow);
// The cost of a whole frame whose body has so many bytes.
static inline uint64_t or_zmtp_cost(uint64_t bytes)
{
    return OR_ZMTP_HANDLING_COST + OR_ZMTP_FRAME_COST + bytes;
}
