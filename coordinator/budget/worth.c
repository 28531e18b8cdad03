#include "coordinator/budget/worth_rows.h"

#include <math.h>

#include "common/base/clock.h"
#include "common/base/inline.h"

// A way is measured by so many passes, and for so long.
#define WINDOW_PASSES 4u
#define WINDOW_ROUNDS 8u
#define WINDOW_NS (100.0 * (double)OR_NS_PER_MS)
// A try is hopeless that is so slow after so many passes.
#define HOPELESS_PASSES 1u
#define HOPELESS_ROUNDS 3u
#define HOPELESS 0.75
#define HOPELESS_MANY 0.9 // where it is seen in the rounds of many texts
// Not so soon of plain passes, or of a text alone: a moment in which the machine stands still is as long as many of a small
// target's passes.
#define HOPELESS_NS (WINDOW_NS / 4)

#define ALONE_FROM 3u        // texts at a time, of which one tries first,
#define ALONE_FROM_SHARED 6u // with a drafter on the target's CPUs, for which the others wait,
#define STAGE_FACTOR 4u      // then so many times more
#define ALL UINT32_MAX
#define HARMLESS 0.97     // of the speed of all, while some try it on CPUs of their own
#define OWN_ROUNDS 2u     // of each that tries it in a crowd, which must show
#define OWN_SPEED 0.6     // so much of others' speed: it also waits for others' passes
#define BETTER 1.05       // a way that costs more is taken where it brings so much
#define BETTER_PLAIN 1.02 // and plain decoding where it brings this
#define CLEARLY 2.5       // faster than plain rounds seem to be: those are not tried at once
#define CLEARLY_TOLD 1.1  // and faster than whole texts that wanted no guesses
#define SURPASSED 1.1     // plain decoding was so much faster once: see whether it still is
#define COST_SHARE 100.0  // a try may cost one part in so many of the time until the next
#define EARLY_SHARE 10.0  // the same, once, of guesses that a text alone left early
#define SURE_SHARE 400.0  // the same where plain decoding is hopeless: SURPASSED finds it early
#define PAUSE_NS (1.0 * (double)OR_NS_PER_S)
#define AGAIN_NS (0.4 * (double)OR_NS_PER_S) // a way that was left: eight rounds may mislead
#define PAUSES_MAX 64.0                      // doubled up to this
#define COST_UNKNOWN 0.3                     // of the time of a way that was never tried
#define SEEMS_SHARE 50.0 // as COST_SHARE, where a few rounds say that the try is hopeless
// What a round with guesses brings varies by so much of its mean. Of a text alone, a speed of few such rounds is in doubt by
// that over the root of their number. A try of guesses goes on until it is not, or for so many rounds, or half of its time.
#define VARIES 0.7
#define DOUBT_ROUNDS 32u
#define EVIDENCE_MAX 65536u        // more rounds change no weight
#define FIRST_PAUSE_NS OR_NS_PER_S // before a crowd on the target's CPUs tries guesses first
#define TRIAL_NS_MAX (2.0 * (double)OR_NS_PER_S) // or so many windows: then it has failed
#define TRIAL_WINDOWS_MAX 10.0
#define LONG 3.0            // a round, beside the others of its window on the average
#define LEFT_OUT_OF 4u      // windows at most one is left out
#define STOOD_STILL 0.5     // of the speed before, or less
#define OLD_WEIGHT 0.75     // of the windows before, in a speed,
#define OLD_WEIGHT_MANY 0.5 // and in that of many texts, whose windows have many rounds

// ---- windows ----

static double speed_of(const or_worth_sum_t *sum)
{
    return sum->tokens / fmax(sum->time_ns, 1);
}

static bool is_full(const or_worth_sum_t *sum, uint32_t passes, uint32_t rounds, uint32_t texts)
{
    return sum->rounds >= passes * texts && sum->rounds >= rounds;
}

