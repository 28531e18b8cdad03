// Calls that are answered without the coordinator: the model's name, its tokenizer, parameters, and the dashboard's
// files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/utf8.h"
#include "coordinator/http/api/api_internal.h"
#include "coordinator/http/dashboard.h"

// So that nobody else's waits for long: they are cut one after the other, in less than a second each.
#define TEXT_BYTES_MAX (512u << 10)
#define PIECES_BYTES_MAX (64u << 10) // an object for each token takes ten times as long
// The bytes that an answer takes while it is made.
#define TOKEN_BYTES 24u       // for each token
#define PIECE_BYTES 80u       // more with its piece, besides what that prints
#define ESCAPED_BYTES_MAX 15u // for each byte of what tokens print, in a text that grows
#define NO_MEMORY "There is no memory for the answer."

// ---- models ----

static json_t *model_object(const or_api_t *api)
{
    int64_t up_ns = or_clock_now(api->config.clock) - api->started_ns;
    return json_pack("{s:s, s:s, s:I, s:s}", "id", api->config.model, "object", "model", "created",
                     (json_int_t)(time(NULL) - up_ns / OR_NS_PER_S), "owned_by", "outrider");
}

void or_api_get_models(or_api_t *api, or_http_call_t *call)
{
    or_api_reply_json(call, 200,
                      json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(api)));
}

void or_api_get_model(or_api_t *api, or_http_call_t *call, const char *name)
{
    json_t *given = json_string(name);
    if (or_api_is_model(api->config.model, given)) {
        or_api_reply_json(call, 200, model_object(api));
    } else {
        or_http_reply_error(call, 404, "model", "model_not_found",
                            "This coordinator serves '%s' only.", api->config.model);
    }
    json_decref(given);
}

// ---- tokens ----

typedef struct {
    const char *model; // what there is
    const json_t *text, *tokens;
    bool add_special, parse_special, with_pieces;
} tool_t;

static bool read_text(void *into, const char *param, const json_t *value, or_api_problem_t *problem)
{
    tool_t *tool = into;
    if (!json_is_string(value) || tool->text != NULL) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a string, and there is one of 'content' and 'prompt'.",
                             param);
    }
    tool->text = value;
    return true;
}

static bool read_tokens(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    ((tool_t *)into)->tokens = value;
    return json_is_array(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be an array of token ids.", param);
}

static bool read_model(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    return or_api_model_read(((tool_t *)into)->model, param, value, problem);
}

static const or_api_field_t tokenize_fields[] = {
    {"model", OR_API_OWN, .read = read_model},
    {"content", OR_API_OWN, .read = read_text},
    {"prompt", OR_API_OWN, .read = read_text},
    {"add_special", OR_API_FLAG, .offset = offsetof(tool_t, add_special)},
    {"parse_special", OR_API_FLAG, .offset = offsetof(tool_t, parse_special)},
    {"with_pieces", OR_API_FLAG, .offset = offsetof(tool_t, with_pieces)},
    {0}};

static const or_api_field_t detokenize_fields[] = {
    {"model", OR_API_OWN, .read = read_model}, {"tokens", OR_API_OWN, .read = read_tokens}, {0}};

// A piece that is no UTF-8 is told byte by byte, as llama.cpp does.
static json_t *piece_of(const or_vocab_t *vocab, int32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, id, &length);
    if (length == 0) {
        bytes = or_vocab_piece(vocab, id, &length);
    }
    json_t *piece = json_stringn(bytes, length);
    if (piece != NULL) {
        return piece;
    }
    piece = json_array();
    for (uint32_t i = 0; i < length; i++) {
        json_array_append_new(piece, json_integer((unsigned char)bytes[i]));
    }
    return piece;
}

