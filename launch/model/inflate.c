#include "launch/model/inflate.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/interrupt.h"
#include "common/base/math/rng.h"
#include "common/gguf/gguf_writer.h"
#include "common/model/model.h"
#include "launch/model/inflate_rows.h"

#define PASS_ROWS 32u // of a model that is verified
#define TOKENS_COMPARED 256u
#define NAME_BYTES 256u
#define NEW_ENDING ".new"           // of a file that is written
#define ORIGINAL_ENDING ".original" // of the original in the new file's type
#define TEMPORARY "%s.%jd%s"        // OUT, process, ending

typedef struct {
    const or_inflate_job_t *asked;
    or_gguf_t *gguf;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_inflate_plan_t plan;
    char *made; // the new file until it is verified
    uint64_t file_bytes;
    uint32_t compared; // tokens
} job_t;

or_status_t or_inflate_parse_size(const char *what, const char *text, uint64_t *parameters)
{
    char *end;
    double number = strtod(text, &end);
    double unit = strcmp(end, "M") == 0 || strcmp(end, "m") == 0   ? 1e6
                  : strcmp(end, "B") == 0 || strcmp(end, "b") == 0 ? 1e9
                                                                   : 0;
    if (end == text || !(number > 0) || unit == 0 || number * unit > 1e12) {
        return or_fail(OR_ERR_INVALID,
                       "%s: '%s' is no number of parameters; give it as 300M or 1.2B", what, text);
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
    return status == OR_OK && job->asked->type != NULL
               ? or_weight_type_describe(*job->asked->type, writer)
               : status;
}

void or_inflate_source(const or_gguf_t *gguf, char source[OR_INFLATE_SOURCE_BYTES])
{
    snprintf(source, OR_INFLATE_SOURCE_BYTES, "%016" PRIx64, or_gguf_fingerprint(gguf));
}

// Say in the metadata what the file is, so that nobody takes it for a trained model.
static or_status_t set_origin(const job_t *job, or_gguf_writer_t *writer)
{
    char name[NAME_BYTES], text[2 * NAME_BYTES], source[OR_INFLATE_SOURCE_BYTES];
    or_gguf_string_t old = {0};
    if (or_gguf_get_string(job->gguf, "general.name", &old) != OR_OK) {
        old = (or_gguf_string_t){"a model", strlen("a model")};
    }
    int shown = old.length > NAME_BYTES / 2 ? (int)NAME_BYTES / 2 : (int)old.length;
    snprintf(name, sizeof name, "%.*s", shown, old.bytes);
    snprintf(text, sizeof text, "%s inflated to %s", name, job->asked->size);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"outrider.inflated.parameters", job->plan.parameters},
                   {"outrider.inflated.layers", job->plan.layers},
                   {"outrider.inflated.ffn", job->plan.ffn},
                   {"outrider.inflated.seed", job->asked->seed}};
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
    or_inflate_source(job->gguf, source);
    status =
        status != OR_OK ? status : or_gguf_writer_set_string(writer, OR_INFLATE_SOURCE_KEY, source);
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
                                                job->asked->type, job->asked->seed, &rows);
    status = status != OR_OK ? status : or_gguf_writer_create(path, &writer);
    status = status != OR_OK ? status : or_gguf_writer_copy(writer, job->gguf);
    status = status != OR_OK ? status : set_shape(job, plan, writer);
    status = status != OR_OK ? status : set_origin(job, writer);
    status = status != OR_OK ? status : or_inflate_rows_add(rows, writer);
    status =
        status != OR_OK ? status : or_weight_writer_init(&weights, writer, job->asked->threads);
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

// ---- verification ----

typedef struct {
    or_gguf_t *gguf;
    or_model_t *model;
    or_kv_sequence_t *sequence;
    float *logits; // [PASS_ROWS][vocabulary]
} side_t;

static or_status_t open_side(const char *path, uint32_t threads, uint32_t tokens, side_t *side)
{
    or_model_options_t options = {
        .threads = threads, .rows_max = PASS_ROWS, .context_max = tokens, .sequences_max = 1};
    or_status_t status = or_gguf_open(path, &side->gguf);
    status = status != OR_OK ? status : or_model_load(side->gguf, &options, &side->model);
    status = status != OR_OK ? status : or_model_open_sequence(side->model, 0, &side->sequence);
    if (status != OR_OK) {
        return status;
    }
    side->logits = calloc(PASS_ROWS, or_model_shape(side->model)->vocab_size * sizeof(float));
    return side->logits != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for the logits");
}

static void close_side(side_t *side)
{
    free(side->logits);
    or_kv_sequence_close(&side->sequence);
    or_model_destroy(&side->model);
    or_gguf_close(&side->gguf);
}

