// builder_gpu_test_support - the same trees on the CPU and on a device: two builders over a model each, and jobs for both.
#pragma once

#include "common/model/gpu/gpu.h"
#include "drafter/build/builder_internal.h"
#include "tests/support/test_support.h"

#define SKIPPED 77     // what CTest takes for it
#define NODES 16u      // of most trees
#define NODES_MOST 64u // of any, and rows of a pass
#define PROMPT 6u
#define CPU 0
#define GPU 1

typedef struct {
    or_model_t *model;
    or_builder_t *builder;
    or_kv_sequence_t *sequence;
    or_token_tree_t *tree;
} side_t;

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    side_t sides[2];
    uint64_t rng;
    int32_t history[PROMPT];
    int32_t *map; // [vocabulary]
    or_belief_t belief;
    or_keyed_chooser_t chooser;
} fixture_t;

int fixture_open(void **state);
int fixture_close(void **state);
uint32_t below(fixture_t *f, uint32_t n);

// With noise and a belief at random.
or_build_job_t job_of(fixture_t *f, or_draft_method_t method, or_accept_rule_t rule);
// To the last bit of each guess's weight.
void assert_same_trees(const side_t *a, const side_t *b);
// Build on either; returns how many rows came over whole.
uint64_t check(const fixture_t *f, or_draft_method_t method, const or_build_job_t *job);
