// Which sessions take part in a pass. Waiting work runs at once, unless others are about to come back with which it is
// done sooner (linger.h); while a pass runs messages pile up.
//
//     1  every other pass: the oldest session that went without pages, before others take them
//     2  in the scheduler's order, as long as there are rows left:
//        prefix cached, tree waiting            root and nodes, whole or not at all
//        prefix to compute                      as many rows as there are; its tree behind the last of them
//
// All texts wait for the whole of a pass, so while several are open it has at most config.crowd_rows rows. A text
// that has the verifier to itself gets config.batch_rows.
//
// A tree larger than a pass goes if it is the first. It will be: a session that is passed over comes earlier in the
// scheduler's order of the next pass.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/inline.h"
#include "common/base/log/log.h"
#include "verifier/verifier_internal.h"

// While trees wait prefixes take at most half of a pass: a long prompt then needs at most twice as many
// passes as alone, and a round beside it takes at most about twice as long as without it.
#define PREFIX_SHARE 2u

// ---- the rows of a pass ----
//
//     rows    prefix of a ┊ prefix of c ┊ root and nodes of a ┊ root and nodes of b ┊ ...
//
// Trees lie one behind the other, so that a run of logits may reach into the next one (head.h). A session may bring a
// part of its prefix, or its tree, or the last part of its prefix and its tree.

or_status_t or_batch_init(or_batch_t *batch, uint32_t parts_max, uint32_t rows_max)
{
    or_batch_t fresh = {.parts_max = parts_max, .rows_max = rows_max};
    fresh.parts = calloc(parts_max, sizeof *fresh.parts);
    fresh.rows = calloc(rows_max, sizeof *fresh.rows);
    if (fresh.parts == NULL || fresh.rows == NULL) {
        or_batch_fini(&fresh);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for passes of %u rows", rows_max);
    }
    *batch = fresh;
    return OR_OK;
}

void or_batch_fini(or_batch_t *batch)
{
    free(batch->rows);
    free(batch->parts);
    *batch = (or_batch_t){0};
}

static void clear_batch(or_batch_t *batch)
{
    batch->part_count = 0;
    batch->prefix_rows = 0;
    batch->tree_rows = 0;
}

static uint32_t batch_rows(const or_batch_t *batch)
{
    return batch->prefix_rows + batch->tree_rows;
}

static void add_part(or_batch_t *batch, or_vsession_t *session, uint32_t prefix_rows, bool tree)
{
    batch->parts[batch->part_count++] =
        (or_part_t){.session = session, .prefix_rows = prefix_rows, .tree = tree};
    batch->prefix_rows += prefix_rows;
    batch->tree_rows += tree ? session->tree_rows : 0;
}

static or_status_t run_batch(or_batch_t *batch, or_model_t *model)
{
    uint32_t prefix_at = 0;
    uint32_t tree_at = batch->prefix_rows;
    for (uint32_t i = 0; i < batch->part_count; i++) {
        or_part_t *part = &batch->parts[i];
        or_vsession_put_prefix(part->session, part->prefix_rows, batch->rows + prefix_at);
        prefix_at += part->prefix_rows;
        if (part->tree) {
            part->first_row = tree_at;
            or_vsession_put_tree(part->session, batch->rows + tree_at);
            tree_at += part->session->tree_rows;
        }
    }
    return or_model_forward(model, batch->rows, tree_at);
}

// ---- the sessions of a pass ----

typedef struct {
    uint32_t sessions; // open sessions; work of any may come while a pass runs
    bool trees;        // some tree could be judged now
} work_t;

// Tell the scheduler which sessions have work.
static work_t gather_work(or_verifier_t *verifier)
{
    work_t work = {0};
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value == 0) {
            continue;
        }
        bool ready = or_vsession_has_work(session);
        or_scheduler_set_ready(verifier->scheduler, i, ready);
        work.sessions++;
        work.trees |= ready && session->waiting && or_vsession_prefill_left(session) == 0;
    }
    return work;
}

// Return the rows of its prefix that a session may bring; all prefixes together have at most prefix_max.
static uint32_t prefix_rows_of(const or_verifier_t *verifier, const or_vsession_t *session,
                               uint32_t prefix_max)
{
    const or_batch_t *batch = &verifier->batch;
    uint32_t left = or_vsession_prefill_left(session);
    uint32_t used = batch_rows(batch);
    uint32_t room = verifier->pass_rows > used ? verifier->pass_rows - used : 0;
    return or_min_u32(left, or_min_u32(room, prefix_max - batch->prefix_rows));
}

// Return true if its tree fits behind so many rows of its prefix. A tree that is first in the pass does.
static bool tree_fits(const or_verifier_t *verifier, const or_vsession_t *session,
                      uint32_t prefix_rows)
{
    uint32_t used = batch_rows(&verifier->batch) + prefix_rows;
    return session->waiting && prefix_rows == or_vsession_prefill_left(session) &&
           (used == 0 || used + session->tree_rows <= verifier->pass_rows);
}

