// The functions of message.h: frames and their encoder (codec_decode.c has the decoder), names and hashes.
#include "proto/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/version.h"
#include "proto/wire/codec.h"
#include "proto/wire/codec_access.h"

// The memory that decoding a frame may take: a multiple of the frame's size, and a constant. Honest frames need up to 8 bytes a
// byte, for arrays of small 64-bit numbers. Empty sub-messages need up to 60, and frames with very many of them are refused.
#define COST_PER_BYTE 10u
#define COST_CONSTANT (128u << 10)

// ---- the encoder ----

// A destination of bytes. If `at` is NULL they are only counted.
typedef struct {
    uint8_t *at;
    size_t count;
} sink_t;

static void put(sink_t *sink, const void *bytes, size_t count)
{
    if (sink->at != NULL && count > 0) {
        memcpy(sink->at + sink->count, bytes, count);
    }
    sink->count += count;
}

static void put_varint(sink_t *sink, uint64_t number)
{
    const unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
    if (sink->at != NULL) {
        uint8_t *to = sink->at + sink->count;
        for (; number >= 0x80; number >>= 7) {
            *to++ = (uint8_t)number | 0x80;
        }
        *to = (uint8_t)number;
    }
    sink->count += (bits + 6) / 7;
}

static void put_tag(sink_t *sink, uint32_t number, wire_type_t type)
{
    put_varint(sink, number << 3 | (uint32_t)type);
}

static void put_little_endian(sink_t *sink, uint64_t number, size_t count)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(number >> 8 * i);
    }
    put(sink, bytes, count);
}

static uint32_t zigzag(uint32_t number)
{
    return number << 1 ^ (number >> 31 != 0 ? UINT32_MAX : 0);
}

// Load a number of the kind's own width. An enum is extended to 64 bits by its sign, because protobuf-c does that.
static uint64_t load_number(or_wire_kind_t kind, const char *at)
{
    uint64_t number = 0;
    switch (kinds[kind].entry_bytes) {
    case 1:
        return *at != 0;
    case 4:
        return kind == OR_WIRE_ENUM ? (uint64_t)(int64_t)(int32_t)load_32(at) : load_32(at);
    default:
        memcpy(&number, at, sizeof number);
        return number;
    }
}

static void put_number(sink_t *sink, or_wire_kind_t kind, uint64_t number)
{
    if (kinds[kind].wire_type != VARINT) {
        put_little_endian(sink, number, kinds[kind].entry_bytes);
    } else {
        put_varint(sink, kind == OR_WIRE_SINT32 ? zigzag((uint32_t)number) : number);
    }
}

static void put_fields(sink_t *sink, const or_wire_table_t *table, const char *from);
static size_t measure(const or_wire_table_t *table, const void *from);

static void put_struct(sink_t *sink, const or_wire_table_t *table, const char *from)
{
    size_t count = measure(table, from);
    put_varint(sink, count);
    if (sink->at != NULL) {
        put_fields(sink, table, from);
    } else {
        sink->count += count;
    }
}

// Write the value behind a tag.
static void put_value(sink_t *sink, const or_wire_row_t *row, const char *from)
{
    if (row->kind == OR_WIRE_STRUCT) {
        put_struct(sink, row->inner, from);
    } else if (is_number(row)) {
        put_number(sink, row->kind, load_number(row->kind, from));
    } else {
        const char *text = row->kind == OR_WIRE_STRING ? load_pointer(from) : NULL;
        or_wire_bytes_t bytes =
            text != NULL ? (or_wire_bytes_t){(const uint8_t *)text, (uint32_t)strlen(text)}
                         : load_bytes(from);
        put_varint(sink, bytes.length);
        put(sink, bytes.bytes, bytes.length);
    }
}

// True for values that proto3 leaves out. A float of -0 counts as 0, and NaN does not.
static bool is_absent(const or_wire_row_t *row, const char *from)
{
    const char *text;
    float number;
    switch (row->kind) {
    case OR_WIRE_STRUCT:
        return false;
    case OR_WIRE_STRING:
        text = load_pointer(from);
        return text == NULL || text[0] == '\0';
    case OR_WIRE_BYTES:
        return load_bytes(from).length == 0;
    case OR_WIRE_FLOAT:
        memcpy(&number, from, sizeof number);
        return number == 0;
    default:
        return load_number(row->kind, from) == 0;
    }
}

