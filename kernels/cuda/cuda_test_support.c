#include "kernels/cuda/cuda_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 77 // what CTest takes for it (SKIP_RETURN_CODE)

void cuda_test_check(int status, const char *file, int line)
{
    if (status == OR_CUDA_OK)
        return;
    print_error("the device: %s\n", or_cuda_text(status));
    _fail(file, line);
}

or_cuda_t *cuda_test_open(void)
{
    if (or_cuda_count() == 0) {
        puts("no GPU");
        exit(SKIPPED);
    }
    or_cuda_t *cuda = NULL;
    cuda_test_ok(or_cuda_open(0, &cuda));
    return cuda;
}

void *cuda_test_upload(or_cuda_t *cuda, const void *from, size_t bytes)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(cuda, bytes, &at));
    if (from) {
        cuda_test_ok(or_cuda_upload(cuda, at, from, bytes));
        return at;
    }
    void *poison = malloc(bytes + 1);
    assert_non_null(poison);
    memset(poison, 0xAA, bytes);
    cuda_test_ok(or_cuda_upload(cuda, at, poison, bytes));
    free(poison);
    return at;
}

void cuda_test_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    cuda_test_ok(or_cuda_download(cuda, to, from, bytes));
    cuda_test_ok(or_cuda_wait(cuda));
}
