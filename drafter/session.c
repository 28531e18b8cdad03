#include "drafter/session.h"

#include <stdlib.h>
#include <string.h>

static bool is_drawn(const or_open_session_t *open)
{
    return or_build_is_drawn((or_draft_method_t)open->draft_method,
                             (or_accept_rule_t)open->accept_rule);
}

static or_status_t check_terms(const or_open_session_t *open, const or_dshared_t *shared)
{
    if (open->draft_method == OR_DRAFT_NONE || or_draft_method_name(open->draft_method) == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this drafter does not know drafting method %u (it has %s)",
                       open->draft_method, or_draft_method_list());
    }
    or_status_t status =
        or_methods_check(open->draft_method, open->accept_rule, open->sampling.temperature);
    if (status == OR_OK) {
        status = or_sampling_check(&open->sampling, or_vocab_size(shared->vocab));
    }
    if (status == OR_OK) {
        status = or_vocab_method_check(open->vocab_method, open->accept_rule);
    }
    if (status == OR_OK && !(open->draft_temperature > 0)) {
        status = or_fail(OR_ERR_INVALID, "the draft temperature must be above 0");
    }
    if (status == OR_OK && open->draft_depth == 0) {
        status = or_fail(OR_ERR_INVALID, "a draft depth of 0: trees need a depth of at least 1");
    }
    if (status == OR_OK && is_drawn(open) &&
        (open->law_entries < 1 || open->law_entries > OR_LAW_ENTRIES_MAX)) {
        status = or_fail(OR_ERR_INVALID, "laws of %u tokens: between 1 and %u are possible",
                         open->law_entries, OR_LAW_ENTRIES_MAX);
    }
    return status;
}

// The shape that was asked for, or the method's own.
static or_status_t take_shape(const or_open_session_t *open, uint32_t nodes, or_shape_t *shape)
{
    or_draft_method_t method = (or_draft_method_t)open->draft_method;
    if (open->draft_shape_count == 0) {
        *shape = nodes > 0 && open->draft_depth > 0
                     ? or_shape_usual(method, nodes, open->draft_depth)
                     : (or_shape_t){0};
        return OR_OK;
    }
    or_status_t status = or_shape_set(open->draft_shape, open->draft_shape_count, shape);
    return status == OR_OK ? or_shape_check(shape, method, open->draft_depth) : status;
}

static or_status_t take_map(const or_open_session_t *open, const or_dshared_t *shared,
                            or_map_t **map_p)
{
    if (open->map_hash == 0) {
        return open->vocab_method != OR_VOCAB_TLI
                   ? OR_OK
                   : or_fail(OR_ERR_INVALID, "tli restricts guesses by a map, but none is named");
    }
    or_map_t *map = or_maps_take(shared->maps, open->map_hash);
    if (map == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "send the vocabulary map, then open the session again");
    }
    *map_p = map;
    return map->common > 0
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the target has none of this drafter's tokens");
}

// One lane for each model that drafts.
static or_status_t open_lanes(or_dsession_t *session, const or_dshared_t *shared)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t law_entries = is_drawn(open) ? open->law_entries : 0;
    uint32_t count = open->draft_method == OR_DRAFT_MULTI ? 1 + shared->more_count : 1;
    uint32_t nodes = or_dstrings_nodes(&session->slrs, open);
    or_status_t status = or_merge_create(count, nodes, &session->merge);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        or_model_t *model = i == 0 ? shared->model : shared->more_models[i - 1];
        session->lane_count++; // open or half open: to be closed
        status = or_lane_open(&session->lanes[i], model, shared->vocab, nodes, law_entries);
    }
    return status;
}

