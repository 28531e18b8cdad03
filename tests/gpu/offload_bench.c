// offload_bench - what passes cost whose layers come over from the host, beside the rate at which pinned memory does.
//
//     offload_bench         16 layers of the shape of Llama 3 8B, of random BF16 weights
//     offload_bench tiny    a model of no size, to see that this works
//
// Each tree is verified by a model on the device and by one all of whose layers are away. Where fetching takes
// longer than computing, a pass costs the same whatever its rows are. Times are the median of some passes, by the
// clock of the host. Exit 77: no GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/bench_support.h"
#include "tests/gpu/random_model.h"

#define NODES_MOST 1024u
#define PASSES 5u
#define STEPS 4u

static const uint32_t nodes_of_steps[STEPS] = {1, 64, 256, NODES_MOST};

typedef struct {
    or_model_shape_t shape;
    uint32_t context; // of the text before the tree
    uint32_t nodes_most;
    size_t copy_bytes;
} plan_t;

static const plan_t whole = {.shape = {.layers = 16,
                                       .width = 4096,
                                       .heads = 32,
                                       .kv_heads = 8,
                                       .ffn = 14336,
                                       .vocab_size = 256,
                                       .context = 2048},
                             .context = 1024,
                             .nodes_most = NODES_MOST,
                             .copy_bytes = (size_t)1 << 30};

static const plan_t tiny = {.shape = {.layers = 4,
                                      .width = 64,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .ffn = 96,
                                      .vocab_size = 100,
                                      .context = 512},
                            .context = 3,
                            .nodes_most = 1,
                            .copy_bytes = (size_t)1 << 16};

// ---- passes ----

static void prefill(or_model_t *model, or_kv_sequence_t *text, uint32_t context)
{
    static or_model_row_t rows[NODES_MOST];
    for (uint32_t i = 0; i < context; i++) {
        rows[i] = (or_model_row_t){text, (int32_t)i % 100, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    bench_require(or_model_forward(model, rows, context) == OR_OK, "a prefix");
}

// A tree in which each node has two children, and the logits of its last node, which wait for all of it.
static double time_of_pass(or_model_t *model, or_kv_sequence_t *text, uint32_t nodes, float *logits)
{
    static or_model_row_t rows[NODES_MOST];
    double times[PASSES];
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t parent = i > 0 ? (i - 1) / 2 : OR_KV_NO_SLOT;
        rows[i] = (or_model_row_t){text, (int32_t)i % 100, i, parent};
    }
    for (uint32_t i = 0; i <= PASSES; i++) { // the first time is to warm up
        double begin = bench_now_ms();
        bench_require(or_model_forward(model, rows, nodes) == OR_OK, "a pass");
        bench_require(or_model_logits(model, nodes - 1, 1, logits) == OR_OK, "logits");
        if (i > 0) {
            times[i - 1] = bench_now_ms() - begin;
        }
        or_kv_sequence_drop_slots(text);
    }
    return bench_median(times, PASSES);
}

// Measure all steps with this many layers away, and return how many bytes are away.
static uint64_t time_steps(const plan_t *plan, uint32_t away, double times[STEPS])
{
    const or_gpu_choice_t choice = {.functions = or_gpu_functions(), .host_layers = away};
    const or_model_options_t options = {.rows_max = NODES_MOST,
                                        .sequences_max = 1,
                                        .cache_type_k = OR_KV_F16,
                                        .cache_type_v = OR_KV_F16,
                                        .gpu = &choice};
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *text = NULL;
    random_model_open(&plan->shape, OR_TENSOR_BF16, false, &file, &gguf);
    bench_require(or_model_load(gguf, &options, &model) == OR_OK, "the model");
    bench_require(or_model_open_sequence(model, plan->nodes_most, &text) == OR_OK, "a text");
    float *logits = malloc(plan->shape.vocab_size * sizeof *logits);
    bench_require(logits != NULL, "no memory");
    prefill(model, text, plan->context);
    for (uint32_t i = 0; i < STEPS && nodes_of_steps[i] <= plan->nodes_most; i++) {
        times[i] = time_of_pass(model, text, nodes_of_steps[i], logits);
    }
    uint64_t bytes = or_model_memory(model).host_weights;
    free(logits);
    or_kv_sequence_close(&text);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return bytes;
}

int main(int argc, char **argv)
{
    const plan_t *plan = argc > 1 && strcmp(argv[1], "tiny") == 0 ? &tiny : &whole;
    or_cuda_description_t device;
    bench_begin(&device);
    double here[STEPS];
    double away[STEPS];
    double copying = bench_copy_rate(or_cuda_upload, true, plan->copy_bytes);
    (void)time_steps(plan, 0, here);
    uint64_t bytes = time_steps(plan, plan->shape.layers, away);
    printf("%s; copying %zu MiB of pinned memory to it: %.1f GB/s\n\n", device.name,
           plan->copy_bytes >> 20, copying);
    printf("%u layers, %.2f GB of weights in BF16, all of them away; context %u\n\n",
           plan->shape.layers, 1e-9 * (double)bytes, plan->context);
    printf("| nodes | ms on the device | ms away | ms a node | fetched, GB/s | of copying |\n"
           "|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < STEPS && nodes_of_steps[i] <= plan->nodes_most; i++) {
        double rate = 1e-6 * (double)bytes / away[i];
        printf("| %u | %.2f | %.2f | %.3f | %.1f | %.0f %% |\n", nodes_of_steps[i], here[i],
               away[i], away[i] / nodes_of_steps[i], rate, 100 * rate / copying);
    }
    return EXIT_SUCCESS;
}
