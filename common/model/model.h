// model - a transformer from a GGUF file, run on the CPU or a GPU in canonical arithmetic (docs/design.md
// section 7): the same bits from both.
//
// One pass takes rows. A *prefix row* is the next committed token of a sequence: its K and V go to
// the pages, and the sequence grows by one. A *tree row* is a guess: its K and V go to a scratch
// slot, and it sees the committed prefix, its ancestors' slots and itself. Rows of one pass may
// belong to several sequences; a parent's row comes before its child's or in an earlier pass. A
// row's bits depend on its token and what it sees only: never on the batch, threads, ranks or
// instruction set.
//
//     pass 1: prefix rows 1 458 1112 731 261          (prefill, any chunks)
//     pass 2: prefix row  631, tree rows 0:{284,-} 1:{631,0} 2:{13,-}     (root and a tree of three nodes, one call)
//     accept slots 0, 1                               (kv_cache.h)
//
// Prefix rows forget the sequence's slots of earlier passes, as accept and truncate do: their
// positions are taken. Until then a slot that holds a node cannot be given to another.
//
// Several ranks (ranks.h) are driven by one: on the leader everything below is called as if it were
// alone, and the others repeat it in or_model_follow. What happens to its sequences between two passes
// travels with the next pass, in one packed descriptor.
//
// One thread calls; the model's own workers help. No allocation after load but for sequences.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"
#include "common/gguf/gguf.h"
#include "common/model/gpu/gpu.h"
#include "common/model/kv/kv_cache.h"
#include "common/model/ranks/ranks.h"
#include "kernels/kernels.h"

typedef struct or_model or_model_t;

typedef struct {
    uint32_t threads;      // 0: as many as there are CPUs for it
    const or_cpus_t *pins; // the CPUs that its threads stay on, one each (workers.h); NULL: on any
    int32_t poll;          // how long threads without work spin (workers.h); 0: as usual
    // Positions of a sequence; more than the file says is refused. 0: what the file says, or less, which is logged. On the
    // CPU it is less where three quarters of the memory beside the weights do not hold it, unless pages_max or cache_bytes
    // is given.
    uint32_t context_max;
    uint32_t rows_max; // most rows a pass; 0: 256
    uint32_t
        sequences_max; // whose full contexts the KV pool should hold, as far as a quarter of the memory goes; 0: 2
    // Slots of a sequence: a GPU's memory for those of sequences_max sequences is then taken by the load, of as many as find
    // room (or_model_sequences_max). 0: as they open. On the CPU they always are.
    uint32_t slots_max;
    uint32_t pages_max; // KV pages, whatever sequences_max says; 0: that many sequences' worth
    // Bytes of KV pages of all ranks of a stage together, whatever the two before say; 0: not said. Each
    // rank holds its heads' part, and all the same number of pages: what the one with the least room can.
    uint64_t cache_bytes;
    // Layers with a window keep what the next rows attend to (kv_cache.h), and so many positions before that; 0: 256.
    // Of several ranks the least of them counts.
    uint32_t window_slack;
    or_kv_type_t cache_type_k, cache_type_v; // OR_KV_BY_MODEL: or_model_cache_type
    const or_ranks_t *ranks;                 // borrowed; NULL: alone
    // The file's packed form (packed.h), which is mapped instead of packing the weights: "auto", "off" or a path, as users
    // wish it. NULL: "off". Where it cannot be used that is logged, and the weights are packed.
    const char *packed;
    // Bytes of memory that weights of this rank may have: layers that do not fit stay in the packed file, and are read while others
    // are computed (streamed.h). It needs such a file and a CPU. 0: or_model_weights_room, where there is such a file.
    uint64_t weights_memory;
    // The device that passes run on, with weights, K and V in its memory: with both cache types
    // F32 or both F16. NULL: the CPU. Borrowed for the load. Each of several ranks says so for itself.
    const or_gpu_choice_t *gpu;
} or_model_options_t;

#define OR_LAYERS_MAX 1024u

