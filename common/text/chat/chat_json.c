#include "common/text/chat/chat_json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

// ---- reading ----

typedef struct {
    const char *at, *end;
} scan_t;

static bool is_next(const scan_t *scan, char c)
{
    return scan->at < scan->end && *scan->at == c;
}

static bool take(scan_t *scan, char c)
{
    bool taken = is_next(scan, c);
    scan->at += taken;
    return taken;
}

static void skip_spaces(scan_t *scan)
{
    while (is_next(scan, ' ') || is_next(scan, '\n') || is_next(scan, '\t') ||
           is_next(scan, '\r')) {
        scan->at++;
    }
}

static size_t skip_digits(scan_t *scan)
{
    const char *begin = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        scan->at++;
    }
    return (size_t)(scan->at - begin);
}

static bool skip_number(scan_t *scan)
{
    (void)take(scan, '-');
    const bool zero = is_next(scan, '0');
    const size_t digits = skip_digits(scan);
    bool good = digits == 1 || (digits > 1 && !zero);
    if (good && take(scan, '.')) {
        good = skip_digits(scan) > 0;
    }
    if (good && (take(scan, 'e') || take(scan, 'E'))) {
        (void)(take(scan, '-') || take(scan, '+'));
        good = skip_digits(scan) > 0;
    }
    return good;
}

// The number that four hexadecimal digits are; -1: they are none.
static int32_t hex_of(const char *at, const char *end)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = at + i < end ? at[i] : '\0';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    return code;
}

static bool is_high(int32_t code)
{
    return code >= 0xD800 && code < 0xDC00;
}

static bool is_low(int32_t code)
{
    return code >= 0xDC00 && code < 0xE000;
}

// Take what follows a backslash: half of a pair of surrogates is no character. *code: the character; -1: no escape.
static void take_escape(scan_t *scan, int32_t *code)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = scan->at < scan->end ? *scan->at++ : '\0';
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    *code = name != NULL ? meant[name - names] : -1;
    if (c != 'u') {
        return;
    }
    const int32_t first = hex_of(scan->at, scan->end);
    scan->at += first >= 0 ? 4 : 0;
    *code = is_high(first) || is_low(first) ? -1 : first;
    if (is_high(first) && scan->end - scan->at >= 6 && scan->at[0] == '\\' && scan->at[1] == 'u') {
        const int32_t second = hex_of(scan->at + 2, scan->end);
        *code = is_low(second) ? 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00) : -1;
        scan->at += 6;
    }
}

static bool skip_string(scan_t *scan)
{
    if (!take(scan, '"')) {
        return false;
    }
    while (scan->at < scan->end && *scan->at != '"' && (unsigned char)*scan->at >= 0x20) {
        int32_t code = 0;
        if (*scan->at++ == '\\') {
            take_escape(scan, &code);
        }
        if (code < 0) {
            return false;
        }
    }
    return take(scan, '"');
}

static bool skip_word(scan_t *scan, const char *word)
{
    const size_t length = strlen(word);
    const bool is_it =
        (size_t)(scan->end - scan->at) >= length && memcmp(scan->at, word, length) == 0;
    scan->at += is_it ? length : 0;
    return is_it;
}

static bool skip_value(scan_t *scan, unsigned depth);

static bool skip_key(scan_t *scan)
{
    bool good = skip_string(scan);
    skip_spaces(scan);
    good = good && take(scan, ':');
    skip_spaces(scan);
    return good;
}

