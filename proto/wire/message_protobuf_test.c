// Goal: frames are those of proto/wire/outrider.proto, as another implementation reads and writes them.
// Method: the code that protobuf-c makes of the schema is that implementation. The tables are compared with its descriptors. Random
// messages are read by it, compared value by value, and written again to the same bytes. Altered frames are accepted or refused by both,
// and understood alike: damaged ones, with fields of wrong types and unknown numbers, with bodies and sub-messages that come twice.
#include "proto/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "outrider.pb-c.h"
#include "proto/wire/codec_access.h"
#include "proto/wire/message_test_random.h"
#include "tests/support/test_support.h"

#define ROUNDS 60 // of every type
#define BYTES_MAX (1u << 20)

// ---- schema ----

static ProtobufCType type_of(or_wire_kind_t kind)
{
    static const ProtobufCType types[] = {
        [OR_WIRE_UINT32] = PROTOBUF_C_TYPE_UINT32,   [OR_WIRE_SINT32] = PROTOBUF_C_TYPE_SINT32,
        [OR_WIRE_ENUM] = PROTOBUF_C_TYPE_ENUM,       [OR_WIRE_UINT64] = PROTOBUF_C_TYPE_UINT64,
        [OR_WIRE_FIXED64] = PROTOBUF_C_TYPE_FIXED64, [OR_WIRE_FLOAT] = PROTOBUF_C_TYPE_FLOAT,
        [OR_WIRE_DOUBLE] = PROTOBUF_C_TYPE_DOUBLE,   [OR_WIRE_BOOL] = PROTOBUF_C_TYPE_BOOL,
        [OR_WIRE_STRING] = PROTOBUF_C_TYPE_STRING,   [OR_WIRE_BYTES] = PROTOBUF_C_TYPE_BYTES,
        [OR_WIRE_STRUCT] = PROTOBUF_C_TYPE_MESSAGE,  [OR_WIRE_PADDING] = PROTOBUF_C_TYPE_BYTES,
    };
    return types[kind];
}

// Members are called as fields are, with two exceptions.
static bool is_called(const or_wire_row_t *row, const char *field)
{
    return strcmp(row->name, field) == 0 ||
           (strcmp(row->name, "session.value") == 0 && strcmp(field, "session") == 0) ||
           (strcmp(row->name, "to") == 0 && strcmp(field, "steps") == 0);
}

static void assert_row(const or_wire_row_t *row, const ProtobufCFieldDescriptor *field)
{
    const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    const bool choice = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (!is_called(row, field->name)) {
        fail_msg("field %u is %s in the schema and %s in the table", field->id, field->name,
                 row->name);
    }
    if (type_of(row->kind) != field->type || is_array(row) != repeated ||
        (row->shape == OR_WIRE_CHOICE) != choice) {
        fail_msg("%s is of another type in the table than in the schema", field->name);
    }
}

static bool shares_count(const or_wire_table_t *table, const or_wire_row_t *row)
{
    for (uint32_t number = 1; number < table->count; number++) {
        const or_wire_row_t *other = &table->rows[number];
        if (other != row && other->like_at != 0 && other->like_at == other->count_at &&
            other->count_at == row->count_at) {
            return true;
        }
    }
    return false;
}

// A sub-message that comes twice is merged. The decoder does that for numbers and arrays alone.
static void assert_can_be_merged(const or_wire_table_t *table)
{
    for (uint32_t number = 1; number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        if (row->kind != OR_WIRE_NONE && !is_array(row) && !is_number(row)) {
            fail_msg("%s is in a sub-message that may come twice", row->name);
        }
    }
}

