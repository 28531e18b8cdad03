#include "common/model/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/gguf/gguf_writer.h"
#include "common/model/arch/tensors_internal.h"

#define WRITTEN_BYTES ((uint64_t)4 << 20) // at once, between two calls of progress

// The checksums of all bytes that were written so far.
typedef struct {
    XXH3_state_t *state; // of the piece that is not whole yet
    uint64_t filled;     // bytes of it
    XXH128_canonical_t *sums;
    uint64_t count, room;
} sums_t;

typedef struct {
    or_model_t model; // only what loading has before it takes memory for weights
    or_gguf_writer_t *writer;
    sums_t sums;
    or_pack_progress_t *progress;
    void *context;
    uint64_t done, all;
} job_t;

// ---- checksums ----

static void end_piece(sums_t *sums)
{
    if (sums->filled > 0 && sums->count < sums->room) {
        XXH128_canonicalFromHash(&sums->sums[sums->count++], XXH3_128bits_digest(sums->state));
    }
    XXH3_128bits_reset(sums->state);
    sums->filled = 0; // also behind the last that is kept: the checksums themselves come by
}

static void see(void *context, const void *bytes, uint64_t count)
{
    sums_t *sums = context;
    const char *at = bytes;
    while (count > 0) {
        uint64_t left = OR_PACKED_PIECE - sums->filled;
        uint64_t some = count < left ? count : left;
        XXH3_128bits_update(sums->state, at, some);
        sums->filled += some;
        at += some;
        count -= some;
        if (sums->filled == OR_PACKED_PIECE) {
            end_piece(sums);
        }
    }
}

// ---- matrices ----

typedef or_status_t each_t(job_t *job, const or_gguf_tensor_t *tensor);

static or_status_t each_matrix(job_t *job, each_t *each)
{
    const or_model_t *model = &job->model;
    or_status_t status = each(job, or_tensor_head(model));
    if (status == OR_OK && model->shape.layer_input > 0) {
        status = each(job, or_gguf_find_tensor(model->gguf, model->arch->input_projection));
    }
    for (uint32_t i = 0; i < model->shape.layers; i++) {
        for (const or_arch_tensor_t *t = model->arch->layer_tensors;
             status == OR_OK && t->suffix != NULL; t++) {
            or_gguf_tensor_t tensor;
            if (t->outputs != OR_DIM_ONE && or_tensor_find_part(model, i, t, &tensor)) {
                status = each(job, &tensor);
            }
        }
    }
    return status;
}

static or_span_t outputs_of(const or_gguf_tensor_t *tensor)
{
    return (or_span_t){0, (uint32_t)tensor->dims[1]};
}

static or_span_t inputs_of(const or_gguf_tensor_t *tensor)
{
    return (or_span_t){0, (uint32_t)tensor->dims[0]};
}

static or_status_t add_words(or_gguf_writer_t *writer, const char *name, uint64_t words)
{
    return or_gguf_writer_add_tensor(writer, (or_gguf_string_t){name, strlen(name)}, 1, &words,
                                     OR_TENSOR_F32);
}

static or_status_t list_matrix(job_t *job, const or_gguf_tensor_t *tensor)
{
    char name[OR_PACKED_NAME_BYTES];
    size_t bytes = or_matrix_describe(tensor, outputs_of(tensor), inputs_of(tensor)).bytes;
    or_status_t status = or_tensor_packed_name(&job->model, tensor, name);
    job->all += bytes;
    return status != OR_OK ? status : add_words(job->writer, name, bytes / sizeof(float));
}

static or_status_t put(job_t *job, const char *name, const or_matrix_t *matrix)
{
    or_status_t status = OR_OK;
    for (uint64_t at = 0; status == OR_OK && at < matrix->bytes; at += WRITTEN_BYTES) {
        uint64_t left = matrix->bytes - at;
        uint64_t some = left < WRITTEN_BYTES ? left : WRITTEN_BYTES;
        status = or_gguf_writer_put(job->writer, (const char *)matrix->memory + at, some);
        job->done += some;
        if (status == OR_OK && !job->progress(job->context, job->done, job->all, name)) {
            status = or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written");
        }
    }
    return status;
}

static or_status_t write_matrix(job_t *job, const or_gguf_tensor_t *tensor)
{
    char name[OR_PACKED_NAME_BYTES];
    or_matrix_t matrix;
    or_status_t status = or_tensor_packed_name(&job->model, tensor, name);
    if (status == OR_OK && !job->progress(job->context, job->done, job->all, name)) {
        status = or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written");
    }
    status = status != OR_OK ? status
                             : or_matrix_pack(job->model.workers, tensor, outputs_of(tensor),
                                              inputs_of(tensor), &matrix);
    if (status == OR_OK) {
        status = put(job, name, &matrix);
        or_matrix_free(&matrix);
        or_gguf_release(job->model.gguf, tensor);
    }
    return status;
}

