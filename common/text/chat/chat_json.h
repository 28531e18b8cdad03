// chat_json - JSON text in prompts and answers: where a value ends, and how a template writes it.
//
//     {"a":[1.50,"\u00e9"]}   as   {"a": [1.5, "é"]}
//
// Values are written as Python's json.dumps does with ensure_ascii False, which is what templates call tojson: keys keep their
// order. No tree is made of them. Pure: any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

#define OR_CHAT_JSON_DEPTH_MAX 64u
#define OR_CHAT_JSON_BYTES_MAX ((size_t)4 << 20) // written; indents make much of little

// The text of a value, borrowed. Functions that take one trust that or_chat_json_length has measured it.
typedef struct {
    const char *text;
    size_t length;
} or_chat_json_t;

// The bytes of the whole JSON value at the beginning of a text, in which no white space stands before it. 0: there is none,
// or it is deeper than OR_CHAT_JSON_DEPTH_MAX. Bytes of strings need not be UTF-8.
size_t or_chat_json_length(const char *text, size_t length);

// Go through an object's members, or an array's values, whose key is {NULL, 0}; *at begins as 0. The key has its
// quotes. False: there is no further one.
bool or_chat_json_next(const or_chat_json_t *whole, size_t *at, or_chat_json_t *key,
                       or_chat_json_t *value);

// Text that grows. The caller frees `bytes`.
typedef struct {
    char *bytes;
    size_t length, capacity;
    size_t most; // bytes; 0: OR_CHAT_JSON_BYTES_MAX
    bool failed; // for want of memory or of room
} or_chat_buffer_t;
void or_chat_buffer_add(or_chat_buffer_t *buffer, const char *bytes, size_t count);

// Write a value; with `indent` spaces a level each on a line of its own, 0: on one line.
void or_chat_json_write(const or_chat_json_t *value, unsigned indent, or_chat_buffer_t *buffer);
// Write the text that a JSON string stands for, as it is.
void or_chat_json_write_text(const or_chat_json_t *string, or_chat_buffer_t *buffer);
// Write a text as a JSON string.
void or_chat_json_write_string(const char *text, size_t length, or_chat_buffer_t *buffer);
