// outrider model pack - a model's weights as the kernels read them, in a file that programs map when they start.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/user_folder.h"
#include "common/gguf/packed.h"
#include "common/model/pack.h"
#include "launch/cluster/paths.h"
#include "launch/commands.h"
#include "launch/model/convert/cached.h"
#include "launch/model/weight_writer.h"

typedef struct {
    char *output;
    uint32_t threads;
    bool force;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"output", "o", OR_OPTION_STRING, AT(output), "OUT",
     "the packed file; FILE.packed if not given, or a file of the cache folder where that place "
     "cannot be written to"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    {"force", NULL, OR_OPTION_FLAG, AT(force), NULL, "write over OUT if it is there"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model pack",
    .summary = "write a model's weights as the kernels read them, for quick starts",
    .usage = "FILE [-o OUT] [options]",
    .table = table,
    .examples =
        "Programs that load FILE find its packed form beside it or in the cache folder, and map\n"
        "it instead of packing the weights at each start. Processes share its memory. It is\n"
        "not used any more when FILE changes; --packed off does without it. Of a model in\n"
        "parts give the first one.\n\nExample:\n  outrider model pack model.gguf\n",
};

typedef struct {
    const config_t *config;
    const char *in;
    char out[OR_PACKED_PATH_BYTES];
    or_progress_t progress;
    bool shows; // progress knows how much there is
} job_t;

// ---- where ----

static or_status_t choose_cached(job_t *job)
{
    char cache[OR_PATH_BYTES];
    or_status_t status = or_user_folder_make(OR_USER_CACHE, cache, sizeof cache);
    status = status != OR_OK ? status : or_packed_path_cached(job->in, job->out);
    return status != OR_OK ? status : or_model_pack_try(job->out);
}

// Choose a place that can be written to, before long work.
static or_status_t choose_place(job_t *job, const or_gguf_t *gguf)
{
    const config_t *config = job->config;
    or_status_t status = OR_OK;
    if (config->output != NULL && strlen(config->output) >= sizeof job->out) {
        return or_fail(OR_ERR_INVALID, "-o/--output: the path is too long");
    }
    if (config->output != NULL) {
        strcpy(job->out, config->output);
    } else {
        status = or_packed_path_beside(job->in, job->out);
    }
    status = status != OR_OK ? status : or_model_pack_try(job->out);
    if (status != OR_OK && config->output == NULL) {
        status = choose_cached(job);
    }
    return status != OR_OK ? status : or_weight_writer_check_path(gguf, job->out, config->force);
}

// ---- the work ----

static bool show(void *context, uint64_t done, uint64_t all, const char *name)
{
    job_t *job = context;
    if (!job->shows) {
        or_progress_init(&job->progress, all, true);
        job->shows = true;
    }
    or_progress_show(&job->progress, done, name);
    return or_interrupt_count() == 0;
}

static or_status_t pack(job_t *job)
{
    or_gguf_t *gguf = NULL;
    int64_t began = or_clock_now(or_clock_monotonic());
    or_status_t status = or_gguf_open(job->in, &gguf);
    status = status != OR_OK ? status : choose_place(job, gguf);
    if (status == OR_OK) {
        or_interrupt_watch();
        status = or_model_pack(gguf, job->config->threads, job->out, show, job);
    }
    if (job->shows) {
        or_progress_clear(&job->progress);
    }
    if (status == OR_OK) {
        double seconds = (double)(or_clock_now(or_clock_monotonic()) - began) / (double)OR_NS_PER_S;
        printf("%s: %" PRIu64 " MiB of weights packed in %.1f s%s%s\n", job->out,
               job->progress.all >> 20, seconds,
               job->config->output != NULL ? "; programs use it with --packed " : "",
               job->config->output != NULL ? job->out : "");
    }
    or_gguf_close(&gguf);
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
    or_status_t status = or_command_check_threads("-t/--threads", config.threads);
    if (status == OR_OK && words.count != 1) {
        status = or_fail(OR_ERR_INVALID, "give FILE, as in outrider model pack model.gguf");
    }
    if (status == OR_OK) {
        char *in = NULL;
        status = or_checkpoint_find_file(words.items[0], &in);
        job.in = in;
        status = status != OR_OK ? status : pack(&job);
        free(in);
        code = status == OR_ERR_CANCELLED ? OR_EXIT_INTERRUPTED : OR_EXIT_FAILURE;
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_pack_command = {"pack", run, "FILE [-o OUT] [options]"};