static void assert_table(const or_wire_table_t *table, const ProtobufCMessageDescriptor *schema)
{
    uint32_t rows = 0;
    for (uint32_t number = 1; number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        rows += row->kind != OR_WIRE_NONE;
        if (row->shape == OR_WIRE_ARRAY && row->what == NULL && !shares_count(table, row)) {
            fail_msg("the array %s of %s has no bound", row->name, schema->name);
        }
    }
    assert_int_equal(rows, schema->n_fields);
    for (unsigned i = 0; i < schema->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &schema->fields[i];
        if (field->id >= table->count || table->rows[field->id].kind == OR_WIRE_NONE) {
            fail_msg("%s of %s is not in the table", field->name, schema->name);
        }
        assert_row(&table->rows[field->id], field);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            assert_table(table->rows[field->id].inner, field->descriptor);
        }
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && field->label == PROTOBUF_C_LABEL_NONE &&
            table->rows[field->id].shape != OR_WIRE_CHOICE) {
            assert_can_be_merged(table->rows[field->id].inner);
        }
    }
}

static void tables_are_the_schema(void **context)
{
    (void)context;
    assert_table(&or_message_table, &outrider__envelope__descriptor);
}

// ---- values ----

static const char *difference(const or_wire_table_t *table, const char *ours,
                              const ProtobufCMessage *theirs);

static bool bytes_differ(const char *ours, const char *theirs)
{
    or_wire_bytes_t one = load_bytes(ours);
    ProtobufCBinaryData other;
    memcpy(&other, theirs, sizeof other);
    return one.length != other.len ||
           (other.len > 0 && memcmp(one.bytes, other.data, other.len) != 0);
}

static const char *struct_difference(const or_wire_row_t *row, const char *ours,
                                     const ProtobufCMessage *theirs)
{
    static const char zeros[4096];
    if (theirs == NULL) { // what is absent is zero
        assert_true(row->inner->bytes <= sizeof zeros);
        bool absent = ours == NULL || memcmp(ours, zeros, row->inner->bytes) == 0;
        return absent ? NULL : row->name;
    }
    return ours != NULL ? difference(row->inner, ours, theirs) : row->name;
}

static const char *value_difference(const or_wire_row_t *row, const char *ours, const char *theirs)
{
    bool differ;
    switch (row->kind) {
    case OR_WIRE_STRUCT:
        return struct_difference(row, ours, load_pointer(theirs));
    case OR_WIRE_STRING:
        differ = strcmp(load_pointer(ours), load_pointer(theirs)) != 0;
        break;
    case OR_WIRE_BYTES:
        differ = bytes_differ(ours, theirs);
        break;
    case OR_WIRE_BOOL:
        differ = (*ours != 0) != (load_32(theirs) != 0);
        break;
    case OR_WIRE_PADDING:
        return NULL;
    default:
        differ = memcmp(ours, theirs, entry_bytes(row)) != 0;
        break;
    }
    return differ ? row->name : NULL;
}

static size_t count_of(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *theirs)
{
    size_t count;
    memcpy(&count, (const char *)theirs + field->quantifier_offset, sizeof count);
    return count;
}

static size_t their_bytes(const or_wire_row_t *row)
{
    return row->kind == OR_WIRE_STRUCT  ? sizeof(void *)
           : row->kind == OR_WIRE_BYTES ? sizeof(ProtobufCBinaryData)
                                        : entry_bytes(row);
}

static const char *levels_difference(const or_wire_row_t *row, const char *ours, size_t count,
                                     const uint64_t *theirs)
{
    uint64_t levels[OR_STATS_LEVELS];
    memcpy(levels, ours + row->at, sizeof levels);
    for (size_t i = 0; i < OR_STATS_LEVELS; i++) {
        if (levels[i] != (i < count ? theirs[i] : 0)) {
            return row->name;
        }
    }
    return NULL;
}

