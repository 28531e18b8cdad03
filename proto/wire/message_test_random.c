#include "proto/wire/message_test_random.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

typedef enum {
    FIELD_END,
    FIELD_32,      // any 4-byte number; floats by their bits
    FIELD_64,      // any 8-byte number
    FIELD_BOOL,    // one byte
    FIELD_STRING,  // const char *
    FIELD_BYTES,   // pointer; its length at `count_at`
    FIELD_32S,     // pointer; the number of entries at `count_at`
    FIELD_64S,     // the same
    FIELD_LEVELS,  // OR_STATS_LEVELS 8-byte numbers
    FIELD_STRUCT,  // embedded, described by `inner`
    FIELD_STRUCTS, // pointer to structs described by `inner`
    FIELD_MAYBE,   // pointer to one of them, or NULL
} field_kind_t;

typedef struct field {
    const char *name;
    field_kind_t kind;
    size_t at, count_at;
    const struct field *inner;
    size_t inner_bytes;
    // Arrays of which there are none, or as many entries as another array has, and `more`.
    bool like;
    size_t like_at; // that array's count
    uint32_t more;
} field_t;

#define FIELD(kind_, type, field, ...)                                                             \
    {                                                                                              \
        .name = #type "." #field, .kind = kind_, .at = offsetof(type, field), __VA_ARGS__          \
    }
#define F32(type, field) FIELD(FIELD_32, type, field, .more = 0)
#define F64(type, field) FIELD(FIELD_64, type, field, .more = 0)
#define FLEVELS(type, field) FIELD(FIELD_LEVELS, type, field, .more = 0)
#define FBOOL(type, field) FIELD(FIELD_BOOL, type, field, .more = 0)
#define FSTRING(type, field) FIELD(FIELD_STRING, type, field, .more = 0)
#define FARRAY(kind, type, field, count) FIELD(kind, type, field, .count_at = offsetof(type, count))
#define FALL(kind, type, field, count, like_)                                                      \
    FIELD(kind, type, field, .count_at = offsetof(type, count), .like = true,                      \
          .like_at = offsetof(type, like_))
#define FSTRUCT(type, field, inner_) FIELD(FIELD_STRUCT, type, field, .inner = inner_)
#define FMAYBE(type, field, inner_, inner_type)                                                    \
    FIELD(FIELD_MAYBE, type, field, .inner = inner_, .inner_bytes = sizeof(inner_type))
#define FSTRUCTS(type, field, count, inner_, inner_type)                                           \
    FIELD(FIELD_STRUCTS, type, field, .count_at = offsetof(type, count), .inner = inner_,          \
          .inner_bytes = sizeof(inner_type))
#define FSTRUCTS_ALL(type, field, count, inner_, inner_type, like_, more_)                         \
    FIELD(FIELD_STRUCTS, type, field, .count_at = offsetof(type, count), .inner = inner_,          \
          .inner_bytes = sizeof(inner_type), .like = true, .like_at = offsetof(type, like_),       \
          .more = more_)
#define FEND                                                                                       \
    {                                                                                              \
        .kind = FIELD_END                                                                          \
    }

static const field_t hello_fields[] = {
    F32(or_hello_t, role),       FSTRING(or_hello_t, software), FSTRING(or_hello_t, arith_id),
    F64(or_hello_t, vocab_hash), F32(or_hello_t, vocab_size),   FSTRING(or_hello_t, model),
    F64(or_hello_t, model_hash), FSTRING(or_hello_t, owner),    F32(or_hello_t, context_max),
    F32(or_hello_t, nodes_max),  F32(or_hello_t, sessions_max), FEND};

static const field_t welcome_fields[] = {
    FSTRING(or_welcome_t, software), F32(or_welcome_t, heartbeat_ms),
    F32(or_welcome_t, nodes_max),    F64(or_welcome_t, vocab_hash),
    FSTRING(or_welcome_t, owner),    FBOOL(or_welcome_t, trusted),
    FSTRING(or_welcome_t, model),    FSTRING(or_welcome_t, arith_id),
    F32(or_welcome_t, drafters),     FEND};