static void add(or_worth_sum_t *sum, const or_worth_round_t *round, int64_t now_ns)
{
    if (sum->rounds++ == 0) {
        sum->since_ns = now_ns - (int64_t)round->time_ns;
    }
    sum->tokens += round->tokens;
    sum->time_ns += round->time_ns;
}

static bool is_measured(const or_worth_sum_t *sum, uint32_t texts, int64_t now_ns)
{
    return is_full(sum, WINDOW_PASSES, WINDOW_ROUNDS, texts) &&
           (double)(now_ns - sum->since_ns) >= WINDOW_NS;
}

// ---- tries ----

// Return the place of this text among those that try; their number if it is none of them.
static uint32_t find_trier(const or_worth_t *worth, uint64_t session)
{
    uint32_t at = 0;
    while (at < worth->trial.count && worth->trial.sessions[at] != session) {
        at++;
    }
    return at;
}

static void change(or_worth_t *worth)
{
    worth->epoch++;
    for (uint32_t i = 0; i < OR_WORTH_ROWS; i++) {
        worth->rows[i].now = (or_worth_sum_t){0};
    }
}

// So many texts try it now, and those that did go on.
static void begin_stage(or_worth_t *worth, uint32_t most, int64_t now_ns)
{
    worth->trial.stage_ns = now_ns;
    worth->trial.most = most > OR_WORTH_FEW ? ALL : most;
    worth->trial.sum = worth->trial.own = (or_worth_sum_t){0};
    change(worth);
}

// Return the time after which a try has failed.
static double try_ns_max(const or_worth_t *worth)
{
    return fmax(TRIAL_NS_MAX, TRIAL_WINDOWS_MAX * worth->rows[worth->trial.row].window_ns);
}

// Is this ratio of two speeds within one standard deviation of the bar, after so many rounds with guesses?
static bool is_doubtful(double ratio, double bar, uint32_t rounds)
{
    return rounds < DOUBT_ROUNDS && fabs(ratio - bar) < VARIES / sqrt(fmax(rounds, 1));
}

// Nobody is harmed by plain decoding.
static void begin_trial(or_worth_t *worth, const or_worth_round_t *round, or_way_t way,
                        int64_t now_ns)
{
    uint32_t from = worth->shared ? ALONE_FROM_SHARED : ALONE_FROM;
    bool alone = way != OR_WAY_PLAIN && round->texts >= from;
    worth->trial.on = true;
    worth->trial.way = way;
    worth->trial.row = or_worth_row(round->texts);
    worth->trial.count = 0;
    worth->trial.begun_ns = now_ns;
    worth->trial.tokens = 0;
    begin_stage(worth, alone ? 1 : ALL, now_ns);
}

static int64_t after(int64_t now_ns, double pause_ns)
{
    return now_ns + (int64_t)fmin(pause_ns, 3600.0 * (double)OR_NS_PER_S);
}

static void fail(or_worth_t *worth, uint32_t texts, int64_t now_ns)
{
    or_worth_row_t *row = &worth->rows[worth->trial.row];
    double base = row->ways[row->way].speed;
    double took_ns = (double)(now_ns - worth->trial.begun_ns);
    double lost_ns = took_ns - worth->trial.tokens / fmax(base * texts, 1e-12);
    // What took longer than a try may was the machine's, not the way's.
    double cost_ns = fmin(fmax(lost_ns, 0), try_ns_max(worth));
    double pauses = fmin(exp2(row->ways[worth->trial.way].failed), PAUSES_MAX);
    double speed = fmin(row->ways[worth->trial.way].speed, base);
    // Twice in a row, for a moment in which the machine stands still may look so.
    bool sure = worth->trial.way == OR_WAY_PLAIN && row->ways[OR_WAY_PLAIN].failed > 0 &&
                is_full(&worth->trial.sum, HOPELESS_PASSES, HOPELESS_ROUNDS, texts) &&
                speed_of(&worth->trial.sum) < HOPELESS * base;
    double share = sure ? SURE_SHARE : COST_SHARE;
    row->ways[worth->trial.way].failed++;
    row->ways[worth->trial.way].speed = speed;
    row->ways[worth->trial.way].try_ns = after(now_ns, fmax(PAUSE_NS * pauses, share * cost_ns));
    worth->trial.on = false;
    change(worth);
}

