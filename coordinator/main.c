// outrider-coordinator: the hub as a process.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/base/options/options.h"
#include "common/base/options/program.h"
#include "common/gguf/packed.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/front.h"
#include "coordinator/peers/entrance.h"

#define EXIT_WRONG_OPTIONS 2
#define MEMORY_USUAL ((uint64_t)128 << 20)
#define JOURNAL_USUAL ((uint64_t)64 << 20)
#define GIVE_BACK_NS (5 * OR_NS_PER_S)
#define RESUME_WINDOW_MAX_S (7u * 24 * 60 * 60)

typedef struct {
    char *model;
    or_option_list_t listen;
    char *encrypt;
    char *keys;
    char *authorized;
    bool padding;
    or_front_options_t http;
    char *log_level, *log_format;
    int32_t ready_fd;
    bool expect_drafter;
    char *trust;
    uint32_t sessions_max, owner_sessions_max, queue_max;
    uint32_t draft_timeout_ms;
    uint32_t verifier_timeout_ms;
    char *journal;
    uint32_t journal_retention_s, resume_window_s;
    uint64_t memory_max, journal_max;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "target model (GGUF); only its vocabulary is read"},
    {"listen", NULL, OR_OPTION_LIST, offsetof(config_t, listen), "ENDPOINT",
     "where drafters, verifiers and clients connect, once for each place; port * takes any free "
     "one; tcp://127.0.0.1:5577 if not given"},
    {"encrypt", NULL, OR_OPTION_STRING, offsetof(config_t, encrypt), "WHERE",
     "auto: everywhere but on loopback; on: everywhere; off: nowhere, for networks that nobody "
     "else is on"},
    {"keys", NULL, OR_OPTION_STRING, offsetof(config_t, keys), "DIR",
     "the key folder: coordinator.key, and authorized, who may connect (outrider keys); "
     "~/.config/outrider if not given"},
    {"authorized", NULL, OR_OPTION_STRING, offsetof(config_t, authorized), "FILE",
     "who may connect; not given: the file of this name in the key folder"},
    {"padding", NULL, OR_OPTION_FLAG, offsetof(config_t, padding), NULL,
     "encrypted messages are padded to a few sizes; --no-padding: they are not, which saves bytes "
     "and shows how predictable a text is"},
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
    {"journal", NULL, OR_OPTION_STRING, offsetof(config_t, journal), "DIR",
     "the folder where texts in progress are kept, so that they survive this process, or none; not "
     "given: in "
     "~/.local/state/outrider, one for each port"},
    {"journal-retention", NULL, OR_OPTION_UINT32, offsetof(config_t, journal_retention_s),
     "SECONDS",
     "a text that its client has stays in the journal for so long; 0: it is deleted at once"},
    {"resume-window", NULL, OR_OPTION_UINT32, offsetof(config_t, resume_window_s), "SECONDS",
     "a text waits so long for a client whose connection is lost; 0: it ends with the connection"},
    {"memory-max", NULL, OR_OPTION_SIZE, offsetof(config_t, memory_max), "BYTES",
     "what requests, answers and slow readers make it keep in memory, all together; no owner may "
     "have more of it than is free"},
    {"journal-max", NULL, OR_OPTION_SIZE, offsetof(config_t, journal_max), "BYTES",
     "the same on disk"},
    {"trust", NULL, OR_OPTION_STRING, offsetof(config_t, trust), "WHOM",
     "whose drafters may use the rules that believe what they say they drew (sps, recursive, slrs "
     "...): loopback or none"},
    {"expect-drafter", NULL, OR_OPTION_FLAG, offsetof(config_t, expect_drafter), NULL,
     "hold requests until a first drafter has joined"},
    OR_FRONT_OPTIONS(config_t, http),
    {"ready-fd", NULL, OR_OPTION_INT32, offsetof(config_t, ready_fd), "FD",
     "write the endpoint to this file descriptor once it listens, and in a line more \"http "
     "ADDRESS\" if it has one"},
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {"log-format", NULL, OR_OPTION_STRING, offsetof(config_t, log_format), "FORMAT",
     "text, or json: one object a line, with session and request"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider-coordinator",
    .summary = "Keep sessions between clients, drafters and a verifier.",
    .usage = "-m FILE [options]",
    .table = table,
    .examples = "  outrider-coordinator -m target.gguf --listen tcp://127.0.0.1:5577\n"
                "  outrider-coordinator -m target.gguf --http 127.0.0.1:8080\n",
};