// Skip what stands between brackets, the first of which is taken.
// NOLINTNEXTLINE(misc-no-recursion): as deep as OR_CHAT_JSON_DEPTH_MAX
static bool skip_entries(scan_t *scan, char closing, unsigned depth)
{
    skip_spaces(scan);
    if (take(scan, closing)) {
        return true;
    }
    do {
        skip_spaces(scan);
        if ((closing == '}' && !skip_key(scan)) || !skip_value(scan, depth)) {
            return false;
        }
        skip_spaces(scan);
    } while (take(scan, ','));
    return take(scan, closing);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as OR_CHAT_JSON_DEPTH_MAX
static bool skip_value(scan_t *scan, unsigned depth)
{
    const bool is_object = take(scan, '{');
    if (is_object || take(scan, '[')) {
        return depth > 0 && skip_entries(scan, is_object ? '}' : ']', depth - 1);
    }
    return is_next(scan, '"') ? skip_string(scan)
                              : skip_word(scan, "true") || skip_word(scan, "false") ||
                                    skip_word(scan, "null") || skip_number(scan);
}

size_t or_chat_json_length(const char *text, size_t length)
{
    scan_t scan = {text, text + length};
    return skip_value(&scan, OR_CHAT_JSON_DEPTH_MAX) ? (size_t)(scan.at - text) : 0;
}

bool or_chat_json_next(const or_chat_json_t *whole, size_t *at, or_chat_json_t *key,
                       or_chat_json_t *value)
{
    scan_t scan = {whole->text + (*at > 0 ? *at : 1), whole->text + whole->length};
    skip_spaces(&scan);
    (void)take(&scan, ',');
    skip_spaces(&scan);
    *key = (or_chat_json_t){0};
    if (is_next(&scan, '}') || is_next(&scan, ']')) {
        return false;
    }
    if (whole->text[0] == '{') {
        const char *begin = scan.at;
        (void)skip_string(&scan);
        *key = (or_chat_json_t){begin, (size_t)(scan.at - begin)};
        skip_spaces(&scan);
        (void)take(&scan, ':');
        skip_spaces(&scan);
    }
    const char *begin = scan.at;
    const bool good = skip_value(&scan, OR_CHAT_JSON_DEPTH_MAX);
    *value = (or_chat_json_t){begin, (size_t)(scan.at - begin)};
    *at = (size_t)(scan.at - whole->text);
    return good;
}

// ---- writing ----

void or_chat_buffer_add(or_chat_buffer_t *buffer, const char *bytes, size_t count)
{
    const size_t most = buffer->most > 0 ? buffer->most : OR_CHAT_JSON_BYTES_MAX;
    buffer->failed = buffer->failed || buffer->length + count > most ||
                     !or_array_reserve(&buffer->bytes, &buffer->capacity, buffer->length, count, 1);
    if (!buffer->failed && count > 0) {
        memcpy(buffer->bytes + buffer->length, bytes, count);
        buffer->length += count;
    }
}

static void say(or_chat_buffer_t *buffer, const char *words)
{
    or_chat_buffer_add(buffer, words, strlen(words));
}

static void write_escaped(char c, or_chat_buffer_t *buffer)
{
    static const char meant[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    char text[8] = {c};
    const char *found = c != '\0' ? strchr(meant, c) : NULL;
    if (found != NULL) {
        snprintf(text, sizeof text, "\\%c", names[found - meant]);
    } else if ((unsigned char)c < 0x20) {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)c);
    }
    or_chat_buffer_add(buffer, text, c == '\0' || text[1] != '\0' ? strlen(text) : 1);
}

void or_chat_json_write_string(const char *text, size_t length, or_chat_buffer_t *buffer)
{
    say(buffer, "\"");
    for (size_t i = 0; i < length; i++) {
        write_escaped(text[i], buffer);
    }
    say(buffer, "\"");
}

