// codec - frames from structs and structs from frames, by tables of fields. For proto/wire and its tests.
//
// A table describes one struct. It has a row for each field, and a row's place in the table is the field's number in
// outrider.proto. So the encoder meets fields in ascending order, and the decoder finds a row by its number:
//
//     #define OF or_heartbeat_t
//     MESSAGE(heartbeat, [1] = UINT32(reply), [2] = UINT32(answer));
//     #undef OF
//
// The bytes are proto3's. Fields that are 0 or empty are left out, and arrays of numbers are packed. The decoder accepts the
// same as protobuf-c: unknown fields are skipped, arrays may come packed or not and in pieces, and the last one of repeated
// single fields counts. If a sub-message that is not an array comes twice, the second one's numbers replace the first one's,
// and its arrays are appended. Unlike protobuf-c we refuse more than sixteen of the same, which cost time and nothing else.
// Reading has two steps, because a frame of another version must not be judged by our bounds.
// or_wire_read() makes structs of the bytes, then or_wire_settle() sets and checks the lengths of their arrays.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/message.h"
#include "proto/wire/message_arena.h"

#define OR_WIRE_NUMBERS_MAX 48u // no field has a number from here on

// The type of a value. UINT64 and FIXED64 differ on the wire only.
typedef enum {
    OR_WIRE_NONE, // there is no field of this number
    OR_WIRE_UINT32,
    OR_WIRE_SINT32, // zigzag: small negative numbers are short
    OR_WIRE_ENUM,
    OR_WIRE_UINT64,
    OR_WIRE_FIXED64,
    OR_WIRE_FLOAT,
    OR_WIRE_DOUBLE,
    OR_WIRE_BOOL,
    OR_WIRE_STRING,
    OR_WIRE_BYTES, // laid out as or_wire_bytes_t
    OR_WIRE_STRUCT,
    OR_WIRE_PADDING, // bytes that nobody keeps
} or_wire_kind_t;

// The place of a field's values in the struct.
typedef enum {
    OR_WIRE_ONE,
    OR_WIRE_POINTER, // to a struct; NULL: absent
    OR_WIRE_CHOICE,  // a union's struct; the member at `count_at` is its number
    OR_WIRE_ARRAY,   // a pointer; the member at `count_at` is the number of entries
    OR_WIRE_STEPS,   // an array that travels as differences between neighbours, modulo 2^32
    OR_WIRE_LEVELS,  // OR_STATS_LEVELS numbers within the struct; zeros at the end do not travel
} or_wire_shape_t;

typedef struct or_wire_table or_wire_table_t;

typedef struct {
    const char *name; // of the member
    or_wire_kind_t kind;
    or_wire_shape_t shape;
    uint32_t at, count_at;        // offsets of members
    const or_wire_table_t *inner; // OR_WIRE_STRUCT: its fields
    // `what` is the array's name in refusals, and the array is bounded if it has one: at most `most` entries, or
    // OR_WIRE_TOKENS_MAX where that is 0. If `like_at` is the offset of another count, it must have none, or as many as
    // that count and `more`. If it is the offset of its own count, another array shares that count, and both must have
    // the same length. A sub-message with `what` must not be absent.
    const char *what;
    uint32_t like_at, more, most;
} or_wire_row_t;

struct or_wire_table {
    const or_wire_row_t *rows;
    uint32_t count; // of rows; the first is unused
    uint32_t bytes; // of the struct
};

// ---- rows of the struct OF ----

// The member's offset. It does not compile if the member has another type.
#define OR_WIRE_AT(member, type) (uint32_t) _Generic(((OF *)0)->member, type : offsetof(OF, member))
#define OR_WIRE_ROW(kind_, shape_, member, type, ...)                                              \
    {                                                                                              \
        .name = #member, .kind = OR_WIRE_##kind_, .shape = OR_WIRE_##shape_,                       \
        .at = OR_WIRE_AT(member, type), __VA_ARGS__                                                \
    }
#define UINT32(member) UINT32_OF(uint32_t, member)
#define UINT32_OF(type, member) OR_WIRE_ROW(UINT32, ONE, member, type, .count_at = 0)
#define SINT32(member) OR_WIRE_ROW(SINT32, ONE, member, int32_t, .count_at = 0)
#define ENUM(member, type) OR_WIRE_ROW(ENUM, ONE, member, type, .count_at = 0)
#define UINT64(member) OR_WIRE_ROW(UINT64, ONE, member, uint64_t, .count_at = 0)
#define FIXED64(member) OR_WIRE_ROW(FIXED64, ONE, member, uint64_t, .count_at = 0)
#define FLOAT(member) OR_WIRE_ROW(FLOAT, ONE, member, float, .count_at = 0)
#define BOOL(member) OR_WIRE_ROW(BOOL, ONE, member, bool, .count_at = 0)
#define STRING(member) OR_WIRE_ROW(STRING, ONE, member, const char *, .count_at = 0)
// The length has to follow the pointer. A bound may be added, as for arrays.
#define BYTES(member, length, ...)                                                                 \
    OR_WIRE_ROW(BYTES, ONE, member, const uint8_t *,                                               \
                .count_at = OR_WIRE_AT(length, uint32_t) /                                         \
                            (offsetof(OF, length) == offsetof(OF, member) + sizeof(void *)),       \
                __VA_ARGS__)
