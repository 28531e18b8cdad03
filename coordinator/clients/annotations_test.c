// Goal: what is known of each token comes back for any part of a text, whatever was asked of it and however long it is; nothing
// is invented; and a verifier's logprobs are taken only if they can be ones.
// Method: annotations of many tokens, compared one by one; verdicts that are wrong in every way there is.
#include <math.h>

#include "coordinator/clients/annotations.h"
#include "tests/support/test_support.h"

#define TOKENS 300u
#define BEST 3u

// The i-th token's, with fewer than the best that may be asked for now and then.
static or_token_logprob_t logprob_at(uint32_t i, uint32_t tops[BEST], float logprobs[BEST])
{
    for (uint32_t k = 0; k < BEST; k++) {
        tops[k] = 10 * i + k;
        logprobs[k] = -(float)(i + k);
    }
    return (or_token_logprob_t){.token = i,
                                .logprob = -(float)i / 2,
                                .top_tokens = tops,
                                .top_logprobs = logprobs,
                                .top_count = i % (BEST + 1)};
}

static or_annotations_t fill(bool details, uint32_t asked)
{
    or_annotations_t annotations;
    uint32_t tops[BEST];
    float logprobs[BEST];
    or_annotations_init(&annotations, details, asked);
    for (uint32_t i = 0; i < TOKENS; i++) {
        const or_token_logprob_t logprob = logprob_at(i, tops, logprobs);
        assert_int_equal(or_annotations_add(&annotations, i % 3 == 0, 4 * i, &logprob), OR_OK);
    }
    return annotations;
}

static void assert_logprob_is(const or_token_logprob_t *logprob, uint32_t i)
{
    uint32_t tops[BEST];
    float logprobs[BEST];
    const or_token_logprob_t expected = logprob_at(i, tops, logprobs);
    assert_int_equal(logprob->token, i);
    assert_true(logprob->logprob == expected.logprob);
    assert_int_equal(logprob->top_count, expected.top_count);
    for (uint32_t k = 0; k < expected.top_count; k++) {
        assert_int_equal(logprob->top_tokens[k], tops[k]);
        assert_true(logprob->top_logprobs[k] == logprobs[k]);
    }
}

static void any_part_of_a_text_has_them(void **state)
{
    (void)state;
    or_annotations_t annotations = fill(true, BEST + 1);
    for (uint32_t offset = 0; offset < TOKENS; offset += 7) {
        or_generate_delta_t delta = {0};
        uint32_t count = TOKENS - offset < 20 ? TOKENS - offset : 20;
        or_annotations_put(&annotations, offset, count, &delta);
        assert_int_equal(delta.origin_count, count);
        assert_int_equal(delta.token_end_count, count);
        assert_int_equal(delta.logprob_count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(delta.origins[i], (offset + i) % 3 == 0);
            assert_int_equal(delta.token_ends[i], 4 * (offset + i));
            assert_logprob_is(&delta.logprobs[i], offset + i);
        }
    }
    or_annotations_fini(&annotations);
}

static void what_was_not_asked_for_is_not_kept(void **state)
{
    (void)state;
    or_generate_delta_t delta = {0};
    or_annotations_t annotations = fill(false, 0);
    or_annotations_put(&annotations, 0, TOKENS, &delta);
    assert_int_equal(annotations.capacity, 0);
    assert_int_equal(delta.origin_count + delta.token_end_count + delta.logprob_count, 0);
    or_annotations_fini(&annotations);
    annotations = fill(true, 0);
    or_annotations_put(&annotations, 0, TOKENS, &delta);
    assert_int_equal(delta.origin_count, TOKENS);
    assert_int_equal(delta.logprob_count, 0);
    assert_null(annotations.logprobs);
    or_annotations_fini(&annotations);
    delta = (or_generate_delta_t){0};
    or_annotations_init(&annotations, false, 1); // the tokens' own alone
    const or_token_logprob_t own = {.token = 7, .logprob = -1};
    assert_int_equal(or_annotations_add(&annotations, false, 0, &own), OR_OK);
    or_annotations_put(&annotations, 0, 1, &delta);
    assert_int_equal(delta.logprob_count, 1);
    assert_int_equal(delta.logprobs[0].top_count, 0);
    assert_int_equal(delta.origin_count, 0);
    or_annotations_fini(&annotations);
}