// Write the tokens as text at once: an object for each would take ten times as long, and as much memory.
static void say_tokens(const or_vocab_t *vocab, const int32_t *ids, size_t count, bool pieces,
                       or_api_text_t *text)
{
    char number[16];
    or_api_text_say(text, "{\"tokens\":[");
    for (size_t i = 0; i < count; i++) {
        if (pieces) {
            or_api_text_join(text, json_pack("[{s:i, s:o}]", "id", (int)ids[i], "piece",
                                             piece_of(vocab, ids[i])));
        } else {
            int length = snprintf(number, sizeof number, "%s%d", i > 0 ? "," : "", (int)ids[i]);
            or_api_text_add(text, number, (size_t)length);
        }
    }
    or_api_text_say(text, "]}");
}

// A question to the tokenizer, and its answer. Any thread.
typedef struct {
    const or_vocab_t *vocab;
    tool_t tool; // its text and tokens only while it is read
    bool good;
    or_api_problem_t problem; // unless it is good
    bool joins;               // the tokens are joined; else the text was cut
    size_t text_bytes, count;
    int32_t *ids;
    or_api_text_t answer; // in JSON
} errand_t;

static bool cut(errand_t *errand)
{
    const tool_t *tool = &errand->tool;
    size_t most = tool->with_pieces ? PIECES_BYTES_MAX : TEXT_BYTES_MAX;
    if (tool->text == NULL) {
        return or_api_refuse(&errand->problem, 400, "missing_required_parameter", "content",
                             "Missing required parameter: 'content'.");
    }
    errand->text_bytes = json_string_length(tool->text);
    if (errand->text_bytes > most) {
        return or_api_refuse(&errand->problem, 413, "request_too_large", "content",
                             "The text has %zu bytes: at most %zu are cut into tokens at a time%s.",
                             errand->text_bytes, most,
                             tool->with_pieces ? " with their pieces" : "");
    }
    unsigned flags = OR_TOKENIZE_WHOLE |
                     (tool->add_special && or_vocab_adds_bos(errand->vocab) ? OR_TOKENIZE_BOS : 0) |
                     (tool->parse_special ? OR_TOKENIZE_SPECIAL : 0);
    or_status_t status = or_tokenize(errand->vocab, json_string_value(tool->text),
                                     errand->text_bytes, flags, &errand->ids, &errand->count);
    return status == OR_OK || or_api_refuse(&errand->problem, status == OR_ERR_INVALID ? 400 : 500,
                                            NULL, "content", "%s", or_error_text());
}

static bool take_ids(errand_t *errand)
{
    uint32_t *ids, count, bytes;
    if (errand->tool.tokens == NULL) {
        return or_api_refuse(&errand->problem, 400, "missing_required_parameter", "tokens",
                             "Missing required parameter: 'tokens'.");
    }
    if (!or_api_tokens_read(errand->tool.tokens, "tokens", or_vocab_size(errand->vocab), &ids,
                            &count, &errand->problem)) {
        return false;
    }
    errand->joins = true;
    errand->ids = (int32_t *)ids;
    errand->count = count;
    for (size_t i = 0; i < count; i++) {
        (void)or_vocab_bytes(errand->vocab, errand->ids[i], &bytes);
        errand->text_bytes += bytes;
    }
    return true;
}

static void read_tool(errand_t *errand, const uint8_t *body, size_t bytes,
                      const or_api_field_t *fields, bool (*answer)(errand_t *errand))
{
    json_t *root = or_api_body_parse(body, bytes, &errand->problem);
    errand->good = root != NULL &&
                   or_api_object_read(root, "", fields, &errand->tool, &errand->problem) &&
                   answer(errand);
    json_decref(root);
}

static void work_tokenize(void *data, const uint8_t *body, size_t bytes)
{
    read_tool(data, body, bytes, tokenize_fields, cut);
}

static void work_detokenize(void *data, const uint8_t *body, size_t bytes)
{
    read_tool(data, body, bytes, detokenize_fields, take_ids);
}

static bool join(errand_t *errand)
{
    char *text, *answer;
    size_t length;
    if (or_detokenize(errand->vocab, errand->ids, errand->count, &text, &length) != OR_OK) {
        return or_api_refuse(&errand->problem, 500, NULL, NULL, "%s", or_error_text());
    }
    answer = or_api_dump(json_pack("{s:o}", "content", or_api_string(text, length)));
    free(text);
    if (answer == NULL) {
        return or_api_refuse(&errand->problem, 500, NULL, NULL, NO_MEMORY);
    }
    errand->answer = (or_api_text_t){.bytes = answer, .count = strlen(answer)};
    return true;
}

