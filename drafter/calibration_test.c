// Goal: what was measured is what is believed, little evidence leans on the prior, and the file keeps
// every number; a file that is not one is refused with a sentence and changes nothing.
// Method: a made-up target whose acceptances are known; round trips through a file; broken files.
#include "drafter/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define MODELS "00c0ffee 5e0c41b2"
#define FIRST "outrider acceptance 2 " MODELS "\n"
#define KINDS (OR_CALIBRATION_FAMILIES * OR_CALIBRATION_RULES * OR_CALIBRATION_HEATS)

static char path[256];

static int setup(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/outrider-acceptance-%d", folder != NULL ? folder : "/tmp",
             (int)getpid());
    unlink(path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

// The made-up target's acceptance.
static double truth(uint32_t rank, double p)
{
    return (0.2 + 0.7 * p) / (1 + rank);
}

static void what_was_measured_is_believed(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    or_calibration_t calibration = {0};
    for (int i = 0; i < 40000; i++) {
        uint32_t rank = (uint32_t)test_below(&rng, 4);
        double p = ldexp(0.75, -(int)test_below(&rng, 4)); // the middles of four bins
        or_calibration_learn(&calibration, rank, p, test_uniform(&rng) < truth(rank, p));
    }
    for (uint32_t rank = 0; rank < 4; rank++) {
        double mean = 0;
        for (int bin = 0; bin < 4; bin++) {
            double p = ldexp(0.75, -bin);
            double believed = or_calibration_guess(&calibration, rank, p);
            assert_true(fabs(believed - truth(rank, p)) < 0.08);
            assert_true(believed == or_calibration_guess(&calibration, rank, p * 1.3));
            mean += truth(rank, p) / 4;
        }
        assert_true(fabs(or_calibration_rank(&calibration, rank) - mean) < 0.04);
    }
}

static void without_evidence_the_prior_decays(void **state)
{
    (void)state;
    const or_calibration_t nothing = {0};
    double before = 1;
    for (uint32_t rank = 0; rank < OR_CALIBRATION_RANKS; rank++) {
        double believed = or_calibration_rank(&nothing, rank);
        assert_true(believed > 0 && believed < before);
        assert_true(fabs(or_calibration_guess(&nothing, rank, 0.3) - believed) < 1e-12);
        before = believed;
    }
    // Ranks and probabilities beyond the table are its last ones'.
    assert_true(or_calibration_rank(&nothing, 4000000000U) == before);
    or_calibration_t calibration = {0};
    or_calibration_learn(&calibration, 77, 0, true);
    or_calibration_learn(&calibration, 0, 1, true);
    assert_true(calibration.taken[OR_CALIBRATION_RANKS - 1][OR_CALIBRATION_BINS - 1] == 1);
    assert_true(calibration.taken[0][0] == 1);
}

static void the_past_fades(void **state)
{
    (void)state;
    or_calibration_t calibration = {0};
    for (int i = 0; i < 20000; i++) {
        or_calibration_learn(&calibration, 0, 0.9, true);
    }
    assert_true(or_calibration_guess(&calibration, 0, 0.9) > 0.97);
    for (int i = 0; i < 10000; i++) {
        or_calibration_learn(&calibration, 0, 0.9, false);
    }
    assert_true(or_calibration_guess(&calibration, 0, 0.9) < 0.03);
}

static void each_way_of_guessing_has_its_own(void **state)
{
    (void)state;
    or_calibrations_t all = {0};
    static const or_draft_method_t methods[] = {OR_DRAFT_DYSPEC, OR_DRAFT_SEQUOIA};
    static const or_accept_rule_t rules[] = {OR_ACCEPT_GREEDY, OR_ACCEPT_COUPLED,
                                             OR_ACCEPT_RECURSIVE, OR_ACCEPT_LENIENT};
    static const float temperatures[] = {0, 0.3F, 0.8F};
    const or_calibration_t *seen[24];
    for (int i = 0; i < 24; i++) {
        seen[i] = or_calibrations_find(&all, methods[i % 2], rules[i / 2 % 4], temperatures[i / 8]);
        assert_true(seen[i] >= &all.of[0][0][0] && seen[i] < &all.of[0][0][0] + KINDS);
        for (int k = 0; k < i; k++) {
            assert_ptr_not_equal(seen[i], seen[k]);
        }
    }
    assert_ptr_equal(or_calibrations_find(&all, OR_DRAFT_DYSPEC_T, OR_ACCEPT_GREEDY, 0), seen[0]);
    assert_null(or_calibrations_find(&all, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 1));
    assert_null(or_calibrations_find(&all, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED, 1));
}

static void a_file_keeps_every_number(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    or_calibrations_t all = {0}, read;
    bool foreign = true;
    memset(&read, 0xAA, sizeof read);
    for (int i = 0; i < 300; i++) {
        or_calibration_t *one = &all.of[test_below(&rng, OR_CALIBRATION_FAMILIES)]
                                       [1 + test_below(&rng, OR_CALIBRATION_RULES - 1)]
                                       [test_below(&rng, OR_CALIBRATION_HEATS)];
        or_calibration_learn(one, (uint32_t)test_below(&rng, OR_CALIBRATION_RANKS),
                             test_uniform(&rng), test_below(&rng, 2) == 1);
    }
    all.of[1][OR_ACCEPT_BLOCK][2].tried[2][1] = 1000.0 / 3;
    all.of[1][OR_ACCEPT_BLOCK][2].taken[2][1] = 1.0 / 7;
    for (int i = 0; i < 2; i++) { // the second time over the first one's file
        assert_int_equal(or_calibrations_save(&all, MODELS, path), OR_OK);
        assert_int_equal(or_calibrations_load(&read, MODELS, path, &foreign), OR_OK);
        assert_false(foreign);
        assert_memory_equal(&read, &all, sizeof all);
        or_calibration_learn(&all.of[0][OR_ACCEPT_SPS][1], 0, 0.5, true);
    }
    char beside[sizeof path + 32];
    snprintf(beside, sizeof beside, "%s.%d.new", path, (int)getpid());
    assert_int_equal(access(beside, F_OK), -1);
    unlink(path);
    assert_int_equal(or_calibrations_load(&read, MODELS, path, &foreign), OR_OK); // none yet
    assert_false(foreign);
    assert_int_equal(or_calibrations_save(&all, MODELS, "/nowhere/at/all"), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "/nowhere/at/all"));
    assert_int_equal(or_calibrations_load(&read, MODELS, "/", &foreign), OR_ERR_IO);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_file_of_other_models_is_not_used(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "outrider acceptance 1\nsequoia-drawn-sampled 0 2 310 201\n", // an older version
        "outrider acceptance 2\n",
        "outrider acceptance 2 00c0ffee\nsequoia recursive warm 0 2 310 201\n",
        "outrider acceptance 2 00c0ffee 5e0c41b2 7\nsequoia recursive warm 0 2 310 201\n",
        "outrider acceptance 2 00c0ffee 5e0c41b3\nsequoia recursive warm 0 2 310 201\n",
    };
    static or_calibrations_t all, before;
    memset(&all, 0xAA, sizeof all);
    before = all;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool foreign = false;
        write_text(texts[i]);
        assert_int_equal(or_calibrations_load(&all, MODELS, path, &foreign), OR_OK);
        assert_true(foreign);
        assert_memory_equal(&all, &before, sizeof all);
    }
}

