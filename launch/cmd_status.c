// outrider status - how a running service does: a page, a line of JSON, or only an exit code for probes.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/base/version.h"
#include "launch/commands.h"
#include "launch/doctor_probe.h"
#include "proto/link.h"

#define PATIENCE_NS (3 * OR_NS_PER_S)  // for the answer
#define REPEAT_NS (500 * OR_NS_PER_MS) // questions get lost, too

typedef struct {
    char *connect;
    char *owner;
    or_key_options_t keys;
    bool json, ready;
} config_t;

static const or_option_t table[] = {
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT", "the coordinator"},
    {"owner", NULL, OR_OPTION_STRING, offsetof(config_t, owner), "NAME", "who asks"},
    OR_KEY_OPTIONS(config_t, keys),
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL,
     "one line of JSON on standard output"},
    {"ready", NULL, OR_OPTION_FLAG, offsetof(config_t, ready), NULL,
     "print nothing: the exit code tells"},
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
        "  outrider status --ready && echo serving",
};

// ---- asking ----

// The next Stats, the caller's to fini. OR_ERR_AGAIN if none is there.
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
    while ((status = next_stats(link, message)) == OR_ERR_AGAIN && or_clock_now(clock) < end_ns) {
        // Not before the coordinator has heard who asks: what is shown depends on it.
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

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_verifier(const or_stats_t *stats)
{
    printf("batch      %.2f sessions a forward pass, over %" PRIu64 " passes\n",
           ratio(stats->batched, stats->passes), stats->passes);
    printf("guesses    %" PRIu64 " of %" PRIu64 " accepted, in %" PRIu64 " rounds\n",
           stats->accepted, stats->nodes, stats->rounds);
    printf("cache      %" PRIu32 " pages of %" PRIu32 " positions: %" PRIu32
           " used (those of finished texts are kept for reuse until needed), %" PRIu32
           " free, %" PRIu32 " shared; %.1f MB a rank\n",
           stats->pages, stats->page_positions, stats->pages - stats->pages_free, stats->pages_free,
           stats->pages_shared, (double)stats->pages * (double)stats->page_bytes / 1e6);
    printf("prefixes   %" PRIu64 " positions computed, %" PRIu64 " taken from others; %" PRIu64
           " evictions\n",
           stats->prefill_rows, stats->reused_rows, stats->evictions);
}

// A line a session: who guesses and how far ahead, what was measured, and what follows of it.
static void print_policies(const or_stats_t *stats)
{
    if (stats->policy_count > 0) {
        printf("\n%-16s %-6s %-8s %5s %5s %5s %8s %8s %8s %8s %6s %6s %5s %8s %8s\n", "session",
               "policy", "source", "nodes", "depth", "ahead", "link ms", "draft ms", "plain ms",
               "tree ms", "1st ok", "tokens", "hit", "plain/s", "draft/s");
    }
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        const or_policy_terms_t *policy = &stats->policies[i];
        const char *source = or_guess_source_name(policy->source);
        printf("%-16" PRIx64 " %-6s %-8s %5" PRIu32 " %5" PRIu32 " %5" PRIu32
               " %8.1f %8.1f %8.1f %8.1f %6.2f %6.2f %5.2f %8.1f %8.1f\n",
               policy->session, policy->automatic ? "auto" : "fixed", source != NULL ? source : "-",
               policy->nodes, policy->depth, policy->ahead, (double)policy->round_trip_ms,
               (double)policy->draft_ms, (double)policy->plain_ms, (double)policy->verify_ms,
               (double)policy->acceptance, (double)policy->block_efficiency,
               (double)policy->hit_rate, (double)policy->plain_rate, (double)policy->draft_rate);
    }
}

static void print_page(const char *endpoint, const or_stats_t *stats)
{
    printf("service    %s\n", endpoint);
    if (stats->verifiers > 0) {
        uint32_t ranks = stats->ranks > 0 ? stats->ranks : 1;
        uint32_t stages = stats->stages > 0 ? stats->stages : 1;
        printf("target     %s, on %" PRIu32 " rank%s x %" PRIu32 " stage%s\n", stats->model, ranks,
               ranks > 1 ? "s" : "", stages, stages > 1 ? "s" : "");
    } else {
        printf("target     %s; not ready: no verifier is connected\n", stats->model);
    }
    printf("sessions   %" PRIu32 " at the verifier, %" PRIu32 " waiting; %" PRIu64
           " requests taken so far\n",
           stats->sessions, stats->waiting, stats->started);
    printf("drafters   %" PRIu32 "\n", stats->drafters);
    if (stats->verifiers > 0) {
        print_verifier(stats);
    }
    printf("turned     %" PRIu64 " requests told to come back, %" PRIu64 " cancelled; %" PRIu64
           " drafters cut off; %" PRIu64 " replays\n",
           stats->busy, stats->cancelled, stats->cut_off, stats->resyncs);
    printf("trouble    %" PRIu32 " requests parked, %" PRIu64 " resumed; %" PRIu64
           " drafters took over from another; %" PRIu64 " refused for a key or a token\n",
           stats->parked, stats->resumed, stats->failovers, stats->refused);
    print_policies(stats);
}

