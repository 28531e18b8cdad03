// model-bench MODEL THREADS [rows ...] - milliseconds a pass after a context of 100 positions, head
// included.
//
// Each line is the best and the median of some passes of tree rows (one chain), so that the
// committed length stays the same.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/model/model.h"

#define CONTEXT 100u
#define ROWS_MAX 256u
#define PASSES 41u

static int fail(void)
{
    fprintf(stderr, "model-bench: %s\n", or_error_text());
    return 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static or_status_t time_pass(or_model_t *model, or_kv_sequence_t *sequence, uint32_t count,
                             float *logits, double *ms)
{
    or_model_row_t rows[ROWS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (or_model_row_t){sequence, (int32_t)(i % or_model_shape(model)->vocab_size), i,
                                   i == 0 ? OR_KV_NO_SLOT : i - 1};
    }
    int64_t start = or_clock_now(or_clock_monotonic());
    or_status_t status = or_model_forward(model, rows, count);
    status = status != OR_OK ? status : or_model_logits(model, 0, count, logits);
    *ms = (double)(or_clock_now(or_clock_monotonic()) - start) / OR_NS_PER_MS;
    or_kv_sequence_drop_slots(sequence);
    return status;
}

static or_status_t run(or_model_t *model, or_kv_sequence_t *sequence, int count, char **words,
                       float *logits)
{
    or_model_row_t prefix[CONTEXT];
    for (uint32_t i = 0; i < CONTEXT; i++) {
        prefix[i] = (or_model_row_t){sequence, (int32_t)i, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    or_status_t status = or_model_forward(model, prefix, CONTEXT);
    for (int w = 0; status == OR_OK && w < count; w++) {
        uint32_t rows = (uint32_t)strtoul(words[w], NULL, 10);
        rows = rows > ROWS_MAX ? ROWS_MAX : rows;
        double ms[PASSES];
        for (uint32_t i = 0; status == OR_OK && i < PASSES; i++) {
            status = time_pass(model, sequence, rows, logits, &ms[i]);
        }
        qsort(ms, PASSES, sizeof *ms, by_value);
        printf("kernels %s rows %u best %.3f ms median %.3f ms\n", or_model_kernels(model), rows,
               ms[0], ms[PASSES / 2]);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: model-bench MODEL THREADS ROWS ...\n");
        return 2;
    }
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    float *logits = NULL;
    int exit_code = 1;
    if (or_gguf_open(argv[1], &gguf) != OR_OK) {
        return fail();
    }
    or_model_options_t options = {.threads = (uint32_t)strtoul(argv[2], NULL, 10)};
    if (or_model_load(gguf, &options, &model) != OR_OK ||
        or_model_open_sequence(model, ROWS_MAX, &sequence) != OR_OK) {
        fail();
        goto done;
    }
    logits = malloc((size_t)ROWS_MAX * or_model_shape(model)->vocab_size * sizeof *logits);
    if (logits == NULL || run(model, sequence, argc - 3, argv + 3, logits) != OR_OK) {
        fail();
        goto done;
    }
    exit_code = 0;
done:
    free(logits);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return exit_code;
}