static const field_t bias_fields[] = {F32(or_logit_bias_t, id), F32(or_logit_bias_t, bias), FEND};

static const field_t sampling_fields[] = {
    F32(or_sampling_t, temperature),
    F32(or_sampling_t, top_k),
    F32(or_sampling_t, top_p),
    F32(or_sampling_t, min_p),
    F32(or_sampling_t, repeat_penalty),
    F32(or_sampling_t, presence_penalty),
    F32(or_sampling_t, frequency_penalty),
    F32(or_sampling_t, repeat_last_n),
    FSTRUCTS(or_sampling_t, bias, bias_count, bias_fields, or_logit_bias_t),
    FEND};

static const field_t open_session_fields[] = {
    FSTRUCT(or_open_session_t, sampling, sampling_fields),
    FARRAY(FIELD_32S, or_open_session_t, stop_ids, stop_count),
    FARRAY(FIELD_BYTES, or_open_session_t, constraint, constraint_bytes),
    F32(or_open_session_t, accept_rule),
    F32(or_open_session_t, draft_method),
    F32(or_open_session_t, draft_nodes),
    F32(or_open_session_t, draft_depth),
    F32(or_open_session_t, draft_temperature),
    F64(or_open_session_t, noise_key),
    F64(or_open_session_t, private_key),
    F32(or_open_session_t, prompt_length),
    F32(or_open_session_t, logprobs),
    F64(or_open_session_t, draft_key),
    FARRAY(FIELD_32S, or_open_session_t, draft_shape, draft_shape_count),
    F32(or_open_session_t, distribution_entries),
    F32(or_open_session_t, lenience),
    F32(or_open_session_t, typical_epsilon),
    F32(or_open_session_t, typical_delta),
    F32(or_open_session_t, draft_threshold),
    FBOOL(or_open_session_t, draft_calibrated),
    F32(or_open_session_t, draft_ahead),
    F32(or_open_session_t, vocab_method),
    F64(or_open_session_t, map_hash),
    F64(or_open_session_t, target_hash),
    F32(or_open_session_t, outside_ids),
    FSTRING(or_open_session_t, owner),
    FEND};

static const field_t prefix_fields[] = {
    F32(or_prefix_t, start),       FARRAY(FIELD_32S, or_prefix_t, tokens, count),
    F64(or_prefix_t, hash),        F64(or_prefix_t, round),
    FBOOL(or_prefix_t, placed),    F32(or_prefix_t, byte_offset),
    F32(or_prefix_t, zero_width),  FBOOL(or_prefix_t, judged),
    F32(or_prefix_t, accepted),    F32(or_prefix_t, next),
    F32(or_prefix_t, draft_nodes), F32(or_prefix_t, draft_depth),
    F32(or_prefix_t, draft_ahead), FEND};

// Arrays that share a count: the first draws it, the others find it drawn (FALL with itself).
static const field_t dist_fields[] = {
    FARRAY(FIELD_32S, or_reduced_distribution_t, tokens, count),
    FALL(FIELD_32S, or_reduced_distribution_t, weights, count, count), FEND};

static const field_t draft_tree_fields[] = {
    F64(or_draft_tree_t, round),
    F64(or_draft_tree_t, parent_round),
    F32(or_draft_tree_t, base_length),
    F64(or_draft_tree_t, base_hash),
    FARRAY(FIELD_32S, or_draft_tree_t, tokens, count),
    FALL(FIELD_32S, or_draft_tree_t, back, count, count),
    FALL(FIELD_32S, or_draft_tree_t, dist_index, dist_index_count, count),
    FALL(FIELD_32S, or_draft_tree_t, draw_order, draw_order_count, count),
    FSTRUCTS(or_draft_tree_t, dists, dist_count, dist_fields, or_reduced_distribution_t),
    F32(or_draft_tree_t, draft_us),
    F32(or_draft_tree_t, passes),
    FALL(FIELD_64S, or_draft_tree_t, psi, psi_count, count),
    FEND};

