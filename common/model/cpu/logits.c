#include "common/model/cpu/logits.h"

#include <math.h>
#include <string.h>

#include "common/model/cpu/elementwise.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

// ---- the greatest few ----

static float ordered(float logit)
{
    return isfinite(logit) ? logit : -INFINITY;
}

static bool is_worse(or_top_logit_t a, or_top_logit_t b)
{
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

// A heap whose every parent is worse than its children: put `item` where the root was.
static void replace_root(or_top_logit_t *heap, uint32_t count, or_top_logit_t item)
{
    uint32_t hole = 0;
    while (2 * hole + 1 < count) {
        uint32_t child = 2 * hole + 1;
        child += child + 1 < count && is_worse(heap[child + 1], heap[child]);
        if (!is_worse(heap[child], item)) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = item;
}

static void push(or_top_logit_t *heap, uint32_t count, or_top_logit_t item)
{
    uint32_t hole = count;
    while (hole > 0 && is_worse(item, heap[(hole - 1) / 2])) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = item;
}

// Ids ascend, so a later equal is worse: one comparison with the worst so far passes over most.
void or_top_logits(const float *x, uint32_t count, uint32_t first_id, uint32_t top,
                   or_top_logit_t *out)
{
    for (uint32_t i = 0; i < top; i++) {
        push(out, i, (or_top_logit_t){first_id + i, ordered(x[i])});
    }
    for (uint32_t i = top; i < count; i++) {
        if (x[i] > out[0].logit && isfinite(x[i])) {
            replace_root(out, top, (or_top_logit_t){first_id + i, x[i]});
        }
    }
}

// ---- a rank's share ----
//
// What a rank sends of a row: its whole share of the vocabulary, or pairs of id and logit.
//
//     whole:  logits_sent [rows][vocab_share_max]       top:  logits_sent [rows][top] of or_top_logit_t
//
// A pair takes the room of two logits, so pairs are sent only where they fit that buffer.

typedef struct {
    or_model_t *model;
    uint32_t top; // of each row; 0: whole
} sending_t;

// The vocabulary rows of one rank.
static or_span_t vocab_of_rank(const or_model_t *model, uint32_t rank)
{
    uint32_t each = OR_SHARDS / (uint32_t)model->ranks->size;
    return (or_span_t){or_shard_span(rank * each, model->shape.vocab_size).begin,
                       or_shard_span((rank + 1) * each - 1, model->shape.vocab_size).end};
}

// This rank's share of row i, from the head.
static const float *share_of_row(const or_model_t *model, uint32_t i)
{
    return model->logits + i * model->vocab_stride +
           or_matrix_place(&model->head, model->share.vocab.begin);
}

static void finish_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    const or_arch_numbers_t *numbers = &model->numbers;
    uint32_t count = or_span_length(model->share.vocab);
    for (uint32_t i = begin; i < end; i++) {
        float *logits = model->logits + i * model->vocab_stride +
                        or_matrix_place(&model->head, model->share.vocab.begin);
        if (model->head_bias != NULL) {
            model->kernels->add(logits, model->head_bias + model->share.vocab.begin, count);
        }
        if (numbers->logit_scale != 1) {
            or_scale(logits, count, numbers->logit_scale);
        }
        if (numbers->logit_softcap > 0) {
            or_softcap(logits, count, numbers->logit_softcap);
        }
    }
}

static or_status_t compute(or_model_t *model, uint32_t first, uint32_t rows)
{
    if (model->gpu != NULL) {
        return or_gpu_run_head(model, first, rows);
    }
    or_product_t product = or_product(&model->head, model->share.vocab.begin,
                                      model->share.vocab.end, model->logits, model->vocab_stride);
    or_products_run(model->kernels, model->workers, &model->h, first, rows, &product, 1);
    if (model->head_bias != NULL || model->numbers.logit_scale != 1 ||
        model->numbers.logit_softcap > 0) {
        or_workers_run(model->workers, rows, or_workers_grain(model->vocab_share_max), finish_rows,
                       model);
    }
    return OR_OK;
}

static size_t sent_floats(const or_model_t *model, uint32_t top)
{
    return top > 0 ? 2 * (size_t)top : model->vocab_share_max;
}

static void pack_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const sending_t *sending = context;
    or_model_t *model = sending->model;
    const or_span_t mine = model->share.vocab;
    uint32_t count = or_span_length(mine);
    for (uint32_t i = begin; i < end; i++) {
        float *to = model->logits_sent + i * sent_floats(model, sending->top);
        if (sending->top > 0) {
            or_top_logits(share_of_row(model, i), count, mine.begin, sending->top,
                          (or_top_logit_t *)to);
        } else {
            memcpy(to, share_of_row(model, i), count * sizeof *to);
        }
    }
}

