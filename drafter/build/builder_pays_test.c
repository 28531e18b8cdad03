// Goal: a tree that is waited for is deepened as long as a pass brings more of the round's tokens than it takes of its time.
// Method: a drafter that is sure of its guesses, so that the tree is a chain whose best length is known in closed form.
#include "drafter/build/builder_test_support.h"
#include "tests/support/test_support.h"

#define DEPTH 40u

// Return the length at which another pass would not pay. The root's pass and `n - 1` others make a chain of n, which with the
// target's own token is a round of n + 1.
static uint32_t best_length(double pass_cost)
{
    uint32_t n = 1;
    while (n < DEPTH &&
           OR_BUILD_CHILDREN_SHARE * (1 + n * pass_cost) >= pass_cost * (1 + (double)n)) {
        n++;
    }
    return n;
}

static void a_sure_drafters_chain_ends_where_a_pass_costs_more_than_it_brings(void **state)
{
    (void)state;
    static const double costs[] = {0, 0.01, 0.03, 0.07, 1 / 7.3, 0.21, 0.4, 0.9, 5};
    static const int32_t sure[] = {SURE_TOKEN};
    uint32_t longest = 0, middle = 0;
    for (uint32_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        or_build_job_t job = job_of(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED, (or_shape_t){0});
        job.history = sure;
        job.depth_max = DEPTH;
        job.pass_cost = costs[i];
        build(OR_DRAFT_COUPLED, job, i);
        uint32_t length = or_token_tree_count(tree);
        assert_int_equal(length, best_length(costs[i]));
        assert_int_equal(passes, length - 1);
        longest += length == DEPTH;
        middle += length > 2 && length < DEPTH;
    }
    assert_true(longest > 1 && middle > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sure_drafters_chain_ends_where_a_pass_costs_more_than_it_brings),
    };
    return cmocka_run_group_tests(tests, fake_setup, fake_teardown);
}
