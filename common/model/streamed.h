// streamed - layers that stay in the packed file on disk, where weights may have less memory than they need.
//
//     layers      0  1  2  3  4  5  6  7      D: on disk, read in every pass; the others stay in memory, mapped
//                 D  D     D  D     D  D
//     buffers     [ the layer that is computed ] [ the next one on disk, which is read meanwhile ]
//
// Two buffers are enough: what a third one would take keeps a layer in memory, which spares its reading in every pass. Those in memory
// are the same in every pass, as what was used last is what is needed last. They lie evenly between the others: reading goes on while
// they are computed, and is seldom far enough ahead to wait.
//
// A layer's matrices point into the buffer that has it (packed_reader.h), at the distances that they have in the file. So a rank
// reads its own parts, and what lies between them takes no memory where all layers on disk lie alike.
//
// Experts are no part of buffers: they are read once they are chosen, and kept by use (kept_experts.h). What all rows read has the
// first claim to memory, and experts have what it leaves.
//
// One thread calls.
#pragma once

#include <stdint.h>

#include "common/base/status.h"
#include "common/model/kept_experts.h"

typedef struct or_model or_model_t;
typedef struct or_streamed or_streamed_t;

// Decide which layers of a loaded model stay on disk, if its weights are to have `memory` bytes, and begin to read and to compare its
// packed file. *streamed_p is NULL if all have room. Where `memory` is less than what is needed at least, a `strict` call fails with
// OR_ERR_INVALID, and the sentence says how much that is; another takes it. OR_ERR_FORMAT: the file lacks a matrix. OR_ERR_NO_MEMORY.
or_status_t or_streamed_create(or_model_t *model, uint64_t memory, bool strict,
                               or_streamed_t **streamed_p);
void or_streamed_destroy(or_streamed_t **streamed_p);

// Say how many rows the pass has that begins. OR_ERR_IO: the packed file is lost. NULL: OR_OK.
or_status_t or_streamed_expect(or_streamed_t *streamed, uint32_t rows);
// Wait until the matrices of a layer of the stage are there, all but experts, until the next call. OR_ERR_IO: the packed file is lost.
// NULL, or a layer that is always there: OR_OK.
or_status_t or_streamed_enter(or_streamed_t *streamed, uint32_t layer);
// Have these experts of the layer that was entered in memory; `count` with repetitions. OR_ERR_IO: the packed file is lost.
or_status_t or_streamed_experts(or_streamed_t *streamed, const uint32_t *chosen, uint32_t count);
// Give the last layer's buffer back, so that the next pass's first is read into it.
void or_streamed_leave(or_streamed_t *streamed);

// Return how many layers are on disk, or their experts; the bytes of their matrices; and those of buffers and kept experts. NULL: 0.
uint32_t or_streamed_layers(const or_streamed_t *streamed);
uint64_t or_streamed_bytes(const or_streamed_t *streamed);
uint64_t or_streamed_buffer_bytes(const or_streamed_t *streamed);
// Return the experts that are kept; NULL: all are in memory, or there are none.
const or_kept_experts_t *or_streamed_kept(const or_streamed_t *streamed);
