// Goal: no file of any family, whatever its metadata and shapes say, crashes the loader or a pass of the model; and its bits do not
// depend on kernels and passes.
// Method: the input chooses a recipe of tests/families/data, which is a file up to its tensors' data, and edits it: a
// value, a key, a tensor's shape or type, or one number wherever it stands, so that shapes go on fitting each other.
// Then the file is laid out again with data that fit its table.
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf.h"
#include "tests/fuzz/built_model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/given_files.h"

#define RECIPES FAMILIES_FOLDER "/*/[01].gguf-head" // FAMILIES_FOLDER: CMakeLists.txt
#define HEAD_BYTES_MAX (1u << 16)
#define FILE_BYTES_MAX (8u << 20)
#define PARAMETERS_MAX (1u << 20)
#define ENTRIES_MAX 64u
#define TENSORS_MAX 512u
#define ALIGNMENT 32u
#define EDITS_MAX 8u

// ---- a recipe ----

typedef struct {
    const uint8_t *key; // with its length before it
    size_t key_bytes;
    uint32_t type; // or_gguf_type_t
    const uint8_t *value;
    size_t value_bytes;
    uint64_t edited; // the value, if `value` is NULL
} entry_t;

typedef struct {
    const uint8_t *name; // with its length before it
    size_t name_bytes;
    uint32_t dim_count;
    uint64_t dims[4];
    uint32_t type;
} tensor_t;

typedef struct {
    uint8_t head[HEAD_BYTES_MAX];
    entry_t entries[ENTRIES_MAX];
    tensor_t tensors[TENSORS_MAX];
    size_t entry_count, tensor_count;
} recipe_t;

static size_t size_of(uint32_t type)
{
    static const uint8_t sizes[] = {
        [OR_GGUF_U8] = 1,  [OR_GGUF_I8] = 1,  [OR_GGUF_U16] = 2, [OR_GGUF_I16] = 2,
        [OR_GGUF_U32] = 4, [OR_GGUF_I32] = 4, [OR_GGUF_F32] = 4, [OR_GGUF_BOOL] = 1,
        [OR_GGUF_U64] = 8, [OR_GGUF_I64] = 8, [OR_GGUF_F64] = 8,
    };
    return type < sizeof sizes ? sizes[type] : 0;
}

static uint32_t take_u32(const uint8_t **at)
{
    uint32_t number;
    memcpy(&number, *at, sizeof number);
    *at += sizeof number;
    return number;
}

static uint64_t take_u64(const uint8_t **at)
{
    uint64_t number;
    memcpy(&number, *at, sizeof number);
    *at += sizeof number;
    return number;
}

static void skip_string(const uint8_t **at)
{
    uint64_t length = take_u64(at);
    *at += length;
}

static void skip_value(const uint8_t **at, uint32_t type)
{
    if (type == OR_GGUF_STRING) {
        skip_string(at);
        return;
    }
    if (type != OR_GGUF_ARRAY) {
        *at += size_of(type);
        return;
    }
    uint32_t element = take_u32(at);
    uint64_t count = take_u64(at);
    for (uint64_t i = 0; i < count; i++) {
        skip_value(at, element);
    }
}

static entry_t take_entry(const uint8_t **at)
{
    entry_t entry = {.key = *at};
    skip_string(at);
    entry.key_bytes = (size_t)(*at - entry.key);
    entry.type = take_u32(at);
    entry.value = *at;
    skip_value(at, entry.type);
    entry.value_bytes = (size_t)(*at - entry.value);
    return entry;
}

static tensor_t take_tensor(const uint8_t **at)
{
    tensor_t tensor = {.name = *at};
    skip_string(at);
    tensor.name_bytes = (size_t)(*at - tensor.name);
    tensor.dim_count = take_u32(at);
    for (uint32_t i = 0; i < tensor.dim_count; i++) {
        tensor.dims[i] = take_u64(at);
    }
    tensor.type = take_u32(at);
    (void)take_u64(at); // the offset follows from the order
    return tensor;
}

