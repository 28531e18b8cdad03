#include "tests/families/family_importance.h"

#include "tests/families/family_file.h"

#define POSITIONS_MAX 256u

void family_importance_open(family_importance_t *it, const char *name, uint32_t rows,
                            uint32_t threads)
{
    int32_t tokens[POSITIONS_MAX];
    it->path = family_file_make(name);
    model_fixture_open(&it->fixture, it->path, NULL, (or_model_options_t){.threads = threads});
    uint32_t count = family_file_tokens(it->fixture.gguf, tokens, POSITIONS_MAX);
    assert_int_equal(or_importance_create(it->fixture.model, true, &it->importance), OR_OK);
    or_kv_sequence_t *sequence = model_fixture_sequence(&it->fixture, 0);
    for (uint32_t first = 0; first < count; first += rows) {
        or_model_row_t pass[POSITIONS_MAX];
        uint32_t left = count - first, here = left < rows ? left : rows;
        for (uint32_t i = 0; i < here; i++) {
            pass[i] = prefix_row(sequence, tokens[first + i]);
        }
        model_fixture_pass(&it->fixture, pass, here, NULL);
    }
    or_kv_sequence_close(&sequence);
}

void family_importance_close(family_importance_t *it)
{
    or_importance_destroy(&it->importance);
    model_fixture_close(&it->fixture);
    free(it->path);
}
