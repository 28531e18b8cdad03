// A turn's words as its family's template keeps them: without white space around them, and without thoughts.
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_internal.h"
#include "common/text/utf8.h"

// Does Python's str.strip take it, and so Jinja's trim?
static bool is_space(uint32_t c)
{
    return (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// The bytes of the white space character that begins the text; 0: none does.
static size_t space_at(const char *text, size_t length)
{
    size_t used;
    bool whole = length > 0 && or_utf8_next(text, length, &used) == OR_UTF8_CHARACTER;
    return whole && is_space(or_utf8_code_point(text, used)) ? used : 0;
}

static void drop_spaces_behind(or_chat_words_t *words)
{
    size_t used;
    do {
        used = 0;
        for (size_t i = 1; used == 0 && i <= OR_UTF8_MAX_BYTES && i <= words->length; i++) {
            used = space_at(words->text + words->length - i, i) == i ? i : 0;
        }
        words->length -= used;
    } while (used > 0);
}

static void drop_before(or_chat_words_t *words, size_t count)
{
    words->text += count;
    words->length -= count;
}

static void drop_spaces_before(or_chat_words_t *words)
{
    for (size_t used; (used = space_at(words->text, words->length)) > 0;) {
        drop_before(words, used);
    }
}

void or_chat_drop_lines(or_chat_words_t *words)
{
    while (words->length > 0 && words->text[0] == '\n') {
        drop_before(words, 1);
    }
}

// Leave what stands behind the last thought.
static void drop_thoughts(or_chat_words_t *words, or_chat_thoughts_t kind)
{
    static const char end[] = "</think>";
    const size_t length = sizeof end - 1;
    const char *found;
    bool any = false;
    while (words->length > 0 && (found = memmem(words->text, words->length, end, length)) != NULL) {
        drop_before(words, (size_t)(found + length - words->text));
        any = true;
    }
    if (any && kind == OR_CHAT_THOUGHTS_GO_LINES) {
        or_chat_drop_lines(words);
    } else if (any && kind == OR_CHAT_THOUGHTS_GO_SPACES) {
        drop_spaces_before(words);
        drop_spaces_behind(words);
    }
}

// Cut each thought out, from its first mark to its last.
static or_status_t cut_thoughts(const or_chat_reply_t *reply, or_chat_words_t *words)
{
    const char *begin = reply->marks[0].text, *end = reply->marks[1].text;
    const char *from = words->text, *const over = words->text + words->length;
    char *left = malloc(words->length + 1);
    size_t count = 0;
    if (left == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a message of %zu bytes", words->length);
    }
    while (from < over) {
        const char *mark = memmem(from, (size_t)(over - from), end, strlen(end));
        const char *until = mark != NULL ? mark : over;
        const char *thought = memmem(from, (size_t)(until - from), begin, strlen(begin));
        const size_t kept = (size_t)((thought != NULL ? thought : until) - from);
        memcpy(left + count, from, kept);
        count += kept;
        from = mark != NULL ? mark + strlen(end) : over;
    }
    *words = (or_chat_words_t){.text = left, .length = count, .owned = left};
    return OR_OK;
}

or_status_t or_chat_words(const or_chat_t *chat, const or_chat_turn_t *turn,
                          const or_chat_markup_t *markup, bool whole, or_chat_words_t *words)
{
    or_status_t status = OR_OK;
    *words = (or_chat_words_t){.text = turn->content, .length = turn->length};
    if (strcmp(turn->role, "assistant") == 0 && words->length > 0 && !whole) {
        switch (chat->thoughts) {
        case OR_CHAT_THOUGHTS_STAY:
            break;
        case OR_CHAT_THOUGHTS_GO:
        case OR_CHAT_THOUGHTS_GO_LINES:
        case OR_CHAT_THOUGHTS_GO_SPACES:
            drop_thoughts(words, chat->thoughts);
            break;
        case OR_CHAT_THOUGHTS_CUT:
            status = cut_thoughts(chat->reply, words);
            break;
        }
    }
    if (markup->drops_lines) {
        or_chat_drop_lines(words);
    }
    if (markup->drops_spaces) {
        drop_spaces_before(words);
    }
    if (markup->drops_spaces || markup->drops_spaces_behind) {
        drop_spaces_behind(words);
    }
    return status;
}

static void drop_lines_around(or_chat_words_t *words)
{
    or_chat_drop_lines(words);
    while (words->length > 0 && words->text[words->length - 1] == '\n') {
        words->length--;
    }
}

bool or_chat_thought(const or_chat_turn_t *turn, or_chat_words_t *thought)
{
    static const char begin[] = "<think>", end[] = "</think>";
    if (turn->thought != NULL) {
        *thought = (or_chat_words_t){.text = turn->thought, .length = turn->thought_length};
        drop_lines_around(thought);
        return turn->thought_length > 0;
    }
    const char *found =
        turn->length > 0 ? memmem(turn->content, turn->length, end, sizeof end - 1) : NULL;
    if (found == NULL) {
        return false;
    }
    *thought = (or_chat_words_t){.text = turn->content, .length = (size_t)(found - turn->content)};
    while ((found = memmem(thought->text, thought->length, begin, sizeof begin - 1)) != NULL) {
        drop_before(thought, (size_t)(found + sizeof begin - 1 - thought->text));
    }
    drop_lines_around(thought);
    return thought->length > 0;
}
