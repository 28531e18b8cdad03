// codec_access - the common part of encoder and decoder: properties of kinds, and members by their offsets.
#pragma once

#include <string.h>

#include "proto/wire/codec.h"

// The format of the bytes behind a tag. Two more, for groups, are long out of use.
typedef enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 } wire_type_t;

// The wire type of each kind, and the bytes of an entry in an array.
static const struct {
    uint8_t wire_type, entry_bytes;
} kinds[] = {
    [OR_WIRE_UINT32] = {VARINT, 4},       [OR_WIRE_SINT32] = {VARINT, 4},
    [OR_WIRE_ENUM] = {VARINT, 4},         [OR_WIRE_UINT64] = {VARINT, 8},
    [OR_WIRE_FIXED64] = {EIGHT_BYTES, 8}, [OR_WIRE_FLOAT] = {FOUR_BYTES, 4},
    [OR_WIRE_DOUBLE] = {EIGHT_BYTES, 8},  [OR_WIRE_BOOL] = {VARINT, 1},
    [OR_WIRE_STRING] = {LENGTH, 0},       [OR_WIRE_BYTES] = {LENGTH, sizeof(or_wire_bytes_t)},
    [OR_WIRE_STRUCT] = {LENGTH, 0},       [OR_WIRE_PADDING] = {LENGTH, 0},
};

static inline bool is_array(const or_wire_row_t *row)
{
    return row->shape == OR_WIRE_ARRAY || row->shape == OR_WIRE_STEPS ||
           row->shape == OR_WIRE_LEVELS;
}

static inline bool is_number(const or_wire_row_t *row)
{
    return row->kind != OR_WIRE_STRING && kinds[row->kind].wire_type != LENGTH;
}

static inline size_t entry_bytes(const or_wire_row_t *row)
{
    return row->kind == OR_WIRE_STRUCT ? row->inner->bytes : kinds[row->kind].entry_bytes;
}

static inline uint32_t load_32(const char *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline void store_32(char *at, uint32_t number)
{
    memcpy(at, &number, sizeof number);
}

static inline void *load_pointer(const char *at)
{
    void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    return pointer;
}

static inline void store_pointer(char *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof pointer);
}

static inline or_wire_bytes_t load_bytes(const char *at)
{
    return (or_wire_bytes_t){load_pointer(at), load_32(at + offsetof(or_wire_bytes_t, length))};
}
