#include "common/text/chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/text/chat/chat_internal.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

// -- the prompt as it is written
// ----------------------------------------------------------------------------------------

typedef struct {
    const or_vocab_t *vocab;
    uint32_t thinking; // or_thinking_t
    char *text;        // since the last token of the markup: not tokenised yet
    size_t length;
    size_t capacity;
    bool continues; // the text follows other text, or a token that takes no space after it
    int32_t *ids;   // the result
    size_t count;
    size_t ids_capacity;
} writer_t;

static or_status_t make_room(void *array_p, size_t *capacity, size_t count, size_t more,
                             size_t entry_bytes)
{
    return or_array_reserve(array_p, capacity, count, more, entry_bytes)
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for a conversation of %zu entries",
                         2 * (count + more));
}

static or_status_t write_ids(writer_t *writer, const int32_t *ids, size_t count)
{
    or_status_t status =
        make_room(&writer->ids, &writer->ids_capacity, writer->count, count, sizeof *ids);
    if (status == OR_OK && count > 0) {
        memcpy(writer->ids + writer->count, ids, count * sizeof *ids);
        writer->count += count;
    }
    return status;
}

// Tokenise the text so far; the text that follows is tokenised by itself.
static or_status_t settle(writer_t *writer)
{
    int32_t *ids = NULL;
    size_t count;
    if (writer->length == 0) {
        return OR_OK;
    }
    unsigned flags = OR_TOKENIZE_WHOLE | (writer->continues ? OR_TOKENIZE_CONTINUES : 0U);
    or_status_t status =
        or_tokenize(writer->vocab, writer->text, writer->length, flags, &ids, &count);
    if (status == OR_OK) {
        status = write_ids(writer, ids, count);
    }
    free(ids);
    writer->length = 0;
    writer->continues = true;
    return status;
}

static or_status_t write_text(writer_t *writer, const char *text, size_t length)
{
    or_status_t status = make_room(&writer->text, &writer->capacity, writer->length, length, 1);
    if (status == OR_OK && length > 0) {
        memcpy(writer->text + writer->length, text, length);
        writer->length += length;
    }
    return status;
}

// Write a token. OR_TOKEN_NONE is one that the vocabulary lacks, and is left out.
static or_status_t write_token(writer_t *writer, int32_t id)
{
    or_status_t status = settle(writer);
    if (status == OR_OK && id != OR_TOKEN_NONE) {
        writer->continues = writer->vocab->tokens[id].kind != OR_TOKEN_SPECIAL;
        status = write_ids(writer, &id, 1);
    }
    return status;
}

// Write markup: special tokens are cut out, and the text between them is tokenised together with
// the content beside it.
static or_status_t write_markup(writer_t *writer, const char *markup)
{
    const or_vocab_t *vocab = writer->vocab;
    or_status_t status = OR_OK;
    size_t length = strlen(markup);
    for (size_t at = 0; status == OR_OK && at < length;) {
        int32_t id = or_vocab_marked_at(vocab, markup + at, length - at, true);
        size_t used = 1;
        if (id != OR_TOKEN_NONE) {
            status = write_token(writer, id);
            used = vocab->tokens[id].piece_length;
        } else if (markup[at] == OR_CHAT_BOS[0] || markup[at] == OR_CHAT_EOS[0]) {
            status = write_token(writer, markup[at] == OR_CHAT_BOS[0] ? vocab->bos : vocab->eos);
        } else {
            status = write_text(writer, markup + at, 1);
        }
        at += used;
    }
    return status;
}

// Write content, all of which is text. User-defined tokens are found in any text, and some files call their markup
// user-defined: such a token is cut in two.
static or_status_t write_content(writer_t *writer, const char *text, size_t length)
{
    const or_vocab_t *vocab = writer->vocab;
    or_status_t status = OR_OK;
    size_t from = 0; // what is not written yet
    for (size_t at = 0; status == OR_OK && vocab->widest_user > 0 && at < length; at++) {
        int32_t id = or_vocab_marked_at(vocab, text + at, length - at, false);
        if (id != OR_TOKEN_NONE && or_chat_is_markup(text + at, vocab->tokens[id].piece_length)) {
            status = write_text(writer, text + from, at + 1 - from);
            from = at + 1;
            status = status == OR_OK ? settle(writer) : status;
        }
    }
    return status == OR_OK ? write_text(writer, text + from, length - from) : status;
}

// -- the order of turns
// ----------------------------------------------------------------------------------------

static bool is_role(const or_chat_turn_t *turn, const char *role)
{
    return strcmp(turn->role, role) == 0;
}

