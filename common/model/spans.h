// spans - parts of a packed file, in a list that grows.
//
//     file      page   page   page   page   page   page
//     matrix       [panel 0: part ]      [panel 1: part ]     a rank's inputs of each panel
//     spans     [                  ]   [                 ]    whole pages
//
// One thread owns a list.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/gguf/packed.h"
#include "common/model/cpu/weights.h"

typedef struct {
    or_packed_span_t *spans; // owned; of whole pages
    uint32_t count, room;
    uint64_t bytes; // of all spans, once they are joined
} or_spans_t;

// Make room for so many spans: adding these cannot fail. false: no memory.
bool or_spans_reserve(or_spans_t *list, uint32_t room);
// Add the pages that have some of the bytes begin .. end. false: no memory.
bool or_spans_add(or_spans_t *list, uint64_t begin, uint64_t end);
// Add what a matrix reads, all of its experts, where the file's first byte is at the address `base`. false: no memory.
bool or_spans_add_matrix(or_spans_t *list, uintptr_t base, const or_matrix_t *matrix);
// Return the most spans that or_spans_add_matrix adds.
uint64_t or_spans_of_matrix(const or_matrix_t *matrix);
// Order the spans from `first` on, and join those that touch each other.
void or_spans_join(or_spans_t *list, uint32_t first);
void or_spans_fini(or_spans_t *list);
