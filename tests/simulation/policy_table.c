// policy-table - the policy `auto` beside plain decoding and fixed settings, with everything at its default, on the virtual clock.
//
//     policy-table            all cells
//     policy-table PARTS      every PARTS-th of them
//     policy-table 1 CELL     that one, with the speed of each setting
//
//     texts at a time   1, 4, 16, 64
//     RTT               0, 15, 50, 100, 200 ms, of client and drafter to the coordinator
//     drafter           good; bad: its guesses make no sense; stalled: it falls silent after a second
//     texts             repetitive: the likeliest tokens, which soon repeat themselves; hostile: improbable ones
//
// A pass takes 40 ms, and while there are several texts has room for 128 rows, so that there guesses are at other texts' cost.
// Texts follow one another, as in `outrider bench load`; the first three seconds do not count.
// Exit code 1 and a list where auto is slower than it may be, or a text is not the one that plain decoding writes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/decode/methods.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/plain.h"
#include "tests/support/requantize.h"
#include "tests/support/test_support.h"

#define STEP_MS 40
#define DRAFT_STEP_MS 4
#define CROWD_ROWS 128u
#define PASSES_MAX 2u // of a round: settings whose trees take more are not tried
#define WARM_S 3.0
#define SECONDS 7.0
#define SECONDS_MANY 12.0            // of 64 texts: a window, and a try, take four passes of all
#define STALLED_NS (2 * OR_NS_PER_S) // the clock begins at one second
#define PAGES 1024u
#define NODES 64u  // of auto, at most
#define TOKENS 120 // of a text
#define CLIENTS 64u
#define TEXTS_MAX 16u // of one client, that are compared
#define DECODED 4u    // clients whose first texts are compared with those of the target alone
#define HOSTILE 1.4f  // temperature

#define PLAIN_KEPT 0.97
#define FIXED_KEPT 0.95

typedef enum { GOOD, BAD, STALLED, DRAFTERS } drafter_t;

static const char *const drafter_names[DRAFTERS] = {"good", "bad", "stalled"};
static const uint32_t text_counts[] = {1, 4, 16, 64}, rtts_ms[] = {0, 15, 50, 100, 200};
#define COUNTS 4u
#define RTTS 5u
#define CELLS (COUNTS * RTTS * DRAFTERS * 2u)

typedef struct {
    uint32_t texts, rtt_ms;
    drafter_t drafter;
    bool hostile;
} cell_t;

typedef struct {
    const char *name;
    bool plain, automatic, looks_up;
    uint32_t nodes, ahead;
} setting_t;

static const setting_t plain_setting = {.name = "plain", .plain = true};
static const setting_t automatic = {.name = "auto", .automatic = true, .nodes = NODES, .ahead = 4};
static const setting_t fixed[] = {
    {.name = "1 node", .nodes = 1},
    {.name = "4 nodes", .nodes = 4},
    {.name = "4 nodes, 4 ahead", .nodes = 4, .ahead = 4},
    {.name = "16 nodes", .nodes = 16},
    {.name = "16 nodes, 1 ahead", .nodes = 16, .ahead = 1},
    {.name = "16 nodes, 4 ahead", .nodes = 16, .ahead = 4},
    {.name = "64 nodes", .nodes = 64},
    {.name = "64 nodes, 4 ahead", .nodes = 64, .ahead = 4},
    {.name = "look-up", .nodes = 16, .looks_up = true},
};
#define FIXED (sizeof fixed / sizeof *fixed)

static sim_model_t target, good, bad;
static uint32_t failures, parts = 1, only = UINT32_MAX;

// ---- models ----

// Negate every second weight of the file's last norm. Who has opened it sees that.
static void spoil(const char *path, const or_gguf_t *gguf)
{
    static char bytes[4u << 20];
    const or_gguf_tensor_t *norm = or_gguf_find_tensor(gguf, "output_norm.weight");
    assert_int_equal(norm->type, OR_TENSOR_F32);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t count = fread(bytes, 1, sizeof bytes, file);
    char *at = memmem(bytes, count, norm->data, norm->bytes);
    assert_non_null(at);
    for (uint64_t i = sizeof(float) - 1; i < norm->bytes; i += 2 * sizeof(float)) {
        at[i] = (char)(at[i] ^ 0x80);
    }
    assert_int_equal(fseek(file, at - bytes, SEEK_SET), 0);
    assert_int_equal(fwrite(at, 1, norm->bytes, file), norm->bytes);
    fclose(file);
}

