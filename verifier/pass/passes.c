// Who takes part in a pass. There is no timer: what waits is run at once, and while a pass runs messages
// pile up, so a crowd batches by itself.
//
//     1  every other pass: whoever went without pages and is the oldest of these, before others take them
//     2  in the scheduler's order, as long as there are rows left:
//        prefix of it cached, tree waiting      root and nodes, whole or not at all
//        prefix to compute                      as many rows as there are; its tree behind the last of them
//
// All texts wait for the whole of a pass, so while several are open it has config.crowd_rows rows at most. One that has
// the verifier to itself gets config.batch_rows.
//
// A tree larger than a pass goes if it is the first, and it is in time: who is passed over comes
// earlier in the scheduler's order of the next pass.
#include <stdio.h>

#include "common/base/inline.h"
#include "common/base/log/log.h"
#include "verifier/verifier_internal.h"

// While trees wait prefixes take at most half of a pass: a long prompt then needs at most twice as many
// passes as alone, and a round beside it takes at most about twice as long as without it.
#define PREFIX_SHARE 2u

typedef struct {
    uint32_t sessions; // that are open: work of any may come while a pass runs
    bool trees;        // one could be judged now
} work_t;

// Tell the scheduler who has work.
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

// Rows of its prefix that a session may bring; of all prefixes at most prefix_max.
static uint32_t prefix_rows_of(const or_verifier_t *verifier, const or_vsession_t *session,
                               uint32_t prefix_max)
{
    const or_batch_t *batch = &verifier->batch;
    uint32_t left = or_vsession_prefill_left(session);
    uint32_t used = or_batch_rows(batch);
    uint32_t room = verifier->pass_rows > used ? verifier->pass_rows - used : 0;
    return or_min_u32(left, or_min_u32(room, prefix_max - batch->prefix_rows));
}

// Does its tree fit behind so many rows of its prefix? One that is first in the pass does.
static bool tree_fits(const or_verifier_t *verifier, const or_vsession_t *session,
                      uint32_t prefix_rows)
{
    uint32_t used = or_batch_rows(&verifier->batch) + prefix_rows;
    return session->waiting && prefix_rows == or_vsession_prefill_left(session) &&
           (used == 0 || used + session->tree_rows <= verifier->pass_rows);
}

// Let a session that was picked take part, if there is anything that it can bring.
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
    // With a tree, as far as its longest path reaches: nothing can fail between the pass and the verdict.
    uint32_t positions = tree ? session->log.length + session->tree_depth
                              : or_kv_sequence_length(session->kv) + prefix_rows;
    session->hungry = !or_verifier_take_pages(verifier, session, positions);
    if (session->hungry) {
        return;
    }
    session->pass = verifier->pass;
    or_batch_add(&verifier->batch, session, prefix_rows, tree);
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
    or_batch_clear(&verifier->batch);
    or_scheduler_begin(verifier->scheduler);
    or_vsession_t *hungry = verifier->pass % 2 == 0 ? oldest_hungry(verifier) : NULL;
    if (hungry != NULL) {
        or_scheduler_pick_first(verifier->scheduler, (uint32_t)(hungry - verifier->sessions));
        offer(verifier, hungry, prefix_max);
    }
    while (or_batch_rows(&verifier->batch) < rows) {
        uint32_t place = or_scheduler_pick(verifier->scheduler);
        if (place == OR_SCHEDULER_NOBODY) {
            break;
        }
        offer(verifier, &verifier->sessions[place], prefix_max);
    }
}

// The model refuses rows, or for want of room, before the other ranks hear of them. Whatever else fails does so on
// the way, and they are somewhere behind or before us.
static bool breaks_ranks(or_verifier_t *verifier, or_status_t status)
{
    if (or_ranks_is_alone(or_model_ranks(verifier->model)) || status == OR_ERR_INVALID ||
        status == OR_ERR_FULL) {
        return false;
    }
    snprintf(verifier->broken, sizeof verifier->broken, "%s", or_error_text());
    return true;
}

// A judgement has ended, or waits.
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

// What makes a pass fail as a whole is no session's fault, and all that took part have lost their work.
static void fail_all(or_verifier_t *verifier)
{
    for (uint32_t i = 0; i < verifier->batch.part_count; i++) {
        or_verifier_fail(verifier, verifier->batch.parts[i].session);
    }
}

static void run(or_verifier_t *verifier, int64_t began_ns)
{
    or_batch_t *batch = &verifier->batch;
    or_stats_t *stats = &verifier->stats;
    int64_t head_before = or_judge_head_ns(verifier->judge);
    or_status_t status = or_batch_run(batch, verifier->model);
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
    or_judge_renew(verifier->judge, or_batch_rows(batch));
    put_contests(verifier);
    judge_trees(verifier, pass_ns);
    int64_t head_ns = or_judge_head_ns(verifier->judge) - head_before;
    stats->model_us += (uint64_t)(pass_ns + head_ns) / 1000;
}

// Judgements that waited for psi need no pass.
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

// A step begins when there is work, and its pass is composed when a slow target would be done with it: what
// comes meanwhile joins it. *due_ns is no later than that.
static bool step_is_over(or_verifier_t *verifier, int64_t *due_ns)
{
    int64_t now = or_clock_now(verifier->clock);
    if (verifier->step_began_ns == 0) {
        verifier->step_began_ns = now;
    }
    int64_t over_ns = verifier->step_began_ns + verifier->config.step_delay_us * INT64_C(1000);
    bool over = now >= over_ns;
    *due_ns = !over && over_ns < *due_ns ? over_ns : *due_ns;
    return over;
}

bool or_verifier_work(or_verifier_t *verifier, int64_t *due_ns)
{
    bool resumed = resume(verifier);
    if (!has_work(verifier)) {
        verifier->step_began_ns = 0;
        return resumed;
    }
    if (!step_is_over(verifier, due_ns)) {
        return resumed;
    }
    int64_t began_ns = verifier->step_began_ns;
    verifier->step_began_ns = 0;
    compose(verifier);
    if (or_batch_rows(&verifier->batch) > 0) {
        run(verifier, began_ns);
        return true;
    }
    if (!resumed && oldest_hungry(verifier) != NULL) {
        int64_t idle_ns = or_verifier_next_idle_ns(verifier);
        *due_ns = idle_ns < *due_ns ? idle_ns : *due_ns;
    }
    return resumed;
}
