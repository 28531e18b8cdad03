#include "launch/demo/demo_target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "launch/cluster/cache_folder.h"
#include "launch/model/inflate.h"

#define SEED 1 // of the random weights
#define MIB 0x1p-20
#define FILE_BEGINNING "demo-"

static const or_tensor_type_t type = OR_TENSOR_Q8_0;
#define TYPE_BYTES(parameters) ((parameters) / 32 * 34)

// ---- the file ----

typedef struct {
    char source[OR_INFLATE_SOURCE_BYTES]; // what the file's metadata must say
    or_inflate_plan_t plan;
} wanted_t;

static or_status_t plan(const char *source, uint64_t parameters, wanted_t *wanted)
{
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_gguf_open(source, &gguf);
    status = status != OR_OK ? status : or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    status = status != OR_OK
                 ? status
                 : or_fail_context(or_inflate_plan(arch, &shape, parameters, 0, &wanted->plan),
                                   "--size");
    if (status == OR_OK) {
        or_inflate_source(gguf, wanted->source);
    }
    or_gguf_close(&gguf);
    return status;
}

// Open the file at `path`, which may be broken, made of another file or absent. True if it is what is wanted.
static bool is_there(const char *path, const wanted_t *wanted, uint64_t *file_bytes)
{
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch;
    or_model_shape_t shape = {0};
    or_arch_numbers_t numbers;
    or_gguf_string_t source = {0};
    or_status_t status = or_gguf_open(path, &gguf);
    status = status != OR_OK ? status : or_gguf_get_string(gguf, OR_INFLATE_SOURCE_KEY, &source);
    status = status != OR_OK ? status : or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    bool same = status == OR_OK && source.length == strlen(wanted->source) &&
                memcmp(source.bytes, wanted->source, source.length) == 0 &&
                shape.layers == wanted->plan.layers && shape.ffn == wanted->plan.ffn;
    *file_bytes = same ? or_gguf_file_bytes(gguf) : 0;
    or_gguf_close(&gguf);
    return same;
}

static or_status_t check_memory(uint64_t parameters)
{
    uint64_t available = or_memory_available(), needed = TYPE_BYTES(parameters);
    return needed <= available
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY,
                         "the demonstration target takes %.0f MiB of memory, and %.0f MiB are "
                         "available: give a smaller --size, as 100M",
                         (double)needed * MIB, (double)available * MIB);
}

static or_status_t make(const or_inflate_job_t *job, or_demo_target_t *target)
{
    or_inflate_result_t result;
    fprintf(stderr, "making the demonstration target, %s parameters in Q8_0, once: %s\n", job->size,
            job->out);
    or_status_t status = or_inflate(job, &result);
    if (status != OR_OK) {
        return status == OR_ERR_IO
                   ? or_fail_context(status, "the demonstration target (XDG_CACHE_HOME says where "
                                             "it is made, and --size how large it is)")
                   : status;
    }
    target->made = true;
    target->file_bytes = result.file_bytes;
    return OR_OK;
}

or_status_t or_demo_target_find(const char *source, const char *size, uint32_t threads,
                                or_demo_target_t *target)
{
    char folder[OR_PATH_BYTES];
    wanted_t wanted;
    or_inflate_job_t job = {.in = source,
                            .out = target->path,
                            .size = size,
                            .type = &type,
                            .threads = threads,
                            .seed = SEED,
                            .force = true};
    or_status_t status = or_inflate_parse_size("--size", size, &job.parameters);
    status = status != OR_OK ? status : plan(source, job.parameters, &wanted);
    status = status != OR_OK ? status : check_memory(wanted.plan.parameters);
    status = status != OR_OK ? status : or_cache_folder(folder);
    if (status != OR_OK) {
        return status;
    }
    or_inflate_remove_left(folder, FILE_BEGINNING);
    target->parameters = wanted.plan.parameters;
    target->made = false;
    int length = snprintf(target->path, sizeof target->path, "%s/" FILE_BEGINNING "%.6gM-q8_0.gguf",
                          folder, (double)job.parameters * 1e-6);
    if (length >= (int)sizeof target->path) {
        return or_fail(OR_ERR_INVALID, "the path of the cache folder is too long");
    }
    return is_there(target->path, &wanted, &target->file_bytes) ? OR_OK : make(&job, target);
}
