// outrider model convert - a GGUF file of a checkpoint as Hugging Face publishes it.
#include <inttypes.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "launch/commands.h"
#include "launch/model/convert/convert.h"

typedef struct {
    char *type;
    uint32_t threads;
    bool vocabulary_only, force, json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"type", NULL, OR_OPTION_STRING, AT(type), "TYPE",
     "convert the matrices to it, as model quantize does; each keeps its type if not given"},
    {"vocab-only", NULL, OR_OPTION_FLAG, AT(vocabulary_only), NULL,
     "write the vocabulary, without weights"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    {"force", NULL, OR_OPTION_FLAG, AT(force), NULL, "write over OUT if it is there"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model convert",
    .summary = "write a GGUF file of a checkpoint as Hugging Face publishes it",
    .usage = "FOLDER OUT [options]",
    .table = table,
    .examples =
        "FOLDER has config.json, a tokenizer (tokenizer.json, tokenizer.model, tiktoken.model, or\n"
        "vocab.json and merges.txt) and the weights: model.safetensors, or the files that\n"
        "model.safetensors.index.json lists. Vectors become F32, and weights in FP8 BF16 without\n"
        "--type. Nothing in the folder is executed, nothing outside it is read, and pickles are\n"
        "refused. What this version cannot convert exactly is refused by name.\n\n"
        "Example:\n  outrider model convert Qwen3-0.6B qwen3-q8_0.gguf --type Q8_0\n",
};

static void report(const config_t *config, const char *out, const or_convert_result_t *result,
                   double seconds)
{
    if (config->json) {
        printf("{\"architecture\":\"%s\",\"tensors\":%" PRIu64 ",\"parameters\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f}\n",
               result->architecture, result->tensors, result->parameters, result->file_bytes,
               seconds);
        return;
    }
    printf("%s: %s, %" PRIu64 " tensors, %.1f M parameters, %.1f MiB, in %.1f s\n", out,
           result->architecture, result->tensors, (double)result->parameters * 1e-6,
           (double)result->file_bytes * 0x1p-20, seconds);
}

static or_status_t convert(const config_t *config, const or_option_list_t *words, int *code)
{
    or_tensor_type_t type;
    or_convert_result_t result;
    *code = OR_EXIT_USAGE;
    if (words->count != 2) {
        return or_fail(OR_ERR_INVALID,
                       "give FOLDER and OUT, as in outrider model convert Qwen3-0.6B qwen3.gguf");
    }
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    if (status == OR_OK && config->type != NULL) {
        status = or_weight_type_parse("--type", config->type, &type);
    }
    if (status != OR_OK) {
        return status;
    }
    const or_convert_job_t job = {.folder = words->items[0],
                                  .out = words->items[1],
                                  .type = config->type != NULL ? &type : NULL,
                                  .threads = config->threads,
                                  .force = config->force,
                                  .vocabulary_only = config->vocabulary_only};
    int64_t start_ns = or_clock_now(or_clock_monotonic());
    status = or_convert(&job, &result);
    *code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    if (status == OR_OK) {
        int64_t took_ns = or_clock_now(or_clock_monotonic()) - start_ns;
        report(config, job.out, &result, (double)took_ns / (double)OR_NS_PER_S);
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
    or_status_t status = convert(&config, &words, &code);
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_convert_command = {"convert", run, "FOLDER OUT [options]"};
