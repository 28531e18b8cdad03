#include "common/model/gpu/gpu_choice.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/model/arch/arch.h"
#include "common/model/gpu/gpu_internal.h"

#define NAME "CUDA" // of a device, before its number
#define NUMBER_MAX 9999u
#define LAYERS_ALL (OR_GPU_LAYERS_FIT - 1) // more than any model has
#define WHY_BYTES 512
#define TOO_OLD "all GPUs have a compute capability below 8.0"
#define NO_LAYERS "--device none leaves --gpu-layers without effect"
#define PCI_NVIDIA 0x10deu
#define PCI_DISPLAY 0x03u // the first of three bytes of a class
#define GIB ((double)(1 << 30))

// ---- words ----

or_gpu_options_t or_gpu_options_default(void)
{
    return (or_gpu_options_t){
        .device = (char *)"auto", .layers = (char *)"auto", .arith = (char *)"canonical"};
}

static bool is(const char *word, const char *expected)
{
    return strcmp(word, expected) == 0;
}

// A decimal number, and nothing else.
static bool read_number(const char *word, uint32_t most, uint32_t *number)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end != '\0' || errno != 0 || value > most) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

// "CUDA0"
static bool read_device(const char *word, uint32_t *index)
{
    size_t length = sizeof NAME - 1;
    return strncmp(word, NAME, length) == 0 && read_number(word + length, NUMBER_MAX, index);
}

or_status_t or_gpu_options_check(const or_gpu_options_t *options, const char *suffix)
{
    const char *device = options->device, *layers = options->layers, *arith = options->arith;
    uint32_t number;
    if (!is(device, "auto") && !is(device, "none") && !read_device(device, &number)) {
        return or_fail(OR_ERR_INVALID,
                       "--device%s: '%s' is none of auto, none, CUDA0, CUDA1 and so on "
                       "(--list-devices shows them)",
                       suffix, device);
    }
    if (!is(layers, "auto") && !is(layers, "all") && !read_number(layers, LAYERS_ALL, &number)) {
        return or_fail(OR_ERR_INVALID, "--gpu-layers%s: '%s' is no number, nor all or auto", suffix,
                       layers);
    }
    if (!is(arith, "canonical") && !is(arith, "tensor")) {
        return or_fail(OR_ERR_INVALID, "--arith%s: '%s' is neither canonical nor tensor", suffix,
                       arith);
    }
    if (is(device, "none") && is(arith, "tensor")) {
        return or_fail(OR_ERR_INVALID,
                       "--arith%s: tensor is a GPU's, and --device%s none the CPU; leave "
                       "--arith%s out",
                       suffix, suffix, suffix);
    }
    return OR_OK;
}

// ---- the machine ----

uint32_t or_gpu_count(const or_gpu_functions_t *functions, const char **why_p)
{
    or_cuda_description_t description;
    if (functions == NULL) {
        *why_p = "this program was built without CUDA";
        return 0;
    }
    uint32_t count = functions->count();
    if (count == 0) { // which does not say why; asking for the first does
        *why_p = functions->text(functions->describe(0, &description));
    }
    return count;
}

static void describe_room(const or_gpu_functions_t *functions, uint32_t index,
                          const or_cuda_description_t *gpu, char *text, size_t capacity)
{
    uint64_t left;
    double all = (double)gpu->memory_bytes / GIB;
    int status = functions->free_bytes(index, &left);
    if (status == OR_CUDA_OK) {
        snprintf(text, capacity, "%.1f of %.1f GiB free", (double)left / GIB, all);
    } else {
        snprintf(text, capacity, "%.1f GiB (%s)", all, functions->text(status));
    }
}

or_gpu_line_t or_gpu_describe(const or_gpu_functions_t *functions, uint32_t index)
{
    or_gpu_line_t line;
    or_cuda_description_t gpu;
    char room[96];
    int status = functions->describe(index, &gpu);
    if (status == OR_CUDA_OK) {
        describe_room(functions, index, &gpu, room, sizeof room);
        snprintf(line.text, sizeof line.text,
                 "%s, %s, compute capability %" PRIu32 ".%" PRIu32 "%s", gpu.name, room, gpu.major,
                 gpu.minor, gpu.major < OR_CUDA_MAJOR_MIN ? ", too old: 8.0 is needed" : "");
    } else {
        snprintf(line.text, sizeof line.text, "cannot be used: %s", functions->text(status));
    }
    return line;
}

void or_gpu_list(const or_gpu_functions_t *functions, FILE *out)
{
    const char *why;
    uint32_t count = or_gpu_count(functions, &why);
    if (count == 0) {
        fprintf(out, "no GPU can be used here: %s\n", why);
    }
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, NAME "%" PRIu32 ": %s\n", i, or_gpu_describe(functions, i).text);
    }
}

