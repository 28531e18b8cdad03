#include "coordinator/peers/standing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"

#define NS_PER_MINUTE ((double)(60 * OR_NS_PER_S))

// The name's place, as good as new if it has none yet.
static or_standing_t *find(or_standings_t *standings, const char *name, int64_t now_ns)
{
    or_standing_t *oldest = &standings->kept[0];
    for (uint32_t i = 0; i < OR_STANDINGS_KEPT; i++) {
        or_standing_t *standing = &standings->kept[i];
        if (strcmp(standing->name, name) == 0) {
            return standing;
        }
        bool older = standing->at_ns < oldest->at_ns;
        if (oldest->name[0] != '\0' && (standing->name[0] == '\0' || older)) {
            oldest = standing;
        }
    }
    *oldest = (or_standing_t){
        .vocabularies = OR_VOCABULARIES_PER_MINUTE, .lines = OR_LINES_PER_MINUTE, .at_ns = now_ns};
    snprintf(oldest->name, sizeof oldest->name, "%s", name);
    return oldest;
}

static void fill(double *bucket, uint32_t per_minute, double minutes)
{
    *bucket = fmin(*bucket + minutes * per_minute, per_minute);
}

// As it is now: buckets have filled, offences are forgotten.
static or_standing_t *obtain(or_standings_t *standings, const char *name, int64_t now_ns)
{
    or_standing_t *standing = find(standings, name, now_ns);
    double minutes = (double)(now_ns - standing->at_ns) / NS_PER_MINUTE;
    fill(&standing->vocabularies, OR_VOCABULARIES_PER_MINUTE, minutes);
    fill(&standing->lines, OR_LINES_PER_MINUTE, minutes);
    standing->points = or_offences_after(standing->points, now_ns - standing->at_ns);
    standing->at_ns = now_ns;
    return standing;
}

bool or_standings_may_bring(or_standings_t *standings, const char *key, int64_t now_ns,
                            uint32_t *retry_ms)
{
    double lacking = key[0] != '\0' ? 1 - obtain(standings, key, now_ns)->vocabularies : 0;
    if (lacking <= 0) {
        return true;
    }
    // A millisecond more than it takes, so that rounding does not bring the caller back too early.
    double minutes = lacking / OR_VOCABULARIES_PER_MINUTE;
    *retry_ms = 1 + (uint32_t)(minutes * NS_PER_MINUTE / OR_NS_PER_MS);
    return false;
}

void or_standings_brought(or_standings_t *standings, const char *key, int64_t now_ns)
{
    if (key[0] != '\0') {
        obtain(standings, key, now_ns)->vocabularies -= 1;
    }
}

bool or_standings_may_log(or_standings_t *standings, const char *key, int64_t now_ns)
{
    if (key[0] == '\0') {
        return true;
    }
    or_standing_t *standing = obtain(standings, key, now_ns);
    bool may = standing->lines >= 1;
    standing->lines -= may ? 1 : 0;
    return may;
}

double or_standings_offend(or_standings_t *standings, const char *name, or_offence_t offence,
                           int64_t now_ns)
{
    or_standing_t *standing = obtain(standings, name, now_ns);
    standing->points += or_offence_points(offence);
    return standing->points;
}
