#include "launch/chat/conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/interrupt.h"
#include "common/decode/methods.h"
#include "common/text/chat/chat.h"
#include "launch/generate/output.h"

#define PLAY_STOP "\nUser:" // begins the user's line of a play

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// ---- the history ----

// The turns begin behind the system's message.
static uint32_t first_turn(const or_chat_history_t *history)
{
    return history->system != NULL ? 1 : 0;
}

static void remove_at(or_chat_history_t *history, uint32_t at, uint32_t count)
{
    if (count == 0) {
        return;
    }
    for (uint32_t i = at; i < at + count; i++) {
        free((void *)history->messages[i].content);
    }
    history->count -= count;
    memmove(&history->messages[at], &history->messages[at + count],
            (history->count - at) * sizeof *history->messages);
}

static or_status_t insert(or_chat_history_t *history, uint32_t at, const char *role,
                          const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    or_chat_message_t *messages = history->messages;
    if (history->count == history->capacity) {
        uint32_t larger = 2 * (history->count + 8);
        messages = realloc(messages, larger * sizeof *messages);
        if (messages != NULL) {
            history->messages = messages;
            history->capacity = larger;
        }
    }
    if (copy == NULL || messages == NULL) {
        free(copy);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    memmove(&messages[at + 1], &messages[at], (history->count - at) * sizeof *messages);
    messages[at] = (or_chat_message_t){role, (const uint8_t *)copy, (uint32_t)length};
    history->count++;
    return OR_OK;
}

or_status_t or_chat_history_set_system(or_chat_history_t *history, const char *text)
{
    if (history->system != NULL) {
        remove_at(history, 0, 1);
        history->system = NULL;
    }
    if (text == NULL || text[0] == '\0') {
        return OR_OK;
    }
    or_status_t status = insert(history, 0, "system", text, strlen(text));
    if (status == OR_OK) {
        history->system = (char *)history->messages[0].content;
    }
    return status;
}

void or_chat_history_reset(or_chat_history_t *history)
{
    uint32_t first = first_turn(history);
    remove_at(history, first, history->count - first);
}

static or_status_t history_add(or_chat_history_t *history, const char *role, const char *text,
                               size_t length)
{
    return insert(history, history->count, role, text, length);
}

static bool is_question(const or_chat_message_t *message)
{
    return strcmp(message->role, "user") == 0;
}

bool or_chat_history_undo(or_chat_history_t *history)
{
    for (uint32_t at = history->count; at > first_turn(history); at--) {
        if (is_question(&history->messages[at - 1])) {
            remove_at(history, at - 1, history->count - (at - 1));
            return true;
        }
    }
    return false;
}

static bool history_drop(or_chat_history_t *history)
{
    uint32_t first = first_turn(history);
    for (uint32_t at = first + 1; at < history->count; at++) {
        if (is_question(&history->messages[at])) {
            remove_at(history, first, at - first);
            return true;
        }
    }
    return false;
}

static size_t history_bytes(const or_chat_history_t *history)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < history->count; i++) {
        bytes += history->messages[i].content_bytes;
    }
    return bytes;
}

static or_status_t history_plain(const or_chat_history_t *history, char **text_p, size_t *length_p)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    for (uint32_t i = 0; i < history->count; i++) {
        const or_chat_message_t *message = &history->messages[i];
        const char *words = (const char *)message->content;
        if (i < first_turn(history)) {
            fprintf(out, "%s\n\n", words);
        } else {
            fprintf(out, "%s: %s\n", is_question(message) ? "User" : "Assistant", words);
        }
    }
    fputs("Assistant:", out);
    if (fclose(out) != 0) {
        free(text);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    *text_p = text;
    *length_p = length;
    return OR_OK;
}

or_status_t or_chat_history_save(const or_chat_history_t *history, const char *path)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < history->count; i++) {
        const or_chat_message_t *message = &history->messages[i];
        json_t *content =
            or_output_json_text((const char *)message->content, message->content_bytes);
        json_array_append_new(list,
                              json_pack("{s:s, s:o}", "role", message->role, "content", content));
    }
    char *dump = json_dumps(list, JSON_INDENT(2));
    json_decref(list);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to save the conversation");
    }
    FILE *out = fopen(path, "w");
    bool written = out != NULL && fprintf(out, "%s\n", dump) >= 0;
    written = out != NULL && fclose(out) == 0 && written;
    free(dump);
    return written ? OR_OK : or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

// ---- the conversation ----

