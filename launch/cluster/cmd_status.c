// outrider status - the state of a running service: a page, once or again and again, lines of JSON, or only an exit code
// for probes.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/options/options.h"
#include "common/base/version.h"
#include "launch/cluster/status_page.h"
#include "launch/commands.h"
#include "launch/doctor/doctor_probe.h"
#include "launch/generate/output.h"
#include "proto/net/endpoint.h"
#include "proto/net/link.h"
#include "proto/wire/stats_json.h"

#define PATIENCE_NS (3 * OR_NS_PER_S)  // for the answer
#define REPEAT_NS (500 * OR_NS_PER_MS) // questions get lost, too
#define WATCH_MAX_S 3600

typedef struct {
    char *connect;
    char *owner;
    or_key_options_t keys;
    bool json, ready;
    float watch_s; // 0: once
} config_t;

static const or_option_t table[] = {
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT", "the coordinator"},
    {"owner", NULL, OR_OPTION_STRING, offsetof(config_t, owner), "NAME", "who asks"},
    OR_KEY_OPTIONS(config_t, keys),
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL,
     "one line of JSON on standard output"},
    {"ready", NULL, OR_OPTION_FLAG, offsetof(config_t, ready), NULL,
     "print nothing: the exit code tells"},
    {"watch", "w", OR_OPTION_FLOAT, offsetof(config_t, watch_s), "SECONDS",
     "show the page again and again, this often, until Ctrl-C"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider status",
    .summary = "how a running service does: a health and readiness probe",
    .usage = "[options]",
    .table = table,
    .examples =
        "Exit codes:\n"
        "  0   a verifier serves: requests are answered\n"
        "  1   not ready: a coordinator answers, but no verifier is connected\n"
        "  2   the options make no sense\n"
        "  3   nobody answers as a coordinator there, or it does not let us in, or our keys "
        "are not in order (liveness: anything but 3)\n\n"
        "Columns of a session's line:\n"
        "  policy, source       auto or fixed, and where its guesses come from now\n"
        "  nodes, depth, ahead  what the drafter is asked for\n"
        "  link, draft ms       round trip to the drafter, and what it takes for a tree\n"
        "  plain, tree ms       a round without guesses, and with so many\n"
        "  1st ok               how often the first guess on the path is right (generate "
        "counts all guesses)\n"
        "  tokens               that a round with guesses brings\n"
        "  hit                  how often guesses from ahead were there in time\n"
        "  plain/s, draft/s     tokens a second to be expected without and with drafting\n\n"
        "Examples:\n"
        "  outrider status --connect tcp://127.0.0.1:5577\n"
        "  outrider status --watch 1\n"
        "  outrider status --ready && echo serving",
};

// ---- asking ----

// Receive the next Stats; the caller finishes the message. OR_ERR_AGAIN if none is there.
static or_status_t next_stats(or_link_t *link, or_message_t *message)
{
    or_link_event_t event;
    or_peer_t from;
    or_status_t status;
    while ((status = or_link_receive(link, &event, &from, message)) == OR_OK) {
        if (event == OR_LINK_MESSAGE && message->type == OR_MSG_STATS) {
            return OR_OK;
        }
        if (event == OR_LINK_MESSAGE) {
            or_message_fini(message);
        }
    }
    return status;
}

static or_status_t ask(or_link_t *link, const char *endpoint, or_message_t *message)
{
    const or_clock_t *clock = or_clock_monotonic();
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    int64_t end_ns = or_clock_now(clock) + PATIENCE_NS;
    int64_t ask_ns = 0;
    or_status_t status;
    while ((status = next_stats(link, message)) == OR_ERR_AGAIN && or_clock_now(clock) < end_ns &&
           or_interrupt_count() == 0) {
        // The coordinator has to know who asks first: what is shown depends on it.
        bool known = or_link_welcomed(link);
        if (known && or_clock_now(clock) >= ask_ns) {
            ask_ns = or_clock_now(clock) + REPEAT_NS;
            status = or_link_send(link, OR_PEER_HUB, &question);
            if (status != OR_OK) {
                return status;
            }
        }
        int64_t due = or_link_tick(link);
        or_link_wait(link, known && ask_ns < due ? ask_ns : due);
    }
    return status == OR_ERR_AGAIN
               ? or_fail(OR_ERR_TIMEOUT,
                         "the coordinator at %s greets, but sends no figures: is it older?",
                         endpoint)
               : status;
}

// ---- telling ----

// Print the page at once. In a terminal it takes the place of the one before, without a flicker.
static void print_page(const config_t *config, const or_stats_t *stats, or_status_before_t *before)
{
    bool replaces = config->watch_s > 0 && isatty(STDOUT_FILENO);
    char *page = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&page, &length);
    if (out == NULL) {
        return; // the next page, then
    }
    or_status_page(out, config->connect, stats, or_clock_now(or_clock_monotonic()), before);
    fclose(out);
    fputs(replaces                                    ? "\033[H\033[2J"
          : before->at_ns != 0 && config->watch_s > 0 ? "\n"
                                                      : "",
          stdout);
    fputs(page, stdout);
    fflush(stdout);
    free(page);
}

