// The work of a drafter when no message waits: trees that are due, answers, and growing trees.
#include "common/base/log/log.h"
#include "drafter/drafter_internal.h"

#define GROW_NS (10 * OR_NS_PER_S) // a session unheard of for so long does not grow

// ---- what goes out ----

static void add_draws(const or_dsession_t *session, or_draft_tree_t *tree)
{
    const or_draws_t *draws = or_merge_draws(session->merge);
    tree->dist_index = draws->dist_index;
    tree->draw_order = draws->order;
    tree->dist_index_count = tree->draw_order_count = tree->count;
    tree->dists = draws->dists;
    tree->dist_count = draws->dist_count;
}

// Send these guesses for the round of the session's tree. They stand on its text, or on that and a path.
static void send_guesses(or_drafter_t *drafter, const or_dsession_t *session,
                         const or_token_tree_t *guesses, const int32_t *path, uint32_t depth)
{
    int32_t tokens[OR_TREE_NODES_MAX];
    uint32_t back[OR_TREE_NODES_MAX];
    const or_dstrings_t *slrs = &session->slrs;
    or_message_t message = {
        .type = OR_MSG_DRAFT_TREE,
        .session = session->id,
        .body.draft_tree = {.round = session->tree_round,
                            .parent_round = depth > 0 ? session->tree_round : 0,
                            .base_length = session->log.length + depth,
                            .base_hash =
                                or_prefix_hash(session->log.hash, (const uint32_t *)path, depth),
                            .tokens = (const uint32_t *)tokens,
                            .back = back,
                            .count = or_token_tree_count(guesses),
                            .draft_us = session->draft_us,
                            .passes = session->passes},
    };
    or_draft_tree_t *tree = &message.body.draft_tree;
    or_token_tree_to_wire(guesses, tokens, back);
    if (session->built && or_accept_rule_uses_distributions(session->terms.open.accept_rule)) {
        add_draws(session, tree);
    }
    if (slrs->strings != NULL) {
        tree->psi = or_strings_psi(slrs->strings);
        tree->psi_count = tree->count;
    }
    or_edge_send(&drafter->edge, &message);
}

void or_drafter_send_tree(or_drafter_t *drafter, const or_dsession_t *session)
{
    const or_dstrings_t *slrs = &session->slrs;
    send_guesses(drafter, session, slrs->strings != NULL ? slrs->chain : session->tree, NULL, 0);
}

static void send_news(or_drafter_t *drafter, const or_dsession_t *session)
{
    const or_build_news_t *news = &session->news;
    if (or_token_tree_count(news->tree) > 0) {
        send_guesses(drafter, session, news->tree, news->path, news->depth);
    }
}

void or_drafter_deliver(or_drafter_t *drafter)
{
    or_dsession_t *session = drafter->worked;
    drafter->worked = NULL;
    if (session == NULL) {
        return;
    }
    const or_message_t reply = {
        .type = OR_MSG_PSI_REPLY, .session = session->id, .body.psi_reply = drafter->reply};
    switch (drafter->work) {
    case OR_WORK_TREE:
        if (or_dsession_tells_news(session)) {
            send_news(drafter, session);
        } else {
            or_drafter_send_tree(drafter, session);
        }
        or_dsession_sent(session, or_clock_now(drafter->shared.clock));
        break;
    case OR_WORK_ANSWER:
        or_edge_send(&drafter->edge, &reply);
        break;
    case OR_WORK_GROWTH:
        send_news(drafter, session);
        break;
    }
}

// ---- work ----

// Return the session that gives its pages to `hungry`: the one not heard of for longest, sessions at rest first. NULL
// if none has any.
static or_dsession_t *page_donor(or_drafter_t *drafter, const or_dsession_t *hungry)
{
    or_dsession_t *donor = NULL;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_t *session = &drafter->sessions[i];
        if (session->id.value == 0 || session == hungry || !or_dsession_holds_pages(session)) {
            continue;
        }
        bool rests = donor != NULL && donor->wanted && !session->wanted;
        bool older =
            donor != NULL && donor->wanted == session->wanted && session->used_ns < donor->used_ns;
        if (donor == NULL || rests || older) {
            donor = session;
        }
    }
    return donor;
}

