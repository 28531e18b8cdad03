#include "tests/model/ranks_script.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX 45u
#define NODES 6u
#define SHARED 40u // a page and a part of one

typedef struct {
    or_model_t *model;
    record_t *record;
    float *logits; // [PREFIX + NODES][vocab_size]
} player_t;

static void pass(const player_t *player, const or_model_row_t *rows, uint32_t count,
                 or_status_t expected)
{
    or_status_t status = or_model_forward(player->model, rows, count);
    if (status != expected) {
        fail_msg("%s: %s", or_status_name(status), or_error_text());
    }
    if (status == OR_OK) {
        size_t floats = (size_t)count * or_model_shape(player->model)->vocab_size;
        memset(player->logits, 0xAA, floats * sizeof *player->logits);
        assert_int_equal(or_model_logits(player->model, 0, count, player->logits), OR_OK);
        record_bytes(player->record, player->logits, floats * sizeof *player->logits);
    }
}

static int32_t token(const player_t *player, uint32_t i)
{
    return (int32_t)(i * 37 % or_model_shape(player->model)->vocab_size);
}

static or_kv_sequence_t *open(const player_t *player)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(player->model, NODES, &sequence), OR_OK);
    return sequence;
}

// Refused before anything is said to other ranks, or they would repeat it.
static void fail_in_every_way(const player_t *player, or_kv_sequence_t *sequence)
{
    float nothing[1];
    const or_model_row_t no_token = prefix_row(sequence, -1);
    const or_model_row_t no_parent[] = {prefix_row(sequence, 1), tree_row(sequence, 2, 0, 5)};
    pass(player, &no_token, 1, OR_ERR_INVALID);
    pass(player, no_parent, 2, OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_accept(sequence, (const uint32_t[]){1}, 1), OR_ERR_INVALID);
    assert_int_equal(or_kv_sequence_reserve(sequence, UINT32_MAX), OR_ERR_FULL);
    assert_int_equal(or_model_logits(player->model, PREFIX + NODES, 1, nothing), OR_ERR_INVALID);
}

// Prefill with a tree in the same pass, an accepted path, a plain step; a second sequence that begins with
// the first's pages and goes on by itself, one cut short, one closed and opened again.
static void play(const player_t *player)
{
    static const uint32_t parents[NODES] = {OR_KV_NO_SLOT, 0, 0, 2, 3, OR_KV_NO_SLOT};
    or_kv_sequence_t *first = open(player);
    or_kv_sequence_t *second = open(player);
    or_model_row_t rows[PREFIX + NODES];
    for (uint32_t i = 0; i < PREFIX; i++) {
        rows[i] = prefix_row(first, token(player, i));
    }
    for (uint32_t i = 0; i < NODES; i++) {
        rows[PREFIX + i] = tree_row(first, token(player, 100 + i), i, parents[i]);
    }
    pass(player, rows, PREFIX + NODES, OR_OK);
    fail_in_every_way(player, first);
    assert_int_equal(or_kv_sequence_accept(first, (const uint32_t[]){0, 2, 3}, 3), OR_OK);
    or_kv_sequence_share(second, first, SHARED);
    const or_model_row_t steps[] = {prefix_row(first, token(player, 400)),
                                    prefix_row(second, token(player, 401)),
                                    tree_row(second, token(player, 402), 0, OR_KV_NO_SLOT)};
    pass(player, steps, 3, OR_OK);
    or_kv_sequence_truncate(first, SHARED / 2);
    or_kv_sequence_close(&second);
    second = open(player);
    const or_model_row_t more[] = {prefix_row(second, token(player, 7)),
                                   prefix_row(first, token(player, 403)),
                                   tree_row(first, token(player, 404), 1, OR_KV_NO_SLOT)};
    pass(player, more, 3, OR_OK);
    or_kv_sequence_close(&second);
    or_kv_sequence_close(&first);
}

void play_script(or_model_t *model, record_t *record)
{
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    player_t player = {.model = model,
                       .record = record,
                       .logits = test_alloc((size_t)(PREFIX + NODES) * vocab_size, sizeof(float))};
    play(&player);
    free(player.logits);
}
