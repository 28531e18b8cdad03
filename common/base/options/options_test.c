// Goal: an option reaches the struct from wherever it was given, the strongest place wins, and what
// makes no sense is refused with a sentence that names the option, its origin and what is allowed.
// Method: one table with every type; command lines, variables and config files against it.
#include "common/base/options/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_support.h"

typedef struct {
    bool plain;
    int32_t predict;
    uint32_t nodes;
    uint64_t big, size;
    float temp;
    char *model, *draft;
    or_option_list_t stop;
} config_t;

static const or_option_t table[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Models"},
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE", "target model"},
    {"model-draft", "md", OR_OPTION_STRING, offsetof(config_t, draft), "FILE", "draft model"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Text"},
    {"predict", "n", OR_OPTION_INT32, offsetof(config_t, predict), "N", "tokens; -1 for all"},
    {"draft-nodes", NULL, OR_OPTION_UINT32, offsetof(config_t, nodes), "N", "nodes of a tree"},
    {"big", NULL, OR_OPTION_UINT64, offsetof(config_t, big), "N", "a large number"},
    {"size", NULL, OR_OPTION_SIZE, offsetof(config_t, size), "SIZE", "bytes"},
    {"temp", NULL, OR_OPTION_FLOAT, offsetof(config_t, temp), "T", "temperature"},
    {"plain", NULL, OR_OPTION_FLAG, offsetof(config_t, plain), NULL, "no drafter"},
    {"stop", "r", OR_OPTION_LIST, offsetof(config_t, stop), "TEXT", "a text that ends it"},
    {0}};

static const char *const either[] = {"model", "model-draft", NULL};

static const or_option_program_t program = {
    .program = "outrider test", .summary = "a test", .usage = "[options]", .table = table};
static const or_option_program_t program_either = {.program = "outrider test",
                                                   .summary = "a test",
                                                   .usage = "[options]",
                                                   .table = table,
                                                   .either = either};
static const or_option_program_t program_unbound = {
    .program = "outrider test", .summary = "a test", .table = table, .no_variable = "model"};

typedef struct {
    config_t config;
    or_option_list_t rest;
    or_options_next_t next;
    or_status_t status;
} outcome_t;

// Parse the words up to NULL; free with `drop`.
static outcome_t parse_words(bool with_rest, const char *const *words)
{
    char *argv[16] = {(char *)"test"};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)words[argc - 1];
    }
    outcome_t outcome = {.config = {.temp = 0.8F, .predict = 128, .model = (char *)"default.gguf"},
                         .next = OR_OPTIONS_EXIT};
    outcome.status = or_options_parse(&program, argc, argv, &outcome.config,
                                      with_rest ? &outcome.rest : NULL, &outcome.next);
    return outcome;
}
#define PARSE(...) parse_words(false, (const char *const[]){__VA_ARGS__, NULL})
#define PARSE_WITH_REST(...) parse_words(true, (const char *const[]){__VA_ARGS__, NULL})

static void drop(outcome_t *outcome)
{
    or_options_free(&program, &outcome->config, &outcome->rest);
    assert_null(outcome->config.model);
    assert_null(outcome->config.stop.items);
}

static void every_type_and_spelling_arrives(void **state)
{
    (void)state;
    outcome_t o =
        PARSE("-m", "a.gguf", "-md", "b.gguf", "--predict=-1", "--draft-nodes", "64", "--big",
              "18446744073709551615", "--temp", "0.5", "--plain", "-r", "x", "--stop=y=z");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.next, OR_OPTIONS_RUN);
    assert_string_equal(o.config.model, "a.gguf");
    assert_string_equal(o.config.draft, "b.gguf");
    assert_int_equal(o.config.predict, -1);
    assert_int_equal(o.config.nodes, 64);
    assert_true(o.config.big == UINT64_MAX);
    assert_true(o.config.temp == 0.5F);
    assert_true(o.config.plain);
    assert_int_equal(o.config.stop.count, 2);
    assert_string_equal(o.config.stop.items[0], "x");
    assert_string_equal(o.config.stop.items[1], "y=z");
    drop(&o);
}

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"3K", 3072},
                 {"512M", UINT64_C(512) << 20},
                 {"2g", UINT64_C(2) << 30},
                 {"16777215T", UINT64_C(16777215) << 40},
                 {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome_t o = PARSE("--size", cases[i].text);
        assert_int_equal(o.status, OR_OK);
        assert_true(o.config.size == cases[i].bytes);
        drop(&o);
    }
}

