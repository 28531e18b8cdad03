// Generated structs to plain ones. protobuf-c unpacks into the message's arena and the plain
// structs point into that tree; only arrays of structs are copied. Nothing here trusts a count, a
// length or a body.
#include "proto/message.h"

#include <string.h>

#include "common/base/version.h"
#include "outrider.pb-c.h"
#include "proto/message_arena.h"

// What a frame may cost. protobuf-c needs 40 to 80 bytes to scan a field and about 60 for a nested
// struct, so an honest frame stays under 64 times its size; a frame made of empty fields does not,
// and is refused.
#define COST_PER_BYTE 64u
#define COST_CONSTANT (64u << 10)

static void *allocate(void *arena, size_t bytes)
{
    return or_message_arena_take(arena, 1, bytes);
}

static void release(void *arena, void *pointer)
{
    (void)arena; // freed with the whole arena
    (void)pointer;
}

static or_status_t check_count(const char *what, size_t count)
{
    if (count > OR_WIRE_TOKENS_MAX) {
        return or_fail(OR_ERR_FORMAT, "%s has %zu entries where at most %u are allowed", what,
                       count, OR_WIRE_TOKENS_MAX);
    }
    return OR_OK;
}

static or_status_t check_equal(const char *what, size_t a, size_t b)
{
    if (a != b) {
        return or_fail(OR_ERR_FORMAT, "%s differ in length: %zu and %zu", what, a, b);
    }
    return check_count(what, a);
}

static or_status_t check_optional(const char *what, size_t count, size_t nodes)
{
    return count == 0 ? OR_OK : check_equal(what, count, nodes);
}

// Room for `count` (at least 1) of our structs. NULL after recording why the frame is refused:
// always OR_ERR_FORMAT.
static void *take_array(or_message_arena_t *arena, const char *what, size_t count, size_t bytes)
{
    if (check_count(what, count) != OR_OK) {
        return NULL;
    }
    void *array = or_message_arena_take(arena, count, bytes);
    if (array == NULL) {
        or_fail(OR_ERR_FORMAT, "%s with %zu entries need more memory than a frame may cost", what,
                count);
    }
    return array;
}

static void get_hello(const Outrider__Hello *from, or_hello_t *to)
{
    to->role = (or_role_t)from->role;
    to->software = from->software;
    to->arith_id = from->arith_id;
    to->vocab_hash = from->vocab_hash;
    to->vocab_size = from->vocab_size;
    to->model_hash = from->model_hash;
    to->model = from->model;
    to->owner = from->owner;
    to->context_max = from->context_max;
    to->nodes_max = from->nodes_max;
    to->sessions_max = from->sessions_max;
}

static void get_welcome(const Outrider__Welcome *from, or_welcome_t *to)
{
    to->software = from->software;
    to->heartbeat_ms = from->heartbeat_ms;
    to->nodes_max = from->nodes_max;
    to->vocab_hash = from->vocab_hash;
    to->owner = from->owner;
    to->trusted = from->trusted != 0;
    to->model = from->model;
    to->arith_id = from->arith_id;
    to->drafters = from->drafters;
}

static or_status_t get_bias(const Outrider__Sampling *from, or_message_arena_t *arena,
                            or_sampling_t *to)
{
    if (from->n_bias == 0) {
        return OR_OK;
    }
    or_logit_bias_t *bias = take_array(arena, "logit bias", from->n_bias, sizeof *bias);
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

static or_status_t get_sampling(const Outrider__Sampling *from, or_message_arena_t *arena,
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

static or_status_t get_open_session(const Outrider__OpenSession *from, or_message_arena_t *arena,
                                    or_open_session_t *to)
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
    to->law_entries = from->law_entries;
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
    or_status_t status = check_count("stop ids", from->n_stop_ids);
    if (status == OR_OK) {
        status = check_count("draft shape", from->n_draft_shape);
    }
    return status == OR_OK ? get_sampling(from->sampling, arena, &to->sampling) : status;
}

static or_status_t get_prefix(const Outrider__Prefix *from, or_prefix_t *to)
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
    return check_count("prefix tokens", from->n_tokens);
}

static or_status_t get_laws(const Outrider__DraftTree *from, or_message_arena_t *arena,
                            or_draft_tree_t *to)
{
    if (from->n_laws == 0) {
        return OR_OK;
    }
    or_reduced_law_t *laws = take_array(arena, "laws", from->n_laws, sizeof *laws);
    or_status_t status = laws != NULL ? OR_OK : OR_ERR_FORMAT;
    for (size_t i = 0; status == OR_OK && i < from->n_laws; i++) {
        const Outrider__Law *law = from->laws[i];
        laws[i] = (or_reduced_law_t){law->tokens, law->weights, (uint32_t)law->n_tokens};
        status = check_equal("a law's tokens and weights", law->n_tokens, law->n_weights);
    }
    if (status == OR_OK) {
        to->laws = laws;
        to->law_count = (uint32_t)from->n_laws;
    }
    return status;
}

