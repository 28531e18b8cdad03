// outrider model inspect - metadata, tensors and vocabulary of a GGUF file; or, without one, the kernels.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "common/gguf/packed.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "kernels/kernels.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/model/convert/cached.h"

#define VARIABLE "OUTRIDER_KERNELS"
#define TYPES_MOST 256u // GGUF's numbers of types are below
#define VALUE_BYTES 256

typedef struct {
    char *model;
    bool kernels, json;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "the file, if not given as a word; the demonstration target if neither is"},
    {"kernels", NULL, OR_OPTION_FLAG, offsetof(config_t, kernels), NULL,
     "no file: what this machine computes with, and what it could"},
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model inspect",
    .summary = "metadata, tensors and vocabulary of a GGUF file",
    .usage = "FILE [options], or --kernels",
    .table = table,
    .no_variable = "kernels", // OUTRIDER_KERNELS chooses them
    .examples = "Examples:\n"
                "  outrider model inspect launch/models/tales-6m-f16.gguf\n"
                "  OUTRIDER_KERNELS=avx2 outrider model inspect --kernels\n\n"
                "OUTRIDER_KERNELS chooses kernels; it is no form of --kernels.",
};

// ---- a file ----

// The facts that text and JSON show.
typedef struct {
    const or_gguf_t *gguf;
    const or_vocab_t *vocab;   // NULL if the file has none we can read
    const char *vocab_missing; // why
    uint64_t parameters;
} facts_t;

// Write a shape as "256 x 4096", in GGUF's order: the first dimension varies fastest.
static void format_shape(const or_gguf_tensor_t *tensor, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < tensor->dim_count && used < capacity; d++) {
        int length = snprintf(text + used, capacity - used, "%s%" PRIu64, d > 0 ? " x " : "",
                              tensor->dims[d]);
        used += length > 0 ? (size_t)length : 0;
    }
}

// A packed file calls its matrices F32, which says nothing of what is in them.
static const char *type_of(const facts_t *facts, const or_gguf_tensor_t *tensor)
{
    return or_gguf_is_packed(facts->gguf) ? "packed" : or_gguf_tensor_type_name(tensor->type);
}

static void print_text(const facts_t *facts)
{
    const or_gguf_t *gguf = facts->gguf;
    printf("%s: GGUF version %" PRIu32 ", %" PRIu64 " bytes\n\nmetadata\n", or_gguf_path(gguf),
           or_gguf_version(gguf), or_gguf_file_bytes(gguf));
    for (uint64_t i = 0; i < or_gguf_key_count(gguf); i++) {
        char value[VALUE_BYTES];
        or_gguf_string_t key;
        or_gguf_describe(gguf, i, &key, value, sizeof value);
        printf("  %-40.*s %s\n", (int)key.length, key.bytes, value);
    }
    printf("\ntensors\n");
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        char shape[VALUE_BYTES];
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        format_shape(tensor, shape, sizeof shape);
        printf("  %-40.*s %-6s %s\n", (int)tensor->name.length, tensor->name.bytes,
               type_of(facts, tensor), shape);
    }
    if (or_gguf_is_packed(gguf)) {
        printf("\nthe packed form of a model (outrider model pack), in words of 4 bytes\n");
        return;
    }
    printf("\nparameters  %" PRIu64 " in %" PRIu64 " tensors\n", facts->parameters,
           or_gguf_tensor_count(gguf));
    if (facts->vocab != NULL) {
        printf("vocabulary  %" PRIu32 " tokens, tokenizer %s, content hash %016" PRIx64
               ", bos %" PRId32 ", eos %" PRId32 "\n",
               or_vocab_size(facts->vocab), or_vocab_model(facts->vocab),
               or_vocab_hash(facts->vocab), or_vocab_bos(facts->vocab), or_vocab_eos(facts->vocab));
    } else {
        printf("vocabulary  none: %s\n", facts->vocab_missing);
    }
}

// Keys and names come from the file and may be no UTF-8: what is not becomes '?'.
static json_t *json_text(const char *bytes, size_t length)
{
    json_t *string = json_stringn(bytes, length);
    char *copy = string == NULL ? strndup(bytes, length) : NULL;
    for (char *c = copy; c != NULL && *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    }
    if (copy != NULL) {
        string = json_string(copy);
        free(copy);
    }
    return string;
}

static json_t *json_metadata(const or_gguf_t *gguf)
{
    json_t *metadata = json_array();
    for (uint64_t i = 0; i < or_gguf_key_count(gguf); i++) {
        char value[VALUE_BYTES];
        or_gguf_string_t key;
        or_gguf_describe(gguf, i, &key, value, sizeof value);
        json_array_append_new(metadata, json_pack("[o, o]", json_text(key.bytes, key.length),
                                                  json_text(value, strlen(value))));
    }
    return metadata;
}

static json_t *json_tensors(const facts_t *facts)
{
    const or_gguf_t *gguf = facts->gguf;
    json_t *tensors = json_array();
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < tensor->dim_count; d++) {
            json_array_append_new(shape, json_integer((json_int_t)tensor->dims[d]));
        }
        json_array_append_new(tensors, json_pack("{s:o, s:s, s:o}", "name",
                                                 json_text(tensor->name.bytes, tensor->name.length),
                                                 "type", type_of(facts, tensor), "shape", shape));
    }
    return tensors;
}