static or_status_t check_roles(const or_chat_turn_t *turns, size_t count)
{
    if (count == 0) {
        return or_fail(OR_ERR_INVALID, "a conversation without messages has nothing to answer");
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_role(&turns[i], "system") && !is_role(&turns[i], "user") &&
            !is_role(&turns[i], "assistant")) {
            char role[32];
            snprintf(role, sizeof role, "%s", turns[i].role);
            or_utf8_mend(role);
            return or_fail(OR_ERR_INVALID,
                           "message %zu: the role is '%s'; it can be system, user or assistant",
                           i + 1, role);
        }
    }
    return OR_OK;
}

// Why a turn cannot stand where it does; NULL: it can. `before` is the turn before it, NULL for the first.
static const char *why_misplaced(const or_chat_t *chat, const or_chat_turn_t *turn,
                                 const or_chat_turn_t *before)
{
    bool system_alone = chat->system_place != OR_CHAT_SYSTEM_TURN ||
                        (chat->order & OR_CHAT_ALTERNATES) == OR_CHAT_ALTERNATES;
    bool follows_user = before != NULL && is_role(before, "user");
    if (is_role(turn, "system")) {
        return before != NULL && system_alone ? "a system message comes first" : NULL;
    }
    if (is_role(turn, "assistant")) {
        return (chat->order & OR_CHAT_ANSWERS_SINGLE) != 0 && !follows_user
                   ? "an assistant's message follows a user's"
                   : NULL;
    }
    return (chat->order & OR_CHAT_QUESTIONS_SINGLE) != 0 && follows_user
               ? "user and assistant take turns"
               : NULL;
}

static or_status_t check_order(const or_chat_t *chat, const or_chat_turn_t *turns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *why = why_misplaced(chat, &turns[i], i > 0 ? &turns[i - 1] : NULL);
        if (why != NULL) {
            return or_fail(OR_ERR_INVALID,
                           "message %zu: the role is %s, and in the chat template %s %s", i + 1,
                           turns[i].role, chat->name, why);
        }
    }
    if ((chat->order & OR_CHAT_USER_LAST) != 0 && !is_role(&turns[count - 1], "user")) {
        return or_fail(OR_ERR_INVALID,
                       "in the chat template %s the last message must be the user's", chat->name);
    }
    return OR_OK;
}

// -- the turns
// ----------------------------------------------------------------------------------------

// Is the model told to do otherwise than usual?
static bool is_told(const or_chat_t *chat, uint32_t thinking)
{
    return thinking != OR_THINKING_USUAL && (thinking != OR_THINKING_OFF) != chat->thinks;
}

const char *or_chat_opening(const or_chat_t *chat, uint32_t thinking)
{
    return is_told(chat, thinking) ? chat->otherwise.opening : chat->opening;
}

// The markup of a conversation's first system message.
static const or_chat_markup_t *head_of(const or_chat_t *chat, uint32_t thinking)
{
    const or_chat_markup_t *told = &chat->otherwise.head;
    return is_told(chat, thinking) && told->before != NULL ? told
           : chat->head.before != NULL                     ? &chat->head
                                                           : &chat->system;
}

static const or_chat_markup_t *markup_of(const or_chat_t *chat, uint32_t thinking,
                                         const or_chat_turn_t *turn, bool first)
{
    const or_chat_markup_t *told = &chat->otherwise.assistant;
    if (is_role(turn, "system")) {
        return first ? head_of(chat, thinking) : &chat->system;
    }
    return is_role(turn, "user")                             ? &chat->user
           : is_told(chat, thinking) && told->before != NULL ? told
                                                             : &chat->assistant;
}

// The markup right behind the words of a turn; NULL: none.
static const char *suffix_of(const or_chat_t *chat, uint32_t thinking, const or_chat_turn_t *turn)
{
    const char *suffix = chat->otherwise.suffix;
    if (suffix == NULL || !is_told(chat, thinking) || !is_role(turn, "user")) {
        return NULL;
    }
    size_t length = strlen(suffix);
    bool has_it = turn->length >= length &&
                  memcmp(turn->content + turn->length - length, suffix, length) == 0;
    return has_it ? NULL : suffix;
}

static or_status_t write_words(writer_t *writer, const or_chat_t *chat, const or_chat_turn_t *turn,
                               const or_chat_markup_t *markup, const or_chat_words_t *words)
{
    const char *suffix = suffix_of(chat, writer->thinking, turn);
    const size_t led = markup->leads_turn ? turn->length : words->length;
    or_status_t status = OR_OK;
    if (markup->lead != NULL && led > 0) {
        status = write_markup(writer, markup->lead);
    }
    if (status == OR_OK) {
        status = write_content(writer, words->text, words->length);
    }
    return status == OR_OK && suffix != NULL ? write_markup(writer, suffix) : status;
}

