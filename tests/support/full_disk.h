// full_disk - for tests: a disk without room, as far as this process is concerned.
#pragma once

// No file of this process grows from here on: writing fails with EFBIG.
void fill_disk(void);
// There is room again. After fill_disk.
void empty_disk(void);