// Colours are for a terminal whose user has not turned them off (no-color.org).
static bool wants_colour(const or_chat_config_t *config, bool terminal)
{
    const char *none = getenv("NO_COLOR");
    return terminal && config->colour && (none == NULL || none[0] == '\0');
}

or_status_t or_conversation_init(or_conversation_t *talk, const or_chat_config_t *config,
                                 const or_generate_request_t *request, bool terminal)
{
    *talk = (or_conversation_t){
        .config = config,
        .request = request,
        .painter = {.colour = wants_colour(config, terminal), .terminal = terminal},
        .draws_seeds = or_generate_seed_is_drawn(config->generate.seed),
        .seed = request->seed,
        .plain = or_chat_config_is_plain(config),
    };
    const or_http_options_t http = {.address = (char *)"none",
                                    .chat_template = talk->plain ? NULL : config->chat_template};
    or_status_t status = or_chat_history_set_system(&talk->history, config->system);
    return status == OR_OK ? or_writer_open(&config->generate, &http, &talk->writer) : status;
}

void or_conversation_fini(or_conversation_t *talk)
{
    or_writer_close(&talk->writer);
    remove_at(&talk->history, 0, talk->history.count);
    free(talk->history.messages);
    or_chat_painter_fini(&talk->painter);
    free(talk->answer);
    *talk = (or_conversation_t){0};
}

// ---- what is asked for ----

static or_status_t choose_seed(or_conversation_t *talk)
{
    return talk->draws_seeds ? or_generate_seed_parse("random", &talk->seed) : OR_OK;
}

static or_status_t keep_answer(or_conversation_t *talk, const or_generate_delta_t *delta)
{
    if (!or_array_reserve(&talk->answer, &talk->answer_capacity, talk->answer_bytes,
                          delta->text_bytes, 1)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for an answer");
    }
    for (uint32_t i = 0, end; i < delta->text_bytes; i = end) {
        if (!or_generate_delta_is_thought(delta, i, &end)) {
            memcpy(talk->answer + talk->answer_bytes, delta->text + i, end - i);
            talk->answer_bytes += end - i;
        }
    }
    return OR_OK;
}

static or_status_t take(void *context, const or_generate_delta_t *delta)
{
    or_conversation_t *talk = context;
    talk->error_code = delta->finish == OR_FINISH_ERROR ? delta->error_code : 0;
    or_status_t status = keep_answer(talk, delta);
    return status == OR_OK ? or_chat_painter_take(&talk->painter, delta) : status;
}

static uint32_t thinking_of(const or_chat_config_t *config)
{
    uint32_t thinking = OR_THINKING_USUAL;
    if (config->thinking != NULL) {
        (void)or_thinking_by_name(config->thinking, &thinking); // which was checked
    }
    return thinking;
}

// Ask for an answer to the conversation as a play, or as turns for the coordinator to render.
static or_status_t write_answer(or_conversation_t *talk, or_report_t *report)
{
    static const or_wire_bytes_t stop = {(const uint8_t *)PLAY_STOP, sizeof PLAY_STOP - 1};
    or_generate_request_t request = *talk->request;
    char *play = NULL;
    size_t length = 0;
    or_status_t status = OR_OK;
    request.prompt = NULL;
    request.prompt_bytes = 0;
    request.seed = talk->seed;
    request.details = talk->painter.colour;
    if (talk->plain) {
        status = history_plain(&talk->history, &play, &length);
        request.prompt = (const uint8_t *)play;
        request.prompt_bytes = (uint32_t)length;
        request.stop = &stop;
        request.stop_count = 1;
    } else {
        request.thinking = thinking_of(talk->config);
        request.messages = talk->history.messages;
        request.message_count = talk->history.count;
    }
    talk->error_code = 0;
    talk->answer_bytes = 0;
    if (status == OR_OK) {
        status = or_writer_write(talk->writer, &request, or_interrupt_count(), take, talk, report);
    }
    free(play);
    return status;
}

// ---- the context ----

static bool forget_oldest(or_conversation_t *talk)
{
    bool forgotten = history_drop(&talk->history);
    if (forgotten) {
        fprintf(stderr, "note: the conversation has outgrown the context; its oldest turns are "
                        "forgotten\n");
    }
    return forgotten;
}

// Would the next answer have little room? Only the coordinator counts tokens: we go by what the last prompt took.
static bool is_tight(const or_conversation_t *talk)
{
    uint32_t most = talk->request->max_tokens;
    double room = most > 0 && most < talk->context / 4 ? most : talk->context / 4.0;
    double prompt = talk->tokens_per_byte * (double)history_bytes(&talk->history);
    return talk->context > 0 && prompt + room > talk->context;
}

