// Values of options: one strict parser a type, and the bounds of numbers; and how near two names are.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/options/options_internal.h"

static or_status_t parse_flag(const char *origin, const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "0", "1", "off", "on", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "%s: '%s' is not true or false", origin, text);
}

static or_status_t parse_signed(const char *origin, const char *text, int32_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)*text)) {
        return or_fail(OR_ERR_INVALID, "%s: '%s' is not a whole number", origin, text);
    }
    if (errno == ERANGE || number < INT32_MIN || number > INT32_MAX) {
        return or_fail(OR_ERR_INVALID, "%s: %s is not between %" PRId32 " and %" PRId32, origin,
                       text, INT32_MIN, INT32_MAX);
    }
    *value = (int32_t)number;
    return OR_OK;
}

static or_status_t parse_unsigned(const char *origin, const char *text, uint64_t max,
                                  uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    // strtoull would take " 1" and wrap "-1".
    if (!isdigit((unsigned char)*text) || *end != '\0') {
        return or_fail(OR_ERR_INVALID, "%s: '%s' is not a whole number of 0 or more", origin, text);
    }
    if (errno == ERANGE || number > max) {
        return or_fail(OR_ERR_INVALID, "%s: %s is over %" PRIu64, origin, text, max);
    }
    *value = number;
    return OR_OK;
}

// Powers of 1024, as llama.cpp and the kernel have them.
static or_status_t parse_size(const char *origin, const char *text, uint64_t *value)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    if (!isdigit((unsigned char)*text) || end[unit != NULL] != '\0') {
        return or_fail(OR_ERR_INVALID,
                       "%s: '%s' is not a size: a whole number of bytes, or one with K, M, G or T, "
                       "as 512M",
                       origin, text);
    }
    if (errno == ERANGE || number > UINT64_MAX >> shift) {
        return or_fail(OR_ERR_INVALID, "%s: %s is more than 64 bits hold", origin, text);
    }
    *value = (uint64_t)number << shift;
    return OR_OK;
}

static or_status_t parse_float(const char *origin, const char *text, float *value)
{
    char *end;
    float number = strtof(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)*text) || !isfinite(number)) {
        return or_fail(OR_ERR_INVALID, "%s: '%s' is not a finite number", origin, text);
    }
    *value = number;
    return OR_OK;
}

or_status_t or_options_set_string(char **place, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the options");
    }
    free(*place);
    *place = copy;
    return OR_OK;
}

void or_options_clear_list(or_option_list_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (or_option_list_t){0};
}

or_status_t or_options_append(or_option_list_t *list, char *item)
{
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the options");
    }
    list->items = items;
    list->items[list->count++] = item;
    return OR_OK;
}

static or_status_t append_copy(or_option_list_t *list, const char *text)
{
    char *copy = NULL;
    or_status_t status = or_options_set_string(&copy, text);
    if (status == OR_OK) {
        status = or_options_append(list, copy);
    }
    if (status != OR_OK) {
        free(copy);
    }
    return status;
}

// ---- bounds ----

#define NUMBER_BYTES 32

// Write a number, whole ones in full: 1000000 and not 1e+06.
static const char *show(double value, char text[NUMBER_BYTES])
{
    bool whole = value == trunc(value) && fabs(value) < 1e15;
    snprintf(text, NUMBER_BYTES, whole ? "%.0f" : "%g", value);
    return text;
}