// ---- the file ----

static or_status_t set_number(or_gguf_writer_t *writer, const char *key, uint64_t number)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, number);
    return or_gguf_writer_set_string(writer, key, digits);
}

static or_status_t describe(const job_t *job)
{
    or_gguf_writer_t *writer = job->writer;
    const or_gguf_t *gguf = job->model.gguf;
    or_status_t status = or_gguf_writer_set_string(writer, "general.architecture", "packed");
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_string(writer, OR_PACKED_LAYOUT_KEY, OR_PACKED_LAYOUT);
    status = status != OR_OK ? status
                             : set_number(writer, OR_PACKED_IDENTITY_KEY, or_gguf_identity(gguf));
    return status != OR_OK
               ? status
               : set_number(writer, OR_PACKED_FINGERPRINT_KEY, or_gguf_fingerprint(gguf));
}

// Create the writer, with room for so many checksums.
static or_status_t create_writer(job_t *job, const char *path, uint64_t sums)
{
    const or_gguf_writer_private_t how = {OR_PACKED_ALIGNMENT, see, &job->sums};
    or_gguf_writer_destroy(&job->writer);
    job->all = 0;
    or_status_t status = or_gguf_writer_create(path, &job->writer);
    status = status != OR_OK ? status : or_gguf_writer_set_private(job->writer, &how);
    status = status != OR_OK ? status : describe(job);
    status = status != OR_OK ? status : each_matrix(job, list_matrix);
    return status != OR_OK
               ? status
               : add_words(job->writer, OR_PACKED_CHECKSUMS, sums * OR_PACKED_CHECKSUM_WORDS);
}

// The room for checksums follows from what is in front of them, which a file with only one of them shows.
static or_status_t plan(job_t *job, const char *path)
{
    sums_t *sums = &job->sums;
    or_status_t status = create_writer(job, path, 1);
    if (status != OR_OK) {
        return status;
    }
    uint64_t front = or_gguf_writer_file_bytes(job->writer) - OR_PACKED_ALIGNMENT;
    sums->room = (front + OR_PACKED_PIECE - 1) / OR_PACKED_PIECE;
    sums->sums = calloc(sums->room, sizeof *sums->sums);
    sums->state = XXH3_createState();
    if (sums->sums == NULL || sums->state == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %" PRIu64 " checksums", sums->room);
    }
    XXH3_128bits_reset(sums->state);
    return create_writer(job, path, sums->room);
}

static or_status_t write_file(job_t *job)
{
    or_status_t status = or_gguf_writer_begin(job->writer);
    status = status != OR_OK ? status : each_matrix(job, write_matrix);
    if (status == OR_OK) {
        end_piece(&job->sums);
        status = or_gguf_writer_put(job->writer, job->sums.sums,
                                    job->sums.count * sizeof *job->sums.sums);
    }
    return status != OR_OK ? status : or_gguf_writer_finish(job->writer);
}

// Find what is loaded, as or_model_load does on one rank.
static or_status_t find_tensors(or_model_t *model)
{
    or_status_t status = or_arch_find(model->gguf, &model->arch);
    status = status != OR_OK
                 ? status
                 : or_arch_read(model->arch, model->gguf, &model->shape, &model->numbers);
    return status != OR_OK ? status : or_tensors_check(model);
}

or_status_t or_model_pack(const or_gguf_t *gguf, uint32_t threads, const char *path,
                          or_pack_progress_t *progress, void *context)
{
    job_t job = {.model = {.gguf = gguf, .ranks = or_ranks_single()},
                 .progress = progress,
                 .context = context};
    or_status_t status = find_tensors(&job.model);
    status = status != OR_OK ? status
                             : or_workers_create(&(or_workers_options_t){.threads = threads},
                                                 &job.model.workers);
    status = status != OR_OK ? status : plan(&job, path);
    status = status != OR_OK ? status : write_file(&job);
    or_gguf_writer_destroy(&job.writer);
    or_workers_destroy(&job.model.workers);
    XXH3_freeState(job.sums.state);
    free(job.sums.sums);
    return status;
}

or_status_t or_model_pack_try(const char *path)
{
    or_gguf_writer_t *writer = NULL;
    or_status_t status = or_gguf_writer_create(path, &writer);
    status = status != OR_OK ? status : or_gguf_writer_try(writer);
    or_gguf_writer_destroy(&writer);
    return status;
}
