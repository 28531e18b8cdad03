// outrider model imatrix - how much each input of a model's matrices counts, measured on texts (launch/model/imatrix.h).
//
// A text becomes tokens, and these chunks of one length, as in llama.cpp: what is left at its end is not used, and each chunk
// stands alone, with the begin token in place of its first one where the vocabulary wants one.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/model/cpu/importance.h"
#include "common/text/tokenizer.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/input.h"
#include "launch/model/weight_writer.h"
#include "launch/progress.h"

#define CHUNK_USUAL 512u // llama.cpp's
#define ROWS_MAX 512u    // of a pass
#define NAME_BYTES (OR_IMPORTANCE_NAME + 16)

typedef struct {
    char *model, *out;
    or_option_list_t texts;
    uint32_t chunk, threads;
    bool process_output, force;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, AT(model), "FILE",
     "model (GGUF); the demonstration target if not given"},
    {"texts", "f", OR_OPTION_LIST, AT(texts), "FILE",
     "a text of the kind that the model will read and write (- for standard input); more may "
     "follow"},
    {"output", "o", OR_OPTION_STRING, AT(out), "FILE", "the file to write"},
    {"chunk", "c", OR_OPTION_UINT32, AT(chunk), "N",
     "tokens of a chunk; 0: 512, or the model's context if that is less"},
    {"process-output", NULL, OR_OPTION_FLAG, AT(process_output), NULL,
     "also the head: output.weight, or the embedding where that is the head"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    {"force", NULL, OR_OPTION_FLAG, AT(force), NULL, "write over the file if it is there"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model imatrix",
    .summary = "measure on texts how much each input of a model's matrices counts",
    .usage = "--texts FILE... [options]",
    .table = table,
    .examples =
        "The file is an importance matrix in llama.cpp's form, for model quantize --imatrix, "
        "there\n"
        "and here. Some hundred thousand tokens are plenty. Passes run on the CPU.\n\n"
        "Example:\n  outrider model imatrix -m model-f16.gguf --texts novel.txt code.txt\n"
        "  outrider model quantize model-f16.gguf model-q2_k.gguf Q2_K --imatrix imatrix.gguf\n",
};

// The tokens of a text.
typedef struct {
    const char *path; // borrowed
    int32_t *ids;     // owned
    size_t count;
} text_t;

typedef struct {
    const config_t *config;
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_importance_t *importance;
    or_gguf_writer_t *writer;
    or_progress_t progress;
    text_t *texts;
    size_t text_count;
    uint32_t chunk;        // tokens
    uint64_t chunks, done; // of all texts
    uint64_t left;         // tokens that are in no chunk
    uint64_t without_rows; // experts
} job_t;

// ---- texts ----

static or_status_t choose_chunk(job_t *job)
{
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_arch_find(job->gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, job->gguf, &shape, &numbers);
    if (status != OR_OK) {
        return status;
    }
    job->chunk = job->config->chunk;
    if (job->chunk > shape.context) {
        return or_fail(OR_ERR_INVALID,
                       "-c/--chunk: %" PRIu32
                       " tokens are more than the model's context of %" PRIu32,
                       job->chunk, shape.context);
    }
    if (job->chunk == 0) {
        job->chunk = shape.context < CHUNK_USUAL ? shape.context : CHUNK_USUAL;
    }
    return OR_OK;
}

static or_status_t check_interruption(void)
{
    return or_interrupt_count() == 0
               ? OR_OK
               : or_fail(OR_ERR_CANCELLED, "interrupted; nothing was written");
}

static or_status_t read_text(job_t *job, const char *path)
{
    char *bytes = NULL;
    size_t length = 0;
    unsigned flags = OR_TOKENIZE_WHOLE | (or_vocab_adds_bos(job->vocab) ? OR_TOKENIZE_BOS : 0U);
    text_t *text = &job->texts[job->text_count];
    or_status_t status = or_input_read(path, &bytes, &length);
    if (check_interruption() != OR_OK) { // which also ends a read
        free(bytes);
        return OR_ERR_CANCELLED;
    }
    if (status != OR_OK) {
        return status;
    }
    status = or_tokenize(job->vocab, bytes, length, flags, &text->ids, &text->count);
    free(bytes);
    if (status != OR_OK) {
        return or_fail_context(status, "%s", path);
    }
    text->path = path;
    job->text_count++;
    job->chunks += text->count / job->chunk;
    job->left += text->count % job->chunk;
    return text->count >= job->chunk ? OR_OK
                                     : or_fail(OR_ERR_INVALID,
                                               "%s has %zu tokens, which are no chunk of %" PRIu32
                                               "; give more text, or a smaller -c",
                                               path, text->count, job->chunk);
}

static or_status_t read_texts(job_t *job, const or_option_list_t *words)
{
    const or_option_list_t *lists[] = {&job->config->texts, words};
    or_status_t status = OR_OK;
    job->texts = calloc(lists[0]->count + lists[1]->count, sizeof *job->texts);
    if (job->texts == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the list of texts");
    }
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; status == OR_OK && i < lists[l]->count; i++) {
            status = read_text(job, lists[l]->items[i]);
        }
    }
    return status;
}

