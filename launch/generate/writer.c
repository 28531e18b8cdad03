#include "launch/generate/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "launch/cluster/cluster.h"
#include "proto/net/requests.h"

#define LOOK_NS (100 * OR_NS_PER_MS)         // between looks at the children
#define CANCEL_NS (2 * OR_NS_PER_S)          // for the last delta after Ctrl-C
#define SILENCE_NS (5 * OR_NS_PER_S)         // without news before the user hears of it
#define WAITING_NS OR_NS_PER_S               // for the first token before the user hears why
#define END_PATIENCE_NS (500 * OR_NS_PER_MS) // for the children, which have nothing to save

struct or_writer {
    const or_generate_config_t *config;
    or_cluster_t *cluster; // NULL with --connect
    // The last text's client, until the next text: destroying it must not replace an error's text.
    or_requests_t *client;
    bool useful; // it has written something
};

// A text while it is written.
typedef struct {
    or_writer_t *writer;
    or_report_t *report;
    or_writer_take_t take;
    void *context;
    int64_t news_ns; // when the last delta came; OR_TIME_NEVER once its absence was said
    int64_t begun_ns;
    char waits
        [512]; // why there is no text yet, as the coordinator says; "": it did not, or the user knows
    char told[512]; // of it
    int interrupts; // before it began
    bool interrupted;
    int64_t cancel_until_ns; // OR_TIME_NEVER unless interrupted
} run_t;

// ---- the cluster ----

static or_status_t start_cluster(or_writer_t *writer, const or_http_options_t *http)
{
    const or_generate_config_t *config = writer->config;
    // Programs that read --json do not need to know who writes.
    const or_cluster_config_t local = {.announce = config->json ? NULL : stderr,
                                       .models = &config->models,
                                       .sessions_max = OR_CLUSTER_SESSIONS_OWN,
                                       .queue_max = OR_CLUSTER_QUEUE,
                                       .http = http,
                                       .log_level = config->log_level,
                                       .show_logs = config->verbose};
    return or_cluster_start(&local, &writer->cluster);
}

or_status_t or_writer_open(const or_generate_config_t *config, const or_http_options_t *http,
                           or_writer_t **writer_p)
{
    or_writer_t *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to begin");
    }
    writer->config = config;
    or_status_t status = config->connect != NULL ? OR_OK : start_cluster(writer, http);
    if (status != OR_OK) {
        or_writer_close(&writer);
        return status;
    }
    *writer_p = writer;
    return OR_OK;
}

void or_writer_close(or_writer_t **writer_p)
{
    if (*writer_p != NULL) {
        or_requests_destroy(&(*writer_p)->client);
        or_cluster_stop(&(*writer_p)->cluster, END_PATIENCE_NS);
        free(*writer_p);
        *writer_p = NULL;
    }
}

// ---- a text ----

static or_status_t connect_client(or_writer_t *writer, const or_generate_request_t *request)
{
    const or_generate_config_t *config = writer->config;
    bool local = writer->cluster != NULL;
    const char *endpoint = local ? or_cluster_endpoint(writer->cluster) : config->connect;
    // A cluster of our own does not encrypt, and does not come back once it is gone.
    const or_requests_config_t client = {.owner = config->owner,
                                         .no_padding = !config->padding,
                                         .endpoint = endpoint,
                                         .busy_wait_s = config->busy_wait_s,
                                         .reconnect_wait_s = local ? 0 : config->reconnect_wait_s};
    or_requests_destroy(&writer->client);
    or_status_t status =
        or_requests_connect(endpoint, local ? NULL : &config->keys, &client, 1, &writer->client);
    if (status == OR_OK) {
        or_requests_begin(writer->client, 0, request);
    }
    return status;
}

