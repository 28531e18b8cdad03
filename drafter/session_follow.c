// The text of a session. Prefixes and verdicts change it, and the session keeps and learns from the last tree.
#include "drafter/session.h"

// ---- the last tree ----

// Return true if there is a tree that the models built and that stands on the log as it is.
static bool has_tree(const or_dsession_t *session)
{
    return session->tree_round != 0 && session->built;
}

// Write the part of a path of the session's tree that a lane has, in its own nodes; return how many.
static uint32_t path_of_lane(const or_dsession_t *session, uint32_t index, const uint32_t *nodes,
                             uint32_t count, uint32_t path[OR_TREE_NODES_MAX])
{
    for (uint32_t i = 0; i < count; i++) {
        path[i] = or_merge_origin(session->merge, index, nodes[i]);
        if (path[i] == 0) {
            return i;
        }
    }
    return count;
}

// Learn that the target took these nodes, then `next`. The belief is about the first model.
static void learn(or_dsession_t *session, const uint32_t *accepted, uint32_t count, int32_t next)
{
    uint32_t path[OR_TREE_NODES_MAX];
    uint32_t found = path_of_lane(session, 0, accepted, count, path);
    int32_t token = found < count ? or_token_tree_tokens(session->tree)[accepted[found]] : next;
    or_builder_learn(session->lanes[0].builder, &session->belief, session->calibration, path, found,
                     token);
}

// Keep these nodes, with which the log of `length` tokens goes on: each lane keeps its part of them.
static or_status_t keep(or_dsession_t *session, uint32_t length, const uint32_t *nodes,
                        uint32_t count)
{
    uint32_t path[OR_TREE_NODES_MAX];
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < session->lane_count; i++) {
        uint32_t found = path_of_lane(session, i, nodes, count, path);
        status = or_lane_keep(&session->lanes[i], length, path, found);
    }
    return status;
}

// ---- prefixes ----

or_noise_place_t or_dsession_place(const or_dsession_t *session, const or_dshared_t *shared)
{
    const uint32_t *widths = or_vocab_widths(shared->vocab);
    or_noise_place_t place = session->place;
    for (uint32_t i = session->place_at; i < session->log.length; i++) {
        place = or_noise_advance(place, widths[session->log.tokens[i]]);
    }
    return place;
}

// Note where the next token begins. Returns whether that is news, for a log that stayed the same.
static bool take_place(or_dsession_t *session, const or_dshared_t *shared,
                       const or_prefix_t *prefix)
{
    or_noise_place_t before = or_dsession_place(session, shared);
    session->place = (or_noise_place_t){prefix->byte_offset, prefix->zero_width};
    session->place_at = session->log.length;
    if (!prefix->placed) {
        session->place = (or_noise_place_t){0, 0};
        session->place_at = session->terms.open.prompt_length;
    }
    or_noise_place_t after = or_dsession_place(session, shared);
    return after.byte_offset != before.byte_offset || after.zero_width != before.zero_width;
}

// Write the nodes that these tokens follow from the root down; return how many.
static uint32_t walk(const or_token_tree_t *tree, const int32_t *tokens, uint32_t count,
                     uint32_t nodes[OR_TREE_NODES_MAX])
{
    uint32_t walked = 0;
    for (uint32_t node = 0; walked < count; walked++) {
        node = or_token_tree_find_child(tree, node, tokens[walked]);
        if (node == 0) {
            break;
        }
        nodes[walked] = node;
    }
    return walked;
}

// Leave the tree of a log that was `length` tokens long, `kept` of which are still there. A judgement that is not
// about our last tree, or says more than its tokens show, teaches nothing.
static or_status_t leave_tree(or_dsession_t *session, const or_prefix_t *prefix, uint32_t length,
                              uint32_t kept)
{
    const or_token_log_t *log = &session->log;
    uint32_t nodes[OR_TREE_NODES_MAX] = {0};
    uint32_t count = 0;
    if (has_tree(session) && kept == length) {
        count = walk(session->tree, log->tokens + length, log->length - length, nodes);
    }
    if (has_tree(session) && prefix->judged && prefix->round == session->tree_round + 1 &&
        prefix->accepted <= count) {
        learn(session, nodes, prefix->accepted, prefix->next);
    }
    if (count > 0) {
        return keep(session, length, nodes, count);
    }
    for (uint32_t i = 0; i < session->lane_count; i++) {
        or_lane_truncate(&session->lanes[i], kept);
    }
    return OR_OK;
}

// Follow with a growing tree. If a round begins again on the same text, the coordinator that asks knows no guesses.
static or_status_t follow(or_dsession_t *session, uint32_t length, uint32_t kept)
{
    or_lane_t *lane = &session->lanes[0];
    const or_token_log_t *log = &session->log;
    if (kept < length) {
        or_lane_truncate(lane, kept);
        return OR_OK;
    }
    if (log->length == length) {
        or_builder_untell(lane->builder);
    }
    return or_lane_follow(lane, &session->belief, length, log->tokens + length,
                          log->length - length);
}

// Take the coordinator's budget: less from now on, or as much as at first (0). A shape cannot be cut.
static void take_budget(or_dsession_t *session, uint32_t nodes, uint32_t depth, uint32_t ahead)
{
    const or_open_session_t *most = &session->terms.open;
    bool shaped = session->shape.count > 0;
    bool fewer = nodes > 0 && nodes < most->draft_nodes && !shaped;
    bool flatter = depth > 0 && depth < most->draft_depth && !shaped;
    session->nodes = fewer ? nodes : most->draft_nodes;
    session->depth = flatter ? depth : most->draft_depth;
    session->ahead = ahead > 0 && ahead - 1 < most->draft_ahead ? ahead - 1 : most->draft_ahead;
}

