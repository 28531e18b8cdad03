#include "coordinator/budget/budget.h"

#include <stdio.h>

#include "common/base/inline.h"
#include "common/base/log/log.h"
#include "coordinator/budget/policy_model.h"
#include "coordinator/drafters/seats.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"

#define ROUNDS_MIN 32u      // with guesses, before their figures say anything
#define CLEARLY_FASTER 1.2  // than what was done
#define PLAIN_ROUNDS_MIN 8u // of a plain text, before others learn of it
#define RECOUNT_NS (5 * OR_NS_PER_MS)

static bool is_automatic(const or_csession_t *session)
{
    return session->budget.policy.session.kind == OR_POLICY_AUTO;
}

// The rounds that the drafter of a session that pools guesses was told to work ahead.
static uint32_t ahead_of(const or_csession_t *session)
{
    uint32_t ahead = session->terms.open.draft_ahead;
    uint32_t budget = session->budget.policy.budget.ahead;
    return is_automatic(session) && budget < ahead ? budget : ahead;
}

// ---- all texts together ----

typedef struct {
    uint32_t texts, reading;
} live_t;

// Before a verdict, or after it was settled.
static bool is_unread(const or_csession_t *session)
{
    return session->target.kv_held + 1 < session->log.length;
}

// Texts at work, and those of which the verifier has still to read the prompt.
static live_t count_live(const or_coordinator_t *c)
{
    const or_csession_t *session;
    live_t live = {0};
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        bool is_live = or_csession_is_live(session);
        live.texts += is_live;
        live.reading += is_live && (session->marks & OR_MARK_JUDGED) == 0 && is_unread(session);
    }
    return live;
}

// Texts at work, with this one. Counted when a text begins, for many may begin at once, when its prompt has been read, and
// else now and then.
static uint32_t count_texts(or_coordinator_t *c, const or_csession_t *session, int64_t now_ns)
{
    bool begins = !or_csession_is_live(session);
    if (!begins && !is_unread(session) && now_ns - c->worth.live.at_ns < RECOUNT_NS) {
        return c->worth.live.texts;
    }
    live_t live = count_live(c);
    or_worth_counted(&c->worth, live.texts + begins, live.reading + (begins && is_unread(session)),
                     now_ns);
    return c->worth.live.texts;
}

static bool is_steered(const or_coordinator_t *c, const or_csession_t *session)
{
    return is_automatic(session) && !session->measured && c->worth.drafters > 0;
}

// A text that is measured goes drafted, whatever others have found of their methods; but where drafters of others rest during a
// pass its own does.
static or_way_t way_of(or_coordinator_t *c, const or_csession_t *session, uint32_t texts,
                       int64_t now_ns)
{
    or_way_t way = session->measured ? or_worth_eager(&c->worth)
                                     : or_worth_way(&c->worth, session->id.value, texts, now_ns);
    return way == OR_WAY_AHEAD && or_worth_is_crowd(&c->worth, texts) ? OR_WAY_DRAFTED : way;
}

void or_budget_steer(or_coordinator_t *c, or_csession_t *session)
{
    or_policy_t *policy = &session->budget.policy;
    or_way_t before = policy->way;
    bool first = policy->rounds == 0;
    int64_t now = or_clock_now(c->clock);
    uint32_t texts = count_texts(c, session, now);
    const or_policy_t *earlier = &c->earlier[texts > 1];
    if (first && is_automatic(session) && earlier->rounds > 0) {
        or_policy_inherit(policy, earlier);
    }
    if (is_automatic(session) && c->worth.drafters > 0) {
        policy->apart = !c->worth.shared;
        or_policy_limit(policy, way_of(c, session, texts, now), texts,
                        c->worth.shared || or_worth_is_crowd(&c->worth, texts));
    }
    session->budget.settled = first || policy->way == before;
    session->budget.epoch = c->worth.epoch;
}