static void defaults_stay_and_are_copied(void **state)
{
    (void)state;
    outcome_t o = PARSE("--temp", "1");
    assert_int_equal(o.status, OR_OK);
    assert_string_equal(o.config.model, "default.gguf");
    assert_int_equal(o.config.predict, 128);
    assert_null(o.config.draft);
    drop(&o); // would free a literal if it had not been copied
}

static void a_value_may_begin_with_a_dash(void **state)
{
    (void)state;
    outcome_t o = PARSE("-n", "-1", "-m", "-", "--stop", "--plain");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.config.predict, -1);
    assert_string_equal(o.config.model, "-");
    assert_string_equal(o.config.stop.items[0], "--plain");
    assert_false(o.config.plain);
    drop(&o);
}

static void other_words_go_to_rest(void **state)
{
    (void)state;
    outcome_t o = PARSE_WITH_REST("inspect", "--temp", "2", "-", "--", "--plain", "-n");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.rest.count, 4);
    assert_string_equal(o.rest.items[0], "inspect");
    assert_string_equal(o.rest.items[1], "-");
    assert_string_equal(o.rest.items[2], "--plain");
    assert_string_equal(o.rest.items[3], "-n");
    assert_false(o.config.plain);
    drop(&o);
}

static void flags_can_be_turned_off(void **state)
{
    (void)state;
    outcome_t o = PARSE("--plain", "--no-plain");
    assert_int_equal(o.status, OR_OK);
    assert_false(o.config.plain);
    drop(&o);
    o = PARSE("--plain=yes");
    assert_true(o.config.plain);
    drop(&o);
}

static void nonsense_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *sentence;
    } cases[] = {
        {{"--temp"}, "--temp needs a value: T"},
        {{"--temp", "warm"}, "--temp: 'warm' is not a finite number"},
        {{"--temp", "nan"}, "--temp: 'nan' is not a finite number"},
        {{"--temp", "1e99"}, "--temp: '1e99' is not a finite number"},
        {{"-n", "12x"}, "-n/--predict: '12x' is not a whole number"},
        {{"-n", " 1"}, "-n/--predict: ' 1' is not a whole number"},
        {{"-n", ""}, "-n/--predict: '' is not a whole number"},
        {{"-n", "2147483648"},
         "-n/--predict: 2147483648 is not between -2147483648 and 2147483647"},
        {{"--draft-nodes", "-1"}, "--draft-nodes: '-1' is not a whole number of 0 or more"},
        {{"--draft-nodes", "4294967296"}, "--draft-nodes: 4294967296 is over 4294967295"},
        {{"--big", "18446744073709551616"},
         "--big: 18446744073709551616 is over 18446744073709551615"},
        {{"--size", "2GB"},
         "--size: '2GB' is not a size: a whole number of bytes, or one with K, M, G or T, as 512M"},
        {{"--size", "M"},
         "--size: 'M' is not a size: a whole number of bytes, or one with K, M, G or T, as 512M"},
        {{"--size", "-1K"},
         "--size: '-1K' is not a size: a whole number of bytes, or one with K, M, G or T, as 512M"},
        {{"--size", "16777216T"}, "--size: 16777216T is more than 64 bits hold"},
        {{"-m", ""}, "-m/--model: the name of a file is empty"},
        {{"--plain=maybe"}, "--plain: 'maybe' is not true or false"},
        {{"--tmp", "1"}, "unknown option '--tmp'; the nearest is --temp (--help lists all)"},
        {{"--draft-node=3"},
         "unknown option '--draft-node=3'; the nearest is --draft-nodes (--help lists all)"},
        {{"-temp", "1"}, "unknown option '-temp'; the nearest is --temp (--help lists all)"},
        {{"--md", "x"}, "unknown option '--md'; the nearest is -md (--help lists all)"},
        {{"--no-temp"}, "unknown option '--no-temp' (--help lists all)"},
        {{"--frobnicate"}, "unknown option '--frobnicate' (--help lists all)"},
        {{"word"},
         "'word' is not an option, and there are no other words: outrider test [options] (--help)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome_t o = parse_words(false, cases[i].words);
        assert_int_equal(o.status, OR_ERR_INVALID);
        assert_string_equal(or_error_text(), cases[i].sentence);
        assert_int_equal(o.next, OR_OPTIONS_EXIT); // untouched
        drop(&o);
    }
}

