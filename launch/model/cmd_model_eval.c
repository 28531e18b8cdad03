// outrider model eval - the logits after given ids, in a row or as a tree.
//
//     --ids 1,458,1112                              the logits after each id
//     --ids 1,458 --tree 5,6,7 --parents -1,0,-1    and after each node; -1 is a child of the last of --ids
//     --ids 1,458,5,6,7 --parents -1,0,1,2,1        the same in one list: parents are places in it
#include <inttypes.h>
#include <stdlib.h>

#include "common/gguf/packed.h"
#include "common/model/gpu/gpu_choice.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/input.h"
#include "launch/generate/output.h"

typedef struct {
    char *model, *ids, *tree, *parents, *packed;
    uint64_t weights_memory;
    uint32_t top, threads;
    or_gpu_options_t gpu;
    bool list_devices, json;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "model (GGUF); the demonstration target if not given"},
    {"ids", NULL, OR_OPTION_STRING, offsetof(config_t, ids), "LIST",
     "token ids from the start of the text, as 1,458,1112"},
    {"tree", NULL, OR_OPTION_STRING, offsetof(config_t, tree), "LIST",
     "token ids of tree nodes after them"},
    {"parents", NULL, OR_OPTION_STRING, offsetof(config_t, parents), "LIST",
     "each node's parent, an earlier place in --tree (-1: the last of --ids); without --tree, in "
     "--ids itself (-1: the first)"},
    {"top", NULL, OR_OPTION_UINT32, offsetof(config_t, top), "N",
     "the N best logits a position; 0: all, by id"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N",
     "threads; 0: one a CPU it may use"},
    OR_PACKED_OPTION(config_t, packed, "", ""),
    OR_WEIGHTS_MEMORY_OPTION(config_t, weights_memory, ""),
    OR_GPU_OPTIONS(config_t, gpu),
    OR_GPU_LIST_OPTION(config_t, list_devices),
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model eval",
    .summary = "the logits after given ids, in a row or as a tree",
    .usage = "--ids LIST [options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider model eval --ids 1,458,1112,731\n"
                "  outrider model eval --ids 1,458 --tree 5,6,7 --parents -1,0,-1 --json",
};

// The input: places 0 .. prefix - 1 are committed, the others are tree nodes. Each has its parent's place, -1 for the first.
typedef struct {
    int32_t *ids, *parents;
    size_t count, prefix;
} input_t;

typedef struct {
    or_model_t *model;
    uint32_t vocab_size;
    float *logits;   // of one row
    int32_t *ranked; // ids, by logit where that is asked for
    json_t *rows;    // with --json
} output_t;

// ---- input ----

// Find the committed prefix within one list: it goes on as long as the places are a row and no later node hangs before its
// end.
static or_status_t find_prefix(input_t *input)
{
    size_t row = 1;
    while (row < input->count && input->parents[row] == (int32_t)row - 1) {
        row++;
    }
    input->prefix = row;
    for (size_t i = row; i < input->count; i++) {
        int32_t parent = input->parents[i];
        if (parent < 0 || parent >= (int32_t)i) {
            return or_fail(OR_ERR_INVALID,
                           "--parents: %" PRId32 " at place %zu is no earlier place of --ids",
                           parent, i);
        }
        input->prefix = (size_t)parent + 1 < input->prefix ? (size_t)parent + 1 : input->prefix;
    }
    return OR_OK;
}

// Put the nodes of --tree behind the ids; their parents count from the first node.
static or_status_t append_tree(input_t *input, const int32_t *tree, const int32_t *parents,
                               size_t nodes)
{
    for (size_t i = 0; i < nodes; i++) {
        int32_t parent = parents != NULL ? parents[i] : (int32_t)i - 1;
        if (parent >= (int32_t)i) {
            return or_fail(OR_ERR_INVALID,
                           "--parents: %" PRId32 " at place %zu is no earlier node of --tree",
                           parent, i);
        }
        input->ids[input->count + i] = tree[i];
        input->parents[input->count + i] = (int32_t)input->prefix + parent;
    }
    input->count += nodes;
    return OR_OK;
}

