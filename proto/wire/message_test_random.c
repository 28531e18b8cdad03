#include "proto/wire/message_test_random.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/codec_access.h"
#include "tests/support/test_support.h"

// Everything a message points to, freed together.
static void *pieces[4096];
static size_t piece_count;

static void *take(size_t bytes)
{
    assert_true(piece_count < sizeof pieces / sizeof *pieces);
    void *piece = calloc(1, bytes > 0 ? bytes : 1);
    assert_non_null(piece);
    return pieces[piece_count++] = piece;
}

void message_test_random_free(void)
{
    while (piece_count > 0) {
        free(pieces[--piece_count]);
    }
}

// ---- filling in ----

// The golden message that is being filled in; GOLDEN_NONE: a random one.
static golden_t golden = GOLDEN_NONE;

// Small, large and zero numbers alike: their varints have all lengths.
static uint64_t random_number(uint64_t *state)
{
    if (golden == GOLDEN_ZERO || golden == GOLDEN_HOLLOW) {
        return 0;
    }
    if (golden == GOLDEN_LARGE) {
        return UINT64_MAX;
    }
    uint64_t number = test_random(state); // before the shift: stored frames depend on the order
    return number >> test_below(state, 64);
}

static void fill_numbers(uint64_t *state, size_t count, size_t bytes, char *to)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number = random_number(state);
        memcpy(to + i * bytes, &number, bytes);
    }
}

static char *random_string(uint64_t *state)
{
    size_t length = golden == GOLDEN_HOLLOW  ? 0
                    : golden == GOLDEN_LARGE ? 130
                                             : test_below(state, 20);
    char *text = take(length + 1);
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)('a' + test_below(state, 26));
    }
    return text;
}

// `structs`: fewer, because each has arrays of its own.
static uint32_t random_length(uint64_t *state, bool structs)
{
    uint32_t count = (uint32_t)test_below(state, test_below(state, 4) == 0 ? 200 : 4);
    switch (golden) {
    case GOLDEN_NONE:
        return structs ? count % 20 : count;
    case GOLDEN_HOLLOW:
        return 0;
    case GOLDEN_LARGE:
        return structs ? 2 : 130;
    default:
        return 2;
    }
}

static uint32_t fill_count(uint64_t *state, const or_wire_row_t *row, char *base)
{
    uint32_t count =
        random_length(state, row->shape == OR_WIRE_ARRAY && kinds[row->kind].wire_type == LENGTH);
    if (row->like_at != 0) {
        bool all = row->like_at == row->count_at || (golden != GOLDEN_HOLLOW && count % 2 == 0);
        count = all ? load_32(base + row->like_at) + row->more : 0;
    }
    if (golden == GOLDEN_NONE && row->most > 0 && count > row->most) {
        count = row->most;
    }
    store_32(base + row->count_at, count);
    return count;
}

static void fill(uint64_t *state, const or_wire_table_t *table, char *base);

// The golden contents of a field follow from the member's name and, in arrays, from the entry's number, so that they do not depend on
// the order of a table.
static uint64_t golden_state(const char *name, uint64_t entry)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + entry; // FNV-1a
    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void fill_bytes(uint64_t *state, uint32_t count, char *to)
{
    char *bytes = take(count);
    fill_numbers(state, count, 1, bytes);
    store_pointer(to, bytes);
}

static void fill_list(uint64_t *state, const or_wire_row_t *row, uint32_t count, char *to)
{
    for (uint32_t i = 0; i < count; i++) {
        char *entry = to + i * entry_bytes(row);
        uint64_t fixed = row->kind == OR_WIRE_STRUCT ? i : golden_state("bytes", i);
        uint64_t *own = golden != GOLDEN_NONE ? &fixed : state;
        if (row->kind == OR_WIRE_STRUCT) {
            fill(own, row->inner, entry);
        } else {
            random_number(own);
            uint32_t length = random_length(own, false);
            store_32(entry + offsetof(or_wire_bytes_t, length), length);
            fill_bytes(own, length, entry);
        }
    }
}

static void fill_array(uint64_t *state, const or_wire_row_t *row, char *base)
{
    uint32_t count = fill_count(state, row, base);
    char *entries = take(count * entry_bytes(row));
    store_pointer(base + row->at, entries);
    if (is_number(row)) {
        fill_numbers(state, count, entry_bytes(row), entries);
    } else {
        fill_list(state, row, count, entries);
    }
}

static void fill_struct(uint64_t *state, const or_wire_row_t *row, char *base)
{
    uint64_t entry = 0;
    char *inner = base + row->at;
    if (row->shape == OR_WIRE_POINTER) {
        bool present = golden != GOLDEN_NONE || test_below(state, 2) == 0;
        inner = present ? take(row->inner->bytes) : NULL;
        store_pointer(base + row->at, inner);
    }
    if (inner != NULL) {
        fill(golden != GOLDEN_NONE ? &entry : state, row->inner, inner);
    }
}

