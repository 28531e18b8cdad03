#include "common/model/ranks/shards.h"

or_status_t or_shards_of_rank(int rank, int size, or_span_t *shards)
{
    if (size != 1 && size != 2 && size != 4 && size != 8) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "a layer can be cut over 1, 2, 4 or 8 ranks, not %d; for other counts split the layers "
            "over several such groups (--pp)",
            size);
    }
    if (rank < 0 || rank >= size) {
        return or_fail(OR_ERR_INVALID, "there is no rank %d of %d", rank, size);
    }
    uint32_t each = OR_SHARDS / (uint32_t)size;
    *shards = (or_span_t){(uint32_t)rank * each, ((uint32_t)rank + 1) * each};
    return OR_OK;
}

or_status_t or_layers_of_stage(int stage, int stages, uint32_t layers, or_span_t *span)
{
    if (stages < 1 || stage < 0 || stage >= stages) {
        return or_fail(OR_ERR_INVALID, "there is no stage %d of %d", stage, stages);
    }
    if ((uint32_t)stages > layers) {
        return or_fail(OR_ERR_INVALID,
                       "the model has %u layers, which cannot be split over %d stages (--pp)",
                       layers, stages);
    }
    uint64_t s = (uint64_t)stage;
    *span = (or_span_t){(uint32_t)(s * layers / (uint64_t)stages),
                        (uint32_t)((s + 1) * layers / (uint64_t)stages)};
    return OR_OK;
}
