// gpu_choice - on which device a model's passes run: what options say, and what that comes to on this machine.
//
//     --device auto                the first GPU; the CPU where there is none, or where it cannot run the model
//     --device none                the CPU
//     --device CUDA1 -ngl 24       the second GPU, with the weights of 24 layers in its memory
//
//     or_gpu_options_t ──check──▶ words that make sense ──place_choose──▶ or_gpu_place_t ──place_load──▶ a model there
//
// Names and words are llama.cpp's. One thread.
#pragma once

#include <stdio.h>

#include "common/base/options/options.h"
#include "common/model/gpu/gpu.h"
#include "common/model/model.h"

typedef struct {
    char *device; // "auto", "none", "CUDA0", ...
    char *layers; // "auto", "all", or a number
    char *arith;  // "canonical", "tensor"
} or_gpu_options_t;

// clang-format off
// Their rows in a program's table, for the options `field` of the struct `type`.
#define OR_GPU_OPTIONS(type, field) OR_GPU_OPTIONS_OF(type, field, "", "", "")
// The same for the processes of a local cluster: `whose` begins the help, `suffix` ends the long names and
// `d` the short ones.
#define OR_GPU_OPTIONS_OF(type, field, whose, suffix, d)                                           \
    {"device" suffix, "dev" d, OR_OPTION_STRING, offsetof(type, field.device), "NAME",             \
     whose "passes run on CUDA0, CUDA1, ...; none: the CPU; auto: the first GPU that can, else "   \
     "the CPU"},                                                                                   \
    {"gpu-layers" suffix, "ngl" d, OR_OPTION_STRING, offsetof(type, field.layers), "N",            \
     whose "layers with their weights in the GPU's memory, the first N or all; the others' come "  \
     "over in every pass; auto: as many as there is room for"},                                    \
    {"arith" suffix, NULL, OR_OPTION_STRING, offsetof(type, field.arith), "NAME",                  \
     whose "arithmetic on a GPU: canonical (the CPU's bits), or tensor: its tensor cores for F16 " \
     "and BF16 weights, faster and with bits of its own"}

// The row for a flag at which a program calls or_gpu_list and ends.
#define OR_GPU_LIST_OPTION(type, field)                                                            \
    {"list-devices", NULL, OR_OPTION_FLAG, offsetof(type, field), NULL,                            \
     "print the GPUs that can be used here, and end"}
// clang-format on

// Return the defaults: auto, auto, canonical.
or_gpu_options_t or_gpu_options_default(void);
// Check that the words make sense on some machine. OR_ERR_INVALID names the option, with its suffix, and what is
// allowed.
or_status_t or_gpu_options_check(const or_gpu_options_t *options, const char *suffix);

// A device of this machine, or the CPU.
typedef struct {
    bool on_gpu;         // else the CPU
    bool automatic;      // nobody asked for a GPU: where it cannot run a model the CPU does
    bool named;          // it is the one that was asked for
    const char *why_not; // on the CPU because no GPU can be used: the reason, static; else NULL
    bool missed; // and somebody misses it: there is one in the machine, or --gpu-layers was given
    uint32_t layers;     // of each rank, whose weights the GPU should hold; OR_GPU_LAYERS_FIT
    or_gpu_choice_t gpu; // but for host_layers, which depend on the model
} or_gpu_place_t;

// Find the place that the options, which were checked before, mean on this machine. `functions` is or_gpu_functions()
// of the program; NULL if it was built without CUDA. OR_ERR_UNSUPPORTED or OR_ERR_NOT_FOUND if a GPU was asked for
// that is not there; the sentence says what to do.
or_status_t or_gpu_place_choose(const or_gpu_options_t *options,
                                const or_gpu_functions_t *functions, or_gpu_place_t *place);
// Spread the processes of a host over its GPUs. A place that was not named moves to the GPU of number `which`,
// counted round and round.
void or_gpu_place_spread(or_gpu_place_t *place, uint32_t which);

// Load a model there (or_model_load). If an automatic place cannot run this model, or has no room for it, log a
// warning and load on the CPU. Several ranks do that together or not at all. A GPU that is missed is warned of, too.
// The leader's line in the log contains OR_GPU_WARNING, by which readers of the log find it.
#define OR_GPU_WARNING " runs on the CPU: "
or_status_t or_gpu_place_load(const or_gpu_place_t *place, const or_gguf_t *gguf,
                              const or_model_options_t *options, or_model_t **model_p);

// The place where a model's passes run, in words: "CPU"; "CPU, 3 of 32 layers in memory"; "CUDA0, NVIDIA H100 80GB HBM3, 24 of 32 layers".
typedef struct {
    bool on_gpu;
    char name[24];  // "CPU", "CUDA0"
    char text[192]; // the name and more
} or_gpu_where_t;
or_gpu_where_t or_gpu_where(const or_model_t *model);

// One GPU in a line: "NVIDIA H100 80GB HBM3, 80.0 of 81.0 GiB free, compute capability 9.0". If it cannot be
// used, or its memory not be read, the line has the reason. This opens the device.
typedef struct {
    char text[288];
} or_gpu_line_t;
or_gpu_line_t or_gpu_describe(const or_gpu_functions_t *functions, uint32_t index);
// Are the kernels built for this GPU, and does the driver know it? This does not open the device.
bool or_gpu_is_usable(const or_gpu_functions_t *functions, uint32_t index);
// Return how many GPUs there are. If 0, also because `functions` is NULL, *why_p is the reason, a static text.
uint32_t or_gpu_count(const or_gpu_functions_t *functions, const char **why_p);
// Print a line for each GPU, as "CUDA0: NVIDIA ...", or one that says why there is none.
void or_gpu_list(const or_gpu_functions_t *functions, FILE *out);
// Is a GPU of NVIDIA's in this machine, whatever its driver? This reads Linux' list of PCI devices in the folder
// `devices`.
bool or_gpu_is_fitted(const char *devices);
#define OR_GPU_DEVICES "/sys/bus/pci/devices"
