// Goal: a cache that keeps the last positions only, of layers with a window, changes no bit: in chunks, in trees, behind
// cuts and shared prefixes, on several ranks and in stages. It takes the memory that it says.
// Method: the families' small random models that have windows (family_file.h), of 64 positions. A cache that keeps whole
// texts, as these short ones have by default, is the truth; the other one keeps one position more than the windows. Texts
// are longer than both.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/families/family_file.h"
#include "tests/model/ranks_record.h"

#define VOCAB 64u
#define POSITIONS 200u
#define PREFIX 150u
#define GUESSES 4u // a chain of them, each beside one that is wrong
#define CHUNK 32u

static const char *const families[] = {"cohere2/0", "exaone4/1", "gemma2/0",
                                       "gemma3/0",  "gemma4/0",  "gemma4-shared/0",
                                       "gpt-oss/0", "phi3/0",    "gemma4-experts/1"};

#define FAMILIES (sizeof families / sizeof families[0])

static const or_kv_type_t types[] = {OR_KV_F32, OR_KV_F16, OR_KV_Q8_0};

#define TYPES (sizeof types / sizeof types[0])

typedef struct {
    model_fixture_t fixture;
    int32_t tokens[POSITIONS];
    float truth[POSITIONS * VOCAB];
} subject_t;

static void open_bounded(subject_t *subject, const char *path, or_kv_type_t type, uint32_t threads)
{
    const or_model_options_t options = {.threads = threads,
                                        .rows_max = CHUNK,
                                        .window_slack = 1,
                                        .cache_type_k = type,
                                        .cache_type_v = type};
    model_fixture_open(&subject->fixture, path, NULL, options);
    assert_true(or_kv_cache_frames(or_model_cache(subject->fixture.model)) > 0);
}

// Run positions `first` to `end` - 1 as prefix rows, and compare.
static void read_on(subject_t *subject, or_kv_sequence_t *sequence, uint32_t end, uint32_t chunk)
{
    static float logits[POSITIONS * VOCAB];
    uint32_t first = or_kv_sequence_length(sequence);
    memset(logits, 0xAA, sizeof logits);
    model_fixture_prefill(&subject->fixture, sequence, subject->tokens + first, end - first, chunk,
                          logits);
    assert_same_bits(subject->truth + (size_t)first * VOCAB, logits, (size_t)(end - first) * VOCAB);
}

static void chunks(subject_t *subject)
{
    static const uint32_t sizes[] = {1, 7, CHUNK};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 0);
        read_on(subject, sequence, POSITIONS, sizes[i]);
        or_kv_sequence_close(&sequence);
    }
}

// Rounds of a root and a tree, of which all but the last guess of the chain are accepted.
static void trees(subject_t *subject)
{
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 2 * GUESSES);
    read_on(subject, sequence, PREFIX, CHUNK);
    for (uint32_t at = PREFIX; at + GUESSES < POSITIONS; at += GUESSES) {
        or_model_row_t rows[1 + 2 * GUESSES];
        float logits[(1 + 2 * GUESSES) * VOCAB];
        uint32_t path[GUESSES];
        rows[0] = prefix_row(sequence, subject->tokens[at]);
        for (uint32_t i = 0; i < GUESSES; i++) {
            uint32_t parent = i == 0 ? OR_KV_NO_SLOT : 2 * (i - 1);
            int32_t token = subject->tokens[at + 1 + i];
            path[i] = 2 * i;
            rows[1 + 2 * i] = tree_row(sequence, token, 2 * i, parent);
            rows[2 + 2 * i] = tree_row(sequence, (token + 1) % (int32_t)VOCAB, 2 * i + 1, parent);
        }
        model_fixture_pass(&subject->fixture, rows, 1 + 2 * GUESSES, logits);
        assert_same_bits(subject->truth + (size_t)at * VOCAB, logits, VOCAB);
        for (uint32_t i = 0; i < GUESSES; i++) {
            assert_same_bits(subject->truth + (size_t)(at + 1 + i) * VOCAB,
                             logits + (size_t)(1 + 2 * i) * VOCAB, VOCAB);
        }
        assert_int_equal(or_kv_sequence_accept(sequence, path, GUESSES - 1), OR_OK);
    }
    or_kv_sequence_close(&sequence);
}

static void cuts(subject_t *subject)
{
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 0);
    read_on(subject, sequence, POSITIONS, CHUNK);
    or_kv_sequence_truncate(sequence, POSITIONS - 1);
    assert_int_equal(or_kv_sequence_length(sequence), POSITIONS - 1);
    read_on(subject, sequence, POSITIONS, CHUNK);
    or_kv_sequence_truncate(sequence, PREFIX);
    assert_int_equal(or_kv_sequence_length(sequence), 0);
    read_on(subject, sequence, POSITIONS, CHUNK);
    or_kv_sequence_close(&sequence);
}

// The donor goes on with another text, which takes the frames that it gives up.
static void shares(subject_t *subject)
{
    or_kv_sequence_t *donor = model_fixture_sequence(&subject->fixture, 0);
    or_kv_sequence_t *sharer = model_fixture_sequence(&subject->fixture, 0);
    read_on(subject, donor, POSITIONS - 5, CHUNK);
    or_kv_sequence_share(sharer, donor, POSITIONS - 5);
    assert_int_equal(or_kv_sequence_length(sharer), POSITIONS - 5);
    model_fixture_prefill(&subject->fixture, donor, subject->tokens, 40, CHUNK, NULL);
    read_on(subject, sharer, POSITIONS, 2);
    or_kv_sequence_share(sharer, donor, PREFIX);
    assert_int_equal(or_kv_sequence_length(sharer), 0);
    read_on(subject, sharer, PREFIX, CHUNK);
    or_kv_sequence_close(&donor);
    read_on(subject, sharer, POSITIONS, CHUNK);
    or_kv_sequence_close(&sharer);
}