or_status_t or_bounds_check(const or_bounds_t *bounds, const char *name, double value)
{
    char given[NUMBER_BYTES], least[NUMBER_BYTES], most[NUMBER_BYTES], other[NUMBER_BYTES];
    bool any = bounds->least == 0 && bounds->most == 0 && !bounds->above;
    bool inside = bounds->above ? value > bounds->least : value >= bounds->least;
    if (any || (inside && value <= bounds->most) || (bounds->has_other && value == bounds->other)) {
        return OR_OK;
    }
    show(value, given);
    show(bounds->least, least);
    show(bounds->most, most);
    show(bounds->other, other);
    bool open = isinf(bounds->most);
    if (bounds->has_other && !(open && bounds->other == 0)) {
        return open ? or_fail(OR_ERR_INVALID, "%s: %s is neither %s nor %s%s%s", name, given, other,
                              bounds->above ? "above " : "", least, bounds->above ? "" : " or more")
                    : or_fail(OR_ERR_INVALID, "%s: %s is neither %s nor between %s and %s", name,
                              given, other, least, most);
    }
    if (!open) {
        return or_fail(OR_ERR_INVALID, "%s: %s is not between %s and %s", name, given, least, most);
    }
    if (value == 0 && bounds->least == 1) {
        return or_fail(OR_ERR_INVALID, "%s: at least 1 is needed", name);
    }
    return or_fail(OR_ERR_INVALID, "%s: %s is %s %s", name, given,
                   bounds->above ? "not above" : "below", least);
}

bool or_option_number(const or_option_t *option, const void *config, double *number)
{
    const void *place = (const char *)config + option->offset;
    switch (option->type) {
    case OR_OPTION_INT32:
        *number = *(const int32_t *)place;
        return true;
    case OR_OPTION_UINT32:
        *number = *(const uint32_t *)place;
        return true;
    case OR_OPTION_UINT64:
    case OR_OPTION_SIZE:
        *number = (double)*(const uint64_t *)place;
        return true;
    case OR_OPTION_FLOAT:
        *number = (double)*(const float *)place;
        return true;
    default:
        return false;
    }
}

// ---- values ----

// The name of a file or a folder is not empty.
static or_status_t check_name(const or_option_t *option, const char *origin, const char *text)
{
    bool folder = strstr(option->arg, "DIR") != NULL;
    bool file = strstr(option->arg, "FILE") != NULL || strstr(option->arg, "PATH") != NULL;
    return *text != '\0' || !(folder || file)
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "%s: the name of a %s is empty", origin,
                         folder ? "folder" : "file");
}

static or_status_t parse_value(const or_option_t *option, const char *origin, const char *text,
                               void *config)
{
    void *place = (char *)config + option->offset;
    uint64_t number = 0;
    or_status_t status = OR_OK;
    switch (option->type) {
    case OR_OPTION_FLAG:
        return parse_flag(origin, text, place);
    case OR_OPTION_INT32:
        return parse_signed(origin, text, place);
    case OR_OPTION_UINT32:
        status = parse_unsigned(origin, text, UINT32_MAX, &number);
        if (status == OR_OK) {
            *(uint32_t *)place = (uint32_t)number;
        }
        return status;
    case OR_OPTION_UINT64:
        return parse_unsigned(origin, text, UINT64_MAX, place);
    case OR_OPTION_SIZE:
        return parse_size(origin, text, place);
    case OR_OPTION_FLOAT:
        return parse_float(origin, text, place);
    case OR_OPTION_STRING:
        status = check_name(option, origin, text);
        return status == OR_OK ? or_options_set_string(place, text) : status;
    case OR_OPTION_LIST:
        status = check_name(option, origin, text);
        return status == OR_OK ? append_copy(place, text) : status;
    case OR_OPTION_HEADING:
    case OR_OPTION_PART:
        break;
    }
    return status;
}

or_status_t or_options_store(const or_option_t *option, const char *origin, const char *text,
                             void *config)
{
    double number;
    or_status_t status = parse_value(option, origin, text, config);
    return status == OR_OK && or_option_number(option, config, &number)
               ? or_bounds_check(&option->bounds, origin, number)
               : status;
}

// ---- names ----

size_t or_options_distance(const char *a, const char *b)
{
    size_t row[OR_OPTIONS_NAME_BYTES + 1];
    size_t length_a = strnlen(a, OR_OPTIONS_NAME_BYTES),
           length_b = strnlen(b, OR_OPTIONS_NAME_BYTES);
    for (size_t j = 0; j <= length_b; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= length_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[length_b];
}

bool or_options_is_near(const char *word, size_t distance)
{
    return distance <= strlen(word) / 3;
}
