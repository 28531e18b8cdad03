#include "common/text/chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_internal.h"
#include "common/text/chat/chat_tools_internal.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

// -- the order of turns
// ----------------------------------------------------------------------------------------

bool or_chat_is_role(const or_chat_turn_t *turn, const char *role)
{
    return strcmp(turn->role, role) == 0;
}

static or_status_t check_roles(const or_chat_talk_t *talk)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const size_t role_count = talk->toolbox != NULL ? 4 : 3; // results need a format
    if (talk->count == 0) {
        return or_fail(OR_ERR_INVALID, "a conversation without messages has nothing to answer");
    }
    for (size_t i = 0; i < talk->count; i++) {
        bool known = false;
        for (size_t k = 0; k < role_count; k++) {
            known = known || or_chat_is_role(&talk->turns[i], roles[k]);
        }
        if (!known) {
            char role[32];
            snprintf(role, sizeof role, "%s", talk->turns[i].role);
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
    bool follows_user = before != NULL && or_chat_is_role(before, "user");
    if (or_chat_is_role(turn, "system")) {
        return before != NULL && system_alone ? "a system message comes first" : NULL;
    }
    if (or_chat_is_role(turn, "assistant")) {
        return (chat->order & OR_CHAT_ANSWERS_SINGLE) != 0 && !follows_user
                   ? "an assistant's message follows a user's"
                   : NULL;
    }
    return (chat->order & OR_CHAT_QUESTIONS_SINGLE) != 0 && follows_user
               ? "user and assistant take turns"
               : NULL;
}

// Calls and their results stand between the turns of user and assistant, whose order is that without them.
static bool is_of_tools(const or_chat_turn_t *turn)
{
    return turn->call_count > 0 || or_chat_is_role(turn, "tool");
}

static or_status_t check_order(const or_chat_t *chat, const or_chat_turn_t *turns, size_t count)
{
    const or_chat_turn_t *before = NULL, *last = &turns[count - 1];
    for (size_t i = 0; i < count; i++) {
        if (is_of_tools(&turns[i])) {
            continue;
        }
        const char *why = why_misplaced(chat, &turns[i], before);
        if (why != NULL) {
            return or_fail(OR_ERR_INVALID,
                           "message %zu: the role is %s, and in the chat template %s %s", i + 1,
                           turns[i].role, chat->name, why);
        }
        before = &turns[i];
    }
    if ((chat->order & OR_CHAT_USER_LAST) != 0 && !or_chat_is_role(last, "user") &&
        !or_chat_is_role(last, "tool")) {
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
    if (or_chat_is_role(turn, "system")) {
        return first ? head_of(chat, thinking) : &chat->system;
    }
    return or_chat_is_role(turn, "user")                     ? &chat->user
           : is_told(chat, thinking) && told->before != NULL ? told
                                                             : &chat->assistant;
}

// The markup right behind the words of a turn; NULL: none.
static const char *suffix_of(const or_chat_t *chat, uint32_t thinking, const or_chat_turn_t *turn)
{
    const char *suffix = chat->otherwise.suffix;
    if (suffix == NULL || !is_told(chat, thinking) || !or_chat_is_role(turn, "user")) {
        return NULL;
    }
    size_t length = strlen(suffix);
    bool has_it = turn->length >= length &&
                  memcmp(turn->content + turn->length - length, suffix, length) == 0;
    return has_it ? NULL : suffix;
}

static or_status_t write_words(or_chat_writer_t *writer, const or_chat_t *chat,
                               const or_chat_turn_t *turn, const or_chat_markup_t *markup,
                               const or_chat_words_t *words)
{
    const char *suffix = suffix_of(chat, writer->thinking, turn);
    const size_t led = markup->leads_turn ? turn->length : words->length;
    or_status_t status = OR_OK;
    if (markup->lead != NULL && led > 0) {
        status = or_chat_write_markup(writer, markup->lead);
    }
    if (status == OR_OK) {
        status = or_chat_write_content(writer, words->text, words->length);
    }
    return status == OR_OK && suffix != NULL ? or_chat_write_markup(writer, suffix) : status;
}

// The first turn behind a system message, which is the user's where tools are listed in it.
static const or_chat_turn_t *question_of(const or_chat_talk_t *talk)
{
    return &talk->turns[or_chat_is_role(&talk->turns[0], "system") ? 1 : 0];
}

static or_status_t write_turn(or_chat_writer_t *writer, const or_chat_t *chat, or_chat_talk_t *talk,
                              const or_chat_turn_t *turn, const or_chat_turn_t *inside, bool first);

// Write what stands before the words of a turn. `inside` is a system message that stands there, or NULL. `first`: no turn
// stands before this one.
static or_status_t write_before(or_chat_writer_t *writer, const or_chat_t *chat,
                                or_chat_talk_t *talk, const or_chat_turn_t *turn,
                                const or_chat_turn_t *inside, bool first)
{
    const or_chat_markup_t *markup = markup_of(chat, writer->thinking, turn, first);
    const bool listed = talk->toolbox != NULL && talk->toolbox->tools != NULL;
    const char *head =
        listed && first && or_chat_is_role(turn, "system") ? talk->toolbox->format->head : NULL;
    or_status_t status = or_chat_write_markup(writer, head != NULL ? head : markup->before);
    if (status == OR_OK && inside != NULL) {
        status = write_turn(writer, chat, talk, inside, NULL, false);
    }
    if (status == OR_OK && turn == question_of(talk) &&
        or_chat_tools_are_listed(talk, OR_TOOLS_IN_QUESTION)) {
        status = or_chat_tools_write_list(writer, talk);
    }
    return status;
}

// Write what stands behind the words of a turn.
static or_status_t write_behind(or_chat_writer_t *writer, const or_chat_t *chat,
                                or_chat_talk_t *talk, const or_chat_turn_t *turn,
                                const or_chat_words_t *words, bool first)
{
    const or_chat_markup_t *markup = markup_of(chat, writer->thinking, turn, first);
    or_status_t status = OR_OK;
    if (turn->call_count > 0) {
        const or_chat_tools_t *format = talk->toolbox->format;
        const size_t led = format->calls.joins_turn ? turn->length : words->length;
        status = or_chat_tools_write_calls(writer, talk, turn, led > 0);
    } else if (first && or_chat_is_role(turn, "system") &&
               or_chat_tools_are_listed(talk, OR_TOOLS_IN_SYSTEM)) {
        const or_chat_tools_t *format = talk->toolbox->format;
        const bool joins = format->joins_always || turn == talk->turns;
        status = joins ? or_chat_write_markup(writer, format->joint) : OR_OK;
        status = status == OR_OK ? or_chat_tools_write_list(writer, talk) : status;
    }
    return status == OR_OK ? or_chat_write_markup(writer, markup->after) : status;
}

// Does the template know of thoughts that stand apart from words, and is this turn's there?
static bool is_apart(const or_chat_talk_t *talk, const or_chat_turn_t *turn)
{
    return talk->toolbox != NULL && talk->toolbox->format->thought.before != NULL &&
           turn->thought != NULL;
}

// Does the thought of this turn stay, if it has one?
static bool stays_thought(const or_chat_talk_t *talk, const or_chat_turn_t *turn)
{
    return talk->toolbox != NULL && talk->toolbox->format->thought.before != NULL &&
           or_chat_is_role(turn, "assistant") && talk->last_asked != NULL &&
           turn > talk->last_asked;
}

static or_status_t write_thought(or_chat_writer_t *writer, const or_chat_tools_t *format,
                                 const or_chat_words_t *thought)
{
    or_status_t status = or_chat_write_markup(writer, format->thought.before);
    if (status == OR_OK) {
        status = or_chat_write_content(writer, thought->text, thought->length);
    }
    return status == OR_OK ? or_chat_write_markup(writer, format->thought.after) : status;
}

static or_status_t write_turn(or_chat_writer_t *writer, const or_chat_t *chat, or_chat_talk_t *talk,
                              const or_chat_turn_t *turn, const or_chat_turn_t *inside, bool first)
{
    const or_chat_markup_t *markup = markup_of(chat, writer->thinking, turn, first);
    or_chat_words_t words, thought;
    if (or_chat_is_role(turn, "tool")) {
        return or_chat_tools_write_result(writer, talk, turn);
    }
    or_status_t status = or_chat_words(chat, turn, markup, is_apart(talk, turn), &words);
    if (status != OR_OK || (markup->skips_empty && words.length == 0)) {
        free(words.owned);
        return status;
    }
    if (turn->call_count > 0 && talk->toolbox->format->calls.alone) {
        words.length = 0;
    }
    if (or_chat_tools_precede(talk, turn)) {
        status = or_chat_tools_write_list(writer, talk);
    }
    status = status == OR_OK ? write_before(writer, chat, talk, turn, inside, first) : status;
    or_chat_words_t spoken = words;
    if (status == OR_OK && stays_thought(talk, turn) && or_chat_thought(turn, &thought)) {
        status = write_thought(writer, talk->toolbox->format, &thought);
        or_chat_drop_lines(&spoken);
    }
    status = status == OR_OK ? write_words(writer, chat, turn, markup, &spoken) : status;
    status = status == OR_OK ? write_behind(writer, chat, talk, turn, &words, first) : status;
    free(words.owned);
    return status;
}

// The system message of a conversation without one; NULL: there is none.
static const char *nobody_of(const or_chat_t *chat, uint32_t thinking, const or_chat_talk_t *talk)
{
    const char *nobody = head_of(chat, thinking)->always ? "" : NULL;
    if (or_chat_tools_are_listed(talk, OR_TOOLS_IN_SYSTEM)) {
        nobody = talk->toolbox->format->nobody != NULL ? talk->toolbox->format->nobody : "";
    }
    return nobody;
}

static or_status_t write_turns(or_chat_writer_t *writer, const or_chat_t *chat,
                               or_chat_talk_t *talk)
{
    const or_chat_turn_t *turns = talk->turns;
    const bool has_system = or_chat_is_role(&turns[0], "system");
    const bool moves = chat->system_place >= OR_CHAT_SYSTEM_IN_FIRST && has_system;
    const size_t place = chat->system_place == OR_CHAT_SYSTEM_IN_FIRST ? 1 : talk->count - 1;
    const char *nobody = nobody_of(chat, writer->thinking, talk);
    or_status_t status = OR_OK;
    if (nobody != NULL && !has_system) {
        const or_chat_turn_t none = {.role = "system", .content = nobody, .length = strlen(nobody)};
        status = write_turn(writer, chat, talk, &none, NULL, true);
    }
    for (size_t i = moves ? 1 : 0; status == OR_OK && i < talk->count; i++) {
        const bool holds = moves && i == place && or_chat_is_role(&turns[i], "user");
        status = write_turn(writer, chat, talk, &turns[i], holds ? &turns[0] : NULL, i == 0);
    }
    return status == OR_OK ? or_chat_write_markup(writer, or_chat_opening(chat, writer->thinking))
                           : status;
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
            if (word != NULL && or_chat_is_role(&turns[i], "system") && turns[i].length > 0 &&
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

static or_status_t check_talk(const or_chat_t *chat, const or_chat_talk_t *talk, uint32_t thinking)
{
    or_status_t status = check_roles(talk);
    if (status == OR_OK && talk->toolbox != NULL) {
        status = or_chat_tools_check(talk);
    }
    if (status == OR_OK) {
        status = check_order(chat, talk->turns, talk->count);
    }
    if (status == OR_OK) {
        status = check_switches(chat, talk->turns, talk->count);
    }
    return status == OR_OK ? check_thinking(chat, thinking) : status;
}

static or_status_t write_talk(or_chat_writer_t *writer, const or_chat_t *chat, or_chat_talk_t *talk)
{
    const or_vocab_t *vocab = writer->vocab;
    // A preface begins the text itself, as GLM's [gMASK]<sop> does.
    const bool asked = chat->preface == NULL && or_vocab_adds_bos(vocab);
    const char *preface = preface_of(chat, writer->thinking);
    or_status_t status = OR_OK;
    if (chat->begins || asked) {
        status = or_chat_write_token(writer, vocab->bos);
    }
    if (status == OR_OK && preface != NULL) {
        status = or_chat_write_markup(writer, preface);
    }
    if (status == OR_OK && or_chat_tools_are_listed(talk, OR_TOOLS_FIRST)) {
        status = or_chat_tools_write_list(writer, talk);
    }
    if (status == OR_OK) {
        status = write_turns(writer, chat, talk);
    }
    return status == OR_OK ? or_chat_settle(writer) : status;
}

// Is a question's text a result, as Qwen's template writes it?
static bool is_written_result(const or_chat_turn_t *turn)
{
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    return turn->length >= sizeof end - 1 && memcmp(turn->content, begin, sizeof begin - 1) == 0 &&
           memcmp(turn->content + turn->length - (sizeof end - 1), end, sizeof end - 1) == 0;
}

static const or_chat_turn_t *last_question_of(const or_chat_turn_t *turns, size_t count,
                                              bool with_results)
{
    while (count > 0 && (!or_chat_is_role(&turns[count - 1], "user") ||
                         (!with_results && is_written_result(&turns[count - 1])))) {
        count--;
    }
    return count > 0 ? &turns[count - 1] : NULL;
}

or_status_t or_chat_tokenize_tools(const or_chat_t *chat, const or_chat_toolbox_t *toolbox,
                                   const or_vocab_t *vocab, uint32_t thinking,
                                   const or_chat_turn_t *turns, size_t count, int32_t **ids_p,
                                   size_t *count_p)
{
    or_chat_talk_t talk = {.toolbox = toolbox,
                           .turns = turns,
                           .count = count,
                           .last_question = last_question_of(turns, count, true),
                           .last_asked = last_question_of(turns, count, false)};
    const size_t bytes_max = toolbox != NULL ? toolbox->bytes_max : 0;
    or_chat_writer_t writer = {.vocab = vocab,
                               .thinking = thinking,
                               .tool_bytes_max =
                                   bytes_max > 0 ? bytes_max : OR_CHAT_JSON_BYTES_MAX};
    or_status_t status = check_talk(chat, &talk, thinking);
    if (status == OR_OK) {
        status = write_talk(&writer, chat, &talk);
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

or_status_t or_chat_tokenize(const or_chat_t *chat, const or_vocab_t *vocab, uint32_t thinking,
                             const or_chat_turn_t *turns, size_t count, int32_t **ids_p,
                             size_t *count_p)
{
    return or_chat_tokenize_tools(chat, NULL, vocab, thinking, turns, count, ids_p, count_p);
}