// Let a picked session take part, if it can bring anything.
static void offer(or_verifier_t *verifier, or_vsession_t *session, uint32_t prefix_max)
{
    if (or_vsession_prefill_left(session) > 0) {
        or_verifier_share(verifier, session);
    }
    uint32_t prefix_rows = prefix_rows_of(verifier, session, prefix_max);
    if (prefix_rows > 0 && or_verifier_is_computed(verifier, session, prefix_rows)) {
        return;
    }
    bool tree = tree_fits(verifier, session, prefix_rows);
    if (prefix_rows == 0 && !tree) {
        return;
    }
    // With a tree, pages are taken as far as its longest path reaches: nothing can fail between the pass and the
    // verdict.
    uint32_t positions = tree ? session->log.length + session->tree_depth
                              : or_kv_sequence_length(session->kv) + prefix_rows;
    session->hungry = !or_verifier_take_pages(verifier, session, positions);
    if (session->hungry) {
        return;
    }
    session->pass = verifier->pass;
    add_part(&verifier->batch, session, prefix_rows, tree);
    or_scheduler_charge(verifier->scheduler, (uint32_t)(session - verifier->sessions),
                        prefix_rows + (tree ? session->tree_rows : 0));
}

static or_vsession_t *oldest_hungry(or_verifier_t *verifier)
{
    or_vsession_t *oldest = NULL;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value != 0 && session->hungry && or_vsession_has_work(session) &&
            (oldest == NULL || session->opened < oldest->opened)) {
            oldest = session;
        }
    }
    return oldest;
}

static void compose(or_verifier_t *verifier)
{
    work_t work = gather_work(verifier);
    uint32_t rows = work.sessions > 1 ? verifier->config.crowd_rows : verifier->config.batch_rows;
    uint32_t prefix_max = work.trees ? (rows + PREFIX_SHARE - 1) / PREFIX_SHARE : rows;
    verifier->pass_rows = rows;
    verifier->pass++;
    clear_batch(&verifier->batch);
    or_scheduler_begin(verifier->scheduler);
    or_vsession_t *hungry = verifier->pass % 2 == 0 ? oldest_hungry(verifier) : NULL;
    if (hungry != NULL) {
        or_scheduler_pick_first(verifier->scheduler, (uint32_t)(hungry - verifier->sessions));
        offer(verifier, hungry, prefix_max);
    }
    while (batch_rows(&verifier->batch) < rows) {
        uint32_t place = or_scheduler_pick(verifier->scheduler);
        if (place == OR_SCHEDULER_NOBODY) {
            break;
        }
        offer(verifier, &verifier->sessions[place], prefix_max);
    }
}

// Return true if the failure leaves ranks out of step. The model refuses rows, also for want of room, before the
// other ranks hear of them. Any other failure happens on the way, and the ranks are somewhere behind or before us.
static bool breaks_ranks(or_verifier_t *verifier, or_status_t status)
{
    if (or_ranks_is_alone(or_model_ranks(verifier->model)) || status == OR_ERR_INVALID ||
        status == OR_ERR_FULL) {
        return false;
    }
    snprintf(verifier->broken, sizeof verifier->broken, "%s", or_error_text());
    return true;
}

// Answer a judgement that has ended, or ask for what it waits for.
static void answer(or_verifier_t *verifier, or_vsession_t *session, or_status_t status)
{
    if (status == OR_ERR_AGAIN) {
        or_verifier_send_psi_request(verifier, session);
        return;
    }
    if (status != OR_OK) {
        if (!breaks_ranks(verifier, status)) {
            or_verifier_fail(verifier, session);
        }
        return;
    }
    verifier->stats.rounds++;
    verifier->stats.nodes += or_token_tree_count(session->tree);
    verifier->stats.accepted += session->verdict.accepted_count;
    or_verifier_send_verdict(verifier, session);
    or_linger_left(&verifier->linger, &session->way, or_clock_now(verifier->clock));
    or_log_of(OR_LOG_TRACE, (or_log_subject_t){.session = session->id.value},
              "round %llu accepted %u", (unsigned long long)session->round,
              session->verdict.accepted_count);
}

static void put_contests(or_verifier_t *verifier)
{
    for (uint32_t i = 0; i < verifier->batch.part_count; i++) {
        const or_part_t *part = &verifier->batch.parts[i];
        if (part->tree) {
            or_vsession_put_contests(part->session, verifier->judge, part->first_row);
        }
    }
}

static void judge_trees(or_verifier_t *verifier, int64_t pass_ns)
{
    for (uint32_t i = 0; i < verifier->batch.part_count && verifier->broken[0] == '\0'; i++) {
        const or_part_t *part = &verifier->batch.parts[i];
        if (part->tree) {
            answer(verifier, part->session,
                   or_vsession_judge(part->session, verifier->judge, part->first_row, pass_ns));
        }
    }
}

// Fail all sessions of a pass. It is no session's fault, but all that took part have lost their work.
static void fail_all(or_verifier_t *verifier)
{
    for (uint32_t i = 0; i < verifier->batch.part_count; i++) {
        or_verifier_fail(verifier, verifier->batch.parts[i].session);
    }
}

