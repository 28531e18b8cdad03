// outrider model quantize - a model with its weights in another type, and what that costs in accuracy.
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/model/convert/cached.h"
#include "launch/model/imatrix.h"
#include "launch/model/weight_writer.h"

#define MIB 0x1p-20

typedef struct {
    char *output_type, *embedding_type, *imatrix;
    uint32_t threads;
    bool allow_requantize, force, json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    {"output-tensor-type", NULL, OR_OPTION_STRING, AT(output_type), "TYPE",
     "another type for the head: output.weight, or the embedding where that is the head"},
    {"token-embedding-type", NULL, OR_OPTION_STRING, AT(embedding_type), "TYPE",
     "another type for the embedding, token_embd.weight"},
    {"imatrix", NULL, OR_OPTION_STRING, AT(imatrix), "FILE",
     "errors count by the importance that model imatrix, or llama.cpp, has measured"},
    {"allow-requantize", NULL, OR_OPTION_FLAG, AT(allow_requantize), NULL,
     "also from weights that are quantised already, whose errors then add up"},
    {"force", NULL, OR_OPTION_FLAG, AT(force), NULL, "write over OUT if it is there"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON instead of the table"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model quantize",
    .summary = "write a model with its weights in another type",
    .usage = "IN OUT TYPE [options]",
    .table = table,
    .examples =
        "TYPE is one of F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K "
        "IQ4_NL\nIQ4_XS MXFP4. Matrices are converted; vectors and routers of experts stay as "
        "they are. Of a\nmodel in parts give the first one.\n\nExample:\n  outrider model quantize "
        "model-f16.gguf "
        "model-q4_k.gguf Q4_K\n",
};

// The sums of a worker over the rows it makes, and its buffers.
typedef struct {
    float *weights, *written; // of a row
    double power, squared_error, largest_error;
} tally_t;

// The result of one tensor.
typedef struct {
    const or_gguf_tensor_t *tensor; // borrowed
    or_tensor_type_t wanted, to;
    const float *importance;     // [dims[2]][dims[0]], borrowed; NULL: all counts alike
    uint64_t bytes;              // as written
    double power, squared_error; // sums over all weights
    double largest_error;
} result_t;

typedef struct {
    const config_t *config;
    const char *in, *out;
    or_tensor_type_t type, output_type, embedding_type;
    or_gguf_t *gguf;
    or_imatrix_t *imatrix;   // NULL: none was given
    uint64_t named, unnamed; // tensors that are quantised, by whether it has their importance
    or_gguf_writer_t *writer;
    or_weight_writer_t weights;
    result_t *results; // a tensor each
    tally_t *tallies;  // a worker each
    const result_t *current;
    _Atomic uint64_t broken_row; // 1 + one that has a weight that is no number; 0: none
} job_t;

static bool is_named(const or_gguf_tensor_t *tensor, const char *name)
{
    return tensor->name.length == strlen(name) &&
           memcmp(tensor->name.bytes, name, tensor->name.length) == 0;
}

// ---- the plan ----

static or_tensor_type_t wanted_type(const job_t *job, const or_gguf_tensor_t *tensor)
{
    if (is_named(tensor, "output.weight")) {
        return job->output_type;
    }
    if (is_named(tensor, "token_embd.weight")) {
        bool is_head = or_gguf_find_tensor(job->gguf, "output.weight") == NULL;
        return is_head && job->config->embedding_type == NULL ? job->output_type
                                                              : job->embedding_type;
    }
    return or_weight_is_matrix(tensor) && !or_weight_is_router(tensor->name)
               ? job->type
               : (or_tensor_type_t)tensor->type;
}

static or_status_t plan_tensor(const job_t *job, const or_gguf_tensor_t *tensor, result_t *result)
{
    int shown = tensor->name.length > 64 ? 64 : (int)tensor->name.length;
    if (tensor->data == NULL || tensor->dims[0] > UINT32_MAX) {
        return or_fail(OR_ERR_UNSUPPORTED, "tensor %.*s of %s is of type %s, which cannot be read",
                       shown, tensor->name.bytes, job->in, or_gguf_tensor_type_name(tensor->type));
    }
    result->tensor = tensor;
    result->wanted = wanted_type(job, tensor);
    result->to = or_weight_type_for(result->wanted, tensor->dims[0]);
    result->bytes =
        or_weight_row_bytes(result->to, tensor->dims[0]) * (tensor->elements / tensor->dims[0]);
    bool quantised = or_gguf_tensor_block(tensor->type).elements > 1;
    if (quantised && result->to != tensor->type && !job->config->allow_requantize) {
        return or_fail(
            OR_ERR_INVALID,
            "tensor %.*s of %s is quantised already (%s); better begin with the model in "
            "F16 or F32, or say --allow-requantize",
            shown, tensor->name.bytes, job->in, or_gguf_tensor_type_name(tensor->type));
    }
    return OR_OK;
}

// Find what the errors of a tensor count by, if it is to be quantised.
static or_status_t plan_importance(job_t *job, result_t *result)
{
    bool encodes =
        or_gguf_tensor_block(result->to).elements > 1 && result->to != result->tensor->type;
    if (job->imatrix == NULL || !encodes) {
        return OR_OK;
    }
    or_status_t status = or_imatrix_find(job->imatrix, result->tensor, &result->importance);
    job->named += result->importance != NULL ? 1 : 0;
    job->unnamed += result->importance == NULL ? 1 : 0;
    return status;
}

// An importance matrix that changes nothing is a mistake.
static or_status_t check_importance(const job_t *job)
{
    if (job->imatrix == NULL || job->named > 0) {
        return OR_OK;
    }
    return job->unnamed > 0
               ? or_fail(OR_ERR_MISMATCH,
                         "%s names none of the tensors of %s: it is of another model",
                         job->config->imatrix, job->in)
               : or_fail(OR_ERR_INVALID,
                         "--imatrix: nothing is quantised here, so nothing counts by importance");
}

static or_status_t plan(job_t *job)
{
    uint64_t count = or_gguf_tensor_count(job->gguf);
    job->results = calloc(count + 1, sizeof *job->results);
    if (job->results == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the list of tensors");
    }
    or_status_t status = or_gguf_writer_copy(job->writer, job->gguf);
    status = status != OR_OK ? status : or_weight_type_describe(job->type, job->writer);
    for (uint64_t i = 0; status == OR_OK && i < count; i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(job->gguf, i);
        status = plan_tensor(job, tensor, &job->results[i]);
        status = status != OR_OK ? status : plan_importance(job, &job->results[i]);
        status = status != OR_OK
                     ? status
                     : or_gguf_writer_add_tensor(job->writer, tensor->name, tensor->dim_count,
                                                 tensor->dims, job->results[i].to);
    }
    status = status != OR_OK ? status : check_importance(job);
    return status != OR_OK ? status : or_imatrix_describe(job->imatrix, job->writer);
}

// ---- the work ----

static bool is_finite(const float *weights, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        if (!isfinite(weights[i])) {
            return false;
        }
    }
    return true;
}

