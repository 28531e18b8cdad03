// worth - which way all texts together are written fastest: plainly, with a drafter's guesses, or with guesses that are
// made ahead (docs/algorithms.md section 6).
//
//     texts at a time     begin        tried now and then       with a drafter on the target's CPUs;
//     1                   drafted      plain, ahead             a row for each power of two, kept from
//     2, 3 .. 5           plainly      drafted                  text to text
//     6 .. 11 and so on   plainly      drafted, by one text first, and not before 1 s
//
// A guess adds a row to a pass that others share, and a drafter on the target's CPUs takes its time from every text. No
// text's own figures show that. So ways are compared by what texts write in the time that they are at work.
//
// With drafters elsewhere each text of a crowd waits for its guesses, as all do (OR_POLICY_CROWD).
//
// A try is as short as it can be. Of six texts or more one begins, of three with drafters elsewhere; then 4, 16 and all
// follow, as long as that harms nobody. On the target's CPUs it must even be faster. A hopeless try ends as soon as that
// shows. What one has lost delays the next until it is a hundredth of the time between them, and every failure in a row
// doubles the pause.
// Guesses that a text alone left after few rounds wait for a tenth of that, once: their first trees lack the best size.
//
// What a round with guesses brings varies, so a text alone leaves or takes them for a small difference only after many.
// Rounds beside many texts' prompts count for nothing (reading.h), nor is their time that of a try.
// Nor does a window of the present way count that is far slower than those before, one in four: the machine may stand still.
//
// All times are of a clock that stands still while no text is at work: what somebody reads or types in between costs nothing.
//
// Rounds that began before the last change count for nothing. Nothing here depends on a guess's token. Pure: no clock, no
// peers; one for a coordinator. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/budget/policy.h"
#include "coordinator/budget/reading.h"

#define OR_WORTH_ROWS 13u // up to 4,096 texts at a time
#define OR_WORTH_FEW 16u  // texts that try something before all do

// Rounds of all texts, and what they brought.
typedef struct {
    double tokens;
    double time_ns; // of each text, added up
    uint32_t rounds;
    int64_t since_ns; // when the first one was judged
} or_worth_sum_t;

typedef struct {
    bool known;   // texts were here
    or_way_t way; // the best as far as is known
    struct {
        double speed;    // of one text, in tokens a nanosecond, when it was last measured; 0: never
        int64_t try_ns;  // it is not tried before
        uint32_t failed; // tries in a row
    } ways[OR_WAYS];
    or_worth_sum_t now; // of `way`, since the last change
    double told;        // the speed of texts that wanted no guesses; 0: there was none
    or_worth_sum_t of_told;
    double window_ns;    // how long the last measurement of `way` took
    uint32_t evidence;   // rounds that its speed comes from
    uint32_t to_count;   // windows of `way`, before one may be left out again
    bool was_put_off;    // plain decoding, since `way` was taken
    bool was_left_early; // guesses were, once: after few rounds of a text alone
} or_worth_row_t;

typedef struct {
    bool shared;       // a drafter computes on the verifier's CPUs
    uint32_t drafters; // that are here; 0: there is nothing to choose
    uint64_t epoch;    // grows with every change of what a text may be told
    or_worth_row_t rows[OR_WORTH_ROWS];
    struct {
        bool on;
        or_way_t way;
        uint32_t row;
        uint32_t most; // texts that try it
        uint32_t count;
        uint64_t sessions[OR_WORTH_FEW]; // that do, unless all may
        int64_t begun_ns, stage_ns;      // it, and with so many
        double tokens;                   // that all texts wrote since
        or_worth_sum_t sum, own;         // of all texts, and of those that try it
    } trial;
    struct {
        uint32_t texts;
        int64_t at_ns;
    } live;               // as counted last
    or_reading_t reading; // of the prompts of many texts
    struct {
        int64_t all_ns;   // without a text at work, in all
        int64_t since_ns; // 0: some text is
    } idle;
} or_worth_t;

// The row of so many texts.
uint32_t or_worth_row(uint32_t texts);
// Are these a crowd, with drafters elsewhere?
static inline bool or_worth_is_crowd(const or_worth_t *worth, uint32_t texts)
{
    return !worth->shared && texts >= OR_POLICY_CROWD;
}

// The peers have changed: forget what was measured, if that matters.
void or_worth_place(or_worth_t *worth, uint32_t drafters, bool shared);

// Return the most that a drafter may do before anything was measured: on the target's CPUs it does not work ahead.
or_way_t or_worth_eager(const or_worth_t *worth);

// Texts were counted: so many are at work, and the prompts of so many of them are still to be read.
void or_worth_counted(or_worth_t *worth, uint32_t texts, uint32_t reading, int64_t clock_ns);
// The way that the next round of a text is to go, with so many texts at work.
or_way_t or_worth_way(or_worth_t *worth, uint64_t session, uint32_t texts, int64_t clock_ns);
// The text has ended, or is away; so many others are at work.
void or_worth_ended(or_worth_t *worth, uint64_t session, uint32_t texts, int64_t clock_ns);

// A judged round of any text.
typedef struct {
    uint64_t session, epoch; // the epoch in which its way was chosen
    uint32_t texts;          // at work
    bool steered;            // its way was chosen here
    bool plain;              // the request wants no guesses
    bool settled;            // and is that of the text's last round, or it is the first
    bool may_ahead;          // the request lets drafters work ahead
    bool prompt;             // it has read the text's prompt: beside other texts it is no measure
    uint32_t tokens;
    double time_ns;  // from its beginning, without the pass if that has read the prompt
    double plain_ns; // what a plain round takes, as far as the text's policy knows; 0: it does not
} or_worth_round_t;
void or_worth_judged(or_worth_t *worth, const or_worth_round_t *round, int64_t clock_ns);

#define OR_WORTH_TEXT_BYTES 160u
// The choice for so many texts and its reason, as a sentence: "CHOICE: reason"; at most OR_WORTH_TEXT_BYTES with its end.
void or_worth_explain(const or_worth_t *worth, uint32_t texts, char *text, size_t capacity);