// The same weights but for that: its guesses are of no language.
static void load_bad(const char *path)
{
    or_gguf_t *gguf = NULL;
    char *copy = test_requantize(path, OR_TENSOR_F16);
    assert_int_equal(or_gguf_open(copy, &gguf), OR_OK);
    spoil(copy, gguf);
    or_gguf_close(&gguf);
    sim_model_load(copy, 1, PAGES, &bad);
    free(copy);
}

// ---- texts ----

// What plain decoding wrote, by client and text: a number made of its tokens; 0: not known.
static uint64_t expected[CLIENTS][TEXTS_MAX];

typedef struct {
    bool plain;
    uint32_t ended[CLIENTS]; // texts
    uint32_t wrong;
} texts_t;

static uint64_t number_of(const int32_t *tokens, uint32_t count)
{
    uint64_t number = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (uint32_t i = 0; i < count; i++) {
        number = (number ^ (uint32_t)tokens[i]) * UINT64_C(0x100000001b3);
    }
    return number | 1;
}

static void end_text(void *context, uint32_t client, const sim_result_t *result,
                     or_generate_request_t *next)
{
    texts_t *texts = context;
    uint32_t at = texts->ended[client]++;
    assert_string_equal(result->error, "");
    assert_int_equal(result->count, TOKENS);
    next->seed += CLIENTS;
    if (at >= TEXTS_MAX) {
        return;
    }
    uint64_t *known = &expected[client][at], number = number_of(result->tokens, result->count);
    texts->wrong += *known != 0 && *known != number;
    *known = texts->plain && *known == 0 ? number : *known;
}

static or_generate_request_t request_of(const cell_t *cell, const setting_t *setting,
                                        uint32_t client)
{
    or_generate_request_t request = sim_request(sim_prompt(client), TOKENS);
    request.sampling.temperature = cell->hostile ? HOSTILE : 0;
    request.seed = client;
    request.ignore_end = true;
    request.plain = setting->plain;
    request.draft_policy = setting->automatic ? OR_POLICY_AUTO : OR_POLICY_FIXED;
    request.draft_nodes = setting->plain ? request.draft_nodes : setting->nodes;
    request.draft_ahead = setting->ahead;
    request.draft_method = setting->looks_up ? OR_DRAFT_NGRAM : request.draft_method;
    return request;
}

// Forget the last cell's texts. Of the first that clients write the target alone says what they are: what the cluster writes
// plainly may share a fault with all else that it writes.
static void expect_texts(const cell_t *cell)
{
    memset(expected, 0, sizeof expected);
    for (uint32_t i = 0; i < cell->texts && i < DECODED; i++) {
        or_generate_request_t request = request_of(cell, &plain_setting, i);
        plain_text_t text = plain_text_of(&target, &request);
        expected[i][0] = text.count == TOKENS ? number_of(text.tokens, TOKENS) : 0;
    }
}

// ---- measuring ----

// A drafter that is connected and says nothing any more.
static void silence(sim_t *sim, void *context)
{
    const cell_t *cell = context;
    if (cell->drafter == STALLED && sim_now_ns(sim) >= STALLED_NS) {
        sim_stall(sim, SIM_DRAFTER, OR_TIME_NEVER);
    }
}