// 0 where it cannot be read.
static unsigned read_property(const char *devices, const char *device, const char *property)
{
    char path[512];
    unsigned value = 0;
    snprintf(path, sizeof path, "%s/%s/%s", devices, device, property);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%x", &value) != 1) {
        value = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

bool or_gpu_is_fitted(const char *devices)
{
    bool found = false;
    const struct dirent *entry;
    DIR *folder = opendir(devices);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        found = read_property(devices, entry->d_name, "vendor") == PCI_NVIDIA &&
                read_property(devices, entry->d_name, "class") >> 16 == PCI_DISPLAY;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

// ---- a place ----

bool or_gpu_is_usable(const or_gpu_functions_t *functions, uint32_t index)
{
    or_cuda_description_t gpu;
    return functions->describe(index, &gpu) == OR_CUDA_OK && gpu.major >= OR_CUDA_MAJOR_MIN;
}

// The which-th GPU that is, counted round and round; `count` where none is.
static uint32_t pick_usable(const or_gpu_functions_t *functions, uint32_t count, uint32_t which)
{
    uint32_t usable = 0;
    for (uint32_t i = 0; i < count; i++) {
        usable += or_gpu_is_usable(functions, i);
    }
    for (uint32_t i = 0, left = usable > 0 ? which % usable : 0; i < count; i++) {
        if (or_gpu_is_usable(functions, i) && left-- == 0) {
            return i;
        }
    }
    return count;
}

// Why none of them is.
static const char *why_unusable(const or_gpu_functions_t *functions, uint32_t count)
{
    or_cuda_description_t gpu;
    int failed = OR_CUDA_OK;
    for (uint32_t i = 0; i < count; i++) {
        int status = functions->describe(i, &gpu);
        failed = status != OR_CUDA_OK ? status : failed;
    }
    return failed != OR_CUDA_OK ? functions->text(failed) : TOO_OLD;
}

static uint32_t read_layers(const char *word)
{
    uint32_t layers = LAYERS_ALL;
    if (is(word, "auto")) {
        layers = OR_GPU_LAYERS_FIT;
    } else if (!is(word, "all")) {
        (void)read_number(word, LAYERS_ALL, &layers);
    }
    return layers;
}

// Report that a device is absent that was asked for, by name or because only GPUs do what was asked for.
static or_status_t fail_absent(const or_gpu_functions_t *functions, const char *option,
                               const char *word, uint32_t count, const char *why)
{
    if (functions == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s %s: %s; build it where nvcc is (cmake --preset cuda), or leave this out",
                       option, word, why);
    }
    if (why != NULL) {
        return or_fail(
            OR_ERR_NOT_FOUND,
            "%s %s: no GPU can be used here: %s; see to NVIDIA's driver (nvidia-smi), or "
            "leave this out",
            option, word, why);
    }
    return or_fail(OR_ERR_NOT_FOUND,
                   "%s %s: the last one here is " NAME "%" PRIu32
                   " (--list-devices describes them all)",
                   option, word, count - 1);
}

// Nobody named one, and none of `count` can be used.
static bool is_missed(uint32_t count)
{
    return count > 0 || or_gpu_is_fitted(OR_GPU_DEVICES);
}

or_status_t or_gpu_place_choose(const or_gpu_options_t *options,
                                const or_gpu_functions_t *functions, or_gpu_place_t *place)
{
    bool wants_layers = !is(options->layers, "auto") && !is(options->layers, "0");
    or_gpu_place_t chosen = {.layers = read_layers(options->layers)};
    chosen.gpu.functions = functions;
    if (is(options->device, "none")) {
        chosen.why_not = wants_layers ? NO_LAYERS : NULL;
        chosen.missed = wants_layers;
        *place = chosen;
        return OR_OK;
    }
    const char *why = NULL;
    uint32_t count = or_gpu_count(functions, &why);
    bool named = read_device(options->device, &chosen.gpu.index);
    chosen.gpu.tensor = is(options->arith, "tensor");
    chosen.automatic = !named && !chosen.gpu.tensor;
    chosen.named = named;
    if (!named && count > 0) {
        chosen.gpu.index = pick_usable(functions, count, 0);
        why = chosen.gpu.index < count ? why : why_unusable(functions, count);
    }
    chosen.on_gpu = chosen.gpu.index < count;
    if (!chosen.on_gpu && !chosen.automatic) {
        return fail_absent(functions, named ? "--device" : "--arith",
                           named ? options->device : options->arith, count, why);
    }
    chosen.why_not = functions != NULL || wants_layers ? why : NULL;
    chosen.missed = !chosen.on_gpu && (wants_layers || (functions != NULL && is_missed(count)));
    *place = chosen;
    return OR_OK;
}

void or_gpu_place_spread(or_gpu_place_t *place, uint32_t which)
{
    const or_gpu_functions_t *functions = place->gpu.functions;
    if (place->on_gpu && !place->named) {
        place->gpu.index = pick_usable(functions, functions->count(), which);
    }
}

// ---- a model there ----

// Count the model's layers that belong to this rank.
static or_status_t count_layers(const or_gguf_t *gguf, const or_ranks_t *ranks, uint32_t *layers)
{
    const or_arch_t *arch;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_span_t span;
    or_status_t status = or_arch_find(gguf, &arch);
    status = status != OR_OK ? status : or_arch_read(arch, gguf, &shape, &numbers);
    status = status != OR_OK
                 ? status
                 : or_layers_of_stage(ranks->stage, or_ranks_stages(ranks), shape.layers, &span);
    if (status == OR_OK) {
        *layers = or_span_length(span);
    }
    return status;
}

static or_status_t load_on_gpu(const or_gpu_place_t *place, const or_gguf_t *gguf,
                               const or_model_options_t *options, or_model_t **model_p)
{
    or_model_options_t there = *options;
    or_gpu_choice_t gpu = place->gpu;
    const or_ranks_t *ranks = options->ranks != NULL ? options->ranks : or_ranks_single();
    uint32_t layers = 0;
    or_status_t status = count_layers(gguf, ranks, &layers);
    if (status != OR_OK) {
        return status;
    }
    if (place->layers == OR_GPU_LAYERS_FIT) {
        gpu.host_layers = OR_GPU_LAYERS_FIT;
    } else {
        gpu.host_layers = place->layers < layers ? layers - place->layers : 0;
    }
    there.gpu = &gpu;
    return or_model_load(gguf, &there, model_p);
}

// Did the GPU fail in a way in which the CPU may not? Of several ranks only in one that all of them find: the
// device of one alone, and its memory, is nothing that the others know of.
static bool may_fall_back(const or_gpu_place_t *place, const or_model_options_t *options,
                          or_status_t status)
{
    bool alone = options->ranks == NULL || or_ranks_is_alone(options->ranks);
    return place->automatic &&
           (status == OR_ERR_UNSUPPORTED ||
            (alone && (status == OR_ERR_NO_MEMORY || status == OR_ERR_NOT_FOUND)));
}

// One that fails there too has nothing to do with the GPU. An empty reason is not said.
static or_status_t load_on_cpu(const char *why, const or_gguf_t *gguf,
                               const or_model_options_t *options, or_model_t **model_p)
{
    bool leads = options->ranks == NULL || or_ranks_is_leader(options->ranks);
    or_status_t status = or_model_load(gguf, options, model_p);
    if (status == OR_OK && leads && why[0] != '\0') {
        or_log(OR_LOG_WARN, "%s" OR_GPU_WARNING "%s", or_gguf_path(gguf), why);
    }
    return status;
}

or_status_t or_gpu_place_load(const or_gpu_place_t *place, const or_gguf_t *gguf,
                              const or_model_options_t *options, or_model_t **model_p)
{
    if (!place->on_gpu) {
        return load_on_cpu(place->missed ? place->why_not : "", gguf, options, model_p);
    }
    char why[WHY_BYTES];
    or_status_t status = load_on_gpu(place, gguf, options, model_p);
    if (status == OR_OK || !may_fall_back(place, options, status)) {
        return status;
    }
    snprintf(why, sizeof why, "%s", or_error_text());
    return load_on_cpu(why, gguf, options, model_p);
}

// Say how many layers are in memory, if some are on disk.
static void describe_cpu(const or_model_t *model, or_gpu_where_t *where)
{
    const uint32_t layers = or_span_length(model->share.layers);
    const uint32_t on_disk = or_streamed_layers(model->streamed);
    if (on_disk > 0) {
        snprintf(where->text, sizeof where->text,
                 "CPU, %" PRIu32 " of %" PRIu32 " layers in memory", layers - on_disk, layers);
    }
}

or_gpu_where_t or_gpu_where(const or_model_t *model)
{
    const or_gpu_t *gpu = model->gpu;
    or_gpu_where_t where = {.name = "CPU", .text = "CPU"};
    or_cuda_description_t description = {.name = "not described"};
    if (gpu == NULL) {
        describe_cpu(model, &where);
        return where;
    }
    (void)gpu->functions->describe(gpu->index, &description);
    where.on_gpu = true;
    snprintf(where.name, sizeof where.name, NAME "%" PRIu32, gpu->index);
    snprintf(where.text, sizeof where.text, "%s, %s, %" PRIu32 " of %" PRIu32 " layers", where.name,
             description.name, gpu->layers.count - gpu->layers.away, gpu->layers.count);
    return where;
}
