// linger - how long a pass that could begin waits for texts that are about to come back.
//
//     verdicts of a, b, c, d          a comes   b, c, d come
//     ────────┤                          │      │  │  │
//             ├── a pass of a alone ─────┴──────┴──┴──┴───▶  b, c, d wait for all of it, and then a for theirs
//             ├── lingers ──────────────────────────┤ a pass of all
//
// A pass reads all weights, however few rows it has. Texts that have once come apart would stay apart, in two passes by turns.
// So a verdict's text is expected back after the time that it usually takes, and the pass waits for it where this
// writes more of all texts. What a pass takes is measured by its rows. Of texts in the order of their ways w:
//
//     the first k in every pass    (k + (n - k) / 2) / (w_k + t(their rows, half of others'))    others come to every second one
//     two halves by turns           n / max(2 t(rows / 2), mean of w + t(rows / 2))
//
// Whoever takes longer than a pass is not waited for, nor who has not come when it should have. A text that was found after a
// pass may have come at any time of it. Nor does that time count for those who come later: a drafter on the same CPUs does little
// meanwhile. So a way lies within two bounds, the time without a pass and all of it, and is learned anew where it breaks one.
//
// No bit of a text depends on this. Pure: no clock, no peers. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OR_LINGER_SIZES 14u // of passes: 1, 2, up to 4, up to 8 ... rows

// The way of one text from its verdict to its next round.
typedef struct {
    int64_t left_ns;           // when the pass with its verdict was over; 0: it is not away
    int64_t busy_ns;           // or_linger_t's then
    double mean_ns, spread_ns; // moving averages of the time that it takes; 0: not known
} or_linger_way_t;

typedef struct {
    struct {
        double rows, took_ns; // moving averages
        uint32_t age;         // smaller passes since the last one
        bool known;
    } sizes[OR_LINGER_SIZES];
    or_linger_way_t usual; // of all texts: what is expected of a new one
    int64_t busy_ns;       // time in passes, in all
} or_linger_t;

void or_linger_init(or_linger_t *linger);

// A pass took so long, until its verdicts were sent. `rows`: of trees; 0: it read prompts, and says nothing of others.
void or_linger_passed(or_linger_t *linger, uint32_t rows, int64_t took_ns);
// A text's verdict has gone out; called once more when its pass is over.
void or_linger_left(const or_linger_t *linger, or_linger_way_t *way, int64_t now_ns);
// Its next round was found.
void or_linger_came(or_linger_t *linger, or_linger_way_t *way, int64_t now_ns);

typedef struct {
    or_linger_way_t way;
    uint32_t rows; // that it brings, or brought last
} or_linger_text_t;
// Return until when a pass of at most rows_max rows is to wait; 0: it is to begin. `texts` are those with work and those that
// are away; they are put into another order.
int64_t or_linger_until(const or_linger_t *linger, or_linger_text_t *texts, uint32_t count,
                        uint32_t rows_max, int64_t now_ns);
