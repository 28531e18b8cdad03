// The functions of message.h: frames, names and hashes.
#include "proto/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/version.h"
#include "proto/wire/codec.h"

// The memory that decoding a frame may take: a multiple of the frame's size, and a constant. Honest frames need up to 8 bytes a
// byte, for arrays of small 64-bit numbers. Empty sub-messages need up to 60, and frames with very many of them are refused.
#define COST_PER_BYTE 10u
#define COST_CONSTANT (128u << 10)

static const or_wire_row_t *find_body(uint32_t type)
{
    const or_wire_row_t *row = type < or_message_table.count ? &or_message_table.rows[type] : NULL;
    return row != NULL && row->shape == OR_WIRE_CHOICE ? row : NULL;
}

or_status_t or_message_encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes)
{
    if (find_body(message->type) == NULL) {
        return or_fail(OR_ERR_INVALID, "cannot encode a message of unknown type %u",
                       (unsigned)message->type);
    }
    or_message_t sent = *message;
    sent.version = message->version != 0 ? message->version : OR_PROTOCOL_VERSION;
    const size_t size = or_wire_measure(&or_message_table, &sent);
    if (size > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "a %s message of %zu bytes is over the limit of %u bytes",
                       or_message_type_name(message->type), size, OR_FRAME_BYTES_MAX);
    }
    uint8_t *frame = malloc(size);
    if (frame == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "out of memory while encoding a message");
    }
    or_wire_write(&or_message_table, &sent, frame);
    *bytes = size;
    *frame_p = frame;
    return OR_OK;
}

// Check a message that was read: version and type first, then lengths and bounds.
static or_status_t accept_message(const or_wire_reader_t *reader, or_message_t *message)
{
    if (message->version != OR_PROTOCOL_VERSION && message->type != OR_MSG_ERROR) {
        return or_fail(OR_ERR_MISMATCH,
                       "the peer speaks protocol %u, this is %u: install the same release on both "
                       "sides",
                       message->version, OR_PROTOCOL_VERSION);
    }
    if (find_body(message->type) == NULL) {
        return or_fail(OR_ERR_FORMAT,
                       "unknown message type: the peer may be newer than this program (%s)",
                       OR_VERSION);
    }
    return or_wire_settle(reader, &or_message_table, message);
}

static or_status_t read_message(or_wire_reader_t *reader, const uint8_t *frame, size_t bytes,
                                or_message_t *message)
{
    or_status_t status = OR_OK;
    if (!or_wire_read(reader, &or_message_table, frame, bytes, message)) {
        status = or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is not a well-formed message", bytes);
    } else if (message->version == 0) {
        status = or_fail(OR_ERR_FORMAT, "a frame without a protocol version is not Outrider's");
    }
    if (status != OR_OK) {
        memset(message, 0, sizeof *message);
        return status;
    }
    return accept_message(reader, message);
}

or_status_t or_message_decode(const uint8_t *frame, size_t bytes, or_message_t *message)
{
    memset(message, 0, sizeof *message);
    if (bytes > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is over the limit of %u bytes", bytes,
                       OR_FRAME_BYTES_MAX);
    }
    or_wire_reader_t reader = {0};
    or_message_arena_init(&reader.arena, COST_CONSTANT + COST_PER_BYTE * bytes);
    or_status_t status =
        read_message(&reader, bytes > 0 ? frame : (const uint8_t *)"", bytes, message);
    if (status != OR_OK && reader.arena.system_refused) { // the frame is not to blame
        status = or_fail(OR_ERR_NO_MEMORY, "no memory to read a frame of %zu bytes", bytes);
    }
    if (status != OR_OK) {
        memset(&message->body, 0, sizeof message->body); // it may point into the arena
        or_message_blocks_free(reader.arena.blocks);
        return status;
    }
    message->owned = reader.arena.blocks;
    return OR_OK;
}

void or_message_fini(or_message_t *message)
{
    or_message_blocks_free(message->owned);
    memset(message, 0, sizeof *message);
}

// ---- names ----

const char *or_message_type_name(uint32_t type)
{
    const or_wire_row_t *row = find_body(type);
    return row != NULL ? row->name : "unknown";
}

static const char *name_of(const char *const *names, size_t count, uint32_t number)
{
    return number < count && names[number] != NULL ? names[number] : "unknown";
}

const char *or_role_name(or_role_t role)
{
    static const char *const names[] = {
        [OR_ROLE_NONE] = "none",
        [OR_ROLE_CLIENT] = "client",
        [OR_ROLE_DRAFTER] = "drafter",
        [OR_ROLE_VERIFIER] = "verifier",
        [OR_ROLE_COORDINATOR] = "coordinator",
    };
    return name_of(names, sizeof names / sizeof *names, (uint32_t)role);
}

const char *or_finish_name(uint32_t finish)
{
    static const char *const names[] = {
        [OR_FINISH_NONE] = "none",           [OR_FINISH_STOP] = "stop",
        [OR_FINISH_LENGTH] = "length",       [OR_FINISH_ERROR] = "error",
        [OR_FINISH_CANCELLED] = "cancelled",
    };
    return name_of(names, sizeof names / sizeof *names, finish);
}

const char *or_guess_source_name(uint32_t source)
{
    static const char *const names[] = {
        [OR_SOURCE_PLAIN] = "plain",
        [OR_SOURCE_LOOKUP] = "lookup",
        [OR_SOURCE_DRAFTER] = "drafter",
    };
    return name_of(names, sizeof names / sizeof *names, source);
}

const char *or_draft_policy_name(uint32_t policy)
{
    return policy == OR_POLICY_FIXED ? "fixed" : policy == OR_POLICY_AUTO ? "auto" : NULL;
}

// ---- hashes ----

// Fold a number into a hash, with the same result on hosts of either byte order.
static uint64_t fold(uint64_t hash, uint32_t number)
{
    const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24)};
    return XXH64(bytes, sizeof bytes, hash);
}

uint64_t or_prefix_hash(uint64_t hash, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hash = fold(hash, tokens[i]);
    }
    return hash;
}

uint64_t or_vocab_map_hash(const int32_t *to, uint32_t count)
{
    uint64_t hash = fold(0, count);
    for (uint32_t i = 0; i < count; i++) {
        hash = fold(hash, (uint32_t)to[i]);
    }
    return hash != 0 ? hash : 1;
}
