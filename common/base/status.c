#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024

static _Thread_local char error_text[TEXT_BYTES];

const char *or_status_name(or_status_t status)
{
    static const char *const names[] = {
        [OR_OK] = "ok",
        [OR_ERR_INVALID] = "invalid",
        [OR_ERR_NO_MEMORY] = "no memory",
        [OR_ERR_IO] = "i/o error",
        [OR_ERR_FORMAT] = "bad format",
        [OR_ERR_UNSUPPORTED] = "unsupported",
        [OR_ERR_FULL] = "full",
        [OR_ERR_NOT_FOUND] = "not found",
        [OR_ERR_TIMEOUT] = "timed out",
        [OR_ERR_UNREACHABLE] = "unreachable",
        [OR_ERR_MISMATCH] = "mismatch",
        [OR_ERR_AGAIN] = "try again",
        [OR_ERR_CANCELLED] = "cancelled",
    };
    size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown status";
}

or_status_t or_fail(or_status_t status, const char *format, ...)
{
    char text[TEXT_BYTES]; // the arguments may contain the old text
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(error_text, text, sizeof text);
    return status;
}

or_status_t or_fail_context(or_status_t status, const char *format, ...)
{
    if (status == OR_OK) {
        return status;
    }
    char context[TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    return or_fail(status, "%s: %s", context, error_text);
}

const char *or_error_text(void)
{
    return error_text;
}
