// random-model - a Llama of any size whose weights are random, for measuring speed: what it writes is noise.
//
//     random-model --like launch/models/tales-6m-f16.gguf --type Q8_0 --layers 18 OUT
//
// The tokenizer is that of --like. Matrices are made of a few hundred different rows, normal numbers as a
// model's are, in random order; vectors are ones. Nobody's arithmetic gets cheaper by that.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/options/options.h"
#include "common/gguf/gguf_writer.h"
#include "kernels/kernels.h"

#define POOL_ROWS 256u
#define TYPES_MOST 256u
#define NO_QUANT OR_QUANT_TYPES

typedef struct {
    char *like, *type;
    uint32_t width, layers, heads, kv_heads, ffn, context;
    uint64_t seed;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"like", NULL, OR_OPTION_STRING, AT(like), "FILE", "whose tokenizer it gets (GGUF)"},
    {"type", NULL, OR_OPTION_STRING, AT(type), "TYPE", "of all matrices, as Q8_0"},
    {"width", NULL, OR_OPTION_UINT32, AT(width), "N", "of the residual stream"},
    {"layers", NULL, OR_OPTION_UINT32, AT(layers), "N", "blocks"},
    {"heads", NULL, OR_OPTION_UINT32, AT(heads), "N", "query heads"},
    {"kv-heads", NULL, OR_OPTION_UINT32, AT(kv_heads), "N", "key and value heads"},
    {"ffn", NULL, OR_OPTION_UINT32, AT(ffn), "N", "hidden columns of the feed-forward part"},
    {"context", NULL, OR_OPTION_UINT32, AT(context), "N", "positions it claims to know"},
    {"seed", NULL, OR_OPTION_UINT64, AT(seed), "N", "of the weights"},
    {0}};

static const or_option_program_t program = {
    .program = "random-model",
    .summary = "write a Llama-shaped GGUF with random weights",
    .usage = "--like FILE [options] OUT",
    .table = table,
};

// Rows of one length.
typedef struct {
    uint32_t columns;
    size_t row_bytes;
    uint8_t *rows; // [POOL_ROWS][row_bytes]
} pool_t;

typedef struct {
    const config_t *config;
    or_gguf_writer_t *writer;
    or_tensor_type_t type;
    or_quant_t quant; // NO_QUANT: F32, F16 or BF16
    uint64_t random;
    uint32_t vocab_size;
    pool_t wide, deep; // rows of the width, and of the FFN
} maker_t;

// ---- numbers ----

// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014).
static uint64_t next(maker_t *maker)
{
    uint64_t z = maker->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

// Nearly normal, of variance 1: the sum of twelve uniform ones.
static float normal(maker_t *maker)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += (double)(next(maker) >> 11) * 0x1p-53;
    }
    return (float)sum;
}

// ---- rows ----

static void write_row(const maker_t *maker, const float *values, uint32_t columns, uint8_t *row)
{
    if (maker->quant != NO_QUANT) {
        uint32_t unit = or_quant_unit_blocks(maker->quant) * OR_QUANT_BLOCK;
        or_quant_encode(maker->quant, values, columns / unit, row);
    } else if (maker->type == OR_TENSOR_F32) {
        memcpy(row, values, columns * sizeof *values);
    } else {
        for (uint32_t i = 0; i < columns; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            uint16_t half =
                maker->type == OR_TENSOR_F16 ? or_f32_to_f16(values[i]) : (uint16_t)(bits >> 16);
            memcpy(row + i * sizeof half, &half, sizeof half);
        }
    }
}

static or_status_t make_pool(maker_t *maker, uint32_t columns, pool_t *pool)
{
    or_tensor_block_t block = or_gguf_tensor_block(maker->type);
    if (columns % block.elements != 0) {
        return or_fail(OR_ERR_INVALID, "rows of %u are no whole blocks of %s", columns,
                       or_gguf_tensor_type_name(maker->type));
    }
    pool->columns = columns;
    pool->row_bytes = (size_t)(columns / block.elements * block.bytes);
    pool->rows = malloc(POOL_ROWS * pool->row_bytes);
    float *values = malloc(columns * sizeof *values);
    if (pool->rows == NULL || values == NULL) {
        free(values);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u rows", POOL_ROWS);
    }
    float deviation = 1 / sqrtf((float)columns); // activations keep their size
    for (uint32_t i = 0; i < POOL_ROWS; i++) {
        for (uint32_t j = 0; j < columns; j++) {
            values[j] = deviation * normal(maker);
        }
        write_row(maker, values, columns, pool->rows + i * pool->row_bytes);
    }
    free(values);
    return OR_OK;
}

