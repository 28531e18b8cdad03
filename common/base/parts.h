// parts - the arrays of an object as a list. What takes them and what frees them goes through the same list, so no array
// is forgotten by one of them.
//
//     static bool each_array(or_x_t *x, or_parts_t *each)
//     {
//         const or_part_t parts[] = {OR_PART(x->tokens, x->count), OR_PART(x->weights, x->count)};
//         return each(parts, sizeof parts / sizeof *parts);
//     }
//     ... each_array(x, or_parts_take) ... each_array(x, or_parts_free) ...
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    void *at_p;   // to a pointer of any type: to the array, or NULL
    size_t count; // entries; 0: there is no such array
    size_t size;  // of an entry
} or_part_t;

#define OR_PART(pointer, entries)                                                                  \
    {                                                                                              \
        &(pointer), entries, sizeof *(pointer)                                                     \
    }

typedef bool or_parts_t(const or_part_t *parts, size_t count);

// Allocate the arrays, zeroed. Returns false at the first for which there is no memory; what was taken stays.
or_parts_t or_parts_take;
// Free the arrays, whatever their counts, and set the pointers to NULL. Returns true.
or_parts_t or_parts_free;
