// config - a checkpoint's config.json: its family, its shape, and the numbers that GGUF has as metadata.
//
// Everything that changes what the model computes is either written, or checked to be what the engine does anyway.
// Anything else is refused by name.
#pragma once

#include "common/gguf/gguf_writer.h"
#include "launch/model/convert/families/families.h"
#include "launch/model/convert/json_fields.h"
#include "launch/model/convert/weights/quantised.h"

// Numbers that divide the frequencies of rotations: a tensor of its own in GGUF.
typedef struct {
    const char *name; // NULL: there is no such tensor
    float *values;    // owned
    uint32_t count;
} or_rope_tensor_t;

#define OR_ROPE_TENSORS_MAX 2u
#define OR_HF_LAYERS_MAX 1024u
#define OR_HF_DIM_MAX (1u << 20)
#define OR_HF_HEAD_DIM_MAX 1024u

typedef struct {
    const or_hf_family_t *family;
    const or_arch_t *arch;
    or_json_t text; // the part of the config that is about the model of text; mostly all of it
    or_model_shape_t shape;
    bool is_tied;          // the embedding is the head
    uint32_t window;       // of layers that have one, in the metadata; 0: none
    uint32_t guess_layers; // behind the others, which make guesses and are left out
    or_hf_quantised_t quantised;
    or_rope_tensor_t ropes[OR_ROPE_TENSORS_MAX];
} or_hf_config_t;

// Read a config, and write its metadata to `writer`. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED with file, key and fault;
// OR_ERR_NO_MEMORY. In any case or_hf_config_fini follows.
or_status_t or_hf_config_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config);
void or_hf_config_fini(or_hf_config_t *config);

// The part about experts (config_experts.c), once the size of one is in the shape. Without experts it only writes the FFN's.
or_status_t or_hf_experts_read(or_json_t json, or_hf_config_t *config);
or_status_t or_hf_experts_write(or_json_t json, const or_hf_config_t *config,
                                or_gguf_writer_t *writer);
// A count of the config within 1 .. max, which must be there.
or_status_t or_hf_read_count(or_json_t json, const char *key, uint32_t max, uint32_t *value);

// The part about layers whose heads differ, that attend to others' K and V or have inputs of their own (config_heads.c), once the
// usual heads and the FFN are known.
or_status_t or_hf_heads_read(or_json_t json, or_hf_config_t *config);
or_status_t or_hf_heads_write(const or_hf_config_t *config, or_gguf_writer_t *writer);

// The part about layers that differ (config_layers.c), once the shape is known. It may shorten the context.
or_status_t or_hf_layers_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config);
// The part about rotations (config_rope.c), once the shape is known.
or_status_t or_hf_rope_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config);

// Metadata "<architecture>.<suffix>". OR_ERR_NO_MEMORY.
or_status_t or_hf_set_u32(const or_hf_config_t *config, or_gguf_writer_t *writer,
                          const char *suffix, uint32_t value);
or_status_t or_hf_set_f32(const or_hf_config_t *config, or_gguf_writer_t *writer,
                          const char *suffix, double value);
or_status_t or_hf_set_string(const or_hf_config_t *config, or_gguf_writer_t *writer,
                             const char *suffix, const char *value);
