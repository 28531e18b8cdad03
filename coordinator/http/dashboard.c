#include "coordinator/http/dashboard.h"

#include <string.h>

// Written by dashboard/embed.cmake.
extern const or_dashboard_file_t or_dashboard_files[];
extern const size_t or_dashboard_file_count;

const or_dashboard_file_t *or_dashboard_file(const char *path)
{
    for (size_t f = 0; f < or_dashboard_file_count; f++) {
        if (strcmp(or_dashboard_files[f].path, path) == 0)
            return &or_dashboard_files[f];
    }
    return NULL;
}
