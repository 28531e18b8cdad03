#include "verifier/pass/linger.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/clock.h"

#define WEIGHT 0.25 // of a new value in a moving average
#define ODD 2.0     // a pass counts for no more than so many times the usual time
// Smaller passes, after which a size is forgotten: a bad moment would forbid it for ever.
#define AGE_MAX 400u

#define SPREADS 2.0     // a text is expected no later than so many spreads after the usual time,
#define SLACK_NS 50e3   // and this
#define LATE_SHARE 0.03 // of texts come later, and the pass has waited in vain,
#define WAKE_NS 1e6     // up to this longer: sleepers wake at whole milliseconds
#define USUAL_NS 0.5e6  // before any text was seen to come back
#define IN_VAIN 2.0     // times what it was waited for in vain is how long a way is thought to take
#define ODD_WAY 2.0     // a time counts for no more than about so many times the usual one
#define FORGETS 0.99    // part of a way that is kept when nothing is seen of it
#define AWAY_NS OR_NS_PER_S // after this a text is not on its way back, it has rested

#define BETTER 1.05 // texts wait for each other where this writes so much more

void or_linger_init(or_linger_t *linger)
{
    *linger = (or_linger_t){.usual = {.mean_ns = USUAL_NS, .spread_ns = USUAL_NS / 2}};
}

// ---- what passes take ----

static uint32_t size_of(double rows)
{
    double size = rows > 1 ? ceil(log2(rows)) : 0;
    return size < OR_LINGER_SIZES ? (uint32_t)size : OR_LINGER_SIZES - 1;
}

void or_linger_passed(or_linger_t *linger, uint32_t rows, int64_t took_ns)
{
    linger->busy_ns += took_ns;
    if (rows == 0) {
        return;
    }
    uint32_t at = size_of(rows);
    for (uint32_t i = at + 1; i < OR_LINGER_SIZES; i++) {
        linger->sizes[i].known = ++linger->sizes[i].age <= AGE_MAX && linger->sizes[i].known;
    }
    double took = (double)(took_ns > 0 ? took_ns : 0);
    bool first = !linger->sizes[at].known;
    took = first ? took : fmin(took, ODD * linger->sizes[at].took_ns);
    double weight = first ? 1 : WEIGHT;
    linger->sizes[at].took_ns += weight * (took - linger->sizes[at].took_ns);
    linger->sizes[at].rows += weight * (rows - linger->sizes[at].rows);
    linger->sizes[at].age = 0;
    linger->sizes[at].known = true;
    // A smaller pass takes no longer: if it did, that was another time.
    for (uint32_t i = 0; i < at; i++) {
        linger->sizes[i].took_ns = fmin(linger->sizes[i].took_ns, linger->sizes[at].took_ns);
    }
}

// On straight lines from nothing over the sizes that were measured. More rows are thought to take no longer, so that they are
// tried.
static double pass_ns(const or_linger_t *linger, double rows)
{
    double low_rows = 0, low_ns = 0;
    for (uint32_t i = 0; i < OR_LINGER_SIZES; i++) {
        double size_rows = linger->sizes[i].rows, size_ns = linger->sizes[i].took_ns;
        if (!linger->sizes[i].known) {
            continue;
        }
        if (rows <= size_rows) {
            return low_ns + (rows - low_rows) / (size_rows - low_rows) * (size_ns - low_ns);
        }
        low_rows = size_rows;
        low_ns = size_ns;
    }
    return low_ns;
}

// ---- what ways take ----

// The time lies between two bounds. If they say nothing new, it may still have become shorter: then it is soon waited for again. If
// it was waited for in vain, up to the lower bound, it may be far above that; but one long time alone is no way.
static void learn(or_linger_way_t *way, double low_ns, double high_ns)
{
    if (low_ns < high_ns && low_ns <= way->mean_ns && way->mean_ns <= high_ns) {
        way->mean_ns = fmax(FORGETS * way->mean_ns, low_ns);
        return;
    }
    double least_ns = way->mean_ns < low_ns ? IN_VAIN * low_ns : low_ns;
    double most_ns = ODD_WAY * way->mean_ns + SPREADS * way->spread_ns;
    double took = fmin(fmin(fmax(way->mean_ns, least_ns), high_ns), most_ns);
    way->spread_ns += WEIGHT * (fabs(took - way->mean_ns) - way->spread_ns);
    way->mean_ns += WEIGHT * (took - way->mean_ns);
}

void or_linger_left(const or_linger_t *linger, or_linger_way_t *way, int64_t now_ns)
{
    way->left_ns = now_ns;
    way->busy_ns = linger->busy_ns;
}