void or_budget_place(or_coordinator_t *c)
{
    const or_member_t *member;
    uint32_t drafters = 0;
    bool shared = false;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        if (member->role == OR_ROLE_DRAFTER) {
            drafters++;
            shared = shared || (c->verifier != NULL && member->machine != 0 &&
                                member->machine == c->verifier->machine);
        }
    }
    or_worth_place(&c->worth, drafters, shared);
}

// Its guesses and times are what those of the next text will be like.
void or_budget_ended(or_coordinator_t *c, const or_csession_t *session)
{
    const or_policy_t *policy = &session->budget.policy;
    or_worth_ended(&c->worth, session->id.value, count_live(c).texts, or_clock_now(c->clock));
    or_policy_t *earlier = &c->earlier[c->worth.live.texts > 1];
    if (is_automatic(session) && policy->rounds > 0) {
        *earlier = *policy;
    } else if (session->plain && policy->plain_times.count >= PLAIN_ROUNDS_MIN) {
        if (earlier->rounds == 0) {
            or_policy_init(earlier, &policy->session);
        }
        or_policy_learn_plain(earlier, policy);
    }
}

static void tell_worth(or_coordinator_t *c, const or_csession_t *session,
                       const or_policy_round_t *judged)
{
    const or_policy_t *policy = &session->budget.policy;
    int64_t now = or_clock_now(c->clock);
    int64_t read_ns = judged->prefill ? 1000 * (int64_t)judged->forward_us : 0;
    const or_worth_round_t round = {.session = session->id.value,
                                    .epoch = session->budget.epoch,
                                    .texts = count_texts(c, session, now),
                                    .steered = is_steered(c, session),
                                    .plain = session->plain,
                                    .settled = session->budget.settled,
                                    .may_ahead = session->terms.open.draft_ahead > 0,
                                    .prompt = judged->prefill,
                                    .tokens = judged->accepted + 1,
                                    .time_ns = (double)(now - session->budget.began_ns - read_ns),
                                    .plain_ns =
                                        policy->plain_times.count > 0 ? policy->mean.plain_ns : 0};
    bool tried = c->worth.trial.on;
    or_worth_judged(&c->worth, &round, now);
    if (tried && !c->worth.trial.on) {
        char text[OR_WORTH_TEXT_BYTES];
        or_worth_explain(&c->worth, round.texts, text, sizeof text);
        or_log(OR_LOG_INFO, "%s", text);
    }
}

// ---- what the policy is told ----

void or_budget_told(const or_coordinator_t *c, or_csession_t *session)
{
    uint32_t at = (uint32_t)(session->round % OR_TOLD_MAX);
    session->budget.told_ns = or_clock_now(c->clock);
    // To be told of a round again does not make its answer faster.
    if (session->budget.told[at].round != session->round) {
        session->budget.told[at].round = session->round;
        session->budget.told[at].at_ns = session->budget.told_ns;
    }
}

void or_budget_heard(const or_coordinator_t *c, or_csession_t *session, const or_draft_tree_t *tree)
{
    uint32_t at = (uint32_t)(tree->round % OR_TOLD_MAX);
    if (tree->parent_round != 0 || session->budget.told[at].round != tree->round ||
        session->budget.told[at].at_ns == 0) {
        or_policy_spoke(&session->budget.policy);
        return; // it answers nothing, or again
    }
    int64_t elapsed_ns = or_clock_now(c->clock) - session->budget.told[at].at_ns;
    or_policy_heard(&session->budget.policy, elapsed_ns - 1000 * (int64_t)tree->read_us,
                    tree->draft_us, tree->count);
    if (or_seats_pool(session) && ahead_of(session) == 1 && tree->round > 1) {
        session->stats.ahead_hits +=
            tree->draft_us == 0 && tree->read_us == 0; // it was ready when it was asked for
    }
    session->budget.told[at].at_ns = 0;
}

