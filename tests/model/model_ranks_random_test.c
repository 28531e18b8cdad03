// Goal: whatever is asked of the leader of several ranks, it answers as a model alone would: the same bits,
// the same refusals, the same pages.
// Method: seeded random calls on a few sequences that share, are cut, closed and opened again, with a pool
// of pages that runs out and calls that make no sense; all answers recorded and compared.
#include <math.h>
#include <stdlib.h>

#include "tests/model/ranks_record.h"

#define SEQUENCES 6u
#define NODES 6u
#define CALLS 1000
#define ROWS_MOST 12u
#define PAGES 9u // too few: calls fail for want of them

typedef struct {
    or_model_t *model;
    record_t *record;
    uint64_t rng;
    or_kv_sequence_t *sequences[SEQUENCES]; // NULL: closed
    uint32_t row_count;                     // of the last pass
    float *logits;                          // [ROWS_MOST][vocab_size]
    uint32_t refused;
} player_t;

static uint32_t below(player_t *player, uint32_t n)
{
    return (uint32_t)test_below(&player->rng, n);
}

// Rows of random sequences, some with a parent or a slot that is not there.
static or_status_t call_forward(player_t *player)
{
    or_model_row_t rows[ROWS_MOST];
    uint32_t count = 0;
    uint32_t vocab_size = or_model_shape(player->model)->vocab_size;
    while (count + 6 <= ROWS_MOST) {
        or_kv_sequence_t *sequence = player->sequences[below(player, SEQUENCES)];
        if (sequence == NULL) {
            break;
        }
        for (uint32_t n = below(player, 7); n > 0; n--) {
            rows[count++] = prefix_row(sequence, (int32_t)below(player, vocab_size));
        }
        uint32_t first = below(player, 3);
        for (uint32_t n = 0; n < below(player, 5) && count < ROWS_MOST; n++) {
            uint32_t parent = n > 0 ? first + below(player, n) : OR_KV_NO_SLOT;
            rows[count++] =
                tree_row(sequence, (int32_t)below(player, vocab_size), first + n, parent);
        }
    }
    or_status_t status = or_model_forward(player->model, rows, count);
    player->row_count = status == OR_OK ? count : player->row_count;
    return status;
}

// The best `top` of a row, slowly, and no others: alone they all come, from other ranks only these.
static void record_top(player_t *player, float *row, uint32_t top)
{
    uint32_t vocab_size = or_model_shape(player->model)->vocab_size;
    for (uint32_t k = 0; k < top; k++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < vocab_size; i++) {
            best = row[i] > row[best] ? i : best;
        }
        record_number(player->record, best);
        record_bytes(player->record, &row[best], sizeof row[best]);
        row[best] = -INFINITY;
    }
}

static or_status_t call_logits(player_t *player)
{
    uint32_t vocab_size = or_model_shape(player->model)->vocab_size;
    uint32_t first = below(player, ROWS_MOST + 1);
    uint32_t count = below(player, 1 + ROWS_MOST - first);
    uint32_t top = 1 + below(player, 5);
    bool whole = below(player, 3) == 0;
    or_status_t status =
        whole ? or_model_logits(player->model, first, count, player->logits)
              : or_model_logits_top(player->model, first, count, top, player->logits);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        float *row = player->logits + (size_t)i * vocab_size;
        if (whole) {
            record_bytes(player->record, row, vocab_size * sizeof *row);
        } else {
            record_top(player, row, top);
        }
    }
    return status;
}

static or_status_t call_share(player_t *player, or_kv_sequence_t *sequence)
{
    or_kv_sequence_t *donor = player->sequences[below(player, SEQUENCES)];
    if (donor != NULL && donor != sequence) {
        or_kv_sequence_share(sequence, donor, below(player, or_kv_sequence_length(donor) + 1));
    }
    return OR_OK;
}

static or_status_t call_accept(player_t *player, or_kv_sequence_t *sequence)
{
    uint32_t slots[] = {below(player, 3), below(player, 6), below(player, 6)};
    return or_kv_sequence_accept(sequence, slots, below(player, 4));
}

// One call to one sequence.
static or_status_t call_cache(player_t *player, or_kv_sequence_t **sequence)
{
    uint32_t length = or_kv_sequence_length(*sequence);
    switch (below(player, 8)) {
    case 0:
        or_kv_sequence_truncate(*sequence, below(player, length + 2));
        return OR_OK;
    case 1:
        or_kv_sequence_drop_slots(*sequence);
        return OR_OK;
    case 2:
        or_kv_sequence_drop_slots_from(*sequence, below(player, NODES));
        return OR_OK;
    case 3:
        return or_kv_sequence_reserve(*sequence, length + below(player, 80));
    case 4:
        return call_share(player, *sequence);
    case 5:
        if (below(player, 3) == 0) {
            or_kv_sequence_close(sequence);
        }
        return OR_OK;
    default:
        return call_accept(player, *sequence);
    }
}

static or_status_t call(player_t *player)
{
    if (below(player, 2) == 0) {
        return call_forward(player);
    }
    if (below(player, 3) == 0) {
        return call_logits(player);
    }
    or_kv_sequence_t **sequence = &player->sequences[below(player, SEQUENCES)];
    return *sequence != NULL ? call_cache(player, sequence)
                             : or_model_open_sequence(player->model, NODES, sequence);
}

static void record_cache(player_t *player)
{
    record_number(player->record, or_kv_cache_pages_free(or_model_cache(player->model)));
    record_number(player->record, or_kv_cache_pages_shared(or_model_cache(player->model)));
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (player->sequences[i] != NULL) {
            record_number(player->record, or_kv_sequence_length(player->sequences[i]));
            record_number(player->record, or_kv_sequence_pages(player->sequences[i]));
        }
    }
}

static void play_at_random(or_model_t *model, record_t *record)
{
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    player_t player = {.model = model,
                       .record = record,
                       .rng = test_seed(),
                       .logits = test_alloc((size_t)ROWS_MOST * vocab_size, sizeof(float))};
    for (int i = 0; i < CALLS; i++) {
        or_status_t status = call(&player);
        player.refused += status != OR_OK;
        record_number(record, status);
        record_cache(&player);
    }
    assert_in_range(player.refused, CALLS / 10, CALLS / 10 * 9); // both kinds are tried
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        or_kv_sequence_close(&player.sequences[i]);
    }
    assert_int_equal(or_kv_cache_pages_free(or_model_cache(model)), PAGES);
    free(player.logits);
}

static void random_calls_are_answered_alike(void **state)
{
    (void)state;
    const or_model_options_t options = {.threads = 1, .rows_max = ROWS_MOST, .pages_max = PAGES};
    check_worlds(test_model("tales-1m-f16.gguf"), &options, play_at_random);
    check_worlds("tests/model/data/qwen2-14-heads-q8_0.gguf", &options, play_at_random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls_are_answered_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