// Return the number of an array's entries that travel. Levels end at the last one that is not 0.
static uint32_t count_entries(const or_wire_row_t *row, const char *from)
{
    if (row->shape != OR_WIRE_LEVELS) {
        return load_32(from + row->count_at);
    }
    uint32_t count = OR_STATS_LEVELS;
    while (count > 0 &&
           load_number(row->kind, from + row->at + (count - 1) * entry_bytes(row)) == 0) {
        count--;
    }
    return count;
}

static void put_entries(sink_t *sink, const or_wire_row_t *row, const char *entries, uint32_t count)
{
    const or_wire_kind_t kind = row->kind;
    const size_t bytes = entry_bytes(row);
    const bool steps = row->shape == OR_WIRE_STEPS;
    sink_t local = *sink; // its members stay in registers
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kind == OR_WIRE_UINT32) { // most entries are tokens
            put_varint(&local, load_32(entries + i * sizeof last));
            continue;
        }
        uint64_t number = load_number(kind, entries + i * bytes);
        put_number(&local, kind, steps ? (uint32_t)number - last : number);
        last = (uint32_t)number;
    }
    sink->count = local.count;
}

static void put_array(sink_t *sink, uint32_t number, const or_wire_row_t *row, const char *from)
{
    const uint32_t count = count_entries(row, from);
    const char *entries =
        row->shape == OR_WIRE_LEVELS ? from + row->at : load_pointer(from + row->at);
    if (!is_number(row)) {
        for (uint32_t i = 0; i < count; i++) {
            put_tag(sink, number, LENGTH);
            put_value(sink, row, entries + i * entry_bytes(row));
        }
    } else if (count > 0) {
        sink_t counted = {0};
        put_entries(&counted, row, entries, count);
        put_tag(sink, number, LENGTH);
        put_varint(sink, counted.count);
        if (sink->at != NULL) {
            put_entries(sink, row, entries, count);
        } else {
            sink->count += counted.count;
        }
    }
}

static void put_field(sink_t *sink, uint32_t number, const or_wire_row_t *row, const char *from)
{
    if (is_array(row)) {
        put_array(sink, number, row, from);
        return;
    }
    const char *value = from + row->at;
    bool present;
    if (row->shape == OR_WIRE_POINTER) {
        value = load_pointer(value);
        present = value != NULL;
    } else if (row->shape == OR_WIRE_CHOICE) {
        present = load_32(from + row->count_at) == number;
    } else {
        present = !is_absent(row, value);
    }
    if (present) {
        put_tag(sink, number, kinds[row->kind].wire_type);
        put_value(sink, row, value);
    }
}

static void put_fields(sink_t *sink, const or_wire_table_t *table, const char *from)
{
    for (uint32_t number = 1; number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        if (row->kind != OR_WIRE_NONE && row->kind != OR_WIRE_PADDING) {
            put_field(sink, number, row, from);
        }
    }
}

// Return the bytes that a struct takes on the wire.
static size_t measure(const or_wire_table_t *table, const void *from)
{
    sink_t sink = {0};
    put_fields(&sink, table, from);
    return sink.count;
}

static void write_struct(const or_wire_table_t *table, const void *from, uint8_t *to)
{
    sink_t sink = {.at = to};
    put_fields(&sink, table, from);
}

// ---- frames ----

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
    const size_t size = measure(&or_message_table, &sent);
    if (size > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "a %s message of %zu bytes is over the limit of %u bytes",
                       or_message_type_name(message->type), size, OR_FRAME_BYTES_MAX);
    }
    uint8_t *frame = malloc(size);
    if (frame == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "out of memory while encoding a message");
    }
    write_struct(&or_message_table, &sent, frame);
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

// Has the text at a place behind the delta's own text changed an odd number of times? *end: where it changes next.
static bool has_changed(const or_generate_delta_t *delta, const uint64_t *changes, uint32_t count,
                        uint32_t at, uint32_t *end)
{
    const uint64_t place = delta->text_offset + at;
    bool changed = false;
    *end = delta->text_bytes;
    for (uint32_t i = 0; i < count; i++) {
        if (changes[i] > place) {
            const uint64_t left = changes[i] - place;
            *end = left < delta->text_bytes - at ? at + (uint32_t)left : delta->text_bytes;
            break;
        }
        changed = !changed;
    }
    return changed;
}

bool or_generate_delta_is_thought(const or_generate_delta_t *delta, uint32_t at, uint32_t *end)
{
    return has_changed(delta, delta->part_changes, delta->part_change_count, at, end);
}

bool or_generate_delta_is_call(const or_generate_delta_t *delta, uint32_t at, uint32_t *end)
{
    return has_changed(delta, delta->call_changes, delta->call_change_count, at, end);
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
