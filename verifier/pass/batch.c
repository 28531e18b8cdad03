#include "verifier/pass/batch.h"

#include <stdlib.h>

or_status_t or_batch_init(or_batch_t *batch, uint32_t parts_max, uint32_t rows_max)
{
    or_batch_t fresh = {.parts_max = parts_max, .rows_max = rows_max};
    fresh.parts = calloc(parts_max, sizeof *fresh.parts);
    fresh.rows = calloc(rows_max, sizeof *fresh.rows);
    if (fresh.parts == NULL || fresh.rows == NULL) {
        or_batch_fini(&fresh);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for passes of %u rows", rows_max);
    }
    *batch = fresh;
    return OR_OK;
}

void or_batch_fini(or_batch_t *batch)
{
    free(batch->rows);
    free(batch->parts);
    *batch = (or_batch_t){0};
}

void or_batch_clear(or_batch_t *batch)
{
    batch->part_count = 0;
    batch->prefix_rows = 0;
    batch->tree_rows = 0;
}

uint32_t or_batch_rows(const or_batch_t *batch)
{
    return batch->prefix_rows + batch->tree_rows;
}

void or_batch_add(or_batch_t *batch, or_vsession_t *session, uint32_t prefix_rows, bool tree)
{
    batch->parts[batch->part_count++] =
        (or_part_t){.session = session, .prefix_rows = prefix_rows, .tree = tree};
    batch->prefix_rows += prefix_rows;
    batch->tree_rows += tree ? session->tree_rows : 0;
}

or_status_t or_batch_run(or_batch_t *batch, or_model_t *model)
{
    uint32_t prefix_at = 0;
    uint32_t tree_at = batch->prefix_rows;
    for (uint32_t i = 0; i < batch->part_count; i++) {
        or_part_t *part = &batch->parts[i];
        or_vsession_put_prefix(part->session, part->prefix_rows, batch->rows + prefix_at);
        prefix_at += part->prefix_rows;
        if (part->tree) {
            part->first_row = tree_at;
            or_vsession_put_tree(part->session, batch->rows + tree_at);
            tree_at += part->session->tree_rows;
        }
    }
    return or_model_forward(model, batch->rows, tree_at);
}
