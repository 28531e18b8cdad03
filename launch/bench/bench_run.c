#include "launch/bench/bench_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "launch/generate/report.h"
#include "launch/progress.h"
#include "proto/net/requests.h"

#define LOOK_NS (100 * OR_NS_PER_MS) // between looks at the children and at Ctrl-C
#define CANCEL_NS (2 * OR_NS_PER_S)  // for the last delta after Ctrl-C
#define WARM_UP_TOKENS 8u            // so that no case pays for pages read for the first time

typedef struct {
    const or_bench_place_t *place;
    or_bench_plan_t *plan;
    or_bench_results_t *results;
    or_bench_outcome_t *outcome;
    or_progress_t progress;
    bool *skip;        // by prompt: longer than the context
    or_report_t plain; // of plain decoding at the last prompt and temperature
    bool plain_known;
} bench_t;

// A request ends in one of these ways, none of which says anything against the bench as a whole.
typedef enum {
    DONE,
    REFUSED,  // reason in or_error_text()
    TOO_LONG, // the prompt, for the context
} end_t;

static or_generate_request_t make_request(const bench_t *bench, const or_bench_case_t *c,
                                          const or_bench_prompt_t *prompt, uint32_t repeat,
                                          uint32_t tokens)
{
    const or_bench_config_t *config = bench->place->config;
    or_generate_request_t request;
    or_parameters_values(&config->parameters, or_name_option, &request, NULL); // checked before
    request.prompt = (const uint8_t *)prompt->text;
    request.prompt_bytes = prompt->bytes;
    request.max_tokens = tokens;
    request.sampling.temperature = c->temperature;
    request.seed = config->seed + repeat;
    request.has_seed = true;
    request.plain = c->method == OR_DRAFT_NONE;
    request.measured = true;
    request.draft_method = c->method;
    request.accept_rule = c->rule;
    request.draft_nodes = c->nodes;
    request.draft_depth = c->depth;
    request.draft_shape = c->shape.widths;
    request.draft_shape_count = c->shape.count;
    request.distribution_entries = c->distribution_entries;
    request.ignore_end = config->ignore_end;
    return request;
}

// ---- one request ----

// Wait once for the next delta. OR_ERR_CANCELLED after the user's second Ctrl-C, or if the text does not end after the first.
static or_status_t step(const bench_t *bench, or_requests_t *client, or_report_t *report,
                        int64_t *cancel_until_ns, uint32_t *error_code)
{
    uint32_t slot;
    or_message_t message;
    int64_t now = or_clock_now(or_clock_monotonic());
    if (or_interrupt_count() > 0 && *cancel_until_ns == OR_TIME_NEVER) {
        *cancel_until_ns = now + CANCEL_NS;
        or_requests_cancel(client, 0);
    }
    if (or_interrupt_count() > 1 || now > *cancel_until_ns) {
        return or_fail(OR_ERR_CANCELLED, "interrupted");
    }
    or_status_t status = or_requests_next(client, now + LOOK_NS, &slot, &message);
    if (status == OR_OK) {
        const or_generate_delta_t *delta = &message.body.generate_delta;
        status = or_report_add(report, delta);
        if (delta->finish == OR_FINISH_ERROR) {
            *error_code = delta->error_code;
            status = or_fail(OR_ERR_INVALID, "%s", delta->error);
        } else if (delta->finish == OR_FINISH_CANCELLED) {
            status = or_fail(OR_ERR_CANCELLED, "interrupted");
        }
        or_message_fini(&message);
        return status;
    }
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    bool useful = report->token_count > 0 || bench->outcome->runs > 0;
    return bench->place->cluster != NULL ? or_cluster_check(bench->place->cluster, useful) : OR_OK;
}

// Can the bench go on with other cases after this failure of one?
static bool is_the_case(or_status_t status)
{
    return status == OR_ERR_INVALID || status == OR_ERR_MISMATCH || status == OR_ERR_UNSUPPORTED;
}

// Was a text decoded plainly although it was to be drafted? The reason is recorded as the error's text.
static bool is_undrafted(const or_generate_request_t *request, const or_report_t *report)
{
    const or_generate_stats_t *stats = &report->stats;
    bool all_plain = stats->target_calls > 0 && stats->plain_rounds >= stats->target_calls;
    all_plain = all_plain && request->draft_policy != OR_POLICY_AUTO; // which may choose that
    if (request->plain || (report->note[0] == '\0' && !all_plain)) {
        return false;
    }
    or_fail(OR_ERR_UNSUPPORTED, "%s",
            report->note[0] != '\0' ? report->note : "no drafter served it: every round was plain");
    return true;
}

static or_status_t write_text(const bench_t *bench, const or_generate_request_t *request,
                              or_report_t *report, end_t *end)
{
    or_requests_t *client = NULL;
    int64_t cancel_until_ns = OR_TIME_NEVER;
    uint32_t error_code = 0;
    const or_bench_config_t *wished = bench->place->config;
    const char *endpoint = bench->place->endpoint;
    const or_requests_config_t config = {.owner = wished->owner,
                                         .no_padding = !wished->padding,
                                         .endpoint = endpoint,
                                         .busy_wait_s = OR_REQUESTS_BUSY_WAIT_S};
    // A cluster of our own is on this machine, and does not encrypt.
    or_status_t status = or_requests_connect(
        endpoint, wished->connect != NULL ? &wished->keys : NULL, &config, 1, &client);
    if (status != OR_OK) {
        return status;
    }
    or_requests_begin(client, 0, request);
    while (status == OR_OK && report->finish == OR_FINISH_NONE) {
        status = step(bench, client, report, &cancel_until_ns, &error_code);
    }
    or_requests_destroy(&client);
    *end = error_code == OR_WIRE_CONTEXT ? TOO_LONG : REFUSED;
    if (status == OR_OK) {
        *end = is_undrafted(request, report) ? REFUSED : DONE;
    }
    return is_the_case(status) ? OR_OK : status;
}

