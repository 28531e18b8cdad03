#include "tests/fuzz/given_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define PAGE 4096u

// The linker replaces open, mmap, munmap and madvise by these (CMakeLists.txt).
int __wrap_open(const char *path, int flags, ...);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);
int __wrap_madvise(void *address, size_t length, int advice);

typedef struct {
    const char *path; // NULL: there is no such file
    const uint8_t *bytes;
    size_t count;
} file_t;

static file_t files[GIVEN_FILES_MAX];

void given_files_put(size_t index, const char *path, const uint8_t *bytes, size_t count)
{
    assert(index < GIVEN_FILES_MAX);
    files[index] = (file_t){path, bytes, count};
}

int __wrap_open(const char *path, int flags, ...)
{
    (void)flags;
    for (size_t i = 0; i < GIVEN_FILES_MAX; i++) {
        if (files[i].path != NULL && strcmp(path, files[i].path) == 0) {
            int fd = memfd_create("fuzz", MFD_CLOEXEC);
            ssize_t wrote = pwrite(fd, files[i].bytes, files[i].count, 0);
            assert(fd >= 0 && wrote == (ssize_t)files[i].count);
            return fd;
        }
    }
    errno = ENOENT;
    return -1;
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    void *copy = NULL;
    assert(address == NULL && protection == PROT_READ && flags != 0);
    if (posix_memalign(&copy, PAGE, length) != 0) {
        return MAP_FAILED;
    }
    ssize_t got = pread(fd, copy, length, offset);
    assert(got == (ssize_t)length);
    return copy;
}

int __wrap_munmap(void *address, size_t length)
{
    (void)length;
    free(address);
    return 0;
}

// No file is behind this memory to bring it back.
int __wrap_madvise(void *address, size_t length, int advice)
{
    (void)address;
    (void)length;
    (void)advice;
    return 0;
}
