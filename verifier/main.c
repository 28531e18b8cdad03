// outrider-verifier: the target model as a process.
#include <stdio.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/base/version.h"
#include "common/decode/token_tree.h"
#include "proto/channel_zmq.h"
#include "verifier/ranks_mpi.h"
#include "verifier/verifier.h"

#define EXIT_REFUSED 3

typedef struct {
    char *model;
    char *connect;
    char *log_level;
    uint32_t threads;
    uint32_t context;
    uint32_t nodes_max;
    uint32_t sessions_max;
    uint32_t batch;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE", "target model (GGUF)"},
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT",
     "the coordinator, e.g. tcp://127.0.0.1:5577"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N", "threads; 0: one a core"},
    {"ctx-size", "c", OR_OPTION_UINT32, offsetof(config_t, context), "N",
     "context in tokens; 0: what the model was made for"},
    {"batch-size", "b", OR_OPTION_UINT32, offsetof(config_t, batch), "N",
     "prompt tokens a forward pass"},
    {"draft-nodes-max", NULL, OR_OPTION_UINT32, offsetof(config_t, nodes_max), "N",
     "largest tree accepted"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "sessions whose cache is kept"},
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider-verifier",
    .summary = "Check draft trees with a target model, for a coordinator.",
    .usage = "-m FILE --connect ENDPOINT [options]",
    .table = table,
    .examples = "  outrider-verifier -m target.gguf --connect tcp://127.0.0.1:5577\n",
};

// Everything from the file to the loop; cleaned up in reverse.
static or_status_t serve(const config_t *config, const or_ranks_t *ranks, bool *refused)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_model_t *model = NULL;
    or_channel_t *channel = NULL;
    or_link_t *link = NULL;
    or_verifier_t *verifier = NULL;
    const or_clock_t *clock = or_clock_monotonic();
    uint32_t rows = config->nodes_max + 1 > config->batch ? config->nodes_max + 1 : config->batch;
    const or_model_options_t options = {.threads = config->threads,
                                        .context_max = config->context,
                                        .rows_max = rows,
                                        .ranks = ranks};
    const or_verifier_config_t shape = {.nodes_max = config->nodes_max,
                                        .sessions_max = config->sessions_max,
                                        .prefill_rows = config->batch};
    or_status_t status = or_gguf_open(config->model, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        status = or_model_load(gguf, &options, &model);
    }
    if (status == OR_OK) {
        status = or_channel_zmq_connect(config->connect, &channel);
    }
    if (status == OR_OK) {
        or_hello_t hello = or_verifier_hello(&shape, model, vocab, basename(config->model));
        status = or_link_create(channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &link);
    }
    if (status == OR_OK) {
        status = or_verifier_create(&shape, model, vocab, link, clock, &verifier);
    }
    if (status == OR_OK) {
        or_log(OR_LOG_INFO, "%s ready, kernels %s, calling %s", config->model,
               or_model_kernels(model), config->connect);
    }
    while (status == OR_OK && or_interrupt_count() == 0) {
        int64_t due = or_verifier_turn(verifier);
        if (or_verifier_refused(verifier) != NULL) {
            *refused = true;
            status = or_fail(OR_ERR_MISMATCH, "refused: %s", or_verifier_refused(verifier));
            break;
        }
        or_link_wait(link, due);
    }
    or_verifier_destroy(&verifier);
    or_link_destroy(&link);
    or_channel_destroy(&channel);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status;
}

static or_status_t check(const config_t *config, const or_ranks_t *ranks)
{
    if (config->model == NULL || config->connect == NULL) {
        return or_fail(OR_ERR_INVALID, "-m FILE and --connect ENDPOINT are needed; see --help");
    }
    if (config->nodes_max > OR_TREE_NODES_MAX || config->sessions_max == 0 || config->batch == 0) {
        return or_fail(
            OR_ERR_INVALID,
            "--draft-nodes-max is at most %u; --sessions-max and --batch-size at least 1",
            OR_TREE_NODES_MAX);
    }
    if (ranks->size != 1) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this version runs the target on one rank; start it with mpirun -np 1");
    }
    return OR_OK;
}

int main(int argc, char **argv)
{
    config_t config = {.nodes_max = OR_TREE_NODES_MAX, .sessions_max = 16, .batch = 256};
    or_options_next_t next;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    or_log_level_t level = OR_LOG_INFO;
    if (status == OR_OK && config.log_level != NULL) {
        status = or_log_parse_level(config.log_level, &level);
    }
    or_log_init("verifier", level);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        return 2;
    }
    if (next == OR_OPTIONS_EXIT) {
        return 0;
    }
    const or_ranks_t *ranks = NULL;
    bool refused = false;
    bool usage = false;
    status = or_ranks_mpi_start(&argc, &argv, &ranks);
    if (status == OR_OK) {
        or_interrupt_watch(); // after MPI, which installs handlers of its own
        status = check(&config, ranks);
        usage = status == OR_ERR_INVALID;
        if (status == OR_OK) {
            status = serve(&config, ranks, &refused);
        }
        or_ranks_mpi_stop();
    }
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_options_free(&program, &config, NULL);
    return refused ? EXIT_REFUSED : usage ? 2 : status == OR_OK ? 0 : 1;
}
