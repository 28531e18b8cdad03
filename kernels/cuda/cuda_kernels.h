// cuda_kernels - the arithmetic of the forward pass on a GPU, in canonical arithmetic: the same bits as every
// table of kernels.h.
//
// Lanes are given to outputs, never to K, as on the CPU, so a row's bits depend on its own inputs only. Neither
// the batch nor the kind of processor matters. A model of quantised weights writes the same text on a GPU and on a
// CPU. Tensor cores multiply the integers of a block (16 outputs x 8 rows x 32 weights, exactly); chains of floats
// are in the order of kernels.h.
//
// All pointers are to device memory (or_cuda_alloc) unless said; strides count elements; buffers do not overlap
// unless said. Rows, and widths, may be 0. All kernels are launched on the device's stream (cuda_device.h). The
// functions return OR_CUDA_OK, or the status with which the launch failed.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/kernels.h"

typedef enum { OR_CUDA_F32, OR_CUDA_F16, OR_CUDA_BF16 } or_cuda_float_t;

// ---- rows of floats ----

// Rows of floats, and the forms of them that matrices read. If `blocks` is not NULL, a kernel that writes a row also
// writes its ceil(width / 32) blocks (quantize_row of kernels.h); the floats behind the width in the last block are
// 0. If `halves` is not NULL, it also writes the floats as F16 or BF16, to nearest even, for tensor cores
// (cuda_tensor.h).
typedef struct {
    float *values;
    size_t stride;
    or_q8_block_t *blocks;
    size_t blocks_stride;
    uint16_t *halves;
    size_t halves_stride;
    or_cuda_float_t halves_type;
} or_cuda_rows_t;

// to = rmsnorm(x) of `rows` rows of n floats; to->values may be x.
int or_cuda_rmsnorm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                    uint32_t n, float eps, uint32_t rows, const or_cuda_rows_t *to);
// The same of each of `heads` heads of a row by itself, in place. They lie one after the other, head_dim floats each, and
// share their weights.
int or_cuda_rmsnorm_heads(or_cuda_t *cuda, float *x, size_t x_stride, uint32_t heads,
                          uint32_t head_dim, const float *weight, float eps, uint32_t rows);
// to = layer norm of x, as or_layer_norm (common/model/cpu/elementwise.h) makes it; bias may be NULL, to->values x.
int or_cuda_layer_norm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                       const float *bias, uint32_t n, float eps, uint32_t rows,
                       const or_cuda_rows_t *to);
// Rotate the first `dims` elements of heads that lie one after the other in each row, by row r's position: cosine and
// sine [context][dims / 2].
int or_cuda_rope(or_cuda_t *cuda, bool halves, float *x, size_t x_stride, uint32_t heads,
                 uint32_t head_dim, uint32_t dims, const float *cosine, const float *sine,
                 const uint32_t *positions, uint32_t rows);

// x *= 1 + growth * ln(1 + floor(position / unit)) of n floats of rows, by row r's position.
int or_cuda_scale_by_position(or_cuda_t *cuda, float *x, size_t x_stride, uint32_t n, float growth,
                              uint32_t unit, const uint32_t *positions, uint32_t rows);

// The activations of common/model/cpu/elementwise.h.
typedef enum {
    OR_CUDA_SILU_GATED,
    OR_CUDA_GELU_GATED,
    OR_CUDA_GELU,
    OR_CUDA_GELU_EXACT,
    OR_CUDA_RELU
} or_cuda_activation_t;

// gate = f(gate), or f(gate) * up of a gated one, in place. `up` of others is not read.
int or_cuda_activate(or_cuda_t *cuda, or_cuda_activation_t activation, const or_cuda_rows_t *gate,
                     const float *up, size_t up_stride, uint32_t n, uint32_t rows);
// to = factor * x; to->values may be x.
int or_cuda_scale(or_cuda_t *cuda, const float *x, size_t x_stride, float factor, uint32_t n,
                  uint32_t rows, const or_cuda_rows_t *to);
// x *= factor, in place, with a factor that is in device memory.
int or_cuda_scale_by(or_cuda_t *cuda, float *x, size_t x_stride, const float *factor, uint32_t n,
                     uint32_t rows);
