// The parts of an answer besides its text: logprobs, the origin of tokens, figures.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/text/utf8.h"
#include "coordinator/http/api/api_reply_internal.h"

#define LOGPROB_LEAST (-9999.0) // JSON has no infinity; OpenAI's word for it

// ---- logprobs ----

static double number(float logprob)
{
    return isfinite(logprob) ? (double)logprob : LOGPROB_LEAST;
}

// The text that a token prints, or its name where it prints nothing.
static json_t *token_string(const or_vocab_t *vocab, uint32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, (int32_t)id, &length);
    if (length == 0) {
        bytes = or_vocab_piece(vocab, (int32_t)id, &length);
    }
    return or_api_string(bytes, length);
}

static json_t *token_bytes(const or_vocab_t *vocab, uint32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, (int32_t)id, &length);
    json_t *array = json_array();
    for (uint32_t i = 0; i < length; i++) {
        json_array_append_new(array, json_integer((unsigned char)bytes[i]));
    }
    return array;
}

static uint64_t count_characters(const or_vocab_t *vocab, uint32_t id)
{
    uint32_t length;
    uint64_t count = 0;
    const char *bytes = or_vocab_bytes(vocab, (int32_t)id, &length);
    for (uint32_t i = 0; i < length; i++) {
        count += ((unsigned char)bytes[i] & 0xC0) != 0x80; // where one begins
    }
    return count;
}

// {" of": -0.2, " in": -1.9}: of a text that two tokens print, the likelier one.
static json_t *top_map(const or_vocab_t *vocab, const or_token_logprob_t *token)
{
    json_t *map = json_object();
    for (uint32_t i = 0; i <= token->top_count; i++) {
        bool last = i == token->top_count; // the chosen one is there in any case
        json_t *name = token_string(vocab, last ? token->token : token->top_tokens[i]);
        const char *text = json_string_value(name);
        if (text != NULL && json_object_getn(map, text, json_string_length(name)) == NULL) {
            float logprob = last ? token->logprob : token->top_logprobs[i];
            json_object_setn_new(map, text, json_string_length(name), json_real(number(logprob)));
        }
        json_decref(name);
    }
    return map;
}

static json_t *chat_token(const or_vocab_t *vocab, uint32_t id, float logprob)
{
    return json_pack("{s:o, s:f, s:o}", "token", token_string(vocab, id), "logprob",
                     number(logprob), "bytes", token_bytes(vocab, id));
}

static json_t *chat_entry(const or_vocab_t *vocab, const or_token_logprob_t *token)
{
    json_t *entry = chat_token(vocab, token->token, token->logprob);
    json_t *top = json_array();
    for (uint32_t i = 0; i < token->top_count; i++) {
        json_array_append_new(top, chat_token(vocab, token->top_tokens[i], token->top_logprobs[i]));
    }
    json_object_set_new(entry, "top_logprobs", top);
    return entry;
}

static json_t *completion_shape(const or_api_request_t *request)
{
    return json_pack("{s:[], s:[], s:o, s:[]}", "tokens", "token_logprobs", "top_logprobs",
                     request->top_logprobs > 0 ? json_array() : json_null(), "text_offset");
}

static void append_completion(const or_api_head_t *head, json_t *shape,
                              const or_token_logprob_t *token, uint64_t characters)
{
    json_array_append_new(json_object_get(shape, "tokens"),
                          token_string(head->vocab, token->token));
    json_array_append_new(json_object_get(shape, "token_logprobs"),
                          json_real(number(token->logprob)));
    json_array_append_new(json_object_get(shape, "text_offset"),
                          json_integer((json_int_t)characters));
    if (head->request->top_logprobs > 0) {
        json_array_append_new(json_object_get(shape, "top_logprobs"), top_map(head->vocab, token));
    }
}

json_t *or_api_logprobs(const or_api_head_t *head, or_api_choice_t *choice,
                        const or_generate_delta_t *delta)
{
    bool chat = head->request->chat;
    if (!head->request->logprobs || delta->logprob_count == 0) {
        return json_null();
    }
    json_t *shape =
        chat ? json_pack("{s:[], s:n}", "content", "refusal") : completion_shape(head->request);
    for (uint32_t i = 0; i < delta->logprob_count; i++) {
        const or_token_logprob_t *token = &delta->logprobs[i];
        if (or_vocab_is_end(head->vocab, (int32_t)token->token)) {
            continue; // no part of the text
        }
        if (chat) {
            json_array_append_new(json_object_get(shape, "content"),
                                  chat_entry(head->vocab, token));
        } else {
            append_completion(head, shape, token, choice->characters);
        }
        choice->characters += count_characters(head->vocab, token->token);
    }
    return shape;
}