static void what_is_not_known_is_not_invented(void **state)
{
    (void)state;
    or_annotations_t annotations;
    const or_token_logprob_t known = {.token = 5, .logprob = -INFINITY};
    or_annotations_init(&annotations, false, 1);
    assert_int_equal(or_annotations_add(&annotations, false, 1, NULL), OR_OK);
    assert_int_equal(or_annotations_add(&annotations, false, 2, &known), OR_OK);
    or_generate_delta_t delta = {0};
    or_annotations_put(&annotations, 0, 2, &delta);
    assert_int_equal(delta.logprob_count, 0);
    or_annotations_put(&annotations, 1, 1, &delta);
    assert_int_equal(delta.logprob_count, 1);
    or_generate_delta_t beyond = {0}; // a client that has more than we
    or_annotations_put(&annotations, 1, 2, &beyond);
    assert_int_equal(beyond.logprob_count, 0);
    or_annotations_fini(&annotations);
}

static void ends_keep_to_the_text(void **state)
{
    (void)state;
    or_annotations_t annotations;
    or_generate_delta_t delta = {0};
    or_annotations_init(&annotations, true, 0);
    for (uint64_t end = 4; end <= 20; end += 4) {
        assert_int_equal(or_annotations_add(&annotations, false, end, NULL), OR_OK);
    }
    or_annotations_finish(&annotations, 10); // cut by a stop string
    or_annotations_put(&annotations, 0, 5, &delta);
    const uint64_t cut[] = {4, 8, 10, 10, 10};
    assert_memory_equal(delta.token_ends, cut, sizeof cut);
    or_annotations_finish(&annotations, 12); // bytes that were held back
    assert_int_equal(delta.token_ends[4], 12);
    or_annotations_fini(&annotations);
}

static void a_verdict_is_checked(void **state)
{
    (void)state;
    static const uint32_t tree[] = {7, 8, 9};
    static const uint32_t path[] = {1, 3};
    static const uint32_t tops[] = {7, 4096};
    static const float fine[] = {-0.5F, -INFINITY};
    static const float wrong[] = {-0.5F, NAN};
    or_token_logprob_t logprobs[] = {
        {.token = 7, .logprob = -1, .top_tokens = tops, .top_logprobs = fine, .top_count = 1},
        {.token = 9, .logprob = -INFINITY},
        {.token = 5, .logprob = 0}};
    or_verdict_t verdict = {
        .accepted = path, .accepted_count = 2, .next = 5, .logprobs = logprobs, .logprob_count = 3};
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4096), OR_OK);
    assert_int_equal(or_annotations_check(0, &verdict, tree, 4096), OR_ERR_MISMATCH);
    assert_int_equal(or_annotations_check(1, &verdict, tree, 4096), OR_ERR_MISMATCH); // no best
    verdict.logprob_count = 2;
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4096), OR_ERR_MISMATCH);
    verdict.logprob_count = 0;
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4096), OR_OK);
    verdict.logprob_count = 3;
    logprobs[0].top_count = 2; // an id that is none
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4096), OR_ERR_MISMATCH);
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4097), OR_OK);
    logprobs[0].top_logprobs = wrong;
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4097), OR_ERR_MISMATCH);
    logprobs[0].top_count = 0;
    logprobs[1].token = 8; // of another node
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4097), OR_ERR_MISMATCH);
    logprobs[1].token = 9;
    logprobs[2].logprob = INFINITY;
    assert_int_equal(or_annotations_check(3, &verdict, tree, 4097), OR_ERR_MISMATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_of_a_text_has_them),
        cmocka_unit_test(what_was_not_asked_for_is_not_kept),
        cmocka_unit_test(what_is_not_known_is_not_invented),
        cmocka_unit_test(ends_keep_to_the_text),
        cmocka_unit_test(a_verdict_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