void or_linger_came(or_linger_t *linger, or_linger_way_t *way, int64_t now_ns)
{
    int64_t left_ns = way->left_ns;
    way->left_ns = 0;
    if (left_ns == 0 || now_ns < left_ns || now_ns - left_ns > AWAY_NS) {
        return;
    }
    if (way->mean_ns == 0) {
        way->mean_ns = linger->usual.mean_ns;
        way->spread_ns = linger->usual.spread_ns;
    }
    double high = (double)(now_ns - left_ns);
    double low = fmax(high - (double)(linger->busy_ns - way->busy_ns), 0);
    learn(way, low, high);
    learn(&linger->usual, low, high);
}

// The time after its verdict at which a text should be back.
static double back_ns(const or_linger_t *linger, const or_linger_way_t *way)
{
    const or_linger_way_t *known = way->mean_ns > 0 ? way : &linger->usual;
    return known->mean_ns + SPREADS * known->spread_ns + SLACK_NS;
}

// ---- the choice ----

static int by_way(const void *a, const void *b)
{
    double x = ((const or_linger_text_t *)a)->way.mean_ns;
    double y = ((const or_linger_text_t *)b)->way.mean_ns;
    return (x > y) - (x < y);
}

static bool is_away(const or_linger_text_t *text)
{
    return text->way.left_ns != 0;
}

// Keep the texts that are here, or are on their way and not late. Each way's mean_ns becomes the time that it may take. Return
// their number.
static uint32_t keep_expected(const or_linger_t *linger, or_linger_text_t *texts, uint32_t count,
                              int64_t now_ns)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        or_linger_text_t text = texts[i];
        text.way.mean_ns = back_ns(linger, &text.way);
        if (!is_away(&text) || (double)(now_ns - text.way.left_ns) < text.way.mean_ns) {
            texts[kept++] = text;
        }
    }
    return kept;
}

// Keep those of them that take less time than a pass of all. Return their number.
static uint32_t keep_quick(const or_linger_t *linger, or_linger_text_t *texts, uint32_t count,
                           uint32_t rows_max)
{
    double rows = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        rows += texts[i].rows;
    }
    double most_ns = pass_ns(linger, fmin(rows, rows_max));
    for (uint32_t i = 0; i < count; i++) {
        if (texts[i].way.mean_ns < most_ns) {
            texts[kept++] = texts[i];
        }
    }
    return kept;
}

// Has the pass room for one that is away, besides those that are here?
static bool has_room(const or_linger_text_t *texts, uint32_t count, uint32_t rows_max)
{
    uint64_t here = 0;
    uint32_t least = UINT32_MAX; // rows of one that is away
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rows = texts[i].rows;
        here += is_away(&texts[i]) ? 0 : rows;
        least = is_away(&texts[i]) && rows < least ? rows : least;
    }
    return least != UINT32_MAX && here + least <= rows_max;
}

// Return how many of the texts, from the first on, are to be together in every pass; 0: none waits for another.
static uint32_t together(const or_linger_t *linger, const or_linger_text_t *texts, uint32_t count,
                         uint32_t rows_max)
{
    double all = 0, ways_ns = 0, rows = 0, best_rate = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += texts[i].rows;
        ways_ns += texts[i].way.mean_ns;
    }
    for (uint32_t k = 1; k <= count && rows + texts[k - 1].rows <= rows_max; k++) {
        rows += texts[k - 1].rows;
        double of_pass = fmin(rows + 0.5 * (all - rows), rows_max);
        double late_ns = LATE_SHARE * k * WAKE_NS;
        double round_ns = texts[k - 1].way.mean_ns + late_ns + pass_ns(linger, of_pass);
        double rate = (k + 0.5 * (count - k)) / round_ns;
        if (rate >= best_rate) {
            best_rate = rate;
            best = k;
        }
    }
    double half_ns = pass_ns(linger, fmin(all / 2, rows_max));
    double apart_ns = fmax(2 * half_ns, ways_ns / count + half_ns);
    return best_rate > BETTER * count / apart_ns ? best : 0;
}

int64_t or_linger_until(const or_linger_t *linger, or_linger_text_t *texts, uint32_t count,
                        uint32_t rows_max, int64_t now_ns)
{
    int64_t until_ns = 0;
    uint32_t expected = keep_expected(linger, texts, count, now_ns);
    uint32_t quick = keep_quick(linger, texts, expected, rows_max);
    if (quick < 2 || !has_room(texts, quick, rows_max)) {
        return 0;
    }
    qsort(texts, quick, sizeof *texts, by_way);
    uint32_t chosen = together(linger, texts, quick, rows_max);
    for (uint32_t i = 0; i < chosen; i++) {
        const or_linger_way_t *way = &texts[i].way;
        int64_t back = way->left_ns + (int64_t)way->mean_ns;
        until_ns = way->left_ns != 0 && back > until_ns ? back : until_ns;
    }
    return until_ns > now_ns ? until_ns : 0;
}