static const field_t logprob_fields[] = {
    F32(or_token_logprob_t, token), F32(or_token_logprob_t, logprob),
    FARRAY(FIELD_32S, or_token_logprob_t, top_tokens, top_count),
    FALL(FIELD_32S, or_token_logprob_t, top_logprobs, top_count, top_count), FEND};

static const field_t verdict_fields[] = {F64(or_verdict_t, round),
                                         F32(or_verdict_t, base_length),
                                         FARRAY(FIELD_32S, or_verdict_t, accepted, accepted_count),
                                         F32(or_verdict_t, next),
                                         FARRAY(FIELD_32S, or_verdict_t, draws, draw_count),
                                         FSTRUCTS_ALL(or_verdict_t, logprobs, logprob_count,
                                                      logprob_fields, or_token_logprob_t,
                                                      accepted_count, 1),
                                         F32(or_verdict_t, finish),
                                         F32(or_verdict_t, forward_us),
                                         F32(or_verdict_t, accept_us),
                                         F64(or_verdict_t, hash),
                                         FARRAY(FIELD_BYTES, or_verdict_t, features, feature_bytes),
                                         F32(or_verdict_t, draft_nodes),
                                         F32(or_verdict_t, draft_depth),
                                         F32(or_verdict_t, draft_ahead),
                                         F32(or_verdict_t, reused),
                                         FEND};

static const field_t cancel_fields[] = {FSTRING(or_cancel_t, reason), FBOOL(or_cancel_t, keep),
                                        FEND};

static const field_t vocab_map_fields[] = {
    F64(or_vocab_map_t, from_hash), F64(or_vocab_map_t, to_hash),
    FARRAY(FIELD_32S, or_vocab_map_t, to, count), F64(or_vocab_map_t, map_hash), FEND};

static const field_t psi_request_fields[] = {
    F64(or_psi_request_t, round),     F32(or_psi_request_t, base_length),
    F64(or_psi_request_t, base_hash), FARRAY(FIELD_32S, or_psi_request_t, tokens, count),
    F32(or_psi_request_t, node),      FEND};

static const field_t psi_reply_fields[] = {F64(or_psi_reply_t, round), F32(or_psi_reply_t, node),
                                           FARRAY(FIELD_32S, or_psi_reply_t, tokens, count),
                                           FALL(FIELD_64S, or_psi_reply_t, psi, count, count),
                                           FEND};
static const field_t vocab_request_fields[] = {F64(or_vocab_request_t, hash), FEND};
static const field_t vocabulary_fields[] = {
    F64(or_vocabulary_t, hash), F32(or_vocabulary_t, unpacked_bytes),
    FARRAY(FIELD_BYTES, or_vocabulary_t, packed, packed_bytes), FEND};

static const field_t kv_evicted_fields[] = {F32(or_kv_evicted_t, kept_length), FEND};

static const field_t policy_fields[] = {
    F64(or_policy_terms_t, session),       FSTRING(or_policy_terms_t, owner),
    FBOOL(or_policy_terms_t, automatic),   F32(or_policy_terms_t, source),
    F32(or_policy_terms_t, nodes),         F32(or_policy_terms_t, depth),
    F32(or_policy_terms_t, ahead),         F32(or_policy_terms_t, round_trip_ms),
    F32(or_policy_terms_t, draft_ms),      F32(or_policy_terms_t, plain_ms),
    F32(or_policy_terms_t, verify_ms),     F32(or_policy_terms_t, row_us),
    F32(or_policy_terms_t, queue_ms),      F32(or_policy_terms_t, batch),
    F32(or_policy_terms_t, acceptance),    F32(or_policy_terms_t, block_efficiency),
    F32(or_policy_terms_t, hit_rate),      F32(or_policy_terms_t, plain_rate),
    F32(or_policy_terms_t, draft_rate),    FSTRING(or_policy_terms_t, label),
    F32(or_policy_terms_t, prompt_tokens), F32(or_policy_terms_t, tokens),
    F64(or_policy_terms_t, age_ms),        FEND};

