// full_disk - makes the disk look full to this process, for tests.
#pragma once

// Keep all files of this process from growing: writing fails with EFBIG.
void fill_disk(void);
// Make room again, after fill_disk.
void empty_disk(void);