// x = cap * tanh(x / cap)
int or_cuda_softcap(or_cuda_t *cuda, float *x, size_t x_stride, float cap, uint32_t n,
                    uint32_t rows);
// y += x. With x_stride 0 it is the same x, a bias, in every row.
int or_cuda_add(or_cuda_t *cuda, float *y, size_t y_stride, const float *x, size_t x_stride,
                uint32_t n, uint32_t rows);
// Write only the blocks of rows whose floats are there.
int or_cuda_quantize(or_cuda_t *cuda, const or_cuda_rows_t *x, uint32_t n, uint32_t rows);
// y += ((p0 + p1) + (p2 + p3)) + ... over `count` (1, 2, 4 or 8) parts, `part_stride` floats apart, each
// [rows][p_stride]. With `over` it is y = that, and y may be the first part.
int or_cuda_add_parts(or_cuda_t *cuda, bool over, float *y, size_t y_stride, const float *parts,
                      size_t part_stride, size_t p_stride, uint32_t count, uint32_t n,
                      uint32_t rows);

// ---- products ----

#define OR_CUDA_SPANS_MAX 8u
#define OR_CUDA_BESIDE_MAX 3u // matrices that are multiplied by the same rows
#define OR_CUDA_FEW_ROWS 2u   // up to which several are multiplied by one kernel

// Inputs that are summed together. Those of a quantised matrix are counted in blocks of 32 from where its panels
// begin.
typedef struct {
    uint32_t first;
    uint32_t count; // 0: the product is +0
} or_cuda_span_t;

// Rows that follow each other and are multiplied with the same expert, one of several matrices of one shape.
typedef struct {
    uint32_t expert;
    uint32_t first; // row of x and of y
    uint32_t count; // 0: there is nothing to do
} or_cuda_group_t;

typedef struct {
    const or_cuda_group_t *groups; // [count] in device memory
    uint32_t count;
    size_t expert_bytes; // from the panels of an expert to those of the next
} or_cuda_groups_t;

// Parts of the same panels' product, one for each of 1 to OR_CUDA_SPANS_MAX spans: part s is y + s * part_stride.
typedef struct {
    const or_cuda_span_t *spans; // on the host, read before the call returns
    uint32_t count;
    uint32_t x_first; // where the rows of x begin, counted as spans are
    float *y;         // [rows][y_stride], 16 floats for each panel
    size_t y_stride;
    size_t part_stride;
    // The matrix is as many as there are experts, and so are the products: `rows` is the most that a group has. NULL: it
    // is one. Read before the call returns, but for the groups.
    const or_cuda_groups_t *groups;
} or_cuda_parts_t;

// This is matmul_quants of kernels.h. `panels` are as or_quant_pack writes them, each at a multiple of 8 bytes.
int or_cuda_matmul_quants(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                          uint32_t panel_count, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, const or_cuda_parts_t *to);

// A matrix of several that the same rows are multiplied with; y and y_stride as in or_cuda_parts_t.
typedef struct {
    const void *panels;
    uint32_t panel_count;
    float *y;
    size_t y_stride;
} or_cuda_beside_t;

// Multiply by 1 to OR_CUDA_BESIDE_MAX matrices of one type at the same time. Their inputs are the same. to->y and
// to->y_stride are each matrix's own; experts of all are as far apart.
int or_cuda_matmul_quants_beside(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrices,
                                 uint32_t count, size_t panel_bytes, const or_q8_block_t *x,
                                 size_t x_stride, uint32_t rows, const or_cuda_parts_t *to);

// or_cuda_matmul_quants, and or_cuda_add_parts of its parts, n floats of each: y (+)= their sum. What becomes of the parts
// themselves is not said. `to` has 1, 2, 4 or 8 spans and no groups.
int or_cuda_sum_quants(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                       uint32_t panel_count, const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                       const or_cuda_parts_t *to, bool over, float *y, size_t y_stride, uint32_t n);

