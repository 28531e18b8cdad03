#include "coordinator/http/api/api_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"
#include "coordinator/http/api/api_reply_internal.h"

// The names and figures of a whole answer take at most so much, besides what was gathered.
#define ANSWER_BYTES 1024u
#define CHOICE_BYTES 768u

enum { ANSWER = OR_API_ANSWER, THOUGHT = OR_API_THOUGHT };

// ---- text ----

// Whole characters of held + bytes; what may still become one is held again. `out` has room for three bytes for each
// that goes in.
static size_t clean(or_api_choice_t *choice, const uint8_t *bytes, size_t count, bool end,
                    char *joined, char *out)
{
    size_t length = choice->held_bytes + count, put = 0, used;
    memcpy(joined, choice->held, choice->held_bytes);
    if (count > 0) {
        memcpy(joined + choice->held_bytes, bytes, count);
    }
    choice->held_bytes = 0;
    for (size_t i = 0; i < length; i += used) {
        or_utf8_t found = or_utf8_next(joined + i, length - i, &used);
        if (found == OR_UTF8_INCOMPLETE && !end) {
            choice->held_bytes = (uint32_t)used;
            memcpy(choice->held, joined + i, used);
            break;
        }
        bool whole = found == OR_UTF8_CHARACTER;
        size_t size = whole ? used : OR_UTF8_REPLACEMENT_BYTES;
        memcpy(out + put, whole ? joined + i : OR_UTF8_REPLACEMENT, size);
        put += size;
    }
    return put;
}

static void drop_taken(or_api_taken_t *taken)
{
    json_decref(taken->calls);
    free(taken->room);
    *taken = (or_api_taken_t){0};
}

// Take a piece of a delta that is of one part. `cleaned` has room for its text. False: no memory.
static bool take_piece(const or_api_head_t *head, or_api_choice_t *choice, bool is_thought,
                       bool is_call, const char *cleaned, size_t count, or_api_taken_t *taken)
{
    if (is_call && head->request->tools != NULL) {
        return or_api_calls_hold(head, choice, taken, cleaned, count);
    }
    if (choice->call_text.count > 0 && !or_api_calls_release(head, choice, taken)) {
        return false;
    }
    choice->call_is_long = false;
    if (is_thought) {
        memcpy(taken->parts[THOUGHT] + taken->lengths[THOUGHT], cleaned, count);
        taken->lengths[THOUGHT] += count;
    } else {
        or_api_answer_add(choice, taken, cleaned, count);
    }
    return true;
}

// Take the text of a delta apart. A character does not go on in another part. False: no memory, and nothing is taken.
static bool take_text(const or_api_head_t *head, or_api_choice_t *choice,
                      const or_generate_delta_t *delta, or_api_taken_t *taken)
{
    const bool ends = delta->finish != OR_FINISH_NONE;
    size_t room = OR_UTF8_MAX_BYTES + (size_t)delta->text_bytes;
    size_t cleaned = OR_UTF8_REPLACEMENT_BYTES * (room + OR_UTF8_MAX_BYTES);
    *taken = (or_api_taken_t){.room = malloc(room + 3 * cleaned + choice->call_text.count)};
    if (taken->room == NULL) {
        return false;
    }
    char *joined = taken->room + cleaned, *piece = joined + room;
    taken->parts[THOUGHT] = taken->room;
    taken->parts[ANSWER] = piece + cleaned; // which what was held may become
    uint32_t at = 0;
    bool good = true;
    do {
        uint32_t end, call_end;
        bool is_thought = or_generate_delta_is_thought(delta, at, &end);
        bool is_call = or_generate_delta_is_call(delta, at, &call_end) && !is_thought;
        end = call_end < end ? call_end : end;
        size_t count = clean(choice, delta->text_bytes > 0 ? delta->text + at : NULL, end - at,
                             end < delta->text_bytes || ends, joined, piece);
        good = take_piece(head, choice, is_thought, is_call, piece, count, taken);
        at = end;
    } while (good && at < delta->text_bytes);
    if (good && ends && choice->call_text.count > 0) {
        good = or_api_calls_release(head, choice, taken);
    }
    if (!good) {
        drop_taken(taken);
    }
    return good;
}

json_t *or_api_string(const char *bytes, size_t count)
{
    or_api_choice_t whole = {0};
    char *room = malloc((OR_UTF8_REPLACEMENT_BYTES + 1) * (count + 1));
    json_t *string = NULL;
    if (room != NULL) {
        const size_t length =
            clean(&whole, (const uint8_t *)bytes, count, true, room, room + count + 1);
        string = json_stringn(room + count + 1, length);
    }
    if (string == NULL) {
        or_api_json_note_failure();
    }
    free(room);
    return string;
}