// Plain decoding seems to be as fast, or faster, but too few rounds with guesses were measured to say so.
static void put_off(or_worth_t *worth, int64_t now_ns)
{
    or_worth_row_t *row = &worth->rows[worth->trial.row];
    row->ways[OR_WAY_PLAIN].try_ns = after(now_ns, AGAIN_NS);
    row->was_put_off = true;
    worth->trial.on = false;
    change(worth);
}

// Return how long the way that is left for the one that was tried is not tried itself. The first rounds with guesses of a text
// alone are slower than those to come: their trees do not have the best size yet. So guesses that were left after few rounds
// are tried again sooner, once.
static double pause_of_left(or_worth_t *worth, uint32_t texts, double lost_ns)
{
    or_worth_row_t *row = &worth->rows[worth->trial.row];
    bool early = texts == 1 && worth->trial.way == OR_WAY_PLAIN && row->evidence < DOUBT_ROUNDS &&
                 !row->was_left_early;
    row->was_left_early |= early;
    return fmax(AGAIN_NS, (early ? EARLY_SHARE : COST_SHARE) * lost_ns);
}

static void adopt(or_worth_t *worth, double ratio, uint32_t texts, int64_t now_ns)
{
    or_worth_row_t *row = &worth->rows[worth->trial.row];
    double took_ns = (double)(now_ns - worth->trial.sum.since_ns);
    double needed = fmax(WINDOW_ROUNDS, WINDOW_PASSES * texts) / worth->trial.sum.rounds;
    double window_ns = fmin(took_ns, fmax(WINDOW_NS, needed * took_ns)); // doubt made it longer
    double part = ratio * HOPELESS > 1 ? (double)HOPELESS_ROUNDS / WINDOW_ROUNDS : 1;
    double lost_ns = part * row->window_ns * (1 - 1 / ratio);
    row->ways[row->way].try_ns = after(now_ns, pause_of_left(worth, texts, lost_ns));
    row->ways[row->way].failed = 1;
    row->ways[worth->trial.way].failed = 0;
    row->way = worth->trial.way;
    row->window_ns = window_ns;
    row->evidence = worth->trial.sum.rounds;
    row->was_put_off = false;
    for (int way = 0; way < OR_WAYS; way++) {
        if (row->ways[way].speed == 0) {
            row->ways[way].try_ns = after(now_ns, COST_SHARE * COST_UNKNOWN * window_ns);
        }
    }
    worth->trial.on = false;
    change(worth);
}

// The speed of all texts while some of them try guesses, as a part of that before, with which more may. On CPUs of their
// own drafters cost others a few rows. On the target's CPUs guesses must show their share of what all of them are to bring.
static double enough(const or_worth_t *worth, uint32_t texts)
{
    return worth->shared ? 1 + (BETTER - 1) * worth->trial.most / texts : HARMLESS;
}

