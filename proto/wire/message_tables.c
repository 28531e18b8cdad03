// The tables of all messages. message.h says what a field means. Other programs read outrider.proto, and a test
// (message_protobuf_test.c) holds these tables to it.
#include "proto/wire/codec.h"

#define OF or_hello_t
MESSAGE(hello, [1] = ENUM(role, or_role_t), [2] = STRING(software), [3] = STRING(arith_id),
        [4] = FIXED64(vocab_hash), [5] = UINT32(vocab_size), [6] = STRING(model),
        [7] = STRING(owner), [8] = UINT32(context_max), [9] = UINT32(nodes_max),
        [10] = UINT32(sessions_max), [11] = FIXED64(model_hash), [12] = FIXED64(machine));
#undef OF

#define OF or_welcome_t
MESSAGE(welcome, [1] = STRING(software), [2] = UINT32(heartbeat_ms), [3] = UINT32(nodes_max),
        [4] = FIXED64(vocab_hash), [5] = STRING(owner), [6] = BOOL(trusted), [7] = STRING(model),
        [8] = STRING(arith_id), [9] = UINT32(drafters));
#undef OF

#define OF or_logit_bias_t
MESSAGE(logit_bias, [1] = UINT32_OF(int32_t, id), [2] = FLOAT(bias));
#undef OF

#define OF or_sampling_t
MESSAGE(sampling, [1] = FLOAT(temperature), [2] = UINT32(top_k), [3] = FLOAT(top_p),
        [4] = FLOAT(min_p), [5] = FLOAT(repeat_penalty), [6] = FLOAT(presence_penalty),
        [7] = FLOAT(frequency_penalty), [8] = SINT32(repeat_last_n),
        [9] = STRUCTS(bias, bias_count, or_logit_bias_t, logit_bias, AT_MOST_TOKENS("logit bias")));
#undef OF

#define OF or_open_session_t
MESSAGE(open_session,
        [1] = STRUCT(sampling, or_sampling_t, sampling, .what = "its sampling parameters"),
        [2] = UINT32S(stop_ids, stop_count, AT_MOST_TOKENS("stop ids")),
        [3] = BYTES(constraint, constraint_bytes), [4] = UINT32(accept_rule),
        [5] = UINT32(draft_method), [6] = UINT32(draft_nodes), [7] = UINT32(draft_depth),
        [8] = FLOAT(draft_temperature), [9] = FIXED64(noise_key), [10] = FIXED64(private_key),
        [11] = UINT32(prompt_length), [12] = UINT32(logprobs), [13] = FIXED64(draft_key),
        [14] = UINT32S(draft_shape, draft_shape_count, AT_MOST_TOKENS("draft shape")),
        [15] = UINT32(distribution_entries), [16] = FLOAT(lenience), [17] = FLOAT(typical_epsilon),
        [18] = FLOAT(typical_delta), [19] = FLOAT(draft_threshold), [20] = BOOL(draft_calibrated),
        [21] = UINT32(vocab_method), [22] = FIXED64(map_hash), [23] = FIXED64(target_hash),
        [24] = UINT32(outside_ids), [25] = STRING(owner), [26] = UINT32(draft_ahead));
#undef OF

#define OF or_prefix_t
MESSAGE(prefix, [1] = UINT32(start), [2] = UINT32S(tokens, count, AT_MOST_TOKENS("prefix tokens")),
        [3] = FIXED64(hash), [4] = UINT64(round), [5] = BOOL(placed), [6] = UINT32(byte_offset),
        [7] = UINT32(zero_width), [8] = BOOL(judged), [9] = UINT32(accepted), [10] = SINT32(next),
        [11] = UINT32(draft_nodes), [12] = UINT32(draft_depth), [13] = UINT32(draft_ahead));
#undef OF

#define OF or_reduced_distribution_t
MESSAGE(distribution, [1] = UINT32S(tokens, count),
        [2] = UINT32S(weights, count, AS_MANY_AS("a distribution's tokens and weights", count)));
#undef OF