// A config file in a temporary place; the caller unlinks it.
static const char *write_config(const char *text)
{
    static char path[] = "/tmp/options_test_XXXXXX";
    strcpy(path + sizeof path - 7, "XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static void the_strongest_place_wins(void **state)
{
    (void)state;
    const char *path = write_config("{\"temp\": 0.25, \"predict\": 3, \"plain\": true, \"big\": 7,"
                                    " \"model\": \"file.gguf\", \"stop\": [\"a\", \"b\"]}");
    setenv("OUTRIDER_PREDICT", "4", 1);
    setenv("OUTRIDER_MODEL", "variable.gguf", 1);
    setenv("OUTRIDER_DRAFT_NODES", "9", 1);
    setenv("OUTRIDER_BIG", "", 1);
    outcome_t o = PARSE("-m", "line.gguf", "--config", path, "--stop", "c");
    assert_int_equal(o.status, OR_OK);
    assert_string_equal(o.config.model, "line.gguf");
    assert_int_equal(o.config.predict, 4);
    assert_int_equal(o.config.nodes, 9);
    assert_true(o.config.big == 7);
    assert_true(o.config.temp == 0.25F);
    assert_true(o.config.plain);
    assert_int_equal(o.config.stop.count, 1);
    assert_string_equal(o.config.stop.items[0], "c");
    drop(&o);
    setenv("OUTRIDER_DRAFT_NODES", "many", 1);
    o = PARSE("--temp", "1");
    assert_int_equal(o.status, OR_ERR_INVALID);
    assert_string_equal(or_error_text(),
                        "OUTRIDER_DRAFT_NODES: 'many' is not a whole number of 0 or more");
    drop(&o);
    unsetenv("OUTRIDER_PREDICT");
    unsetenv("OUTRIDER_MODEL");
    unsetenv("OUTRIDER_DRAFT_NODES");
    unsetenv("OUTRIDER_BIG");
    unlink(path);
}

static void a_bad_config_file_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"{\"temp\": ", "line 1: "},
        {"[1]", "not a JSON object"},
        {"{\"tempo\": 1}", "unknown key 'tempo'; the nearest is 'temp'"},
        {"{\"n\": 1}", "unknown key 'n'; the nearest is 'predict'"},
        {"{\"frobnicate\": 1}", "unknown key 'frobnicate' (--help"},
        {"{\"temp\": [1]}", "'temp' in /tmp/options_test_"},
        {"{\"predict\": 1.5}", "'1.5' is not a whole number"},
        {"{\"stop\": [null]}", "a string, a number or true/false is needed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_config(cases[i].text);
        outcome_t o = PARSE("--config", path);
        assert_int_equal(o.status, OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), cases[i].sentence));
        drop(&o);
        unlink(path);
    }
    outcome_t o = PARSE("--config", "/nowhere/at/all.json");
    assert_int_equal(o.status, OR_ERR_INVALID);
    assert_null(strstr(or_error_text(), "line"));
    drop(&o);
}

static void of_either_the_strongest_place_wins(void **state)
{
    (void)state;
    char *line[] = {(char *)"test", (char *)"-m", (char *)"line.gguf"};
    char *both[] = {(char *)"test", (char *)"-m", (char *)"a", (char *)"-md", (char *)"b"};
    config_t config = {0};
    or_options_next_t next;
    setenv("OUTRIDER_MODEL_DRAFT", "variable.gguf", 1);
    assert_int_equal(or_options_parse(&program_either, 3, line, &config, NULL, &next), OR_OK);
    assert_string_equal(config.model, "line.gguf");
    assert_null(config.draft);
    or_options_free(&program_either, &config, NULL);
    assert_int_equal(or_options_parse(&program_either, 1, line, &config, NULL, &next), OR_OK);
    assert_string_equal(config.draft, "variable.gguf");
    or_options_free(&program_either, &config, NULL);
    assert_int_equal(or_options_parse(&program_either, 5, both, &config, NULL, &next), OR_OK);
    assert_string_equal(config.model, "a"); // the program's to refuse
    assert_string_equal(config.draft, "b");
    or_options_free(&program_either, &config, NULL);
    unsetenv("OUTRIDER_MODEL_DRAFT");
}