static void judge_trial(or_worth_t *worth, uint32_t texts, int64_t now_ns)
{
    or_worth_row_t *row = &worth->rows[worth->trial.row];
    const or_worth_sum_t *sum = &worth->trial.sum;
    double speed = speed_of(sum);
    double ratio = speed / fmax(row->ways[row->way].speed, 1e-12);
    bool measured = is_measured(sum, texts, now_ns);
    bool part = worth->trial.most < texts;
    bool many = texts >= ALONE_FROM_SHARED && (worth->shared || !part);
    double hope = many ? HOPELESS_MANY : HOPELESS;
    double least_ns = worth->trial.way == OR_WAY_PLAIN || texts == 1 ? HOPELESS_NS : 0;
    bool hopeless = is_full(sum, HOPELESS_PASSES, HOPELESS_ROUNDS, texts) && ratio < hope &&
                    (double)(now_ns - sum->since_ns) >= least_ns;
    if (!measured && !hopeless) {
        return;
    }
    if (part) {
        bool crowd = or_worth_is_crowd(worth, texts);
        if (crowd && !hopeless && worth->trial.own.rounds < OWN_ROUNDS * worth->trial.most) {
            return; // others' passes are over sooner
        }
        bool slow = crowd && speed_of(&worth->trial.own) < OWN_SPEED * row->ways[row->way].speed;
        if (ratio >= enough(worth, texts) && !slow) {
            uint32_t more = worth->trial.most * STAGE_FACTOR;
            begin_stage(worth, more < texts ? more : ALL, now_ns);
        } else {
            fail(worth, texts, now_ns);
        }
        return;
    }
    bool plain = worth->trial.way == OR_WAY_PLAIN;
    double bar = plain ? BETTER_PLAIN : BETTER;
    bool doubtful =
        texts == 1 && !hopeless && is_doubtful(ratio, bar, plain ? row->evidence : sum->rounds);
    if (doubtful && !plain && (double)(now_ns - worth->trial.stage_ns) < try_ns_max(worth) / 2) {
        return;
    }
    row->ways[worth->trial.way].speed = speed;
    if (doubtful && plain && ratio >= bar && !row->was_put_off) {
        put_off(worth, now_ns);
    } else if (ratio >= bar) {
        adopt(worth, ratio, texts, now_ns);
    } else {
        fail(worth, texts, now_ns);
    }
}

// The first time that a text alone was measured with guesses: plain decoding is tried at once unless its own plain rounds
// say that it is far slower.
static bool may_be_plain(or_worth_row_t *row, const or_worth_round_t *round, int64_t now_ns)
{
    double plain_ns = row->told > 0 ? 1 / row->told : round->plain_ns;
    if (plain_ns <= 0) {
        return false;
    }
    if (row->ways[row->way].speed * plain_ns < (row->told > 0 ? CLEARLY_TOLD : CLEARLY)) {
        return true;
    }
    double lost = 1 - 1 / (plain_ns * row->ways[row->way].speed);
    double hopeless_ns = fmax(HOPELESS_NS, HOPELESS_ROUNDS * plain_ns);
    double pause_ns =
        row->told > 0 ? COST_SHARE * row->window_ns * lost : SEEMS_SHARE * hopeless_ns * lost;
    if (row->ways[OR_WAY_PLAIN].try_ns == 0) {
        row->ways[OR_WAY_PLAIN].try_ns = after(now_ns, pause_ns);
    }
    return now_ns >= row->ways[OR_WAY_PLAIN].try_ns;
}

static bool is_due(or_worth_t *worth, or_worth_row_t *row, const or_worth_round_t *round,
                   or_way_t way, int64_t now_ns)
{
    double speed = row->ways[way].speed;
    bool first = row == &worth->rows[0];
    if (way == row->way || (first && !worth->shared) || (way == OR_WAY_DRAFTED && !worth->shared) ||
        (way == OR_WAY_AHEAD && worth->shared && (row->way == OR_WAY_PLAIN || !round->may_ahead))) {
        return false;
    }
    if (first && way == OR_WAY_PLAIN && speed == 0) {
        return may_be_plain(row, round, now_ns);
    }
    return now_ns >= row->ways[way].try_ns;
}

// The machine may have stood still in a window that is far slower than those before, or in the round that ended it early.
// Leave it out: but one in so many, for what stands still again and again is to be counted.
static bool leave_out_window(or_worth_t *worth, or_worth_row_t *row, const or_worth_round_t *round,
                             bool early)
{
    double before = row->ways[row->way].speed;
    double others_ns = (row->now.time_ns - round->time_ns) / fmax(row->now.rounds - 1, 1);
    bool slow =
        speed_of(&row->now) < STOOD_STILL * before || (early && round->time_ns > LONG * others_ns);
    if (before == 0 || !slow || row->to_count > 0) {
        row->to_count -= row->to_count > 0;
        return false;
    }
    row->to_count = LEFT_OUT_OF - 1;
    change(worth); // and the rounds of other texts that stood still with it
    return true;
}

