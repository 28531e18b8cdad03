// front - the HTTP face of a coordinator: a thread of its own that is a client like any other, over the Generate
// messages, inside the process (or_channel_zmq_connect_inside).
//
//     HTTP clients ──▶ [ server ─ api ─ requests ] ──inproc──▶ hub           this thread │ the coordinator's
//
// What it does to texts costs the coordinator's thread nothing but messages. It shares with it only what never changes: the
// vocabulary and the chat template.
#pragma once

#include "common/text/chat/chat.h"
#include "common/text/vocab/vocab.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/http/server/server.h"
#include "proto/net/channel.h"

typedef struct or_front or_front_t;

typedef struct {
    or_http_server_config_t server; // its handlers are set here
    const char *model_name;         // the target's, as /v1/models has it
    uint32_t context_max;           // 0: not known
    const or_vocab_t *vocab;        // borrowed, as are the next two
    const or_chat_t *chat;          // NULL: the model has no template that we know ...
    const char *chat_trouble;       // ... for this reason
    or_ledger_t *ledger;            // what is kept for owners; borrowed; NULL: nothing is counted
    or_channel_t *hub;              // the coordinator's channel, which outlives the front
} or_front_config_t;

// Listens, and starts the thread. Everything as or_http_server_create says.
or_status_t or_front_start(const or_front_config_t *config, or_front_t **front_p);
// Ends open streams and joins the thread. Before the hub's channel is destroyed.
void or_front_stop(or_front_t **front_p);
const char *or_front_address(const or_front_t *front);
