#include "launch/generate/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "launch/generate/output.h"

or_status_t or_report_add(or_report_t *report, const or_generate_delta_t *delta)
{
    if (!or_array_reserve(&report->text, &report->text_capacity, report->text_bytes,
                          delta->text_bytes, 1) ||
        !or_array_reserve(&report->tokens, &report->token_capacity, report->token_count,
                          delta->count, sizeof *report->tokens)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the text");
    }
    if (delta->text_bytes > 0) {
        memcpy(report->text + report->text_bytes, delta->text, delta->text_bytes);
        report->text_bytes += delta->text_bytes;
    }
    if (delta->count > 0) {
        memcpy(report->tokens + report->token_count, delta->tokens,
               delta->count * sizeof *report->tokens);
        report->token_count += delta->count;
    }
    if (delta->finish != OR_FINISH_NONE) {
        report->finish = delta->finish;
        report->seed = delta->seed;
        report->stats = delta->stats;
        snprintf(report->arith_id, sizeof report->arith_id, "%s", delta->arith_id);
        snprintf(report->note, sizeof report->note, "%s", delta->note);
        snprintf(report->advice, sizeof report->advice, "%s", delta->advice);
        snprintf(report->vocab_map, sizeof report->vocab_map, "%s", delta->vocab_map);
        snprintf(report->vocab_why, sizeof report->vocab_why, "%s", delta->vocab_why);
        char *const shown[] = {report->note, report->advice, report->vocab_map, report->vocab_why};
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
            or_log_mend(shown[i]);
        }
    }
    return OR_OK;
}

void or_report_fini(or_report_t *report)
{
    free(report->text);
    free(report->tokens);
    *report = (or_report_t){0};
}

bool or_report_is_equal(const or_report_t *a, const or_report_t *b)
{
    return a->token_count == b->token_count && a->text_bytes == b->text_bytes &&
           (a->token_count == 0 ||
            memcmp(a->tokens, b->tokens, a->token_count * sizeof *a->tokens) == 0) &&
           (a->text_bytes == 0 || memcmp(a->text, b->text, a->text_bytes) == 0);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

// Tokens that the rounds and the time in the figures brought: a coordinator that was restarted in between
// counts from there on.
static uint32_t counted_tokens(const or_generate_stats_t *stats)
{
    uint32_t before = stats->resumed_tokens;
    return stats->completion_tokens > before ? stats->completion_tokens - before : 0;
}

double or_report_tokens_per_call(const or_report_t *report)
{
    return ratio(counted_tokens(&report->stats), (double)report->stats.target_calls);
}

// The first round contains the prompt and is not in round_us, so its share of the tokens is left out too (that of
// a text that was resumed was before). Where there was no other round, all the time is all there is.
double or_report_tokens_per_second(const or_report_t *report)
{
    const or_generate_stats_t *stats = &report->stats;
    uint64_t untimed = stats->resumed_tokens == 0;
    if (stats->target_calls <= untimed || stats->round_us == 0) {
        return ratio(1e6 * counted_tokens(stats), (double)stats->elapsed_us);
    }
    double timed = (double)(stats->target_calls - untimed) / (double)stats->target_calls;
    return 1e6 * counted_tokens(stats) * timed / (double)stats->round_us;
}

void or_report_print_summary(const or_report_t *report, FILE *out)
{
    const or_generate_stats_t *stats = &report->stats;
    uint32_t tokens = stats->completion_tokens;
    if (report->lossy) {
        fprintf(out, "lossy: this is not a sample of the target's distribution\n");
    }
    if (report->note[0] != '\0') {
        fprintf(out, "note: %s\n", report->note);
    }
    if (report->advice[0] != '\0') {
        fprintf(out, "advice: %s\n", report->advice);
    }
    if (report->vocab_map[0] != '\0' && strcmp(report->vocab_map, "same") != 0) {
        fprintf(out, "vocabulary map %s: %s\n", report->vocab_map, report->vocab_why);
    }
    fprintf(out, "%" PRIu32 " token%s", tokens, tokens == 1 ? "" : "s");
    bool counted = counted_tokens(stats) > 0 && stats->target_calls > 0;
    if (counted && stats->resumed_tokens > 0) {
        fprintf(out, ", %" PRIu32 " of them since the coordinator was restarted",
                counted_tokens(stats));
    }
    if (counted) {
        fprintf(out, ", %.1f per target call", or_report_tokens_per_call(report));
    }
    if (counted && stats->drafted > 0) {
        fprintf(out, ", %.0f %% of drafted tokens accepted",
                100 * ratio((double)stats->accepted, (double)stats->drafted));
    }
    if (counted) {
        fprintf(out, ", %.0f tokens/s", or_report_tokens_per_second(report));
    }
    fprintf(out, " (seed %" PRIu64 ")\n", report->seed);
}

void or_report_print_times(const or_report_t *report, FILE *out)
{
    const or_generate_stats_t *stats = &report->stats;
    bool resumed = stats->resumed_tokens > 0;
    double rounds = (double)stats->target_calls - !resumed; // a text's first is not timed
    double elsewhere = (double)stats->round_us - (double)stats->draft_us -
                       (double)stats->verify_us - (double)stats->accept_us;
    fprintf(out, "per round: draft %.0f us, verify %.0f us, accept %.0f us, elsewhere %.0f us; ",
            ratio((double)stats->draft_us, rounds), ratio((double)stats->verify_us, rounds),
            ratio((double)stats->accept_us, rounds), ratio(elsewhere, rounds));
    if (!resumed) {
        fprintf(out, "first token after %.1f ms; ", (double)stats->first_token_us / 1e3);
    }
    fprintf(out, "%" PRIu64 " rounds without a tree, %" PRIu64 " resyncs\n", stats->plain_rounds,
            stats->resyncs);
    if (stats->ahead_rounds > 0) {
        fprintf(out, "drafting ahead: guesses were there in %.0f %% of %" PRIu64 " rounds\n",
                100 * ratio((double)stats->ahead_hits, (double)stats->ahead_rounds),
                stats->ahead_rounds);
    }
    if (stats->bridged_rounds + stats->lookup_rounds + stats->failovers + stats->resumes > 0) {
        fprintf(out,
                "%" PRIu64 " rounds did not wait for the drafter, %" PRIu64
                " were looked up; %" PRIu64 " fail-overs, %" PRIu64 " resumes\n",
                stats->bridged_rounds, stats->lookup_rounds, stats->failovers, stats->resumes);
    }
    if (stats->translate_us > 0) {
        fprintf(out, "translating %.0f us a round; %" PRIu64 " questions about rejected guesses\n",
                ratio((double)stats->translate_us, (double)stats->target_calls),
                stats->psi_requests);
    }
}

static json_t *token_array(const or_report_t *report)
{
    json_t *array = json_array();
    for (size_t i = 0; i < report->token_count; i++) {
        json_array_append_new(array, json_integer(report->tokens[i]));
    }
    return array;
}

// Put in how the drafter was used. Nothing is put into a line for which there was no memory.
static void put_drafting(json_t *line, const or_generate_stats_t *stats,
                         const or_generate_request_t *request)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"draft_ahead", request->draft_ahead},
                  {"ahead_rounds", stats->ahead_rounds},
                  {"ahead_hits", stats->ahead_hits},
                  {"bridged_rounds", stats->bridged_rounds},
                  {"lookup_rounds", stats->lookup_rounds},
                  {"failovers", stats->failovers},
                  {"resumes", stats->resumes},
                  {"resumed_tokens", stats->resumed_tokens}};
    json_object_set_new(line, "draft_policy",
                        json_string(or_draft_policy_name(request->draft_policy)));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        json_object_set_new(line, counts[i].name, json_integer((json_int_t)counts[i].value));
    }
    json_object_set_new(line, "ahead_hit_rate",
                        json_real(ratio((double)stats->ahead_hits, (double)stats->ahead_rounds)));
}

