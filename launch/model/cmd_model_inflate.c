// outrider model inflate - a model that computes what a small one does, at a large one's cost.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/math/rng.h"
#include "common/model/model.h"
#include "launch/commands.h"
#include "launch/model/inflate_rows.h"

#define PASS_ROWS 32u // of a model that is verified
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

// Parse "300M" or "1.2B".
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

// Say in the metadata what the file is, so that nobody takes it for a trained model.
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
    if (job->config->type == NULL) {
        return compare_models(job->in, job->made, job->config->threads, TOKENS_COMPARED,
                              job->config->seed, &job->compared);
    }
    if (asprintf(&same, "%s.%jd.original", job->out, (intmax_t)getpid()) < 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file's name");
    }
    or_status_t status = write_model(job, same, &plan, &bytes);
    status = status != OR_OK ? status
                             : compare_models(same, job->made, job->config->threads,
                                              TOKENS_COMPARED, job->config->seed, &job->compared);
    unlink(same);
    free(same);
    return status;
}

// Write the new file under a name of its own until it is verified: whoever has an old OUT keeps it as long.
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

static int run(int argc, char **argv)
{
    config_t config = {.seed = 1};
    or_option_list_t words = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    job_t job = {.config = &config};
    code = OR_EXIT_USAGE;
    or_status_t status = read_words(&words, &job);
    if (status == OR_OK) {
        status = inflate(&job);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_inflate_command = {"inflate", run,
                                               "IN OUT SIZE [--type TYPE] [options]"};