static const char *array_difference(const or_wire_row_t *row, const char *ours,
                                    const ProtobufCFieldDescriptor *field,
                                    const ProtobufCMessage *theirs)
{
    const size_t count = count_of(field, theirs);
    const char *their = load_pointer((const char *)theirs + field->offset);
    if (row->shape == OR_WIRE_LEVELS) {
        return levels_difference(row, ours, count,
                                 load_pointer((const char *)theirs + field->offset));
    }
    if (count != load_32(ours + row->count_at)) {
        return row->name;
    }
    const char *our = load_pointer(ours + row->at), *found = NULL;
    uint32_t sum = 0;
    for (size_t i = 0; found == NULL && i < count; i++) {
        const char *entry = their + i * their_bytes(row);
        if (row->shape == OR_WIRE_STEPS) {
            sum += load_32(entry);
            entry = (const char *)&sum;
        }
        found = value_difference(row, our + i * entry_bytes(row), entry);
    }
    return found;
}

// The name of a field that differs; NULL: none.
static const char *difference(const or_wire_table_t *table, const char *ours,
                              const ProtobufCMessage *theirs)
{
    const char *found = NULL;
    for (unsigned i = 0; found == NULL && i < theirs->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &theirs->descriptor->fields[i];
        const or_wire_row_t *row = &table->rows[field->id];
        const char *their = (const char *)theirs + field->offset;
        if (is_array(row)) {
            found = array_difference(row, ours, field, theirs);
        } else if (row->shape == OR_WIRE_POINTER) {
            found = struct_difference(row, load_pointer(ours + row->at), load_pointer(their));
        } else if (row->shape != OR_WIRE_CHOICE || load_32(ours + row->count_at) == field->id) {
            found = value_difference(row, ours + row->at, their);
        }
    }
    return found;
}

// ---- messages ----

static uint8_t *encode_random(uint64_t *state, uint32_t type, or_message_t *message, size_t *bytes)
{
    uint8_t *frame;
    message_test_random(state, (or_message_type_t)type, message);
    assert_int_equal(or_message_encode(message, &frame, bytes), OR_OK);
    message->version = OR_PROTOCOL_VERSION;
    return frame;
}

static void protobuf_reads_and_writes_our_frames(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
            or_message_t message;
            size_t bytes;
            uint8_t *frame = encode_random(&state, type, &message, &bytes);
            Outrider__Envelope *theirs = outrider__envelope__unpack(NULL, bytes, frame);
            assert_non_null(theirs);
            assert_int_equal(theirs->body_case, type);
            const char *field =
                difference(&or_message_table, (const char *)&message, &theirs->base);
            if (field != NULL) {
                fail_msg("%s of a %s differs", field, or_message_type_name(type));
            }
            uint8_t *again = malloc(bytes);
            assert_int_equal(outrider__envelope__get_packed_size(theirs), bytes);
            outrider__envelope__pack(theirs, again);
            assert_memory_equal(again, frame, bytes);
            free(again);
            outrider__envelope__free_unpacked(theirs, NULL);
            message_test_random_free();
            free(frame);
        }
    }
}

// ---- altered frames ----

// The status that a frame should give, bounds of arrays aside.
static or_status_t expected_status(const Outrider__Envelope *theirs)
{
    if (theirs == NULL || theirs->version == 0) {
        return OR_ERR_FORMAT;
    }
    if (theirs->version != OR_PROTOCOL_VERSION &&
        theirs->body_case != OUTRIDER__ENVELOPE__BODY_ERROR) {
        return OR_ERR_MISMATCH;
    }
    return theirs->body_case == OUTRIDER__ENVELOPE__BODY__NOT_SET ? OR_ERR_FORMAT : OR_OK;
}

static bool is_of_a_bound(const char *refusal)
{
    return strstr(refusal, "differ in length") != NULL ||
           strstr(refusal, "entries where") != NULL || strstr(refusal, "the message lacks") != NULL;
}

