// The keys themselves are not kept, but their BLAKE2b hashes, all of which are compared.
#include "coordinator/http/server/api_keys.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/keys/key_grant.h"
#include "proto/keys/line_file.h"
#include "proto/keys/line_watch.h"

#define KEY_BYTES_MAX 256
#define BLANK " \t\r\n"
#define NAMED_BYTES ((OR_KEY_BYTES - 1) / 2) // of the hash, in a grant's `key`

typedef struct {
    uint8_t hash[crypto_generichash_BYTES];
    or_key_grant_t grant;
} entry_t;

typedef struct {
    size_t count;
    entry_t *items;
} entries_t;

struct or_api_keys {
    entries_t entries;
    bool watched; // there is a file
    or_line_watch_t file;
};

static void hash_key(const char *key, size_t bytes, uint8_t *hash)
{
    crypto_generichash(hash, crypto_generichash_BYTES, (const uint8_t *)key, bytes, NULL, 0);
}

// Find a key; NULL if there is none. It takes as long wherever the key is.
static const entry_t *find(const entries_t *entries, const char *key, size_t bytes)
{
    uint8_t hash[crypto_generichash_BYTES];
    const entry_t *found = NULL;
    hash_key(key, bytes, hash);
    for (size_t i = 0; i < entries->count; i++) {
        if (sodium_memcmp(entries->items[i].hash, hash, sizeof hash) == 0) {
            found = &entries->items[i];
        }
    }
    return found;
}

// Find an entry by the name in its grant; NULL if there is none.
static const or_key_grant_t *find_named(const entries_t *entries, const char *name)
{
    for (size_t i = 0; i < entries->count; i++) {
        if (strcmp(entries->items[i].grant.key, name) == 0) {
            return &entries->items[i].grant;
        }
    }
    return NULL;
}

// ---- entries ----

static or_status_t check_key(const entries_t *entries, const char *key)
{
    size_t bytes = strlen(key);
    if (bytes < OR_API_KEY_BYTES_MIN || bytes > KEY_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID,
                       "a key has %d to %d characters; `openssl rand -hex 24` makes one",
                       OR_API_KEY_BYTES_MIN, KEY_BYTES_MAX);
    }
    return find(entries, key, bytes) == NULL
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "this key has been there before");
}

static or_status_t add(entries_t *entries, const char *key, const or_key_grant_t *grant)
{
    or_status_t status = check_key(entries, key);
    entry_t *items =
        status == OR_OK ? realloc(entries->items, (entries->count + 1) * sizeof *items) : NULL;
    if (items == NULL) {
        return status != OR_OK ? status : or_fail(OR_ERR_NO_MEMORY, "no memory for API keys");
    }
    entries->items = items;
    entry_t *entry = &items[entries->count++];
    hash_key(key, strlen(key), entry->hash);
    entry->grant = *grant;
    sodium_bin2hex(entry->grant.key, sizeof entry->grant.key, entry->hash, NAMED_BYTES);
    return OR_OK;
}

static void forget(entries_t *entries)
{
    free(entries->items);
    *entries = (entries_t){0};
}

// ---- lines ----

// The owner, if the first word behind the key is one; *words moves on.
static or_status_t take_owner(char **words, or_key_grant_t *grant)
{
    *words += strspn(*words, BLANK);
    size_t length = strcspn(*words, BLANK);
    if (length == 0 || memchr(*words, '=', length) != NULL) {
        return OR_OK;
    }
    if (length >= sizeof grant->owner) {
        return or_fail(OR_ERR_INVALID, "an owner has at most %zu characters",
                       sizeof grant->owner - 1);
    }
    memcpy(grant->owner, *words, length);
    *words += length;
    return OR_OK;
}

// A word that is no setting may be another key: it is not said which.
static bool are_settings(const char *words)
{
    for (size_t length; *(words += strspn(words, BLANK)) != '\0'; words += length) {
        length = strcspn(words, BLANK);
        if (memchr(words, '=', length) == NULL) {
            return false;
        }
    }
    return true;
}

static or_status_t take_words(char *words, or_key_grant_t *grant)
{
    char unknown[64] = "";
    or_status_t status = take_owner(&words, grant);
    if (status == OR_OK && !are_settings(words)) {
        status = or_fail(OR_ERR_INVALID, "a line is KEY or KEY OWNER, and name=value behind it");
    }
    if (status == OR_OK) {
        status = or_key_grant_take_words(words, grant, unknown, sizeof unknown);
    }
    if (status == OR_OK && (unknown[0] != '\0' || grant->roles != 0 || grant->trusted)) {
        status = or_fail(OR_ERR_INVALID,
                         "an API key has owner, name, sessions, tokens-per-minute and nodes, and "
                         "nothing else");
    }
    return status;
}

static or_status_t take_line(entries_t *entries, char *line)
{
    or_key_grant_t grant = {0};
    char *key = line + strspn(line, BLANK);
    size_t length = strcspn(key, BLANK);
    if (length == 0 || key[0] == '#') {
        return OR_OK;
    }
    char *words = key + length + (key[length] != '\0');
    key[length] = '\0';
    or_status_t status = take_words(words, &grant);
    return status == OR_OK ? add(entries, key, &grant) : status;
}

// Parse all keys of a file's text; *entries is empty after an error.
static or_status_t parse(const char *path, const char *text, entries_t *entries)
{
    or_status_t status = OR_OK;
    char *line;
    *entries = (entries_t){0};
    for (unsigned number = 1; status == OR_OK && (line = or_line_next(&text, &status)) != NULL;
         number++) {
        status = or_fail_context(take_line(entries, line), "%s line %u", path, number);
        sodium_memzero(line, strlen(line));
        free(line);
    }
    if (status != OR_OK) {
        forget(entries);
    }
    return status;
}