// A window of the present way is full.
static void end_window(or_worth_t *worth, or_worth_row_t *row, const or_worth_round_t *round,
                       int64_t now_ns)
{
    double speed = speed_of(&row->now);
    double before = row->ways[row->way].speed;
    bool again = row->window_ns > 0 && before > 0;
    bool many = round->texts >= ALONE_FROM_SHARED;
    bool alone = worth->shared && row->way == OR_WAY_PLAIN && many;
    double most = many ? OLD_WEIGHT_MANY : OLD_WEIGHT;
    double known = (double)row->evidence / (row->evidence + row->now.rounds);
    double old = again ? fmin(most, known) : 0;
    row->evidence = or_min_u32((again ? row->evidence : 0) + row->now.rounds, EVIDENCE_MAX);
    row->ways[row->way].speed = old * before + (1 - old) * speed;
    row->window_ns = (double)(now_ns - row->now.since_ns);
    row->now = (or_worth_sum_t){0};
    if (row->ways[OR_WAY_PLAIN].speed > SURPASSED * row->ways[row->way].speed) {
        row->ways[OR_WAY_PLAIN].try_ns = now_ns;
    }
    if (row->way == OR_WAY_DRAFTED && row->ways[OR_WAY_AHEAD].try_ns == 0) {
        row->ways[OR_WAY_AHEAD].try_ns = after(now_ns, COST_SHARE * COST_UNKNOWN * row->window_ns);
    }
    if (!again && alone && row->ways[OR_WAY_DRAFTED].try_ns == 0) {
        row->ways[OR_WAY_DRAFTED].try_ns = after(now_ns, (double)FIRST_PAUSE_NS);
    }
    for (int way = 0; way < OR_WAYS && round->steered; way++) {
        if (is_due(worth, row, round, (or_way_t)way, now_ns)) {
            begin_trial(worth, round, (or_way_t)way, now_ns);
            return;
        }
    }
}

// Are rounds with guesses far slower than the text's own plain ones?
static bool is_hopeless(const or_worth_row_t *row, const or_worth_round_t *round)
{
    return row->way != OR_WAY_PLAIN && round->plain_ns > 0 &&
           is_full(&row->now, HOPELESS_PASSES, HOPELESS_ROUNDS, round->texts) &&
           speed_of(&row->now) * round->plain_ns < HOPELESS;
}

// ---- said and asked ----

// A text alone that wants no guesses shows what plain decoding is worth, at no cost.
static void hear_plain(or_worth_row_t *row, const or_worth_round_t *round, int64_t now_ns)
{
    add(&row->of_told, round, now_ns);
    if (is_measured(&row->of_told, round->texts, now_ns)) {
        row->told = speed_of(&row->of_told);
        row->of_told = (or_worth_sum_t){0};
    }
}

// Return the time in which texts were at work.
static int64_t work_time(or_worth_t *worth, int64_t now_ns)
{
    if (worth->idle.since_ns != 0) {
        worth->idle.all_ns += now_ns - worth->idle.since_ns;
        worth->idle.since_ns = 0;
    }
    return now_ns - worth->idle.all_ns;
}

// This time is neither that of a try nor that of a window.
static void pass_over(or_worth_t *worth, uint32_t texts, int64_t time_ns)
{
    worth->trial.begun_ns += time_ns;
    worth->trial.stage_ns += time_ns;
    worth->trial.sum.since_ns += time_ns;
    worth->rows[or_worth_row(texts)].now.since_ns += time_ns;
}

