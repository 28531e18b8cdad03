// Goal: no importance matrix, however hostile, crashes the reader or gets a number into an encoder that it may not have.
// Method: the input is the file, of either form. What is accepted has names in order and finite values that are not negative.
#include "launch/model/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static void check(const or_imatrix_t *imatrix)
{
    for (uint32_t i = 0; i < or_imatrix_count(imatrix); i++) {
        uint64_t count;
        const float *values = or_imatrix_values(imatrix, i, &count);
        assert(count > 0);
        assert(i == 0 || strcmp(or_imatrix_name(imatrix, i - 1), or_imatrix_name(imatrix, i)) < 0);
        for (uint64_t k = 0; k < count; k++) {
            assert(isfinite(values[k]) && values[k] >= 0);
        }
    }
}

static or_status_t open_file(const uint8_t *data, size_t size, or_imatrix_t **imatrix)
{
    char path[64];
    int file = memfd_create("imatrix", 0);
    assert(file >= 0);
    ssize_t wrote = write(file, data, size);
    assert(wrote == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    or_status_t status = or_imatrix_open(path, imatrix);
    close(file);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    or_imatrix_t *imatrix = NULL;
    bool is_gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
    or_status_t status = is_gguf ? open_file(data, size, &imatrix)
                                 : or_imatrix_open_bytes("fuzz", data, size, &imatrix);
    assert((imatrix != NULL) == (status == OR_OK));
    assert(status == OR_OK || or_error_text()[0] != '\0');
    if (status == OR_OK) {
        check(imatrix);
    }
    or_imatrix_close(&imatrix);
    return 0;
}