static const field_t peer_fields[] = {F64(or_peer_figures_t, number),
                                      F32(or_peer_figures_t, role),
                                      FSTRING(or_peer_figures_t, model),
                                      FSTRING(or_peer_figures_t, owner),
                                      FSTRING(or_peer_figures_t, state),
                                      FBOOL(or_peer_figures_t, trusted),
                                      F32(or_peer_figures_t, sessions),
                                      F32(or_peer_figures_t, round_trip_ms),
                                      F64(or_peer_figures_t, connected_ms),
                                      F64(or_peer_figures_t, nodes),
                                      F64(or_peer_figures_t, accepted),
                                      F64(or_peer_figures_t, bytes),
                                      F64(or_peer_figures_t, model_us),
                                      F64(or_peer_figures_t, passes),
                                      F32(or_peer_figures_t, pages),
                                      F32(or_peer_figures_t, pages_free),
                                      FEND};

static const field_t event_fields[] = {F64(or_event_t, number),   F64(or_event_t, time_ms),
                                       FSTRING(or_event_t, kind), F64(or_event_t, session),
                                       FSTRING(or_event_t, text), FEND};

static const field_t stats_fields[] = {
    F64(or_stats_t, rounds),
    F64(or_stats_t, nodes),
    F64(or_stats_t, accepted),
    F64(or_stats_t, model_us),
    F64(or_stats_t, passes),
    F64(or_stats_t, batched),
    F64(or_stats_t, tree_rows),
    F64(or_stats_t, prefill_rows),
    F64(or_stats_t, reused_rows),
    F64(or_stats_t, evictions),
    F32(or_stats_t, queue),
    F32(or_stats_t, sessions),
    F32(or_stats_t, pages),
    F32(or_stats_t, pages_free),
    F32(or_stats_t, pages_shared),
    F32(or_stats_t, page_positions),
    F64(or_stats_t, page_bytes),
    F32(or_stats_t, ranks),
    F32(or_stats_t, stages),
    F64(or_stats_t, resyncs),
    F32(or_stats_t, waiting),
    F32(or_stats_t, drafters),
    F32(or_stats_t, verifiers),
    F64(or_stats_t, busy),
    F64(or_stats_t, cut_off),
    F64(or_stats_t, cancelled),
    F64(or_stats_t, started),
    F32(or_stats_t, parked),
    F64(or_stats_t, resumed),
    F64(or_stats_t, failovers),
    F64(or_stats_t, refused),
    FSTRUCTS(or_stats_t, policies, policy_count, policy_fields, or_policy_terms_t),
    FSTRING(or_stats_t, model),
    FSTRUCTS(or_stats_t, peers, peer_count, peer_fields, or_peer_figures_t),
    FSTRUCTS(or_stats_t, events, event_count, event_fields, or_event_t),
    FEND};

static const field_t stats_request_fields[] = {FBOOL(or_stats_request_t, metrics),
                                               F64(or_stats_request_t, events_after), FEND};

static const field_t metrics_fields[] = {FARRAY(FIELD_BYTES, or_metrics_text_t, text, bytes), FEND};

static const field_t error_fields[] = {F32(or_error_t, code),     FSTRING(or_error_t, text),
                                       F32(or_error_t, retry_ms), F64(or_error_t, round),
                                       F32(or_error_t, length),   FEND};

static const field_t bytes_fields[] = {FARRAY(FIELD_BYTES, or_wire_bytes_t, bytes, length), FEND};

static const field_t chat_fields[] = {
    FSTRING(or_chat_message_t, role),
    FARRAY(FIELD_BYTES, or_chat_message_t, content, content_bytes), FEND};

