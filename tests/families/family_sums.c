// family-sums FAMILY/SEED: the importance of its matrices over its stored text, one a line: name, inputs, counts, sums.
#include <inttypes.h>

#include "tests/families/family_importance.h"

int main(int argc, char **argv)
{
    family_importance_t it;
    if (argc != 2) {
        fprintf(stderr, "usage: family-sums FAMILY/SEED\n");
        return 2;
    }
    family_importance_open(&it, argv[1], 64, 1);
    for (uint32_t i = 0; i < or_importance_count(it.importance); i++) {
        const or_importance_entry_t *entry = or_importance_entry(it.importance, i);
        printf("%s %" PRIu32, entry->name, entry->inputs);
        for (uint32_t m = 0; m < entry->matrices; m++) {
            printf(" %" PRIu64, entry->counts[m]);
        }
        for (size_t k = 0; k < (size_t)entry->inputs * entry->matrices; k++) {
            printf(" %.9g", entry->sums[k]);
        }
        putchar('\n');
    }
    family_importance_close(&it);
    return 0;
}
