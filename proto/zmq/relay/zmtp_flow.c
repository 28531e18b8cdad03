#include "proto/zmq/relay/zmtp_flow.h"

#define SIGNATURE_END 9 // index of the last byte of the signature; the version comes behind it
#define VERSION 3
#define FLAG_LONG 2
#define FLAG_COMMAND 4

static bool greeting_is_ours(uint64_t index, uint8_t byte)
{
    switch (index) {
    case 0:
        return byte == 0xff;
    case SIGNATURE_END:
        return (byte & 1) != 0;
    case SIGNATURE_END + 1:
        return byte >= VERSION;
    default:
        return true;
    }
}

static size_t head_size(const or_zmtp_flow_t *flow)
{
    return flow->head_bytes > 0 && (flow->head[0] & FLAG_LONG) != 0 ? 9 : 2;
}

// Take what the whole head says of the body.
static void begin_body(or_zmtp_flow_t *flow)
{
    flow->left = 0;
    for (size_t i = 1; i < head_size(flow); i++) {
        flow->left = flow->left << 8 | flow->head[i];
    }
    flow->is_command = (flow->head[0] & FLAG_COMMAND) != 0;
    flow->is_wrong = flow->is_command != (flow->frames < flow->commands) ||
                     (flow->is_command && flow->left > OR_ZMTP_COMMAND_BYTES_MAX);
    flow->head_bytes = 0;
    flow->begun = OR_ZMTP_FRAME_COST;
}

// Pass one byte of a head, or as much of a body as there is.
static size_t pass_some(or_zmtp_flow_t *flow, const uint8_t *bytes, size_t count)
{
    if (flow->left == 0) {
        flow->head[flow->head_bytes++] = *bytes;
        if (flow->head_bytes == head_size(flow)) {
            begin_body(flow);
        }
        return 1;
    }
    size_t passed = flow->left < count ? (size_t)flow->left : count;
    flow->left -= passed;
    flow->begun += passed;
    return passed;
}

bool or_zmtp_flow_pass(or_zmtp_flow_t *flow, const uint8_t *bytes, size_t count, uint64_t *whole)
{
    *whole = 0;
    size_t at = 0;
    for (; at < count && flow->greeted < OR_ZMTP_GREETING_BYTES; at++) {
        if (!greeting_is_ours(flow->greeted++, bytes[at])) {
            return false;
        }
    }
    while (at < count && !flow->is_wrong) {
        at += pass_some(flow, bytes + at, count - at);
        if (or_zmtp_flow_wanted(flow) == 0) {
            *whole += flow->is_command ? 0 : OR_ZMTP_HANDLING_COST + flow->begun;
            flow->frames++;
            flow->begun = 0;
        }
    }
    return !flow->is_wrong;
}

uint64_t or_zmtp_flow_wanted(const or_zmtp_flow_t *flow)
{
    if (flow->greeted < OR_ZMTP_GREETING_BYTES) {
        return OR_ZMTP_GREETING_BYTES - flow->greeted;
    }
    return flow->head_bytes > 0 ? head_size(flow) - flow->head_bytes : flow->left;
}