// `front` may be NULL.
static or_status_t announce(int fd, const char *endpoint, const or_front_t *front)
{
    char lines[600];
    int length = snprintf(lines, sizeof lines, "%s\n", endpoint);
    if (front != NULL) {
        length += snprintf(lines + length, sizeof lines - (size_t)length, "http %s\n",
                           or_front_address(front));
    }
    if (fd >= 0 && (write(fd, lines, (size_t)length) != length || close(fd) != 0)) {
        return or_fail(OR_ERR_IO, "cannot write to --ready-fd %d", fd);
    }
    return OR_OK;
}

static or_entrance_options_t entrance_options(const config_t *config)
{
    static char usual[] = "tcp://127.0.0.1:5577";
    static char *items[] = {usual};
    static const or_option_list_t one = {.items = items, .count = 1};
    return (or_entrance_options_t){.listen = config->listen.count > 0 ? &config->listen : &one,
                                   .encrypt = config->encrypt,
                                   .authorized = config->authorized};
}

// All that the process has, in the order in which it comes to be.
typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    const or_chat_t *chat;  // NULL: none ...
    char chat_trouble[640]; // ... for this reason
    or_ledger_t *ledger;
    or_entrance_t entrance;
    or_journal_t *journal;
    or_link_t *link;
    or_coordinator_t *coordinator;
    or_front_service_t http;
} process_t;

static or_coordinator_config_t shape_of(const config_t *config, const process_t *process)
{
    or_coordinator_config_t shape = or_coordinator_config_default();
    shape.sessions_max = config->sessions_max;
    shape.sessions_per_owner_max = config->owner_sessions_max;
    shape.waiting_max = config->queue_max;
    shape.draft_timeout_ms = config->draft_timeout_ms;
    shape.verifier_timeout_ms = config->verifier_timeout_ms;
    shape.resume_ms = config->resume_window_s * 1000;
    shape.expect_drafter = config->expect_drafter;
    shape.trust_loopback = strcmp(config->trust, "loopback") == 0;
    shape.model_name = basename(config->model);
    shape.model_hash = or_gguf_fingerprint(process->gguf);
    shape.gguf = process->gguf;
    shape.chat = process->chat;
    shape.chat_trouble = process->chat_trouble;
    shape.keyring = process->entrance.keyring;
    shape.journal = process->journal;
    shape.ledger = process->ledger;
    return shape;
}

static or_status_t open_model(const config_t *config, process_t *process)
{
    or_status_t status = or_gguf_open(config->model, &process->gguf);
    if (status == OR_OK) {
        or_packed_recall(process->gguf);
        status = or_vocab_load(process->gguf, &process->vocab);
    }
    return status == OR_OK
               ? or_front_options_chat(&config->http, process->gguf, &process->chat,
                                       process->chat_trouble, sizeof process->chat_trouble)
               : status;
}

static or_status_t open_hub(const config_t *config, process_t *process)
{
    const or_entrance_options_t doors = entrance_options(config);
    const or_clock_t *clock = or_clock_monotonic();
    or_status_t status = or_entrance_open(&doors, &process->entrance);
    if (status == OR_OK) {
        status = or_journal_open_option(config->journal, doors.listen->items[0],
                                        config->journal_retention_s, config->resume_window_s,
                                        &process->journal);
    }
    if (status != OR_OK) {
        return status;
    }
    const or_coordinator_config_t shape = shape_of(config, process);
    status =
        or_link_create(process->entrance.channel, clock, NULL, shape.heartbeat_ms, &process->link);
    if (status == OR_OK) {
        status = or_coordinator_create(&shape, process->vocab, process->link, clock,
                                       &process->coordinator);
    }
    if (status != OR_OK) {
        return status;
    }
    if (process->journal != NULL) {
        status = or_journal_start(process->journal);
        or_channel_zmq_set_wake(process->entrance.channel, or_journal_fd(process->journal));
    }
    if (status != OR_OK) {
        return status;
    }
    process->entrance.coordinator = process->coordinator;
    or_link_set_padding(process->link, config->padding);
    or_log(OR_LOG_INFO, "listening on %s for %s", process->entrance.endpoint, shape.model_name);
    for (size_t i = 1; i < doors.listen->count; i++) {
        or_log(OR_LOG_INFO, "listening on %s", doors.listen->items[i]);
    }
    return OR_OK;
}

static or_status_t open_http(const config_t *config, process_t *process)
{
    const or_front_config_t front = {
        .model_name = basename(config->model),
        .vocab = process->vocab,
        .chat = process->chat,
        .chat_trouble = process->chat_trouble,
        .tools =
            process->chat != NULL ? or_chat_tools_of_model(process->gguf, process->chat) : NULL,
        .ledger = process->ledger,
        .hub = process->entrance.channel};
    return or_front_service_start(&config->http, &front, &process->http);
}

