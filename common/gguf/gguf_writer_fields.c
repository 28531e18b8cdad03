// The metadata of a file that is written.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_writer_internal.h"

void *or_gguf_writer_room(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    size_t larger = 2 * *capacity + 16;
    void *moved = reallocarray(items, larger, size);
    *capacity = moved != NULL ? larger : *capacity;
    return moved;
}

// The index of a key's field; field_count if there is none.
static size_t find(const or_gguf_writer_t *writer, const char *key, size_t key_bytes)
{
    for (size_t i = 0; i < writer->field_count; i++) {
        or_gguf_string_t name = or_gguf_string_at(writer->fields[i].image);
        if (name.length == key_bytes && memcmp(name.bytes, key, key_bytes) == 0) {
            return i;
        }
    }
    return writer->field_count;
}

// Replace the field that has the same key, or append the field. If it fails, it frees what the
// field owns.
static or_status_t put_field(or_gguf_writer_t *writer, field_t field)
{
    or_gguf_string_t key = or_gguf_string_at(field.image);
    size_t place = find(writer, key.bytes, key.length);
    if (place < writer->field_count) {
        free(writer->fields[place].owned);
        writer->fields[place] = field;
        return OR_OK;
    }
    field_t *fields = or_gguf_writer_room(writer->fields, writer->field_count,
                                          &writer->field_capacity, sizeof *writer->fields);
    if (fields == NULL) {
        free(field.owned);
        return or_gguf_no_memory(writer->path);
    }
    writer->fields = fields;
    writer->fields[writer->field_count++] = field;
    return OR_OK;
}

static bool is_of_layout(or_gguf_string_t key)
{
    static const char alignment[] = "general.alignment";
    static const char split[] = "split.";
    return (key.length == sizeof alignment - 1 && memcmp(key.bytes, alignment, key.length) == 0) ||
           (key.length >= sizeof split - 1 && memcmp(key.bytes, split, sizeof split - 1) == 0);
}

or_status_t or_gguf_writer_copy(or_gguf_writer_t *writer, const or_gguf_t *gguf)
{
    or_status_t status = OR_OK;
    for (uint64_t i = 0; status == OR_OK && i < gguf->entry_count; i++) {
        const entry_t *entry = &gguf->entries[i];
        const uint8_t *image = (const uint8_t *)entry->key.bytes - sizeof(uint64_t);
        if (!is_of_layout(entry->key)) {
            status = put_field(writer, (field_t){image, (size_t)(entry->end - image), NULL});
        }
    }
    return status;
}

void or_gguf_writer_drop(or_gguf_writer_t *writer, const char *key)
{
    size_t place = find(writer, key, strlen(key));
    if (place == writer->field_count) {
        return;
    }
    free(writer->fields[place].owned);
    writer->field_count--;
    memmove(&writer->fields[place], &writer->fields[place + 1],
            (writer->field_count - place) * sizeof *writer->fields);
}

// Make a field's image with room for `value_bytes` after its key and type. *value is where they begin.
static uint8_t *new_image(const char *key, or_gguf_type_t type, size_t value_bytes, field_t *field,
                          uint8_t **value)
{
    const uint64_t key_bytes = strlen(key);
    const uint32_t number = type;
    field->bytes = sizeof key_bytes + key_bytes + sizeof number + value_bytes;
    field->image = field->owned = malloc(field->bytes);
    if (field->owned != NULL) {
        uint8_t *at = or_gguf_writer_append(field->owned, &key_bytes, sizeof key_bytes);
        at = or_gguf_writer_append(at, key, key_bytes);
        *value = or_gguf_writer_append(at, &number, sizeof number);
    }
    return field->owned;
}

static or_status_t set(or_gguf_writer_t *writer, const char *key, or_gguf_type_t type,
                       const void *value, size_t bytes)
{
    field_t field;
    uint8_t *at;
    if (new_image(key, type, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    or_gguf_writer_append(at, value, bytes);
    return put_field(writer, field);
}

or_status_t or_gguf_writer_set_u32(or_gguf_writer_t *writer, const char *key, uint32_t value)
{
    return set(writer, key, OR_GGUF_U32, &value, sizeof value);
}

or_status_t or_gguf_writer_set_u64(or_gguf_writer_t *writer, const char *key, uint64_t value)
{
    return set(writer, key, OR_GGUF_U64, &value, sizeof value);
}

or_status_t or_gguf_writer_set_f32(or_gguf_writer_t *writer, const char *key, float value)
{
    return set(writer, key, OR_GGUF_F32, &value, sizeof value);
}

or_status_t or_gguf_writer_set_bool(or_gguf_writer_t *writer, const char *key, bool value)
{
    const uint8_t byte = value;
    return set(writer, key, OR_GGUF_BOOL, &byte, sizeof byte);
}

static uint8_t *append_string(uint8_t *at, or_gguf_string_t string)
{
    const uint64_t bytes = string.length;
    return or_gguf_writer_append(or_gguf_writer_append(at, &bytes, sizeof bytes), string.bytes,
                                 string.length);
}

or_status_t or_gguf_writer_set_string(or_gguf_writer_t *writer, const char *key, const char *value)
{
    const or_gguf_string_t string = {value, strlen(value)};
    field_t field;
    uint8_t *at;
    if (new_image(key, OR_GGUF_STRING, sizeof(uint64_t) + string.length, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    append_string(at, string);
    return put_field(writer, field);
}

// Make an array's field with room for `bytes` of elements. *at is where they begin.
static uint8_t *new_array(const char *key, or_gguf_type_t type, uint64_t count, size_t bytes,
                          field_t *field, uint8_t **at)
{
    const uint32_t number = type;
    uint8_t *value;
    uint8_t *image =
        new_image(key, OR_GGUF_ARRAY, sizeof number + sizeof count + bytes, field, &value);
    if (image != NULL) {
        *at = or_gguf_writer_append(or_gguf_writer_append(value, &number, sizeof number), &count,
                                    sizeof count);
    }
    return image;
}

or_status_t or_gguf_writer_set_array(or_gguf_writer_t *writer, const char *key, or_gguf_type_t type,
                                     const void *values, uint64_t count)
{
    size_t bytes = count * or_gguf_type_bytes(type);
    field_t field;
    uint8_t *at;
    assert(or_gguf_type_bytes(type) > 0);
    if (new_array(key, type, count, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    or_gguf_writer_append(at, values, bytes);
    return put_field(writer, field);
}

or_status_t or_gguf_writer_set_strings(or_gguf_writer_t *writer, const char *key,
                                       const or_gguf_string_t *values, uint64_t count)
{
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        bytes += sizeof(uint64_t) + values[i].length;
    }
    field_t field;
    uint8_t *at;
    if (new_array(key, OR_GGUF_STRING, count, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    for (uint64_t i = 0; i < count; i++) {
        at = append_string(at, values[i]);
    }
    return put_field(writer, field);
}
