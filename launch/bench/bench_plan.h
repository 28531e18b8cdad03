// bench_plan - which cases a benchmark compares.
//
// A case is plain decoding, or a drafting method with an acceptance rule and a tree, at one
// temperature. Cases stand by temperature; each temperature begins with plain decoding, which the
// others are compared with. Within one they stand by group: a node budget, or a depth.
#pragma once

#include "common/decode/methods.h"
#include "common/decode/shape.h"
#include "launch/generate/input.h"

typedef struct {
    or_draft_method_t method; // OR_DRAFT_NONE: plain decoding
    or_accept_rule_t rule;
    float temperature;
    uint32_t nodes, depth; // at most
    or_shape_t shape;      // count 0: the method's own
    uint32_t group;        // the budget, or with --fixed-length the depth; 0 for plain decoding
    uint32_t distribution_entries;  // of rules that need distributions
    uint32_t baseline;              // the case that is plain decoding at this temperature
    char name[OR_INPUT_WORD_BYTES]; // "rsd-s+recursive", "dyspec*+coupled" (calibrated), "plain"
    char tree[128];                 // "16", "4x2x1"; "-" for plain decoding
    bool legal;                     // the pair, at this temperature
    char reason[512];               // why it was not measured, or not to the end; "" if it was
} or_bench_case_t;

typedef struct {
    or_bench_case_t *cases; // owned
    uint32_t count;
    const char *group_name; // "budget", "depth"
} or_bench_plan_t;

typedef enum {
    OR_BENCH_BY_NODES,     // each pair with each node budget
    OR_BENCH_FIXED_LENGTH, // RSD's first experiment: trees of equal depth
    OR_BENCH_FIXED_BUDGET, // RSD's second: trees of equal size
    OR_BENCH_K_CONFIG,     // multi-candidate configurations
} or_bench_kind_t;

typedef struct {
    or_bench_kind_t kind;
    const char *methods; // "rsd-s+recursive,chain" or "all"; NULL: the kind's own choice
    const char *nodes;   // budgets of OR_BENCH_BY_NODES: "4,16"
    uint32_t depth;      // of OR_BENCH_BY_NODES
    const char *distribution_entries; // of rules that need distributions: "8,16"
    const char *temperatures;         // "0,1"
    bool multi;                       // there are further draft models: "all" has the method multi
    bool calibrated;                  // dyspec and dyspec-t grow by measured acceptance
    bool allow_lossy; // rules that are no samples of the target's distribution may be named
    or_vocab_method_t vocab_method;
} or_bench_plan_choice_t;

// Make the plan that was asked for. OR_ERR_INVALID names the option and what is allowed. On success the caller frees it with
// or_bench_plan_fini.
or_status_t or_bench_plan_make(const or_bench_plan_choice_t *choice, or_bench_plan_t *plan);
void or_bench_plan_fini(or_bench_plan_t *plan);
