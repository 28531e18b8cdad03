// arch_keys - metadata keys of an architecture, "<name>.<suffix>", for the files that read them.
#pragma once

#include "common/model/arch/arch.h"

typedef struct {
    char text[96];
} or_metadata_key_t;

or_metadata_key_t or_arch_key(const or_arch_t *arch, const char *suffix);

// Read a required number within 1 .. max. OR_ERR_FORMAT names the key.
or_status_t or_arch_read_count(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                               uint32_t max, uint32_t *value);
