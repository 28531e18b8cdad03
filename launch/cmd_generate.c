// outrider generate - one text, on a cluster of its own or on a coordinator that runs already.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/decode/methods.h"
#include "launch/client.h"
#include "launch/cluster.h"
#include "launch/commands.h"
#include "launch/generate_options.h"
#include "launch/models.h"
#include "launch/report.h"
#include "proto/endpoint.h"

#define LOOK_NS (100 * OR_NS_PER_MS)         // between looks at the children
#define CANCEL_NS (2 * OR_NS_PER_S)          // for the last delta after Ctrl-C
#define SILENCE_NS (5 * OR_NS_PER_S)         // without news before the user hears of it
#define WAITING_NS OR_NS_PER_S               // for the first token before the user hears why
#define END_PATIENCE_NS (500 * OR_NS_PER_MS) // for the children, which have nothing to save

typedef struct {
    const or_generate_config_t *config;
    const or_generate_request_t *request;
    or_cluster_t *cluster; // NULL with --connect
    or_client_t *client;
    or_report_t report;
    int64_t news_ns; // when the last delta came; OR_TIME_NEVER once its absence was said
    int64_t begun_ns;
    char waits
        [512]; // why there is no text yet, as the coordinator says; "": it did not, or the user knows
    char told[512]; // of it
    bool interrupted;
} run_t;

