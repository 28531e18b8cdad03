#include "launch/generate/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

or_status_t or_output_write(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written < 0 && errno != EINTR) {
            return or_fail(OR_ERR_IO, "cannot write to standard output: %s", strerror(errno));
        }
        text += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return OR_OK;
}