// Return the next session with a tree that is due or a question to answer.
static or_dsession_t *next_due(or_drafter_t *drafter)
{
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        uint32_t at = (drafter->turn + i) % drafter->config.sessions_max;
        const or_dsession_t *session = &drafter->sessions[at];
        if (session->id.value != 0 && (session->wanted || or_dsession_is_asked(session))) {
            drafter->turn = at + 1;
            return &drafter->sessions[at];
        }
    }
    return NULL;
}

// Return the session with the least grown tree, if no tree is due.
static or_dsession_t *next_to_grow(or_drafter_t *drafter)
{
    int64_t now = or_clock_now(drafter->shared.clock);
    or_dsession_t *least = NULL;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_t *session = &drafter->sessions[i];
        bool growing = session->id.value != 0 && or_dsession_can_grow(session) &&
                       now - session->used_ns < GROW_NS;
        if (growing && (least == NULL || or_dsession_grown(session) < or_dsession_grown(least))) {
            least = session;
        }
    }
    return least;
}

static or_status_t run(or_drafter_t *drafter, or_dsession_t *session)
{
    switch (drafter->work) {
    case OR_WORK_TREE:
        return or_dsession_draft(session, &drafter->shared);
    case OR_WORK_ANSWER:
        return or_dsession_answer(session, &drafter->shared, &drafter->reply);
    default:
        return or_dsession_grow(session, &drafter->shared);
    }
}

// Run the work. If the page pool is full, other sessions give theirs, which are computed again when their turn comes.
// For growing no session gives any.
static or_status_t run_with_pages(or_drafter_t *drafter, or_dsession_t *session)
{
    or_status_t status = run(drafter, session);
    while (status == OR_ERR_FULL && drafter->work != OR_WORK_GROWTH) {
        or_dsession_t *donor = page_donor(drafter, session);
        if (donor == NULL) {
            break;
        }
        or_dsession_drop_pages(donor);
        status = run(drafter, session);
    }
    return status;
}

// Account for the time since `started_ns`; slow passes take longer. The result is delivered when the time is over.
static void take_time(or_drafter_t *drafter, or_dsession_t *session, uint64_t passes,
                      int64_t started_ns)
{
    uint64_t delay_us = passes * drafter->config.step_delay_us;
    int64_t took_ns = or_clock_now(drafter->shared.clock) - started_ns;
    drafter->passes += passes;
    drafter->model_us += delay_us + (uint64_t)took_ns / 1000;
    if (drafter->work == OR_WORK_TREE) {
        session->draft_us += (uint32_t)delay_us;
        or_dsession_took(session, passes);
    }
    drafter->worked = session;
    drafter->busy_until_ns =
        or_clock_now(drafter->shared.clock) + (int64_t)delay_us * (OR_NS_PER_MS / 1000);
}

bool or_drafter_work(or_drafter_t *drafter)
{
    or_dsession_t *session = next_due(drafter);
    if (session != NULL) {
        drafter->work = session->wanted ? OR_WORK_TREE : OR_WORK_ANSWER;
    } else {
        session = next_to_grow(drafter);
        drafter->work = OR_WORK_GROWTH;
    }
    if (session == NULL) {
        return false;
    }
    uint64_t passes = or_dsession_passes(session);
    int64_t started_ns = or_clock_now(drafter->shared.clock);
    or_status_t status = run_with_pages(drafter, session);
    if (status == OR_ERR_INVALID && drafter->work == OR_WORK_ANSWER) { // it made no sense
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_INVALID, 0, or_error_text());
    } else if (status != OR_OK) {
        or_log_of(OR_LOG_ERROR, (or_log_subject_t){.session = session->id.value}, "%s",
                  or_error_text());
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_FAILED, 0, or_error_text());
        or_dsession_close(session);
    } else {
        take_time(drafter, session, or_dsession_passes(session) - passes, started_ns);
        if (drafter->config.step_delay_us == 0) {
            or_drafter_deliver(drafter);
        }
    }
    return true;
}
