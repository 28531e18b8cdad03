// network-table - tokens per second across a network, on the virtual clock, beside what arithmetic allows.
//
//     network-table [short | STEP_MS RTT_MS NODES]
//     network-table WAY STEP_MS RTT_MS NODES TOKENS      what `outrider generate` calls tokens per second, of the first text;
//                                                        for tests/service/test_network.py, which does it in real time
//
//     client, drafter ──── RTT ────▶ coordinator ── 0.1 ms ── verifier     a pass: drafter 1 ms (a fortieth of
//                                                                          the target's), target 40 or 200 ms
//
// The demonstration pair writes the same texts in every cell and in every way, and each is compared with plain
// decoding token by token. Exit code 1 and a list where one differs, or where a rate is not what it should be
// (check_cell). Ceilings: docs/algorithms.md section 6. E is tokens a round, h the rounds whose guesses were here in time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/cluster.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define DRAFT_STEP_MS 1.0
#define TEXTS 4
#define TOKENS_MAX 128
#define LIMIT_S 3600

typedef enum { PLAIN, SYNCHRONOUS, AHEAD, TWO_ROUNDS, FOUR_ROUNDS, AUTO, WAYS } way_t;

static const char *const way_names[WAYS] = {
    "plain", "synchronous", "drafting ahead", "2 rounds in flight", "4 rounds in flight", "auto"};

typedef struct {
    uint32_t step_ms, rtt_ms, nodes;
} cell_t;

typedef struct {
    double rate;           // tokens per second after the first delta
    double tokens_a_round; // E
    double passes_a_round; // of the draft model
    double hits;           // h
    double left_out;       // rounds without the drafter's guesses although they were asked for
    uint32_t wrong;        // texts
} figures_t;

typedef struct {
    or_generate_request_t request;
    plain_text_t expected;
} text_t;

static sim_model_t target, draft;
static text_t texts[TEXTS];
static uint32_t text_count;
static char **words; // of the command line
static int word_count;
static uint32_t failures;

#define COMPLAIN(cell, ...)                                                                        \
    (failures++,                                                                                   \
     printf("NOT MET: %u ms a step, RTT %u ms, %u nodes: ", (cell)->step_ms, (cell)->rtt_ms,       \
            (cell)->nodes),                                                                        \
     printf(__VA_ARGS__), putchar('\n'))

// ---- texts ----

static void prepare_texts(uint32_t count, uint32_t tokens)
{
    assert_in_range(tokens, 1, TOKENS_MAX);
    text_count = count;
    for (uint32_t i = 0; i < text_count; i++) {
        or_generate_request_t *request = &texts[i].request;
        *request = sim_request(sim_prompt(i), tokens);
        request->sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
        request->seed = i;
        request->ignore_end = true;
        texts[i].expected = plain_text_of(&target, request);
        assert_int_equal(texts[i].expected.count, tokens);
    }
}

// ---- measuring ----

static or_generate_request_t request_for(const text_t *text, const cell_t *cell, way_t way)
{
    static const uint32_t ahead[WAYS] = {
        [AHEAD] = 1, [TWO_ROUNDS] = 2, [FOUR_ROUNDS] = 4, [AUTO] = 4};
    or_generate_request_t request = text->request;
    request.plain = way == PLAIN;
    request.draft_nodes = cell->nodes;
    request.draft_ahead = ahead[way];
    request.draft_policy = way == AUTO ? OR_POLICY_AUTO : OR_POLICY_FIXED;
    return request;
}

static void write_text(const cell_t *cell, way_t way, const text_t *text, sim_result_t *result)
{
    const or_network_line_t edge = sim_line(cell->rtt_ms), site = sim_line(SIM_SITE_MS);
    const sim_config_t config = {
        .seed = 1,
        .lines = {[SIM_CLIENT] = &edge, [SIM_DRAFTER] = &edge, [SIM_VERIFIER] = &site},
        .target = &target,
        .draft = &draft,
        .target_step_us = cell->step_ms * 1000,
        .draft_step_us = (uint32_t)(DRAFT_STEP_MS * 1000)};
    or_generate_request_t request = request_for(text, cell, way);
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, NULL, NULL, result);
    sim_destroy(sim);
}

static bool is_right(const text_t *text, const sim_result_t *result)
{
    uint32_t tokens = text->request.max_tokens;
    return result->count == tokens && memcmp(result->tokens, text->expected.tokens,
                                             tokens * sizeof *text->expected.tokens) == 0;
}

