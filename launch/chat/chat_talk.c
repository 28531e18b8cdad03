#include "launch/chat/chat_talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/decode/methods.h"

// Colours that nobody asked to be without (no-color.org).
static bool wants_colour(const or_chat_config_t *config, bool terminal)
{
    const char *none = getenv("NO_COLOR");
    return terminal && config->colour && (none == NULL || none[0] == '\0');
}

or_status_t or_chat_talk_init(or_chat_talk_t *talk, const or_chat_config_t *config,
                              const or_generate_request_t *request, bool terminal)
{
    *talk = (or_chat_talk_t){
        .config = config,
        .request = request,
        .painter = {.colour = wants_colour(config, terminal), .terminal = terminal},
        .draws_seeds = or_generate_seed_is_drawn(config->generate.seed),
        .seed = request->seed,
        .plain = or_chat_config_is_plain(config),
    };
    const or_http_options_t http = {.address = (char *)"off",
                                    .chat_template = talk->plain ? NULL : config->chat_template};
    or_status_t status = or_chat_history_set_system(&talk->history, config->system);
    return status == OR_OK ? or_writer_open(&config->generate, &http, &talk->writer) : status;
}

void or_chat_talk_fini(or_chat_talk_t *talk)
{
    or_writer_close(&talk->writer);
    or_chat_history_fini(&talk->history);
    or_chat_painter_fini(&talk->painter);
}

// ---- what is asked for
// ----------------------------------------------------------------------------------------

static or_status_t choose_seed(or_chat_talk_t *talk)
{
    return talk->draws_seeds ? or_generate_seed_parse("random", &talk->seed) : OR_OK;
}

static or_status_t take(void *context, const or_generate_delta_t *delta)
{
    or_chat_talk_t *talk = context;
    talk->error_code = delta->finish == OR_FINISH_ERROR ? delta->error_code : 0;
    return or_chat_painter_take(&talk->painter, delta);
}

// The conversation as a play, or as turns for the coordinator to render.
static or_status_t write_answer(or_chat_talk_t *talk, or_report_t *report)
{
    static const or_wire_bytes_t stop = {(const uint8_t *)OR_CHAT_PLAIN_STOP,
                                         sizeof OR_CHAT_PLAIN_STOP - 1};
    or_generate_request_t request = *talk->request;
    char *play = NULL;
    size_t length = 0;
    or_status_t status = OR_OK;
    request.prompt = NULL;
    request.prompt_bytes = 0;
    request.seed = talk->seed;
    request.details = talk->painter.colour;
    if (talk->plain) {
        status = or_chat_history_plain(&talk->history, &play, &length);
        request.prompt = (const uint8_t *)play;
        request.prompt_bytes = (uint32_t)length;
        request.stop = &stop;
        request.stop_count = 1;
    } else {
        request.messages = talk->history.messages;
        request.message_count = talk->history.count;
    }
    talk->error_code = 0;
    if (status == OR_OK) {
        status = or_writer_write(talk->writer, &request, or_interrupt_count(), take, talk, report);
    }
    free(play);
    return status;
}

// ---- the context
// ----------------------------------------------------------------------------------------

static bool forget_oldest(or_chat_talk_t *talk)
{
    bool forgotten = or_chat_history_drop(&talk->history);
    if (forgotten) {
        fprintf(stderr, "note: the conversation has outgrown the context; its oldest turns are "
                        "forgotten\n");
    }
    return forgotten;
}

// Would the next answer have little room? Only the coordinator counts tokens: we go by what the last prompt took.
static bool is_tight(const or_chat_talk_t *talk)
{
    uint32_t most = talk->request->max_tokens;
    double room = most > 0 && most < talk->context / 4 ? most : talk->context / 4.0;
    double prompt = talk->tokens_per_byte * (double)or_chat_history_bytes(&talk->history);
    return talk->context > 0 && prompt + room > talk->context;
}

static void make_room(or_chat_talk_t *talk)
{
    if (is_tight(talk) && forget_oldest(talk)) {
        while (is_tight(talk) && or_chat_history_drop(&talk->history)) {
        }
    }
}

// How long the conversation is now, and where the context ends, if that is what ended the answer.
static void measure(or_chat_talk_t *talk, const or_report_t *report)
{
    uint32_t most = talk->request->max_tokens;
    uint32_t tokens = report->stats.prompt_tokens + (uint32_t)report->token_count;
    size_t bytes = or_chat_history_bytes(&talk->history);
    if (bytes == 0 || report->stats.prompt_tokens == 0) {
        return; // the answer was ended before it began, or by nobody who counts
    }
    talk->tokens_per_byte = (double)tokens / (double)bytes;
    if (report->finish == OR_FINISH_LENGTH && (most == 0 || report->token_count < most)) {
        talk->context = tokens;
        fprintf(stderr, "note: the answer ends where the context of %u tokens does\n", tokens);
    }
}

// ---- what goes wrong, and can be mended
// ----------------------------------------------------------------------------------------

// common/text/chat/chat.h: who has no template says by which option one is chosen.
static bool lacks_template(const or_chat_talk_t *talk)
{
    return !talk->plain && talk->error_code != 0 &&
           strstr(or_error_text(), "--chat-template") != NULL;
}

static bool go_on_plainly(or_chat_talk_t *talk)
{
    fprintf(
        stderr,
        "note: %s. The conversation goes on as plain text, \"User: ..\" and \"Assistant: ..\"\n",
        or_error_text());
    talk->plain = true;
    return true;
}

// Is it worth asking again?
static bool mend(or_chat_talk_t *talk)
{
    if (talk->error_code == OR_WIRE_CONTEXT) {
        return forget_oldest(talk);
    }
    return lacks_template(talk) && go_on_plainly(talk);
}

// ---- an answer
// ----------------------------------------------------------------------------------------

static void count(or_chat_talk_t *talk, const or_report_t *report)
{
    talk->answers++;
    talk->tokens += report->token_count;
    talk->target_calls += report->stats.target_calls;
    talk->drafted += report->stats.drafted;
    talk->accepted += report->stats.accepted;
}

// What was said once is not said with every answer.
static void print_figures(const or_chat_talk_t *talk, or_report_t *report)
{
    if (talk->answers > 0) {
        report->advice[0] = report->vocab_map[0] = '\0';
    }
    or_report_print_summary(report, stderr);
    if (talk->config->generate.verbose) {
        or_report_print_times(report, stderr);
    }
}

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Without white space around it, which the next prompt puts there itself. A question without an answer is taken back.
static or_status_t keep(or_chat_talk_t *talk, const or_report_t *report)
{
    const char *text = report->text;
    size_t length = report->text_bytes;
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
    return or_chat_history_add(&talk->history, "assistant", length > 0 ? text : "", length);
}

static or_status_t answer(or_chat_talk_t *talk)
{
    or_report_t report = {.lossy = or_accept_rule_is_lossy(talk->request->accept_rule)};
    or_status_t status = write_answer(talk, &report);
    if (status == OR_OK || report.text_bytes > 0) {
        or_status_t ended = or_chat_painter_end(&talk->painter);
        status = status == OR_OK ? ended : status;
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

or_status_t or_chat_talk_ask(or_chat_talk_t *talk, const char *text)
{
    or_status_t status = or_chat_history_add(&talk->history, "user", text, strlen(text));
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