// Is this round left out? Then its time is neither that of a try nor that of a window.
static bool leave_out(or_worth_t *worth, const or_worth_round_t *round, int64_t clock_ns,
                      int64_t now_ns)
{
    int64_t time_ns;
    if (!or_reading_judged(&worth->reading, round->texts, round->time_ns, clock_ns, now_ns,
                           &time_ns)) {
        return false;
    }
    pass_over(worth, round->texts, time_ns);
    return true;
}

void or_worth_judged(or_worth_t *worth, const or_worth_round_t *round, int64_t clock_ns)
{
    const int64_t now_ns = work_time(worth, clock_ns);
    uint32_t at = or_worth_row(round->texts);
    bool untimed = round->prompt && round->texts > 1;
    if (worth->drafters == 0) {
        return;
    }
    bool out = untimed ? or_reading_leaves_out(&worth->reading)
                       : leave_out(worth, round, clock_ns, now_ns);
    if (out) {
        return;
    }
    // It goes its own way, and no other text tells what the row's is worth.
    bool own_way = round->texts == 1 && (round->plain || !round->steered);
    if (own_way && round->time_ns >= 0) {
        pass_over(worth, 1, (int64_t)round->time_ns);
    } else {
        worth->trial.tokens += round->tokens;
    }
    // Its first round, too: what it waits for may never come.
    if (worth->trial.on && !untimed && at == worth->trial.row && round->epoch == worth->epoch &&
        find_trier(worth, round->session) < worth->trial.count) {
        add(&worth->trial.own, round, now_ns);
    }
    if (untimed || round->epoch != worth->epoch || !round->settled || !(round->time_ns >= 0)) {
        return;
    }
    if (round->plain && round->texts == 1) {
        hear_plain(or_worth_find_row(worth, at, now_ns), round, now_ns);
        return;
    }
    if (own_way) {
        return;
    }
    if (worth->trial.on) {
        if (at == worth->trial.row) {
            add(&worth->trial.sum, round, now_ns);
            judge_trial(worth, round->texts, now_ns);
        }
        return;
    }
    or_worth_row_t *row = or_worth_find_row(worth, at, now_ns);
    add(&row->now, round, now_ns);
    bool full = is_measured(&row->now, round->texts, now_ns);
    if ((full || is_hopeless(row, round)) && !leave_out_window(worth, row, round, !full)) {
        end_window(worth, row, round, now_ns);
    }
}

// Is this one of the texts that try? Whoever comes first may.
static bool tries(or_worth_t *worth, uint64_t session)
{
    if (worth->trial.most == ALL || find_trier(worth, session) < worth->trial.count) {
        return true;
    }
    bool room = worth->trial.count < worth->trial.most;
    if (room) {
        worth->trial.sessions[worth->trial.count++] = session;
    }
    return room;
}

or_way_t or_worth_way(or_worth_t *worth, uint64_t session, uint32_t texts, int64_t clock_ns)
{
    const int64_t now_ns = work_time(worth, clock_ns);
    uint32_t at = or_worth_row(texts);
    or_worth_row_t *row = or_worth_find_row(worth, at, now_ns);
    or_worth_follow_crowds(worth, row, texts, now_ns);
    if (!worth->trial.on) {
        return row->way;
    }
    int64_t end_ns = or_reading_end(&worth->reading, now_ns);
    if ((double)(end_ns - worth->trial.stage_ns) >
        try_ns_max(worth)) { // nothing came, or texts have left
        fail(worth, texts, end_ns);
        return row->way;
    }
    return at == worth->trial.row && tries(worth, session) ? worth->trial.way : row->way;
}

void or_worth_ended(or_worth_t *worth, uint64_t session, uint32_t texts, int64_t clock_ns)
{
    worth->idle.since_ns =
        texts == 0 && worth->idle.since_ns == 0 ? clock_ns : worth->idle.since_ns;
    uint32_t at = find_trier(worth, session);
    if (at < worth->trial.count) {
        worth->trial.sessions[at] = worth->trial.sessions[--worth->trial.count];
    }
}