#define STRUCT(member, type, table, ...)                                                           \
    OR_WIRE_ROW(STRUCT, ONE, member, type, .inner = &(table), __VA_ARGS__)
#define POINTER(member, type, table)                                                               \
    OR_WIRE_ROW(STRUCT, POINTER, member, const type *, .inner = &(table))
// The struct member of a union of the struct `union_`, whose number is in the enum `choice`.
#define CHOICE(union_, member, choice)                                                             \
    {                                                                                              \
        .name = #member, .kind = OR_WIRE_STRUCT, .shape = OR_WIRE_CHOICE,                          \
        .at = offsetof(OF, union_.member), .count_at = offsetof(OF, choice), .inner = &(member)    \
    }
#define PADDING(name_)                                                                             \
    {                                                                                              \
        .name = #name_, .kind = OR_WIRE_PADDING                                                    \
    }
// Arrays, with their bounds.
#define OR_WIRE_MANY(kind, shape, member, type, count, ...)                                        \
    OR_WIRE_ROW(kind, shape, member, type, .count_at = OR_WIRE_AT(count, uint32_t), __VA_ARGS__)
#define UINT32S(member, count, ...)                                                                \
    OR_WIRE_MANY(UINT32, ARRAY, member, const uint32_t *, count, __VA_ARGS__)
#define UINT64S(member, count, ...)                                                                \
    OR_WIRE_MANY(UINT64, ARRAY, member, const uint64_t *, count, __VA_ARGS__)
#define FLOATS(member, count, ...)                                                                 \
    OR_WIRE_MANY(FLOAT, ARRAY, member, const float *, count, __VA_ARGS__)
#define DOUBLES(member, count, ...)                                                                \
    OR_WIRE_MANY(DOUBLE, ARRAY, member, const double *, count, __VA_ARGS__)
#define STEPS(member, count, ...)                                                                  \
    OR_WIRE_MANY(SINT32, STEPS, member, const int32_t *, count, __VA_ARGS__)
#define BYTES_LIST(member, count, ...)                                                             \
    OR_WIRE_MANY(BYTES, ARRAY, member, const or_wire_bytes_t *, count, __VA_ARGS__)
#define STRUCTS(member, count, type, table, ...)                                                   \
    OR_WIRE_MANY(STRUCT, ARRAY, member, const type *, count, .inner = &(table), __VA_ARGS__)
#define LEVELS(member) OR_WIRE_ROW(UINT64, LEVELS, member, uint64_t *, .count_at = 0)
// Bounds.
#define AT_MOST_TOKENS(name) .what = (name)
#define AT_MOST(most_, name) .what = (name), .most = (most_)
#define AS_MANY_AS(name, count, ...)                                                               \
    .what = (name), .like_at = OR_WIRE_AT(count, uint32_t), __VA_ARGS__

#define TABLE(rows_)                                                                               \
    {                                                                                              \
        .rows = rows_, .bytes = sizeof(OF),                                                        \
        .count =                                                                                   \
            sizeof rows_ / sizeof *rows_ / (sizeof rows_ / sizeof *rows_ <= OR_WIRE_NUMBERS_MAX)   \
    }

// A table of rows, by the name that other tables have for it.
#define MESSAGE(name, ...)                                                                         \
    static const or_wire_row_t name##_rows[] = {__VA_ARGS__};                                      \
    static const or_wire_table_t name = TABLE(name##_rows)

// ---- the decoder; the encoder is in message.c ----

typedef struct {
    or_message_arena_t arena; // owns arrays, strings and structs
    const or_wire_row_t
        *missing; // a sub-message of the union's struct that may not be absent, and is
} or_wire_reader_t;

// Fill *to, which must be zero, from bytes. Its arrays are of use only after or_wire_settle(). False if the bytes are
// malformed or the arena has no more; *to is then undefined.
bool or_wire_read(or_wire_reader_t *reader, const or_wire_table_t *table, const uint8_t *bytes,
                  size_t count, void *to);
// Set the lengths of all arrays and check their bounds. OR_ERR_FORMAT names what is wrong.
or_status_t or_wire_settle(const or_wire_reader_t *reader, const or_wire_table_t *table, void *to);

// The table of or_message_t, whose body is an OR_WIRE_CHOICE of all the others (message_tables.c).
extern const or_wire_table_t or_message_table;