// The coordinator takes a verifier for lost that says nothing for ten heartbeats.
static void show_life(void *context)
{
    const or_verifier_t *verifier = context;
    or_link_beat(verifier->edge.link);
}

// The pass is over: its texts are on their way from now on.
static void note_end(or_verifier_t *verifier, int64_t began_ns)
{
    const or_batch_t *batch = &verifier->batch;
    int64_t now = or_clock_now(verifier->clock);
    or_linger_passed(&verifier->linger, batch->prefix_rows == 0 ? batch->tree_rows : 0,
                     now - began_ns);
    for (uint32_t i = 0; i < batch->part_count; i++) {
        or_linger_way_t *way = &batch->parts[i].session->way;
        if (way->left_ns != 0) {
            or_linger_left(&verifier->linger, way, now);
        }
    }
}

static void run(or_verifier_t *verifier, int64_t began_ns)
{
    or_batch_t *batch = &verifier->batch;
    or_stats_t *stats = &verifier->stats;
    int64_t head_before = or_judge_head_ns(verifier->judge);
    or_model_set_between(verifier->model, show_life, verifier);
    or_status_t status = run_batch(batch, verifier->model);
    or_model_set_between(verifier->model, NULL, NULL);
    if (status != OR_OK) {
        if (!breaks_ranks(verifier, status)) {
            fail_all(verifier);
        }
        return;
    }
    int64_t pass_ns = or_clock_now(verifier->clock) - began_ns;
    stats->passes++;
    stats->batched += batch->part_count;
    stats->prefill_rows += batch->prefix_rows;
    stats->tree_rows += batch->tree_rows;
    or_judge_renew(verifier->judge, batch_rows(batch));
    put_contests(verifier);
    judge_trees(verifier, pass_ns);
    int64_t head_ns = or_judge_head_ns(verifier->judge) - head_before;
    stats->model_us += (uint64_t)(pass_ns + head_ns) / 1000;
    note_end(verifier, began_ns);
}

// Go on with judgements whose psi has come; they need no pass.
static bool resume(or_verifier_t *verifier)
{
    bool any = false;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value != 0 && session->question.state == OR_QUESTION_ANSWERED) {
            answer(verifier, session, or_vsession_resume(session, verifier->judge));
            any = true;
        }
    }
    return any;
}

static bool has_work(const or_verifier_t *verifier)
{
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value != 0 && or_vsession_has_work(session)) {
            return true;
        }
    }
    return false;
}

// The delay that makes a slow target counts as a part of its pass.
static int64_t step_delay_ns(const or_verifier_t *verifier)
{
    return verifier->config.step_delay_us * INT64_C(1000);
}

// Return true if the step is over. It begins when there is work, and its pass is composed when a slow target would be
// done with it: work that comes meanwhile joins it. *due_ns is no later than that.
static bool step_is_over(or_verifier_t *verifier, int64_t *due_ns)
{
    int64_t now = or_clock_now(verifier->clock);
    if (verifier->step_began_ns == 0) {
        verifier->step_began_ns = now;
    }
    int64_t over_ns = verifier->step_began_ns + step_delay_ns(verifier);
    bool over = now >= over_ns;
    *due_ns = !over && over_ns < *due_ns ? over_ns : *due_ns;
    return over;
}

// Return true if the pass waits for texts that are about to come back; *due_ns is no later than that.
static bool lingers(const or_verifier_t *verifier, int64_t *due_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < verifier->config.sessions_max; i++) {
        const or_vsession_t *session = &verifier->sessions[i];
        if (session->id.value != 0 &&
            (session->way.left_ns != 0 || or_vsession_has_work(session))) {
            verifier->expected[count++] = (or_linger_text_t){session->way, session->tree_rows};
        }
    }
    int64_t until_ns = or_linger_until(&verifier->linger, verifier->expected, count,
                                       verifier->config.crowd_rows, or_clock_now(verifier->clock));
    *due_ns = until_ns != 0 && until_ns < *due_ns ? until_ns : *due_ns;
    return until_ns != 0;
}

bool or_verifier_work(or_verifier_t *verifier, int64_t *due_ns)
{
    bool resumed = resume(verifier);
    if (!has_work(verifier)) {
        verifier->step_began_ns = 0;
        return resumed;
    }
    if (!step_is_over(verifier, due_ns) || lingers(verifier, due_ns)) {
        return resumed;
    }
    int64_t began_ns = or_clock_now(verifier->clock) - step_delay_ns(verifier);
    verifier->step_began_ns = 0;
    compose(verifier);
    if (batch_rows(&verifier->batch) > 0) {
        run(verifier, began_ns);
        return true;
    }
    if (!resumed && oldest_hungry(verifier) != NULL) {
        int64_t idle_ns = or_verifier_next_idle_ns(verifier);
        *due_ns = idle_ns < *due_ns ? idle_ns : *due_ns;
    }
    return resumed;
}