// ---- passes ----

// Run one chunk as a text of its own.
static or_status_t run_chunk(job_t *job, const int32_t *ids, or_model_row_t *rows)
{
    or_kv_sequence_t *sequence = NULL;
    const uint32_t rows_max = or_model_rows_max(job->model);
    const bool begins = or_vocab_adds_bos(job->vocab) && or_vocab_bos(job->vocab) != OR_TOKEN_NONE;
    or_status_t status = or_model_open_sequence(job->model, 0, &sequence);
    for (uint32_t first = 0; status == OR_OK && first < job->chunk; first += rows_max) {
        uint32_t left = job->chunk - first;
        uint32_t count = left < rows_max ? left : rows_max;
        for (uint32_t r = 0; r < count; r++) {
            int32_t id = first + r == 0 && begins ? or_vocab_bos(job->vocab) : ids[first + r];
            rows[r] = (or_model_row_t){sequence, id, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        }
        status = check_interruption();
        status = status != OR_OK ? status : or_model_forward(job->model, rows, count);
    }
    or_kv_sequence_close(&sequence);
    return status;
}

static or_status_t run_texts(job_t *job, or_model_row_t *rows)
{
    or_status_t status = OR_OK;
    or_progress_init(&job->progress, job->chunks, false);
    for (size_t t = 0; t < job->text_count; t++) {
        const text_t *text = &job->texts[t];
        for (size_t i = 0; status == OR_OK && i < text->count / job->chunk; i++) {
            status = run_chunk(job, text->ids + i * job->chunk, rows);
            or_progress_show(&job->progress, ++job->done, text->path);
        }
    }
    or_progress_clear(&job->progress);
    return status;
}

static or_status_t collect(job_t *job)
{
    const or_model_options_t options = {.threads = job->config->threads,
                                        .context_max = job->chunk,
                                        .rows_max = job->chunk < ROWS_MAX ? job->chunk : ROWS_MAX,
                                        .sequences_max = 1};
    or_status_t status = or_model_load(job->gguf, &options, &job->model);
    if (status == OR_OK && or_model_context(job->model) < job->chunk) {
        status =
            or_fail(OR_ERR_NO_MEMORY,
                    "no memory for a chunk of %" PRIu32 " tokens; give a smaller -c", job->chunk);
    }
    status = status != OR_OK
                 ? status
                 : or_importance_create(job->model, job->config->process_output, &job->importance);
    or_model_row_t *rows = calloc(options.rows_max, sizeof *rows);
    if (status == OR_OK && rows == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for rows of a pass");
    }
    status = status != OR_OK ? status : run_texts(job, rows);
    free(rows);
    return status;
}

// ---- the file ----

// Passes may take hours: whether their result can be written is found out before them.
static or_status_t prepare_file(job_t *job)
{
    const config_t *config = job->config;
    or_status_t status = or_weight_writer_check_path(job->gguf, config->out, config->force);
    status = status != OR_OK ? status : or_gguf_writer_create(config->out, &job->writer);
    return status != OR_OK ? status : or_gguf_writer_try(job->writer);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const or_importance_entry_t *const *)a)->name,
                  (*(const or_importance_entry_t *const *)b)->name);
}

static or_status_t add_tensor(or_gguf_writer_t *writer, const or_importance_entry_t *entry,
                              const char *end, uint64_t columns)
{
    char name[NAME_BYTES];
    const uint64_t dims[] = {columns, entry->matrices};
    int length = snprintf(name, sizeof name, "%s.%s", entry->name, end);
    return or_gguf_writer_add_tensor(writer, (or_gguf_string_t){name, (size_t)length}, 2, dims,
                                     OR_TENSOR_F32);
}

// The floats that are written at once: a matrix's sums, or all counts.
static uint32_t floats_of(const or_importance_entry_t *entry)
{
    return entry->inputs > entry->matrices ? entry->inputs : entry->matrices;
}

static or_status_t put_sums(const job_t *job, const or_importance_entry_t *entry, uint32_t matrix,
                            float *floats)
{
    const double *sums = entry->sums + (size_t)matrix * entry->inputs;
    for (uint32_t i = 0; i < entry->inputs; i++) {
        floats[i] = (float)sums[i];
        if (!isfinite(floats[i])) {
            return or_fail(OR_ERR_FORMAT,
                           "what %s is multiplied with is no number; the model is damaged",
                           entry->name);
        }
    }
    return or_gguf_writer_put(job->writer, floats, entry->inputs * sizeof *floats);
}

static or_status_t put_entry(job_t *job, const or_importance_entry_t *entry, float *floats)
{
    or_status_t status = OR_OK;
    for (uint32_t m = 0; status == OR_OK && m < entry->matrices; m++) {
        status = put_sums(job, entry, m, floats);
    }
    for (uint32_t m = 0; m < entry->matrices; m++) {
        job->without_rows += entry->counts[m] == 0;
        floats[m] = (float)entry->counts[m];
    }
    return status != OR_OK
               ? status
               : or_gguf_writer_put(job->writer, floats, entry->matrices * sizeof *floats);
}

