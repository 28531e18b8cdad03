#include "launch/speed/memory_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"

#define CACHE_UNKNOWN (32ul << 20) // bytes
#define AREA_CACHES 4u
#define AREA_LEAST (128ul << 20)
#define AREA_MOST (512ul << 20)
#define HUGE_PAGE (2ul << 20)
#define ITEM_BYTES (1ul << 20) // that a thread takes at a time
#define LINE_BYTES 64u

struct or_memory_read {
    const or_ceilings_t *ceilings;
    or_workers_t *workers;
    uint8_t *area;
    size_t bytes;
    uint64_t sums[OR_THREADS_MAX]; // of each thread, so that its reading is not left away
};

size_t or_memory_cache_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : CACHE_UNKNOWN;
}

size_t or_memory_area_bytes(void)
{
    size_t bytes = AREA_CACHES * or_memory_cache_bytes();
    bytes = bytes < AREA_LEAST ? AREA_LEAST : bytes > AREA_MOST ? AREA_MOST : bytes;
    return bytes / HUGE_PAGE * HUGE_PAGE;
}

uint8_t *or_memory_area(size_t *bytes)
{
    *bytes = or_memory_area_bytes();
    uint8_t *area = aligned_alloc(HUGE_PAGE, *bytes);
    if (area != NULL) {
        madvise(area, *bytes, MADV_HUGEPAGE);
    }
    return area;
}

// Pages lie near the thread that writes them first, as weights do.
static void touch_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    or_memory_read_t *reader = context;
    (void)worker;
    memset(reader->area + begin * ITEM_BYTES, 1, (end - begin) * ITEM_BYTES);
}

static void run_items(or_memory_read_t *reader, or_work_t work)
{
    or_workers_run(reader->workers, (uint32_t)(reader->bytes / ITEM_BYTES), 1, work, reader);
}

or_status_t or_memory_read_create(const or_ceilings_t *ceilings,
                                  const or_workers_options_t *options, or_memory_read_t **reader_p)
{
    or_memory_read_t *reader = calloc(1, sizeof *reader);
    *reader_p = reader;
    if (reader != NULL) {
        reader->ceilings = ceilings;
        reader->area = or_memory_area(&reader->bytes);
    }
    or_workers_options_t sleeping = *options;
    sleeping.poll = OR_POLL_NEVER;
    or_status_t status = reader != NULL && reader->area != NULL
                             ? or_workers_create(&sleeping, &reader->workers)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory to measure how it is read");
    if (status == OR_OK) {
        run_items(reader, touch_items);
    } else {
        or_memory_read_destroy(reader_p);
    }
    return status;
}

void or_memory_read_destroy(or_memory_read_t **reader_p)
{
    if (*reader_p != NULL) {
        or_workers_destroy(&(*reader_p)->workers);
        free((*reader_p)->area);
        free(*reader_p);
        *reader_p = NULL;
    }
}

static void read_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    or_memory_read_t *reader = context;
    uint64_t sum;
    reader->ceilings->read(reader->area + begin * ITEM_BYTES,
                           (end - begin) * (ITEM_BYTES / LINE_BYTES), &sum);
    reader->sums[worker] += sum;
}

double or_memory_read_once(or_memory_read_t *reader)
{
    int64_t start = or_clock_now(or_clock_monotonic());
    run_items(reader, read_items);
    int64_t took = or_clock_now(or_clock_monotonic()) - start;
    return (double)reader->bytes * (double)OR_NS_PER_S / (double)(took > 0 ? took : 1);
}