static or_status_t show(const config_t *config, const or_stats_t *stats, or_status_before_t *before)
{
    if (config->ready) {
        return OR_OK;
    }
    if (config->json) {
        // The coordinator has left out what we may not see.
        return or_output_json(or_stats_json(stats, "", 0), 9);
    }
    print_page(config, stats, before);
    return OR_OK;
}

// ---- looking ----

static or_status_t look_once(const config_t *config, or_link_t *link, or_status_before_t *before,
                             bool *serves)
{
    or_message_t message = {0};
    or_status_t status = ask(link, config->connect, &message);
    if (status == OR_OK) {
        *serves = message.body.stats.verifiers > 0;
        status = show(config, &message.body.stats, before);
        or_message_fini(&message);
    }
    return status;
}

// Wait, and keep the connection alive meanwhile.
static void rest(or_link_t *link, double seconds)
{
    const or_clock_t *clock = or_clock_monotonic();
    int64_t end_ns = or_clock_now(clock) + (int64_t)(seconds * OR_NS_PER_S);
    while (or_clock_now(clock) < end_ns && or_interrupt_count() == 0) {
        or_message_t late = {0};
        if (next_stats(link, &late) == OR_OK) {
            or_message_fini(&late);
        }
        int64_t due = or_link_tick(link);
        or_link_wait(link, due < end_ns ? due : end_ns);
    }
}

// Ask again and again until Ctrl-C. A coordinator that does not answer for a while may come back.
static or_status_t watch(const config_t *config, or_link_t *link, bool *serves)
{
    or_status_before_t before = {0};
    or_interrupt_watch();
    while (or_interrupt_count() == 0) {
        if (look_once(config, link, &before, serves) != OR_OK && or_interrupt_count() == 0) {
            fprintf(stderr, "outrider status: %s; asking again\n", or_error_text());
        }
        rest(link, (double)config->watch_s);
    }
    return OR_OK;
}

static or_status_t look(const config_t *config, bool *serves)
{
    const or_hello_t hello = {.role = OR_ROLE_CLIENT,
                              .software = "outrider " OR_VERSION,
                              .arith_id = "",
                              .model = "",
                              .owner = config->owner != NULL ? config->owner : ""};
    or_link_t *link = NULL;
    or_probe_t probe = {0};
    or_connect_keys_t keys;
    or_status_before_t none = {0};
    or_status_t status = or_keys_for_connecting(config->connect, &config->keys, &keys);
    if (status == OR_ERR_INVALID) {
        status = OR_ERR_UNREACHABLE; // the options make sense: a probe must not see exit code 2
    }
    if (status == OR_OK) {
        status = or_probe_open(config->connect, &keys, hello.owner, &probe);
        or_key_pair_wipe(&keys.own);
    }
    if (status == OR_OK) {
        status = or_link_create(probe.channel, or_clock_monotonic(), &hello, OR_LINK_HEARTBEAT_MS,
                                &link);
    }
    if (status == OR_OK) {
        status = config->watch_s > 0 ? watch(config, link, serves)
                                     : look_once(config, link, &none, serves);
    }
    or_link_destroy(&link);
    or_probe_close(&probe);
    return status;
}

static or_status_t check(const config_t *config)
{
    if (config->watch_s < 0 || config->watch_s > WATCH_MAX_S) {
        return or_fail(OR_ERR_INVALID, "--watch: %g is not between 0 and %d seconds",
                       (double)config->watch_s, WATCH_MAX_S);
    }
    if (config->watch_s > 0 && config->ready) {
        return or_fail(OR_ERR_INVALID, "--ready answers once: it does not go with --watch");
    }
    return or_endpoint_check(config->connect, false);
}

static int run(int argc, char **argv)
{
    config_t config = {.connect = (char *)"tcp://127.0.0.1:5577"};
    or_options_next_t next;
    bool serves = false;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("status", OR_EXIT_USAGE);
    }
    status = check(&config);
    if (status == OR_OK) {
        status = look(&config, &serves);
    }
    int code = status == OR_OK            ? (serves ? OR_EXIT_OK : OR_EXIT_FAILURE)
               : status == OR_ERR_INVALID ? OR_EXIT_USAGE
                                          : OR_EXIT_UNREACHABLE;
    if (status != OR_OK && (!config.ready || status == OR_ERR_INVALID)) {
        or_command_fail("status", code);
    }
    or_options_free(&program, &config, NULL);
    return code;
}

const or_command_t or_status_command = {"status", run,
                                        "how a running service does; a health and readiness probe"};