#define OF or_draft_tree_t
MESSAGE(draft_tree, [1] = UINT64(round), [2] = UINT64(parent_round), [3] = UINT32(base_length),
        [4] = FIXED64(base_hash), [5] = UINT32S(tokens, count),
        [6] = UINT32S(back, count, AS_MANY_AS("tree tokens and parents", count)),
        [7] = UINT32S(dist_index, dist_index_count,
                      AS_MANY_AS("distribution indices and tree tokens", count)),
        [8] = UINT32S(draw_order, draw_order_count,
                      AS_MANY_AS("draw order and tree tokens", count)),
        [9] = STRUCTS(dists, dist_count, or_reduced_distribution_t, distribution,
                      AT_MOST_TOKENS("distributions")),
        [10] = UINT32(draft_us), [11] = UINT32(passes),
        [12] = DOUBLES(psi, psi_count, AS_MANY_AS("psi and tree tokens", count)),
        [13] = UINT32(read_us));
#undef OF

#define OF or_token_logprob_t
MESSAGE(
    token_logprob, [1] = UINT32(token), [2] = FLOAT(logprob), [3] = UINT32S(top_tokens, top_count),
    [4] = FLOATS(top_logprobs, top_count, AS_MANY_AS("top tokens and logprobs", top_count)));
#undef OF

#define OF or_verdict_t
MESSAGE(verdict, [1] = UINT64(round), [2] = UINT32(base_length),
        [3] = UINT32S(accepted, accepted_count, AT_MOST_TOKENS("accepted nodes")),
        [4] = UINT32(next), [5] = UINT32S(draws, draw_count, AT_MOST_TOKENS("draws")),
        [6] = STRUCTS(logprobs, logprob_count, or_token_logprob_t, token_logprob,
                      AS_MANY_AS("logprobs and the verdict's tokens", accepted_count, .more = 1)),
        [7] = UINT32(finish), [8] = UINT32(forward_us), [9] = UINT32(accept_us),
        [10] = FIXED64(hash), [11] = BYTES(features, feature_bytes), [12] = UINT32(draft_nodes),
        [13] = UINT32(draft_depth), [14] = UINT32(draft_ahead), [15] = UINT32(reused));
#undef OF

#define OF or_cancel_t
MESSAGE(cancel, [1] = STRING(reason), [2] = BOOL(keep));
#undef OF

#define OF or_vocab_map_t
MESSAGE(vocab_map, [1] = FIXED64(from_hash), [2] = FIXED64(to_hash),
        [3] = STEPS(to, count, AT_MOST_TOKENS("vocabulary map")), [4] = FIXED64(map_hash));
#undef OF

#define OF or_psi_request_t
MESSAGE(psi_request, [1] = UINT64(round), [2] = UINT32(base_length), [3] = FIXED64(base_hash),
        [4] = UINT32S(tokens, count, AT_MOST_TOKENS("tokens")), [5] = UINT32(node));
#undef OF

#define OF or_psi_reply_t
MESSAGE(psi_reply, [1] = UINT64(round), [2] = UINT32(node), [3] = UINT32S(tokens, count),
        [4] = DOUBLES(psi, count, AS_MANY_AS("tokens and their psi", count)));
#undef OF

#define OF or_kv_evicted_t
MESSAGE(kv_evicted, [1] = UINT32(kept_length));
#undef OF

#define OF or_vocab_request_t
MESSAGE(vocab_request, [1] = FIXED64(hash));
#undef OF

#define OF or_vocabulary_t
MESSAGE(vocabulary, [1] = FIXED64(hash), [2] = UINT32(unpacked_bytes),
        [3] = BYTES(packed, packed_bytes));
#undef OF

// The fields of a table of figures, at the numbers that their rows give (proto/wire/figures.h).
#define FIGURE_uint32_t(member) UINT32(member)
#define FIGURE_uint64_t(member) UINT64(member)
#define FIGURE_float(member) FLOAT(member)
#define FIGURE(type, member, number, ...) [number] = FIGURE_##type(member),

#define OF or_policy_terms_t
MESSAGE(policy, [1] = UINT64(session), [2] = STRING(owner), [3] = BOOL(automatic),
        [4] = UINT32(source), [20] = STRING(label), OR_SESSION_FIGURES(FIGURE));
#undef OF

#define OF or_peer_figures_t
MESSAGE(peer, [1] = ENUM(role, uint32_t), [2] = STRING(model), [3] = STRING(owner),
        [4] = STRING(state), [5] = BOOL(trusted), OR_PEER_FIGURES(FIGURE));