static or_status_t take(run_t *run, const or_generate_delta_t *delta)
{
    or_status_t status = or_report_add(run->report, delta);
    run->writer->useful = run->writer->useful || run->report->token_count > 0;
    if (status == OR_OK) {
        status = run->take(run->context, delta);
    }
    if (status == OR_OK && delta->finish == OR_FINISH_ERROR) {
        bool busy = delta->error_code == OR_WIRE_BUSY && delta->retry_ms > 0;
        status = or_fail(busy ? OR_ERR_FULL : OR_ERR_INVALID, "%s", delta->error);
    }
    return status;
}

static void take_reason(run_t *run, const or_generate_delta_t *delta)
{
    bool waits = delta->finish == OR_FINISH_NONE && run->report->token_count == 0;
    snprintf(run->waits, sizeof run->waits, "%s", waits ? delta->note : "");
}

// Say why there is no text yet, but not of a wait that is over at once: a cluster of our own begins with one.
static void tell_reason(run_t *run, int64_t now)
{
    if (now - run->begun_ns >= WAITING_NS && strcmp(run->waits, run->told) != 0 &&
        run->waits[0] != '\0') {
        if (run->writer->cluster != NULL && !run->writer->useful) {
            or_log(OR_LOG_INFO, "the cluster starts: %s", run->waits);
        } else {
            or_log(OR_LOG_WARN, "%s", run->waits);
        }
        memcpy(run->told, run->waits, sizeof run->told);
    }
}

// Warn once: a user who sees nothing for long should know that we have not forgotten.
static void warn_of_silence(run_t *run, int64_t now)
{
    if (run->news_ns != OR_TIME_NEVER && now - run->news_ns >= SILENCE_NS) {
        or_log(OR_LOG_WARN, "nothing new for %d s; still waiting%s",
               (int)(SILENCE_NS / OR_NS_PER_S),
               run->writer->cluster != NULL ? " (--verbose shows the processes' logs)" : "");
        run->news_ns = OR_TIME_NEVER;
    }
}

// Wait once for the next delta, or for the next look at the children and at Ctrl-C.
static or_status_t step(run_t *run)
{
    uint32_t slot;
    or_message_t message;
    int64_t now = or_clock_now(or_clock_monotonic());
    int interrupts = or_interrupt_count() - run->interrupts;
    if (interrupts > 0 && !run->interrupted) {
        run->interrupted = true;
        run->cancel_until_ns = now + CANCEL_NS;
        or_requests_cancel(run->writer->client, 0);
    }
    if (interrupts > 1 || now > run->cancel_until_ns) {
        return or_fail(OR_ERR_CANCELLED, "interrupted");
    }
    or_status_t status = or_requests_next(run->writer->client, now + LOOK_NS, &slot, &message);
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
    or_cluster_t *cluster = run->writer->cluster;
    return cluster != NULL ? or_cluster_check(cluster, run->writer->useful) : OR_OK;
}

// The user ended it while nobody was there to say so: what came is all there is, without the coordinator's figures.
static or_status_t end_alone(run_t *run, const or_generate_request_t *request, or_status_t status)
{
    bool alone =
        status == OR_ERR_CANCELLED || status == OR_ERR_UNREACHABLE || status == OR_ERR_TIMEOUT;
    if (!run->interrupted || !alone) {
        return status;
    }
    run->report->finish = OR_FINISH_CANCELLED;
    run->report->seed = request->seed;
    run->report->stats.completion_tokens = (uint32_t)run->report->token_count;
    return OR_OK;
}

or_status_t or_writer_write(or_writer_t *writer, const or_generate_request_t *request,
                            int interrupts, or_writer_take_t take_delta, void *context,
                            or_report_t *report)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    run_t run = {.writer = writer,
                 .report = report,
                 .take = take_delta,
                 .context = context,
                 .news_ns = now,
                 .begun_ns = now,
                 .interrupts = interrupts,
                 .cancel_until_ns = OR_TIME_NEVER};
    or_status_t status = connect_client(writer, request);
    while (status == OR_OK && report->finish == OR_FINISH_NONE) {
        status = step(&run);
    }
    return end_alone(&run, request, status);
}