static void check(const char *path, or_kv_type_t type, uint32_t threads)
{
    static subject_t subject;
    const or_model_options_t whole = {.threads = 1, .cache_type_k = type, .cache_type_v = type};
    model_fixture_open(&subject.fixture, path, NULL, whole);
    assert_int_equal(or_kv_cache_frames(or_model_cache(subject.fixture.model)), 0);
    assert_int_equal(family_file_tokens(subject.fixture.gguf, subject.tokens, POSITIONS),
                     POSITIONS);
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject.fixture, 0);
    model_fixture_prefill(&subject.fixture, sequence, subject.tokens, POSITIONS, 64, subject.truth);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&subject.fixture);

    open_bounded(&subject, path, type, threads);
    chunks(&subject);
    trees(&subject);
    cuts(&subject);
    shares(&subject);
    model_fixture_close(&subject.fixture);
}

static void bounded_windows_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        char *path = family_file_make(families[i]);
        print_message("%s\n", families[i]);
        for (size_t t = 0; t < TYPES; t++) {
            check(path, types[t], t == 0 ? 3 : 1);
        }
        free(path);
    }
}

// The leader's cuts and shares, within reach and beyond, are the other ranks'.
static void play(or_model_t *model, record_t *record)
{
    static const uint32_t lengths[] = {POSITIONS - 1, PREFIX, POSITIONS - 3};
    static float logits[CHUNK * VOCAB];
    or_kv_sequence_t *first = NULL, *second = NULL;
    assert_int_equal(or_model_open_sequence(model, 0, &first), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &second), OR_OK);
    for (size_t i = 0; i <= sizeof lengths / sizeof lengths[0]; i++) {
        while (or_kv_sequence_length(first) < POSITIONS) {
            or_model_row_t rows[CHUNK];
            uint32_t length = or_kv_sequence_length(first);
            uint32_t count = POSITIONS - length < CHUNK ? POSITIONS - length : CHUNK;
            for (uint32_t r = 0; r < count; r++) {
                rows[r] = prefix_row(first, (int32_t)(3 + (length + r) * 37 % 61));
            }
            assert_int_equal(or_model_forward(model, rows, count), OR_OK);
            assert_int_equal(or_model_logits(model, 0, count, logits), OR_OK);
            record_bytes(record, logits, count * VOCAB * sizeof *logits);
        }
        if (i < sizeof lengths / sizeof lengths[0]) {
            or_kv_sequence_share(second, first, lengths[i]);
            or_kv_sequence_truncate(first, lengths[i]);
            record_number(record, or_kv_sequence_length(second));
            record_number(record, or_kv_sequence_length(first));
        }
    }
    or_kv_sequence_close(&first);
    or_kv_sequence_close(&second);
}

static void ranks_give_up_the_same(void **state)
{
    (void)state;
    const or_model_options_t bounded = {.threads = 1, .rows_max = CHUNK, .window_slack = 1};
    for (size_t i = 0; i < FAMILIES; i++) {
        char *path = family_file_make(families[i]);
        check_worlds(path, &bounded, play);
        free(path);
    }
}

// Gemma 3's model has six layers, of which five have windows: its cache takes one layer's pages, and frames.
static void memory_is_what_it_says(void **state)
{
    (void)state;
    model_fixture_t fixture;
    char *path = family_file_make("gemma3/0");
    model_fixture_open(&fixture, path, NULL,
                       (or_model_options_t){
                           .threads = 1, .rows_max = CHUNK, .window_slack = 1, .sequences_max = 1});
    const or_model_shape_t *shape = or_model_shape(fixture.model);
    assert_int_equal(shape->window, 64);
    assert_int_equal(shape->window_layers, 5);
    uint64_t layer = 2ull * sizeof(float) * OR_KV_PAGE * shape->kv_heads * shape->head_dim;
    uint32_t pages = or_kv_cache_pages(or_model_cache(fixture.model));
    uint32_t frames = or_kv_cache_frames(or_model_cache(fixture.model));
    assert_int_equal(pages, shape->context / OR_KV_PAGE);
    assert_in_range(frames, 1, pages - 1);
    or_model_memory_t memory = or_model_memory(fixture.model);
    assert_true(memory.cache == layer * (pages + 5 * frames));
    assert_true(memory.windows == layer * 5 * frames);
    // A text as long as Gemma 3's own, and of the usual options.
    or_model_shape_t large = *shape;
    large.context = 131072;
    large.window = 1024;
    uint64_t all = large.context / OR_KV_PAGE;
    uint64_t kept = (1024 + 256 + 256) / OR_KV_PAGE + 3;
    assert_true(or_model_cache_bytes(&large) == layer * (all + 5 * kept));
    model_fixture_close(&fixture);
    // A budget holds more positions than ten pages of whole texts.
    const or_model_options_t budget = {
        .threads = 1, .rows_max = CHUNK, .window_slack = 1, .cache_bytes = 60 * layer};
    model_fixture_open(&fixture, path, NULL, budget);
    assert_int_equal(or_kv_cache_pages(or_model_cache(fixture.model)), 25);
    assert_int_equal(or_kv_cache_frames(or_model_cache(fixture.model)), 7);
    assert_true(or_model_memory(fixture.model).cache == budget.cache_bytes);
    model_fixture_close(&fixture);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded_windows_change_no_bit),
        cmocka_unit_test(ranks_give_up_the_same),
        cmocka_unit_test(memory_is_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
