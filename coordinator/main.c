// outrider-coordinator: the hub as a process.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/base/program.h"
#include "coordinator/coordinator.h"
#include "proto/channel_zmq.h"

typedef struct {
    char *model;
    char *listen;
    char *log_level;
    int32_t ready_fd;
    bool expect_drafter;
    char *trust;
    uint32_t sessions_max, owner_sessions_max, queue_max;
    uint32_t draft_timeout_ms;
    uint32_t verifier_timeout_ms;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "target model (GGUF); only its vocabulary is read"},
    {"listen", NULL, OR_OPTION_STRING, offsetof(config_t, listen), "ENDPOINT",
     "where drafters, verifiers and clients connect; port * takes any free one"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "requests served at a time, at most; others wait, the owner with the fewest at work first"},
    {"owner-sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, owner_sessions_max), "N",
     "of these, one owner's at most; 0: as many as there are"},
    {"queue-max", NULL, OR_OPTION_UINT32, offsetof(config_t, queue_max), "N",
     "requests that wait for a place, at most; others are told when to try again"},
    {"draft-timeout", NULL, OR_OPTION_UINT32, offsetof(config_t, draft_timeout_ms), "MS",
     "a round goes on without a drafter that is silent for this long"},
    {"verifier-timeout", NULL, OR_OPTION_UINT32, offsetof(config_t, verifier_timeout_ms), "MS",
     "a request ends with an error when there is no verifier for this long"},
    {"trust", NULL, OR_OPTION_STRING, offsetof(config_t, trust), "WHOM",
     "whose drafters may use the rules that believe what they say they drew (sps, recursive, slrs "
     "...): loopback or none"},
    {"expect-drafter", NULL, OR_OPTION_FLAG, offsetof(config_t, expect_drafter), NULL,
     "hold requests until a first drafter has joined"},
    {"ready-fd", NULL, OR_OPTION_INT32, offsetof(config_t, ready_fd), "FD",
     "write the endpoint to this file descriptor once it listens"},
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider-coordinator",
    .summary = "Keep sessions between clients, drafters and a verifier.",
    .usage = "-m FILE [options]",
    .table = table,
    .examples = "  outrider-coordinator -m target.gguf --listen tcp://127.0.0.1:5577\n",
};

static or_status_t announce(int fd, const char *endpoint)
{
    char line[300];
    int length = snprintf(line, sizeof line, "%s\n", endpoint);
    if (fd >= 0 && (write(fd, line, (size_t)length) != length || close(fd) != 0)) {
        return or_fail(OR_ERR_IO, "cannot write to --ready-fd %d", fd);
    }
    return OR_OK;
}

// Everything from the file to the loop; cleaned up in reverse.
static or_status_t serve(const config_t *config)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_channel_t *channel = NULL;
    or_link_t *link = NULL;
    or_coordinator_t *coordinator = NULL;
    char endpoint[256] = "";
    const or_clock_t *clock = or_clock_monotonic();
    or_coordinator_config_t shape = or_coordinator_config_default();
    shape.sessions_max = config->sessions_max;
    shape.sessions_per_owner_max = config->owner_sessions_max;
    shape.waiting_max = config->queue_max;
    shape.draft_timeout_ms = config->draft_timeout_ms;
    shape.verifier_timeout_ms = config->verifier_timeout_ms;
    shape.expect_drafter = config->expect_drafter;
    shape.trust_loopback = strcmp(config->trust, "loopback") == 0;
    shape.model_name = basename(config->model);
    or_status_t status = or_gguf_open(config->model, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        shape.model_hash = or_gguf_fingerprint(gguf);
    }
    shape.gguf = gguf;
    if (status == OR_OK) {
        status = or_channel_zmq_bind(config->listen, endpoint, sizeof endpoint, &channel);
    }
    if (status == OR_OK) {
        status = or_link_create(channel, clock, NULL, shape.heartbeat_ms, &link);
    }
    if (status == OR_OK) {
        status = or_coordinator_create(&shape, vocab, link, clock, &coordinator);
    }
    if (status == OR_OK) {
        or_log(OR_LOG_INFO, "listening on %s for %s", endpoint, shape.model_name);
        status = announce(config->ready_fd, endpoint);
    }
    while (status == OR_OK && or_interrupt_count() == 0) {
        or_link_wait(link, or_coordinator_turn(coordinator));
    }
    if (coordinator != NULL) {
        or_coordinator_shutdown(coordinator);
    }
    or_coordinator_destroy(&coordinator);
    or_link_destroy(&link);
    or_channel_destroy(&channel);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status;
}

static or_status_t check(const config_t *config)
{
    if (config->model == NULL) {
        return or_fail(OR_ERR_INVALID, "-m FILE is needed: the target's vocabulary; see --help");
    }
    if (config->sessions_max == 0 || config->draft_timeout_ms == 0) {
        return or_fail(OR_ERR_INVALID, "--sessions-max and --draft-timeout are at least 1");
    }
    if (config->sessions_max > OR_COORDINATOR_PLACES_MAX ||
        config->queue_max > OR_COORDINATOR_PLACES_MAX) {
        return or_fail(OR_ERR_INVALID, "--sessions-max and --queue-max are at most %u",
                       OR_COORDINATOR_PLACES_MAX);
    }
    if (strcmp(config->trust, "loopback") != 0 && strcmp(config->trust, "none") != 0) {
        return or_fail(OR_ERR_INVALID, "--trust is loopback or none, not '%s'", config->trust);
    }
    return OR_OK;
}

static int run(int argc, char **argv)
{
    or_coordinator_config_t usual = or_coordinator_config_default();
    char listen[] = "tcp://127.0.0.1:5577";
    char trust[] = "loopback";
    config_t config = {.ready_fd = -1,
                       .listen = listen,
                       .trust = trust,
                       .sessions_max = usual.sessions_max,
                       .owner_sessions_max = usual.sessions_per_owner_max,
                       .queue_max = usual.waiting_max,
                       .draft_timeout_ms = usual.draft_timeout_ms,
                       .verifier_timeout_ms = usual.verifier_timeout_ms};
    or_options_next_t next;
    or_log_level_t level = OR_LOG_INFO;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status == OR_OK && next == OR_OPTIONS_EXIT) {
        return 0;
    }
    if (status == OR_OK && config.log_level != NULL) {
        status = or_log_parse_level(config.log_level, &level);
    }
    if (status == OR_OK) {
        status = check(&config);
    }
    or_log_init("coordinator", level);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        or_options_free(&program, &config, NULL);
        return 2;
    }
    or_interrupt_watch();
    status = serve(&config);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_options_free(&program, &config, NULL);
    return status == OR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}
