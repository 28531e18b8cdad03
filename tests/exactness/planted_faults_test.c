// Goal: our tests would notice the three mistakes in keying the noise that are easy to make and
// hard to see in the text.
// Method: use detectors that take the noise function as a parameter. All must accept the correct
// one. Each planted fault must be noticed by the detector made for it: noise used twice, a noise
// key without the duplicate rank, noise keyed by token index.
#include <math.h>
#include <string.h>

#include "common/decode/sampling/noise.h"
#include "tests/exactness/chi_square.h"
#include "tests/exactness/tiny_vocab.h"
#include "tests/support/test_support.h"

#define DRAWS 20000
#define SHARED_MIN 500 // strings that the two demonstration vocabularies have in common, at least

typedef double (*noise_t)(or_rng_key_t key, or_noise_place_t place, const or_vocab_t *vocab,
                          int32_t id);

static double right_noise(or_rng_key_t key, or_noise_place_t place, const or_vocab_t *vocab,
                          int32_t id)
{
    return or_noise_gumbel(key, place, or_vocab_noise_keys(vocab)[id]);
}

// ---- the faults ----

// This noise ignores the place: every position of a completion gets the same noise.
static double noise_used_twice(or_rng_key_t key, or_noise_place_t place, const or_vocab_t *vocab,
                               int32_t id)
{
    (void)place;
    return right_noise(key, (or_noise_place_t){0, 0}, vocab, id);
}

// This noise is keyed only by what the token prints: tokens that print the same share their
// noise.
static double noise_without_rank(or_rng_key_t key, or_noise_place_t place, const or_vocab_t *vocab,
                                 int32_t id)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, id, &length);
    uint64_t token_key = (uint64_t)or_vocab_kind(vocab, id);
    if (or_vocab_kind(vocab, id) == OR_TOKEN_SPECIAL) {
        bytes = or_vocab_piece(vocab, id, &length);
    }
    for (uint32_t i = 0; i < length; i++) {
        token_key = or_rng_key(token_key, (unsigned char)bytes[i]).value;
    }
    return or_noise_gumbel(key, place, token_key);
}

static double noise_by_index(or_rng_key_t key, or_noise_place_t place, const or_vocab_t *vocab,
                             int32_t id)
{
    (void)vocab;
    return or_noise_gumbel(key, place, (uint64_t)id);
}

// ---- the detectors: true if nothing is wrong ----

static const double scores[TINY_VOCAB_SIZE] = {-3, -2.5, -2, 0, -0.5, -1, -1.5, -0.2, -0.9, -1.2};

static double probability(uint32_t id)
{
    double total = 0;
    for (uint32_t i = 0; i < TINY_VOCAB_SIZE; i++) {
        total += exp(scores[i]);
    }
    return exp(scores[id]) / total;
}

static uint32_t draw(noise_t noise, const or_vocab_t *vocab, uint64_t seed, or_noise_place_t place)
{
    uint32_t best_id = 0;
    double best = -INFINITY;
    for (uint32_t id = 0; id < TINY_VOCAB_SIZE; id++) {
        double score = scores[id] + noise(or_noise_key(seed, 0), place, vocab, (int32_t)id);
        if (score > best) {
            best = score;
            best_id = id;
        }
    }
    return best_id;
}

// Do draws at one place, over many seeds, have the distribution?
static bool draws_fit_the_distribution(noise_t noise, const or_vocab_t *vocab)
{
    uint32_t observed[TINY_VOCAB_SIZE] = {0};
    double expected[TINY_VOCAB_SIZE];
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        observed[draw(noise, vocab, seed, (or_noise_place_t){40, 0})]++;
    }
    for (uint32_t id = 0; id < TINY_VOCAB_SIZE; id++) {
        expected[id] = DRAWS * probability(id);
    }
    chi_square_t test = {0, 0};
    chi_square_add(&test, observed, expected, TINY_VOCAB_SIZE);
    return chi_square_fits(&test);
}

// Do pairs of draws, the second after a token of `width` bytes, have the product distribution?
static bool neighbours_are_independent(noise_t noise, const or_vocab_t *vocab, uint32_t width)
{
    uint32_t observed[TINY_VOCAB_SIZE * TINY_VOCAB_SIZE] = {0};
    double expected[TINY_VOCAB_SIZE * TINY_VOCAB_SIZE];
    or_noise_place_t first = {7, 0};
    or_noise_place_t second = or_noise_advance(first, width);
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        uint32_t a = draw(noise, vocab, seed, first);
        uint32_t b = draw(noise, vocab, seed, second);
        observed[a * TINY_VOCAB_SIZE + b]++;
    }
    for (uint32_t i = 0; i < TINY_VOCAB_SIZE * TINY_VOCAB_SIZE; i++) {
        expected[i] = DRAWS * probability(i / TINY_VOCAB_SIZE) * probability(i % TINY_VOCAB_SIZE);
    }
    chi_square_t test = {0, 0};
    chi_square_add(&test, observed, expected, TINY_VOCAB_SIZE * TINY_VOCAB_SIZE);
    return chi_square_fits(&test);
}

