// arch_keys - metadata keys of an architecture, "<name>.<suffix>", for the files that read them.
#pragma once

#include "common/model/arch/arch.h"

#define OR_HEAD_DIM_MAX 1024u
#define OR_DIM_MAX (1u << 20) // width, FFN, vocabulary

typedef struct {
    char text[96];
} or_metadata_key_t;

or_metadata_key_t or_arch_key(const or_arch_t *arch, const char *suffix);

// Check that heads of query can share so many of key and value, and that a head is of even size. OR_ERR_FORMAT.
or_status_t or_arch_check_heads(const or_gguf_t *gguf, uint32_t heads, uint32_t kv_heads,
                                uint32_t head_dim);

// A number that, where the file gives it, must be `expected`, as the graph has no other way. OR_ERR_UNSUPPORTED names the key.
or_status_t or_arch_require(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                            uint32_t expected);

// Read a required number within 1 .. max. OR_ERR_FORMAT names the key.
or_status_t or_arch_read_count(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                               uint32_t max, uint32_t *value);