// The lists that an object of logprobs has.
static const char *const *columns_of(const or_api_head_t *head)
{
    static const char *const chat[] = {"content", NULL};
    static const char *const completion[] = {"tokens", "token_logprobs", "top_logprobs",
                                             "text_offset", NULL};
    _Static_assert(sizeof completion / sizeof *completion == OR_API_COLUMNS_MAX + 1, "all");
    return head->request->chat ? chat : completion;
}

bool or_api_logprobs_keep(const or_api_head_t *head, or_api_choice_t *choice, json_t *more)
{
    const char *const *columns = columns_of(head);
    bool failed = more == NULL;
    choice->has_logprobs = choice->has_logprobs || json_is_object(more);
    for (size_t i = 0; columns[i] != NULL; i++) {
        json_t *list = json_object_get(more, columns[i]);
        if (json_is_array(list)) {
            or_api_text_join(&choice->logprobs[i], json_incref(list));
            failed = failed || choice->logprobs[i].failed;
        }
    }
    json_decref(more);
    return !failed;
}

static void say_column(or_api_text_t *text, const char *name, const or_api_text_t *list, bool none)
{
    or_api_text_say(text, "\"");
    or_api_text_say(text, name);
    or_api_text_say(text, none ? "\":null" : "\":[");
    if (!none) {
        or_api_text_add(text, list->bytes, list->count);
        or_api_text_say(text, "]");
    }
}

void or_api_logprobs_say(const or_api_head_t *head, const or_api_choice_t *choice,
                         or_api_text_t *text)
{
    const char *const *columns = columns_of(head);
    if (!choice->has_logprobs) {
        or_api_text_say(text, "null");
        return;
    }
    or_api_text_say(text, "{");
    for (size_t i = 0; columns[i] != NULL; i++) {
        bool none = strcmp(columns[i], "top_logprobs") == 0 && head->request->top_logprobs == 0;
        or_api_text_say(text, i > 0 ? "," : "");
        say_column(text, columns[i], &choice->logprobs[i], none);
    }
    or_api_text_say(text, head->request->chat ? ",\"refusal\":null}" : "}");
}

// ---- where tokens came from ----

// A token that the text has not reached.
struct or_api_origin {
    uint32_t id;
    bool drafted;
    uint64_t end; // in the text's bytes
};

// The tokens of a delta, behind those that wait. False: no memory.
static bool add_origins(or_api_choice_t *choice, const or_generate_delta_t *delta)
{
    uint32_t count =
        delta->origin_count == delta->token_end_count ? delta->origin_count : 0; // of one each
    if (!or_array_reserve(&choice->origins, &choice->origin_capacity, choice->origin_count, count,
                          sizeof *choice->origins)) {
        or_api_json_note_failure();
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        choice->origins[choice->origin_count++] =
            (struct or_api_origin){delta->tokens[i], delta->origins[i] != 0, delta->token_ends[i]};
    }
    return true;
}

// The spelling of a mark of calls that prints nothing: the answer spells it out. NULL: the token is none.
static const char *silent_mark(const or_api_head_t *head, uint32_t id, size_t *length)
{
    uint32_t count;
    const char *piece = or_vocab_piece(head->vocab, (int32_t)id, &count);
    *length = count;
    return head->request->tools != NULL && or_vocab_widths(head->vocab)[id] == 0 &&
                   or_chat_tools_is_mark(head->request->tools, piece, count)
               ? piece
               : NULL;
}

// A token as the text has it: up to the text's end. In a conversation marks around thoughts, and white space behind them,
// are no text: the token has the bytes up to its end.
static json_t *origin_object(const or_api_head_t *head, or_api_choice_t *choice,
                             const struct or_api_origin *origin, uint64_t text_end)
{
    char room_for[OR_DETOK_ROOM(256)];
    size_t length;
    const char *text = silent_mark(head, origin->id, &length);
    if (text == NULL) {
        const bool fits = or_vocab_widths(choice->detok.vocab)[origin->id] <= 256;
        length = fits ? or_detok_push(&choice->detok, (int32_t)origin->id, room_for) : 0;
        text = room_for;
    }
    uint64_t own = origin->end > choice->told_bytes ? origin->end - choice->told_bytes : 0;
    if (head->request->chat && length > own) {
        text += length - own;
        length = (size_t)own;
    }
    uint64_t room = text_end > choice->told_bytes ? text_end - choice->told_bytes : 0;
    length = length < room ? length : (size_t)room;
    choice->told_bytes += length;
    return json_pack("{s:i, s:o, s:b}", "id", (int)origin->id, "text", or_api_string(text, length),
                     "drafted", origin->drafted);
}