static or_status_t get_draft_tree(const Outrider__DraftTree *from, or_message_arena_t *arena,
                                  or_draft_tree_t *to)
{
    to->round = from->round;
    to->parent_round = from->parent_round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->tokens = from->tokens;
    to->back = from->back;
    to->count = (uint32_t)from->n_tokens;
    to->law_index = from->law_index;
    to->law_index_count = (uint32_t)from->n_law_index;
    to->draw_order = from->draw_order;
    to->draw_order_count = (uint32_t)from->n_draw_order;
    to->draft_us = from->draft_us;
    to->passes = from->passes;
    to->psi = from->psi;
    to->psi_count = (uint32_t)from->n_psi;
    or_status_t status = check_equal("tree tokens and parents", from->n_tokens, from->n_back);
    if (status == OR_OK) {
        status = check_optional("law indices and tree tokens", from->n_law_index, from->n_tokens);
    }
    if (status == OR_OK) {
        status = check_optional("draw order and tree tokens", from->n_draw_order, from->n_tokens);
    }
    if (status == OR_OK) {
        status = check_optional("psi and tree tokens", from->n_psi, from->n_tokens);
    }
    return status == OR_OK ? get_laws(from, arena, to) : status;
}

static or_status_t get_logprobs(const Outrider__Verdict *from, or_message_arena_t *arena,
                                or_verdict_t *to)
{
    if (from->n_logprobs == 0) {
        return OR_OK;
    }
    or_token_logprob_t *logprobs =
        take_array(arena, "logprobs", from->n_logprobs, sizeof *logprobs);
    or_status_t status = logprobs != NULL ? OR_OK : OR_ERR_FORMAT;
    for (size_t i = 0; status == OR_OK && i < from->n_logprobs; i++) {
        const Outrider__TokenLogprob *item = from->logprobs[i];
        logprobs[i] = (or_token_logprob_t){.token = item->token,
                                           .logprob = item->logprob,
                                           .top_tokens = item->top_tokens,
                                           .top_logprobs = item->top_logprobs,
                                           .top_count = (uint32_t)item->n_top_tokens};
        status = check_equal("top tokens and logprobs", item->n_top_tokens, item->n_top_logprobs);
    }
    if (status == OR_OK) {
        to->logprobs = logprobs;
        to->logprob_count = (uint32_t)from->n_logprobs;
    }
    return status;
}

static or_status_t get_verdict(const Outrider__Verdict *from, or_message_arena_t *arena,
                               or_verdict_t *to)
{
    to->round = from->round;
    to->base_length = from->base_length;
    to->accepted = from->accepted;
    to->accepted_count = (uint32_t)from->n_accepted;
    to->next = from->next;
    to->draws = from->draws;
    to->draw_count = (uint32_t)from->n_draws;
    to->finish = from->finish;
    to->forward_us = from->forward_us;
    to->accept_us = from->accept_us;
    to->hash = from->hash;
    to->features = from->features.data;
    to->feature_bytes = (uint32_t)from->features.len;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
    or_status_t status = check_count("accepted nodes", from->n_accepted);
    if (status == OR_OK) {
        status = check_count("draws", from->n_draws);
    }
    return status == OR_OK ? get_logprobs(from, arena, to) : status;
}

static or_status_t get_vocab_map(const Outrider__VocabMap *from, or_vocab_map_t *to)
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
    return check_count("vocabulary map", from->n_steps);
}

static or_status_t get_psi_request(const Outrider__PsiRequest *from, or_psi_request_t *to)
{
    to->round = from->round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->node = from->node;
    to->tokens = from->tokens;
    to->count = (uint32_t)from->n_tokens;
    return check_count("tokens", from->n_tokens);
}

static or_status_t get_psi_reply(const Outrider__PsiReply *from, or_psi_reply_t *to)
{
    to->round = from->round;
    to->node = from->node;
    to->tokens = from->tokens;
    to->psi = from->psi;
    to->count = (uint32_t)from->n_tokens;
    return check_equal("tokens and their psi", from->n_tokens, from->n_psi);
}

static void get_vocabulary(const Outrider__Vocabulary *from, or_vocabulary_t *to)
{
    to->hash = from->hash;
    to->unpacked_bytes = from->unpacked_bytes;
    to->packed = from->packed.data;
    to->packed_bytes = (uint32_t)from->packed.len;
}