// ---- the file ----

// Check that the file is there and that only its owner can read it.
static or_status_t check_file(const or_line_watch_t *file)
{
    mode_t mode = or_line_watch_mode(file);
    if (mode == 0) {
        return or_fail(OR_ERR_NOT_FOUND, "cannot read %s: there is no such file", file->path);
    }
    if ((mode & (S_IRWXG | S_IRWXO)) != 0) {
        return or_fail(OR_ERR_INVALID, "%s has keys in it that others can read: chmod 600 %s",
                       file->path, file->path);
    }
    return OR_OK;
}

// Return true if a key is missing in `later`, or has another owner there.
static bool loses_some(const entries_t *entries, const entries_t *later)
{
    bool loses = false;
    for (size_t i = 0; i < entries->count && !loses; i++) {
        const or_key_grant_t *now = find_named(later, entries->items[i].grant.key);
        loses = now == NULL || strcmp(now->owner, entries->items[i].grant.owner) != 0;
    }
    return loses;
}

static or_status_t take(or_api_keys_t *keys, entries_t *entries)
{
    if (loses_some(&keys->entries, entries) && !or_line_watch_is_steady(&keys->file)) {
        forget(entries);
        return or_fail(OR_ERR_AGAIN, "%s may not be whole yet", keys->file.path);
    }
    forget(&keys->entries);
    keys->entries = *entries;
    or_line_watch_settle(&keys->file);
    return OR_OK;
}

static or_status_t load(or_api_keys_t *keys)
{
    char *text = NULL;
    entries_t entries = {0};
    or_status_t status = or_line_watch_read(&keys->file, &text);
    if (status == OR_OK) {
        status = check_file(&keys->file);
    }
    if (status == OR_OK) {
        status = parse(keys->file.path, text, &entries);
    }
    if (status == OR_OK) {
        status = take(keys, &entries);
    }
    if (text != NULL) {
        sodium_memzero(text, strlen(text));
    }
    free(text);
    return status;
}

static or_status_t open_file(or_api_keys_t *keys, const char *path)
{
    keys->watched = true;
    or_status_t status = or_line_watch_init(&keys->file, path);
    if (status == OR_OK) {
        status = load(keys);
    }
    if (status == OR_OK && keys->entries.count == 0) {
        status = or_fail(OR_ERR_INVALID, "%s has no key: a line for each, KEY or KEY OWNER", path);
    }
    return status;
}

// Make keys from a file, or where `path` is NULL from one key.
static or_status_t create(const char *path, const char *key, or_api_keys_t **keys_p)
{
    if (sodium_init() < 0) {
        return or_fail(OR_ERR_UNSUPPORTED, "libsodium cannot be used here");
    }
    or_api_keys_t *keys = calloc(1, sizeof *keys);
    if (keys == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for API keys");
    }
    or_status_t status =
        path != NULL ? open_file(keys, path) : add(&keys->entries, key, &(or_key_grant_t){0});
    if (status != OR_OK) {
        or_api_keys_destroy(&keys);
        return status;
    }
    *keys_p = keys;
    return OR_OK;
}

or_status_t or_api_keys_read(const char *path, or_api_keys_t **keys_p)
{
    return create(path, NULL, keys_p);
}

or_status_t or_api_keys_one(const char *key, or_api_keys_t **keys_p)
{
    return create(NULL, key, keys_p);
}

or_status_t or_api_keys_refresh(or_api_keys_t *keys, bool *changed)
{
    bool differs = false;
    *changed = false;
    or_status_t status = keys->watched ? or_line_watch_look(&keys->file, &differs) : OR_OK;
    if (status != OR_OK || !differs) {
        return status;
    }
    status = load(keys);
    if (status == OR_ERR_INVALID || status == OR_ERR_NOT_FOUND) {
        or_line_watch_settle(&keys->file); // it says so until it changes, and is told once
        return OR_ERR_INVALID;
    }
    *changed = status == OR_OK;
    return status;
}

void or_api_keys_destroy(or_api_keys_t **keys_p)
{
    if (*keys_p != NULL) {
        forget(&(*keys_p)->entries);
        if ((*keys_p)->watched) {
            or_line_watch_fini(&(*keys_p)->file);
        }
        free(*keys_p);
        *keys_p = NULL;
    }
}

// ---- asking ----

// Return the rest of a header behind this scheme, in any case of letters; NULL if it has another scheme.
static const char *behind_scheme(const char *authorization, const char *scheme)
{
    size_t length = strlen(scheme);
    if (strncasecmp(authorization, scheme, length) != 0 || authorization[length] != ' ') {
        return NULL;
    }
    return authorization + length + strspn(authorization + length, " ");
}

const or_key_grant_t *or_api_keys_find(const or_api_keys_t *keys, const char *authorization)
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
    const entry_t *found = key != NULL ? find(&keys->entries, key, bytes) : NULL;
    sodium_memzero(decoded, sizeof decoded);
    return found != NULL ? &found->grant : NULL;
}

const or_key_grant_t *or_api_keys_still(const or_api_keys_t *keys, const or_key_grant_t *grant)
{
    const or_key_grant_t *now = find_named(&keys->entries, grant->key);
    return now != NULL && strcmp(now->owner, grant->owner) == 0 ? now : NULL;
}