// The numbers of a model that its file states.
typedef struct {
    char architecture[32];
    uint32_t layers, width, heads, kv_heads, head_dim, ffn, vocab_size, context;
    // The heads of layers with a window, where these have others (Gemma 4); 0: all layers have those above. Which layers
    // have a window the file then says: a bit for each.
    uint32_t window_kv_heads, window_head_dim;
    uint64_t windowed[OR_LAYERS_MAX / 64];
    // In its smaller models, else 0: the last layers, which attend to K and V of earlier ones, and the size of their FFN.
    // Then the elements of what each layer gets of a token besides (layer_inputs.h).
    uint32_t shared_kv_layers, shared_kv_ffn, layer_input;
    // The positions that a row attends to in layers with a window, and how many of those there are; 0: there are none.
    uint32_t window, window_layers;
    // Of a model whose FFN is experts: how many there are and how many of them a row takes; `ffn` is that of one. A
    // shared expert, which all rows take, has a size of its own. 0: there are none.
    uint32_t experts, experts_used, shared_ffn;
    // How a row chooses: by the logits' sigmoids or their softmax; and whether the weights of those chosen add up to 1.
    // Experts may be groups of equal size, of which the best so many are used. 0 groups: all experts are chosen among.
    bool routes_by_sigmoid, normalises_experts;
    uint32_t expert_groups, expert_groups_used;
    // The file has gates and ups of experts in one tensor.
    bool fuses_experts;
    // The first layers may have an FFN without experts instead, of a size of its own.
    uint32_t dense_layers, dense_ffn;
    // Of latent attention (cpu/latent.h), else 0: the elements that K and V of all heads are made of, and those that
    // queries are made of. 0 of the latter: queries are made of h itself.
    uint32_t latent, query_latent;
    // The elements of a head as its query is projected, and as the output matrix reads it: head_dim, but in latent attention.
    uint32_t query_dim, value_dim;
    uint64_t parameters;
} or_model_shape_t;

// No type of K or V: a model that is loaded takes or_model_cache_type.
#define OR_KV_BY_MODEL ((or_kv_type_t)255)
// Return the type of K and V that a model of this shape has where nobody asks for another. It is F16 if in F32 one text
// of its full context took more than a GiB, else F32. It follows from the file alone, as texts depend on it.
or_kv_type_t or_model_cache_type(const or_model_shape_t *shape);
// Return the bytes of K and V of one text of the model's full context, in that type, on the CPU with the usual options.
// Passes of more rows need some more for layers with a window.
uint64_t or_model_cache_bytes(const or_model_shape_t *shape);
// Put the types that the options --cache-type-k and --cache-type-v name into *options. "auto" and NULL are OR_KV_BY_MODEL.
// OR_ERR_INVALID, with the option and the types there are.
or_status_t or_model_cache_types_parse(const char *keys, const char *values,
                                       or_model_options_t *options);

typedef struct {
    or_kv_sequence_t *sequence;
    int32_t token;
    uint32_t slot; // OR_KV_NO_SLOT: a prefix row; else the scratch slot this node's K and V go to
    // Tree rows: the parent's slot, or OR_KV_NO_SLOT for a child of the last committed position.
    uint32_t parent_slot;
} or_model_row_t;

// The memory, in bytes, that the model occupies on one rank.
typedef struct {
    uint64_t weights;  // packed
    uint64_t mapped;   // of these, in a packed file: all processes that use it share them
    uint64_t streamed; // of these, on disk: matrices that passes read, of so many layers
    uint32_t streamed_layers;
    uint64_t streamed_buffers; // of two such layers, and of experts that are kept
    uint32_t layers;           // of this rank
    uint32_t host_layers; // of those on a GPU, whose matrices come over from the host in every pass
    uint64_t host_weights; // bytes of those matrices, of `weights`
    uint64_t cache;        // KV pages, if all were used
    uint64_t
        windows; // of these, of layers that keep the last positions of a text only; 0: there are none
    uint64_t slot;    // KV of one tree node of one sequence
    uint64_t buffers; // of a pass
} or_model_memory_t;

// What a pass read on one rank.
typedef struct {
    uint64_t weights; // bytes, packed
    uint64_t experts; // each once for each layer; 0 of a model without
} or_model_reads_t;

// Experts that passes needed where not all have room in memory (weights_memory), on one rank.
typedef struct {
    uint64_t needed;  // each once for each layer and pass
    uint64_t found;   // of these, in memory since an earlier pass
    uint64_t read;    // from disk, ahead too
    uint32_t slots;   // experts that have room; 0: all are where the other weights are
    uint32_t experts; // of all layers
} or_model_kept_t;

// Collective if options->ranks are several: they agree on the file, the arithmetic, the version and the
// number of pages, or all fail with a sentence that names who differs (OR_ERR_MISMATCH).
//
// Borrows gguf until destroy. OR_ERR_FORMAT (missing or misshapen tensor, named),
// OR_ERR_UNSUPPORTED (architecture or tensor type, named; what a GPU does not do), OR_ERR_NO_MEMORY (the
// GPU's too), OR_ERR_NOT_FOUND (no such GPU), OR_ERR_IO (it refuses).
or_status_t or_model_load(const or_gguf_t *gguf, const or_model_options_t *options,
                          or_model_t **model_p);
// Free the model, whose sequences must all be closed.
void or_model_destroy(or_model_t **model_p);