static void fill_field(uint64_t *state, const or_wire_row_t *row, char *base)
{
    char *to = base + row->at;
    const uint64_t number = random_number(state);
    if (row->shape == OR_WIRE_LEVELS) {
        fill_numbers(state, OR_STATS_LEVELS, entry_bytes(row), to);
    } else if (is_array(row)) {
        fill_array(state, row, base);
    } else if (row->kind == OR_WIRE_STRUCT) {
        fill_struct(state, row, base);
    } else if (row->kind == OR_WIRE_STRING) {
        store_pointer(to, random_string(state));
    } else if (row->kind == OR_WIRE_BYTES) {
        fill_bytes(state, fill_count(state, row, base), to);
    } else if (row->kind == OR_WIRE_BOOL) {
        *to = number & 1;
    } else {
        memcpy(to, &number, entry_bytes(row));
    }
}

static void fill(uint64_t *state, const or_wire_table_t *table, char *base)
{
    const uint64_t entry = *state;
    for (uint32_t number = 1; number < table->count; number++) {
        const or_wire_row_t *row = &table->rows[number];
        if (row->kind != OR_WIRE_NONE) {
            uint64_t fixed = golden_state(row->name, entry);
            fill_field(golden != GOLDEN_NONE ? &fixed : state, row, base);
        }
    }
}

void message_test_random(uint64_t *state, or_message_type_t type, or_message_t *message)
{
    memset(message, 0, sizeof *message);
    message->type = type;
    message->session.value = random_number(state);
    fill(state, or_message_table.rows[type].inner, (char *)&message->body);
}

void message_test_golden(golden_t which, or_message_type_t type, or_message_t *message)
{
    uint64_t entry = 0;
    memset(message, 0, sizeof *message);
    message->type = type;
    golden = which;
    message->session.value = which == GOLDEN_DISTINCT ? type : random_number(&entry);
    if (which != GOLDEN_ZERO) {
        fill(&entry, or_message_table.rows[type].inner, (char *)&message->body);
    }
    golden = GOLDEN_NONE;
}

// ---- comparing ----

static const char *difference(const or_wire_table_t *table, const char *a, const char *b);

static bool bytes_differ(const char *a, const char *b)
{
    or_wire_bytes_t one = load_bytes(a), other = load_bytes(b);
    return one.length != other.length ||
           (one.length > 0 && memcmp(one.bytes, other.bytes, one.length) != 0);
}

// The name of what differs: the field's own, or that of a field in its struct.
static const char *value_difference(const or_wire_row_t *row, const char *a, const char *b)
{
    switch (row->kind) {
    case OR_WIRE_STRUCT:
        return difference(row->inner, a, b);
    case OR_WIRE_STRING:
        return strcmp(load_pointer(a), load_pointer(b)) != 0 ? row->name : NULL;
    case OR_WIRE_BYTES:
        return bytes_differ(a, b) ? row->name : NULL;
    default:
        return memcmp(a, b, entry_bytes(row)) != 0 ? row->name : NULL;
    }
}

static const char *field_difference(const or_wire_row_t *row, const char *a, const char *b)
{
    const char *one = a + row->at, *other = b + row->at;
    uint32_t count = 1;
    if (row->shape == OR_WIRE_LEVELS) {
        count = OR_STATS_LEVELS;
    } else if (row->shape != OR_WIRE_ONE) {
        one = load_pointer(one);
        other = load_pointer(other);
        count = is_array(row) ? load_32(a + row->count_at) : one != NULL;
        if (count != (is_array(row) ? load_32(b + row->count_at) : other != NULL)) {
            return row->name;
        }
    }
    const char *found = NULL;
    for (uint32_t i = 0; found == NULL && i < count; i++) {
        found = value_difference(row, one + i * entry_bytes(row), other + i * entry_bytes(row));
    }
    return found;
}

static const char *difference(const or_wire_table_t *table, const char *a, const char *b)
{
    const char *found = NULL;
    for (uint32_t number = 1; found == NULL && number < table->count; number++) {
        if (table->rows[number].kind != OR_WIRE_NONE) {
            found = field_difference(&table->rows[number], a, b);
        }
    }
    return found;
}

const char *message_difference(const or_message_t *a, const or_message_t *b)
{
    if (a->type != b->type) {
        return "type";
    }
    if (a->session.value != b->session.value) {
        return "session";
    }
    return difference(or_message_table.rows[a->type].inner, (const char *)&a->body,
                      (const char *)&b->body);
}