static or_policy_terms_t get_policy(const Outrider__Policy *from)
{
    return (or_policy_terms_t){
        .session = from->session,
        .owner = from->owner,
        .automatic = from->automatic != 0,
        .source = from->source,
        .nodes = from->nodes,
        .depth = from->depth,
        .ahead = from->ahead,
        .round_trip_ms = from->round_trip_ms,
        .draft_ms = from->draft_ms,
        .plain_ms = from->plain_ms,
        .verify_ms = from->verify_ms,
        .row_us = from->row_us,
        .queue_ms = from->queue_ms,
        .batch = from->batch,
        .acceptance = from->acceptance,
        .block_efficiency = from->block_efficiency,
        .hit_rate = from->hit_rate,
        .plain_rate = from->plain_rate,
        .draft_rate = from->draft_rate,
    };
}

static or_status_t get_policies(const Outrider__Stats *from, or_message_arena_t *arena,
                                or_stats_t *to)
{
    if (from->n_policies == 0) {
        return OR_OK;
    }
    or_policy_terms_t *policies = take_array(arena, "policies", from->n_policies, sizeof *policies);
    if (policies == NULL) {
        return OR_ERR_FORMAT;
    }
    for (size_t i = 0; i < from->n_policies; i++) {
        policies[i] = get_policy(from->policies[i]);
    }
    to->policies = policies;
    to->policy_count = (uint32_t)from->n_policies;
    return OR_OK;
}

static or_status_t get_stats(const Outrider__Stats *from, or_message_arena_t *arena, or_stats_t *to)
{
    to->rounds = from->rounds;
    to->nodes = from->nodes;
    to->accepted = from->accepted;
    to->model_us = from->model_us;
    to->passes = from->passes;
    to->batched = from->batched;
    to->tree_rows = from->tree_rows;
    to->prefill_rows = from->prefill_rows;
    to->reused_rows = from->reused_rows;
    to->evictions = from->evictions;
    to->queue = from->queue;
    to->sessions = from->sessions;
    to->pages = from->pages;
    to->pages_free = from->pages_free;
    to->pages_shared = from->pages_shared;
    to->page_positions = from->page_positions;
    to->page_bytes = from->page_bytes;
    to->ranks = from->ranks;
    to->stages = from->stages;
    to->resyncs = from->resyncs;
    to->waiting = from->waiting;
    to->drafters = from->drafters;
    to->verifiers = from->verifiers;
    to->busy = from->busy;
    to->cut_off = from->cut_off;
    to->cancelled = from->cancelled;
    to->started = from->started;
    to->parked = from->parked;
    to->resumed = from->resumed;
    to->failovers = from->failovers;
    to->refused = from->refused;
    to->model = from->model;
    return get_policies(from, arena, to);
}

static void get_error(const Outrider__Error *from, or_error_t *to)
{
    to->code = from->code;
    to->text = from->text;
    to->retry_ms = from->retry_ms;
    to->round = from->round;
    to->length = from->length;
}

static or_status_t get_stop_strings(const Outrider__GenerateRequest *from,
                                    or_message_arena_t *arena, or_generate_request_t *to)
{
    if (from->n_stop == 0) {
        return OR_OK;
    }
    or_wire_bytes_t *stop = take_array(arena, "stop strings", from->n_stop, sizeof *stop);
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

static or_status_t get_generate_request(const Outrider__GenerateRequest *from,
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
    to->law_entries = from->law_entries;
    to->allow_lossy = from->allow_lossy != 0;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated != 0;
    to->vocab_method = from->vocab_method;
    to->draft_ahead = from->draft_ahead;
    to->draft_policy = from->draft_policy;
    or_status_t status = check_count("prompt tokens", from->n_prompt_tokens);
    if (status == OR_OK) {
        status = check_count("draft shape", from->n_draft_shape);
    }
    if (status == OR_OK) {
        status = get_sampling(from->sampling, arena, &to->sampling);
    }
    return status == OR_OK ? get_stop_strings(from, arena, to) : status;
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
}

static or_status_t get_generate_delta(const Outrider__GenerateDelta *from, or_generate_delta_t *to)
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
    return check_count("completion tokens", from->n_tokens);
}

static void get_resume(const Outrider__Resume *from, or_resume_t *to)
{
    to->request = from->request;
    to->offset = from->offset;
    to->token = from->token.data;
    to->token_bytes = (uint32_t)from->token.len;
    to->text_offset = from->text_offset;
}

