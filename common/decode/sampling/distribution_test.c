// Goal: a reduced distribution is exactly what docs/algorithms.md section 3 says, so that the same
// integers are sampled, sent and verified. A malformed distribution from a peer is refused.
// Method: compare with apportionments worked out by hand, and random distributions with their exact
// shares; try one case for each refusal.
#include "common/decode/sampling/distribution.h"

#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"

#define TOKENS 400
#define DISTS 300

// Make a distribution whose probabilities are proportional to `parts`.
static or_distribution_t dist_of(const int32_t *ids, const double *parts, uint32_t count)
{
    static double scores[16];
    for (uint32_t i = 0; i < count; i++) {
        scores[i] = log(parts[i]) - 3; // the constant must not matter
    }
    return (or_distribution_t){.ids = ids, .scores = scores, .count = count};
}

static void apportionment_by_hand(void **state)
{
    (void)state;
    static const struct {
        uint32_t entries, count;
        int32_t ids[7];
        double parts[7];
        uint32_t kept;
        uint32_t tokens[7], weights[7];
    } cases[] = {
        {8, 3, {4, 2, 9}, {2, 1, 1}, 3, {2, 4, 9}, {16384, 32768, 16384}},
        {8, 3, {5, 6, 7}, {1, 2, 4}, 3, {5, 6, 7}, {9362, 18725, 37449}},  // the unit left: to 2/7
        {8, 3, {5, 6, 7}, {1, 3, 3}, 3, {5, 6, 7}, {9362, 28087, 28087}},  // two left: one each
        {8, 3, {8, 1, 3}, {1, 1, 1}, 3, {1, 3, 8}, {21846, 21845, 21845}}, // equal: the lower id
        {8, 1, {8}, {0.1}, 1, {8}, {65536}},
        {1, 3, {8, 1, 3}, {1, 3, 2}, 1, {1}, {65536}},
        {2, 4, {9, 7, 3, 5}, {1, 3, 3, 3}, 2, {3, 5}, {32768, 32768}}, // ties at the edge: lower id
        {3, 5, {9, 7, 3, 5, 0}, {1, 4, 2, 1, 2}, 3, {0, 3, 7}, {16384, 16384, 32768}},
        {8, 2, {3, 1}, {1, 1e-9}, 1, {3}, {65536}}, // rounds to 0
        {8, 2, {3, 1}, {65535.6, 0.4}, 1, {3}, {65536}},
        {8, 2, {3, 1}, {65535.4, 0.6}, 2, {1, 3}, {1, 65535}}, // 0.6 gets the unit that is left
        {8,
         7,
         {0, 1, 2, 3, 4, 5, 6},
         {1, 1, 1, 1, 1, 1, 1},
         7,
         {0, 1, 2, 3, 4, 5, 6},
         {9363, 9363, 9362, 9362, 9362, 9362, 9362}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t tokens[8], weights[8];
        memset(tokens, 0xAA, sizeof tokens);
        memset(weights, 0xAA, sizeof weights);
        or_distribution_t dist = dist_of(cases[i].ids, cases[i].parts, cases[i].count);
        uint32_t kept = or_distribution_reduce(&dist, cases[i].entries, tokens, weights);
        assert_int_equal(kept, cases[i].kept);
        assert_memory_equal(tokens, cases[i].tokens, kept * sizeof *tokens);
        assert_memory_equal(weights, cases[i].weights, kept * sizeof *weights);
        for (uint32_t k = cases[i].entries; k < 8; k++) { // nothing is written behind the room
            assert_int_equal(tokens[k], 0xAAAAAAAA);
            assert_int_equal(weights[k], 0xAAAAAAAA);
        }
    }
}

// Check a random distribution's reduction: the right tokens, each within a unit of its share.
static void assert_reduced(const or_distribution_t *dist, uint32_t entries,
                           const or_reduced_distribution_t *reduced)
{
    long double total = 0;
    uint32_t better_kept = 0;
    bool best[TOKENS] = {false};
    for (uint32_t i = 0; i < dist->count; i++) {
        uint32_t above = 0;
        for (uint32_t k = 0; k < dist->count; k++) {
            above += dist->scores[k] > dist->scores[i] ||
                     (dist->scores[k] == dist->scores[i] && dist->ids[k] < dist->ids[i]);
        }
        best[i] = above < entries;
        total += best[i] ? expl(dist->scores[i]) : 0;
    }
    for (uint32_t i = 0; i < dist->count; i++) {
        uint32_t at = or_distribution_find(reduced, (uint32_t)dist->ids[i]);
        if (!best[i]) {
            assert_int_equal(at, reduced->count);
            continue;
        }
        long double share = expl(dist->scores[i]) / total * OR_DISTRIBUTION_TOTAL;
        long double weight = at < reduced->count ? reduced->weights[at] : 0;
        assert_true(fabsl(weight - share) < 1.0000001L);
        better_kept += at < reduced->count;
    }
    assert_int_equal(better_kept, reduced->count); // and nothing else
}

static void random_distributions_keep_their_shares(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    int32_t ids[TOKENS];
    double scores[TOKENS];
    uint32_t tokens[OR_DISTRIBUTION_ENTRIES_MAX], weights[OR_DISTRIBUTION_ENTRIES_MAX];
    for (int t = 0; t < DISTS; t++) {
        static const uint32_t sizes[] = {1, 2, 5, 32, OR_DISTRIBUTION_ENTRIES_MAX};
        uint32_t entries = sizes[test_below(&random, 5)];
        uint32_t count = 1 + (uint32_t)test_below(&random, TOKENS);
        double spread = t % 3 == 0 ? 0 : t % 3 == 1 ? 3 : 30; // flat, usual, steep
        for (uint32_t i = 0; i < count; i++) {
            ids[i] = (int32_t)((i * 7 + 3) % TOKENS); // not in order; 7 and 400 coprime
            scores[i] = spread * floor(20 * test_uniform(&random)) / 20; // with ties
        }
        const or_distribution_t dist = {.ids = ids, .scores = scores, .count = count};
        const or_reduced_distribution_t reduced = {
            tokens, weights, or_distribution_reduce(&dist, entries, tokens, weights)};
        if (or_distribution_check(&reduced, TOKENS) != OR_OK) {
            fail_msg("%s", or_error_text());
        }
        assert_true(reduced.count <= entries);
        assert_reduced(&dist, entries, &reduced);
    }
}

static void what_is_no_distribution_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        uint32_t tokens[3], weights[3];
        const char *reason; // NULL: it is one
    } cases[] = {
        {3, {0, 4, 9}, {1, 65534, 1}, NULL},
        {1, {9}, {65536}, NULL},
        {0, {0}, {0}, "a distribution of 0 tokens"},
        {1, {10}, {65536}, "token 10 outside the vocabulary of 10"},
        {1, {UINT32_MAX}, {65536}, "outside the vocabulary"},
        {3, {0, 9, 4}, {1, 65534, 1}, "ascend"},
        {3, {0, 4, 4}, {1, 65534, 1}, "ascend"},
        {3, {0, 4, 9}, {1, 65535, 0}, "token 9 no weight"},
        {3, {0, 4, 9}, {1, 65533, 1}, "add up to 65535"},
        {3, {0, 4, 9}, {1, 65535, 1}, "add up to 65537"},
        // Added in 32 bits these would give 65,536.
        {2, {0, 4}, {0x80000000, 0x80010000}, "add up to 4295032832"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const or_reduced_distribution_t dist = {cases[i].tokens, cases[i].weights, cases[i].count};
        bool good = cases[i].reason == NULL;
        assert_int_equal(or_distribution_check(&dist, 10), good ? OR_OK : OR_ERR_INVALID);
        assert_true(good || strstr(or_error_text(), cases[i].reason) != NULL);
    }
    uint32_t tokens[OR_DISTRIBUTION_ENTRIES_MAX + 1], weights[OR_DISTRIBUTION_ENTRIES_MAX + 1];
    for (uint32_t i = 0; i <= OR_DISTRIBUTION_ENTRIES_MAX; i++) {
        tokens[i] = i;
        weights[i] = i < OR_DISTRIBUTION_ENTRIES_MAX
                         ? OR_DISTRIBUTION_TOTAL / OR_DISTRIBUTION_ENTRIES_MAX
                         : 0;
    }
    const or_reduced_distribution_t most = {tokens, weights, OR_DISTRIBUTION_ENTRIES_MAX};
    const or_reduced_distribution_t over = {tokens, weights, OR_DISTRIBUTION_ENTRIES_MAX + 1};
    assert_int_equal(or_distribution_check(&most, 1000), OR_OK);
    assert_int_equal(or_distribution_check(&over, 1000), OR_ERR_INVALID);
}

