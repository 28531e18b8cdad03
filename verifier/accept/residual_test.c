// Goal: the residual is N[[M - S]+], distribution after distribution, for every token: those that some distribution had and the
// many that none had.
// Method: against a plain reference that keeps the whole distribution in long double and divides;
// the distribution that is drawn from is read back by taking every draw in turn. Then the edges:
// nothing left, nothing in common, buffers that are overwritten, exact fractions.
#include "verifier/accept/residual.h"

#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"

#define VOCAB 600 // three blocks of tokens that share a sum
#define RUNS 40
#define DISTS_MAX 4
#define TOLERANCE 1e-9L
#define CLEAR 1e-3L // a remainder smaller than this would magnify what rounding did before

// Answers each draw as planned, or with the next answer that is possible.
typedef struct {
    or_chooser_t chooser;
    uint32_t answers[2], choices[2]; // an answer is below `choices`
    uint32_t asked;
    long double probability; // of these answers
} script_t;

static uint32_t scripted_draw(or_chooser_t *chooser, or_choice_t at, const double *weights,
                              uint32_t count)
{
    script_t *script = (script_t *)chooser;
    uint32_t call = script->asked++;
    long double total = 0;
    assert_true(call < 2 && count <= VOCAB + 1);
    assert_int_equal(at.node, 3);
    assert_int_equal(at.draw, call); // no choice is taken twice
    for (uint32_t i = 0; i < count; i++) {
        assert_true(weights[i] >= 0);
        total += weights[i];
        script->choices[call] = weights[i] > 0 ? i + 1 : script->choices[call];
    }
    while (weights[script->answers[call]] == 0) {
        script->answers[call]++;
        assert_true(script->answers[call] < count);
    }
    script->probability *= weights[script->answers[call]] / total;
    return script->answers[call];
}

// Find what would be drawn, and with what probability: every answer to the first question, and every one to the
// second if there is one.
static void read_back(or_residual_t *residual, long double drawn[VOCAB])
{
    const or_choice_t at = {OR_RNG_RESIDUAL, 3, 0};
    script_t script = {.chooser = {.draw = scripted_draw}, .choices = {1, 1}};
    uint32_t *answers = script.answers;
    memset(drawn, 0, VOCAB * sizeof *drawn);
    for (answers[0] = 0; answers[0] < script.choices[0]; answers[0]++) {
        script.choices[1] = 1;
        for (answers[1] = 0; answers[1] < script.choices[1]; answers[1]++) {
            script.asked = 0;
            script.probability = 1;
            int32_t token = or_residual_draw(residual, &script.chooser, at);
            assert_true(token >= 0 && token < VOCAB);
            drawn[token] += script.probability;
        }
    }
}

// ---- the reference: one number a token, always normalised ----

static long double normalise(long double m[VOCAB])
{
    long double total = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += m[i];
    }
    for (uint32_t i = 0; i < VOCAB && total > 0; i++) {
        m[i] /= total;
    }
    return total;
}

static long double dense_subtract(long double m[VOCAB], const or_distribution_left_t *s)
{
    for (uint32_t i = 0; i < s->dist.count; i++) {
        long double left = m[s->dist.tokens[i]] - (long double)s->weights[i] / s->total;
        m[s->dist.tokens[i]] = left > 0 ? left : 0;
    }
    return normalise(m);
}

static void assert_distribution(or_residual_t *residual, const long double expected[VOCAB])
{
    long double drawn[VOCAB];
    read_back(residual, drawn);
    for (uint32_t i = 0; i < VOCAB; i++) {
        if (!(fabsl(drawn[i] - expected[i]) < TOLERANCE)) {
            fail_msg("token %u: %.12Lf instead of %.12Lf", i, drawn[i], expected[i]);
        }
    }
}

// ---- random cases ----

typedef struct {
    int32_t ids[VOCAB];
    double scores[VOCAB], weights[VOCAB];
    or_distribution_t dist;
} target_t;

// A distribution over `support` tokens in random order: filters leave them unsorted.
static void random_target(uint64_t *random, uint32_t support, target_t *q)
{
    int32_t all[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) {
        all[i] = i;
    }
    for (uint32_t i = 0; i < support; i++) {
        uint32_t other = i + (uint32_t)test_below(random, VOCAB - i);
        q->ids[i] = all[other];
        all[other] = all[i];
        q->weights[i] = exp(-5 * test_uniform(random));
        q->scores[i] = 0;
    }
    q->dist = (or_distribution_t){q->ids, q->scores, q->weights, support};
}

static void dense_of(const target_t *q, long double m[VOCAB])
{
    memset(m, 0, VOCAB * sizeof *m);
    for (uint32_t i = 0; i < q->dist.count; i++) {
        m[q->ids[i]] = q->weights[i];
    }
    normalise(m);
}

