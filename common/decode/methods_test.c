// Goal: names and numbers agree, and only exact pairs are allowed: the table of docs/design.md section 6.
// Method: every method with every rule, at temperature 0 and above, against a matrix written out;
// unknown names and numbers; what the refusals advise must itself be legal.
#include "common/decode/methods.h"

#include <string.h>

#include "tests/support/test_support.h"

#define METHODS (OR_DRAFT_NGRAM + 1)
#define RULES OR_ACCEPT_SLRS

// Columns: coupled, greedy, naive, sps, multi-round, recursive, kseq, otm, block, traversal,
// typical, lenient, slrs.
static const char *const legal[METHODS] = {
    [OR_DRAFT_NONE] = "yyyyyyyyyyyyy",    [OR_DRAFT_COUPLED] = "yy...........",
    [OR_DRAFT_CHAIN] = "yyyyyyyyyyyyy",   [OR_DRAFT_MCSD] = "yyy.y.yy..y..",
    [OR_DRAFT_RSD_C] = "yyy..y...yy..",   [OR_DRAFT_RSD_S] = "yyy..y...yy..",
    [OR_DRAFT_KSEQ] = "yyy.y.yy..y..",    [OR_DRAFT_MULTI] = "yyy.y.....y..",
    [OR_DRAFT_DYSPEC] = "yyy..y...yy..",  [OR_DRAFT_DYSPEC_T] = "yyy..y...yy..",
    [OR_DRAFT_SEQUOIA] = "yyy..y...yy..", [OR_DRAFT_TOPK] = "yyy.......y..",
    [OR_DRAFT_NGRAM] = "yyy.......y..",
};

static void names_go_there_and_back(void **state)
{
    (void)state;
    or_draft_method_t method;
    or_accept_rule_t rule;
    for (uint32_t i = 0; i < METHODS; i++) {
        assert_int_equal(or_draft_method_parse(or_draft_method_name(i), &method), OR_OK);
        assert_int_equal(method, i);
        assert_true(i == OR_DRAFT_NONE ||
                    strstr(or_draft_method_list(), or_draft_method_name(i)) != NULL);
    }
    for (uint32_t i = 1; i <= RULES; i++) {
        assert_int_equal(or_accept_rule_parse(or_accept_rule_name(i), &rule), OR_OK);
        assert_int_equal(rule, i);
        assert_non_null(strstr(or_accept_rule_list(), or_accept_rule_name(i)));
    }
    assert_null(or_draft_method_name(METHODS));
    assert_null(or_draft_method_name(99));
    assert_null(or_accept_rule_name(0));
    assert_null(or_accept_rule_name(RULES + 1));
}

static void numbers_are_the_wires(void **state)
{
    (void)state;
    static const char *const methods[] = {"none",    "coupled", "chain", "mcsd",   "rsd-c",
                                          "rsd-s",   "kseq",    "multi", "dyspec", "dyspec-t",
                                          "sequoia", "topk",    "ngram"};
    static const char *const rules[] = {"coupled",   "greedy",  "naive", "sps",   "multi-round",
                                        "recursive", "kseq",    "otm",   "block", "traversal",
                                        "typical",   "lenient", "slrs"};
    for (uint32_t i = 0; i < METHODS; i++) {
        assert_string_equal(or_draft_method_name(i), methods[i]);
    }
    for (uint32_t i = 0; i < RULES; i++) {
        assert_string_equal(or_accept_rule_name(i + 1), rules[i]);
    }
}

static void unknown_names_are_answered_with_the_known(void **state)
{
    (void)state;
    or_draft_method_t method = OR_DRAFT_CHAIN;
    or_accept_rule_t rule = OR_ACCEPT_GREEDY;
    assert_int_equal(or_draft_method_parse("tree", &method), OR_ERR_INVALID);
    assert_int_equal(method, OR_DRAFT_CHAIN);
    assert_non_null(strstr(or_error_text(), or_draft_method_list()));
    assert_int_equal(or_draft_method_parse("rsd", &method), OR_ERR_INVALID);
    assert_int_equal(or_accept_rule_parse("", &rule), OR_ERR_INVALID);
    assert_int_equal(or_accept_rule_parse("Recursive", &rule), OR_ERR_INVALID);
    assert_int_equal(rule, OR_ACCEPT_GREEDY);
    assert_non_null(strstr(or_error_text(), or_accept_rule_list()));
}

