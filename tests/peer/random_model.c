// random-model - a model of any size, of one of a few families, whose weights are random, for measuring speed: what it
// writes is noise.
//
//     random-model --like launch/models/tales-6m-f16.gguf --type Q8_0 --layers 18 OUT
//
// Shapes of models that people run, each with its own words:
//
//     Qwen3-8B         --family qwen3 --type Q4_K --width 4096 --layers 36 --heads 32 --kv-heads 8 --head-dim 128 --ffn 12288
//                      --context 40960 --like ../shared/data/vocab/qwen2.gguf
//     Gemma-3-12B      --family gemma3 --type Q4_K --width 3840 --layers 48 --heads 16 --kv-heads 8 --head-dim 256 --ffn 15360
//                      --window 1024 --context 131072 --like ../shared/data/vocab/qwen2.gguf
//     Qwen3-30B-A3B    --family qwen3moe --type Q4_K --width 2048 --layers 48 --heads 32 --kv-heads 4 --head-dim 128 --experts 128
//                      --experts-used 8 --ffn 768 --context 40960 --like ...
//     gpt-oss-20b      --family gpt-oss --type MXFP4 --width 2880 --layers 24 --heads 64 --kv-heads 8 --head-dim 64 --experts 32
//                      --experts-used 4 --ffn 2880 --window 128 --context 131072 --like ...
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
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// What a family's layers have besides attention and a feed-forward part.
typedef struct {
    const char *name;
    bool experts;
    bool head_norms; // of queries and keys
    bool post_norms; // behind attention and behind the feed-forward part
    bool gpt_oss;    // its biases and sinks
    bool tied;       // no head of its own
} family_t;

static const family_t families[] = {
    {.name = "llama"},
    {.name = "qwen3", .head_norms = true},
    {.name = "gemma3", .head_norms = true, .post_norms = true, .tied = true},
    {.name = "qwen3moe", .experts = true, .head_norms = true},
    {.name = "gpt-oss", .experts = true, .gpt_oss = true},
};

typedef struct {
    char *like, *type, *family;
    uint32_t width, layers, heads, head_dim, kv_heads, ffn, experts, experts_used, window, context;
    uint64_t seed;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"like", NULL, OR_OPTION_STRING, AT(like), "FILE", "whose tokenizer it gets (GGUF)"},
    {"family", NULL, OR_OPTION_STRING, AT(family), "NAME",
     "llama, qwen3, gemma3, qwen3moe or gpt-oss"},
    {"type", NULL, OR_OPTION_STRING, AT(type), "TYPE", "of all matrices, as Q8_0"},
    {"width", NULL, OR_OPTION_UINT32, AT(width), "N", "of the residual stream"},
    {"layers", NULL, OR_OPTION_UINT32, AT(layers), "N", "blocks"},
    {"heads", NULL, OR_OPTION_UINT32, AT(heads), "N", "query heads"},
    {"kv-heads", NULL, OR_OPTION_UINT32, AT(kv_heads), "N", "key and value heads"},
    {"head-dim", NULL, OR_OPTION_UINT32, AT(head_dim), "N", "of a head; 0: the width's part of it"},
    {"ffn", NULL, OR_OPTION_UINT32, AT(ffn), "N",
     "hidden columns of the feed-forward part, or of each expert"},
    {"experts", NULL, OR_OPTION_UINT32, AT(experts), "N", "of a layer, in families that have some"},
    {"experts-used", NULL, OR_OPTION_UINT32, AT(experts_used), "N", "that a row takes"},
    {"window", NULL, OR_OPTION_UINT32, AT(window), "N", "positions that a layer with one sees"},
    {"context", NULL, OR_OPTION_UINT32, AT(context), "N", "positions it claims to know"},
    {"seed", NULL, OR_OPTION_UINT64, AT(seed), "N", "of the weights"},
    {0}};

static const or_option_program_t program = {
    .program = "random-model",
    .summary = "write a GGUF of any size with random weights",
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
    const family_t *family;
    or_gguf_writer_t *writer;
    or_tensor_type_t type;
    or_quant_t quant; // NO_QUANT: F32, F16 or BF16
    uint64_t random;
    uint32_t vocab_size;
    pool_t wide, deep, heads; // rows of the width, of the FFN, and of all heads together
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

// Write units of IQ2 or IQ3. No encoder finds places in their grids, but any bits are some: the random ones of the values.
static void write_any_units(or_quant_t quant, const float *values, uint32_t units, uint8_t *row)
{
    uint32_t bytes = or_quant_file_bytes(quant);
    uint16_t scale = or_f32_to_f16(1e-4f);
    for (uint32_t i = 0; i < units * bytes; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i / bytes * 256 + i % bytes], sizeof bits);
        row[i] = (uint8_t)(bits >> 3);
    }
    for (uint32_t u = 0; u < units; u++) {
        memcpy(row + (size_t)u * bytes, &scale, sizeof scale);
    }
}

