#include "tests/families/families_windows_support.h"

#include <string.h>

#include "tests/families/family_file.h"

#define PREFIX 150u
#define GUESSES 4u // a chain of them, each beside one that is wrong

or_model_options_t windows_options(const or_gpu_choice_t *gpu, or_kv_type_t type, uint32_t threads)
{
    return (or_model_options_t){.threads = threads,
                                .rows_max = WINDOWS_CHUNK,
                                .window_slack = 1,
                                .gpu = gpu,
                                .cache_type_k = type,
                                .cache_type_v = type};
}

static void find_truth(windows_subject_t *subject, const char *path, or_kv_type_t type)
{
    const or_model_options_t whole = {.threads = 1, .cache_type_k = type, .cache_type_v = type};
    model_fixture_open(&subject->fixture, path, NULL, whole);
    assert_int_equal(or_kv_cache_frames(or_model_cache(subject->fixture.model)), 0);
    assert_int_equal(family_file_tokens(subject->fixture.gguf, subject->tokens, WINDOWS_POSITIONS),
                     WINDOWS_POSITIONS);
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 0);
    model_fixture_prefill(&subject->fixture, sequence, subject->tokens, WINDOWS_POSITIONS, 64,
                          subject->truth);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&subject->fixture);
}

void windows_open(windows_subject_t *subject, const char *path, const or_model_options_t *options)
{
    find_truth(subject, path, options->cache_type_k);
    model_fixture_open(&subject->fixture, path, NULL, *options);
    assert_true(or_kv_cache_frames(or_model_cache(subject->fixture.model)) > 0);
}

void windows_close(windows_subject_t *subject)
{
    model_fixture_close(&subject->fixture);
}

// Run positions `first` to `end` - 1 as prefix rows, and compare.
static void read_on(windows_subject_t *subject, or_kv_sequence_t *sequence, uint32_t end,
                    uint32_t chunk)
{
    static float logits[WINDOWS_POSITIONS * WINDOWS_VOCAB];
    uint32_t first = or_kv_sequence_length(sequence);
    memset(logits, 0xAA, sizeof logits);
    model_fixture_prefill(&subject->fixture, sequence, subject->tokens + first, end - first, chunk,
                          logits);
    assert_same_bits(subject->truth + (size_t)first * WINDOWS_VOCAB, logits,
                     (size_t)(end - first) * WINDOWS_VOCAB);
}

void windows_chunks(windows_subject_t *subject, uint32_t chunk)
{
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 0);
    read_on(subject, sequence, WINDOWS_POSITIONS, chunk);
    or_kv_sequence_close(&sequence);
}

// Rounds of a root and a tree, of which all but the last guess of the chain are accepted.
void windows_trees(windows_subject_t *subject)
{
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 2 * GUESSES);
    read_on(subject, sequence, PREFIX, WINDOWS_CHUNK);
    for (uint32_t at = PREFIX; at + GUESSES < WINDOWS_POSITIONS; at += GUESSES) {
        or_model_row_t rows[1 + 2 * GUESSES];
        float logits[(1 + 2 * GUESSES) * WINDOWS_VOCAB];
        uint32_t path[GUESSES];
        rows[0] = prefix_row(sequence, subject->tokens[at]);
        for (uint32_t i = 0; i < GUESSES; i++) {
            uint32_t parent = i == 0 ? OR_KV_NO_SLOT : 2 * (i - 1);
            int32_t token = subject->tokens[at + 1 + i];
            path[i] = 2 * i;
            rows[1 + 2 * i] = tree_row(sequence, token, 2 * i, parent);
            rows[2 + 2 * i] =
                tree_row(sequence, (token + 1) % (int32_t)WINDOWS_VOCAB, 2 * i + 1, parent);
        }
        model_fixture_pass(&subject->fixture, rows, 1 + 2 * GUESSES, logits);
        assert_same_bits(subject->truth + (size_t)at * WINDOWS_VOCAB, logits, WINDOWS_VOCAB);
        for (uint32_t i = 0; i < GUESSES; i++) {
            assert_same_bits(subject->truth + (size_t)(at + 1 + i) * WINDOWS_VOCAB,
                             logits + (size_t)(1 + 2 * i) * WINDOWS_VOCAB, WINDOWS_VOCAB);
        }
        assert_int_equal(or_kv_sequence_accept(sequence, path, GUESSES - 1), OR_OK);
    }
    or_kv_sequence_close(&sequence);
}

