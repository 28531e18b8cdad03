#include "proto/wire/codec.h"

#include "proto/wire/codec_access.h"

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

static void put_struct(sink_t *sink, const or_wire_table_t *table, const char *from)
{
    size_t count = or_wire_measure(table, from);
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

size_t or_wire_measure(const or_wire_table_t *table, const void *from)
{
    sink_t sink = {0};
    put_fields(&sink, table, from);
    return sink.count;
}

void or_wire_write(const or_wire_table_t *table, const void *from, uint8_t *to)
{
    sink_t sink = {.at = to};
    put_fields(&sink, table, from);
}
