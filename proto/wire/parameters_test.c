// Goal: a parameter means the same however it is given, what is wrong is refused by the name that the asker used,
// and numbers of a peer keep to the rows.
// Method: the tables themselves, defaults and combinations settled under both namings, requests with numbers out of
// bounds.
#include "proto/wire/parameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

static const or_option_t *const tables[] = {or_sampling_parameters, or_drafting_parameters};

static void rows_are_sound(void **state)
{
    (void)state;
    const or_parameters_t usual = or_parameters_default();
    char option[64];
    double number;
    for (size_t i = 0; i < 2; i++) {
        for (const or_option_t *row = tables[i]; row->name != NULL; row++) {
            snprintf(option, sizeof option, "--%s", row->name);
            assert_non_null(row->help);
            if (or_option_number(row, &usual, &number) && number != 0) {
                assert_int_equal(or_bounds_check(&row->bounds, option, number), OR_OK);
            }
            if (row->field != NULL) {
                assert_ptr_equal(or_parameter_of_field(row->field), row);
                assert_string_equal(or_name_field(option), row->field);
            } else {
                assert_null(or_name_field(option));
            }
        }
    }
    assert_null(or_parameter_of_field("draft"));
    assert_null(or_name_field("--seed"));
}

static void the_usual_is_settled(void **state)
{
    (void)state;
    or_parameters_t asked = or_parameters_default();
    or_generate_request_t request;
    or_shape_t shape;
    assert_int_equal(or_parameters_settle(&asked, or_name_option, &request, &shape, NULL), OR_OK);
    assert_int_equal(request.draft_method, OR_DRAFT_COUPLED);
    assert_int_equal(request.accept_rule, OR_ACCEPT_COUPLED);
    assert_int_equal(request.vocab_method, OR_VOCAB_AUTO);
    assert_int_equal(request.draft_nodes, 64); // at most
    assert_int_equal(request.draft_policy, OR_POLICY_AUTO);
    assert_int_equal(request.draft_ahead, 4); // what comes by itself, the coordinator leaves out
    assert_false(request.plain || request.has_draft_temperature);
    asked.policy = (char *)"fixed";
    asked.vocab_map = (char *)"slrs";
    asked.temperature = 0.5F;
    assert_int_equal(or_parameters_settle(&asked, or_name_option, &request, &shape, NULL), OR_OK);
    assert_int_equal(request.accept_rule, OR_ACCEPT_SLRS);
    assert_int_equal(request.draft_method, OR_DRAFT_CHAIN);
    assert_int_equal(request.draft_ahead, 0);
    assert_int_equal(request.draft_nodes, 16);
    assert_true(request.has_draft_temperature && request.draft_temperature == 0.5F);
    asked = or_parameters_default();
    asked.method = (char *)"none";
    asked.shape = (char *)"4x2";
    assert_int_equal(or_parameters_settle(&asked, or_name_option, &request, &shape, NULL), OR_OK);
    assert_true(request.plain);
    asked.method = (char *)"rsd-c";
    assert_int_equal(or_parameters_settle(&asked, or_name_option, &request, &shape, NULL), OR_OK);
    assert_int_equal(request.draft_shape_count, 2);
    assert_int_equal(request.draft_shape[0], 4);
}

typedef struct {
    const char *method, *accept, *vocab_map, *policy, *shape;
    int32_t ahead;
    const char *option;               // at fault; NULL: several
    const char *as_option, *as_field; // what the sentence has
} wrong_t;