or_status_t or_dsession_open(or_dsession_t *session, const or_dshared_t *shared, or_session_id_t id,
                             const or_open_session_t *open)
{
    or_status_t status = check_terms(open, shared);
    if (status != OR_OK) {
        return status;
    }
    uint32_t nodes = open->draft_nodes < shared->nodes_max ? open->draft_nodes : shared->nodes_max;
    or_dsession_t fresh = {.id = id, .place_at = open->prompt_length};
    or_belief_init(&fresh.belief);
    fresh.calibration =
        or_calibrations_find(shared->calibrations, (or_draft_method_t)open->draft_method,
                             (or_accept_rule_t)open->accept_rule, open->sampling.temperature);
    status = take_map(open, shared, &fresh.map);
    if (status == OR_OK) {
        status = take_shape(open, nodes, &fresh.shape);
    }
    if (status == OR_OK) {
        status = or_terms_copy(open, &fresh.terms);
    }
    if (status == OR_OK) {
        fresh.terms.open.draft_nodes = fresh.nodes = nodes;
        // The target may hold more than we do; then we follow its text without drafting.
        status = or_token_log_init(&fresh.log, or_model_context(shared->model) + nodes + 2);
    }
    if (status == OR_OK) {
        status = or_dstrings_open(&fresh.slrs, &fresh.terms.open, shared->vocab, shared->targets);
    }
    if (status == OR_OK) {
        status =
            or_token_tree_create(or_dstrings_nodes(&fresh.slrs, &fresh.terms.open), &fresh.tree);
    }
    if (status == OR_OK) {
        status = open_lanes(&fresh, shared);
    }
    if (status != OR_OK) {
        or_dsession_close(&fresh);
        return status;
    }
    *session = fresh;
    return OR_OK;
}

void or_dsession_close(or_dsession_t *session)
{
    for (uint32_t i = 0; i < session->lane_count; i++) {
        or_lane_close(&session->lanes[i]);
    }
    or_merge_destroy(&session->merge);
    or_dstrings_close(&session->slrs);
    or_token_tree_destroy(&session->tree);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    or_map_release(&session->map);
    memset(session, 0, sizeof *session);
}

bool or_dsession_holds_pages(const or_dsession_t *session)
{
    bool holds = false;
    for (uint32_t i = 0; i < session->lane_count; i++) {
        holds = holds || or_kv_sequence_length(session->lanes[i].kv) > 0;
    }
    return holds;
}

void or_dsession_drop_pages(or_dsession_t *session)
{
    for (uint32_t i = 0; i < session->lane_count; i++) {
        or_kv_sequence_truncate(session->lanes[i].kv, 0);
    }
}

// A lane's method, shape and nodes. Several models share the sequences of the shape, and draw with
// numbers of their own.
static or_draft_method_t suit_lane(const or_dsession_t *session, uint32_t index,
                                   or_build_job_t *job)
{
    or_draft_method_t method = (or_draft_method_t)session->terms.open.draft_method;
    uint32_t all = session->shape.widths[0];
    if (method != OR_DRAFT_MULTI || all == 0) {
        return method;
    }
    uint32_t mine = all / session->lane_count + (index < all % session->lane_count);
    job->shape.widths[0] = mine;
    job->nodes_max = (uint32_t)((uint64_t)job->nodes_max * mine / all);
    return OR_DRAFT_KSEQ;
}

// What a lane's trees are grown from; who draws sets the chooser.
static or_build_job_t job_of(or_dsession_t *session, const or_dshared_t *shared, uint32_t index)
{
    const or_open_session_t *open = &session->terms.open;
    return (or_build_job_t){
        .sequence = session->lanes[index].kv,
        .history = session->log.tokens,
        .history_count = session->log.length,
        .place = or_dsession_place(session, shared),
        .noise_key = {open->noise_key},
        .sampling = open->sampling,
        .draft_temperature = open->draft_temperature,
        .shape = session->shape,
        .calibrated = open->draft_calibrated,
        .threshold = open->draft_threshold,
        .calibration = session->calibration,
        .nodes_max = session->nodes,
        .depth_max = open->draft_depth,
        .map = session->map != NULL ? session->map->to : NULL,
        .strings = session->slrs.strings,
        .belief = &session->belief,
    };
}

static or_status_t build_lane(or_dsession_t *session, const or_dshared_t *shared, uint32_t index)
{
    const or_open_session_t *open = &session->terms.open;
    or_lane_t *lane = &session->lanes[index];
    or_rng_key_t key = {open->draft_key};
    key = index == 0 ? key : or_rng_key(key.value, index);
    or_keyed_chooser_t chooser = or_keyed_chooser(key, session->round, (or_rng_key_t){0}, NULL);
    or_build_job_t job = job_of(session, shared, index);
    job.chooser = &chooser.chooser;
    or_draft_method_t method = suit_lane(session, index, &job);
    or_build_job_suit(&job, method, (or_accept_rule_t)open->accept_rule);
    or_status_t status = OR_OK;
    if (or_build_asks_model(method)) {
        status = or_lane_catch_up(lane, &session->log, &job.root_row);
    }
    return status == OR_OK ? or_builder_build(lane->builder, method, &job, lane->tree) : status;
}