// The origins of the tokens that the text has reached. At its end, tokens that begin behind it are left out.
static json_t *origin_array(const or_api_head_t *head, or_api_choice_t *choice,
                            const or_generate_delta_t *delta)
{
    json_t *array = json_array();
    uint64_t text_end = delta->text_offset + delta->text_bytes;
    bool ends = delta->finish != OR_FINISH_NONE;
    size_t told = 0;
    if (!add_origins(choice, delta)) {
        json_decref(array);
        return NULL;
    }
    for (; told < choice->origin_count; told++) {
        const struct or_api_origin *origin = &choice->origins[told];
        if (ends ? choice->told_bytes >= text_end : origin->end > text_end) {
            break;
        }
        json_array_append_new(array, origin_object(head, choice, origin, text_end));
    }
    choice->origin_count -= told;
    if (choice->origin_count > 0) {
        memmove(choice->origins, choice->origins + told,
                choice->origin_count * sizeof *choice->origins);
    }
    return array;
}

static json_t *tree_object(const or_vocab_t *vocab, const or_generate_delta_t *delta)
{
    const or_draft_tree_t *tree = delta->tree;
    json_t *text = json_array(), *parents = json_array(), *accepted = json_array();
    for (uint32_t i = 0; i < tree->count; i++) {
        bool known =
            tree->tokens[i] < or_vocab_size(vocab); // another vocabulary's are no words of ours
        json_array_append_new(
            text, known ? token_string(vocab, tree->tokens[i])
                        : or_api_string(OR_UTF8_REPLACEMENT, OR_UTF8_REPLACEMENT_BYTES));
        json_array_append_new(parents, json_integer((json_int_t)i + 1 - tree->back[i]));
    }
    for (uint32_t i = 0; i < delta->tree_accepted_count; i++) {
        json_array_append_new(accepted, json_integer(delta->tree_accepted[i]));
    }
    return json_pack("{s:o, s:o, s:o}", "text", text, "parents", parents, "accepted", accepted);
}

json_t *or_api_details(const or_api_head_t *head, or_api_choice_t *choice,
                       const or_generate_delta_t *delta)
{
    json_t *details = json_pack("{s:o}", "tokens", origin_array(head, choice, delta));
    if (delta->tree != NULL) {
        json_object_set_new(details, "tree", tree_object(head->vocab, delta));
    }
    return details;
}

// ---- figures ----

// The prompt of several texts was read once.
json_t *or_api_usage(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count)
{
    json_int_t prompt = 0, cached = 0, completion = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool first = i % head->request->n == 0;
        prompt += first ? choices[i].stats.prompt_tokens : 0;
        cached += first ? choices[i].stats.prompt_reused : 0;
        completion += choices[i].stats.completion_tokens;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens",
                     completion, "total_tokens", prompt + completion, "prompt_tokens_details",
                     "cached_tokens", cached);
}

// The time that writing the text took; 0 where there is none. A text's first verdict reads the prompt too, and its time
// cannot be split: its part in the writing counts as the average of the later verdicts.
static double writing_ms(const or_generate_stats_t *stats)
{
    double whole_us = (double)stats->elapsed_us, first_us = (double)stats->first_token_us;
    if (stats->resumed_tokens > 0) {
        return whole_us / 1e3; // its prompt was read before these figures began
    }
    if (stats->target_calls < 2) {
        return 0;
    }
    double round_us = (double)stats->round_us / (double)(stats->target_calls - 1);
    double later_us = whole_us > first_us ? whole_us - first_us : 0;
    return (later_us + (round_us < first_us ? round_us : first_us)) / 1e3;
}

static double per(double amount, double whole)
{
    return whole > 0 ? amount / whole : 0;
}

json_t *or_api_timings(const or_generate_stats_t *stats)
{
    double written_ms = writing_ms(stats), whole_ms = (double)stats->elapsed_us / 1e3;
    double prompt_ms = whole_ms > written_ms ? whole_ms - written_ms : 0;
    uint32_t known = stats->resumed_tokens, all = stats->completion_tokens;
    double written = all > known ? all - known : 0; // in that time
    uint32_t read = stats->prompt_tokens > stats->prompt_reused
                        ? stats->prompt_tokens - stats->prompt_reused
                        : 0;
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", //
                     "cache_n", (json_int_t)stats->prompt_reused,                         //
                     "prompt_n", (json_int_t)read,                                        //
                     "prompt_ms", prompt_ms,                                              //
                     "prompt_per_token_ms", per(prompt_ms, read),                         //
                     "prompt_per_second", per(1e3 * read, prompt_ms),                     //
                     "predicted_n", (json_int_t)stats->completion_tokens,                 //
                     "predicted_ms", written_ms,                                          //
                     "predicted_per_token_ms", per(written_ms, written),                  //
                     "predicted_per_second", per(1e3 * written, written_ms),              //
                     "draft_n", (json_int_t)stats->drafted,                               //
                     "draft_n_accepted", (json_int_t)stats->accepted,                     //
                     "target_calls", (json_int_t)stats->target_calls, "queue_ms",
                     (double)stats->queue_us / 1e3);
}