static bool names_word(const char *text, const char *end, const char *word)
{
    for (const char *at = strstr(text, word); at != NULL && at < end; at = strstr(at + 1, word)) {
        char after = at[strlen(word)];
        if (at[-1] == ' ' && (after == ',' || after == ' ')) {
            return true;
        }
    }
    return false;
}

// A refusal says "use --accept a, b, or --draft-method c": each of them must help.
static void assert_advice_is_good(uint32_t method, uint32_t rule)
{
    const char *advice = strstr(or_error_text(), ": use --accept ");
    assert_non_null(advice);
    const char *other = strstr(advice, "--draft-method ");
    assert_non_null(other);
    or_draft_method_t advised;
    assert_int_equal(or_draft_method_parse(other + strlen("--draft-method "), &advised), OR_OK);
    assert_int_equal(legal[advised][rule - 1], 'y');
    for (uint32_t i = 1; i <= RULES; i++) {
        bool named = names_word(advice, other, or_accept_rule_name(i));
        assert_int_equal(named, legal[method][i - 1] == 'y');
    }
}

static void only_exact_pairs_are_legal(void **state)
{
    (void)state;
    for (uint32_t method = 0; method < METHODS; method++) {
        for (uint32_t rule = 1; rule <= RULES; rule++) {
            bool good = legal[method][rule - 1] == 'y';
            or_status_t cold = or_methods_check(method, rule, 0);
            assert_int_equal(cold, good ? OR_OK : OR_ERR_INVALID);
            or_status_t warm = or_methods_check(method, rule, 0.7F);
            if (rule == OR_ACCEPT_GREEDY) {
                assert_int_equal(warm, OR_ERR_INVALID);
                assert_non_null(strstr(or_error_text(), "--accept coupled"));
                continue;
            }
            assert_int_equal(warm, good ? OR_OK : OR_ERR_INVALID);
            if (!good) {
                assert_non_null(strstr(or_error_text(), or_accept_rule_name(rule)));
                assert_non_null(strstr(or_error_text(), or_draft_method_name(method)));
                assert_advice_is_good(method, rule);
            }
        }
    }
    assert_int_equal(or_methods_check(99, OR_ACCEPT_COUPLED, 1), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_methods_check(METHODS, OR_ACCEPT_COUPLED, 1), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_methods_check(OR_DRAFT_CHAIN, 99, 1), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_methods_check(OR_DRAFT_CHAIN, 0, 1), OR_ERR_UNSUPPORTED);
    // Numbers that would shift past a word are unknown, not legal.
    assert_int_equal(or_methods_check(OR_DRAFT_NONE, 32 + OR_ACCEPT_SPS, 1), OR_ERR_UNSUPPORTED);
}

static void the_usual_method_is_legal(void **state)
{
    (void)state;
    for (uint32_t rule = 1; rule <= RULES; rule++) {
        or_draft_method_t usual = or_accept_rule_usual_method(rule);
        assert_int_not_equal(usual, OR_DRAFT_NONE);
        assert_int_equal(legal[usual][rule - 1], 'y');
    }
    assert_int_equal(or_accept_rule_usual_method(99), OR_DRAFT_NONE);
}

static void traits_are_the_rules(void **state)
{
    (void)state;
    static const struct {
        bool (*has)(uint32_t rule);
        const char *rules; // columns as above
    } traits[] = {{or_accept_rule_uses_distributions, "...yyyyyyy.y."},
                  {or_accept_rule_needs_trust, "...yyyyyyy.yy"},
                  {or_accept_rule_is_lossy, "..........yy."},
                  {or_accept_rule_takes_chains, "...y....y..yy"},
                  {or_accept_rule_counts_repeats, "....y.yy....."},
                  {or_accept_rule_takes_any_guess, "yyy.........."}};
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        for (uint32_t rule = 1; rule <= RULES; rule++) {
            assert_int_equal(traits[i].has(rule), traits[i].rules[rule - 1] == 'y');
        }
        assert_false(traits[i].has(0));
        assert_false(traits[i].has(RULES + 1));
    }
}

