// Goal: all texts together are never much slower than plain decoding, whatever a drafter costs them; where guesses pay they
// are used; tries cost a hundredth of the time; what changes is noticed.
// Method: a crowd of texts, a target and a drafter in a few numbers, on a virtual clock. A pass takes a fixed time and one
// for each row; drafting takes the time of the same CPUs, or none of theirs. Texts are short and follow one another.
#include "coordinator/budget/worth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/support/test_support.h"

#define MS (double)OR_NS_PER_MS
#define TEXTS_MAX 64
#define NODES 16
#define PASS_ROWS 40 // while several texts are here
#define PLAIN_KEPT 0.97
#define BEST_KEPT 0.95
#define KEPT_AFTER_STALL 0.97

typedef struct {
    double pass_ms, row_ms; // of the target
    double draft_ms;        // a tree
    double trip_ms;         // to the drafter and back
    double tokens;          // that a round with a tree brings
    double ahead;      // a drafted round's time, when the drafter works ahead: so many times it
    double noise;      // of each pass, as a part of it
    double weather;    // others take the machine now and then: all takes so many times longer
    double hiccup_ms;  // the machine stands still for so long about ten times a second
    double stalled_ms; // the drafter answers only after so long
    bool shared;       // drafting takes the target's time
    double idle_ms;    // between a text and the next
    uint32_t nodes;    // of a tree; 0: NODES
    uint32_t
        prompt; // tokens that the target reads before a text's first round; 0: they cost nothing
    double open_ms;     // that a drafter needs to read a text before it drafts
    bool rests;         // what a pass has read is not counted at its end
    bool chance;        // what a round brings varies, as accepted paths do; its mean is `tokens`
    double plain_seems; // a text's own plain rounds: so many times what they take; 0: once
} numbers_t;

typedef struct {
    numbers_t numbers;
    or_worth_t worth;
    bool plain; // whatever the policy says
    uint32_t texts, text_tokens;
    uint64_t random;
    double now_ns;
    double tokens; // of all
    double weather, weather_until_ns;
    double plain_ns; // that what was written would have taken plainly
    struct {
        uint64_t session;
        or_way_t way, before;
        uint64_t epoch;
        double left, owed; // tokens of the text; parts of a token
        uint32_t round;
        uint32_t unread; // of its prompt
        double began_ns; // its round
    } at[TEXTS_MAX];
    uint64_t sessions;
    double drafted_rounds, rounds;
} crowd_t;

static void begin_text(crowd_t *crowd, uint32_t i)
{
    if (crowd->at[i].session != 0) {
        or_worth_ended(&crowd->worth, crowd->at[i].session, crowd->texts - 1,
                       (int64_t)crowd->now_ns);
        crowd->now_ns += crowd->numbers.idle_ms * MS;
    }
    memset(&crowd->at[i], 0, sizeof crowd->at[i]);
    crowd->at[i].session = ++crowd->sessions;
    crowd->at[i].left = crowd->text_tokens;
    if (crowd->numbers.prompt > 0) { // they end at different times
        crowd->at[i].left *= 0.5 + test_uniform(&crowd->random);
    }
    crowd->at[i].before = OR_WAYS;
    crowd->at[i].unread = crowd->numbers.prompt;
    crowd->at[i].began_ns = crowd->now_ns;
}

static crowd_t crowd_of(numbers_t numbers, uint32_t texts)
{
    crowd_t crowd = {
        .numbers = numbers, .texts = texts, .text_tokens = 64, .random = 5, .now_ns = 1e9};
    or_worth_place(&crowd.worth, 1, numbers.shared);
    for (uint32_t i = 0; i < texts; i++) {
        begin_text(&crowd, i);
    }
    return crowd;
}

static double plain_pass_ns(const numbers_t *numbers, uint32_t texts)
{
    return (numbers->pass_ms + numbers->row_ms * texts) * MS;
}

typedef struct {
    uint32_t drafted, ahead; // texts of a pass
    uint32_t opened;         // that a drafter begins with
} drafters_work_t;

// What drafts and passes of one pass of everybody take, with so many rows besides guesses.
static double round_ns(const crowd_t *crowd, const drafters_work_t *work, uint32_t others)
{
    const numbers_t *numbers = &crowd->numbers;
    uint32_t drafted = work->drafted, ahead = work->ahead;
    double nodes = numbers->nodes > 0 ? numbers->nodes : NODES;
    double pass = numbers->pass_ms + numbers->row_ms * (others + nodes * drafted);
    double draft = numbers->draft_ms * drafted + (drafted > 0 ? numbers->trip_ms : 0) +
                   numbers->open_ms * work->opened;
    double noise = 1 + numbers->noise * (2 * test_uniform((uint64_t *)&crowd->random) - 1);
    double stretch = ahead > 0 ? numbers->ahead : 1;
    return ((pass + draft) * stretch + (drafted > 0 ? numbers->stalled_ms : 0)) * MS * noise;
}

// Let a pass read what it has room for of the prompts, as verifier/pass/passes.c does; return the rows.
static uint32_t read_prompts(crowd_t *crowd, uint32_t *reading)
{
    uint32_t rows = 0;
    *reading = 0;
    for (uint32_t i = 0; i < crowd->texts; i++) {
        *reading += crowd->at[i].unread > 0;
    }
    uint32_t room = *reading < crowd->texts ? PASS_ROWS / 2 : PASS_ROWS;
    for (uint32_t i = 0; i < crowd->texts; i++) {
        uint32_t unread = crowd->at[i].unread;
        uint32_t take = unread < room - rows ? unread : room - rows;
        crowd->at[i].unread -= take;
        rows += take;
    }
    return rows;
}

static void change_weather(crowd_t *crowd)
{
    if (crowd->now_ns > crowd->weather_until_ns) {
        bool fair = crowd->weather > 1 || crowd->numbers.weather <= 1;
        crowd->weather = fair ? 1 : crowd->numbers.weather;
        crowd->weather_until_ns = crowd->now_ns + 400 * MS * test_uniform(&crowd->random);
    }
}

static double hiccup_ns(crowd_t *crowd, double pass_ns)
{
    double length_ns = crowd->numbers.hiccup_ms * MS;
    return length_ns > 0 && test_uniform(&crowd->random) < pass_ns / (100 * MS) ? length_ns : 0;
}