// Read a recipe, which is a file of our own: it is well-formed.
static void read_recipe(const char *path, recipe_t *recipe)
{
    FILE *in = fopen(path, "rb");
    assert(in != NULL);
    size_t bytes = fread(recipe->head, 1, sizeof recipe->head, in);
    assert(bytes > 24 && bytes < sizeof recipe->head);
    fclose(in);
    const uint8_t *at = recipe->head + 8; // behind magic number and version
    recipe->tensor_count = take_u64(&at);
    recipe->entry_count = take_u64(&at);
    assert(recipe->tensor_count <= TENSORS_MAX && recipe->entry_count < ENTRIES_MAX - EDITS_MAX);
    for (size_t i = 0; i < recipe->entry_count; i++) {
        recipe->entries[i] = take_entry(&at);
    }
    for (size_t i = 0; i < recipe->tensor_count; i++) {
        recipe->tensors[i] = take_tensor(&at);
    }
}

// ---- edits ----

static uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

// Draw a number: one that is often on an edge, as an integer or as a float's bits, or any.
static uint64_t draw_number(fuzz_input_t *input)
{
    static const uint32_t edges[] = {
        0,  1,  2,  3,  7,  15, 16,  17,  31,  32,      33,         47,       48,
        63, 64, 65, 66, 96, 97, 127, 128, 256, 1 << 20, 0x7FFFFFFF, 1u << 31, UINT32_MAX};
    static const float floats[] = {NAN,    INFINITY, -INFINITY, 0,    -0.0f, 1,    -1,
                                   1e-45f, 1e-38f,   1e-6f,     0.5f, 32,    1e6f, 3e38f};
    uint32_t choice = fuzz_byte(input);
    const size_t edge_count = sizeof edges / sizeof *edges;
    const size_t float_count = sizeof floats / sizeof *floats;
    if (choice < edge_count) {
        return edges[choice];
    }
    if (choice < edge_count + float_count) {
        return bits_of(floats[choice - edge_count]);
    }
    uint64_t low = fuzz_number(input);
    return choice < 0xF0 ? low : low << 32 | fuzz_number(input);
}

static entry_t *draw_entry(recipe_t *recipe, fuzz_input_t *input)
{
    return &recipe->entries[fuzz_byte(input) % recipe->entry_count];
}

static tensor_t *draw_tensor(recipe_t *recipe, fuzz_input_t *input)
{
    return &recipe->tensors[fuzz_byte(input) % recipe->tensor_count];
}

static void set_entry(entry_t *entry, uint64_t number)
{
    if (entry->type != OR_GGUF_STRING && entry->type != OR_GGUF_ARRAY) {
        entry->value = NULL;
        entry->edited = number;
    }
}

static void edit_value(recipe_t *recipe, fuzz_input_t *input)
{
    entry_t *entry = draw_entry(recipe, input);
    set_entry(entry, draw_number(input));
}

static void edit_value_type(recipe_t *recipe, fuzz_input_t *input)
{
    entry_t *entry = draw_entry(recipe, input);
    uint32_t type = fuzz_byte(input) % (OR_GGUF_F64 + 1);
    if (size_of(type) > 0) {
        *entry =
            (entry_t){entry->key, entry->key_bytes, type, NULL, size_of(type), draw_number(input)};
    }
}

static void drop_entry(recipe_t *recipe, fuzz_input_t *input)
{
    if (recipe->entry_count > 1) {
        entry_t *entry = draw_entry(recipe, input);
        *entry = recipe->entries[--recipe->entry_count];
    }
}

static void edit_dim(recipe_t *recipe, fuzz_input_t *input)
{
    tensor_t *tensor = draw_tensor(recipe, input);
    tensor->dims[fuzz_byte(input) % tensor->dim_count] = draw_number(input);
}

static void edit_tensor_type(recipe_t *recipe, fuzz_input_t *input)
{
    tensor_t *tensor = draw_tensor(recipe, input);
    tensor->type = fuzz_byte(input) % 40;
}

// Give all matrices a type whose blocks fill their rows.
static void edit_all_tensor_types(recipe_t *recipe, fuzz_input_t *input)
{
    uint32_t type = fuzz_byte(input) % 40;
    or_tensor_block_t block = or_gguf_tensor_block(type);
    for (size_t i = 0; i < recipe->tensor_count; i++) {
        tensor_t *tensor = &recipe->tensors[i];
        bool fits = block.elements > 0 && tensor->dims[0] % block.elements == 0;
        tensor->type = tensor->dim_count > 1 && fits ? type : tensor->type;
    }
}