static or_status_t put_entries(job_t *job, const or_importance_entry_t **entries, uint32_t count)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < count; i++) {
        most = floats_of(entries[i]) > most ? floats_of(entries[i]) : most;
    }
    float *floats = calloc(most, sizeof *floats);
    or_status_t status =
        floats != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for %" PRIu32 " sums", most);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        status = put_entry(job, entries[i], floats);
    }
    free(floats);
    return status;
}

static or_status_t describe(const job_t *job)
{
    or_gguf_writer_t *writer = job->writer;
    or_gguf_string_t *names = calloc(job->text_count, sizeof *names);
    if (names == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the names of texts");
    }
    for (size_t i = 0; i < job->text_count; i++) {
        names[i] = (or_gguf_string_t){job->texts[i].path, strlen(job->texts[i].path)};
    }
    or_status_t status = or_gguf_writer_set_string(writer, "general.type", "imatrix");
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_strings(writer, "imatrix.datasets", names, job->text_count);
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_u32(writer, "imatrix.chunk_count", (uint32_t)job->chunks);
    status =
        status != OR_OK ? status : or_gguf_writer_set_u32(writer, "imatrix.chunk_size", job->chunk);
    free(names);
    return status;
}

static or_status_t write_entries(job_t *job, const or_importance_entry_t **entries)
{
    const uint32_t count = or_importance_count(job->importance);
    or_gguf_writer_t *writer = job->writer;
    or_status_t status = describe(job);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = or_importance_entry(job->importance, i);
    }
    qsort(entries, count, sizeof(const or_importance_entry_t *), by_name);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        status = add_tensor(writer, entries[i], "in_sum2", entries[i]->inputs);
        status = status != OR_OK ? status : add_tensor(writer, entries[i], "counts", 1);
    }
    status = status != OR_OK ? status : or_gguf_writer_begin(writer);
    status = status != OR_OK ? status : put_entries(job, entries, count);
    return status != OR_OK ? status : or_gguf_writer_finish(writer);
}

static or_status_t write_file(job_t *job)
{
    const or_importance_entry_t **entries =
        calloc(or_importance_count(job->importance), sizeof(const or_importance_entry_t *));
    if (entries == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the list of matrices");
    }
    or_status_t status = write_entries(job, entries);
    free(entries);
    return status;
}

// ---- the command ----

static void report(const job_t *job, double seconds)
{
    printf("%s: %" PRIu32 " tensors, %" PRIu64 " chunks of %" PRIu32 " tokens, in %.1f s\n",
           job->config->out, or_importance_count(job->importance), job->chunks, job->chunk,
           seconds);
    if (job->left > 0) {
        printf("%" PRIu64 " tokens at the ends of texts fill no chunk and were not used\n",
               job->left);
    }
    if (job->without_rows > 0) {
        printf("%" PRIu64 " matrices of experts were taken by no token; all of their inputs will "
               "count alike\n",
               job->without_rows);
    }
}

static or_status_t measure(job_t *job, const or_option_list_t *words)
{
    int64_t start_ns = or_clock_now(or_clock_monotonic());
    or_interrupt_watch();
    or_status_t status = or_gguf_open(job->config->model, &job->gguf);
    status = status != OR_OK ? status : prepare_file(job);
    status = status != OR_OK ? status : or_vocab_load(job->gguf, &job->vocab);
    status = status != OR_OK ? status : choose_chunk(job);
    status = status != OR_OK ? status : read_texts(job, words);
    status = status != OR_OK ? status : collect(job);
    status = status != OR_OK ? status : write_file(job);
    if (status == OR_OK) {
        int64_t took_ns = or_clock_now(or_clock_monotonic()) - start_ns;
        report(job, (double)took_ns / (double)OR_NS_PER_S);
    }
    or_gguf_writer_destroy(&job->writer);
    or_importance_destroy(&job->importance);
    or_model_destroy(&job->model);
    for (size_t i = 0; job->texts != NULL && i < job->text_count; i++) {
        free(job->texts[i].ids);
    }
    free(job->texts);
    or_vocab_destroy(&job->vocab);
    or_gguf_close(&job->gguf);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {.out = "imatrix.gguf", .process_output = true};
    or_option_list_t words = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    job_t job = {.config = &config};
    code = OR_EXIT_USAGE;
    or_status_t status = or_command_check_threads("-t/--threads", config.threads);
    if (status == OR_OK && config.texts.count + words.count == 0) {
        status = or_fail(OR_ERR_INVALID, "give texts, as in outrider model imatrix -m model.gguf "
                                         "--texts novel.txt code.txt");
    }
    if (status == OR_OK) {
        status = or_models_choose_target(&config.model);
        status = status != OR_OK ? status : measure(&job, &words);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_imatrix_command = {"imatrix", run,
                                               "--texts FILE... [-m FILE] [-o FILE] [options]"};