static figures_t measure(const cell_t *cell, way_t way)
{
    static sim_result_t result;
    figures_t figures = {0};
    double tokens = 0, seconds = 0, calls = 0, written = 0, passes = 0, ahead = 0, hits = 0,
           plain = 0;
    for (uint32_t i = 0; i < text_count; i++) {
        write_text(cell, way, &texts[i], &result);
        figures.wrong += !is_right(&texts[i], &result);
        tokens += result.count - result.first_count;
        seconds += (double)(result.last_ns - result.first_ns) / (double)OR_NS_PER_S;
        written += result.count;
        calls += (double)result.stats.target_calls;
        passes += (double)result.stats.draft_passes;
        ahead += (double)result.stats.ahead_rounds;
        hits += (double)result.stats.ahead_hits;
        plain += (double)result.stats.plain_rounds;
    }
    figures.rate = tokens / seconds;
    figures.tokens_a_round = written / calls;
    figures.passes_a_round = passes / calls;
    figures.hits = ahead > 0 ? hits / ahead : 0;
    figures.left_out = plain / calls;
    return figures;
}

// ---- ceilings, in tokens per second ----

static double verify_ms(const cell_t *cell)
{
    return cell->step_ms + SIM_SITE_MS;
}

static double plain_ceiling(const cell_t *cell)
{
    return 1000 / verify_ms(cell);
}

static double synchronous_ceiling(const cell_t *cell, const figures_t *synchronous)
{
    double building_ms = synchronous->passes_a_round * DRAFT_STEP_MS;
    return 1000 * synchronous->tokens_a_round / (building_ms + cell->rtt_ms + verify_ms(cell));
}

// The trees are the same, so E is the same; take the larger one.
static double ahead_ceiling(const cell_t *cell, const figures_t *figures)
{
    double tokens = fmax(figures[SYNCHRONOUS].tokens_a_round, figures[AHEAD].tokens_a_round);
    return 1000 * tokens / (cell->rtt_ms + verify_ms(cell));
}

// Rounds that find their guesses follow one another at the target's pace. Every 1/(1-h)th round waits
// for a round trip and a new tree.
static double several_ceiling(const cell_t *cell, const figures_t *several,
                              const figures_t *synchronous)
{
    double building_ms = synchronous->passes_a_round * DRAFT_STEP_MS;
    double round_ms = verify_ms(cell) > building_ms ? verify_ms(cell) : building_ms;
    double wait_ms = (1 - several->hits) * (cell->rtt_ms + building_ms);
    return 1000 * several->tokens_a_round / (round_ms + wait_ms);
}

// ---- the table ----

// A drafter that costs more time than it saves is dismissed for a while (coordinator/budget/usefulness.h). Such a
// row has a star, and its ceiling means nothing.
static bool is_left_out(const figures_t *figures)
{
    return figures->left_out > 0.02;
}

static void check_cell(const cell_t *cell, const figures_t *figures)
{
    const figures_t *synchronous = &figures[SYNCHRONOUS];
    double best = 0;
    for (int way = PLAIN; way < WAYS; way++) {
        if (figures[way].wrong > 0) {
            COMPLAIN(cell, "%s: %u texts are not plain decoding's", way_names[way],
                     figures[way].wrong);
        }
        best = way != AUTO && figures[way].rate > best ? figures[way].rate : best;
    }
    double plain_share = figures[PLAIN].rate / plain_ceiling(cell);
    double synchronous_share = synchronous->rate / synchronous_ceiling(cell, synchronous);
    if (plain_share < 0.99 || plain_share > 1.01) {
        COMPLAIN(cell, "plain decoding is %.3f of its ceiling", plain_share);
    }
    if (!is_left_out(synchronous) && (synchronous_share < 0.98 || synchronous_share > 1.02)) {
        COMPLAIN(cell, "synchronous drafting is %.3f of its ceiling", synchronous_share);
    }
    if (figures[AUTO].rate < 0.97 * best) {
        COMPLAIN(cell, "auto is %.3f of the best fixed way", figures[AUTO].rate / best);
    }
    if (figures[AUTO].rate < 0.97 * figures[PLAIN].rate) {
        COMPLAIN(cell, "auto is %.3f of plain decoding", figures[AUTO].rate / figures[PLAIN].rate);
    }
    double ahead_share = figures[AHEAD].rate / ahead_ceiling(cell, figures);
    if (ahead_share < 0.85) {
        COMPLAIN(cell, "drafting ahead is %.3f of E/(R + tv)", ahead_share);
    }
    for (int way = TWO_ROUNDS; way <= FOUR_ROUNDS; way++) {
        bool promised =
            several_ceiling(cell, &figures[way], synchronous) > ahead_ceiling(cell, figures);
        if (promised && figures[way].rate <= figures[AHEAD].rate) {
            COMPLAIN(cell, "%s should beat one (h %.2f) and is %.3f of it", way_names[way],
                     figures[way].hits, figures[way].rate / figures[AHEAD].rate);
        }
    }
}