static void count_errors(tally_t *tally, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        double weight = tally->weights[i];
        double error = fabs(weight - (double)tally->written[i]);
        tally->power += weight * weight;
        tally->squared_error += error * error;
        tally->largest_error = error > tally->largest_error ? error : tally->largest_error;
    }
}

static void make_row(void *context, uint32_t worker, uint64_t row, void *out)
{
    job_t *job = context;
    tally_t *tally = &job->tallies[worker];
    const or_gguf_tensor_t *tensor = job->current->tensor;
    uint32_t width = (uint32_t)tensor->dims[0];
    uint64_t row_bytes = or_weight_row_bytes((or_tensor_type_t)tensor->type, width);
    const char *from = (const char *)tensor->data + row * row_bytes;
    or_weight_row_read((or_tensor_type_t)tensor->type, from, width, tally->weights);
    if (!is_finite(tally->weights, width)) {
        job->broken_row = row + 1;
        memset(out, 0, or_weight_row_bytes(job->current->to, width));
        return;
    }
    if (job->current->to == tensor->type) {
        memcpy(out, from, row_bytes);
    } else {
        const float *importance = job->current->importance; // of this row's matrix
        or_weight_row_write(job->current->to, tally->weights,
                            importance != NULL ? importance + row / tensor->dims[1] * width : NULL,
                            width, out);
    }
    or_weight_row_read(job->current->to, out, width, tally->written);
    count_errors(tally, width);
}

static void collect(const job_t *job, result_t *result)
{
    for (uint32_t w = 0; w < or_workers_count(job->weights.workers); w++) {
        tally_t *tally = &job->tallies[w];
        result->power += tally->power;
        result->squared_error += tally->squared_error;
        result->largest_error = fmax(result->largest_error, tally->largest_error);
        tally->power = tally->squared_error = tally->largest_error = 0;
    }
}

