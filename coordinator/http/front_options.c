#include "coordinator/http/front_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"

#define KEY_VARIABLE "OUTRIDER_API_KEY" // not an option: command lines are everybody's to read
#define BODY_BYTES_MIN 1024u
#define BODY_BYTES_MAX (1u << 30)

or_front_options_t or_front_options_default(void)
{
    static char off[] = "off";
    return (or_front_options_t){.address = off,
                                .body_bytes_max = or_http_server_config_default().body_bytes_max};
}

// Does the user want the usual address, if nobody has it?
static bool is_auto(const or_front_options_t *options)
{
    return strcmp(options->address, "auto") == 0;
}

static bool is_off(const or_front_options_t *options)
{
    return strcmp(options->address, "off") == 0;
}

// The single API key of the environment; NULL: there is none.
static const char *key_of_environment(void)
{
    const char *key = getenv(KEY_VARIABLE);
    return key != NULL && key[0] != '\0' ? key : NULL;
}

or_status_t or_front_options_check(const or_front_options_t *options)
{
    if ((options->cert_file == NULL) != (options->key_file == NULL)) {
        return or_fail(OR_ERR_INVALID, "--http-cert and --http-key: HTTPS needs both");
    }
    if (options->api_key_file != NULL && key_of_environment() != NULL) {
        return or_fail(OR_ERR_INVALID, "--api-key-file and " KEY_VARIABLE
                                       ": give the keys in one of them, not in both");
    }
    if (options->body_bytes_max < BODY_BYTES_MIN || options->body_bytes_max > BODY_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "--http-body-max is not between %u and %u bytes",
                       BODY_BYTES_MIN, BODY_BYTES_MAX);
    }
    return OR_OK;
}

or_status_t or_front_options_chat(const or_front_options_t *options, const or_gguf_t *gguf,
                                  const or_chat_t **chat_p, char *trouble, size_t capacity)
{
    if (options->chat_template != NULL) {
        return or_chat_by_name(options->chat_template, chat_p);
    }
    *chat_p = NULL;
    if (or_chat_of_model(gguf, chat_p) != OR_OK) { // texts that are no conversations go on
        *chat_p = NULL;
        snprintf(trouble, capacity, "%s", or_error_text());
    }
    return OR_OK;
}

static or_status_t read_keys(const or_front_options_t *options, or_api_keys_t **keys_p)
{
    if (options->api_key_file != NULL) {
        return or_api_keys_read(options->api_key_file, keys_p);
    }
    const char *key = key_of_environment();
    return key != NULL ? or_api_keys_one(key, keys_p) : OR_OK;
}

or_status_t or_front_service_start(const or_front_options_t *options,
                                   const or_front_config_t *config, or_front_service_t *service)
{
    *service = (or_front_service_t){0};
    if (is_off(options)) {
        return OR_OK;
    }
    or_status_t status = read_keys(options, &service->keys);
    if (status == OR_OK) {
        or_front_config_t full = *config;
        full.server = or_http_server_config_default();
        if (!is_auto(options)) {
            full.server.address = options->address;
        }
        full.server.cert_file = options->cert_file;
        full.server.key_file = options->key_file;
        full.server.cors_origin = options->cors_origin;
        full.server.keys = service->keys;
        full.server.ledger = config->ledger;
        full.server.body_bytes_max = (size_t)options->body_bytes_max;
        status = or_front_start(&full, &service->front);
    }
    if (status == OR_ERR_IO && is_auto(options) && options->cert_file == NULL &&
        options->api_key_file == NULL) { // somebody has it, and nobody asked for it by name
        or_log(OR_LOG_WARN,
               "%s: no HTTP here; --http HOST:PORT names another address, port 0 for any free one",
               or_error_text());
        or_api_keys_destroy(&service->keys);
        return OR_OK;
    }
    if (status == OR_OK) {
        or_log(OR_LOG_INFO, "http on %s://%s%s", options->cert_file != NULL ? "https" : "http",
               or_front_address(service->front), service->keys != NULL ? ", with API keys" : "");
    }
    return status;
}

void or_front_service_stop(or_front_service_t *service)
{
    or_front_stop(&service->front);
    or_api_keys_destroy(&service->keys);
}