// The ways of the texts that take part in a pass.
static drafters_work_t choose_ways(crowd_t *crowd)
{
    drafters_work_t work = {0};
    for (uint32_t i = 0; i < crowd->texts; i++) {
        if (crowd->at[i].unread > 0) {
            continue;
        }
        int64_t now = (int64_t)crowd->now_ns;
        or_way_t way = or_worth_way(&crowd->worth, crowd->at[i].session, crowd->texts, now);
        bool drafts = way != OR_WAY_PLAIN && !crowd->plain;
        bool drafted = crowd->at[i].before == OR_WAY_DRAFTED || crowd->at[i].before == OR_WAY_AHEAD;
        crowd->at[i].way = drafts ? way : OR_WAY_PLAIN;
        crowd->at[i].epoch = crowd->worth.epoch;
        work.drafted += drafts;
        work.opened += drafts && !drafted;
        work.ahead += drafts && way == OR_WAY_AHEAD;
    }
    return work;
}

// What a round with guesses brings: of a path each next token is accepted with the same probability.
static double drafted_tokens(crowd_t *crowd)
{
    double mean = crowd->numbers.tokens, tokens = 1;
    if (!crowd->numbers.chance) {
        return mean;
    }
    while (test_uniform(&crowd->random) < 1 - 1 / mean) {
        tokens++;
    }
    return tokens;
}

// The text's part of a pass is judged.
static void judge(crowd_t *crowd, uint32_t i, double took_ns)
{
    bool plain = crowd->at[i].way == OR_WAY_PLAIN;
    bool prefill = crowd->at[i].round == 0 && crowd->numbers.prompt > 0;
    double seems = crowd->numbers.plain_seems > 0 ? crowd->numbers.plain_seems : 1;
    crowd->at[i].owed += plain ? 1 : drafted_tokens(crowd);
    uint32_t tokens = (uint32_t)crowd->at[i].owed;
    crowd->at[i].owed -= tokens;
    const or_worth_round_t round = {
        .session = crowd->at[i].session,
        .epoch = crowd->at[i].epoch,
        .texts = crowd->texts,
        .steered = true,
        .settled = crowd->at[i].round == 0 || crowd->at[i].way == crowd->at[i].before,
        .may_ahead = true,
        .prompt = prefill,
        .tokens = tokens,
        .time_ns = crowd->now_ns - crowd->at[i].began_ns - (prefill ? took_ns : 0),
        .plain_ns = crowd->at[i].round > 2 ? plain_pass_ns(&crowd->numbers, 1) * seems : 0};
    or_worth_judged(&crowd->worth, &round, (int64_t)crowd->now_ns);
    crowd->at[i].before = crowd->at[i].way;
    crowd->at[i].began_ns = crowd->now_ns;
    crowd->at[i].round++;
    crowd->tokens += tokens;
    crowd->plain_ns +=
        tokens * plain_pass_ns(&crowd->numbers, crowd->texts) * crowd->weather / crowd->texts;
    crowd->rounds++;
    crowd->drafted_rounds += !plain;
    crowd->at[i].left -= tokens;
    if (crowd->at[i].left <= 0) {
        begin_text(crowd, i);
    }
}

// One pass of all texts.
static void step(crowd_t *crowd)
{
    uint32_t reading;
    uint32_t read = read_prompts(crowd, &reading);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < crowd->texts; i++) {
        waiting += crowd->at[i].unread > 0;
    }
    or_worth_counted(&crowd->worth, crowd->texts, reading, (int64_t)crowd->now_ns);
    drafters_work_t work = choose_ways(crowd);
    change_weather(crowd);
    double took_ns = round_ns(crowd, &work, crowd->texts - waiting + read) * crowd->weather;
    took_ns += hiccup_ns(crowd, took_ns);
    crowd->now_ns += took_ns;
    or_worth_counted(&crowd->worth, crowd->texts, crowd->numbers.rests ? waiting : reading,
                     (int64_t)crowd->now_ns);
    for (uint32_t i = 0; i < crowd->texts; i++) {
        if (crowd->at[i].unread == 0) {
            judge(crowd, i, took_ns);
        }
    }
}

// Tokens a second.
static double run(crowd_t *crowd, double seconds)
{
    double begun_ns = crowd->now_ns, before = crowd->tokens;
    while (crowd->now_ns < begun_ns + seconds * 1e9) {
        step(crowd);
    }
    return (crowd->tokens - before) / (crowd->now_ns - begun_ns) * 1e9;
}

static double plain_rate(const numbers_t *numbers, uint32_t texts)
{
    return texts / plain_pass_ns(numbers, texts) * 1e9;
}

static double drafted_rate(const numbers_t *numbers, uint32_t texts)
{
    crowd_t crowd = {.numbers = *numbers, .texts = texts};
    crowd.numbers.noise = 0;
    const drafters_work_t work = {.drafted = texts};
    return texts * numbers->tokens / round_ns(&crowd, &work, texts) * 1e9;
}

// Ten seconds of it from the beginning, as `outrider bench load` measures.
static void check(const numbers_t *numbers, uint32_t texts, const char *name)
{
    crowd_t crowd = crowd_of(*numbers, texts);
    double rate = run(&crowd, 10);
    double plain = plain_rate(numbers, texts);
    double best = fmax(plain, drafted_rate(numbers, texts));
    if (rate < PLAIN_KEPT * plain || rate < BEST_KEPT * best) {
        fail_msg("%s, %u texts: %.0f tokens/s, plain %.0f, drafted %.0f", name, texts, rate, plain,
                 drafted_rate(numbers, texts));
    }
}

// The models of the load tests: a large target and a small one, with the drafter on the same CPUs.
static const numbers_t large = {
    .pass_ms = 21, .row_ms = 1, .draft_ms = 6, .tokens = 3.6, .ahead = 1.4, .shared = true};
static const numbers_t small = {
    .pass_ms = 0.4, .row_ms = 0.1, .draft_ms = 2.5, .tokens = 3.6, .ahead = 1.3, .shared = true};
// The same without AVX-512, where a row beyond the first costs nearly as much as a pass.
static const numbers_t avx2_large = {.pass_ms = 8.4,
                                     .row_ms = 4.2,
                                     .draft_ms = 5,
                                     .open_ms = 5,
                                     .tokens = 2.2,
                                     .ahead = 1.4,
                                     .nodes = 4,
                                     .prompt = 12,
                                     .shared = true};
static const numbers_t avx2_small = {.pass_ms = 0.5,
                                     .row_ms = 0.17,
                                     .draft_ms = 2.5,
                                     .open_ms = 4,
                                     .tokens = 2.2,
                                     .ahead = 1.3,
                                     .nodes = 4,
                                     .prompt = 12,
                                     .shared = true};
// A pass whose rows are free, as on a GPU with room.
static const numbers_t wide = {
    .pass_ms = 30, .row_ms = 0.01, .draft_ms = 1, .tokens = 3.6, .ahead = 0.9};