static void assert_understood_alike(const uint8_t *frame, size_t bytes)
{
    or_message_t ours;
    Outrider__Envelope *theirs = outrider__envelope__unpack(NULL, bytes, frame);
    or_status_t status = or_message_decode(frame, bytes, &ours);
    const or_status_t expected = expected_status(theirs);
    const char *refusal = status != OR_OK ? or_error_text() : "";
    if (status != expected && !(expected == OR_OK && is_of_a_bound(refusal))) {
        fail_msg("a frame of %zu bytes gives status %d (%s), by protobuf-c %d", bytes, (int)status,
                 refusal, (int)expected);
    }
    assert_int_equal(strstr(refusal, "well-formed") != NULL, theirs == NULL);
    if (status == OR_OK) {
        const char *field = difference(&or_message_table, (const char *)&ours, &theirs->base);
        if (field != NULL || ours.type != (or_message_type_t)theirs->body_case) {
            fail_msg("%s of a %s is read otherwise", field, or_message_type_name(ours.type));
        }
    }
    or_message_fini(&ours);
    if (theirs != NULL) {
        outrider__envelope__free_unpacked(theirs, NULL);
    }
}

static void frames_at_the_edge_are_understood_alike(void **context)
{
    (void)context;
    static const struct {
        const char *frame; // behind version 2
        size_t bytes;
        bool good;
    } cases[] = {
        {"\x32\x02\x12\x00", 4, true},      // Prefix: packed tokens, none
        {"\x32\x03\x12\x01\x80", 5, false}, // packed tokens, the last is cut off
        {"\x32\x02\x10\x05", 4, true},      // one token, not packed
        {"\x32\x0B\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 13, true}, // ten bytes of a number
        {"\x32\x0D\xC0\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 15, false}, // eleven
        {"\x32\x03\x80\x00\x05", 5, true},          // field 0, by a tag of two bytes
        {"\x32\x02\x00\x05", 4, false},             // and by one
        {"\x32\x02\x0B\x0C", 4, false},             // a group
        {"\x32\x05\x0D\x01\x02\x03\x04", 7, false}, // a varint's field as four bytes
        {"\x32\x05\x2D\x80\x00\x00\x00", 7, true},  // a bool's
        {"\x2A\x00\x9A\x01\x00", 5, true},  // OpenSession without sampling, but Heartbeat follows
        {"\x9A\x01\x00\x2A\x00", 5, false}, // it is the last one
        {"\x2A\x00\x2A\x02\x0A\x00", 6, true},
        {"\x32\x02\x12\x00\xFA\x01\x01\x00", 8, true},      // padding
        {"\x32\x02\x12\x00\xF8\x01\x01", 7, false},         // as a varint
        {"\x32\x82\x80\x80\x80\x00\x12\x00", 8, true},      // five bytes of a length
        {"\x32\x82\x80\x80\x80\x80\x00\x12\x00", 9, false}, // six
        {"\x32\x03\x12\x00", 4, false},                     // longer than the frame
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t frame[32] = {1 << 3, OR_PROTOCOL_VERSION};
        or_message_t message;
        memcpy(frame + 2, cases[i].frame, cases[i].bytes);
        assert_understood_alike(frame, 2 + cases[i].bytes);
        if ((or_message_decode(frame, 2 + cases[i].bytes, &message) == OR_OK) != cases[i].good) {
            fail_msg("case %zu", i);
        }
        or_message_fini(&message);
    }
}

typedef struct {
    uint8_t bytes[BYTES_MAX];
    size_t count;
} frame_t;

static void put_varint(frame_t *frame, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        frame->bytes[frame->count++] = (uint8_t)number | 0x80;
    }
    frame->bytes[frame->count++] = (uint8_t)number;
}

static void put_bytes(frame_t *frame, const uint8_t *bytes, size_t count)
{
    memcpy(frame->bytes + frame->count, bytes, count);
    frame->count += count;
}

// A field of any number and wire type, often one that the message has otherwise, sometimes malformed.
static void put_odd_field(uint64_t *state, frame_t *frame)
{
    const uint64_t type = test_below(state, 8);
    uint8_t noise[24];
    size_t count = test_below(state, 20);
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)(test_random(state) >> test_below(state, 8));
    }
    put_varint(frame, test_below(state, 40) << 3 | type);
    if (type == VARINT) {
        put_varint(frame, test_random(state) >> test_below(state, 64));
        return;
    }
    if (type == LENGTH) {
        put_varint(frame, count);
    }
    put_bytes(frame, noise, type == EIGHT_BYTES ? 8 : type == FOUR_BYTES ? 4 : count);
}

