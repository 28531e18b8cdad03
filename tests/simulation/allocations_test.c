// Goal: a role that is short of memory for a moment costs at most the text it worked on. That text is correct, or
// ends with an error that says so. No process aborts, hangs or leaks, and the next text is correct.
// Method: run all roles in one process on a virtual clock, with scripts that reach as much of the code as few tokens
// can. In each role in turn the nth allocation fails, for every n up to the last one (OR_TEST_RUNS of them; few in
// CI). Then the same text is asked for again. AddressSanitizer looks for leaks, and missing pages are counted.
#include "tests/simulation/cluster.h"

#include <string.h>

#include "common/decode/methods.h"
#include "tests/simulation/plain.h"
#include "tests/support/short_memory.h"
#include "tests/support/test_support.h"

#define TOKENS 8
#define LIMIT_S 120
#define PAGES 64
#define PROMPT "There was once a king who"
#define TEXTS 2 // at a time

static sim_model_t target, draft, stranger;

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, PAGES, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, PAGES, &draft);
    sim_model_load(test_model("tales-bpe-1m-f16.gguf"), 1, PAGES, &stranger);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&stranger);
    sim_model_free(&draft);
    sim_model_free(&target);
    return 0;
}

// A text and its surroundings.
typedef struct {
    const char *name;
    or_draft_method_t method;
    or_accept_rule_t rule;
    float temperature;
    uint32_t ahead;
    bool stranger; // the drafter has another vocabulary
    bool rough;    // the network loses frames
    bool told;     // log-probabilities, stop strings, a label
} script_t;

static const or_network_faults_t rough = {
    .lose = 0.1, .repeat = 0.1, .delay_min_ns = OR_NS_PER_MS, .delay_max_ns = 100 * OR_NS_PER_MS};

static or_generate_request_t request_of(const script_t *script)
{
    static const or_wire_bytes_t stops[] = {{(const uint8_t *)"zzz", 3}, {(const uint8_t *)"q", 1}};
    or_generate_request_t request = sim_request(PROMPT, TOKENS);
    request.sampling.temperature = script->temperature;
    request.draft_method = script->method;
    request.accept_rule = script->rule;
    request.draft_ahead = script->ahead;
    if (script->told) {
        request.stop = stops;
        request.stop_count = 2;
        request.logprobs = 3;
    }
    return request;
}

// ---- one run ----

// The role and the number of the allocation that fails.
typedef struct {
    const script_t *script;
    sim_role_t role;
    uint64_t nth; // 0: none
} fault_t;

static void watch(void *context, sim_role_t role, bool begins)
{
    const fault_t *fault = context;
    if (role == fault->role) {
        short_memory_watch(begins);
    }
}

static uint32_t faults_found; // all are reported before the test fails

static void fail_of(const fault_t *fault, const char *what, const char *more)
{
    faults_found++;
    print_error("%s, role %d, allocation %llu: %s: %s\n", fault->script->name, (int)fault->role,
                (unsigned long long)fault->nth, what, more);
}

static void assert_right(const fault_t *fault, const plain_text_t *plain,
                         const sim_result_t *result)
{
    if (result->finish == OR_FINISH_NONE || result->finish == OR_FINISH_ERROR) {
        fail_of(fault, "no text", result->error);
    } else if (result->count != plain->count ||
               memcmp(result->tokens, plain->tokens, plain->count * sizeof *plain->tokens) != 0) {
        fail_of(fault, "the text differs from plain decoding", result->text);
    }
}

static void assert_right_or_told(const fault_t *fault, const plain_text_t *plain,
                                 const sim_result_t *result)
{
    if (result->finish != OR_FINISH_ERROR) {
        assert_right(fault, plain, result);
    } else if (fault->script->rough ? result->error[0] == '\0' // its end, lost, may be forgotten
                                    : strstr(result->error, "memory") == NULL) {
        fail_of(fault, "an error that does not say that memory was short", result->error);
    }
}

static void assert_no_page_is_missing(const fault_t *fault, const sim_model_t *model)
{
    if (or_kv_cache_pages_free(or_model_cache(model->model)) != PAGES) {
        fail_of(fault, "pages", "not all of them came back");
    }
}

