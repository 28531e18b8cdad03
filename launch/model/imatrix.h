// imatrix - an importance matrix in a file: the mean square of what each input of a model's matrices is multiplied with.
// `outrider model imatrix` and llama.cpp (tools/imatrix) write it, and `model quantize` reads it. There are two forms:
//
//     GGUF     general.type "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size, and for each tensor
//              NAME.in_sum2   F32 [inputs, matrices]   sums of squares
//              NAME.counts    F32 [1, matrices]        rows they are over; 0: an expert that no row took
//     legacy   entries; of each: length, name, calls, values, F32 [values]: means times calls
//              then perhaps: chunks; and perhaps: length, data set           (all numbers 32 bits, little-endian)
//
// The legacy form has one number of calls for all experts of a tensor. Other tensors of the GGUF form (NAME.in_sum) are passed
// over. Immutable after open: any thread.
#pragma once

#include <stddef.h>

#include "common/gguf/gguf_writer.h"

typedef struct or_imatrix or_imatrix_t;

// Read a file of either form. OR_ERR_IO; OR_ERR_FORMAT names what is wrong and where: truncated, sums without counts, counts
// of nothing, tensors that overlap, a name twice, or numbers that no sum of squares can be. OR_ERR_NO_MEMORY.
or_status_t or_imatrix_open(const char *path, or_imatrix_t **imatrix_p);
// Read one of the legacy form from memory. `name` takes the path's place in sentences.
or_status_t or_imatrix_open_bytes(const char *name, const void *bytes, size_t count,
                                  or_imatrix_t **imatrix_p);
// Free *imatrix_p, which may be NULL, and set it to NULL.
void or_imatrix_close(or_imatrix_t **imatrix_p);

uint32_t or_imatrix_count(const or_imatrix_t *imatrix);
// Name and values of entry i, in the order of names.
const char *or_imatrix_name(const or_imatrix_t *imatrix, uint32_t i);
const float *or_imatrix_values(const or_imatrix_t *imatrix, uint32_t i, uint64_t *count);

// Find the importance of a tensor's inputs, [dims[2]][dims[0]], where all of an expert without rows count 1. *importance
// is NULL if the file does not name the tensor. OR_ERR_MISMATCH if it has another number of values for it.
or_status_t or_imatrix_find(const or_imatrix_t *imatrix, const or_gguf_tensor_t *tensor,
                            const float **importance);

// Have a new file's metadata say what its weights were weighted by, in llama.cpp's keys (quantize.imatrix.file, .dataset,
// .entries_count, .chunks_count). What they said of an earlier file is dropped, and what is not known is left out; with NULL
// that is all of them. OR_ERR_NO_MEMORY.
or_status_t or_imatrix_describe(const or_imatrix_t *imatrix, or_gguf_writer_t *writer);
