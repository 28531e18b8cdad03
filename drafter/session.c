#include "drafter/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/inline.h"

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
    or_status_t status = or_terms_check(open);
    if (status == OR_OK) {
        status =
            or_methods_check(open->draft_method, open->accept_rule, open->sampling.temperature);
    }
    if (status == OR_OK) {
        status = or_sampling_check(&open->sampling, or_vocab_size(shared->vocab));
    }
    if (status == OR_OK) {
        status = or_vocab_method_check(open->vocab_method, open->accept_rule);
    }
    if (status == OR_OK && !(open->draft_temperature > 0 && isfinite(open->draft_temperature))) {
        status = or_fail(OR_ERR_INVALID, "the draft temperature must be a number above 0");
    }
    if (status == OR_OK && open->draft_depth == 0) {
        status = or_fail(OR_ERR_INVALID, "a draft depth of 0: trees need a depth of at least 1");
    }
    if (status == OR_OK && is_drawn(open) &&
        (open->distribution_entries < 1 ||
         open->distribution_entries > OR_DISTRIBUTION_ENTRIES_MAX)) {
        status =
            or_fail(OR_ERR_INVALID, "distributions of %u tokens: between 1 and %u are possible",
                    open->distribution_entries, OR_DISTRIBUTION_ENTRIES_MAX);
    }
    return status;
}

// Take the requested shape, or the method's own.
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

// Return true if trees may grow ahead of the verdicts: only if any guess may be used, and one model drafts its own
// tokens.
static bool may_grow(const or_open_session_t *open)
{
    return open->draft_ahead > 0 && open->map_hash == 0 &&
           or_build_grows((or_draft_method_t)open->draft_method,
                          (or_accept_rule_t)open->accept_rule);
}

// Open one lane for each model that drafts.
static or_status_t open_lanes(or_dsession_t *session, const or_dshared_t *shared)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t distribution_entries = is_drawn(open) ? open->distribution_entries : 0;
    uint32_t count = open->draft_method == OR_DRAFT_MULTI ? 1 + shared->more_count : 1;
    uint32_t nodes = or_dstrings_nodes(&session->slrs, open);
    nodes = session->grows ? or_build_growing_nodes(nodes) : nodes;
    or_status_t status = or_merge_create(count, nodes, &session->merge);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        or_model_t *model = i == 0 ? shared->model : shared->more_models[i - 1];
        session->lane_count++; // open or half open: to be closed
        status =
            or_lane_open(&session->lanes[i], model, shared->vocab, nodes, distribution_entries);
    }
    return status;
}

// Reduce the request to what we can do, without what a drafter has no use for.
static or_open_session_t within_our_bounds(const or_open_session_t *asked,
                                           const or_dshared_t *shared)
{
    or_open_session_t open = *asked;
    open.draft_nodes = or_min_u32(open.draft_nodes, shared->nodes_max);
    open.draft_depth =
        or_min_u32(open.draft_depth, OR_TREE_NODES_MAX); // no more levels than guesses
    open.draft_ahead =
        or_min_u32(open.draft_ahead, OR_TREE_NODES_MAX); // no more rounds than guesses
    open.owner = "";
    open.constraint = NULL;
    open.constraint_bytes = 0;
    open.stop_ids = NULL;
    open.stop_count = 0;
    return open;
}

or_status_t or_dsession_open(or_dsession_t *session, const or_dshared_t *shared, or_session_id_t id,
                             const or_open_session_t *asked)
{
    const or_open_session_t bounded = within_our_bounds(asked, shared);
    or_status_t status = check_terms(&bounded, shared);
    if (status != OR_OK) {
        return status;
    }
    const or_open_session_t *open = &bounded;
    uint32_t nodes = open->draft_nodes;
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
        fresh.nodes = nodes;
        fresh.depth = open->draft_depth;
        fresh.ahead = open->draft_ahead;
        fresh.grows = may_grow(&fresh.terms.open);
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
    if (status == OR_OK && fresh.grows) {
        status = or_token_tree_create(nodes, &fresh.news.tree);
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

// Compare terms: they are the same if they travel alike.
bool or_dsession_is_as(const or_dsession_t *session, const or_dshared_t *shared,
                       const or_open_session_t *open)
{
    const or_message_t ours = {.type = OR_MSG_OPEN_SESSION,
                               .session = session->id,
                               .body.open_session = session->terms.open};
    const or_message_t theirs = {.type = OR_MSG_OPEN_SESSION,
                                 .session = session->id,
                                 .body.open_session = within_our_bounds(open, shared)};
    uint8_t *frames[2] = {NULL, NULL};
    size_t bytes[2];
    bool same = or_message_encode(&ours, &frames[0], &bytes[0]) == OR_OK &&
                or_message_encode(&theirs, &frames[1], &bytes[1]) == OR_OK &&
                bytes[0] == bytes[1] && memcmp(frames[0], frames[1], bytes[0]) == 0;
    free(frames[0]);
    free(frames[1]);
    return same;
}

void or_dsession_close(or_dsession_t *session)
{
    for (uint32_t i = 0; i < session->lane_count; i++) {
        or_lane_close(&session->lanes[i]);
    }
    or_merge_destroy(&session->merge);
    or_dstrings_close(&session->slrs);
    or_token_tree_destroy(&session->tree);
    or_token_tree_destroy(&session->news.tree);
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
        or_lane_truncate(&session->lanes[i], 0);
    }
}