// Return the offset of the body's first field in a frame of ours: behind version, session, tag and length.
static size_t find_body(const uint8_t *frame, const or_message_t *message)
{
    size_t at = 2;
    for (int varints = message->session.value != 0 ? 4 : 2; varints > 0; varints--) {
        while (frame[at++] >= 0x80) {
        }
    }
    return at;
}

static void flip_bits(uint64_t *state, frame_t *frame)
{
    for (uint64_t flips = 1 + test_below(state, 3); flips > 0; flips--) {
        size_t reach = test_below(state, 2) == 0 || frame->count < 32 ? frame->count : 32;
        frame->bytes[test_below(state, reach)] ^= (uint8_t)(1u << test_below(state, 8));
    }
}

// One body with the fields of both, and odd ones between them: sub-messages come twice, arrays in pieces.
static void join_bodies(uint64_t *state, uint32_t type, const frame_t *first, const frame_t *second,
                        frame_t *joined)
{
    static frame_t body;
    body.count = joined->count = 0;
    put_bytes(&body, first->bytes, first->count);
    if (test_below(state, 2) == 0) {
        put_odd_field(state, &body);
    }
    put_bytes(&body, second->bytes, second->count);
    put_varint(joined, 1 << 3);
    put_varint(joined, OR_PROTOCOL_VERSION);
    put_varint(joined, type << 3 | LENGTH);
    put_varint(joined, body.count);
    put_bytes(joined, body.bytes, body.count);
}

static void alter_in_all_ways(uint64_t *state, uint32_t type, const uint8_t *frames[2],
                              const size_t bytes[2], const size_t bodies[2])
{
    static frame_t altered, parts[2];
    for (int way = 0; way < 6; way++) {
        altered.count = 0;
        put_bytes(&altered, frames[0], bytes[0]);
        if (way < 4) {
            flip_bits(state, &altered);
        } else {
            altered.count = test_below(state, bytes[0]);
        }
        assert_understood_alike(altered.bytes, altered.count);
    }
    altered.count = 0;
    put_bytes(&altered, frames[0], bytes[0]);
    put_bytes(&altered, frames[1], bytes[1]);
    assert_understood_alike(altered.bytes, altered.count);
    for (int i = 0; i < 2; i++) {
        parts[i].count = 0;
        put_bytes(&parts[i], frames[i] + bodies[i], bytes[i] - bodies[i]);
    }
    for (int way = 0; way < 4; way++) {
        parts[1].count = way % 2 == 0 ? bytes[1] - bodies[1] : 0;
        join_bodies(state, type, &parts[0], &parts[1], &altered);
        assert_understood_alike(altered.bytes, altered.count);
        flip_bits(state, &altered);
        assert_understood_alike(altered.bytes, altered.count);
    }
}

static void altered_frames_are_understood_alike(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
            uint8_t *frames[2];
            size_t bytes[2], bodies[2];
            for (int i = 0; i < 2; i++) {
                or_message_t message;
                frames[i] = encode_random(&state, type, &message, &bytes[i]);
                bodies[i] = find_body(frames[i], &message);
                message_test_random_free();
            }
            alter_in_all_ways(&state, type, (const uint8_t *[2]){frames[0], frames[1]}, bytes,
                              bodies);
            free(frames[0]);
            free(frames[1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_the_schema),
        cmocka_unit_test(protobuf_reads_and_writes_our_frames),
        cmocka_unit_test(frames_at_the_edge_are_understood_alike),
        cmocka_unit_test(altered_frames_are_understood_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