static or_status_t build(or_dsession_t *session, const or_dshared_t *shared)
{
    or_merge_part_t parts[OR_DRAFT_MODELS_MAX];
    for (uint32_t i = 0; i < session->lane_count; i++) {
        or_status_t status = build_lane(session, shared, i);
        if (status != OR_OK) {
            return status;
        }
        or_lane_t *lane = &session->lanes[i];
        parts[i] = (or_merge_part_t){lane->tree, or_builder_draws(lane->builder)};
    }
    return or_merge_trees(session->merge, parts, session->lane_count,
                          or_accept_rule_counts_repeats(session->terms.open.accept_rule),
                          session->tree);
}

static uint64_t count_passes(const or_dsession_t *session)
{
    uint64_t passes = 0;
    for (uint32_t i = 0; i < session->lane_count; i++) {
        passes += or_lane_passes(&session->lanes[i]);
    }
    return passes;
}

or_status_t or_dsession_draft(or_dsession_t *session, const or_dshared_t *shared)
{
    int64_t started = or_clock_now(shared->clock);
    const or_open_session_t *open = &session->terms.open;
    or_token_tree_reset(session->tree, session->log.tokens[session->log.length - 1]);
    session->built =
        session->log.length <= or_model_context(shared->model) && open->draft_nodes > 0;
    or_status_t status = session->built ? build(session, shared) : OR_OK;
    if (status == OR_OK) {
        status = or_dstrings_take_chain(&session->slrs, session->built);
    }
    if (status != OR_OK) {
        return status;
    }
    session->tree_round = session->round;
    session->wanted = false;
    uint64_t passes_all = count_passes(session);
    session->passes = (uint32_t)(passes_all - session->passes_all);
    session->passes_all = passes_all;
    session->draft_us = (uint32_t)((or_clock_now(shared->clock) - started) / 1000);
    return OR_OK;
}

// ---- questions (slrs) ----

or_status_t or_dsession_ask(or_dsession_t *session, const or_psi_request_t *request)
{
    if (request->round < session->round) {
        return OR_OK;
    }
    if (session->slrs.strings == NULL) {
        return or_fail(OR_ERR_INVALID, "a question about strings that this session does not draft");
    }
    bool known = session->wanted || session->tree_round == session->round;
    if (!known || request->round != session->round || request->base_length != session->log.length ||
        request->base_hash != session->log.hash) {
        return or_fail(OR_ERR_MISMATCH,
                       "the question about round %llu does not fit our prefix of %u tokens",
                       (unsigned long long)request->round, session->log.length);
    }
    return or_dstrings_ask(&session->slrs, request);
}

bool or_dsession_is_asked(const or_dsession_t *session)
{
    return session->tree_round != 0 && session->slrs.question_round == session->tree_round;
}

or_status_t or_dsession_answer(or_dsession_t *session, const or_dshared_t *shared,
                               or_psi_reply_t *reply)
{
    or_dstrings_t *slrs = &session->slrs;
    or_lane_t *lane = &session->lanes[0];
    or_build_job_t job = job_of(session, shared, 0);
    or_build_job_suit(&job, OR_DRAFT_CHAIN, OR_ACCEPT_SLRS);
    if (slrs->question_node >= or_token_tree_count(slrs->chain)) {
        slrs->question_round = 0;
        return or_fail(OR_ERR_INVALID, "a question about what follows node %u of a chain of %u",
                       slrs->question_node, or_token_tree_count(slrs->chain));
    }
    // The pages may have gone to another session since the chain was drawn.
    bool cold = or_kv_sequence_length(lane->kv) != session->log.length;
    or_status_t status = cold ? or_lane_catch_up(lane, &session->log, &job.root_row) : OR_OK;
    or_strings_law_t law;
    if (status == OR_OK) {
        status = or_strings_ask(slrs->strings, lane->builder, &job, cold, slrs->question_node,
                                slrs->question_tokens, slrs->question_count, &law);
    }
    if (status == OR_OK) {
        *reply = (or_psi_reply_t){slrs->question_round, slrs->question_node, law.tokens, law.psi,
                                  law.count};
    }
    if (status == OR_OK || status == OR_ERR_INVALID) {
        slrs->question_round = 0;
    }
    return status;
}