static void drop_tensor(recipe_t *recipe, fuzz_input_t *input)
{
    if (recipe->tensor_count > 1) {
        tensor_t *tensor = draw_tensor(recipe, input);
        *tensor = recipe->tensors[--recipe->tensor_count];
    }
}

// Exchange the names of two tensors.
static void exchange_names(recipe_t *recipe, fuzz_input_t *input)
{
    tensor_t *a = draw_tensor(recipe, input), *b = draw_tensor(recipe, input);
    const tensor_t kept = *a;
    a->name = b->name;
    a->name_bytes = b->name_bytes;
    b->name = kept.name;
    b->name_bytes = kept.name_bytes;
}

// Replace a dimension of some tensor by another number, in all shapes and in the metadata.
static void edit_everywhere(recipe_t *recipe, fuzz_input_t *input)
{
    tensor_t *tensor = draw_tensor(recipe, input);
    uint64_t from = tensor->dims[fuzz_byte(input) % tensor->dim_count];
    uint64_t to = draw_number(input);
    for (size_t i = 0; i < recipe->tensor_count; i++) {
        for (uint32_t d = 0; d < recipe->tensors[i].dim_count; d++) {
            uint64_t *dim = &recipe->tensors[i].dims[d];
            *dim = *dim == from ? to : *dim;
        }
    }
    for (size_t i = 0; i < recipe->entry_count; i++) {
        entry_t *entry = &recipe->entries[i];
        uint64_t value = 0;
        if (entry->type == OR_GGUF_U32 && entry->value != NULL) {
            memcpy(&value, entry->value, sizeof(uint32_t));
            if (value == from) {
                set_entry(entry, to);
            }
        }
    }
}

typedef struct {
    uint8_t bytes[128];
} made_key_t;

// Add a key that the recipe may lack, for its own architecture.
static void add_entry(recipe_t *recipe, fuzz_input_t *input)
{
    static const struct {
        const char *suffix;
        uint32_t type;
    } keys[] = {
        {"attention.sliding_window", OR_GGUF_U32},
        {"attention.head_count_kv", OR_GGUF_U32},
        {"attention.key_length", OR_GGUF_U32},
        {"attention.value_length", OR_GGUF_U32},
        {"attention.scale", OR_GGUF_F32},
        {"attn_logit_softcapping", OR_GGUF_F32},
        {"final_logit_softcapping", OR_GGUF_F32},
        {"logit_scale", OR_GGUF_F32},
        {"residual_scale", OR_GGUF_F32},
        {"embedding_scale", OR_GGUF_F32},
        {"rope.dimension_count", OR_GGUF_U32},
        {"rope.freq_base", OR_GGUF_F32},
        {"rope.freq_base_swa", OR_GGUF_F32},
        {"rope.scaling.factor", OR_GGUF_F32},
        {"rope.scaling.attn_factor", OR_GGUF_F32},
        {"rope.scaling.original_context_length", OR_GGUF_U32},
        {"rope.scaling.yarn_beta_fast", OR_GGUF_F32},
        {"rope.scaling.yarn_beta_slow", OR_GGUF_F32},
        {"expert_count", OR_GGUF_U32},
        {"vocab_size", OR_GGUF_U32},
    };
    static made_key_t made[ENTRIES_MAX];
    if (recipe->entry_count == ENTRIES_MAX) {
        return;
    }
    uint32_t k = fuzz_byte(input) % (sizeof keys / sizeof *keys);
    const entry_t *name = &recipe->entries[0]; // general.architecture
    uint8_t *bytes = made[recipe->entry_count].bytes;
    int length =
        name->type == OR_GGUF_STRING
            ? snprintf((char *)bytes + 8, sizeof made->bytes - 8, "%.*s.%s",
                       (int)(name->value_bytes - 8), (const char *)name->value + 8, keys[k].suffix)
            : 0;
    uint64_t count = (uint64_t)length;
    memcpy(bytes, &count, sizeof count);
    recipe->entries[recipe->entry_count++] = (entry_t){.key = bytes,
                                                       .key_bytes = 8 + (size_t)length,
                                                       .type = keys[k].type,
                                                       .value_bytes = 4,
                                                       .edited = draw_number(input)};
}

