// outrider-verifier: the target model as a process.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/base/program.h"
#include "common/base/version.h"
#include "common/decode/token_tree.h"
#include "proto/edge.h"
#include "verifier/ranks_mpi.h"
#include "verifier/verifier.h"

typedef struct {
    char *model;
    char *connect;
    char *log_level;
    uint32_t threads;
    uint32_t context;
    uint32_t nodes_max;
    uint32_t sessions_max;
    uint32_t batch;
    int32_t ready_fd;
} config_t;

// What the loop turns.
typedef struct {
    or_verifier_t *verifier;
    const or_link_t *link;
    int ready_fd; // -1: nobody waits to hear that we have joined
} served_t;

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
    {"ready-fd", NULL, OR_OPTION_INT32, offsetof(config_t, ready_fd), "FD",
     "write a byte to this file descriptor once the coordinator has welcomed it"},
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

static int64_t turn(void *role)
{
    served_t *served = role;
    int64_t due = or_verifier_turn(served->verifier);
    if (served->ready_fd >= 0 && or_link_welcomed(served->link)) {
        if (write(served->ready_fd, "", 1) != 1) {
            or_log(OR_LOG_WARN, "cannot write to --ready-fd: %s", strerror(errno));
        }
        close(served->ready_fd);
        served->ready_fd = -1;
    }
    return due;
}

static const char *refused(const void *role)
{
    const served_t *served = role;
    return or_verifier_refused(served->verifier);
}

// Everything from the file to the loop; cleaned up in reverse.
static or_status_t serve(const config_t *config, const or_ranks_t *ranks)
{
    or_edge_process_t process;
    or_verifier_t *verifier = NULL;
    uint32_t rows = config->nodes_max + 1 > config->batch ? config->nodes_max + 1 : config->batch;
    const or_model_options_t options = {.threads = config->threads,
                                        .context_max = config->context,
                                        .rows_max = rows,
                                        .sequences_max = config->sessions_max,
                                        .ranks = ranks};
    const or_verifier_config_t shape = {.nodes_max = config->nodes_max,
                                        .sessions_max = config->sessions_max,
                                        .prefill_rows = config->batch};
    or_status_t status = or_edge_process_open(config->model, &options, config->connect, &process);
    if (status == OR_OK) {
        or_hello_t hello = or_verifier_hello(&shape, process.gguf, process.model, process.vocab);
        status = or_edge_process_greet(&process, &hello);
    }
    if (status == OR_OK) {
        status = or_verifier_create(&shape, process.model, process.vocab, process.link,
                                    or_clock_monotonic(), &verifier);
    }
    if (status == OR_OK) {
        served_t served = {verifier, process.link, config->ready_fd};
        status = or_edge_process_run(&process, turn, refused, &served);
    }
    or_verifier_destroy(&verifier);
    or_edge_process_close(&process);
    return status;
}

static or_status_t check(const config_t *config, const or_ranks_t *ranks)
{
    if (config->model == NULL || config->connect == NULL) {
        return or_fail(OR_ERR_INVALID, "-m FILE and --connect ENDPOINT are needed; see --help");
    }
    if (config->nodes_max == 0 || config->nodes_max > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "--draft-nodes-max: %" PRIu32 " is not between 1 and %u",
                       config->nodes_max, OR_TREE_NODES_MAX);
    }
    if (config->sessions_max == 0 || config->batch == 0) {
        return or_fail(OR_ERR_INVALID, "--sessions-max and --batch-size are at least 1");
    }
    if (config->context == 1) {
        return or_fail(OR_ERR_INVALID, "-c/--ctx-size: 1 is below 2");
    }
    if (ranks->size != 1) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this version runs the target on one rank; start it with mpirun -np 1");
    }
    return OR_OK;
}

static int run(int argc, char **argv)
{
    config_t config = {
        .nodes_max = OR_TREE_NODES_MAX, .sessions_max = 16, .batch = 256, .ready_fd = -1};
    or_options_next_t next;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    or_log_level_t level = OR_LOG_INFO;
    if (status == OR_OK && config.log_level != NULL) {
        status = or_log_parse_level(config.log_level, &level);
    }
    or_log_init("verifier", level);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        or_options_free(&program, &config, NULL);
        return 2;
    }
    if (next == OR_OPTIONS_EXIT) {
        return 0;
    }
    const or_ranks_t *ranks = NULL;
    bool usage = false;
    or_interrupt_watch(); // MPI takes a while to start
    status = or_ranks_mpi_start(&argc, &argv, &ranks);
    if (status == OR_OK) {
        or_interrupt_watch(); // and may have put handlers of its own in their place
        status = check(&config, ranks);
        usage = status == OR_ERR_INVALID;
        if (status == OR_OK && or_interrupt_count() == 0) {
            status = serve(&config, ranks);
        }
        or_ranks_mpi_stop();
    }
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_options_free(&program, &config, NULL);
    return status == OR_ERR_MISMATCH ? OR_EXIT_REFUSED : usage ? 2 : status == OR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}
