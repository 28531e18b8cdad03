// front - the HTTP face of a coordinator: a thread of its own that is a client like any other, over the Generate
// messages, inside the process (or_channel_zmq_connect_inside).
//
//     HTTP clients ──▶ [ server ─ api ─ requests ] ──inproc──▶ hub           this thread │ the coordinator's
//
// What it does to texts costs the coordinator's thread nothing but messages. It shares with it only what never changes: the
// vocabulary and the chat template.
#pragma once

#include "common/base/options/options.h"
#include "common/text/chat/chat_tools.h"
#include "common/text/vocab/vocab.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/http/server/server.h"
#include "proto/net/channel.h"

typedef struct or_front or_front_t;

// ---- options ----

typedef struct {
    char *address; // HOST:PORT, or "none"
    char *cert_file, *key_file, *api_key_file, *cors_origin, *chat_template;
    uint64_t body_bytes_max;
} or_front_options_t;

// Their rows in a program's table; `field` is an or_front_options_t in the struct `type`.
// clang-format off
#define OR_FRONT_OPTIONS(type, field)                                                              \
    {"http", NULL, OR_OPTION_STRING, offsetof(type, field.address), "HOST:PORT",                   \
     "where the OpenAI-compatible API, the metrics and the dashboard are; port 0 takes any free "  \
     "one; none: nowhere; auto: 127.0.0.1:8080 if that is free"},                                   \
    {"api-key-file", NULL, OR_OPTION_STRING, offsetof(type, field.api_key_file), "FILE",           \
     "who may use it: a line `KEY [OWNER] [sessions=N tokens-per-minute=N nodes=N]` each; off "    \
     "loopback there must be one, or the variable OUTRIDER_API_KEY with a single key"},            \
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

// ---- the service ----

typedef struct {
    const char *model_name;       // the target's, as /v1/models has it
    const or_vocab_t *vocab;      // borrowed, as are the next two
    const or_chat_t *chat;        // NULL: the model has no template that we know ...
    const char *chat_trouble;     // ... for this reason
    const or_chat_tools_t *tools; // the format of tools; NULL: the template has none that we know
    or_ledger_t *ledger;          // what is kept for owners; borrowed; NULL: nothing is counted
    or_channel_t *hub;            // the coordinator's channel, which outlives the front
} or_front_config_t;

// A running HTTP service, and the API keys it asks for. Both are NULL where there is none.
typedef struct {
    or_api_keys_t *keys;
    or_front_t *front;
} or_front_service_t;

// Listen, and start the thread. Where the address is "none" nothing is started, and the result is OR_OK. The log says
// where it listens. The caller calls or_front_service_stop in any case.
or_status_t or_front_service_start(const or_front_options_t *options,
                                   const or_front_config_t *config, or_front_service_t *service);
// End open streams and join the thread, before the hub's channel is destroyed.
void or_front_service_stop(or_front_service_t *service);
const char *or_front_address(const or_front_t *front);