static void no_number_of_texts_is_slower_than_plain(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 4, 16, 64};
    static const double noises[] = {0, 0.05, 0.15};
    for (size_t i = 0; i < 5 * 3; i++) {
        numbers_t numbers[] = {large, small, wide};
        for (size_t n = 0; n < 3; n++) {
            numbers[n].noise = noises[i / 5];
            check(&numbers[n], counts[i % 5], n == 0 ? "large" : n == 1 ? "small" : "wide");
        }
    }
}

// Several texts begin with a few guesses of all together (policy.c).
static void begin_small(numbers_t *numbers, uint32_t texts)
{
    double before = 1 + log2(1 + numbers->nodes),
           gain = (numbers->tokens - 1) / log1p(numbers->nodes);
    numbers->nodes = texts < 4 ? 4 / texts : 1;
    numbers->tokens = 1 + gain * log1p(numbers->nodes);
    numbers->draft_ms *= (1 + log2(1 + numbers->nodes)) / before;
}

// Texts that begin together, with nothing known, on a processor whose passes take longer with every row. Their prompts are
// read beside the rounds of those that were first, which must not look like the speed of plain decoding.
static void the_first_seconds_are_as_fast_as_plain(void **state)
{
    (void)state;
    static const uint32_t counts[] = {3, 4, 8, 16, 64};
    static const double seconds[] = {3, 9};
    for (size_t i = 0; i < 5 * 2 * 2 * 2; i++) {
        numbers_t numbers = i % 2 == 0 ? avx2_large : avx2_small;
        uint32_t texts = counts[i / 8];
        double length = seconds[i / 2 % 2];
        numbers.noise = i / 4 % 2 == 0 ? 0 : 0.05;
        begin_small(&numbers, texts);
        crowd_t crowd = crowd_of(numbers, texts);
        crowd_t plain = crowd;
        plain.plain = true;
        double rate = run(&crowd, length), bound = run(&plain, length);
        if (rate < PLAIN_KEPT * bound) {
            fail_msg("%u texts, %g ms a pass, noise %g: %.3f of plain decoding in %g s", texts,
                     numbers.pass_ms, numbers.noise, rate / bound, length);
        }
    }
}

// Rounds of many texts, one after the other; return the time behind them.
static int64_t judge_rounds(or_worth_t *worth, uint32_t texts, uint32_t count, double time_ns,
                            int64_t now)
{
    for (uint32_t i = 0; i < count; i++) {
        const or_worth_round_t round = {.session = 1 + i % texts,
                                        .epoch = worth->epoch,
                                        .texts = texts,
                                        .steered = true,
                                        .settled = true,
                                        .tokens = 1,
                                        .time_ns = time_ns};
        now += (int64_t)(time_ns / texts);
        or_worth_judged(worth, &round, now);
    }
    return now;
}

// Rounds in whose time many prompts were read count for nothing; one among many texts is no matter.
static void rounds_beside_prompts_do_not_count(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    or_worth_place(&worth, 1, true);
    or_worth_way(&worth, 1, 16, now);
    or_worth_counted(&worth, 16, 8, now);
    now = judge_rounds(&worth, 16, 15, 50 * MS, now);
    assert_int_equal(worth.rows[4].now.rounds, 0);
    now = judge_rounds(&worth, 16, 15, 50 * MS, now + 100 * OR_NS_PER_MS);
    assert_int_equal(worth.rows[4].now.rounds, 15);
    or_worth_counted(&worth, 64, 1, now);
    now = judge_rounds(&worth, 64, 32, 50 * MS, now);
    assert_int_equal(worth.rows[6].now.rounds, 32);
}

// But they count where prompts are read all the time, also where one has been read before the next one comes.
static void rounds_beside_endless_prompts_count(void **state)
{
    (void)state;
    for (int rests = 0; rests < 2; rests++) {
        or_worth_t worth = {0};
        int64_t now = OR_NS_PER_S;
        or_worth_place(&worth, 1, true);
        worth.rows[4] = (or_worth_row_t){.known = true, .way = OR_WAY_PLAIN};
        worth.rows[4].ways[OR_WAY_DRAFTED].try_ns = INT64_MAX;
        for (int pass = 0; pass < 60; pass++) {
            or_worth_counted(&worth, 16, 1, now);
            or_worth_counted(&worth, 16, rests == 0, now + OR_NS_PER_MS);
            now = judge_rounds(&worth, 16, 16, 50 * MS, now);
            bool known = worth.rows[4].ways[OR_WAY_PLAIN].speed > 0;
            assert_true(pass < 38 ? !known : pass < 46 || known); // from 2 s on
        }
    }
}

// One pass that reads prompts may take longer than that.
static void a_long_pass_is_not_all_the_time(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    or_worth_place(&worth, 1, true);
    or_worth_counted(&worth, 16, 8, now);
    now += 3 * OR_NS_PER_S;
    for (int i = 0; i < 16; i++) {
        judge_rounds(&worth, 16, 1, 3000 * MS, now - (int64_t)(3000 * MS / 16));
    }
    assert_int_equal(worth.rows[4].now.rounds, 0);
}

// A hundred rounds of a text alone that wants no guesses, or whose way is not chosen here.
static void go_own_way(or_worth_t *worth, bool plain, double time_ns, int64_t now)
{
    for (int i = 0; i < 100; i++) {
        const or_worth_round_t round = {.session = 9,
                                        .epoch = worth->epoch,
                                        .texts = 1,
                                        .steered = plain,
                                        .plain = plain,
                                        .settled = true,
                                        .tokens = 1,
                                        .time_ns = time_ns};
        or_worth_judged(worth, &round, now += (int64_t)time_ns);
    }
}

// A text that was asked to go its own way goes on at a third of the speed, or at three times it. What the row knows stays.
static void a_text_that_goes_its_own_way_is_no_measure(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        or_worth_t worth = {0};
        int64_t now = OR_NS_PER_S;
        or_worth_place(&worth, 1, true);
        now = judge_rounds(&worth, 1, 40, 50 * MS, now);
        const or_worth_t before = worth;
        go_own_way(&worth, false, slow ? 150 * MS : 15 * MS, now);
        assert_memory_equal(worth.rows[0].ways, before.rows[0].ways, sizeof before.rows[0].ways);
        assert_int_equal(worth.trial.sum.rounds, before.trial.sum.rounds);
        assert_true(worth.rows[0].now.rounds == before.rows[0].now.rounds);
    }
}