static void write_row(const maker_t *maker, const float *values, uint32_t columns, uint8_t *row)
{
    if (maker->quant != NO_QUANT && maker->quant >= OR_QUANT_ENCODED) {
        write_any_units(maker->quant, values, columns / or_gguf_tensor_block(maker->type).elements,
                        row);
    } else if (maker->quant != NO_QUANT) {
        uint32_t unit = or_quant_unit_blocks(maker->quant) * OR_QUANT_BLOCK;
        or_quant_encode(maker->quant, values, NULL, columns / unit, row);
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

// `matrices` of a shape, in one tensor, or so many vectors; 0: the tensor is one.
typedef or_status_t (*visit_t)(maker_t *maker, const char *name, uint32_t columns, uint32_t rows,
                               uint32_t matrices);

// Vectors have one row.
static or_status_t declare(maker_t *maker, const char *name, uint32_t columns, uint32_t rows,
                           uint32_t matrices)
{
    const bool vector = rows == 1;
    const uint64_t dims[] = {columns, vector ? matrices : rows, matrices};
    const uint32_t dim_count = (vector ? 1 : 2) + (matrices > 0 ? 1 : 0);
    const or_gguf_string_t text = {name, strlen(name)};
    return or_gguf_writer_add_tensor(maker->writer, text, dim_count, dims,
                                     vector ? OR_TENSOR_F32 : maker->type);
}

static or_status_t write_data(maker_t *maker, const char *name, uint32_t columns, uint32_t rows,
                              uint32_t matrices)
{
    const pool_t *pool = columns == maker->deep.columns   ? &maker->deep
                         : columns == maker->wide.columns ? &maker->wide
                                                          : &maker->heads;
    const uint64_t all_rows = (uint64_t)rows * (matrices > 0 ? matrices : 1);
    const float one = 1;
    or_status_t status = OR_OK;
    (void)name;
    for (uint64_t i = 0; status == OR_OK && rows == 1 && i < columns * all_rows; i++) {
        status = or_gguf_writer_put(maker->writer, &one, sizeof one);
    }
    for (uint64_t i = 0; status == OR_OK && rows > 1 && i < all_rows; i++) {
        const uint8_t *row = pool->rows + next(maker) % POOL_ROWS * pool->row_bytes;
        status = or_gguf_writer_put(maker->writer, row, pool->row_bytes);
    }
    return status;
}

typedef struct {
    const char *name;
    uint32_t columns, rows, matrices;
} tensor_t;

static or_status_t visit_tensors(maker_t *maker, visit_t visit, uint32_t layer,
                                 const tensor_t *tensors, size_t count)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", layer, tensors[i].name);
        status = visit(maker, name, tensors[i].columns, tensors[i].rows, tensors[i].matrices);
    }
    return status;
}

static or_status_t visit_layer(maker_t *maker, visit_t visit, uint32_t layer)
{
    const config_t *c = maker->config;
    const uint32_t query = c->head_dim * c->heads, kv = c->head_dim * c->kv_heads;
    const tensor_t attention[] = {
        {"attn_norm.weight", c->width, 1, 0},       {"attn_q.weight", c->width, query, 0},
        {"attn_k.weight", c->width, kv, 0},         {"attn_v.weight", c->width, kv, 0},
        {"attn_output.weight", query, c->width, 0},
    };
    const tensor_t dense[] = {
        {"ffn_gate.weight", c->width, c->ffn, 0},
        {"ffn_up.weight", c->width, c->ffn, 0},
        {"ffn_down.weight", c->ffn, c->width, 0},
    };
    const tensor_t experts[] = {
        {"ffn_gate_inp.weight", c->width, c->experts, 0},
        {"ffn_gate_exps.weight", c->width, c->ffn, c->experts},
        {"ffn_up_exps.weight", c->width, c->ffn, c->experts},
        {"ffn_down_exps.weight", c->ffn, c->width, c->experts},
    };
    const tensor_t ffn_norm[] = {{"ffn_norm.weight", c->width, 1, 0}};
    const tensor_t head_norms[] = {
        {"attn_q_norm.weight", c->head_dim, 1, 0},
        {"attn_k_norm.weight", c->head_dim, 1, 0},
    };
    const tensor_t post_norms[] = {
        {"post_attention_norm.weight", c->width, 1, 0},
        {"post_ffw_norm.weight", c->width, 1, 0},
    };
    const tensor_t gpt_oss[] = {
        {"post_attention_norm.weight", c->width, 1, 0},
        {"attn_sinks.weight", c->heads, 1, 0},
        {"attn_q.bias", query, 1, 0},
        {"attn_k.bias", kv, 1, 0},
        {"attn_v.bias", kv, 1, 0},
        {"attn_output.bias", c->width, 1, 0},
        {"ffn_gate_inp.bias", c->experts, 1, 0},
        {"ffn_gate_exps.bias", c->ffn, 1, c->experts},
        {"ffn_up_exps.bias", c->ffn, 1, c->experts},
        {"ffn_down_exps.bias", c->width, 1, c->experts},
    };
    const family_t *f = maker->family;
    const struct {
        bool there;
        const tensor_t *tensors;
        size_t count;
    } parts[] = {
        {true, attention, COUNT(attention)},
        {!f->experts, dense, COUNT(dense)},
        {f->experts, experts, COUNT(experts)},
        {!f->gpt_oss, ffn_norm, COUNT(ffn_norm)},
        {f->head_norms, head_norms, COUNT(head_norms)},
        {f->post_norms, post_norms, COUNT(post_norms)},
        {f->gpt_oss, gpt_oss, COUNT(gpt_oss)},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < COUNT(parts); i++) {
        status = parts[i].there
                     ? visit_tensors(maker, visit, layer, parts[i].tensors, parts[i].count)
                     : OR_OK;
    }
    return status;
}

