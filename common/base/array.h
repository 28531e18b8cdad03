// array - arrays that grow.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Make room for `more` entries of `entry_bytes` behind the first `count`, and for as many again. `array_p` is the address of
// the pointer to the array, which is malloc'd or NULL. False if there is no memory: nothing has changed then.
bool or_array_reserve(void *array_p, size_t *capacity, size_t count, size_t more,
                      size_t entry_bytes);
