// This file checks what the model files hold, whether this version can run them, and whether they make a pair.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/gguf/packed.h"
#include "common/model/arch/arch.h"
#include "common/text/tokenizer.h"
#include "launch/doctor/doctor.h"

#define TYPES_MAX 256 // GGUF's numbers are far fewer

// Letters with and without accents, digits, scripts without spaces, an emoji, a line's end.
static const char sample[] = "Once upon a time, 12 na\u00efve caf\u00e9s \u6df1\u591c \U0001F642\n";

typedef struct {
    char text[32];
} name_t;

// "target weights".
static name_t name_of(const or_doctor_model_t *model, const char *what)
{
    name_t name;
    snprintf(name.text, sizeof name.text, "%s %s", model->role, what);
    return name;
}

static const char *advise_file(or_status_t status)
{
    switch (status) {
    case OR_ERR_FORMAT:
        return "get or convert the file again: it is no GGUF file, damaged or not complete";
    case OR_ERR_INVALID:
    case OR_ERR_IO:
    case OR_ERR_NOT_FOUND:
        return "give -m and -md the path of a GGUF file that can be read (of a split model, its "
               "first part)";
    default:
        return "use a GGUF file of version 2 or 3";
    }
}

static bool check_shape(or_doctor_t *doctor, or_doctor_model_t *model, const or_gguf_t *gguf)
{
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_status_t status = or_arch_find(gguf, &arch);
    if (status == OR_OK) {
        status = or_arch_read(arch, gguf, &shape, &numbers);
    }
    name_t name = name_of(model, "model");
    if (status != OR_OK) {
        or_doctor_say_error(doctor, name.text,
                            "choose a model of a family that this version runs (README.md, "
                            "\"Pairing models\")");
        return false;
    }
    model->memory = or_model_cache_bytes(&shape);
    model->pass_bytes = or_model_pass_bytes(&shape);
    or_doctor_say(doctor, OR_CHECK_OK, name.text, NULL,
                  "%s, %.1f million parameters, %" PRIu32 " layers, context %" PRIu32,
                  shape.architecture, (double)shape.parameters / 1e6, shape.layers, shape.context);
    return true;
}

// "F16 43, F32 13" in the order of GGUF's numbers; false if some cannot be computed with, and then
// only those.
static bool describe_types(const or_gguf_t *gguf, char *text, size_t capacity)
{
    uint64_t counts[TYPES_MAX] = {0};
    bool foreign[TYPES_MAX] = {false}, all_known = true;
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        uint32_t type = tensor->type < TYPES_MAX ? tensor->type : TYPES_MAX - 1;
        counts[type]++;
        foreign[type] = tensor->data == NULL;
        all_known = all_known && tensor->data != NULL;
    }
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t type = 0; type < TYPES_MAX && used < capacity; type++) {
        if (counts[type] > 0 && foreign[type] == !all_known) {
            int length =
                snprintf(text + used, capacity - used, "%s%" PRIu64 " %s", used > 0 ? ", " : "",
                         counts[type], or_gguf_tensor_type_name(type));
            used += length > 0 ? (size_t)length : 0;
        }
    }
    return all_known;
}

static bool has_experts(const or_gguf_t *gguf)
{
    bool has = false;
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        has = has || or_gguf_tensor(gguf, i)->dims[2] > 1; // their matrices are one tensor
    }
    return has;
}

// Say what stays on disk of weights that do not fit.
static void check_room(or_doctor_t *doctor, const or_doctor_model_t *model, const or_gguf_t *gguf,
                       uint64_t bytes)
{
    const uint64_t room = or_model_weights_room(bytes, model->pass_bytes, or_memory_available());
    or_packed_t *packed = NULL;
    if (room >= bytes) {
        return;
    }
    or_packed_open_wished(gguf, "auto", 0, &packed);
    or_doctor_say(
        doctor, OR_CHECK_WARN, name_of(model, "layers").text,
        packed != NULL
            ? "each pass waits for the disk; more memory, or several ranks, are faster"
            : "make the packed file, from which they are read, with `outrider model pack`",
        "about %s of the weights do not fit into memory%s", or_doctor_bytes(bytes - room).text,
        packed == NULL       ? ""
        : !has_experts(gguf) ? ": on a CPU they stay on disk and are read in each pass"
                             : ": on a CPU experts that passes use most stay in memory, and the "
                               "others are read as they are chosen");
    or_packed_close(&packed);
}

static void check_weights(or_doctor_t *doctor, or_doctor_model_t *model, const or_gguf_t *gguf)
{
    char types[256];
    name_t name = name_of(model, "weights");
    if (!describe_types(gguf, types, sizeof types)) {
        model->memory = 0;
        or_doctor_say(doctor, OR_CHECK_FAIL, name.text,
                      "use a file of the same model with other weights (README.md, \"Pairing "
                      "models\")",
                      "tensors of types that this version cannot compute with: %s", types);
        return;
    }
    const uint64_t bytes = or_model_weights_bytes(gguf), cache = model->memory;
    model->memory += bytes + model->pass_bytes;
    or_doctor_say(doctor, OR_CHECK_OK, name.text, NULL,
                  "%s in memory (tensors: %s); %s more for the cache of a full context on a CPU",
                  or_doctor_bytes(bytes).text, types, or_doctor_bytes(cache).text);
    check_room(doctor, model, gguf, bytes);
}

