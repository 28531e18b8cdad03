// given_files - the only files that a fuzzer's libraries can open and map.
//
// open, mmap, munmap and madvise are replaced (REPLACES in CMakeLists.txt). A mapping is a copy of exactly the file's
// size, so AddressSanitizer sees the first byte read behind the end, where a real one would have a page of zeros.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GIVEN_FILES_MAX 2u

// Put file `index` at `path` with these bytes, or remove it if `path` is NULL. Path and bytes are borrowed.
void given_files_put(size_t index, const char *path, const uint8_t *bytes, size_t count);
