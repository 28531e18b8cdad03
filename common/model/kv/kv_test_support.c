#include "common/model/kv/kv_test_support.h"

#define FLOATS (KV_LAYERS * KV_HEADS * KV_DIM)

or_kv_type_t kv_test_key_type;
or_kv_type_t kv_test_value_type;

or_kv_cache_t *kv_test_cache(uint32_t pages)
{
    const or_kv_shape_t shape = {.layers = KV_LAYERS,
                                 .kv_heads = KV_HEADS,
                                 .head_dim = KV_DIM,
                                 .key_type = kv_test_key_type,
                                 .value_type = kv_test_value_type};
    or_kv_cache_t *cache = NULL;
    assert_int_equal(or_kv_cache_create(&shape, pages, &cache), OR_OK);
    return cache;
}

or_kv_cache_t *kv_test_bounded_cache(uint32_t pages, uint32_t window, uint32_t slack,
                                     uint32_t frames)
{
    const or_kv_shape_t shape = {.layers = KV_LAYERS,
                                 .kv_heads = KV_HEADS,
                                 .head_dim = KV_DIM,
                                 .key_type = kv_test_key_type,
                                 .value_type = kv_test_value_type};
    const bool is_bounded[KV_LAYERS] = {true, false};
    const or_kv_windows_t windows = {window, slack, frames, is_bounded};
    or_kv_cache_t *cache = NULL;
    assert_int_equal(or_kv_cache_create_bounded(&shape, &windows, pages, &cache), OR_OK);
    return cache;
}

or_kv_sequence_t *kv_test_open(or_kv_cache_t *cache, uint32_t positions, uint32_t slots)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_kv_sequence_open(cache, positions, slots, &sequence), OR_OK);
    return sequence;
}

// Dimension d of the K (what 0) or V (what 1) of a token.
static float number(uint32_t mark, uint32_t head, uint32_t d, uint32_t what)
{
    if (d % 32 == 0) {
        return 127;
    }
    uint64_t state = (((uint64_t)mark * 64 + head) * 64 + d) * 2 + what;
    return (float)test_below(&state, 255) - 127;
}

static void vectors(uint32_t mark, uint32_t head, float *key, float *value)
{
    for (uint32_t d = 0; d < KV_DIM; d++) {
        key[d] = number(mark, head, d, 0);
        value[d] = number(mark, head, d, 1);
    }
}

bool kv_test_try_append(or_kv_sequence_t *sequence, uint32_t mark)
{
    uint32_t position = sequence->length;
    uint32_t missing = or_kv_pages_missing(sequence, position + 1);
    if (or_kv_pages_check(sequence->cache, missing) != OR_OK) {
        return false;
    }
    or_kv_pages_take(sequence, position + 1);
    for (uint32_t i = 0; i < KV_LAYERS * KV_HEADS; i++) {
        float key[KV_DIM], value[KV_DIM];
        vectors(mark, i, key, value);
        or_kv_put_position(sequence, position, i / KV_HEADS, i % KV_HEADS, key, value);
    }
    or_kv_sequence_grow(sequence, 1);
    sequence->epoch++;
    return true;
}

void kv_test_append(or_kv_sequence_t *sequence, uint32_t mark)
{
    assert_true(kv_test_try_append(sequence, mark));
}

void kv_test_put_node(or_kv_sequence_t *sequence, uint32_t slot, uint32_t parent, uint32_t mark)
{
    uint32_t depth = parent == OR_KV_NO_SLOT ? 0 : sequence->slots[parent].depth + 1;
    sequence->slots[slot] = (or_kv_slot_t){parent, depth, sequence->epoch};
    sequence->has_slots = true;
    for (uint32_t i = 0; i < KV_LAYERS * KV_HEADS; i++) {
        float key[KV_DIM], value[KV_DIM];
        vectors(mark, i, key, value);
        or_kv_put_slot(sequence, slot, i / KV_HEADS, i % KV_HEADS, key, value);
    }
}

// The layers from `first` on.
static void assert_layers(const or_kv_sequence_t *sequence, uint32_t position, uint32_t first,
                          uint32_t mark)
{
    float keys[FLOATS], values[FLOATS];
    or_kv_sequence_read(sequence, position, keys, values);
    for (uint32_t i = first * KV_HEADS * KV_DIM; i < FLOATS; i++) {
        uint32_t head = i / KV_DIM;
        float key = number(mark, head, i % KV_DIM, 0);
        float value = number(mark, head, i % KV_DIM, 1);
        if (keys[i] != key || values[i] != value) {
            fail_msg("position %u, head %u, dimension %u: %g and %g, not %g and %g", position, head,
                     i % KV_DIM, (double)keys[i], (double)values[i], (double)key, (double)value);
        }
    }
}

void kv_test_assert_mark(const or_kv_sequence_t *sequence, uint32_t position, uint32_t mark)
{
    assert_layers(sequence, position, 0, mark);
}

void kv_test_assert_unbounded_mark(const or_kv_sequence_t *sequence, uint32_t position,
                                   uint32_t mark)
{
    assert_layers(sequence, position, 1, mark);
}

static void repeat_note(or_kv_journal_t *journal, const or_kv_note_t *note)
{
    kv_test_replica_t *replica = (kv_test_replica_t *)journal;
    assert_true(note->sequence < KV_REPLICA_SEQUENCES);
    or_kv_sequence_t **sequence = &replica->sequences[note->sequence];
    replica->notes++;
    replica->last = note->kind;
    switch (note->kind) {
    case OR_KV_NOTE_OPEN:
        assert_null(*sequence);
        *sequence = kv_test_open(replica->cache, replica->positions_max, note->value);
        assert_int_equal((*sequence)->number, note->sequence);
        break;
    case OR_KV_NOTE_CLOSE:
        or_kv_sequence_close(sequence);
        break;
    case OR_KV_NOTE_TRUNCATE:
        or_kv_sequence_truncate(*sequence, note->value);
        break;
    case OR_KV_NOTE_DROP:
        or_kv_sequence_drop_slots_from(*sequence, note->value);
        break;
    case OR_KV_NOTE_ACCEPT:
        assert_int_equal(or_kv_sequence_accept(*sequence, note->slots, note->slot_count), OR_OK);
        break;
    case OR_KV_NOTE_RESERVE:
        assert_int_equal(or_kv_sequence_reserve(*sequence, note->value), OR_OK);
        break;
    case OR_KV_NOTE_SHARE:
        or_kv_sequence_share(*sequence, replica->sequences[note->donor], note->value);
        assert_int_equal(or_kv_sequence_length(*sequence), note->value);
        break;
    }
}

void kv_test_replica_start(kv_test_replica_t *replica, or_kv_cache_t *cache, uint32_t positions_max)
{
    or_kv_type_t types[] = {kv_test_key_type, kv_test_value_type};
    *replica = (kv_test_replica_t){.journal = {repeat_note}, .positions_max = positions_max};
    kv_test_key_type = OR_KV_F32;
    kv_test_value_type = OR_KV_F32;
    replica->cache = kv_test_cache(or_kv_cache_pages(cache));
    kv_test_key_type = types[0];
    kv_test_value_type = types[1];
    or_kv_cache_set_journal(cache, &replica->journal);
}