static sim_t *cluster_of(fault_t *fault)
{
    const sim_config_t config = {.seed = 1,
                                 .faults = fault->script->rough ? rough : (or_network_faults_t){0},
                                 .target = &target,
                                 .draft = fault->script->stranger ? &stranger : &draft,
                                 .at_work = watch,
                                 .at_work_context = fault,
                                 .clients_may_fail = true};
    return sim_create(&config);
}

// Write two texts under the fault, then the same once more without it. Returns how many allocations
// there were.
static uint64_t run(fault_t *fault, const plain_text_t *plain)
{
    static sim_result_t results[TEXTS], again;
    or_generate_request_t request = request_of(fault->script);
    or_generate_request_t requests[TEXTS] = {request, request};
    sim_t *sim = cluster_of(fault);
    short_memory_arm(fault->nth);
    sim_generate_all(sim, requests, TEXTS, LIMIT_S, results);
    uint64_t counted = short_memory_counted();
    if (fault->nth > 0) {
        short_memory_arm(0);
        sim_generate(sim, &request, LIMIT_S, NULL, NULL, &again);
        assert_right(fault, plain, &again);
    }
    sim_destroy(sim);
    for (uint32_t i = 0; i < TEXTS; i++) {
        assert_right_or_told(fault, plain, &results[i]);
    }
    assert_no_page_is_missing(fault, &target);
    assert_no_page_is_missing(fault, &draft);
    assert_no_page_is_missing(fault, &stranger);
    return counted;
}

// Fail every allocation of a role, or so many of them.
static void run_role(const script_t *script, sim_role_t role, uint64_t *random)
{
    or_generate_request_t request = request_of(script);
    const plain_text_t plain = plain_text_of(&target, &request);
    fault_t fault = {.script = script, .role = role};
    uint64_t last = run(&fault, &plain);
    uint64_t runs = test_runs(4);
    uint64_t stride = last > runs ? last / runs : 1;
    print_message("%s, role %d: %llu allocations\n", script->name, (int)role,
                  (unsigned long long)last);
    assert_true(last > 0);
    for (fault.nth = 1 + test_below(random, stride); fault.nth <= last; fault.nth += stride) {
        run(&fault, &plain);
    }
}

static void run_script(const script_t *script)
{
    static const sim_role_t roles[] = {SIM_COORDINATOR, SIM_VERIFIER, SIM_DRAFTER, SIM_CLIENT};
    uint64_t random = test_seed();
    faults_found = 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        run_role(script, roles[i], &random);
    }
    assert_int_equal(faults_found, 0);
}

static void coupled_texts(void **state)
{
    (void)state;
    const script_t script = {.name = "coupled",
                             .method = OR_DRAFT_COUPLED,
                             .rule = OR_ACCEPT_COUPLED,
                             .temperature = 1,
                             .ahead = 2,
                             .told = true};
    run_script(&script);
}

static void drawn_trees(void **state)
{
    (void)state;
    const script_t script = {
        .name = "drawn", .method = OR_DRAFT_RSD_S, .rule = OR_ACCEPT_RECURSIVE};
    run_script(&script);
}

static void a_drafter_with_another_vocabulary(void **state)
{
    (void)state;
    const script_t script = {.name = "another vocabulary",
                             .method = OR_DRAFT_COUPLED,
                             .rule = OR_ACCEPT_COUPLED,
                             .temperature = 1,
                             .stranger = true};
    run_script(&script);
}

static void frames_that_are_lost_too(void **state)
{
    (void)state;
    const script_t script = {.name = "rough",
                             .method = OR_DRAFT_COUPLED,
                             .rule = OR_ACCEPT_COUPLED,
                             .temperature = 1,
                             .ahead = 1,
                             .rough = true};
    run_script(&script);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coupled_texts),
        cmocka_unit_test(drawn_trees),
        cmocka_unit_test(a_drafter_with_another_vocabulary),
        cmocka_unit_test(frames_that_are_lost_too),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
