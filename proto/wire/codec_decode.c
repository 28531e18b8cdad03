#include "proto/wire/codec.h"

#include "proto/wire/codec_access.h"

// ---- bytes to structs ----

typedef struct {
    const uint8_t *at, *end;
} span_t;

typedef struct {
    uint32_t number;
    uint32_t wire_type;
    span_t whole; // all behind the tag
    span_t value; // without a length in front
} field_t;

// Take a varint of at most `bytes_max` bytes, modulo 2^64.
static bool take_varint(span_t *span, size_t bytes_max, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < bytes_max && span->at < span->end; i++) {
        uint8_t byte = *span->at++;
        *number |= (uint64_t)(byte & 0x7F) << 7 * i;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_bytes(span_t *span, uint64_t count)
{
    if (count > (uint64_t)(span->end - span->at)) {
        return false;
    }
    span->at += count;
    return true;
}

// Take the next field. False: it is malformed.
static bool take_field(span_t *span, field_t *field)
{
    uint64_t number;
    if ((*span->at & 0xF8) == 0 || !take_varint(span, 5, &number)) {
        return false;
    }
    field->number = (uint32_t)(number >> 3);
    field->wire_type = (uint32_t)number & 7;
    field->whole.at = field->value.at = span->at;
    bool whole = false;
    switch (field->wire_type) {
    case VARINT:
        whole = take_varint(span, 10, &number);
        break;
    case EIGHT_BYTES:
        whole = take_bytes(span, 8);
        break;
    case LENGTH:
        whole = take_varint(span, 5, &number);
        field->value.at = span->at;
        whole = whole && take_bytes(span, number);
        break;
    case FOUR_BYTES:
        whole = take_bytes(span, 4);
        break;
    }
    field->whole.end = field->value.end = span->at;
    return whole;
}

static const or_wire_row_t *find_row(const or_wire_table_t *table, uint32_t number)
{
    const or_wire_row_t *row = number < table->count ? &table->rows[number] : NULL;
    return row != NULL && row->kind != OR_WIRE_NONE ? row : NULL;
}

// True if the field has many numbers of an array, one behind the other. An array may also come as one number a field.
static bool is_packed(const or_wire_row_t *row, const field_t *field)
{
    return is_array(row) && is_number(row) && field->wire_type == LENGTH;
}

// Until or_wire_settle() an array's length stands in front of its entries: arrays that share a count may still differ.
static uint64_t *length_of(void *entries)
{
    return (uint64_t *)entries - 1;
}

// Add the field's number of entries to *count. False: its length is no whole number of entries.
static bool count_field(const or_wire_row_t *row, const field_t *field, uint32_t *count)
{
    const size_t bytes = (size_t)(field->value.end - field->value.at);
    if (!is_packed(row, field)) {
        *count += 1;
    } else if (kinds[row->kind].wire_type != VARINT) {
        *count += (uint32_t)(bytes / entry_bytes(row));
        return bytes % entry_bytes(row) == 0;
    } else {
        for (const uint8_t *at = field->value.at; at < field->value.end; at++) {
            *count += *at < 0x80;
        }
    }
    return true;
}

// Make room for `more` entries behind the present ones.
static bool grow_array(or_wire_reader_t *reader, const or_wire_row_t *row, uint32_t more, char *to)
{
    const char *old = load_pointer(to + row->at);
    const uint64_t count = old != NULL ? *length_of((char *)old) : 0;
    uint64_t *room =
        or_message_arena_take(&reader->arena, 1, sizeof *room + (count + more) * entry_bytes(row));
    if (room == NULL) {
        return false;
    }
    *room = count;
    if (count > 0) {
        memcpy(room + 1, old, count * entry_bytes(row));
    }
    store_pointer(to + row->at, room + 1);
    return true;
}

// A sub-message that is no array comes once. Each further one costs time for two bytes, and no memory that would stop it.
#define SAME_STRUCT_MAX 16u

// Prepare a member for its fields, of which there are `count`, or that many entries: take an array's room, and set the value of
// absent fields. The member is not zero where a sub-message comes a second time.
static bool begin_row(or_wire_reader_t *reader, const or_wire_row_t *row, uint32_t count, char *to)
{
    if (is_array(row)) {
        return count == 0 || grow_array(reader, row, count, to);
    }
    if (row->kind == OR_WIRE_STRUCT && count > SAME_STRUCT_MAX) {
        return false;
    }
    if (row->kind == OR_WIRE_STRING && load_pointer(to + row->at) == NULL) {
        store_pointer(to + row->at, "");
    } else if (row->shape == OR_WIRE_ONE && is_number(row)) {
        memset(to + row->at, 0, entry_bytes(row));
    } else if (row->kind == OR_WIRE_STRUCT && row->what != NULL && count == 0) {
        reader->missing = row;
    }
    return true;
}

static void store_number(or_wire_kind_t kind, uint64_t number, char *to)
{
    uint32_t low = (uint32_t)number;
    if (kind == OR_WIRE_SINT32) {
        low = low >> 1 ^ (low & 1 ? UINT32_MAX : 0);
    }
    if (kinds[kind].entry_bytes == 4) {
        store_32(to, low);
    } else {
        memcpy(to, &number, sizeof number);
    }
}

static bool take_number(span_t *span, or_wire_kind_t kind, char *to)
{
    uint64_t number = 0;
    if (kinds[kind].wire_type == VARINT) {
        if (!take_varint(span, 10, &number)) {
            return false;
        }
    } else {
        for (size_t i = 0; i < kinds[kind].entry_bytes; i++) {
            number |= (uint64_t)*span->at++ << 8 * i;
        }
    }
    store_number(kind, number, to);
    return true;
}

// protobuf-c takes a bool from any wire type. It is true if any byte has a bit below the continuation bit.
static void get_bool(const field_t *field, char *to)
{
    bool any = false;
    for (const uint8_t *at = field->whole.at; at < field->whole.end; at++) {
        any = any || (*at & 0x7F) != 0;
    }
    memcpy(to, &any, sizeof any);
}

// Copy bytes, or a string with a zero behind it.
static bool get_bytes(or_wire_reader_t *reader, const or_wire_row_t *row, const field_t *field,
                      char *to)
{
    const size_t count = (size_t)(field->value.end - field->value.at);
    const bool is_string = row->kind == OR_WIRE_STRING;
    char *copy = NULL;
    if (count > 0 || is_string) {
        copy = or_message_arena_take(&reader->arena, count + is_string, 1);
        if (copy == NULL) {
            return false;
        }
        memcpy(copy, field->value.at, count);
    }
    if (is_string) {
        copy[count] = '\0';
    } else {
        store_32(to + offsetof(or_wire_bytes_t, length), (uint32_t)count);
    }
    store_pointer(to, copy);
    return true;
}

static bool get_value(or_wire_reader_t *reader, const or_wire_row_t *row, const field_t *field,
                      char *to)
{
    if (row->kind == OR_WIRE_BOOL) {
        get_bool(field, to);
        return true;
    }
    if (field->wire_type != kinds[row->kind].wire_type) {
        return false;
    }
    span_t value = field->value;
    switch (row->kind) {
    case OR_WIRE_PADDING:
        return true;
    case OR_WIRE_STRING:
    case OR_WIRE_BYTES:
        return get_bytes(reader, row, field, to);
    case OR_WIRE_STRUCT:
        return or_wire_read(reader, row->inner, value.at, (size_t)(value.end - value.at), to);
    default:
        return take_number(&value, row->kind, to);
    }
}

static bool get_entries(or_wire_reader_t *reader, const or_wire_row_t *row, const field_t *field,
                        char *to)
{
    const size_t bytes = entry_bytes(row);
    char *entries = load_pointer(to + row->at);
    if (entries == NULL) { // packed, and no number ends in it
        return field->value.at == field->value.end;
    }
    uint64_t *count = length_of(entries);
    if (!is_packed(row, field)) {
        char *entry = entries + (*count)++ * bytes;
        memset(entry, 0, bytes);
        return get_value(reader, row, field, entry);
    }
    const or_wire_kind_t kind = row->kind;
    span_t value = field->value;
    uint64_t taken = *count;
    bool good = true;
    while (good && value.at < value.end) {
        good = take_number(&value, kind, entries + taken * bytes);
        taken += good;
    }
    *count = taken;
    return good;
}

static bool get_pointed(or_wire_reader_t *reader, const or_wire_row_t *row, const field_t *field,
                        char *to)
{
    char *pointed = load_pointer(to + row->at);
    if (pointed == NULL) {
        pointed = or_message_arena_take(&reader->arena, 1, row->inner->bytes);
        if (pointed == NULL) {
            return false;
        }
        memset(pointed, 0, row->inner->bytes);
        store_pointer(to + row->at, pointed);
    }
    return get_value(reader, row, field, pointed);
}

static bool get_field(or_wire_reader_t *reader, const or_wire_row_t *row, const field_t *field,
                      char *to)
{
    if (is_array(row)) {
        return get_entries(reader, row, field, to);
    }
    if (row->shape == OR_WIRE_POINTER) {
        return get_pointed(reader, row, field, to);
    }
    if (row->shape == OR_WIRE_CHOICE) { // the last one replaces all others
        memset(to + row->at, 0, row->inner->bytes);
        store_32(to + row->count_at, field->number);
        reader->missing = NULL;
    }
    return get_value(reader, row, field, to + row->at);
}

bool or_wire_read(or_wire_reader_t *reader, const or_wire_table_t *table, const uint8_t *bytes,
                  size_t count, void *to)
{
    uint32_t counts[OR_WIRE_NUMBERS_MAX];
    memset(counts, 0, table->count * sizeof *counts); // tables of frequent entries are short
    field_t field;
    const or_wire_row_t *row;
    span_t span = {bytes, bytes + count};
    while (span.at < span.end) {
        if (!take_field(&span, &field)) {
            return false;
        }
        row = find_row(table, field.number);
        if (row != NULL && !count_field(row, &field, &counts[field.number])) {
            return false;
        }
    }
    for (uint32_t number = 1; number < table->count; number++) {
        row = find_row(table, number);
        if (row != NULL && !begin_row(reader, row, counts[number], to)) {
            return false;
        }
    }
    span.at = bytes;
    while (span.at < span.end) {
        take_field(&span, &field);
        row = find_row(table, field.number);
        if (row != NULL && !get_field(reader, row, &field, to)) {
            return false;
        }
    }
    return true;
}

// ---- lengths and bounds ----

static or_status_t check_count(const or_wire_row_t *row, uint64_t count)
{
    const uint32_t most = row->most > 0 ? row->most : OR_WIRE_TOKENS_MAX;
    return count <= most
               ? OR_OK
               : or_fail(OR_ERR_FORMAT, "%s has %llu entries where at most %u are allowed",
                         row->what, (unsigned long long)count, most);
}

static or_status_t check_bound(const or_wire_row_t *row, uint64_t count, const char *to)
{
    if (row->what == NULL) {
        return OR_OK;
    }
    if (row->like_at == 0) {
        return check_count(row, count);
    }
    const bool shared = row->like_at == row->count_at;
    const uint64_t other = (uint64_t)load_32(to + row->like_at) + row->more;
    if (count == 0 && !shared) {
        return OR_OK;
    }
    if (count != other) {
        return or_fail(OR_ERR_FORMAT, "%s differ in length: %llu and %llu", row->what,
                       (unsigned long long)(shared ? other : count),
                       (unsigned long long)(shared ? count : other));
    }
    return check_count(row, count);
}

static or_status_t settle_array(const or_wire_row_t *row, char *to)
{
    char *entries = load_pointer(to + row->at);
    const uint64_t count = entries != NULL ? *length_of(entries) : 0;
    if (row->shape ==
        OR_WIRE_LEVELS) { // a peer that counts further than we do tells us more than we keep
        const size_t kept = count < OR_STATS_LEVELS ? count : OR_STATS_LEVELS;
        memset(to + row->at, 0, OR_STATS_LEVELS * entry_bytes(row));
        if (kept > 0) {
            memcpy(to + row->at, entries, kept * entry_bytes(row));
        }
        return OR_OK;
    }
    or_status_t status = check_bound(row, count, to);
    store_32(to + row->count_at, (uint32_t)count);
    uint32_t last = 0;
    for (uint64_t i = 0; row->shape == OR_WIRE_STEPS && i < count; i++) {
        last += load_32(entries + i * sizeof last);
        store_32(entries + i * sizeof last, last);
    }
    return status;
}

static or_status_t settle_inner(const or_wire_reader_t *reader, const or_wire_row_t *row,
                                uint32_t number, char *to)
{
    char *inner = to + row->at;
    uint32_t count = 1;
    if (row->shape == OR_WIRE_CHOICE) {
        count = load_32(to + row->count_at) == number;
    } else if (row->shape != OR_WIRE_ONE) {
        inner = load_pointer(inner);
        count = row->shape == OR_WIRE_ARRAY ? load_32(to + row->count_at) : inner != NULL;
    }
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        status = or_wire_settle(reader, row->inner, inner + i * row->inner->bytes);
    }
    return status;
}

or_status_t or_wire_settle(const or_wire_reader_t *reader, const or_wire_table_t *table, void *to)
{
    or_status_t status = OR_OK;
    for (uint32_t number = 1; status == OR_OK && number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        if (row->kind != OR_WIRE_NONE && is_array(row)) {
            status = settle_array(row, to);
        } else if (row->kind == OR_WIRE_BYTES) {
            status = check_bound(row, load_32((char *)to + row->count_at), to);
        }
    }
    for (uint32_t number = 1; status == OR_OK && number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        if (row->kind == OR_WIRE_STRUCT && reader->missing == row) {
            status = or_fail(OR_ERR_FORMAT, "the message lacks %s", row->what);
        } else if (row->kind == OR_WIRE_STRUCT) {
            status = settle_inner(reader, row, number, to);
        }
    }
    return status;
}