static or_status_t get_body(const Outrider__Envelope *envelope, or_message_arena_t *arena,
                            or_message_t *message)
{
    switch (envelope->body_case) {
    case OUTRIDER__ENVELOPE__BODY_HELLO:
        get_hello(envelope->hello, &message->body.hello);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_WELCOME:
        get_welcome(envelope->welcome, &message->body.welcome);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_OPEN_SESSION:
        return get_open_session(envelope->open_session, arena, &message->body.open_session);
    case OUTRIDER__ENVELOPE__BODY_PREFIX:
        return get_prefix(envelope->prefix, &message->body.prefix);
    case OUTRIDER__ENVELOPE__BODY_DRAFT_TREE:
        return get_draft_tree(envelope->draft_tree, arena, &message->body.draft_tree);
    case OUTRIDER__ENVELOPE__BODY_VERDICT:
        return get_verdict(envelope->verdict, arena, &message->body.verdict);
    case OUTRIDER__ENVELOPE__BODY_CANCEL:
        message->body.cancel.reason = envelope->cancel->reason;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCAB_MAP:
        return get_vocab_map(envelope->vocab_map, &message->body.vocab_map);
    case OUTRIDER__ENVELOPE__BODY_PSI_REQUEST:
        return get_psi_request(envelope->psi_request, &message->body.psi_request);
    case OUTRIDER__ENVELOPE__BODY_PSI_REPLY:
        return get_psi_reply(envelope->psi_reply, &message->body.psi_reply);
    case OUTRIDER__ENVELOPE__BODY_KV_EVICTED:
        message->body.kv_evicted.kept_length = envelope->kv_evicted->kept_length;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_STATS:
        return get_stats(envelope->stats, arena, &message->body.stats);
    case OUTRIDER__ENVELOPE__BODY_STATS_REQUEST:
        message->body.stats_request = (or_stats_request_t){0};
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_ERROR:
        get_error(envelope->error, &message->body.error);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_GENERATE_REQUEST:
        return get_generate_request(envelope->generate_request, arena,
                                    &message->body.generate_request);
    case OUTRIDER__ENVELOPE__BODY_GENERATE_DELTA:
        return get_generate_delta(envelope->generate_delta, &message->body.generate_delta);
    case OUTRIDER__ENVELOPE__BODY_RESUME:
        get_resume(envelope->resume, &message->body.resume);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_HEARTBEAT:
        message->body.heartbeat.reply = envelope->heartbeat->reply;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCAB_REQUEST:
        message->body.vocab_request.hash = envelope->vocab_request->hash;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCABULARY:
        get_vocabulary(envelope->vocabulary, &message->body.vocabulary);
        return OR_OK;
    default:
        return or_fail(OR_ERR_FORMAT,
                       "unknown message type: the peer may be newer than this program (%s)",
                       OR_VERSION);
    }
}

static or_status_t get_message(const Outrider__Envelope *envelope, or_message_arena_t *arena,
                               or_message_t *message)
{
    if (envelope->version == 0) {
        return or_fail(OR_ERR_FORMAT, "a frame without a protocol version is not Outrider's");
    }
    message->type = (or_message_type_t)envelope->body_case;
    message->version = envelope->version;
    message->session.value = envelope->session;
    if (envelope->version != OR_PROTOCOL_VERSION && message->type != OR_MSG_ERROR) {
        return or_fail(OR_ERR_MISMATCH,
                       "the peer speaks protocol %u, this is %u: install the same release on both "
                       "sides",
                       envelope->version, OR_PROTOCOL_VERSION);
    }
    return get_body(envelope, arena, message);
}

or_status_t or_message_decode(const uint8_t *frame, size_t bytes, or_message_t *message)
{
    memset(message, 0, sizeof *message);
    if (bytes > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is over the limit of %u bytes", bytes,
                       OR_FRAME_BYTES_MAX);
    }
    or_message_arena_t arena;
    or_message_arena_init(&arena, COST_CONSTANT + COST_PER_BYTE * bytes);
    ProtobufCAllocator allocator = {allocate, release, &arena};
    Outrider__Envelope *envelope = outrider__envelope__unpack(&allocator, bytes, frame);
    or_status_t status =
        envelope != NULL
            ? get_message(envelope, &arena, message)
            : or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is not a well-formed message", bytes);
    if (status != OR_OK) {
        memset(&message->body, 0, sizeof message->body); // it may point into the arena
        or_message_blocks_free(arena.blocks);
        return status;
    }
    message->owned = arena.blocks;
    return OR_OK;
}

void or_message_fini(or_message_t *message)
{
    or_message_blocks_free(message->owned);
    memset(message, 0, sizeof *message);
}