static void the_wrong_is_named(void **state)
{
    (void)state;
    static const wrong_t cases[] = {
        {NULL, NULL, "magic", "fixed", NULL, -1, "--vocab-map", "'magic' is not", "'magic' is not"},
        {NULL, NULL, "auto", "best", NULL, -1, "--draft-policy",
         "--draft-policy: 'best' is neither", "draft.policy: 'best' is neither"},
        {"tree", NULL, "auto", "fixed", NULL, -1, NULL, "rsd-c, rsd-s", "rsd-c, rsd-s"},
        {"coupled", "sps", "auto", "fixed", NULL, -1, NULL, "use --accept coupled",
         "use draft.accept coupled"},
        {NULL, "sps", "slrs", "fixed", NULL, -1, NULL, "--vocab-map slrs has",
         "draft.vocab_map slrs has"},
        {NULL, "typical", "auto", "fixed", NULL, -1, "--accept", "with --allow-lossy",
         "over HTTP nothing"},
        {"chain", NULL, "auto", "fixed", "4x2", -1, "--draft-shape", "--draft-shape is for",
         "takes draft.nodes and draft.depth"},
        {"ngram", NULL, "auto", "fixed", NULL, 2, "--draft-ahead",
         "--draft-ahead: guesses of ngram", "draft.ahead: guesses of ngram"},
        {"chain", NULL, "auto", "fixed", NULL, 1, "--draft-ahead", "one text alone",
         "one text alone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const wrong_t *wrong = &cases[i];
        or_parameters_t asked = or_parameters_default();
        or_generate_request_t request;
        or_shape_t shape;
        asked.method = (char *)wrong->method;
        asked.accept = (char *)wrong->accept;
        asked.vocab_map = (char *)wrong->vocab_map;
        asked.policy = (char *)wrong->policy;
        asked.shape = (char *)wrong->shape;
        asked.ahead = wrong->ahead;
        for (int field = 0; field < 2; field++) {
            const char *option = "poison";
            assert_int_equal(or_parameters_settle(&asked, field ? or_name_field : or_name_option,
                                                  &request, &shape, &option),
                             OR_ERR_INVALID);
            assert_non_null(strstr(or_error_text(), field ? wrong->as_field : wrong->as_option));
            assert_true(!field || strstr(or_error_text(), "--") == NULL);
            assert_int_equal(option == NULL, wrong->option == NULL);
            assert_true(option == NULL || strcmp(option, wrong->option) == 0);
        }
    }
}

static void numbers_of_a_peer_keep_to_the_rows(void **state)
{
    (void)state;
    or_parameters_t usual = or_parameters_default();
    or_generate_request_t request = {0}; // 0: the usual
    assert_int_equal(or_parameters_check(&request), OR_OK);
    assert_int_equal(or_parameters_check(&usual.request), OR_OK);
    static const struct {
        size_t offset;
        float value;
        const char *sentence;
    } reals[] = {
        {offsetof(or_generate_request_t, lenience), 0.5F,
         "--lenience: 0.5 is neither 0 nor between 1 and 1000000"},
        {offsetof(or_generate_request_t, lenience), NAN, "--lenience: "},
        {offsetof(or_generate_request_t, typical_epsilon), 2,
         "--typical-epsilon: 2 is not between 0 and 1"},
        {offsetof(or_generate_request_t, typical_delta), -1,
         "--typical-delta: -1 is not between 0 and 1000000"},
        {offsetof(or_generate_request_t, draft_threshold), 1.5F,
         "--draft-threshold: 1.5 is not between 0 and 1"},
        {offsetof(or_generate_request_t, sampling.top_p), -0.5F,
         "--top-p: -0.5 is not between 0 and 1"},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        request = usual.request;
        memcpy((char *)&request + reals[i].offset, &reals[i].value, sizeof reals[i].value);
        assert_int_equal(or_parameters_check(&request), OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), reals[i].sentence));
    }
    request = usual.request;
    request.draft_nodes = 1025;
    assert_int_equal(or_parameters_check(&request), OR_ERR_INVALID);
    assert_string_equal(or_error_text(), "--draft-nodes: 1025 is neither 0 nor between 1 and 1024");
    request = usual.request;
    request.distribution_entries = OR_DISTRIBUTION_ENTRIES_MAX + 1;
    assert_int_equal(or_parameters_check(&request), OR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(the_usual_is_settled),
        cmocka_unit_test(the_wrong_is_named),
        cmocka_unit_test(numbers_of_a_peer_keep_to_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
