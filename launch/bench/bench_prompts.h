// bench_prompts - what a benchmark's texts begin with, by category.
//
// A file has one JSON object a line: Spec-Bench's {"question_id", "category", "turns": [..]}, of
// which the first turn is taken (Xia et al. 2024, arXiv 2401.07851), or {"prompt": ".."}, with or
// without a category.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_BENCH_CATEGORY_BYTES 32u
#define OR_BENCH_CATEGORIES_MAX 64u

typedef struct {
    char *text; // owned, zero-terminated
    uint32_t bytes;
    uint32_t category; // index into `categories`
    uint32_t turn;     // how many of its category stand before it
    uint32_t line;     // of the file, from 1; of the built-in list without one
} or_bench_prompt_t;

typedef struct {
    or_bench_prompt_t *items; // owned
    uint32_t count;
    char categories[OR_BENCH_CATEGORIES_MAX][OR_BENCH_CATEGORY_BYTES]; // in order of appearance
    uint32_t category_count;
} or_bench_prompts_t;

typedef struct {
    const char *path;  // NULL: a handful of our own
    const char *only;  // categories to keep, "math,coding"; NULL: all
    uint32_t limit;    // prompts at most, taken from all categories in turn; 0: all
    bool survey_tasks; // count MT-Bench's eight categories as one, as the survey does
} or_bench_prompts_choice_t;

// Read the prompts. OR_ERR_IO; OR_ERR_INVALID names line and reason, an empty file, or a category that is not there. On
// success the caller frees them with or_bench_prompts_fini.
or_status_t or_bench_prompts_read(const or_bench_prompts_choice_t *choice,
                                  or_bench_prompts_t *prompts);
void or_bench_prompts_fini(or_bench_prompts_t *prompts);