// The sample must come back from its tokens.
static or_status_t try_tokenizer(const or_vocab_t *vocab, const char *path, size_t *token_count)
{
    int32_t *ids = NULL;
    char *text = NULL;
    size_t length = 0;
    or_status_t status = or_tokenize(vocab, sample, sizeof sample - 1, 0, &ids, token_count);
    if (status == OR_OK) {
        status = or_detokenize(vocab, ids, *token_count, &text, &length);
    }
    if (status == OR_OK &&
        (length != sizeof sample - 1 || memcmp(text, sample, sizeof sample - 1) != 0)) {
        status = or_fail(OR_ERR_MISMATCH,
                         "%s: a sample sentence does not come back from its tokens", path);
    }
    free(text);
    free(ids);
    return status;
}

static void check_vocabulary(or_doctor_t *doctor, or_doctor_model_t *model, const or_gguf_t *gguf)
{
    or_vocab_t *vocab = NULL;
    size_t token_count = 0;
    name_t name = name_of(model, "vocabulary");
    or_status_t status = or_vocab_load(gguf, &vocab);
    if (status == OR_OK) {
        model->vocab_hash = or_vocab_hash(vocab);
        model->vocab_size = or_vocab_size(vocab);
        status = try_tokenizer(vocab, model->path, &token_count);
    }
    if (status == OR_OK) {
        or_doctor_say(doctor, OR_CHECK_OK, name.text, NULL,
                      "%" PRIu32 " tokens, tokenizer %s (a sample sentence is %zu tokens and comes "
                      "back), content hash %016" PRIx64,
                      model->vocab_size, or_vocab_model(vocab), token_count, model->vocab_hash);
    } else {
        or_doctor_say_error(doctor, name.text,
                            "choose a model with a tokenizer that this version knows (README.md, "
                            "\"Pairing models\")");
    }
    or_vocab_destroy(&vocab);
}

static void check_file(or_doctor_t *doctor, or_doctor_model_t *model)
{
    or_gguf_t *gguf = NULL;
    uint32_t parts = 1;
    name_t name = name_of(model, "file");
    or_status_t status = or_gguf_open(model->path, &gguf);
    if (status != OR_OK) {
        or_doctor_say_error(doctor, name.text, advise_file(status));
        return;
    }
    if (or_gguf_has(gguf, "split.count") && or_gguf_get_u32(gguf, "split.count", &parts) != OR_OK) {
        parts = 1; // or_gguf_open found no fault with it
    }
    or_doctor_say(doctor, OR_CHECK_OK, name.text, NULL, "%s, %s in %" PRIu32 " %s", model->path,
                  or_doctor_bytes(or_gguf_file_bytes(gguf)).text, parts,
                  parts > 1 ? "parts, all there" : "part");
    if (check_shape(doctor, model, gguf)) {
        check_weights(doctor, model, gguf);
    }
    check_vocabulary(doctor, model, gguf);
    or_gguf_close(&gguf);
}

static void check_pair(or_doctor_t *doctor, const or_doctor_model_t *target,
                       const or_doctor_model_t *draft)
{
    if (target->vocab_hash == 0 || draft->vocab_hash == 0) {
        return; // said already
    }
    if (target->vocab_hash == draft->vocab_hash) {
        or_doctor_say(doctor, OR_CHECK_OK, "pair", NULL, "both have the same vocabulary");
        return;
    }
    or_doctor_say(doctor, OR_CHECK_WARN, "pair",
                  "see `outrider model compare TARGET DRAFT` for how they meet and what that costs",
                  "the draft model's vocabulary (%" PRIu32 " tokens, %016" PRIx64
                  ") is not the target's (%" PRIu32 " tokens, %016" PRIx64 "): it is translated",
                  draft->vocab_size, draft->vocab_hash, target->vocab_size, target->vocab_hash);
}

static void check_memory(or_doctor_t *doctor, uint64_t needed)
{
    uint64_t available = or_memory_available();
    if (needed == 0) {
        return;
    }
    bool fits = needed < available;
    or_doctor_say(doctor, fits ? OR_CHECK_OK : OR_CHECK_WARN, "memory",
                  fits ? NULL
                       : "use smaller weights, a smaller context (-c), or run target and draft "
                         "model on two machines",
                  "about %s needed for one session, %s available", or_doctor_bytes(needed).text,
                  or_doctor_bytes(available).text);
}

void or_doctor_check_models(or_doctor_t *doctor, or_doctor_model_t *target,
                            or_doctor_model_t *draft)
{
    or_doctor_begin_group(doctor, "models");
    if (target->path != NULL) {
        check_file(doctor, target);
    }
    if (draft->path != NULL) {
        check_file(doctor, draft);
    }
    check_pair(doctor, target, draft);
    check_memory(doctor, target->memory + draft->memory);
}