// These are matmul_f32, matmul_f16 and matmul_bf16 of kernels.h, with panels [panel][k][16], panel_stride elements
// apart, each aligned to 16 bytes.
int or_cuda_matmul_floats(or_cuda_t *cuda, or_cuda_float_t type, const void *panels,
                          size_t panel_stride, uint32_t panel_count, const float *x,
                          size_t x_stride, uint32_t rows, const or_cuda_parts_t *to);

// x = rows of a matrix of `width` inputs in such panels, widened exactly: row r is that of output tokens[r], which the
// matrix must have. Where a model's head is its embedding, one copy serves both.
int or_cuda_embed(or_cuda_t *cuda, or_cuda_float_t type, const void *panels, size_t panel_stride,
                  uint32_t width, const int32_t *tokens, uint32_t rows, float *x, size_t x_stride);

// ---- keys and values ----

// The form in which a vector, one head's K or V of a position, is kept. It is rounded when it is stored, as
// common/model/kv/kv_store.h says. Q8_0 is integers, of which 32 (the last ones perhaps fewer) share a scale, a half.
typedef enum { OR_CUDA_KV_F32, OR_CUDA_KV_F16, OR_CUDA_KV_Q8_0 } or_cuda_kv_type_t;

// Pages and slots hold what those of common/model/kv/kv_cache_internal.h do:
//
//     page    [layer][kv head] { K scales [ceil(head_dim / 32)][32]  numbers [head_dim][32]
//                                V scales [32][ceil(head_dim / 32)]  numbers [32][head_dim] }
//     slots   [layer][kv head][slot] { K scales [ceil(head_dim / 32)]  numbers [head_dim]  V likewise }    of a sequence
//
// Only Q8_0 has scales. In a slot K and V begin at multiples of 4 bytes.
//
// Layers may have heads of their own, or frames (kv_cache.h), which are laid out as pages. Then what follows describes one of
// them, with `layers` 1, or all of them by `each`.

// The numbers of a sequence's pages, by position / OR_KV_BLOCK, and those of the frames of the same positions. No row attends
// to positions whose frame is gone.
typedef struct {
    const uint32_t *pages;
    const uint32_t *frames; // NULL: no layer has any
} or_cuda_page_table_t;

// The heads of a layer; its part of the first page or frame; and the bytes of a slot that the layers before it take.
typedef struct {
    uint32_t kv_heads; // 0: it keeps nothing
    uint32_t head_dim;
    void *pages;
    size_t page_bytes;
    size_t slot_before;
    bool in_frames;
} or_cuda_kv_layer_t;

typedef struct {
    or_cuda_kv_type_t key_type;
    or_cuda_kv_type_t value_type;
    uint32_t layers;
    uint32_t kv_heads; // with `each`: the most of a layer
    uint32_t head_dim;
    void *pages; // from the first that is described here on
    // [layers] in device memory; NULL: layers are alike. For or_cuda_accept alone.
    const or_cuda_kv_layer_t *each;
    size_t
        page_bytes; // of all layers, from a page to the next; 0: no layers but these are in a page
    size_t slot_bytes;  // likewise, of a slot
    size_t slot_before; // bytes of a slot that layers before these take
    bool in_frames;     // `pages` are frames
} or_cuda_kv_t;

// The slot of a row that only fills its place in a pass: it sees what another row sees, and keeps no K and V.
#define OR_CUDA_SHADOW (UINT32_MAX - 1)

// The positions that a row of a pass sees are 0 .. committed - 1 in its sequence's pages. A tree row then sees the
// slots of its ancestors in the order of their positions, itself the last. A prefix row's own position is committed.
typedef struct {
    or_cuda_page_table_t table; // of the sequence
    uint32_t committed;
    uint32_t position; // its own
    void *slots;       // of its sequence
    uint32_t slots_max;
    uint32_t slot;         // its own; UINT32_MAX: a prefix row; OR_CUDA_SHADOW: nothing is stored
    const uint32_t *chain; // [chain_count] slots
    uint32_t chain_count;  // 0 of a prefix row
} or_cuda_seen_t;

// Store a layer's K and V of the rows, [rows][stride] with the heads side by side, where `seen` [rows] says.
int or_cuda_store_kv(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                     const or_cuda_seen_t *seen, uint32_t rows, const float *key,
                     const float *value, size_t stride);