static void print_head(void)
{
    puts("Tokens per second; in brackets the ceiling, with several rounds in flight what h makes "
         "of it.\n*: the drafter cost more time than it saved, and was dismissed for a while.\n");
    puts("| step ms | RTT ms | nodes | plain | synchronous | E | drafting ahead | E | h | 2 in "
         "flight "
         "| h | 4 in flight | h | auto |");
    puts("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
}

static const char *star(const figures_t *figures)
{
    return is_left_out(figures) ? "*" : "";
}

static void print_cell(const cell_t *cell, const figures_t *figures)
{
    const figures_t *synchronous = &figures[SYNCHRONOUS];
    const figures_t *ahead = &figures[AHEAD];
    printf("| %u | %u | %u | %.2f (%.2f) | %.2f%s (%.2f) | %.2f | %.2f%s (%.2f) | %.2f | %.2f ",
           cell->step_ms, cell->rtt_ms, cell->nodes, figures[PLAIN].rate, plain_ceiling(cell),
           synchronous->rate, star(synchronous), synchronous_ceiling(cell, synchronous),
           synchronous->tokens_a_round, ahead->rate, star(ahead), ahead_ceiling(cell, figures),
           ahead->tokens_a_round, ahead->hits);
    for (int way = TWO_ROUNDS; way <= FOUR_ROUNDS; way++) {
        printf("| %.2f%s (%.2f) | %.2f ", figures[way].rate, star(&figures[way]),
               several_ceiling(cell, &figures[way], synchronous), figures[way].hits);
    }
    printf("| %.2f |\n", figures[AUTO].rate);
    fflush(stdout);
}

// Plain decoding asks for no nodes, so its result for the first number of them holds for the
// others.
static void run_cell(const cell_t *cell, figures_t *plain)
{
    figures_t figures[WAYS];
    if (plain->rate == 0) {
        *plain = measure(cell, PLAIN);
    }
    figures[PLAIN] = *plain;
    for (int way = SYNCHRONOUS; way < WAYS; way++) {
        figures[way] = measure(cell, (way_t)way);
    }
    print_cell(cell, figures);
    check_cell(cell, figures);
}

static void run_table(void)
{
    static const uint32_t steps_ms[] = {40, 200}, rtts_ms[] = {0, 15, 50, 100, 200},
                          nodes[] = {16, 64};
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t r = 0; r < 5; r++) {
            figures_t plain = {0};
            for (uint32_t n = 0; n < 2; n++) {
                const cell_t cell = {steps_ms[s], rtts_ms[r], nodes[n]};
                run_cell(&cell, &plain);
            }
        }
    }
}

// Run the corners of the table, which differ most.
static void run_short(void)
{
    static const cell_t cells[] = {{40, 0, 16}, {40, 50, 16}, {40, 200, 64}, {200, 100, 16}};
    for (uint32_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        figures_t plain = {0};
        run_cell(&cells[i], &plain);
    }
}

static way_t way_of(const char *name)
{
    for (int way = PLAIN; way < WAYS; way++) {
        if (strcmp(way_names[way], name) == 0) {
            return (way_t)way;
        }
    }
    fail_msg("no such way: %s", name);
    return WAYS;
}

static void print_rate(const cell_t *cell, way_t way)
{
    static sim_result_t result;
    write_text(cell, way, &texts[0], &result);
    if (!is_right(&texts[0], &result)) {
        COMPLAIN(cell, "the text is not plain decoding's");
    }
    printf("%.3f\n", result.count * 1e6 / (double)result.stats.elapsed_us);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static cell_t cell_at(int word)
{
    return (cell_t){number(words[word]), number(words[word + 1]), number(words[word + 2])};
}

static void run_all(void **state)
{
    (void)state;
    bool few = word_count == 2;
    figures_t plain = {0};
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    if (word_count == 6) {
        const cell_t cell = cell_at(2);
        prepare_texts(1, number(words[5]));
        print_rate(&cell, way_of(words[1]));
    } else if (word_count == 4) {
        const cell_t cell = cell_at(1);
        prepare_texts(TEXTS, TOKENS_MAX);
        print_head();
        run_cell(&cell, &plain);
    } else {
        prepare_texts(few ? TEXTS / 2 : TEXTS, TOKENS_MAX);
        print_head();
        few ? run_short() : run_table();
    }
    sim_model_free(&draft);
    sim_model_free(&target);
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    bool few = argc == 2 && strcmp(argv[1], "short") == 0;
    if (argc != 1 && argc != 4 && argc != 6 && !few) {
        fprintf(stderr, "usage: network-table [short | [WAY] STEP_MS RTT_MS NODES [TOKENS]]\n");
        return 2;
    }
    words = argv;
    word_count = argc;
    test_log_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(run_all)}; // so that what fails says why
    return cmocka_run_group_tests(tests, NULL, NULL);
}