static const field_t generate_request_fields[] = {
    F64(or_generate_request_t, request),
    FARRAY(FIELD_BYTES, or_generate_request_t, prompt, prompt_bytes),
    FARRAY(FIELD_32S, or_generate_request_t, prompt_tokens, prompt_token_count),
    F32(or_generate_request_t, max_tokens),
    FSTRUCT(or_generate_request_t, sampling, sampling_fields),
    F64(or_generate_request_t, seed),
    FBOOL(or_generate_request_t, has_seed),
    FSTRUCTS(or_generate_request_t, stop, stop_count, bytes_fields, or_wire_bytes_t),
    FBOOL(or_generate_request_t, plain),
    F32(or_generate_request_t, draft_method),
    F32(or_generate_request_t, accept_rule),
    F32(or_generate_request_t, draft_nodes),
    F32(or_generate_request_t, draft_depth),
    F32(or_generate_request_t, draft_temperature),
    FBOOL(or_generate_request_t, has_draft_temperature),
    FBOOL(or_generate_request_t, ignore_end),
    FBOOL(or_generate_request_t, special),
    FARRAY(FIELD_32S, or_generate_request_t, draft_shape, draft_shape_count),
    F32(or_generate_request_t, distribution_entries),
    FBOOL(or_generate_request_t, allow_lossy),
    F32(or_generate_request_t, lenience),
    F32(or_generate_request_t, typical_epsilon),
    F32(or_generate_request_t, typical_delta),
    F32(or_generate_request_t, draft_threshold),
    FBOOL(or_generate_request_t, draft_calibrated),
    F32(or_generate_request_t, draft_ahead),
    F32(or_generate_request_t, draft_policy),
    F32(or_generate_request_t, vocab_method),
    FSTRING(or_generate_request_t, owner),
    FSTRING(or_generate_request_t, label),
    F32(or_generate_request_t, logprobs),
    FBOOL(or_generate_request_t, details),
    FBOOL(or_generate_request_t, measured),
    F32(or_generate_request_t, choice),
    FSTRUCTS(or_generate_request_t, messages, message_count, chat_fields, or_chat_message_t),
    FEND};

static const field_t generate_stats_fields[] = {F32(or_generate_stats_t, prompt_tokens),
                                                F32(or_generate_stats_t, completion_tokens),
                                                F64(or_generate_stats_t, target_calls),
                                                F64(or_generate_stats_t, drafted),
                                                F64(or_generate_stats_t, accepted),
                                                F64(or_generate_stats_t, wire_bytes),
                                                F64(or_generate_stats_t, elapsed_us),
                                                F64(or_generate_stats_t, draft_us),
                                                F64(or_generate_stats_t, verify_us),
                                                F64(or_generate_stats_t, round_us),
                                                F64(or_generate_stats_t, plain_rounds),
                                                F64(or_generate_stats_t, resyncs),
                                                F64(or_generate_stats_t, first_token_us),
                                                F64(or_generate_stats_t, accept_us),
                                                FLEVELS(or_generate_stats_t, depth_offered),
                                                FLEVELS(or_generate_stats_t, depth_accepted),
                                                FLEVELS(or_generate_stats_t, rank_offered),
                                                FLEVELS(or_generate_stats_t, rank_accepted),
                                                F64(or_generate_stats_t, draft_passes),
                                                F64(or_generate_stats_t, psi_requests),
                                                F64(or_generate_stats_t, translate_us),
                                                F64(or_generate_stats_t, ahead_rounds),
                                                F64(or_generate_stats_t, ahead_hits),
                                                F64(or_generate_stats_t, bridged_rounds),
                                                F64(or_generate_stats_t, lookup_rounds),
                                                F64(or_generate_stats_t, failovers),
                                                F64(or_generate_stats_t, resumes),
                                                F32(or_generate_stats_t, resumed_tokens),
                                                F32(or_generate_stats_t, prompt_reused),
                                                F64(or_generate_stats_t, queue_us),
                                                FEND};

static const field_t generate_delta_fields[] = {
    F64(or_generate_delta_t, request),
    F32(or_generate_delta_t, offset),
    FARRAY(FIELD_32S, or_generate_delta_t, tokens, count),
    FARRAY(FIELD_BYTES, or_generate_delta_t, text, text_bytes),
    F32(or_generate_delta_t, finish),
    FSTRING(or_generate_delta_t, error),
    F32(or_generate_delta_t, error_code),
    F64(or_generate_delta_t, seed),
    FSTRING(or_generate_delta_t, arith_id),
    FSTRUCT(or_generate_delta_t, stats, generate_stats_fields),
    F64(or_generate_delta_t, text_offset),
    FSTRING(or_generate_delta_t, note),
    FSTRING(or_generate_delta_t, advice),
    FSTRING(or_generate_delta_t, vocab_map),
    FSTRING(or_generate_delta_t, vocab_why),
    F32(or_generate_delta_t, retry_ms),
    FARRAY(FIELD_BYTES, or_generate_delta_t, token, token_bytes),
    FSTRUCTS_ALL(or_generate_delta_t, logprobs, logprob_count, logprob_fields, or_token_logprob_t,
                 count, 0),
    FALL(FIELD_BYTES, or_generate_delta_t, origins, origin_count, count),
    FALL(FIELD_64S, or_generate_delta_t, token_ends, token_end_count, count),
    FMAYBE(or_generate_delta_t, tree, draft_tree_fields, or_draft_tree_t),
    FARRAY(FIELD_32S, or_generate_delta_t, tree_accepted, tree_accepted_count),
    FEND};

