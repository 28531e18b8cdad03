// outrider model inflate - a model that computes what a small one does, at a large one's cost.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "launch/commands.h"
#include "launch/model/convert/cached.h"
#include "launch/model/inflate.h"

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

static void report(const config_t *config, const char *out, const or_inflate_result_t *result,
                   double seconds)
{
    const or_inflate_plan_t *plan = &result->plan;
    if (config->json) {
        printf("{\"parameters\":%" PRIu64 ",\"layers\":%" PRIu32 ",\"old_layers\":%" PRIu32
               ",\"ffn\":%" PRIu32 ",\"old_ffn\":%" PRIu32 ",\"bytes\":%" PRIu64
               ",\"identical_tokens\":%" PRIu32 ",\"seconds\":%.3f}\n",
               plan->parameters, plan->layers, plan->old_layers, plan->ffn, plan->old_ffn,
               result->file_bytes, result->compared, seconds);
        return;
    }
    printf("%s: %.1f M parameters, %.1f MiB, in %.1f s\n%" PRIu32 " layers, of them %" PRIu32
           " old ones; an FFN of %" PRIu32 ", of it %" PRIu32
           " old\nidentical bits in all logits of %" PRIu32 " tokens\n",
           out, (double)plan->parameters * 1e-6, (double)result->file_bytes * 0x1p-20, seconds,
           plan->layers, plan->old_layers, plan->ffn, plan->old_ffn, result->compared);
}

static or_status_t read_words(const or_option_list_t *words, const config_t *config,
                              or_inflate_job_t *job, or_tensor_type_t *type)
{
    if (words->count != 3) {
        return or_fail(OR_ERR_INVALID, "give IN, OUT and SIZE, as in "
                                       "outrider model inflate small.gguf big.gguf 300M");
    }
    *job = (or_inflate_job_t){.in = words->items[0],
                              .out = words->items[1],
                              .size = words->items[2],
                              .type = config->type != NULL ? type : NULL,
                              .layers = config->layers,
                              .threads = config->threads,
                              .seed = config->seed,
                              .force = config->force};
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    status = status != OR_OK ? status : or_inflate_parse_size("SIZE", job->size, &job->parameters);
    return status == OR_OK && config->type != NULL
               ? or_weight_type_parse("--type", config->type, type)
               : status;
}

static int run(int argc, char **argv)
{
    config_t config = {.seed = 1};
    or_option_list_t words = {0};
    or_inflate_job_t job;
    or_inflate_result_t result;
    or_tensor_type_t type;
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    or_status_t status = read_words(&words, &config, &job, &type);
    if (status == OR_OK) {
        int64_t start_ns = or_clock_now(or_clock_monotonic());
        char *in = NULL;
        status = or_checkpoint_find_file(words.items[0], &in);
        job.in = in;
        status = status != OR_OK ? status : or_inflate(&job, &result);
        free(in);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
        if (status == OR_OK) {
            int64_t took_ns = or_clock_now(or_clock_monotonic()) - start_ns;
            report(&config, job.out, &result, (double)took_ns / (double)OR_NS_PER_S);
        }
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_inflate_command = {"inflate", run,
                                               "IN OUT SIZE [--type TYPE] [options]"};