// ---- one run of a case ----

static void compare(bench_t *bench, uint32_t c, const or_bench_prompt_t *prompt,
                    const or_report_t *report)
{
    const or_bench_case_t *it = &bench->plan->cases[c];
    size_t same = 0;
    if (it->temperature != 0 || or_accept_rule_is_lossy(it->rule) || !bench->plain_known) {
        return;
    }
    while (same < report->token_count && same < bench->plain.token_count &&
           report->tokens[same] == bench->plain.tokens[same]) {
        same++;
    }
    bench->outcome->compared++;
    if (same < report->token_count || same < bench->plain.token_count) {
        or_progress_clear(&bench->progress);
        fprintf(stderr,
                "outrider bench: text differs from plain decoding: %s, tree %s, prompt %" PRIu32
                ", from token %zu on\n",
                it->name, it->tree, prompt->line, same + 1);
        bench->results->differing[c]++;
        bench->outcome->differing++;
    }
}

static void skip_prompt(bench_t *bench, uint32_t p)
{
    or_progress_clear(&bench->progress);
    fprintf(stderr, "outrider bench: prompt %" PRIu32 " is left out: %s\n",
            bench->place->prompts->items[p].line, or_error_text());
    bench->skip[p] = true;
    bench->outcome->skipped++;
}

static void take_result(bench_t *bench, uint32_t c, uint32_t repeat, uint32_t p,
                        or_report_t *report)
{
    const or_bench_prompt_t *prompt = &bench->place->prompts->items[p];
    or_bench_results_add(bench->results, c, repeat, prompt->category, &report->stats);
    if (bench->plan->cases[c].method != OR_DRAFT_NONE) {
        compare(bench, c, prompt, report);
        return;
    }
    or_report_fini(&bench->plain);
    bench->plain = *report; // taken
    bench->plain_known = true;
    *report = (or_report_t){0};
}

static or_status_t run_case(bench_t *bench, uint32_t c, uint32_t repeat, uint32_t p)
{
    or_bench_case_t *it = &bench->plan->cases[c];
    or_report_t report = {0};
    end_t end;
    if (it->method == OR_DRAFT_NONE) {
        bench->plain_known = false;
    }
    if (it->reason[0] != '\0') {
        return OR_OK;
    }
    or_progress_show(&bench->progress, bench->progress.done, it->name);
    const or_generate_request_t request = make_request(bench, it, &bench->place->prompts->items[p],
                                                       repeat, bench->place->config->predict);
    or_status_t status = write_text(bench, &request, &report, &end);
    if (status == OR_OK && end == TOO_LONG) {
        skip_prompt(bench, p);
    } else if (status == OR_OK && end == REFUSED) {
        snprintf(it->reason, sizeof it->reason, "%s", or_error_text());
    } else if (status == OR_OK) {
        take_result(bench, c, repeat, p, &report);
        bench->outcome->runs++;
    }
    or_report_fini(&report);
    return status;
}

// ---- all ----

static or_status_t run_prompt(bench_t *bench, uint32_t repeat, uint32_t p)
{
    or_status_t status = OR_OK;
    for (uint32_t c = 0; c < bench->plan->count && status == OR_OK; c++) {
        if (or_interrupt_count() > 0) {
            return or_fail(OR_ERR_CANCELLED, "interrupted");
        }
        if (!bench->skip[p]) {
            status = run_case(bench, c, repeat, p);
        }
        bench->progress.done++;
    }
    return status;
}

// Run plain decoding and the first case that drafts, without counting them.
static or_status_t warm_up(bench_t *bench)
{
    or_status_t status = OR_OK;
    for (uint32_t c = 0; c < bench->plan->count && c < 2 && status == OR_OK; c++) {
        or_report_t report = {0};
        end_t end;
        const or_generate_request_t request = make_request(
            bench, &bench->plan->cases[c], bench->place->prompts->items, 0, WARM_UP_TOKENS);
        status = write_text(bench, &request, &report, &end);
        or_report_fini(&report);
    }
    return status;
}

or_status_t or_bench_run(const or_bench_place_t *place, or_bench_plan_t *plan,
                         or_bench_results_t *results, or_bench_outcome_t *outcome)
{
    uint32_t prompts = place->prompts->count;
    bench_t bench = {.place = place, .plan = plan, .results = results, .outcome = outcome};
    *outcome = (or_bench_outcome_t){.runs_all = (uint64_t)plan->count * prompts * results->repeats};
    bench.skip = calloc(prompts, sizeof *bench.skip);
    if (bench.skip == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the prompts");
    }
    or_status_t status = warm_up(&bench);
    or_progress_init(&bench.progress, outcome->runs_all, false);
    for (uint32_t repeat = 0; repeat < results->repeats; repeat++) {
        for (uint32_t p = 0; p < prompts && status == OR_OK; p++) {
            status = run_prompt(&bench, repeat, p);
        }
    }
    or_progress_clear(&bench.progress);
    outcome->interrupted = status == OR_ERR_CANCELLED || or_interrupt_count() > 0;
    or_report_fini(&bench.plain);
    free(bench.skip);
    return outcome->interrupted ? OR_OK : status;
}
