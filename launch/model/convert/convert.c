#include "launch/model/convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "launch/model/convert/tokenizer/bpe_files.h"
#include "launch/model/convert/tokenizer/tiktoken.h"
#include "launch/model/convert/vocabulary.h"

typedef struct {
    const or_convert_job_t *job;
    or_checkpoint_t *checkpoint;
    or_hf_config_t config;
    or_convert_plan_t plan;
    or_gguf_writer_t *writer;
    or_weight_writer_t weights;
    float **rows; // a buffer for each worker
    const or_convert_item_t *item;
    _Atomic uint64_t broken_row; // 1 + one that has a weight that is no number; 0: none
} convert_t;

// ---- rows ----

// Return the place in the checkpoint of a row of Q, K and V, which have there, for each head of K and V, its heads of Q, K and V.
static uint64_t place_in_groups(const or_convert_item_t *item, uint64_t row)
{
    const uint64_t size = item->head_rows, groups = item->groups;
    const uint64_t together = item->rows / size / groups; // heads of a group
    const uint64_t queries = groups * (together - 2), head = row / size;
    uint64_t group = head < queries ? head / (together - 2) : (head - queries) % groups;
    uint64_t in_group =
        head < queries ? head % (together - 2) : together - 2 + (head - queries) / groups;
    return (group * together + in_group) * size + row % size;
}

// The place in the checkpoint of a row of Q or K. There the pairs of a rotation are (i, i + half a head), and here neighbours.
static uint64_t place_of(uint64_t row, uint64_t rows, uint32_t heads)
{
    uint64_t size = rows / heads;
    uint64_t in_head = row % size;
    return row - in_head + in_head % 2 * (size / 2) + in_head / 2;
}

// Return the row of the source that holds a row of a matrix.
static uint64_t source_row(const or_convert_item_t *item, uint64_t row)
{
    return item->groups > 0                      ? place_in_groups(item, row)
           : item->heads > 0 && !item->is_vector ? place_of(row, item->rows, item->heads)
                                                 : row + item->first_row;
}

// ---- rows of a tensor of all experts ----

// Return the place of an element of a row. Matrices have a row for each input there, and biases one for each expert.
static uint64_t stacked_place(const or_convert_item_t *item, uint64_t row, uint32_t i)
{
    const uint64_t turns = item->turns, expert = row / item->rows, output = row % item->rows;
    return item->is_transposed
               ? (expert * item->width + i) * item->rows * turns + output * turns + item->turn
               : (row * item->width + i) * turns + item->turn;
}

// Return the place of an element of a row of a head's matrix.
static uint64_t place_in_heads(const or_convert_item_t *item, uint64_t row, uint32_t i)
{
    const uint64_t first = row / item->rows * item->head_stride + item->first_row;
    const uint64_t output = row % item->rows;
    return item->is_transposed ? (first + i) * item->rows + output
                               : (first + output) * item->width + i;
}

#define PACKED_WEIGHTS 32u // of a block of MXFP4
#define PACKED_BYTES 17u   // its scale, and two weights in each of the other bytes
#define NO_SCALE 0xFFu     // stands for no number (OCP Microscaling Formats, 5.4.1)

// Write a block as GGUF has it: a byte has weight j and weight j + 16. In the checkpoint it has weights 2 j and 2 j + 1.
static void pack_block(const uint8_t *theirs, uint8_t scale, uint8_t *block)
{
    uint8_t weights[PACKED_WEIGHTS];
    for (uint32_t i = 0; i < PACKED_WEIGHTS; i++) {
        weights[i] = theirs[i / 2] >> i % 2 * 4 & 0xF;
    }
    block[0] = scale;
    for (uint32_t j = 0; j < PACKED_WEIGHTS / 2; j++) {
        block[1 + j] = (uint8_t)(weights[j] | weights[j + PACKED_WEIGHTS / 2] << 4);
    }
}

// Make a row of blocks of MXFP4: as it is, or of another type by way of `values`. Return false if a weight is no number.
static bool make_packed(const convert_t *convert, uint64_t row, float *values, uint8_t *out)
{
    const or_convert_item_t *item = convert->item;
    const uint32_t blocks = item->width / PACKED_WEIGHTS;
    const uint64_t place = (row * item->turns + item->turn) * blocks; // experts follow one another
    const uint8_t *theirs = (const uint8_t *)item->tensor->data + place * (PACKED_BYTES - 1);
    const uint8_t *scales =
        (const uint8_t *)or_checkpoint_at(convert->checkpoint, item->scales)->data + place;
    for (uint32_t b = 0; b < blocks; b++) {
        uint8_t block[PACKED_BYTES];
        if (scales[b] == NO_SCALE) {
            return false;
        }
        pack_block(theirs + (size_t)b * (PACKED_BYTES - 1), scales[b], block);
        or_weight_row_read(OR_TENSOR_MXFP4, block, PACKED_WEIGHTS, values + b * PACKED_WEIGHTS);
        if (item->type == OR_TENSOR_MXFP4) {
            memcpy(out + (size_t)b * PACKED_BYTES, block, sizeof block);
        }
    }
    return true;
}