// Nor is its time, which may be a minute, a window's or a try's: pauses follow from their length.
static void the_time_of_a_text_that_goes_its_own_way_is_nobodys(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        or_worth_t worth = {0};
        int64_t now = OR_NS_PER_S;
        or_worth_place(&worth, 1, true);
        now = judge_rounds(&worth, 1, 12, 50 * MS, now);
        int64_t since = worth.rows[0].now.since_ns, begun = worth.trial.begun_ns;
        double tokens = worth.trial.tokens;
        go_own_way(&worth, plain != 0, 600 * MS, now);
        assert_true(worth.rows[0].now.since_ns == since + 60 * OR_NS_PER_S);
        assert_true(worth.trial.begun_ns == begun + 60 * OR_NS_PER_S);
        assert_true(worth.trial.tokens <= tokens && worth.trial.tokens >= tokens);
    }
}

// One stall says nothing, but a drafter that stalls in every second window is as slow as that.
static void what_stands_still_again_and_again_counts(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    or_worth_place(&worth, 1, false);
    now = judge_rounds(&worth, 1, 400, 20 * MS, now);
    double before = worth.rows[0].ways[worth.rows[0].way].speed;
    for (int i = 0; i < 20; i++) {
        now = judge_rounds(&worth, 1, 7, 20 * MS, now);
        now = judge_rounds(&worth, 1, 1, 1000 * MS, now);
        now = judge_rounds(&worth, 1, 8, 20 * MS, now);
    }
    double speed = worth.rows[0].ways[worth.rows[0].way].speed;
    assert_true(speed < 0.9 * before);
}

// The machine stands still for ten seconds in a try of plain decoding. That is not what the try has cost.
static void a_moment_in_a_try_is_not_its_cost(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    or_worth_place(&worth, 1, true);
    now = judge_rounds(&worth, 1, 8, 50 * MS, now);
    worth.rows[0].ways[OR_WAY_PLAIN].speed = 0.9 / (50 * MS);
    worth.rows[0].ways[OR_WAY_PLAIN].try_ns = now;
    for (int i = 0; i < 1000 && !worth.trial.on; i++) {
        now = judge_rounds(&worth, 1, 1, 50 * MS, now);
    }
    assert_true(worth.trial.on && worth.trial.way == OR_WAY_PLAIN);
    now += 10 * OR_NS_PER_S;
    or_worth_way(&worth, 1, 1, now);
    assert_false(worth.trial.on);
    double pause_ns = (double)(worth.rows[0].ways[OR_WAY_PLAIN].try_ns - now);
    assert_in_range(pause_ns / 1e9, 1, 500);
}

// The machine stands still for ten seconds, once. What is known of the ways outlives it.
static void a_moment_in_a_window_decides_nothing(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 4, 16, 64};
    const numbers_t *models[] = {&large, &small, &wide, &avx2_large};
    for (size_t i = 0; i < 4 * 5 * 2; i++) {
        crowd_t crowd = crowd_of(*models[i / 10], counts[i / 2 % 5]);
        crowd.numbers.noise = i % 2 == 0 ? 0 : 0.05;
        run(&crowd, 60);
        crowd_t undisturbed = crowd;
        crowd.now_ns += 10 * (double)OR_NS_PER_S;
        double rate = run(&crowd, 60), bound = run(&undisturbed, 60);
        if (rate < KEPT_AFTER_STALL * bound) {
            fail_msg("%u texts, model %zu: %.3f of the speed without it", counts[i / 2 % 5], i / 10,
                     rate / bound);
        }
    }
}

// A round that has read a prompt has no time to speak of.
static void a_round_that_reads_is_no_measure(void **state)
{
    (void)state;
    for (uint32_t texts = 1; texts <= 64; texts *= 64) {
        or_worth_t worth = {0};
        or_worth_place(&worth, 1, true);
        const or_worth_round_t round = {.session = 1,
                                        .epoch = worth.epoch,
                                        .texts = texts,
                                        .steered = true,
                                        .settled = true,
                                        .prompt = true,
                                        .tokens = 1,
                                        .time_ns = 1};
        or_worth_judged(&worth, &round, OR_NS_PER_S);
        assert_int_equal(worth.rows[texts == 1 ? 0 : 6].now.rounds, texts == 1);
        assert_true(worth.trial.tokens == (texts == 1));
        worth.reading.out_ns = 2e9; // rounds beside prompts count: then so do its tokens
        or_worth_judged(&worth, &round, OR_NS_PER_S);
        assert_int_equal(worth.rows[6].now.rounds, 0);
        assert_true(worth.trial.tokens == (texts == 1 ? 2 : 1));
    }
}

// 16 texts at a time with a drafter on the target's CPUs, each followed by another after so many tokens.
static crowd_t short_answers(uint32_t text_tokens, double tokens, double draft_ms)
{
    const numbers_t numbers = {.pass_ms = 20,
                               .row_ms = 0.2,
                               .draft_ms = draft_ms,
                               .tokens = tokens,
                               .ahead = 1.4,
                               .nodes = 4,
                               .prompt = 4,
                               .rests = true,
                               .shared = true};
    crowd_t crowd = crowd_of(numbers, 16);
    crowd.text_tokens = text_tokens;
    return crowd;
}

// Answers of three or four rounds with guesses, which write 2.2 times as fast: others begin in every pass.
static void short_answers_are_measured(void **state)
{
    (void)state;
    crowd_t crowd = short_answers(12, 3.6, 0.1);
    run(&crowd, 20);
    assert_int_equal(crowd.worth.rows[4].way, OR_WAY_DRAFTED);
}

// Where guesses cost a tenth of the speed it stays with plain decoding.
static void short_answers_are_as_fast_as_plain(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {4, 6, 12, 20};
    for (size_t i = 0; i < 4; i++) {
        crowd_t crowd = short_answers(lengths[i], 1.75, 0.6);
        crowd_t plain = crowd;
        plain.plain = true;
        double rate = run(&crowd, 60), bound = run(&plain, 60);
        if (rate < PLAIN_KEPT * bound) {
            fail_msg("answers of %u tokens: %.3f of plain decoding", lengths[i], rate / bound);
        }
    }
}

// 16 texts, of which one has begun to try guesses.
static or_worth_t one_tries(bool shared, int64_t *now)
{
    or_worth_t worth = {0};
    or_way_t way = shared ? OR_WAY_DRAFTED : OR_WAY_AHEAD;
    or_worth_place(&worth, 1, shared);
    or_worth_row_t *row = &worth.rows[4];
    *row = (or_worth_row_t){.known = true, .way = OR_WAY_PLAIN, .window_ns = 200 * MS};
    row->ways[OR_WAY_DRAFTED].try_ns = row->ways[OR_WAY_AHEAD].try_ns = INT64_MAX;
    row->ways[way].try_ns = 1;
    *now = OR_NS_PER_S;
    while (!worth.trial.on) {
        *now = judge_rounds(&worth, 16, 16, 50 * MS, *now);
    }
    assert_int_equal(worth.trial.way, way);
    return worth;
}

