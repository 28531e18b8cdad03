#include "tests/model/disk/streamed_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/packed.h"
#include "tests/support/packed_file.h"
#include "tests/support/test_support.h"
#include "tests/support/thread_world.h"

#define LATE_US 100000u

static _Atomic disk_t disk;
static _Atomic uint64_t calls, bytes_read;

ssize_t __real_pread(int fd, void *to, size_t count, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t count, off_t at);

ssize_t __wrap_pread(int fd, void *to, size_t count, off_t at)
{
    const uint64_t call = atomic_fetch_add(&calls, 1);
    const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    const struct timespec times[2] = {{1, 1}, {1, 1}};
    atomic_fetch_add(&bytes_read, count);
    switch (atomic_load(&disk)) {
    case DISK_SHORT:
        if (call % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        count = count > OR_PACKED_ALIGNMENT ? OR_PACKED_ALIGNMENT : count;
        break;
    case DISK_NOT_DIRECT:
        if (direct) {
            errno = EINVAL;
            return -1;
        }
        break;
    case DISK_LATE:
        usleep(LATE_US);
        // fall through
    case DISK_BROKEN:
        errno = EIO;
        return -1;
    case DISK_ENDED:
        return 0;
    case DISK_TOUCHED:
        (void)!utimensat(AT_FDCWD, packed_path, times, 0);
        break;
    case DISK_GOOD:
        break;
    }
    return __real_pread(fd, to, count, at);
}

void disk_becomes(disk_t kind)
{
    atomic_store(&disk, kind);
}

uint64_t disk_bytes_read(void)
{
    return atomic_load(&bytes_read);
}

void disk_count_anew(void)
{
    atomic_store(&bytes_read, 0);
}

// ---- the least memory ----

or_model_options_t with_memory(uint64_t bytes)
{
    return (or_model_options_t){.threads = 1, .packed = packed_path, .weights_memory = bytes};
}

static uint64_t named_bytes(const char *sentence)
{
    static const char words[] = "at least ";
    const char *at = strstr(sentence, words);
    return at != NULL ? strtoull(at + strlen(words), NULL, 10) * 1024 : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t least_memory_with(const char *path, int size, int stages, uint32_t rows_max)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    thread_world_t *world = thread_world_create(size, stages);
    or_model_options_t options = with_memory(1);
    options.rows_max = rows_max;
    thread_world_follow(world, path, &options);
    or_model_options_t leads = options;
    leads.ranks = thread_world_ranks(world, 0);
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &leads, &model), OR_ERR_INVALID);
    uint64_t least = named_bytes(or_error_text());
    assert_true(least > 0);
    or_gguf_close(&gguf);
    or_status_t others = thread_world_join(world);
    assert_true(size * stages == 1 || others != OR_OK);
    for (int i = 1; i < size * stages; i++) {
        least = larger(least, named_bytes(thread_world_error(world, i)));
    }
    thread_world_destroy(&world);
    return least;
}

uint64_t least_memory(const char *path, int size, int stages)
{
    return least_memory_with(path, size, stages, 0);
}
