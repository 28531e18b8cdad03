// outrider bench load - many requests at once for a while: throughput, latency, errors, and with --check
// whether every text is the one that plain decoding writes.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/load/load_run.h"

#define END_PATIENCE_NS (500 * OR_NS_PER_MS) // for the children, which have nothing to save

typedef struct {
    or_load_config_t *config;
    or_load_plan_t plan;
    or_bench_prompts_t prompts;
    or_load_texts_t texts;
    or_cluster_t *cluster; // NULL with --connect
    json_t *results;       // with --json
    bool head_printed;     // of the table
    bool sound;            // so far: no error, no wrong text, and something came every time
} load_t;

// ---- output ----

static json_t *latency(const or_load_histogram_t *histogram)
{
    return json_pack("{s:o, s:o, s:o}", "p50",
                     or_output_json_number(or_load_histogram_ms(histogram, 0.50)), "p95",
                     or_output_json_number(or_load_histogram_ms(histogram, 0.95)), "p99",
                     or_output_json_number(or_load_histogram_ms(histogram, 0.99)));
}

static or_status_t add_json(json_t *results, const or_load_figures_t *figures,
                            const or_load_rates_t *rates, bool checked)
{
    json_t *object = json_pack(
        "{s:I, s:f, s:f, s:{s:f, s:f, s:o}, s:o, s:o, s:I, s:I, s:I, s:o, s:I, s:I, s:o}",
        "sessions", (json_int_t)figures->sessions, "seconds", figures->seconds, //
        "tokens_per_second", rates->total,                                      //
        "session_tokens_per_second", "median", rates->median, "worst", rates->worst,
        "worst_over_median", or_output_json_number(rates->fairness), //
        "first_token_ms", latency(&figures->first_token), "inter_token_ms",
        latency(&figures->inter_token),                                                           //
        "texts", (json_int_t)figures->texts,                                                      //
        "errors", (json_int_t)figures->errors,                                                    //
        "busy", (json_int_t)figures->busy,                                                        //
        "wrong", checked ? json_integer((json_int_t)figures->wrong) : json_null(),                //
        "rounds", (json_int_t)figures->rounds, "plain_rounds", (json_int_t)figures->plain_rounds, //
        "error", figures->error[0] != '\0' ? json_string(figures->error) : json_null());
    if (object == NULL || json_array_append_new(results, object) != 0) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the results");
    }
    return OR_OK;
}

static void print_head(void)
{
    printf("%8s %9s | %-23s | %-23s | %-23s |\n", "", "", " tokens/s a session", " first token, ms",
           " between tokens, ms");
    printf("%8s %9s | %7s %7s %7s | %7s %7s %7s | %7s %7s %7s | %6s %6s %6s\n", "sessions",
           "tokens/s", "median", "worst", "w/m", "p50", "p95", "p99", "p50", "p95", "p99", "errors",
           "busy", "wrong");
}

static void print_latency(const or_load_histogram_t *histogram)
{
    or_output_cell(stdout, 7, 1, or_load_histogram_ms(histogram, 0.50));
    or_output_cell(stdout, 7, 1, or_load_histogram_ms(histogram, 0.95));
    or_output_cell(stdout, 7, 1, or_load_histogram_ms(histogram, 0.99));
    fputs(" |", stdout);
}

static void print_row(const or_load_figures_t *figures, const or_load_rates_t *rates, bool checked)
{
    printf("%8" PRIu32 " %9.0f |", figures->sessions, rates->total);
    or_output_cell(stdout, 7, 1, rates->median);
    or_output_cell(stdout, 7, 1, rates->worst);
    or_output_cell(stdout, 7, 2, rates->fairness);
    fputs(" |", stdout);
    print_latency(&figures->first_token);
    print_latency(&figures->inter_token);
    printf(" %6" PRIu64 " %6" PRIu64, figures->errors, figures->busy);
    or_output_cell(stdout, 6, 0, checked ? (double)figures->wrong : (double)NAN);
    putchar('\n');
    if (figures->errors > 0) {
        fprintf(stderr, "outrider bench load: the first error: %s\n", figures->error);
    }
}

// ---- running ----

// Every session gets a place, so that the work is measured and not the queue.
static uint32_t most_sessions(const load_t *load)
{
    uint32_t most = OR_CLUSTER_SESSIONS;
    for (uint32_t i = 0; i < load->plan.step_count; i++) {
        most = load->plan.steps[i] > most ? load->plan.steps[i] : most;
    }
    return most;
}

static or_status_t start_cluster(load_t *load)
{
    const or_load_config_t *config = load->config;
    const or_cluster_config_t local = {.announce = stderr,
                                       .models = &config->models,
                                       .sessions_max = most_sessions(load),
                                       .queue_max = OR_CLUSTER_QUEUE,
                                       .log_level = config->log_level,
                                       .show_logs = config->verbose};
    return or_cluster_start(&local, &load->cluster);
}