static json_t *json_vocabulary(const or_vocab_t *vocab)
{
    char hash[32];
    if (vocab == NULL) {
        return json_null();
    }
    snprintf(hash, sizeof hash, "%016" PRIx64, or_vocab_hash(vocab));
    return json_pack("{s:I, s:s, s:s, s:i, s:i}", "size", (json_int_t)or_vocab_size(vocab),
                     "tokenizer", or_vocab_model(vocab), "hash", hash, "bos", or_vocab_bos(vocab),
                     "eos", or_vocab_eos(vocab));
}

static or_status_t print_json(const facts_t *facts)
{
    const or_gguf_t *gguf = facts->gguf;
    const char *path = or_gguf_path(gguf);
    json_t *root = json_pack(
        "{s:o, s:I, s:I, s:o, s:o, s:I, s:o}", "file", json_text(path, strlen(path)), "version",
        (json_int_t)or_gguf_version(gguf), "bytes", (json_int_t)or_gguf_file_bytes(gguf),
        "metadata", json_metadata(gguf), "tensors", json_tensors(facts), "parameters",
        (json_int_t)facts->parameters, "vocabulary", json_vocabulary(facts->vocab));
    return or_output_json(root, OR_OUTPUT_DIGITS);
}

static or_status_t inspect(const config_t *config, const char *path)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_status_t status = or_gguf_open(path, &gguf);
    if (status != OR_OK) {
        return status;
    }
    facts_t facts = {.gguf = gguf};
    // A file without a vocabulary, or with one we cannot read, is still worth a look.
    if (or_vocab_load(gguf, &vocab) == OR_OK) {
        facts.vocab = vocab;
    } else {
        facts.vocab_missing = or_error_text();
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        facts.parameters += or_gguf_tensor(gguf, i)->elements;
    }
    if (config->json) {
        status = print_json(&facts);
    } else {
        print_text(&facts);
    }
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status;
}

// ---- what this machine computes with ----

// Return what the variable says; NULL where it says nothing.
static const char *forced(void)
{
    const char *name = getenv(VARIABLE);
    return name != NULL && *name != '\0' ? name : NULL;
}

static bool is_computed_with(uint32_t type)
{
    return or_gguf_tensor_block(type).bytes > 0;
}

static void print_kernels(const or_kernels_t *used)
{
    or_kernels_description_t it;
    printf("in use      %s%s\n", used != NULL ? used->name : "none",
           forced() != NULL ? ", as " VARIABLE " says" : ", the fastest that run here");
    printf("arithmetic  %s, the same bits in all of them\n\nkernels\n", OR_ARITH_ID);
    for (size_t i = 0; or_kernels_describe(i, &it); i++) {
        printf("  %-11s %-16s needs %s\n", it.name, it.runs_here ? "runs here" : "cannot run here",
               it.needs);
    }
    printf("\ntypes of weights\n ");
    for (uint32_t type = 0; type < TYPES_MOST; type++) {
        if (is_computed_with(type)) {
            printf(" %s", or_gguf_tensor_type_name(type));
        }
    }
    putchar('\n');
}

static json_t *json_tables(void)
{
    or_kernels_description_t it;
    json_t *tables = json_array();
    for (size_t i = 0; or_kernels_describe(i, &it); i++) {
        json_array_append_new(tables, json_pack("{s:s, s:s, s:b}", "name", it.name, "needs",
                                                it.needs, "runs_here", it.runs_here));
    }
    return tables;
}

static json_t *json_types(void)
{
    json_t *types = json_array();
    for (uint32_t type = 0; type < TYPES_MOST; type++) {
        if (is_computed_with(type)) {
            json_array_append_new(types, json_string(or_gguf_tensor_type_name(type)));
        }
    }
    return types;
}

static or_status_t print_kernels_json(const or_kernels_t *used)
{
    json_t *root = json_pack("{s:s?, s:s?, s:s, s:o, s:o}", "kernels",
                             used != NULL ? used->name : NULL, "forced", forced(), "arith_id",
                             OR_ARITH_ID, "tables", json_tables(), "weight_types", json_types());
    return or_output_json(root, OR_OUTPUT_DIGITS);
}

// Print the kernels. OR_ERR_UNSUPPORTED afterwards if OUTRIDER_KERNELS names none that runs here.
static or_status_t inspect_kernels(bool json)
{
    const or_kernels_t *used = or_kernels_pick();
    or_status_t status = OR_OK;
    if (json) {
        status = print_kernels_json(used);
    } else {
        print_kernels(used);
    }
    return status == OR_OK && used == NULL ? or_model_pick_kernels(&used) : status;
}

// ---- the command ----

static int run(int argc, char **argv)
{
    config_t config = {0};
    or_option_list_t words = {0};
    or_status_t status = OR_OK;
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_FAILURE;
    if (words.count > 1 || (words.count == 1 && config.model != NULL)) {
        status = or_fail(OR_ERR_INVALID, "one file at a time");
        code = OR_EXIT_USAGE;
    } else if (config.kernels && words.count == 1) {
        status = or_fail(OR_ERR_INVALID, "--kernels goes without a file");
        code = OR_EXIT_USAGE;
    } else if (config.kernels) {
        status = inspect_kernels(config.json);
    } else if (words.count == 0) {
        status = or_models_choose_target(&config.model);
    } else {
        status = or_checkpoint_find_file(words.items[0], &config.model);
    }
    if (status == OR_OK && !config.kernels) {
        status = inspect(&config, config.model);
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_inspect_command = {"inspect", run, "FILE [--json]"};