void or_budget_judged(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    const or_policy_round_t round = {
        .source = session->budget.source,
        .nodes = session->tree.count,
        .accepted = verdict->accepted_count,
        .first_right = verdict->accepted_count > 0,
        .round_ns = or_clock_now(c->clock) - session->target.asked_ns,
        .forward_us = verdict->forward_us,
        .prefill = is_unread(session),
    };
    or_policy_judged(&session->budget.policy, &round);
    tell_worth(c, session, &round);
}

void or_budget_load(or_coordinator_t *c, const or_stats_t *stats)
{
    const or_stats_t *before = &c->reported;
    uint64_t passes = stats->passes - before->passes, batched = stats->batched - before->batched;
    bool other = c->reported_by.value != c->verifier->peer.value ||
                 stats->passes < before->passes || stats->batched < before->batched;
    if (other || passes == 0) { // a verifier that has counted from another beginning
        return;
    }
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (or_csession_is_live(session)) {
            or_policy_load(&session->budget.policy, (double)batched / (double)passes);
        }
    }
}

// ---- what it is asked ----

void or_budget_begin(or_coordinator_t *c, or_csession_t *session)
{
    or_seat_t *seat = &session->drafters.seats[0];
    int64_t patience_ns = c->config.draft_timeout_ms * OR_NS_PER_MS;
    int64_t now = or_clock_now(c->clock);
    session->budget.give_up_ns = 0;
    session->budget.undecided = true;
    if (!or_seats_pool(session) || seat->peer.value == 0) {
        return; // in the first round nobody sits there
    }
    // Rounds that do not wait for it must not hide that it has fallen silent.
    if (!seat->late && seat->unanswered_ns != 0 && now - seat->unanswered_ns > patience_ns) {
        or_seats_lose_patience(c, seat);
    }
    uint32_t ahead = ahead_of(session);
    session->stats.ahead_rounds += !seat->late && ahead > 0;
    if (!seat->late && ahead > 1) {
        bool hit = or_guesses_count(session->budget.guesses) > 0;
        session->stats.ahead_hits += hit;
        or_policy_ahead(&session->budget.policy, hit);
    }
}

// Guesses of our own for this text: how many. No more than the client's key allows and the verifier takes.
static uint32_t look_up(const or_coordinator_t *c, or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    const or_key_grant_t *grant = or_grants_find(c, session->key);
    uint32_t context = c->verifier != NULL ? c->verifier->context_max : 0;
    uint32_t length = session->log.length;
    or_lookup_t lookup = {.text = session->log.tokens, .count = length};
    lookup.nodes_max = or_min_u32(or_policy_lookup_nodes(&session->budget.policy),
                                  c->verifier != NULL ? c->verifier->nodes_max : 0);
    lookup.depth_max = or_min_u32(open->draft_depth, context > length ? context - length : 0);
    if (grant != NULL && grant->nodes_max > 0) {
        lookup.nodes_max = or_min_u32(lookup.nodes_max, grant->nodes_max);
    }
    return lookup.nodes_max > 0 && lookup.depth_max > 0
               ? or_prompt_lookup(&lookup, session->budget.lookup_guesses)
               : 0;
}

// Once a round. Among other texts a guess is at their cost, which one text's times do not show: unless drafting ahead of all was
// found to pay, with lookups, there are none.
static uint32_t lookup_count(const or_coordinator_t *c, or_csession_t *session)
{
    const or_policy_t *policy = &session->budget.policy;
    bool measured = c->worth.drafters > 0 && !policy->decided && policy->way != OR_WAY_PLAIN;
    if (c->worth.live.texts > 1 && !measured) {
        return 0;
    }
    if (policy->session.lookup && session->budget.looked_round != session->round) {
        session->budget.lookup = look_up(c, session);
        session->budget.looked_round = session->round;
    }
    return session->budget.lookup;
}

void or_budget_look_up(or_coordinator_t *c, const or_csession_t *session)
{
    or_token_tree_reset(c->scratch, session->log.tokens[session->log.length - 1]);
    for (uint32_t i = 0; i < session->budget.lookup; i++) {
        const or_lookup_guess_t *guess = &session->budget.lookup_guesses[i];
        if (or_token_tree_add(c->scratch, guess->parent, guess->token, NULL) != OR_OK) {
            break; // the tree is full
        }
    }
}