// ---- a text's state ----

void or_api_choice_init(or_api_choice_t *choice, const or_api_head_t *head, uint32_t index)
{
    *choice = (or_api_choice_t){.index = index};
    or_detok_init(&choice->detok, head->vocab, false, true);
}

void or_api_choice_fini(or_api_choice_t *choice)
{
    or_api_text_fini(&choice->text);
    or_api_text_fini(&choice->thought);
    or_api_text_fini(&choice->calls);
    or_api_text_fini(&choice->call_text);
    or_api_text_fini(&choice->details);
    for (uint32_t i = 0; i < OR_API_COLUMNS_MAX; i++) {
        or_api_text_fini(&choice->logprobs[i]);
    }
    free(choice->origins);
    *choice = (or_api_choice_t){0};
}

static void take_end(or_api_choice_t *choice, const or_generate_delta_t *delta)
{
    choice->finish = delta->finish;
    choice->seed = delta->seed;
    choice->stats = delta->stats;
    snprintf(choice->arith_id, sizeof choice->arith_id, "%s", delta->arith_id);
}

// The prompt that "echo" puts before the text.
static json_t *echo_string(const or_api_head_t *head, uint32_t index)
{
    const or_api_prompt_t *prompt = &head->request->prompts[index / head->request->n];
    char *text;
    size_t length;
    if (prompt->count == 0) {
        return or_api_string((const char *)prompt->text, prompt->bytes);
    }
    if (or_detokenize(head->vocab, (const int32_t *)prompt->tokens, prompt->count, &text,
                      &length) != OR_OK) {
        or_api_json_note_failure();
        return NULL;
    }
    json_t *string = or_api_string(text, length);
    free(text);
    return string;
}

// A text that ended by itself and called a tool waits for the result.
static const char *finish_of(const or_api_choice_t *choice)
{
    return choice->finish == OR_FINISH_STOP && choice->call_count > 0
               ? "tool_calls"
               : or_finish_name(choice->finish);
}

// ---- objects ----

static json_t *object_of(const or_api_head_t *head, const char *kind, const char *arith_id)
{
    char id[40];
    snprintf(id, sizeof id, "%s-%016" PRIx64, head->request->chat ? "chatcmpl" : "cmpl",
             head->number);
    return json_pack("{s:s, s:s, s:I, s:s, s:s?}", "id", id, "object", kind, "created",
                     (json_int_t)head->created, "model", head->model, "system_fingerprint",
                     arith_id[0] != '\0' ? arith_id : NULL);
}

static const char *chunk_kind(const or_api_head_t *head)
{
    return head->request->chat ? "chat.completion.chunk" : "text_completion";
}

// Takes `content`, `logprobs`. NULL for a chat's content: an empty delta.
static json_t *chunk_of(const or_api_head_t *head, const or_api_choice_t *choice, json_t *content,
                        json_t *logprobs, const char *finish)
{
    json_t *one = json_pack("{s:I, s:o, s:s?}", "index", (json_int_t)choice->index, "logprobs",
                            logprobs, "finish_reason", finish);
    if (head->request->chat) {
        json_object_set_new(one, "delta", content != NULL ? content : json_object());
    } else {
        json_object_set_new(one, "text", content != NULL ? content : json_string(""));
    }
    json_t *chunk = object_of(head, chunk_kind(head), choice->arith_id);
    json_object_set_new(chunk, "choices", json_pack("[o]", one));
    if (head->request->include_usage) {
        json_object_set_new(chunk, "usage", json_null());
    }
    return chunk;
}

static json_t *chunk_of_choice(json_t *chunk)
{
    return json_array_get(json_object_get(chunk, "choices"), 0);
}

// A chat's role, an echo's prompt.
static json_t *first_chunk(const or_api_head_t *head, const or_api_choice_t *choice)
{
    json_t *content = head->request->chat
                          ? json_pack("{s:s, s:s}", "role", "assistant", "content", "")
                          : echo_string(head, choice->index);
    return chunk_of(head, choice, content, json_null(), NULL);
}

static bool has_calls(const or_api_taken_t *taken)
{
    return json_array_size(taken->calls) > 0;
}

// A chat's new words. A part without any is left out, but for an empty answer where there is nothing else.
static json_t *words_of(const or_api_taken_t *taken)
{
    json_t *words = json_object();
    if (taken->lengths[THOUGHT] > 0) {
        json_object_set_new(words, "reasoning_content",
                            json_stringn(taken->parts[THOUGHT], taken->lengths[THOUGHT]));
    }
    if (taken->lengths[ANSWER] > 0 || (taken->lengths[THOUGHT] == 0 && !has_calls(taken))) {
        json_object_set_new(words, "content",
                            json_stringn(taken->parts[ANSWER], taken->lengths[ANSWER]));
    }
    if (has_calls(taken)) {
        json_object_set(words, "tool_calls", taken->calls);
    }
    return words;
}