// ---- a row ----

// Read row `row` of an item as floats; those of the experts follow one another.
static void read_row(const convert_t *convert, const or_convert_item_t *item, uint64_t row,
                     float *values)
{
    const or_hf_source_t source = or_convert_source(
        &convert->plan, item->experts == NULL ? item->source : item->experts[row / item->rows]);
    const uint64_t in_matrix = row % item->rows;
    const uint32_t width = item->width;
    const bool moves = item->turns > 0 || item->head_stride > 0 || item->is_transposed ||
                       (item->heads > 0 && item->is_vector);
    for (uint32_t i = 0; moves && i < width; i++) {
        const uint64_t at = item->turns > 0         ? stacked_place(item, row, i)
                            : item->head_stride > 0 ? place_in_heads(item, row, i)
                            : item->is_transposed   ? (uint64_t)i * item->rows + in_matrix
                                                    : place_of(i, width, item->heads);
        or_hf_read_elements(&source, at, 1, &values[i]);
    }
    if (!moves) {
        or_hf_read_elements(&source, source_row(item, in_matrix) * width, width, values);
    }
    for (uint32_t i = 0; item->is_less_one && i < width; i++) {
        values[i] += 1.0f;
    }
}

static bool is_finite(const float *values, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

static void make_row(void *context, uint32_t worker, uint64_t row, void *out)
{
    convert_t *convert = context;
    const or_convert_item_t *item = convert->item;
    float *values = convert->rows[worker];
    bool is_number = true;
    if (item->is_packed) {
        is_number = make_packed(convert, row, values, out);
    } else if (item->values != NULL) {
        memcpy(values, item->values, item->width * sizeof *values);
    } else {
        read_row(convert, item, row, values);
    }
    bool is_made = item->is_packed && item->type == OR_TENSOR_MXFP4;
    if (!is_number || !is_finite(values, item->width)) {
        convert->broken_row = row + 1;
        memset(out, 0, or_weight_row_bytes(item->type, item->width));
    } else if (!is_made) {
        or_weight_row_write(item->type, values, NULL, item->width, out);
    }
}

// ---- tensors ----

static or_status_t write_item(convert_t *convert, const or_convert_item_t *item)
{
    const or_gguf_string_t name = {item->name, strlen(item->name)};
    convert->item = item;
    or_status_t status =
        or_weight_writer_run(&convert->weights, name, (uint64_t)item->rows * item->matrices,
                             or_weight_row_bytes(item->type, item->width), make_row, convert);
    if (status == OR_OK && convert->broken_row > 0) {
        status = or_fail(OR_ERR_FORMAT,
                         "%s: row %" PRIu64
                         " of tensor %s has a weight that is no number; the checkpoint is damaged",
                         convert->job->folder, convert->broken_row - 1, item->name);
    }
    for (uint32_t e = 0; item->experts != NULL && e < item->matrices; e++) {
        or_checkpoint_release(convert->checkpoint, item->experts[e]);
    }
    if (item->values == NULL && item->experts == NULL) {
        or_checkpoint_release(convert->checkpoint, item->source);
    }
    if (item->is_packed) {
        or_checkpoint_release(convert->checkpoint, item->scales);
    }
    return status;
}

static or_status_t make_rows(convert_t *convert)
{
    uint32_t workers = or_workers_count(convert->weights.workers);
    size_t width = 1;
    for (uint64_t i = 0; i < convert->plan.count; i++) {
        uint32_t other = convert->plan.items[i].width;
        width = other > width ? other : width;
    }
    convert->rows = calloc(workers, sizeof *convert->rows);
    bool made = convert->rows != NULL;
    for (uint32_t w = 0; made && w < workers; w++) {
        convert->rows[w] = malloc(width * sizeof(float));
        made = convert->rows[w] != NULL;
    }
    return made ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for rows of %zu", width);
}

static void free_rows(convert_t *convert)
{
    uint32_t workers = or_workers_count(convert->weights.workers);
    for (uint32_t w = 0; convert->rows != NULL && w < workers; w++) {
        free(convert->rows[w]);
    }
    free(convert->rows);
}

static or_status_t write_tensors(convert_t *convert)
{
    or_status_t status =
        or_weight_writer_init(&convert->weights, convert->writer, convert->job->threads);
    if (status != OR_OK) {
        return status;
    }
    status = make_rows(convert);
    status = status != OR_OK ? status : or_gguf_writer_begin(convert->writer);
    for (uint64_t i = 0; status == OR_OK && i < convert->plan.count; i++) {
        status = write_item(convert, &convert->plan.items[i]);
    }
    status = status != OR_OK ? status : or_gguf_writer_finish(convert->writer);
    free_rows(convert);
    or_weight_writer_fini(&convert->weights);
    return status;
}

static or_status_t plan_tensors(convert_t *convert)
{
    convert->plan = (or_convert_plan_t){
        .checkpoint = convert->checkpoint, .config = &convert->config, .type = convert->job->type};
    or_status_t status = or_convert_plan(&convert->plan);
    for (uint64_t i = 0; status == OR_OK && i < convert->plan.count; i++) {
        const or_convert_item_t *item = &convert->plan.items[i];
        const or_gguf_string_t name = {item->name, strlen(item->name)};
        const uint64_t dims[] = {item->width, item->rows, item->matrices};
        const bool is_stack = item->experts != NULL || item->is_packed || item->head_stride > 0 ||
                              (item->turns > 0 && (item->is_transposed || item->matrices > 1));
        const uint32_t dim_count = item->is_vector ? 1 : is_stack ? 3 : 2;
        status = or_gguf_writer_add_tensor(convert->writer, name, dim_count, dims, item->type);
    }
    return status;
}

// ---- metadata ----

// The folder's own name.
static or_status_t write_name(const convert_t *convert)
{
    char *real = realpath(convert->job->folder, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : "model";
    or_status_t status = or_gguf_writer_set_string(convert->writer, "general.type", "model");
    status =
        status != OR_OK ? status : or_gguf_writer_set_string(convert->writer, "general.name", name);
    free(real);
    return status;
}

// The files of a tokenizer. Without tokenizer.json there is one of the forms that come after it.
typedef struct {
    json_t *tokenizer, *settings, *generation, *added;
    char *chat_template;
    void *model_bytes;
    or_sentencepiece_t model;
} tokenizer_files_t;

static or_status_t read_bpe_files(const or_checkpoint_t *checkpoint, tokenizer_files_t *files)
{
    json_t *vocab = NULL, *roles = NULL;
    char *merges = NULL;
    or_status_t status = or_checkpoint_read(checkpoint, "vocab.json", &vocab);
    status = status != OR_OK ? status : or_checkpoint_read_text(checkpoint, "merges.txt", &merges);
    status = status != OR_OK ? status
                             : or_checkpoint_read(checkpoint, "added_tokens.json", &files->added);
    status = status != OR_OK ? status
                             : or_checkpoint_read(checkpoint, "special_tokens_map.json", &roles);
    if (status == OR_OK && vocab != NULL && merges != NULL) {
        const or_bpe_files_t bpe = {.vocab = vocab,
                                    .merges = merges,
                                    .added = {"added_tokens.json", files->added},
                                    .settings = files->settings,
                                    .roles = roles};
        status = or_fail_context(or_hf_read_bpe_files(&bpe, &files->tokenizer), "%s",
                                 or_checkpoint_folder(checkpoint));
    } else if (status == OR_OK) {
        status =
            or_fail(OR_ERR_UNSUPPORTED,
                    "%s has neither tokenizer.json nor tokenizer.model nor tiktoken.model nor "
                    "both vocab.json and merges.txt, and other forms of tokenizers are not read",
                    or_checkpoint_folder(checkpoint));
    }
    free(merges);
    json_decref(vocab);
    json_decref(roles);
    return status;
}

static or_status_t read_tiktoken(const or_checkpoint_t *checkpoint, tokenizer_files_t *files)
{
    void *bytes = NULL;
    size_t size = 0;
    or_status_t status = or_checkpoint_read_bytes(checkpoint, "tiktoken.model", &bytes, &size);
    if (status == OR_OK && bytes == NULL) {
        return read_bpe_files(checkpoint, files);
    }
    const or_json_t settings = {"tokenizer_config.json", files->settings};
    status = status != OR_OK
                 ? status
                 : or_fail_context(or_hf_read_tiktoken(bytes, size, settings, &files->tokenizer),
                                   "%s", or_checkpoint_folder(checkpoint));
    free(bytes);
    return status;
}

static or_status_t read_model(const or_checkpoint_t *checkpoint, tokenizer_files_t *files)
{
    size_t size = 0;
    or_status_t status =
        or_checkpoint_read_bytes(checkpoint, "tokenizer.model", &files->model_bytes, &size);
    if (status == OR_OK && files->model_bytes == NULL) {
        return read_tiktoken(checkpoint, files);
    }
    status = status != OR_OK
                 ? status
                 : or_fail_context(or_sentencepiece_read(files->model_bytes, size, &files->model),
                                   "%s/tokenizer.model", or_checkpoint_folder(checkpoint));
    return status != OR_OK ? status
                           : or_checkpoint_read(checkpoint, "added_tokens.json", &files->added);
}

static or_status_t read_tokenizer(const or_checkpoint_t *checkpoint, tokenizer_files_t *files)
{
    or_status_t status = or_checkpoint_read(checkpoint, "tokenizer.json", &files->tokenizer);
    status = status != OR_OK
                 ? status
                 : or_checkpoint_read(checkpoint, "tokenizer_config.json", &files->settings);
    if (status == OR_OK && files->tokenizer == NULL) {
        status = read_model(checkpoint, files);
    }
    status = status != OR_OK
                 ? status
                 : or_checkpoint_read(checkpoint, "generation_config.json", &files->generation);
    return status != OR_OK
               ? status
               : or_checkpoint_read_text(checkpoint, "chat_template.jinja", &files->chat_template);
}

static void free_tokenizer(tokenizer_files_t *files)
{
    or_sentencepiece_fini(&files->model);
    free(files->model_bytes);
    free(files->chat_template);
    json_decref(files->added);
    json_decref(files->generation);
    json_decref(files->settings);
    json_decref(files->tokenizer);
}

static or_status_t write_vocabulary(const convert_t *convert)
{
    tokenizer_files_t files = {0};
    or_status_t status = read_tokenizer(convert->checkpoint, &files);
    if (status == OR_OK) {
        const or_hf_tokenizer_t from = {.tokenizer = {"tokenizer.json", files.tokenizer},
                                        .sentencepiece =
                                            files.tokenizer == NULL ? &files.model : NULL,
                                        .added = {"added_tokens.json", files.added},
                                        .settings = {"tokenizer_config.json", files.settings},
                                        .config = or_checkpoint_config(convert->checkpoint),
                                        .text = convert->config.text,
                                        .generation = {"generation_config.json", files.generation},
                                        .chat_template = files.chat_template,
                                        .size = convert->config.shape.vocab_size,
                                        .keeps_merges = convert->config.family->keeps_merges};
        status = or_fail_context(or_hf_vocabulary_write(&from, convert->writer), "%s",
                                 convert->job->folder);
    }
    free_tokenizer(&files);
    return status;
}

// The type that is told for the file: the one asked for, or that of the embedding, the first tensor.
static or_status_t write_type(const convert_t *convert)
{
    if (convert->job->vocabulary_only) {
        return OR_OK;
    }
    return or_weight_type_describe(convert->job->type != NULL ? *convert->job->type
                                                              : convert->plan.items[0].type,
                                   convert->writer);
}

// ---- all of it ----

static or_status_t run(convert_t *convert)
{
    const or_convert_job_t *job = convert->job;
    or_status_t status = or_weight_writer_check_path(NULL, job->out, job->force);
    status = status != OR_OK
                 ? status
                 : or_checkpoint_open(job->folder, !job->vocabulary_only, &convert->checkpoint);
    status = status != OR_OK ? status : or_gguf_writer_create(job->out, &convert->writer);
    status = status != OR_OK ? status
                             : or_hf_config_read(or_checkpoint_config(convert->checkpoint),
                                                 convert->writer, &convert->config);
    status = status != OR_OK ? status : write_name(convert);
    status = status != OR_OK ? status : write_vocabulary(convert);
    status = status == OR_OK && !job->vocabulary_only ? plan_tensors(convert) : status;
    status = status != OR_OK ? status : write_type(convert);
    return status != OR_OK ? status : write_tensors(convert);
}

or_status_t or_convert(const or_convert_job_t *job, or_convert_result_t *result)
{
    convert_t convert = {.job = job};
    or_status_t status = run(&convert);
    if (status == OR_OK) {
        *result = (or_convert_result_t){.tensors = convert.plan.count,
                                        .file_bytes = or_gguf_writer_file_bytes(convert.writer)};
        memcpy(result->architecture, convert.config.shape.architecture,
               sizeof result->architecture);
        for (uint64_t i = 0; i < convert.plan.count; i++) {
            const or_convert_item_t *item = &convert.plan.items[i];
            result->parameters += (uint64_t)item->rows * item->width * item->matrices;
        }
    }
    or_convert_plan_fini(&convert.plan);
    or_hf_config_fini(&convert.config);
    or_gguf_writer_destroy(&convert.writer);
    or_checkpoint_close(&convert.checkpoint);
    return status;
}
