#include "coordinator/budget/worth.h"

#include <stdio.h>

void or_worth_explain(const or_worth_t *worth, uint32_t texts, char *text, size_t capacity)
{
    static const char *const names[OR_WAYS] = {"plain decoding", "guesses", "guesses made ahead"};
    const or_worth_row_t *row = &worth->rows[or_worth_row(texts)];
    double best = row->ways[row->way].speed * 1e9 * texts;
    const char *other = NULL;
    double rate = 0;
    for (int way = 0; way < OR_WAYS; way++) {
        double speed = row->ways[way].speed * 1e9 * texts;
        if (way != (int)row->way && speed > rate) {
            rate = speed;
            other = names[way];
        }
    }
    // Drafters on CPUs of their own harm no other text, so each text's own figures may say that they do not pay (policy.h).
    // In a crowd each text waits for its guesses.
    bool crowd = or_worth_is_crowd(worth, texts);
    or_way_t shown = crowd && row->way == OR_WAY_AHEAD ? OR_WAY_DRAFTED : row->way;
    bool apart = row->way != OR_WAY_PLAIN && !worth->shared && !crowd;
    const char *whose = apart ? ", for texts that gain" : "";
    if (worth->drafters == 0) {
        snprintf(text, capacity, "look-up or plain decoding: no drafter is here");
    } else if (!row->known) {
        snprintf(text, capacity, "unknown: nothing was measured yet with %u texts at a time",
                 texts);
    } else if (other == NULL || best <= 0) {
        snprintf(text, capacity, "%s%s: nothing else was measured yet", names[shown], whose);
    } else {
        snprintf(text, capacity, "%s%s: %.0f tokens/s with %u texts at a time, %s %.0f",
                 names[shown], whose, best, texts, other, rate);
    }
}