static const field_t resume_fields[] = {
    F64(or_resume_t, request),     F32(or_resume_t, offset),
    F64(or_resume_t, text_offset), FARRAY(FIELD_BYTES, or_resume_t, token, token_bytes),
    FSTRING(or_resume_t, owner),   FEND};

static const field_t heartbeat_fields[] = {F32(or_heartbeat_t, reply), F32(or_heartbeat_t, answer),
                                           FEND};

static const field_t *const bodies[] = {
    [OR_MSG_HELLO] = hello_fields,
    [OR_MSG_WELCOME] = welcome_fields,
    [OR_MSG_OPEN_SESSION] = open_session_fields,
    [OR_MSG_PREFIX] = prefix_fields,
    [OR_MSG_DRAFT_TREE] = draft_tree_fields,
    [OR_MSG_VERDICT] = verdict_fields,
    [OR_MSG_CANCEL] = cancel_fields,
    [OR_MSG_VOCAB_MAP] = vocab_map_fields,
    [OR_MSG_PSI_REQUEST] = psi_request_fields,
    [OR_MSG_PSI_REPLY] = psi_reply_fields,
    [OR_MSG_KV_EVICTED] = kv_evicted_fields,
    [OR_MSG_STATS] = stats_fields,
    [OR_MSG_ERROR] = error_fields,
    [OR_MSG_GENERATE_REQUEST] = generate_request_fields,
    [OR_MSG_GENERATE_DELTA] = generate_delta_fields,
    [OR_MSG_RESUME] = resume_fields,
    [OR_MSG_HEARTBEAT] = heartbeat_fields,
    [OR_MSG_VOCAB_REQUEST] = vocab_request_fields,
    [OR_MSG_VOCABULARY] = vocabulary_fields,
    [OR_MSG_STATS_REQUEST] = stats_request_fields,
    [OR_MSG_METRICS] = metrics_fields,
};

// Everything a message points to, freed together.
static void *pieces[4096];
static size_t piece_count;

static void *take(size_t bytes)
{
    assert_true(piece_count < sizeof pieces / sizeof *pieces);
    void *piece = calloc(1, bytes > 0 ? bytes : 1);
    assert_non_null(piece);
    return pieces[piece_count++] = piece;
}

void message_test_random_free(void)
{
    while (piece_count > 0) {
        free(pieces[--piece_count]);
    }
}

// The golden message that is being filled in; GOLDEN_NONE: a random one.
static golden_t golden = GOLDEN_NONE;

// Small, large and zero numbers alike: their varints have all lengths.
static uint64_t random_number(uint64_t *state)
{
    switch (golden) {
    case GOLDEN_ZERO:
    case GOLDEN_HOLLOW:
        return 0;
    case GOLDEN_LARGE:
        return UINT64_MAX;
    default:
        return test_random(state) >> test_below(state, 64);
    }
}

static void fill_array(uint64_t *state, size_t count, size_t bytes, char *field)
{
    uint8_t *array = take(count * bytes);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = random_number(state);
        memcpy(array + i * bytes, &number, bytes);
    }
    memcpy(field, &array, sizeof array);
}

static char *random_string(uint64_t *state)
{
    size_t length = golden == GOLDEN_HOLLOW  ? 0
                    : golden == GOLDEN_LARGE ? 130
                                             : test_below(state, 20);
    char *text = take(length + 1);
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)('a' + test_below(state, 26));
    }
    return text;
}