// ---- tensors: visited twice, for the table and for the data ----

typedef or_status_t (*visit_t)(maker_t *maker, const char *name, uint32_t columns, uint32_t rows);

// Vectors have one row.
static or_status_t declare(maker_t *maker, const char *name, uint32_t columns, uint32_t rows)
{
    const uint64_t dims[] = {columns, rows};
    const or_gguf_string_t text = {name, strlen(name)};
    bool vector = rows == 1;
    return or_gguf_writer_add_tensor(maker->writer, text, vector ? 1 : 2, dims,
                                     vector ? OR_TENSOR_F32 : maker->type);
}

static or_status_t write_data(maker_t *maker, const char *name, uint32_t columns, uint32_t rows)
{
    const pool_t *pool = columns == maker->deep.columns ? &maker->deep : &maker->wide;
    const float one = 1;
    or_status_t status = OR_OK;
    (void)name;
    for (uint32_t i = 0; status == OR_OK && rows == 1 && i < columns; i++) {
        status = or_gguf_writer_put(maker->writer, &one, sizeof one);
    }
    for (uint32_t i = 0; status == OR_OK && rows > 1 && i < rows; i++) {
        const uint8_t *row = pool->rows + next(maker) % POOL_ROWS * pool->row_bytes;
        status = or_gguf_writer_put(maker->writer, row, pool->row_bytes);
    }
    return status;
}

static or_status_t visit_layer(maker_t *maker, visit_t visit, uint32_t layer)
{
    const config_t *c = maker->config;
    const uint32_t kv = c->width / c->heads * c->kv_heads;
    const struct {
        const char *name;
        uint32_t columns, rows;
    } tensors[] = {
        {"attn_norm", c->width, 1},
        {"attn_q", c->width, c->width},
        {"attn_k", c->width, kv},
        {"attn_v", c->width, kv},
        {"attn_output", c->width, c->width},
        {"ffn_norm", c->width, 1},
        {"ffn_gate", c->width, c->ffn},
        {"ffn_up", c->width, c->ffn},
        {"ffn_down", c->ffn, c->width},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        status = visit(maker, name, tensors[i].columns, tensors[i].rows);
    }
    return status;
}

static or_status_t visit_all(maker_t *maker, visit_t visit)
{
    uint32_t width = maker->config->width;
    or_status_t status = visit(maker, "token_embd.weight", width, maker->vocab_size);
    for (uint32_t i = 0; status == OR_OK && i < maker->config->layers; i++) {
        status = visit_layer(maker, visit, i);
    }
    if (status == OR_OK) {
        status = visit(maker, "output_norm.weight", width, 1);
    }
    return status == OR_OK ? visit(maker, "output.weight", width, maker->vocab_size) : status;
}

// ---- metadata ----

static or_status_t write_metadata(maker_t *maker, const or_gguf_t *like)
{
    const config_t *c = maker->config;
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", c->context},
        {"llama.embedding_length", c->width},
        {"llama.block_count", c->layers},
        {"llama.feed_forward_length", c->ffn},
        {"llama.attention.head_count", c->heads},
        {"llama.attention.head_count_kv", c->kv_heads},
        {"llama.rope.dimension_count", c->width / c->heads},
        {"llama.vocab_size", maker->vocab_size},
    };
    or_gguf_writer_t *writer = maker->writer;
    or_status_t status = or_gguf_writer_copy(writer, like);
    or_gguf_writer_drop(writer, "general.file_type");
    if (status == OR_OK) {
        status = or_gguf_writer_set_string(writer, "general.architecture", "llama");
    }
    if (status == OR_OK) {
        status = or_gguf_writer_set_string(writer, "general.name", "random weights, for timing");
    }
    for (size_t i = 0; status == OR_OK && i < sizeof numbers / sizeof numbers[0]; i++) {
        status = or_gguf_writer_set_u32(writer, numbers[i].key, numbers[i].value);
    }
    if (status == OR_OK) {
        status = or_gguf_writer_set_f32(writer, "llama.rope.freq_base", 10000);
    }
    return status != OR_OK
               ? status
               : or_gguf_writer_set_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