#undef OF

#define OF or_event_t
MESSAGE(event, [1] = UINT64(number), [2] = UINT64(time_ms), [3] = STRING(kind),
        [4] = UINT64(session), [5] = STRING(text));
#undef OF

#define OF or_stats_t
MESSAGE(stats, [27] = STRING(model), [36] = STRING(choice),
        [29] = STRUCTS(policies, policy_count, or_policy_terms_t, policy,
                       AT_MOST_TOKENS("policies")),
        [34] = STRUCTS(peers, peer_count, or_peer_figures_t, peer, AT_MOST_TOKENS("peers")),
        [35] = STRUCTS(events, event_count, or_event_t, event, AT_MOST_TOKENS("events")),
        OR_STATS_FIGURES(FIGURE));
#undef OF

#define OF or_stats_request_t
MESSAGE(stats_request, [1] = BOOL(metrics), [2] = UINT64(events_after));
#undef OF

#define OF or_metrics_text_t
MESSAGE(metrics, [1] = BYTES(text, bytes));
#undef OF

#define OF or_error_t
MESSAGE(error, [1] = UINT32(code), [2] = STRING(text), [3] = UINT32(retry_ms), [4] = UINT64(round),
        [5] = UINT32(length));
#undef OF

#define OF or_chat_message_t
MESSAGE(chat_message, [1] = STRING(role), [2] = BYTES(content, content_bytes));
#undef OF

#define OF or_generate_request_t
MESSAGE(
    generate_request, [1] = UINT64(request), [2] = BYTES(prompt, prompt_bytes),
    [3] = UINT32S(prompt_tokens, prompt_token_count, AT_MOST_TOKENS("prompt tokens")),
    [4] = UINT32(max_tokens),
    [5] = STRUCT(sampling, or_sampling_t, sampling, .what = "its sampling parameters"),
    [6] = UINT64(seed), [7] = BOOL(has_seed),
    [8] = BYTES_LIST(stop, stop_count, AT_MOST_TOKENS("stop strings")), [9] = BOOL(plain),
    [10] = UINT32(draft_method), [11] = UINT32(accept_rule), [12] = UINT32(draft_nodes),
    [13] = UINT32(draft_depth), [14] = FLOAT(draft_temperature), [15] = BOOL(has_draft_temperature),
    [16] = BOOL(ignore_end), [17] = BOOL(special),
    [18] = UINT32S(draft_shape, draft_shape_count, AT_MOST_TOKENS("draft shape")),
    [19] = UINT32(distribution_entries), [20] = BOOL(allow_lossy), [21] = FLOAT(lenience),
    [22] = FLOAT(typical_epsilon), [23] = FLOAT(typical_delta), [24] = FLOAT(draft_threshold),
    [25] = BOOL(draft_calibrated), [26] = UINT32(vocab_method), [27] = UINT32(draft_ahead),
    [28] = UINT32(draft_policy), [29] = STRING(owner), [30] = STRING(label),
    [31] = UINT32(logprobs), [32] = BOOL(details), [33] = UINT32(choice),
    [34] = STRUCTS(messages, message_count, or_chat_message_t, chat_message,
                   AT_MOST_TOKENS("messages")),
    [35] = BOOL(measured), [36] = UINT32(thinking), [37] = STRING(reader), [38] = STRING(calls));
#undef OF

#define OF or_generate_stats_t
MESSAGE(generate_stats, [1] = UINT32(prompt_tokens), [2] = UINT32(completion_tokens),
        [3] = UINT64(target_calls), [4] = UINT64(drafted), [5] = UINT64(accepted),
        [6] = UINT64(wire_bytes), [7] = UINT64(elapsed_us), [8] = UINT64(draft_us),
        [9] = UINT64(verify_us), [10] = UINT64(round_us), [11] = UINT64(plain_rounds),
        [12] = UINT64(resyncs), [13] = UINT64(first_token_us), [14] = UINT64(accept_us),
        [15] = LEVELS(depth_offered), [16] = LEVELS(depth_accepted), [17] = LEVELS(rank_offered),
        [18] = LEVELS(rank_accepted), [19] = UINT64(draft_passes), [20] = UINT64(psi_requests),
        [21] = UINT64(translate_us), [22] = UINT64(ahead_rounds), [23] = UINT64(ahead_hits),
        [24] = UINT64(bridged_rounds), [25] = UINT64(lookup_rounds), [26] = UINT64(failovers),
        [27] = UINT64(resumes), [28] = UINT32(resumed_tokens), [29] = UINT32(prompt_reused),
        [30] = UINT64(queue_us));
