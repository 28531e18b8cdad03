#include "proto/keys/key_grant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

static const struct {
    const char *name;
    uint32_t role;
} roles[] = {{"client", OR_KEY_CLIENT}, {"drafter", OR_KEY_DRAFTER}, {"verifier", OR_KEY_VERIFIER}};
#define ROLE_COUNT (sizeof roles / sizeof *roles)

// ---- roles ----

static uint32_t role_named(const char *name, size_t length)
{
    for (size_t i = 0; i < ROLE_COUNT; i++) {
        if (strlen(roles[i].name) == length && strncmp(roles[i].name, name, length) == 0) {
            return roles[i].role;
        }
    }
    return 0;
}

or_status_t or_key_roles_parse(const char *text, uint32_t *all)
{
    uint32_t found = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        uint32_t role = role_named(at, length);
        if (role == 0) {
            return or_fail(OR_ERR_INVALID,
                           "'%.*s' is no role: client, drafter and verifier are, with commas "
                           "between them",
                           (int)length, at);
        }
        found |= role;
        at += length;
        if (*at == '\0') {
            *all = found;
            return OR_OK;
        }
    }
}

void or_key_roles_name(uint32_t all, char text[32])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ROLE_COUNT; i++) {
        if ((all & roles[i].role) != 0) {
            used += (size_t)snprintf(text + used, 32 - used, "%s%s", used > 0 ? "," : "",
                                     roles[i].name);
        }
    }
}

// ---- checks ----

// Check a name. It stands in a line of words, in logs and in labels, so it has printable letters and no blanks.
static or_status_t check_name(const char *what, const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= OR_KEY_NAME_BYTES) {
        return or_fail(OR_ERR_INVALID, "%s has 1 to %d bytes, not %zu", what, OR_KEY_NAME_BYTES - 1,
                       length);
    }
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f || *at == '"' || *at == '\\') {
            return or_fail(OR_ERR_INVALID, "%s has no blanks, quotes or backslashes", what);
        }
    }
    return OR_OK;
}

or_status_t or_key_grant_check(const or_key_grant_t *grant)
{
    or_status_t status = or_key_check(grant->key);
    if (status == OR_OK) {
        status = check_name("a key's name", grant->name);
    }
    if (status == OR_OK) {
        status = check_name("an owner's name", grant->owner);
    }
    if (status == OR_OK && grant->roles == 0) {
        status = or_fail(OR_ERR_INVALID, "a key needs a role: client, drafter or verifier");
    }
    return status;
}

// ---- a line ----

bool or_key_grant_is_there(const char *line)
{
    const char *first = line + strspn(line, BLANKS);
    return *first != '\0' && *first != '#';
}

static or_status_t take_name(const char *what, const char *value, char name[OR_KEY_NAME_BYTES])
{
    or_status_t status = check_name(what, value);
    if (status == OR_OK) {
        snprintf(name, OR_KEY_NAME_BYTES, "%s", value);
    }
    return status;
}

static or_status_t take_limit(const char *what, const char *value, uint32_t *limit)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 || number > UINT32_MAX) {
        return or_fail(OR_ERR_INVALID, "%s=%s: a whole number is needed, or 0 for no limit", what,
                       value);
    }
    *limit = (uint32_t)number;
    return OR_OK;
}

static or_status_t take_trusted(const char *value, bool *trusted)
{
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
        return or_fail(OR_ERR_INVALID, "trusted=%s: it is yes or no", value);
    }
    *trusted = strcmp(value, "yes") == 0;
    return OR_OK;
}

// Take one `name=value`; *known is false if no setting has that name.
static or_status_t take_word(const char *name, const char *value, or_key_grant_t *grant,
                             bool *known)
{
    *known = true;
    if (strcmp(name, "name") == 0) {
        return take_name("a key's name", value, grant->name);
    }
    if (strcmp(name, "owner") == 0) {
        return take_name("an owner's name", value, grant->owner);
    }
    if (strcmp(name, "roles") == 0) {
        return or_key_roles_parse(value, &grant->roles);
    }
    if (strcmp(name, "trusted") == 0) {
        return take_trusted(value, &grant->trusted);
    }
    if (strcmp(name, "sessions") == 0) {
        return take_limit(name, value, &grant->sessions_max);
    }
    if (strcmp(name, "tokens-per-minute") == 0) {
        return take_limit(name, value, &grant->tokens_per_minute);
    }
    if (strcmp(name, "nodes") == 0) {
        return take_limit(name, value, &grant->nodes_max);
    }
    *known = false;
    return OR_OK;
}

or_status_t or_key_grant_take_words(char *words, or_key_grant_t *grant, char *unknown,
                                    size_t capacity)
{
    or_status_t status = OR_OK;
    char *rest;
    for (char *word = strtok_r(words, BLANKS, &rest); word != NULL && status == OR_OK;
         word = strtok_r(NULL, BLANKS, &rest)) {
        bool known;
        char *value = strchr(word, '=');
        if (value == NULL) {
            return or_fail(OR_ERR_INVALID, "'%s' is not name=value", word);
        }
        *value = '\0';
        status = take_word(word, value + 1, grant, &known);
        if (status == OR_OK && !known && unknown[0] == '\0') {
            snprintf(unknown, capacity, "%s", word);
        }
    }
    return status;
}

// Take the key that `line`, which is cut up, begins with, and the words behind it.
static or_status_t take_line(char *line, or_key_grant_t *grant, char *unknown, size_t capacity)
{
    char *rest;
    char *key = strtok_r(line, BLANKS, &rest);
    or_status_t status = or_key_check(key);
    if (status != OR_OK) {
        return status;
    }
    snprintf(grant->key, sizeof grant->key, "%s", key);
    return or_key_grant_take_words(rest, grant, unknown, capacity);
}

or_status_t or_key_grant_parse(const char *line, or_key_grant_t *grant, char *unknown,
                               size_t capacity)
{
    or_key_grant_t found = {.roles = OR_KEY_CLIENT | OR_KEY_DRAFTER};
    char *copy = strdup(line);
    if (copy == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a line of keys");
    }
    unknown[0] = '\0';
    or_status_t status = take_line(copy, &found, unknown, capacity);
    free(copy);
    if (status != OR_OK) {
        return status;
    }
    if (found.name[0] == '\0') {
        or_key_short(found.key, found.name);
    }
    if (found.owner[0] == '\0') {
        memcpy(found.owner, found.name, sizeof found.owner);
    }
    *grant = found;
    return OR_OK;
}

void or_key_grant_format(const or_key_grant_t *grant, char text[OR_KEY_GRANT_BYTES])
{
    char names[32];
    or_key_roles_name(grant->roles, names);
    snprintf(text, OR_KEY_GRANT_BYTES,
             "%s name=%s owner=%s roles=%s trusted=%s sessions=%" PRIu32
             " tokens-per-minute=%" PRIu32 " nodes=%" PRIu32,
             grant->key, grant->name, grant->owner, names, grant->trusted ? "yes" : "no",
             grant->sessions_max, grant->tokens_per_minute, grant->nodes_max);
}