// Write a turn. `inside` is a system message that stands inside this turn, before its words, or
// NULL. `first`: no turn stands before it.
static or_status_t write_turn(writer_t *writer, const or_chat_t *chat, const or_chat_turn_t *turn,
                              const or_chat_turn_t *inside, bool first)
{
    const or_chat_markup_t *markup = markup_of(chat, writer->thinking, turn, first);
    or_chat_words_t words;
    or_status_t status = or_chat_words(chat, turn, markup, &words);
    if (status != OR_OK || (markup->skips_empty && words.length == 0)) {
        free(words.owned);
        return status;
    }
    status = write_markup(writer, markup->before);
    if (status == OR_OK && inside != NULL) {
        status = write_turn(writer, chat, inside, NULL, false);
    }
    if (status == OR_OK) {
        status = write_words(writer, chat, turn, markup, &words);
    }
    free(words.owned);
    return status == OR_OK ? write_markup(writer, markup->after) : status;
}

static or_status_t write_turns(writer_t *writer, const or_chat_t *chat, const or_chat_turn_t *turns,
                               size_t count)
{
    bool moves = chat->system_place >= OR_CHAT_SYSTEM_IN_FIRST && is_role(&turns[0], "system");
    size_t place = chat->system_place == OR_CHAT_SYSTEM_IN_FIRST ? 1 : count - 1;
    or_status_t status = OR_OK;
    if (head_of(chat, writer->thinking)->always && !is_role(&turns[0], "system")) {
        const or_chat_turn_t none = {.role = "system", .content = ""};
        status = write_turn(writer, chat, &none, NULL, true);
    }
    for (size_t i = moves ? 1 : 0; status == OR_OK && i < count; i++) {
        const or_chat_turn_t *inside = moves && i == place ? &turns[0] : NULL;
        status = write_turn(writer, chat, &turns[i], inside, i == 0);
    }
    return status == OR_OK ? write_markup(writer, or_chat_opening(chat, writer->thinking)) : status;
}

static const char *preface_of(const or_chat_t *chat, uint32_t thinking)
{
    return thinking == OR_THINKING_LOW && chat->preface_low != NULL     ? chat->preface_low
           : thinking == OR_THINKING_HIGH && chat->preface_high != NULL ? chat->preface_high
                                                                        : chat->preface;
}

// Name the word of a system message that the template would take out.
static or_status_t check_switches(const or_chat_t *chat, const or_chat_turn_t *turns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof chat->switches / sizeof *chat->switches; k++) {
            const char *word = chat->switches[k];
            if (word != NULL && is_role(&turns[i], "system") && turns[i].length > 0 &&
                memmem(turns[i].content, turns[i].length, word, strlen(word)) != NULL) {
                return or_fail(OR_ERR_INVALID,
                               "message %zu: the chat template %s takes %s in a system message for "
                               "a switch, which is not supported: leave it out",
                               i + 1, chat->name, word);
            }
        }
    }
    return OR_OK;
}

static or_status_t check_thinking(const or_chat_t *chat, uint32_t thinking)
{
    if (or_chat_opening(chat, thinking) != NULL) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID,
                   thinking == OR_THINKING_OFF
                       ? "models of the chat template %s think before every answer: that cannot "
                         "be turned off"
                       : "models of the chat template %s do not think before they answer",
                   chat->name);
}

or_status_t or_thinking_by_name(const char *name, uint32_t *thinking)
{
    static const char *const names[] = {[OR_THINKING_OFF] = "off",
                                        [OR_THINKING_ON] = "on",
                                        [OR_THINKING_LOW] = "low",
                                        [OR_THINKING_MEDIUM] = "medium",
                                        [OR_THINKING_HIGH] = "high"};
    for (uint32_t i = OR_THINKING_OFF; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *thinking = i;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "'%s': write off, on, low, medium or high", name);
}

or_status_t or_chat_tokenize(const or_chat_t *chat, const or_vocab_t *vocab, uint32_t thinking,
                             const or_chat_turn_t *turns, size_t count, int32_t **ids_p,
                             size_t *count_p)
{
    or_status_t status = check_roles(turns, count);
    if (status == OR_OK) {
        status = check_order(chat, turns, count);
    }
    if (status == OR_OK) {
        status = check_switches(chat, turns, count);
    }
    if (status == OR_OK) {
        status = check_thinking(chat, thinking);
    }
    writer_t writer = {.vocab = vocab, .thinking = thinking};
    // A preface begins the text itself, as GLM's [gMASK]<sop> does.
    const bool asked = chat->preface == NULL && or_vocab_adds_bos(vocab);
    if (status == OR_OK && (chat->begins || asked)) {
        status = write_token(&writer, vocab->bos);
    }
    const char *preface = preface_of(chat, thinking);
    if (status == OR_OK && preface != NULL) {
        status = write_markup(&writer, preface);
    }
    if (status == OR_OK) {
        status = write_turns(&writer, chat, turns, count);
    }
    if (status == OR_OK) {
        status = settle(&writer);
    }
    free(writer.text);
    if (status != OR_OK) {
        free(writer.ids);
        return status;
    }
    *ids_p = writer.ids;
    *count_p = writer.count;
    return OR_OK;
}
