// Calls of tools in an answer, taken out of the text that the reader has found to begin with a mark of calls.
#include <stdio.h>
#include <string.h>

#include "common/text/chat/chat_json.h"
#include "common/text/chat/chat_tools_internal.h"

#define ID_BYTES (OR_CHAT_CALL_NAME_BYTES + 32)

typedef struct {
    const char *at, *end;
} scan_t;

// A call as it is read; the arguments stand in the text.
typedef struct {
    char name[OR_CHAT_CALL_NAME_BYTES + 1], id[ID_BYTES + 1];
    or_chat_json_t arguments;
} call_t;

static bool eat(scan_t *scan, const char *mark)
{
    const size_t length = mark != NULL ? strlen(mark) : 0;
    const bool is_next =
        (size_t)(scan->end - scan->at) >= length && memcmp(scan->at, mark, length) == 0;
    scan->at += is_next ? length : 0;
    return is_next;
}

static void skip_spaces(scan_t *scan)
{
    while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL && *scan->at != '\0') {
        scan->at++;
    }
}

static bool eat_object(scan_t *scan, or_chat_json_t *object)
{
    skip_spaces(scan);
    *object =
        (or_chat_json_t){scan->at, or_chat_json_length(scan->at, (size_t)(scan->end - scan->at))};
    scan->at += object->length;
    return object->length > 0 && object->text[0] == '{';
}

static bool take_name(call_t *call, const char *name, size_t length)
{
    if (!or_chat_is_call_name(name, length)) {
        return false;
    }
    snprintf(call->name, sizeof call->name, "%.*s", (int)length, name);
    return true;
}

static bool is_key(const or_chat_json_t *key, const char *name)
{
    const size_t length = strlen(name);
    return key->length == length + 2 && memcmp(key->text + 1, name, length) == 0;
}

// {"name": "f", "arguments": {...}}, whatever else it has.
static bool read_object(const or_chat_tools_t *format, scan_t *scan, call_t *call)
{
    or_chat_json_t object, key, value;
    size_t at = 0;
    bool good = eat_object(scan, &object), named = false, has_arguments = false;
    while (good && or_chat_json_next(&object, &at, &key, &value)) {
        if (is_key(&key, "name")) {
            named = true;
            good = value.text[0] == '"' && take_name(call, value.text + 1, value.length - 2);
        } else if (is_key(&key, format->reads.key) || is_key(&key, "arguments")) {
            has_arguments = true;
            good = value.text[0] == '{';
            call->arguments = value;
        }
    }
    call->id[0] = '\0';
    return good && named && has_arguments;
}

// Kimi's "functions.f:0" is an id that has the name in it.
static bool take_word(const or_chat_tools_t *format, call_t *call, const char *word, size_t length)
{
    static const char prefix[] = "functions.";
    call->id[0] = '\0';
    if (format->reads.call == NULL) {
        return take_name(call, word, length);
    }
    const size_t skipped = sizeof prefix - 1;
    const char *colon = memrchr(word, ':', length);
    const char *name =
        length > skipped && memcmp(word, prefix, skipped) == 0 ? word + skipped : word;
    if (colon == NULL || colon < name || length > ID_BYTES || memchr(word, '\0', length) != NULL) {
        return false;
    }
    snprintf(call->id, sizeof call->id, "%.*s", (int)length, word);
    return take_name(call, name, (size_t)(colon - name));
}

// The text up to a mark, without white space around it. False: it is not there, or too far away.
static bool eat_word(scan_t *scan, const char *mark, const char **word, size_t *length)
{
    skip_spaces(scan);
    const size_t left = (size_t)(scan->end - scan->at), most = ID_BYTES + strlen(mark);
    const char *found = memmem(scan->at, left < most ? left : most, mark, strlen(mark));
    *word = scan->at;
    if (found == NULL) {
        return false;
    }
    const char *over = found;
    while (over > *word && strchr(" \t\r\n", over[-1]) != NULL && over[-1] != '\0') {
        over--;
    }
    *length = (size_t)(over - *word);
    scan->at = found + strlen(mark);
    return true;
}

