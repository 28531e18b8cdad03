// Plain structs to generated ones, which borrow every array and string; only arrays of structs need
// memory for the call.
#include "proto/message.h"

#include <stdlib.h>

#include "common/base/version.h"
#include "outrider.pb-c.h"
#include "proto/message_arena.h"

// Room for the one body a message has.
typedef union {
    Outrider__Hello hello;
    Outrider__Welcome welcome;
    Outrider__OpenSession open_session;
    Outrider__Prefix prefix;
    Outrider__DraftTree draft_tree;
    Outrider__Verdict verdict;
    Outrider__Cancel cancel;
    Outrider__VocabMap vocab_map;
    Outrider__PsiRequest psi_request;
    Outrider__PsiReply psi_reply;
    Outrider__KvEvicted kv_evicted;
    Outrider__Stats stats;
    Outrider__Error error;
    Outrider__GenerateRequest generate_request;
    Outrider__GenerateDelta generate_delta;
    Outrider__Resume resume;
    Outrider__Heartbeat heartbeat;
    Outrider__VocabRequest vocab_request;
    Outrider__Vocabulary vocabulary;
    Outrider__StatsRequest stats_request;
} body_t;

// The sub-messages a body points to, and memory for arrays of more.
typedef struct {
    or_message_arena_t arena;
    body_t body;
    Outrider__Sampling sampling;
    Outrider__GenerateStats stats;
} scratch_t;

static or_status_t no_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "out of memory while encoding a message");
}

// protobuf-c's structs have no const although packing only reads them.
static ProtobufCBinaryData borrow_bytes(const uint8_t *bytes, uint32_t length)
{
    return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)bytes};
}

// `count` generated structs, all but initialised, and the array of pointers to them that protobuf-c
// wants.
static void *take_structs(scratch_t *scratch, uint32_t count, size_t bytes, void ***pointers)
{
    char *items = or_message_arena_take(&scratch->arena, count, bytes);
    void **list = or_message_arena_take(&scratch->arena, count, sizeof *list);
    if (items == NULL || list == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        list[i] = items + i * bytes;
    }
    *pointers = list;
    return items;
}

static void put_hello(const or_hello_t *from, Outrider__Hello *to)
{
    outrider__hello__init(to);
    to->role = (Outrider__Role)from->role;
    to->software = (char *)from->software;
    to->arith_id = (char *)from->arith_id;
    to->vocab_hash = from->vocab_hash;
    to->vocab_size = from->vocab_size;
    to->model_hash = from->model_hash;
    to->model = (char *)from->model;
    to->owner = (char *)from->owner;
    to->context_max = from->context_max;
    to->nodes_max = from->nodes_max;
    to->sessions_max = from->sessions_max;
}

static void put_welcome(const or_welcome_t *from, Outrider__Welcome *to)
{
    outrider__welcome__init(to);
    to->software = (char *)from->software;
    to->heartbeat_ms = from->heartbeat_ms;
    to->nodes_max = from->nodes_max;
    to->vocab_hash = from->vocab_hash;
    to->owner = (char *)from->owner;
    to->trusted = from->trusted;
    to->model = (char *)from->model;
    to->arith_id = (char *)from->arith_id;
    to->drafters = from->drafters;
}

