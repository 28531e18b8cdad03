// chat_tools - tools that a chat model may call: the formats in which models write them.
//
//     <tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>
//     └ begins a call                                                └ ends it
//
// Each format is a table row (chat_tool_forms.c): how a prompt lists tools, and writes calls and their results, as the published
// templates do, and how an answer's calls are read. A family may have several, or none. Immutable: any thread.
#pragma once

#include "common/text/chat/chat.h"

// The longest name of a function, and the bytes of text that wait for the end of a call.
#define OR_CHAT_CALL_NAME_BYTES 128u
#define OR_CHAT_CALL_BYTES_MAX ((size_t)256 << 10)

// The format of a model's file, whose family is `chat`. NULL: its template has none that we know.
const or_chat_tools_t *or_chat_tools_of_model(const or_gguf_t *gguf, const or_chat_t *chat);
// The format by name; NULL: there is none.
const or_chat_tools_t *or_chat_tools_by_name(const char *name);
const char *or_chat_tools_name(const or_chat_tools_t *format);
// Is this the spelling of a mark of calls?
bool or_chat_tools_is_mark(const or_chat_tools_t *format, const char *text, size_t length);
// The calls that a message may have; 0: any number.
size_t or_chat_tools_calls_max(const or_chat_tools_t *format);

// May a function be called so? Letters, digits and "_-.", which need no quoting in any format.
bool or_chat_is_call_name(const char *name, size_t length);

// Calls that were read, in the order of the text, and the text that is none. All borrowed for the call.
typedef struct {
    or_status_t (*text)(void *context, const char *bytes, size_t count);
    or_status_t (*call)(void *context, const or_chat_call_t *call);
    void *context;
} or_chat_call_sink_t;

// Take apart a whole text in which tools may be called, marks spelled out. Text that is no complete and well-formed call
// stays text, whole, and swallows no call behind it. White space between and behind calls belongs to them. Fails as the sink does.
or_status_t or_chat_calls_read(const or_chat_tools_t *format, const char *text, size_t length,
                               const or_chat_call_sink_t *sink);