#define OR_CUDA_GROUP_MAX 16u     // query heads that share a KV head, at most
#define OR_CUDA_HEAD_DIM_MAX 768u // of attention: 16 queries fill a block's shared memory

// Query heads side by side, of which each `group` share a KV head. Where they are a part of a model's, the first KV
// head's group may lack its first heads, and the last one's its last.
//
//     kv head       0        1            2            group 4, first 2, count 7
//     query heads   - - 0 1  2 3 4 5      6 - - -
typedef struct {
    uint32_t count; // 0: there is nothing to do
    uint32_t group;
    uint32_t first; // place of the first head in its group
} or_cuda_heads_t;

// Return the floats that attention wants for a query, which is one head of one row and may see so many positions. They are
// a score for each, and the sums of each part (OR_ATTENTION_PART).
static inline size_t or_cuda_attention_floats(size_t positions, uint32_t head_dim)
{
    return positions + (positions + OR_ATTENTION_PART - 1) / OR_ATTENTION_PART * head_dim;
}

// The way in which scores become weights. Of the positions that a row sees it attends to the last `window`, or to all.
typedef struct {
    float scale;     // of scores
    float softcap;   // c: scaled scores become c * tanh(score / c); 0: none
    uint32_t window; // 0: there is none
    // [heads->count] of each head a score more, without a value: it takes a part of the weights. NULL: there are none
    const float *sinks;
} or_cuda_attention_t;

// Attention of rows whose K and V are stored: query [rows][query_stride] -> to. `scores` is room for
// or_cuda_attention_floats(scores_stride, kv->head_dim) floats for each of rows * heads->count queries. No row sees more
// than scores_stride positions, with sinks one less, and room for more changes no bit. Canonical: chains over the positions of a part in order,
// parts added in order (kernels.h), softmax over all positions that the row attends to.
int or_cuda_attention(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                      const or_cuda_seen_t *seen, uint32_t rows, const float *query,
                      size_t query_stride, const or_cuda_heads_t *heads,
                      const or_cuda_attention_t *attention, float *scores, size_t scores_stride,
                      const or_cuda_rows_t *to);

// Accepted nodes: of all layers and heads, slot from[i] becomes position `position` + i of the sequence with this page
// table; `from` is in device memory.
int or_cuda_accept(or_cuda_t *cuda, const or_cuda_kv_t *kv, const or_cuda_page_table_t *table,
                   uint32_t position, const void *slots, uint32_t slots_max, const uint32_t *from,
                   uint32_t count);
// Return the bytes of a page, of all layers and heads; of a sequence's slots.
size_t or_cuda_page_bytes(const or_cuda_kv_t *kv);
size_t or_cuda_slots_bytes(const or_cuda_kv_t *kv, uint32_t slots_max);

// ---- sampling ----

// The way in which a row's next token is found: as or_sampler_distribution and or_noise_perturb (common/decode) do it
// without biases and penalties.
typedef struct {
    uint64_t key;         // of the noise
    uint32_t byte_offset; // its place
    uint32_t zero_width;
    bool noisy;        // without, scores stand for themselves
    float temperature; // 0: only the greatest logit, the lowest id among equals
    uint32_t top_k;    // 0: off
    float top_p;       // 1: off
    double log_min_p;  // or_ln(min_p); -INFINITY: off
    double window;     // >= 0
} or_cuda_contest_t;

typedef struct {
    int32_t id;
    float logit;
} or_cuda_contender_t;

#define OR_CUDA_CONTENDERS_MAX 1024u
#define OR_CUDA_CONTENDERS_MANY UINT32_MAX

// For each row of logits [rows][stride] write the contenders, ids ascending, into list
// [rows][OR_CUDA_CONTENDERS_MAX], and how many into counts [rows]. They are the tokens that the filters keep and
// whose score (logit / temperature, with noise) is within `window` of the best one's. A few just below may be listed
// as well; none that matters is missing, and none that a filter drops is there. MANY where they are more, where no
// logit is finite, and where top-p would keep more or looks at a row in which some logit is not finite. Then the host
// has to look at the row. token_keys [vocab_size] are the noise keys; scratch is or_cuda_contenders_bytes(vocab_size,
// rows).
int or_cuda_contenders(or_cuda_t *cuda, const float *logits, size_t stride, uint32_t vocab_size,
                       const uint64_t *token_keys, const or_cuda_contest_t *contests, uint32_t rows,
                       void *scratch, or_cuda_contender_t *list, uint32_t *counts);