or_status_t or_report_print_json(const or_report_t *report, const or_generate_request_t *request)
{
    const or_generate_stats_t *stats = &report->stats;
    json_t *line = json_pack(
        "{s:o, s:o, s:I, s:I, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:s, s:s, s:s, s:s*}", //
        "text", or_output_json_text(report->text, report->text_bytes), "tokens",
        token_array(report),                                       //
        "prompt_tokens", (json_int_t)stats->prompt_tokens,         //
        "completion_tokens", (json_int_t)stats->completion_tokens, //
        "finish_reason", or_finish_name(report->finish),           //
        "target_calls", (json_int_t)stats->target_calls,           //
        "drafted", (json_int_t)stats->drafted,                     //
        "accepted", (json_int_t)stats->accepted,                   //
        "block_efficiency", or_report_tokens_per_call(report),     //
        "tokens_per_second", or_report_tokens_per_second(report),  //
        "wire_bytes_per_token", ratio((double)stats->wire_bytes, counted_tokens(stats)), "seed",
        (json_int_t)report->seed, //
        "draft_method", request->plain ? "none" : or_draft_method_name(request->draft_method),
        "accept", or_accept_rule_name(request->accept_rule), //
        "arith_id", report->arith_id, "note", report->note[0] != '\0' ? report->note : NULL);
    put_drafting(line, stats, request);
    if (report->vocab_map[0] != '\0') {
        json_object_set_new(line, "vocab_map", json_string(report->vocab_map));
        json_object_set_new(line, "vocab_map_why", json_string(report->vocab_why));
    }
    if (report->advice[0] != '\0') {
        json_object_set_new(line, "advice", json_string(report->advice));
    }
    if (report->lossy) {
        json_object_set_new(line, "lossy", json_true());
    }
    return or_output_json(line, OR_OUTPUT_DIGITS);
}