static json_t *text_chunk(const or_api_head_t *head, or_api_choice_t *choice,
                          const or_generate_delta_t *delta, const or_api_taken_t *taken)
{
    json_t *content = head->request->chat
                          ? words_of(taken)
                          : json_stringn(taken->parts[ANSWER], taken->lengths[ANSWER]);
    json_t *chunk = chunk_of(head, choice, content, or_api_logprobs(head, choice, delta), NULL);
    if (head->request->details) {
        json_object_set_new(chunk_of_choice(chunk), "outrider",
                            or_api_details(head, choice, delta));
    }
    return chunk;
}

static json_t *last_chunk(const or_api_head_t *head, const or_api_choice_t *choice)
{
    json_t *chunk = chunk_of(head, choice, NULL, json_null(), finish_of(choice));
    json_object_set_new(chunk, "seed", json_integer((json_int_t)choice->seed));
    json_object_set_new(chunk, "timings", or_api_timings(&choice->stats));
    return chunk;
}

or_status_t or_api_chunks(const or_api_head_t *head, or_api_choice_t *choice,
                          const or_generate_delta_t *delta, json_t **chunks, uint32_t *count)
{
    or_api_taken_t taken;
    uint32_t made = 0;
    bool annotated = (head->request->logprobs || head->request->details) && delta->count > 0;
    if (!take_text(head, choice, delta, &taken)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a delta");
    }
    take_end(choice, delta);
    if (!choice->begun && (head->request->chat || head->request->echo)) {
        chunks[made++] = first_chunk(head, choice);
    }
    choice->begun = true;
    if (taken.lengths[ANSWER] > 0 || taken.lengths[THOUGHT] > 0 || has_calls(&taken) || annotated) {
        chunks[made++] = text_chunk(head, choice, delta, &taken);
    }
    if (delta->finish != OR_FINISH_NONE && !choice->end_told) {
        chunks[made++] = last_chunk(head, choice);
    }
    drop_taken(&taken);
    *count = made;
    return OR_OK;
}

// ---- whole answers ----

// Keep the origins of a delta's tokens. The tree is left to streams, where it is the latest one.
static bool keep_details(const or_api_head_t *head, or_api_choice_t *choice,
                         const or_generate_delta_t *delta)
{
    or_generate_delta_t tokens = *delta;
    tokens.tree = NULL;
    json_t *details = or_api_details(head, choice, &tokens);
    or_api_text_join(&choice->details, json_incref(json_object_get(details, "tokens")));
    json_decref(details);
    choice->has_details = true;
    return !choice->details.failed;
}

// A text begins with its prompt where that is wanted. False: no memory.
static bool keep_echo(const or_api_head_t *head, or_api_choice_t *choice)
{
    if (!head->request->echo || choice->begun) {
        return true;
    }
    json_t *echo = echo_string(head, choice->index);
    if (echo != NULL) {
        or_api_text_add(&choice->text, json_string_value(echo), json_string_length(echo));
    }
    bool kept = echo != NULL && !choice->text.failed;
    json_decref(echo);
    return kept;
}

or_status_t or_api_gather(const or_api_head_t *head, or_api_choice_t *choice,
                          const or_generate_delta_t *delta)
{
    or_api_taken_t taken = {0};
    bool kept = keep_echo(head, choice) && take_text(head, choice, delta, &taken);
    choice->begun = true;
    if (kept) {
        or_api_text_add(&choice->text, taken.parts[ANSWER], taken.lengths[ANSWER]);
        or_api_text_add(&choice->thought, taken.parts[THOUGHT], taken.lengths[THOUGHT]);
        if (has_calls(&taken)) {
            or_api_text_join(&choice->calls, json_incref(taken.calls));
        }
        kept = !choice->text.failed && !choice->thought.failed && !choice->calls.failed;
    }
    drop_taken(&taken);
    if (kept && head->request->logprobs) {
        kept = or_api_logprobs_keep(head, choice, or_api_logprobs(head, choice, delta));
    }
    if (kept && head->request->details) {
        kept = keep_details(head, choice, delta);
    }
    take_end(choice, delta);
    return kept ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for a text");
}

size_t or_api_gathered_bytes(const or_api_choice_t *choice)
{
    size_t bytes = choice->text.capacity + choice->thought.capacity + choice->calls.capacity +
                   choice->call_text.capacity + choice->details.capacity;
    for (uint32_t i = 0; i < OR_API_COLUMNS_MAX; i++) {
        bytes += choice->logprobs[i].capacity;
    }
    return bytes;
}