static bool list(errand_t *errand)
{
    say_tokens(errand->vocab, errand->ids, errand->count, errand->tool.with_pieces,
               &errand->answer);
    return !errand->answer.failed || or_api_refuse(&errand->problem, 500, NULL, NULL, NO_MEMORY);
}

static void work_say(void *data, const uint8_t *body, size_t bytes)
{
    errand_t *errand = data;
    (void)body, (void)bytes;
    errand->good = errand->joins ? join(errand) : list(errand);
}

static void drop_errand(void *data)
{
    errand_t *errand = data;
    free(errand->ids);
    or_api_text_fini(&errand->answer);
    free(errand);
}

static void reply(void *context, or_http_call_t *call, void *data)
{
    errand_t *errand = data;
    (void)context;
    if (errand->good) {
        or_http_reply_taking(call, 200, "application/json", errand->answer.bytes,
                             errand->answer.count);
        errand->answer.bytes = NULL;
    } else {
        or_api_reply_problem(call, &errand->problem);
    }
}

// Is there room for the answer while it grows? Else the call is answered.
static bool has_room(or_http_call_t *call, const errand_t *errand)
{
    bool pieces = errand->tool.with_pieces;
    size_t each = errand->joins ? 0 : TOKEN_BYTES + (pieces ? PIECE_BYTES : 0);
    size_t escaped = errand->joins || pieces ? ESCAPED_BYTES_MAX : 0;
    return or_http_call_take_room(call, errand->count * each + errand->text_bytes * escaped);
}

// Answer in a task of its own, when there is room for it: that takes as long as the reading did.
static void go_on(void *context, or_http_call_t *call, void *data)
{
    static const or_http_task_t task = {work_say, reply, drop_errand};
    errand_t *read = data, *errand;
    if (!read->good) {
        reply(context, call, read);
        return;
    }
    if (!has_room(call, read)) {
        return;
    }
    errand = malloc(sizeof *errand);
    if (errand == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, NO_MEMORY);
        return;
    }
    *errand = *read;
    read->ids = NULL; // they are the other's now
    or_http_call_begin(call, &task, errand);
}

static void begin(const or_api_t *api, or_http_call_t *call, const or_http_task_t *task)
{
    errand_t *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the request.");
        return;
    }
    errand->vocab = api->config.vocab;
    errand->tool =
        (tool_t){.model = api->config.model, .parse_special = true}; // llama.cpp's defaults
    or_http_call_begin(call, task, errand);
}

void or_api_post_tokenize(or_api_t *api, or_http_call_t *call)
{
    static const or_http_task_t task = {work_tokenize, go_on, drop_errand};
    begin(api, call, &task);
}

void or_api_post_detokenize(or_api_t *api, or_http_call_t *call)
{
    static const or_http_task_t task = {work_detokenize, go_on, drop_errand};
    begin(api, call, &task);
}

void or_api_get_parameters(or_api_t *api, or_http_call_t *call)
{
    (void)api;
    or_api_reply_json(call, 200, or_api_parameters_json());
}

// ---- the dashboard ----

void or_api_get_file(or_api_t *api, or_http_call_t *call)
{
    const or_dashboard_file_t *file = or_dashboard_file(or_http_call_path(call));
    (void)api;
    if (file == NULL) {
        or_api_reply_nothing(call);
        return;
    }
    const char *known = or_http_call_header(call, "If-None-Match");
    or_http_call_set_header(call, "ETag", file->etag);
    or_http_call_set_header(call, "Cache-Control",
                            "no-cache"); // ask, and be told that it is the same
    if (known != NULL && strcmp(known, file->etag) == 0) {
        or_http_reply(call, 304, file->content_type, "", 0);
    } else {
        or_http_reply(call, 200, file->content_type, file->bytes, file->count);
    }
}