// While one text of 16 tries guesses all are slower by 2 %. Elsewhere more may try; on the target's CPUs 16 would cost a third.
// Where all are slower by a sixth, one pass is enough there.
static void one_that_tries_must_pay_for_itself(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        int64_t now;
        or_worth_t worth = one_tries(shared == 1, &now);
        judge_rounds(&worth, 16, 80, 51 * MS, now);
        assert_int_equal(worth.trial.on, shared == 0);
        worth = one_tries(shared == 1, &now);
        judge_rounds(&worth, 16, 17, 60 * MS, now);
        assert_int_equal(worth.trial.on, shared == 0);
    }
}

// Passes of 16 texts that take twice as long beside prompts, for 1.9 s; return the time behind them.
static int64_t burst(or_worth_t *worth, int64_t now)
{
    for (int pass = 0; pass < 19; pass++) {
        or_worth_counted(worth, 16, 8, now);
        for (uint64_t session = 1; session <= 16; session++) {
            or_worth_way(worth, session, 16, now);
        }
        now = judge_rounds(worth, 16, 16, 100 * MS, now);
    }
    or_worth_counted(worth, 16, 0, now);
    return now + 100 * OR_NS_PER_MS;
}

// Prompts that are read while one text tries guesses neither fail the try nor make it dear.
static void a_burst_of_prompts_fails_no_try(void **state)
{
    (void)state;
    int64_t now;
    or_worth_t worth = one_tries(false, &now);
    worth.rows[4].window_ns = 100 * MS; // a try may take 2 s
    now = judge_rounds(&worth, 16, 8, 50 * MS, now);
    now = burst(&worth, now);
    assert_true(now - worth.trial.sum.since_ns < 300 * OR_NS_PER_MS);
    for (int pass = 0; pass < 4 && worth.trial.most == 1; pass++) {
        or_worth_way(&worth, 1, 16, now);
        now = judge_rounds(&worth, 16, 16, 50 * MS, now);
    }
    assert_true(worth.trial.on && worth.trial.most == 4);
    worth = one_tries(true, &now);
    now = burst(&worth, now);
    now = judge_rounds(&worth, 16, 17, 60 * MS, now);
    assert_false(worth.trial.on);
    int64_t pause_ns = worth.rows[4].ways[OR_WAY_DRAFTED].try_ns - now;
    assert_true(pause_ns <= 12 * OR_NS_PER_S); // 100 times the rest between both, and 10 ms
}

// Nor do they make a window long, and a second one is left out, too.
static void a_burst_of_prompts_is_no_part_of_a_window(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    or_worth_place(&worth, 1, true);
    worth.rows[4] = (or_worth_row_t){.known = true, .way = OR_WAY_PLAIN};
    worth.rows[4].ways[OR_WAY_DRAFTED].try_ns = INT64_MAX;
    int64_t now = judge_rounds(&worth, 16, 8, 50 * MS, OR_NS_PER_S);
    for (int i = 0; i < 2; i++) {
        uint32_t rounds = worth.rows[4].now.rounds;
        now = burst(&worth, now);
        assert_int_equal(worth.rows[4].now.rounds, rounds);
        assert_true(rounds > 0 && now - worth.rows[4].now.since_ns < 400 * OR_NS_PER_MS);
        now = judge_rounds(&worth, 16, 16 * 41, 50 * MS, now);
    }
}

// A try goes on in a pass that reads prompts for 3 s, but not for ever.
static void a_pass_with_prompts_ends_no_try(void **state)
{
    (void)state;
    int64_t now;
    or_worth_t worth = one_tries(false, &now);
    or_worth_counted(&worth, 16, 8, now);
    or_worth_t endless = worth;
    endless.reading.out_ns = 2e9;
    or_worth_way(&endless, 1, 16, now + 3 * OR_NS_PER_S);
    assert_false(endless.trial.on); // where rounds beside prompts count, so does their time
    or_worth_way(&worth, 1, 16, now + 3 * OR_NS_PER_S);
    assert_true(worth.trial.on);
    or_worth_way(&worth, 1, 16, now + 6 * OR_NS_PER_S);
    assert_false(worth.trial.on);
}

static void a_crowd_begins_plainly(void **state)
{
    (void)state;
    crowd_t crowd = crowd_of(avx2_large, 16);
    run(&crowd, 1);
    assert_true(crowd.drafted_rounds == 0);
    run(&crowd, 2);
    assert_true(crowd.drafted_rounds > 0); // but guesses are tried
    crowd_t few = crowd_of(avx2_large, 4);
    run(&few, 0.1);
    assert_true(few.drafted_rounds == 0);
    run(&few, 1); // and soon by all of a few texts
    assert_true(few.drafted_rounds >= 4);
    or_worth_t worth = {0};
    or_worth_place(&worth, 1, true);
    assert_int_equal(or_worth_way(&worth, 1, 1, OR_NS_PER_S), OR_WAY_DRAFTED);
    assert_int_equal(or_worth_way(&worth, 1, 2, OR_NS_PER_S), OR_WAY_PLAIN);
}

// Others on the machine come and go, and must not look like a way that pays.
static void weather_does_not_mislead_it(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 4, 16, 64};
    for (size_t i = 0; i < 4 * 2; i++) {
        numbers_t numbers = i % 2 == 0 ? small : large;
        numbers.noise = 0.1;
        numbers.weather = 1.6;
        crowd_t crowd = crowd_of(numbers, counts[i / 2]);
        run(&crowd, 30);
        double took = 30e9;
        if (crowd.plain_ns < PLAIN_KEPT * took) {
            fail_msg("%u texts, model %zu: %.3f of plain decoding's speed", counts[i / 2], i % 2,
                     crowd.plain_ns / took);
        }
    }
}

// Five seconds of a text alone, from the beginning, with so many seeds: guesses cost it speed, and plain decoding keeps so
// much of its own.
static void check_alone(const numbers_t *numbers, uint64_t seeds, double kept)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        crowd_t crowd = crowd_of(*numbers, 1), plain = crowd;
        crowd.random = plain.random = seed;
        plain.plain = true;
        double rate = run(&crowd, 5), bound = run(&plain, 5);
        if (rate < kept * bound) {
            fail_msg("seed %d: %.3f of plain decoding", (int)seed, rate / bound);
        }
    }
}

