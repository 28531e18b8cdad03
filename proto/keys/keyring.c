#include "proto/keys/keyring.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "proto/keys/key_grant.h"
#include "proto/keys/line_file.h"
#include "proto/keys/line_watch.h"

typedef struct {
    or_key_grant_t *items; // owned
    uint32_t count, capacity;
} grants_t;

struct or_keyring {
    or_line_watch_t file;
    grants_t grants;
};

// ---- grants ----

static const or_key_grant_t *find(const grants_t *grants, const char *key)
{
    for (uint32_t i = 0; i < grants->count; i++) {
        if (strcmp(grants->items[i].key, key) == 0) {
            return &grants->items[i];
        }
    }
    return NULL;
}

static or_status_t append(grants_t *grants, const or_key_grant_t *grant)
{
    if (grants->count == grants->capacity) {
        uint32_t capacity = grants->capacity > 0 ? 2 * grants->capacity : 16;
        or_key_grant_t *items = realloc(grants->items, capacity * sizeof *items);
        if (items == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for %u keys", capacity);
        }
        grants->items = items;
        grants->capacity = capacity;
    }
    grants->items[grants->count++] = *grant;
    return OR_OK;
}

static or_status_t take_line(grants_t *grants, const char *line, char *unknown, size_t capacity)
{
    or_key_grant_t grant;
    or_status_t status = or_key_grant_parse(line, &grant, unknown, capacity);
    if (status == OR_OK && find(grants, grant.key) != NULL) {
        status = or_fail(OR_ERR_INVALID, "this key is on a line above already");
    }
    return status == OR_OK ? append(grants, &grant) : status;
}

// Parse all grants of a file's text; *grants is empty after an error.
static or_status_t parse(const char *path, const char *text, grants_t *grants)
{
    or_status_t status = OR_OK;
    char *line;
    *grants = (grants_t){0};
    for (unsigned number = 1; status == OR_OK && (line = or_line_next(&text, &status)) != NULL;
         number++) {
        char unknown[64] = "";
        if (or_key_grant_is_there(line)) {
            status = take_line(grants, line, unknown, sizeof unknown);
        }
        if (status != OR_OK) {
            status = or_fail_context(status, "%s line %u", path, number);
        } else if (unknown[0] != '\0') {
            or_log(OR_LOG_WARN, "%s line %u: '%s' means nothing to this version", path, number,
                   unknown);
        }
        free(line);
    }
    if (status != OR_OK) {
        free(grants->items);
        *grants = (grants_t){0};
    }
    return status;
}

// ---- the file ----

// Read the file into the ring; a ring of a file that makes no sense stays as it was.
static or_status_t load(or_keyring_t *ring)
{
    char *text = NULL;
    grants_t grants = {0};
    or_status_t status = or_line_watch_read(&ring->file, &text);
    if (status == OR_OK) {
        status = parse(ring->file.path, text, &grants);
    }
    if (status == OR_OK) {
        free(ring->grants.items);
        ring->grants = grants;
        or_line_watch_settle(&ring->file);
    }
    free(text);
    return status;
}

or_status_t or_keyring_open(const char *path, or_keyring_t **ring_p)
{
    or_keyring_t *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    or_status_t status = or_line_watch_init(&ring->file, path);
    if (status == OR_OK) {
        status = load(ring);
    }
    if (status != OR_OK) {
        or_keyring_close(&ring);
        return status;
    }
    *ring_p = ring;
    return OR_OK;
}

void or_keyring_close(or_keyring_t **ring_p)
{
    if (*ring_p != NULL) {
        or_line_watch_fini(&(*ring_p)->file);
        free((*ring_p)->grants.items);
        free(*ring_p);
        *ring_p = NULL;
    }
}

or_status_t or_keyring_refresh(or_keyring_t *ring, bool *changed)
{
    bool differs;
    *changed = false;
    or_status_t status = or_line_watch_look(&ring->file, &differs);
    if (status != OR_OK || !differs) {
        return status;
    }
    status = load(ring);
    if (status == OR_ERR_INVALID) { // it says so until it changes, and is told once
        or_line_watch_settle(&ring->file);
    }
    *changed = status == OR_OK;
    return status;
}

uint32_t or_keyring_count(const or_keyring_t *ring)
{
    return ring->grants.count;
}

const or_key_grant_t *or_keyring_at(const or_keyring_t *ring, uint32_t index)
{
    return &ring->grants.items[index];
}

const or_key_grant_t *or_keyring_find(const or_keyring_t *ring, const char *public_key)
{
    return find(&ring->grants, public_key);
}

// ---- changing it ----

static const char new_file[] = "# Who may connect to this coordinator: outrider keys authorize, "
                               "revoke and list edit and show it.\n";

// Change the file, under the lock, after the ring was read from it again.
static or_status_t change_locked(or_keyring_t *ring, const char *key, const char *line)
{
    char *text = NULL, *edited = NULL;
    grants_t grants = {0};
    or_status_t status = or_line_file_read(ring->file.path, &text, NULL);
    if (status == OR_OK) {
        status = or_line_replace(text[0] != '\0' ? text : new_file, key, line, &edited);
    }
    if (status == OR_OK) { // never over a file that we cannot read
        status = parse(ring->file.path, edited, &grants);
    }
    if (status == OR_OK) {
        status = or_line_file_write(ring->file.path, edited);
    }
    if (status == OR_OK) {
        status = load(ring);
    }
    free(grants.items);
    free(edited);
    free(text);
    return status;
}

or_status_t or_keyring_authorize(or_keyring_t *ring, const or_key_grant_t *grant)
{
    int lock;
    char line[OR_KEY_GRANT_BYTES];
    or_status_t status = or_key_grant_check(grant);
    if (status == OR_OK) {
        status = or_line_file_lock(ring->file.path, &lock);
    }
    if (status != OR_OK) {
        return status;
    }
    or_key_grant_format(grant, line);
    status = change_locked(ring, grant->key, line);
    close(lock);
    return status;
}

// Find the one key that is meant.
static or_status_t find_meant(const or_keyring_t *ring, const char *key_or_name,
                              char key[OR_KEY_BYTES])
{
    const or_key_grant_t *meant = or_keyring_find(ring, key_or_name);
    for (uint32_t i = 0; meant == NULL && i < ring->grants.count; i++) {
        if (strcmp(ring->grants.items[i].name, key_or_name) == 0) {
            meant = &ring->grants.items[i];
        }
    }
    if (meant == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "no key '%s' in %s; outrider keys list shows them",
                       key_or_name, ring->file.path);
    }
    for (const or_key_grant_t *other = meant + 1; other < ring->grants.items + ring->grants.count;
         other++) {
        if (strcmp(meant->key, key_or_name) != 0 && strcmp(other->name, key_or_name) == 0) {
            return or_fail(OR_ERR_INVALID,
                           "several keys have the name '%s': say which, by its key (outrider keys "
                           "list)",
                           key_or_name);
        }
    }
    memcpy(key, meant->key, OR_KEY_BYTES);
    return OR_OK;
}

or_status_t or_keyring_revoke(or_keyring_t *ring, const char *key_or_name)
{
    int lock;
    char key[OR_KEY_BYTES];
    or_status_t status = or_line_file_lock(ring->file.path, &lock);
    if (status != OR_OK) {
        return status;
    }
    status = load(ring);
    if (status == OR_OK) {
        status = find_meant(ring, key_or_name, key);
    }
    if (status == OR_OK) {
        status = change_locked(ring, key, NULL);
    }
    close(lock);
    return status;
}