typedef struct {
    uint32_t tokens[VOCAB], weights[VOCAB];
    or_distribution_left_t left;
} guesses_t;

static void random_guesses(uint64_t *random, guesses_t *s)
{
    uint32_t count = 0;
    uint32_t support = 1 + (uint32_t)test_below(random, 12);
    uint32_t rest = OR_DISTRIBUTION_TOTAL;
    for (uint32_t token = 0; token < VOCAB && count < support; token++) {
        if (test_below(random, 4) == 0) {
            s->tokens[count] = token;
            s->weights[count] = 1 + (uint32_t)test_below(random, 5000);
            rest -= s->weights[count++];
        }
    }
    if (count == 0) {
        s->tokens[count++] = VOCAB - 1;
        s->weights[0] = 0;
    }
    s->weights[test_below(random, count)] += rest;
    const or_reduced_distribution_t dist = {s->tokens, s->weights, count};
    or_distribution_left_init(&s->left, &dist);
}

static void assert_ratios(or_residual_t *residual, const long double m[VOCAB],
                          const or_distribution_left_t *s)
{
    for (uint32_t i = 0; i < s->dist.count; i++) {
        double numerator, denominator;
        if (s->weights[i] == 0) {
            continue;
        }
        or_residual_ratio(residual, s, i, &numerator, &denominator);
        assert_true(denominator > 0);
        long double expected = m[s->dist.tokens[i]] / (s->weights[i] / (long double)s->total);
        assert_true(fabsl(numerator / denominator - expected) <= TOLERANCE * (1 + expected));
        assert_true((numerator == 0) == (expected == 0));
    }
}

// Several distributions after the other at one node; some of them had tokens drawn from them before.
static void any_distributions_leave_what_the_reference_says(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_residual_t *residual;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    for (int run = 0; run < RUNS; run++) {
        target_t q;
        long double m[VOCAB];
        random_target(&random, 1 + (uint32_t)test_below(&random, VOCAB), &q);
        dense_of(&q, m);
        or_residual_open(residual, &q.dist);
        memset(&q, 0xAA, sizeof q); // a distribution lives in the sampler, which is used again
        assert_distribution(residual, m);
        for (int k = 0; k < DISTS_MAX; k++) {
            guesses_t s;
            random_guesses(&random, &s);
            if (k % 2 == 1 && s.left.dist.count > 1) {
                or_distribution_left_remove(&s.left,
                                            (uint32_t)test_below(&random, s.left.dist.count));
            }
            assert_ratios(residual, m, &s.left);
            or_residual_subtract(residual, &s.left);
            if (dense_subtract(m, &s.left) < CLEAR) {
                break;
            }
            assert_distribution(residual, m);
        }
    }
    or_residual_destroy(&residual);
    assert_null(residual);
    or_residual_destroy(&residual);
}

// The recursive rule's sequence: one distribution, its tokens taken out one by one until nothing is left.
static void a_distribution_is_used_up_token_by_token(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_residual_t *residual;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    for (int run = 0; run < RUNS; run++) {
        target_t q;
        guesses_t s;
        long double m[VOCAB];
        random_target(&random, 2 + (uint32_t)test_below(&random, VOCAB - 2), &q);
        random_guesses(&random, &s);
        dense_of(&q, m);
        or_residual_open(residual, &q.dist);
        for (uint32_t i = 0; i < s.left.dist.count; i++) {
            assert_ratios(residual, m, &s.left);
            or_residual_subtract(residual, &s.left);
            if (dense_subtract(m, &s.left) < CLEAR) {
                break;
            }
            assert_distribution(residual, m);
            or_distribution_left_remove(&s.left, i);
        }
    }
    or_residual_destroy(&residual);
}

// A rule's own account: the distribution's tokens in other proportions, all others times one factor; also
// after another distribution's tokens were kept one by one.
static void an_account_is_split_and_joined(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_residual_t *residual;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    for (int run = 0; run < RUNS; run++) {
        target_t q;
        guesses_t before, s;
        long double m[VOCAB], total = 0;
        double weights[OR_DISTRIBUTION_ENTRIES_MAX];
        random_target(&random, 1 + (uint32_t)test_below(&random, VOCAB), &q);
        random_guesses(&random, &before);
        random_guesses(&random, &s);
        dense_of(&q, m);
        or_residual_open(residual, &q.dist);
        if (run % 2 == 1) {
            or_residual_subtract(residual, &before.left);
            dense_subtract(m, &before.left);
        }
        double others = or_residual_split(residual, &s.left.dist, weights);
        long double share = 1; // of the others
        for (uint32_t i = 0; i < s.left.dist.count; i++) {
            total += weights[i];
            share -= m[s.left.dist.tokens[i]];
        }
        assert_true(fabsl(others / (others + total) - share) < TOLERANCE);
        for (uint32_t id = 0; id < VOCAB; id++) {
            m[id] *= 0.25L;
        }
        for (uint32_t i = 0; i < s.left.dist.count; i++) {
            weights[i] *= i;
            m[s.left.dist.tokens[i]] *= 4 * i;
        }
        or_residual_join(residual, &s.left.dist, weights, 0.25);
        if (normalise(m) > CLEAR) {
            assert_distribution(residual, m);
        }
    }
    or_residual_destroy(&residual);
}

