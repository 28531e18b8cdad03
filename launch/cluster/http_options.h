// http_options - the options of a local cluster's HTTP service.
#pragma once

#include "common/base/options/options.h"

typedef struct {
    char *address; // HOST:PORT, "none", or "auto": OR_HTTP_USUAL if that is free; NULL: auto
    char *cert_file, *key_file, *api_key_file, *cors_origin, *chat_template;
} or_http_options_t;

#define OR_HTTP_USUAL "127.0.0.1:8080"

// Their rows in a program's table; `field` is an or_http_options_t in the struct `type`.
// clang-format off
#define OR_HTTP_OPTIONS(type, field)                                                               \
    {"http", NULL, OR_OPTION_STRING, offsetof(type, field.address), "HOST:PORT",                   \
     "where the OpenAI-compatible API, the metrics and the dashboard are; port 0 takes any free "  \
     "one; none: nowhere; not given: " OR_HTTP_USUAL " if that is free"},                           \
    {"api-key-file", NULL, OR_OPTION_STRING, offsetof(type, field.api_key_file), "FILE",           \
     "who may use it: a line `KEY [OWNER] [sessions=N tokens-per-minute=N nodes=N]` each; off "    \
     "loopback there must be one, or the variable OUTRIDER_API_KEY with a single key"},            \
    {"http-cert", NULL, OR_OPTION_STRING, offsetof(type, field.cert_file), "FILE",                 \
     "HTTPS: the certificate (PEM)"},                                                              \
    {"http-key", NULL, OR_OPTION_STRING, offsetof(type, field.key_file), "FILE",                   \
     "HTTPS: its private key (PEM)"},                                                              \
    {"http-cors", NULL, OR_OPTION_STRING, offsetof(type, field.cors_origin), "ORIGIN",             \
     "pages of this origin may use it from a browser; *: of any"},                                 \
    {"chat-template", NULL, OR_OPTION_STRING, offsetof(type, field.chat_template), "NAME",         \
     "how conversations become prompts; not given: as the model's file says"}
// clang-format on
