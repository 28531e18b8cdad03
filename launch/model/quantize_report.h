// quantize_report - what became of each tensor, as a table or as a line of JSON.
#pragma once

#include "common/gguf/gguf.h"

typedef struct {
    const or_gguf_tensor_t *tensor; // borrowed
    or_tensor_type_t wanted, to;
    uint64_t bytes;              // as written
    double power, squared_error; // sums over all weights
    double largest_error;
} or_quantize_result_t;

typedef struct {
    const char *in, *out; // borrowed
    or_tensor_type_t type;
    const or_quantize_result_t *results; // borrowed; of all tensors
    uint64_t count;
    uint64_t bytes_before, bytes_after; // of the files
    double seconds;
} or_quantize_report_t;

void or_quantize_report_print(const or_quantize_report_t *report);
// OR_ERR_NO_MEMORY.
or_status_t or_quantize_report_print_json(const or_quantize_report_t *report);