// A moment in which the machine stands still may fall into the first try of plain decoding, whose passes are far shorter.
static void a_moment_costs_no_text_alone_its_first_seconds(void **state)
{
    (void)state;
    numbers_t numbers = small;
    numbers.hiccup_ms = 12;
    numbers.draft_ms = 0.4; // guesses cost a third of the speed
    numbers.tokens = 1.2;
    check_alone(&numbers, 200, 0.9);
}

// The first plain rounds of a service read what is not in a cache yet: they say that plain decoding is far too slow.
static void slow_first_rounds_hide_plain_decoding_for_a_second_only(void **state)
{
    (void)state;
    const numbers_t numbers = {.pass_ms = 0.6,
                               .draft_ms = 0.4, // guesses cost a quarter of the speed
                               .tokens = 1.2,
                               .ahead = 1.3,
                               .noise = 0.1,
                               .shared = true,
                               .plain_seems = 4};
    check_alone(&numbers, 100, 0.9);
}

// It is measured, so guesses that no longer pay are seen to be slower at once.
static void hopeless_plain_decoding_is_left_alone_until_guesses_fall_behind(void **state)
{
    (void)state;
    const numbers_t numbers = {.pass_ms = 11,
                               .draft_ms = 1,
                               .tokens = 2.6,
                               .noise = 0.05,
                               .ahead = 1.3,
                               .nodes = 4,
                               .shared = true};
    crowd_t crowd = crowd_of(numbers, 1);
    run(&crowd, 10);
    double plain_rounds = crowd.rounds - crowd.drafted_rounds;
    if (plain_rounds > 8) {
        fail_msg("%.0f rounds of plain decoding", plain_rounds);
    }
    crowd.numbers.tokens = 0.7;
    run(&crowd, 1);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_PLAIN);
}

// Eight rounds may bring half as much as eight others. Guesses that pay are given up for that in few of many texts.
static void chance_parts_few_texts_from_guesses_that_pay(void **state)
{
    (void)state;
    const numbers_t numbers = {.pass_ms = 11.9,
                               .row_ms = 0.01,
                               .draft_ms = 2.7,
                               .tokens = 1.95,
                               .hiccup_ms = 12,
                               .noise = 0.1,
                               .ahead = 1.3,
                               .nodes = 4,
                               .shared = true,
                               .chance = true};
    double bound = drafted_rate(&numbers, 1) / (1 + numbers.hiccup_ms / 100);
    int low = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        crowd_t crowd = crowd_of(numbers, 1);
        crowd.random = seed;
        low += run(&crowd, 5) < 0.85 * bound;
    }
    if (low > 8) {
        fail_msg("%d of 400 below 0.85 of the speed with guesses", low);
    }
}

// Guesses lose to plain decoding until it is taken.
static void leave_guesses(crowd_t *crowd)
{
    crowd->numbers.tokens = 1.2;
    for (uint32_t i = 0; i < 40 && (i == 0 || crowd->worth.rows[0].way != OR_WAY_PLAIN); i++) {
        run(crowd, 0.05);
    }
    assert_int_equal(crowd->worth.rows[0].way, OR_WAY_PLAIN);
}

// The first trees do not have the best size yet, and lose to plain decoding. Later ones are not kept waiting for that, once.
static void guesses_left_after_few_rounds_are_tried_again_soon(void **state)
{
    (void)state;
    const numbers_t numbers = {.pass_ms = 16, .draft_ms = 16, .ahead = 1.3, .shared = true};
    crowd_t crowd = crowd_of(numbers, 1);
    leave_guesses(&crowd);
    crowd.numbers.tokens = 3.5;
    run(&crowd, 1);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_DRAFTED);
    leave_guesses(&crowd);
    crowd.numbers.tokens = 3.5;
    run(&crowd, 1);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_PLAIN);
}

// A tree takes as long as twenty plain rounds and brings nothing. That it was left after few rounds does not make it cheap.
static void a_hopeless_drafter_of_a_text_alone_is_not_tried_soon(void **state)
{
    (void)state;
    const numbers_t numbers = {
        .pass_ms = 8, .draft_ms = 150, .tokens = 1, .ahead = 1.3, .shared = true};
    crowd_t crowd = crowd_of(numbers, 1);
    run(&crowd, 2);
    if (crowd.drafted_rounds > 4) {
        fail_msg("%.0f rounds with guesses", crowd.drafted_rounds);
    }
}

// Where a round with guesses takes four times as long as a plain one, a try that is in doubt ends before its time is over.
static void doubt_does_not_outlast_a_try(void **state)
{
    (void)state;
    const numbers_t numbers = {
        .pass_ms = 50, .draft_ms = 150, .tokens = 4.6, .ahead = 1.3, .shared = true};
    crowd_t crowd = crowd_of(numbers, 1);
    crowd.worth.rows[0].known = true; // as a text alone is after two that went plainly
    crowd.worth.rows[0].way = OR_WAY_PLAIN;
    run(&crowd, 60);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_DRAFTED);
}

static void a_link_a_bad_and_a_stalled_drafter_cost_little(void **state)
{
    (void)state;
    static const double trips[] = {0, 50, 200};
    static const uint32_t counts[] = {2, 4, 16};
    for (size_t i = 0; i < 9; i++) {
        for (int kind = 0; kind < 3; kind++) {
            numbers_t numbers = {.pass_ms = 40, .row_ms = 0.2, .draft_ms = 1, .ahead = 1};
            numbers.trip_ms = trips[i % 3];
            numbers.tokens = kind == 1 ? 1.05 : 3.6;
            numbers.stalled_ms = kind == 2 ? 1000 : 0;
            crowd_t crowd = crowd_of(numbers, counts[i / 3]);
            run(&crowd, 10); // the first try costs what it costs
            double rate = run(&crowd, 60);
            double best =
                fmax(plain_rate(&numbers, counts[i / 3]), drafted_rate(&numbers, counts[i / 3]));
            if (rate < PLAIN_KEPT * best) {
                fail_msg("trip %g ms, kind %d, %u texts: %.1f of %.1f", trips[i % 3], kind,
                         counts[i / 3], rate, best);
            }
        }
    }
}

static void what_never_pays_costs_a_hundredth(void **state)
{
    (void)state;
    crowd_t crowd = crowd_of(small, 16);
    run(&crowd, 5);
    double before = crowd.drafted_rounds;
    double rate = run(&crowd, 300);
    assert_true(rate > 0.99 * plain_rate(&small, 16));
    assert_true(crowd.drafted_rounds > before); // but it is tried
}

