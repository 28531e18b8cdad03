// families - how Hugging Face's checkpoints of each family name what GGUF names otherwise.
//
// The engine's tables (common/model/arch) say which tensors and numbers a family has. The tables here say where the
// checkpoint has them: names of modules and of keys in config.json, with transformers' defaults for keys that are not there.
#pragma once

#include <stdint.h>

#include "common/model/arch/arch.h"

// A module of a layer: "attn_q" in GGUF is "self_attn.q_proj" there. ".weight" and ".bias" are the same in both. A tensor of
// all experts is one of each there, with its number at '#'. Several rows of one module are its names in order of preference.
// A row with an ending, as "attn_sinks.weight", has the whole name there.
typedef struct {
    const char *ours, *theirs;
} or_hf_name_t;

// A number of config.json that goes to the metadata as it is.
typedef struct {
    const char *theirs, *suffix; // NULL: no config has it
    double usual;                // where the config does not have it; 0: it must
} or_hf_number_t;

// A key whose value, if it is there, must be one of a list of words: another makes another function.
typedef struct {
    const char *key, *allowed; // words between spaces; numbers and flags as JSON has them
    bool needed;               // transformers' default is another
} or_hf_rule_t;

// The keys of the counts that all families have.
typedef struct {
    const char *context, *layers, *width, *ffn, *heads, *kv_heads;
} or_hf_counts_t;

// The keys of the counts of a family with experts.
typedef struct {
    const char *experts, *experts_before; // today, and in older configs
    const char *used, *ffn;
    const char *shared_ffn; // NULL: there is no shared expert, or ...
    const char *
        shared_count; // ... the config has the number of those of which it is made; NULL: it has not
    const char *dense_layers; // the first ones, which have no experts; NULL: all have, or ...
    // ... the config lists a kind for each layer, "dense" or "sparse"; where it does not, the first is dense. NULL: it does not.
    const char *layer_kinds;
} or_hf_expert_counts_t;

typedef struct {
    const char *architecture; // "architectures" of config.json
    const char *name;         // general.architecture of GGUF
    // Of rows with the same architecture that one counts whose flag of the config is true, if one is; NULL: no flag is asked.
    const char *flag;
    // The part of the config that is about the model of text; NULL: all of it is. Then the beginnings of the names of other
    // tensors, between spaces; NULL: there are none.
    const char *text_config, *towers;
    const char *outer; // before all names but the head's; a checkpoint may leave it out
    const char *layers, *embedding, *positions, *norm; // below it; positions NULL: none are learned
    // What makes the layers' own inputs, of models that have these; NULL: none has.
    const char *input_embedding, *input_projection, *input_norm;
    const or_hf_name_t *names; // of modules, before those of Llama's kind; ends with a zeroed row
    const or_hf_counts_t *counts;         // keys
    const or_hf_expert_counts_t *experts; // NULL: the FFN is not experts
    const or_hf_number_t *numbers;        // ends with a zeroed row
    const or_hf_rule_t *rules;            // ends with a zeroed row
    const char
        *ignored; // the ends of tensors' names that hold nothing that was learned, between spaces
    uint32_t context;  // where the config does not say; 0: it must
    uint32_t head_dim; // likewise; 0: the width's part of it
    double rope_base;  // likewise
    double rotated;    // likewise: the part of a head
    bool
        may_rotate_parts; // the engine's order of rows allows that only a part of a head is rotated
    bool needs_kv_heads;  // transformers' default is not the number of heads
    bool is_tied;         // likewise: the embedding is the head
    bool norms_less_one;  // norms' weights are stored less 1
    bool pairs_halves;    // a rotation's pairs are half a head apart, and in GGUF neighbours
    bool has_inputs_first; // matrices are transposed
    bool may_lack_ffn;     // it is four times the width then
    bool
        groups_heads; // Q, K and V are one tensor, by head of K and V; flags say how many there are
    uint32_t positions_before; // rows of learned positions that no token has
    bool rotates_windows; // layers are rotated that have a window, or all where no window is said
    bool lists_windows;   // GGUF has a flag for each layer
    bool queries_grow;    // by "llama_4_scaling_beta", and YaRN's "mscale" is said
    bool
        windows_from_layer; // "use_sliding_window" and "max_window_layers" say which layers have one
    bool scales_by_scalar;  // "query_pre_attn_scalar" is what scores are divided by the root of
    // Experts are one tensor, with a row for each input, in whose columns gates and ups take turns; or blocks and scales of
    // MXFP4, with a row for each output.
    bool stacks_experts;
    bool stacks_as_gguf;   // experts are one tensor, as GGUF has them, gates and ups together
    bool needs_scaling;    // of rotations: transformers' default has one
    bool gates_by_sigmoid; // experts are chosen by sigmoids
    bool tells_routing;    // GGUF says how experts are chosen
    bool has_latent;       // attention is latent, and rotated elements are a head's last
    bool keeps_merges;     // a tokenizer over characters becomes GGUF's kind "gemma4"
    uint32_t window;       // where the config does not say; 0: none
} or_hf_family_t;

// The family that config.json names as its architecture, the first of those. OR_ERR_UNSUPPORTED lists all.
or_status_t or_hf_family_find(const char *architecture, const or_hf_family_t **family_p);
// Family i of the table; NULL after the last.
const or_hf_family_t *or_hf_family_at(size_t i);

// A tensor "attn_q.weight" of a layer. `expert` is for one of those of all experts.
typedef struct {
    uint32_t layer, expert;
    const char *suffix;
} or_hf_tensor_t;

// Write its name there, without the outer prefix: the one preferred (`choice` 0), or the next. false if there is none.
bool or_hf_layer_name(const or_hf_family_t *family, const or_hf_tensor_t *tensor, uint32_t choice,
                      char *name, size_t capacity);
// Does the name end in one of the family's ignored ends?
bool or_hf_is_ignored(const or_hf_family_t *family, const char *name);
// Does it belong to a tower?
bool or_hf_is_of_tower(const or_hf_family_t *family, const char *name);