size_t or_cuda_contenders_bytes(uint32_t vocab_size, uint32_t rows);

// ---- rejection ----

// A node of a tree, 0 the root. Its children are linked in the order in which they were drawn; node 0 is nobody's child.
typedef struct {
    int32_t token;
    uint32_t row; // of logits; not looked at where the vocabulary has no such token
    uint32_t first_child;
    uint32_t next_sibling;
    uint32_t dist; // that all its children were drawn from, without replacement
} or_cuda_node_t;

// A reduced distribution (common/decode/sampling/distribution.h) is `count` tokens and weights from place `first` on.
typedef struct {
    uint32_t first;
    uint32_t count;
} or_cuda_distribution_t;

#define OR_CUDA_DISTRIBUTION_ENTRIES_MAX 256u
#define OR_CUDA_NODES_MAX 1024u // besides the root

// A tree to be judged as or_accept does by the rule "recursive", temperature being all that makes a distribution of logits.
typedef struct {
    const float *logits; // [rows][stride]
    size_t stride;
    uint32_t vocab_size; // at most OR_CUDA_REJECT_VOCAB_MAX
    uint32_t rows;
    double temperature; // above 0
    uint64_t key;       // of the choices, and their round
    uint32_t round;
    uint32_t stop_count;
    const uint32_t *stop_ids;
    const or_cuda_node_t *nodes;
    const or_cuda_distribution_t *dists; // as or_draws_check wants them
    const uint32_t *tokens;
    const uint32_t *weights;
} or_cuda_trial_t;

typedef struct {
    uint32_t decided; // 0: a logit is not finite, and the host has to judge
    uint32_t stopped; // `next` is a stop id
    int32_t next;
    uint32_t accepted_count;
    // A digest of all that was weighed: the numerator and denominator of each coin, the total of each draw. From 0 on
    // each double's bits go in as (digest ^ bits) * OR_CUDA_DIGEST_FACTOR, so paths can be compared beyond their
    // luck.
    uint64_t digest;
    uint32_t accepted[OR_CUDA_NODES_MAX];
} or_cuda_path_t;

#define OR_CUDA_REJECT_VOCAB_MAX 458752u
#define OR_CUDA_DIGEST_FACTOR UINT64_C(0x9E3779B97F4A7C15)

// Find the accepted nodes of a tree and the token that follows, by the choices that or_keyed_chooser makes. scratch
// has or_cuda_reject_bytes(vocab_size, rows) bytes.
int or_cuda_reject(or_cuda_t *cuda, const or_cuda_trial_t *trial, void *scratch,
                   or_cuda_path_t *path);
size_t or_cuda_reject_bytes(uint32_t vocab_size, uint32_t rows);

// ---- draft trees ----
//
// A best-first tree of few guesses (drafter/build/build_coupled.c) that grows on the device, without a word to the host:
//
//     grow ─▶ a batch of guesses ─▶ a pass ─▶ contenders of its rows ─▶ grow ─▶ a batch ─▶ ...
//
// Each step lists the best children of the rows that were run, offers them to the tree, and writes what the next
// pass looks up. What the host gets in the end are the rows that were run and their contenders; it grows its own tree
// from them and decides what belongs to it. So nothing here has to be exact, or the same on two devices: a guess that
// is not run here is run later, and one too many costs its time.

#define OR_CUDA_GROWTH_MAX 64u           // guesses besides the root, rows of a pass, and levels
#define OR_CUDA_GROWTH_ROWS 128u         // of all passes
#define OR_CUDA_GROWTH_CONTENDERS 32768u // of all rows

