// Calls of tools in an answer. Text that may be calls is held until it ends, for at most OR_CHAT_CALL_BYTES_MAX: then what is
// complete becomes entries of "tool_calls", and the rest is text of the answer after all.
#include <string.h>

#include "common/base/math/rng.h"
#include "common/text/chat/chat_tools.h"
#include "coordinator/http/api/api_reply_internal.h"

#define ID_CHARACTERS 9u // what Mistral's templates demand, and all others take

void or_api_answer_add(or_api_choice_t *choice, or_api_taken_t *taken, const char *bytes,
                       size_t count)
{
    size_t skipped = 0;
    while (choice->drops_spaces && skipped < count && strchr(" \t\r\n", bytes[skipped]) != NULL &&
           bytes[skipped] != '\0') {
        skipped++;
    }
    choice->drops_spaces = choice->drops_spaces && skipped == count;
    memmove(taken->parts[OR_API_ANSWER] + taken->lengths[OR_API_ANSWER], bytes + skipped,
            count - skipped);
    taken->lengths[OR_API_ANSWER] += count - skipped;
}

typedef struct {
    const or_api_head_t *head;
    or_api_choice_t *choice;
    or_api_taken_t *taken;
} calling_t;

// An id that the same answer always has for this call.
static void make_id(const calling_t *calling, char id[ID_CHARACTERS + 1])
{
    static const char characters[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const uint64_t place = ((uint64_t)calling->choice->index << 32) + calling->choice->call_count;
    uint64_t number = or_rng_key(calling->head->number, place).value;
    for (size_t i = 0; i < ID_CHARACTERS; i++) {
        id[i] = characters[number % (sizeof characters - 1)];
        number /= sizeof characters - 1;
    }
    id[ID_CHARACTERS] = '\0';
}

// A model's own id goes on, as Kimi's.
static or_status_t take_call(void *context, const or_chat_call_t *call)
{
    const calling_t *calling = context;
    or_api_choice_t *choice = calling->choice;
    char id[ID_CHARACTERS + 1];
    choice->drops_spaces = true;
    if (calling->head->request->one_call && choice->call_count > 0) {
        return OR_OK;
    }
    make_id(calling, id);
    json_t *entry =
        json_pack("{s:I, s:s, s:s, s:{s:s, s:o}}", "index", (json_int_t)choice->call_count, "id",
                  call->id[0] != '\0' ? call->id : id, "type", "function", "function", "name",
                  call->name, "arguments", json_stringn(call->arguments, call->arguments_bytes));
    choice->call_count++;
    return json_array_append_new(calling->taken->calls, entry) == 0
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for a call");
}

static or_status_t take_text(void *context, const char *bytes, size_t count)
{
    const calling_t *calling = context;
    or_api_answer_add(calling->choice, calling->taken, bytes, count);
    return OR_OK;
}

bool or_api_calls_hold(const or_api_head_t *head, or_api_choice_t *choice, or_api_taken_t *taken,
                       const char *bytes, size_t count)
{
    if (choice->call_is_long) {
        or_api_answer_add(choice, taken, bytes, count);
        return true;
    }
    or_api_text_add(&choice->call_text, bytes, count);
    choice->call_is_long = choice->call_text.count > OR_CHAT_CALL_BYTES_MAX;
    return choice->call_is_long ? or_api_calls_release(head, choice, taken)
                                : !choice->call_text.failed;
}

bool or_api_calls_release(const or_api_head_t *head, or_api_choice_t *choice, or_api_taken_t *taken)
{
    calling_t calling = {head, choice, taken};
    const or_chat_call_sink_t sink = {take_text, take_call, &calling};
    const bool whole = !choice->call_text.failed;
    if (taken->calls == NULL) {
        taken->calls = json_array();
    }
    const bool read = whole && taken->calls != NULL &&
                      or_chat_calls_read(head->request->tools, choice->call_text.bytes,
                                         choice->call_text.count, &sink) == OR_OK;
    or_api_text_fini(&choice->call_text);
    return read;
}

json_t *or_api_calls_whole(const or_api_choice_t *choice)
{
    or_api_text_t list = {0};
    or_api_text_say(&list, "[");
    or_api_text_add(&list, choice->calls.bytes, choice->calls.count);
    or_api_text_say(&list, "]");
    json_t *calls = list.failed ? NULL : json_loadb(list.bytes, list.count, JSON_ALLOW_NUL, NULL);
    or_api_text_fini(&list);
    if (calls == NULL) {
        or_api_json_note_failure();
    }
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_object_del(json_array_get(calls, i), "index");
    }
    return calls;
}
