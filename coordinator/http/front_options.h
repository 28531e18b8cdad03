// front_options - the options of the coordinator's HTTP service, and starting it by them.
#pragma once

#include "common/base/options/options.h"
#include "coordinator/http/front.h"

typedef struct {
    char *address; // HOST:PORT, or "off"
    char *cert_file, *key_file, *api_key_file, *cors_origin, *chat_template;
    uint64_t body_bytes_max;
} or_front_options_t;

// Their rows in a program's table; `field` is an or_front_options_t in the struct `type`.
// clang-format off
#define OR_FRONT_OPTIONS(type, field)                                                              \
    {"http", NULL, OR_OPTION_STRING, offsetof(type, field.address), "HOST:PORT",                   \
     "where the OpenAI-compatible API, the metrics and the dashboard are; port 0 takes any free "  \
     "one; off: nowhere; auto: 127.0.0.1:8080 if that is free"},                                   \
    {"api-key-file", NULL, OR_OPTION_STRING, offsetof(type, field.api_key_file), "FILE",           \
     "who may use it: a line `KEY [OWNER]` each; off loopback there must be one, or the variable " \
     "OUTRIDER_API_KEY with a single key"},                                                        \
    {"http-cert", NULL, OR_OPTION_STRING, offsetof(type, field.cert_file), "FILE",                 \
     "HTTPS: the certificate (PEM)"},                                                              \
    {"http-key", NULL, OR_OPTION_STRING, offsetof(type, field.key_file), "FILE",                   \
     "HTTPS: its private key (PEM)"},                                                              \
    {"http-cors", NULL, OR_OPTION_STRING, offsetof(type, field.cors_origin), "ORIGIN",             \
     "pages of this origin may use it from a browser; *: of any"},                                 \
    {"http-body-max", NULL, OR_OPTION_SIZE, offsetof(type, field.body_bytes_max), "BYTES",         \
     "a larger request is refused"},                                                               \
    {"chat-template", NULL, OR_OPTION_STRING, offsetof(type, field.chat_template), "NAME",         \
     "how conversations become prompts: a family's name; not given: as the model's file says"}
// clang-format on

// Options that serve no HTTP.
or_front_options_t or_front_options_default(void);
// Check them. OR_ERR_INVALID names the option.
or_status_t or_front_options_check(const or_front_options_t *options);

// Choose the model's chat format. *chat_p is NULL where it has none, for the reason in `trouble`. OR_ERR_INVALID: there is
// no family of that name.
or_status_t or_front_options_chat(const or_front_options_t *options, const or_gguf_t *gguf,
                                  const or_chat_t **chat_p, char *trouble, size_t capacity);

// A running HTTP service, and the API keys it asks for. Both are NULL where there is none.
typedef struct {
    or_api_keys_t *keys;
    or_front_t *front;
} or_front_service_t;

// Start the service that `config` describes; its `server` is set here. Where the address is "off" nothing is started, and
// the result is OR_OK. The log says where it listens. The caller calls or_front_service_stop in any case.
or_status_t or_front_service_start(const or_front_options_t *options,
                                   const or_front_config_t *config, or_front_service_t *service);
void or_front_service_stop(or_front_service_t *service);