#undef OF

#define OF or_generate_delta_t
MESSAGE(generate_delta, [1] = UINT64(request), [2] = UINT32(offset),
        [3] = UINT32S(tokens, count, AT_MOST_TOKENS("completion tokens")),
        [4] = BYTES(text, text_bytes), [5] = UINT32(finish), [6] = STRING(error),
        [7] = UINT32(error_code), [8] = UINT64(seed), [9] = STRING(arith_id),
        [10] = STRUCT(stats, or_generate_stats_t, generate_stats), [11] = UINT64(text_offset),
        [12] = STRING(note), [13] = STRING(vocab_map), [14] = STRING(vocab_why),
        [15] = UINT32(retry_ms), [16] = BYTES(token, token_bytes), [17] = STRING(advice),
        [18] = BYTES(origins, origin_count, AS_MANY_AS("origins and tokens", count)),
        [19] = STRUCTS(logprobs, logprob_count, or_token_logprob_t, token_logprob,
                       AS_MANY_AS("logprobs and tokens", count)),
        [20] = UINT64S(token_ends, token_end_count, AS_MANY_AS("token ends and tokens", count)),
        [21] = POINTER(tree, or_draft_tree_t, draft_tree),
        [22] = UINT32S(tree_accepted, tree_accepted_count, AT_MOST_TOKENS("accepted nodes")),
        [23] = UINT64S(part_changes, part_change_count,
                       AT_MOST(OR_PART_CHANGES_MAX, "changes of parts")),
        [24] = UINT64S(call_changes, call_change_count,
                       AT_MOST(OR_PART_CHANGES_MAX, "changes of calls")));
#undef OF

#define OF or_resume_t
MESSAGE(resume, [1] = UINT64(request), [2] = UINT32(offset), [3] = BYTES(token, token_bytes),
        [4] = UINT64(text_offset), [5] = STRING(owner));
#undef OF

#define OF or_heartbeat_t
MESSAGE(heartbeat, [1] = UINT32(reply), [2] = UINT32(answer));
#undef OF

#define OF or_message_t
#define BODY(member) CHOICE(body, member, type)
static const or_wire_row_t message_rows[] = {[1] = UINT32(version),
                                             [2] = UINT64(session.value),
                                             [OR_MSG_HELLO] = BODY(hello),
                                             [OR_MSG_WELCOME] = BODY(welcome),
                                             [OR_MSG_OPEN_SESSION] = BODY(open_session),
                                             [OR_MSG_PREFIX] = BODY(prefix),
                                             [OR_MSG_DRAFT_TREE] = BODY(draft_tree),
                                             [OR_MSG_VERDICT] = BODY(verdict),
                                             [OR_MSG_CANCEL] = BODY(cancel),
                                             [OR_MSG_VOCAB_MAP] = BODY(vocab_map),
                                             [OR_MSG_PSI_REQUEST] = BODY(psi_request),
                                             [OR_MSG_PSI_REPLY] = BODY(psi_reply),
                                             [OR_MSG_KV_EVICTED] = BODY(kv_evicted),
                                             [OR_MSG_STATS] = BODY(stats),
                                             [OR_MSG_ERROR] = BODY(error),
                                             [OR_MSG_GENERATE_REQUEST] = BODY(generate_request),
                                             [OR_MSG_GENERATE_DELTA] = BODY(generate_delta),
                                             [OR_MSG_RESUME] = BODY(resume),
                                             [OR_MSG_HEARTBEAT] = BODY(heartbeat),
                                             [OR_MSG_VOCAB_REQUEST] = BODY(vocab_request),
                                             [OR_MSG_VOCABULARY] = BODY(vocabulary),
                                             [OR_MSG_STATS_REQUEST] = BODY(stats_request),
                                             [OR_MSG_METRICS] = BODY(metrics),
                                             [31] = PADDING(padding)};
const or_wire_table_t or_message_table = TABLE(message_rows);
#undef OF