static or_status_t put_sampling(const or_sampling_t *from, scratch_t *scratch)
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
    Outrider__LogitBias *items = take_structs(scratch, from->bias_count, sizeof *items, &pointers);
    if (items == NULL) {
        return no_memory();
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

static or_status_t put_open_session(const or_open_session_t *from, Outrider__OpenSession *to,
                                    scratch_t *scratch)
{
    outrider__open_session__init(to);
    to->sampling = &scratch->sampling;
    to->n_stop_ids = from->stop_count;
    to->stop_ids = (uint32_t *)from->stop_ids;
    to->constraint = borrow_bytes(from->constraint, from->constraint_bytes);
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
    to->law_entries = from->law_entries;
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
    return put_sampling(&from->sampling, scratch);
}

static void put_prefix(const or_prefix_t *from, Outrider__Prefix *to)
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

static or_status_t put_laws(const or_draft_tree_t *from, Outrider__DraftTree *to,
                            scratch_t *scratch)
{
    if (from->law_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__Law *items = take_structs(scratch, from->law_count, sizeof *items, &pointers);
    if (items == NULL) {
        return no_memory();
    }
    for (uint32_t i = 0; i < from->law_count; i++) {
        outrider__law__init(&items[i]);
        items[i].n_tokens = items[i].n_weights = from->laws[i].count;
        items[i].tokens = (uint32_t *)from->laws[i].tokens;
        items[i].weights = (uint32_t *)from->laws[i].weights;
    }
    to->n_laws = from->law_count;
    to->laws = (Outrider__Law **)pointers;
    return OR_OK;
}

static or_status_t put_draft_tree(const or_draft_tree_t *from, Outrider__DraftTree *to,
                                  scratch_t *scratch)
{
    outrider__draft_tree__init(to);
    to->round = from->round;
    to->parent_round = from->parent_round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->n_tokens = to->n_back = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->back = (uint32_t *)from->back;
    to->n_law_index = from->law_index_count;
    to->law_index = (uint32_t *)from->law_index;
    to->n_draw_order = from->draw_order_count;
    to->draw_order = (uint32_t *)from->draw_order;
    to->draft_us = from->draft_us;
    to->passes = from->passes;
    to->n_psi = from->psi_count;
    to->psi = (double *)from->psi;
    return put_laws(from, to, scratch);
}

static or_status_t put_logprobs(const or_verdict_t *from, Outrider__Verdict *to, scratch_t *scratch)
{
    if (from->logprob_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__TokenLogprob *items =
        take_structs(scratch, from->logprob_count, sizeof *items, &pointers);
    if (items == NULL) {
        return no_memory();
    }
    for (uint32_t i = 0; i < from->logprob_count; i++) {
        const or_token_logprob_t *logprob = &from->logprobs[i];
        outrider__token_logprob__init(&items[i]);
        items[i].token = logprob->token;
        items[i].logprob = logprob->logprob;
        items[i].n_top_tokens = items[i].n_top_logprobs = logprob->top_count;
        items[i].top_tokens = (uint32_t *)logprob->top_tokens;
        items[i].top_logprobs = (float *)logprob->top_logprobs;
    }
    to->n_logprobs = from->logprob_count;
    to->logprobs = (Outrider__TokenLogprob **)pointers;
    return OR_OK;
}

static or_status_t put_verdict(const or_verdict_t *from, Outrider__Verdict *to, scratch_t *scratch)
{
    outrider__verdict__init(to);
    to->round = from->round;
    to->base_length = from->base_length;
    to->n_accepted = from->accepted_count;
    to->accepted = (uint32_t *)from->accepted;
    to->next = from->next;
    to->n_draws = from->draw_count;
    to->draws = (uint32_t *)from->draws;
    to->finish = from->finish;
    to->forward_us = from->forward_us;
    to->accept_us = from->accept_us;
    to->hash = from->hash;
    to->features = borrow_bytes(from->features, from->feature_bytes);
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
    return put_logprobs(from, to, scratch);
}

static or_status_t put_vocab_map(const or_vocab_map_t *from, Outrider__VocabMap *to,
                                 scratch_t *scratch)
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
        return no_memory();
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        to->steps[i] = (int32_t)((uint32_t)from->to[i] - last);
        last = (uint32_t)from->to[i];
    }
    return OR_OK;
}

static void put_psi_request(const or_psi_request_t *from, Outrider__PsiRequest *to)
{
    outrider__psi_request__init(to);
    to->round = from->round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->n_tokens = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->node = from->node;
}

static void put_psi_reply(const or_psi_reply_t *from, Outrider__PsiReply *to)
{
    outrider__psi_reply__init(to);
    to->round = from->round;
    to->node = from->node;
    to->n_tokens = to->n_psi = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->psi = (double *)from->psi;
}

static void put_vocabulary(const or_vocabulary_t *from, Outrider__Vocabulary *to)
{
    outrider__vocabulary__init(to);
    to->hash = from->hash;
    to->unpacked_bytes = from->unpacked_bytes;
    to->packed = borrow_bytes(from->packed, from->packed_bytes);
}

static void put_policy(const or_policy_terms_t *from, Outrider__Policy *to)
{
    outrider__policy__init(to);
    to->session = from->session;
    to->owner = (char *)from->owner;
    to->automatic = from->automatic;
    to->source = from->source;
    to->nodes = from->nodes;
    to->depth = from->depth;
    to->ahead = from->ahead;
    to->round_trip_ms = from->round_trip_ms;
    to->draft_ms = from->draft_ms;
    to->plain_ms = from->plain_ms;
    to->verify_ms = from->verify_ms;
    to->row_us = from->row_us;
    to->queue_ms = from->queue_ms;
    to->batch = from->batch;
    to->acceptance = from->acceptance;
    to->block_efficiency = from->block_efficiency;
    to->hit_rate = from->hit_rate;
    to->plain_rate = from->plain_rate;
    to->draft_rate = from->draft_rate;
}

static or_status_t put_policies(const or_stats_t *from, Outrider__Stats *to, scratch_t *scratch)
{
    if (from->policy_count == 0) {
        return OR_OK;
    }
    Outrider__Policy *policies =
        or_message_arena_take(&scratch->arena, from->policy_count, sizeof *policies);
    to->policies = or_message_arena_take(&scratch->arena, from->policy_count, sizeof *to->policies);
    if (policies == NULL || to->policies == NULL) {
        return no_memory();
    }
    for (uint32_t i = 0; i < from->policy_count; i++) {
        put_policy(&from->policies[i], &policies[i]);
        to->policies[i] = &policies[i];
    }
    to->n_policies = from->policy_count;
    return OR_OK;
}

static or_status_t put_stats(const or_stats_t *from, Outrider__Stats *to, scratch_t *scratch)
{
    outrider__stats__init(to);
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
    to->model = (char *)from->model;
    return put_policies(from, to, scratch);
}

static void put_error(const or_error_t *from, Outrider__Error *to)
{
    outrider__error__init(to);
    to->code = from->code;
    to->text = (char *)from->text;
    to->retry_ms = from->retry_ms;
    to->round = from->round;
    to->length = from->length;
}

static or_status_t put_stop_strings(const or_generate_request_t *from,
                                    Outrider__GenerateRequest *to, scratch_t *scratch)
{
    if (from->stop_count == 0) {
        return OR_OK;
    }
    ProtobufCBinaryData *items =
        or_message_arena_take(&scratch->arena, from->stop_count, sizeof *items);
    if (items == NULL) {
        return no_memory();
    }
    for (uint32_t i = 0; i < from->stop_count; i++) {
        items[i] = borrow_bytes(from->stop[i].bytes, from->stop[i].length);
    }
    to->n_stop = from->stop_count;
    to->stop = items;
    return OR_OK;
}

static or_status_t put_generate_request(const or_generate_request_t *from,
                                        Outrider__GenerateRequest *to, scratch_t *scratch)
{
    outrider__generate_request__init(to);
    to->request = from->request;
    to->prompt = borrow_bytes(from->prompt, from->prompt_bytes);
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
    to->law_entries = from->law_entries;
    to->allow_lossy = from->allow_lossy;
    to->lenience = from->lenience;
    to->typical_epsilon = from->typical_epsilon;
    to->typical_delta = from->typical_delta;
    to->draft_threshold = from->draft_threshold;
    to->draft_calibrated = from->draft_calibrated;
    to->vocab_method = from->vocab_method;
    to->draft_ahead = from->draft_ahead;
    to->draft_policy = from->draft_policy;
    or_status_t status = put_sampling(&from->sampling, scratch);
    return status == OR_OK ? put_stop_strings(from, to, scratch) : status;
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
}

static void put_generate_delta(const or_generate_delta_t *from, Outrider__GenerateDelta *to,
                               scratch_t *scratch)
{
    outrider__generate_delta__init(to);
    to->request = from->request;
    to->offset = from->offset;
    to->n_tokens = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->text = borrow_bytes(from->text, from->text_bytes);
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
    to->token = borrow_bytes(from->token, from->token_bytes);
}

static void put_resume(const or_resume_t *from, Outrider__Resume *to)
{
    outrider__resume__init(to);
    to->request = from->request;
    to->offset = from->offset;
    to->token = borrow_bytes(from->token, from->token_bytes);
    to->text_offset = from->text_offset;
}

static or_status_t put_body(const or_message_t *message, scratch_t *scratch)
{
    body_t *to = &scratch->body;
    switch (message->type) {
    case OR_MSG_HELLO:
        put_hello(&message->body.hello, &to->hello);
        return OR_OK;
    case OR_MSG_WELCOME:
        put_welcome(&message->body.welcome, &to->welcome);
        return OR_OK;
    case OR_MSG_OPEN_SESSION:
        return put_open_session(&message->body.open_session, &to->open_session, scratch);
    case OR_MSG_PREFIX:
        put_prefix(&message->body.prefix, &to->prefix);
        return OR_OK;
    case OR_MSG_DRAFT_TREE:
        return put_draft_tree(&message->body.draft_tree, &to->draft_tree, scratch);
    case OR_MSG_VERDICT:
        return put_verdict(&message->body.verdict, &to->verdict, scratch);
    case OR_MSG_CANCEL:
        outrider__cancel__init(&to->cancel);
        to->cancel.reason = (char *)message->body.cancel.reason;
        return OR_OK;
    case OR_MSG_VOCAB_MAP:
        return put_vocab_map(&message->body.vocab_map, &to->vocab_map, scratch);
    case OR_MSG_PSI_REQUEST:
        put_psi_request(&message->body.psi_request, &to->psi_request);
        return OR_OK;
    case OR_MSG_PSI_REPLY:
        put_psi_reply(&message->body.psi_reply, &to->psi_reply);
        return OR_OK;
    case OR_MSG_KV_EVICTED:
        outrider__kv_evicted__init(&to->kv_evicted);
        to->kv_evicted.kept_length = message->body.kv_evicted.kept_length;
        return OR_OK;
    case OR_MSG_STATS:
        return put_stats(&message->body.stats, &to->stats, scratch);
    case OR_MSG_STATS_REQUEST:
        outrider__stats_request__init(&to->stats_request);
        return OR_OK;
    case OR_MSG_VOCAB_REQUEST:
        outrider__vocab_request__init(&to->vocab_request);
        to->vocab_request.hash = message->body.vocab_request.hash;
        return OR_OK;
    case OR_MSG_VOCABULARY:
        put_vocabulary(&message->body.vocabulary, &to->vocabulary);
        return OR_OK;
    case OR_MSG_ERROR:
        put_error(&message->body.error, &to->error);
        return OR_OK;
    case OR_MSG_GENERATE_REQUEST:
        return put_generate_request(&message->body.generate_request, &to->generate_request,
                                    scratch);
    case OR_MSG_GENERATE_DELTA:
        put_generate_delta(&message->body.generate_delta, &to->generate_delta, scratch);
        return OR_OK;
    case OR_MSG_RESUME:
        put_resume(&message->body.resume, &to->resume);
        return OR_OK;
    case OR_MSG_HEARTBEAT:
        outrider__heartbeat__init(&to->heartbeat);
        to->heartbeat.reply = message->body.heartbeat.reply;
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID, "cannot encode a message of unknown type %u",
                   (unsigned)message->type);
}

static or_status_t pack(const or_message_t *message, const Outrider__Envelope *envelope,
                        uint8_t **frame_p, size_t *bytes)
{
    size_t size = outrider__envelope__get_packed_size(envelope);
    if (size > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "a %s message of %zu bytes is over the limit of %u bytes",
                       or_message_type_name(message->type), size, OR_FRAME_BYTES_MAX);
    }
    uint8_t *frame = malloc(size);
    if (frame == NULL) {
        return no_memory();
    }
    *bytes = outrider__envelope__pack(envelope, frame);
    *frame_p = frame;
    return OR_OK;
}

or_status_t or_message_encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes)
{
    scratch_t scratch;
    or_message_arena_init(&scratch.arena, SIZE_MAX);
    or_status_t status = put_body(message, &scratch);
    if (status == OR_OK) {
        Outrider__Envelope envelope = OUTRIDER__ENVELOPE__INIT;
        envelope.version = message->version != 0 ? message->version : OR_PROTOCOL_VERSION;
        envelope.session = message->session.value;
        // Our type numbers are the oneof's, and the members of the oneof share one pointer.
        envelope.body_case = (Outrider__Envelope__BodyCase)message->type;
        envelope.hello = &scratch.body.hello;
        status = pack(message, &envelope, frame_p, bytes);
    }
    or_message_blocks_free(scratch.arena.blocks);
    return status;
}
