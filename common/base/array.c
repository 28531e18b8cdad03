#include "common/base/array.h"

#include <stdlib.h>
#include <string.h>

bool or_array_reserve(void *array_p, size_t *capacity, size_t count, size_t more,
                      size_t entry_bytes)
{
    void *array;
    size_t larger = 2 * (count + more);
    if (count + more <= *capacity) {
        return true;
    }
    memcpy(&array, array_p, sizeof array); // a pointer of any type
    array = realloc(array, larger * entry_bytes);
    if (array == NULL) {
        return false;
    }
    memcpy(array_p, &array, sizeof array);
    *capacity = larger;
    return true;
}
