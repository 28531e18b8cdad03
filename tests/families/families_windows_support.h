// families_windows_support - texts whose layers with a window keep the last positions only, beside a cache of whole texts.
//
// The families' small random models that have windows (family_file.h), of 64 positions. A cache on the CPU that keeps whole
// texts is the truth; the other one keeps one position more than the windows. Texts are longer than both.
#pragma once

#include "tests/model/ranks_record.h"

#define WINDOWS_VOCAB 64u
#define WINDOWS_POSITIONS 200u
#define WINDOWS_CHUNK 32u // rows of a pass at most

typedef struct {
    model_fixture_t fixture; // the model that keeps the last positions only
    int32_t tokens[WINDOWS_POSITIONS];
    float truth[WINDOWS_POSITIONS * WINDOWS_VOCAB];
} windows_subject_t;

// Return options with which a model keeps one position more than its windows.
or_model_options_t windows_options(const or_gpu_choice_t *gpu, or_kv_type_t type, uint32_t threads);
void windows_open(windows_subject_t *subject, const char *path, const or_model_options_t *options);
void windows_close(windows_subject_t *subject);

// Each runs texts that end at WINDOWS_POSITIONS, and compares all logits. They are read in chunks, or written in rounds of a
// root and a tree. They are cut back, within reach and beyond, or go on behind another's beginning.
void windows_chunks(windows_subject_t *subject, uint32_t chunk);
void windows_trees(windows_subject_t *subject);
void windows_cuts(windows_subject_t *subject);
void windows_shares(windows_subject_t *subject);

// The leader's cuts and shares, within reach and beyond.
play_t windows_play;
