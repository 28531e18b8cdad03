#include "launch/generate/output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/utf8.h"

static or_status_t fail_write(void)
{
    return or_fail(OR_ERR_IO, "cannot write to standard output: %s", strerror(errno));
}

or_status_t or_output_write(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written < 0 && errno != EINTR) {
            return fail_write();
        }
        text += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return OR_OK;
}

or_status_t or_output_flush(void)
{
    return fflush(stdout) == 0 ? OR_OK : fail_write();
}

or_status_t or_output_json(json_t *root, unsigned digits)
{
    char *dump = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(digits)) : NULL;
    json_decref(root);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    puts(dump);
    free(dump);
    return OR_OK;
}

json_t *or_output_json_text(const char *text, size_t length)
{
    char *clean = malloc(OR_UTF8_REPLACEMENT_BYTES * length + 1);
    size_t bytes = 0, used = 0;
    if (clean == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < length; i += used) {
        bool whole = or_utf8_next(text + i, length - i, &used) == OR_UTF8_CHARACTER;
        size_t put = whole ? used : OR_UTF8_REPLACEMENT_BYTES;
        memcpy(clean + bytes, whole ? text + i : OR_UTF8_REPLACEMENT, put);
        bytes += put;
    }
    json_t *string = json_stringn(clean, bytes);
    free(clean);
    return string;
}

json_t *or_output_json_number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

void or_output_cell(FILE *out, int width, int decimals, double value)
{
    if (isnan(value)) {
        fprintf(out, " %*s", width, "-");
    } else {
        fprintf(out, " %*.*f", width, decimals, value);
    }
}

void or_output_share(FILE *out, double share)
{
    if (isnan(share)) {
        fprintf(out, " %6s", "-");
    } else {
        fprintf(out, " %5.1f%%", 100 * share);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double or_output_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
