// gpu_growth - the data of draft trees on a device (model_growth.h), and what travels there and back.
//
//     host       asked ─▶                                                                        ─▶ grown
//     device            grow ─▶ tables ─▶ ┌ embed, layers, head, contenders, grow ─▶ tables ┐
//                                         └──────────── while there is a batch ─────────────┘
//
// Between the arrows is one recording (gpu_steps.h). It begins with a pass of whatever the tables say, and the host
// sends tables whose rows are shadows of the root. So a tree that has nothing to run costs a pass and changes
// nothing.
#pragma once

#include "common/model/model_growth.h"
#include "common/model/model_internal.h"
#include "kernels/cuda/cuda_kernels.h"

// The request to the device, which changes all of it but the page table.
typedef struct {
    or_cuda_growth_t tree;
    int32_t tokens[OR_CUDA_GROWTH_MAX]; // of the rows of a pass, and so on
    uint32_t positions[OR_CUDA_GROWTH_MAX];
    or_cuda_seen_t seen[OR_CUDA_GROWTH_MAX];
    or_cuda_contest_t contests[OR_CUDA_GROWTH_MAX];
    uint32_t pages[]; // the sequence's page table (or_gpu_write_page_table)
} or_gpu_growth_asked_t;

typedef struct {
    uint32_t
        *widths; // [vocab_size of the model] of tokens, on the device; NULL: trees do not grow here
    or_gpu_growth_asked_t *asked;      // on the device
    or_gpu_growth_asked_t *asked_host; // pinned
    uint32_t *chains;                  // [rows][OR_CUDA_GROWTH_MAX] on the device
    void *scratch;                     // likewise
    or_cuda_grown_t *grown;            // likewise
    or_cuda_grown_t *grown_host;       // pinned
    // The rows of the last tree, with their contenders, on the host.
    or_grown_row_t rows[OR_CUDA_GROWTH_ROWS];
    int32_t *ids;   // [OR_CUDA_GROWTH_CONTENDERS]
    double *scores; // likewise
} or_gpu_growth_t;
