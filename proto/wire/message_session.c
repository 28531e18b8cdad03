// What opens a session and fills it: its parameters, its prefix, the vocabularies it may need.
#include "proto/wire/message_codec.h"

or_status_t or_message_put_sampling(const or_sampling_t *from, or_message_scratch_t *scratch)
{
    Outrider__Sampling *to = &scratch->sampling;
    outrider__sampling__init(to);
    to->temperature = from->temperature;
    to->top_k = from->top_k;
    to->top_p = from->top_p;
    to->min_p = from->min_p;
    to->repeat_penalty = from->repeat_penalty;
    to->presence_penalty = from->presence_penalty;
    to->frequency_penalty = from->frequency_penalty;
    to->repeat_last_n = from->repeat_last_n;
    if (from->bias_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__LogitBias *items =
        or_message_take_structs(scratch, from->bias_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->bias_count; i++) {
        outrider__logit_bias__init(&items[i]);
        items[i].id = (uint32_t)from->bias[i].id;
        items[i].bias = from->bias[i].bias;
    }
    to->n_bias = from->bias_count;
    to->bias = (Outrider__LogitBias **)pointers;
    return OR_OK;
}

static or_status_t get_bias(const Outrider__Sampling *from, or_message_arena_t *arena,
                            or_sampling_t *to)
{
    if (from->n_bias == 0) {
        return OR_OK;
    }
    or_logit_bias_t *bias = or_message_take_array(arena, "logit bias", from->n_bias, sizeof *bias);
    if (bias == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_bias; i++) {
        bias[i] = (or_logit_bias_t){.id = (int32_t)from->bias[i]->id, .bias = from->bias[i]->bias};
    }
    to->bias = bias;
    to->bias_count = (uint32_t)from->n_bias;
    return OR_OK;
}

or_status_t or_message_get_sampling(const Outrider__Sampling *from, or_message_arena_t *arena,
                                    or_sampling_t *to)
{
    if (from == NULL) {
        return or_fail(OR_ERR_FORMAT, "the message lacks its sampling parameters");
    }
    to->temperature = from->temperature;
    to->top_k = from->top_k;
    to->top_p = from->top_p;
    to->min_p = from->min_p;
    to->repeat_penalty = from->repeat_penalty;
    to->presence_penalty = from->presence_penalty;
    to->frequency_penalty = from->frequency_penalty;
    to->repeat_last_n = from->repeat_last_n;
    return get_bias(from, arena, to);
}

or_status_t or_message_put_open_session(const or_open_session_t *from, Outrider__OpenSession *to,
                                        or_message_scratch_t *scratch)
{
    outrider__open_session__init(to);
    to->sampling = &scratch->sampling;
    to->n_stop_ids = from->stop_count;
    to->stop_ids = (uint32_t *)from->stop_ids;
    to->constraint = or_message_borrow_bytes(from->constraint, from->constraint_bytes);
    to->accept_rule = from->accept_rule;
    to->draft_method = from->draft_method;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_temperature = from->draft_temperature;
    to->noise_key = from->noise_key;
    to->private_key = from->private_key;
    to->prompt_length = from->prompt_length;
    to->logprobs = from->logprobs;
    to->draft_key = from->draft_key;
    to->n_draft_shape = from->draft_shape_count;
    to->draft_shape = (uint32_t *)from->draft_shape;
    to->distribution_entries = from->distribution_entries;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated;
    to->draft_ahead = from->draft_ahead;
    to->vocab_method = from->vocab_method;
    to->map_hash = from->map_hash;
    to->target_hash = from->target_hash;
    to->outside_ids = from->outside_ids;
    to->owner = (char *)from->owner;
    return or_message_put_sampling(&from->sampling, scratch);
}

or_status_t or_message_get_open_session(const Outrider__OpenSession *from,
                                        or_message_arena_t *arena, or_open_session_t *to)
{
    to->stop_ids = from->stop_ids;
    to->stop_count = (uint32_t)from->n_stop_ids;
    to->constraint = from->constraint.data;
    to->constraint_bytes = (uint32_t)from->constraint.len;
    to->accept_rule = from->accept_rule;
    to->draft_method = from->draft_method;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_temperature = from->draft_temperature;
    to->noise_key = from->noise_key;
    to->private_key = from->private_key;
    to->prompt_length = from->prompt_length;
    to->logprobs = from->logprobs;
    to->draft_key = from->draft_key;
    to->draft_shape = from->draft_shape;
    to->draft_shape_count = (uint32_t)from->n_draft_shape;
    to->distribution_entries = from->distribution_entries;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated != 0;
    to->draft_ahead = from->draft_ahead;
    to->vocab_method = from->vocab_method;
    to->map_hash = from->map_hash;
    to->target_hash = from->target_hash;
    to->outside_ids = from->outside_ids;
    to->owner = from->owner;
    or_status_t status = or_message_check_count("stop ids", from->n_stop_ids);
    if (status == OR_OK) {
        status = or_message_check_count("draft shape", from->n_draft_shape);
    }
    return status == OR_OK ? or_message_get_sampling(from->sampling, arena, &to->sampling) : status;
}

void or_message_put_prefix(const or_prefix_t *from, Outrider__Prefix *to)
{
    outrider__prefix__init(to);
    to->start = from->start;
    to->n_tokens = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->hash = from->hash;
    to->round = from->round;
    to->placed = from->placed;
    to->byte_offset = from->byte_offset;
    to->zero_width = from->zero_width;
    to->judged = from->judged;
    to->accepted = from->accepted;
    to->next = from->next;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
}

or_status_t or_message_get_prefix(const Outrider__Prefix *from, or_prefix_t *to)
{
    to->start = from->start;
    to->tokens = from->tokens;
    to->count = (uint32_t)from->n_tokens;
    to->hash = from->hash;
    to->round = from->round;
    to->placed = from->placed != 0;
    to->byte_offset = from->byte_offset;
    to->zero_width = from->zero_width;
    to->judged = from->judged != 0;
    to->accepted = from->accepted;
    to->next = from->next;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
    return or_message_check_count("prefix tokens", from->n_tokens);
}

or_status_t or_message_put_vocab_map(const or_vocab_map_t *from, Outrider__VocabMap *to,
                                     or_message_scratch_t *scratch)
{
    outrider__vocab_map__init(to);
    to->from_hash = from->from_hash;
    to->to_hash = from->to_hash;
    to->map_hash = from->map_hash;
    if (from->count == 0) {
        return OR_OK;
    }
    to->n_steps = from->count;
    to->steps = or_message_arena_take(&scratch->arena, from->count, sizeof *to->steps);
    if (to->steps == NULL) {
        return or_message_fail_memory();
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        to->steps[i] = (int32_t)((uint32_t)from->to[i] - last);
        last = (uint32_t)from->to[i];
    }
    return OR_OK;
}

or_status_t or_message_get_vocab_map(const Outrider__VocabMap *from, or_vocab_map_t *to)
{
    to->from_hash = from->from_hash;
    to->to_hash = from->to_hash;
    to->map_hash = from->map_hash;
    uint32_t last = 0;
    for (size_t i = 0; i < from->n_steps; i++) { // the steps become what they lead to, in place
        last += (uint32_t)from->steps[i];
        from->steps[i] = (int32_t)last;
    }
    to->to = from->steps;
    to->count = (uint32_t)from->n_steps;
    return or_message_check_count("vocabulary map", from->n_steps);
}

void or_message_put_vocabulary(const or_vocabulary_t *from, Outrider__Vocabulary *to)
{
    outrider__vocabulary__init(to);
    to->hash = from->hash;
    to->unpacked_bytes = from->unpacked_bytes;
    to->packed = or_message_borrow_bytes(from->packed, from->packed_bytes);
}

void or_message_get_vocabulary(const Outrider__Vocabulary *from, or_vocabulary_t *to)
{
    to->hash = from->hash;
    to->unpacked_bytes = from->unpacked_bytes;
    to->packed = from->packed.data;
    to->packed_bytes = (uint32_t)from->packed.len;
}