static void what_changes_is_noticed(void **state)
{
    (void)state;
    crowd_t crowd = crowd_of(large, 1);
    run(&crowd, 5);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_DRAFTED);
    crowd.numbers.tokens = 1.1; // the texts get hard
    run(&crowd, 10);
    double rate = run(&crowd, 5);
    assert_true(rate > 0.95 * plain_rate(&large, 1));
    crowd.numbers.tokens = 3.6; // and easy
    run(&crowd, 40);
    rate = run(&crowd, 5);
    assert_true(rate > 0.9 * drafted_rate(&large, 1));
}

// A text that ends while it tries guesses, an hour in which nobody writes, and the next one: the hour was no cost of the try.
static void time_without_texts_does_not_count(void **state)
{
    (void)state;
    crowd_t crowd = crowd_of(large, 1);
    crowd.numbers.tokens = 1.1;
    run(&crowd, 10);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_PLAIN);
    while (!crowd.worth.trial.on) {
        step(&crowd);
    }
    crowd.numbers.tokens = 3.6;
    crowd.numbers.idle_ms = 3600000;
    begin_text(&crowd, 0);
    crowd.numbers.idle_ms = 0;
    run(&crowd, 5);
    assert_int_equal(crowd.worth.rows[0].way, OR_WAY_DRAFTED);
}

// A text alone that wants no guesses tells what plain decoding is worth, so that guesses which clearly pay need no try of it.
static void plain_texts_are_listened_to(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    or_worth_place(&worth, 1, true);
    or_worth_round_t round = {
        .session = 1, .texts = 1, .plain = true, .settled = true, .tokens = 1};
    round.epoch = worth.epoch;
    round.time_ns = 20 * MS;
    for (int i = 0; i < 20; i++) {
        or_worth_judged(&worth, &round, now += (int64_t)round.time_ns);
    }
    assert_true(worth.rows[0].told > 0.99 / round.time_ns && !worth.trial.on);
    for (int gains = 1; gains >= 0; gains--) { // 1.5 times as fast, and as fast
        or_worth_t one = worth;
        round.plain = false;
        round.steered = true;
        round.plain_ns = 20 * MS;
        round.tokens = 3;
        round.time_ns = gains ? 40 * MS : 60 * MS;
        for (int i = 0; i < 8; i++) {
            or_worth_judged(&one, &round, now += (int64_t)round.time_ns);
        }
        assert_int_equal(one.trial.on, gains == 0);
    }
}

// What a number of texts has shown is where the next number begins.
static void rows_learn_from_their_neighbours(void **state)
{
    (void)state;
    crowd_t crowd = crowd_of(small, 4);
    run(&crowd, 2);
    crowd.texts = 16;
    for (uint32_t i = 4; i < 16; i++) {
        begin_text(&crowd, i);
    }
    double drafted = crowd.drafted_rounds;
    run(&crowd, 2);
    assert_true(crowd.drafted_rounds == drafted);
    run(&crowd, 5);
    assert_true(crowd.drafted_rounds > drafted);
}

// That guesses pay for a few texts says nothing of more, on the target's CPUs: those begin plainly, whatever fewer gained.
static void more_texts_begin_plainly(void **state)
{
    (void)state;
    numbers_t numbers = large;
    numbers.nodes = 1;
    numbers.draft_ms = 1;
    numbers.tokens = 1.7;
    crowd_t crowd = crowd_of(numbers, 4);
    run(&crowd, 3);
    assert_int_equal(crowd.worth.rows[2].way, OR_WAY_DRAFTED);
    for (uint32_t texts = 2; texts <= 64; texts = texts == 2 ? 8 : 2 * texts) {
        or_way_t way = or_worth_way(&crowd.worth, 1000, texts, (int64_t)crowd.now_ns);
        assert_int_equal(way, texts == 2 ? OR_WAY_DRAFTED : OR_WAY_PLAIN);
    }
}

// A drafter that comes or goes changes what may be chosen.
static void without_drafters_nothing_is_tried(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    or_worth_place(&worth, 0, false);
    for (int i = 0; i < 1000; i++) {
        const or_worth_round_t round = {.session = 1,
                                        .epoch = worth.epoch,
                                        .texts = 4,
                                        .steered = true,
                                        .settled = true,
                                        .tokens = 1,
                                        .time_ns = 1e7};
        or_worth_judged(&worth, &round, (int64_t)(1e9 + i * 1e7));
    }
    assert_false(worth.trial.on);
    uint64_t epoch = worth.epoch;
    or_worth_place(&worth, 1, true);
    assert_true(worth.epoch > epoch);
    assert_int_equal(or_worth_way(&worth, 1, 1, OR_NS_PER_S), OR_WAY_DRAFTED);
    assert_int_equal(or_worth_way(&worth, 1, 8, OR_NS_PER_S), OR_WAY_PLAIN);
    or_worth_place(&worth, 1, false);
    assert_int_equal(or_worth_way(&worth, 1, 8, OR_NS_PER_S), OR_WAY_AHEAD);
}

// ---- crowds, with drafters elsewhere ----

#define CROWD_PASS_NS (40 * OR_NS_PER_MS)

// Let 64 texts go plainly, a pass of theirs takes 40 ms, until all of them might try guesses; a round of those that do takes
// `passes` of the others and brings 2 tokens. Return the most texts that tried, in 4 s.
static uint32_t most_that_try(uint32_t passes)
{
    or_worth_t worth = {0};
    int64_t now = OR_NS_PER_S;
    uint32_t most = 0, begun[TEXTS_MAX] = {0};
    or_way_t before[TEXTS_MAX] = {0};
    uint64_t epochs[TEXTS_MAX] = {0};
    or_worth_place(&worth, 1, false);
    (void)or_worth_way(&worth, 1, 64, now);
    or_worth_row_t *row = &worth.rows[or_worth_row(64)];
    row->way = OR_WAY_PLAIN;
    row->ways[OR_WAY_AHEAD].try_ns = now + OR_NS_PER_S / 2;
    for (uint32_t pass = 1; pass <= 100; pass++, now += CROWD_PASS_NS) {
        for (uint32_t i = 0; i < TEXTS_MAX; i++) {
            uint32_t took = pass - begun[i];
            if (before[i] != OR_WAY_PLAIN && took < passes) {
                continue; // its guesses are on their way
            }
            const or_worth_round_t round = {.session = i + 1,
                                            .epoch = epochs[i],
                                            .texts = 64,
                                            .steered = true,
                                            .settled = true,
                                            .may_ahead = true,
                                            .tokens = before[i] != OR_WAY_PLAIN ? 2 : 1,
                                            .time_ns = (double)(took * CROWD_PASS_NS)};
            or_worth_judged(&worth, &round, now);
            before[i] = or_worth_way(&worth, i + 1, 64, now);
            epochs[i] = worth.epoch;
            begun[i] = pass;
        }
        uint32_t now_try = 0;
        for (uint32_t i = 0; i < TEXTS_MAX; i++) {
            now_try += before[i] != OR_WAY_PLAIN;
        }
        most = now_try > most ? now_try : most;
    }
    return most;
}