static double measure(const cell_t *cell, const setting_t *setting)
{
    static sim_result_t results[CLIENTS];
    const or_network_line_t edge = sim_line(cell->rtt_ms), site = sim_line(SIM_SITE_MS);
    const sim_config_t config = {
        .seed = 1,
        .lines = {[SIM_CLIENT] = &edge, [SIM_DRAFTER] = &edge, [SIM_VERIFIER] = &site},
        .target = &target,
        .draft = cell->drafter == BAD ? &bad : &good,
        .target_step_us = STEP_MS * 1000,
        .draft_step_us = DRAFT_STEP_MS * 1000,
        .sessions_max = CLIENTS,
        .crowd_rows = CROWD_ROWS,
        .stats_ms = 1000,
        .guest = silence,
        .guest_context = (void *)cell};
    or_generate_request_t requests[CLIENTS];
    texts_t texts = {.plain = setting->plain};
    const sim_load_t load = {.warm_s = WARM_S,
                             .seconds = cell->texts < CLIENTS ? SECONDS : SECONDS_MANY,
                             .ended = end_text,
                             .context = &texts};
    for (uint32_t i = 0; i < cell->texts; i++) {
        requests[i] = request_of(cell, setting, i);
    }
    sim_t *sim = sim_create(&config);
    double rate = sim_load(sim, requests, cell->texts, &load, results);
    sim_destroy(sim);
    if (texts.wrong > 0) {
        failures++;
        printf("NOT MET: %s: %u texts are not plain decoding's\n", setting->name, texts.wrong);
    }
    return rate;
}

// ---- the table ----

// Of several texts trees that take several passes bring nothing. Nor do those of a bad drafter to any, so one setting stands for
// all; a silent one has none.
static bool is_sensible(const cell_t *cell, const setting_t *setting)
{
    bool room = cell->texts == 1 || (setting->nodes + 1) * cell->texts <= PASSES_MAX * CROWD_ROWS;
    bool one = setting->nodes == 4 && setting->ahead == 0;
    return room && (setting->looks_up || cell->drafter == GOOD || (cell->drafter == BAD && one));
}

static cell_t cell_at(uint32_t at)
{
    return (cell_t){.hostile = at % 2 == 1,
                    .drafter = (drafter_t)(at / 2 % DRAFTERS),
                    .rtt_ms = rtts_ms[at / (2 * DRAFTERS) % RTTS],
                    .texts = text_counts[at / (2 * DRAFTERS * RTTS)]};
}

static void run_cell(uint32_t at)
{
    const cell_t cell = cell_at(at);
    expect_texts(&cell);
    double plain = measure(&cell, &plain_setting);
    double own = measure(&cell, &automatic);
    double best = plain;
    const char *name = plain_setting.name;
    for (size_t i = 0; i < FIXED; i++) {
        double rate = is_sensible(&cell, &fixed[i]) ? measure(&cell, &fixed[i]) : 0;
        if (only != UINT32_MAX && rate > 0) {
            printf("%s: %.1f\n", fixed[i].name, rate);
        }
        name = rate > best ? fixed[i].name : name;
        best = fmax(best, rate);
    }
    bool met = own >= PLAIN_KEPT * plain && own >= FIXED_KEPT * best;
    failures += !met;
    printf("| %u | %u | %u | %s | %s | %.1f | %.1f | %.1f (%s) | %.2f | %.2f | %s |\n", at,
           cell.texts, cell.rtt_ms, drafter_names[cell.drafter],
           cell.hostile ? "hostile" : "repetitive", plain, own, best, name, own / plain, own / best,
           met ? "met" : "NOT MET");
    fflush(stdout);
}

static void run_all(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, PAGES, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, PAGES, &good);
    load_bad(test_model("tales-1m-f16.gguf"));
    puts("| cell | texts | RTT ms | drafter | texts | plain | auto | best | / plain | / best | |\n"
         "|--:|--:|--:|---|---|--:|--:|---|--:|--:|---|");
    for (uint32_t at = only != UINT32_MAX ? only : 0; at < CELLS; at += parts) {
        run_cell(at);
        if (at == only) {
            break;
        }
    }
    sim_model_free(&bad);
    sim_model_free(&good);
    sim_model_free(&target);
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    parts = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    only = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : UINT32_MAX;
    if (argc > 3 || parts == 0) {
        fprintf(stderr, "usage: policy-table [PARTS [CELL]]\n");
        return 2;
    }
    test_log_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(run_all)}; // so that what fails says why
    return cmocka_run_group_tests(tests, NULL, NULL);
}