static void a_variable_may_mean_something_else(void **state)
{
    (void)state;
    char *line[] = {"test", NULL};
    config_t config = {0};
    or_options_next_t next;
    setenv("OUTRIDER_MODEL", "variable.gguf", 1);
    assert_int_equal(or_options_parse(&program_unbound, 1, line, &config, NULL, &next), OR_OK);
    assert_null(config.model);
    or_options_free(&program_unbound, &config, NULL);
    unsetenv("OUTRIDER_MODEL");
}

static void numbers_keep_to_their_bounds(void **state)
{
    (void)state;
    static const struct {
        or_bounds_t bounds;
        double value;
        const char *sentence; // NULL: allowed
    } cases[] = {
        {{0}, -1e300, NULL},
        {{1, 1024}, 1024, NULL},
        {{1, 1024}, 1025, "--x: 1025 is not between 1 and 1024"},
        {{0, 1}, 1.5, "--x: 1.5 is not between 0 and 1"},
        {{1, 1e6, .has_other = true}, 0, NULL},
        {{1, 1e6, .has_other = true}, 0.5, "--x: 0.5 is neither 0 nor between 1 and 1000000"},
        {{2, INFINITY, .has_other = true}, 1, "--x: 1 is below 2"},
        {{2, INFINITY, .has_other = true}, 0, NULL},
        {{1, INFINITY}, 0, "--x: at least 1 is needed"},
        {{0, INFINITY, .above = true}, 0, "--x: 0 is not above 0"},
        {{0, INFINITY, .above = true, .has_other = true, .other = -1}, -1, NULL},
        {{0, INFINITY, .above = true, .has_other = true, .other = -1},
         0,
         "--x: 0 is neither -1 nor above 0"},
        {{1, INFINITY, .has_other = true, .other = -1}, 0, "--x: 0 is neither -1 nor 1 or more"},
        {{0, 8, .has_other = true, .other = -1}, 9, "--x: 9 is neither -1 nor between 0 and 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        or_status_t status = or_bounds_check(&cases[i].bounds, "--x", cases[i].value);
        assert_int_equal(status, cases[i].sentence == NULL ? OR_OK : OR_ERR_INVALID);
        assert_true(cases[i].sentence == NULL || strcmp(or_error_text(), cases[i].sentence) == 0);
    }
    const or_bounds_t unit = {0, 1};
    assert_int_equal(or_bounds_check(&unit, "--x", NAN), OR_ERR_INVALID);
}

typedef struct {
    int32_t before;
    config_t inner;
} outer_t;

static const char *const except[] = {"plain", "model-draft", NULL};
static const or_option_t outer_table[] = {
    {"before", NULL, OR_OPTION_INT32, offsetof(outer_t, before), "N", "a number", .bounds = {1, 9}},
    {.type = OR_OPTION_PART, .offset = offsetof(outer_t, inner), .part = table, .except = except},
    {0}};
static const or_option_program_t outer_program = {
    .program = "outrider test", .summary = "a test", .table = outer_table};

static void a_table_has_parts(void **state)
{
    (void)state;
    char *line[] = {"test", "--before", "3", "-m", "line.gguf", "--stop", "x", "--temp", "2"};
    char *left_out[] = {"test", "--plain"};
    char *out_of_bounds[] = {"test", "--before", "10"};
    outer_t outer = {.before = 1, .inner.draft = (char *)"literal"};
    or_options_next_t next;
    assert_int_equal(or_options_parse(&outer_program, 9, line, &outer, NULL, &next), OR_OK);
    assert_int_equal(outer.before, 3);
    assert_string_equal(outer.inner.model, "line.gguf");
    assert_string_equal(outer.inner.draft, "literal");
    assert_int_equal(outer.inner.stop.count, 1);
    assert_true(outer.inner.temp == 2);
    assert_false(or_options_flag(outer_table, &outer, "plain"));
    outer.inner.plain = true;
    assert_true(or_options_flag(outer_table, &outer, "plain"));
    assert_false(or_options_flag(outer_table, &outer, "before"));
    or_options_free(&outer_program, &outer, NULL); // frees what is left out, too
    assert_null(outer.inner.draft);
    assert_int_equal(or_options_parse(&outer_program, 2, left_out, &outer, NULL, &next),
                     OR_ERR_INVALID);
    assert_int_equal(or_options_parse(&outer_program, 3, out_of_bounds, &outer, NULL, &next),
                     OR_ERR_INVALID);
    assert_string_equal(or_error_text(), "--before: 10 is not between 1 and 9");
}

static void other_programs_names_are_taken(void **state)
{
    (void)state;
    outcome_t o = PARSE("--n-predict", "-1", "--temperature=0.5", "--draft-max", "4",
                        "--reverse-prompt", "x", "--spec-draft-model", "b.gguf");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.config.predict, -1);
    assert_true(o.config.temp == 0.5F);
    assert_int_equal(o.config.nodes, 4);
    assert_string_equal(o.config.draft, "b.gguf");
    assert_int_equal(o.config.stop.count, 1);
    drop(&o);
    o = PARSE("--n-predict", "x");
    assert_int_equal(o.status, OR_ERR_INVALID);
    assert_string_equal(or_error_text(), "-n/--predict: 'x' is not a whole number");
    drop(&o);
    o = PARSE("--usage");
    assert_int_equal(o.next, OR_OPTIONS_EXIT);
    drop(&o);
}