// ---- edges ----

static or_distribution_left_t left_of(const uint32_t *tokens, const uint32_t *weights,
                                      uint32_t count)
{
    or_distribution_left_t left;
    const or_reduced_distribution_t dist = {tokens, weights, count};
    or_distribution_left_init(&left, &dist);
    return left;
}

static void fractions_are_exact(void **state)
{
    (void)state;
    static const int32_t ids[] = {9, 4, 7};
    static const double weights[] = {0.5, 1, 0.5}; // 1/4 1/2 1/4
    static const uint32_t tokens[] = {4, 8, 9}, shares[] = {49152, 8192, 8192};
    const or_distribution_t q = {.ids = ids, .weights = weights, .count = 3};
    or_distribution_left_t s = left_of(tokens, shares, 3);
    double numerator, denominator;
    or_residual_t *residual;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    or_residual_open(residual, &q);
    or_residual_ratio(residual, &s, 0, &numerator, &denominator); // (1/2) / (3/4)
    assert_true(3 * numerator == 2 * denominator);
    or_residual_ratio(residual, &s, 1, &numerator, &denominator); // the target never says 8
    assert_true(numerator == 0 && denominator > 0);
    or_residual_ratio(residual, &s, 2, &numerator, &denominator); // (1/4) / (1/8)
    assert_true(numerator == 2 * denominator);
    or_residual_subtract(residual, &s); // 1/8 of 9 and 1/4 of 7 are left: 1/3 and 2/3
    or_distribution_left_remove(&s, 0); // 8 and 9, one half each
    or_residual_ratio(residual, &s, 2, &numerator, &denominator);
    assert_true(3 * numerator == 2 * denominator);
    or_residual_destroy(&residual);
}

// M and S the same: nothing is left, and M is q again, whatever happened before.
static void nothing_left_is_q_again(void **state)
{
    (void)state;
    static const int32_t ids[] = {5, 1, 2};
    static const double weights[] = {1, 0.5, 0.5};
    static const uint32_t same_tokens[] = {1, 2, 5}, same[] = {16384, 16384, 32768};
    static const uint32_t other[] = {3}, one[] = {1}, five[] = {5}, all[] = {65536};
    static const uint32_t most_tokens[] = {1, 2}, most[] = {32768, 32768};
    long double m[VOCAB] = {[1] = 0.25L, [2] = 0.25L, [5] = 0.5L};
    const or_distribution_t q = {.ids = ids, .weights = weights, .count = 3};
    const or_distribution_left_t equal = left_of(same_tokens, same, 3);
    const or_distribution_left_t elsewhere = left_of(other, all, 1);
    const or_distribution_left_t on_one = left_of(one, all, 1);
    const or_distribution_left_t on_five = left_of(five, all, 1);
    const or_distribution_left_t the_small = left_of(most_tokens, most, 2);
    or_residual_t *residual;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    or_residual_open(residual, &q);
    or_residual_subtract(residual, &equal);
    assert_distribution(residual, m);
    or_residual_subtract(residual, &elsewhere); // takes nothing
    assert_distribution(residual, m);
    or_residual_subtract(residual, &equal);
    assert_distribution(residual, m);
    or_residual_open(residual, &q);
    or_residual_subtract(residual, &the_small); // only 5 is left ...
    or_residual_subtract(residual, &on_five);   // ... and now nothing
    assert_distribution(residual, m);
    or_residual_open(residual, &q);
    or_residual_subtract(residual,
                         &on_one); // 2 and 5 are left, 1/3 and 2/3, and no distribution had them
    long double two_and_five[VOCAB] = {[2] = 1 / 3.0L, [5] = 2 / 3.0L};
    assert_distribution(residual, two_and_five);
    or_residual_subtract(residual, &on_five);
    or_residual_subtract(residual, &the_small); // of 2, a half
    long double two[VOCAB] = {[2] = 1};
    assert_distribution(residual, two);
    or_residual_destroy(&residual);
}