// Make one input of the lists; `parents` is NULL where not given.
static or_status_t join(const int32_t *ids, size_t id_count, const int32_t *tree, size_t nodes,
                        const int32_t *parents, size_t parent_count, input_t *input)
{
    size_t expected = nodes > 0 ? nodes : id_count;
    if (id_count == 0) {
        return or_fail(OR_ERR_INVALID, "--ids: at least one id is needed");
    }
    if (parents != NULL && parent_count != expected) {
        return or_fail(OR_ERR_INVALID, "--parents: %zu given for %zu ids", parent_count, expected);
    }
    input->ids = calloc(id_count + nodes, sizeof *input->ids);
    input->parents = calloc(id_count + nodes, sizeof *input->parents);
    if (input->ids == NULL || input->parents == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the ids");
    }
    for (size_t i = 0; i < id_count; i++) {
        input->ids[i] = ids[i];
        input->parents[i] = nodes == 0 && parents != NULL ? parents[i] : (int32_t)i - 1;
    }
    input->count = input->prefix = id_count;
    if (nodes > 0) {
        return append_tree(input, tree, parents, nodes);
    }
    return parents != NULL ? find_prefix(input) : OR_OK;
}

static or_status_t parse_input(const config_t *config, input_t *input)
{
    int32_t *ids = NULL, *tree = NULL, *parents = NULL;
    size_t id_count = 0, nodes = 0, parent_count = 0;
    if (config->ids == NULL) {
        return or_fail(OR_ERR_INVALID, "--ids LIST is needed");
    }
    or_status_t status = or_input_numbers("--ids", config->ids, 0, &ids, &id_count);
    if (status == OR_OK && config->tree != NULL) {
        status = or_input_numbers("--tree", config->tree, 0, &tree, &nodes);
    }
    if (status == OR_OK && config->parents != NULL) {
        status = or_input_numbers("--parents", config->parents, -1, &parents, &parent_count);
    }
    if (status == OR_OK) {
        status = join(ids, id_count, tree, nodes, parents, parent_count, input);
    }
    free(parents);
    free(tree);
    free(ids);
    return status;
}

// ---- output ----

static const float *ranking_logits; // qsort has no context

static int by_logit(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    float x = ranking_logits[left], y = ranking_logits[right];
    return x > y ? -1 : x < y ? 1 : left - right;
}

static void rank_logits(output_t *output, const config_t *config)
{
    for (uint32_t id = 0; id < output->vocab_size; id++) {
        output->ranked[id] = (int32_t)id;
    }
    if (config->top > 0) {
        ranking_logits = output->logits;
        qsort(output->ranked, output->vocab_size, sizeof *output->ranked, by_logit);
    }
}

// Put out the logits after place i, with the place of its parent and its position in the text.
static void put_row(output_t *output, const config_t *config, const input_t *input, size_t i,
                    uint32_t position)
{
    uint32_t shown =
        config->top > 0 && config->top < output->vocab_size ? config->top : output->vocab_size;
    rank_logits(output, config);
    if (output->rows == NULL) {
        printf("%zu id %" PRId32 " parent %" PRId32 " position %" PRIu32 ":", i, input->ids[i],
               input->parents[i], position);
        for (uint32_t k = 0; k < shown; k++) {
            printf(" %" PRId32 ":%.6f", output->ranked[k],
                   (double)output->logits[output->ranked[k]]);
        }
        putchar('\n');
        return;
    }
    json_t *top = json_array();
    for (uint32_t k = 0; k < shown; k++) {
        json_array_append_new(
            top, json_pack("[i, f]", output->ranked[k], (double)output->logits[output->ranked[k]]));
    }
    json_array_append_new(output->rows,
                          json_pack("{s:i, s:i, s:i, s:o}", "id", input->ids[i], "parent",
                                    input->parents[i], "position", (int)position, "logits", top));
}

static or_status_t print_json(const output_t *output, const input_t *input)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:O}", "arith_id", or_model_arith_id(output->model), "device",
        or_gpu_where(output->model).name, "kernels", or_model_kernels(output->model), "prefix",
        (json_int_t)input->prefix, "rows", output->rows);
    return or_output_json(root, 9); // digits that give a float back exactly
}

// ---- the passes ----