static void edit(recipe_t *recipe, fuzz_input_t *input)
{
    static void (*const edits[])(recipe_t *, fuzz_input_t *) = {
        edit_value,  edit_value_type,  drop_entry,
        edit_dim,    edit_tensor_type, edit_all_tensor_types,
        drop_tensor, exchange_names,   edit_everywhere,
        add_entry,
    };
    for (uint32_t i = 0; input->left > 0 && i < EDITS_MAX; i++) {
        edits[fuzz_byte(input) % (sizeof edits / sizeof *edits)](recipe, input);
    }
}

// ---- the file ----

typedef struct {
    uint8_t *bytes; // [FILE_BYTES_MAX]
    size_t count;   // at most that; beyond: it had no room
} file_t;

static void put(file_t *file, const void *bytes, size_t count)
{
    if (file->count + count <= FILE_BYTES_MAX && count > 0) {
        memcpy(file->bytes + file->count, bytes, count);
    }
    file->count = file->count + count <= FILE_BYTES_MAX ? file->count + count : FILE_BYTES_MAX + 1;
}

static void pad(file_t *file)
{
    static const uint8_t zeros[ALIGNMENT];
    put(file, zeros, (ALIGNMENT - file->count % ALIGNMENT) % ALIGNMENT);
}

static void put_entry(file_t *file, const entry_t *entry)
{
    put(file, entry->key, entry->key_bytes);
    put(file, &entry->type, sizeof entry->type);
    put(file, entry->value != NULL ? entry->value : (const uint8_t *)&entry->edited,
        entry->value_bytes);
}

// Return the bytes of a tensor's data; 0 if no file could have them.
static uint64_t data_bytes(const tensor_t *tensor)
{
    or_tensor_block_t block = or_gguf_tensor_block(tensor->type);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        if (__builtin_mul_overflow(elements, tensor->dims[i], &elements) ||
            elements > FILE_BYTES_MAX) {
            return 0;
        }
    }
    return block.bytes == 0 ? 0 : elements / block.elements * block.bytes;
}

// Put data, which are small floats if they are read as such.
static void put_data(file_t *file, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / sizeof(float) && file->count < FILE_BYTES_MAX; i++) {
        float number = (float)(i * 2654435761u % 1021) / 2048 - 0.25f;
        put(file, &number, sizeof number);
    }
    put(file, "\1\2\3", bytes % sizeof(float));
    pad(file);
}

static void lay_out(const recipe_t *recipe, file_t *file)
{
    uint64_t counts[] = {recipe->tensor_count, recipe->entry_count};
    uint64_t offset = 0;
    put(file, recipe->head, 8);
    put(file, counts, sizeof counts);
    for (size_t i = 0; i < recipe->entry_count; i++) {
        put_entry(file, &recipe->entries[i]);
    }
    for (size_t i = 0; i < recipe->tensor_count; i++) {
        const tensor_t *tensor = &recipe->tensors[i];
        put(file, tensor->name, tensor->name_bytes);
        put(file, &tensor->dim_count, sizeof tensor->dim_count);
        put(file, tensor->dims, tensor->dim_count * sizeof *tensor->dims);
        put(file, &tensor->type, sizeof tensor->type);
        put(file, &offset, sizeof offset);
        offset += (data_bytes(tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    pad(file);
    for (size_t i = 0; i < recipe->tensor_count; i++) {
        put_data(file, data_bytes(&recipe->tensors[i]));
    }
}

static const glob_t *recipes(void)
{
    static glob_t found;
    if (found.gl_pathc == 0) {
        int failed = glob(RECIPES, 0, NULL, &found);
        assert(failed == 0 && found.gl_pathc > 0 && found.gl_pathc <= UINT8_MAX + 1u);
    }
    return &found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static recipe_t recipe;
    static uint8_t bytes[FILE_BYTES_MAX];
    fuzz_input_t input = {data, size};
    file_t file = {bytes, 0};
    or_gguf_t *gguf = NULL;
    read_recipe(recipes()->gl_pathv[fuzz_byte(&input) % recipes()->gl_pathc], &recipe);
    edit(&recipe, &input);
    lay_out(&recipe, &file);
    if (file.count > FILE_BYTES_MAX) {
        return 0;
    }
    given_files_put(0, "family.gguf", bytes, file.count);
    or_status_t status = or_gguf_open("family.gguf", &gguf);
    built_model_assert_sentence(status);
    if (status == OR_OK) {
        built_model_try(gguf, PARAMETERS_MAX);
    }
    or_gguf_close(&gguf);
    return 0;
}
