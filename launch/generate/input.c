#include "launch/generate/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX ((size_t)1 << 30)
#define SPACE " \t\r\n"
#define BLANKS " \t"
#define SEPARATORS "," SPACE

static or_status_t read_all(FILE *file, const char *path, char **bytes_p, size_t *length_p)
{
    size_t length = 0, capacity = 65536;
    char *bytes = malloc(capacity);
    while (bytes != NULL) {
        length += fread(bytes + length, 1, capacity - 1 - length, file);
        if (ferror(file) || length >= INPUT_BYTES_MAX) {
            or_status_t status =
                ferror(file) ? or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno))
                             : or_fail(OR_ERR_INVALID, "%s is over 1 GiB", path);
            free(bytes);
            return status;
        }
        if (feof(file)) {
            bytes[length] = '\0';
            *bytes_p = bytes;
            *length_p = length;
            return OR_OK;
        }
        capacity *= 2;
        char *larger = realloc(bytes, capacity);
        if (larger == NULL) {
            free(bytes);
        }
        bytes = larger;
    }
    return or_fail(OR_ERR_NO_MEMORY, "no memory to read %s", path);
}

or_status_t or_input_read(const char *path, char **bytes_p, size_t *length_p)
{
    if (strcmp(path, "-") == 0) {
        return read_all(stdin, "standard input", bytes_p, length_p);
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return or_fail(OR_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    or_status_t status = read_all(file, path, bytes_p, length_p);
    fclose(file);
    return status;
}

or_status_t or_input_numbers(const char *what, const char *text, int32_t min, int32_t **numbers_p,
                             size_t *count_p)
{
    size_t count = 0;
    int32_t *numbers =
        malloc((strlen(text) / 2 + 1) * sizeof *numbers); // each takes two characters
    if (numbers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", what);
    }
    text += strspn(text, SPACE);
    bool more = *text != '\0';
    while (more) {
        char *end;
        errno = 0;
        if (*text == ',' || *text == '\0') {
            free(numbers);
            return or_fail(OR_ERR_INVALID, "%s: a number is missing beside a comma", what);
        }
        long number = strtol(text, &end, 10);
        if (end == text || strspn(end, SEPARATORS) + (*end == '\0') == 0 || errno != 0 ||
            number < min || number > INT32_MAX) {
            or_status_t status = or_fail(
                OR_ERR_INVALID, "%s: '%.*s' is not a whole number from %" PRId32 " to %" PRId32,
                what, (int)strcspn(text, SEPARATORS), text, min, INT32_MAX);
            free(numbers);
            return status;
        }
        numbers[count++] = (int32_t)number;
        text = end + strspn(end, SPACE);
        more = *text != '\0';
        if (*text == ',') {
            text++;
            text += strspn(text, SPACE); // a number must follow, so `more` stays true
        }
    }
    *numbers_p = numbers;
    *count_p = count;
    return OR_OK;
}

// The first word of the list, and its length. *rest is where the list goes on; NULL if this is the last word.
static const char *first_word(const char *list, size_t *length, const char **rest)
{
    const char *comma = strchr(list, ',');
    const char *end = comma != NULL ? comma : list + strlen(list);
    const char *begin = list + strspn(list, BLANKS);
    *rest = comma != NULL ? comma + 1 : NULL;
    while (end > begin && strchr(BLANKS, end[-1]) != NULL) {
        end--;
    }
    *length = end > begin ? (size_t)(end - begin) : 0;
    return begin;
}

or_status_t or_input_word(const char *option, const char **list_p, char word[OR_INPUT_WORD_BYTES])
{
    if (*list_p == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    size_t length;
    const char *rest;
    const char *begin = first_word(*list_p, &length, &rest);
    if (length == 0) {
        return or_fail(OR_ERR_INVALID, "%s: an empty word in '%s'", option, *list_p);
    }
    if (length >= OR_INPUT_WORD_BYTES) {
        return or_fail(OR_ERR_INVALID, "%s: '%.*s' is too long", option, (int)length, begin);
    }
    memcpy(word, begin, length);
    word[length] = '\0';
    *list_p = rest;
    return OR_OK;
}

bool or_input_has_word(const char *list, const char *word)
{
    while (list != NULL) {
        size_t length;
        const char *begin = first_word(list, &length, &list);
        if (strlen(word) == length && memcmp(begin, word, length) == 0) {
            return true;
        }
    }
    return false;
}
