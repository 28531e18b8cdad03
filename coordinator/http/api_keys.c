// The keys themselves are not kept, only what BLAKE2b makes of them, all of which are compared.
#include "coordinator/http/api_keys.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/keyring.h"

#define LINE_BYTES 1024
#define KEY_BYTES_MAX 256
#define BLANK " \t\r\n"

typedef struct {
    uint8_t hash[crypto_generichash_BYTES];
    char owner[OR_KEY_NAME_BYTES];
} entry_t;

struct or_api_keys {
    size_t count;
    entry_t *entries;
};

static void hash_key(const char *key, size_t bytes, uint8_t *hash)
{
    crypto_generichash(hash, crypto_generichash_BYTES, (const uint8_t *)key, bytes, NULL, 0);
}

// NULL: there is none. Takes as long wherever it is.
static const entry_t *find(const or_api_keys_t *keys, const char *key, size_t bytes)
{
    uint8_t hash[crypto_generichash_BYTES];
    const entry_t *found = NULL;
    hash_key(key, bytes, hash);
    for (size_t i = 0; i < keys->count; i++) {
        if (sodium_memcmp(keys->entries[i].hash, hash, sizeof hash) == 0) {
            found = &keys->entries[i];
        }
    }
    return found;
}

static or_status_t add(or_api_keys_t *keys, const char *key, const char *owner)
{
    size_t bytes = strlen(key);
    if (bytes < OR_API_KEY_BYTES_MIN || bytes > KEY_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID,
                       "a key has %d to %d characters; `openssl rand -hex 24` makes one",
                       OR_API_KEY_BYTES_MIN, KEY_BYTES_MAX);
    }
    if (strlen(owner) >= OR_KEY_NAME_BYTES) {
        return or_fail(OR_ERR_INVALID, "an owner has at most %d characters", OR_KEY_NAME_BYTES - 1);
    }
    if (find(keys, key, bytes) != NULL) {
        return or_fail(OR_ERR_INVALID, "this key has been there before");
    }
    entry_t *entries = realloc(keys->entries, (keys->count + 1) * sizeof *entries);
    if (entries == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for API keys");
    }
    keys->entries = entries;
    entry_t *entry = &entries[keys->count++];
    hash_key(key, bytes, entry->hash);
    snprintf(entry->owner, sizeof entry->owner, "%s", owner);
    return OR_OK;
}

static or_status_t read_line(or_api_keys_t *keys, char *line)
{
    char *rest = NULL;
    const char *key = strtok_r(line, BLANK, &rest);
    const char *owner = strtok_r(NULL, BLANK, &rest);
    if (key == NULL || key[0] == '#') {
        return OR_OK;
    }
    if (owner != NULL && strtok_r(NULL, BLANK, &rest) != NULL) {
        return or_fail(OR_ERR_INVALID, "a line is KEY or KEY OWNER, without blanks in them");
    }
    return add(keys, key, owner != NULL ? owner : "");
}

static or_status_t read_lines(or_api_keys_t *keys, FILE *file, const char *path)
{
    char line[LINE_BYTES];
    or_status_t status = OR_OK;
    for (unsigned number = 1; status == OR_OK && fgets(line, sizeof line, file) != NULL; number++) {
        bool whole = strchr(line, '\n') != NULL || feof(file);
        status = whole ? read_line(keys, line) : or_fail(OR_ERR_INVALID, "the line is too long");
        status = or_fail_context(status, "%s line %u", path, number);
    }
    sodium_memzero(line, sizeof line);
    if (status == OR_OK && ferror(file)) {
        status = or_fail(OR_ERR_IO, "cannot read %s: %m", path);
    }
    if (status == OR_OK && keys->count == 0) {
        status = or_fail(OR_ERR_INVALID, "%s has no key: a line for each, KEY or KEY OWNER", path);
    }
    return status;
}

static or_status_t check_mode(FILE *file, const char *path)
{
    struct stat info;
    if (fstat(fileno(file), &info) != 0) {
        return or_fail(OR_ERR_IO, "cannot read %s: %m", path);
    }
    if (S_ISREG(info.st_mode) && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return or_fail(OR_ERR_INVALID, "%s has keys in it that others can read: chmod 600 %s", path,
                       path);
    }
    return OR_OK;
}

static or_status_t create(or_api_keys_t **keys_p)
{
    if (sodium_init() < 0) {
        return or_fail(OR_ERR_UNSUPPORTED, "libsodium cannot be used here");
    }
    *keys_p = calloc(1, sizeof **keys_p);
    return *keys_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for API keys");
}

or_status_t or_api_keys_read(const char *path, or_api_keys_t **keys_p)
{
    or_api_keys_t *keys = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return or_fail(errno == ENOENT ? OR_ERR_NOT_FOUND : OR_ERR_IO, "cannot read %s: %m", path);
    }
    or_status_t status = check_mode(file, path);
    if (status == OR_OK) {
        status = create(&keys);
    }
    if (status == OR_OK) {
        status = read_lines(keys, file, path);
    }
    fclose(file);
    if (status != OR_OK) {
        or_api_keys_destroy(&keys);
        return status;
    }
    *keys_p = keys;
    return OR_OK;
}

or_status_t or_api_keys_one(const char *key, or_api_keys_t **keys_p)
{
    or_api_keys_t *keys = NULL;
    or_status_t status = create(&keys);
    if (status == OR_OK) {
        status = add(keys, key, "");
    }
    if (status != OR_OK) {
        or_api_keys_destroy(&keys);
        return status;
    }
    *keys_p = keys;
    return OR_OK;
}

void or_api_keys_destroy(or_api_keys_t **keys_p)
{
    if (*keys_p != NULL) {
        free((*keys_p)->entries);
        free(*keys_p);
        *keys_p = NULL;
    }
}

// What comes behind a scheme, in any case of letters; NULL: it is another scheme.
static const char *behind_scheme(const char *authorization, const char *scheme)
{
    size_t length = strlen(scheme);
    if (strncasecmp(authorization, scheme, length) != 0 || authorization[length] != ' ') {
        return NULL;
    }
    return authorization + length + strspn(authorization + length, " ");
}

const char *or_api_keys_owner(const or_api_keys_t *keys, const char *authorization)
{
    char decoded[2 * KEY_BYTES_MAX];
    size_t bytes = 0;
    const char *key = behind_scheme(authorization, "Bearer");
    const char *basic = behind_scheme(authorization, "Basic");
    if (key != NULL) {
        bytes = strlen(key);
    } else if (basic != NULL &&
               sodium_base642bin((uint8_t *)decoded, sizeof decoded, basic, strlen(basic), " ",
                                 &bytes, NULL, sodium_base64_VARIANT_ORIGINAL) == 0) {
        const char *colon = memchr(decoded, ':', bytes);
        key = colon != NULL ? colon + 1 : NULL;
        bytes = key != NULL ? bytes - (size_t)(key - decoded) : 0;
    }
    const entry_t *found = key != NULL ? find(keys, key, bytes) : NULL;
    sodium_memzero(decoded, sizeof decoded);
    return found != NULL ? found->owner : NULL;
}
