// Tables of options: parts in their places, defaults, and what is freed.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/options/options_internal.h"

void or_option_origin(const or_option_t *option, char origin[OR_OPTION_ORIGIN_BYTES])
{
    bool both = option->short_name != NULL;
    snprintf(origin, OR_OPTION_ORIGIN_BYTES, "%s%s%s--%s", both ? "-" : "",
             both ? option->short_name : "", both ? "/" : "", option->name);
}

void or_option_variable(const or_option_t *option, char variable[OR_OPTION_VARIABLE_BYTES])
{
    snprintf(variable, OR_OPTION_VARIABLE_BYTES, "OUTRIDER_%s", option->name);
    for (char *letter = variable; *letter != '\0'; letter++) {
        *letter = *letter == '-' ? '_' : (char)toupper((unsigned char)*letter);
    }
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool or_option_is_same(const or_option_t *option, const void *a, const void *b)
{
    const char *at_a = (const char *)a + option->offset, *at_b = (const char *)b + option->offset;
    double of_a = 0, of_b = 0;
    switch (option->type) {
    case OR_OPTION_FLAG:
        return *(const bool *)at_a == *(const bool *)at_b;
    case OR_OPTION_STRING:
        return is_same_text(*(char *const *)(const void *)at_a, *(char *const *)(const void *)at_b);
    default:
        or_option_number(option, a, &of_a);
        or_option_number(option, b, &of_b);
        return of_a == of_b;
    }
}

static bool is_named(const char *const *names, const char *name)
{
    while (names != NULL && *names != NULL && (name == NULL || strcmp(*names, name) != 0)) {
        names++;
    }
    return names != NULL && *names != NULL;
}

static size_t leave_out(or_option_t *rows, size_t count, const char *const *except)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        rows[kept] = rows[i];
        kept += !is_named(except, rows[i].name);
    }
    return kept;
}

size_t or_options_flatten(const or_option_t *table, size_t offset, or_option_t *rows)
{
    size_t count = 0;
    for (; !or_options_is_end(table); table++) {
        or_option_t *row = rows != NULL ? &rows[count] : NULL;
        if (table->type == OR_OPTION_PART) {
            size_t added = or_options_flatten(table->part, offset + table->offset, row);
            count += row != NULL ? leave_out(row, added, table->except) : added;
            continue;
        }
        if (row != NULL) {
            *row = *table;
            row->offset += offset;
        }
        count++;
    }
    return count;
}

bool or_options_flag(const or_option_t *table, const void *config, const char *name)
{
    for (; !or_options_is_end(table); table++) {
        const char *at = (const char *)config + table->offset;
        if (table->type == OR_OPTION_PART
                ? or_options_flag(table->part, at, name)
                : table->type == OR_OPTION_FLAG && strcmp(table->name, name) == 0 &&
                      *(const bool *)at) {
            return true;
        }
    }
    return false;
}

or_status_t or_options_copy_defaults(const or_option_t *table, char *config)
{
    or_status_t status = OR_OK;
    for (; !or_options_is_end(table); table++) {
        char **place = (char **)(void *)(config + table->offset);
        if (table->type == OR_OPTION_PART) {
            or_status_t part = or_options_copy_defaults(table->part, config + table->offset);
            status = part == OR_OK ? status : part;
        } else if (table->type == OR_OPTION_STRING && *place != NULL) {
            *place = strdup(*place);
            if (*place == NULL) {
                status = or_fail(OR_ERR_NO_MEMORY, "no memory for the options");
            }
        }
    }
    return status;
}

static void free_values(const or_option_t *table, char *config)
{
    for (; !or_options_is_end(table); table++) {
        char *place = config + table->offset;
        if (table->type == OR_OPTION_PART) {
            free_values(table->part, place);
        } else if (table->type == OR_OPTION_STRING) {
            free(*(char **)(void *)place);
            *(char **)(void *)place = NULL;
        } else if (table->type == OR_OPTION_LIST) {
            or_options_clear_list((or_option_list_t *)(void *)place);
        }
    }
}

void or_options_free(const or_option_program_t *program, void *config, or_option_list_t *rest)
{
    free_values(program->table, config);
    if (rest != NULL) {
        free(rest->items);
        *rest = (or_option_list_t){0};
    }
}
