// streamed_support - a disk that fails, and the least memory of weights, for tests of layers and experts on disk.
//
// All reading goes through a pread of this file's own: link with LINKER:--wrap=pread.
#pragma once

#include "common/model/model.h"

typedef enum {
    DISK_GOOD,
    DISK_SHORT,      // returns less than was asked for, or nothing yet
    DISK_NOT_DIRECT, // refuses to be read past the page cache
    DISK_BROKEN,     // an error of the device
    DISK_LATE,       // the same, a while later
    DISK_ENDED,      // the file has no more bytes
    DISK_TOUCHED,    // somebody touches the file meanwhile
} disk_t;

void disk_becomes(disk_t kind);
// Return how much was asked of the disk since the last disk_count_anew.
uint64_t disk_bytes_read(void);
void disk_count_anew(void);

// Options of a model that is packed at packed_path (packed_file.h), whose weights may have so much memory.
or_model_options_t with_memory(uint64_t bytes);
// Return the least memory with which all ranks of a world load the model: the refusal of a load with less names it. Passes have
// rows_max rows, 0 being the default.
uint64_t least_memory_with(const char *path, int size, int stages, uint32_t rows_max);
uint64_t least_memory(const char *path, int size, int stages);