static void tokens_are_found(void **state)
{
    (void)state;
    uint32_t tokens[40], weights[40];
    for (uint32_t count = 0; count <= 40; count++) {
        for (uint32_t i = 0; i < count; i++) {
            tokens[i] = 3 * i + 1;
            weights[i] = 1;
        }
        const or_reduced_distribution_t dist = {tokens, weights, count};
        for (uint32_t token = 0; token < 3 * count + 5; token++) {
            bool there = token % 3 == 1 && token / 3 < count;
            assert_int_equal(or_distribution_find(&dist, token), there ? token / 3 : count);
        }
        assert_int_equal(or_distribution_find(&dist, UINT32_MAX), count);
    }
}

static void what_is_left_adds_up(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {2, 3, 5};
    static const uint32_t weights[] = {1, 65000, 535};
    const or_reduced_distribution_t dist = {tokens, weights, 3};
    or_distribution_left_t left;
    or_distribution_left_init(&left, &dist);
    assert_true(left.total == OR_DISTRIBUTION_TOTAL);
    or_distribution_left_remove(&left, 1);
    assert_true(left.total == 536 && left.weights[1] == 0);
    assert_true(left.weights[0] == 1 && left.weights[2] == 535);
    or_distribution_left_remove(&left, 1); // its weight is 0 by now
    assert_true(left.total == 536);
    or_distribution_left_remove(&left, 0);
    or_distribution_left_remove(&left, 2);
    assert_true(left.total == 0);
    assert_ptr_equal(left.dist.tokens, tokens);
    assert_int_equal(weights[1], 65000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apportionment_by_hand),
        cmocka_unit_test(random_distributions_keep_their_shares),
        cmocka_unit_test(what_is_no_distribution_is_refused),
        cmocka_unit_test(tokens_are_found),
        cmocka_unit_test(what_is_left_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
