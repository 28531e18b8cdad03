// report - what a finished generation looks like to its user: the summary, the time split, the JSON
// line.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/wire/message.h"

// A completion as it grows.
typedef struct {
    char *text; // malloc'd
    size_t text_bytes, text_capacity;
    uint32_t *tokens; // malloc'd
    size_t token_count, token_capacity;
    uint32_t finish; // or_finish_t
    uint64_t seed;
    char arith_id[64];
    bool lossy;       // the rule does not sample the target's distribution
    char note[512];   // what the user should know; may be empty
    char advice[256]; // how it might be faster; may be empty
    char vocab_map[16],
        vocab_why[256]; // how the drafter's vocabulary met the target's; "": no drafter
    or_generate_stats_t stats;
} or_report_t;

// Add what a delta brings. OR_ERR_NO_MEMORY.
or_status_t or_report_add(or_report_t *report, const or_generate_delta_t *delta);
void or_report_fini(or_report_t *report);

// Are both completions the same, token for token and byte for byte?
bool or_report_is_equal(const or_report_t *a, const or_report_t *b);
// Return the tokens that a call of the target brought; 0 before there was one.
double or_report_tokens_per_call(const or_report_t *report);
// Return the speed of decoding alone, without the prompt's; 0 of an empty text.
double or_report_tokens_per_second(const or_report_t *report);

// The note, if there is one, then "64 tokens, 2.9 per target call, 54 % of drafted tokens accepted, 812 tokens/s (seed 7)".
void or_report_print_summary(const or_report_t *report, FILE *out);
// "per round: draft 310 us, verify 905 us, accept 40 us, elsewhere 80 us; ...".
void or_report_print_times(const or_report_t *report, FILE *out);
// Print one line of JSON on standard output; bytes that are no UTF-8 become U+FFFD. OR_ERR_NO_MEMORY.
or_status_t or_report_print_json(const or_report_t *report, const or_generate_request_t *request);
