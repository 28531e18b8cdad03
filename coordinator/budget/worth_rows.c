#include "coordinator/budget/worth_rows.h"

#include <math.h>
#include <string.h>

#include "common/base/clock.h"

#define INHERITED_PAUSE_NS (3 * OR_NS_PER_S)

void or_worth_place(or_worth_t *worth, uint32_t drafters, bool shared)
{
    if (worth->shared != shared || (worth->drafters == 0) != (drafters == 0)) {
        uint64_t epoch = worth->epoch;
        memset(worth, 0, sizeof *worth);
        worth->epoch = epoch + 1;
    }
    worth->shared = shared;
    worth->drafters = drafters;
}

void or_worth_counted(or_worth_t *worth, uint32_t texts, uint32_t reading, int64_t clock_ns)
{
    worth->live.texts = texts;
    worth->live.at_ns = clock_ns;
    or_reading_counted(&worth->reading, texts, reading, clock_ns);
}

uint32_t or_worth_row(uint32_t texts)
{
    double row = texts > 1 ? round(log2(texts)) : 0;
    return row < OR_WORTH_ROWS ? (uint32_t)row : OR_WORTH_ROWS - 1;
}

static bool was_measured(const or_worth_row_t *row)
{
    return row->ways[row->way].speed > 0;
}

// The next row in which something was measured: fewer texts first.
static const or_worth_row_t *neighbour(const or_worth_t *worth, uint32_t row)
{
    for (uint32_t i = row; i-- > 0;) {
        if (was_measured(&worth->rows[i])) {
            return &worth->rows[i];
        }
    }
    for (uint32_t i = row + 1; i < OR_WORTH_ROWS; i++) {
        if (was_measured(&worth->rows[i])) {
            return &worth->rows[i];
        }
    }
    return NULL;
}

or_way_t or_worth_eager(const or_worth_t *worth)
{
    return worth->shared ? OR_WAY_DRAFTED : OR_WAY_AHEAD;
}

or_worth_row_t *or_worth_find_row(or_worth_t *worth, uint32_t at, int64_t now_ns)
{
    or_worth_row_t *row = &worth->rows[at];
    if (row->known) {
        return row;
    }
    const or_worth_row_t *other = neighbour(worth, at);
    bool crowd = at > 0 && worth->shared;
    bool follows = other != NULL && (!crowd || other->way == OR_WAY_PLAIN || other > row);
    bool later = at > 0 && other != NULL && other->way == OR_WAY_PLAIN;
    row->known = true;
    row->way = follows ? other->way : crowd ? OR_WAY_PLAIN : or_worth_eager(worth);
    for (int way = 0; way < OR_WAYS; way++) {
        row->ways[way].try_ns = later ? now_ns + INHERITED_PAUSE_NS : 0;
    }
    return row;
}

// Go another way, which was not measured here.
static void follow(or_worth_row_t *row, or_way_t way, int64_t try_ns)
{
    row->way = way;
    row->now = (or_worth_sum_t){0};
    for (int other = 0; other < OR_WAYS; other++) {
        row->ways[other].try_ns = try_ns;
    }
}

void or_worth_follow_crowds(const or_worth_t *worth, or_worth_row_t *row, uint32_t texts,
                            int64_t now_ns)
{
    if (was_measured(row) || !or_worth_is_crowd(worth, texts)) {
        return;
    }
    const or_worth_row_t *other = &worth->rows[or_worth_row(OR_POLICY_CROWD)];
    while (!was_measured(other)) {
        if (++other == worth->rows + OR_WORTH_ROWS) {
            return;
        }
    }
    if (other->way != row->way) {
        follow(row, other->way, now_ns + INHERITED_PAUSE_NS);
    }
}
