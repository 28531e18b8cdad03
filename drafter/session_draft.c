// The drafting of a session. It builds trees from nothing, grows trees on, and answers questions about strings.
#include "drafter/session.h"

// A round of the session's own trees leaves fewer tokens that the cache lacks. To run more is to read.
#define READ_TOKENS 16u

// Set a lane's method, shape and nodes. Several models share the sequences of the shape, and draw with numbers of
// their own.
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

// Return the job of a lane's trees; for drawn trees the caller sets the chooser.
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
        .depth_max = session->depth,
        .map = session->map != NULL ? session->map->to : NULL,
        .strings = session->slrs.strings,
        .belief = &session->belief,
    };
}

static uint32_t us_since(const or_dshared_t *shared, int64_t started_ns)
{
    return (uint32_t)((or_clock_now(shared->clock) - started_ns) / 1000);
}

// Who is called learns between two passes what is new of the text; what was read stays.
static or_status_t read_on(or_dsession_t *session, or_lane_t *lane)
{
    bool read = true;
    or_status_t status = OR_OK;
    while (status == OR_OK && read) {
        status = or_lane_read(lane, &session->log, &read);
        if (status == OR_OK && read && session->called) {
            status = or_fail(OR_ERR_AGAIN, "there is news of the text");
        }
    }
    return status;
}

// All lanes read before any builds: who is called between two lanes has no tree to throw away.
static or_status_t read_text(or_dsession_t *session, const or_dshared_t *shared)
{
    int64_t started_ns = or_clock_now(shared->clock);
    uint64_t passes = or_dsession_passes(session);
    or_status_t status = OR_OK;
    for (uint32_t i = 0; i < session->lane_count && status == OR_OK; i++) {
        status = read_on(session, &session->lanes[i]);
    }
    session->read_us = us_since(shared, started_ns);
    session->read_passes = (uint32_t)(or_dsession_passes(session) - passes);
    return status;
}

