// api_event_id - where a stream is, as the "id:" of its events, so that a client whose connection was lost goes on from there.
//
//     [ secret 16 | tokens 4 | text bytes 8 | answer's number 8 | created 8 ]  as base64url, 59 characters
//
// Whoever has it has read the text up to there: the secret is the session's own, and the coordinator checks the rest. Pure.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

#define OR_API_EVENT_ID_BYTES 60 // with the zero at its end

typedef struct {
    uint8_t secret[OR_SESSION_TOKEN_BYTES];
    uint32_t tokens;     // that the client has
    uint64_t text_bytes; // of the text, as the coordinator counts them
    uint64_t number;     // the answer goes on under the same name
    int64_t created;
} or_api_event_id_t;

void or_api_event_id_format(const or_api_event_id_t *id, char text[OR_API_EVENT_ID_BYTES]);
// False: it is none.
bool or_api_event_id_parse(const char *text, or_api_event_id_t *id);
