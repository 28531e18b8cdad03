// api_event_id - a place in a stream, as the "id:" of its events: a client whose connection was lost goes on from there.
//
//     [ secret 16 | tokens 4 | text bytes 8 | characters 8 | answer's number 8 | created 8 | request 4 | said 1 ]
//     as base64url, 76 characters
//
// A client that has such an id has read the text up to there. The secret is the session's own, and the coordinator
// checks the rest. Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire/message.h"

#define OR_API_EVENT_ID_BYTES 77 // with the zero at its end

// The part of a stream's end that its reader has.
typedef enum { OR_API_SAID_NOTHING, OR_API_SAID_FINISH, OR_API_SAID_USAGE } or_api_said_t;

typedef struct {
    uint8_t secret[OR_SESSION_TOKEN_BYTES];
    uint32_t tokens;     // that the client has
    uint64_t text_bytes; // of the text, as the coordinator counts them
    uint64_t characters; // the same, as text_offset does
    uint64_t number;     // the answer goes on under the same name
    int64_t created;
    uint32_t request; // or_api_event_request: another one does not go on here
    uint8_t said;     // or_api_said_t; more counts as the last of them
} or_api_event_id_t;

// A few bits of a hash of the body and its path. They tell requests apart that a client mistakes for each other.
uint32_t or_api_event_request(bool chat, const uint8_t *body, size_t bytes);

void or_api_event_id_format(const or_api_event_id_t *id, char text[OR_API_EVENT_ID_BYTES]);
// False: it is none, or of a place that no text has.
bool or_api_event_id_parse(const char *text, or_api_event_id_t *id);
