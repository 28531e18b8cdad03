#include "coordinator/clients/completion.h"

#include <stdlib.h>
#include <string.h>

static or_status_t copy_stops(or_completion_t *completion, const or_wire_bytes_t *stops,
                              uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += stops[i].length;
    }
    completion->stops = malloc(count * sizeof *stops + bytes + 1);
    if (completion->stops == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u stop strings", count);
    }
    uint8_t *to = (uint8_t *)(completion->stops + count);
    for (uint32_t i = 0; i < count; i++) {
        if (stops[i].length == 0) {
            continue;
        }
        memcpy(to, stops[i].bytes, stops[i].length);
        completion->stops[completion->stop_count++] = (or_wire_bytes_t){to, stops[i].length};
        to += stops[i].length;
        if (stops[i].length > completion->stop_longest) {
            completion->stop_longest = stops[i].length;
        }
    }
    return OR_OK;
}

or_status_t or_completion_init(or_completion_t *completion, const or_vocab_t *vocab,
                               const or_chat_t *chat, const or_chat_tools_t *tools,
                               uint32_t thinking, bool at_text_start, const or_wire_bytes_t *stops,
                               uint32_t stop_count)
{
    *completion = (or_completion_t){0};
    or_detok_init(&completion->detok, vocab, at_text_start, true);
    or_chat_reader_init(&completion->reader, chat, tools, thinking, vocab);
    return copy_stops(completion, stops, stop_count);
}

size_t or_completion_stop_bytes(const or_completion_t *completion)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        bytes += sizeof *completion->stops + completion->stops[i].length;
    }
    return bytes;
}

void or_completion_fini(or_completion_t *completion)
{
    free(completion->bytes);
    free(completion->stops);
    *completion = (or_completion_t){0};
}

static or_status_t reserve(or_completion_t *completion, size_t more)
{
    size_t needed = completion->length + more;
    if (needed <= completion->capacity) {
        return OR_OK;
    }
    size_t capacity = completion->capacity > 0 ? completion->capacity : 256;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *bytes = realloc(completion->bytes, capacity);
    if (bytes == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu bytes of text", capacity);
    }
    completion->bytes = bytes;
    completion->capacity = capacity;
    return OR_OK;
}

// The first place at or behind `from` where a stop string stands; SIZE_MAX if none does.
static size_t find_stop(const or_completion_t *completion, size_t from)
{
    size_t first = SIZE_MAX;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        const char *hit = memmem(completion->bytes + from, completion->length - from,
                                 completion->stops[i].bytes, completion->stops[i].length);
        if (hit != NULL && (size_t)(hit - completion->bytes) < first) {
            first = (size_t)(hit - completion->bytes);
        }
    }
    return first;
}

// Bytes at the end that are the beginning of some stop string.
static size_t held_back(const or_completion_t *completion)
{
    size_t held = 0;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        const size_t searched = completion->length - completion->unsearched;
        size_t most = completion->stops[i].length - 1;
        most = most < searched ? most : searched;
        for (size_t n = most; n > held; n--) {
            if (memcmp(completion->bytes + completion->length - n, completion->stops[i].bytes, n) ==
                0) {
                held = n;
                break;
            }
        }
    }
    return held;
}

static void drop_changes(const uint64_t *changes, uint32_t *count, size_t end)
{
    while (*count > 0 && changes[*count - 1] >= end) {
        (*count)--;
    }
}

// End the text at a stop string: what follows it is not part of the answer.
static void end_at(or_completion_t *completion, size_t stop)
{
    completion->length = stop;
    completion->detok.held_count = 0;
    completion->reader.held_bytes = 0;
    completion->reader.header_bytes = 0;
    drop_changes(completion->changes, &completion->change_count, stop);
    drop_changes(completion->call_changes, &completion->call_change_count, stop);
}

// Note at `place` whether a part is of a kind, where that changes, unless there are `most` changes.
static void note_part(uint64_t *changes, uint32_t *count, uint32_t most, bool is_of_kind,
                      size_t place)
{
    const bool was = *count % 2 == 1;
    if (is_of_kind != was && *count < most) {
        changes[(*count)++] = place;
    }
}

// Append bytes of a part, and note where it differs from the part before it.
static or_status_t append(void *context, or_chat_part_t part, const char *bytes, size_t count)
{
    or_completion_t *completion = context;
    or_status_t status = reserve(completion, count);
    if (status != OR_OK) {
        return status;
    }
    note_part(completion->changes, &completion->change_count, OR_PART_CHANGES_MAX,
              part == OR_CHAT_REASONING, completion->length);
    note_part(completion->call_changes, &completion->call_change_count, OR_PART_CHANGES_MAX - 1,
              part == OR_CHAT_CALL, completion->length);
    memcpy(completion->bytes + completion->length, bytes, count);
    completion->length += count;
    completion->unsearched = part == OR_CHAT_CALL ? completion->length : completion->unsearched;
    return OR_OK;
}

// Append what is left of an incomplete character: nothing more of it comes in this part.
static or_status_t append_rest(or_completion_t *completion)
{
    char text[OR_DETOK_ROOM(0)];
    size_t count = or_detok_flush(&completion->detok, text);
    return or_chat_reader_text(&completion->reader, text, count, append, completion);
}

// Append the text that a token completes, without the marks around thoughts.
static or_status_t append_token(or_completion_t *completion, int32_t id)
{
    const or_vocab_t *vocab = completion->detok.vocab;
    char small[OR_DETOK_ROOM(64)], *text = small;
    uint32_t width = 0;
    bool is_mark = false;
    or_status_t status =
        or_chat_reader_is_mark(&completion->reader, id) ? append_rest(completion) : OR_OK;
    if (status == OR_OK) {
        status = or_chat_reader_token(&completion->reader, id, append, completion, &is_mark);
    }
    if (status != OR_OK || is_mark) {
        return status;
    }
    or_vocab_bytes(vocab, id, &width);
    if (OR_DETOK_ROOM(width) > sizeof small) {
        text = malloc(OR_DETOK_ROOM(width));
    }
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a token of %u bytes", width);
    }
    size_t count = or_detok_push(&completion->detok, id, text);
    status = or_chat_reader_text(&completion->reader, text, count, append, completion);
    if (text != small) {
        free(text);
    }
    return status;
}

// Look for a stop string in what was appended behind `before`, which may have begun in what was held back: the text ends
// there. Returns true if it does.
static bool ends_at_stop(or_completion_t *completion, size_t before)
{
    if (completion->stop_count == 0 || completion->length == before) {
        return false;
    }
    size_t from = before > completion->stop_longest ? before - completion->stop_longest : 0;
    from = from > completion->released ? from : completion->released;
    from = from > completion->unsearched ? from : completion->unsearched;
    size_t stop = find_stop(completion, from);
    if (stop != SIZE_MAX) {
        end_at(completion, stop);
    }
    return stop != SIZE_MAX;
}

or_status_t or_completion_push(or_completion_t *completion, int32_t id, bool *stopped)
{
    size_t before = completion->length;
    or_status_t status = append_token(completion, id);
    if (status != OR_OK) {
        return status;
    }
    *stopped = ends_at_stop(completion, before);
    completion->released = completion->length - (*stopped ? 0 : held_back(completion));
    return OR_OK;
}

or_status_t or_completion_finish(or_completion_t *completion, bool *stopped)
{
    size_t before = completion->length;
    or_status_t status = append_rest(completion);
    if (status == OR_OK) {
        status = or_chat_reader_finish(&completion->reader, append, completion);
    }
    *stopped = status == OR_OK && ends_at_stop(completion, before);
    completion->released = completion->length;
    return status;
}