bool or_dsession_repeats(const or_dsession_t *session, const or_prefix_t *prefix)
{
    uint32_t place_at = prefix->placed ? session->log.length : session->terms.open.prompt_length;
    uint32_t byte_offset = prefix->placed ? prefix->byte_offset : 0;
    uint32_t zero_width = prefix->placed ? prefix->zero_width : 0;
    return session->wanted && prefix->round == session->round &&
           (uint64_t)prefix->start + prefix->count == session->log.length &&
           prefix->hash == session->log.hash && session->place_at == place_at &&
           session->place.byte_offset == byte_offset && session->place.zero_width == zero_width;
}

or_status_t or_dsession_prefix(or_dsession_t *session, const or_dshared_t *shared,
                               const or_prefix_t *prefix, bool *again)
{
    *again = false;
    if (prefix->round < session->round) {
        return OR_OK;
    }
    uint32_t vocab_size = or_vocab_size(shared->vocab);
    if (prefix->judged && prefix->next != OR_PREFIX_NO_TOKEN &&
        (prefix->next < 0 || (uint32_t)prefix->next >= vocab_size)) {
        return or_fail(OR_ERR_INVALID, "judged token %d is not in the vocabulary of %u",
                       prefix->next, vocab_size);
    }
    uint32_t length = session->log.length;
    uint32_t kept = 0;
    or_status_t status = or_token_log_apply(&session->log, prefix, vocab_size, &kept);
    if (status == OR_ERR_FULL) {
        return or_fail(
            OR_ERR_FULL,
            "the text has outgrown this drafter's context of %u tokens: start the drafter "
            "with a larger -c",
            or_model_context(shared->model));
    }
    if (status != OR_OK) {
        return status;
    }
    bool moved = take_place(session, shared, prefix);
    bool unchanged = kept == length && session->log.length == length && !moved &&
                     session->round == prefix->round;
    if (unchanged && (session->wanted || session->tree_round == session->round)) {
        *again = !session->wanted;
        return OR_OK;
    }
    status =
        session->grows ? follow(session, length, kept) : leave_tree(session, prefix, length, kept);
    take_budget(session, prefix->draft_nodes, prefix->draft_depth, prefix->draft_ahead);
    session->round = prefix->round;
    session->tree_round = 0;
    session->wanted = true;
    return status;
}

// ---- verdicts ----

// Return true if `accepted` is a path of our last tree from the root down.
static bool is_path(const or_dsession_t *session, const or_verdict_t *verdict)
{
    const uint32_t *parents = or_token_tree_parents(session->tree);
    uint32_t parent = 0;
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        if (node == 0 || node > or_token_tree_count(session->tree) || parents[node] != parent) {
            return false;
        }
        parent = node;
    }
    return true;
}

// Return the prefix hash after the path and `next`.
static uint64_t hash_after(const or_dsession_t *session, const or_verdict_t *verdict)
{
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    uint64_t hash = session->log.hash;
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t token = (uint32_t)tokens[verdict->accepted[i]];
        hash = or_prefix_hash(hash, &token, 1);
    }
    return or_prefix_hash(hash, &verdict->next, 1);
}

or_status_t or_dsession_verdict(or_dsession_t *session, const or_dshared_t *shared,
                                const or_verdict_t *verdict)
{
    if (verdict->round < session->round) {
        return OR_OK;
    }
    if (session->grows) { // numbers of nodes say nothing about its tree
        return or_fail(OR_ERR_MISMATCH, "a session that drafts ahead follows prefixes alone");
    }
    bool ours = session->tree_round == verdict->round;
    if (verdict->round != session->round || verdict->base_length != session->log.length ||
        verdict->next >= or_vocab_size(shared->vocab) || (verdict->accepted_count > 0 && !ours) ||
        !is_path(session, verdict) || hash_after(session, verdict) != verdict->hash) {
        return or_fail(OR_ERR_MISMATCH,
                       "the verdict of round %llu does not fit our prefix of %u tokens",
                       (unsigned long long)verdict->round, session->log.length);
    }
    if ((uint64_t)session->log.length + verdict->accepted_count + 1 > session->log.capacity) {
        return or_fail(OR_ERR_MISMATCH, "the text has outgrown this drafter's context");
    }
    or_status_t status = OR_OK;
    if (ours && session->built) {
        learn(session, verdict->accepted, verdict->accepted_count, (int32_t)verdict->next);
        status = keep(session, session->log.length, verdict->accepted, verdict->accepted_count);
    }
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    for (uint32_t i = 0; status == OR_OK && i < verdict->accepted_count; i++) {
        status = or_token_log_append(&session->log, &tokens[verdict->accepted[i]], 1);
    }
    int32_t next = (int32_t)verdict->next;
    if (status == OR_OK) {
        status = or_token_log_append(&session->log, &next, 1);
    }
    if (status != OR_OK) { // only our own mistake could bring this; a replay mends it
        session->tree_round = 0;
        return status;
    }
    take_budget(session, verdict->draft_nodes, verdict->draft_depth, verdict->draft_ahead);
    session->round = verdict->round + 1;
    session->tree_round = 0;
    session->wanted = verdict->finish == OR_FINISH_NONE;
    return OR_OK;
}
