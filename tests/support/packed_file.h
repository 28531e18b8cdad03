// packed_file - a packed file in a folder of the test's own, and damage to it.
#pragma once

#include <stdint.h>

extern char packed_folder[64];
extern char packed_path[128]; // in it

// Make the folder and remove it with all that is in it: for cmocka, of a group of tests.
int packed_folder_make(void **state);
int packed_folder_remove(void **state);

// Pack the model at `path` into packed_path. Fails the test if that fails.
void packed_file_make(const char *path);
// Change one byte of the packed file, in place but with its time.
void packed_file_flip(uint64_t at);
