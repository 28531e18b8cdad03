#include "coordinator/budget/reading.h"

#include <math.h>

#include "common/base/clock.h"

#define READING_SHARE 32u // more than one text in so many
#define OUT_NS_MAX (2.0 * (double)OR_NS_PER_S)
#define OUT_PASSES 4u // at least, that are left out

void or_reading_counted(or_reading_t *reading, uint32_t texts, uint32_t unread, int64_t clock_ns)
{
    reading->on = texts > 1 && unread * READING_SHARE > texts;
    reading->last_ns = reading->on ? clock_ns : reading->last_ns;
}

bool or_reading_leaves_out(const or_reading_t *reading)
{
    return reading->out_ns < OUT_NS_MAX;
}

// The time of rounds that are left out is added up until such rounds count, and others take theirs off again: between two
// prompts there may always be a short rest.
bool or_reading_judged(or_reading_t *reading, uint32_t texts, double round_ns, int64_t clock_ns,
                       int64_t now_ns, int64_t *time_ns)
{
    double since_ns = fmax(fmin((double)(now_ns - reading->judged_ns), round_ns), 0);
    double weighed_ns = fmin(since_ns, OUT_NS_MAX / OUT_PASSES);
    bool disturbed =
        reading->last_ns != 0 && texts > 1 && (double)(clock_ns - reading->last_ns) <= round_ns;
    bool out = disturbed && or_reading_leaves_out(reading);
    reading->judged_ns = now_ns;
    reading->out_ns += disturbed ? weighed_ns : -weighed_ns;
    reading->out_ns = fmax(fmin(reading->out_ns, OUT_NS_MAX), 0);
    *time_ns = (int64_t)since_ns;
    return out;
}

int64_t or_reading_end(const or_reading_t *reading, int64_t now_ns)
{
    if (!reading->on || !or_reading_leaves_out(reading)) {
        return now_ns;
    }
    int64_t least_ns = now_ns - (int64_t)OUT_NS_MAX;
    return reading->judged_ns > least_ns ? reading->judged_ns : least_ns;
}