static or_status_t convert_tensor(job_t *job, result_t *result)
{
    const or_gguf_tensor_t *tensor = result->tensor;
    job->current = result;
    or_status_t status =
        or_weight_writer_run(&job->weights, tensor->name, tensor->elements / tensor->dims[0],
                             or_weight_row_bytes(result->to, tensor->dims[0]), make_row, job);
    if (status == OR_OK && job->broken_row > 0) {
        status =
            or_fail(OR_ERR_FORMAT,
                    "%s: row %" PRIu64
                    " of tensor %.*s has a weight that is no number; the model is damaged",
                    job->in, job->broken_row - 1, (int)tensor->name.length, tensor->name.bytes);
    }
    collect(job, result);
    or_gguf_release(job->gguf, tensor);
    return status;
}

static or_status_t make_tallies(job_t *job)
{
    uint64_t width = 1;
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        uint64_t dim = or_gguf_tensor(job->gguf, i)->dims[0];
        width = dim > width ? dim : width;
    }
    uint32_t workers = or_workers_count(job->weights.workers);
    job->tallies = calloc(workers, sizeof *job->tallies);
    bool made = job->tallies != NULL;
    for (uint32_t w = 0; made && w < workers; w++) {
        job->tallies[w].weights = malloc(2 * width * sizeof(float));
        made = job->tallies[w].weights != NULL;
        job->tallies[w].written = made ? job->tallies[w].weights + width : NULL;
    }
    return made ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for rows of %" PRIu64, width);
}

static void free_tallies(const job_t *job)
{
    for (uint32_t w = 0; job->tallies != NULL && w < or_workers_count(job->weights.workers); w++) {
        free(job->tallies[w].weights);
    }
    free(job->tallies);
}

static or_status_t convert(job_t *job)
{
    or_status_t status = or_weight_writer_init(&job->weights, job->writer, job->config->threads);
    if (status != OR_OK) {
        return status;
    }
    status = make_tallies(job);
    status = status != OR_OK ? status : or_gguf_writer_begin(job->writer);
    for (uint64_t i = 0; status == OR_OK && i < or_gguf_tensor_count(job->gguf); i++) {
        status = convert_tensor(job, &job->results[i]);
    }
    status = status != OR_OK ? status : or_gguf_writer_finish(job->writer);
    free_tallies(job);
    or_weight_writer_fini(&job->weights);
    return status;
}

// ---- output ----

static double relative(double squared_error, double power)
{
    return power > 0 ? sqrt(squared_error / power) : 0;
}

static void print_tensor(const result_t *result)
{
    const or_gguf_tensor_t *tensor = result->tensor;
    char shape[64], types[32];
    snprintf(shape, sizeof shape, "%" PRIu64 " x %" PRIu64, tensor->dims[0],
             tensor->elements / tensor->dims[0]);
    int used = snprintf(types, sizeof types, "%s -> ", or_gguf_tensor_type_name(tensor->type));
    snprintf(types + used, sizeof types - (size_t)used, "%s", or_gguf_tensor_type_name(result->to));
    printf("%-28.*s %14s  %-16s %9.2f %9.5f %9.2g%s\n", (int)tensor->name.length,
           tensor->name.bytes, shape, types, (double)result->bytes * MIB,
           relative(result->squared_error, result->power), result->largest_error,
           result->to != result->wanted ? " *" : "");
}

static void print_fallback(const job_t *job)
{
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        if (job->results[i].to != job->results[i].wanted &&
            or_weight_is_matrix(job->results[i].tensor)) {
            printf("* rows of %" PRIu64 " are no whole blocks of %s\n",
                   job->results[i].tensor->dims[0],
                   or_gguf_tensor_type_name(job->results[i].wanted));
            return;
        }
    }
}

static void print_table(const job_t *job, double seconds)
{
    double power = 0, squared_error = 0, largest = 0;
    uint64_t vectors = 0;
    printf("%-28s %14s  %-16s %9s %9s %9s\n", "tensor", "shape", "type", "MiB", "rms error",
           "largest");
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        const result_t *result = &job->results[i];
        if (!or_weight_is_matrix(result->tensor)) {
            vectors++;
            continue;
        }
        print_tensor(result);
        power += result->power;
        squared_error += result->squared_error;
        largest = fmax(largest, result->largest_error);
    }
    print_fallback(job);
    if (job->imatrix != NULL) {
        printf("errors of %" PRIu64 " matrices count by the importance in %s; %" PRIu64
               " are not in it and quantised as without\n",
               job->named, job->config->imatrix, job->unnamed);
    }
    printf("\nall matrices: rms error %.5f of the weights' rms, largest %.2g; %" PRIu64
           " vectors stay as they are\n%s: %.1f MiB from %.1f, in %.1f s\n",
           relative(squared_error, power), largest, vectors, job->out,
           (double)or_gguf_writer_file_bytes(job->writer) * MIB,
           (double)or_gguf_file_bytes(job->gguf) * MIB, seconds);
}

