// zmtp_flow - where the frames of a ZMTP 3 connection end, from its bytes alone. For zmq_relay only.
//
//     greeting (64 bytes) │ flags, length, body │ flags, length, body │ ...
//
// Lengths are readable even if CURVE encrypts the bodies. A frame has a cost: the memory that it holds while libzmq
// keeps it, and once it is whole the time to handle it. The memory of a frame of one byte is far more than the
// byte. Source: RFC 23 (ZMTP 3.0), "Framing".
//
// A connection begins with commands, which libzmq itself takes: READY, or with CURVE HELLO and INITIATE. They are
// short and cost only while they come. Our peers send no later commands, such as ZMTP's heartbeats or SUBSCRIBE:
// libzmq keeps some of them for a reader that never takes them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_ZMTP_FRAME_COST 64u // the cost of a frame beside its body: libzmq's message
#define OR_ZMTP_HANDLING_COST                                                                      \
    (16u << 10) // of a whole frame: the time that the hub takes for it, as if it were memory
#define OR_ZMTP_GREETING_BYTES 64u
#define OR_ZMTP_COMMAND_BYTES_MAX 4096u // of a command's body
#define OR_ZMTP_VERSION_BYTES                                                                      \
    11u // of the greeting, until its version; what encrypts comes behind that

typedef struct {
    uint64_t greeted;   // bytes of the greeting so far
    uint8_t head[9];    // flags and length of the frame under way
    uint8_t head_bytes; // how many bytes of the head are there
    uint64_t left;      // bytes of its body that are still to come
    bool is_command;    // the frame is for libzmq itself
    bool is_wrong;      // it is a command where none may be, or another frame where one must be
    uint8_t commands;   // number of commands that the connection begins with: 1, with CURVE 2
    uint64_t frames;    // number of whole frames
    uint64_t begun;     // cost so far of the frame under way; 0 between frames
} or_zmtp_flow_t;       // all zero but `commands` before the first byte

// Take the next bytes. *whole receives the cost of the frames, commands left out, that they complete. Returns false
// if this is no ZMTP of version 3 or has commands where none may be.
bool or_zmtp_flow_pass(or_zmtp_flow_t *flow, const uint8_t *bytes, size_t count, uint64_t *whole);
// Return how many bytes must come at least before a frame can end; 0 between two frames.
uint64_t or_zmtp_flow_wanted(const or_zmtp_flow_t *flow);
// Return the cost of a whole frame whose body has so many bytes.
static inline uint64_t or_zmtp_cost(uint64_t bytes)
{
    return OR_ZMTP_HANDLING_COST + OR_ZMTP_FRAME_COST + bytes;
}