static or_status_t compute(side_t *side, const int32_t *tokens, uint32_t count)
{
    or_model_row_t rows[PASS_ROWS];
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (or_model_row_t){side->sequence, tokens[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    or_status_t status = or_model_forward(side->model, rows, count);
    return status != OR_OK ? status : or_model_logits(side->model, 0, count, side->logits);
}

static int32_t random_token(or_rng_key_t key, uint32_t place, uint32_t vocab_size)
{
    const uint32_t counter[4] = {place, 0, 0, 0};
    uint32_t bits[4];
    or_philox(key, counter, bits);
    return (int32_t)(bits[0] % vocab_size);
}

static or_status_t compare_sides(side_t sides[2], uint32_t count, uint64_t seed)
{
    uint32_t vocab_size = or_model_shape(sides[0].model)->vocab_size;
    or_rng_key_t key = or_rng_key(seed, 0);
    for (uint32_t first = 0; first < count; first += PASS_ROWS) {
        int32_t tokens[PASS_ROWS];
        uint32_t rows = count - first < PASS_ROWS ? count - first : PASS_ROWS;
        for (uint32_t i = 0; i < rows; i++) {
            tokens[i] = random_token(key, first + i, vocab_size);
        }
        or_status_t status = compute(&sides[0], tokens, rows);
        status = status != OR_OK ? status : compute(&sides[1], tokens, rows);
        if (status != OR_OK) {
            return status;
        }
        if (memcmp(sides[0].logits, sides[1].logits, sizeof(float) * rows * vocab_size) != 0) {
            return or_fail(OR_ERR_MISMATCH,
                           "the inflated model computes other logits than the original, from token "
                           "%" PRIu32 " to %" PRIu32 " on; nothing was written",
                           first, first + rows - 1);
        }
        if (or_interrupt_count() > 0) {
            return or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written");
        }
    }
    return OR_OK;
}

// Cut *tokens to what the context of the file at `path` holds.
static or_status_t fit_context(const char *path, uint32_t *tokens)
{
    or_gguf_t *gguf = NULL;
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_gguf_open(path, &gguf);
    status = status != OR_OK ? status : or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    or_gguf_close(&gguf);
    if (status == OR_OK && shape.context < *tokens) {
        *tokens = shape.context;
    }
    return status;
}

// Run both models over the same pseudo-random tokens, at most `tokens` and no more than the context holds, and compare all logits
// bit by bit. *compared is how many tokens that were. OR_ERR_MISMATCH if a bit differs; OR_ERR_CANCELLED if interrupted.
static or_status_t compare_models(const char *path_a, const char *path_b, uint32_t threads,
                                  uint32_t tokens, uint64_t seed, uint32_t *compared)
{
    side_t sides[2] = {0};
    or_status_t status = fit_context(path_a, &tokens);
    status = status != OR_OK ? status : open_side(path_a, threads, tokens, &sides[0]);
    status = status != OR_OK ? status : open_side(path_b, threads, tokens, &sides[1]);
    status = status != OR_OK ? status : compare_sides(sides, tokens, seed);
    close_side(&sides[1]);
    close_side(&sides[0]);
    if (status == OR_OK) {
        *compared = tokens;
    }
    return status;
}

// Compare the new model with the original. If another type was asked for, that is the original in this type, in a file that
// lives as long as the comparison.
static or_status_t verify(job_t *job)
{
    char *same = NULL;
    uint64_t bytes;
    or_inflate_plan_t plan = {job->shape.layers, job->shape.layers, job->shape.ffn, job->shape.ffn,
                              job->shape.parameters};
    if (job->asked->type == NULL) {
        return compare_models(job->asked->in, job->made, job->asked->threads, TOKENS_COMPARED,
                              job->asked->seed, &job->compared);
    }
    if (asprintf(&same, TEMPORARY, job->asked->out, (intmax_t)getpid(), ORIGINAL_ENDING) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file's name");
    }
    or_status_t status = write_model(job, same, &plan, &bytes);
    status = status != OR_OK ? status
                             : compare_models(same, job->made, job->asked->threads, TOKENS_COMPARED,
                                              job->asked->seed, &job->compared);
    unlink(same);
    free(same);
    return status;
}

// Write the new file under a name of its own until it is verified: whoever has an old OUT keeps it as long.
static or_status_t make(job_t *job)
{
    if (asprintf(&job->made, TEMPORARY, job->asked->out, (intmax_t)getpid(), NEW_ENDING) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file's name");
    }
    or_status_t status = write_model(job, job->made, &job->plan, &job->file_bytes);
    status = status != OR_OK ? status : verify(job);
    if (status == OR_OK && rename(job->made, job->asked->out) != 0) {
        status = or_fail(OR_ERR_IO, "cannot write %s: %s", job->asked->out, strerror(errno));
    }
    if (status != OR_OK) {
        unlink(job->made);
    }
    free(job->made);
    return status;
}

void or_inflate_remove_left(const char *folder, const char *beginning)
{
    DIR *names = opendir(folder);
    const struct dirent *entry;
    while (names != NULL && (entry = readdir(names)) != NULL) {
        if (or_weight_writer_is_left(entry->d_name, beginning, NEW_ENDING) ||
            or_weight_writer_is_left(entry->d_name, beginning, ORIGINAL_ENDING) ||
            or_weight_writer_is_left(entry->d_name, beginning, OR_GGUF_PART_ENDING)) {
            unlinkat(dirfd(names), entry->d_name, 0);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
}

or_status_t or_inflate(const or_inflate_job_t *asked, or_inflate_result_t *result)
{
    job_t job = {.asked = asked};
    or_arch_numbers_t numbers;
    or_status_t status = or_gguf_open(asked->in, &job.gguf);
    status =
        status != OR_OK ? status : or_weight_writer_check_path(job.gguf, asked->out, asked->force);
    status = status != OR_OK ? status : or_arch_find(job.gguf, &job.arch);
    status = status != OR_OK ? status : or_arch_read(job.arch, job.gguf, &job.shape, &numbers);
    if (status == OR_OK && !job.arch->is_plain) {
        status = or_fail(OR_ERR_UNSUPPORTED,
                         "%s is of architecture %s, whose layers this version cannot enlarge; "
                         "choose a file of llama or qwen2",
                         asked->in, job.arch->name);
    }
    status = status != OR_OK ? status
                             : or_inflate_plan(job.arch, &job.shape, asked->parameters,
                                               asked->layers, &job.plan);
    status = status != OR_OK ? status : make(&job);
    or_gguf_close(&job.gguf);
    if (status == OR_OK) {
        *result = (or_inflate_result_t){job.plan, job.file_bytes, job.compared};
    }
    return status;
}