// ---- the program ----

static or_status_t find_type(const char *name, maker_t *maker)
{
    for (uint32_t type = 0; type < TYPES_MOST; type++) {
        if (or_gguf_tensor_block(type).bytes > 0 &&
            strcasecmp(name, or_gguf_tensor_type_name(type)) == 0) {
            maker->type = (or_tensor_type_t)type;
            maker->quant = OR_QUANT_Q8_0;
            while (maker->quant != NO_QUANT && strcasecmp(name, or_quant_name(maker->quant)) != 0) {
                maker->quant++;
            }
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID,
                   "--type: '%s' is none; 'outrider model inspect --kernels' lists them", name);
}

static or_status_t check(const config_t *c, const or_option_list_t *words)
{
    if (c->like == NULL || words->count != 1) {
        return or_fail(OR_ERR_INVALID, "--like FILE and one OUT are needed");
    }
    if (c->heads == 0 || c->kv_heads == 0 || c->width % c->heads != 0 ||
        c->heads % c->kv_heads != 0) {
        return or_fail(OR_ERR_INVALID, "heads must divide the width, and --kv-heads the --heads");
    }
    return OR_OK;
}

static or_status_t make(maker_t *maker, const or_gguf_t *like, const char *out)
{
    or_gguf_array_t tokens;
    or_status_t status = or_gguf_get_array(like, "tokenizer.ggml.tokens", OR_GGUF_STRING, &tokens);
    if (status == OR_OK) {
        maker->vocab_size = (uint32_t)tokens.count;
        status = make_pool(maker, maker->config->width, &maker->wide);
    }
    if (status == OR_OK) {
        status = make_pool(maker, maker->config->ffn, &maker->deep);
    }
    if (status == OR_OK) {
        status = or_gguf_writer_create(out, &maker->writer);
    }
    if (status == OR_OK) {
        status = write_metadata(maker, like);
    }
    if (status == OR_OK) {
        status = visit_all(maker, declare);
    }
    if (status == OR_OK) {
        status = or_gguf_writer_begin(maker->writer);
    }
    if (status == OR_OK) {
        status = visit_all(maker, write_data);
    }
    if (status == OR_OK) {
        status = or_gguf_writer_finish(maker->writer);
    }
    or_gguf_writer_destroy(&maker->writer);
    free(maker->wide.rows);
    free(maker->deep.rows);
    return status;
}

int main(int argc, char **argv)
{
    config_t config = {.width = 2048,
                       .layers = 22,
                       .heads = 32,
                       .kv_heads = 4,
                       .ffn = 5632,
                       .context = 4096,
                       .seed = 1};
    or_option_list_t words = {0};
    or_options_next_t next_step;
    or_gguf_t *like = NULL;
    or_status_t status = or_options_parse(&program, argc, argv, &config, &words, &next_step);
    if (status == OR_OK && next_step == OR_OPTIONS_EXIT) {
        return 0;
    }
    maker_t maker = {.config = &config, .random = config.seed};
    if (status == OR_OK) {
        status = check(&config, &words);
    }
    if (status == OR_OK) {
        status = find_type(config.type != NULL ? config.type : "Q8_0", &maker);
    }
    if (status == OR_OK) {
        status = or_gguf_open(config.like, &like);
    }
    if (status == OR_OK) {
        status = make(&maker, like, words.items[0]);
    }
    if (status != OR_OK) {
        fprintf(stderr, "random-model: %s\n", or_error_text());
    }
    or_gguf_close(&like);
    or_options_free(&program, &config, &words);
    return status == OR_OK ? 0 : 1;
}
