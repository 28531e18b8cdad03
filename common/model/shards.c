#include "common/model/shards.h"

or_status_t or_shards_of_rank(int rank, int size, or_span_t *shards)
{
    if (size != 1 && size != 2 && size != 4 && size != 8) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "a model can be cut over 1, 2, 4 or 8 ranks, not %d; other counts need pipeline "
            "stages (--pp), which this version does not have",
            size);
    }
    if (rank < 0 || rank >= size) {
        return or_fail(OR_ERR_INVALID, "there is no rank %d of %d", rank, size);
    }
    uint32_t each = OR_SHARDS / (uint32_t)size;
    *shards = (or_span_t){(uint32_t)rank * each, ((uint32_t)rank + 1) * each};
    return OR_OK;
}
