#include "common/base/parts.h"

#include <stdlib.h>
#include <string.h>

bool or_parts_take(const or_part_t *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *at = parts[i].count > 0 ? calloc(parts[i].count, parts[i].size) : NULL;
        memcpy(parts[i].at_p, &at, sizeof at);
        if (at == NULL && parts[i].count > 0) {
            return false;
        }
    }
    return true;
}

bool or_parts_free(const or_part_t *parts, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        void *at;
        memcpy(&at, parts[i].at_p, sizeof at);
        free(at);
        memset(parts[i].at_p, 0, sizeof at);
    }
    return true;
}