static size_t put_utf8(int32_t code, char text[4])
{
    static const unsigned char firsts[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count; i > 1; i--) {
        text[i - 1] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    text[0] = (char)(firsts[count] | code);
    return count;
}

void or_chat_json_write_text(const or_chat_json_t *string, or_chat_buffer_t *buffer)
{
    scan_t scan = {string->text + 1, string->text + string->length - 1};
    while (scan.at < scan.end) {
        const char *begin = scan.at++;
        char character[4] = {*begin};
        size_t count = 1;
        if (*begin == '\\') {
            int32_t code;
            take_escape(&scan, &code);
            count = put_utf8(code, character);
        }
        or_chat_buffer_add(buffer, character, count);
    }
}

// Write a string as Python does, which escapes less than others may have.
static void rewrite_string(const or_chat_json_t *string, or_chat_buffer_t *buffer)
{
    or_chat_buffer_t text = {0};
    or_chat_json_write_text(string, &text);
    or_chat_json_write_string(text.bytes, text.length, buffer);
    buffer->failed = buffer->failed || text.failed;
    free(text.bytes);
}

// Write the shortest digits that are this number, as Python's repr does.
static void write_real(double number, or_chat_buffer_t *buffer)
{
    char text[64], digits[32];
    int count = 1;
    if (isinf(number)) {
        say(buffer, number < 0 ? "-Infinity" : "Infinity");
        return;
    }
    do {
        snprintf(text, sizeof text, "%.*e", count - 1, number);
    } while (strtod(text, NULL) != number && count++ < 17);
    const int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        say(buffer, text);
        return;
    }
    const int behind = count - 1 - exponent;
    snprintf(digits, sizeof digits, "%.*f", behind > 1 ? behind : 1, number);
    say(buffer, digits);
}

static void write_number(const or_chat_json_t *value, or_chat_buffer_t *buffer)
{
    bool is_real = false;
    for (size_t i = 0; i < value->length; i++) {
        is_real = is_real || strchr(".eE", value->text[i]) != NULL;
    }
    if (!is_real) {
        const bool is_zero = value->length == 2 && memcmp(value->text, "-0", 2) == 0;
        or_chat_buffer_add(buffer, value->text + is_zero, value->length - is_zero);
        return;
    }
    or_chat_buffer_t copy = {0};
    or_chat_buffer_add(&copy, value->text, value->length);
    or_chat_buffer_add(&copy, "", 1);
    buffer->failed = buffer->failed || copy.failed;
    if (!copy.failed) {
        write_real(strtod(copy.bytes, NULL), buffer);
    }
    free(copy.bytes);
}

// Begin a line at this depth; `spaces`: there are no lines.
static void write_line(unsigned indent, unsigned depth, const char *spaces,
                       or_chat_buffer_t *buffer)
{
    say(buffer, indent > 0 ? "\n" : spaces);
    for (unsigned i = 0; i < indent * depth && !buffer->failed; i++) {
        say(buffer, " ");
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as OR_CHAT_JSON_DEPTH_MAX
static void write_value(const or_chat_json_t *value, unsigned indent, unsigned depth,
                        or_chat_buffer_t *buffer)
{
    const char first = value->text[0];
    or_chat_json_t key, entry;
    size_t at = 0, count = 0;
    if (first == '"') {
        rewrite_string(value, buffer);
    } else if (first == '-' || (first >= '0' && first <= '9')) {
        write_number(value, buffer);
    } else if (first != '{' && first != '[') {
        or_chat_buffer_add(buffer, value->text, value->length);
    } else {
        or_chat_buffer_add(buffer, &first, 1);
        for (; !buffer->failed && or_chat_json_next(value, &at, &key, &entry); count++) {
            say(buffer, count > 0 ? "," : "");
            write_line(indent, depth + 1, count > 0 ? " " : "", buffer);
            if (key.length > 0) {
                rewrite_string(&key, buffer);
                say(buffer, ": ");
            }
            write_value(&entry, indent, depth + 1, buffer);
        }
        if (count > 0) {
            write_line(indent, depth, "", buffer);
        }
        say(buffer, first == '{' ? "}" : "]");
    }
}

void or_chat_json_write(const or_chat_json_t *value, unsigned indent, or_chat_buffer_t *buffer)
{
    write_value(value, indent, 0, buffer);
}