typedef struct {
    int32_t token;
    uint32_t parent;      // its place in `guesses`
    uint32_t depth;       // the root's is 0
    uint32_t slot;        // where its K and V lie; UINT32_MAX: it was not run, or is the root
    uint32_t byte_offset; // where its children begin
    uint32_t zero_width;
    double weight; // log of the believed probability; the root's is 0
} or_cuda_guess_t;

// A tree and what becomes of it.
typedef struct {
    // These are set by the host, and only read.
    uint32_t nodes; // how many guesses are wanted, 1 to OR_CUDA_GROWTH_MAX
    uint32_t depth; // and how deep, 1 to OR_CUDA_GROWTH_MAX
    uint32_t width; // children of a guess: 1 makes a chain
    // Rows of each pass, 1 to OR_CUDA_GROWTH_MAX; those without a guess are shadows of the first.
    uint32_t rows;
    uint32_t passes; // at most
    double tau;      // weight of a child: its parent's + log softmax(scores / tau)
    double nearly;   // run together: what weighs within it of the best
    // A batch that brings less than this part of a round's tokens is not run: Σ e^weight of the batch, against 1 +
    // Σ e^weight of the tree. 0: any is.
    double share;
    or_cuda_contest_t contest;  // of all rows, but for their places
    or_cuda_page_table_t table; // of the sequence
    uint32_t committed;
    void *slots;
    uint32_t slots_max;
    uint32_t free_slot_count; // taken in this order
    uint32_t free_slots[OR_CUDA_GROWTH_ROWS];
    // These are set by the host, and grow here. guesses[0] is the root, which was run; then those that are known,
    // best first: equal weights by depth, siblings in the order of their scores. Whoever has children among them has
    // a slot. The children of those that were run have been offered.
    uint32_t guess_count; // besides the root
    or_cuda_guess_t guesses[OR_CUDA_GROWTH_MAX + 1];
    // Here alone; 0 at first.
    uint32_t begun;
    uint32_t order[OR_CUDA_GROWTH_MAX]; // places of guesses, best first
    uint32_t batch_count;
    uint32_t batch[OR_CUDA_GROWTH_MAX]; // places of the guesses that the next pass runs
} or_cuda_growth_t;

// The tables of a pass.
typedef struct {
    int32_t *tokens;             // [rows]
    uint32_t *positions;         // [rows]
    or_cuda_seen_t *seen;        // [rows]
    uint32_t *chains;            // [rows][OR_CUDA_GROWTH_MAX]
    or_cuda_contest_t *contests; // [rows]
} or_cuda_growth_tables_t;

// A row that was run.
typedef struct {
    int32_t token;
    uint32_t parent_slot; // UINT32_MAX: the root
    uint32_t slot;
    uint32_t first; // of its contenders, as or_cuda_contenders lists them
    uint32_t count;
} or_cuda_grown_row_t;

// All that the host is told; 0 at first. Rows whose contenders are MANY, or found no room, are left out, and nothing
// is run after such a pass.
typedef struct {
    uint32_t passes;
    uint32_t row_count;
    uint32_t contender_count;
    or_cuda_grown_row_t rows[OR_CUDA_GROWTH_ROWS];
    or_cuda_contender_t contenders[OR_CUDA_GROWTH_CONTENDERS];
} or_cuda_grown_t;

// One step: list [rows][OR_CUDA_CONTENDERS_MAX] and counts [rows] are of the batch that was run, if one was. token_keys
// as for contenders; widths are the bytes that tokens print. Whatever the batch, the tables are written for
// growth->rows rows, unless no batch was ever chosen. Tells `loop` (cuda_device.h; OR_CUDA_NO_LOOP) whether there is a
// batch to run; after a step that chose none, none does. `rows` is growth->rows; scratch is or_cuda_grow_bytes(rows).
int or_cuda_grow(or_cuda_t *cuda, or_cuda_growth_t *growth, uint32_t rows,
                 const uint64_t *token_keys, const uint32_t *widths,
                 const or_cuda_contender_t *list, const uint32_t *counts, void *scratch,
                 const or_cuda_growth_tables_t *tables, or_cuda_grown_t *grown,
                 or_cuda_loop_t loop);
size_t or_cuda_grow_bytes(uint32_t rows);

#ifdef __cplusplus
}
#endif
