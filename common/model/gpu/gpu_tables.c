// What the kernels of a pass look up: where each row's K and V go, and what it sees.
//
//     tables   positions [rows]   tokens [rows]   seen [rows]   pages of a sequence   chain of a row   pages   chain ...
//
// Tables live until nothing on the device needs them any more: those of a pass until the next one, which waits
// first; those of accepted paths lie behind them, as many as find room.
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define ALIGNMENT 16u

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t pages_for(uint32_t positions)
{
    return positions / OR_KV_PAGE + (positions % OR_KV_PAGE != 0);
}

static size_t path_bytes(uint32_t count)
{
    return aligned((size_t)count * sizeof(uint32_t)) +
           aligned((pages_for(count) + 1ull) * sizeof(uint32_t));
}

// Each row may be of another sequence, and see a whole context or the longest path.
size_t or_gpu_tables_bytes(const or_model_t *model)
{
    size_t rows = model->rows_max;
    uint32_t path = model->context < OR_TREE_POSITIONS_MAX ? model->context : OR_TREE_POSITIONS_MAX;
    size_t row =
        aligned(pages_for(model->context) * sizeof(uint32_t)) + aligned(path * sizeof(uint32_t));
    size_t pass =
        2 * aligned(rows * sizeof(uint32_t)) + aligned(rows * sizeof(or_cuda_seen_t)) + rows * row;
    return pass + path_bytes(path);
}

// ---- writing and sending ----

// Room that there is, on the host.
static void *put(or_gpu_tables_t *tables, size_t bytes)
{
    void *at = tables->host + tables->used;
    tables->used += aligned(bytes);
    return at;
}

static const void *on_device(const or_gpu_tables_t *tables, const void *host)
{
    return tables->device + ((const uint8_t *)host - tables->host);
}

// What was written since it was called last.
static void send(or_gpu_t *gpu)
{
    or_gpu_tables_t *tables = &gpu->tables;
    or_gpu_keep(gpu,
                gpu->functions->upload(gpu->cuda, tables->device + tables->sent,
                                       tables->host + tables->sent, tables->used - tables->sent));
    tables->sent = tables->used;
}

void or_gpu_tables_clear(or_gpu_t *gpu)
{
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    gpu->tables.used = 0;
    gpu->tables.sent = 0;
}

// ---- a pass ----

static const uint32_t *put_pages(or_gpu_tables_t *tables, const or_kv_sequence_t *sequence)
{
    uint32_t *pages = put(tables, sequence->page_count * sizeof *pages);
    memcpy(pages, sequence->pages, sequence->page_count * sizeof *pages);
    return on_device(tables, pages);
}

static void put_chain(or_gpu_tables_t *tables, const or_pass_row_t *row, or_cuda_seen_t *seen)
{
    size_t count = row->position - row->committed + 1;
    uint32_t *chain = put(tables, count * sizeof *chain);
    seen->chain_count = or_pass_chain(row, chain);
    seen->chain = on_device(tables, chain);
}

void or_gpu_tables_of_pass(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_tables_t *tables = &gpu->tables;
    uint32_t *positions = put(tables, rows * sizeof *positions);
    int32_t *tokens = put(tables, rows * sizeof *tokens);
    or_cuda_seen_t *seen = put(tables, rows * sizeof *seen);
    uint32_t positions_max = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const or_pass_row_t *row = &model->rows[i];
        const or_kv_sequence_t *sequence = row->sequence;
        bool as_before = i > 0 && sequence == model->rows[i - 1].sequence;
        positions[i] = row->position;
        tokens[i] = row->token;
        seen[i] =
            (or_cuda_seen_t){.pages = as_before ? seen[i - 1].pages : put_pages(tables, sequence),
                             .committed = row->committed,
                             .position = row->position,
                             .slots = sequence->slot_bytes,
                             .slots_max = sequence->slots_max,
                             .slot = row->slot};
        if (row->slot != OR_KV_NO_SLOT) {
            put_chain(tables, row, &seen[i]);
        }
        positions_max = row->position >= positions_max ? row->position + 1 : positions_max;
    }
    gpu->positions_max = or_gpu_steps_round(positions_max);
    gpu->positions = on_device(tables, positions);
    gpu->tokens = on_device(tables, tokens);
    gpu->seen = on_device(tables, seen);
    send(gpu);
}

// ---- an accepted path ----

or_gpu_path_t or_gpu_tables_of_path(or_gpu_t *gpu, const or_kv_sequence_t *sequence,
                                    const uint32_t *slots, uint32_t count)
{
    or_gpu_tables_t *tables = &gpu->tables;
    if (tables->bytes - tables->used < path_bytes(count)) {
        or_gpu_tables_clear(gpu);
    }
    uint32_t first = sequence->length / OR_KV_PAGE;
    uint32_t page_count = pages_for(sequence->length + count) - first;
    uint32_t *pages = put(tables, page_count * sizeof *pages);
    uint32_t *path = put(tables, count * sizeof *path);
    memcpy(pages, sequence->pages + first, page_count * sizeof *pages);
    memcpy(path, slots, count * sizeof *path);
    send(gpu);
    return (or_gpu_path_t){on_device(tables, pages), on_device(tables, path)};
}