// A name, perhaps an id, and an object of arguments, with marks between them.
static bool read_named(const or_chat_tools_t *format, scan_t *scan, call_t *call)
{
    const char *word, *id, *id_mark = format->reads.id;
    size_t length, id_length;
    if (format->reads.call != NULL && !eat(scan, format->reads.call)) {
        return false;
    }
    scan_t with_id = *scan;
    const bool has_id = id_mark != NULL && eat_word(&with_id, id_mark, &word, &length) &&
                        eat_word(&with_id, format->reads.arguments, &id, &id_length) &&
                        or_chat_is_call_name(word, length);
    if (has_id) {
        *scan = with_id;
    } else if (!eat_word(scan, format->reads.arguments, &word, &length)) {
        return false;
    }
    if (!take_word(format, call, word, length) || !eat_object(scan, &call->arguments)) {
        return false;
    }
    skip_spaces(scan);
    return format->reads.over == NULL || eat(scan, format->reads.over);
}

static or_status_t give(const call_t *call, const or_chat_call_sink_t *sink)
{
    const or_chat_call_t given = {.name = call->name,
                                  .arguments = call->arguments.text,
                                  .arguments_bytes = call->arguments.length,
                                  .id = call->id};
    return sink->call(sink->context, &given);
}

// Does another call follow in the same group?
static bool goes_on(const or_chat_tools_t *format, scan_t *scan)
{
    scan_t ahead = *scan;
    if (format->reads.kind == OR_CALLS_ARRAY) {
        return eat(scan, ",");
    }
    if (format->reads.bare) {
        (void)eat(scan, ";");
        skip_spaces(scan);
        return scan->at < scan->end;
    }
    return format->reads.call != NULL && eat(&ahead, format->reads.call);
}

// Is what stands behind the calls of a group its end?
static bool eat_end(const or_chat_tools_t *format, scan_t *scan)
{
    bool ends = format->reads.kind != OR_CALLS_ARRAY || eat(scan, "]");
    skip_spaces(scan);
    return ends && (format->reads.end == NULL || eat(scan, format->reads.end));
}

// Read the group of calls that a text begins with. *used: its bytes, 0 where there is none that is complete and well formed; then
// the sink, which may be NULL, has had some calls nevertheless.
static or_status_t read_group(const or_chat_tools_t *format, const char *text, size_t length,
                              bool first, const or_chat_call_sink_t *sink, size_t *used)
{
    scan_t scan = {text, text + length};
    call_t call = {0};
    or_status_t status = OR_OK;
    *used = 0;
    bool good = eat(&scan, format->reads.begin) || (format->reads.bare && first);
    skip_spaces(&scan);
    good = good && (format->reads.kind != OR_CALLS_ARRAY || eat(&scan, "["));
    bool more = good;
    while (status == OR_OK && more) {
        skip_spaces(&scan);
        good = format->reads.kind == OR_CALLS_NAMED ? read_named(format, &scan, &call)
                                                    : read_object(format, &scan, &call);
        status = good && sink != NULL ? give(&call, sink) : OR_OK;
        skip_spaces(&scan);
        more = good && goes_on(format, &scan);
    }
    if (status == OR_OK && good && eat_end(format, &scan)) {
        skip_spaces(&scan);
        *used = (size_t)(scan.at - text);
    }
    return status;
}

static or_status_t give_text(const char *from, const char *until, const or_chat_call_sink_t *sink)
{
    return until > from ? sink->text(sink->context, from, (size_t)(until - from)) : OR_OK;
}

or_status_t or_chat_calls_read(const or_chat_tools_t *format, const char *text, size_t length,
                               const or_chat_call_sink_t *sink)
{
    const char *begin = format->reads.begin, *at = text, *kept = text, *const end = text + length;
    or_status_t status = OR_OK;
    while (status == OR_OK && at < end) {
        const bool first = at == text;
        const size_t left = (size_t)(end - at);
        size_t used;
        (void)read_group(format, at, left, first, NULL, &used);
        if (used > 0) { // whole: now it counts
            status = give_text(kept, at, sink);
            status = status == OR_OK ? read_group(format, at, left, first, sink, &used) : status;
            at += used;
            kept = at;
        } else {
            const char *next = memmem(at + 1, left - 1, begin, strlen(begin));
            at = next != NULL ? next : end;
        }
    }
    return status == OR_OK ? give_text(kept, end, sink) : status;
}