// Reading happens once in a text, in passes of many rows. It says nothing of what building takes, so its time and its passes are
// counted apart.
static or_status_t catch_up(or_dsession_t *session, const or_dshared_t *shared, or_lane_t *lane,
                            uint32_t *root_row)
{
    bool reads = or_kv_sequence_length(lane->kv) + READ_TOKENS < session->log.length;
    int64_t started_ns = or_clock_now(shared->clock);
    uint64_t passes = or_lane_passes(lane);
    or_status_t status = or_lane_catch_up(lane, &session->log, root_row);
    if (reads) {
        session->read_us += us_since(shared, started_ns);
        session->read_passes += (uint32_t)(or_lane_passes(lane) - passes);
    }
    return status;
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
    if (or_draft_method_has(method, OR_DRAFT_ASKS_MODEL)) {
        status = catch_up(session, shared, lane, &job.root_row);
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

#define NEWEST 0.125 // its weight in a moving average

static void average(double *mean, double value)
{
    *mean = *mean > 0 ? *mean + NEWEST * (value - *mean) : value;
}

void or_dsession_sent(or_dsession_t *session, int64_t now_ns)
{
    session->sent_ns = now_ns;
}

void or_dsession_heard(or_dsession_t *session, int64_t now_ns)
{
    if (session->sent_ns > 0 && session->wanted) {
        average(&session->away_ns, (double)(now_ns - session->sent_ns));
        session->sent_ns = 0;
    }
}

// Return the job of a growing tree.
static or_build_job_t growing_job(or_dsession_t *session, const or_dshared_t *shared)
{
    const or_open_session_t *open = &session->terms.open;
    or_build_job_t job = job_of(session, shared, 0);
    or_build_job_suit(&job, (or_draft_method_t)open->draft_method,
                      (or_accept_rule_t)open->accept_rule);
    job.pass_cost = session->away_ns > 0 ? session->pass_ns / session->away_ns : 0;
    return job;
}

// Finish the round's tree, which may have grown already, and find the part of it that is news.
static or_status_t finish(or_dsession_t *session, const or_dshared_t *shared)
{
    or_lane_t *lane = &session->lanes[0];
    or_build_job_t job = growing_job(session, shared);
    or_status_t status = OR_OK;
    session->grown = false;
    session->growths = 0;
    if (!or_builder_stands(lane->builder, &job)) {
        status = catch_up(session, shared, lane, &job.root_row);
        if (status == OR_OK) {
            status = or_builder_root(lane->builder,
                                     (or_draft_method_t)session->terms.open.draft_method, &job);
        }
    }
    if (status == OR_OK) {
        status = or_builder_finish(lane->builder, &job, session->tree);
    }
    return status == OR_OK ? or_builder_tell_round(lane->builder, &session->news) : status;
}

uint64_t or_dsession_passes(const or_dsession_t *session)
{
    uint64_t passes = 0;
    for (uint32_t i = 0; i < session->lane_count; i++) {
        passes += or_lane_passes(&session->lanes[i]);
    }
    return passes;
}

// Return the passes since the last call.
static uint32_t new_passes(or_dsession_t *session)
{
    uint64_t before = session->passes_all;
    session->passes_all = or_dsession_passes(session);
    return (uint32_t)(session->passes_all - before);
}

// Note the time of a tree that was begun then, after so many passes.
static void note_time(or_dsession_t *session, const or_dshared_t *shared, int64_t started_ns,
                      uint64_t passes_before)
{
    uint64_t passes = or_dsession_passes(session) - passes_before - session->read_passes;
    session->draft_us = us_since(shared, started_ns) - session->read_us;
    if (passes > 0) {
        average(&session->pass_ns, session->draft_us * 1000.0 / (double)passes);
    }
}

or_status_t or_dsession_draft(or_dsession_t *session, const or_dshared_t *shared)
{
    int64_t started_ns = or_clock_now(shared->clock);
    uint64_t passes = or_dsession_passes(session);
    session->read_us = session->read_passes = 0;
    const or_open_session_t *open = &session->terms.open;
    or_token_tree_reset(session->tree, session->log.tokens[session->log.length - 1]);
    session->built =
        session->log.length <= or_model_context(shared->model) && open->draft_nodes > 0;
    or_status_t status = OR_OK;
    if (session->built && or_draft_method_has(open->draft_method, OR_DRAFT_ASKS_MODEL)) {
        status = read_text(session, shared);
    }
    if (status == OR_OK && session->built) {
        status = session->grows ? finish(session, shared) : build(session, shared);
    }
    if (status == OR_OK) {
        status = or_dstrings_take_chain(&session->slrs, session->built);
    }
    if (status != OR_OK) {
        return status;
    }
    session->tree_round = session->round;
    session->wanted = false;
    session->passes = new_passes(session);
    note_time(session, shared, started_ns, passes);
    return OR_OK;
}

// ---- growing on ----

void or_dsession_tell_again(or_dsession_t *session)
{
    if (session->grows) {
        or_builder_t *builder = session->lanes[0].builder;
        or_builder_untell(builder);
        session->grown = or_builder_tell_round(builder, &session->news) != OR_OK;
    }
}

// A tree without nodes is sent, too: it asks for a plain step.
bool or_dsession_tells_news(const or_dsession_t *session)
{
    return session->grows && session->ahead > 1 && or_token_tree_count(session->tree) > 0;
}

uint32_t or_dsession_grown(const or_dsession_t *session)
{
    return or_builder_grown(session->lanes[0].builder);
}

bool or_dsession_can_grow(const or_dsession_t *session)
{
    return session->grows && session->ahead > 0 && session->built &&
           session->tree_round == session->round && !session->grown;
}

or_status_t or_dsession_grow(or_dsession_t *session, const or_dshared_t *shared)
{
    or_builder_t *builder = session->lanes[0].builder;
    or_build_job_t job = growing_job(session, shared);
    bool grew = false;
    or_status_t status = OR_OK;
    or_token_tree_reset(session->news.tree, session->log.tokens[session->log.length - 1]);
    if (or_builder_stands(builder, &job)) { // and was not forgotten with its pages
        status = or_builder_grow(builder, &job, &grew);
        session->growths++;
    }
    if (status == OR_OK && session->ahead > 1) {
        status = or_builder_tell_more(builder, (session->nodes + 1) / 2,
                                      session->ahead * session->nodes, &session->news);
    }
    bool has_news = status == OR_OK && or_token_tree_count(session->news.tree) > 0;
    session->grown = !grew && !has_news;
    if (has_news) {
        session->passes = new_passes(session);
        session->draft_us = session->read_us = 0; // nobody waited for it
    }
    return status;
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
    or_strings_distribution_t dist;
    if (status == OR_OK) {
        status = or_strings_ask(slrs->strings, lane->builder, &job, cold, slrs->question_node,
                                slrs->question_tokens, slrs->question_count, &dist);
    }
    if (status == OR_OK) {
        *reply = (or_psi_reply_t){slrs->question_round, slrs->question_node, dist.tokens, dist.psi,
                                  dist.count};
    }
    if (status == OR_OK || status == OR_ERR_INVALID) {
        slrs->question_round = 0;
    }
    return status;
}