static or_status_t tell(load_t *load, or_load_figures_t *figures)
{
    const or_load_rates_t rates = or_load_rates(figures);
    bool checked = load->config->check;
    load->sound &= figures->errors == 0 && figures->wrong == 0 && rates.total > 0;
    if (figures->errors == 0 && rates.total <= 0) {
        fprintf(stderr,
                "outrider bench load: no text was written within %.1f s; try --seconds %.0f\n",
                figures->seconds, 5 * (figures->seconds + 1));
    }
    if (load->config->json) {
        return add_json(load->results, figures, &rates, checked);
    }
    if (!load->head_printed) { // not before there is a row: an error would stand below it
        print_head();
        load->head_printed = true;
    }
    print_row(figures, &rates, checked);
    return or_output_flush();
}

static or_status_t measure(load_t *load, const or_load_place_t *place, uint32_t sessions)
{
    or_load_figures_t figures = {
        .sessions = sessions, .session_tokens = calloc(sessions, sizeof *figures.session_tokens)};
    bool check = load->config->check;
    if (figures.session_tokens == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the figures of %u sessions", sessions);
    }
    or_status_t status = or_load_run(place, check ? &load->texts : NULL, &figures);
    if (figures.seconds > 0) { // also of a measurement that was interrupted
        or_status_t told = tell(load, &figures);
        status = status == OR_OK ? told : status;
    }
    free(figures.session_tokens);
    return status;
}

// Do everything between a running cluster and the exit code. What was measured is printed even if something goes wrong behind
// it.
static or_status_t measure_all(load_t *load, const or_load_place_t *place)
{
    or_status_t status = or_load_run_wait(place);
    if (status == OR_OK && load->config->check) {
        status = or_load_run_learn(place, &load->texts);
    }
    if (status == OR_OK && load->config->check) {
        fprintf(stderr, "%" PRIu32 " texts decoded plainly, to compare with\n", load->texts.count);
    }
    for (uint32_t i = 0; i < load->plan.step_count && status == OR_OK; i++) {
        status = measure(load, place, load->plan.steps[i]);
    }
    if (load->config->json && json_array_size(load->results) > 0) {
        or_status_t written = or_output_json(json_incref(load->results), OR_OUTPUT_DIGITS);
        written = written == OR_OK ? or_output_flush() : written;
        status = status == OR_OK ? written : status;
    }
    return status;
}

static int measure_and_print(load_t *load)
{
    or_load_place_t place = {
        .config = load->config, .plan = &load->plan, .prompts = &load->prompts};
    or_status_t status = OR_OK;
    or_interrupt_watch();
    if (load->config->connect == NULL) {
        status = start_cluster(load);
    }
    if (status == OR_OK) {
        place.cluster = load->cluster;
        place.endpoint =
            load->cluster != NULL ? or_cluster_endpoint(load->cluster) : load->config->connect;
        status = measure_all(load, &place);
    }
    int code = load->sound ? OR_EXIT_OK : OR_EXIT_FAILURE;
    if (or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    } else if (status != OR_OK) {
        code = or_command_fail("bench load", OR_EXIT_FAILURE);
    }
    or_cluster_stop(&load->cluster, END_PATIENCE_NS);
    return code;
}

// Check and prepare all that was asked for. Nothing is started yet.
static or_status_t prepare(load_t *load)
{
    const or_load_config_t *config = load->config;
    const or_bench_prompts_choice_t choice = {.path = config->prompts,
                                              .limit = config->prompt_limit};
    or_status_t status = or_command_open_log("bench", config->log_level);
    if (status == OR_OK) {
        status = or_load_plan_make(config, &load->plan);
    }
    if (status == OR_OK) {
        status = or_bench_prompts_read(&choice, &load->prompts);
    }
    if (status == OR_OK && config->connect == NULL) {
        status =
            or_models_choose_for(&load->config->models, &config->parameters, &load->plan.request);
    }
    if (status == OR_OK && config->json) {
        load->results = json_array();
        status =
            load->results != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for the results");
    }
    return status;
}

static int run(int argc, char **argv)
{
    or_load_config_t config = or_load_config_default();
    load_t load = {.config = &config, .sound = true};
    int code;
    if (!or_command_begin(&or_load_program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = prepare(&load);
    code = status == OR_OK ? measure_and_print(&load)
                           : or_command_fail("bench load", or_command_code(status));
    json_decref(load.results);
    or_load_texts_fini(&load.texts);
    or_bench_prompts_fini(&load.prompts);
    or_options_free(&or_load_program, &config, NULL);
    return code;
}

const or_command_t or_bench_load_command = {"load", run,
                                            "keep many requests running, and say what comes of it"};