// Return the bytes of a file's weights but for those that are read from it as tokens need them (layer_inputs.h).
uint64_t or_model_weights_bytes(const or_gguf_t *gguf);
// Return about how many bytes the rows of a usual pass take on a CPU, on all ranks together, beside weights, K and V.
uint64_t or_model_pass_bytes(const or_model_shape_t *shape);
// Return the memory that weights of so many bytes get where nobody says it (or_model_options_t). It is all that they need, where
// a CPU's `available` memory has that beside the `pass_bytes` of a pass; else three quarters of what is left beside these.
uint64_t or_model_weights_room(uint64_t bytes, uint64_t pass_bytes, uint64_t available);

// Find the kernels that a model loaded now gets (kernels.h). OR_ERR_UNSUPPORTED if OUTRIDER_KERNELS names none that
// run here; the sentence says which do.
or_status_t or_model_pick_kernels(const or_kernels_t **kernels);

const or_model_shape_t *or_model_shape(const or_model_t *model);
// Return the positions of a sequence: the context that was asked for, or all of the pool if that is less.
uint32_t or_model_context(const or_model_t *model);
uint32_t or_model_rows_max(const or_model_t *model);
// "ref", "avx2", "cuda": the kernels in use.
const char *or_model_kernels(const or_model_t *model);
// OR_ARITH_ID, and the cache types where they are not F32: "canonical-2/k-f16/v-q8_0". With tensor cores it begins
// with theirs, the library's version and the device's kind: "tensor-2/bf16/cublaslt-130100/sm_90x132". A session never
// changes it.
const char *or_model_arith_id(const or_model_t *model);
// Return how several ranks with GPUs add up their parts: "NCCL 2.28.9", from GPU to GPU, or "the host: " with the
// reason. NULL if there is nothing to add, or no GPU here.
const char *or_model_sums(const or_model_t *model);
or_model_memory_t or_model_memory(const or_model_t *model);
// Return what the last pass read. All weights count but those of experts that no row took. On a GPU it waits for the pass.
or_model_reads_t or_model_reads(const or_model_t *model);
// The same of experts that are read from disk: in the last pass, or in all since the load.
or_model_kept_t or_model_kept_of_pass(const or_model_t *model);
or_model_kept_t or_model_kept_of_all(const or_model_t *model);
// Has the model's device or its packed file failed, or was one of its files changed? Then every pass fails from now on,
// and the sentence is recorded.
bool or_model_is_lost(const or_model_t *model);
const or_kv_cache_t *or_model_cache(const or_model_t *model);
const or_ranks_t *or_model_ranks(const or_model_t *model);

// Return how many sequences with slots can be open at once, on all ranks alike; UINT32_MAX if only memory limits
// them.
uint32_t or_model_sequences_max(const or_model_t *model);

// Open a sequence in this model's cache, with room for the model's context and at most 4,096 slots, or what the
// options said. OR_ERR_INVALID for more; OR_ERR_FULL if or_model_sequences_max are open; OR_ERR_NO_MEMORY.
or_status_t or_model_open_sequence(or_model_t *model, uint32_t slots_max,
                                   or_kv_sequence_t **sequence_p);

// Run the rows through all layers. Nothing is committed on failure: OR_ERR_INVALID (token, slot or parent out of
// range, count over rows_max), OR_ERR_FULL (context or pages). A GPU may also fail with OR_ERR_IO, here, at the
// logits of the pass, or in the next pass; the model cannot be used any more then. So may any model whose file somebody
// writes to, and sequences may have grown then; and one of a packed file that is damaged or was changed. The first pass
// waits until all of that was compared with its checksums.
or_status_t or_model_forward(or_model_t *model, const or_model_row_t *rows, uint32_t count);
// Call `between` many times during each pass on a CPU, in its thread, from now on: a pass may take longer than peers wait for a
// sign of life. It must not touch the model. NULL: no more.
typedef void or_model_between_t(void *context);
void or_model_set_between(or_model_t *model, or_model_between_t *between, void *context);

// Write the logits of rows first .. first + count - 1 of the last pass into out [count][vocab_size]. The head is only
// computed for rows asked for; asking twice computes twice and gives the same bits. OR_ERR_INVALID if out of the last
// pass's range.
or_status_t or_model_logits(or_model_t *model, uint32_t first, uint32_t count, float *out);
// The same where only the `top` greatest logits of a row matter (the lowest ids among equals). They are right, and
// every other logit is either right too or -INFINITY. Other ranks send only these.
or_status_t or_model_logits_top(or_model_t *model, uint32_t first, uint32_t count, uint32_t top,
                                float *out);

// Follow the leader on any other rank: do what it does until its model is destroyed (OR_OK). Any failure is one that
// did not happen on the leader: the sentence says what it is, and the world must end.
or_status_t or_model_follow(or_model_t *model);