static void make_room(or_conversation_t *talk)
{
    if (is_tight(talk) && forget_oldest(talk)) {
        while (is_tight(talk) && history_drop(&talk->history)) {
        }
    }
}

// Learn how long the conversation is now, and where the context ends if that is what ended the answer.
static void measure(or_conversation_t *talk, const or_report_t *report)
{
    uint32_t most = talk->request->max_tokens;
    uint32_t tokens = report->stats.prompt_tokens + (uint32_t)report->token_count;
    size_t bytes = history_bytes(&talk->history);
    if (bytes == 0 || report->stats.prompt_tokens == 0) {
        return; // the answer was ended before it began, or by nobody who counts
    }
    talk->tokens_per_byte = (double)tokens / (double)bytes;
    if (report->finish == OR_FINISH_LENGTH && (most == 0 || report->token_count < most)) {
        talk->context = tokens;
        fprintf(stderr, "note: the answer ends where the context of %u tokens does\n", tokens);
    }
}

// ---- what goes wrong, and can be mended ----

// Does the model lack a template? The error then names the option that chooses one (common/text/chat/chat.h).
static bool lacks_template(const or_conversation_t *talk)
{
    return !talk->plain && talk->error_code != 0 &&
           strstr(or_error_text(), "--chat-template") != NULL;
}

static bool go_on_plainly(or_conversation_t *talk)
{
    fprintf(
        stderr,
        "note: %s. The conversation goes on as plain text, \"User: ..\" and \"Assistant: ..\"\n",
        or_error_text());
    talk->plain = true;
    return true;
}

// Is it worth asking again?
static bool mend(or_conversation_t *talk)
{
    if (talk->error_code == OR_WIRE_CONTEXT) {
        return forget_oldest(talk);
    }
    return lacks_template(talk) && go_on_plainly(talk);
}

// ---- an answer ----

static void count(or_conversation_t *talk, const or_report_t *report)
{
    talk->answers++;
    talk->tokens += report->token_count;
    talk->target_calls += report->stats.target_calls;
    talk->drafted += report->stats.drafted;
    talk->accepted += report->stats.accepted;
}

// Advice and vocabulary map are printed with the first answer only.
static void print_figures(const or_conversation_t *talk, or_report_t *report)
{
    if (talk->answers > 0) {
        report->advice[0] = report->vocab_map[0] = '\0';
    }
    or_report_print_summary(report, stderr);
    if (talk->config->generate.verbose) {
        or_report_print_times(report, stderr);
    }
}

// Keep the answer without the white space around it, which the next prompt puts there itself. A question without an answer is
// taken back.
static or_status_t keep(or_conversation_t *talk, const or_report_t *report)
{
    const char *text = talk->answer;
    size_t length = talk->answer_bytes;
    while (length > 0 && is_space(text[length - 1])) {
        length--;
    }
    while (length > 0 && is_space(text[0])) {
        text++;
        length--;
    }
    if (length == 0 && report->finish == OR_FINISH_CANCELLED) {
        or_chat_history_undo(&talk->history);
        return OR_OK;
    }
    return history_add(&talk->history, "assistant", length > 0 ? text : "", length);
}

static or_status_t answer(or_conversation_t *talk)
{
    or_report_t report = {.lossy = or_accept_rule_is_lossy(talk->request->accept_rule)};
    or_status_t status = write_answer(talk, &report);
    if (status == OR_OK || report.text_bytes > 0) {
        or_status_t ended = or_chat_painter_end(&talk->painter);
        status = status == OR_OK ? ended : status;
    }
    if (status == OR_OK && report.text_bytes > 0 && talk->answer_bytes == 0) {
        fprintf(
            stderr,
            "note: all %zu tokens are a thought, and there is no answer yet; -n gives it more\n",
            report.token_count);
    }
    if (status == OR_OK) {
        status = keep(talk, &report);
    }
    if (status == OR_OK) {
        print_figures(talk, &report);
        measure(talk, &report);
        count(talk, &report);
    }
    or_report_fini(&report);
    return status;
}

or_status_t or_conversation_ask(or_conversation_t *talk, const char *text)
{
    or_status_t status = history_add(&talk->history, "user", text, strlen(text));
    if (status != OR_OK) {
        return status;
    }
    make_room(talk);
    status = choose_seed(talk);
    if (status == OR_OK) {
        do {
            status = answer(talk);
        } while (status != OR_OK && mend(talk));
    }
    if (status != OR_OK) {
        or_chat_history_undo(&talk->history);
    }
    return status;
}
