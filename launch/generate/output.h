// output - what commands print: texts as they grow, lines of JSON, and numbers that may be unknown (NAN).
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"

// Write to standard output, at once and whole. Not by stdio, for which a signal in the middle of writing to a terminal is an
// error; what stdio holds back of standard output must be flushed before. OR_ERR_IO.
or_status_t or_output_write(const char *text, size_t bytes);
// Flush what stdio holds back of standard output. OR_ERR_IO.
or_status_t or_output_flush(void);

// Print a line of JSON on standard output and drop the reference to `root`. `digits` of real numbers are kept.
// OR_ERR_NO_MEMORY, also if `root` is NULL.
or_status_t or_output_json(json_t *root, unsigned digits);
#define OR_OUTPUT_DIGITS 9
// A text as JSON can carry it: bytes that are no UTF-8 become U+FFFD. A new reference; NULL without memory.
json_t *or_output_json_text(const char *text, size_t length);
// A number, or null where it is NAN. A new reference.
json_t *or_output_json_number(double value);

// A blank and a number in `width` columns of a table; "-" where it is NAN.
void or_output_cell(FILE *out, int width, int decimals, double value);
// A blank and a share of 1 as a percentage, in 6 columns; "-" where it is NAN.
void or_output_share(FILE *out, double share);
// The middle value, or the mean of both; sorts the values, of which there is at least one.
double or_output_median(double *values, uint32_t count);