// A name whose option this program does not have is unknown, and so is a word that begins with one.
static void other_programs_options_are_answered(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"-np", "there is no -np here: outrider up --sessions-max N says "},
        {"--host=0.0.0.0", "there is no --host here: outrider up --http HOST:PORT says "},
        {"--no-mmap", "there is no --no-mmap here: outrider model pack "},
        {"--n-gpu-layers", "unknown option '--n-gpu-layers' (--help "},
        {"--hos", "unknown option '--hos' (--help "},
        {"--", "'1' is not an option, "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome_t o = PARSE(cases[i][0], "1");
        assert_int_equal(o.status, OR_ERR_INVALID);
        assert_memory_equal(or_error_text(), cases[i][1], strlen(cases[i][1]));
        drop(&o);
    }
}

static void help_and_version_end_the_program(void **state)
{
    (void)state;
    outcome_t o = PARSE("--temp", "2", "--help", "--nonsense-behind-it");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.next, OR_OPTIONS_EXIT);
    assert_true(o.config.temp == 0.8F);
    assert_null(o.config.model); // nothing is owned
    drop(&o);
    o = PARSE("--version");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.next, OR_OPTIONS_EXIT);
    drop(&o);
    o = PARSE("--help-json");
    assert_int_equal(o.status, OR_OK);
    assert_int_equal(o.next, OR_OPTIONS_EXIT);
    drop(&o);
}

static void distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(or_options_distance("", ""), 0);
    assert_int_equal(or_options_distance("", "abc"), 3);
    assert_int_equal(or_options_distance("kitten", "sitting"), 3);
    assert_int_equal(or_options_distance("generate", "genrate"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_spelling_arrives),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(defaults_stay_and_are_copied),
        cmocka_unit_test(a_value_may_begin_with_a_dash),
        cmocka_unit_test(other_words_go_to_rest),
        cmocka_unit_test(flags_can_be_turned_off),
        cmocka_unit_test(nonsense_is_refused_with_a_reason),
        cmocka_unit_test(the_strongest_place_wins),
        cmocka_unit_test(a_bad_config_file_is_refused),
        cmocka_unit_test(of_either_the_strongest_place_wins),
        cmocka_unit_test(a_variable_may_mean_something_else),
        cmocka_unit_test(numbers_keep_to_their_bounds),
        cmocka_unit_test(a_table_has_parts),
        cmocka_unit_test(other_programs_names_are_taken),
        cmocka_unit_test(other_programs_options_are_answered),
        cmocka_unit_test(help_and_version_end_the_program),
        cmocka_unit_test(distance_counts_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