// The length of a text as a JSON string.
static size_t escaped_bytes(const or_api_text_t *text)
{
    size_t bytes = 0;
    for (size_t i = 0; i < text->count; i++) {
        unsigned char byte = (unsigned char)text->bytes[i];
        bytes += byte < 0x20 ? 6 : byte == '"' || byte == '\\' ? 2 : 1;
    }
    return bytes;
}

size_t or_api_whole_bytes(const or_api_choice_t *choices, uint32_t count)
{
    size_t bytes = ANSWER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        bytes += CHOICE_BYTES + escaped_bytes(&choices[i].text) +
                 escaped_bytes(&choices[i].thought) + choices[i].calls.count +
                 choices[i].details.count;
        for (uint32_t column = 0; column < OR_API_COLUMNS_MAX; column++) {
            bytes += choices[i].logprobs[column].count;
        }
    }
    return bytes;
}

static json_t *whole_text(const or_api_text_t *text)
{
    return json_stringn(text->count > 0 ? text->bytes : "", text->count);
}

static json_t *whole_message(const or_api_head_t *head, const or_api_choice_t *choice)
{
    const char *finish = finish_of(choice);
    if (!head->request->chat) {
        return json_pack("{s:s, s:o}", "finish_reason", finish, "text", whole_text(&choice->text));
    }
    const bool silent = choice->text.count == 0 && choice->call_count > 0;
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                silent ? json_null() : whole_text(&choice->text), "refusal");
    if (choice->thought.count > 0) {
        json_object_set_new(message, "reasoning_content", whole_text(&choice->thought));
    }
    if (choice->call_count > 0) {
        json_object_set_new(message, "tool_calls", or_api_calls_whole(choice));
    }
    return json_pack("{s:s, s:o}", "finish_reason", finish, "message", message);
}

static void say_choice(const or_api_head_t *head, const or_api_choice_t *choice, bool timed,
                       or_api_text_t *text)
{
    char begin[48];
    snprintf(begin, sizeof begin, "{\"index\":%u,\"logprobs\":", choice->index);
    or_api_text_say(text, begin);
    or_api_logprobs_say(head, choice, text);
    or_api_text_join(text, whole_message(head, choice));
    if (choice->has_details) {
        or_api_text_say(text, ",\"outrider\":{\"tokens\":[");
        or_api_text_add(text, choice->details.bytes, choice->details.count);
        or_api_text_say(text, "]}");
    }
    if (timed) {
        or_api_text_join(text, json_pack("{s:o}", "timings", or_api_timings(&choice->stats)));
    }
    or_api_text_say(text, "}");
}

static json_t *whole_end(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count)
{
    json_t *end = json_pack("{s:o, s:I}", "usage", or_api_usage(head, choices, count), "seed",
                            (json_int_t)choices[0].seed);
    if (end != NULL && count == 1) {
        json_object_set_new(end, "timings", or_api_timings(&choices[0].stats));
    }
    return end;
}

char *or_api_whole(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count,
                   size_t *bytes)
{
    or_api_text_t text = {0};
    or_api_text_say(&text, "{");
    or_api_text_join(&text,
                     object_of(head, head->request->chat ? "chat.completion" : "text_completion",
                               choices[0].arith_id));
    or_api_text_say(&text, ",\"choices\":[");
    for (uint32_t i = 0; i < count; i++) {
        or_api_text_say(&text, i > 0 ? "," : "");
        say_choice(head, &choices[i], count > 1, &text);
    }
    or_api_text_say(&text, "]");
    or_api_text_join(&text, whole_end(head, choices, count));
    or_api_text_say(&text, "}");
    if (text.failed) {
        or_api_text_fini(&text);
        return NULL;
    }
    *bytes = text.count;
    return text.bytes;
}

json_t *or_api_usage_chunk(const or_api_head_t *head, const or_api_choice_t *choices,
                           uint32_t count)
{
    json_t *chunk = object_of(head, chunk_kind(head), choices[0].arith_id);
    json_object_set_new(chunk, "choices", json_array());
    json_object_set_new(chunk, "usage", or_api_usage(head, choices, count));
    return chunk;
}

json_t *or_api_error(unsigned status, const char *code, const char *message)
{
    const char *type = status == 429  ? "rate_limit_error"
                       : status < 500 ? "invalid_request_error"
                                      : "server_error";
    json_t *text = or_api_string(message, strlen(message));
    return json_pack("{s:{s:o, s:s, s:n, s:s?}}", "error", "message", text, "type", type, "param",
                     "code", code);
}
