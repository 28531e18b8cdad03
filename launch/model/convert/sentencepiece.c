#include "launch/model/convert/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#define PIECES_MAX (1u << 20)

// ---- fields of a protocol buffer ----

typedef struct {
    const uint8_t *at, *end;
} bytes_t;

typedef struct {
    uint32_t number;
    uint64_t value; // of a number; of a fixed one its bits
    bytes_t bytes;  // of a text or a message; NULL: it is a number
} field_t;

// The kinds of values (protobuf.dev/programming-guides/encoding, "Message Structure").
enum { WIRE_VARINT = 0, WIRE_FIXED_64 = 1, WIRE_BYTES = 2, WIRE_FIXED_32 = 5 };

static bool take_varint(bytes_t *from, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_fixed(bytes_t *from, size_t size, uint64_t *value)
{
    *value = 0;
    if ((size_t)(from->end - from->at) < size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        *value |= (uint64_t)from->at[i] << 8 * i;
    }
    from->at += size;
    return true;
}

static bool take_bytes(bytes_t *from, bytes_t *bytes)
{
    uint64_t length;
    if (!take_varint(from, &length) || length > (uint64_t)(from->end - from->at)) {
        return false;
    }
    *bytes = (bytes_t){from->at, from->at + length};
    from->at += length;
    return true;
}

// Take the next field of a message that is not at its end; false if it is damaged.
static bool take_field(bytes_t *from, field_t *field)
{
    uint64_t key;
    *field = (field_t){0};
    if (!take_varint(from, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) {
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case WIRE_VARINT:
        return take_varint(from, &field->value);
    case WIRE_FIXED_64:
        return take_fixed(from, 8, &field->value);
    case WIRE_FIXED_32:
        return take_fixed(from, 4, &field->value);
    case WIRE_BYTES:
        return take_bytes(from, &field->bytes);
    default:
        return false;
    }
}

static bool is_message(const field_t *field)
{
    return field->bytes.at != NULL;
}

static float float_of(const field_t *field)
{
    const uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// ---- pieces ----

enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };

// Read a piece into the next place; its bytes go to the text's end. The text has room for all bytes of the file.
static bool take_piece(bytes_t message, or_sentencepiece_t *model, char **text_end)
{
    const uint32_t i = model->count;
    field_t field;
    model->kinds[i] = 1; // normal
    model->scores[i] = 0;
    model->pieces[i] = (or_gguf_string_t){*text_end, 0};
    while (message.at < message.end) {
        if (!take_field(&message, &field)) {
            return false;
        }
        if (field.number == PIECE_TEXT && is_message(&field)) {
            const size_t length = (size_t)(field.bytes.end - field.bytes.at);
            memcpy(*text_end, field.bytes.at, length);
            model->pieces[i] = (or_gguf_string_t){*text_end, length};
            (*text_end)[length] = '\0';
            *text_end += length + 1;
        } else if (field.number == PIECE_SCORE) {
            model->scores[i] = float_of(&field);
        } else if (field.number == PIECE_TYPE) {
            model->kinds[i] = field.value >= 1 && field.value <= 6 ? (int32_t)field.value : 0;
        }
    }
    model->count++;
    return model->kinds[i] != 0 && model->pieces[i].length > 0;
}

// ---- rules ----

enum {
    TRAINER_TYPE = 3,
    TRAINER_SPACE_BEHIND = 24,
    TRAINER_BYTES = 35,
    TRAINER_UNKNOWN = 40,
    TRAINER_BEGIN = 41,
    TRAINER_END = 42,
    TRAINER_PADDING = 43
};

static bool take_trainer(bytes_t message, or_sentencepiece_t *model)
{
    field_t field;
    while (message.at < message.end) {
        if (!take_field(&message, &field)) {
            return false;
        }
        const int32_t number = (int32_t)field.value; // a negative one comes as 64 bits
        model->type = field.number == TRAINER_TYPE ? (uint32_t)field.value : model->type;
        model->puts_space_behind =
            field.number == TRAINER_SPACE_BEHIND ? field.value != 0 : model->puts_space_behind;
        model->has_bytes = field.number == TRAINER_BYTES ? field.value != 0 : model->has_bytes;
        model->unknown = field.number == TRAINER_UNKNOWN ? number : model->unknown;
        model->begin = field.number == TRAINER_BEGIN ? number : model->begin;
        model->end = field.number == TRAINER_END ? number : model->end;
        model->padding = field.number == TRAINER_PADDING ? number : model->padding;
    }
    return true;
}

enum {
    NORMALIZER_NAME = 1,
    NORMALIZER_RULES = 2,
    NORMALIZER_ADDS_SPACE = 3,
    NORMALIZER_REMOVES_SPACES = 4,
    NORMALIZER_ESCAPES_SPACES = 5
};

static bool take_normalizer(bytes_t message, or_sentencepiece_t *model)
{
    field_t field;
    while (message.at < message.end) {
        if (!take_field(&message, &field)) {
            return false;
        }
        const bool truth = field.value != 0;
        const size_t length = (size_t)(field.bytes.end - field.bytes.at);
        if (field.number == NORMALIZER_NAME && is_message(&field)) {
            model->normalizer = (or_gguf_string_t){(const char *)field.bytes.at, length};
        } else if (field.number == NORMALIZER_RULES && is_message(&field)) {
            model->normalises = length > 0;
        } else if (field.number == NORMALIZER_ADDS_SPACE) {
            model->adds_space = truth;
        } else if (field.number == NORMALIZER_REMOVES_SPACES) {
            model->removes_spaces = truth;
        } else if (field.number == NORMALIZER_ESCAPES_SPACES) {
            model->escapes_spaces = truth;
        }
    }
    return true;
}

// ---- the model ----

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };

static or_status_t fail_damaged(void)
{
    return or_fail(OR_ERR_FORMAT, "it is no model of SentencePiece, or damaged");
}

static or_status_t take_model(bytes_t from, or_sentencepiece_t *model)
{
    char *text_end = model->text;
    field_t field;
    while (from.at < from.end) {
        bool whole = take_field(&from, &field);
        if (whole && is_message(&field)) {
            whole = field.number == MODEL_PIECE        ? take_piece(field.bytes, model, &text_end)
                    : field.number == MODEL_TRAINER    ? take_trainer(field.bytes, model)
                    : field.number == MODEL_NORMALIZER ? take_normalizer(field.bytes, model)
                                                       : true;
        }
        if (!whole) {
            return fail_damaged();
        }
    }
    return OR_OK;
}

// Count the pieces, so that their arrays are taken once.
static or_status_t count_pieces(bytes_t from, uint32_t *count)
{
    field_t field;
    *count = 0;
    while (from.at < from.end) {
        if (!take_field(&from, &field)) {
            return fail_damaged();
        }
        *count += field.number == MODEL_PIECE && is_message(&field);
        if (*count > PIECES_MAX) {
            return or_fail(OR_ERR_FORMAT, "it has over %u pieces", PIECES_MAX);
        }
    }
    return *count > 0 ? OR_OK : fail_damaged();
}

or_status_t or_sentencepiece_read(const void *bytes, size_t size, or_sentencepiece_t *model)
{
    const bytes_t from = {bytes, (const uint8_t *)bytes + size};
    uint32_t count;
    // What the format gives a field that is not there.
    *model = (or_sentencepiece_t){.type = OR_SENTENCEPIECE_UNIGRAM,
                                  .begin = 1,
                                  .end = 2,
                                  .padding = -1,
                                  .adds_space = true,
                                  .removes_spaces = true,
                                  .escapes_spaces = true};
    or_status_t status = count_pieces(from, &count);
    if (status != OR_OK) {
        return status;
    }
    model->pieces = calloc(count, sizeof *model->pieces);
    model->scores = calloc(count, sizeof *model->scores);
    model->kinds = calloc(count, sizeof *model->kinds);
    model->text =
        malloc(size + 1); // each piece has two bytes before its own, of which its zero takes one
    return model->pieces != NULL && model->scores != NULL && model->kinds != NULL &&
                   model->text != NULL
               ? take_model(from, model)
               : or_fail(OR_ERR_NO_MEMORY, "no memory for %u pieces", count);
}

void or_sentencepiece_fini(or_sentencepiece_t *model)
{
    free(model->text);
    free(model->kinds);
    free(model->scores);
    free(model->pieces);
    *model = (or_sentencepiece_t){0};
}