static void fill(uint64_t *state, const field_t *fields, char *base);

static void fill_structs(uint64_t *state, const field_t *field, size_t count, char *base)
{
    char *array = take(count * field->inner_bytes);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = i;
        fill(golden != GOLDEN_NONE ? &entry : state, field->inner, array + i * field->inner_bytes);
    }
    memcpy(base + field->at, &array, sizeof array);
}

static void fill_maybe(uint64_t *state, const field_t *field, char *base)
{
    char *inner = NULL;
    if (golden != GOLDEN_NONE || test_below(state, 2) == 0) {
        inner = take(field->inner_bytes);
        uint64_t entry = 0;
        fill(golden != GOLDEN_NONE ? &entry : state, field->inner, inner);
    }
    memcpy(base + field->at, &inner, sizeof inner);
}

static uint32_t random_count(uint64_t *state, const field_t *field, char *base)
{
    uint32_t count = (uint32_t)test_below(state, test_below(state, 4) == 0 ? 200 : 4);
    if (field->kind == FIELD_STRUCTS) {
        count %= 20;
    }
    if (golden != GOLDEN_NONE) {
        bool many = golden == GOLDEN_LARGE && field->kind != FIELD_STRUCTS;
        count = golden == GOLDEN_HOLLOW ? 0 : many ? 130 : 2;
    }
    if (field->like) {
        uint32_t like;
        memcpy(&like, base + field->like_at, sizeof like);
        bool all = field->like_at == field->count_at || (golden != GOLDEN_HOLLOW && count % 2 == 0);
        count = all ? like + field->more : 0;
    }
    memcpy(base + field->count_at, &count, sizeof count);
    return count;
}

static void fill_field(uint64_t *state, const field_t *field, char *base)
{
    uint64_t number = random_number(state);
    char *string;
    switch (field->kind) {
    case FIELD_32:
        memcpy(base + field->at, &number, 4);
        break;
    case FIELD_64:
        memcpy(base + field->at, &number, 8);
        break;
    case FIELD_BOOL:
        base[field->at] = number & 1;
        break;
    case FIELD_LEVELS:
        for (size_t i = 0; i < OR_STATS_LEVELS; i++) {
            number = random_number(state);
            memcpy(base + field->at + 8 * i, &number, 8);
        }
        break;
    case FIELD_STRING:
        string = random_string(state);
        memcpy(base + field->at, &string, sizeof string);
        break;
    case FIELD_BYTES:
        fill_array(state, random_count(state, field, base), 1, base + field->at);
        break;
    case FIELD_32S:
        fill_array(state, random_count(state, field, base), 4, base + field->at);
        break;
    case FIELD_64S:
        fill_array(state, random_count(state, field, base), 8, base + field->at);
        break;
    case FIELD_STRUCT: {
        uint64_t entry = 0;
        fill(golden != GOLDEN_NONE ? &entry : state, field->inner, base + field->at);
        break;
    }
    case FIELD_STRUCTS:
        fill_structs(state, field, random_count(state, field, base), base);
        break;
    case FIELD_MAYBE:
        fill_maybe(state, field, base);
        break;
    case FIELD_END:
        break;
    }
}

