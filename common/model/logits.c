#include <string.h>

#include "common/model/model_internal.h"

// The vocabulary rows of one rank.
static or_span_t vocab_of_rank(const or_model_t *model, uint32_t rank)
{
    uint32_t each = OR_SHARDS / (uint32_t)model->ranks->size;
    return (or_span_t){or_shard_span(rank * each, model->shape.vocab_size).begin,
                       or_shard_span((rank + 1) * each - 1, model->shape.vocab_size).end};
}

// model->logits of this rank's vocabulary to `out`, all ranks' side by side.
static or_status_t gather(or_model_t *model, uint32_t rows, float *out)
{
    const or_ranks_t *ranks = model->ranks;
    const or_span_t mine = model->share.vocab;
    size_t stride = model->vocab_share_max;
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(model->logits_sent + i * stride,
               model->logits + i * model->vocab_stride + mine.begin,
               (mine.end - mine.begin) * sizeof *out);
    }
    or_status_t status = ranks->all_gather(ranks, model->logits_sent, rows * stride * sizeof *out,
                                           model->logits_received);
    for (uint32_t r = 0; status == OR_OK && r < (uint32_t)ranks->size; r++) {
        or_span_t span = vocab_of_rank(model, r);
        for (uint32_t i = 0; i < rows; i++) {
            memcpy(out + (size_t)i * model->shape.vocab_size + span.begin,
                   model->logits_received + (r * rows + i) * stride,
                   (span.end - span.begin) * sizeof *out);
        }
    }
    return status;
}

static or_status_t compute(or_model_t *model, uint32_t first, uint32_t rows, float *out)
{
    or_product_t product = or_product(&model->head, model->share.vocab.begin,
                                      model->share.vocab.end, model->logits, model->vocab_stride);
    or_products_run(model->kernels, model->workers, &model->h, first, rows, &product, 1);
    if (model->ranks->size > 1) {
        return gather(model, rows, out);
    }
    size_t vocab_size = model->shape.vocab_size;
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(out + i * vocab_size, model->logits + i * model->vocab_stride,
               vocab_size * sizeof *out);
    }
    return OR_OK;
}

or_status_t or_model_logits(or_model_t *model, uint32_t first, uint32_t count, float *out)
{
    if (first > model->row_count || count > model->row_count - first) {
        return or_fail(OR_ERR_INVALID, "the last pass had %u rows; rows %u to %u were asked for",
                       model->row_count, first, first + count);
    }
    while (count > 0) {
        uint32_t rows = count < OR_LOGITS_ROWS ? count : OR_LOGITS_ROWS;
        or_status_t status = compute(model, first, rows, out);
        if (status != OR_OK) {
            return status;
        }
        out += (size_t)rows * model->shape.vocab_size;
        first += rows;
        count -= rows;
    }
    return OR_OK;
}