static void a_bad_file_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "does not begin with"},
        {"{\"model\": 1}\n", "does not begin with"},
        {FIRST "sequoia recursive warm 0 2 310\n", "line 2 is not three names"},
        {FIRST "\n", "line 2 is not three names"},
        {FIRST "sequoia recursive warm 0 2 310 201 7\n", "line 2 is not three names"},
        {FIRST "sequoia recursive warm 0 2 3 1\nsequoia rsd-s warm 0 2 310 201\n", "line 3 is of"},
        {FIRST "rsd-s recursive warm 0 2 310 201\n", "line 2 is of"},
        {FIRST "sequoia recursive tepid 0 2 310 201\n", "line 2 is of"},
        {FIRST "sequoia recursive warm 16 2 310 201\n", "rank above 15"},
        {FIRST "sequoia recursive warm -1 2 310 201\n", "rank above 15"},
        {FIRST "sequoia recursive warm 0 8 310 201\n", "bin above 7"},
        {FIRST "sequoia recursive warm 0 2 201 310\n", "more taken than tried"},
        {FIRST "sequoia recursive warm 0 2 nan nan\n", "more taken than tried"},
        {FIRST "sequoia recursive warm 0 2 inf 1\n", "more taken than tried"},
        {FIRST "sequoia recursive warm 0 2 5 -1\n", "more taken than tried"},
    };
    or_calibrations_t all, before;
    bool foreign;
    memset(&all, 0xAA, sizeof all);
    before = all;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(cases[i].text);
        assert_int_equal(or_calibrations_load(&all, MODELS, path, &foreign), OR_ERR_FORMAT);
        assert_non_null(strstr(or_error_text(), cases[i].reason));
        assert_non_null(strstr(or_error_text(), path));
        assert_memory_equal(&all, &before, sizeof all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_believed),
        cmocka_unit_test(without_evidence_the_prior_decays),
        cmocka_unit_test(the_past_fades),
        cmocka_unit_test(each_way_of_guessing_has_its_own),
        cmocka_unit_test(a_file_keeps_every_number),
        cmocka_unit_test(a_file_of_other_models_is_not_used),
        cmocka_unit_test(a_bad_file_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