// Memory that a crowd has left free inside the heap goes back to the system, some seconds later. Returns when to call again.
static int64_t give_memory_back(int64_t due_ns)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    if (now < due_ns) {
        return due_ns;
    }
    or_program_trim();
    return now + GIVE_BACK_NS;
}

static void work(process_t *process)
{
    int64_t trim_ns = 0;
    while (or_interrupt_count() == 0) {
        int64_t due_ns = or_coordinator_turn(process->coordinator);
        trim_ns = give_memory_back(trim_ns);
        or_link_wait(process->link, due_ns < trim_ns ? due_ns : trim_ns);
        or_coordinator_set_refused_connections(process->coordinator,
                                               or_channel_zmq_refusals(process->entrance.channel));
    }
}

static void close_all(process_t *process)
{
    or_front_service_stop(&process->http);
    if (process->coordinator != NULL) {
        or_coordinator_shutdown(process->coordinator);
    }
    or_coordinator_destroy(&process->coordinator);
    or_journal_close(&process->journal);
    or_link_destroy(&process->link);
    or_entrance_close(&process->entrance);
    or_vocab_destroy(&process->vocab);
    or_gguf_close(&process->gguf);
    or_ledger_destroy(&process->ledger);
}

// Everything from the file to the loop. *wrong_options: HTTP cannot be as it was asked for, and no new start mends that.
static or_status_t serve(const config_t *config, bool *wrong_options)
{
    process_t process = {0};
    or_status_t status = or_ledger_create(config->memory_max, config->journal_max, &process.ledger);
    if (status == OR_OK) {
        status = open_model(config, &process);
    }
    if (status == OR_OK) {
        status = open_hub(config, &process);
    }
    if (status == OR_OK) {
        status = open_http(config, &process);
        *wrong_options = status == OR_ERR_INVALID;
    }
    if (status == OR_OK) {
        status = announce(config->ready_fd, process.entrance.endpoint, process.http.front);
    }
    if (status == OR_OK) {
        work(&process);
    }
    close_all(&process);
    return status;
}

// A connection is a descriptor, and what shells and service managers allow unasked is few.
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); // else it stays as it is
    }
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
    if (config->resume_window_s > RESUME_WINDOW_MAX_S) {
        return or_fail(OR_ERR_INVALID, "--resume-window: %u s is more than a week",
                       config->resume_window_s);
    }
    const or_entrance_options_t doors = entrance_options(config);
    or_status_t status = or_entrance_check(&doors);
    return status == OR_OK ? or_front_options_check(&config->http) : status;
}

static int run(int argc, char **argv)
{
    or_coordinator_config_t usual = or_coordinator_config_default();
    char encrypt[] = "auto";
    char trust[] = "loopback";
    char text[] = "text";
    config_t config = {.ready_fd = -1,
                       .http = or_front_options_default(),
                       .log_format = text,
                       .encrypt = encrypt,
                       .padding = true,
                       .trust = trust,
                       .sessions_max = usual.sessions_max,
                       .owner_sessions_max = usual.sessions_per_owner_max,
                       .queue_max = usual.waiting_max,
                       .draft_timeout_ms = usual.draft_timeout_ms,
                       .verifier_timeout_ms = usual.verifier_timeout_ms,
                       .resume_window_s = usual.resume_ms / 1000,
                       .memory_max = MEMORY_USUAL,
                       .journal_max = JOURNAL_USUAL};
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
        status = or_log_set_format(config.log_format);
    }
    if (status == OR_OK) {
        status = check(&config);
    }
    or_log_init("coordinator", level);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        or_options_free(&program, &config, NULL);
        return EXIT_WRONG_OPTIONS;
    }
    if (config.keys != NULL) {
        setenv("OUTRIDER_KEYS", config.keys, 1);
    }
    raise_descriptors();
    or_interrupt_watch();
    bool wrong_options = false;
    status = serve(&config, &wrong_options);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_options_free(&program, &config, NULL);
    return status == OR_OK ? 0 : wrong_options ? EXIT_WRONG_OPTIONS : 1;
}

// What a crowd leaves behind goes back to the system by whole pages. So that few pages keep something, all threads share one
// heap. The hub's thread, which allocates most, frees what others allocated anyway.
static void share_heap(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
#endif
}

int main(int argc, char **argv)
{
    or_program_begin();
    share_heap();
    return or_program_end(run(argc, argv));
}
