#include "coordinator/peers/entrance.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "proto/net/endpoint.h"

#define ENDPOINTS_MAX 16u
#define PATH_BYTES 1024

or_status_t or_entrance_check(const or_entrance_options_t *options)
{
    if (options->listen->count > ENDPOINTS_MAX) {
        return or_fail(OR_ERR_INVALID, "--listen may be given %u times, not %zu", ENDPOINTS_MAX,
                       options->listen->count);
    }
    if (strcmp(options->encrypt, "auto") != 0 && strcmp(options->encrypt, "on") != 0 &&
        strcmp(options->encrypt, "off") != 0) {
        return or_fail(OR_ERR_INVALID, "--encrypt is auto, on or off, not '%s'", options->encrypt);
    }
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < options->listen->count; i++) {
        status = or_endpoint_check(options->listen->items[i], true);
    }
    return status;
}

static bool is_encrypted(const or_entrance_options_t *options, const char *endpoint)
{
    if (strcmp(options->encrypt, "auto") == 0) {
        return !or_endpoint_is_loopback(endpoint);
    }
    return strcmp(options->encrypt, "on") == 0;
}

// Fills `listens`; true if one of them is encrypted.
static bool choose(const or_entrance_options_t *options, or_channel_listen_t *listens)
{
    bool any = false;
    for (size_t i = 0; i < options->listen->count; i++) {
        const char *endpoint = options->listen->items[i];
        bool encrypted = is_encrypted(options, endpoint);
        listens[i] = (or_channel_listen_t){.endpoint = endpoint, .encrypted = encrypted};
        any = any || encrypted;
        if (!encrypted && !or_endpoint_is_loopback(endpoint)) {
            or_log(OR_LOG_WARN,
                   "NOT ENCRYPTED: %s is open to whoever reaches it, and what passes there can be "
                   "read and changed by everybody on the way; leave out --encrypt off",
                   endpoint);
        }
    }
    return any;
}

static or_status_t obtain_key(or_key_pair_t *own)
{
    char path[PATH_BYTES];
    bool created;
    or_status_t status = or_keys_path("coordinator.key", path, sizeof path);
    if (status == OR_OK) {
        status = or_key_file_obtain(path, "this coordinator's key", own, &created);
    }
    if (status == OR_OK && created) {
        or_log(OR_LOG_INFO, "made %s: keep it, or every edge must be told of another", path);
    }
    return status;
}

static or_status_t open_keyring(const char *authorized, or_keyring_t **keyring_p)
{
    char path[PATH_BYTES];
    or_status_t status = OR_OK;
    if (authorized == NULL) {
        status = or_keys_path("authorized", path, sizeof path);
    }
    if (status != OR_OK) {
        return status;
    }
    authorized = authorized != NULL ? authorized : path;
    status = or_keyring_open(authorized, keyring_p);
    if (status == OR_OK) {
        uint32_t keys = or_keyring_count(*keyring_p);
        or_log(keys > 0 ? OR_LOG_INFO : OR_LOG_WARN, "%u key%s may connect, by %s%s", keys,
               keys == 1 ? "" : "s", authorized,
               keys > 0 ? "" : ": let one in with outrider keys authorize KEY");
    }
    return status;
}

static bool admits(void *context, const char *public_key)
{
    const or_entrance_t *entrance = context;
    return entrance->coordinator != NULL &&
           or_coordinator_admits(entrance->coordinator, public_key);
}

// Log what whoever connects must know; all of it is public.
static void tell_edges(const or_channel_listen_t *listens, size_t count, const char *public_key)
{
    for (size_t i = 0; i < count; i++) {
        if (listens[i].encrypted) {
            or_log(OR_LOG_INFO,
                   "%s is encrypted; who connects says first: outrider keys trust "
                   "tcp://HOST:PORT '%s'",
                   listens[i].endpoint, public_key);
        }
    }
}

or_status_t or_entrance_open(const or_entrance_options_t *options, or_entrance_t *entrance)
{
    or_channel_listen_t listens[ENDPOINTS_MAX];
    uint32_t count = (uint32_t)options->listen->count;
    or_status_t status = OR_OK;
    *entrance = (or_entrance_t){0};
    bool encrypted = choose(options, listens);
    if (encrypted) {
        status = obtain_key(&entrance->own);
    }
    if (status == OR_OK && encrypted) {
        status = open_keyring(options->authorized, &entrance->keyring);
    }
    const or_channel_server_t server = {
        .own = &entrance->own, .admit = admits, .context = entrance};
    if (status == OR_OK) {
        status = or_channel_zmq_bind(listens, count, encrypted ? &server : NULL, entrance->endpoint,
                                     sizeof entrance->endpoint, &entrance->channel);
    }
    if (status == OR_OK) {
        tell_edges(listens, count, entrance->own.public_key);
    }
    return status;
}

void or_entrance_close(or_entrance_t *entrance)
{
    or_channel_destroy(&entrance->channel);
    or_keyring_close(&entrance->keyring);
    or_key_pair_wipe(&entrance->own);
}
