#include "launch/demo/demo_target.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/user_folder.h"
#include "launch/cluster/paths.h"
#include "launch/model/inflate.h"
#include "launch/model/weight_writer.h"

#define SEED 1 // of the random weights
#define MIB 0x1p-20
#define FILE_BEGINNING "demo-"

#define ROW 256u // weights: whole blocks of any type
#define TYPE_NAME_BYTES 16

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

static or_status_t check_memory(uint64_t parameters, or_tensor_type_t type)
{
    uint64_t available = or_memory_available();
    uint64_t needed = parameters / ROW * or_weight_row_bytes(type, ROW);
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
    fprintf(stderr, "making the demonstration target, %s parameters in %s, once: %s\n", job->size,
            or_gguf_tensor_type_name(*job->type), job->out);
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

// Put the path of the file into the target.
static or_status_t name_file(const char *folder, uint64_t parameters, or_tensor_type_t type,
                             or_demo_target_t *target)
{
    char name[TYPE_NAME_BYTES];
    snprintf(name, sizeof name, "%s", or_gguf_tensor_type_name(type));
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    int length = snprintf(target->path, sizeof target->path, "%s/" FILE_BEGINNING "%.6gM-%s.gguf",
                          folder, (double)parameters * 1e-6, name);
    return length < (int)sizeof target->path
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the path of the cache folder is too long");
}

or_status_t or_demo_target_find(const char *source, const or_demo_wish_t *wish,
                                or_demo_target_t *target)
{
    char folder[OR_PATH_BYTES];
    wanted_t wanted;
    or_tensor_type_t type;
    or_inflate_job_t job = {.in = source,
                            .out = target->path,
                            .size = wish->size,
                            .type = &type,
                            .threads = wish->threads,
                            .seed = SEED,
                            .force = true};
    or_status_t status = or_inflate_parse_size("--size", wish->size, &job.parameters);
    status = status != OR_OK ? status : or_weight_type_parse("--type", wish->type, &type);
    status = status != OR_OK ? status : plan(source, job.parameters, &wanted);
    status = status != OR_OK ? status : check_memory(wanted.plan.parameters, type);
    status = status != OR_OK ? status : or_user_folder_make(OR_USER_CACHE, folder, sizeof folder);
    if (status != OR_OK) {
        return status;
    }
    or_inflate_remove_left(folder, FILE_BEGINNING);
    target->parameters = wanted.plan.parameters;
    target->made = false;
    target->type = or_gguf_tensor_type_name(type);
    status = name_file(folder, job.parameters, type, target);
    if (status != OR_OK) {
        return status;
    }
    return is_there(target->path, &wanted, &target->file_bytes) ? OR_OK : make(&job, target);
}
