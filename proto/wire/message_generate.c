// What clients and coordinator say to each other about a text.
#include "proto/wire/message_codec.h"

static or_status_t put_stop_strings(const or_generate_request_t *from,
                                    Outrider__GenerateRequest *to, or_message_scratch_t *scratch)
{
    if (from->stop_count == 0) {
        return OR_OK;
    }
    ProtobufCBinaryData *items =
        or_message_arena_take(&scratch->arena, from->stop_count, sizeof *items);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->stop_count; i++) {
        items[i] = or_message_borrow_bytes(from->stop[i].bytes, from->stop[i].length);
    }
    to->n_stop = from->stop_count;
    to->stop = items;
    return OR_OK;
}

static or_status_t put_conversation(const or_generate_request_t *from,
                                    Outrider__GenerateRequest *to, or_message_scratch_t *scratch)
{
    if (from->message_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__ChatMessage *items =
        or_message_take_structs(scratch, from->message_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->message_count; i++) {
        const or_chat_message_t *message = &from->messages[i];
        outrider__chat_message__init(&items[i]);
        items[i].role = (char *)message->role;
        items[i].content = or_message_borrow_bytes(message->content, message->content_bytes);
    }
    to->messages = (Outrider__ChatMessage **)pointers;
    to->n_messages = from->message_count;
    return OR_OK;
}

or_status_t or_message_put_generate_request(const or_generate_request_t *from,
                                            Outrider__GenerateRequest *to,
                                            or_message_scratch_t *scratch)
{
    outrider__generate_request__init(to);
    to->request = from->request;
    to->prompt = or_message_borrow_bytes(from->prompt, from->prompt_bytes);
    to->n_prompt_tokens = from->prompt_token_count;
    to->prompt_tokens = (uint32_t *)from->prompt_tokens;
    to->max_tokens = from->max_tokens;
    to->sampling = &scratch->sampling;
    to->seed = from->seed;
    to->has_seed = from->has_seed;
    to->plain = from->plain;
    to->draft_method = from->draft_method;
    to->accept_rule = from->accept_rule;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_temperature = from->draft_temperature;
    to->has_draft_temperature = from->has_draft_temperature;
    to->ignore_end = from->ignore_end;
    to->special = from->special;
    to->n_draft_shape = from->draft_shape_count;
    to->draft_shape = (uint32_t *)from->draft_shape;
    to->distribution_entries = from->distribution_entries;
    to->allow_lossy = from->allow_lossy;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated;
    to->vocab_method = from->vocab_method;
    to->draft_ahead = from->draft_ahead;
    to->draft_policy = from->draft_policy;
    to->owner = (char *)from->owner;
    to->label = (char *)from->label;
    to->logprobs = from->logprobs;
    to->details = from->details;
    to->measured = from->measured;
    to->choice = from->choice;
    or_status_t status = or_message_put_sampling(&from->sampling, scratch);
    if (status == OR_OK) {
        status = put_stop_strings(from, to, scratch);
    }
    return status == OR_OK ? put_conversation(from, to, scratch) : status;
}

static or_status_t get_stop_strings(const Outrider__GenerateRequest *from,
                                    or_message_arena_t *arena, or_generate_request_t *to)
{
    if (from->n_stop == 0) {
        return OR_OK;
    }
    or_wire_bytes_t *stop =
        or_message_take_array(arena, "stop strings", from->n_stop, sizeof *stop);
    if (stop == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_stop; i++) {
        stop[i] = (or_wire_bytes_t){from->stop[i].data, (uint32_t)from->stop[i].len};
    }
    to->stop = stop;
    to->stop_count = (uint32_t)from->n_stop;
    return OR_OK;
}

static or_status_t get_conversation(const Outrider__GenerateRequest *from,
                                    or_message_arena_t *arena, or_generate_request_t *to)
{
    if (from->n_messages == 0) {
        return OR_OK;
    }
    or_chat_message_t *messages =
        or_message_take_array(arena, "messages", from->n_messages, sizeof *messages);
    if (messages == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_messages; i++) {
        const Outrider__ChatMessage *message = from->messages[i];
        messages[i] = (or_chat_message_t){.role = message->role,
                                          .content = message->content.data,
                                          .content_bytes = (uint32_t)message->content.len};
    }
    to->messages = messages;
    to->message_count = (uint32_t)from->n_messages;
    return OR_OK;
}

or_status_t or_message_get_generate_request(const Outrider__GenerateRequest *from,
                                            or_message_arena_t *arena, or_generate_request_t *to)
{
    to->request = from->request;
    to->prompt = from->prompt.data;
    to->prompt_bytes = (uint32_t)from->prompt.len;
    to->prompt_tokens = from->prompt_tokens;
    to->prompt_token_count = (uint32_t)from->n_prompt_tokens;
    to->max_tokens = from->max_tokens;
    to->seed = from->seed;
    to->has_seed = from->has_seed != 0;
    to->plain = from->plain != 0;
    to->draft_method = from->draft_method;
    to->accept_rule = from->accept_rule;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_temperature = from->draft_temperature;
    to->has_draft_temperature = from->has_draft_temperature != 0;
    to->ignore_end = from->ignore_end != 0;
    to->special = from->special != 0;
    to->draft_shape = from->draft_shape;
    to->draft_shape_count = (uint32_t)from->n_draft_shape;
    to->distribution_entries = from->distribution_entries;
    to->allow_lossy = from->allow_lossy != 0;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated != 0;
    to->vocab_method = from->vocab_method;
    to->draft_ahead = from->draft_ahead;
    to->draft_policy = from->draft_policy;
    to->owner = from->owner;
    to->label = from->label;
    to->logprobs = from->logprobs;
    to->details = from->details != 0;
    to->measured = from->measured != 0;
    to->choice = from->choice;
    or_status_t status = or_message_check_count("prompt tokens", from->n_prompt_tokens);
    if (status == OR_OK) {
        status = or_message_check_count("draft shape", from->n_draft_shape);
    }
    if (status == OR_OK) {
        status = or_message_get_sampling(from->sampling, arena, &to->sampling);
    }
    if (status == OR_OK) {
        status = get_stop_strings(from, arena, to);
    }
    return status == OR_OK ? get_conversation(from, arena, to) : status;
}

// Levels up to the last that has something.
static size_t count_levels(const uint64_t *levels)
{
    size_t count = OR_STATS_LEVELS;
    while (count > 0 && levels[count - 1] == 0) {
        count--;
    }
    return count;
}

static void put_generate_stats(const or_generate_stats_t *from, Outrider__GenerateStats *to)
{
    outrider__generate_stats__init(to);
    to->prompt_tokens = from->prompt_tokens;
    to->completion_tokens = from->completion_tokens;
    to->target_calls = from->target_calls;
    to->drafted = from->drafted;
    to->accepted = from->accepted;
    to->wire_bytes = from->wire_bytes;
    to->elapsed_us = from->elapsed_us;
    to->draft_us = from->draft_us;
    to->verify_us = from->verify_us;
    to->round_us = from->round_us;
    to->plain_rounds = from->plain_rounds;
    to->resyncs = from->resyncs;
    to->first_token_us = from->first_token_us;
    to->accept_us = from->accept_us;
    to->depth_offered = (uint64_t *)from->depth_offered;
    to->depth_accepted = (uint64_t *)from->depth_accepted;
    to->rank_offered = (uint64_t *)from->rank_offered;
    to->rank_accepted = (uint64_t *)from->rank_accepted;
    to->n_depth_offered = count_levels(from->depth_offered);
    to->n_depth_accepted = count_levels(from->depth_accepted);
    to->n_rank_offered = count_levels(from->rank_offered);
    to->n_rank_accepted = count_levels(from->rank_accepted);
    to->draft_passes = from->draft_passes;
    to->psi_requests = from->psi_requests;
    to->translate_us = from->translate_us;
    to->ahead_rounds = from->ahead_rounds;
    to->ahead_hits = from->ahead_hits;
    to->bridged_rounds = from->bridged_rounds;
    to->lookup_rounds = from->lookup_rounds;
    to->failovers = from->failovers;
    to->resumes = from->resumes;
    to->resumed_tokens = from->resumed_tokens;
    to->prompt_reused = from->prompt_reused;
    to->queue_us = from->queue_us;
}

// A peer that counts further than we do tells us more than we keep.
static void get_levels(const uint64_t *from, size_t count, uint64_t *to)
{
    for (size_t i = 0; i < count && i < OR_STATS_LEVELS; i++) {
        to[i] = from[i];
    }
}

static void get_generate_stats(const Outrider__GenerateStats *from, or_generate_stats_t *to)
{
    to->prompt_tokens = from->prompt_tokens;
    to->completion_tokens = from->completion_tokens;
    to->target_calls = from->target_calls;
    to->drafted = from->drafted;
    to->accepted = from->accepted;
    to->wire_bytes = from->wire_bytes;
    to->elapsed_us = from->elapsed_us;
    to->draft_us = from->draft_us;
    to->verify_us = from->verify_us;
    to->round_us = from->round_us;
    to->plain_rounds = from->plain_rounds;
    to->resyncs = from->resyncs;
    to->first_token_us = from->first_token_us;
    to->accept_us = from->accept_us;
    get_levels(from->depth_offered, from->n_depth_offered, to->depth_offered);
    get_levels(from->depth_accepted, from->n_depth_accepted, to->depth_accepted);
    get_levels(from->rank_offered, from->n_rank_offered, to->rank_offered);
    get_levels(from->rank_accepted, from->n_rank_accepted, to->rank_accepted);
    to->draft_passes = from->draft_passes;
    to->psi_requests = from->psi_requests;
    to->translate_us = from->translate_us;
    to->ahead_rounds = from->ahead_rounds;
    to->ahead_hits = from->ahead_hits;
    to->bridged_rounds = from->bridged_rounds;
    to->lookup_rounds = from->lookup_rounds;
    to->failovers = from->failovers;
    to->resumes = from->resumes;
    to->resumed_tokens = from->resumed_tokens;
    to->prompt_reused = from->prompt_reused;
    to->queue_us = from->queue_us;
}

static or_status_t put_details(const or_generate_delta_t *from, Outrider__GenerateDelta *to,
                               or_message_scratch_t *scratch)
{
    to->origins = or_message_borrow_bytes(from->origins, from->origin_count);
    to->n_token_ends = from->token_end_count;
    to->token_ends = (uint64_t *)from->token_ends;
    to->n_tree_accepted = from->tree_accepted_count;
    to->tree_accepted = (uint32_t *)from->tree_accepted;
    if (from->tree == NULL) {
        return OR_OK;
    }
    to->tree = &scratch->tree;
    return or_message_put_draft_tree(from->tree, to->tree, scratch);
}

static or_status_t get_tree(const Outrider__GenerateDelta *from, or_message_arena_t *arena,
                            or_generate_delta_t *to)
{
    if (from->tree == NULL) {
        return OR_OK;
    }
    or_draft_tree_t *tree = or_message_take_array(arena, "a tree", 1, sizeof *tree);
    if (tree == NULL) {
        return OR_ERR_FORMAT;
    }
    *tree = (or_draft_tree_t){0};
    to->tree = tree;
    return or_message_get_draft_tree(from->tree, arena, tree);
}

static or_status_t get_details(const Outrider__GenerateDelta *from, or_message_arena_t *arena,
                               or_generate_delta_t *to)
{
    to->origins = from->origins.data;
    to->origin_count = (uint32_t)from->origins.len;
    to->token_ends = from->token_ends;
    to->token_end_count = (uint32_t)from->n_token_ends;
    to->tree_accepted = from->tree_accepted;
    to->tree_accepted_count = (uint32_t)from->n_tree_accepted;
    or_status_t status =
        or_message_check_optional("origins and tokens", from->origins.len, from->n_tokens);
    if (status == OR_OK) {
        status =
            or_message_check_optional("token ends and tokens", from->n_token_ends, from->n_tokens);
    }
    if (status == OR_OK) {
        status = or_message_check_count("accepted nodes", from->n_tree_accepted);
    }
    return status == OR_OK ? get_tree(from, arena, to) : status;
}

or_status_t or_message_put_generate_delta(const or_generate_delta_t *from,
                                          Outrider__GenerateDelta *to,
                                          or_message_scratch_t *scratch)
{
    outrider__generate_delta__init(to);
    to->request = from->request;
    to->offset = from->offset;
    to->n_tokens = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->text = or_message_borrow_bytes(from->text, from->text_bytes);
    to->finish = from->finish;
    to->error = (char *)from->error;
    to->error_code = from->error_code;
    to->seed = from->seed;
    to->arith_id = (char *)from->arith_id;
    put_generate_stats(&from->stats, &scratch->stats);
    to->stats = &scratch->stats;
    to->text_offset = from->text_offset;
    to->note = (char *)from->note;
    to->advice = (char *)from->advice;
    to->vocab_map = (char *)from->vocab_map;
    to->vocab_why = (char *)from->vocab_why;
    to->retry_ms = from->retry_ms;
    to->token = or_message_borrow_bytes(from->token, from->token_bytes);
    or_status_t status = or_message_put_logprobs(from->logprobs, from->logprob_count, scratch,
                                                 &to->logprobs, &to->n_logprobs);
    return status == OR_OK ? put_details(from, to, scratch) : status;
}

or_status_t or_message_get_generate_delta(const Outrider__GenerateDelta *from,
                                          or_message_arena_t *arena, or_generate_delta_t *to)
{
    to->request = from->request;
    to->offset = from->offset;
    to->tokens = from->tokens;
    to->count = (uint32_t)from->n_tokens;
    to->text = from->text.data;
    to->text_bytes = (uint32_t)from->text.len;
    to->finish = from->finish;
    to->error = from->error;
    to->error_code = from->error_code;
    to->seed = from->seed;
    to->arith_id = from->arith_id;
    if (from->stats != NULL) {
        get_generate_stats(from->stats, &to->stats);
    }
    to->text_offset = from->text_offset;
    to->note = from->note;
    to->advice = from->advice;
    to->vocab_map = from->vocab_map;
    to->vocab_why = from->vocab_why;
    to->retry_ms = from->retry_ms;
    to->token = from->token.data;
    to->token_bytes = (uint32_t)from->token.len;
    or_status_t status = or_message_check_count("completion tokens", from->n_tokens);
    if (status == OR_OK) {
        status = or_message_check_optional("logprobs and tokens", from->n_logprobs, from->n_tokens);
    }
    if (status == OR_OK) {
        status = or_message_get_logprobs(from->logprobs, from->n_logprobs, arena, &to->logprobs,
                                         &to->logprob_count);
    }
    return status == OR_OK ? get_details(from, arena, to) : status;
}

void or_message_put_resume(const or_resume_t *from, Outrider__Resume *to)
{
    outrider__resume__init(to);
    to->request = from->request;
    to->offset = from->offset;
    to->token = or_message_borrow_bytes(from->token, from->token_bytes);
    to->text_offset = from->text_offset;
    to->owner = (char *)from->owner;
}

void or_message_get_resume(const Outrider__Resume *from, or_resume_t *to)
{
    to->request = from->request;
    to->offset = from->offset;
    to->token = from->token.data;
    to->token_bytes = (uint32_t)from->token.len;
    to->text_offset = from->text_offset;
    to->owner = from->owner;
}
