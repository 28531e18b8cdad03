// A disk and a clock that fail on demand, in a program that knows nothing of it: for LD_PRELOAD.
//
// OUTRIDER_FAULTS names a file of words, which may change while the program runs (a test replaces it by rename):
//
//     under=FOLDER    the faults of the disk are of files below it; without, of none
//     sync_ms=N       fsync and fdatasync take N ms longer
//     fail=ENOSPC     writes that make a file longer, or EIO: every write and sync, fail
//     short=N         a write takes N bytes at most
//     clock_s=N       the wall clock is N seconds ahead; behind, below 0. The monotonic one is right
//     memory=N        one in N allocations of the program's own code, and of libjansson, fails
//
// OUTRIDER_FAIL_MALLOC=N lets the Nth of these fail. What other libraries allocate for themselves is not counted: libzmq ends a
// process that has no memory, and no program can help that.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    char under[256];
    long sync_ms, clock_s, memory;
    size_t short_bytes; // 0: writes are whole
    int error;          // 0: none
} faults_t;

// ---- what is wrong at this moment ----

static long number_of(const char *words, const char *name)
{
    const char *at = strstr(words, name);
    return at != NULL ? strtol(at + strlen(name), NULL, 10) : 0;
}

// System calls throughout: the functions are ours.
static faults_t now_wrong(void)
{
    faults_t faults = {0};
    char words[512] = "";
    const char *path = getenv("OUTRIDER_FAULTS");
    int fd = path != NULL ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return faults;
    }
    long bytes = syscall(SYS_read, fd, words, sizeof words - 1);
    (void)syscall(SYS_close, fd);
    words[bytes > 0 ? bytes : 0] = '\0';
    const char *under = strstr(words, "under=");
    if (under != NULL) {
        (void)sscanf(under, "under=%255s", faults.under);
    }
    faults.sync_ms = number_of(words, "sync_ms=");
    faults.clock_s = number_of(words, "clock_s=");
    faults.memory = number_of(words, "memory=");
    faults.short_bytes = (size_t)number_of(words, "short=");
    faults.error = strstr(words, "fail=ENOSPC") != NULL ? ENOSPC
                   : strstr(words, "fail=EIO") != NULL  ? EIO
                                                        : 0;
    return faults;
}

// The faults of the file behind fd.
static faults_t wrong_with(int fd)
{
    int kept = errno;
    faults_t faults = now_wrong();
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = faults.under[0] != '\0' ? readlink(link, path, sizeof path - 1) : -1;
    path[bytes > 0 ? bytes : 0] = '\0';
    if (bytes <= 0 || strncmp(path, faults.under, strlen(faults.under)) != 0) {
        faults = (faults_t){0};
    }
    errno = kept;
    return faults;
}

// ---- disk ----

static int sync_late(int fd, long call)
{
    faults_t faults = wrong_with(fd);
    const struct timespec delay = {.tv_sec = faults.sync_ms / 1000,
                                   .tv_nsec = faults.sync_ms % 1000 * 1000000};
    nanosleep(&delay, NULL);
    if (faults.error == EIO) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return sync_late(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_late(fd, SYS_fdatasync);
}

// Bytes that a write of so many may take; -1 with errno if it fails. An empty disk takes no byte.
static ssize_t taken(int fd, size_t bytes)
{
    faults_t faults = wrong_with(fd);
    if (faults.error != 0 && bytes > 0) {
        errno = faults.error;
        return -1;
    }
    return (ssize_t)(faults.short_bytes > 0 && faults.short_bytes < bytes ? faults.short_bytes
                                                                          : bytes);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    ssize_t most = taken(fd, bytes);
    return most < 0 ? most : syscall(SYS_write, fd, from, most);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    ssize_t most = taken(fd, bytes);
    return most < 0 ? most : syscall(SYS_pwrite64, fd, from, most, at);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off_t at)
{
    return pwrite(fd, from, bytes, at);
}

// A short one takes of its first piece alone.
ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += pieces[i].iov_len;
    }
    ssize_t most = taken(fd, bytes);
    if (most < 0 || (size_t)most == bytes) {
        return most < 0 ? most : syscall(SYS_writev, fd, pieces, count);
    }
    size_t first = pieces[0].iov_len;
    return syscall(SYS_write, fd, pieces[0].iov_base, (size_t)most < first ? (size_t)most : first);
}

int ftruncate(int fd, off_t length)
{
    struct stat now;
    faults_t faults = wrong_with(fd);
    bool grows = fstat(fd, &now) == 0 && length > now.st_size;
    if (faults.error == EIO || (faults.error == ENOSPC && grows)) {
        errno = faults.error;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, fd, length);
}

// ---- clock ----

int clock_gettime(clockid_t clock, struct timespec *to)
{
    int result = (int)syscall(SYS_clock_gettime, clock, to);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int kept = errno;
        to->tv_sec += now_wrong().clock_s;
        errno = kept;
    }
    return result;
}

time_t time(time_t *to)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL) {
        *to = now.tv_sec;
    }
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *to = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

// ---- memory ----

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

typedef struct {
    uintptr_t begin, end;
} code_t;

static code_t own, jansson;
static long refused = -1, counted;

static code_t code_of(const struct dl_phdr_info *info)
{
    code_t code = {0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            code.begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code.end = code.begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return code;
}

// The first one is the program.
static int find_code(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    if (own.end == 0) {
        own = code_of(info);
    } else if (strstr(info->dlpi_name, "/libjansson.") != NULL) {
        jansson = code_of(info);
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *nth = getenv("OUTRIDER_FAIL_MALLOC");
    dl_iterate_phdr(find_code, NULL);
    refused = nth != NULL ? strtol(nth, NULL, 10) : -1;
}

static bool is_of(code_t code, uintptr_t at)
{
    return at >= code.begin && at < code.end;
}

static bool is_refused(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (!is_of(own, at) && !is_of(jansson, at)) {
        return false;
    }
    int kept = errno;
    long nth = __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED), each = now_wrong().memory;
    errno = kept;
    return nth == refused || (each > 0 && nth % each == 0);
}

void *malloc(size_t bytes)
{
    if (is_refused(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    if (is_refused(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    if (is_refused(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(memory, bytes);
}
