// Goal: a line of an `authorized` file is a grant or is refused in words, and a grant that was taken means the
// same when it is written and read again.
// Method: parse, check, format, parse, compare.
#include <stdlib.h>
#include <string.h>

#include "proto/keys/key_grant.h"
#include "tests/fuzz/fuzz.h"

static void assert_same(const or_key_grant_t *a, const or_key_grant_t *b)
{
    assert(strcmp(a->key, b->key) == 0 && strcmp(a->name, b->name) == 0);
    assert(strcmp(a->owner, b->owner) == 0 && a->roles == b->roles && a->trusted == b->trusted);
    assert(a->sessions_max == b->sessions_max && a->nodes_max == b->nodes_max);
    assert(a->tokens_per_minute == b->tokens_per_minute);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    char unknown[16] = "", text[OR_KEY_GRANT_BYTES];
    or_key_grant_t grant, again;
    assert(line != NULL);
    memcpy(line, data, size);
    line[size] = '\0';
    if (or_key_grant_is_there(line) &&
        or_key_grant_parse(line, &grant, unknown, sizeof unknown) == OR_OK) {
        assert(or_key_grant_check(&grant) == OR_OK);
        or_key_grant_format(&grant, text);
        assert(or_key_grant_is_there(text));
        assert(or_key_grant_parse(text, &again, unknown, sizeof unknown) == OR_OK);
        assert_same(&grant, &again);
    }
    free(line);
    return 0;
}
