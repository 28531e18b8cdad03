#include "common/base/options/program.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BYTES (1 << 20)
#define FREE_BYTES (1 << 20) // that a heap may keep for what comes next

static void open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            // The lowest free number is `fd`: those below are open by now. Should it fail, we are
            // no worse off.
            (void)open("/dev/null", O_RDWR);
        }
    }
}

void or_program_begin(void)
{
    open_standard_descriptors();
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD,
            LARGE_BYTES); // glibc would raise it with every large block that is freed
#endif
}

void or_program_trim(void)
{
#ifdef __GLIBC__
    if (mallinfo2().fordblks > FREE_BYTES) {
        malloc_trim(0);
    }
#endif
}

int or_program_end(int code)
{
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (!lost || code != 0) {
        return code;
    }
    fprintf(stderr, "cannot write to standard output%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    return 1;
}
