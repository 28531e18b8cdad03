// bench_output - results as a table, a line of JSON, a CSV file and plots.
//
// What is not known is "-" in the table, null in JSON and empty in CSV.
#pragma once

#include "launch/bench/bench_figures.h"
#include "launch/bench/bench_prompts.h"
#include "launch/bench/bench_run.h"

typedef struct {
    const or_bench_results_t *results; // all borrowed
    const or_bench_prompts_t *prompts;
    const or_bench_config_t *config;
    const or_bench_outcome_t *outcome;
    const char *target, *draft; // files, or "" where a coordinator elsewhere knows them
    double size_ratio;          // draft parameters / target parameters; NAN if not known
} or_bench_output_t;

// Print a table of at most 120 columns (with --spec-bench the survey's comes first) or with --json a line of JSON, and write
// what --csv and --plots ask for. A CSV file has a row a case, and with --spec-bench a row a case and category.
// OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_bench_output(const or_bench_output_t *output);
// Find out whether --csv and --plots can be written, before minutes of measuring. An empty CSV file is made if there is none,
// and the folder of the plots. OR_ERR_IO.
or_status_t or_bench_output_check(const or_bench_config_t *config);
// Write for each temperature block_efficiency_tX.svg, speedup_tX.svg and acceptance_tX.svg in `folder`. OR_ERR_IO.
or_status_t or_bench_write_plots(const or_bench_output_t *output, const char *folder);
