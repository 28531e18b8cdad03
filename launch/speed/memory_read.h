// memory_read - how fast a number of threads read memory together: the least time of whatever reads weights.
//
// They read an area of four times the last cache in the machine's own instructions, the loop of kernels/ceilings.h. After that
// no cache holds anything else.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/cpu/workers.h"
#include "kernels/ceilings.h"

// The sizes of the last cache, as the system tells it, and of the area.
size_t or_memory_cache_bytes(void);
size_t or_memory_area_bytes(void);

// Allocate such an area in huge pages where the system has any, none of it touched. NULL if there is no memory. The caller frees.
uint8_t *or_memory_area(size_t *bytes);

typedef struct or_memory_read or_memory_read_t;

// Start the threads, which sleep between two readings, and touch the area. OR_ERR_NO_MEMORY, or what or_workers_create says.
or_status_t or_memory_read_create(const or_ceilings_t *ceilings,
                                  const or_workers_options_t *options, or_memory_read_t **reader_p);
void or_memory_read_destroy(or_memory_read_t **reader_p);

// Read the whole area once, and return how many bytes a second that were.
double or_memory_read_once(or_memory_read_t *reader);
