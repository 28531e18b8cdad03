// A disk whose fsync takes OUTRIDER_SYNC_MS more once the file OUTRIDER_SYNC_FROM is there: for LD_PRELOAD.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void)
{
    const char *text = getenv("OUTRIDER_SYNC_MS");
    const char *from = getenv("OUTRIDER_SYNC_FROM");
    long ms = text != NULL && from != NULL && access(from, F_OK) == 0 ? strtol(text, NULL, 10) : 0;
    const struct timespec delay = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&delay, NULL);
}

int fsync(int fd)
{
    wait_for_disk();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    wait_for_disk();
    return (int)syscall(SYS_fdatasync, fd);
}
