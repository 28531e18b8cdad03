// family_importance - the importance of a family's matrices over its stored text.
#pragma once

#include "common/model/cpu/importance.h"
#include "tests/model/model_fixture.h"

typedef struct {
    char *path;
    model_fixture_t fixture;
    or_importance_t *importance;
} family_importance_t;

// Run the stored text of the model "FAMILY/SEED" in passes of `rows` on `threads`. Fails the test if that cannot be done.
void family_importance_open(family_importance_t *it, const char *name, uint32_t rows,
                            uint32_t threads);
void family_importance_close(family_importance_t *it);
