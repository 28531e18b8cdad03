// Goal: no safetensors file, however hostile, crashes the reader or makes it read outside the file. What it accepts tiles
// the file.
// Method: the input is the file, in memory of exactly its size, so that AddressSanitizer sees the first byte read outside.
#include "launch/model/convert/safetensors.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

static void read_all(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        volatile unsigned char byte = ((const unsigned char *)bytes)[i];
        (void)byte;
    }
}

// Read every tensor; return the bytes of all.
static uint64_t read_tensors(const or_safetensors_t *file)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < or_safetensors_count(file); i++) {
        const or_safetensor_t *tensor = or_safetensors_at(file, i);
        uint64_t elements = 1;
        for (uint32_t d = 0; d < OR_SAFETENSORS_DIMS_MAX; d++) {
            elements *= tensor->dims[d];
        }
        assert(elements == tensor->elements && tensor->dim_count <= OR_SAFETENSORS_DIMS_MAX);
        assert(tensor->elements == 0 || tensor->bytes % tensor->elements == 0);
        assert(tensor->dtype != NULL && strlen(tensor->name) < UINT32_MAX);
        read_all(tensor->data, tensor->bytes);
        bytes += tensor->bytes;
    }
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    or_safetensors_t *file = NULL;
    or_status_t status = or_safetensors_open_bytes("fuzz", data, size, &file);
    assert((file != NULL) == (status == OR_OK));
    assert(status == OR_OK || or_error_text()[0] != '\0');
    if (status == OR_OK) {
        uint64_t header;
        memcpy(&header, data, sizeof header);
        assert(read_tensors(file) + sizeof header + header == size);
    }
    or_safetensors_close(&file);
    return 0;
}
