// imatrix_internal - an importance matrix while it is read, for the two forms of its file. Internal to imatrix*.c.
#pragma once

#include <stdbool.h>

#include "launch/model/imatrix.h"

#define OR_IMATRIX_NAME_MAX 1024u

typedef struct {
    char *name;    // owned
    float *values; // owned: mean squares, matrix by matrix
    uint64_t count;
} or_imatrix_entry_t;

struct or_imatrix {
    char *path;                  // owned
    or_imatrix_entry_t *entries; // owned; by name
    uint32_t count;
    char *dataset;   // owned; NULL: not known
    uint32_t chunks; // 0: not known
};

// Can squares add up to it?
bool or_imatrix_is_sum(float value);
// Take the next of imatrix->entries, with room for its values. OR_ERR_NO_MEMORY.
or_status_t or_imatrix_take(or_imatrix_t *imatrix, const char *name, size_t length, uint64_t values,
                            or_imatrix_entry_t **entry_p);
// Report that there is no memory for it.
or_status_t or_imatrix_fail_memory(const or_imatrix_t *imatrix);
// Read the legacy form. On failure or_imatrix_close cleans up.
or_status_t or_imatrix_read_legacy(or_imatrix_t *imatrix, const void *bytes, size_t count);
