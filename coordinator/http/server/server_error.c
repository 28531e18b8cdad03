// server_error - answers that say what went wrong, in OpenAI's shape.
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/server/server_internal.h"

static const char *type_of(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

// A client's own bytes may be in it, and they need not be UTF-8.
static json_t *text_of(char *message)
{
    json_t *text = json_string(message);
    for (char *at = message; text == NULL && *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    }
    return text != NULL ? text : json_string(message);
}

static char *error_body(unsigned status, const char *param, const char *code, char *message)
{
    json_t *error = json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text_of(message),
                              "type", type_of(status), "param", param, "code", code);
    char *body = error != NULL ? json_dumps(error, JSON_COMPACT) : NULL;
    json_decref(error);
    return body;
}

void or_http_reply_error(or_http_call_t *call, unsigned status, const char *param, const char *code,
                         const char *format, ...)
{
    char *message = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&message, format, arguments);
    va_end(arguments);
    char *body = length >= 0 ? error_body(status, param, code, message) : NULL;
    if (body != NULL) {
        or_http_reply(call, status, "application/json", body, strlen(body));
        free(body);
    } else {
        or_http_connection_cut(call->connection);
    }
    if (length >= 0) {
        free(message);
    }
}
