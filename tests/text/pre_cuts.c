// pre-cuts - shows where rules cut texts, for test_cuts.py.
//
// pre-cuts RULE: a line of hexadecimal bytes in, a line of the pieces' ends out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/pretokenize.h"

static or_status_t print_end(void *context, size_t start, size_t end)
{
    (void)start;
    bool *is_first = context;
    printf("%s%zu", *is_first ? "" : " ", end);
    *is_first = false;
    return OR_OK;
}

// Read bytes in place. Returns their count.
static size_t read_bytes(char *line)
{
    size_t count = 0;
    unsigned byte;
    for (const char *at = line; sscanf(at, "%2x", &byte) == 1; at += 2) {
        line[count++] = (char)byte;
    }
    return count;
}

int main(int argc, char **argv)
{
    const or_pre_rule_t *rule = argc == 2 ? or_pre_rule_find(argv[1], strlen(argv[1])) : NULL;
    or_pretokenizer_t *pretokenizer = NULL;
    char *line = NULL;
    size_t room = 0;
    or_status_t status = rule != NULL ? or_pretokenizer_create(rule, &pretokenizer)
                                      : or_fail(OR_ERR_INVALID, "pre-cuts RULE");
    while (status == OR_OK && getline(&line, &room, stdin) > 0) {
        bool is_first = true;
        status = or_pretokenize(pretokenizer, line, read_bytes(line), print_end, &is_first);
        printf("\n");
    }
    if (status != OR_OK) {
        fprintf(stderr, "pre-cuts: %s\n", or_error_text());
    }
    free(line);
    if (pretokenizer != NULL) {
        or_pretokenizer_destroy(&pretokenizer);
    }
    return status == OR_OK ? 0 : 1;
}
