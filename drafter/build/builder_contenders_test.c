// Goal: a drafter whose model runs on a device grows the CPU's trees to the last bit of every weight, and where the
// best guesses are taken no logits come over.
// Method: the emulated device and the CPU build the same random jobs: methods, filters, temperatures, noise, beliefs.
// Trees and their guesses' weights are compared by memcmp. The model counts the rows whose whole logits it
// fetched.
#include <stdio.h>

#include "drafter/build/builder_gpu_test_support.h"

static void filter(fixture_t *f, or_build_job_t *job)
{
    static const float temperatures[] = {0, 0.3F, 0.6F, 0.8F, 1};
    static const uint32_t top_ks[] = {0, 1, 5, 40};
    job->draft_temperature = temperatures[below(f, 5)];
    job->sampling.top_k = top_ks[below(f, 4)];
    job->sampling.top_p = below(f, 2) == 0 ? 1 : 0.6F;
    job->sampling.min_p = below(f, 2) == 0 ? 0 : 0.05F;
}

static void contenders_make_the_same_trees(void **state)
{
    fixture_t *f = *state;
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_TOPK};
    for (uint32_t i = test_runs(6); i > 0; i--) {
        or_draft_method_t method = methods[below(f, 3)];
        or_build_job_t job =
            job_of(f, method, below(f, 3) == 0 ? OR_ACCEPT_GREEDY : OR_ACCEPT_COUPLED);
        filter(f, &job);
        if (method == OR_DRAFT_TOPK) { // which wants to know of more tokens than any other
            job.sampling.min_p = 0.05F;
        }
        assert_int_equal(check(f, method, &job), 0);
    }
}

// So flat a distribution, or so open a mind, that thousands of tokens could be listed.
static void many_contenders_are_looked_at_here(void **state)
{
    fixture_t *f = *state;
    or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.draft_temperature = 100;
    or_belief_init(&f->belief);
    f->belief.log_likelihood[OR_BELIEF_GRID - 1] = 1;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    assert_true(f->sides[GPU].builder->crowded); // the others were not asked for contenders
    job.sampling.top_p = 0.9F;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_GREEDY); // another tree is asked again
    job.draft_temperature = 0;
    job.nodes_max = 3;
    assert_int_equal(check(f, OR_DRAFT_COUPLED, &job), 0);
}

static void who_needs_the_logits_has_them(void **state)
{
    fixture_t *f = *state;
    const or_logit_bias_t bias = {631, 2};
    or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.sampling.repeat_penalty = 1.3F;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.sampling.bias = &bias;
    job.sampling.bias_count = 1;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    for (uint32_t i = 0; i < or_vocab_size(f->vocab); i++) {
        f->map[i] = below(f, 4) == 0 ? -1 : (int32_t)i;
    }
    job.map = f->map;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_CHAIN, OR_ACCEPT_SPS); // drawn from whole distributions
    assert_true(check(f, OR_DRAFT_CHAIN, &job) > 0);
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_make_the_same_trees),
        cmocka_unit_test(many_contenders_are_looked_at_here),
        cmocka_unit_test(who_needs_the_logits_has_them),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
