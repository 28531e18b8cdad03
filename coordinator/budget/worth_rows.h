// worth_rows - how the best way is known for so many texts at a time (worth.h): what was measured of them, or of the next best
// number. Pure. One thread.
#pragma once

#include "coordinator/budget/worth.h"

// Return a row, which is known from now on. A single text begins with guesses: it is short, and they are what it came for.
// Several on the target's CPUs do not, unless more were faster with them: what paid for fewer says nothing.
or_worth_row_t *or_worth_find_row(or_worth_t *worth, uint32_t at, int64_t now_ns);

// Let a crowd of a size that was never measured go the way of another crowd. While all texts of a crowd end and others begin
// there are fewer for a moment, too short to measure anything.
void or_worth_follow_crowds(const or_worth_t *worth, or_worth_row_t *row, uint32_t texts,
                            int64_t now_ns);