static or_status_t visit_all(maker_t *maker, visit_t visit)
{
    uint32_t width = maker->config->width;
    or_status_t status = visit(maker, "token_embd.weight", width, maker->vocab_size, 0);
    for (uint32_t i = 0; status == OR_OK && i < maker->config->layers; i++) {
        status = visit_layer(maker, visit, i);
    }
    if (status == OR_OK) {
        status = visit(maker, "output_norm.weight", width, 1, 0);
    }
    return status != OR_OK || maker->family->tied
               ? status
               : visit(maker, "output.weight", width, maker->vocab_size, 0);
}

// ---- metadata ----

static or_status_t write_metadata(maker_t *maker, const or_gguf_t *like)
{
    const config_t *c = maker->config;
    const struct {
        const char *suffix;
        uint32_t value; // 0: there is no such key
    } numbers[] = {
        {"context_length", c->context},
        {"embedding_length", c->width},
        {"block_count", c->layers},
        {"feed_forward_length", c->ffn},
        {"expert_feed_forward_length", maker->family->experts ? c->ffn : 0},
        {"expert_count", c->experts},
        {"expert_used_count", c->experts_used},
        {"attention.head_count", c->heads},
        {"attention.head_count_kv", c->kv_heads},
        {"attention.sliding_window", c->window},
        {"attention.key_length", c->head_dim},
        {"attention.value_length", c->head_dim},
        {"rope.dimension_count", c->head_dim},
        {"vocab_size", maker->vocab_size},
    };
    const char *name = maker->family->name;
    char key[64];
    or_gguf_writer_t *writer = maker->writer;
    or_status_t status = or_gguf_writer_copy(writer, like);
    or_gguf_writer_drop(writer, "general.file_type");
    if (status == OR_OK) {
        status = or_gguf_writer_set_string(writer, "general.architecture", name);
    }
    if (status == OR_OK) {
        status = or_gguf_writer_set_string(writer, "general.name", "random weights, for timing");
    }
    for (size_t i = 0; status == OR_OK && i < COUNT(numbers); i++) {
        snprintf(key, sizeof key, "%s.%s", name, numbers[i].suffix);
        status =
            numbers[i].value == 0 ? OR_OK : or_gguf_writer_set_u32(writer, key, numbers[i].value);
    }
    if (status == OR_OK) {
        snprintf(key, sizeof key, "%s.rope.freq_base", name);
        status = or_gguf_writer_set_f32(writer, key, 10000);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", name);
    return status != OR_OK ? status : or_gguf_writer_set_f32(writer, key, 1e-5f);
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

static or_status_t find_family(const char *name, maker_t *maker)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (strcmp(name, families[i].name) == 0) {
            maker->family = &families[i];
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "--family: '%s' is none of those that --help lists", name);
}

static or_status_t check(const config_t *c, const family_t *family, const or_option_list_t *words)
{
    if (c->like == NULL || words->count != 1) {
        return or_fail(OR_ERR_INVALID, "--like FILE and one OUT are needed");
    }
    if (c->heads == 0 || c->kv_heads == 0 || c->width % c->heads != 0 ||
        c->heads % c->kv_heads != 0) {
        return or_fail(OR_ERR_INVALID, "heads must divide the width, and --kv-heads the --heads");
    }
    if (family->experts != (c->experts > 0)) {
        return or_fail(OR_ERR_INVALID, "%s %s --experts", family->name,
                       family->experts ? "needs" : "has no");
    }
    return c->experts_used <= c->experts
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "--experts-used is more than --experts");
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
        const uint32_t heads = maker->config->head_dim * maker->config->heads;
        status = make_pool(maker, heads, &maker->heads);
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
    free(maker->heads.rows);
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
        status = find_family(config.family != NULL ? config.family : "llama", &maker);
    }
    if (status == OR_OK) {
        status = check(&config, maker.family, &words);
    }
    if (status == OR_OK && config.head_dim == 0) {
        config.head_dim = config.width / config.heads;
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
