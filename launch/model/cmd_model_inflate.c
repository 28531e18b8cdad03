// outrider model inflate - a model that computes what a small one does, at a large one's cost.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/options/options.h"
#include "launch/commands.h"
#include "launch/model/inflate_rows.h"
#include "launch/model/inflate_verify.h"
#include "launch/model/weight_types.h"

#define TOKENS_COMPARED 256u
#define NAME_BYTES 256u

typedef struct {
    char *type;
    uint32_t layers, threads;
    uint64_t seed;
    bool force, json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"type", NULL, OR_OPTION_STRING, AT(type), "TYPE",
     "also convert the matrices, as model quantize does; each keeps its type if not given"},
    {"layers", NULL, OR_OPTION_UINT32, AT(layers), "N",
     "layers of the result; 0: what comes nearest to SIZE, if possible from 24 to 48"},
    {"seed", NULL, OR_OPTION_UINT64, AT(seed), "N", "of the random weights"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    {"force", NULL, OR_OPTION_FLAG, AT(force), NULL, "write over OUT if it is there"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model inflate",
    .summary = "write a model that computes what a small one does, at a large one's cost",
    .usage = "IN OUT SIZE [options]",
    .table = table,
    .examples =
        "SIZE is the number of parameters: 300M, 1.2B. Layers are added whose output projections\n"
        "are zero, and FFN columns whose down-projection is zero; all other new weights are\n"
        "random. So the same text comes out and as many bytes are read as of a trained model of\n"
        "that size: for measurements where there is none. When it is written both models compute\n"
        "256 tokens; if a bit of a logit differs, that is an error and nothing is written.\n\n"
        "Example:\n  outrider model inflate launch/models/tales-6m-f16.gguf big.gguf 300M --type "
        "Q8_0\n",
};

typedef struct {
    const config_t *config;
    const char *in, *out, *size;
    uint64_t wanted; // parameters
    or_tensor_type_t type;
    or_gguf_t *gguf;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_inflate_plan_t plan;
    char *made; // the new file until it is verified
    uint64_t file_bytes;
    uint32_t compared; // tokens
} job_t;

// "300M" or "1.2B".
static or_status_t parse_size(const char *text, uint64_t *parameters)
{
    char *end;
    double number = strtod(text, &end);
    double unit = strcmp(end, "M") == 0 || strcmp(end, "m") == 0   ? 1e6
                  : strcmp(end, "B") == 0 || strcmp(end, "b") == 0 ? 1e9
                                                                   : 0;
    if (end == text || !(number > 0) || unit == 0 || number * unit > 1e12) {
        return or_fail(OR_ERR_INVALID,
                       "SIZE: '%s' is no number of parameters; give it as 300M or 1.2B", text);
    }
    *parameters = (uint64_t)(number * unit);
    return OR_OK;
}

// ---- metadata ----

static or_status_t set_shape(const job_t *job, const or_inflate_plan_t *plan,
                             or_gguf_writer_t *writer)
{
    const struct {
        const char *suffix;
        uint32_t value;
    } dims[] = {{"block_count", plan->layers}, {"feed_forward_length", plan->ffn}};
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof dims / sizeof *dims; i++) {
        char key[NAME_BYTES];
        snprintf(key, sizeof key, "%s.%s", job->arch->name, dims[i].suffix);
        status = or_gguf_writer_set_u32(writer, key, dims[i].value);
    }
    return status == OR_OK && job->config->type != NULL ? or_weight_type_describe(job->type, writer)
                                                        : status;
}