// Return the token of `vocab` that is text and prints these bytes; OR_TOKEN_NONE if there is
// none.
static int32_t find_text(const or_vocab_t *vocab, const char *bytes, uint32_t length)
{
    for (int32_t id = 0; id < (int32_t)or_vocab_size(vocab); id++) {
        uint32_t other_length;
        const char *other = or_vocab_bytes(vocab, id, &other_length);
        if (or_vocab_kind(vocab, id) == OR_TOKEN_TEXT && other_length == length &&
            memcmp(other, bytes, length) == 0) {
            return id;
        }
    }
    return OR_TOKEN_NONE;
}

// Do two vocabularies have the same noise for every string that is a token in both?
static bool vocabularies_share_noise(noise_t noise, const or_vocab_t *a, const or_vocab_t *b)
{
    or_rng_key_t key = or_noise_key(5, 0);
    or_noise_place_t place = {12, 1};
    uint32_t shared = 0;
    bool same = true;
    for (int32_t id = 0; id < (int32_t)or_vocab_size(a); id++) {
        uint32_t length;
        const char *bytes = or_vocab_bytes(a, id, &length);
        int32_t twin =
            or_vocab_kind(a, id) == OR_TOKEN_TEXT ? find_text(b, bytes, length) : OR_TOKEN_NONE;
        if (twin != OR_TOKEN_NONE) {
            shared++;
            same = same && noise(key, place, a, id) == noise(key, place, b, twin);
        }
    }
    assert_true(shared >= SHARED_MIN);
    return same;
}

// ---- tests ----

typedef struct {
    or_gguf_t *gguf[3];
    or_vocab_t *tiny, *spm, *bpe;
} fixture_t;

static int setup(void **state)
{
    static fixture_t f;
    *state = &f;
    tiny_vocab_open(&f.gguf[0], &f.tiny);
    return or_gguf_open(test_model("tales-1m-f16.gguf"), &f.gguf[1]) != OR_OK ||
           or_gguf_open(test_model("tales-bpe-1m-f16.gguf"), &f.gguf[2]) != OR_OK ||
           or_vocab_load(f.gguf[1], &f.spm) != OR_OK || or_vocab_load(f.gguf[2], &f.bpe) != OR_OK;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    or_vocab_destroy(&f->tiny);
    or_vocab_destroy(&f->spm);
    or_vocab_destroy(&f->bpe);
    for (int i = 0; i < 3; i++) {
        or_gguf_close(&f->gguf[i]);
    }
    return 0;
}

static void the_right_noise_passes_every_detector(void **state)
{
    const fixture_t *f = *state;
    assert_true(draws_fit_the_distribution(right_noise, f->tiny));
    assert_true(neighbours_are_independent(right_noise, f->tiny, 3));
    assert_true(neighbours_are_independent(right_noise, f->tiny, 0));
    assert_true(vocabularies_share_noise(right_noise, f->spm, f->bpe));
}

static void noise_used_twice_is_caught(void **state)
{
    const fixture_t *f = *state;
    assert_true(
        draws_fit_the_distribution(noise_used_twice, f->tiny)); // each draw alone looks right
    assert_false(neighbours_are_independent(noise_used_twice, f->tiny, 3));
    assert_false(neighbours_are_independent(noise_used_twice, f->tiny, 0));
}

static void a_key_without_the_duplicate_rank_is_caught(void **state)
{
    const fixture_t *f = *state;
    assert_false(draws_fit_the_distribution(noise_without_rank, f->tiny));
}

static void noise_keyed_by_token_index_is_caught(void **state)
{
    const fixture_t *f = *state;
    assert_true(
        draws_fit_the_distribution(noise_by_index, f->tiny)); // one vocabulary alone looks right
    assert_false(vocabularies_share_noise(noise_by_index, f->spm, f->bpe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_noise_passes_every_detector),
        cmocka_unit_test(noise_used_twice_is_caught),
        cmocka_unit_test(a_key_without_the_duplicate_rank_is_caught),
        cmocka_unit_test(noise_keyed_by_token_index_is_caught),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
