#include "launch/bench/bench_list.h"

#include <string.h>

#define SPACE " \t"

// The word that begins the list: its first byte, its length, and where the list goes on; NULL there
// if it was the last.
static const char *cut(const char *list, size_t *length, const char **rest)
{
    const char *comma = strchr(list, ',');
    const char *end = comma != NULL ? comma : list + strlen(list);
    const char *begin = list + strspn(list, SPACE);
    *rest = comma != NULL ? comma + 1 : NULL;
    while (end > begin && strchr(SPACE, end[-1]) != NULL) {
        end--;
    }
    *length = end > begin ? (size_t)(end - begin) : 0;
    return begin;
}

or_status_t or_bench_list_next(const char *option, const char **list_p,
                               char word[OR_BENCH_WORD_BYTES])
{
    if (*list_p == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    size_t length;
    const char *rest;
    const char *begin = cut(*list_p, &length, &rest);
    if (length == 0) {
        return or_fail(OR_ERR_INVALID, "%s: an empty word in '%s'", option, *list_p);
    }
    if (length >= OR_BENCH_WORD_BYTES) {
        return or_fail(OR_ERR_INVALID, "%s: '%.*s' is too long", option, (int)length, begin);
    }
    memcpy(word, begin, length);
    word[length] = '\0';
    *list_p = rest;
    return OR_OK;
}

bool or_bench_list_has(const char *list, const char *word)
{
    while (list != NULL) {
        size_t length;
        const char *begin = cut(list, &length, &list);
        if (strlen(word) == length && memcmp(begin, word, length) == 0) {
            return true;
        }
    }
    return false;
}