// What the file is, so that nobody takes it for a trained model.
static or_status_t set_origin(const job_t *job, or_gguf_writer_t *writer)
{
    char name[NAME_BYTES], text[2 * NAME_BYTES];
    or_gguf_string_t old = {0};
    if (or_gguf_get_string(job->gguf, "general.name", &old) != OR_OK) {
        old = (or_gguf_string_t){"a model", strlen("a model")};
    }
    int shown = old.length > NAME_BYTES / 2 ? (int)NAME_BYTES / 2 : (int)old.length;
    snprintf(name, sizeof name, "%.*s", shown, old.bytes);
    snprintf(text, sizeof text, "%s inflated to %s", name, job->size);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"outrider.inflated.parameters", job->plan.parameters},
                   {"outrider.inflated.layers", job->plan.layers},
                   {"outrider.inflated.ffn", job->plan.ffn},
                   {"outrider.inflated.seed", job->config->seed}};
    or_status_t status = or_gguf_writer_set_string(writer, "general.name", text);
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_string(
                       writer, "general.description",
                       "Computes the same as the model it was made of, at the cost of a "
                       "larger one: the added layers and FFN columns are random and "
                       "add zero. For measurements only (outrider model inflate).");
    status = status != OR_OK ? status
                             : or_gguf_writer_set_string(writer, "outrider.inflated.from", name);
    for (size_t i = 0; status == OR_OK && i < sizeof numbers / sizeof *numbers; i++) {
        status = or_gguf_writer_set_u64(writer, numbers[i].key, numbers[i].value);
    }
    or_gguf_writer_drop(writer, "general.size_label");
    return status;
}

// ---- files ----

// Write the model in this shape; in its own shape it is only converted.
static or_status_t write_model(const job_t *job, const char *path, const or_inflate_plan_t *plan,
                               uint64_t *file_bytes)
{
    or_inflate_rows_t *rows = NULL;
    or_gguf_writer_t *writer = NULL;
    or_weight_writer_t weights = {0};
    or_status_t status = or_inflate_rows_create(job->gguf, job->arch, &job->shape, plan,
                                                job->config->type != NULL ? &job->type : NULL,
                                                job->config->seed, &rows);
    status = status != OR_OK ? status : or_gguf_writer_create(path, &writer);
    status = status != OR_OK ? status : or_gguf_writer_copy(writer, job->gguf);
    status = status != OR_OK ? status : set_shape(job, plan, writer);
    status = status != OR_OK ? status : set_origin(job, writer);
    status = status != OR_OK ? status : or_inflate_rows_add(rows, writer);
    status =
        status != OR_OK ? status : or_weight_writer_init(&weights, writer, job->config->threads);
    status = status != OR_OK ? status : or_gguf_writer_begin(writer);
    status = status != OR_OK ? status : or_inflate_rows_write(rows, &weights);
    status = status != OR_OK ? status : or_gguf_writer_finish(writer);
    if (status == OR_OK) {
        *file_bytes = or_gguf_writer_file_bytes(writer);
    }
    if (weights.workers != NULL) {
        or_weight_writer_fini(&weights);
    }
    or_gguf_writer_destroy(&writer);
    or_inflate_rows_destroy(&rows);
    return status;
}

// Against the original, or what it is in the type asked for: a file that lives as long as this.
static or_status_t verify(job_t *job)
{
    char *same = NULL;
    uint64_t bytes;
    or_inflate_plan_t plan = {job->shape.layers, job->shape.layers, job->shape.ffn, job->shape.ffn,
                              job->shape.parameters};
    if (job->config->type == NULL) {
        return or_inflate_verify(job->in, job->made, job->config->threads, TOKENS_COMPARED,
                                 job->config->seed, &job->compared);
    }
    if (asprintf(&same, "%s.%jd.original", job->out, (intmax_t)getpid()) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file's name");
    }
    or_status_t status = write_model(job, same, &plan, &bytes);
    status = status != OR_OK
                 ? status
                 : or_inflate_verify(same, job->made, job->config->threads, TOKENS_COMPARED,
                                     job->config->seed, &job->compared);
    unlink(same);
    free(same);
    return status;
}