// Many rejections: what is left stays a number, however often it is scaled.
static void long_sequences_stay_finite(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3};
    static const double weights[] = {1, 1e-300, 0.9, 1e-12};
    static const uint32_t tokens[] = {1, 2, 9}, shares[] = {1, 65534, 1};
    const or_distribution_t q = {.ids = ids, .weights = weights, .count = 4};
    const or_distribution_left_t s = left_of(tokens, shares, 3);
    or_residual_t *residual;
    long double drawn[VOCAB];
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    or_residual_open(residual, &q);
    for (int i = 0; i < 2000; i++) {
        or_residual_subtract(residual, &s);
    }
    read_back(residual, drawn);
    assert_true(fabsl(drawn[0] + drawn[3] - 1) < TOLERANCE);
    assert_true(fabsl(drawn[3] / drawn[0] - 1e-12L) < 1e-20L);
    or_residual_destroy(&residual);
}

// A distribution over a larger vocabulary takes from M what it has there, and only there.
static void tokens_beyond_the_vocabulary_have_no_share(void **state)
{
    (void)state;
    static const int32_t ids[] = {3, 1, 2};
    static const double weights[] = {8, 4, 4}; // 1/2, 1/4, 1/4
    static const uint32_t tokens[] = {1, 3, VOCAB, UINT32_MAX};
    static const uint32_t shares[] = {8192, 16384, 24576, 16384}; // 1/8, 1/4, 3/8, 1/4
    const or_distribution_t q = {.ids = ids, .weights = weights, .count = 3};
    or_distribution_left_t s = left_of(tokens, shares, 4);
    or_residual_t *residual;
    double numerator, denominator, account[4];
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    or_residual_open(residual, &q);
    or_residual_ratio(residual, &s, 2, &numerator, &denominator);
    assert_true(numerator == 0 && denominator > 0);
    or_residual_ratio(residual, &s, 1, &numerator, &denominator);
    assert_true(numerator == 2 * denominator);
    or_residual_subtract(residual, &s);
    long double first[VOCAB] = {[1] = 1.0L / 5, [2] = 2.0L / 5, [3] = 2.0L / 5};
    assert_distribution(residual, first);
    or_distribution_left_remove(&s, 2); // drawn without replacement: 1/5, 2/5, -, 2/5
    or_residual_subtract(residual, &s);
    long double second[VOCAB] = {[2] = 1};
    assert_distribution(residual, second);
    or_residual_open(residual, &q);
    double others = or_residual_split(residual, &s.dist, account);
    assert_true(others == account[0] && account[1] == 2 * others);
    assert_true(account[2] == 0 && account[3] == 0);
    or_residual_destroy(&residual);
}

static void strings_take_their_share_of_q(void **state)
{
    (void)state;
    static const int32_t ids[] = {VOCAB - 1, 1, 2, 0};
    static const double weights[] = {8, 4, 3, 1}; // of 16
    static const double psi[] = {0.25, 0.5, 0.0625, 0};
    static const double all[] = {0.5, 0.25, 0.1875, 0.0625};
    const or_distribution_t q = {.ids = ids, .weights = weights, .count = 4};
    or_residual_t *residual;
    double numerator, denominator;
    assert_int_equal(or_residual_create(VOCAB, &residual), OR_OK);
    or_residual_open_beyond(residual, &q, psi);
    long double left[VOCAB] = {[VOCAB - 1] = 4.0L / 7, [2] = 2.0L / 7, [0] = 1.0L / 7};
    assert_distribution(residual, left);
    or_residual_open_beyond(residual, &q, all); // nothing is left
    long double whole[VOCAB] = {[VOCAB - 1] = 0.5L, [1] = 0.25L, [2] = 0.1875L, [0] = 0.0625L};
    assert_distribution(residual, whole);
    or_residual_open(residual, &q);
    or_residual_share(residual, 2, &numerator, &denominator);
    assert_true(numerator * 16 == denominator * 3);
    or_residual_share(residual, 3, &numerator, &denominator); // not of q
    assert_true(numerator == 0 && denominator > 0);
    or_residual_share(residual, VOCAB, &numerator, &denominator);
    assert_true(numerator == 0 && denominator > 0);
    or_residual_destroy(&residual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_distributions_leave_what_the_reference_says),
        cmocka_unit_test(a_distribution_is_used_up_token_by_token),
        cmocka_unit_test(an_account_is_split_and_joined),
        cmocka_unit_test(fractions_are_exact),
        cmocka_unit_test(nothing_left_is_q_again),
        cmocka_unit_test(long_sequences_stay_finite),
        cmocka_unit_test(tokens_beyond_the_vocabulary_have_no_share),
        cmocka_unit_test(strings_take_their_share_of_q),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