// A newcomer sees who writes; programs that read --json do not need it.
static void print_cluster(const run_t *run)
{
    char text[512];
    if (!run->config->json) {
        or_cluster_describe(run->cluster, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
}

static or_status_t start(run_t *run)
{
    const or_generate_config_t *config = run->config;
    const char *endpoint = config->connect;
    if (endpoint == NULL) {
        const or_cluster_config_t local = {.listen = "tcp://127.0.0.1:*",
                                           .model = config->model,
                                           .draft_model = config->draft_model,
                                           .multi_models = config->multi_models.items,
                                           .multi_model_count = config->multi_models.count,
                                           .acceptance_file = config->acceptance_file,
                                           .threads = config->threads,
                                           .draft_threads = config->draft_threads,
                                           .context = config->context,
                                           .sessions_max = OR_CLUSTER_SESSIONS,
                                           .queue_max = OR_CLUSTER_QUEUE,
                                           .target = &config->target,
                                           .log_level = config->log_level,
                                           .show_logs = config->verbose};
        or_status_t status = or_cluster_start(&local, &run->cluster);
        if (status != OR_OK) {
            return status;
        }
        endpoint = or_cluster_endpoint(run->cluster);
        print_cluster(run);
    }
    or_connect_keys_t keys = {0};
    if (run->cluster == NULL) {
        or_status_t status = or_endpoint_check(endpoint, false); // before it is asked for keys
        if (status == OR_OK) {
            status = or_keys_for_connecting(endpoint, &config->keys, &keys);
        }
        if (status != OR_OK) {
            return status;
        }
    }
    // A cluster of our own that is gone does not come back.
    const or_client_config_t client = {.owner = config->owner,
                                       .busy_wait_s = config->busy_wait_s,
                                       .reconnect_wait_s =
                                           run->cluster == NULL ? config->reconnect_wait_s : 0,
                                       .keys = &keys,
                                       .no_padding = !config->padding};
    or_status_t status = or_client_create(endpoint, &client, run->request, &run->client);
    or_key_pair_wipe(&keys.own);
    return status;
}

static or_status_t write_text(const char *text, size_t bytes)
{
    if ((bytes > 0 && fwrite(text, 1, bytes, stdout) != bytes) || fflush(stdout) != 0) {
        return or_fail(OR_ERR_IO, "cannot write to standard output: %s", strerror(errno));
    }
    return OR_OK;
}

static or_status_t take(run_t *run, const or_generate_delta_t *delta)
{
    bool first = run->report.token_count == 0;
    or_status_t status = or_report_add(&run->report, delta);
    bool begins = first && run->report.token_count > 0;
    if (status == OR_OK && begins && !run->config->json && run->config->display_prompt) {
        // Not before there is a text to stand before: an error would stand behind it.
        status = write_text((const char *)run->request->prompt, run->request->prompt_bytes);
    }
    if (status == OR_OK && !run->config->json) {
        status = write_text((const char *)delta->text, delta->text_bytes);
    }
    if (status == OR_OK && delta->finish == OR_FINISH_ERROR) {
        bool busy = delta->error_code == OR_WIRE_BUSY && delta->retry_ms > 0;
        status = or_fail(busy ? OR_ERR_FULL : OR_ERR_INVALID, "%s", delta->error);
    }
    return status;
}

static void take_reason(run_t *run, const or_generate_delta_t *delta)
{
    bool waits = delta->finish == OR_FINISH_NONE && run->report.token_count == 0;
    snprintf(run->waits, sizeof run->waits, "%s", waits ? delta->note : "");
}

// Not of a wait that is over at once: a cluster of our own begins with one.
static void tell_reason(run_t *run, int64_t now)
{
    if (now - run->begun_ns >= WAITING_NS && strcmp(run->waits, run->told) != 0 &&
        run->waits[0] != '\0') {
        or_log(OR_LOG_WARN, "%s", run->waits);
        memcpy(run->told, run->waits, sizeof run->told);
    }
}

// Once: a user who sees nothing for long should know that we have not forgotten.
static void warn_of_silence(run_t *run, int64_t now)
{
    if (run->news_ns != OR_TIME_NEVER && now - run->news_ns >= SILENCE_NS) {
        or_log(OR_LOG_WARN, "nothing new for %d s; still waiting%s",
               (int)(SILENCE_NS / OR_NS_PER_S),
               run->cluster != NULL ? " (--verbose shows the processes' logs)" : "");
        run->news_ns = OR_TIME_NEVER;
    }
}

// One wait for the next delta, or for a look at the children and at Ctrl-C.
static or_status_t step(run_t *run, int64_t *cancel_until_ns)
{
    or_message_t message;
    int64_t now = or_clock_now(or_clock_monotonic());
    if (or_interrupt_count() > 0 && !run->interrupted) {
        run->interrupted = true;
        *cancel_until_ns = now + CANCEL_NS;
        or_client_cancel(run->client);
    }
    if (or_interrupt_count() > 1 || now > *cancel_until_ns) {
        return or_fail(OR_ERR_CANCELLED, "interrupted");
    }
    or_status_t status = or_client_next(run->client, now + LOOK_NS, &message);
    if (status == OR_OK) {
        status = take(run, &message.body.generate_delta);
        take_reason(run, &message.body.generate_delta);
        or_message_fini(&message);
        run->news_ns = run->news_ns != OR_TIME_NEVER ? now : OR_TIME_NEVER;
        if (status != OR_OK) {
            return status;
        }
    } else if (status != OR_ERR_AGAIN) {
        return status;
    }
    tell_reason(run, now);
    warn_of_silence(run, now);
    return run->cluster != NULL ? or_cluster_check(run->cluster, run->report.token_count > 0)
                                : OR_OK;
}

static or_status_t generate(run_t *run)
{
    int64_t cancel_until_ns = OR_TIME_NEVER;
    or_status_t status = start(run);
    run->news_ns = run->begun_ns = or_clock_now(or_clock_monotonic());
    while (status == OR_OK && run->report.finish == OR_FINISH_NONE) {
        status = step(run, &cancel_until_ns);
    }
    return status;
}

static or_status_t print_end(const run_t *run)
{
    if (!run->config->json) {
        or_status_t status = write_text("\n", 1);
        if (status != OR_OK) {
            return status;
        }
    }
    or_report_print_summary(&run->report, stderr);
    if (run->config->verbose) {
        or_report_print_times(&run->report, stderr);
    }
    if (!run->config->json) {
        return OR_OK;
    }
    or_status_t status = or_report_print_json(&run->report, run->request, stdout);
    return status == OR_OK ? write_text("", 0) : status;
}

// The user ended it while nobody was there to say so: what came is all there is, without the coordinator's figures.
static or_status_t end_alone(run_t *run, or_status_t status)
{
    bool alone =
        status == OR_ERR_CANCELLED || status == OR_ERR_UNREACHABLE || status == OR_ERR_TIMEOUT;
    if (!run->interrupted || !alone) {
        return status;
    }
    run->report.finish = OR_FINISH_CANCELLED;
    run->report.seed = run->request->seed;
    run->report.stats.completion_tokens = (uint32_t)run->report.token_count;
    return OR_OK;
}

static int run_request(const or_generate_config_t *config, const or_generate_request_t *request)
{
    run_t run = {.config = config, .request = request};
    run.report.lossy = or_accept_rule_is_lossy(request->accept_rule);
    or_interrupt_watch();
    or_status_t status = end_alone(&run, generate(&run));
    bool text_begun = !config->json && run.report.text_bytes > 0;
    if (status == OR_OK) {
        status = print_end(&run);
    } else if (text_begun) {
        putchar('\n');
        fflush(stdout);
    }
    int code = status == OR_OK         ? OR_EXIT_OK
               : status == OR_ERR_FULL ? OR_EXIT_BUSY
                                       : OR_EXIT_FAILURE;
    if (run.interrupted || or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    } else if (status != OR_OK) {
        or_command_fail("generate", code);
    }
    or_client_destroy(&run.client);
    or_cluster_stop(&run.cluster, END_PATIENCE_NS);
    or_report_fini(&run.report);
    return code;
}

int or_command_generate(int argc, char **argv)
{
    or_generate_config_t config = or_generate_config_default();
    or_generate_request_t request = {0};
    or_options_next_t next;
    or_log_level_t level;
    or_status_t status = or_options_parse(&or_generate_program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("generate", OR_EXIT_USAGE);
    }
    status = or_log_parse_level(config.log_level, &level);
    if (status == OR_OK) {
        or_log_init("generate", level);
        status = or_generate_request_make(&config, &request);
    }
    if (status == OR_OK && config.connect == NULL) {
        status = or_models_choose(&config.model, &config.draft_model, request.plain);
    }
    int code;
    if (status == OR_OK) {
        code = run_request(&config, &request);
    } else {
        code =
            or_command_fail("generate", status == OR_ERR_INVALID ? OR_EXIT_USAGE : OR_EXIT_FAILURE);
    }
    or_generate_request_free(&request);
    or_options_free(&or_generate_program, &config, NULL);
    return code;
}