void windows_cuts(windows_subject_t *subject)
{
    or_kv_sequence_t *sequence = model_fixture_sequence(&subject->fixture, 0);
    read_on(subject, sequence, WINDOWS_POSITIONS, WINDOWS_CHUNK);
    or_kv_sequence_truncate(sequence, WINDOWS_POSITIONS - 1);
    assert_int_equal(or_kv_sequence_length(sequence), WINDOWS_POSITIONS - 1);
    read_on(subject, sequence, WINDOWS_POSITIONS, WINDOWS_CHUNK);
    or_kv_sequence_truncate(sequence, PREFIX);
    assert_int_equal(or_kv_sequence_length(sequence), 0);
    read_on(subject, sequence, WINDOWS_POSITIONS, WINDOWS_CHUNK);
    or_kv_sequence_close(&sequence);
}

// The donor goes on with another text, which takes the frames that it gives up.
void windows_shares(windows_subject_t *subject)
{
    or_kv_sequence_t *donor = model_fixture_sequence(&subject->fixture, 0);
    or_kv_sequence_t *sharer = model_fixture_sequence(&subject->fixture, 0);
    read_on(subject, donor, WINDOWS_POSITIONS - 5, WINDOWS_CHUNK);
    or_kv_sequence_share(sharer, donor, WINDOWS_POSITIONS - 5);
    assert_int_equal(or_kv_sequence_length(sharer), WINDOWS_POSITIONS - 5);
    model_fixture_prefill(&subject->fixture, donor, subject->tokens, 40, WINDOWS_CHUNK, NULL);
    read_on(subject, sharer, WINDOWS_POSITIONS, 2);
    or_kv_sequence_share(sharer, donor, PREFIX);
    assert_int_equal(or_kv_sequence_length(sharer), 0);
    read_on(subject, sharer, PREFIX, WINDOWS_CHUNK);
    or_kv_sequence_close(&donor);
    read_on(subject, sharer, WINDOWS_POSITIONS, WINDOWS_CHUNK);
    or_kv_sequence_close(&sharer);
}

void windows_play(or_model_t *model, record_t *record)
{
    static const uint32_t lengths[] = {WINDOWS_POSITIONS - 1, PREFIX, WINDOWS_POSITIONS - 3};
    static float logits[WINDOWS_CHUNK * WINDOWS_VOCAB];
    or_kv_sequence_t *first = NULL, *second = NULL;
    assert_int_equal(or_model_open_sequence(model, 0, &first), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &second), OR_OK);
    for (size_t i = 0; i <= sizeof lengths / sizeof lengths[0]; i++) {
        while (or_kv_sequence_length(first) < WINDOWS_POSITIONS) {
            or_model_row_t rows[WINDOWS_CHUNK];
            uint32_t length = or_kv_sequence_length(first);
            uint32_t count = WINDOWS_POSITIONS - length < WINDOWS_CHUNK ? WINDOWS_POSITIONS - length
                                                                        : WINDOWS_CHUNK;
            for (uint32_t r = 0; r < count; r++) {
                rows[r] = prefix_row(first, (int32_t)(3 + (length + r) * 37 % 61));
            }
            assert_int_equal(or_model_forward(model, rows, count), OR_OK);
            assert_int_equal(or_model_logits(model, 0, count, logits), OR_OK);
            record_bytes(record, logits, count * WINDOWS_VOCAB * sizeof *logits);
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