static void unpack_whole(const or_model_t *model, uint32_t rows, float *out)
{
    for (uint32_t r = 0; r < (uint32_t)model->ranks->size; r++) {
        or_span_t span = vocab_of_rank(model, r);
        for (uint32_t i = 0; i < rows; i++) {
            memcpy(out + (size_t)i * model->shape.vocab_size + span.begin,
                   model->logits_received + ((size_t)r * rows + i) * model->vocab_share_max,
                   or_span_length(span) * sizeof *out);
        }
    }
}

// All ranks' together hold the greatest of all.
static or_status_t unpack_top(const or_model_t *model, uint32_t rows, uint32_t top, float *out)
{
    uint32_t vocab_size = model->shape.vocab_size;
    for (size_t i = 0; i < (size_t)rows * vocab_size; i++) {
        out[i] = -INFINITY;
    }
    const or_top_logit_t *received = (const or_top_logit_t *)model->logits_received;
    for (uint32_t r = 0; r < (uint32_t)model->ranks->size; r++) {
        for (uint32_t i = 0; i < rows; i++) {
            for (uint32_t k = 0; k < top; k++, received++) {
                if (received->id >= vocab_size) {
                    return or_fail(OR_ERR_FORMAT, "rank %u sent the logit of token %u of %u", r,
                                   received->id, vocab_size);
                }
                out[(size_t)i * vocab_size + received->id] = received->logit;
            }
        }
    }
    return OR_OK;
}

// Collect logits from the ranks that have the head on the leader.
static or_status_t collect(or_model_t *model, uint32_t rows, uint32_t top, float *out)
{
    const or_ranks_t *ranks = model->ranks;
    if (model->share.has_head) {
        sending_t sending = {.model = model, .top = top};
        or_workers_run(model->workers, rows, or_workers_grain(model->vocab_share_max), pack_rows,
                       &sending);
    }
    size_t bytes = rows * sent_floats(model, top) * sizeof *model->logits_sent;
    or_status_t status = ranks->collect(ranks, model->logits_sent, bytes, model->logits_received);
    if (status != OR_OK || !or_ranks_is_leader(ranks)) {
        return status;
    }
    if (top > 0) {
        return unpack_top(model, rows, top, out);
    }
    unpack_whole(model, rows, out);
    return OR_OK;
}

static or_status_t run_rows(or_model_t *model, uint32_t first, uint32_t rows, uint32_t top,
                            float *out)
{
    or_status_t status = model->share.has_head ? compute(model, first, rows) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    if (!or_ranks_is_alone(model->ranks)) {
        return collect(model, rows, top, out);
    }
    size_t vocab_size = model->shape.vocab_size;
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(out + i * vocab_size, share_of_row(model, i), vocab_size * sizeof *out);
    }
    return OR_OK;
}

or_status_t or_logits_run(or_model_t *model, uint32_t first, uint32_t count, uint32_t top,
                          float *out)
{
    or_status_t status = or_pass_check_rows(model, first, count);
    uint32_t sent = top <= model->vocab_share_max / 2 ? top : 0;
    for (uint32_t done = 0; status == OR_OK && done < count; done += OR_LOGITS_ROWS) {
        uint32_t rows = count - done < OR_LOGITS_ROWS ? count - done : OR_LOGITS_ROWS;
        float *to = out != NULL ? out + (size_t)done * model->shape.vocab_size : NULL;
        status = run_rows(model, first + done, rows, sent, to);
    }
    return status;
}
