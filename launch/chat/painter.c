#include "launch/chat/painter.h"

#include <stdlib.h>
#include <string.h>

#include "launch/generate/output.h"

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Remember who wrote the tokens until their text is here.
static or_status_t take_tokens(or_chat_painter_t *painter, const or_generate_delta_t *delta)
{
    size_t more = delta->origin_count;
    if (more == 0 || delta->token_end_count != more) {
        return OR_OK; // an old coordinator, or one that does not say
    }
    if (painter->count + more > painter->capacity) {
        size_t larger = 2 * (painter->count + more);
        uint64_t *ends = realloc(painter->ends, larger * sizeof *ends);
        painter->ends = ends != NULL ? ends : painter->ends;
        uint8_t *origins = realloc(painter->origins, larger);
        painter->origins = origins != NULL ? origins : painter->origins;
        if (ends == NULL || origins == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for the colours of an answer");
        }
        painter->capacity = larger;
    }
    memcpy(painter->ends + painter->count, delta->token_ends, more * sizeof *painter->ends);
    memcpy(painter->origins + painter->count, delta->origins, more);
    painter->count += more;
    return OR_OK;
}

// Colours change between characters, never inside one.
static void choose_colour(or_chat_painter_t *painter, uint64_t at, char byte)
{
    while (painter->first < painter->count && painter->ends[painter->first] <= at) {
        painter->first++;
    }
    if (!painter->colour || painter->first == painter->count ||
        ((unsigned char)byte & 0xC0) == 0x80) {
        return;
    }
    bool drafted = painter->origins[painter->first] != 0;
    if (!painter->written || drafted != painter->drafted) {
        fputs(drafted ? OR_CHAT_DRAFTED : OR_CHAT_CORRECTED, painter->out);
        painter->written = true;
        painter->drafted = drafted;
    }
}

// Begin or end a thought.
static void choose_part(or_chat_painter_t *painter, bool is_thought)
{
    if (is_thought == painter->thinking) {
        return;
    }
    if (painter->written) {
        fputs(OR_CHAT_NO_COLOUR, painter->out);
    }
    if (is_thought) {
        fputs(painter->colour ? OR_CHAT_DIMMED : "[", painter->out);
    } else {
        fputs(painter->colour ? OR_CHAT_NO_COLOUR "\n\n" : "]\n\n", painter->out);
    }
    painter->thinking = is_thought;
    painter->begun = painter->written = false;
}

static void print_byte(or_chat_painter_t *painter, uint64_t at, char byte)
{
    if (!painter->begun && is_space(byte)) {
        return;
    }
    painter->begun = true;
    if (!painter->thinking) {
        choose_colour(painter, at, byte);
    }
    bool control = ((unsigned char)byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7F;
    putc(control && painter->terminal ? '?' : byte, painter->out);
}

static void print_text(or_chat_painter_t *painter, const or_generate_delta_t *delta)
{
    for (uint32_t i = 0, end; i < delta->text_bytes; i = end) {
        bool is_thought = or_generate_delta_is_thought(delta, i, &end);
        if (is_thought && !painter->terminal) {
            continue;
        }
        choose_part(painter, is_thought);
        for (uint32_t at = i; at < end; at++) {
            print_byte(painter, delta->text_offset + at, (char)delta->text[at]);
        }
    }
}

or_status_t or_chat_painter_take(or_chat_painter_t *painter, const or_generate_delta_t *delta)
{
    char *text = NULL;
    size_t length = 0;
    or_status_t status = take_tokens(painter, delta);
    if (status != OR_OK) {
        return status;
    }
    painter->out = open_memstream(&text, &length);
    if (painter->out == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for an answer");
    }
    print_text(painter, delta);
    status = fclose(painter->out) == 0 ? or_output_write(text, length)
                                       : or_fail(OR_ERR_NO_MEMORY, "no memory for an answer");
    painter->out = NULL;
    free(text);
    return status;
}

or_status_t or_chat_painter_end(or_chat_painter_t *painter)
{
    bool dimmed = painter->thinking && painter->colour;
    const char *end = painter->written || dimmed ? OR_CHAT_NO_COLOUR "\n"
                      : painter->thinking        ? "]\n"
                                                 : "\n";
    painter->begun = painter->written = painter->thinking = false;
    painter->first = painter->count = 0;
    return or_output_write(end, strlen(end));
}

void or_chat_painter_fini(or_chat_painter_t *painter)
{
    free(painter->ends);
    free(painter->origins);
    *painter = (or_chat_painter_t){0};
}
