#include "launch/model/weight_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/base/interrupt.h"
#include "common/model/cpu/weights.h"
#include "kernels/kernels.h"

#define CHUNK_BYTES (UINT64_C(4) << 20) // made, then written
#define NAME_BYTES 128
#define QUANTIZATION_VERSION 2u // of the types' layouts, in ggml's counting
#define F16_MAX 65504.0f
#define BF16_MAX 0x1.fep+127f

// The file types are llama.cpp's; a _K type has the one of files whose tensors are all alike ("S").
static const struct {
    or_tensor_type_t type;
    uint32_t file_type;
    or_tensor_type_t next; // where rows are no whole blocks
} types[] = {
    {OR_TENSOR_F32, 0, OR_TENSOR_F32},        {OR_TENSOR_F16, 1, OR_TENSOR_F16},
    {OR_TENSOR_BF16, 32, OR_TENSOR_BF16},     {OR_TENSOR_Q8_0, 7, OR_TENSOR_F16},
    {OR_TENSOR_Q4_0, 2, OR_TENSOR_F16},       {OR_TENSOR_Q4_1, 3, OR_TENSOR_F16},
    {OR_TENSOR_Q5_0, 8, OR_TENSOR_F16},       {OR_TENSOR_Q5_1, 9, OR_TENSOR_F16},
    {OR_TENSOR_Q2_K, 10, OR_TENSOR_IQ4_NL},   {OR_TENSOR_Q3_K, 11, OR_TENSOR_IQ4_NL},
    {OR_TENSOR_Q4_K, 14, OR_TENSOR_Q5_0},     {OR_TENSOR_Q5_K, 16, OR_TENSOR_Q5_1},
    {OR_TENSOR_Q6_K, 18, OR_TENSOR_Q8_0},     {OR_TENSOR_IQ4_NL, 25, OR_TENSOR_F16},
    {OR_TENSOR_IQ4_XS, 30, OR_TENSOR_IQ4_NL}, {OR_TENSOR_MXFP4, 38, OR_TENSOR_F16},
};
#define TYPE_COUNT (sizeof types / sizeof *types)

static size_t place_of(or_tensor_type_t type)
{
    size_t i = 0;
    while (types[i].type != type) {
        i++;
    }
    return i;
}

or_status_t or_weight_type_parse(const char *what, const char *name, or_tensor_type_t *type)
{
    char all[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        const char *known = or_gguf_tensor_type_name(types[i].type);
        if (strcasecmp(name, known) == 0) {
            *type = types[i].type;
            return OR_OK;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, " %s", known);
    }
    return or_fail(OR_ERR_INVALID,
                   "%s: there is no type '%s'; it is one of%s; mixtures as Q4_K_M are not "
                   "written: say Q4_K, and --output-tensor-type",
                   what, name, all);
}

bool or_weight_type_is_written(uint32_t type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].type == type) {
            return true;
        }
    }
    return false;
}

or_status_t or_weight_type_describe(or_tensor_type_t type, or_gguf_writer_t *writer)
{
    or_status_t status =
        or_gguf_writer_set_u32(writer, "general.file_type", types[place_of(type)].file_type);
    return status != OR_OK ? status
                           : or_gguf_writer_set_u32(writer, "general.quantization_version",
                                                    QUANTIZATION_VERSION);
}

or_tensor_type_t or_weight_type_for(or_tensor_type_t wanted, uint64_t width)
{
    while (width % or_gguf_tensor_block(wanted).elements != 0) {
        wanted = types[place_of(wanted)].next;
    }
    return wanted;
}

static bool ends_with(or_gguf_string_t name, const char *end)
{
    const size_t length = strlen(end);
    return name.length >= length && memcmp(name.bytes + name.length - length, end, length) == 0;
}

bool or_weight_is_matrix(const or_gguf_tensor_t *tensor)
{
    return tensor->elements > tensor->dims[0] && !ends_with(tensor->name, ".bias");
}

bool or_weight_is_router(or_gguf_string_t name)
{
    return ends_with(name, ".ffn_gate_inp.weight");
}

uint64_t or_weight_row_bytes(or_tensor_type_t type, uint64_t width)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    return width / block.elements * block.bytes;
}

static float cut(float value, float most)
{
    value = value < most ? value : most;
    return value > -most ? value : -most;
}

// Round to the nearest, ties to even.
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void or_weight_row_write(or_tensor_type_t type, const float *weights, const float *importance,
                         uint32_t width, void *row)
{
    if (type == OR_TENSOR_F32) {
        memcpy(row, weights, width * sizeof *weights);
        return;
    }
    or_quant_t quant;
    if (or_tensor_quant(type, &quant)) {
        or_quant_encode(quant, weights, importance, width / or_gguf_tensor_block(type).elements,
                        row);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        uint16_t half = type == OR_TENSOR_F16 ? or_f32_to_f16(cut(weights[i], F16_MAX))
                                              : to_bf16(cut(weights[i], BF16_MAX));
        memcpy((char *)row + i * sizeof half, &half, sizeof half);
    }
}

void or_weight_row_read(or_tensor_type_t type, const void *row, uint32_t width, float *weights)
{
    const or_gguf_tensor_t tensor = {.type = type,
                                     .dim_count = 1,
                                     .dims = {width, 1, 1, 1},
                                     .elements = width,
                                     .data = row,
                                     .bytes = or_weight_row_bytes(type, width)};
    or_tensor_read_row(&tensor, 0, width, weights);
}

// ---- the file ----

or_status_t or_weight_writer_init(or_weight_writer_t *weights, or_gguf_writer_t *writer,
                                  uint32_t threads)
{
    const or_workers_options_t options = {.threads = threads};
    *weights = (or_weight_writer_t){.writer = writer};
    or_progress_init(&weights->progress, or_gguf_writer_file_bytes(writer), true);
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
    if (in != NULL && or_gguf_is_at(in, out)) {
        return or_fail(OR_ERR_INVALID, "%s is the file that is read; give the new one another name",
                       out);
    }
    if (!S_ISREG(to.st_mode)) {
        return or_fail(OR_ERR_INVALID, "%s is no regular file; name a file to write", out);
    }
    return force ? OR_OK
                 : or_fail(OR_ERR_INVALID, "%s is already there; --force writes over it", out);
}

bool or_weight_writer_is_left(const char *name, const char *beginning, const char *ending)
{
    const char *end = strrchr(name, '.');
    if (strncmp(name, beginning, strlen(beginning)) != 0 || end == NULL ||
        strcmp(end, ending) != 0) {
        return false;
    }
    const char *number = end;
    while (number > name && number[-1] >= '0' && number[-1] <= '9') {
        number--;
    }
    intmax_t process = strtoimax(number, NULL, 10);
    bool is_process = number > name && number[-1] == '.' && process > 0 && process <= INT32_MAX;
    return is_process && (process == getpid() || (kill((pid_t)process, 0) != 0 && errno == ESRCH));
}

void or_weight_writer_fini(or_weight_writer_t *weights)
{
    or_progress_clear(&weights->progress);
    or_workers_destroy(&weights->workers);
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
    char shown[NAME_BYTES];
    or_status_t status = OR_OK;
    snprintf(shown, sizeof shown, "%.*s", (int)name.length, name.bytes);
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
        chunk.first_row += count;
        or_progress_show(&weights->progress, weights->progress.done + count * row_bytes, shown);
    }
    free(chunk.out);
    return status;
}