// What a golden message has in a field follows from the member's name and, in arrays, from the entry's number, so that it does not depend on
// the order of the table.
static uint64_t golden_state(const char *name, uint64_t entry)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + entry; // FNV-1a
    for (const char *at = strchr(name, '.') + 1; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void fill(uint64_t *state, const field_t *fields, char *base)
{
    const uint64_t entry = *state;
    for (const field_t *field = fields; field->kind != FIELD_END; field++) {
        uint64_t fixed = golden_state(field->name, entry);
        fill_field(golden != GOLDEN_NONE ? &fixed : state, field, base);
    }
}

void message_test_random(uint64_t *state, or_message_type_t type, or_message_t *message)
{
    memset(message, 0, sizeof *message);
    message->type = type;
    message->session.value = random_number(state);
    fill(state, bodies[type], (char *)&message->body);
}

void message_test_golden(golden_t which, or_message_type_t type, or_message_t *message)
{
    uint64_t entry = 0;
    memset(message, 0, sizeof *message);
    message->type = type;
    golden = which;
    message->session.value = which == GOLDEN_DISTINCT ? type : random_number(&entry);
    if (which != GOLDEN_ZERO) {
        fill(&entry, bodies[type], (char *)&message->body);
    }
    golden = GOLDEN_NONE;
}

static const char *difference(const field_t *fields, const char *a, const char *b);

static bool arrays_differ(const field_t *field, const char *a, const char *b, size_t bytes,
                          const char **inner)
{
    uint32_t count_a, count_b;
    const char *array_a, *array_b;
    memcpy(&count_a, a + field->count_at, sizeof count_a);
    memcpy(&count_b, b + field->count_at, sizeof count_b);
    memcpy(&array_a, a + field->at, sizeof array_a);
    memcpy(&array_b, b + field->at, sizeof array_b);
    if (count_a != count_b) {
        return true;
    }
    if (field->inner == NULL) {
        return count_a > 0 && memcmp(array_a, array_b, count_a * bytes) != 0;
    }
    for (uint32_t i = 0; i < count_a && *inner == NULL; i++) {
        *inner = difference(field->inner, array_a + i * bytes, array_b + i * bytes);
    }
    return *inner != NULL;
}

static bool strings_differ(const char *a, const char *b)
{
    const char *text_a, *text_b;
    memcpy(&text_a, a, sizeof text_a);
    memcpy(&text_b, b, sizeof text_b);
    return strcmp(text_a, text_b) != 0;
}

static bool maybes_differ(const field_t *field, const char *a, const char *b, const char **inner)
{
    const char *inner_a, *inner_b;
    memcpy(&inner_a, a + field->at, sizeof inner_a);
    memcpy(&inner_b, b + field->at, sizeof inner_b);
    if (inner_a == NULL || inner_b == NULL) {
        return inner_a != inner_b;
    }
    *inner = difference(field->inner, inner_a, inner_b);
    return *inner != NULL;
}

static const char *field_difference(const field_t *field, const char *a, const char *b)
{
    const char *inner = NULL;
    bool differ = false;
    switch (field->kind) {
    case FIELD_32:
        differ = memcmp(a + field->at, b + field->at, 4) != 0;
        break;
    case FIELD_64:
        differ = memcmp(a + field->at, b + field->at, 8) != 0;
        break;
    case FIELD_BOOL:
        differ = a[field->at] != b[field->at];
        break;
    case FIELD_LEVELS:
        differ = memcmp(a + field->at, b + field->at, 8 * OR_STATS_LEVELS) != 0;
        break;
    case FIELD_STRING:
        differ = strings_differ(a + field->at, b + field->at);
        break;
    case FIELD_BYTES:
        differ = arrays_differ(field, a, b, 1, &inner);
        break;
    case FIELD_32S:
        differ = arrays_differ(field, a, b, 4, &inner);
        break;
    case FIELD_64S:
        differ = arrays_differ(field, a, b, 8, &inner);
        break;
    case FIELD_STRUCT:
        return difference(field->inner, a + field->at, b + field->at);
    case FIELD_STRUCTS:
        differ = arrays_differ(field, a, b, field->inner_bytes, &inner);
        break;
    case FIELD_MAYBE:
        differ = maybes_differ(field, a, b, &inner);
        break;
    case FIELD_END:
        break;
    }
    return inner != NULL ? inner : differ ? field->name : NULL;
}

static const char *difference(const field_t *fields, const char *a, const char *b)
{
    const char *found = NULL;
    for (const field_t *field = fields; found == NULL && field->kind != FIELD_END; field++) {
        found = field_difference(field, a, b);
    }
    return found;
}

const char *message_difference(const or_message_t *a, const or_message_t *b)
{
    if (a->type != b->type) {
        return "type";
    }
    if (a->session.value != b->session.value) {
        return "session";
    }
    return difference(bodies[a->type], (const char *)&a->body, (const char *)&b->body);
}
