// family-model - write the small random model of a family that the tests compare, as an ordinary file.
//
//     family-model gemma2/0 OUT.gguf
#include <stdio.h>
#include <stdlib.h>

#include "tests/families/family_file.h"

static int copy(const char *from, const char *to)
{
    static char bytes[1u << 16];
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    int status = in != NULL && out != NULL ? 0 : 1;
    for (size_t count = 1; status == 0 && count > 0;) {
        count = fread(bytes, 1, sizeof bytes, in);
        status = fwrite(bytes, 1, count, out) == count ? 0 : 1;
    }
    status |= in != NULL ? fclose(in) : 0;
    return status | (out != NULL ? fclose(out) : 0);
}

int main(int count, char **words)
{
    if (count != 3) {
        fprintf(stderr, "usage: family-model FAMILY/SEED OUT\n");
        return 2;
    }
    char *path = family_file_make(words[1]); // ends the program if there is no such family
    int status = copy(path, words[2]);
    if (status != 0) {
        fprintf(stderr, "family-model: cannot write %s\n", words[2]);
    }
    free(path);
    return status == 0 ? 0 : 1;
}