static or_model_row_t make_row(const input_t *input, size_t i, or_kv_sequence_t *sequence)
{
    or_model_row_t row = {sequence, input->ids[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    if (i >= input->prefix) {
        row.slot = (uint32_t)(i - input->prefix);
        if (input->parents[i] >= (int32_t)input->prefix) {
            row.parent_slot = (uint32_t)input->parents[i] - (uint32_t)input->prefix;
        }
    }
    return row;
}

// Find the position of each place in its text.
static or_status_t find_positions(const input_t *input, uint32_t context, uint32_t *positions)
{
    for (size_t i = 0; i < input->count; i++) {
        positions[i] = i > 0 ? positions[input->parents[i]] + 1 : 0;
        if (positions[i] >= context) {
            return or_fail(OR_ERR_INVALID,
                           "%zu ids are too many: the model's context holds %" PRIu32, input->count,
                           context);
        }
    }
    return OR_OK;
}

// Run all places in passes of at most rows_max rows, parents before children.
static or_status_t run_passes(output_t *output, const config_t *config, const input_t *input,
                              or_kv_sequence_t *sequence, or_model_row_t *rows,
                              const uint32_t *positions)
{
    uint32_t rows_max = or_model_rows_max(output->model);
    for (size_t first = 0; first < input->count; first += rows_max) {
        size_t left = input->count - first;
        uint32_t count = left < rows_max ? (uint32_t)left : rows_max;
        for (uint32_t r = 0; r < count; r++) {
            rows[r] = make_row(input, first + r, sequence);
        }
        or_status_t status = or_model_forward(output->model, rows, count);
        for (uint32_t r = 0; r < count && status == OR_OK; r++) {
            size_t i = first + r;
            status = or_model_logits(output->model, r, 1, output->logits);
            if (status == OR_OK) {
                put_row(output, config, input, i, positions[i]);
            }
        }
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}

static or_status_t run_input(or_model_t *model, const config_t *config, const input_t *input)
{
    output_t output = {.model = model, .vocab_size = or_model_shape(model)->vocab_size};
    or_kv_sequence_t *sequence = NULL;
    or_model_row_t *rows = calloc(or_model_rows_max(model), sizeof *rows);
    uint32_t *positions = calloc(input->count, sizeof *positions);
    output.logits = calloc(output.vocab_size, sizeof *output.logits);
    output.ranked = calloc(output.vocab_size, sizeof *output.ranked);
    output.rows = config->json ? json_array() : NULL;
    or_status_t status = OR_OK;
    if (rows == NULL || positions == NULL || output.logits == NULL || output.ranked == NULL ||
        (config->json && output.rows == NULL)) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for the logits");
    }
    if (status == OR_OK) {
        status = find_positions(input, or_model_context(model), positions);
    }
    if (status == OR_OK) {
        status = or_model_open_sequence(model, (uint32_t)(input->count - input->prefix), &sequence);
    }
    if (status == OR_OK) {
        status = run_passes(&output, config, input, sequence, rows, positions);
    }
    if (status == OR_OK && config->json) {
        status = print_json(&output, input);
    }
    or_kv_sequence_close(&sequence);
    json_decref(output.rows);
    free(output.ranked);
    free(output.logits);
    free(positions);
    free(rows);
    return status;
}

static or_status_t eval(config_t *config, const input_t *input)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    const or_model_options_t options = {.threads = config->threads,
                                        .cache_type_k = OR_KV_BY_MODEL,
                                        .cache_type_v = OR_KV_BY_MODEL,
                                        .packed = config->packed,
                                        .weights_memory = config->weights_memory};
    or_gpu_place_t place;
    or_status_t status = or_gpu_place_choose(&config->gpu, or_gpu_functions(), &place);
    if (status == OR_OK) {
        status = or_models_choose_target(&config->model);
    }
    if (status == OR_OK) {
        status = or_gguf_open(config->model, &gguf);
    }
    if (status == OR_OK) {
        status = or_gpu_place_load(&place, gguf, &options, &model);
    }
    if (status == OR_OK) {
        status = run_input(model, config, input);
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {.top = 8, .packed = (char *)"auto", .gpu = or_gpu_options_default()};
    input_t input = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    or_status_t status = or_command_check_threads("-t/--threads", config.threads);
    status = status != OR_OK ? status : or_packed_check_wish(config.packed, config.weights_memory);
    status = status != OR_OK ? status : or_gpu_options_check(&config.gpu, "");
    status = status != OR_OK ? status : parse_input(&config, &input);
    if (status == OR_OK) {
        code = OR_EXIT_FAILURE;
        status = eval(&config, &input);
    }
    free(input.ids);
    free(input.parents);
    return or_command_end(&program, &config, NULL, status, code);
}

const or_command_t or_model_eval_command = {
    "eval", run, "--ids 1,2,3 [-m FILE] [--tree IDS] [--parents LIST] [options]"};