static or_policy_choice_t choose(const or_coordinator_t *c, or_csession_t *session, uint32_t ready)
{
    const or_seat_t *seat = &session->drafters.seats[0];
    int64_t now = or_clock_now(c->clock);
    const or_policy_state_t state = {.ready = ready,
                                     .lookup = lookup_count(c, session),
                                     .awaited = or_seats_are_awaited(session),
                                     .asked_ns = seat->behind ? now : session->budget.told_ns};
    session->budget.policy.session.late_is_good = or_seats_pool(session);
    session->budget.undecided = false;
    or_policy_choice_t choice = or_policy_choose(&session->budget.policy, &state, now);
    if (!state.awaited || choice.until_ns <= now) {
        choice.until_ns = 0;
    }
    return choice;
}

// Whole trees: all that are due are waited for. An automatic policy may decide against it before any has
// come: later it would depend on them.
static or_policy_choice_t choose_whole(const or_coordinator_t *c, or_csession_t *session)
{
    or_policy_choice_t choice = {.source = OR_SOURCE_DRAFTER};
    bool first = session->budget.undecided && is_automatic(session);
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        first = first && !session->drafters.seats[i].drafted;
    }
    if (first) {
        choice = choose(c, session, 0);
    }
    if (or_seats_are_awaited(session) && (!first || choice.until_ns != 0)) {
        choice.until_ns = OR_TIME_NEVER;
    }
    return choice;
}

or_policy_choice_t or_budget_ask(const or_coordinator_t *c, or_csession_t *session)
{
    if (session->budget.began_ns < session->round_started_ns) {
        session->budget.began_ns = or_clock_now(c->clock);
    }
    if (session->plain) {
        return (or_policy_choice_t){.source = OR_SOURCE_PLAIN};
    }
    return or_seats_pool(session) ? choose(c, session, or_guesses_count(session->budget.guesses))
                                  : choose_whole(c, session);
}

// ---- what follows for the drafter ----

or_budget_t or_budget_chosen(const or_coordinator_t *c, or_csession_t *session)
{
    return is_automatic(session) ? or_policy_budget(&session->budget.policy, or_clock_now(c->clock))
                                 : session->budget.policy.session.most;
}

bool or_budget_is_plain(const or_csession_t *session)
{
    return is_automatic(session) && session->budget.policy.way == OR_WAY_PLAIN;
}

bool or_budget_rests(const or_csession_t *session)
{
    return is_automatic(session) && session->budget.policy.budget.nodes == 0;
}

// ---- the end ----

// The advice is for who chose the policy `fixed` and cannot see whether drafting paid on this line.
//
// A plain step is timed by rounds that judged guesses, so plain decoding is rather faster than is thought here;
// and where drafters are ahead, what is compared is the best that could have come of it.
void or_budget_advise(or_csession_t *session)
{
    const or_policy_t *policy = &session->budget.policy;
    bool fixed = !session->plain && policy->session.kind == OR_POLICY_FIXED;
    bool told = session->note[0] != '\0'; // of worse: a drafter that was dismissed
    if (!fixed || told || policy->drafted < ROUNDS_MIN || policy->count.times == 0 ||
        policy->batch >= 2) {
        return; // in shared passes the rates are the verifier's, not the text's
    }
    double drafted = or_policy_draft_rate(policy, or_policy_full_nodes(policy));
    if (or_policy_plain_rate(policy) < CLEARLY_FASTER * drafted) {
        return;
    }
    snprintf(session->advice, sizeof session->advice,
             "drafting cost more time than it saved on this line (round trip to the drafter %.0f "
             "ms, a plain step "
             "%.0f ms): try --draft-policy auto",
             policy->mean.round_trip_ns / 1e6, policy->mean.plain_ns / 1e6);
}