// Under a name of its own until it is verified: whoever has an old OUT keeps it as long.
static or_status_t make(job_t *job)
{
    if (asprintf(&job->made, "%s.%jd.new", job->out, (intmax_t)getpid()) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file's name");
    }
    or_status_t status = write_model(job, job->made, &job->plan, &job->file_bytes);
    status = status != OR_OK ? status : verify(job);
    if (status == OR_OK && rename(job->made, job->out) != 0) {
        status = or_fail(OR_ERR_IO, "cannot write %s: %s", job->out, strerror(errno));
    }
    if (status != OR_OK) {
        unlink(job->made);
    }
    free(job->made);
    return status;
}

static void report(const job_t *job, double seconds)
{
    const or_inflate_plan_t *plan = &job->plan;
    if (job->config->json) {
        printf("{\"parameters\":%" PRIu64 ",\"layers\":%" PRIu32 ",\"old_layers\":%" PRIu32
               ",\"ffn\":%" PRIu32 ",\"old_ffn\":%" PRIu32 ",\"bytes\":%" PRIu64
               ",\"identical_tokens\":%" PRIu32 ",\"seconds\":%.3f}\n",
               plan->parameters, plan->layers, plan->old_layers, plan->ffn, plan->old_ffn,
               job->file_bytes, job->compared, seconds);
        return;
    }
    printf("%s: %.1f M parameters, %.1f MiB, in %.1f s\n%" PRIu32 " layers, of them %" PRIu32
           " old ones; an FFN of %" PRIu32 ", of it %" PRIu32
           " old\nidentical bits in all logits of %" PRIu32 " tokens\n",
           job->out, (double)plan->parameters * 1e-6, (double)job->file_bytes * 0x1p-20, seconds,
           plan->layers, plan->old_layers, plan->ffn, plan->old_ffn, job->compared);
}

static or_status_t inflate(job_t *job)
{
    or_arch_numbers_t numbers;
    int64_t start_ns = or_clock_now(or_clock_monotonic());
    or_status_t status = or_gguf_open(job->in, &job->gguf);
    status = status != OR_OK ? status
                             : or_weight_writer_check_path(job->gguf, job->out, job->config->force);
    status = status != OR_OK ? status : or_arch_find(job->gguf, &job->arch);
    status = status != OR_OK ? status : or_arch_read(job->arch, job->gguf, &job->shape, &numbers);
    status = status != OR_OK ? status
                             : or_inflate_plan(job->arch, &job->shape, job->wanted,
                                               job->config->layers, &job->plan);
    status = status != OR_OK ? status : make(job);
    or_gguf_close(&job->gguf);
    if (status == OR_OK) {
        int64_t took_ns = or_clock_now(or_clock_monotonic()) - start_ns;
        report(job, (double)took_ns / (double)OR_NS_PER_S);
    }
    return status;
}

static or_status_t read_words(const or_option_list_t *words, job_t *job)
{
    if (words->count != 3) {
        return or_fail(OR_ERR_INVALID, "give IN, OUT and SIZE, as in "
                                       "outrider model inflate small.gguf big.gguf 300M");
    }
    job->in = words->items[0];
    job->out = words->items[1];
    job->size = words->items[2];
    or_status_t status = or_command_check_threads("-t/--threads", job->config->threads);
    status = status != OR_OK ? status : parse_size(job->size, &job->wanted);
    return status == OR_OK && job->config->type != NULL
               ? or_weight_type_parse("--type", job->config->type, &job->type)
               : status;
}

int or_command_model_inflate(int argc, char **argv)
{
    config_t config = {.seed = 1};
    or_option_list_t words = {0};
    or_options_next_t next;
    or_status_t status = or_options_parse(&program, argc, argv, &config, &words, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("model inflate", OR_EXIT_USAGE);
    }
    job_t job = {.config = &config};
    int code = OR_EXIT_USAGE;
    status = read_words(&words, &job);
    if (status == OR_OK) {
        status = inflate(&job);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    }
    or_options_free(&program, &config, &words);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("model inflate", code);
}