static json_t *policy_object(const or_policy_terms_t *policy)
{
    const char *source = or_guess_source_name(policy->source);
    char session[24]; // as in logs; JSON has no numbers of 64 bits
    snprintf(session, sizeof session, "%" PRIx64, policy->session);
    const struct {
        const char *name;
        float value;
    } figures[] = {{"round_trip_ms", policy->round_trip_ms},
                   {"draft_ms", policy->draft_ms},
                   {"plain_ms", policy->plain_ms},
                   {"verify_ms", policy->verify_ms},
                   {"row_us", policy->row_us},
                   {"queue_ms", policy->queue_ms},
                   {"batch", policy->batch},
                   {"acceptance", policy->acceptance},
                   {"block_efficiency", policy->block_efficiency},
                   {"hit_rate", policy->hit_rate},
                   {"plain_rate", policy->plain_rate},
                   {"draft_rate", policy->draft_rate}};
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "session", session, "owner",
                               policy->owner,                                  //
                               "policy", policy->automatic ? "auto" : "fixed", //
                               "source", source != NULL ? source : "",         //
                               "nodes", (json_int_t)policy->nodes,             //
                               "depth", (json_int_t)policy->depth, "ahead",    //
                               (json_int_t)policy->ahead);
    for (size_t i = 0; object != NULL && i < sizeof figures / sizeof *figures; i++) {
        json_object_set_new(object, figures[i].name, json_real((double)figures[i].value));
    }
    return object;
}

static json_t *policy_array(const or_stats_t *stats)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        json_array_append_new(array, policy_object(&stats->policies[i]));
    }
    return array;
}

static or_status_t print_json(const or_stats_t *stats)
{
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"verifiers", stats->verifiers},
        {"drafters", stats->drafters},
        {"ranks", stats->ranks},
        {"stages", stats->stages},
        {"sessions", stats->sessions},
        {"waiting", stats->waiting},
        {"started", stats->started},
        {"queue", stats->queue},
        {"passes", stats->passes},
        {"batched", stats->batched},
        {"rounds", stats->rounds},
        {"nodes", stats->nodes},
        {"accepted", stats->accepted},
        {"model_us", stats->model_us},
        {"tree_rows", stats->tree_rows},
        {"prefill_rows", stats->prefill_rows},
        {"reused_rows", stats->reused_rows},
        {"evictions", stats->evictions},
        {"pages", stats->pages},
        {"pages_free", stats->pages_free},
        {"pages_shared", stats->pages_shared},
        {"page_positions", stats->page_positions},
        {"page_bytes", stats->page_bytes},
        {"resyncs", stats->resyncs},
        {"busy", stats->busy},
        {"cut_off", stats->cut_off},
        {"cancelled", stats->cancelled},
        {"parked", stats->parked},
        {"resumed", stats->resumed},
        {"failovers", stats->failovers},
        {"refused", stats->refused},
    };
    json_t *line = json_pack("{s:b, s:s, s:f, s:o}", "ready", stats->verifiers > 0, "target",
                             stats->model, "batch_mean", ratio(stats->batched, stats->passes),
                             "policies", policy_array(stats));
    for (size_t i = 0; line != NULL && i < sizeof figures / sizeof *figures; i++) {
        json_object_set_new(line, figures[i].name, json_integer((json_int_t)figures[i].value));
    }
    char *dump = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    puts(dump);
    free(dump);
    return OR_OK;
}

static or_status_t show(const config_t *config, const or_stats_t *stats)
{
    if (config->ready) {
        return OR_OK;
    }
    if (config->json) {
        return print_json(stats);
    }
    print_page(config->connect, stats);
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
    or_message_t message = {0};
    or_status_t status = or_keys_for_connecting(config->connect, &config->keys, &keys);
    if (status ==
        OR_ERR_INVALID) { // nothing is wrong with the question: a probe must not take it for an answer
        status = OR_ERR_UNREACHABLE;
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
        status = ask(link, config->connect, &message);
    }
    if (status == OR_OK) {
        *serves = message.body.stats.verifiers > 0;
        status = show(config, &message.body.stats);
        or_message_fini(&message);
    }
    or_link_destroy(&link);
    or_probe_close(&probe);
    return status;
}

int or_command_status(int argc, char **argv)
{
    config_t config = {.connect = (char *)"tcp://127.0.0.1:5577"};
    or_options_next_t next;
    bool serves = false;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("status", OR_EXIT_USAGE);
    }
    status = look(&config, &serves);
    int code = status == OR_OK            ? (serves ? OR_EXIT_OK : OR_EXIT_FAILURE)
               : status == OR_ERR_INVALID ? OR_EXIT_USAGE
                                          : OR_EXIT_UNREACHABLE;
    if (status != OR_OK && (!config.ready || status == OR_ERR_INVALID)) {
        or_command_fail("status", code);
    }
    or_options_free(&program, &config, NULL);
    return code;
}