// Others' passes are over before a distant drafter has answered once, and do not show what its guesses cost.
static void those_of_a_crowd_that_try_must_show_it(void **state)
{
    (void)state;
    assert_int_equal(most_that_try(6), 1);
    assert_int_equal(most_that_try(2), TEXTS_MAX);
}

// While all texts of a crowd end and others begin there are a few for a moment.
static void a_crowd_goes_as_other_crowds_do(void **state)
{
    (void)state;
    or_worth_t worth = {0};
    or_worth_place(&worth, 1, false);
    for (uint32_t texts = 1; texts <= 64; texts++) { // so they began
        assert_int_equal(or_worth_way(&worth, texts, texts, OR_NS_PER_S), OR_WAY_AHEAD);
    }
    or_worth_row_t *row = &worth.rows[or_worth_row(64)];
    row->way = OR_WAY_PLAIN;
    row->ways[OR_WAY_PLAIN].speed = 1e-9;
    assert_int_equal(or_worth_way(&worth, 1, 32, OR_NS_PER_S), OR_WAY_PLAIN);
    assert_int_equal(or_worth_way(&worth, 1, 16, OR_NS_PER_S), OR_WAY_AHEAD);
    for (uint64_t i = 0; i < 32 * 8; i++) { // what is measured now is that way
        const or_worth_round_t round = {.session = 1 + i % 32,
                                        .epoch = worth.epoch,
                                        .texts = 32,
                                        .settled = true,
                                        .tokens = 1,
                                        .time_ns = CROWD_PASS_NS};
        or_worth_judged(&worth, &round, OR_NS_PER_S + (int64_t)(i / 32) * CROWD_PASS_NS);
    }
    const or_worth_row_t *fewer = &worth.rows[or_worth_row(32)];
    assert_true(fewer->ways[OR_WAY_PLAIN].speed > 0 && fewer->ways[OR_WAY_AHEAD].speed == 0);
    row->way = OR_WAY_AHEAD;
    row->ways[OR_WAY_AHEAD].speed = 2e-9;
    assert_int_equal(or_worth_way(&worth, 1, 32, 2 * OR_NS_PER_S), OR_WAY_PLAIN); // its own
    assert_true(or_worth_row(OR_POLICY_CROWD - 1) < or_worth_row(OR_POLICY_CROWD));
}

static void the_choice_is_explained(void **state)
{
    (void)state;
    char text[160];
    crowd_t crowd = crowd_of(small, 16);
    or_worth_explain(&crowd.worth, 16, text, sizeof text);
    assert_string_equal(text, "unknown: nothing was measured yet with 16 texts at a time");
    run(&crowd, 5);
    or_worth_explain(&crowd.worth, 16, text, sizeof text);
    assert_non_null(strstr(text, "plain decoding: "));
    or_worth_place(&crowd.worth, 0, false); // texts may still look guesses up
    or_worth_explain(&crowd.worth, 16, text, sizeof text);
    assert_string_equal(text, "look-up or plain decoding: no drafter is here");
    or_worth_place(&crowd.worth, 1, false);
    (void)or_worth_way(&crowd.worth, 1, 16, OR_NS_PER_S);
    or_worth_explain(&crowd.worth, 16, text, sizeof text);
    assert_string_equal(text,
                        "guesses made ahead, for texts that gain: nothing else was measured yet");
    (void)or_worth_way(&crowd.worth, 1, 64, OR_NS_PER_S);
    or_worth_explain(&crowd.worth, 64, text, sizeof text); // each waits for its own
    assert_string_equal(text, "guesses: nothing else was measured yet");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_number_of_texts_is_slower_than_plain),
        cmocka_unit_test(the_first_seconds_are_as_fast_as_plain),
        cmocka_unit_test(rounds_beside_prompts_do_not_count),
        cmocka_unit_test(rounds_beside_endless_prompts_count),
        cmocka_unit_test(a_long_pass_is_not_all_the_time),
        cmocka_unit_test(a_text_that_goes_its_own_way_is_no_measure),
        cmocka_unit_test(the_time_of_a_text_that_goes_its_own_way_is_nobodys),
        cmocka_unit_test(what_stands_still_again_and_again_counts),
        cmocka_unit_test(a_moment_in_a_try_is_not_its_cost),
        cmocka_unit_test(a_moment_in_a_window_decides_nothing),
        cmocka_unit_test(a_round_that_reads_is_no_measure),
        cmocka_unit_test(short_answers_are_measured),
        cmocka_unit_test(short_answers_are_as_fast_as_plain),
        cmocka_unit_test(one_that_tries_must_pay_for_itself),
        cmocka_unit_test(a_burst_of_prompts_fails_no_try),
        cmocka_unit_test(a_burst_of_prompts_is_no_part_of_a_window),
        cmocka_unit_test(a_pass_with_prompts_ends_no_try),
        cmocka_unit_test(a_crowd_begins_plainly),
        cmocka_unit_test(weather_does_not_mislead_it),
        cmocka_unit_test(a_moment_costs_no_text_alone_its_first_seconds),
        cmocka_unit_test(slow_first_rounds_hide_plain_decoding_for_a_second_only),
        cmocka_unit_test(hopeless_plain_decoding_is_left_alone_until_guesses_fall_behind),
        cmocka_unit_test(chance_parts_few_texts_from_guesses_that_pay),
        cmocka_unit_test(guesses_left_after_few_rounds_are_tried_again_soon),
        cmocka_unit_test(a_hopeless_drafter_of_a_text_alone_is_not_tried_soon),
        cmocka_unit_test(doubt_does_not_outlast_a_try),
        cmocka_unit_test(a_link_a_bad_and_a_stalled_drafter_cost_little),
        cmocka_unit_test(what_never_pays_costs_a_hundredth),
        cmocka_unit_test(what_changes_is_noticed),
        cmocka_unit_test(time_without_texts_does_not_count),
        cmocka_unit_test(plain_texts_are_listened_to),
        cmocka_unit_test(rows_learn_from_their_neighbours),
        cmocka_unit_test(more_texts_begin_plainly),
        cmocka_unit_test(without_drafters_nothing_is_tried),
        cmocka_unit_test(those_of_a_crowd_that_try_must_show_it),
        cmocka_unit_test(a_crowd_goes_as_other_crowds_do),
        cmocka_unit_test(the_choice_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
