#include "common/model/ranks/descriptor.h"

// The kinds of items on the wire, which are never renumbered. Notes keep their own numbers.
enum {
    CODE_PASS = OR_KV_NOTE_SHARE + 1,
    CODE_LOGITS,
    CODE_END,
};

static void put(or_descriptor_t *descriptor, uint32_t number)
{
    while (number >= 0x80) {
        descriptor->bytes[descriptor->length++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    descriptor->bytes[descriptor->length++] = (uint8_t)number;
}

// OR_KV_NO_SLOT + 1 is 0, the shortest.
static void put_note(or_descriptor_t *descriptor, const or_kv_note_t *note)
{
    put(descriptor, note->kind);
    put(descriptor, note->sequence);
    switch (note->kind) {
    case OR_KV_NOTE_CLOSE:
        break;
    case OR_KV_NOTE_OPEN:
    case OR_KV_NOTE_TRUNCATE:
    case OR_KV_NOTE_DROP:
    case OR_KV_NOTE_RESERVE:
        put(descriptor, note->value);
        break;
    case OR_KV_NOTE_ACCEPT:
        put(descriptor, note->slot_count);
        for (uint32_t i = 0; i < note->slot_count; i++) {
            put(descriptor, note->slots[i]);
        }
        break;
    case OR_KV_NOTE_SHARE:
        put(descriptor, note->value);
        put(descriptor, note->donor);
        break;
    }
}

void or_descriptor_put(or_descriptor_t *descriptor, const or_step_t *step)
{
    switch (step->kind) {
    case OR_STEP_NOTE:
        put_note(descriptor, &step->note);
        break;
    case OR_STEP_PASS:
        put(descriptor, CODE_PASS);
        put(descriptor, step->count);
        break;
    case OR_STEP_LOGITS:
        put(descriptor, CODE_LOGITS);
        put(descriptor, step->first);
        put(descriptor, step->count);
        put(descriptor, step->top);
        break;
    case OR_STEP_END:
        put(descriptor, CODE_END);
        break;
    }
}

void or_descriptor_put_row(or_descriptor_t *descriptor, const or_step_row_t *row)
{
    put(descriptor, row->sequence);
    put(descriptor, (uint32_t)row->token);
    put(descriptor, row->slot + 1);
    if (row->slot != OR_KV_NO_SLOT) {
        put(descriptor, row->parent_slot + 1);
    }
}

static or_status_t get(or_descriptor_reader_t *reader, uint32_t *number)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * OR_VARINT_BYTES_MAX; shift += 7) {
        if (reader->at == reader->end) {
            return or_fail(OR_ERR_FORMAT, "the leader's descriptor ends within an item");
        }
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80 && value <= UINT32_MAX) {
            *number = (uint32_t)value;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_FORMAT, "the leader's descriptor has a number of more than 32 bits");
}

static or_status_t get_slots(or_descriptor_reader_t *reader, or_kv_note_t *note)
{
    or_status_t status = get(reader, &note->slot_count);
    if (status == OR_OK && note->slot_count > OR_DESCRIPTOR_SLOTS_MAX) {
        return or_fail(OR_ERR_FORMAT, "the leader's descriptor accepts %u nodes; at most %u can be",
                       note->slot_count, OR_DESCRIPTOR_SLOTS_MAX);
    }
    for (uint32_t i = 0; status == OR_OK && i < note->slot_count; i++) {
        status = get(reader, &reader->slots[i]);
    }
    note->slots = reader->slots;
    return status;
}

static or_status_t get_note(or_descriptor_reader_t *reader, or_kv_note_kind_t kind,
                            or_kv_note_t *note)
{
    *note = (or_kv_note_t){.kind = kind};
    or_status_t status = get(reader, &note->sequence);
    if (status != OR_OK || kind == OR_KV_NOTE_CLOSE) {
        return status;
    }
    if (kind == OR_KV_NOTE_ACCEPT) {
        return get_slots(reader, note);
    }
    status = get(reader, &note->value);
    return status != OR_OK || kind != OR_KV_NOTE_SHARE ? status : get(reader, &note->donor);
}

or_status_t or_descriptor_next(or_descriptor_reader_t *reader, or_step_t *step)
{
    uint32_t code;
    or_status_t status = get(reader, &code);
    if (status != OR_OK) {
        return status;
    }
    *step = (or_step_t){.kind = OR_STEP_NOTE};
    switch (code) {
    case CODE_PASS:
        step->kind = OR_STEP_PASS;
        return get(reader, &step->count);
    case CODE_LOGITS:
        step->kind = OR_STEP_LOGITS;
        status = get(reader, &step->first);
        status = status != OR_OK ? status : get(reader, &step->count);
        return status != OR_OK ? status : get(reader, &step->top);
    case CODE_END:
        step->kind = OR_STEP_END;
        return OR_OK;
    default:
        return code < CODE_PASS
                   ? get_note(reader, (or_kv_note_kind_t)code, &step->note)
                   : or_fail(OR_ERR_FORMAT, "the leader's descriptor has an item of kind %u", code);
    }
}

or_status_t or_descriptor_next_row(or_descriptor_reader_t *reader, or_step_row_t *row)
{
    uint32_t token = 0;
    uint32_t slot = 0;
    uint32_t parent = 0;
    or_status_t status = get(reader, &row->sequence);
    status = status != OR_OK ? status : get(reader, &token);
    status = status != OR_OK ? status : get(reader, &slot);
    status = status != OR_OK || slot == 0 ? status : get(reader, &parent);
    row->token = (int32_t)token;
    row->slot = slot - 1;
    row->parent_slot = parent - 1;
    return status;
}
