#include "launch/model/weight_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/interrupt.h"

#define CHUNK_BYTES (UINT64_C(4) << 20) // made, then written
#define ANEW_NS (100 * OR_NS_PER_MS)    // on a terminal
#define LINE_NS (10 * OR_NS_PER_S)      // elsewhere

or_status_t or_weight_writer_init(or_weight_writer_t *weights, or_gguf_writer_t *writer,
                                  uint32_t threads)
{
    const or_workers_options_t options = {.threads = threads};
    int64_t now = or_clock_now(or_clock_monotonic());
    *weights = (or_weight_writer_t){.writer = writer,
                                    .terminal = isatty(STDERR_FILENO) == 1,
                                    .all = or_gguf_writer_file_bytes(writer),
                                    .started_ns = now,
                                    .said_ns = now};
    or_interrupt_watch();
    return or_workers_create(&options, &weights->workers);
}

or_status_t or_weight_writer_check_path(const or_gguf_t *in, const char *out, bool force)
{
    struct stat to;
    if (or_gguf_is_part_name(out)) {
        return or_fail(OR_ERR_INVALID,
                       "%s is named as one part of several, and the new model is whole; leave "
                       "-0000N-of-0000N out of its name",
                       out);
    }
    if (stat(out, &to) != 0) {
        return OR_OK; // whatever else is wrong with it shows when it is written
    }
    if (or_gguf_is_at(in, out)) {
        return or_fail(OR_ERR_INVALID, "%s is the file that is read; give the new one another name",
                       out);
    }
    if (!S_ISREG(to.st_mode)) {
        return or_fail(OR_ERR_INVALID, "%s is no regular file; name a file to write", out);
    }
    return force ? OR_OK
                 : or_fail(OR_ERR_INVALID, "%s is already there; --force writes over it", out);
}

static void clear_line(const or_weight_writer_t *weights)
{
    if (weights->terminal) {
        fputs("\r\033[K", stderr);
    }
}

void or_weight_writer_fini(or_weight_writer_t *weights)
{
    clear_line(weights);
    or_workers_destroy(&weights->workers);
}

static void show(or_weight_writer_t *weights, or_gguf_string_t name)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    if (now - weights->said_ns < (weights->terminal ? ANEW_NS : LINE_NS) || weights->done == 0) {
        return;
    }
    double part = (double)weights->done / (double)weights->all;
    double seconds = (double)(now - weights->started_ns) / (double)OR_NS_PER_S;
    fprintf(stderr, "%s%.0f %% of %.0f MiB, %.0f s left, %.*s%s", weights->terminal ? "\r" : "",
            100 * part, (double)weights->all * 0x1p-20, seconds / part * (1 - part),
            (int)name.length, name.bytes, weights->terminal ? "\033[K" : "\n");
    weights->said_ns = now;
}

typedef struct {
    or_weight_maker_t make;
    void *context;
    uint64_t first_row, row_bytes;
    char *out;
} chunk_t;

static void make_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const chunk_t *chunk = context;
    for (uint32_t i = begin; i < end; i++) {
        chunk->make(chunk->context, worker, chunk->first_row + i,
                    chunk->out + i * chunk->row_bytes);
    }
}

or_status_t or_weight_writer_run(or_weight_writer_t *weights, or_gguf_string_t name, uint64_t rows,
                                 uint64_t row_bytes, or_weight_maker_t make, void *context)
{
    uint64_t chunk_rows = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
    chunk_t chunk = {make, context, 0, row_bytes, malloc(chunk_rows * row_bytes)};
    or_status_t status = OR_OK;
    if (chunk.out == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for rows of tensor %.*s", (int)name.length,
                       name.bytes);
    }
    while (status == OR_OK && chunk.first_row < rows) {
        uint64_t left = rows - chunk.first_row;
        uint32_t count = (uint32_t)(left < chunk_rows ? left : chunk_rows);
        or_workers_run(weights->workers, count, 1, make_rows, &chunk);
        status = or_interrupt_count() > 0
                     ? or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written")
                     : or_gguf_writer_put(weights->writer, chunk.out, count * row_bytes);
        weights->done += count * row_bytes;
        chunk.first_row += count;
        show(weights, name);
    }
    free(chunk.out);
    return status;
}