static void vocabulary_methods_have_rules(void **state)
{
    (void)state;
    // Columns as above; auto goes wherever one of the others does.
    static const char *const good[] = {"auto yyyyyyyyyyyyy",  "same yyyyyyyyyyyy.",
                                       "union yyyyyyyyyyyy.", "tli yyyyyyyyyyyy.",
                                       "slem yyy.......y..",  "slrs ............y"};
    or_vocab_method_t method;
    for (uint32_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *name = or_vocab_method_name(i);
        size_t length = strlen(name);
        assert_memory_equal(name, good[i], length);
        assert_non_null(strstr(or_vocab_method_list(), name));
        assert_int_equal(or_vocab_method_parse(name, &method), OR_OK);
        assert_int_equal(method, i);
        for (uint32_t rule = 1; rule <= RULES; rule++) {
            bool legal_here = good[i][length + rule] == 'y';
            assert_int_equal(or_vocab_method_check(i, rule), legal_here ? OR_OK : OR_ERR_INVALID);
            assert_true(legal_here || strstr(or_error_text(), "use --") != NULL);
        }
    }
    assert_null(or_vocab_method_name(6));
    assert_int_equal(or_vocab_method_check(6, OR_ACCEPT_COUPLED), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_vocab_method_parse("TLI", &method), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), or_vocab_method_list()));
}

static void sampling_methods_sample(void **state)
{
    (void)state;
    static const char *const best[] = {"none", "coupled", "chain", "topk", "ngram"};
    for (uint32_t method = 0; method < METHODS; method++) {
        bool takes_the_best = false;
        for (size_t i = 0; i < sizeof best / sizeof *best; i++) {
            takes_the_best = takes_the_best || strcmp(or_draft_method_name(method), best[i]) == 0;
        }
        assert_int_equal(or_draft_method_has(method, OR_DRAFT_SAMPLES), !takes_the_best);
    }
    assert_false(or_draft_method_has(METHODS, ~0U));
}

// Columns: none, then by number as above.
static void methods_have_traits(void **state)
{
    (void)state;
    static const struct {
        unsigned trait;
        const char *methods;
    } traits[] = {{OR_DRAFT_ASKS_MODEL, ".yyyyyyyyyyy."}, {OR_DRAFT_REPLACES, "...y..y......"},
                  {OR_DRAFT_GROWS, ".y.........y."},      {OR_DRAFT_CUTS, ".yy.....yy.yy"},
                  {OR_DRAFT_BRANCHES, "...yy........"},   {OR_DRAFT_BEAM, ".....yyy....."},
                  {OR_DRAFT_CALIBRATES, "........yy..."}, {OR_DRAFT_NOISELESS, "...........y."}};
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        for (uint32_t method = 0; method < METHODS; method++) {
            assert_int_equal(or_draft_method_has(method, traits[i].trait),
                             traits[i].methods[method] == 'y');
        }
    }
    for (uint32_t method = 0; method < METHODS; method++) {
        for (uint32_t rule = 1; rule <= RULES; rule++) {
            bool best = method == OR_DRAFT_COUPLED || method == OR_DRAFT_TOPK;
            assert_int_equal(or_methods_go_ahead(method, rule), best && rule <= OR_ACCEPT_NAIVE);
        }
    }
}

static const char *in_brackets(const char *option)
{
    return strcmp(option, "--accept") == 0         ? "[accept]"
           : strcmp(option, "--draft-method") == 0 ? "[method]"
           : strcmp(option, "--vocab-map") == 0    ? "[map]"
                                                   : "[temperature]";
}

static void sentences_name_parameters_as_the_reader_does(void **state)
{
    (void)state;
    assert_int_equal(or_methods_check_as(in_brackets, OR_DRAFT_COUPLED, OR_ACCEPT_GREEDY, 1),
                     OR_ERR_INVALID);
    assert_string_equal(or_error_text(), "[accept] greedy decodes at temperature 0 only: set "
                                         "[temperature] 0 or use [accept] coupled");
    assert_int_equal(or_methods_check_as(in_brackets, OR_DRAFT_COUPLED, OR_ACCEPT_SPS, 1),
                     OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "but [method] coupled ranks"));
    assert_int_equal(or_vocab_method_check_as(in_brackets, OR_VOCAB_SLRS, OR_ACCEPT_SPS),
                     OR_ERR_INVALID);
    assert_string_equal(or_error_text(), "[map] slrs has a rule of its own: use [accept] slrs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_have_traits),
        cmocka_unit_test(sentences_name_parameters_as_the_reader_does),
        cmocka_unit_test(names_go_there_and_back),
        cmocka_unit_test(numbers_are_the_wires),
        cmocka_unit_test(unknown_names_are_answered_with_the_known),
        cmocka_unit_test(only_exact_pairs_are_legal),
        cmocka_unit_test(the_usual_method_is_legal),
        cmocka_unit_test(traits_are_the_rules),
        cmocka_unit_test(vocabulary_methods_have_rules),
        cmocka_unit_test(sampling_methods_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
