// Goal: names and numbers agree, and only exact pairs are allowed.
// Method: every method with every rule, at temperature 0 and above; unknown names and numbers.
#include "common/decode/methods.h"

#include <string.h>

#include "tests/support/test_support.h"

static void names_go_there_and_back(void **state)
{
    (void)state;
    or_draft_method_t method;
    or_accept_rule_t rule;
    for (uint32_t i = OR_DRAFT_NONE; i <= OR_DRAFT_CHAIN; i++) {
        assert_int_equal(or_draft_method_parse(or_draft_method_name(i), &method), OR_OK);
        assert_int_equal(method, i);
    }
    for (uint32_t i = OR_ACCEPT_COUPLED; i <= OR_ACCEPT_GREEDY; i++) {
        assert_int_equal(or_accept_rule_parse(or_accept_rule_name(i), &rule), OR_OK);
        assert_int_equal(rule, i);
    }
    assert_null(or_draft_method_name(99));
    assert_null(or_accept_rule_name(0));
}

static void unknown_names_are_answered_with_the_known(void **state)
{
    (void)state;
    or_draft_method_t method = OR_DRAFT_CHAIN;
    or_accept_rule_t rule = OR_ACCEPT_GREEDY;
    assert_int_equal(or_draft_method_parse("tree", &method), OR_ERR_INVALID);
    assert_int_equal(method, OR_DRAFT_CHAIN);
    assert_non_null(strstr(or_error_text(), or_draft_method_list()));
    assert_int_equal(or_accept_rule_parse("", &rule), OR_ERR_INVALID);
    assert_int_equal(rule, OR_ACCEPT_GREEDY);
    assert_non_null(strstr(or_error_text(), or_accept_rule_list()));
}

static void only_exact_pairs_are_legal(void **state)
{
    (void)state;
    for (uint32_t method = OR_DRAFT_NONE; method <= OR_DRAFT_CHAIN; method++) {
        assert_int_equal(or_methods_check(method, OR_ACCEPT_COUPLED, 0), OR_OK);
        assert_int_equal(or_methods_check(method, OR_ACCEPT_COUPLED, 1), OR_OK);
        assert_int_equal(or_methods_check(method, OR_ACCEPT_GREEDY, 0), OR_OK);
        assert_int_equal(or_methods_check(method, OR_ACCEPT_GREEDY, 1), OR_ERR_INVALID);
        assert_non_null(strstr(or_error_text(), "--accept coupled"));
    }
    assert_int_equal(or_methods_check(99, OR_ACCEPT_COUPLED, 1), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_methods_check(OR_DRAFT_CHAIN, 99, 1), OR_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_there_and_back),
        cmocka_unit_test(unknown_names_are_answered_with_the_known),
        cmocka_unit_test(only_exact_pairs_are_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