static json_t *tensor_object(const result_t *result)
{
    const or_gguf_tensor_t *tensor = result->tensor;
    json_t *shape = json_array();
    for (uint32_t d = 0; d < tensor->dim_count; d++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->dims[d]));
    }
    json_t *object = json_pack(
        "{s:s%, s:o, s:s, s:I, s:f, s:f}", "name", tensor->name.bytes, tensor->name.length, "shape",
        shape, "from", or_gguf_tensor_type_name(tensor->type), "bytes", (json_int_t)result->bytes,
        "relative_rms_error", relative(result->squared_error, result->power), "largest_error",
        result->largest_error);
    json_object_set_new(object, "to", json_string(or_gguf_tensor_type_name(result->to)));
    return object;
}

static or_status_t print_json(const job_t *job, double seconds)
{
    double power = 0, squared_error = 0;
    json_t *tensors = json_array();
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        json_array_append_new(tensors, tensor_object(&job->results[i]));
        bool counts = or_weight_is_matrix(job->results[i].tensor);
        power += counts ? job->results[i].power : 0;
        squared_error += counts ? job->results[i].squared_error : 0;
    }
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:o}", "from", job->in, "to", job->out,
                  "type", or_gguf_tensor_type_name(job->type), "bytes_before",
                  (json_int_t)or_gguf_file_bytes(job->gguf), "bytes_after",
                  (json_int_t)or_gguf_writer_file_bytes(job->writer), "seconds", seconds,
                  "relative_rms_error", relative(squared_error, power), "tensors", tensors);
    if (job->imatrix != NULL) {
        json_object_set_new(line, "imatrix",
                            json_pack("{s:s, s:I, s:I}", "file", job->config->imatrix, "named",
                                      (json_int_t)job->named, "unnamed", (json_int_t)job->unnamed));
    }
    return or_output_json(line, OR_OUTPUT_DIGITS);
}

// ---- the command ----

static or_status_t quantize(job_t *job)
{
    int64_t start_ns = or_clock_now(or_clock_monotonic());
    or_status_t status = or_gguf_open(job->in, &job->gguf);
    if (status == OR_OK && job->config->imatrix != NULL) {
        status = or_imatrix_open(job->config->imatrix, &job->imatrix);
    }
    status = status != OR_OK ? status
                             : or_weight_writer_check_path(job->gguf, job->out, job->config->force);
    status = status != OR_OK ? status : or_gguf_writer_create(job->out, &job->writer);
    status = status != OR_OK ? status : plan(job);
    status = status != OR_OK ? status : convert(job);
    if (status == OR_OK) {
        int64_t took_ns = or_clock_now(or_clock_monotonic()) - start_ns;
        double seconds = (double)took_ns / (double)OR_NS_PER_S;
        if (job->config->json) {
            status = print_json(job, seconds);
        } else {
            print_table(job, seconds);
        }
    }
    free(job->results);
    or_gguf_writer_destroy(&job->writer);
    or_imatrix_close(&job->imatrix);
    or_gguf_close(&job->gguf);
    return status;
}

static or_status_t read_words(const or_option_list_t *words, job_t *job)
{
    const config_t *config = job->config;
    if (words->count != 3) {
        return or_fail(OR_ERR_INVALID, "give IN, OUT and TYPE, as in "
                                       "outrider model quantize model.gguf model-q8_0.gguf Q8_0; "
                                       "threads are -t N");
    }
    job->in = words->items[0];
    job->out = words->items[1];
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    status = status != OR_OK ? status : or_weight_type_parse("TYPE", words->items[2], &job->type);
    job->output_type = job->embedding_type = job->type;
    if (status == OR_OK && config->output_type != NULL) {
        status =
            or_weight_type_parse("--output-tensor-type", config->output_type, &job->output_type);
    }
    if (status == OR_OK && config->embedding_type != NULL) {
        status = or_weight_type_parse("--token-embedding-type", config->embedding_type,
                                      &job->embedding_type);
    }
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {0};
    or_option_list_t words = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    job_t job = {.config = &config};
    code = OR_EXIT_USAGE;
    or_status_t status = read_words(&words, &job);
    if (status == OR_OK) {
        char *in = NULL;
        status = or_checkpoint_find_file(words.items[0], &in);
        job.in = in;
        status = status != OR_OK ? status : quantize(&job);
        free(in);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_quantize_command = {"quantize", run, "IN OUT TYPE [options]"};
