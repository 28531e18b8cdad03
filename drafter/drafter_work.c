// The work of a drafter: trees that are due, answers, and growing trees.
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
                            .read_us = session->read_us,
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

static void deliver(const or_job_t *job)
{
    or_drafter_t *drafter = job->drafter;
    or_dsession_t *session = job->session;
    const or_message_t reply = {
        .type = OR_MSG_PSI_REPLY, .session = session->id, .body.psi_reply = job->reply};
    switch (job->work) {
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

// Return the session that gives its pages to one at work: the one not heard of for longest, sessions at rest first. NULL
// if none has any.
static or_dsession_t *page_donor(or_drafter_t *drafter)
{
    or_dsession_t *donor = NULL;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_t *session = &drafter->sessions[i];
        if (session->id.value == 0 || session->at_work || !or_dsession_holds_pages(session)) {
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

// Guesses alone would not do: a pass may bring one or thirty, so whoever is sure of its text would take all of them.
static bool grew_less(const or_dsession_t *a, const or_dsession_t *b)
{
    return a->growths < b->growths ||
           (a->growths == b->growths && or_dsession_grown(a) < or_dsession_grown(b));
}

// Return the session whose tree has grown least in its round, if no tree is due.
static or_dsession_t *next_to_grow(or_drafter_t *drafter)
{
    int64_t now = or_clock_now(drafter->shared.clock);
    or_dsession_t *least = NULL;
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        or_dsession_t *session = &drafter->sessions[i];
        bool growing = session->id.value != 0 && or_dsession_can_grow(session) &&
                       now - session->used_ns < GROW_NS;
        if (growing && (least == NULL || grew_less(session, least))) {
            least = session;
        }
    }
    return least;
}

static or_status_t run(or_job_t *job)
{
    or_dsession_t *session = job->session;
    const or_dshared_t *shared = &job->drafter->shared;
    switch (job->work) {
    case OR_WORK_TREE:
        return or_dsession_draft(session, shared);
    case OR_WORK_ANSWER:
        return or_dsession_answer(session, shared, &job->reply);
    default:
        return or_dsession_grow(session, shared);
    }
}

// Run the work. If the page pool is full, other sessions give theirs, which are computed again when their turn comes.
// For growing no session gives any.
static or_status_t run_with_pages(or_job_t *job)
{
    or_status_t status = run(job);
    while (status == OR_ERR_FULL && job->work != OR_WORK_GROWTH) {
        or_dsession_t *donor = page_donor(job->drafter);
        if (donor == NULL) {
            break;
        }
        or_dsession_drop_pages(donor);
        status = run(job);
    }
    return status;
}

static void fail(or_drafter_t *drafter, or_dsession_t *session)
{
    or_log_of(OR_LOG_ERROR, (or_log_subject_t){.session = session->id.value}, "%s",
              or_error_text());
    or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_FAILED, 0, or_error_text());
    or_dsession_close(session);
}

// Others at work have the pages. Those finish, and then this one is built alone: all that were to be built at once could
// take each other's pages for ever.
static void starve(or_drafter_t *drafter, const or_dsession_t *session)
{
    if (drafter->hungry.value == 0) {
        drafter->hungry = session->id;
    }
}

static void work_on(void *context)
{
    or_job_t *job = context;
    or_drafter_t *drafter = job->drafter;
    or_dsession_t *session = job->session;
    or_status_t status = run_with_pages(job);
    session->at_work = false;
    if (status != OR_ERR_AGAIN && drafter->hungry.value == session->id.value) {
        drafter->hungry.value = 0;
    }
    if (status == OR_OK) {
        deliver(job);
    } else if (status == OR_ERR_INVALID && job->work == OR_WORK_ANSWER) { // it made no sense
        or_edge_send_error(&drafter->edge, session->id, 0, OR_WIRE_INVALID, 0, or_error_text());
    } else if (status == OR_ERR_FULL && or_together_count(drafter->together) > 1) {
        starve(drafter, session);
    } else if (status != OR_ERR_AGAIN) { // else it goes on once it has heard what is new
        fail(drafter, session);
    }
    job->session = NULL;
}

// Begin a work. Returns false if too many are under way, or there is no memory for one more.
static bool begin(or_drafter_t *drafter, or_dsession_t *session, or_work_t work)
{
    or_job_t *job = drafter->jobs;
    while (job->session != NULL) {
        if (++job == drafter->jobs + OR_TOGETHER_MAX) {
            return false;
        }
    }
    *job = (or_job_t){.drafter = drafter, .session = session, .work = work};
    session->at_work = true;
    session->called = false;
    if (or_together_begin(drafter->together, work_on, job) == OR_OK) {
        return true;
    }
    job->session = NULL;
    session->at_work = false;
    if (or_together_count(drafter->together) > 0) {
        return false;
    }
    fail(drafter, session);
    return true;
}

static bool is_due(const or_drafter_t *drafter, const or_dsession_t *session)
{
    bool due = session->wanted || or_dsession_is_asked(session);
    bool waits = drafter->hungry.value != 0 && drafter->hungry.value != session->id.value;
    return session->id.value != 0 && !session->at_work && due && !waits;
}

// The session that is to be built alone may have been closed since.
static void check_hungry(or_drafter_t *drafter)
{
    bool found = false;
    for (uint32_t i = 0; drafter->hungry.value != 0 && i < drafter->config.sessions_max; i++) {
        found = found || is_due(drafter, &drafter->sessions[i]);
    }
    drafter->hungry.value = found ? drafter->hungry.value : 0;
}

// Begin all trees that are due and answers, in turn if there are too many. Returns whether there was one.
static bool begin_due(or_drafter_t *drafter)
{
    bool begun = false;
    if (drafter->hungry.value != 0 && or_together_count(drafter->together) > 0) {
        return false;
    }
    check_hungry(drafter);
    for (uint32_t i = 0; i < drafter->config.sessions_max; i++) {
        uint32_t at = (drafter->turn + i) % drafter->config.sessions_max;
        or_dsession_t *session = &drafter->sessions[at];
        if (!is_due(drafter, session)) {
            continue;
        }
        if (!begin(drafter, session, session->wanted ? OR_WORK_TREE : OR_WORK_ANSWER)) {
            drafter->turn = at;
            break;
        }
        begun = true;
    }
    return begun;
}

// A pass of a growing tree has many rows already, so sessions take turns in it.
static bool begin_growth(or_drafter_t *drafter)
{
    or_dsession_t *session = next_to_grow(drafter);
    return session != NULL && begin(drafter, session, OR_WORK_GROWTH);
}

void or_drafter_read(or_drafter_t *drafter)
{
    int64_t started_ns = or_clock_now(drafter->shared.clock);
    or_together_read(drafter->together);
    drafter->model_us += (uint64_t)(or_clock_now(drafter->shared.clock) - started_ns) / 1000;
}

static void call_who_is_wanted(or_drafter_t *drafter)
{
    for (uint32_t i = 0; i < OR_TOGETHER_MAX; i++) {
        or_dsession_t *session = drafter->jobs[i].session;
        if (session != NULL) {
            session->called = or_edge_holds(&drafter->edge, session->id);
        }
    }
}

bool or_drafter_work(or_drafter_t *drafter)
{
    const or_clock_t *clock = drafter->shared.clock;
    int64_t started_ns = or_clock_now(clock);
    call_who_is_wanted(drafter);
    bool begun = begin_due(drafter);
    if (or_together_count(drafter->together) == 0) {
        begun = begin_growth(drafter) || begun;
    }
    if (!begun && or_together_count(drafter->together) == 0) {
        return false;
    }
    or_together_pass(drafter->together);
    uint64_t passes = or_together_passes(drafter->together);
    uint64_t delay_us = (passes - drafter->passes) * drafter->config.step_delay_us;
    drafter->passes = passes;
    int64_t now_ns = or_clock_now(clock);
    drafter->model_us += delay_us + (uint64_t)(now_ns - started_ns) / 1000;
    drafter->busy_until_ns = now_ns + (int64_t)delay_us * (OR_NS_PER_MS / 1000);
    return true;
}
